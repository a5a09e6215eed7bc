/* SPDX-License-Identifier: MIT */
/*
 * What the doctor finds of a file or directory: its file system, direct I/O, and what
 * a sync costs
 *
 * Tested by test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_DOCTOR_FILESYSTEM_H
#define UAIO_TOOL_DOCTOR_FILESYSTEM_H

#include "tool/doctor/findings.h"

/*
 * path is the findings' section. A file of one block is made there, which has no name
 * or loses it at once, and is gone afterwards.
 */
void uaio_filesystem_judge(const char *path, struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_FILESYSTEM_H */

/* SPDX-License-Identifier: MIT */
/*
 * uaio doctor: what its files find of the environment, of a file system and of a command
 *
 * Tested by test/run/doctor.py and test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_DOCTOR_DOCTOR_H
#define UAIO_TOOL_DOCTOR_DOCTOR_H

#include "tool/doctor/findings.h"
#include "tool/doctor/machine.h"

/* settings.c */

/* Add a finding for each, in the section that there is. */
void uaio_settings_judge(struct uaio_findings *findings);

/* filesystem.c */

/*
 * path is the findings' section. A file of one block is made there, which has no name
 * or loses it at once, and is gone afterwards.
 */
void uaio_filesystem_judge(const char *path, struct uaio_findings *findings);

/* program.c */

/* argument: a command's name or path; it is the findings' section. */
void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_DOCTOR_H */

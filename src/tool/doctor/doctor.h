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

/* Add a finding for each option that the environment sets, in the current section. */
void uaio_settings_judge(struct uaio_findings *findings);

/* filesystem.c */

/*
 * Add findings about the file system of path, which is their section. To try direct I/O,
 * a file of one block is made there. It has no name, or is unlinked at once.
 */
void uaio_filesystem_judge(const char *path, struct uaio_findings *findings);

/* program.c */

/* Add findings about a command. argument: its name or path, and the findings' section. */
void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_DOCTOR_H */

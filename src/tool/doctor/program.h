/* SPDX-License-Identifier: MIT */
/*
 * What the doctor finds of a command: whether the library can be loaded into it, which
 * asynchronous interfaces it uses, and how each would be served
 *
 * Tested by test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_DOCTOR_PROGRAM_H
#define UAIO_TOOL_DOCTOR_PROGRAM_H

#include "tool/doctor/findings.h"
#include "tool/doctor/machine.h"

/* argument: a command's name or path; it is the findings' section. */
void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_PROGRAM_H */

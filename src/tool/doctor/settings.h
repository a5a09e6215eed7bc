/* SPDX-License-Identifier: MIT */
/*
 * What the doctor finds of options that the environment sets
 *
 * Tested by test/run/doctor.py.
 */
#ifndef UAIO_TOOL_DOCTOR_SETTINGS_H
#define UAIO_TOOL_DOCTOR_SETTINGS_H

#include "tool/doctor/findings.h"

/* Add a finding for each, in the section that there is. */
void uaio_settings_judge(struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_SETTINGS_H */

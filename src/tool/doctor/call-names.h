/* SPDX-License-Identifier: MIT */
/*
 * The names of the system calls that the library can do without (base/calls.h)
 *
 * Tested by test/run/doctor.py.
 */
#ifndef UAIO_TOOL_DOCTOR_CALL_NAMES_H
#define UAIO_TOOL_DOCTOR_CALL_NAMES_H

#include "base/calls.h"

const char *uaio_call_name(enum uaio_call call);

#endif /* UAIO_TOOL_DOCTOR_CALL_NAMES_H */

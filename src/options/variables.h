/* SPDX-License-Identifier: MIT */
/*
 * Environment variables whose names begin with UAIO_ and are unknown: most are mistyped
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_OPTIONS_VARIABLES_H
#define UAIO_OPTIONS_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A variable that lists names of unknown variables, separated by spaces: no warning is
 * needed for these. `uaio run` warns of unknown variables once, and then sets this
 * variable, so that the library does not warn in each process. A user may set it, too.
 */
#define UAIO_IGNORED_VARIABLE "UAIO_IGNORED"

/*
 * The id of the process that `uaio run` became. If the library did nothing, only this
 * process reports it.
 */
#define UAIO_RUN_PID_VARIABLE "UAIO_RUN_PID"

/*
 * The directory for files of the processes that `uaio check` has started. Only if this
 * variable is set does the library append to such files.
 */
#define UAIO_CHECK_VARIABLE "UAIO_CHECK"

/* If this variable is set, the library also reports hints (check/hint.h). */
#define UAIO_CHECK_HINTS_VARIABLE "UAIO_CHECK_HINTS"

enum {
	UAIO_CHECK_DIRECTORY_MAX = 256,
	UAIO_VARIABLE_COMPLAINT_MAX = 160,
};

/*
 * @entry: NAME=VALUE from the environment. @ignored: the value of UAIO_IGNORED, or
 * NULL.
 * Return: the length of NAME if it begins with UAIO_, is unknown, and is not in
 * @ignored; otherwise 0.
 */
size_t uaio_variable_unknown(const char *entry, const char *ignored);

/*
 * Write to @buf, of UAIO_VARIABLE_COMPLAINT_MAX bytes, a line without newline that
 * warns of the variable in @entry. name: the result of uaio_variable_unknown().
 */
void uaio_variable_complaint(const char *entry, size_t name, char *buf);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Variables of the environment that look like ours, and that nothing reads: most
 * are mistyped, and their user waits for an effect that never comes
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_OPTIONS_VARIABLES_H
#define UAIO_OPTIONS_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The names of such variables, separated by spaces, of which the user has been
 * told or wants to hear nothing: `uaio run` tells of them once, and the library
 * in none of the processes that come of it.
 */
#define UAIO_IGNORED_VARIABLE "UAIO_IGNORED"

/* The process that `uaio run` has become: the only one to report that it did nothing. */
#define UAIO_RUN_PID_VARIABLE "UAIO_RUN_PID"

/*
 * The directory in which `uaio check` looks for files of the processes that it has
 * started. The library appends to them only where this variable is set.
 */
#define UAIO_CHECK_VARIABLE "UAIO_CHECK"

/* Where that is set as well, the library also reports what is no error (check/hint.h). */
#define UAIO_CHECK_HINTS_VARIABLE "UAIO_CHECK_HINTS"

enum {
	UAIO_CHECK_DIRECTORY_MAX = 256,
	UAIO_VARIABLE_COMPLAINT_MAX = 160,
};

/*
 * @entry is of the environment, NAME=VALUE. @ignored is the value of
 * UAIO_IGNORED, or NULL.
 * Return: the length of its name if that begins like ours, nothing reads it,
 * and it is not in @ignored; else 0.
 */
size_t uaio_variable_unknown(const char *entry, const char *ignored);

/*
 * Write into @buf, which has UAIO_VARIABLE_COMPLAINT_MAX bytes, a line without
 * the newline that tells the user of the variable; name is what
 * uaio_variable_unknown() has returned.
 */
void uaio_variable_complaint(const char *entry, size_t name, char *buf);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Environment variables that begin with UAIO_ and have no effect: most are mistyped
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_OPTIONS_VARIABLES_H
#define UAIO_OPTIONS_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The names of such variables that need no warning, separated by spaces. `uaio run` warns
 * once and then sets it, so that the library warns in none of the processes that follow.
 * A user may set it, too.
 */
#define UAIO_IGNORED_VARIABLE "UAIO_IGNORED"

/* The process that `uaio run` became: only it reports that the library did nothing. */
#define UAIO_RUN_PID_VARIABLE "UAIO_RUN_PID"

/*
 * Variable with the directory for files of the processes that `uaio check` has started.
 * The library appends to such files only if the variable is set.
 */
#define UAIO_CHECK_VARIABLE "UAIO_CHECK"

/* With this variable the library also reports hints (check/hint.h). */
#define UAIO_CHECK_HINTS_VARIABLE "UAIO_CHECK_HINTS"

enum {
	UAIO_CHECK_DIRECTORY_MAX = 256,
	UAIO_VARIABLE_COMPLAINT_MAX = 160,
};

/*
 * @entry: NAME=VALUE from the environment. @ignored: the value of UAIO_IGNORED, or NULL.
 * Return: the length of the name if it begins with UAIO_, is unknown, and is not in
 * @ignored; else 0.
 */
size_t uaio_variable_unknown(const char *entry, const char *ignored);

/*
 * Write to @buf, of UAIO_VARIABLE_COMPLAINT_MAX bytes, a line without newline that warns
 * of the variable. name: the result of uaio_variable_unknown().
 */
void uaio_variable_complaint(const char *entry, size_t name, char *buf);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Finds environment variables with unknown names that begin with UAIO_: most are
 * mistyped
 *
 * Tested by test/run/typed.py.
 */
#ifndef UAIO_OPTIONS_VARIABLES_H
#define UAIO_OPTIONS_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Environment variable with names of unknown variables, separated by spaces: the
 * library does not warn of these. `uaio run` warns of unknown variables once, and then
 * sets this variable, so that the library does not warn in each process. A user may set
 * it, too.
 */
#define UAIO_IGNORED_VARIABLE "UAIO_IGNORED"

/*
 * The variable's value is the id of the process that `uaio run` started. If this
 * process ends without having used the library, the process reports this fact; other
 * processes do not.
 */
#define UAIO_RUN_PID_VARIABLE "UAIO_RUN_PID"

/*
 * The directory to which the processes that `uaio check` has started write their
 * reports. The library writes reports only if this variable is set.
 */
#define UAIO_CHECK_VARIABLE "UAIO_CHECK"

/*
 * A file in the directory that UAIO_CHECK names. A process that cannot write a report
 * removes this file, as that needs no room.
 */
#define UAIO_CHECK_WHOLE "whole"

/*
 * If this environment variable is set, the library also reports hints (check/hint.h).
 */
#define UAIO_CHECK_HINTS_VARIABLE "UAIO_CHECK_HINTS"

enum {
	UAIO_CHECK_DIRECTORY_MAX = 256,
	UAIO_VARIABLE_COMPLAINT_MAX = 160,
};

/*
 * Check the name of an environment variable. @entry: NAME=VALUE. @ignored: the value of
 * UAIO_IGNORED, or NULL.
 * Return: the length of NAME, if it begins with UAIO_, is unknown, and is not in
 * @ignored; otherwise 0.
 */
size_t uaio_variable_unknown(const char *entry, const char *ignored);

/*
 * Write a line, without newline, that warns of the variable in @entry. name: the length
 * of NAME. @buf has UAIO_VARIABLE_COMPLAINT_MAX bytes.
 */
void uaio_variable_complaint(const char *entry, size_t name, char *buf);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Errors by their names
 *
 * The C library has none of this that every version and every C library has.
 *
 * Tested by test/run/faults.py.
 */
#ifndef UAIO_OPTIONS_ERRORS_H
#define UAIO_OPTIONS_ERRORS_H

#include <stddef.h>

/* Return: the error number of that name, in either case, as EIO or eio; or 0. */
int uaio_error_of(const char *name, size_t len);

/* Return: "EIO" for 5; NULL if no error has the number. */
const char *uaio_error_name(int error);

#endif /* UAIO_OPTIONS_ERRORS_H */

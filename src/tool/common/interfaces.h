/* SPDX-License-Identifier: MIT */
/*
 * Which asynchronous interfaces a program and its libraries use, as far as their files
 * show
 *
 * Tested by test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_COMMON_INTERFACES_H
#define UAIO_TOOL_COMMON_INTERFACES_H

#include <stdbool.h>
#include <stddef.h>

enum uaio_use {
	UAIO_USE_LIBAIO,    /* functions of libaio */
	UAIO_USE_LIBURING,  /* functions of liburing */
	UAIO_USE_SITES,     /* instructions that call io_uring */
	UAIO_USE_AIO_SITES, /* instructions that call kernel AIO */
	UAIO_USE_POSIX,     /* aio_read and its like */
	/* What shows no asynchronous interface: */
	UAIO_USE_SYSCALL,   /* syscall(2), for what is not known */
	UAIO_USE_DLOPEN,    /* libraries that are loaded later */
	UAIO_USE_SANITIZER, /* its runtime */
	UAIO_NR_USES,
};

enum { UAIO_USERS_MAX = 256 };

struct uaio_uses {
	/* Names of the files that use it, in a list; empty: none. */
	char users[UAIO_NR_USES][UAIO_USERS_MAX];
	unsigned nr_sites, nr_sites_left; /* changed when loaded; not changed */
	unsigned nr_aio_sites;            /* never changed */
	bool may_call_any; /* the program, by instructions of its own */
	char missing[UAIO_USERS_MAX]; /* libraries that are not found */
};

/*
 * Look at the file of a program; and at the libraries it needs, if it can be loaded
 * here.
 * Return: 0, or -errno if the file cannot be read or is of another kind.
 */
int uaio_uses_read(const char *path, bool can_be_loaded,
		   struct uaio_uses *ret_uses);

/* Return: whether an asynchronous interface is seen, rather than that any may be used. */
bool uaio_uses_show_any(const struct uaio_uses *uses);

/*
 * Return: whether the files show calls that a library in front of the program does not
 * serve, and the trap does; or nothing but that the program may make any by itself.
 */
bool uaio_uses_want_trap(const struct uaio_uses *uses);

#endif /* UAIO_TOOL_COMMON_INTERFACES_H */

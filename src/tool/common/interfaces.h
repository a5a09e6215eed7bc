/* SPDX-License-Identifier: MIT */
/*
 * Which asynchronous interfaces a program and its libraries use, as far as their ELF
 * files show
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
	/* What by itself shows no asynchronous interface: */
	UAIO_USE_SYSCALL,   /* syscall(2), with numbers that are not known */
	UAIO_USE_DLOPEN,    /* libraries that are loaded later */
	UAIO_USE_SANITIZER, /* the runtime of a sanitizer */
	UAIO_NR_USES,
};

enum { UAIO_USERS_MAX = 256 };

struct uaio_uses {
	/* Names of the files with each use, in one text; empty: none. */
	char users[UAIO_NR_USES][UAIO_USERS_MAX];
	unsigned nr_sites, nr_sites_left; /* changed when loaded; not changed */
	unsigned nr_aio_sites;            /* never changed */
	bool may_call_any; /* the program has system calls of unknown number */
	char missing
		[UAIO_USERS_MAX]; /* names of libraries that are not found */
};

/*
 * Read the file of a program. can_be_loaded: also read the libraries that it needs.
 *
 * Return: 0, or -errno if the file cannot be read or is no ELF file of this processor.
 */
int uaio_uses_read(const char *path, bool can_be_loaded,
		   struct uaio_uses *ret_uses);

/* Return: whether the files show that the program uses an asynchronous interface. */
bool uaio_uses_show_any(const struct uaio_uses *uses);

/*
 * Return: whether the program needs the trap: the files show calls that only the trap
 * serves; or they show no interface, and system calls whose number is not known.
 */
bool uaio_uses_want_trap(const struct uaio_uses *uses);

#endif /* UAIO_TOOL_COMMON_INTERFACES_H */

/* SPDX-License-Identifier: MIT */
/*
 * Places in the code of a loaded object at which it makes a call of io_uring
 *
 * A place is `mov $N,%eax` with the number of a call, instructions that may be
 * moved, and `syscall`. That these are instructions, and not parts of others or
 * data, is known by going through the function from its beginning, which the
 * object's table for unwinding has. In a function without an entry there, it is
 * known by following the code of the object (reach.h).
 *
 * Or the number is in a register, as where a function has several calls. Then a place
 * is the instructions before `syscall`, or with it, that are long enough for a jump; if
 * the number is known on all ways to it, and no branch leads into it (flow.h).
 * Otherwise it is left, and so is each system call of code without an entry for which a
 * register may have such a number.
 *
 * On aarch64 a place is the `svc` alone, as a branch is no longer than that. Its number
 * need not be known: the trampoline looks at it. But a place must be an instruction.
 *
 * Tested by test-patch.c and test-patch-arm.c.
 */
#ifndef UAIO_PATCH_FIND_H
#define UAIO_PATCH_FIND_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
#if defined(__aarch64__)
	UAIO_SITE_SYSCALL_BYTES = 4,
	UAIO_SITE_MOV_BYTES = 4,
	UAIO_SITE_BYTES_MAX = 4,
#else
	UAIO_SITE_SYSCALL_BYTES = 2,
	UAIO_SITE_MOV_BYTES = 5,
	UAIO_SITE_BYTES_MAX = 16, /* that are overwritten */
#endif
	UAIO_SITE_MOVED_MAX = 64, /* bytes between mov and syscall */
};

struct uaio_site {
	uint8_t *mov; /* where it begins; on aarch64 the syscall */
	uint8_t *syscall;
	size_t bytes;  /* whole instructions, which a jump may overwrite */
	uint32_t nr;   /* of the call */
	bool has_more; /* than one instruction is in bytes */
};

/*
 * *ret_nr_left: calls that were found, or may be such, of which not all is known or may be
 * moved. On aarch64 these may be data. A call is not found if its number is in memory
 * meanwhile, or is an argument of the function that makes it (scan.h).
 * Return: how many sites were stored, at most max.
 */
size_t uaio_find_sites(const struct dl_phdr_info *object,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left);

/* Numbers of calls. */
struct uaio_numbers {
	uint32_t first, last;
};

/* The same for other calls than io_uring's. */
size_t uaio_find_calls(const struct dl_phdr_info *object,
		       const struct uaio_numbers *numbers,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left);

/* functions.c */

/* Return: whether these bytes are in a segment of the object with those flags. */
bool uaio_is_mapped(const struct dl_phdr_info *object, uintptr_t addr,
		    size_t bytes, uint32_t flags);

/*
 * Find the function that addr is in.
 * Return: false if that is not known.
 */
bool uaio_find_function(const struct dl_phdr_info *object, uintptr_t addr,
			uintptr_t *ret_start, uintptr_t *ret_end);

/* Find the last function of the table that starts at addr or before it. */
bool uaio_find_last_function(const struct dl_phdr_info *object, uintptr_t addr,
			     uintptr_t *ret_start, uintptr_t *ret_end);

#endif /* UAIO_PATCH_FIND_H */

/* SPDX-License-Identifier: MIT */
/*
 * Finds call sites in a loaded object: instructions that make io_uring system calls
 *
 * In the simple case a site is `mov $N,%eax`, where N is the number of the system call,
 * then instructions that may be moved, then `syscall`. These bytes must be
 * instructions, not data or parts of other instructions. To make sure, the search
 * decodes the function from its beginning, which the object's unwind table
 * (.eh_frame_hdr) names. If the table has no entry for the function, the search follows
 * the code of the whole object (reach.h).
 *
 * In a function with several calls, the mov may set another register, which is later
 * copied to eax. Then a site consists of whole instructions before the `syscall`; if
 * the jump needs more bytes, the `syscall` is part of the site. The number must be
 * known on all paths to the call, and no branch may lead into the site (flow.h).
 * Otherwise the site is not patched. In code without an unwind entry, such sites are
 * never patched.
 *
 * On aarch64 a site is only the `svc` instruction, which is as long as a branch. The
 * trampoline reads the number of the call at run time, so the search need not find it.
 * But the site must certainly be an instruction, not data.
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
	UAIO_SITE_BYTES_MAX = 16, /* overwritten bytes */
#endif
	/* at most this many bytes may be between the mov and the `syscall` */
	UAIO_SITE_MOVED_MAX = 64,
};

struct uaio_site {
	/* where the site begins; on aarch64 the svc */
	uint8_t *mov;
	uint8_t *syscall;
	/* how many bytes the jump may overwrite: one or more whole instructions */
	size_t bytes;
	uint32_t nr; /* number of the system call */
	/* whether the jump overwrites more than one instruction */
	bool has_more;
};

/*
 * Store the call sites of io_uring that can be patched. *ret_nr_left: how many further
 * calls cannot be patched; some of these may be data. The search misses calls whose
 * number comes from memory, or is an argument of the function (scan.h finds such
 * calls).
 * Return: how many sites were stored, at most max.
 */
size_t uaio_find_sites(const struct dl_phdr_info *object,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left);

/* A range of system call numbers. */
struct uaio_numbers {
	uint32_t first, last;
};

/* Like uaio_find_sites(), but for system calls whose number is in `numbers`. */
size_t uaio_find_calls(const struct dl_phdr_info *object,
		       const struct uaio_numbers *numbers,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left);

/* functions.c: finds functions in the unwind table of an object */

/*
 * Return: whether the bytes are in a segment of the object that has all of these flags
 * (PF_*).
 */
bool uaio_is_mapped(const struct dl_phdr_info *object, uintptr_t addr,
		    size_t bytes, uint32_t flags);

/*
 * Find the function that contains addr, in the object's unwind table.
 * Return: false if the table has no such function.
 */
bool uaio_find_function(const struct dl_phdr_info *object, uintptr_t addr,
			uintptr_t *ret_start, uintptr_t *ret_end);

/*
 * Find the function in the object's unwind table that is the last one to start at or
 * before addr.
 * Return: false if there is none.
 */
bool uaio_find_last_function(const struct dl_phdr_info *object, uintptr_t addr,
			     uintptr_t *ret_start, uintptr_t *ret_end);

#endif /* UAIO_PATCH_FIND_H */

/* SPDX-License-Identifier: MIT */
/*
 * Finds the call sites in a loaded object: the instructions that make io_uring system calls
 *
 * In the simple case a site is `mov $N,%eax`, where N is the number of the system call, then
 * instructions that may be moved, then `syscall`. These bytes must be instructions, not data
 * or parts of other instructions. To make sure of this, the search decodes the function from
 * its beginning, which it finds in the object's unwind table (.eh_frame_hdr). If the table has
 * no entry for the function, the search follows the code of the whole object (reach.h).
 *
 * In a function with several calls, the number may be in another register. Then a site
 * consists of instructions before `syscall`, or including it, that are long enough to be
 * replaced by a jump. The number must be known on all paths to the call, and no branch may
 * lead into the site (flow.h). Otherwise the site is not patched. In code without an unwind
 * entry, no call is patched whose number may come from another register.
 *
 * On aarch64 a site is only the `svc` instruction, as a branch is just as long. The trampoline
 * reads the number of the call at run time, so the search need not find it. But the site must
 * certainly be an instruction, not data.
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
	UAIO_SITE_MOVED_MAX = 64, /* bytes between mov and syscall */
};

struct uaio_site {
	uint8_t *mov; /* where the site begins; on aarch64 the svc */
	uint8_t *syscall;
	/* size of the whole instructions that a jump may overwrite */
	size_t bytes;
	uint32_t nr;   /* number of the system call */
	bool has_more; /* the jump overwrites more than one instruction */
};

/*
 * Store the call sites of io_uring that can be patched. *ret_nr_left: the number of further
 * calls, certain or possible, that cannot be patched; on aarch64 some may be data. The search
 * misses calls whose number comes from memory, or is an argument of the function (scan.h finds
 * such calls).
 * Return: how many sites were stored, at most max.
 */
size_t uaio_find_sites(const struct dl_phdr_info *object,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left);

/* A range of system call numbers. */
struct uaio_numbers {
	uint32_t first, last;
};

/* As uaio_find_sites(), for the system calls in numbers. */
size_t uaio_find_calls(const struct dl_phdr_info *object,
		       const struct uaio_numbers *numbers,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left);

/* functions.c */

/* Return: whether the bytes are in a segment of the object that has these flags (PF_*). */
bool uaio_is_mapped(const struct dl_phdr_info *object, uintptr_t addr,
		    size_t bytes, uint32_t flags);

/*
 * Find the function that contains addr, in the object's unwind table.
 * Return: false if the table has no such function.
 */
bool uaio_find_function(const struct dl_phdr_info *object, uintptr_t addr,
			uintptr_t *ret_start, uintptr_t *ret_end);

/* Find the last function in the unwind table that starts at or before addr. */
bool uaio_find_last_function(const struct dl_phdr_info *object, uintptr_t addr,
			     uintptr_t *ret_start, uintptr_t *ret_end);

#endif /* UAIO_PATCH_FIND_H */

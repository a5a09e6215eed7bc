/* SPDX-License-Identifier: MIT */
/*
 * Trampolines (the code to which a patched call site jumps): their memory, their code, and the
 * jumps to them
 *
 * regions.c manages the memory. code-x86.c writes code and jumps for x86-64, code-arm.c for
 * aarch64.
 *
 * Tested by test-patch.c and test-patch-arm.c.
 */
#ifndef UAIO_PATCH_CODE_H
#define UAIO_PATCH_CODE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "patch/find.h"

/* regions.c: the memory. Context: under the loader's lock. */

enum { UAIO_SLOT_BYTES = 128, UAIO_SLOT_NUMBER = UAIO_SLOT_BYTES - 4 };

struct uaio_region {
	void (*entry)(void); /* the function that the trampolines call */
	const struct uaio_region *next;
	size_t nr_slots;
};

/* Write the header of a region that uaio_region_add() may add. */
void uaio_region_init(struct uaio_region *region, size_t bytes,
		      void (*entry)(void));
void uaio_region_add(const struct uaio_region *region);

/* Return: whether target is a trampoline; *ret_nr is the number of its system call. */
bool uaio_region_number_of(uintptr_t target, uint32_t *ret_nr);

/*
 * uaio_region_is_in(): whether addr is in the object; uaio_region_is_in_ours(): whether the
 * library's own code is.
 */
bool uaio_region_is_in(const struct dl_phdr_info *object, uintptr_t addr);
bool uaio_region_is_in_ours(const struct dl_phdr_info *object);

/* code-x86.c, code-arm.c */

enum {
	UAIO_CODE_HOOK =
		/*
		 * in place of a system call's number: the trampoline of the loader's function
		 */
	-1,
#if defined(__aarch64__)
	/* the distance that a jump can span, less a margin */
	UAIO_CODE_REACH = 0x07f00000,
	/* distance between the addresses tried for a new region */
	UAIO_CODE_STEP = 1 << 21,
#else
	UAIO_CODE_REACH = 0x7ff00000,
	UAIO_CODE_STEP = 1 << 24,
#endif
};

/* The function that trampolines call (entry.S). */
void uaio_patch_entry(void) __attribute__((visibility("hidden")));

/* Write the trampoline of a call site into a slot of the region. */
void uaio_code_put_site(uint8_t *slot, const uint8_t *region,
			const struct uaio_site *site);

/* Write the trampoline to which the loader's empty function will jump. */
void uaio_code_put_hook(uint8_t *slot, const uint8_t *region);

/*
 * Return: where to write a jump over the empty function at code; NULL if the function is not
 * empty, or the jump cannot be written by one store.
 */
uint8_t *uaio_code_empty_function(uint8_t *code, size_t *ret_bytes);

/*
 * Write a jump to `to` over the instructions at `at`. is_alone: no other thread can execute
 * these instructions meanwhile.
 * Return: false, with nothing written, if another thread could execute a jump that is half
 * written.
 */
bool uaio_code_write_jump(uint8_t *at, size_t bytes, const uint8_t *to,
			  bool is_alone);

/* Make the processor's instruction cache see newly written code. */
void uaio_code_flush(uint8_t *code, size_t bytes);

#endif /* UAIO_PATCH_CODE_H */

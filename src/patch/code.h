/* SPDX-License-Identifier: MIT */
/*
 * Trampolines: the memory that has them, their code, and jumps to them
 *
 * Code and jumps depend on the processor: code-x86.c is for x86-64, code-arm.c for
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
	void (*entry)(void); /* what the trampolines call */
	const struct uaio_region *next;
	size_t nr_slots;
};

/* Write the header of a region that uaio_region_add() may add. */
void uaio_region_init(struct uaio_region *region, size_t bytes,
		      void (*entry)(void));
void uaio_region_add(const struct uaio_region *region);

/* Return: whether target is a trampoline of a region. */
bool uaio_region_number_of(uintptr_t target, uint32_t *ret_nr);

/* Return: whether addr is in the object; and whether we are. */
bool uaio_region_is_in(const struct dl_phdr_info *object, uintptr_t addr);
bool uaio_region_is_in_ours(const struct dl_phdr_info *object);

/* code-x86.c, code-arm.c */

enum {
	UAIO_CODE_HOOK =
		-1, /* in place of a number: the loader has mapped something */
#if defined(__aarch64__)
	UAIO_CODE_REACH = 0x07f00000, /* of a jump; a little less than it has */
	UAIO_CODE_STEP = 1 << 21,     /* between places for a region */
#else
	UAIO_CODE_REACH = 0x7ff00000,
	UAIO_CODE_STEP = 1 << 24,
#endif
};

/* What trampolines call (entry.S). */
void uaio_patch_entry(void) __attribute__((visibility("hidden")));

/* Write the trampoline of a place into a slot of the region. */
void uaio_code_put_site(uint8_t *slot, const uint8_t *region,
			const struct uaio_site *site);

/* Write the trampoline that takes the place of the loader's empty function. */
void uaio_code_put_hook(uint8_t *slot, const uint8_t *region);

/*
 * Find out whether the function at code does nothing, and whether a jump can take its
 * place by one store.
 * Return: where the jump is to be written; NULL if it cannot be.
 */
uint8_t *uaio_code_empty_function(uint8_t *code, size_t *ret_bytes);

/*
 * Write a jump to `to` over the instructions at `at`. is_alone: no other thread may
 * execute them.
 * Return: false if nothing was written, as another thread could see a part.
 */
bool uaio_code_write_jump(uint8_t *at, size_t bytes, const uint8_t *to,
			  bool is_alone);

/* The processor may have read what was at code before. */
void uaio_code_flush(uint8_t *code, size_t bytes);

#endif /* UAIO_PATCH_CODE_H */

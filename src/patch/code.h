/* SPDX-License-Identifier: MIT */
/*
 * Trampolines, the code to which patched call sites jump: their memory, their code, and
 * the jumps to them
 *
 * regions.c manages the memory of trampolines. code-x86.c and code-arm.c write
 * trampolines and jumps, for x86-64 and aarch64.
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

/* regions.c: the memory of trampolines. Context: the loader's lock is held. */

enum { UAIO_SLOT_BYTES = 128, UAIO_SLOT_NUMBER = UAIO_SLOT_BYTES - 4 };

struct uaio_region {
	/*
	 * pointer to the function that the trampolines call; they expect this pointer
	 * at offset 0 of the region
	 */
	void (*entry)(void);
	const struct uaio_region *next;
	size_t nr_slots;
};

/*
 * Write the header of a new region. uaio_region_add() adds the region to the list.
 */
void uaio_region_init(struct uaio_region *region, size_t bytes,
		      void (*entry)(void));
void uaio_region_add(const struct uaio_region *region);

/*
 * Return: whether a trampoline begins at target. *ret_nr: the number of the system call
 * that the trampoline replaces.
 */
bool uaio_region_number_of(uintptr_t target, uint32_t *ret_nr);

/*
 * uaio_region_is_in() returns whether addr is in a segment of the loaded object.
 * uaio_region_is_in_ours() returns whether the object is this library.
 */
bool uaio_region_is_in(const struct dl_phdr_info *object, uintptr_t addr);
bool uaio_region_is_in_ours(const struct dl_phdr_info *object);

/* code-x86.c, code-arm.c: write trampolines and jumps */

enum {
	/*
	 * The trampoline of _dl_debug_state() (patch.h, I1) passes this number to
	 * uaio_patch_entry, where other trampolines pass the number of a system call.
	 */
	UAIO_CODE_HOOK = -1,
#if defined(__aarch64__)
	/* the distance that a jump can span, minus some margin */
	UAIO_CODE_REACH = 0x07f00000,
	/* the distance between two addresses that are tried for a new region */
	UAIO_CODE_STEP = 1 << 21,
#else
	UAIO_CODE_REACH = 0x7ff00000,
	UAIO_CODE_STEP = 1 << 24,
#endif
};

/* The function in entry.S that all trampolines call. This function calls the library. */
void uaio_patch_entry(void) __attribute__((visibility("hidden")));

/* Write the trampoline of a call site to a slot of the memory `region`. */
void uaio_code_put_site(uint8_t *slot, const uint8_t *region,
			const struct uaio_site *site);

/*
 * Write the trampoline to which the loader's function for debuggers (patch.h, I1) will
 * jump.
 */
void uaio_code_put_hook(uint8_t *slot, const uint8_t *region);

/*
 * Look for a place for a jump in the function at `code`, which should be empty (it only
 * returns).
 * Return: where in the function to write a jump, and in *ret_bytes the length of the
 * jump; NULL if the function is not empty, or if one store cannot write the jump.
 */
uint8_t *uaio_code_empty_function(uint8_t *code, size_t *ret_bytes);

/*
 * Write a jump to `to` over the instructions at `at`. is_alone: while the jump is
 * written, no other thread can execute these instructions.
 * Return: false if another thread could execute a half-written jump: then nothing is
 * written.
 */
bool uaio_code_write_jump(uint8_t *at, size_t bytes, const uint8_t *to,
			  bool is_alone);

/* Make newly written code visible to the processor's instruction cache. */
void uaio_code_flush(uint8_t *code, size_t bytes);

#endif /* UAIO_PATCH_CODE_H */

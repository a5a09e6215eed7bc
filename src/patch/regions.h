/* SPDX-License-Identifier: MIT */
/*
 * Memory with the trampolines of changed places
 *
 * A region begins with the slot of this header; each other slot is a trampoline, with
 * the number of its call at the end.
 *
 * Context: under the loader's lock.
 *
 * Tested by test-patch.c.
 */
#ifndef UAIO_PATCH_REGIONS_H
#define UAIO_PATCH_REGIONS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif /* UAIO_PATCH_REGIONS_H */

/* SPDX-License-Identifier: MIT */
/*
 * Manages memory regions with the trampolines of patched call sites
 *
 * The first slot of a region holds its header, struct uaio_region. Each other slot holds a
 * trampoline, and at the slot's end the number of the trampoline's system call.
 *
 * Context: the loader's lock is held.
 *
 * Tested by test-patch.c.
 */
#include "patch/code.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct uaio_region) <= UAIO_SLOT_BYTES,
	      "the header is in a slot");

static const struct uaio_region *regions;

void uaio_region_init(struct uaio_region *region, size_t bytes,
		      void (*entry)(void))
{
	region->entry = entry;
	region->next = regions;
	region->nr_slots = bytes / UAIO_SLOT_BYTES;
}

void uaio_region_add(const struct uaio_region *region)
{
	regions = region;
}

bool uaio_region_number_of(uintptr_t target, uint32_t *ret_nr)
{
	const struct uaio_region *region = regions;

	for (; region; region = region->next) {
		uintptr_t offset = target - (uintptr_t)region;

		if (offset < region->nr_slots * UAIO_SLOT_BYTES && offset &&
		    !(offset % UAIO_SLOT_BYTES)) {
			memcpy(ret_nr,
			       (const uint8_t *)target + UAIO_SLOT_NUMBER,
			       sizeof(*ret_nr));
			return true;
		}
	}
	return false;
}

bool uaio_region_is_in(const struct dl_phdr_info *object, uintptr_t addr)
{
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && addr >= start &&
		    addr - start < ph->p_memsz)
			return true;
	}
	return false;
}

bool uaio_region_is_in_ours(const struct dl_phdr_info *object)
{
	return uaio_region_is_in(object, (uintptr_t)&uaio_region_is_in_ours);
}

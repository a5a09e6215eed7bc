/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions of an object in its unwind table, .eh_frame_hdr
 *
 * Tested by test-patch.c and test-scan.c.
 */
#include "patch/find.h"

#include <string.h>

bool uaio_is_mapped(const struct dl_phdr_info *object, uintptr_t addr,
		    size_t bytes, uint32_t flags)
{
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && (ph->p_flags & flags) == flags &&
		    addr >= start && addr - start <= ph->p_memsz &&
		    bytes <= ph->p_memsz - (addr - start))
			return true;
	}
	return false;
}

/* A row of the unwind table. Both members are offsets from the table's header. */
struct row {
	int32_t start, fde;
};

struct header {
	uint8_t version, frame_encoding, count_encoding, row_encoding;
	int32_t frame;
	uint32_t nr;
	struct row rows[];
};

enum {
	UDATA4 = 0x03,
	PCREL_SDATA4 = 0x1b,
	DATAREL_SDATA4 = 0x3b,
};

static const struct header *table_of(const struct dl_phdr_info *object)
{
	const ElfW(Phdr) *ph = NULL;
	const struct header *header;

	for (unsigned i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			ph = &object->dlpi_phdr[i];
	if (!ph || ph->p_memsz < sizeof(*header))
		return NULL;
	header = (const struct header *)(object->dlpi_addr + ph->p_vaddr);
	if (!uaio_is_mapped(object, (uintptr_t)header, ph->p_memsz, PF_R) ||
	    header->version != 1 || header->frame_encoding != PCREL_SDATA4 ||
	    header->count_encoding != UDATA4 ||
	    header->row_encoding != DATAREL_SDATA4 ||
	    header->nr > (ph->p_memsz - sizeof(*header)) / sizeof(struct row))
		return NULL;
	return header;
}

/*
 * Read a frame description entry (FDE). Its third word is the function's start, and its
 * fourth word the function's length. The start is stored as an offset from the field
 * that contains it. If the FDE has another encoding, its start differs from the start
 * in the row: return false.
 */
static bool read_entry(const struct dl_phdr_info *object,
		       const struct header *header, const struct row *row,
		       uintptr_t *ret_start, uintptr_t *ret_end)
{
	uintptr_t base = (uintptr_t)header, fde = base + row->fde, start;
	int32_t words[4];

	if (!uaio_is_mapped(object, fde, sizeof(words), PF_R))
		return false;
	memcpy(words, (const void *)fde, sizeof(words));
	start = base + row->start;
	if (fde + 8 + words[2] != start)
		return false;
	*ret_start = start;
	*ret_end = start + (uint32_t)words[3];
	return uaio_is_mapped(object, start, (uint32_t)words[3], PF_R | PF_X);
}

bool uaio_find_last_function(const struct dl_phdr_info *object, uintptr_t addr,
			     uintptr_t *ret_start, uintptr_t *ret_end)
{
	const struct header *header = table_of(object);
	uint32_t low = 0, high;

	if (!header)
		return false;
	/*
	 * Binary search: afterwards row low - 1 is the last one that starts at or
	 * before addr.
	 */
	for (high = header->nr; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)header + header->rows[middle].start <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && read_entry(object, header, &header->rows[low - 1],
				 ret_start, ret_end);
}

bool uaio_find_function(const struct dl_phdr_info *object, uintptr_t addr,
			uintptr_t *ret_start, uintptr_t *ret_end)
{
	return uaio_find_last_function(object, addr, ret_start, ret_end) &&
	       addr >= *ret_start && addr < *ret_end;
}

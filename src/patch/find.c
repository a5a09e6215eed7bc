/* SPDX-License-Identifier: MIT */
#include "patch/find.h"

#include <string.h>

#include "patch/decode.h"
#include "patch/flow.h"
#include "patch/reach.h"
#include "patch/regions.h"

enum {
	SETUP = 0x1a9, /* 425; enter and register follow */
	REGISTER = 0x1ab,
};

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

/*
 * The table of functions: .eh_frame_hdr
 */

/* A row of the table, relative to the header. */
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
 * The row's entry: two words, the start relative to itself, and the length. The
 * start must be the row's; then the entry has the encoding that is taken for
 * granted here.
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
	/* The last row that does not start behind addr is low - 1. */
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

size_t uaio_find_sites(const struct dl_phdr_info *object,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left)
{
	static const struct uaio_numbers numbers = { SETUP, REGISTER };

	return uaio_find_calls(object, &numbers, ret_sites, max, ret_nr_left);
}

/*
 * Places of x86-64
 */

#if defined(__x86_64__)

enum { MOV = 0xb8 };

static const uint8_t syscall_bytes[2] = { 0x0f, 0x05 };

/* Return: whether an instruction of the function starts at addr. */
static bool is_instruction(uintptr_t start, uintptr_t end, uintptr_t addr)
{
	size_t length;

	while (start < addr) {
		length = uaio_insn_length((const uint8_t *)start, end - start);
		if (!length)
			return false;
		start += length;
	}
	return start == addr;
}

enum found {
	FOUND_NOTHING,
	FOUND_SITE,
	FOUND_UNKNOWN /* a call, of which not all is known or may be moved */
};

/* The mov is an instruction of a function that ends at end. */
static enum found look_behind(uint8_t *mov, const uint8_t *end,
			      struct uaio_site *ret_site)
{
	uint8_t *at = mov + UAIO_SITE_MOV_BYTES;
	bool is_movable = true;

	while (at < end && at - mov <= UAIO_SITE_MOVED_MAX) {
		size_t length = uaio_insn_length(at, (size_t)(end - at));

		if (!length)
			return FOUND_NOTHING;
		if (length == 2 && !memcmp(at, syscall_bytes, 2)) {
			ret_site->mov = mov;
			ret_site->syscall = at;
			ret_site->bytes = UAIO_SITE_MOV_BYTES;
			ret_site->has_more = false;
			memcpy(&ret_site->nr, mov + 1, 4);
			return is_movable ? FOUND_SITE : FOUND_UNKNOWN;
		}
		/* Behind a call or return, the syscall is another's. */
		if (*at == 0xe8 || *at == 0xc3)
			return FOUND_NOTHING;
		is_movable = is_movable && uaio_insn_is_movable(at, length);
		at += length;
	}
	return FOUND_NOTHING;
}

/* A search for places in one object. */
struct search {
	const struct dl_phdr_info *object;
	struct uaio_reach reach; /* of the segment that was asked for last */
};

/* What is at mov, which is in no function of the table. */
static enum uaio_reached reached_at(struct search *search, uint8_t *mov)
{
	struct uaio_reach *reach = &search->reach;

	/* It is followed once, as that takes a while. */
	if (!uaio_reach_covers(reach, (uintptr_t)mov)) {
		uaio_reach_close(reach);
		(void)uaio_reach_open(reach, search->object, (uintptr_t)mov);
	}
	return uaio_reach_at(reach, (uintptr_t)mov);
}

static enum found look_at(struct search *search, uint8_t *mov,
			  const uint8_t *segment_end,
			  struct uaio_site *ret_site)
{
	uintptr_t start, end;
	enum found found;

	if (uaio_find_function(search->object, (uintptr_t)mov, &start, &end))
		return is_instruction(start, end, (uintptr_t)mov)
			       ? look_behind(mov, (const uint8_t *)end,
					     ret_site)
			       : FOUND_NOTHING;
	found = look_behind(mov, segment_end, ret_site);
	if (found == FOUND_NOTHING)
		return FOUND_NOTHING;
	switch (reached_at(search, mov)) {
	case UAIO_REACHED_FIRST: return found;
	/* It looks like one, also inside of an instruction that was only computed. */
	default: return FOUND_UNKNOWN;
	}
}

static bool is_among(const uint8_t *number, const struct uaio_numbers *numbers)
{
	uint32_t nr;

	memcpy(&nr, number, sizeof(nr));
	return nr >= numbers->first && nr <= numbers->last;
}

/* Return: the next place that has the bytes of such a mov, or NULL. */
static uint8_t *next_mov(uint8_t *at, const uint8_t *end,
			 const struct uaio_numbers *numbers)
{
	while (end - at >= UAIO_SITE_MOV_BYTES) {
		at = memchr(at, MOV,
			    (size_t)(end - at) - UAIO_SITE_MOV_BYTES + 1);
		if (!at)
			return NULL;
		if (is_among(at + 1, numbers))
			return at;
		at++;
	}
	return NULL;
}

/*
 * Numbers in registers
 */

enum {
	STEPS_MAX = 8,     /* instructions of such a place */
	ENTRIES_MAX = 256, /* into a function from outside */
	FUNCTIONS_MAX = 64,
	REX_B = 0x41,
};

/* A search for such places, whose sites are added to those that were found. */
struct kept {
	const struct dl_phdr_info *object;
	const struct uaio_numbers *numbers;
	struct uaio_site *sites;
	size_t nr, max, nr_left;
	struct uaio_function function; /* that is looked at */
	uintptr_t functions[FUNCTIONS_MAX];
	size_t nr_functions;
};

/* The last instructions before one, the nearest last. Return: how many. */
static size_t steps_to(const struct uaio_function *function, uintptr_t addr,
		       uintptr_t steps[STEPS_MAX])
{
	uintptr_t at = function->start;
	size_t nr = 0;

	while (at < addr) {
		size_t length = uaio_insn_length((const uint8_t *)at,
						 function->end - at);

		if (!length)
			return 0;
		if (nr == STEPS_MAX)
			memmove(steps, steps + 1, --nr * sizeof(steps[0]));
		steps[nr++] = at;
		at += length;
	}
	return at == addr ? nr : 0;
}

/* Return: whether it does the same in a trampoline; it may set the number. */
static bool is_movable_or_copy(uintptr_t at, size_t length)
{
	const uint8_t *code = (const uint8_t *)at;
	unsigned from, to;

	return uaio_insn_is_movable(code, length) ||
	       (uaio_insn_copies(code, length, &from, &to) && to == 0);
}

/* Find the instructions to overwrite. Return: false if they cannot be. */
static bool fit(const struct kept *kept, const struct uaio_flow *flow,
		uintptr_t call, struct uaio_site *ret_site)
{
	uintptr_t steps[STEPS_MAX + 1], at = call, end = call + 2;
	size_t nr = steps_to(&kept->function, call, steps), i = nr;

	while (end - at < UAIO_SITE_MOV_BYTES) {
		if (!i || uaio_flow_is_target(flow, at) ||
		    !is_movable_or_copy(steps[i - 1], at - steps[i - 1]))
			return false;
		at = steps[--i];
	}
	/* The call need not be overwritten if what is before it suffices. */
	steps[nr] = call;
	for (size_t k = i + 1; k <= nr; k++)
		if (steps[k] - at >= UAIO_SITE_MOV_BYTES) {
			end = steps[k];
			break;
		}
	ret_site->mov = (uint8_t *)at;
	ret_site->syscall = (uint8_t *)call;
	ret_site->bytes = end - at;
	ret_site->has_more = true;
	return ret_site->bytes <= UAIO_SITE_BYTES_MAX;
}

static bool is_site(const struct kept *kept, uintptr_t call)
{
	for (size_t i = 0; i < kept->nr; i++)
		if ((uintptr_t)kept->sites[i].syscall == call)
			return true;
	return false;
}

/* Return: whether the place was changed: its jump is before the call. */
static bool is_changed(const struct kept *kept, uintptr_t call)
{
	uintptr_t steps[STEPS_MAX + 1], target;
	size_t nr = steps_to(&kept->function, call, steps);
	uint32_t number;

	while (nr--)
		if (uaio_insn_flow((const uint8_t *)steps[nr],
				   UAIO_SITE_MOV_BYTES,
				   &target) == UAIO_FLOW_JUMP &&
		    uaio_region_number_of(target, &number))
			return true;
	return false;
}

static void see_call(void *data, const struct uaio_flow *flow,
		     const struct uaio_flow_call *call)
{
	struct kept *kept = data;

	if (!call->is_known || call->nr < kept->numbers->first ||
	    call->nr > kept->numbers->last || is_site(kept, call->addr) ||
	    is_changed(kept, call->addr))
		return;
	if (kept->nr < kept->max &&
	    fit(kept, flow, call->addr, &kept->sites[kept->nr]))
		kept->sites[kept->nr++].nr = call->nr;
	else
		kept->nr_left++;
}

/* Find where other code branches into the function. Return: SIZE_MAX if too many. */
static size_t find_entries(const struct kept *kept, const uint8_t *code,
			   size_t bytes, uintptr_t entries[ENTRIES_MAX])
{
	const struct uaio_function *function = &kept->function;
	const size_t size = function->end - function->start;
	size_t nr = 0;

	for (size_t i = 2; i + 4 <= bytes; i++) {
		uintptr_t from = (uintptr_t)code + i, target;
		int32_t distance;

		if (!uaio_flow_may_branch(code + i))
			continue;
		memcpy(&distance, code + i, sizeof(distance));
		target = from + 4 + (uintptr_t)(intptr_t)distance;
		if (target - function->start >= size ||
		    target == function->start || from - function->start < size)
			continue;
		if (nr == ENTRIES_MAX)
			return SIZE_MAX;
		entries[nr++] = target;
	}
	return nr;
}

/* A function that sets a register to a number, of code that has bytes. */
static void look_into(struct kept *kept, uintptr_t mov, const uint8_t *code,
		      size_t bytes)
{
	struct uaio_function *function = &kept->function;
	uintptr_t entries[ENTRIES_MAX];
	size_t nr;

	if (!uaio_find_function(kept->object, mov, &function->start,
				&function->end))
		return;
	for (size_t i = 0; i < kept->nr_functions; i++)
		if (kept->functions[i] == function->start)
			return;
	if (kept->nr_functions == FUNCTIONS_MAX)
		return;
	kept->functions[kept->nr_functions++] = function->start;
	/* Most numbers in registers are arguments, of syscall(2). */
	if (!memmem((const void *)function->start,
		    function->end - function->start, syscall_bytes, 2))
		return;
	nr = find_entries(kept, code, bytes, entries);
	if (nr != SIZE_MAX)
		(void)uaio_flow_follow(function, entries, nr, see_call, kept);
}

/* mov of a constant has the register in its first byte; with REX.B eax is r8d. */
static void find_kept(struct kept *kept, const uint8_t *code, size_t bytes)
{
	for (size_t i = 1; i + UAIO_SITE_MOV_BYTES <= bytes; i++)
		if ((code[i] & 0xf8) == MOV &&
		    is_among(code + i + 1, kept->numbers) &&
		    (code[i] != MOV || code[i - 1] == REX_B))
			look_into(kept, (uintptr_t)code + i, code, bytes);
}

/* Return: how many sites there are then. */
static size_t add_kept(const struct dl_phdr_info *object,
		       const struct uaio_numbers *numbers,
		       struct uaio_site *sites, size_t nr, size_t max,
		       size_t *nr_left)
{
	struct kept kept = { .object = object,
			     .numbers = numbers,
			     .sites = sites,
			     .nr = nr,
			     .max = max };

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD &&
		    (ph->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X))
			find_kept(&kept,
				  (const uint8_t *)(object->dlpi_addr +
						    ph->p_vaddr),
				  ph->p_filesz);
	}
	*nr_left += kept.nr_left;
	return kept.nr;
}

size_t uaio_find_calls(const struct dl_phdr_info *object,
		       const struct uaio_numbers *numbers,
		       struct uaio_site *ret_sites, size_t max,
		       size_t *ret_nr_left)
{
	struct search search = { .object = object };
	size_t nr = 0;

	*ret_nr_left = 0;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uint8_t *at = (uint8_t *)(object->dlpi_addr + ph->p_vaddr);
		uint8_t *end = at + ph->p_filesz;

		if (ph->p_type != PT_LOAD ||
		    (ph->p_flags & (PF_R | PF_W | PF_X)) != (PF_R | PF_X))
			continue;
		for (; nr < max && (at = next_mov(at, end, numbers)); at++) {
			enum found found =
				look_at(&search, at, end, &ret_sites[nr]);

			nr += found == FOUND_SITE;
			*ret_nr_left += found == FOUND_UNKNOWN;
		}
	}
	uaio_reach_close(&search.reach);
	/* What keeps numbers in registers has others as well. */
	if (nr + *ret_nr_left)
		nr = add_kept(object, numbers, ret_sites, nr, max, ret_nr_left);
	return nr;
}

#endif

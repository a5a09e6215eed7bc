/* SPDX-License-Identifier: MIT */
#include "patch/reach.h"

#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "patch/decode.h"
#include "patch/find.h"

enum {
	CODE_BYTES_MAX = 1 << 28,
	/* how many entries of a jump table are read at most */
	TABLE_MAX = 1024,
	/*
	 * for an indirect jump, the search considers only this number of tables: those
	 * whose addresses were computed last
	 */
	TABLES_MAX = 4,
};

/*
 * A path: instructions that the processor executes one after another. `tables`: the
 * addresses of data, perhaps jump tables, that these instructions have computed.
 */
struct path {
	uintptr_t tables[TABLES_MAX];
	size_t nr_tables;
	/*
	 * The path begins at an address that some instruction has computed; there may
	 * be data at this address. So the path counts as code only if the decoder knows
	 * all its instructions (I1).
	 */
	bool is_computed;
};

/*
 * What is known of each byte of the code
 */

static bool has_bit(const uint64_t *bits, size_t at)
{
	return bits[at / 64] >> at % 64 & 1;
}

static void set_bit(uint64_t *bits, size_t at)
{
	bits[at / 64] |= 1ul << at % 64;
}

static void clear_bit(uint64_t *bits, size_t at)
{
	bits[at / 64] &= ~(1ul << at % 64);
}

bool uaio_reach_covers(const struct uaio_reach *reach, uintptr_t addr)
{
	return addr - reach->start < reach->bytes;
}

enum uaio_reached uaio_reach_at(const struct uaio_reach *reach, uintptr_t addr)
{
	size_t at = addr - reach->start;

	if (!reach->is_known || at >= reach->bytes)
		return UAIO_REACHED_NOT;
	return has_bit(reach->firsts, at)   ? UAIO_REACHED_FIRST
	       : has_bit(reach->others, at) ? UAIO_REACHED_OTHER
					    : UAIO_REACHED_NOT;
}

/*
 * Add addr to the list, if it is in the code and has the alignment of instructions.
 */
static void add(const struct uaio_reach *reach, struct uaio_reach_list *list,
		uintptr_t addr)
{
#if defined(__aarch64__)
	if (addr % 4)
		return;
#endif
	if (uaio_reach_covers(reach, addr) && list->nr < reach->bytes)
		list->all[list->nr++] = (uint32_t)(addr - reach->start);
}

/* Return: whether no byte of the instruction belongs to another instruction. */
static bool is_free(const struct uaio_reach *reach, size_t at, size_t length)
{
	if (has_bit(reach->others, at))
		return false;
	for (size_t i = 1; i < length; i++)
		if (has_bit(reach->firsts, at + i) ||
		    has_bit(reach->others, at + i))
			return false;
	return true;
}

static void mark(struct uaio_reach *reach, size_t at, size_t length)
{
	set_bit(reach->firsts, at);
	for (size_t i = 1; i < length; i++)
		set_bit(reach->others, at + i);
}

static void unmark(struct uaio_reach *reach, size_t at)
{
	clear_bit(reach->firsts, at);
	while (++at < reach->bytes && has_bit(reach->others, at))
		clear_bit(reach->others, at);
}

/*
 * Reading jump tables
 */

#if defined(__x86_64__)

enum { LEA = 0x8d, NEAR_INDIRECT = 0xff };

static void note_start(struct uaio_reach *reach, uintptr_t addr)
{
	if (addr - reach->low < reach->span)
		set_bit(reach->starts, addr - reach->low);
}

/*
 * Find where jump tables and other data begin (I2). The search must know this before it
 * follows the code, because some code is reachable only through a table. So assume an
 * instruction wherever bytes look like one that computes an address. If the bytes are
 * no such instruction, a table seems to end too early. This does no harm: the search
 * only finds less code.
 */
static void find_starts(struct uaio_reach *reach)
{
	const uint8_t *code = (const uint8_t *)reach->start;

	for (size_t i = 1; i + 6 <= reach->bytes; i++) {
		uint32_t word;

		if (code[i] == LEA && (code[i + 1] & 0xc7) == 0x05) {
			/* lea word(%rip) */
			memcpy(&word, code + i + 2, sizeof(word));
			note_start(reach, (uintptr_t)code + i + 6 +
						  (uintptr_t)(int32_t)word);
		} else if (code[i] == 0x24 && code[i - 1] == NEAR_INDIRECT &&
			   (code[i + 1] & 0xc7) == 0xc5) {
			/* jmp *word(,register,8) */
			memcpy(&word, code + i + 2, sizeof(word));
			note_start(reach, reach->object->dlpi_addr + word);
		}
	}
}

/*
 * Return: whether the jump table continues at the address `entry`: no other data begins
 * there.
 */
static bool goes_on(const struct uaio_reach *reach, uintptr_t entry)
{
	return entry - reach->low >= reach->span ||
	       !has_bit(reach->starts, entry - reach->low);
}

/*
 * Add the targets of a jump table whose entries are distances from the table's start.
 */
static void add_near_table(struct uaio_reach *reach, uintptr_t table)
{
	for (unsigned i = 0; i < TABLE_MAX; i++, table += sizeof(int32_t)) {
		const uintptr_t first = table - i * sizeof(int32_t);
		int32_t distance;

		if (i && !goes_on(reach, table))
			return;
		if (!uaio_is_mapped(reach->object, table, sizeof(distance),
				    PF_R))
			return;
		memcpy(&distance, (const void *)table, sizeof(distance));
		if (!uaio_reach_covers(reach,
				       first + (uintptr_t)(intptr_t)distance))
			return;
		add(reach, &reach->computed,
		    first + (uintptr_t)(intptr_t)distance);
	}
}

/*
 * Add the targets of a jump table whose entries are addresses without the load bias.
 */
static void add_far_table(struct uaio_reach *reach, uintptr_t table)
{
	for (unsigned i = 0; i < TABLE_MAX; i++, table += sizeof(uintptr_t)) {
		uintptr_t entry;

		if (i && !goes_on(reach, table))
			return;
		if (!uaio_is_mapped(reach->object, table, sizeof(entry), PF_R))
			return;
		memcpy(&entry, (const void *)table, sizeof(entry));
		entry += reach->object->dlpi_addr;
		if (!uaio_reach_covers(reach, entry))
			return;
		add(reach, &reach->computed, entry);
	}
}

#else

/* On aarch64 jump tables are not followed. */
static void find_starts(struct uaio_reach *reach)
{
	(void)reach;
}

#endif

static void add_tables(struct uaio_reach *reach, const struct path *path,
		       const uint8_t *code, size_t length)
{
#if defined(__x86_64__)
	uint32_t table;

	for (size_t i = 0; i < path->nr_tables; i++)
		add_near_table(reach, path->tables[i]);
	/* jmp *table(,register,8) */
	if (length < 7 || code[length - 6] != 0x24 ||
	    (code[length - 5] & 0xc7) != 0xc5)
		return;
	memcpy(&table, code + length - sizeof(table), sizeof(table));
	add_far_table(reach, reach->object->dlpi_addr + table);
#else
	/*
	 * On aarch64 the entries of a jump table are distances from some instruction.
	 * The table does not say from which instruction, so the table cannot be read.
	 */
	(void)reach;
	(void)path;
	(void)code;
	(void)length;
#endif
}

/*
 * Record an address that an instruction computes: code or a table may begin there.
 */
static void note_address(struct uaio_reach *reach, struct path *path,
			 uintptr_t addr)
{
	if (uaio_reach_covers(reach, addr)) {
		add(reach, &reach->computed, addr);
		return;
	}
	if (addr - reach->low >= reach->span)
		return;
	if (path->nr_tables == TABLES_MAX) {
		path->nr_tables--;
		memmove(path->tables, path->tables + 1,
			path->nr_tables * sizeof(path->tables[0]));
	}
	path->tables[path->nr_tables++] = addr;
}

/*
 * Following the paths through the code
 */

/*
 * Record where the instruction leads.
 * Return: whether the path continues with the next instruction.
 */
static bool go_on(struct uaio_reach *reach, struct path *path,
		  const uint8_t *code, size_t length)
{
	/*
	 * If the loader chose the object's address, no constant in the object's code is
	 * an address in the object.
	 */
	const uintptr_t *moved =
		reach->is_placed ? NULL : &reach->object->dlpi_addr;
	uintptr_t target = 0;

	if (uaio_insn_computes(code, length, moved, &target))
		note_address(reach, path, target);
	switch (uaio_insn_flow(code, length, &target)) {
	case UAIO_FLOW_NEXT: return true;
	case UAIO_FLOW_BRANCH: add(reach, &reach->todo, target); return true;
	case UAIO_FLOW_CALL:
		/*
		 * If this path begins at a computed address, the path may be data. So
		 * the called address counts as computed, too.
		 */
		add(reach, path->is_computed ? &reach->computed : &reach->todo,
		    target);
		return true;
	case UAIO_FLOW_JUMP: add(reach, &reach->todo, target); return false;
	case UAIO_FLOW_INDIRECT:
		add_tables(reach, path, code, length);
		return false;
	default: return false;
	}
}

/*
 * Follow one path.
 * Return: false if instructions overlap, or if the path begins at a computed address
 * and has an unknown instruction.
 */
static bool follow_path(struct uaio_reach *reach, struct path *path, size_t at)
{
	const uint8_t *code = (const uint8_t *)reach->start;
	size_t length;

	for (; at < reach->bytes; at += length) {
		if (has_bit(reach->firsts, at))
			return true;
		length = uaio_insn_length(code + at, reach->bytes - at);
		if (!length)
			return !path->is_computed;
		if (!is_free(reach, at, length))
			return false;
		mark(reach, at, length);
		if (path->is_computed)
			reach->undo.all[reach->undo.nr++] = (uint32_t)at;
		if (!go_on(reach, path, code + at, length))
			return true;
	}
	return !path->is_computed;
}

static bool follow_all(struct uaio_reach *reach, bool is_computed)
{
	while (reach->todo.nr) {
		struct path path = { .is_computed = is_computed };

		if (!follow_path(reach, &path,
				 reach->todo.all[--reach->todo.nr]))
			return false;
	}
	return true;
}

/*
 * Follow the code at a computed address. If that fails, the address is data (I1): unmark
 * all instructions that were found from there.
 */
static void follow_computed(struct uaio_reach *reach, uint32_t at)
{
	size_t nr_computed = reach->computed.nr;

	reach->undo.nr = 0;
	reach->todo.nr = 0;
	add(reach, &reach->todo, reach->start + at);
	if (follow_all(reach, true))
		return;
	for (size_t i = reach->undo.nr; i-- > 0;)
		unmark(reach, reach->undo.all[i]);
	reach->computed.nr = nr_computed;
}

/*
 * Follow the code at each address in the list reach->computed once. The code may
 * compute further addresses, which are added to the list: follow the code there, too.
 */
static void follow_all_computed(struct uaio_reach *reach)
{
	size_t nr_followed = 0;

	for (size_t i = 0; i < reach->computed.nr && nr_followed < reach->bytes;
	     i++)
		if (!has_bit(reach->tried, reach->computed.all[i])) {
			set_bit(reach->tried, reach->computed.all[i]);
			follow_computed(reach, reach->computed.all[i]);
			nr_followed += reach->undo.nr;
		}
}

static void see_named(void *data, uintptr_t addr, bool is_code)
{
	struct uaio_reach *reach = data;

	add(reach, is_code ? &reach->todo : &reach->computed, addr);
}

/*
 * Starting and ending an analysis
 */

static const ElfW(Phdr) *
	segment_of(const struct dl_phdr_info *object, uintptr_t addr)
{
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD &&
		    (ph->p_flags & (PF_R | PF_W | PF_X)) == (PF_R | PF_X) &&
		    addr - (object->dlpi_addr + ph->p_vaddr) < ph->p_filesz)
			return ph;
	}
	return NULL;
}

static void measure(struct uaio_reach *reach)
{
	const struct dl_phdr_info *object = reach->object;
	uintptr_t low = UINTPTR_MAX, high = 0;

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		const uintptr_t start = object->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		low = start < low ? start : low;
		high = start + ph->p_memsz > high ? start + ph->p_memsz : high;
	}
	reach->low = low;
	reach->is_placed = low == object->dlpi_addr;
	reach->span = high - low;
}

static size_t words_of(size_t bits)
{
	return bits / 64 + 1;
}

/*
 * Return: how many bytes to map: for each byte of the code three bits and three
 * offsets, and a bit for each byte of the object. Most of the offsets stay unused.
 */
static size_t room_of(const struct uaio_reach *reach)
{
	size_t words = 3 * words_of(reach->bytes) + words_of(reach->span);

	return words * sizeof(uint64_t) + 3 * reach->bytes * sizeof(uint32_t);
}

static bool allocate(struct uaio_reach *reach)
{
	size_t words = words_of(reach->bytes);
	uint64_t *memory =
		sys_mmap(NULL, room_of(reach), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (sys_is_map_error(memory))
		return false;
	reach->firsts = memory;
	reach->others = memory + words;
	reach->tried = memory + 2 * words;
	reach->starts = memory + 3 * words;
	reach->todo.all = (uint32_t *)(reach->starts + words_of(reach->span));
	reach->computed.all = reach->todo.all + reach->bytes;
	reach->undo.all = reach->computed.all + reach->bytes;
	return true;
}

bool uaio_reach_open(struct uaio_reach *reach,
		     const struct dl_phdr_info *object, uintptr_t addr)
{
	const ElfW(Phdr) *ph = segment_of(object, addr);

	*reach = (struct uaio_reach){ .object = object };
	if (!ph || ph->p_filesz > CODE_BYTES_MAX)
		return false;
	reach->start = object->dlpi_addr + ph->p_vaddr;
	reach->bytes = ph->p_filesz;
	measure(reach);
	if (!allocate(reach))
		return false;
	find_starts(reach);
	uaio_see_named(object, see_named, reach);
	reach->is_known = follow_all(reach, false);
	if (reach->is_known)
		follow_all_computed(reach);
	return reach->is_known;
}

void uaio_reach_close(struct uaio_reach *reach)
{
	if (reach->firsts)
		(void)sys_munmap(reach->firsts, room_of(reach));
	reach->firsts = NULL;
}

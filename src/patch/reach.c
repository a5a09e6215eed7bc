/* SPDX-License-Identifier: MIT */
#include "patch/reach.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "patch/decode.h"
#include "patch/find.h"

enum {
	CODE_BYTES_MAX = 1 << 28,
	TABLE_MAX = 1024, /* entries of a table of jumps */
	TABLES_MAX = 4,   /* that an indirect jump may use */
	RELATIVE = 8,     /* relocations: an address in the object */
	IRELATIVE = 37,   /* the address of a function to be called */
	TAG_RELRSZ = 35,  /* newer than some headers */
	TAG_RELR = 36,
};

/* A path of instructions, and the tables of which it has computed the address. */
struct path {
	uintptr_t tables[TABLES_MAX];
	size_t nr_tables;
	bool is_computed; /* all must be known (I1) */
};

/*
 * The code
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

/* Addresses outside of the code are left out. */
static void add(const struct uaio_reach *reach, struct uaio_reach_list *list,
		uintptr_t addr)
{
	if (uaio_reach_covers(reach, addr) && list->nr < reach->bytes)
		list->all[list->nr++] = (uint32_t)(addr - reach->start);
}

/* Return: false if bytes of the instruction belong to another one. */
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
 * Tables of jumps
 */

/* Each entry is the distance of its code from the table. */
static void add_near_table(struct uaio_reach *reach, uintptr_t table)
{
	for (unsigned i = 0; i < TABLE_MAX; i++, table += sizeof(int32_t)) {
		const uintptr_t first = table - i * sizeof(int32_t);
		int32_t distance;

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

/* Each entry is the address of its code, in an object that is not moved. */
static void add_far_table(struct uaio_reach *reach, uintptr_t table)
{
	for (unsigned i = 0; i < TABLE_MAX; i++, table += sizeof(uintptr_t)) {
		uintptr_t entry;

		if (!uaio_is_mapped(reach->object, table, sizeof(entry), PF_R))
			return;
		memcpy(&entry, (const void *)table, sizeof(entry));
		entry += reach->object->dlpi_addr;
		if (!uaio_reach_covers(reach, entry))
			return;
		add(reach, &reach->computed, entry);
	}
}

static void add_tables(struct uaio_reach *reach, const struct path *path,
		       const uint8_t *code, size_t length)
{
	uint32_t table;

	for (size_t i = 0; i < path->nr_tables; i++)
		add_near_table(reach, path->tables[i]);
	/* jmp *table(,register,8) */
	if (length < 7 || code[length - 6] != 0x24 ||
	    (code[length - 5] & 0xc7) != 0xc5)
		return;
	memcpy(&table, code + length - sizeof(table), sizeof(table));
	add_far_table(reach, reach->object->dlpi_addr + table);
}

/* An instruction computes an address: of code, or perhaps of a table. */
static void note_address(struct uaio_reach *reach, struct path *path,
			 uintptr_t addr)
{
	if (uaio_reach_covers(reach, addr)) {
		add(reach, &reach->computed, addr);
		return;
	}
	if (path->nr_tables == TABLES_MAX) {
		path->nr_tables--;
		memmove(path->tables, path->tables + 1,
			path->nr_tables * sizeof(path->tables[0]));
	}
	path->tables[path->nr_tables++] = addr;
}

/*
 * Following
 */

/* Return: whether the next instruction is on the path as well. */
static bool go_on(struct uaio_reach *reach, struct path *path,
		  const uint8_t *code, size_t length)
{
	uintptr_t target = 0;

	if (uaio_insn_computes(code, length, reach->object->dlpi_addr, &target))
		note_address(reach, path, target);
	switch (uaio_insn_flow(code, length, &target)) {
	case UAIO_FLOW_NEXT: return true;
	case UAIO_FLOW_BRANCH: add(reach, &reach->todo, target); return true;
	case UAIO_FLOW_CALL:
		/* Of what is only computed, each function is followed alone. */
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

/* Return: false if instructions overlap, or not all is known that must be. */
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

/* An address that was only computed: follow it, or leave all as it was (I1). */
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

/* More of them are found meanwhile. Code that fails is followed again from elsewhere. */
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

/*
 * The addresses that the object names
 */

/* What of the dynamic section is looked at. */
struct dynamic {
	uintptr_t symbols, gnu_hash, hash;
	uintptr_t rela, plt_rela, relr;
	size_t rela_bytes, plt_rela_bytes, relr_bytes;
	uintptr_t init, fini;
};

/* The loader may have added the object's address, or not yet. */
static uintptr_t place_of(const struct dl_phdr_info *object, uintptr_t addr)
{
	return uaio_is_mapped(object, addr, 1, 0) ? addr
						  : object->dlpi_addr + addr;
}

static void note_entry(const struct dl_phdr_info *object, const ElfW(Dyn) * dyn,
		       struct dynamic *ret)
{
	const uintptr_t value = dyn->d_un.d_val;

	switch (dyn->d_tag) {
	case DT_SYMTAB: ret->symbols = place_of(object, value); break;
	case DT_GNU_HASH: ret->gnu_hash = place_of(object, value); break;
	case DT_HASH: ret->hash = place_of(object, value); break;
	case DT_RELA: ret->rela = place_of(object, value); break;
	case DT_RELASZ: ret->rela_bytes = value; break;
	case DT_JMPREL: ret->plt_rela = place_of(object, value); break;
	case DT_PLTRELSZ: ret->plt_rela_bytes = value; break;
	case TAG_RELR: ret->relr = place_of(object, value); break;
	case TAG_RELRSZ: ret->relr_bytes = value; break;
	case DT_INIT: ret->init = object->dlpi_addr + value; break;
	case DT_FINI: ret->fini = object->dlpi_addr + value; break;
	default: break;
	}
}

static void read_dynamic(const struct dl_phdr_info *object,
			 struct dynamic *ret_dynamic)
{
	memset(ret_dynamic, 0, sizeof(*ret_dynamic));
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t at = object->dlpi_addr + ph->p_vaddr;
		uintptr_t end = at + ph->p_memsz;

		if (ph->p_type != PT_DYNAMIC || at % sizeof(ElfW(Addr)) ||
		    !uaio_is_mapped(object, at, ph->p_memsz, PF_R))
			continue;
		for (; end - at >= sizeof(ElfW(Dyn)) &&
		       ((const ElfW(Dyn) *)at)->d_tag != DT_NULL;
		     at += sizeof(ElfW(Dyn)))
			note_entry(object, (const ElfW(Dyn) *)at, ret_dynamic);
	}
}

/* Return: a word of the object, or 0. */
static uint32_t word_at(const struct dl_phdr_info *object, uintptr_t addr)
{
	uint32_t word = 0;

	if (uaio_is_mapped(object, addr, sizeof(word), PF_R))
		memcpy(&word, (const void *)addr, sizeof(word));
	return word;
}

/* The number of symbols is that of the last one in a list, and one more. */
static size_t count_by_gnu_hash(const struct dl_phdr_info *object,
				uintptr_t hash)
{
	const uint32_t nr_buckets = word_at(object, hash);
	const uint32_t first = word_at(object, hash + 4);
	const uintptr_t buckets = hash + 16 + 8ul * word_at(object, hash + 8);
	const uintptr_t chains = buckets + 4ul * nr_buckets;
	uint32_t last = 0;

	if (!uaio_is_mapped(object, buckets, 4ul * nr_buckets, PF_R))
		return 0;
	for (uint32_t i = 0; i < nr_buckets; i++) {
		uint32_t symbol = word_at(object, buckets + 4ul * i);

		last = symbol > last ? symbol : last;
	}
	if (last < first)
		return 0;
	while (uaio_is_mapped(object, chains + 4ul * (last - first), 4, PF_R) &&
	       !(word_at(object, chains + 4ul * (last - first)) & 1))
		last++;
	return last + 1ul;
}

static void add_symbols(struct uaio_reach *reach, const struct dynamic *dynamic)
{
	const struct dl_phdr_info *object = reach->object;
	size_t nr = dynamic->hash ? word_at(object, dynamic->hash + 4)
		    : dynamic->gnu_hash
			    ? count_by_gnu_hash(object, dynamic->gnu_hash)
			    : 0;

	if (!dynamic->symbols)
		return;
	for (size_t i = 0; i < nr; i++) {
		uintptr_t at = dynamic->symbols + i * sizeof(ElfW(Sym));
		ElfW(Sym) symbol;
		unsigned type;

		if (!uaio_is_mapped(object, at, sizeof(symbol), PF_R))
			return;
		memcpy(&symbol, (const void *)at, sizeof(symbol));
		type = ELF64_ST_TYPE(symbol.st_info);
		if ((type == STT_FUNC || type == STT_GNU_IFUNC) &&
		    symbol.st_shndx != SHN_UNDEF)
			add(reach, &reach->todo,
			    object->dlpi_addr + symbol.st_value);
	}
}

static void add_relocated(struct uaio_reach *reach, uintptr_t at, size_t bytes)
{
	const struct dl_phdr_info *object = reach->object;
	ElfW(Rela) rela;

	if (!uaio_is_mapped(object, at, bytes, PF_R))
		return;
	for (; bytes >= sizeof(rela);
	     at += sizeof(rela), bytes -= sizeof(rela)) {
		memcpy(&rela, (const void *)at, sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) == RELATIVE ||
		    ELF64_R_TYPE(rela.r_info) == IRELATIVE)
			add(reach, &reach->todo,
			    object->dlpi_addr + (uintptr_t)rela.r_addend);
	}
}

/* A word that the loader moves, or has moved. */
static void add_moved(struct uaio_reach *reach, uintptr_t at)
{
	uintptr_t value;

	if (!uaio_is_mapped(reach->object, at, sizeof(value), PF_R))
		return;
	memcpy(&value, (const void *)at, sizeof(value));
	add(reach, &reach->todo,
	    uaio_reach_covers(reach, value) ? value
					    : reach->object->dlpi_addr + value);
}

/*
 * A packed table: an even word is the address of a word that is moved, an odd one has a
 * bit for each of the 63 words behind.
 */
static void add_packed(struct uaio_reach *reach, uintptr_t table, size_t bytes)
{
	const struct dl_phdr_info *object = reach->object;
	uintptr_t at = 0, entry;

	if (!uaio_is_mapped(object, table, bytes, PF_R))
		return;
	for (; bytes >= sizeof(entry);
	     table += sizeof(entry), bytes -= sizeof(entry)) {
		memcpy(&entry, (const void *)table, sizeof(entry));
		if (!(entry & 1)) {
			at = object->dlpi_addr + entry;
			add_moved(reach, at);
			at += sizeof(entry);
			continue;
		}
		for (unsigned i = 0; i < 63; i++)
			if (entry >> (i + 1) & 1)
				add_moved(reach, at + i * sizeof(entry));
		at += 63 * sizeof(entry);
	}
}

/* The entry point, in the header, which lies at the beginning of a segment. */
static void add_start(struct uaio_reach *reach)
{
	const struct dl_phdr_info *object = reach->object;

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t at = object->dlpi_addr + ph->p_vaddr;
		ElfW(Ehdr) header;

		if (ph->p_type != PT_LOAD || ph->p_offset ||
		    !uaio_is_mapped(object, at, sizeof(header), PF_R))
			continue;
		memcpy(&header, (const void *)at, sizeof(header));
		if (!memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_entry)
			add(reach, &reach->todo,
			    object->dlpi_addr + header.e_entry);
	}
}

static void add_named(struct uaio_reach *reach)
{
	struct dynamic dynamic;

	read_dynamic(reach->object, &dynamic);
	add_start(reach);
	add_symbols(reach, &dynamic);
	add_relocated(reach, dynamic.rela, dynamic.rela_bytes);
	add_relocated(reach, dynamic.plt_rela, dynamic.plt_rela_bytes);
	add_packed(reach, dynamic.relr, dynamic.relr_bytes);
	add(reach, &reach->todo, dynamic.init);
	add(reach, &reach->todo, dynamic.fini);
}

/*
 * Opening
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

/* For each byte of the code: three bits, and three numbers, most of which stay unused. */
static size_t room_of(const struct uaio_reach *reach)
{
	size_t bits = (reach->bytes / 64 + 1) * sizeof(uint64_t);

	return 3 * bits + 3 * reach->bytes * sizeof(uint32_t);
}

static bool allocate(struct uaio_reach *reach)
{
	size_t words = reach->bytes / 64 + 1;
	uint64_t *memory =
		sys_mmap(NULL, room_of(reach), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (sys_is_map_error(memory))
		return false;
	reach->firsts = memory;
	reach->others = memory + words;
	reach->tried = memory + 2 * words;
	reach->todo.all = (uint32_t *)(memory + 3 * words);
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
	if (!allocate(reach))
		return false;
	add_named(reach);
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

/* SPDX-License-Identifier: MIT */
/*
 * Finds the addresses of code that an object names, for example by symbols
 *
 * An object names its exported functions, its entry point and its DT_INIT and DT_FINI
 * functions. It also names the targets of all pointers that the loader relocates; some
 * of these targets are data. The loader may have relocated the object already, or not
 * yet.
 *
 * Tested by test-patch.c.
 */
#include "patch/reach.h"

#include <elf.h>
#include <string.h>

#include "patch/find.h"

enum {
#if defined(__aarch64__)
	/* type R_AARCH64_RELATIVE of a relocation: an address in the object */
	RELATIVE = 1027,
	/* type R_AARCH64_IRELATIVE: the address of an ifunc resolver */
	IRELATIVE = 1032,
#else
	/* type R_X86_64_RELATIVE of a relocation: an address in the object */
	RELATIVE = 8,
	/* type R_X86_64_IRELATIVE: the address of an ifunc resolver */
	IRELATIVE = 37,
#endif
	/* the tags DT_RELRSZ and DT_RELR, which older headers lack */
	TAG_RELRSZ = 35,
	TAG_RELR = 36,
};

/* The object, and the function to call for each address that the object names. */
struct named {
	const struct dl_phdr_info *object;
	void (*see)(void *arg, uintptr_t addr, bool is_code);
	void *arg;
};

/* The entries of an object's dynamic section that this file uses. */
struct dynamic {
	uintptr_t symbols, gnu_hash, hash;
	uintptr_t rela, plt_rela, relr;
	size_t rela_bytes, plt_rela_bytes, relr_bytes;
	uintptr_t init, fini;
};

/*
 * Return: where addr is in memory. The loader may have added the load bias to addr
 * already, or not yet.
 */
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

/* Return: the four bytes at addr; 0 if addr is not in the object. */
static uint32_t word_at(const struct dl_phdr_info *object, uintptr_t addr)
{
	uint32_t word = 0;

	if (uaio_is_mapped(object, addr, sizeof(word), PF_R))
		memcpy(&word, (const void *)addr, sizeof(word));
	return word;
}

/*
 * Return: how many symbols there are: 1 + the highest index in any chain of the hash
 * table.
 */
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

static void add_symbols(const struct named *named,
			const struct dynamic *dynamic)
{
	const struct dl_phdr_info *object = named->object;
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
			named->see(named->arg,
				   object->dlpi_addr + symbol.st_value, true);
	}
}

static void add_relocated(const struct named *named, uintptr_t at, size_t bytes)
{
	const struct dl_phdr_info *object = named->object;
	ElfW(Rela) rela;

	if (!uaio_is_mapped(object, at, bytes, PF_R))
		return;
	for (; bytes >= sizeof(rela);
	     at += sizeof(rela), bytes -= sizeof(rela)) {
		memcpy(&rela, (const void *)at, sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) == RELATIVE ||
		    ELF64_R_TYPE(rela.r_info) == IRELATIVE)
			named->see(named->arg,
				   object->dlpi_addr + (uintptr_t)rela.r_addend,
				   ELF64_R_TYPE(rela.r_info) == IRELATIVE);
	}
}

/*
 * The loader relocates the pointer at address `at`, or has done so already. Report the
 * address to which the pointer points.
 */
static void add_moved(const struct named *named, uintptr_t at)
{
	uintptr_t value;

	if (!uaio_is_mapped(named->object, at, sizeof(value), PF_R))
		return;
	memcpy(&value, (const void *)at, sizeof(value));
	named->see(named->arg, place_of(named->object, value), false);
}

/*
 * Read a DT_RELR table. An even entry is the address of a relocated word. An odd entry
 * has a bit for each of the 63 words that follow.
 */
static void add_packed(const struct named *named, uintptr_t table, size_t bytes)
{
	const struct dl_phdr_info *object = named->object;
	uintptr_t at = 0, entry;

	if (!uaio_is_mapped(object, table, bytes, PF_R))
		return;
	for (; bytes >= sizeof(entry);
	     table += sizeof(entry), bytes -= sizeof(entry)) {
		memcpy(&entry, (const void *)table, sizeof(entry));
		if (!(entry & 1)) {
			at = object->dlpi_addr + entry;
			add_moved(named, at);
			at += sizeof(entry);
			continue;
		}
		for (unsigned i = 0; i < 63; i++)
			if (entry >> (i + 1) & 1)
				add_moved(named, at + i * sizeof(entry));
		at += 63 * sizeof(entry);
	}
}

/*
 * Get the entry point from the ELF header, which is at the start of the first segment.
 */
static void add_start(const struct named *named)
{
	const struct dl_phdr_info *object = named->object;

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t at = object->dlpi_addr + ph->p_vaddr;
		ElfW(Ehdr) header;

		if (ph->p_type != PT_LOAD || ph->p_offset ||
		    !uaio_is_mapped(object, at, sizeof(header), PF_R))
			continue;
		memcpy(&header, (const void *)at, sizeof(header));
		if (!memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_entry)
			named->see(named->arg,
				   object->dlpi_addr + header.e_entry, true);
	}
}

void uaio_see_named(const struct dl_phdr_info *object,
		    void (*see)(void *arg, uintptr_t addr, bool is_code),
		    void *arg)
{
	const struct named named = { .object = object, .see = see, .arg = arg };
	struct dynamic dynamic;

	read_dynamic(object, &dynamic);
	add_start(&named);
	add_symbols(&named, &dynamic);
	add_relocated(&named, dynamic.rela, dynamic.rela_bytes);
	add_relocated(&named, dynamic.plt_rela, dynamic.plt_rela_bytes);
	add_packed(&named, dynamic.relr, dynamic.relr_bytes);
	if (dynamic.init)
		see(arg, dynamic.init, true);
	if (dynamic.fini)
		see(arg, dynamic.fini, true);
}

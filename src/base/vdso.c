/* SPDX-License-Identifier: MIT */
/*
 * The vDSO: the kernel's shared object, whose functions read the clock without a system
 * call
 *
 * The C library's clock_gettime() uses the vDSO, too. But other libraries, such as
 * libfaketime, may interpose clock_gettime(), and return another time than that of the
 * clock by which the kernel wakes sleepers.
 */
#include "base/sleep.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The parts of an ELF object that this file uses. The pointers are addresses in this
 * process.
 */
struct object {
	/* difference between an address in this process and one in the file */
	uintptr_t bias;
	const Elf64_Sym *symbols;
	const char *names;
	/*
	 * Hash tables; each shows how many symbols there are. NULL: the object lacks
	 * this table.
	 */
	const uint32_t *hash;
	const uint32_t *gnu_hash;
};

/* Return: the object's dynamic section, or NULL. */
static const Elf64_Dyn *find_dynamic(const void *image, struct object *object)
{
	const Elf64_Ehdr *header = image;
	const Elf64_Phdr *part =
		(const void *)((const char *)image + header->e_phoff);
	const Elf64_Phdr *dynamic = NULL;
	bool has_bias = false;

	for (unsigned i = 0; i < header->e_phnum; i++) {
		if (part[i].p_type == PT_DYNAMIC)
			dynamic = &part[i];
		if (part[i].p_type != PT_LOAD || has_bias)
			continue;
		object->bias =
			(uintptr_t)image + part[i].p_offset - part[i].p_vaddr;
		has_bias = true;
	}
	if (!dynamic || !has_bias)
		return NULL;
	return (const Elf64_Dyn *)(object->bias + dynamic->p_vaddr);
}

static bool read_dynamic(const Elf64_Dyn *entry, struct object *object)
{
	for (; entry->d_tag != DT_NULL; entry++) {
		const void *at =
			(const void *)(object->bias + entry->d_un.d_ptr);

		switch (entry->d_tag) {
		case DT_SYMTAB: object->symbols = at; break;
		case DT_STRTAB: object->names = at; break;
		case DT_HASH: object->hash = at; break;
		case DT_GNU_HASH: object->gnu_hash = at; break;
		default: break;
		}
	}
	return object->symbols && object->names;
}

/*
 * Return: the number of symbols. A GNU hash table does not contain this number. So find
 * the chain that begins at the highest symbol index, and follow it to its end, which is
 * the last symbol.
 */
static uint32_t count_by_gnu_hash(const uint32_t *table)
{
	uint32_t nr_buckets = table[0], first = table[1], nr_words = table[2];
	const uint32_t *buckets = table + 4 + 2 * (size_t)nr_words;
	const uint32_t *chains = buckets + nr_buckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < nr_buckets; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < first)
		return first;
	while (!(chains[last - first] & 1))
		last++;
	return last + 1;
}

static uint32_t count_symbols(const struct object *object)
{
	if (object->hash)
		return object->hash[1];
	return object->gnu_hash ? count_by_gnu_hash(object->gnu_hash) : 0;
}

void *uaio_vdso_find(const void *image, const char *name)
{
	const Elf64_Ehdr *header = image;
	struct object object = { 0 };
	const Elf64_Dyn *dynamic;
	uint32_t nr;

	if (!image || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_ident[EI_CLASS] != ELFCLASS64)
		return NULL;
	dynamic = find_dynamic(image, &object);
	if (!dynamic || !read_dynamic(dynamic, &object))
		return NULL;
	nr = count_symbols(&object);
	for (uint32_t i = 0; i < nr; i++) {
		const Elf64_Sym *symbol = &object.symbols[i];

		if (symbol->st_shndx != SHN_UNDEF &&
		    ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
		    strcmp(object.names + symbol->st_name, name) == 0)
			return (void *)(object.bias + symbol->st_value);
	}
	return NULL;
}

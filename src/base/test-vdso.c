/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/sleep.h"
#include "unit.h"

#if defined(__x86_64__)
#define CLOCK_NAME "__vdso_clock_gettime"
#else
#define CLOCK_NAME "__kernel_clock_gettime"
#endif

/*
 * An ELF object as the kernel might map it, with three symbols: foo, bar, and the empty
 * symbol that begins every symbol table.
 */
static struct image {
	Elf64_Ehdr header;
	Elf64_Phdr parts[2];
	Elf64_Dyn dynamic[5];
	Elf64_Sym symbols[3];
	char names[16];
	uint32_t hash[2];
	uint32_t gnu_hash[4 + 2 + 2 + 2];
} image;

enum { LINKED_AT = 0x10000 };

static uint64_t address_of(const void *member)
{
	return LINKED_AT +
	       (uint64_t)((const char *)member - (const char *)&image);
}

static Elf64_Sym symbol_of(uint32_t name, uint64_t value)
{
	return (Elf64_Sym){
		.st_name = name,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = LINKED_AT + value,
	};
}

static void make_image(bool is_gnu)
{
	const void *hash = is_gnu ? (const void *)image.gnu_hash : image.hash;

	memset(&image, 0, sizeof(image));
	memcpy(image.header.e_ident, ELFMAG, SELFMAG);
	image.header.e_ident[EI_CLASS] = ELFCLASS64;
	image.header.e_phoff = offsetof(struct image, parts);
	image.header.e_phnum = 2;
	image.parts[0] =
		(Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = LINKED_AT };
	image.parts[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
				       .p_vaddr = address_of(image.dynamic) };
	image.dynamic[0].d_tag = DT_SYMTAB;
	image.dynamic[0].d_un.d_ptr = address_of(image.symbols);
	image.dynamic[1].d_tag = DT_STRTAB;
	image.dynamic[1].d_un.d_ptr = address_of(image.names);
	image.dynamic[2].d_tag = is_gnu ? DT_GNU_HASH : DT_HASH;
	image.dynamic[2].d_un.d_ptr = address_of(hash);
	memcpy(image.names, "\0foo\0bar", 9);
	image.symbols[1] = symbol_of(1, 64);
	image.symbols[2] = symbol_of(5, 128);
	image.hash[1] = 3;
	/*
	 * The hash table has two buckets and a Bloom filter of one word. Symbol 1 is
	 * the first symbol that has a hash.
	 */
	memcpy(image.gnu_hash, (uint32_t[]){ 2, 1, 1, 0, 0, 0, 0, 1, 2, 3 },
	       sizeof(image.gnu_hash));
}

static void a_function_is_found_by_its_name(void **state)
{
	char *base = (char *)&image;

	(void)state;
	for (int is_gnu = 0; is_gnu < 2; is_gnu++) {
		make_image(is_gnu);
		assert_ptr_equal(uaio_vdso_find(&image, "foo"), base + 64);
		assert_ptr_equal(uaio_vdso_find(&image, "bar"), base + 128);
		assert_null(uaio_vdso_find(&image, "ba"));
		assert_null(uaio_vdso_find(&image, ""));
	}
	image.symbols[2].st_shndx = SHN_UNDEF;
	assert_null(uaio_vdso_find(&image, "bar"));
}

static void an_image_without_symbols_has_no_functions(void **state)
{
	(void)state;
	assert_null(uaio_vdso_find(NULL, "foo"));
	make_image(false);
	image.header.e_ident[0] = 0;
	assert_null(uaio_vdso_find(&image, "foo"));
	make_image(false);
	image.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_null(uaio_vdso_find(&image, "foo"));
	for (unsigned i = 0; i < 2; i++) {
		make_image(false);
		image.parts[i].p_type = PT_NULL;
		assert_null(uaio_vdso_find(&image, "foo"));
	}
	/*
	 * Remove one entry of the dynamic section at a time: symbol table, string
	 * table, hash table. Then the function is not found.
	 */
	for (unsigned i = 0; i < 3; i++) {
		make_image(false);
		image.dynamic[i].d_tag = DT_DEBUG;
		assert_null(uaio_vdso_find(&image, "foo"));
	}
}

/*
 * The kernel's real vDSO, which only some sandboxes lack, reads the same clock as the
 * system call.
 */
static void the_kernels_own_object_has_the_clock(void **state)
{
	const void *vdso = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	int (*read_clock)(int, struct timespec *);
	struct timespec before, now, after;

	(void)state;
	if (!vdso)
		skip();
	*(void **)&read_clock = uaio_vdso_find(vdso, CLOCK_NAME);
	assert_non_null(read_clock);
	assert_int_equal(sys_clock_gettime(CLOCK_MONOTONIC, &before), 0);
	assert_int_equal(read_clock(CLOCK_MONOTONIC, &now), 0);
	assert_int_equal(sys_clock_gettime(CLOCK_MONOTONIC, &after), 0);
	assert_true(
		before.tv_sec < now.tv_sec ||
		(before.tv_sec == now.tv_sec && before.tv_nsec <= now.tv_nsec));
	assert_true(
		now.tv_sec < after.tv_sec ||
		(now.tv_sec == after.tv_sec && now.tv_nsec <= after.tv_nsec));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_function_is_found_by_its_name),
		UNIT_TEST(an_image_without_symbols_has_no_functions),
		UNIT_TEST(the_kernels_own_object_has_the_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Collects the system calls that the loaded objects may make by their own instructions
 * (scan.h)
 *
 * Tested by test-scan.c.
 */
#include "patch/scan.h"

#if defined(__x86_64__)
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/atomic.h"
#include "base/loader.h"
#include "base/lock.h"
#include "base/uaddr.h"
#include "patch/code.h"

enum {
	OBJECTS_MAX = 2048,
	NR_WORDS = UAIO_OWN_CALLS_MAX / 64,
};

static struct {
	struct uaio_lock lock; /* held by the thread that scans */
	/* atomic, relaxed: bits are only added */
	struct uaio_own_calls calls;
	uint64_t
		adds; /* atomic: number of objects loaded until the last scan */
	/* Under the lock: */
	uint64_t subs; /* number of objects unloaded until the last scan */
	const ElfW(Phdr) * known[OBJECTS_MAX]; /* headers of scanned objects */
	size_t nr_known;
} found;

/* One call of dl_iterate_phdr(). */
struct pass {
	bool has_begun; /* there is an object to scan, and this thread scans it */
	bool is_busy;   /* another thread scans */
	uint64_t adds;
};

/* Beginnings of the names of objects that are not scanned. */
static const char *const passed_over[] = {
	"ld-linux",  "ld-musl",        "libc.so.",    "libc.musl-",
	"librt.so.", "libpthread.so.", "linux-vdso.",
};

static bool is_passed_over(const char *path)
{
	const char *name = uaio_base_name(path);

	for (size_t i = 0; i < sizeof(passed_over) / sizeof(passed_over[0]);
	     i++)
		if (uaio_has_prefix(name, passed_over[i]))
			return true;
	return false;
}

static bool is_wanted(const struct dl_phdr_info *object)
{
	return !is_passed_over(object->dlpi_name) &&
	       !uaio_region_is_in_ours(object);
}

/* Return: whether the object has been scanned; it counts as scanned from now on. */
static bool is_known(const struct dl_phdr_info *object)
{
	for (size_t i = 0; i < found.nr_known; i++)
		if (found.known[i] == object->dlpi_phdr)
			return true;
	if (found.nr_known < OBJECTS_MAX)
		found.known[found.nr_known++] = object->dlpi_phdr;
	return false;
}

static void publish(const struct uaio_own_calls *calls)
{
	for (size_t i = 0; i < NR_WORDS; i++)
		or_relaxed(&found.calls.words[i], calls->words[i]);
	if (calls->has_any)
		store_relaxed(&found.calls.has_any, true);
}

/* Return: whether this thread has to scan. */
static bool begin(struct pass *pass, const struct dl_phdr_info *object)
{
	/* [MB:scan] acquire: read the results of the last scan after this. */
	if (load_acquire(&found.adds) == object->dlpi_adds)
		return false;
	pass->is_busy = !uaio_trylock(&found.lock, UAIO_RANK_SCAN);
	if (pass->is_busy)
		return false;
	pass->has_begun = true;
	pass->adds = object->dlpi_adds;
	/*
	 * The program headers of a new object may be where those of an unloaded object were.
	 */
	if (found.subs != object->dlpi_subs)
		found.nr_known = 0;
	found.subs = object->dlpi_subs;
	return true;
}

static int scan_new(struct dl_phdr_info *object, size_t bytes, void *data)
{
	struct pass *pass = data;
	struct uaio_own_calls calls = { 0 };

	(void)bytes;
	if (!pass->has_begun && !begin(pass, object))
		return 1;
	if (is_known(object) || !is_wanted(object))
		return 0;
	uaio_scan_object(object, &calls);
	publish(&calls);
	return 0;
}

/* Return: whether these program headers describe the object: they name its l_ld. */
static bool is_of(const struct link_map *map, const struct dl_phdr_info *object)
{
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];

		if (ph->p_type == PT_DYNAMIC)
			return map->l_addr + ph->p_vaddr ==
			       (uintptr_t)map->l_ld;
	}
	return false;
}

/* Describe an object whose ELF header is mapped at its load bias, as most are. */
static bool describe_by_header(const struct link_map *map,
			       struct dl_phdr_info *ret)
{
	const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)map->l_addr;
	size_t bytes;

	if (!uaio_can_read(map->l_addr, sizeof(*elf)) ||
	    memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_phentsize != sizeof(ElfW(Phdr)))
		return false;
	bytes = elf->e_phnum * sizeof(ElfW(Phdr));
	if (!uaio_can_read(map->l_addr + elf->e_phoff, bytes))
		return false;
	ret->dlpi_phdr = (const ElfW(Phdr) *)(map->l_addr + elf->e_phoff);
	ret->dlpi_phnum = elf->e_phnum;
	return is_of(map, ret);
}

/* Describe the program itself, which may be linked to a fixed address. */
static bool describe_program(const struct link_map *map,
			     struct dl_phdr_info *ret)
{
	ret->dlpi_phdr = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	ret->dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM);
	return ret->dlpi_phdr && is_of(map, ret);
}

/* Return: whether all objects of the list have been scanned. */
static bool scan_list(const struct r_debug *debug)
{
	if (!debug || debug->r_state != RT_CONSISTENT)
		return false;
	for (const struct link_map *map = debug->r_map; map;
	     map = map->l_next) {
		struct dl_phdr_info object = { .dlpi_addr = map->l_addr,
					       .dlpi_name = map->l_name };
		struct uaio_own_calls calls = { 0 };

		if (is_passed_over(map->l_name))
			continue;
		if (!describe_by_header(map, &object) &&
		    !describe_program(map, &object))
			return false;
		if (is_known(&object) || uaio_region_is_in_ours(&object))
			continue;
		uaio_scan_object(&object, &calls);
		publish(&calls);
	}
	return debug->r_map;
}

static bool has_call(uint32_t first, uint32_t last)
{
	for (uint32_t nr = first; nr <= last && nr < UAIO_OWN_CALLS_MAX; nr++)
		if (load_relaxed(&found.calls.words[nr / 64]) >> nr % 64 & 1)
			return true;
	return false;
}

static bool has_one(const struct uaio_numbers *numbers, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (has_call(numbers[i].first, numbers[i].last))
			return true;
	return load_relaxed(&found.calls.has_any);
}

bool uaio_patch_may_call(const struct uaio_numbers *numbers, size_t nr)
{
	struct pass pass = { 0 };

	/* A scan could add nothing, as any system call is already possible. */
	if (load_relaxed(&found.calls.has_any))
		return true;
	(void)dl_iterate_phdr(scan_new, &pass);
	if (pass.has_begun) {
		/* [MB:scan] release: the results are stored before this. Pairs with begin(). */
		store_release(&found.adds, pass.adds);
		uaio_unlock(&found.lock, UAIO_RANK_SCAN);
	}
	return pass.is_busy || has_one(numbers, nr);
}

bool uaio_patch_may_call_alone(const struct r_debug *debug,
			       const struct uaio_numbers *numbers, size_t nr)
{
	bool is_whole;

	/* A thread that does not exist in the child of fork() may hold this lock, too. */
	if (!uaio_trylock(&found.lock, UAIO_RANK_SCAN))
		return true;
	is_whole = scan_list(debug);
	uaio_unlock(&found.lock, UAIO_RANK_SCAN);
	return !is_whole || has_one(numbers, nr);
}

#else /* not x86-64 */

bool uaio_patch_may_call(const struct uaio_numbers *numbers, size_t nr)
{
	(void)numbers;
	(void)nr;
	return true;
}

bool uaio_patch_may_call_alone(const struct r_debug *debug,
			       const struct uaio_numbers *numbers, size_t nr)
{
	(void)debug;
	return uaio_patch_may_call(numbers, nr);
}

#endif

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
	/* a thread holds this lock while it scans objects */
	struct uaio_lock lock;
	/* atomic, relaxed: bits are only set, never cleared */
	struct uaio_own_calls calls;
	/*
	 * atomic: number of objects that were loaded until the last scan
	 * (dlpi_adds)
	 */
	uint64_t adds;
	/* The next members are under the lock. */
	/* number of objects that were unloaded until the last scan (dlpi_subs) */
	uint64_t subs;
	/* program headers of the scanned objects */
	const ElfW(Phdr) * known[OBJECTS_MAX];
	size_t nr_known;
} found;

/* State during one call of dl_iterate_phdr(). */
struct pass {
	/* this thread has taken the lock, and scans the new objects */
	bool has_begun;
	bool is_busy; /* another thread scans */
	uint64_t adds;
};

/*
 * The first letters of the file names of C libraries, dynamic loaders and the vdso,
 * which are not scanned (scan.h).
 */
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

/*
 * Return: whether the object has been scanned before. From now on it counts as scanned.
 */
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

/*
 * Return: whether this thread must scan: new objects were loaded, and no other thread
 * scans.
 */
static bool begin(struct pass *pass, const struct dl_phdr_info *object)
{
	/*
	 * [MB:scan] acquire: after this load, this thread reads the results of the last
	 * scan.
	 */
	if (load_acquire(&found.adds) == object->dlpi_adds)
		return false;
	pass->is_busy = !uaio_trylock(&found.lock, UAIO_RANK_SCAN);
	if (pass->is_busy)
		return false;
	pass->has_begun = true;
	pass->adds = object->dlpi_adds;
	/*
	 * If objects were unloaded, scan all objects again: a new object may have its
	 * program headers at the address where an unloaded object had them.
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

/*
 * Return: whether the program headers belong to the object that map describes: their
 * dynamic section is at map->l_ld.
 */
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

/*
 * Fill in ret for an object whose ELF header is mapped at its load bias, as for most
 * objects.
 */
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

/* Fill in ret for the program itself, which may be linked to a fixed address. */
static bool describe_program(const struct link_map *map,
			     struct dl_phdr_info *ret)
{
	ret->dlpi_phdr = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	ret->dlpi_phnum = (ElfW(Half))getauxval(AT_PHNUM);
	return ret->dlpi_phdr && is_of(map, ret);
}

/*
 * Scan all objects of the loader's list.
 * Return: false if some object cannot be scanned.
 */
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

	/* If some instruction may make any system call, no scan is needed. */
	if (load_relaxed(&found.calls.has_any))
		return true;
	(void)dl_iterate_phdr(scan_new, &pass);
	if (pass.has_begun) {
		/*
		 * [MB:scan] release: this thread has stored the results of this scan.
		 * Pairs with the acquire in begin().
		 */
		store_release(&found.adds, pass.adds);
		uaio_unlock(&found.lock, UAIO_RANK_SCAN);
	}
	return pass.is_busy || has_one(numbers, nr);
}

bool uaio_patch_may_call_alone(const struct r_debug *debug,
			       const struct uaio_numbers *numbers, size_t nr)
{
	bool is_whole;

	/*
	 * If the trylock fails, a thread of the parent process held the lock during
	 * fork(). That thread does not exist in the child, so the lock stays locked, and
	 * nothing can be scanned. So return true: any call may be made.
	 */
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

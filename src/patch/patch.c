/* SPDX-License-Identifier: MIT */
#include "patch/patch.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/newer.h"
#include "base/sys.h"
#include "base/threads.h"
#include "patch/code.h"
#include "patch/find.h"

enum {
	SITES_MAX = 256,
	OBJECTS_MAX = 2048,
	HINTS = 64,
};

long uaio_patch_call(int nr, const long args[6])
	__attribute__((visibility("hidden")));

/*
 * All members but ops are under the loader's lock. ops does not change after
 * uaio_patch_load().
 */
static struct {
	const struct uaio_patch_ops *ops;
	struct r_debug *debug;
	/*
	 * program headers of each object that was inspected; NULL: the slot is free
	 */
	const ElfW(Phdr) * known[OBJECTS_MAX];
	bool is_there[OBJECTS_MAX];
	/* all slots from this index on are free */
	size_t nr_known;
	struct uaio_site sites[SITES_MAX];
	size_t page;
	/*
	 * Set after the objects that were already loaded have been inspected. So each
	 * object that is inspected later is just being loaded.
	 */
	bool has_loaded;
	/*
	 * atomic, relaxed: set if some call site may be unpatched, before the loader runs
	 * any code of the object with this site
	 */
	bool has_left;
	/*
	 * The next two members are atomic. Relaxed accesses are enough, because the
	 * loader's lock already orders the loading of objects.
	 */
	/*
	 * how often objects were loaded or unloaded, plus 1; 0: the loader's function for
	 * debuggers (patch.h, I1) is not patched
	 */
	uint32_t nr_loads;
	/* id of the process in which objects were last loaded or unloaded */
	uint32_t loads_pid;
} patch;

/*
 * Memory for trampolines
 */

static bool is_within_reach(const uint8_t *region, size_t bytes, uintptr_t low,
			    uintptr_t high)
{
	uintptr_t start = (uintptr_t)region, end = start + bytes;
	uintptr_t first = start < low ? start : low;
	uintptr_t last = end > high ? end : high;

	return last - first < UAIO_CODE_REACH;
}

/*
 * Return: memory for trampolines; NULL: none. Jumps can span the distance from any code
 * in [low, high) to this memory, and back.
 */
static uint8_t *new_region(size_t bytes, uintptr_t low, uintptr_t high)
{
	/*
	 * A program that is linked to a fixed address, such as 4 or 16 MiB, has little
	 * space below its code. So try addresses at smaller distances from each other.
	 */
	const uintptr_t step =
		low > 2ul * HINTS * UAIO_CODE_STEP ? UAIO_CODE_STEP : 1ul << 17;
	uintptr_t hint = (low & ~(patch.page - 1)) - bytes;

	/* Search below the code, because the heap may grow above it. */
	for (unsigned i = 0; i < HINTS && hint > step; i++, hint -= step) {
		uint8_t *region =
			sys_mmap((void *)hint, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS);

		if (sys_is_map_error(region))
			return NULL;
		if (is_within_reach(region, bytes, low, high))
			return region;
		(void)sys_munmap(region, bytes);
	}
	return NULL;
}

/*
 * Writing jumps over code of the program
 */

/*
 * Return: whether no other thread can execute the code that is about to be patched
 * (I2).
 */
static bool is_alone(void)
{
	if (patch.has_loaded)
		return true;
	/* glibc before 2.32, and musl, lack this variable: query the thread count. */
	return &__libc_single_threaded ? __libc_single_threaded
				       : uaio_has_threads(1);
}

/*
 * Make the code writable, and write a jump over it.
 * Return: false if this was not possible (I2, I3).
 */
static bool write_code(uint8_t *at, size_t nr, const uint8_t *to)
{
	uintptr_t first = (uintptr_t)at & ~(patch.page - 1);
	uintptr_t last = ((uintptr_t)at + nr - 1) & ~(patch.page - 1);
	size_t bytes = last - first + patch.page;
	const int code = PROT_READ | PROT_EXEC;
	bool is_written;

	if (sys_mprotect_exec((void *)first, bytes, code | PROT_WRITE) < 0) {
		/*
		 * If the bytes are in two mappings, mprotect() may have changed only
		 * the first one: restore it.
		 */
		if (first != last)
			(void)sys_mprotect_exec((void *)first, patch.page,
						code);
		return false;
	}
	is_written = uaio_code_write_jump(at, nr, to, is_alone());
	(void)sys_mprotect_exec((void *)first, bytes, code);
	return is_written;
}

/*
 * Make a region executable, after all its trampolines are written.
 * Return: whether that succeeded.
 */
static bool finish(uint8_t *region, size_t bytes)
{
	uaio_code_flush(region, bytes);
	return sys_mprotect_exec(region, bytes, PROT_READ | PROT_EXEC) == 0;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + patch.page - 1) & ~(patch.page - 1);
}

/*
 * Patch one site. Another thread may be between two instructions of the site. So a site
 * with several instructions is patched only if no other thread can execute it.
 */
static bool change_one(const struct uaio_site *site, const uint8_t *to)
{
	return (!site->has_more || is_alone()) &&
	       write_code(site->mov, site->bytes, to);
}

/* Patch nr call sites of one object. Return: how many sites were patched. */
static size_t change(const struct uaio_site *sites, size_t nr)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	size_t bytes = whole_pages((nr + 1) * UAIO_SLOT_BYTES), nr_done = 0;
	uint8_t *region;

	for (size_t i = 0; i < nr; i++) {
		const uintptr_t start = (uintptr_t)sites[i].mov;
		const uintptr_t end =
			(uintptr_t)sites[i].syscall + UAIO_SITE_SYSCALL_BYTES;

		low = start < low ? start : low;
		high = end > high ? end : high;
	}
	region = new_region(bytes, low, high);
	if (!region)
		return 0;
	uaio_region_init((struct uaio_region *)region, bytes, uaio_patch_entry);
	for (size_t i = 0; i < nr; i++)
		uaio_code_put_site(region + (i + 1) * UAIO_SLOT_BYTES, region,
				   &sites[i]);
	if (finish(region, bytes))
		for (size_t i = 0; i < nr; i++)
			nr_done += change_one(
				&sites[i], region + (i + 1) * UAIO_SLOT_BYTES);
	if (nr_done)
		uaio_region_add((const struct uaio_region *)region);
	else
		(void)sys_munmap(region, bytes);
	return nr_done;
}

/*
 * Inspecting the objects that the loader has loaded
 */

/* Return: whether the object was inspected before. From now on it counts as inspected. */
static bool is_known(const struct dl_phdr_info *object)
{
	size_t free = patch.nr_known;

	for (size_t i = 0; i < patch.nr_known; i++) {
		if (patch.known[i] == object->dlpi_phdr) {
			patch.is_there[i] = true;
			return true;
		}
		if (!patch.known[i] && free == patch.nr_known)
			free = i;
	}
	if (free == OBJECTS_MAX)
		return true;
	if (free == patch.nr_known)
		patch.nr_known++;
	patch.known[free] = object->dlpi_phdr;
	patch.is_there[free] = true;
	return false;
}

/*
 * Return: whether to inspect the object. False for the library itself (I4). Also false
 * for an object with text relocations (DT_TEXTREL), because the loader itself changes
 * that object's code.
 */
static bool is_wanted(const struct dl_phdr_info *object)
{
	if (uaio_region_is_in_ours(object))
		return false;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_DYNAMIC)
			continue;
		for (const ElfW(Dyn) *dyn = (const ElfW(Dyn) *)start;
		     dyn->d_tag != DT_NULL; dyn++)
			if (dyn->d_tag == DT_TEXTREL)
				return false;
	}
	return true;
}

static int look_at(struct dl_phdr_info *object, size_t bytes, void *unused)
{
	size_t nr, nr_left, nr_done = 0;

	(void)bytes;
	(void)unused;
	if (is_known(object) || !is_wanted(object))
		return 0;
	nr = uaio_find_sites(object, patch.sites, SITES_MAX, &nr_left);
	if (nr)
		nr_done = change(patch.sites, nr);
	if (nr_done < nr || nr_left)
		store_relaxed(&patch.has_left, true);
	if (nr + nr_left)
		patch.ops->report(object->dlpi_name, nr_done,
				  nr - nr_done + nr_left);
	return 0;
}

static void look_at_all(void)
{
	memset(patch.is_there, 0, sizeof(patch.is_there));
	(void)dl_iterate_phdr(look_at, NULL);
	/*
	 * Forget the objects that were unloaded: a new object may be mapped at the same
	 * address.
	 */
	for (size_t i = 0; i < patch.nr_known; i++)
		if (!patch.is_there[i])
			patch.known[i] = NULL;
}

struct left {
	/* an address in the object that is to be searched */
	uintptr_t addr;
	bool has_enter;
};

/*
 * If the object contains left->addr, record whether it has unpatched calls of
 * io_uring_enter. (uaio_find_calls() does not find patched calls.)
 */
static int look_for_left(struct dl_phdr_info *object, size_t bytes, void *data)
{
	static const struct uaio_numbers enter = { SYS_io_uring_enter,
						   SYS_io_uring_enter };
	struct left *left = data;
	size_t nr, nr_left;

	(void)bytes;
	if (!uaio_region_is_in(object, left->addr))
		return 0;
	nr = uaio_find_calls(object, &enter, patch.sites, SITES_MAX, &nr_left);
	left->has_enter = nr + nr_left;
	return 1;
}

bool uaio_patch_has_left(const void *addr)
{
	struct left left = { .addr = (uintptr_t)addr };

	if (!patch.has_loaded || load_relaxed(&patch.has_left))
		(void)dl_iterate_phdr(look_for_left, &left);
	return left.has_enter;
}

long uaio_patch_call(int nr, const long args[6])
{
	if (nr != UAIO_CODE_HOOK)
		return patch.ops->call(nr, args);
	if (patch.debug->r_state == RT_CONSISTENT) {
		store_relaxed(&patch.loads_pid, (uint32_t)sys_getpid());
		add_relaxed(&patch.nr_loads, 1);
		look_at_all();
	}
	return 0;
}

/*
 * What happens when this library is loaded
 */

/*
 * Patch the loader's empty function for debuggers (I1).
 * Return: whether that succeeded.
 */
static bool hook_loader(void)
{
	size_t bytes = whole_pages(2 * UAIO_SLOT_BYTES), nr;
	uint8_t *function, *region;

	patch.debug = dlsym(RTLD_DEFAULT, "_r_debug");
	if (!patch.debug || !patch.debug->r_brk)
		return false;
	function = (uint8_t *)patch.debug->r_brk;
	function = uaio_code_empty_function(function, &nr);
	if (!function)
		return false;
	region = new_region(bytes, (uintptr_t)function,
			    (uintptr_t)function + nr);
	if (!region)
		return false;
	uaio_region_init((struct uaio_region *)region, bytes, uaio_patch_entry);
	uaio_code_put_hook(region + UAIO_SLOT_BYTES, region);
	if (finish(region, bytes) &&
	    write_code(function, nr, region + UAIO_SLOT_BYTES))
		return true;
	(void)sys_munmap(region, bytes);
	return false;
}

const struct r_debug *uaio_patch_debug(void)
{
	return patch.debug;
}

uint32_t uaio_patch_loads(void)
{
	return load_relaxed(&patch.nr_loads);
}

bool uaio_patch_has_loaded(void)
{
	return load_relaxed(&patch.loads_pid) == (uint32_t)sys_getpid();
}

void uaio_patch_load(const struct uaio_patch_ops *ops)
{
	patch.ops = ops;
	patch.page = getauxval(AT_PAGESZ);
	uaio_patch_save_load();
	/*
	 * If hook_loader() fails, objects that are loaded later are not patched, and
	 * uaio_patch_has_left() inspects them.
	 */
	if (hook_loader())
		store_relaxed(&patch.nr_loads, 1);
	else
		store_relaxed(&patch.has_left, true);
	look_at_all();
	patch.has_loaded = true;
}

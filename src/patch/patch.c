/* SPDX-License-Identifier: MIT */
#include "patch/patch.h"

#if defined(__x86_64__)
#include <cpuid.h>
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
#include "patch/find.h"
#include "patch/regions.h"

enum {
	SITES_MAX = 256,
	OBJECTS_MAX = 2048,
	JUMP_BYTES = 5,
	NOP = 0x90,
	RED_ZONE = 128,
	HOOK = -1, /* in place of a number: the loader has mapped something */
	HINTS = 64,
	REACH = 0x7ff00000, /* of a jump; a little less than it has */
};

/*
 * What entry.S saves: the mask of xsave, how, and how many bytes it takes. quick:
 * the registers may be saved one by one if xgetbv says that no part in upper is in
 * use: 16 of 16 bytes, or with 2 also 16 of 64 bytes and the masks, if one in rest is.
 */
struct {
	uint32_t mask;
	uint32_t how; /* 0: fxsave; 1: xsave; 2: xsavec */
	uint64_t bytes;
	uint32_t quick;
	uint32_t upper;
	uint32_t rest;
} uaio_patch_save __attribute__((visibility("hidden"))) = { .bytes = 512 };

void uaio_patch_entry(void) __attribute__((visibility("hidden")));
long uaio_patch_call(int nr, const long args[6])
	__attribute__((visibility("hidden")));

long (*uaio_patch_other)(int nr, const long args[6]);

/* Under the loader's lock, but for ops, which does not change. */
static struct {
	const struct uaio_patch_ops *ops;
	struct r_debug *debug;
	/* Program headers of the objects that have been looked at. */
	const ElfW(Phdr) * known[OBJECTS_MAX];
	bool is_there[OBJECTS_MAX];
	size_t nr_known; /* what is behind them is free */
	struct uaio_site sites[SITES_MAX];
	size_t page;
	bool has_loaded; /* what is looked at is being loaded */
	/* atomic, relaxed: a place was not changed; set before its code can run */
	bool has_left;
} patch;

/*
 * Trampolines
 */

static void put(uint8_t **at, const void *bytes, size_t nr)
{
	memcpy(*at, bytes, nr);
	*at += nr;
}

#define PUT(at, ...)                              \
	put(at, (const uint8_t[]){ __VA_ARGS__ }, \
	    sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* An opcode, and the distance to `to` from behind the instruction. */
static void put_near(uint8_t **at, const void *opcode, size_t nr,
		     const uint8_t *to)
{
	int32_t distance = (int32_t)(to - (*at + nr + 4));

	put(at, opcode, nr);
	put(at, &distance, 4);
}

/* call *entry, where entry has the address of uaio_patch_entry */
static void put_call(uint8_t **at, const uint8_t *entry)
{
	put_near(at, "\xff\x15", 2, entry);
}

static void put_site(uint8_t *at, const uint8_t *entry,
		     const struct uaio_site *site)
{
	memcpy(at + UAIO_SLOT_NUMBER, &site->nr, sizeof(site->nr));
	put(&at, site->mov, (size_t)(site->syscall - site->mov));
	/* lea -RED_ZONE(%rsp), %rsp */
	PUT(&at, 0x48, 0x8d, 0x64, 0x24, (uint8_t)-RED_ZONE);
	put_call(&at, entry);
	/* lea RED_ZONE(%rsp), %rsp */
	PUT(&at, 0x48, 0x8d, 0xa4, 0x24, RED_ZONE, 0, 0, 0);
	put_near(&at, "\xe9", 1, site->syscall + 2);
}

/* In place of the loader's empty function. */
static void put_hook(uint8_t *at, const uint8_t *entry)
{
	PUT(&at, 0x50);                         /* push %rax */
	PUT(&at, 0xb8, 0xff, 0xff, 0xff, 0xff); /* mov $HOOK, %eax */
	put_call(&at, entry);
	PUT(&at, 0x58, 0xc3); /* pop %rax; ret */
}

static bool is_within_reach(const uint8_t *region, size_t bytes, uintptr_t low,
			    uintptr_t high)
{
	uintptr_t start = (uintptr_t)region, end = start + bytes;
	uintptr_t first = start < low ? start : low;
	uintptr_t last = end > high ? end : high;

	return last - first < REACH;
}

/* Return: memory from which all of [low, high) can be reached; or NULL. */
static uint8_t *new_region(size_t bytes, uintptr_t low, uintptr_t high)
{
	const uintptr_t step = 1 << 24;
	uintptr_t hint = (low & ~(patch.page - 1)) - bytes;

	/* Below it, as the heap may grow above. */
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
 * Writing code
 */

/* Return: whether no other thread may execute the code. */
static bool is_alone(void)
{
	return patch.has_loaded ||
	       (&__libc_single_threaded && __libc_single_threaded);
}

/* Return: whether it was written (I2). */
static bool write_jump(uint8_t *at, size_t bytes, const uint8_t *to)
{
	uint64_t *word = (uint64_t *)((uintptr_t)at & ~7ul), value;
	size_t offset = (uintptr_t)at & 7;
	uint8_t jump[UAIO_SITE_BYTES_MAX], *end = jump;
	int32_t distance = (int32_t)(to - (at + JUMP_BYTES));

	PUT(&end, 0xe9);
	put(&end, &distance, 4);
	memset(end, NOP, bytes - JUMP_BYTES);
	if (offset + bytes <= sizeof(*word)) {
		value = load_relaxed(word);
		memcpy((uint8_t *)&value + offset, jump, bytes);
		/*
		 * One store, in assembly: a sanitizer knows of no code that is
		 * written. The trampoline was there before its memory could be
		 * executed, which took a system call.
		 */
		__asm__ volatile("movq %1, %0" : "=m"(*word) : "r"(value));
		return true;
	}
	if (!is_alone())
		return false;
	memcpy(at, jump, bytes);
	return true;
}

/* The same, in memory that must be made writable first. */
static bool write_code(uint8_t *at, size_t nr, const uint8_t *to)
{
	uintptr_t first = (uintptr_t)at & ~(patch.page - 1);
	uintptr_t last = ((uintptr_t)at + nr - 1) & ~(patch.page - 1);
	size_t bytes = last - first + patch.page;
	const int code = PROT_READ | PROT_EXEC;
	bool is_written;

	if (sys_mprotect_exec((void *)first, bytes, code | PROT_WRITE) < 0) {
		/* Of two mappings the first may have been changed. */
		if (first != last)
			(void)sys_mprotect_exec((void *)first, patch.page,
						code);
		return false;
	}
	is_written = write_jump(at, nr, to);
	(void)sys_mprotect_exec((void *)first, bytes, code);
	return is_written;
}

/* The region is complete. Return: whether it can be executed. */
static bool finish(uint8_t *region, size_t bytes)
{
	return sys_mprotect_exec(region, bytes, PROT_READ | PROT_EXEC) == 0;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + patch.page - 1) & ~(patch.page - 1);
}

/* A thread may be between the instructions of a site, if it has more than one. */
static bool change_one(const struct uaio_site *site, const uint8_t *to)
{
	return (!site->has_more || is_alone()) &&
	       write_code(site->mov, site->bytes, to);
}

/* Return: how many of the sites were changed. */
static size_t change(const struct uaio_site *sites, size_t nr)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	size_t bytes = whole_pages((nr + 1) * UAIO_SLOT_BYTES), nr_done = 0;
	uint8_t *region;

	for (size_t i = 0; i < nr; i++) {
		const uintptr_t start = (uintptr_t)sites[i].mov;
		const uintptr_t end = (uintptr_t)sites[i].syscall + 2;

		low = start < low ? start : low;
		high = end > high ? end : high;
	}
	region = new_region(bytes, low, high);
	if (!region)
		return 0;
	uaio_region_init((struct uaio_region *)region, bytes, uaio_patch_entry);
	for (size_t i = 0; i < nr; i++)
		put_site(region + (i + 1) * UAIO_SLOT_BYTES, region, &sites[i]);
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
 * Objects
 */

/* Return: whether the object has been looked at; it is from now on. */
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

/* I4; and code that the loader still has to write to is left alone. */
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
	if (nr_done < nr)
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
	/* Another object may come to where one was unloaded. */
	for (size_t i = 0; i < patch.nr_known; i++)
		if (!patch.is_there[i])
			patch.known[i] = NULL;
}

/* What is left of an object. */
struct left {
	uintptr_t addr; /* in its memory */
	bool has_enter;
};

/* A place that was changed is none any more. */
static int look_for_left(struct dl_phdr_info *object, size_t bytes, void *data)
{
	struct left *left = data;
	size_t nr, nr_left;

	(void)bytes;
	if (!uaio_region_is_in(object, left->addr))
		return 0;
	nr = uaio_find_sites(object, patch.sites, SITES_MAX, &nr_left);
	for (size_t i = 0; i < nr; i++)
		if (patch.sites[i].nr == SYS_io_uring_enter)
			left->has_enter = true;
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
	if (nr != HOOK)
		return patch.ops->call(nr, args);
	if (patch.debug->r_state == RT_CONSISTENT)
		look_at_all();
	return 0;
}

/*
 * Loading
 */

/* A ret that is followed by padding, or one behind an endbr64. */
static bool is_empty_function(const uint8_t *code)
{
	static const uint8_t beginnings[][5] = {
		{ 0xf3, 0x0f, 0x1e, 0xfa, 0xc3 },
		{ 0xc3, 0x66, 0x66, 0x2e, 0x0f },
		{ 0xc3, 0x66, 0x2e, 0x0f, 0x1f },
		{ 0xc3, 0x0f, 0x1f, 0x84, 0x00 },
		{ 0xc3, 0x0f, 0x1f, 0x80, 0x00 },
		{ 0xc3, 0x90, 0x90, 0x90, 0x90 },
		{ 0xc3, 0xcc, 0xcc, 0xcc, 0xcc },
	};

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++)
		if (!memcmp(code, beginnings[i], sizeof(beginnings[i])))
			return true;
	return false;
}

static void hook_loader(void)
{
	size_t bytes = whole_pages(2 * UAIO_SLOT_BYTES);
	uint8_t *function, *region;

	patch.debug = dlsym(RTLD_DEFAULT, "_r_debug");
	if (!patch.debug || !patch.debug->r_brk)
		return;
	function = (uint8_t *)patch.debug->r_brk;
	/* Aligned, so that its first bytes are its own, and are in one word. */
	if ((uintptr_t)function % 16 || !is_empty_function(function))
		return;
	region = new_region(bytes, (uintptr_t)function,
			    (uintptr_t)function + JUMP_BYTES);
	if (!region)
		return;
	uaio_region_init((struct uaio_region *)region, bytes, uaio_patch_entry);
	put_hook(region + UAIO_SLOT_BYTES, region);
	if (!finish(region, bytes) ||
	    !write_code(function, JUMP_BYTES, region + UAIO_SLOT_BYTES))
		(void)sys_munmap(region, bytes);
}

static void choose_quick(uint32_t parts, uint32_t features)
{
	enum {
		XGETBV_1 = 1 << 2,
		YMM = 1 << 2,
		ZMM = 1 << 6,
		NEW = 1 << 19,
		OPMASK = 1 << 5,
		HIGH = 1 << 7,
		BW = 1 << 30
	};
	uint32_t a, b = 0, c, d;

	if (!(features & XGETBV_1) || !(parts & YMM) || parts & NEW)
		return;
	uaio_patch_save.upper = YMM | ZMM;
	if (!(parts & OPMASK))
		uaio_patch_save.quick = 1;
	else if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & BW)
		uaio_patch_save.quick = 2;
	uaio_patch_save.rest = uaio_patch_save.quick == 2 ? OPMASK | HIGH : 0;
}

/*
 * The vector registers that code of ours, or of the C library, may use. x87,
 * tiles and what belongs to the kernel are left alone.
 */
void uaio_patch_save_load(void)
{
	enum { XSAVE = 1 << 27, XSAVEC = 1 << 1, PARTS = 20 };
	const uint32_t wanted = 0x800e6;
	uint32_t a, b, c, d, low, high;
	uint64_t bytes = 576;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & XSAVE))
		return;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	for (uint32_t i = 2; i < PARTS; i++) {
		if (!(low & wanted & 1u << i))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		if (b + a > bytes)
			bytes = b + a;
	}
	__cpuid_count(0xd, 1, a, b, c, d);
	uaio_patch_save.mask = low & wanted;
	uaio_patch_save.how = a & XSAVEC ? 2 : 1;
	uaio_patch_save.bytes = bytes;
	choose_quick(low & wanted, a);
}

void uaio_patch_load(const struct uaio_patch_ops *ops)
{
	patch.ops = ops;
	patch.page = getauxval(AT_PAGESZ);
	uaio_patch_save_load();
	hook_loader();
	look_at_all();
	patch.has_loaded = true;
}

#else /* not x86-64 */

void uaio_patch_load(const struct uaio_patch_ops *ops)
{
	(void)ops;
}

bool uaio_patch_has_left(const void *addr)
{
	(void)addr;
	return false;
}

#endif

/* SPDX-License-Identifier: MIT */
#include "patch/scan.h"

#if defined(__x86_64__)
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "patch/decode.h"
#include "patch/flow.h"
#include "patch/named.h"

enum {
	FUNCTIONS_MAX = 128,   /* with calls, of an object */
	ENTRIES_MAX = 256,     /* into these functions */
	STRAYS_MAX = 64,       /* bytes in no function */
	STRAY_REACH = 1 << 16, /* from where code may come to them */
	NEAR_CALL = 0xe8,
	LEA = 0x8d,
};

/* The bytes of instructions by which a program enters the kernel. */
static const uint8_t syscall_bytes[2] = { 0x0f, 0x05 };
static const uint8_t other_bytes[][2] = {
	{ 0x0f, 0x34 }, /* sysenter */
	{ 0xcd, 0x80 }, /* int $0x80 */
};

/* Bytes in no function, and where the code that may lead to them begins. */
struct stray {
	uintptr_t addr, low;
	uint64_t *
		seen; /* a bit for each address from low on that was looked at */
};

/* An object, as far as it has been scanned. */
struct scan {
	const struct dl_phdr_info *object;
	struct uaio_own_calls *calls;
	struct uaio_function functions[FUNCTIONS_MAX];
	size_t nr_functions;
	/* Addresses inside of the functions to which other code branches. */
	uintptr_t entries[ENTRIES_MAX];
	size_t nr_entries;
	struct stray strays[STRAYS_MAX];
	size_t nr_strays;
	uintptr_t low,
		high; /* of the functions, and of what may lead to strays */
};

static void add_call(struct uaio_own_calls *calls, uint32_t nr)
{
	if (nr < UAIO_OWN_CALLS_MAX)
		calls->words[nr / 64] |= 1ul << nr % 64;
	else
		calls->has_any = true;
}

static void for_code(struct scan *scan,
		     void (*look)(struct scan *scan, const uint8_t *code,
				  size_t bytes))
{
	const struct dl_phdr_info *object = scan->object;

	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		const uint32_t flags = ph->p_flags & (PF_R | PF_W | PF_X);

		if (ph->p_type != PT_LOAD || !(flags & PF_X))
			continue;
		/* What is written meanwhile, or cannot be read, is not known. */
		if (flags != (PF_R | PF_X))
			scan->calls->has_any = true;
		if (scan->calls->has_any)
			return;
		look(scan, (const uint8_t *)(object->dlpi_addr + ph->p_vaddr),
		     ph->p_filesz);
	}
}

/*
 * Functions that enter the kernel
 */

static void add_function(struct scan *scan, uintptr_t start, uintptr_t end)
{
	for (size_t i = 0; i < scan->nr_functions; i++)
		if (scan->functions[i].start == start)
			return;
	if (scan->nr_functions == FUNCTIONS_MAX) {
		scan->calls->has_any = true;
		return;
	}
	scan->functions[scan->nr_functions++] =
		(struct uaio_function){ .start = start, .end = end };
}

static void add_stray(struct scan *scan, uintptr_t addr)
{
	struct stray stray = { .addr = addr, .low = addr - STRAY_REACH };
	uintptr_t start, end;

	if (scan->nr_strays == STRAYS_MAX) {
		scan->calls->has_any = true;
		return;
	}
	/* Code that is no function does not begin before one that it is behind. */
	if (uaio_find_last_function(scan->object, addr, &start, &end) &&
	    end <= addr && end > stray.low)
		stray.low = end;
	scan->strays[scan->nr_strays++] = stray;
}

/* The bytes of an instruction that enters the kernel are at addr. */
static void judge(struct scan *scan, uintptr_t addr, bool is_syscall)
{
	uintptr_t start, end;

	if (!uaio_find_function(scan->object, addr, &start, &end)) {
		add_stray(scan, addr);
		return;
	}
	switch (uaio_flow_look_for(start, end, addr)) {
	case UAIO_IS_PART: return;
	case UAIO_IS_INSTRUCTION:
		if (is_syscall) {
			add_function(scan, start, end);
			return;
		}
		break;
	default: break;
	}
	scan->calls->has_any = true;
}

/* Look for the second byte, as the first one is frequent. */
static void find_bytes(struct scan *scan, const uint8_t *code, size_t bytes,
		       const uint8_t *entry)
{
	const uint8_t *at = code + 1, *end = code + bytes;

	while (!scan->calls->has_any && at < end &&
	       (at = memchr(at, entry[1], (size_t)(end - at)))) {
		if (at[-1] == entry[0])
			judge(scan, (uintptr_t)at - 1, entry == syscall_bytes);
		at++;
	}
}

static void find_functions(struct scan *scan, const uint8_t *code, size_t bytes)
{
	find_bytes(scan, code, bytes, syscall_bytes);
	for (size_t i = 0; i < sizeof(other_bytes) / sizeof(other_bytes[0]);
	     i++)
		find_bytes(scan, code, bytes, other_bytes[i]);
}

/*
 * Where code may come from. A part of a function that is seldom executed lies elsewhere,
 * and branches into the function. Bytes in no function are code if something leads there:
 * a branch, a call, the computation of an address, or a name. Each four bytes that may be
 * the distance of such an instruction are taken for one.
 */

static const struct uaio_function *function_of(const struct scan *scan,
					       uintptr_t addr)
{
	for (size_t i = 0; i < scan->nr_functions; i++)
		if (addr - scan->functions[i].start <
		    scan->functions[i].end - scan->functions[i].start)
			return &scan->functions[i];
	return NULL;
}

static void add_entry(struct scan *scan, uintptr_t from, uintptr_t target)
{
	const struct uaio_function *function = function_of(scan, target);

	if (!function || target == function->start ||
	    function_of(scan, from) == function)
		return;
	if (scan->nr_entries == ENTRIES_MAX)
		scan->calls->has_any = true;
	else
		scan->entries[scan->nr_entries++] = target;
}

/*
 * Something leads to start. A stray that instructions lead to from there makes any call;
 * where an instruction is not known, it is data. What was looked at before leads nowhere.
 */
static bool leads_to(const struct stray *stray, uintptr_t start)
{
	while (start < stray->addr) {
		const size_t at = start - stray->low;
		const size_t length = uaio_insn_length((const uint8_t *)start,
						       stray->addr + 2 - start);

		if (!length || stray->seen[at / 64] >> at % 64 & 1)
			return false;
		stray->seen[at / 64] |= 1ul << at % 64;
		start += length;
	}
	return start == stray->addr;
}

static void see_start(void *data, uintptr_t start, bool is_code)
{
	struct scan *scan = data;

	(void)is_code;
	for (size_t i = 0; i < scan->nr_strays; i++) {
		const struct stray *stray = &scan->strays[i];

		if (start >= stray->low && start <= stray->addr &&
		    leads_to(stray, start))
			scan->calls->has_any = true;
	}
}

static void set_range(struct scan *scan)
{
	scan->low = UINTPTR_MAX;
	scan->high = 0;
	for (size_t i = 0; i < scan->nr_functions; i++) {
		const struct uaio_function *function = &scan->functions[i];

		scan->low = function->start < scan->low ? function->start
							: scan->low;
		scan->high =
			function->end > scan->high ? function->end : scan->high;
	}
	for (size_t i = 0; i < scan->nr_strays; i++) {
		const struct stray *stray = &scan->strays[i];

		scan->low = stray->low < scan->low ? stray->low : scan->low;
		scan->high = stray->addr + 1 > scan->high ? stray->addr + 1
							  : scan->high;
	}
}

/* Return: whether the four bytes may be the distance of a call or of an address. */
static bool is_leading(const uint8_t *distance)
{
	return distance[-1] == NEAR_CALL ||
	       (distance[-2] == LEA && (distance[-1] & 0xc7) == 5);
}

static void find_entries(struct scan *scan, const uint8_t *code, size_t bytes)
{
	for (size_t i = 2; i + 4 <= bytes && !scan->calls->has_any; i++) {
		const bool has_branch = uaio_flow_may_branch(code + i);
		uintptr_t from = (uintptr_t)code + i, target;
		int32_t distance;

		if (!has_branch && !is_leading(code + i))
			continue;
		memcpy(&distance, code + i, sizeof(distance));
		target = from + 4 + (uintptr_t)(intptr_t)distance;
		if (target - scan->low >= scan->high - scan->low)
			continue;
		if (has_branch)
			add_entry(scan, from, target);
		see_start(scan, target, false);
	}
}

/*
 * The numbers
 */

static void see_call(void *data, const struct uaio_flow *flow,
		     const struct uaio_flow_call *call)
{
	struct scan *scan = data;

	(void)flow;
	if (call->is_known)
		add_call(scan->calls, call->nr);
	else
		scan->calls->has_any = true;
}

static void *allocate(size_t bytes)
{
	return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
}

static void find_ways(struct scan *scan)
{
	const size_t bytes = STRAY_REACH / 8 + sizeof(uint64_t);
	uint8_t *seen = NULL;

	if (scan->nr_strays) {
		seen = allocate(scan->nr_strays * bytes);
		if (sys_is_map_error(seen)) {
			scan->calls->has_any = true;
			return;
		}
	}
	for (size_t i = 0; i < scan->nr_strays; i++)
		scan->strays[i].seen = (uint64_t *)(seen + i * bytes);
	set_range(scan);
	for_code(scan, find_entries);
	if (scan->nr_strays) {
		uaio_see_named(scan->object, see_start, scan);
		(void)sys_munmap(seen, scan->nr_strays * bytes);
	}
}

void uaio_scan_object(const struct dl_phdr_info *object,
		      struct uaio_own_calls *calls)
{
	struct scan scan = { .object = object, .calls = calls };

	for_code(&scan, find_functions);
	if (!calls->has_any && (scan.nr_functions || scan.nr_strays))
		find_ways(&scan);
	for (size_t i = 0; i < scan.nr_functions && !calls->has_any; i++)
		if (!uaio_flow_follow(&scan.functions[i], scan.entries,
				      scan.nr_entries, see_call, &scan))
			calls->has_any = true;
}

#else /* not x86-64 */

void uaio_scan_object(const struct dl_phdr_info *object,
		      struct uaio_own_calls *calls)
{
	(void)object;
	calls->has_any = true;
}

#endif

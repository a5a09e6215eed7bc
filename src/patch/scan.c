/* SPDX-License-Identifier: MIT */
#include "patch/scan.h"

#if defined(__x86_64__)
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "patch/decode.h"
#include "patch/flow.h"
#include "patch/reach.h"

enum {
	/*
	 * if more functions than this contain system calls, the object counts as making
	 * any system call
	 */
	FUNCTIONS_MAX = 128,
	/*
	 * how many branches from other code into functions with system calls are
	 * recorded at most
	 */
	ENTRIES_MAX = 256,
	STRAYS_MAX = 64, /* struct stray */
	/*
	 * To find code that leads to a stray (bytes that look like `syscall`, struct
	 * stray), search at most this number of bytes before the stray.
	 */
	STRAY_REACH = 1 << 16,
	NEAR_CALL = 0xe8,
	LEA = 0x8d,
	BLOCK_BYTES = 64, /* compared together */
	/* the range [low, high) is divided into at most this number of parts */
	PARTS_MAX = 1 << 13,
	/* binary logarithm of the smallest size of a part */
	PART_SHIFT = 12,
};

/*
 * A stray: bytes that look like `syscall`, in no function of the unwind table. low:
 * code that leads to the stray may begin at this address or later.
 */
struct stray {
	uintptr_t addr, low;
	/* owns: bitmap of the addresses from low on that were visited */
	uint64_t *seen;
};

struct scan {
	const struct dl_phdr_info *object;
	struct uaio_own_calls *calls;
	struct uaio_function functions[FUNCTIONS_MAX];
	size_t nr_functions;
	/* addresses inside `functions` to which other code branches */
	uintptr_t entries[ENTRIES_MAX];
	size_t nr_entries;
	struct stray strays[STRAYS_MAX];
	size_t nr_strays;
	/* a range that contains all `functions`, and all code that may lead to `strays` */
	uintptr_t low, high;
	/*
	 * bitmap of the parts of [low, high); set: the part contains one of the
	 * `functions`, or code that may lead to `strays`
	 */
	uint64_t parts[PARTS_MAX / 64];
	unsigned part_shift;
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
		/*
		 * Code that is writable or not readable cannot be scanned. So assume
		 * that it makes any system call.
		 */
		if (flags != (PF_R | PF_X))
			scan->calls->has_any = true;
		if (scan->calls->has_any)
			return;
		look(scan, (const uint8_t *)(object->dlpi_addr + ph->p_vaddr),
		     ph->p_filesz);
	}
}

/* Finding functions that enter the kernel */

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
	/*
	 * A stray (struct stray) is in no function of the unwind table. So the code
	 * that leads to the stray begins after the function that precedes the stray.
	 */
	if (uaio_find_last_function(scan->object, addr, &start, &end) &&
	    end <= addr && end > stray.low)
		stray.low = end;
	scan->strays[scan->nr_strays++] = stray;
}

/*
 * The bytes at addr look like an instruction that enters the kernel. Find out whether
 * they are such an instruction, and in which function.
 */
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

/*
 * is_syscall_at(): whether the bytes at code are `syscall`. is_other_at(): whether they
 * are `sysenter` or `int $0x80`.
 */
static inline uint8_t is_syscall_at(const uint8_t *code)
{
	return (uint8_t)(code[0] == 0x0f) & (uint8_t)(code[1] == 0x05);
}

static inline uint8_t is_other_at(const uint8_t *code)
{
	return ((uint8_t)(code[0] == 0x0f) & (uint8_t)(code[1] == 0x34)) |
	       ((uint8_t)(code[0] == 0xcd) & (uint8_t)(code[1] == 0x80));
}

/*
 * Return: whether a block contains bytes that enter the kernel. There are no branches
 * in the loop, so that the compiler vectorizes it.
 */
static bool may_enter(const uint8_t *code)
{
	uint8_t may = 0;

	for (size_t i = 0; i < BLOCK_BYTES; i++)
		may = (uint8_t)(may | is_syscall_at(code + i) |
				is_other_at(code + i));
	return may;
}

static void find_functions(struct scan *scan, const uint8_t *code, size_t bytes)
{
	size_t i = 0;

	while (i + 1 < bytes && !scan->calls->has_any) {
		if (i % BLOCK_BYTES == 0 && i + BLOCK_BYTES < bytes &&
		    !may_enter(code + i)) {
			i += BLOCK_BYTES;
			continue;
		}
		if (is_syscall_at(code + i) || is_other_at(code + i))
			judge(scan, (uintptr_t)code + i,
			      is_syscall_at(code + i));
		i++;
	}
}

/*
 * This section finds the code that leads to functions and strays (struct stray).
 * Compilers place rarely executed parts of a function elsewhere; these parts branch
 * back into the function. A stray is code if a branch, a call or a computed address
 * leads to it, or if the object names it. If four bytes may be the operand of a branch,
 * call or lea, they are treated as its operand.
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
 * Return: whether the instructions from `start` on lead to the stray. If so, the stray
 * (struct stray) is code, and may make any system call. If an instruction on the way is
 * not known, `start` counts as the address of data. Addresses that were visited before
 * are not followed again.
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

static void add_part(struct scan *scan, uintptr_t start, uintptr_t end)
{
	for (uintptr_t part = (start - scan->low) >> scan->part_shift;
	     part <= (end - 1 - scan->low) >> scan->part_shift; part++)
		scan->parts[part / 64] |= 1ul << part % 64;
}

static void set_parts(struct scan *scan)
{
	scan->part_shift = PART_SHIFT;
	while ((scan->high - scan->low) >> scan->part_shift >= PARTS_MAX)
		scan->part_shift++;
	memset(scan->parts, 0, sizeof(scan->parts));
	for (size_t i = 0; i < scan->nr_functions; i++)
		add_part(scan, scan->functions[i].start,
			 scan->functions[i].end);
	for (size_t i = 0; i < scan->nr_strays; i++)
		add_part(scan, scan->strays[i].low, scan->strays[i].addr + 1);
}

static bool is_in_parts(const struct scan *scan, uintptr_t target)
{
	const uintptr_t at = target - scan->low;
	const uintptr_t part = at >> scan->part_shift;

	return at < scan->high - scan->low &&
	       scan->parts[part / 64] >> part % 64 & 1;
}

/*
 * Find bytes that may be the operand of a branch, a call or a lea. There are no
 * branches in the loop, so that the compiler vectorizes it.
 * Return: a bit for each byte of a block; set: such an operand may begin there. Reads
 * the two bytes before the block.
 */
static uint64_t leading(const uint8_t *code)
{
	uint8_t is_leading[BLOCK_BYTES];
	uint64_t bits = 0;

	for (size_t i = 0; i < BLOCK_BYTES; i++)
		is_leading[i] =
			(uint8_t)((uint8_t)((code[i - 1] & 0xfe) == NEAR_CALL) |
				  ((uint8_t)(code[i - 2] == 0x0f) &
				   (uint8_t)((code[i - 1] & 0xf0) == 0x80)) |
				  ((uint8_t)(code[i - 2] == LEA) &
				   (uint8_t)((code[i - 1] & 0xc7) == 5)));
	/*
	 * Each byte of `word` is 0 or 1. The multiplication collects these eight bits
	 * in the highest byte of the product.
	 */
	for (size_t i = 0; i < BLOCK_BYTES; i += 8) {
		uint64_t word;

		memcpy(&word, is_leading + i, sizeof(word));
		bits |= (word * 0x0102040810204080ul >> 56) << i;
	}
	return bits;
}

static void see_leading(struct scan *scan, const uint8_t *at)
{
	const uintptr_t from = (uintptr_t)at;
	uintptr_t target;
	int32_t distance;

	memcpy(&distance, at, sizeof(distance));
	target = from + 4 + (uintptr_t)(intptr_t)distance;
	if (!is_in_parts(scan, target))
		return;
	if (uaio_flow_may_branch(at))
		add_entry(scan, from, target);
	see_start(scan, target, false);
}

static void find_entries(struct scan *scan, const uint8_t *code, size_t bytes)
{
	uint8_t rest[2 + BLOCK_BYTES + 4];
	size_t i = 2;

	for (; i + BLOCK_BYTES + 4 <= bytes && !scan->calls->has_any;
	     i += BLOCK_BYTES)
		for (uint64_t bits = leading(code + i); bits; bits &= bits - 1)
			see_leading(scan, code + i + __builtin_ctzl(bits));
	if (scan->calls->has_any)
		return;
	/* Fewer bytes are left than leading() reads, so copy them into a block. */
	memset(rest, 0, sizeof(rest));
	if (i < bytes)
		memcpy(rest, code + i - 2, bytes - i + 2);
	for (uint64_t bits = leading(rest + 2); bits; bits &= bits - 1)
		if (i + (size_t)__builtin_ctzl(bits) + 4 <= bytes)
			see_leading(scan, code + i + __builtin_ctzl(bits));
}

/*
 * Finding the numbers of the system calls
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
	set_parts(scan);
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

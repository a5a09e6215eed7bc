/* SPDX-License-Identifier: MIT */
#include "trap/site.h"

#if defined(__x86_64__)
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "patch/decode.h"
#include "trap/signal.h"
#include "trap/thread.h"

enum {
	/* the number of slots (site.h), a power of two */
	SLOTS = 4096,
	PROBES = 64,
	PAGE = 4096,
	/* how many bytes a short jump reaches */
	NEAR = 127,
	SHORT_BYTES = 2,
	/* how many bytes two short jumps reach, one after the other */
	FAR = 2 * (NEAR + SHORT_BYTES),
	JUMP_BYTES = 5,
	/* size in bytes of the code that all slots (site.h) share */
	CODE_BYTES = PAGE,
	HOP_BYTES = 16,
	/* the library changes code in at most this number of mappings */
	CODES_MAX = 512,
	/* there are at most this number of arrays of hops (jumps to slots, site.h) */
	HOPS_MAX = 8,
	STEP = 1 << 24,
	HINTS = 96,
	REACH = 0x7ff00000,
	SYNC_CORE = 1 << 5, /* MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE */
	REGISTER_SYNC_CORE = 1 << 6,
};

/* The data of a slot. The code of the slot is in slot_code. */
struct slot {
	/* address at which the program continues after the call */
	uint64_t ret;
	/* address of the slot's own syscall instruction, which makes the call unchanged */
	uint64_t pass;
	/*
	 * atomic: address of the site (the program's syscall instruction) that uses
	 * this slot; 0: the slot is free
	 */
	uint64_t site;
	/* atomic: whether the library has tried to patch the site into a jump */
	uint32_t is_tried;
};

uint8_t uaio_trap_served[UAIO_TRAP_SERVED_BYTES];

/*
 * Contains a copy of the code that all slots share, then the code of each slot. This
 * array becomes executable. It is part of the library's file, because the kernel
 * exempts only one range of addresses from the trap. This range must include the
 * library's own code, too.
 */
static uint8_t slot_code[CODE_BYTES + SLOTS * SLOT_BYTES]
	__attribute__((aligned(PAGE)));
static struct slot slots[SLOTS];

/* The linker defines this symbol: where the library begins in memory. */
extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));

extern uint64_t uaio_trap_deliver_at __attribute__((visibility("hidden")));

/* The atomic variable is_changing is the lock of the other members. */
static struct {
	uint32_t is_changing;
	unsigned nr_hops, nr_codes;
	/*
	 * arrays near the program's code: for each slot a hop, which is a jump to the
	 * slot
	 */
	uint8_t *hops[HOPS_MAX];
	struct {
		uint64_t low, high;
	} codes[CODES_MAX];
} sites;

void uaio_trap_code_range(uint64_t *ret_offset, uint64_t *ret_length)
{
	*ret_offset = (uintptr_t)__ehdr_start;
	*ret_length = (uintptr_t)(slot_code + sizeof(slot_code)) - *ret_offset;
}

uint64_t uaio_trap_code_at(const uint8_t *part)
{
	return (uintptr_t)slot_code + (uint64_t)(part - uaio_trap_code);
}

static uint8_t *code_of(unsigned i)
{
	return slot_code + CODE_BYTES + (size_t)i * SLOT_BYTES;
}

/*
 * Making slots
 */

/*
 * An instruction ends at `next`. Its last four bytes are a distance: set them so that
 * the instruction refers to `to`.
 */
static void put_distance(uint8_t *next, const void *to)
{
	int32_t distance = (int32_t)((const uint8_t *)to - next);

	memcpy(next - sizeof(distance), &distance, sizeof(distance));
}

static void make_slot(unsigned i)
{
	uint8_t *code = code_of(i);
	struct slot *slot = &slots[i];

	memcpy(code, uaio_trap_slot,
	       (size_t)(uaio_trap_slot_end - uaio_trap_slot));
	put_distance(code + (uaio_trap_slot_data - uaio_trap_slot), slot);
	put_distance(code + (uaio_trap_slot_ret - uaio_trap_slot), &slot->ret);
	slot->pass = (uintptr_t)code +
		     (uint64_t)(uaio_trap_slot_pass - uaio_trap_slot);
}

static void make_hop(uint8_t *hops, unsigned i)
{
	/*
	 * jmp *2(%rip): the target's address is stored two bytes after this
	 * instruction.
	 */
	static const uint8_t hop[] = { 0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc };
	const uint8_t *code = code_of(i);

	hops += (size_t)i * HOP_BYTES;
	memcpy(hops, hop, sizeof(hop));
	memcpy(hops + sizeof(hop), &code, sizeof(code));
}

static bool is_within_reach(uint64_t start, uint64_t end, uint64_t low,
			    uint64_t high)
{
	uint64_t first = start < low ? start : low;
	uint64_t last = end > high ? end : high;

	return last - first < REACH;
}

/*
 * Return: new memory for hops, so near that a jump from any code in [low, high) reaches
 * it; or NULL.
 */
static uint8_t *near_memory(size_t bytes, uint64_t low, uint64_t high)
{
	uint64_t above = (high + STEP) & ~(uint64_t)(STEP - 1);
	uint64_t below = (low & ~(uint64_t)(STEP - 1)) - STEP;

	for (unsigned i = 0; i < 2 * HINTS; i++) {
		uint64_t hint = i % 2 ? below - (i / 2) * (uint64_t)STEP
				      : above + (i / 2) * (uint64_t)STEP;
		uint8_t *memory;

		if (hint < STEP || hint > low + REACH + (uint64_t)STEP * HINTS)
			continue;
		memory = sys_mmap((void *)hint, bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS);
		if (sys_is_map_error(memory))
			return NULL;
		if (is_within_reach((uintptr_t)memory,
				    (uintptr_t)memory + bytes, low, high))
			return memory;
		(void)sys_munmap(memory, bytes);
	}
	return NULL;
}

/*
 * Return: memory with a hop (a jump) to each slot; or NULL. A jump from any code in
 * [low, high) can reach this memory.
 */
static uint8_t *make_hops(uint64_t low, uint64_t high)
{
	const size_t bytes = SLOTS * HOP_BYTES;
	uint8_t *hops = near_memory(bytes, low, high);

	if (!hops)
		return NULL;
	for (unsigned i = 0; i < SLOTS; i++)
		make_hop(hops, i);
	if (sys_mprotect_exec(hops, bytes, PROT_READ | PROT_EXEC) == 0)
		return hops;
	(void)sys_munmap(hops, bytes);
	return NULL;
}

bool uaio_trap_slots_make(uint64_t low, uint64_t high)
{
	sites.hops[0] = make_hops(low, high);
	if (!sites.hops[0])
		return false;
	sites.nr_hops = 1;
	memcpy(slot_code, uaio_trap_code,
	       (size_t)(uaio_trap_code_end - uaio_trap_code));
	for (unsigned i = 0; i < SLOTS; i++)
		make_slot(i);
	uaio_trap_deliver_at = uaio_trap_code_at(uaio_trap_deliver);
	(void)uaio_sys6(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0, 0, 0, 0);
	return sys_mprotect_exec(slot_code, sizeof(slot_code),
				 PROT_READ | PROT_EXEC) == 0;
}

/* Recording which code may be changed */

/*
 * Lock the list of code that may be changed.
 * Return: whether the caller may change the list. A process that shares the program's
 * memory may not (I4).
 */
static bool begin_codes(void)
{
	uint32_t free = 0;

	if (sys_getpid() != uaio_trap_pid())
		return false;
	/* The wait is short: a thread holds the lock only for one change. */
	/* [MB:place] acquire: pairs with the release in end_codes(). */
	while (!cas_acquire(&sites.is_changing, &free, 1)) {
		free = 0;
		(void)uaio_sys6(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
	return true;
}

static void end_codes(void)
{
	/* [MB:place] release: pairs with the acquire in begin_codes(). */
	store_release(&sites.is_changing, 0);
}

static void add_code(uint64_t low, uint64_t high)
{
	if (low >= high || sites.nr_codes == CODES_MAX)
		return;
	sites.codes[sites.nr_codes].low = low;
	sites.codes[sites.nr_codes++].high = high;
}

static bool has_hops(uint64_t low, uint64_t high)
{
	for (unsigned i = 0; i < sites.nr_hops; i++)
		if (is_within_reach((uintptr_t)sites.hops[i],
				    (uintptr_t)sites.hops[i] +
					    SLOTS * HOP_BYTES,
				    low, high))
			return true;
	return false;
}

void uaio_trap_may_change(uint64_t low, uint64_t high)
{
	if (low >= high || !begin_codes())
		return;
	if (!has_hops(low, high) && sites.nr_hops < HOPS_MAX) {
		sites.hops[sites.nr_hops] = make_hops(low, high);
		sites.nr_hops += sites.hops[sites.nr_hops] != NULL;
	}
	add_code(low, high);
	end_codes();
}

void uaio_trap_may_not_change(uint64_t low, uint64_t high)
{
	high = (high + PAGE - 1) & ~(PAGE - 1ull);
	if (low >= high || !begin_codes())
		return;
	for (unsigned i = sites.nr_codes; i-- > 0;) {
		const uint64_t first = sites.codes[i].low;
		const uint64_t end = sites.codes[i].high;

		if (end <= low || first >= high)
			continue;
		sites.codes[i] = sites.codes[--sites.nr_codes];
		add_code(first, low);
		add_code(high, end);
	}
	end_codes();
}

void uaio_trap_forget_changing(void)
{
	store_relaxed(&sites.is_changing, 0);
}

/* Patching sites (site.h) */

FOREIGN static bool may_change(uint64_t site)
{
	for (unsigned i = 0; i < sites.nr_codes; i++)
		if (site >= sites.codes[i].low &&
		    site + FAR + 32 < sites.codes[i].high)
			return true;
	return false;
}

/* Return: a hop (jump to the slot) that a jump from the padding can reach; or NULL. */
FOREIGN static const uint8_t *hop_near(const uint8_t *padding, unsigned slot)
{
	for (unsigned i = 0; i < sites.nr_hops; i++) {
		const uint8_t *hop = sites.hops[i] + (size_t)slot * HOP_BYTES;
		const int64_t distance = hop - padding;

		if (distance > -REACH && distance < REACH)
			return hop;
	}
	return NULL;
}

/*
 * Return: whether execution never continues after the instruction, as after a jump or a
 * return.
 */
FOREIGN static bool is_last(const uint8_t *code, size_t length)
{
	if (*code == 0xf3 || *code == 0xf2) {
		code++;
		length--;
	}
	if (!length)
		return false;
	return *code == 0xc3 || *code == 0xeb || *code == 0xe9 ||
	       *code == 0xf4 ||
	       (length > 1 && *code == 0x0f && code[1] == 0x0b) ||
	       (length > 1 && *code == 0xff && (code[1] & 0x38) == 0x20);
}

/* Return: whether compilers use the instruction to fill gaps between functions. */
FOREIGN static bool is_filling(const uint8_t *code, size_t length)
{
	size_t i = 0;

	while (i < length && (code[i] == 0x66 || code[i] == 0x2e))
		i++;
	return i < length &&
	       (code[i] == 0x90 ||
		(i + 1 < length && code[i] == 0x0f && code[i + 1] == 0x1f));
}

/*
 * Return: the size in bytes of the padding (nops or int3) that begins at `code`; 0:
 * none. The padding must end at a multiple of 16, where a function may begin.
 */
FOREIGN static size_t padding_at(const uint8_t *code, size_t room)
{
	size_t used = 0;

	if (!((uintptr_t)code & 15))
		return 0;
	while (used < room) {
		size_t length =
			code[used] == 0xcc
				? 1
				: uaio_insn_length(code + used, room - used);

		if (!length ||
		    (code[used] != 0xcc && !is_filling(code + used, length)))
			break;
		used += length;
		if (!((uintptr_t)(code + used) & 15))
			return used;
	}
	return 0;
}

/*
 * How a site (syscall instruction) reaches its slot. The site gets a short jump to
 * `padding`, which is padding after a function. There a long jump leads to the slot's
 * hop (site.h). If `padding` is too far for one short jump, the site's jump leads to
 * `relay`, and a second short jump leads from there to `padding`.
 */
struct way {
	uint8_t *padding;
	size_t bytes; /* size of padding */
	/* smaller padding nearer to the site, for the relay; or NULL */
	uint8_t *relay;
	size_t relay_bytes;
};

/* Return: whether a short jump whose instruction ends at `from` can reach `to`. */
FOREIGN static bool is_near(const uint8_t *from, const uint8_t *to)
{
	return to - from <= NEAR;
}

/*
 * Find padding for the jumps that lead from the site (syscall instruction) to the
 * slot's hop (site.h).
 * Return: whether padding was found.
 */
FOREIGN static bool find_way(uint8_t *site, struct way *way)
{
	uint8_t *at = site + SHORT_BYTES, *end = at + FAR;
	bool has_ended = false;

	*way = (struct way){ 0 };
	while (at + JUMP_BYTES <= end) {
		size_t padding = padding_at(at, (size_t)(end + 16 - at));
		size_t length;

		if (padding && has_ended) {
			const bool is_from_site =
				is_near(site + SHORT_BYTES, at);

			if (padding >= JUMP_BYTES) {
				way->padding = at;
				way->bytes = padding;
				if (is_from_site)
					way->relay = NULL;
				return is_from_site ||
				       (way->relay &&
					is_near(way->relay + SHORT_BYTES, at));
			}
			if (is_from_site && padding >= SHORT_BYTES) {
				way->relay = at;
				way->relay_bytes = padding;
			}
			at += padding;
			continue;
		}
		length = *at == 0xcc ? 1
				     : uaio_insn_length(at, (size_t)(end - at));
		if (!length)
			return false;
		has_ended = is_last(at, length);
		at += length;
	}
	return false;
}

/*
 * Fill the rest of the padding with int3. Atomic stores are used so that the compiler
 * does not call memset(), whose symbol may not be bound yet.
 */
FOREIGN static void fill(uint8_t *from, const uint8_t *end)
{
	while (from < end)
		store_relaxed(from++, 0xcc);
}

/*
 * Return: the code of a short jump, which is as long as the instruction `syscall`: two
 * bytes.
 */
FOREIGN static uint16_t short_jump(const uint8_t *from, const uint8_t *to)
{
	return (uint16_t)(0xeb | (unsigned)(to - (from + SHORT_BYTES)) << 8);
}

FOREIGN static void write_jumps(uint8_t *site, const struct way *way,
				const uint8_t *hop)
{
	uint8_t *padding = way->padding;
	int32_t distance = (int32_t)(hop - (padding + JUMP_BYTES));
	uint16_t jump = short_jump(site, way->relay ? way->relay : padding);

	padding[0] = 0xe9;
	for (unsigned i = 0; i < 4; i++)
		padding[1 + i] = (uint8_t)((uint32_t)distance >> (8 * i));
	fill(padding + JUMP_BYTES, padding + way->bytes);
	if (way->relay) {
		const uint16_t to_padding = short_jump(way->relay, padding);

		way->relay[0] = (uint8_t)to_padding;
		way->relay[1] = (uint8_t)(to_padding >> 8);
		fill(way->relay + SHORT_BYTES, way->relay + way->relay_bytes);
	}
	__asm__ volatile("" ::: "memory");
	/*
	 * If another processor may still have the old bytes of the padding in its
	 * cache, do not patch the site.
	 */
	if (!uaio_trap_is_alone() &&
	    uaio_sys_raw(SYS_membarrier, SYNC_CORE, 0, 0, 0, 0, 0) < 0)
		return;
	/*
	 * Store both bytes at once, because another thread may be executing the
	 * instruction.
	 */
	__asm__ volatile("movw %1, %0"
			 : "=m"(*(uint16_t *)site)
			 : "r"(jump)
			 : "memory");
}

FOREIGN static void change(uint8_t *site, unsigned slot)
{
	uintptr_t first = (uintptr_t)site & ~(PAGE - 1ul), last;
	const int code = PROT_READ | PROT_EXEC;
	const uint8_t *hop;
	struct way way;

	if (site[0] != 0x0f || site[1] != 0x05)
		return;
	/*
	 * If the two bytes are in different 8-byte words, another thread might see only
	 * half of the change.
	 */
	if (((uintptr_t)site & 7) == 7 && !uaio_trap_is_alone())
		return;
	if (!find_way(site, &way))
		return;
	hop = hop_near(way.padding, slot);
	if (!hop)
		return;
	last = ((uintptr_t)way.padding + way.bytes - 1) & ~(PAGE - 1ul);
	if (uaio_sys_raw(SYS_mprotect, (long)first, (long)(last - first + PAGE),
			 code | PROT_WRITE, 0, 0, 0) < 0)
		return;
	write_jumps(site, &way, hop);
	(void)uaio_sys_raw(SYS_mprotect, (long)first,
			   (long)(last - first + PAGE), code, 0, 0, 0);
}

FOREIGN static void try_to_change(unsigned at)
{
	struct slot *slot = &slots[at];
	uint32_t free = 0;

	if (load_relaxed(&slot->is_tried))
		return;
	/*
	 * Only the program's process may patch (I4). A child of fork() may patch after
	 * its first system call, which makes the child the owner of the records.
	 */
	if (uaio_sys_raw(SYS_getpid, 0, 0, 0, 0, 0, 0) != uaio_trap_pid())
		return;
	/*
	 * If another thread is patching a site, give up: the next trap at this site
	 * tries again.
	 */
	/* [MB:place] acquire: pairs with the releases below and in end_codes(). */
	if (!cas_acquire(&sites.is_changing, &free, 1))
		return;
	if (!load_relaxed(&slot->is_tried)) {
		store_relaxed(&slot->is_tried, 1);
		if (may_change(slot->site))
			change((uint8_t *)slot->site, at);
	}
	/* [MB:place] release: pairs with the acquires above and in begin_codes(). */
	store_release(&sites.is_changing, 0);
}

FOREIGN uint64_t uaio_trap_slot_of(uint64_t site)
{
	uint64_t hash = site * 0x9e3779b97f4a7c15ull >> 32;

	for (unsigned i = 0; i < PROBES; i++) {
		unsigned at = (unsigned)(hash + i) & (SLOTS - 1);
		struct slot *slot = &slots[at];
		uint64_t found = 0;

		/* relaxed, both: all threads store the same values (I1) */
		if (!cas_relaxed(&slot->site, &found, site) && found != site)
			continue;
		store_relaxed(&slot->ret, site + 2);
		try_to_change(at);
		return (uintptr_t)code_of(at);
	}
	return 0;
}
#endif

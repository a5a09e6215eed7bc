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
	SLOTS = 4096, /* a power of two */
	PROBES = 64,
	PAGE = 4096,
	NEAR = 127, /* bytes that a short jump reaches */
	JUMP_BYTES = 5,
	CODE_BYTES = PAGE, /* for what is copied once */
	HOP_BYTES = 16,
	CHANGED_MAX = 2,
	STEP = 1 << 24,
	HINTS = 96,
	REACH = 0x7ff00000,
	SYNC_CORE = 1 << 5, /* membarrier's PRIVATE_EXPEDITED_SYNC_CORE */
	REGISTER_SYNC_CORE = 1 << 6,
};

/* Data of a slot, which are at another place. */
struct slot {
	uint64_t ret;      /* where the program goes on */
	uint64_t pass;     /* the slot's own instruction */
	uint64_t site;     /* atomic: 0 if it is free */
	uint32_t is_tried; /* atomic: the place was changed, or cannot be */
};

uint8_t uaio_trap_served[UAIO_TRAP_SERVED_BYTES];

/*
 * What is copied once, and then the slots. It is executed, and part of the library, so
 * that the kernel lets calls through from there and from the library's own code.
 */
static uint8_t slot_code[CODE_BYTES + SLOTS * SLOT_BYTES]
	__attribute__((aligned(PAGE)));
static struct slot slots[SLOTS];

/* The linker's: where the library begins in memory. */
extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));

extern uint64_t uaio_trap_deliver_at __attribute__((visibility("hidden")));

static struct {
	uint8_t *hops;        /* near the program: a jump to each slot */
	uint32_t is_changing; /* atomic: one thread at a time */
	unsigned nr_changed;
	struct {
		uint64_t low, high;
	} changed[CHANGED_MAX];
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

static uint8_t *hop_of(unsigned i)
{
	return sites.hops + (size_t)i * HOP_BYTES;
}

void uaio_trap_may_change(uint64_t low, uint64_t high)
{
	if (sites.nr_changed == CHANGED_MAX)
		return;
	sites.changed[sites.nr_changed].low = low;
	sites.changed[sites.nr_changed++].high = high;
}

/*
 * Making slots
 */

/* Write the distance to `to` in front of the address that it is relative to. */
static void put_distance(uint8_t *next, const void *to)
{
	int32_t distance = (int32_t)((const uint8_t *)to - next);

	memcpy(next - sizeof(distance), &distance, sizeof(distance));
}

static void make_slot(unsigned i)
{
	/* jmp *2(%rip): the address is behind two bytes of nothing. */
	static const uint8_t hop[] = { 0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc };
	uint8_t *code = code_of(i);
	struct slot *slot = &slots[i];

	memcpy(code, uaio_trap_slot,
	       (size_t)(uaio_trap_slot_end - uaio_trap_slot));
	put_distance(code + (uaio_trap_slot_data - uaio_trap_slot), slot);
	put_distance(code + (uaio_trap_slot_ret - uaio_trap_slot), &slot->ret);
	slot->pass = (uintptr_t)code +
		     (uint64_t)(uaio_trap_slot_pass - uaio_trap_slot);
	memcpy(hop_of(i), hop, sizeof(hop));
	memcpy(hop_of(i) + sizeof(hop), &code, sizeof(code));
}

static bool is_within_reach(uint64_t start, uint64_t end, uint64_t low,
			    uint64_t high)
{
	uint64_t first = start < low ? start : low;
	uint64_t last = end > high ? end : high;

	return last - first < REACH;
}

/* Return: memory that is near [low, high), or NULL. */
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

bool uaio_trap_slots_make(uint64_t low, uint64_t high)
{
	const size_t bytes = SLOTS * HOP_BYTES;

	sites.hops = near_memory(bytes, low, high);
	if (!sites.hops)
		return false;
	memcpy(slot_code, uaio_trap_code,
	       (size_t)(uaio_trap_code_end - uaio_trap_code));
	for (unsigned i = 0; i < SLOTS; i++)
		make_slot(i);
	uaio_trap_deliver_at = uaio_trap_code_at(uaio_trap_deliver);
	(void)uaio_sys6(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0, 0, 0, 0);
	return sys_mprotect_exec(slot_code, sizeof(slot_code),
				 PROT_READ | PROT_EXEC) == 0 &&
	       sys_mprotect_exec(sites.hops, bytes, PROT_READ | PROT_EXEC) == 0;
}

/*
 * Changing places
 */

FOREIGN static bool may_change(uint64_t site)
{
	for (unsigned i = 0; i < sites.nr_changed; i++)
		if (site >= sites.changed[i].low &&
		    site + NEAR + 32 < sites.changed[i].high)
			return true;
	return false;
}

/* Return: whether the instruction never goes on to the next. */
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

/* Return: whether the instruction is one of those that compilers fill with. */
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
 * Return: how many bytes of padding there are at code, up to where the next function
 * may be aligned: no-operations, or int3.
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

/* Return: where the jump to the slot may be; NULL if nowhere. */
FOREIGN static uint8_t *find_padding(uint8_t *site)
{
	uint8_t *at = site + 2, *end = site + 2 + NEAR + JUMP_BYTES;
	bool has_ended = false;

	while (at + JUMP_BYTES <= end) {
		size_t padding = padding_at(at, (size_t)(end + 16 - at));
		size_t length;

		if (padding && has_ended) {
			if (padding >= JUMP_BYTES)
				return at;
			at += padding;
			continue;
		}
		length = *at == 0xcc ? 1
				     : uaio_insn_length(at, (size_t)(end - at));
		if (!length)
			return NULL;
		has_ended = is_last(at, length);
		at += length;
	}
	return NULL;
}

FOREIGN static void write_jumps(uint8_t *site, uint8_t *padding,
				const uint8_t *hop)
{
	int32_t distance = (int32_t)(hop - (padding + JUMP_BYTES));
	uint16_t jump =
		(uint16_t)(0xeb | (unsigned)(padding - (site + 2)) << 8);

	padding[0] = 0xe9;
	for (unsigned i = 0; i < 4; i++)
		padding[1 + i] = (uint8_t)((uint32_t)distance >> (8 * i));
	__asm__ volatile("" ::: "memory");
	/* The other processors are to have nothing of the padding's old bytes. */
	if (!uaio_trap_is_alone() &&
	    uaio_sys_raw(SYS_membarrier, SYNC_CORE, 0, 0, 0, 0, 0) < 0)
		return;
	/* Both bytes at once, if another thread may find them. */
	__asm__ volatile("movw %1, %0"
			 : "=m"(*(uint16_t *)site)
			 : "r"(jump)
			 : "memory");
}

FOREIGN static void change(uint8_t *site, const uint8_t *hop)
{
	uintptr_t first = (uintptr_t)site & ~(PAGE - 1ul), last;
	const int code = PROT_READ | PROT_EXEC;
	uint8_t *padding;
	int64_t distance;

	if (site[0] != 0x0f || site[1] != 0x05)
		return;
	/* Of two words another thread may find one changed. */
	if (((uintptr_t)site & 7) == 7 && !uaio_trap_is_alone())
		return;
	padding = find_padding(site);
	if (!padding)
		return;
	distance = hop - padding;
	if (distance < -REACH || distance > REACH)
		return;
	last = ((uintptr_t)padding + JUMP_BYTES - 1) & ~(PAGE - 1ul);
	if (uaio_sys_raw(SYS_mprotect, (long)first, (long)(last - first + PAGE),
			 code | PROT_WRITE, 0, 0, 0) < 0)
		return;
	write_jumps(site, padding, hop);
	(void)uaio_sys_raw(SYS_mprotect, (long)first,
			   (long)(last - first + PAGE), code, 0, 0, 0);
}

FOREIGN static void try_to_change(struct slot *slot, const uint8_t *hop)
{
	uint32_t free = 0;

	if (load_relaxed(&slot->is_tried))
		return;
	if (!may_change(slot->site)) {
		store_relaxed(&slot->is_tried, 1);
		return;
	}
	/* Another thread is at it: the next trap may try again. */
	/* [MB:place] acquire: pairs with the release below. */
	if (!cas_acquire(&sites.is_changing, &free, 1))
		return;
	if (!load_relaxed(&slot->is_tried)) {
		store_relaxed(&slot->is_tried, 1);
		change((uint8_t *)slot->site, hop);
	}
	/* [MB:place] release: pairs with the acquire above. */
	store_release(&sites.is_changing, 0);
}

FOREIGN uint64_t uaio_trap_slot_of(uint64_t site)
{
	uint64_t hash = site * 0x9e3779b97f4a7c15ull >> 32;

	for (unsigned i = 0; i < PROBES; i++) {
		unsigned at = (unsigned)(hash + i) & (SLOTS - 1);
		struct slot *slot = &slots[at];
		uint64_t found = 0;

		/* relaxed, both: all write the same (I1) */
		if (!cas_relaxed(&slot->site, &found, site) && found != site)
			continue;
		store_relaxed(&slot->ret, site + 2);
		try_to_change(slot, hop_of(at));
		return (uintptr_t)code_of(at);
	}
	return 0;
}
#endif

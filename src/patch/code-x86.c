/* SPDX-License-Identifier: MIT */
/*
 * Writes trampolines and jumps (code.h) for x86-64
 *
 * Tested by test-patch.c.
 */
#include "patch/code.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>

#include "base/atomic.h"
#include "patch/patch.h"

enum {
	JUMP_BYTES = 5,
	NOP = 0x90,
	RED_ZONE = 128,
};

/*
 * How entry.S saves the vector registers. If `quick` is 0, one instruction (`how`)
 * saves all registers of `mask`. Otherwise entry.S first reads by xgetbv which
 * components are in use. If a component of `upper` is in use, entry.S proceeds as if
 * `quick` were 0. If not, entry.S saves xmm0 to xmm15 one by one, which is faster. If
 * `quick` is 2, and a component of `rest` is in use, entry.S then also saves zmm16 to
 * zmm31 and the mask registers.
 */
struct {
	uint32_t mask; /* components for xsave */
	/* the instruction to use; 0: fxsave; 1: xsave; 2: xsavec */
	uint32_t how;
	/* size of the memory into which the registers are saved */
	uint64_t bytes;
	uint32_t quick;
	uint32_t upper;
	uint32_t rest;
} uaio_patch_save __attribute__((visibility("hidden"))) = { .bytes = 512 };

long (*uaio_patch_other)(int nr, const long args[6]);

/*
 * Writing trampolines
 */

static void put(uint8_t **at, const void *bytes, size_t nr)
{
	memcpy(*at, bytes, nr);
	*at += nr;
}

#define PUT(at, ...)                              \
	put(at, (const uint8_t[]){ __VA_ARGS__ }, \
	    sizeof((const uint8_t[]){ __VA_ARGS__ }))

/*
 * Write an opcode, and as its operand the distance from the end of the instruction to
 * `to`.
 */
static void put_near(uint8_t **at, const void *opcode, size_t nr,
		     const uint8_t *to)
{
	int32_t distance = (int32_t)(to - (*at + nr + 4));

	put(at, opcode, nr);
	put(at, &distance, 4);
}

/* Write `call *entry(%rip)`. The word at `entry` is the address of uaio_patch_entry. */
static void put_call(uint8_t **at, const uint8_t *entry)
{
	put_near(at, "\xff\x15", 2, entry);
}

void uaio_code_put_site(uint8_t *at, const uint8_t *entry,
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

void uaio_code_put_hook(uint8_t *at, const uint8_t *entry)
{
	PUT(&at, 0x50);                         /* push %rax */
	PUT(&at, 0xb8, 0xff, 0xff, 0xff, 0xff); /* mov $UAIO_CODE_HOOK, %eax */
	put_call(&at, entry);
	PUT(&at, 0x58, 0xc3); /* pop %rax; ret */
}

/*
 * Writing jumps over code of the program
 */

void uaio_code_flush(uint8_t *code, size_t bytes)
{
	/* Nothing to do: x86-64 keeps its instruction cache coherent. */
	(void)code;
	(void)bytes;
}

bool uaio_code_write_jump(uint8_t *at, size_t bytes, const uint8_t *to,
			  bool is_alone)
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
		 * One store writes the jump. The store is in assembly, because a
		 * sanitizer would report a store to code. Other threads see the
		 * trampoline before the jump: the trampoline was written before
		 * mprotect() made its memory executable.
		 */
		__asm__ volatile("movq %1, %0" : "=m"(*word) : "r"(value));
		return true;
	}
	if (!is_alone)
		return false;
	memcpy(at, jump, bytes);
	return true;
}

/*
 * Return: whether the function is empty: ret followed by padding, or endbr64 and ret.
 */
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

uint8_t *uaio_code_empty_function(uint8_t *code, size_t *ret_bytes)
{
	*ret_bytes = JUMP_BYTES;
	/*
	 * If the function's address is a multiple of 16, its first eight bytes are one
	 * aligned word, which a single store can write.
	 */
	return (uintptr_t)code % 16 || !is_empty_function(code) ? NULL : code;
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
 * Choose how to save the vector registers that the library or the C library may use.
 * Both use no x87 registers, no tiles (AMX) and no components that only the kernel
 * uses. So these are not saved.
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

#endif

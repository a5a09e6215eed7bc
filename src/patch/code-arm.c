/* SPDX-License-Identifier: MIT */
/*
 * Writes trampolines and jumps (code.h) for aarch64
 *
 * Tested by test-patch-arm.c.
 */
#include "patch/code.h"

#if defined(__aarch64__)
#include <string.h>

#include "base/atomic.h"
#include "patch/patch.h"

enum {
	/*
	 * number of io_uring_setup; the next two numbers are those of io_uring_enter
	 * and io_uring_register
	 */
	SETUP = 425,
	NR_CALLS = 3,
	JUMP = 0x14000000,
	/* the bits of a branch that hold its operand: a distance in instructions */
	DISTANCE = 0x03ffffff,
	RET = (int)0xd65f03c0,
	BTI_C = (int)0xd503245f,
	BTI_JC = (int)0xd50324df,
	NOP = (int)0xd503201f,
};

static uint32_t jump_from(const uint8_t *at, const uint8_t *to)
{
	return JUMP | ((uint32_t)((to - at) / 4) & DISTANCE);
}

static void put(uint8_t **at, uint32_t word)
{
	memcpy(*at, &word, sizeof(word));
	*at += sizeof(word);
}

/*
 * Write `ldr x16, entry; blr x16`. The word at `entry` is the address of
 * uaio_patch_entry.
 */
static void put_call(uint8_t **at, const uint8_t *entry)
{
	put(at, 0x58000010 | ((uint32_t)((entry - *at) / 4) & 0x7ffff) << 5);
	put(at, 0xd63f0200);
}

/*
 * Write a trampoline that preserves the flags, and all registers except x0. If w8 has
 * the number of a system call of io_uring, the trampoline calls the library. Otherwise
 * it executes a copy of the site's svc.
 */
void uaio_code_put_site(uint8_t *slot, const uint8_t *region,
			const struct uaio_site *site)
{
	uint8_t *at = slot;

	memcpy(slot + UAIO_SLOT_NUMBER, &site->nr, sizeof(site->nr));
	put(&at, 0xa9be47f0);                  /* stp x16, x17, [sp, -32]! */
	put(&at, 0xf9000bfe);                  /* str x30, [sp, 16] */
	put(&at, 0x2a0803f0);                  /* mov w16, w8 */
	put(&at, 0xd1000210 | SETUP << 10);    /* sub x16, x16, SETUP */
	put(&at, 0xb7f80110);                  /* tbnz x16, 63, other */
	put(&at, 0xd1000211 | NR_CALLS << 10); /* sub x17, x16, NR_CALLS */
	put(&at, 0xb6f800d1);                  /* tbz x17, 63, other */
	put_call(&at, region);
	put(&at, 0xf9400bfe); /* ldr x30, [sp, 16] */
	put(&at, 0xa8c247f0); /* ldp x16, x17, [sp], 32 */
	put(&at, jump_from(at, site->syscall + 4));
	put(&at, 0xa8c247f0); /* label `other`: ldp x16, x17, [sp], 32 */
	memcpy(at, site->syscall, sizeof(uint32_t)); /* svc */
	at += sizeof(uint32_t);
	put(&at, jump_from(at, site->syscall + 4));
}

void uaio_code_put_hook(uint8_t *slot, const uint8_t *region)
{
	uint8_t *at = slot;

	put(&at, 0xa9be47f0); /* stp x16, x17, [sp, -32]! */
	put(&at, 0xf9000bfe); /* str x30, [sp, 16] */
	put(&at, 0x12800008); /* mov w8, UAIO_CODE_HOOK */
	put_call(&at, region);
	put(&at, 0xf9400bfe); /* ldr x30, [sp, 16] */
	put(&at, 0xa8c247f0); /* ldp x16, x17, [sp], 32 */
	put(&at, RET);
}

uint8_t *uaio_code_empty_function(uint8_t *code, size_t *ret_bytes)
{
	uint32_t words[2];

	*ret_bytes = sizeof(words[0]);
	memcpy(words, code, sizeof(words));
	if (words[0] == (uint32_t)RET)
		return code;
	/*
	 * An empty function that may be called through a pointer has a bti instruction
	 * before its ret. Replace only the ret.
	 */
	if ((words[0] == (uint32_t)BTI_C || words[0] == (uint32_t)BTI_JC ||
	     words[0] == (uint32_t)NOP) &&
	    words[1] == (uint32_t)RET)
		return code + sizeof(words[0]);
	return NULL;
}

/*
 * Write a branch, which is one aligned 32-bit word, over an svc or a ret. The
 * architecture allows other threads to execute an svc while the branch replaces it:
 * each thread executes either the svc or the branch. The architecture does not allow
 * this for a ret, so a ret is replaced only if no other thread can execute it. The
 * trampoline was written and flushed before its memory became executable, so no thread
 * can execute stale bytes there.
 */
bool uaio_code_write_jump(uint8_t *at, size_t bytes, const uint8_t *to,
			  bool is_alone)
{
	uint32_t *word = (uint32_t *)at;

	if (load_relaxed(word) == (uint32_t)RET && !is_alone)
		return false;
	/*
	 * The store is in assembly, because a sanitizer would report a store to code.
	 */
	__asm__ volatile("str %w1, %0" : "=m"(*word) : "r"(jump_from(at, to)));
	uaio_code_flush(at, bytes);
	return true;
}

void uaio_code_flush(uint8_t *code, size_t bytes)
{
	__builtin___clear_cache((char *)code, (char *)code + bytes);
}

void uaio_patch_save_load(void)
{
	/*
	 * Nothing to choose: on all aarch64 processors, entry.S saves 16 bytes of each
	 * vector register.
	 */
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The instruction decoder (decode.h) for aarch64
 *
 * Tested by test-patch-arm.c.
 */
#include "patch/decode.h"

#if defined(__aarch64__)
#include <string.h>

enum {
	/* length of every instruction in bytes */
	LENGTH = 4,
	/* register number 31 stands for the zero register or the stack pointer */
	ZERO = 31,
};

static uint32_t read_word(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/*
 * Return: nr bits of word, beginning at bit `low`. signed_field() returns the bits as a
 * signed number.
 */
static uint32_t field(uint32_t word, unsigned low, unsigned nr)
{
	return word >> low & ((1u << nr) - 1);
}

static int64_t signed_field(uint32_t word, unsigned low, unsigned nr)
{
	return (int32_t)(word << (32 - low - nr)) >> (32 - nr);
}

size_t uaio_insn_length(const uint8_t *code, size_t room)
{
	/*
	 * Words below 1 << 16 are no instructions: they are permanently undefined
	 * (udf).
	 */
	return room >= LENGTH && read_word(code) >> 16 ? LENGTH : 0;
}

bool uaio_insn_is_syscall(const uint8_t *code, size_t length)
{
	/* svc with any operand is a system call: the kernel ignores the operand. */
	return length == LENGTH && (read_word(code) & 0xffe0001f) == 0xd4000001;
}

bool uaio_insn_is_nop(const uint8_t *code, size_t length)
{
	return length == LENGTH && read_word(code) == 0xd503201f;
}

/*
 * Return: whether word is a hint: a nop, or an instruction that only signs or checks an
 * address.
 */
static bool is_hint(uint32_t word)
{
	return (word & 0xfffff01f) == 0xd503201f;
}

/*
 * Return: the registers that the fields of the instruction name. An instruction can
 * change only these registers, and the second registers of register pairs.
 */
static uint32_t named_regs(uint32_t word)
{
	uint32_t regs = 1u << field(word, 0, 5) | 1u << field(word, 5, 5) |
			1u << field(word, 10, 5) | 1u << field(word, 16, 5);

	/*
	 * casp and similar instructions, mrrs and sysp name only the first register of
	 * a pair. Add the second one.
	 */
	if ((word & 0xbfa07c00) == 0x08207c00 ||
	    (word & 0xffc00000) == 0xd5400000)
		regs |= regs << 1;
	return regs;
}

uint32_t uaio_insn_writes(const uint8_t *code, size_t length)
{
	uint32_t word;
	uintptr_t target;
	unsigned from, to;

	if (length != LENGTH)
		return UAIO_INSN_ALL;
	word = read_word(code);
	switch (uaio_insn_flow(code, length, &target)) {
	case UAIO_FLOW_CALL: return UAIO_INSN_CALLED;
	case UAIO_FLOW_BRANCH: return 0;
	/*
	 * A branch may be a patched svc (patch.h), whose trampoline stores the result
	 * of the system call in x0.
	 */
	case UAIO_FLOW_JUMP: return UAIO_INSN_RESULT;
	case UAIO_FLOW_INDIRECT:
	case UAIO_FLOW_END: return 0;
	default: break;
	}
	if (uaio_insn_is_syscall(code, length))
		return UAIO_INSN_RESULT;
	/* Hints that sign or check addresses change x16, x17 or x30. */
	if (is_hint(word))
		return uaio_insn_is_nop(code, length)
			       ? 0
			       : 1u << 16 | 1u << 17 | 1u << 30;
	/* ld64b changes eight registers. */
	if ((word & 0xfffffc00) == 0xf83fd000)
		return UAIO_INSN_ALL;
	if (uaio_insn_copies(code, length, &from, &to))
		return 1u << to;
	/* movn, movz, movk, adr and adrp change only their destination register. */
	if ((word & 0x1f800000) == 0x12800000 ||
	    (word & 0x1f000000) == 0x10000000)
		return 1u << field(word, 0, 5);
	return named_regs(word);
}

bool uaio_insn_sets(const uint8_t *code, size_t length, unsigned *ret_reg,
		    uint32_t *ret_value)
{
	uint32_t word;

	if (length != LENGTH)
		return false;
	word = read_word(code);
	*ret_reg = field(word, 0, 5);
	*ret_value = field(word, 5, 16);
	/* movz, not shifted */
	return (word & 0x7fe00000) == 0x52800000 && *ret_reg != ZERO;
}

bool uaio_insn_copies(const uint8_t *code, size_t length, unsigned *ret_from,
		      unsigned *ret_to)
{
	uint32_t word;

	if (length != LENGTH)
		return false;
	word = read_word(code);
	*ret_to = field(word, 0, 5);
	*ret_from = field(word, 16, 5);
	/* orr with zero */
	return (word & 0x7fe0ffe0) == 0x2a0003e0 && *ret_to != ZERO &&
	       *ret_from != ZERO;
}

enum uaio_insn_flow uaio_insn_flow(const uint8_t *code, size_t length,
				   uintptr_t *ret_target)
{
	const uintptr_t at = (uintptr_t)code;
	uint32_t word;

	if (length != LENGTH)
		return UAIO_FLOW_NEXT;
	word = read_word(code);
	if ((word & 0x7c000000) == 0x14000000) { /* b, bl */
		*ret_target = at + (uintptr_t)(signed_field(word, 0, 26) * 4);
		return word >> 31 ? UAIO_FLOW_CALL : UAIO_FLOW_JUMP;
	}
	if ((word & 0xff000000) == 0x54000000 || /* b.cond */
	    (word & 0x7e000000) == 0x34000000) { /* cbz */
		*ret_target = at + (uintptr_t)(signed_field(word, 5, 19) * 4);
		return UAIO_FLOW_BRANCH;
	}
	if ((word & 0x7e000000) == 0x36000000) { /* tbz */
		*ret_target = at + (uintptr_t)(signed_field(word, 5, 14) * 4);
		return UAIO_FLOW_BRANCH;
	}
	/* cb compares registers and branches. */
	if ((word & 0x7e000000) == 0x74000000) {
		*ret_target = at + (uintptr_t)(signed_field(word, 5, 9) * 4);
		return UAIO_FLOW_BRANCH;
	}
	if ((word & 0xfe000000) == 0xd6000000) {
		/*
		 * The instructions br, blr, ret and eret. If bit 24 is set, the word is
		 * the form of the instruction with pointer authentication.
		 */
		switch (field(word, 21, 3)) {
		case 0: return UAIO_FLOW_INDIRECT;
		case 1: *ret_target = 0; return UAIO_FLOW_CALL;
		default: return UAIO_FLOW_END;
		}
	}
	/* brk and hlt; ret with pointer authentication */
	if ((word & 0xffe0001f) == 0xd4200000 ||
	    (word & 0xffe0001f) == 0xd4400000 ||
	    (word & 0xff00001f) == 0x5500001f)
		return UAIO_FLOW_END;
	return word >> 16 ? UAIO_FLOW_NEXT : UAIO_FLOW_END;
}

bool uaio_insn_computes(const uint8_t *code, size_t length,
			const uintptr_t *moved, uintptr_t *ret_addr)
{
	const uintptr_t at = (uintptr_t)code;
	uint32_t word, page;
	int64_t distance;

	(void)moved;
	if (length != LENGTH)
		return false;
	word = read_word(code);
	if ((word & 0x9f000000) == 0x10000000) { /* adr */
		*ret_addr = at + (uintptr_t)(signed_field(word, 5, 19) * 4 |
					     field(word, 29, 2));
		return true;
	}
	/*
	 * An add of an immediate operand may follow an adrp. Read the word before the
	 * add only if that word is in the same page of memory: the page before may be
	 * unreadable.
	 */
	if ((word & 0xffc00000) != 0x91000000 || !(at % 4096))
		return false;
	page = read_word(code - LENGTH);
	if ((page & 0x9f000000) != 0x90000000 ||
	    field(page, 0, 5) != field(word, 5, 5))
		return false;
	distance = signed_field(page, 5, 19) * 4 | field(page, 29, 2);
	*ret_addr = ((at - LENGTH) & ~4095ul) + (uintptr_t)(distance * 4096) +
		    field(word, 10, 12);
	return true;
}

bool uaio_insn_is_movable(const uint8_t *code, size_t length)
{
	uintptr_t target;

	/*
	 * On aarch64 no instruction is moved. So it is enough to check two things: the
	 * instruction does not branch, and it does not change the number of the system
	 * call.
	 */
	return uaio_insn_flow(code, length, &target) == UAIO_FLOW_NEXT &&
	       !(uaio_insn_writes(code, length) & UAIO_INSN_NUMBER);
}

#endif

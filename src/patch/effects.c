/* SPDX-License-Identifier: MIT */
/*
 * What x86-64 instructions do (decode.h): which registers they change, where they lead,
 * and whether they may be moved
 *
 * Tested by test-patch.c and test-scan.c.
 */
#include "patch/decode-x86.h"

#include <string.h>

#if defined(__x86_64__)

/* Return: whether the operand in ModRM.rm is relative to rip. */
static bool is_relative(const struct uaio_insn *insn)
{
	return insn->has_modrm && insn->modrm >> 6 == 0 &&
	       (insn->modrm & 7) == 5;
}

static bool is_rm_rax(const struct uaio_insn *insn)
{
	return insn->modrm >> 6 == 3 && (insn->modrm & 7) == 0 &&
	       !(insn->rex & 1);
}

static bool is_reg_rax(const struct uaio_insn *insn)
{
	return (insn->modrm >> 3 & 7) == 0 && !(insn->rex & 4);
}

/*
 * Return: whether the instruction moves data between vector registers and memory:
 * opcodes 0f 10, 11, 28, 29, 6f, 7f.
 */
static bool is_vector_move(const struct uaio_insn *insn)
{
	switch (insn->opcode) {
	case 0x10:
	case 0x11:
	case 0x28:
	case 0x29:
	case 0x6f:
	case 0x7f: return true;
	case 0xef: /* pxor */
	case 0x57: /* xorps */ return insn->modrm >> 6 == 3;
	default: return false;
	}
}

/*
 * Return: whether the processor always executes the next instruction after this one,
 * and rax does not change. True only for the few instructions that compilers put
 * between `mov $number, %eax` and `syscall`.
 */
static bool leaves_rax(const struct uaio_insn *insn)
{
	if (insn->is_vex || insn->map > 1)
		return false;
	if (insn->map == 1) {
		if (is_in(insn->opcode, 0xb6, 0xb7) ||
		    is_in(insn->opcode, 0xbe, 0xbf)) /* movzx, movsx */
			return !is_reg_rax(insn);
		return is_vector_move(insn);
	}
	if (is_in(insn->opcode, 0x50, 0x57)) /* push */
		return !insn->has_prefix;
	if (is_in(insn->opcode, 0xb8, 0xbf)) /* mov of an immediate operand */
		return insn->opcode != 0xb8 || insn->rex & 1;
	switch (insn->opcode) {
	/*
	 * mov of a byte: accept only a destination in memory, as a byte register may be
	 * part of rax
	 */
	case 0x88:
	case 0xc6: return insn->modrm >> 6 != 3;
	case 0x89: /* mov, add, `or`, `and`, sub, xor to ModRM.rm */
	case 0x01:
	case 0x09:
	case 0x21:
	case 0x29:
	case 0x31: return !is_rm_rax(insn);
	/*
	 * mov, add, `or`, `and`, sub, xor to the register in ModRM.reg; lea; movslq
	 */
	case 0x8b:
	case 0x03:
	case 0x0b:
	case 0x23:
	case 0x2b:
	case 0x33:
	case 0x63:
	case 0x8d: return !is_reg_rax(insn);
	case 0xc7: /* mov of an immediate operand to the operand rm */
		return (insn->modrm >> 3 & 7) == 0 && !is_rm_rax(insn);
	case 0x81: /* arithmetic with an immediate operand, except adc and sbb */
	case 0x83:
		return (insn->modrm >> 3 & 7) != 2 &&
		       (insn->modrm >> 3 & 7) != 3 && !is_rm_rax(insn);
	case 0x85: return true; /* test */
	default: return false;
	}
}

bool uaio_insn_is_movable(const uint8_t *code, size_t length)
{
	struct uaio_insn insn;

	return uaio_insn_read(code, length, &insn) && insn.at == length &&
	       leaves_rax(&insn) && !is_relative(&insn);
}

/*
 * reg_bit(): the bit of the register that ModRM.reg names. rm_bit(): the bit of the
 * register that ModRM.rm names; 0 if it names memory.
 */
static uint16_t reg_bit(const struct uaio_insn *insn)
{
	return (uint16_t)(1u
			  << ((insn->modrm >> 3 & 7) | (insn->rex & 4) << 1));
}

static uint16_t rm_bit(const struct uaio_insn *insn)
{
	return insn->modrm >> 6 == 3 ? (uint16_t)(1u << ((insn->modrm & 7) |
							 (insn->rex & 1) << 3))
				     : 0;
}

/*
 * If ModRM.rm names a byte register 4 to 7, this may be ah, ch, dh or bh: a part of
 * rax, rcx, rdx or rbx. So also include the bits of these four registers.
 */
static uint16_t rm_byte_bits(const struct uaio_insn *insn)
{
	return (uint16_t)(rm_bit(insn) | (rm_bit(insn) >> 4 & 15));
}

/*
 * op: the byte after the byte 0f of an opcode.
 * Return: whether the instruction changes only vector registers and memory.
 */
static bool is_vector(uint8_t op)
{
	return is_in(op, 0x10, 0x17) || is_in(op, 0x28, 0x2b) ||
	       is_in(op, 0x2e, 0x2f) || is_in(op, 0x51, 0x76) ||
	       is_in(op, 0x7c, 0x7d) || op == 0x7f || op == 0xc6 ||
	       is_in(op, 0xd0, 0xd6) || is_in(op, 0xd8, 0xfe);
}

static uint16_t writes_two(const struct uaio_insn *insn)
{
	const uint8_t op = insn->opcode;

	if (is_vector(op))
		return 0;

	/* conditional jumps, nop and bt change no register */
	if (is_in(op, 0x80, 0x8f) || op == 0x1f || op == 0xa3)
		return 0;
	/* cmov, movzx, movsx and imul change the register in ModRM.reg */
	if (is_in(op, 0x40, 0x4f) || is_in(op, 0xb6, 0xb7) ||
	    is_in(op, 0xbe, 0xbf) || op == 0xaf)
		return reg_bit(insn);
	if (is_in(op, 0x90, 0x9f)) /* set */
		return rm_byte_bits(insn);
	switch (op) {
	case 0x05: /* syscall */
		return UAIO_INSN_RAX | UAIO_INSN_RCX | UAIO_INSN_R11;
	/*
	 * endbr64 changes nothing; other instructions with this opcode may read the
	 * shadow stack
	 */
	case 0x1e: return insn->modrm == 0xfa ? 0 : UAIO_INSN_ALL;
	case 0xb1: /* cmpxchg */ return UAIO_INSN_RAX | rm_bit(insn);
	case 0xba: /* bt, bts, btr, btc */ return rm_bit(insn);
	case 0xc1: /* xadd */ return reg_bit(insn) | rm_bit(insn);
	default: return UAIO_INSN_ALL;
	}
}

/*
 * Each of the opcodes f6, f7 and ff stands for several instructions. ModRM.reg says
 * which one it is.
 */
static uint16_t writes_group(const struct uaio_insn *insn)
{
	const uint8_t reg = insn->modrm >> 3 & 7;

	if (insn->opcode == 0xff)
		return reg < 2   ? rm_bit(insn) /* inc, dec */
		       : reg < 4 ? UAIO_INSN_CALLED
		       : reg < 6 ? UAIO_INSN_ALL
				 : 0;   /* push */
	return reg < 2   ? 0            /* test */
	       : reg < 4 ? rm_bit(insn) /* not, neg */
			 : UAIO_INSN_RAX | UAIO_INSN_RDX;
}

/*
 * Return: the registers that an instruction with an opcode below 0x40 changes: add,
 * `or`, adc, sbb, `and`, sub or xor, but not cmp.
 */
static uint16_t writes_arithmetic(const struct uaio_insn *insn)
{
	switch (insn->opcode % 8) {
	case 0: return rm_byte_bits(insn);
	case 1: return rm_bit(insn);
	case 2: return (uint16_t)(reg_bit(insn) | (reg_bit(insn) >> 4 & 15));
	case 3: return reg_bit(insn);
	default: return UAIO_INSN_RAX;
	}
}

static uint16_t writes_one(const struct uaio_insn *insn)
{
	const uint8_t op = insn->opcode, reg = insn->modrm >> 3 & 7;
	const uint16_t in_opcode =
		(uint16_t)(1u << (op % 8 | (insn->rex & 1) << 3));

	if (is_in(op, 0x50, 0x57)) /* push */
		return 0;
	if (is_in(op, 0x58, 0x5f) || is_in(op, 0xb8, 0xbf))
		return in_opcode; /* pop, mov of an immediate operand */
	/* conditional jumps, cmp and test change no register */
	if (is_in(op, 0x70, 0x7f) || op == 0xe3 || is_in(op, 0x38, 0x3d) ||
	    is_in(op, 0x84, 0x85) || is_in(op, 0xa8, 0xa9))
		return 0;
	if (op < 0x40)
		return writes_arithmetic(insn);
	switch (op) {
	case 0x88: /* mov of a byte to ModRM.rm */
	case 0xc6: return rm_byte_bits(insn);
	case 0x89: /* mov to the operand rm */ return rm_bit(insn);
	case 0x8b: /* mov to the register in ModRM.reg; lea, movslq, imul */
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x8d: return reg_bit(insn);
	case 0x80: /* arithmetic with an immediate operand; cmp (reg 7) changes no register */
		return reg == 7 ? 0 : rm_byte_bits(insn);
	case 0x81:
	case 0x83: return reg == 7 ? 0 : rm_bit(insn);
	case 0x87: /* xchg */ return reg_bit(insn) | rm_bit(insn);
	case 0x90: /* nop, pause */ return insn->rex & 1 ? UAIO_INSN_ALL : 0;
	case 0xc0: /* shifts of a byte */
	case 0xd0:
	case 0xd2: return rm_byte_bits(insn);
	case 0xc1: /* shifts */
	case 0xd1:
	case 0xd3: return rm_bit(insn);
	case 0xc7: /* mov of an immediate operand; xbegin has the same opcode */
		return reg ? UAIO_INSN_ALL : rm_bit(insn);
	case 0xe8: /* call */ return UAIO_INSN_CALLED;
	case 0xe9: /* jmp */
	case 0xeb: return 0;
	case 0xf6:
	case 0xf7:
	case 0xff: return writes_group(insn);
	default: return UAIO_INSN_ALL;
	}
}

uint16_t uaio_insn_writes(const uint8_t *code, size_t length)
{
	struct uaio_insn insn;

	if (!uaio_insn_read(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map > 1)
		return UAIO_INSN_ALL;
	return insn.map ? writes_two(&insn) : writes_one(&insn);
}

/*
 * Return: the signed operand in the last byte, or in the last four bytes, of an
 * instruction.
 */
static intptr_t last_number(const uint8_t *code, size_t length, size_t bytes)
{
	int32_t number = (int8_t)code[length - 1];

	if (bytes == sizeof(number))
		memcpy(&number, code + length - bytes, bytes);
	return number;
}

bool uaio_insn_is_syscall(const uint8_t *code, size_t length)
{
	return length == 2 && code[0] == 0x0f && code[1] == 0x05;
}

bool uaio_insn_is_nop(const uint8_t *code, size_t length)
{
	struct uaio_insn insn;

	if (!uaio_insn_read(code, length, &insn) || insn.is_vex)
		return false;
	return insn.map ? insn.map == 1 && insn.opcode == 0x1f
			: insn.opcode == 0x90 && !(insn.rex & 1);
}

static unsigned number_of(uint16_t bit)
{
	return (unsigned)__builtin_ctz(bit);
}

bool uaio_insn_sets(const uint8_t *code, size_t length, unsigned *ret_reg,
		    uint32_t *ret_value)
{
	struct uaio_insn insn;

	if (!uaio_insn_read(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map || insn.has_66)
		return false;
	if (is_in(insn.opcode, 0xb8, 0xbf)) {
		/*
		 * With REX.W the immediate operand has 64 bits. Such an operand counts as
		 * unknown.
		 */
		*ret_reg = insn.opcode % 8 | (insn.rex & 1) << 3;
		*ret_value = (uint32_t)last_number(code, length, 4);
		return !(insn.rex & 8);
	}
	if (!insn.has_modrm || !rm_bit(&insn))
		return false;
	*ret_reg = number_of(rm_bit(&insn));
	switch (insn.opcode) {
	case 0xc7:
		*ret_value = (uint32_t)last_number(code, length, 4);
		return (insn.modrm >> 3 & 7) == 0;
	case 0x31: /* xor of a register with itself sets it to 0 */
	case 0x33: *ret_value = 0; return reg_bit(&insn) == rm_bit(&insn);
	default: return false;
	}
}

bool uaio_insn_copies(const uint8_t *code, size_t length, unsigned *ret_from,
		      unsigned *ret_to)
{
	struct uaio_insn insn;

	if (!uaio_insn_read(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map || insn.has_66 || !insn.has_modrm ||
	    !rm_bit(&insn))
		return false;
	*ret_from =
		number_of(insn.opcode == 0x89 ? reg_bit(&insn) : rm_bit(&insn));
	*ret_to =
		number_of(insn.opcode == 0x89 ? rm_bit(&insn) : reg_bit(&insn));
	return insn.opcode == 0x89 || insn.opcode == 0x8b;
}

static enum uaio_insn_flow flow_one(const struct uaio_insn *insn,
				    size_t *ret_bytes)
{
	uint8_t op = insn->opcode, reg = insn->modrm >> 3 & 7;

	*ret_bytes = op == 0xe8 || op == 0xe9 || op == 0xc7 ? 4 : 1;
	if (is_in(op, 0x70, 0x7f) || is_in(op, 0xe0, 0xe3))
		return UAIO_FLOW_BRANCH;
	switch (op) {
	case 0xe8: return UAIO_FLOW_CALL;
	case 0xe9:
	case 0xeb: return UAIO_FLOW_JUMP;
	/* all kinds of ret */
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
	case 0xcc: /* int3 */
	case 0xf4: /* hlt */ return UAIO_FLOW_END;
	case 0xc7: /* xbegin */
		return insn->modrm == 0xf8 ? UAIO_FLOW_BRANCH : UAIO_FLOW_NEXT;
	/*
	 * jmp to an address in a register or in memory. If the address is in memory,
	 * and no index register is used, assume a tail call of another function.
	 */
	case 0xff:
		if (reg != 4 && reg != 5)
			return UAIO_FLOW_NEXT;
		return insn->modrm >> 6 != 3 && (insn->modrm & 7) != 4
			       ? UAIO_FLOW_END
			       : UAIO_FLOW_INDIRECT;
	default: return UAIO_FLOW_NEXT;
	}
}

enum uaio_insn_flow uaio_insn_flow(const uint8_t *code, size_t length,
				   uintptr_t *ret_target)
{
	enum uaio_insn_flow flow = UAIO_FLOW_NEXT;
	struct uaio_insn insn;
	size_t bytes = 4;

	if (!uaio_insn_read(code, length, &insn) || insn.is_vex || insn.map > 1)
		return UAIO_FLOW_NEXT;
	if (!insn.map)
		flow = flow_one(&insn, &bytes);
	else if (is_in(insn.opcode, 0x80, 0x8f))
		flow = UAIO_FLOW_BRANCH;
	else if (insn.opcode == 0x0b) /* ud2 */
		flow = UAIO_FLOW_END;
	*ret_target = (uintptr_t)code + length +
		      (uintptr_t)last_number(code, length, bytes);
	return flow;
}

bool uaio_insn_computes(const uint8_t *code, size_t length,
			const uintptr_t *moved, uintptr_t *ret_addr)
{
	struct uaio_insn insn;

	if (!uaio_insn_read(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map)
		return false;
	*ret_addr = (uintptr_t)code + length;
	if (insn.opcode == 0x8d && is_relative(&insn)) {
		*ret_addr += (uintptr_t)last_number(code, length, 4);
		return true;
	}
	/*
	 * Besides lea, only a mov of an immediate operand to a register or to memory
	 * counts as computing an address.
	 */
	if (!moved || insn.has_66 ||
	    (insn.opcode == 0xc7
		     ? (insn.modrm >> 3 & 7) != 0
		     : !is_in(insn.opcode, 0xb8, 0xbf) || insn.rex & 8))
		return false;
	*ret_addr = *moved + (uint32_t)last_number(code, length, 4);
	return true;
}

#endif

/* SPDX-License-Identifier: MIT */
#include "patch/decode.h"

#if defined(__x86_64__)
#include <string.h>

enum {
	LENGTH_MAX = 15,
	/* What follows an opcode: */
	NONE = 0,
	MODRM = 1,
	IMM8 = 2,
	IMM16 = 4,
	IMM32 = 8,    /* or 16 bits with the prefix 66 */
	WIDE = 16,    /* 64 bits with REX.W, else as IMM32 */
	OFFSET = 32,  /* an address of 64 bits */
	GROUP3 = 64,  /* an immediate if the ModRM has 0 or 1 for a register */
	BRANCH = 128, /* 32 bits; with the prefix 66 it depends on the maker */
	UNKNOWN = 256,
};

/* The instruction as far as it has been read. */
struct insn {
	const uint8_t *code;
	size_t room;
	size_t at;
	uint8_t rex;
	bool has_66;
	bool has_67;
	bool has_prefix; /* any but REX */
	bool is_vex;
	uint8_t map; /* 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a; others: new */
	uint8_t opcode;
	bool has_modrm;
	uint8_t modrm;
};

static bool is_in(uint8_t value, uint8_t first, uint8_t last)
{
	return value >= first && value <= last;
}

/* The opcodes of one byte. */
static unsigned follows_one(uint8_t op)
{
	static const uint8_t plain[] = { 0x98, 0x99, 0x9b, 0x9c, 0x9d, 0x9e,
					 0x9f, 0xc3, 0xc9, 0xcb, 0xcc, 0xcf,
					 0xd7, 0xf1, 0xf4, 0xf5 };

	if (op < 0x40)
		return op % 8 < 4    ? MODRM
		       : op % 8 == 4 ? IMM8
		       : op % 8 == 5 ? IMM32
				     : UNKNOWN;
	if (is_in(op, 0x50, 0x5f) || is_in(op, 0x6c, 0x6f) ||
	    is_in(op, 0x90, 0x97) || is_in(op, 0xa4, 0xa7) ||
	    is_in(op, 0xaa, 0xaf) || is_in(op, 0xec, 0xef) ||
	    is_in(op, 0xf8, 0xfd))
		return NONE;
	for (size_t i = 0; i < sizeof(plain); i++)
		if (op == plain[i])
			return NONE;
	if (is_in(op, 0x70, 0x7f) || is_in(op, 0xb0, 0xb7) ||
	    is_in(op, 0xe0, 0xe7))
		return IMM8;
	if (is_in(op, 0x84, 0x8f) || is_in(op, 0xd0, 0xd3) ||
	    is_in(op, 0xd8, 0xdf))
		return MODRM;
	if (is_in(op, 0xb8, 0xbf))
		return WIDE;
	if (is_in(op, 0xa0, 0xa3))
		return OFFSET;
	switch (op) {
	case 0x63:
	case 0xfe:
	case 0xff: return MODRM;
	case 0x68:
	case 0xa9: return IMM32;
	case 0x69:
	case 0x81:
	case 0xc7: return MODRM | IMM32;
	case 0x6a:
	case 0xa8:
	case 0xcd:
	case 0xeb: return IMM8;
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xc0:
	case 0xc1:
	case 0xc6: return MODRM | IMM8;
	case 0xc2:
	case 0xca: return IMM16;
	case 0xc8: return IMM16 | IMM8;
	case 0xe8:
	case 0xe9: return BRANCH;
	case 0xf6:
	case 0xf7: return MODRM | GROUP3;
	default: return UNKNOWN;
	}
}

/* The opcodes behind 0f. */
static unsigned follows_two(uint8_t op)
{
	static const uint8_t plain[] = { 0x05, 0x06, 0x07, 0x08, 0x09,
					 0x0b, 0x77, 0xa0, 0xa1, 0xa2,
					 0xa8, 0xa9, 0xaa };

	for (size_t i = 0; i < sizeof(plain); i++)
		if (op == plain[i])
			return NONE;
	if (is_in(op, 0x30, 0x37) || is_in(op, 0xc8, 0xcf))
		return NONE;
	if (is_in(op, 0x80, 0x8f))
		return BRANCH;
	if (is_in(op, 0x70, 0x73) || is_in(op, 0xc4, 0xc6))
		return MODRM | IMM8;
	switch (op) {
	case 0xa4:
	case 0xac:
	case 0xba:
	case 0xc2: return MODRM | IMM8;
	case 0x04:
	case 0x0a:
	case 0x0c:
	case 0x0e:
	case 0x0f:
	case 0x39:
	case 0x3b:
	case 0x3c:
	case 0x3d:
	case 0x3e:
	case 0x3f:
	case 0x78:
	case 0x79:
	case 0xa6:
	case 0xa7: return UNKNOWN;
	default:
		return is_in(op, 0x24, 0x27) || is_in(op, 0x7a, 0x7b) ? UNKNOWN
								      : MODRM;
	}
}

static unsigned follows(const struct insn *insn)
{
	switch (insn->map) {
	case 0: return follows_one(insn->opcode);
	case 1: return follows_two(insn->opcode);
	case 2:
	case 5:
	case 6: return MODRM;
	case 3: return MODRM | IMM8;
	default: return UNKNOWN;
	}
}

/* Return: false if there is no more. */
static bool next(struct insn *insn, uint8_t *ret_byte)
{
	if (insn->at >= insn->room || insn->at >= LENGTH_MAX)
		return false;
	*ret_byte = insn->code[insn->at++];
	return true;
}

static bool read_prefixes(struct insn *insn, uint8_t *ret_byte)
{
	while (next(insn, ret_byte)) {
		switch (*ret_byte) {
		case 0x66: insn->has_66 = true; break;
		case 0x67: insn->has_67 = true; break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
		case 0xf0:
		case 0xf2:
		case 0xf3: break;
		default:
			if (!is_in(*ret_byte, 0x40, 0x4f))
				return true;
			insn->rex = *ret_byte;
			/* A REX prefix counts only right before the opcode. */
			return next(insn, ret_byte) &&
			       !is_in(*ret_byte, 0x40, 0x4f);
		}
		insn->has_prefix = true;
	}
	return false;
}

/* c5, c4 or 62 has been read: the rest of the prefix and the opcode. */
static bool read_vex(struct insn *insn, uint8_t first)
{
	unsigned nr_more = first == 0xc5 ? 1 : first == 0xc4 ? 2 : 3;
	uint8_t byte;

	insn->is_vex = true;
	insn->map = 1;
	for (unsigned i = 0; i < nr_more; i++) {
		if (!next(insn, &byte))
			return false;
		if (i == 0 && nr_more > 1)
			insn->map = (uint8_t)(byte & (first == 0xc4 ? 31 : 7));
	}
	return insn->map && !insn->rex && next(insn, &insn->opcode);
}

static bool read_opcode(struct insn *insn)
{
	uint8_t byte;

	if (!read_prefixes(insn, &byte))
		return false;
	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62)
		return read_vex(insn, byte);
	insn->opcode = byte;
	if (byte != 0x0f)
		return true;
	insn->map = 1;
	if (!next(insn, &insn->opcode))
		return false;
	if (insn->opcode != 0x38 && insn->opcode != 0x3a)
		return true;
	insn->map = insn->opcode == 0x38 ? 2 : 3;
	return next(insn, &insn->opcode);
}

/* The bytes of an address behind the ModRM. */
static bool read_address(struct insn *insn)
{
	uint8_t mod, rm, sib = 0;

	if (!next(insn, &insn->modrm))
		return false;
	insn->has_modrm = true;
	mod = insn->modrm >> 6;
	rm = insn->modrm & 7;
	if (mod == 3)
		return true;
	if (rm == 4 && !next(insn, &sib))
		return false;
	if (mod == 1)
		insn->at += 1;
	else if (mod == 2 || rm == 5 || (rm == 4 && (sib & 7) == 5))
		insn->at += 4;
	return true;
}

static size_t immediate_bytes(const struct insn *insn, unsigned what)
{
	size_t word = insn->has_66 && !(insn->rex & 8) ? 2 : 4, bytes = 0;

	if (what & IMM8)
		bytes += 1;
	if (what & IMM16)
		bytes += 2;
	if (what & IMM32)
		bytes += word;
	if (what & WIDE)
		bytes += insn->rex & 8 ? 8 : word;
	if (what & OFFSET)
		bytes += insn->has_67 ? 4 : 8;
	if (what & BRANCH)
		bytes += 4;
	if (what & GROUP3 && (insn->modrm >> 3 & 7) < 2)
		bytes += insn->opcode == 0xf6 ? 1 : word;
	return bytes;
}

static bool read_insn(const uint8_t *code, size_t room, struct insn *insn)
{
	unsigned what;

	*insn = (struct insn){ .code = code, .room = room };
	if (!read_opcode(insn))
		return false;
	what = follows(insn);
	if (what & UNKNOWN)
		return false;
	if (what & BRANCH && insn->has_66 && !(insn->rex & 8))
		return false;
	if (what & MODRM && !read_address(insn))
		return false;
	/* pop has 0 there; others begin a prefix of AMD's. */
	if (!insn->map && insn->opcode == 0x8f && insn->modrm >> 3 & 7)
		return false;
	insn->at += immediate_bytes(insn, what);
	return insn->at <= room && insn->at <= LENGTH_MAX;
}

size_t uaio_insn_length(const uint8_t *code, size_t room)
{
	struct insn insn;

	return read_insn(code, room, &insn) ? insn.at : 0;
}

/* Return: whether the operand in the ModRM's rm is relative to rip. */
static bool is_relative(const struct insn *insn)
{
	return insn->has_modrm && insn->modrm >> 6 == 0 &&
	       (insn->modrm & 7) == 5;
}

/* Return: whether the operand in the ModRM's rm is rax. */
static bool is_rm_rax(const struct insn *insn)
{
	return insn->modrm >> 6 == 3 && (insn->modrm & 7) == 0 &&
	       !(insn->rex & 1);
}

/* Return: whether the operand in the ModRM's reg is rax. */
static bool is_reg_rax(const struct insn *insn)
{
	return (insn->modrm >> 3 & 7) == 0 && !(insn->rex & 4);
}

/* Moves to memory from vector registers, and back: 0f 10, 11, 28, 29, 6f, 7f. */
static bool is_vector_move(const struct insn *insn)
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
 * Return: whether the instruction goes on to the next, and leaves rax as it is. False
 * unless it is one of the few that compilers put between the number of a system call
 * and the call.
 */
static bool leaves_rax(const struct insn *insn)
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
	if (is_in(insn->opcode, 0xb8, 0xbf)) /* mov of a constant */
		return insn->opcode != 0xb8 || insn->rex & 1;
	switch (insn->opcode) {
	case 0x88: /* mov of a byte to memory; registers may be parts of rax */
	case 0xc6: return insn->modrm >> 6 != 3;
	case 0x89: /* mov, and add, or, and, sub, xor to rm */
	case 0x01:
	case 0x09:
	case 0x21:
	case 0x29:
	case 0x31: return !is_rm_rax(insn);
	case 0x8b: /* the same to reg; lea; movslq */
	case 0x03:
	case 0x0b:
	case 0x23:
	case 0x2b:
	case 0x33:
	case 0x63:
	case 0x8d: return !is_reg_rax(insn);
	case 0xc7: /* mov of a constant to rm */
		return (insn->modrm >> 3 & 7) == 0 && !is_rm_rax(insn);
	case 0x81: /* add and the like of a constant; not adc and sbb */
	case 0x83:
		return (insn->modrm >> 3 & 7) != 2 &&
		       (insn->modrm >> 3 & 7) != 3 && !is_rm_rax(insn);
	case 0x85: return true; /* test */
	default: return false;
	}
}

bool uaio_insn_is_movable(const uint8_t *code, size_t length)
{
	struct insn insn;

	return read_insn(code, length, &insn) && insn.at == length &&
	       leaves_rax(&insn) && !is_relative(&insn);
}

/* Return: the bit of the register in the ModRM's reg; and in its rm, if it is one. */
static uint16_t reg_bit(const struct insn *insn)
{
	return (uint16_t)(1u
			  << ((insn->modrm >> 3 & 7) | (insn->rex & 4) << 1));
}

static uint16_t rm_bit(const struct insn *insn)
{
	return insn->modrm >> 6 == 3 ? (uint16_t)(1u << ((insn->modrm & 7) |
							 (insn->rex & 1) << 3))
				     : 0;
}

/* A register of one byte may be the second byte of one of the first four. */
static uint16_t rm_byte_bits(const struct insn *insn)
{
	return (uint16_t)(rm_bit(insn) | (rm_bit(insn) >> 4 & 15));
}

/* Instructions of vector registers, which change these and memory only. */
static bool is_vector(uint8_t op)
{
	return is_in(op, 0x10, 0x17) || is_in(op, 0x28, 0x2b) ||
	       is_in(op, 0x2e, 0x2f) || is_in(op, 0x51, 0x76) ||
	       is_in(op, 0x7c, 0x7d) || op == 0x7f || op == 0xc6 ||
	       is_in(op, 0xd0, 0xd6) || is_in(op, 0xd8, 0xfe);
}

static uint16_t writes_two(const struct insn *insn)
{
	const uint8_t op = insn->opcode;

	if (is_vector(op))
		return 0;

	/* Conditional jumps, nop, bt. */
	if (is_in(op, 0x80, 0x8f) || op == 0x1f || op == 0xa3)
		return 0;
	/* cmov, movzx, movsx, imul */
	if (is_in(op, 0x40, 0x4f) || is_in(op, 0xb6, 0xb7) ||
	    is_in(op, 0xbe, 0xbf) || op == 0xaf)
		return reg_bit(insn);
	if (is_in(op, 0x90, 0x9f)) /* set */
		return rm_byte_bits(insn);
	switch (op) {
	case 0x05: /* syscall */
		return UAIO_INSN_RAX | UAIO_INSN_RCX | UAIO_INSN_R11;
	case 0x1e: /* endbr64; others read the shadow stack */
		return insn->modrm == 0xfa ? 0 : UAIO_INSN_ALL;
	case 0xb1: /* cmpxchg */ return UAIO_INSN_RAX | rm_bit(insn);
	case 0xba: /* bt, bts, btr, btc */ return rm_bit(insn);
	case 0xc1: /* xadd */ return reg_bit(insn) | rm_bit(insn);
	default: return UAIO_INSN_ALL;
	}
}

/* f6, f7 and ff: what they do stands in the ModRM. */
static uint16_t writes_group(const struct insn *insn)
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

/* The opcodes below 40: add, or, adc, sbb, and, sub, xor; not cmp. */
static uint16_t writes_arithmetic(const struct insn *insn)
{
	switch (insn->opcode % 8) {
	case 0: return rm_byte_bits(insn);
	case 1: return rm_bit(insn);
	case 2: return (uint16_t)(reg_bit(insn) | (reg_bit(insn) >> 4 & 15));
	case 3: return reg_bit(insn);
	default: return UAIO_INSN_RAX;
	}
}

static uint16_t writes_one(const struct insn *insn)
{
	const uint8_t op = insn->opcode, reg = insn->modrm >> 3 & 7;
	const uint16_t in_opcode =
		(uint16_t)(1u << (op % 8 | (insn->rex & 1) << 3));

	if (is_in(op, 0x50, 0x57)) /* push */
		return 0;
	if (is_in(op, 0x58, 0x5f) || is_in(op, 0xb8, 0xbf))
		return in_opcode; /* pop, mov of a constant */
	/* Conditional jumps; cmp, test. */
	if (is_in(op, 0x70, 0x7f) || op == 0xe3 || is_in(op, 0x38, 0x3d) ||
	    is_in(op, 0x84, 0x85) || is_in(op, 0xa8, 0xa9))
		return 0;
	if (op < 0x40)
		return writes_arithmetic(insn);
	switch (op) {
	case 0x88: /* mov of a byte to rm */
	case 0xc6: return rm_byte_bits(insn);
	case 0x89: /* mov to rm */ return rm_bit(insn);
	case 0x8b: /* mov to reg; lea, movslq, imul */
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x8d: return reg_bit(insn);
	case 0x80: /* add and the like of a constant, and cmp */
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
	case 0xc7: /* mov of a constant; not xbegin */
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
	struct insn insn;

	if (!read_insn(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map > 1)
		return UAIO_INSN_ALL;
	return insn.map ? writes_two(&insn) : writes_one(&insn);
}

/* The number in the last bytes of an instruction, with its sign. */
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
	struct insn insn;

	if (!read_insn(code, length, &insn) || insn.is_vex)
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
	struct insn insn;

	if (!read_insn(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map || insn.has_66)
		return false;
	if (is_in(insn.opcode, 0xb8, 0xbf)) {
		/* With REX.W the constant has 64 bits. */
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
	case 0x31: /* xor of a register with itself */
	case 0x33: *ret_value = 0; return reg_bit(&insn) == rm_bit(&insn);
	default: return false;
	}
}

bool uaio_insn_copies(const uint8_t *code, size_t length, unsigned *ret_from,
		      unsigned *ret_to)
{
	struct insn insn;

	if (!read_insn(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map || insn.has_66 || !insn.has_modrm ||
	    !rm_bit(&insn))
		return false;
	*ret_from =
		number_of(insn.opcode == 0x89 ? reg_bit(&insn) : rm_bit(&insn));
	*ret_to =
		number_of(insn.opcode == 0x89 ? rm_bit(&insn) : reg_bit(&insn));
	return insn.opcode == 0x89 || insn.opcode == 0x8b;
}

static enum uaio_insn_flow flow_one(const struct insn *insn, size_t *ret_bytes)
{
	uint8_t op = insn->opcode, reg = insn->modrm >> 3 & 7;

	*ret_bytes = op == 0xe8 || op == 0xe9 || op == 0xc7 ? 4 : 1;
	if (is_in(op, 0x70, 0x7f) || is_in(op, 0xe0, 0xe3))
		return UAIO_FLOW_BRANCH;
	switch (op) {
	case 0xe8: return UAIO_FLOW_CALL;
	case 0xe9:
	case 0xeb: return UAIO_FLOW_JUMP;
	case 0xc2: /* ret, and ret of other kinds */
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
	case 0xcc: /* int3 */
	case 0xf4: /* hlt */ return UAIO_FLOW_END;
	case 0xc7: /* xbegin */
		return insn->modrm == 0xf8 ? UAIO_FLOW_BRANCH : UAIO_FLOW_NEXT;
	case 0xff: /* jmp; by memory without an index it is a call at the end */
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
	struct insn insn;
	size_t bytes = 4;

	if (!read_insn(code, length, &insn) || insn.is_vex || insn.map > 1)
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
	struct insn insn;

	if (!read_insn(code, length, &insn) || insn.at != length ||
	    insn.is_vex || insn.map)
		return false;
	*ret_addr = (uintptr_t)code + length;
	if (insn.opcode == 0x8d && is_relative(&insn)) {
		*ret_addr += (uintptr_t)last_number(code, length, 4);
		return true;
	}
	/* mov of a constant to a register, or to memory */
	if (!moved || insn.has_66 ||
	    (insn.opcode == 0xc7
		     ? (insn.modrm >> 3 & 7) != 0
		     : !is_in(insn.opcode, 0xb8, 0xbf) || insn.rex & 8))
		return false;
	*ret_addr = *moved + (uint32_t)last_number(code, length, 4);
	return true;
}

#endif

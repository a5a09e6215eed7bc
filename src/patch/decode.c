/* SPDX-License-Identifier: MIT */
#include "patch/decode-x86.h"

#if defined(__x86_64__)

enum {
	LENGTH_MAX = 15,
	/* Bits: which parts of an instruction follow its opcode. */
	NONE = 0,
	MODRM = 1,
	IMM8 = 2,
	IMM16 = 4,
	/* an immediate operand of 32 bits; with the prefix 66, of 16 bits */
	IMM32 = 8,
	/* an immediate operand; with REX.W of 64 bits, without REX.W as IMM32 */
	WIDE = 16,
	/* an address of 64 bits; with the prefix 67, of 32 bits */
	OFFSET = 32,
	/*
	 * opcodes f6 and f7: an immediate operand only if ModRM.reg is 0 or 1 (test); it
	 * has 8 bits for f6, and is like IMM32 for f7
	 */
	GROUP3 = 64,
	/*
	 * A distance of 32 bits. With the prefix 66, processors of Intel read 32 bits,
	 * and those of AMD 16 bits: treat the instruction as unknown.
	 */
	BRANCH = 128,
	UNKNOWN = 256,
};

/* Return: what follows a one-byte opcode (bits of the enum above). */
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

/* Return: what follows an opcode that comes after the byte 0f. */
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

static unsigned follows(const struct uaio_insn *insn)
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

/*
 * Get the next byte of the instruction.
 * Return: false if there is none.
 */
static bool next(struct uaio_insn *insn, uint8_t *ret_byte)
{
	if (insn->at >= insn->room || insn->at >= LENGTH_MAX)
		return false;
	*ret_byte = insn->code[insn->at++];
	return true;
}

static bool read_prefixes(struct uaio_insn *insn, uint8_t *ret_byte)
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
			/*
			 * A REX prefix has an effect only directly before the opcode.
			 * So refuse a second one.
			 */
			return next(insn, ret_byte) &&
			       !is_in(*ret_byte, 0x40, 0x4f);
		}
		insn->has_prefix = true;
	}
	return false;
}

/*
 * Read the rest of a VEX or EVEX prefix after its first byte (c5, c4 or 62), and then
 * the opcode.
 */
static bool read_vex(struct uaio_insn *insn, uint8_t first)
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

static bool read_opcode(struct uaio_insn *insn)
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

/*
 * Read the ModRM byte, and skip the SIB byte and the displacement that may follow.
 */
static bool read_address(struct uaio_insn *insn)
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

static size_t immediate_bytes(const struct uaio_insn *insn, unsigned what)
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

bool uaio_insn_read(const uint8_t *code, size_t room, struct uaio_insn *insn)
{
	unsigned what;

	*insn = (struct uaio_insn){ .code = code, .room = room };
	if (!read_opcode(insn))
		return false;
	what = follows(insn);
	if (what & UNKNOWN)
		return false;
	if (what & BRANCH && insn->has_66 && !(insn->rex & 8))
		return false;
	if (what & MODRM && !read_address(insn))
		return false;
	/*
	 * The opcode 8f is pop only if ModRM.reg is 0; otherwise it is AMD's XOP
	 * prefix.
	 */
	if (!insn->map && insn->opcode == 0x8f && insn->modrm >> 3 & 7)
		return false;
	insn->at += immediate_bytes(insn, what);
	return insn->at <= room && insn->at <= LENGTH_MAX;
}

size_t uaio_insn_length(const uint8_t *code, size_t room)
{
	struct uaio_insn insn;

	return uaio_insn_read(code, room, &insn) ? insn.at : 0;
}

#endif

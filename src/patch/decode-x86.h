/* SPDX-License-Identifier: MIT */
/*
 * The parts of an x86-64 instruction. decode.c reads them; effects.c derives from them
 * what the instruction does
 *
 * Tested by test-patch.c and test-scan.c.
 */
#ifndef UAIO_PATCH_DECODE_X86_H
#define UAIO_PATCH_DECODE_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "patch/decode.h"

/* The parts of an instruction that decode.c has read. */
struct uaio_insn {
	const uint8_t *code;
	size_t room;
	size_t at;
	uint8_t rex;
	bool has_66;
	bool has_67;
	bool has_prefix; /* has a prefix other than REX */
	bool is_vex;
	/*
	 * the opcode map, named by the bytes before the opcode; 0: none; 1: 0f; 2: 0f
	 * 38; 3: 0f 3a; higher values: newer maps
	 */
	uint8_t map;
	uint8_t opcode;
	bool has_modrm;
	uint8_t modrm;
};

/*
 * Read the parts of the instruction at code. Reads at most room bytes.
 * Return: false if the instruction is not known, or longer than room.
 */
bool uaio_insn_read(const uint8_t *code, size_t room, struct uaio_insn *insn);

static inline bool is_in(uint8_t value, uint8_t first, uint8_t last)
{
	return value >= first && value <= last;
}

#endif /* UAIO_PATCH_DECODE_X86_H */

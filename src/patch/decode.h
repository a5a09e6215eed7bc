/* SPDX-License-Identifier: MIT */
/*
 * The length of instructions, what they do, and which of them may be moved
 *
 * Enough of the instruction set to go through what compilers make. What is not
 * known for certain has no length. decode.c and effects.c are for x86-64. decode-arm.c is
 * for aarch64, where all instructions have four bytes.
 *
 * Tested by test-patch.c and test-patch-arm.c.
 */
#ifndef UAIO_PATCH_DECODE_H
#define UAIO_PATCH_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Return: the bytes of the instruction at code, of which room bytes may be read;
 * 0 if it is not known, or longer.
 */
size_t uaio_insn_length(const uint8_t *code, size_t room);

/*
 * Return: whether the instruction of this length does the same at another
 * address, goes on to the next, and leaves the number of a system call as it is. False unless it is one
 * of the few that compilers put between the number of a system call and the call.
 */
bool uaio_insn_is_movable(const uint8_t *code, size_t length);

/* Bits of general registers; the number of a register is that of its bit. */
#if defined(__aarch64__)
typedef uint32_t uaio_insn_regs;

enum {
	UAIO_INSN_NUMBER_REG = 8, /* has the number of a system call */
	UAIO_INSN_NUMBER = 1 << UAIO_INSN_NUMBER_REG,
	UAIO_INSN_RESULT = 1 << 0,
	/* What a function may change: not x19 to x29. */
	UAIO_INSN_CALLED = 0x4007ffff,
	UAIO_INSN_NR_REGS = 31,
};
#define UAIO_INSN_ALL 0x7fffffffu
#else
typedef uint16_t uaio_insn_regs;

enum {
	UAIO_INSN_RAX = 1 << 0,
	UAIO_INSN_NUMBER_REG = 0, /* has the number of a system call */
	UAIO_INSN_NUMBER = UAIO_INSN_RAX,
	UAIO_INSN_RCX = 1 << 1,
	UAIO_INSN_RDX = 1 << 2,
	UAIO_INSN_R11 = 1 << 11,
	/* What a function may change; not rbx, rsp, rbp and r12 to r15. */
	UAIO_INSN_CALLED = 0x0fc7,
	UAIO_INSN_ALL = 0xffff,
	UAIO_INSN_NR_REGS = 16,
};
#endif

/*
 * Return: the registers that may have another value when the next instruction is
 * executed; of a call, when the function has returned. The stack pointer does not count,
 * but where an operand names it. All registers if the instruction is not one of the few that are known.
 */
uaio_insn_regs uaio_insn_writes(const uint8_t *code, size_t length);

/* Return: whether the instruction of this length makes a system call. */
bool uaio_insn_is_syscall(const uint8_t *code, size_t length);

/* Return: whether the instruction of this length does nothing, as padding does. */
bool uaio_insn_is_nop(const uint8_t *code, size_t length);

/* Return: whether the instruction of this length sets a register to a constant. */
bool uaio_insn_sets(const uint8_t *code, size_t length, unsigned *ret_reg,
		    uint32_t *ret_value);

/* Return: whether the instruction of this length copies a register to another. */
bool uaio_insn_copies(const uint8_t *code, size_t length, unsigned *ret_from,
		      unsigned *ret_to);

/*
 * Return: whether the instruction of this length computes an address: by lea, relative
 * to rip; or by mov of a constant, if moved is not NULL: then the constant is an address
 * in an object that the loader moved by *moved. On aarch64 it is adr, or the add behind
 * an adrp.
 */
bool uaio_insn_computes(const uint8_t *code, size_t length,
			const uintptr_t *moved, uintptr_t *ret_addr);

/* Which instruction is executed after an instruction. */
enum uaio_insn_flow {
	UAIO_FLOW_NEXT,     /* the next one */
	UAIO_FLOW_BRANCH,   /* the one at the target, or the next one */
	UAIO_FLOW_JUMP,     /* the one at the target */
	UAIO_FLOW_CALL,     /* the one at the target, and later the next one */
	UAIO_FLOW_INDIRECT, /* one whose address is in a register or in memory */
	UAIO_FLOW_END,      /* one outside of the function, or none */
};

/* *ret_target is meaningful for a branch, a jump and a call. */
enum uaio_insn_flow uaio_insn_flow(const uint8_t *code, size_t length,
				   uintptr_t *ret_target);

#endif /* UAIO_PATCH_DECODE_H */

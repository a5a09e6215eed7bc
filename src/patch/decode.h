/* SPDX-License-Identifier: MIT */
/*
 * Decodes instructions: their length, their effects, and whether they may be moved
 *
 * The decoder knows enough of the instruction set for compilers' code. An instruction that it
 * does not know for certain has length 0. decode.c and effects.c are for x86-64. decode-arm.c
 * is for aarch64, where all instructions have four bytes.
 *
 * Context: any thread; the functions only read the code.
 *
 * Tested by test-patch.c and test-patch-arm.c.
 */
#ifndef UAIO_PATCH_DECODE_H
#define UAIO_PATCH_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Return: the length of the instruction at code; 0 if it is not known, or longer than room
 * bytes. Reads at most room bytes.
 */
size_t uaio_insn_length(const uint8_t *code, size_t room);

/*
 * Return: whether the instruction has the same effect at another address, continues with the
 * next instruction, and does not change the register with a system call's number. True only
 * for the few instructions that compilers put between loading that number and the system call.
 */
bool uaio_insn_is_movable(const uint8_t *code, size_t length);

/* A set of general registers: bit n stands for register n. */
#if defined(__aarch64__)
typedef uint32_t uaio_insn_regs;

enum {
	UAIO_INSN_NUMBER_REG = 8, /* holds the number of a system call */
	UAIO_INSN_NUMBER = 1 << UAIO_INSN_NUMBER_REG,
	UAIO_INSN_RESULT = 1 << 0,
	/* The caller-saved registers: all but x19 to x29. */
	UAIO_INSN_CALLED = 0x4007ffff,
	UAIO_INSN_NR_REGS = 31,
};
#define UAIO_INSN_ALL 0x7fffffffu
#else
typedef uint16_t uaio_insn_regs;

enum {
	UAIO_INSN_RAX = 1 << 0,
	UAIO_INSN_NUMBER_REG = 0, /* holds the number of a system call */
	UAIO_INSN_NUMBER = UAIO_INSN_RAX,
	UAIO_INSN_RCX = 1 << 1,
	UAIO_INSN_RDX = 1 << 2,
	UAIO_INSN_R11 = 1 << 11,
	/* The caller-saved registers: all but rbx, rsp, rbp and r12 to r15. */
	UAIO_INSN_CALLED = 0x0fc7,
	UAIO_INSN_ALL = 0xffff,
	UAIO_INSN_NR_REGS = 16,
};
#endif

/*
 * Return: the registers that the instruction may change; for a call, including those that the
 * called function may change. The stack pointer counts only if an operand names it. For an
 * instruction whose effects are not known: all registers.
 */
uaio_insn_regs uaio_insn_writes(const uint8_t *code, size_t length);

bool uaio_insn_is_syscall(const uint8_t *code, size_t length);

/* Return: whether the instruction does nothing, as padding does. */
bool uaio_insn_is_nop(const uint8_t *code, size_t length);

/* Return: whether the instruction sets a register to a constant. */
bool uaio_insn_sets(const uint8_t *code, size_t length, unsigned *ret_reg,
		    uint32_t *ret_value);

/* Return: whether the instruction copies a register to another. */
bool uaio_insn_copies(const uint8_t *code, size_t length, unsigned *ret_from,
		      unsigned *ret_to);

/*
 * Return: whether the instruction computes an address. On x86-64 these are lea, relative to
 * rip; and, if moved is not NULL, mov of a constant, which is then an address in an object
 * whose load bias is *moved. On aarch64 these are adr, and an add after an adrp.
 */
bool uaio_insn_computes(const uint8_t *code, size_t length,
			const uintptr_t *moved, uintptr_t *ret_addr);

/* Which instruction is executed next. */
enum uaio_insn_flow {
	UAIO_FLOW_NEXT,   /* the next one */
	UAIO_FLOW_BRANCH, /* the instruction at the target, or the next one */
	UAIO_FLOW_JUMP,   /* the instruction at the target */
	/* the instruction at the target, and later the next one */
	UAIO_FLOW_CALL,
	UAIO_FLOW_INDIRECT, /* one whose address is in a register or in memory */
	UAIO_FLOW_END,      /* none, or one outside the function */
};

/* Sets *ret_target for a branch, a jump and a call. */
enum uaio_insn_flow uaio_insn_flow(const uint8_t *code, size_t length,
				   uintptr_t *ret_target);

#endif /* UAIO_PATCH_DECODE_H */

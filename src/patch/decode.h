/* SPDX-License-Identifier: MIT */
/*
 * Decodes instructions: how long they are, what they do, and whether they may be moved
 *
 * The decoder knows the instructions that compilers use. An instruction that it does
 * not know for certain has length 0. decode.c and effects.c are for x86-64.
 * decode-arm.c is for aarch64, where all instructions have four bytes.
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
 * Return: the length in bytes of the instruction at code; 0 if it is not known, or
 * longer than room. Reads at most room bytes.
 */
size_t uaio_insn_length(const uint8_t *code, size_t room);

/*
 * Return: whether the instruction has the same effect at another address, is followed
 * by the next instruction, and does not change the register that holds a system call's
 * number. True only for the few instructions that compilers put between loading that
 * number and the system call.
 */
bool uaio_insn_is_movable(const uint8_t *code, size_t length);

/* A set of general-purpose registers: bit n stands for register n. */
#if defined(__aarch64__)
typedef uint32_t uaio_insn_regs;

enum {
	/* register that holds a system call's number */
	UAIO_INSN_NUMBER_REG = 8,
	UAIO_INSN_NUMBER = 1 << UAIO_INSN_NUMBER_REG,
	UAIO_INSN_RESULT = 1 << 0,
	/* Registers that a called function may change: all but x19 to x29. */
	UAIO_INSN_CALLED = 0x4007ffff,
	UAIO_INSN_NR_REGS = 31,
};
#define UAIO_INSN_ALL 0x7fffffffu
#else
typedef uint16_t uaio_insn_regs;

enum {
	UAIO_INSN_RAX = 1 << 0,
	/* register that holds a system call's number */
	UAIO_INSN_NUMBER_REG = 0,
	UAIO_INSN_NUMBER = UAIO_INSN_RAX,
	UAIO_INSN_RCX = 1 << 1,
	UAIO_INSN_RDX = 1 << 2,
	UAIO_INSN_R11 = 1 << 11,
	/*
	 * Registers that a called function may change: all but rbx, rsp, rbp and r12 to
	 * r15.
	 */
	UAIO_INSN_CALLED = 0x0fc7,
	UAIO_INSN_ALL = 0xffff,
	UAIO_INSN_NR_REGS = 16,
};
#endif

/*
 * Return: the registers that the instruction may change; all registers, if its effects
 * are not known. A call may change the registers that the called function may change.
 * The stack pointer is included only if an operand of the instruction names it.
 */
uaio_insn_regs uaio_insn_writes(const uint8_t *code, size_t length);

bool uaio_insn_is_syscall(const uint8_t *code, size_t length);

/* Return: whether the instruction does nothing (nop). */
bool uaio_insn_is_nop(const uint8_t *code, size_t length);

/*
 * Return: whether the instruction sets register *ret_reg to the constant *ret_value.
 */
bool uaio_insn_sets(const uint8_t *code, size_t length, unsigned *ret_reg,
		    uint32_t *ret_value);

/* Return: whether the instruction copies register *ret_from to register *ret_to. */
bool uaio_insn_copies(const uint8_t *code, size_t length, unsigned *ret_from,
		      unsigned *ret_to);

/*
 * Return: whether the instruction stores an address in a register; *ret_addr: this
 * address. On x86-64 such an instruction is a lea relative to rip. If `moved` is not
 * NULL, such an instruction is also a mov of an immediate operand. The address is then
 * the operand plus *moved, the load bias of the object. On aarch64 such an instruction is
 * an adr, or an add directly after an adrp.
 */
bool uaio_insn_computes(const uint8_t *code, size_t length,
			const uintptr_t *moved, uintptr_t *ret_addr);

/* Which instruction the processor executes next. */
enum uaio_insn_flow {
	UAIO_FLOW_NEXT, /* the next instruction */
	/* conditional: the instruction at the target, or the next one */
	UAIO_FLOW_BRANCH,
	/* always the instruction at the target */
	UAIO_FLOW_JUMP,
	/*
	 * first the instruction at the target, which begins a called function; after
	 * that function returns, the next one
	 */
	UAIO_FLOW_CALL,
	/*
	 * the instruction whose address is in a register or in memory (jmp, not call)
	 */
	UAIO_FLOW_INDIRECT,
	/* no further instruction of this function, for example after ret */
	UAIO_FLOW_END,
};

/*
 * Return: which instruction comes next. For a branch, a jump and a call, *ret_target is
 * the target's address.
 */
enum uaio_insn_flow uaio_insn_flow(const uint8_t *code, size_t length,
				   uintptr_t *ret_target);

#endif /* UAIO_PATCH_DECODE_H */

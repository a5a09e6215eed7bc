/* SPDX-License-Identifier: MIT */
/*
 * Finds the number of each system call that a function makes
 *
 * The analysis propagates constants through registers and branches, pass after pass,
 * until nothing changes.
 *
 * Tested by test-scan.c.
 */
#ifndef UAIO_PATCH_FLOW_H
#define UAIO_PATCH_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uaio_flow;

struct uaio_function {
	uintptr_t start, end;
};

/* A system call in a function: a `syscall` instruction, or `svc` on aarch64. */
struct uaio_flow_call {
	uintptr_t addr;
	/* the system call's number is `nr` on each path that leads to the call */
	bool is_known;
	uint32_t nr;
};

typedef void uaio_flow_see_fn(void *arg, const struct uaio_flow *flow,
			      const struct uaio_flow_call *call);

/*
 * Call see() for each system call of a function. entries: addresses to which code
 * outside of the function may branch; addresses in other functions are ignored.
 * Return: false if not all paths through the function are known; see() was not called
 * then.
 */
bool uaio_flow_follow(const struct uaio_function *function,
		      const uintptr_t *entries, size_t nr_entries,
		      uaio_flow_see_fn *see, void *arg);

/* Return: whether a branch leads to addr, from inside or outside the function. */
bool uaio_flow_is_target(const struct uaio_flow *flow, uintptr_t addr);

/*
 * For x86-64 only.
 * Return: whether the four bytes at `distance` may be the operand of a branch. Reads
 * the two bytes before them.
 */
bool uaio_flow_may_branch(const uint8_t *distance);

enum uaio_boundary { UAIO_IS_INSTRUCTION, UAIO_IS_PART, UAIO_IS_UNKNOWN };

/*
 * Return: whether an instruction of the function [start, end) begins at addr; unknown
 * if an instruction before addr is not known.
 */
enum uaio_boundary uaio_flow_look_for(uintptr_t start, uintptr_t end,
				      uintptr_t addr);

#endif /* UAIO_PATCH_FLOW_H */

/* SPDX-License-Identifier: MIT */
/*
 * The length of x86-64 instructions, and which of them may be moved
 *
 * Enough of the instruction set to go through what compilers make. What is not
 * known for certain has no length.
 *
 * Tested by test-patch.c.
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
 * address, goes on to the next, and leaves rax as it is. False unless it is one
 * of the few that compilers put between the number of a system call and the call.
 */
bool uaio_insn_is_movable(const uint8_t *code, size_t length);

#endif /* UAIO_PATCH_DECODE_H */

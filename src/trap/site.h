/* SPDX-License-Identifier: MIT */
/*
 * Places in the program at which it makes system calls, and their slots
 *
 * A slot makes the call at another place, or calls the library, and goes on behind
 * the place. All slots are made when the program begins; of a new place, only data
 * are written. When a place has raised the trap, its instruction becomes a jump of
 * the same two bytes to padding behind a function nearby, in which there is then a
 * jump to a hop, which is memory that both can reach, and it to the slot. Or, if that
 * padding is too far away for two bytes, to smaller padding in between, in which there is
 * then such a jump to it. So whoever is just behind the place, or returns there from a
 * call, finds what was there.
 *
 *   I1  A place has one slot for ever. Several threads may find it new at once, and
 *       write the same.
 *   I2  Padding is taken only if all instructions from the place to it are known,
 *       and the last one does not go on to it.
 *   I3  Only code of the program's files is changed, as it maps them: not what it has
 *       made itself, nor what it may write.
 *   I4  Only threads of the program's change places, not another process with its
 *       memory, which may be killed in between.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_SITE_H
#define UAIO_TRAP_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trap/state.h"

enum { UAIO_TRAP_SERVED_BYTES = 1 << 16 };

/* Which numbers come to the library; by the lower 16 bits. */
extern uint8_t uaio_trap_served[UAIO_TRAP_SERVED_BYTES]
	__attribute__((visibility("hidden")));

/* Code that is copied (entry.S). */
#define HIDDEN __attribute__((visibility("hidden")))
extern const uint8_t uaio_trap_code[] HIDDEN, uaio_trap_code_end[] HIDDEN;
extern const uint8_t uaio_trap_restorer[] HIDDEN, uaio_trap_deliver[] HIDDEN;
extern const uint8_t uaio_trap_clone_thread[] HIDDEN;
extern const uint8_t uaio_trap_clone_same[] HIDDEN;
extern const uint8_t uaio_trap_slot[] HIDDEN, uaio_trap_slot_end[] HIDDEN;
extern const uint8_t uaio_trap_slot_data[] HIDDEN, uaio_trap_slot_pass[] HIDDEN;
extern const uint8_t uaio_trap_slot_call[] HIDDEN, uaio_trap_slot_ret[] HIDDEN;
#undef HIDDEN

/*
 * Make the slots, and hops to them that code in [low, high) can reach.
 * Return: false if there is no memory for them, or none to execute.
 */
bool uaio_trap_slots_make(uint64_t low, uint64_t high);

/* Where the kernel lets calls through. */
void uaio_trap_code_range(uint64_t *ret_offset, uint64_t *ret_length);

/* Return: the address of a part of entry.S's code that is copied. */
uint64_t uaio_trap_code_at(const uint8_t *part);

/*
 * Code of the program's files is in [low, high): it may be changed.
 * Context: the library's fs, as for the two below.
 */
void uaio_trap_may_change(uint64_t low, uint64_t high);

/* That memory is to be something else: what is code in it may not be changed. */
void uaio_trap_may_not_change(uint64_t low, uint64_t high);

/* In a child of fork(). */
void uaio_trap_forget_changing(void);

/*
 * The slot of a place; the place may be changed.
 * Context: the program's fs, all signals blocked, calls let through.
 */
uint64_t uaio_trap_slot_of(uint64_t site);

#endif /* UAIO_TRAP_SITE_H */

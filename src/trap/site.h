/* SPDX-License-Identifier: MIT */
/*
 * Sites, the instructions of the program that make system calls, and their slots
 *
 * A slot is code of the library that makes a site's system call, or calls the library,
 * and then continues the program after the site. All slots are made at the start; for a
 * new site only a slot's data is filled in. After a site has raised the trap, its
 * two-byte instruction becomes a short jump to padding behind a nearby function. The
 * library writes a jump to a hop into the padding. A hop is memory within reach of a
 * jump from the padding, and jumps to the slot. If that padding is too far for a short
 * jump, smaller padding between them gets a short jump to it. So the instructions after
 * the site stay unchanged, because other threads may be executing them or return to
 * them.
 *
 *   I1  A site keeps its slot for ever. Several threads may find a new site at once;
 *       they write the same values.
 *   I2  Padding is used only if all instructions between the site and the padding are
 *       known, and the last instruction never continues with the padding.
 *   I3  Only code that the program maps from files is changed, not code that it
 *       generated or can write.
 *   I4  Only threads of the program change sites. Another process that shares the
 *       program's memory does not, because it may be killed in between.
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

/* Which system calls the library serves, by the lower 16 bits of the number. */
extern uint8_t uaio_trap_served[UAIO_TRAP_SERVED_BYTES]
	__attribute__((visibility("hidden")));

/* Code that is copied to slot_code (entry.S). */
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
 * Make the slots, and hops within reach of code in [low, high). Return: false if there
 * is no memory, or no executable memory, for them.
 */
bool uaio_trap_slots_make(uint64_t low, uint64_t high);

/* The address range from which the kernel does not trap calls. */
void uaio_trap_code_range(uint64_t *ret_offset, uint64_t *ret_length);

/* Return: the address at which a part of entry.S's code was copied. */
uint64_t uaio_trap_code_at(const uint8_t *part);

/*
 * Code in [low, high), mapped from a file, may be changed. Context: the library's fs,
 * also for uaio_trap_may_not_change().
 */
void uaio_trap_may_change(uint64_t low, uint64_t high);

/* [low, high) is about to be remapped: code in this range may no longer be changed. */
void uaio_trap_may_not_change(uint64_t low, uint64_t high);

/* Called in a child of fork(). */
void uaio_trap_forget_changing(void);

/*
 * Find the slot of a site, and try to replace the site's instruction by a jump. Return:
 * the slot's address; 0 if no slot is free. Context: the program's fs, all signals
 * blocked, calls not trapped.
 */
uint64_t uaio_trap_slot_of(uint64_t site);

#endif /* UAIO_TRAP_SITE_H */

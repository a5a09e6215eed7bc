/* SPDX-License-Identifier: MIT */
/*
 * Sites, which are the program's instructions that make system calls, and their slots
 *
 * A slot is code of the library that makes a site's system call, or calls the library,
 * and then continues the program after the site. All slots are made at the start; for a
 * new site the library only fills in the slot's data. After a site has raised the trap,
 * the library patches the site's two-byte instruction into a short jump to padding
 * after a nearby function. In the padding the library writes a long jump to a hop. A
 * hop is a jump to the slot, in memory that the long jump can reach. If the padding is
 * too far away for a short jump, smaller padding in between gets a second short jump.
 * So the instructions after the site stay unchanged: other threads may be executing
 * them or return to them.
 *
 *   I1  A site keeps its slot for ever. Several threads may find a new site at the same
 *       time; they store the same values.
 *   I2  Padding is used only if all instructions between the site and the padding are
 *       known, and execution never continues from the last one into the padding.
 *   I3  Only code that the program maps from files is changed, not code that it
 *       generated or can write.
 *   I4  Only threads of the program change sites. Another process that shares the
 *       program's memory does not, because it may be killed during a change.
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

/*
 * For the lower 16 bits of a system call's number: whether the library serves the call.
 */
extern uint8_t uaio_trap_served[UAIO_TRAP_SERVED_BYTES]
	__attribute__((visibility("hidden")));

/* Code of entry.S that is copied to slot_code. */
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
 * Make the slots, and the hops (jumps to the slots) that jumps from the code in [low,
 * high) can reach.
 * Return: false if there is no memory for the slots and hops, or the memory cannot be
 * made executable.
 */
bool uaio_trap_slots_make(uint64_t low, uint64_t high);

/* Get the address range from which system calls are not trapped. */
void uaio_trap_code_range(uint64_t *ret_offset, uint64_t *ret_length);

/* Return: the address of the copy of this part of entry.S's code. */
uint64_t uaio_trap_code_at(const uint8_t *part);

/*
 * Record that code in [low, high), which is mapped from a file, may be changed.
 * Context: fs has the library's value, also for uaio_trap_may_not_change().
 */
void uaio_trap_may_change(uint64_t low, uint64_t high);

/*
 * Called when [low, high) is about to be remapped: code in this range may no longer be
 * changed.
 */
void uaio_trap_may_not_change(uint64_t low, uint64_t high);

/*
 * Called in a child of fork(): free the lock of site.c, which another thread may have
 * held.
 */
void uaio_trap_forget_changing(void);

/*
 * Find the slot of a site (syscall instruction), or give the site a free slot. Try to
 * patch the instruction into a jump.
 * Return: the slot's address; 0 if no slot is free. Context: fs has the program's
 * value, all signals are blocked, system calls are not trapped.
 */
uint64_t uaio_trap_slot_of(uint64_t site);

#endif /* UAIO_TRAP_SITE_H */

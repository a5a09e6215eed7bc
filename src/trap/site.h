/* SPDX-License-Identifier: MIT */
/*
 * Sites, the instructions of the program that make system calls, and their slots
 *
 * A slot is code that makes a site's call elsewhere, or calls the library, and then
 * continues after the site. All slots are made at the start; a new site only fills in
 * data. After a site has raised the trap, its two-byte instruction becomes a short jump
 * to padding behind a nearby function. The padding gets a jump to a hop, which is
 * memory within reach of both, and the hop jumps to the slot. If that padding is too
 * far for a short jump, smaller padding between them gets a short jump to it. So the
 * instructions behind the site stay unchanged, for threads that are there or return
 * there.
 *
 *   I1  A site keeps its slot for ever. Several threads may find a new site at once,
 *       and write the same.
 *   I2  Padding is used only if all instructions between the site and the padding are
 *       known, and the last one does not fall through to it.
 *   I3  Only code that the program maps from files is changed, not code that it
 *       generated or can write.
 *   I4  Only threads of the program change sites. Another process with its memory does
 *       not, as it may be killed in between.
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

/* The system calls that the library answers, by the lower 16 bits of the number. */
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

/* Return: the address of the copy of a part of entry.S's code. */
uint64_t uaio_trap_code_at(const uint8_t *part);

/*
 * Code in [low, high), mapped from a file, may be changed. Context: the library's fs,
 * also for uaio_trap_may_not_change().
 */
void uaio_trap_may_change(uint64_t low, uint64_t high);

/* [low, high) is about to be remapped: code there may no longer be changed. */
void uaio_trap_may_not_change(uint64_t low, uint64_t high);

/* In a child of fork(). */
void uaio_trap_forget_changing(void);

/*
 * Return: the slot of a site; try to replace its instruction. Context: the program's
 * fs, all signals blocked, calls not trapped.
 */
uint64_t uaio_trap_slot_of(uint64_t site);

#endif /* UAIO_TRAP_SITE_H */

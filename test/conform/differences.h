/* SPDX-License-Identifier: MIT */
/*
 * The intended differences, to which test cases refer, and the chapters of
 * doc/differences.md
 */
#ifndef CONFORM_DIFFERENCES_H
#define CONFORM_DIFFERENCES_H

#include "conform.h"

extern const struct difference differs_low_water;
extern const struct difference differs_quota;
extern const struct difference differs_sync_error;
extern const struct difference differs_terminal_poll;
extern const struct difference differs_flag_refused;
extern const struct difference differs_strict;
extern const struct difference differs_poll_bits;
extern const struct difference differs_poll_order;
extern const struct difference differs_not_blocked;
extern const struct difference differs_fifo_packets;
extern const struct difference differs_signals;
extern const struct difference differs_signals_direct;
extern const struct difference differs_segments;
extern const struct difference differs_tail;
extern const struct difference differs_head;
extern const struct difference differs_ring_memory;
extern const struct difference differs_threads;
extern const struct difference differs_table_full;
extern const struct difference differs_killed;
extern const struct difference differs_ring_file;
extern const struct difference differs_ring_calls;
extern const struct difference differs_ring_hint;
extern const struct difference differs_ring_first;
extern const struct difference differs_ring_commands;
extern const struct difference differs_ring_mapped;
extern const struct difference differs_ring_polled;
extern const struct difference differs_ring_child;
extern const struct difference differs_ring_sent;
extern const struct difference differs_ring_overflow;
extern const struct difference differs_ring_personality;
extern const struct difference differs_ring_futexes;
extern const struct difference differs_posix_duplex;
extern const struct difference differs_posix_crowd;
extern const struct difference differs_posix_reused;
extern const struct difference differs_posix_cancelled;
extern const struct difference differs_posix_timeout;
extern const struct difference differs_posix_limit;
extern const struct difference differs_posix_restart;
extern const struct difference differs_posix_mistakes;
extern const struct difference differs_posix_opcode;
extern const struct difference differs_posix_signal;
extern const struct difference differs_posix_joinable;

struct chapter {
	const char *title;
	const struct difference *const *differences; /* end with NULL */
};
/* All chapters. The last element of the array has no title. */
extern const struct chapter chapters[];
/* The differences that no test case can show. The last is NULL. */
extern const struct difference *const *const not_shown;

#endif

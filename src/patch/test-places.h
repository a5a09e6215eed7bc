/* SPDX-License-Identifier: MIT */
/*
 * Call sites of io_uring (test-places.c), and code that only looks like call sites.
 */
#ifndef UAIO_PATCH_TEST_PLACES_H
#define UAIO_PATCH_TEST_PLACES_H

/* A function with the arguments of a system call. */
typedef long place_fn(long, long, long, long, long, long);

place_fn adjacent_setup, adjacent_enter, adjacent_register, moved, red_zone,
	registers, wide, widest, emptied, flagged, miss_register, miss_wide,
	miss_inside, miss_below, miss_above, miss_high, miss_16_bits,
	miss_no_call, left_relative, left_branch, left_overwritten,
	without_table, left_on_two_pages, kept, kept_low, kept_before,
	left_target, left_by_table, left_either, left_unknown, sign_extended,
	far_before;

#endif /* UAIO_PATCH_TEST_PLACES_H */

/* SPDX-License-Identifier: MIT */
/*
 * How many segments of a direct request are made at once
 *
 * Whether cutting pays depends on what is under the file: a disk whose driver
 * gets all pieces of a request at once has nothing to gain; a server that is
 * asked for one piece after the other has. So each open file is measured, for
 * reads and writes and for each order of size by itself: whole requests, few
 * segments at once and many are tried in turn, and the best time of each counts.
 * What is cut has to be a tenth faster than what is not. From then on the others
 * are tried ever more rarely, so that a change is noticed.
 *
 * Thread-safety: any thread. All of it is advice: a lost update costs a trial.
 */
#ifndef UAIO_ENGINE_WIDTH_H
#define UAIO_ENGINE_WIDTH_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_widths;

/* What one request tells of its file: which way it was made. */
struct uaio_trial {
	struct uaio_widths *widths; /* borrows: the file's; NULL: none */
	uint32_t way;
	uint64_t bytes;
	int64_t start_ns;
};

/* From nothing. */
void uaio_widths_init(void);

/*
 * Return: the number of segments of a request that are to be made at once; 1 if
 * it is to go whole. To be told of at the end.
 */
unsigned uaio_width_of(struct uaio_file *file, bool is_write, uint64_t bytes,
		       struct uaio_trial *ret_trial);

/*
 * The request that was to be told of has been made, with this result. One that is
 * short or failed counts, but for no way: else a way that always fails would never
 * be through with being tried.
 */
void uaio_width_tell(const struct uaio_trial *trial, int64_t res);

/* Of a file that goes. */
void uaio_widths_put(struct uaio_widths *widths);

#endif /* UAIO_ENGINE_WIDTH_H */

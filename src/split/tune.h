/* SPDX-License-Identifier: MIT */
/*
 * How many segments of a direct request are executed at once
 *
 * Whether cutting pays depends on what is under the file. A disk, whose driver
 * gets all pieces of a request at once anyway, gains nothing; a file server that
 * is asked for one piece after the other does. So we measure each open file,
 * separately for reads and for writes and for each size class. There are three
 * ways: the whole request, few segments at once, many segments at once. They are
 * tried in turn, and the best time of each counts. A way with more segments has
 * to be a tenth faster to be preferred. After that the ways that are not the best
 * are tried ever more rarely, so that a change of the file's speed is noticed.
 *
 * Thread-safety: any thread. The measurements are hints: a lost update costs one
 * trial.
 */
#ifndef UAIO_SPLIT_TUNE_H
#define UAIO_SPLIT_TUNE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_tuning;

/* One request as a measurement: the way it is executed, and its start. */
struct uaio_trial {
	struct uaio_tuning *tuning; /* borrows: the file's; NULL: none */
	uint32_t way;
	uint64_t bytes;
	int64_t start_ns;
};

/* Set up, whatever was there before: a forked child calls it again. */
void uaio_tuning_init(void);

/*
 * Return: how many segments of a request to execute at once; 1: do not cut it.
 * The caller hands ret_trial to uaio_tune_end() when the request is done.
 */
unsigned uaio_tune_begin(struct uaio_file *file, bool is_write, uint64_t bytes,
			 struct uaio_trial *ret_trial);

/*
 * The request was executed, with this result. One that was short or failed counts
 * as a sample with the worst of times: if it did not count, a way that always
 * fails would be tried for ever.
 */
void uaio_tune_end(const struct uaio_trial *trial, int64_t res);

/* Free the measurements of a file that is being freed. */
void uaio_tuning_put(struct uaio_tuning *tuning);

#endif /* UAIO_SPLIT_TUNE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Choose how many segments of a direct request are executed at once
 *
 * Whether cutting is faster depends on the device. A disk's driver gets all pieces of a
 * request at once anyway, so cutting gains nothing. A file server gets one piece after the
 * other, so cutting gains much. So the library times requests on each open file, separately
 * for reads, writes and size classes. There are three ways: the whole request, few segments at
 * once, many segments at once. The library tries them in turn; the best time of each counts. A
 * way with more segments must be a tenth faster to be preferred. Later the slower ways are
 * tried ever more rarely, to notice a change of the file's speed.
 *
 * Thread-safety: any thread. The measurements are hints: a lost update only costs one more
 * measurement.
 */
#ifndef UAIO_SPLIT_TUNE_H
#define UAIO_SPLIT_TUNE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_tuning;

/* A timed request: the way in which it is executed, and its start. */
struct uaio_trial {
	struct uaio_tuning *tuning; /* borrows: the file's; NULL: none */
	uint32_t way;
	uint64_t bytes;
	int64_t start_ns;
};

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_tuning_init(void);

/*
 * Return: how many segments of a request to execute at once; 1: do not cut it. The caller
 * passes ret_trial to uaio_tune_end() when the request is complete.
 */
unsigned uaio_tune_begin(struct uaio_file *file, bool is_write, uint64_t bytes,
			 struct uaio_trial *ret_trial);

/*
 * Store the time of a request that was timed, with the result res. A short or failed request
 * counts as one that took very long: otherwise a way that always fails would be tried for
 * ever.
 */
void uaio_tune_end(const struct uaio_trial *trial, int64_t res);

/* Free the measurements of a file that is being freed. */
void uaio_tuning_put(struct uaio_tuning *tuning);

#endif /* UAIO_SPLIT_TUNE_H */

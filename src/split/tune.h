/* SPDX-License-Identifier: MIT */
/*
 * Chooses how many segments of a direct request are executed at once
 *
 * Whether cutting is faster depends on the device. The driver of a disk gets all pieces
 * of a request at once anyway, so cutting gains nothing. A file server gets one piece
 * after the other, so cutting gains much. So the library measures the time of requests
 * on each open file, separately for reads, for writes and for each class of sizes.
 * There are three ways: the whole request, few segments at once, many segments at once.
 * The library tries them in turn; the best time of each way counts. A way with more
 * segments is preferred only if it is a tenth faster. Later the slower ways are tried
 * ever more rarely, to notice a change of the file's speed.
 *
 * Thread-safety: any thread. The measurements are hints: if an update is lost, one more
 * measurement is needed.
 */
#ifndef UAIO_SPLIT_TUNE_H
#define UAIO_SPLIT_TUNE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_tuning;

/*
 * A request whose time is measured: the way in which it is executed, and when it
 * started.
 */
struct uaio_trial {
	/*
	 * borrows: the measurements of the request's file; NULL: the request is not
	 * measured
	 */
	struct uaio_tuning *tuning;
	uint32_t way;
	uint64_t bytes;
	int64_t start_ns;
};

/*
 * Called each time the library starts, also in a child of fork(): reset the module.
 */
void uaio_tuning_init(void);

/*
 * Return: how many segments of a request to execute at once; 1: do not cut the request.
 * The caller passes ret_trial to uaio_tune_end() when the request is complete.
 */
unsigned uaio_tune_begin(struct uaio_file *file, bool is_write, uint64_t bytes,
			 struct uaio_trial *ret_trial);

/*
 * Store the time of a request that has completed with the result res. A short or failed
 * request counts as one that took very long: otherwise a way that always fails would be
 * tried for ever.
 */
void uaio_tune_end(const struct uaio_trial *trial, int64_t res);

/* Free the measurements of a file that is being freed. */
void uaio_tuning_put(struct uaio_tuning *tuning);

#endif /* UAIO_SPLIT_TUNE_H */

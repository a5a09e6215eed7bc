/* SPDX-License-Identifier: MIT */
/*
 * A batch of requests, for programs that check the results of libaio.
 *
 * A write has a version number in every 8 bytes, so that a buffer shows which
 * write it came from. If something is not as expected, all functions end the
 * process with 1 and a line on stderr; so does fail().
 */
#ifndef UAIO_TEST_BATCH_H
#define UAIO_TEST_BATCH_H

#include <libaio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BLOCK = 4096,
	MAX_LEN = 4 * BLOCK, /* of one request */
	MAX_BATCH = 17,
};

/* Requests, their memory, and the place of each in the order of events. */
struct batch {
	io_context_t ctx;
	int nr;
	struct iocb cbs[MAX_BATCH];
	uint64_t *bufs[MAX_BATCH]; /* owns: MAX_LEN bytes each */
	long due[MAX_BATCH];       /* the result; all of it, if not said */
	int seen_as[MAX_BATCH];    /* n-th event of the last batch */
};

void batch_init(struct batch *b);
void batch_fini(struct batch *b);

/* Add one. Return: its number in the batch. */
int batch_write(struct batch *b, int fd, size_t len, long long pos,
		uint64_t version);
int batch_read(struct batch *b, int fd, size_t len, long long pos);
int batch_sync(struct batch *b, int fd, bool data_only);

/* Submit what was added from number `first` on, by one call. */
void batch_submit(struct batch *b, int first);

/*
 * Wait until each request has had its one event, with the result that is due;
 * then the batch is empty.
 */
void batch_reap(struct batch *b);

/* In the batch reaped last. */
void batch_expect_after(const struct batch *b, int later, int earlier);

/* Each version in the buffer is one of low to high. */
void expect_version(const char *what, const uint64_t *buf, size_t len,
		    uint64_t low, uint64_t high);

/* A file in the current directory that is gone with the process. */
int file_new(void);
/* One more open file description of it. */
int file_again(int fd, int flags);

_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif

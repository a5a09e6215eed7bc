/* SPDX-License-Identifier: MIT */
/*
 * A batch of requests, for programs that check the results of libaio.
 *
 * A write fills its buffer with its version number, 8 bytes each, so that a buffer
 * shows which write it came from. Each function ends the process with status 1 and a
 * line on stderr if a check fails; fail() does, too.
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

/* Requests, their buffers, and where the event of each was found. */
struct batch {
	io_context_t ctx;
	int nr;
	struct iocb cbs[MAX_BATCH];
	uint64_t *bufs[MAX_BATCH]; /* owns: MAX_LEN bytes each */
	/* the expected result; by default, the full length */
	long due[MAX_BATCH];
	/* the position of its event in the last reaped batch */
	int seen_as[MAX_BATCH];
};

void batch_init(struct batch *b);
void batch_fini(struct batch *b);

/* Add a request. Return: its index in the batch. */
int batch_write(struct batch *b, int fd, size_t len, long long pos,
		uint64_t version);
int batch_read(struct batch *b, int fd, size_t len, long long pos);
int batch_sync(struct batch *b, int fd, bool data_only);

/* Submit the requests from index `first` on, by one io_submit. */
void batch_submit(struct batch *b, int first);

/* Wait until each request has had one event with its expected result; empty the batch. */
void batch_reap(struct batch *b);

/* Check that in the last reaped batch event `later` came after event `earlier`. */
void batch_expect_after(const struct batch *b, int later, int earlier);

/* Check that each version in the buffer is at least low and at most high. */
void expect_version(const char *what, const uint64_t *buf, size_t len,
		    uint64_t low, uint64_t high);

/* Return: a new, unlinked file in the current directory. */
int file_new(void);
/* Return: the file, opened again (a second open file description). */
int file_again(int fd, int flags);

_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif

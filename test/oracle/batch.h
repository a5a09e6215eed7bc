/* SPDX-License-Identifier: MIT */
/*
 * A batch of requests, for programs that check the results of libaio
 *
 * Each write has a version number, and fills its buffer with this number, in words of 8
 * bytes. So a buffer shows which write it came from. If a check fails, the function
 * calls fail(), which prints a line on stderr and ends the process with status 1.
 */
#ifndef UAIO_TEST_BATCH_H
#define UAIO_TEST_BATCH_H

#include <libaio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BLOCK = 4096,
	MAX_LEN = 4 * BLOCK, /* most bytes of one request */
	MAX_BATCH = 17,
};

/* Requests with their buffers, and the order in which their events came */
struct batch {
	io_context_t ctx;
	int nr;
	struct iocb cbs[MAX_BATCH];
	uint64_t *bufs[MAX_BATCH]; /* owned by the batch; MAX_LEN bytes each */
	/* the result that the request must have; by default, its full length */
	long due[MAX_BATCH];
	/*
	 * set by batch_reap(): seen_as[i] is 0 if the event of request i came first, 1
	 * if it came second, and so on
	 */
	int seen_as[MAX_BATCH];
};

void batch_init(struct batch *b);
void batch_fini(struct batch *b);

/*
 * Add a request to the batch.
 * Return: its index there.
 */
int batch_write(struct batch *b, int fd, size_t len, long long pos,
		uint64_t version);
int batch_read(struct batch *b, int fd, size_t len, long long pos);
int batch_sync(struct batch *b, int fd, bool data_only);

/* Submit, by one io_submit, all requests from index `first` on. */
void batch_submit(struct batch *b, int first);

/*
 * Wait until each request has had one event, with the result that is due. Then empty
 * the batch.
 */
void batch_reap(struct batch *b);

/*
 * Check the batch that batch_reap() reaped most recently: the event of request `later`
 * must have come after the event of request `earlier`.
 */
void batch_expect_after(const struct batch *b, int later, int earlier);

/* Check that each word of the buffer is a version number in [low, high]. */
void expect_version(const char *what, const uint64_t *buf, size_t len,
		    uint64_t low, uint64_t high);

/* Return: a new file without a name in the current directory. */
int file_new(void);
/*
 * Open the file again.
 * Return: a descriptor with a second open file description.
 */
int file_again(int fd, int flags);

_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

#endif

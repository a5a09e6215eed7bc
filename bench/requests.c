/* SPDX-License-Identifier: MIT */
/*
 * requests FOLDER N: measures what a request costs if there are N contexts, and how
 * much of this is for finding the request's context.
 *
 * This is an ordinary libaio program. Run plainly it measures the kernel; under `uaio
 * run` it measures uaio. Each request reads 1 KiB from a file in the directory FOLDER,
 * and completes before the next one is submitted. The contexts are used in a scattered
 * order, so that no context is more likely to be in the cache than others.
 *
 * A request looks up its context twice: in io_submit(), and then in io_getevents(),
 * which finds the context in the cache. To measure only these lookups, the program
 * calls io_submit() of 0 requests twice for each context. Such a call looks up the
 * context and returns. To measure such a call without the lookup, the program calls
 * io_submit() of -1 requests as often, which fails before the lookup. The difference is
 * the time of two lookups, and includes cache misses on the context.
 *
 * The program prints N, nanoseconds per request, how many of these are for finding the
 * context, and how many kernel AIO rings were mapped during the measurement. If all
 * contexts have such a ring, the kernel was measured; if none has, uaio was measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handles.h"

enum { TURNS = 512, READ_BYTES = 1024, FILE_BYTES = 1 << 20 };

struct turns {
	/* a round uses the contexts in this order */
	io_context_t contexts[TURNS];
	int fd;
	char buffer[READ_BYTES];
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "requests: %s: %s\n", what, strerror(error));
	exit(1);
}

static void read_by_turns(void *arg)
{
	struct turns *turns = arg;

	for (size_t i = 0; i < TURNS; i++) {
		struct iocb iocb, *list = &iocb;
		struct io_event event;
		int ret;

		io_prep_pread(&iocb, turns->fd, turns->buffer, READ_BYTES,
			      (long long)(i * READ_BYTES));
		ret = io_submit(turns->contexts[i], 1, &list);
		if (ret != 1)
			fail("io_submit", -ret);
		ret = io_getevents(turns->contexts[i], 1, 1, &event, NULL);
		if (ret != 1 || event.res != READ_BYTES)
			fail("io_getevents", ret < 0 ? -ret : EIO);
	}
}

/*
 * Call io_submit() twice per context, because a request looks up its context twice.
 */
static void call_by_turns(const struct turns *turns, long nr, int expected)
{
	for (size_t i = 0; i < TURNS; i++)
		if (io_submit(turns->contexts[i], nr, NULL) != expected ||
		    io_submit(turns->contexts[i], nr, NULL) != expected)
			fail("io_submit of nothing", EPROTO);
}

static void find_by_turns(void *arg)
{
	call_by_turns(arg, 0, 0);
}

static void refuse_by_turns(void *arg)
{
	call_by_turns(arg, -1, -EINVAL);
}

static int open_file(const char *folder)
{
	static char data[FILE_BYTES];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(folder, errno);
	if (write(fd, data, sizeof(data)) != (ssize_t)sizeof(data))
		fail("write", errno);
	return fd;
}

/*
 * Shuffle the contexts by a fixed sequence, so that every run measures the same order.
 * If the number of contexts divides TURNS, each context occurs equally often.
 */
static void shuffle(io_context_t *contexts, size_t nr)
{
	uint64_t x = 1;

	for (size_t i = nr - 1; i > 0; i--) {
		io_context_t swapped = contexts[i];
		size_t j;

		x = x * 6364136223846793005u + 1442695040888963407u;
		j = (size_t)(x >> 33) % (i + 1);
		contexts[i] = contexts[j];
		contexts[j] = swapped;
	}
}

int main(int argc, char **argv)
{
	static io_context_t contexts[TURNS];
	static struct turns turns;
	double request_ns, find_ns, refuse_ns;
	size_t nr, rings;

	if (argc != 3 || (nr = count_argument(argv[2])) > TURNS) {
		fputs("usage: requests FOLDER N, N up to 512\n", stderr);
		return 2;
	}
	turns.fd = open_file(argv[1]);
	for (size_t i = 0; i < nr; i++) {
		int ret = io_setup(1, &contexts[i]);

		if (ret < 0)
			fail("io_setup", -ret);
	}
	shuffle(contexts, nr);
	for (size_t i = 0; i < TURNS; i++)
		turns.contexts[i] = contexts[i % nr];
	rings = nr_kernel_rings();
	request_ns = time_rounds(read_by_turns, &turns, TURNS);
	find_ns = time_rounds(find_by_turns, &turns, TURNS);
	refuse_ns = time_rounds(refuse_by_turns, &turns, TURNS);
	printf("%zu %.2f %.2f %zu\n", nr, request_ns, find_ns - refuse_ns,
	       rings);
	return 0;
}

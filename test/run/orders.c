// SPDX-License-Identifier: MIT
/*
 * A program that reads a file by io_uring, two requests at a time. An argument adds a
 * mistake that does not show on an idle machine:
 *
 * short   it assumes that a read returns all requested bytes
 * order   it assumes that completions come in the order of their requests
 * cancel  it assumes that a read succeeds although the program has cancelled it
 *
 * Without an argument the program makes no mistake. The exit status is 1 if the program
 * has not read the file's contents.
 */
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4096, SIZE = 32 * BYTES };

struct piece {
	off_t at;
	size_t done;
	char bytes[BYTES];
};

static bool forgets_short, forgets_order, forgets_cancel;

static void fail(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(2);
}

static int make_file(void)
{
	int fd = memfd_create("orders", MFD_CLOEXEC);
	static unsigned numbers[SIZE / sizeof(unsigned)];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		numbers[i] = (unsigned)i;
	if (fd < 0 || write(fd, numbers, SIZE) != SIZE)
		fail("file", errno);
	return fd;
}

static void ask(struct io_uring *ring, int fd, struct piece *piece)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		fail("ring", EAGAIN);
	io_uring_prep_read(sqe, fd, piece->bytes + piece->done,
			   (unsigned)(BYTES - piece->done),
			   (unsigned long long)piece->at + piece->done);
	io_uring_sqe_set_data(sqe, piece);
}

/*
 * Consume the completion of a read of a piece. If a part of the piece is still missing,
 * request that part.
 * Return: the piece, if it is complete; else NULL.
 */
static struct piece *take(struct io_uring *ring, int fd)
{
	struct io_uring_cqe *cqe;
	struct piece *piece;
	int ret = io_uring_wait_cqe(ring, &cqe);

	if (ret < 0)
		fail("wait", -ret);
	if (cqe->res <= 0)
		fail("read", cqe->res ? -cqe->res : ENODATA);
	piece = io_uring_cqe_get_data(cqe);
	piece->done += (size_t)cqe->res;
	io_uring_cqe_seen(ring, cqe);
	if (forgets_short || piece->done == BYTES)
		return piece;
	ask(ring, fd, piece);
	io_uring_submit(ring);
	return NULL;
}

/*
 * Read two pieces of the file to `to`. With the mistake `order`, the pieces are stored
 * in `to` in the order of their completions.
 */
static void read_pair(struct io_uring *ring, int fd, off_t at, char *to)
{
	static struct piece pieces[2];
	off_t end = at;

	for (int i = 0; i < 2; i++) {
		memset(&pieces[i], 0, sizeof(pieces[i]));
		pieces[i].at = at + (off_t)i * BYTES;
		ask(ring, fd, &pieces[i]);
	}
	io_uring_submit(ring);
	while (end < at + 2 * BYTES) {
		const struct piece *piece = take(ring, fd);

		if (!piece)
			continue;
		memcpy(to + (forgets_order ? end : piece->at), piece->bytes,
		       BYTES);
		end += BYTES;
	}
}

/*
 * Submit a read, then cancel it.
 * Return: whether the read succeeded or was cancelled; with the mistake `cancel`, only
 * whether it succeeded.
 */
static bool read_or_cancel(struct io_uring *ring, int fd)
{
	static struct piece piece;
	struct io_uring_cqe *cqe;
	int res = 0;

	ask(ring, fd, &piece);
	io_uring_submit(ring);
	io_uring_prep_cancel(io_uring_get_sqe(ring), &piece, 0);
	io_uring_submit(ring);
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(ring, &cqe) < 0)
			fail("wait", errno);
		if (io_uring_cqe_get_data(cqe) == &piece)
			res = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
	return res > 0 || (res == -ECANCELED && !forgets_cancel);
}

int main(int argc, char **argv)
{
	static char is[SIZE], expected[SIZE];
	struct io_uring ring;
	int fd = make_file(), ret = io_uring_queue_init(8, &ring, 0);

	forgets_short = argc > 1 && !strcmp(argv[1], "short");
	forgets_order = argc > 1 && !strcmp(argv[1], "order");
	forgets_cancel = argc > 1 && !strcmp(argv[1], "cancel");
	if (ret < 0)
		fail("ring", -ret);
	for (off_t at = 0; at < SIZE; at += 2 * BYTES)
		read_pair(&ring, fd, at, is);
	for (int i = 0; i < 4; i++)
		if (!read_or_cancel(&ring, fd)) {
			printf("byte 0 is wrong\n");
			return 1;
		}
	io_uring_queue_exit(&ring);
	if (pread(fd, expected, SIZE, 0) != SIZE)
		fail("file", errno);
	close(fd);
	for (size_t i = 0; i < SIZE; i++)
		if (is[i] != expected[i]) {
			printf("byte %zu is wrong\n", i);
			return 1;
		}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * liburing-static FILE: a program that is linked with the static liburing
 *
 * The program prints a line for each action, which is always the same if io_uring works.
 * FILE is larger than what the program reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ENTRIES = 16, PART = 512, NR = 8 };

static struct io_uring ring;
static char buffers[NR][PART];

/*
 * Submit, wait for nr completions, then print their results in the order of the
 * submissions.
 */
static void print_results(const char *what, unsigned nr)
{
	int results[ENTRIES] = { 0 };
	unsigned flags = 0;
	int submitted = io_uring_submit_and_wait(&ring, nr);

	for (unsigned i = 0; i < nr; i++) {
		struct io_uring_cqe *cqe;

		if (io_uring_wait_cqe(&ring, &cqe) < 0)
			exit(3);
		results[io_uring_cqe_get_data64(cqe) % ENTRIES] = cqe->res;
		flags |= cqe->flags & IORING_CQE_F_BUFFER;
		io_uring_cqe_seen(&ring, cqe);
	}
	printf("%s: %d submitted, flags %u,", what, submitted, flags);
	for (unsigned i = 0; i < nr; i++)
		printf(" %d", results[i]);
	putchar('\n');
}

static struct io_uring_sqe *next(unsigned data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		exit(4);
	memset(sqe, 0, sizeof(*sqe));
	io_uring_sqe_set_data64(sqe, data);
	return sqe;
}

#define PUT(data, prepare, ...)                        \
	do {                                           \
		struct io_uring_sqe *put = next(data); \
		prepare(put, __VA_ARGS__);             \
		io_uring_sqe_set_data64(put, data);    \
	} while (0)

static void read_parts(int fd)
{
	char wanted[PART];
	int nr_wrong = 0;

	for (unsigned i = 0; i < NR; i++)
		PUT(i, io_uring_prep_read, fd, buffers[i], PART, i * PART);
	print_results("read", NR);
	for (unsigned i = 0; i < NR; i++)
		nr_wrong += pread(fd, wanted, PART, i * PART) != PART ||
			    memcmp(wanted, buffers[i], PART) != 0;
	printf("read: %d wrong\n", nr_wrong);
}

static void use_registered(int fd)
{
	const struct iovec iov = { buffers, sizeof(buffers) };

	printf("register: %d %d\n", io_uring_register_buffers(&ring, &iov, 1),
	       io_uring_register_files(&ring, &fd, 1));
	PUT(0, io_uring_prep_read_fixed, 0, buffers[0], PART, 7, 0);
	io_uring_sqe_set_flags(
		&ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask],
		IOSQE_FIXED_FILE);
	print_results("fixed", 1);
}

static void use_sockets(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		exit(5);
	PUT(0, io_uring_prep_recv, ends[0], buffers[0], PART, 0);
	PUT(1, io_uring_prep_poll_add, ends[1], POLLOUT);
	PUT(2, io_uring_prep_send, ends[1], "abc", 3, 0);
	print_results("socket", 3);
}

static void wait_in_vain(void)
{
	struct __kernel_timespec ts = { 0, 1000000 };
	struct io_uring_cqe *cqe;

	printf("wait: %d\n", io_uring_wait_cqe_timeout(&ring, &cqe, &ts));
	PUT(0, io_uring_prep_timeout, &ts, 0, 0);
	PUT(1, io_uring_prep_cancel64, 77, 0);
	io_uring_prep_nop(next(2));
	io_uring_sqe_set_data64(
		&ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask], 2);
	print_results("others", 3);
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	int ret = io_uring_queue_init(ENTRIES, &ring, 0);

	if (fd < 0)
		return 2;
	if (ret < 0) {
		printf("refused: %s\n", strerror(-ret));
		return 1;
	}
	read_parts(fd);
	use_registered(fd);
	use_sockets();
	wait_in_vain();
	io_uring_queue_exit(&ring);
	printf("end\n");
	return 0;
}

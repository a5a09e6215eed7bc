/* SPDX-License-Identifier: MIT */
/*
 * held PLACE: submits NR requests, which stay in the state that PLACE names. When all
 * have that state, the program prints "held". When it then reads a byte, it lets the
 * requests complete, and prints "done". At the end of its input the program exits.
 *
 * worker  NR reads of a file whose server does not answer. There is only one worker,
 *         which executes one read while the others are queued.
 * order   NR writes of one file: each waits for the write before it
 * links   a read of an empty pipe, and NR - 1 requests linked to that read
 * drain   a poll of an empty pipe, a drain after it, and NR - 2 requests after the drain
 * kernel  NR writes in the kernel, to a device that does not answer
 *
 * If this machine cannot provide the FUSE file system or the loop device that PLACE
 * needs, the exit status is 77 (skipped).
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop.h"
#include "slowfs.h"

/*
 * NR requests are so few that io_submit accepts them on any block device, without
 * blocking or EAGAIN.
 */
enum { NR = 4, BLOCK = 4096, SKIPPED = 77 };

static char buffer[NR * BLOCK] __attribute__((aligned(4096)));

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/*
 * Print "held". Return when the test, which has looked at the requests, sends a byte.
 */
static void hold(void)
{
	say("held");
	(void)!getchar();
}

static void skip(const char *why)
{
	say(why);
	exit(SKIPPED);
}

/* Starting the FUSE server, which answers when the program lets it */

static struct slowfs *start_server(void)
{
	struct slowfs *fs;

	/*
	 * Mount in a mount namespace of this process, so that no other process sees the
	 * mount.
	 */
	fs = unshare(CLONE_NEWNS) ? NULL : slowfs_start("slow");
	if (!fs)
		skip("no file system can be mounted");
	return fs;
}

static int open_file(int flags)
{
	int fd = open("slow/file", O_CREAT | O_RDWR | O_CLOEXEC | flags, 0644);

	assert(fd >= 0 && ftruncate(fd, sizeof(buffer)) == 0);
	return fd;
}

/*
 * Return: a descriptor of a loop device, which is backed by a file of the FUSE server.
 */
static int open_device(void)
{
	char path[32];
	int loop = loop_attach(open_file(0), path, sizeof(path)), fd;

	if (loop < 0)
		skip("there is no loop device");
	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	assert(fd >= 0);
	return fd;
}

static void make_blocks(struct slowfs *fs, enum slowfs_op op, int fd)
{
	struct iocb iocbs[NR], *list[NR];
	struct io_event events[NR];
	io_context_t ctx = NULL;

	assert(io_setup(NR, &ctx) == 0);
	for (int i = 0; i < NR; i++) {
		list[i] = &iocbs[i];
		if (op == SLOWFS_READ)
			io_prep_pread(list[i], fd, buffer + i * BLOCK, BLOCK,
				      i * BLOCK);
		else
			io_prep_pwrite(list[i], fd, buffer + i * BLOCK, BLOCK,
				       i * BLOCK);
	}
	slowfs_hold(fs, op);
	assert(io_submit(ctx, NR, list) == NR);
	slowfs_await(fs, op, 1);
	hold();
	slowfs_release(fs, op);
	assert(io_getevents(ctx, NR, NR, events, NULL) == NR);
	for (int i = 0; i < NR; i++)
		assert(events[i].res == BLOCK);
	assert(io_destroy(ctx) == 0);
}

static void hold_worker(void)
{
	struct slowfs *fs = start_server();

	make_blocks(fs, SLOWFS_READ, open_file(O_DIRECT));
}

static void hold_order(void)
{
	struct slowfs *fs = start_server();

	make_blocks(fs, SLOWFS_WRITE, open_file(0));
}

static void hold_kernel(void)
{
	struct slowfs *fs = start_server();

	make_blocks(fs, SLOWFS_WRITE, open_device());
}

/* The PLACEs that need a ring */

static void finish(struct io_uring *ring, int pipe_end)
{
	assert(io_uring_submit(ring) == NR);
	hold();
	assert(write(pipe_end, "x", 1) == 1);
	for (int i = 0; i < NR; i++) {
		struct io_uring_cqe *cqe;

		assert(io_uring_wait_cqe(ring, &cqe) == 0 && cqe->res >= 0);
		io_uring_cqe_seen(ring, cqe);
	}
	io_uring_queue_exit(ring);
}

static void hold_links(void)
{
	struct io_uring ring;
	int ends[2];

	assert(pipe(ends) == 0 && io_uring_queue_init(NR, &ring, 0) == 0);
	for (int i = 0; i < NR; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		if (i == 0)
			io_uring_prep_read(sqe, ends[0], buffer, 1, 0);
		else
			io_uring_prep_nop(sqe);
		if (i < NR - 1)
			sqe->flags |= IOSQE_IO_LINK;
	}
	finish(&ring, ends[1]);
}

static void hold_drain(void)
{
	struct io_uring ring;
	int ends[2];

	assert(pipe(ends) == 0 && io_uring_queue_init(NR, &ring, 0) == 0);
	for (int i = 0; i < NR; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		if (i == 0)
			io_uring_prep_poll_add(sqe, ends[0], POLLIN);
		else
			io_uring_prep_nop(sqe);
		if (i == 1)
			sqe->flags |= IOSQE_IO_DRAIN;
	}
	finish(&ring, ends[1]);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*hold)(void);
	} places[] = {
		{ "worker", hold_worker }, { "order", hold_order },
		{ "links", hold_links },   { "drain", hold_drain },
		{ "kernel", hold_kernel },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (argc == 2 && !strcmp(argv[1], places[i].name)) {
			places[i].hold();
			say("done");
			(void)!getchar();
			return 0;
		}
	fprintf(stderr, "usage: held PLACE\n");
	return 2;
}

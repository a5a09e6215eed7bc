/* SPDX-License-Identifier: MIT */
/*
 * The operations of io_uring that uring-ops.c does not have: operations without a file,
 * and newer operations
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uring-ops.h"

enum { BYTES = 4096, FUTEX_U32_PRIVATE = 2 | 128 };

static char memory[BYTES];
static uint32_t word;
static struct epoll_event events[4];
static struct {
	uint64_t value, addr;
	uint32_t flags, reserved;
} waits[2];

static int open_old(void)
{
	int fd = open("old", O_RDWR);

	REQUIRE(fd >= 0 && ftruncate(fd, 8192) == 0);
	return fd;
}

/* Opens an epoll that watches a ready descriptor. */
static int ready_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(write(fds[1], "x", 1) == 1);
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event) == 0);
	return epoll;
}

/* The iovecs name memory outside of the registered buffer, so the request fails. */
static void fill_registered(struct io_uring_sqe *sqe)
{
	static struct iovec vectors[2];

	vectors[0] = (struct iovec){ memory, 512 };
	vectors[1] = (struct iovec){ memory + 512, 512 };
	sqe->addr = (uintptr_t)vectors;
	sqe->len = 2;
}

static void fill_provide(struct io_uring_sqe *sqe)
{
	sqe->fd = 4;
	sqe->addr = (uintptr_t)memory;
	sqe->len = 64;
	sqe->buf_group = 3;
}

/* The buffer group is empty, so a valid request fails with ENOENT. */
static void fill_remove(struct io_uring_sqe *sqe)
{
	sqe->fd = 4;
	sqe->buf_group = 3;
}

/* The ring has no table of files, so a valid request fails with ENXIO. */
static void fill_update(struct io_uring_sqe *sqe)
{
	static int32_t fds[2] = { -1, -1 };

	sqe->addr = (uintptr_t)fds;
	sqe->len = 2;
}

static void fill_wake(struct io_uring_sqe *sqe)
{
	sqe->fd = FUTEX_U32_PRIVATE;
	sqe->addr = (uintptr_t)&word;
	sqe->off = 1;
	sqe->addr3 = UINT32_MAX;
}

/*
 * The futex's word has another value than expected, so a valid request fails with
 * EAGAIN.
 */
static void fill_wait(struct io_uring_sqe *sqe)
{
	word = 2;
	fill_wake(sqe);
}

static void fill_waits(struct io_uring_sqe *sqe)
{
	word = 2;
	for (unsigned i = 0; i < 2; i++) {
		waits[i].value = 1;
		waits[i].addr = (uintptr_t)&word;
		waits[i].flags = FUTEX_U32_PRIVATE;
	}
	sqe->addr = (uintptr_t)waits;
	sqe->len = 2;
}

/* The process has no child, so a valid request fails with ECHILD. */
static void fill_waitid(struct io_uring_sqe *sqe)
{
	sqe->len = P_ALL;
	sqe->file_index = WEXITED;
	sqe->off = (uintptr_t)memory;
}

static void fill_events(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)events;
	sqe->len = 4;
}

#define NO_FILE .takes_any_file = false
#define ANY_FILE .takes_any_file = true

const struct uring_op uring_ops_rest[] = {
	{ "READV_FIXED", OP_READV_FIXED, open_old, fill_registered, ANY_FILE },
	{ "WRITEV_FIXED", OP_WRITEV_FIXED, open_old, fill_registered,
	  ANY_FILE },
	{ "PROVIDE_BUFFERS", IORING_OP_PROVIDE_BUFFERS, NULL, fill_provide,
	  NO_FILE },
	{ "REMOVE_BUFFERS", IORING_OP_REMOVE_BUFFERS, NULL, fill_remove,
	  NO_FILE },
	{ "FILES_UPDATE", IORING_OP_FILES_UPDATE, NULL, fill_update, NO_FILE },
	{ "FUTEX_WAKE", OP_FUTEX_WAKE, NULL, fill_wake, NO_FILE },
	{ "FUTEX_WAIT", OP_FUTEX_WAIT, NULL, fill_wait, NO_FILE },
	{ "FUTEX_WAITV", OP_FUTEX_WAITV, NULL, fill_waits, NO_FILE },
	{ "WAITID", OP_WAITID, NULL, fill_waitid, NO_FILE },
	{ "EPOLL_WAIT", OP_EPOLL_WAIT, ready_epoll, fill_events, ANY_FILE },
	{ NULL, 0, NULL, NULL, NO_FILE },
};

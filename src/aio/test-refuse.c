/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "aio/iocb.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "unit.h"

enum {
	IS_FILE,      /* a file in memory, for reading and writing */
	IS_READ_ONLY, /* the file in memory, opened read-only */
	IS_PIPE,      /* a pipe's end for writing */
	IS_EVENTFD,   /* an eventfd: its driver has write, but no write_iter */
	/* an inotify file: its driver has read, but no read_iter; it cannot be written */
	IS_INOTIFY,
	NR_FDS,
};

static int fds[NR_FDS], other_end;

static int open_all(void **state)
{
	char path[64];
	int ends[2];

	assert_int_equal(unit_engine(state), 0);
	assert_int_equal(pipe(ends), 0);
	other_end = ends[0];
	fds[IS_PIPE] = ends[1];
	fds[IS_FILE] = unit_file(true);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[IS_FILE]);
	fds[IS_READ_ONLY] = open(path, O_RDONLY | O_CLOEXEC);
	fds[IS_EVENTFD] = eventfd(0, EFD_CLOEXEC);
	fds[IS_INOTIFY] = inotify_init1(IN_CLOEXEC);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_FDS; i++)
		unit_close(fds[i]);
	unit_close(other_end);
	return 0;
}

static char buffer[1];
static const struct iovec backwards = { buffer, SIZE_MAX };

/*
 * front: the error with which kernel AIO's own checks refuse the request, or 0. core: the
 * error of the checks common to all front-ends, or 0.
 */
static void check(const struct uaio_sqe *given, int is, int front, int core)
{
	struct uaio_sqe sqe = *given;
	struct uaio_file *file = NULL;

	sqe.fd = fds[is];
	assert_int_equal(uaio_look_up(sqe.fd, &file), 0);
	assert_int_equal(uaio_refuse(&sqe, file), front);
	if (front == 0)
		assert_int_equal(uaio_optab[sqe.op].prep(&sqe, file), core);
}

static struct uaio_sqe rw(enum uaio_op op, const void *memory, int64_t off)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.buf = (void *)memory,
		.len = 1,
		.off = off,
	};
}

static const void *const KERNELS = (const void *)-1;
static const uint32_t UNKNOWN_FLAG = 1u << 31;

static void the_offset_is_checked_last(void **state)
{
	struct uaio_sqe sqe = rw(UAIO_OP_READ, buffer, -1);

	(void)state;
	check(&sqe, IS_FILE, -EINVAL, 0);
	sqe.rw_flags = UNKNOWN_FLAG;
	check(&sqe, IS_FILE, -EOPNOTSUPP, 0);
	sqe = rw(UAIO_OP_WRITE, buffer, -1);
	check(&sqe, IS_PIPE, -EINVAL, 0);
	check(&sqe, IS_READ_ONLY, -EBADF, 0);
	sqe = rw(UAIO_OP_READ, KERNELS, -1);
	check(&sqe, IS_FILE, -EFAULT, 0);
	sqe = rw(UAIO_OP_READ, buffer, INT64_MAX);
	check(&sqe, IS_FILE, 0, -EINVAL);
	sqe = rw(UAIO_OP_READ, buffer, INT64_MAX - 1);
	check(&sqe, IS_FILE, 0, 0);
}

/*
 * The kernel refuses a file without read_iter or write_iter after it has checked flags and
 * access mode, but before it checks the memory.
 */
static void files_without_vectored_calls_are_refused(void **state)
{
	struct uaio_sqe sqe = rw(UAIO_OP_READ, buffer, 0);

	(void)state;
	check(&sqe, IS_EVENTFD, 0, 0);
	check(&sqe, IS_INOTIFY, -EINVAL, 0);
	sqe = rw(UAIO_OP_WRITE, buffer, 0);
	check(&sqe, IS_EVENTFD, -EINVAL, 0);
	check(&sqe, IS_INOTIFY, -EBADF, 0);
	sqe.rw_flags = UNKNOWN_FLAG;
	check(&sqe, IS_EVENTFD, -EOPNOTSUPP, 0);
	sqe = rw(UAIO_OP_WRITE, KERNELS, -1);
	check(&sqe, IS_EVENTFD, -EINVAL, 0);
	sqe = rw(UAIO_OP_READV, &backwards, 0);
	sqe.len = 1025;
	check(&sqe, IS_INOTIFY, -EINVAL, 0);
	sqe = rw(UAIO_OP_READV, KERNELS, 0);
	check(&sqe, IS_INOTIFY, -EINVAL, 0);
}

static void a_sync_of_a_range_is_refused(void **state)
{
	struct uaio_sqe sqe = { .op = UAIO_OP_FSYNC };

	(void)state;
	check(&sqe, IS_FILE, 0, 0);
	check(&sqe, IS_PIPE, -EINVAL, 0);
	sqe.off = 1;
	check(&sqe, IS_FILE, -EINVAL, 0);
	sqe = (struct uaio_sqe){ .op = UAIO_OP_FDSYNC, .len = 1 };
	check(&sqe, IS_FILE, -EINVAL, 0);
	sqe = (struct uaio_sqe){ .op = UAIO_OP_FSYNC, .buf = buffer };
	check(&sqe, IS_FILE, -EINVAL, 0);
	sqe = (struct uaio_sqe){ .op = UAIO_OP_FDSYNC, .rw_flags = RWF_DSYNC };
	check(&sqe, IS_FILE, -EINVAL, 0);
}

static void a_poll_with_anything_but_events_is_refused(void **state)
{
	const struct uaio_sqe poll = { .op = UAIO_OP_POLL, .events = POLLIN };
	struct uaio_sqe sqe = poll;

	(void)state;
	check(&sqe, IS_PIPE, 0, 0);
	sqe.events |= 1 << 16;
	check(&sqe, IS_PIPE, -EINVAL, 0);
	sqe = poll;
	sqe.off = 1;
	check(&sqe, IS_PIPE, -EINVAL, 0);
	sqe = poll;
	sqe.len = 1;
	check(&sqe, IS_PIPE, -EINVAL, 0);
	sqe = poll;
	sqe.rw_flags = RWF_DSYNC;
	check(&sqe, IS_PIPE, -EINVAL, 0);
	sqe = poll;
	sqe.events = POLLPRI;
	check(&sqe, IS_FILE, 0, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(the_offset_is_checked_last),
		UNIT_TEST(files_without_vectored_calls_are_refused),
		UNIT_TEST(a_sync_of_a_range_is_refused),
		UNIT_TEST(a_poll_with_anything_but_events_is_refused),
	};

	return cmocka_run_group_tests_name("refuse", tests, open_all,
					   close_all);
}

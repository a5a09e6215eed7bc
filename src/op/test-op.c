/* SPDX-License-Identifier: MIT */
/*
 * Tests requests that the common checks (prep) accept, but kernel AIO refuses
 *
 * These tests submit the requests directly (unit_submit_sqe()), because kernel AIO's
 * front-end would refuse them.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "op/op.h"
#include "aio/aio.h"
#include "unit.h"

static struct uaio_sqe rw(enum uaio_op op, int fd, void *buffer, uint64_t bytes)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = fd,
		.buf = buffer,
		.len = bytes,
	};
}

/*
 * Submit a request, which must be accepted.
 * Return: its result.
 */
static int64_t make(const struct uaio_sqe *sqe)
{
	uint64_t handle = unit_context(1);
	int64_t res;

	assert_int_equal(unit_submit_sqe(handle, sqe), 0);
	res = unit_reap_one(handle);
	unit_destroy(handle);
	return res;
}

static long refusal(const struct uaio_sqe *sqe)
{
	uint64_t handle = unit_context(1);
	long ret = unit_submit_sqe(handle, sqe);

	unit_destroy(handle);
	return ret;
}

static void a_range_of_a_file_is_synced_with_the_rest(void **state)
{
	static const uint8_t ops[] = { UAIO_OP_FSYNC, UAIO_OP_FDSYNC };
	int fd = unit_numbered_file(false, 2);

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(ops); i++) {
		const struct uaio_sqe sqe = {
			.op = ops[i],
			.fd = fd,
			.off = UNIT_KEY_BYTES,
			.len = UNIT_KEY_BYTES,
		};

		assert_int_equal(make(&sqe), 0);
	}
	unit_close(fd);
}

static void syncing_an_unsupported_file_fails(void **state)
{
	struct uaio_sqe sqe = { .op = UAIO_OP_FSYNC };
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	sqe.fd = ends[0];
	assert_int_equal(make(&sqe), -EINVAL);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * A poll uses only the low 16 bits of events. Other bits, which a front-end may set, have
 * no effect.
 */
static void a_poll_uses_only_its_low_bits(void **state)
{
	struct uaio_sqe sqe = {
		.op = UAIO_OP_POLL,
		.events = POLLOUT | EPOLLET | EPOLLONESHOT | UINT64_C(1) << 40,
		.off = 1,
		.len = 1,
	};
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	sqe.fd = ends[1];
	assert_int_equal(make(&sqe), POLLOUT);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * Run the operation on a closed descriptor, as if another thread had closed it after the
 * look-up.
 */
static void a_poll_of_a_closed_descriptor_fails(void **state)
{
	const struct uaio_op_def *poll_op = &uaio_optab[UAIO_OP_POLL];
	struct uaio_sqe sqe = { .events = POLLIN };
	int fd = eventfd(1, EFD_CLOEXEC);

	(void)state;
	assert_int_equal(poll_op->run(&sqe, fd, NULL, 0), POLLIN);
	close(fd);
	assert_int_equal(poll_op->run(&sqe, fd, NULL, 0), -EBADF);
}

/*
 * The waiting thread is woken by an epoll. To an epoll, the bits above the low 16 of
 * `events` have a meaning (EPOLLET and others). The library must not pass them on.
 */
static void a_waiting_poll_reports_each_of_its_events(void **state)
{
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_POLL,
		.events = POLLIN | EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE,
		.fd = eventfd(0, EFD_CLOEXEC),
	};
	uint64_t handle = unit_context(1), one = 1;
	const struct timespec zero = { 0 };
	struct uaio_event event;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		/*
		 * This call finds no event. So the library adds the file to the epoll.
		 */
		assert_int_equal(
			uaio_aio_getevents(handle, 0, 1, &event, &zero), 0);
		assert_int_equal(write(sqe.fd, &one, sizeof(one)), sizeof(one));
		assert_int_equal(unit_reap_one(handle), POLLIN);
		assert_int_equal(read(sqe.fd, &one, sizeof(one)), sizeof(one));
	}
	unit_destroy(handle);
	unit_close(sqe.fd);
}

/* When poll() reports the eventfd ready, a worker writes to it. */
static void an_eventfd_is_written(void **state)
{
	uint64_t count = 5;
	int fd = eventfd(1, EFD_CLOEXEC);
	struct uaio_sqe sqe = rw(UAIO_OP_WRITE, fd, &count, sizeof(count));

	(void)state;
	assert_int_equal(make(&sqe), sizeof(count));
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 6);
	unit_close(fd);
}

static void a_full_eventfd_is_written_when_it_is_read(void **state)
{
	uint64_t count = UINT64_MAX - 1, one = 1;
	int fd = eventfd(0, EFD_CLOEXEC);
	struct uaio_sqe sqe = rw(UAIO_OP_WRITE, fd, &one, sizeof(one));
	uint64_t handle = unit_context(1);

	(void)state;
	assert_int_equal(write(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(unit_reap_one(handle), sizeof(one));
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 1);
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * The kernel refuses RWF_NOWAIT for an inotify file. So when poll() reports the file
 * ready, a worker reads it.
 */
static void an_inotify_file_is_read_when_something_happens(void **state)
{
	char dir[] = "/tmp/uaio-op-XXXXXX", path[64];
	struct {
		struct inotify_event event;
		char name[64];
	} got;
	struct uaio_sqe sqe;
	uint64_t handle = unit_context(1);
	int fd = inotify_init1(IN_CLOEXEC);

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_true(inotify_add_watch(fd, dir, IN_CREATE) >= 0);
	sqe = rw(UAIO_OP_READ, fd, &got, sizeof(got));
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	strcpy(path, dir);
	strcat(path, "/name");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(unit_reap_one(handle) > (int)sizeof(got.event));
	assert_string_equal(got.name, "name");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
	unit_destroy(handle);
	unit_close(fd);
}

static void reading_an_unsupported_file_fails(void **state)
{
	char buffer[1];
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct uaio_sqe sqe = rw(UAIO_OP_READ, fd, buffer, 1);
	int folder = open("/", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(make(&sqe), -EINVAL);
	unit_close(fd);
	sqe = rw(UAIO_OP_READ, folder, buffer, 1);
	assert_int_equal(make(&sqe), -EISDIR);
	unit_close(folder);
}

/*
 * Reads of some files in /proc block for ever. So workers execute reads of all files in
 * /proc.
 */
static void a_file_in_proc_is_read_by_a_worker(void **state)
{
	/*
	 * after this number of reads the library would trust any other file, and read
	 * it inline (trust.h)
	 */
	enum { NR = 200 };
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	struct uaio_counters before, after;
	uint64_t handle = unit_context(1);
	char buffer[64], expected[64];
	ssize_t bytes = pread(fd, expected, sizeof(expected), 0);
	struct uaio_sqe sqe = rw(UAIO_OP_READ, fd, buffer, sizeof(buffer));

	(void)state;
	assert_true(bytes > 0);
	uaio_counters_read(&before);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		assert_int_equal(unit_reap_one(handle), bytes);
		assert_memory_equal(buffer, expected, (size_t)bytes);
	}
	uaio_counters_read(&after);
	assert_int_equal(after.nr_worker - before.nr_worker, NR);
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * Return: a numbered file, on a disk or in memory. is_direct: set O_DIRECT if the file
 * system allows it.
 */
static int numbered_file(bool in_memory, bool is_direct, unsigned nr)
{
	int fd = unit_numbered_file(in_memory, nr);

	if (is_direct && fcntl(fd, F_SETFL, O_DIRECT) < 0)
		assert_int_equal(errno, EINVAL);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

enum { BLOCK = 4096, NR_BLOCKS = 64 };

static char blocks[NR_BLOCKS][BLOCK] __attribute__((aligned(BLOCK)));

/*
 * Submit several reads at the file position together. Each must begin where the previous
 * one ended.
 */
static void read_at_position(bool in_memory, bool is_direct, bool is_cold)
{
	static const unsigned nr_keys = NR_BLOCKS * BLOCK / UNIT_KEY_BYTES;
	int fd = numbered_file(in_memory, is_direct, nr_keys);
	uint64_t handle = unit_context(NR_BLOCKS + 1);
	struct io_event events[NR_BLOCKS];
	struct uaio_sqe sqe;

	if (is_cold) {
		assert_int_equal(fsync(fd), 0);
		assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED),
				 0);
	}
	memset(blocks, 0xff, sizeof(blocks));
	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		sqe = rw(UAIO_OP_READ, fd, blocks[i], BLOCK);
		sqe.off = UAIO_OFF_POSITION;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	}
	assert_int_equal(unit_reap(handle, NR_BLOCKS, events), NR_BLOCKS);
	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		assert_int_equal(events[i].res, BLOCK);
		assert_int_equal((uint8_t)blocks[i][0],
				 (uint8_t)(i * BLOCK / UNIT_KEY_BYTES));
	}
	assert_int_equal(lseek(fd, 0, SEEK_CUR), NR_BLOCKS * BLOCK);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), 0);
	unit_destroy(handle);
	unit_close(fd);
}

static void reads_at_the_position_follow_one_another(void **state)
{
	(void)state;
	read_at_position(true, false, false);
	read_at_position(false, false, false);
	read_at_position(false, false, true);
	read_at_position(false, true, false);
}

/*
 * Submit reads and writes at the file position in turn. Every second block is read, the
 * others are written.
 */
static void writes_and_reads_share_the_position(void **state)
{
	uint64_t handle = unit_context(NR_BLOCKS);

	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		int fd = numbered_file(kind == 0, kind == 2,
				       NR_BLOCKS * BLOCK / UNIT_KEY_BYTES);
		struct io_event events[NR_BLOCKS];

		for (unsigned i = 0; i < NR_BLOCKS; i++) {
			struct uaio_sqe sqe;

			memset(blocks[i], 'a' + (int)i % 16, BLOCK);
			sqe = rw(i % 2 ? UAIO_OP_WRITE : UAIO_OP_READ, fd,
				 blocks[i], BLOCK);
			sqe.off = UAIO_OFF_POSITION;
			sqe.is_async = i % 3 == 0;
			assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		}
		assert_int_equal(unit_reap(handle, NR_BLOCKS, events),
				 NR_BLOCKS);
		for (unsigned i = 0; i < NR_BLOCKS; i++) {
			uint8_t first = (uint8_t)blocks[i][0], found;

			assert_int_equal(pread(fd, blocks[i], BLOCK, i * BLOCK),
					 BLOCK);
			found = (uint8_t)blocks[i][0];
			assert_int_equal(found, first);
			assert_int_equal(
				found,
				i % 2 ? 'a' + (int)i % 16
				      : (uint8_t)(i * BLOCK / UNIT_KEY_BYTES));
		}
		unit_close(fd);
	}
	unit_destroy(handle);
}

static void vectors_and_flags_use_the_position(void **state)
{
	static const char text[] = "0123";
	struct iovec iov[2] = { { (void *)text, 1 },
				{ (void *)(text + 1), 3 } };
	char got[4];
	struct iovec into[2] = { { got, 3 }, { got + 3, 1 } };
	int fd = unit_file(true);
	struct uaio_sqe sqe = rw(UAIO_OP_WRITEV, fd, iov, 2);

	(void)state;
	assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
	sqe.off = UAIO_OFF_POSITION;
	assert_int_equal(make(&sqe), 4);
	sqe.rw_flags = RWF_DSYNC;
	assert_int_equal(make(&sqe), 4);
	assert_int_equal(lseek(fd, 9, SEEK_SET), 9);
	sqe = rw(UAIO_OP_READV, fd, into, 2);
	sqe.off = UAIO_OFF_POSITION;
	assert_int_equal(make(&sqe), 4);
	assert_memory_equal(got, text, 4);
	assert_int_equal(make(&sqe), 0);
	unit_close(fd);
}

/* UAIO_OFF_POSITION has no effect on a stream, which has no offsets. */
static void a_stream_is_at_its_position(void **state)
{
	char byte = 'x';
	int ends[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct uaio_sqe sqe;

		assert_int_equal(i ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends)
				   : pipe(ends),
				 0);
		sqe = rw(UAIO_OP_WRITE, ends[1], &byte, 1);
		sqe.off = UAIO_OFF_POSITION;
		assert_int_equal(make(&sqe), 1);
		sqe = rw(UAIO_OP_READ, ends[0], &byte, 1);
		sqe.off = UAIO_OFF_POSITION;
		assert_int_equal(make(&sqe), 1);
		unit_close(ends[0]);
		unit_close(ends[1]);
	}
}

static void the_core_refuses_what_no_door_may_accept(void **state)
{
	const void *kernels = (const void *)(UINTPTR_MAX / 4 * 3);
	const struct iovec backwards = { NULL, SIZE_MAX };
	int fd = unit_numbered_file(true, 1), read_only;
	char path[64], buffer[1];
	struct uaio_sqe sqe;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	sqe = rw(UAIO_OP_WRITE, read_only, buffer, 1);
	assert_int_equal(refusal(&sqe), -EBADF);
	sqe = rw(UAIO_OP_READ, fd, (void *)kernels, 1);
	assert_int_equal(refusal(&sqe), -EFAULT);
	sqe = rw(UAIO_OP_READV, fd, (void *)&backwards, 1);
	assert_int_equal(refusal(&sqe), -EINVAL);
	sqe = rw(UAIO_OP_READV, fd, (void *)&backwards, 1025);
	assert_int_equal(refusal(&sqe), -EINVAL);
	sqe = rw(UAIO_OP_READ, fd, buffer, 1);
	sqe.off = INT64_MAX;
	assert_int_equal(refusal(&sqe), -EINVAL);
	sqe.off = UAIO_OFF_POSITION - 1;
	assert_int_equal(refusal(&sqe), -EINVAL);
	/*
	 * The file does not support polls, so a poll for POLLPRI, which would wait for
	 * ever, is refused.
	 */
	sqe = (struct uaio_sqe){ .op = UAIO_OP_POLL,
				 .fd = fd,
				 .events = POLLPRI };
	assert_int_equal(refusal(&sqe), -EINVAL);
	unit_close(fd);
	unit_close(read_only);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_range_of_a_file_is_synced_with_the_rest),
		UNIT_TEST(syncing_an_unsupported_file_fails),
		UNIT_TEST(a_poll_uses_only_its_low_bits),
		UNIT_TEST(a_poll_of_a_closed_descriptor_fails),
		UNIT_TEST(a_waiting_poll_reports_each_of_its_events),
		UNIT_TEST(an_eventfd_is_written),
		UNIT_TEST(a_full_eventfd_is_written_when_it_is_read),
		UNIT_TEST(an_inotify_file_is_read_when_something_happens),
		UNIT_TEST(reading_an_unsupported_file_fails),
		UNIT_TEST(a_file_in_proc_is_read_by_a_worker),
		UNIT_TEST(reads_at_the_position_follow_one_another),
		UNIT_TEST(writes_and_reads_share_the_position),
		UNIT_TEST(vectors_and_flags_use_the_position),
		UNIT_TEST(a_stream_is_at_its_position),
		UNIT_TEST(the_core_refuses_what_no_door_may_accept),
	};

	return cmocka_run_group_tests_name("op", tests, unit_engine, NULL);
}

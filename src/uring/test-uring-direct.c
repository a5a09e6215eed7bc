/* SPDX-License-Identifier: MIT */
/* Files that requests open into a ring's table of registered files, and close there. */
#undef NDEBUG
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "test-uring-files.h"

static int32_t opened(const char *path, int place)
{
	put_open(path, O_RDONLY, place, 1);
	return made(&client);
}

static int32_t closed(int place)
{
	put_close(place, 1);
	return made(&client);
}

static int32_t read_at(int place)
{
	char byte;

	put_read(place, &byte, 1);
	return made(&client);
}

static void what_is_opened_has_a_place_and_no_number(void **state)
{
	int lowest = dup(0), now;
	char self[64];

	(void)state;
	close(lowest);
	assert_int_equal(opened("/dev/zero", 0), -ENXIO);
	assert_int_equal(opened("/dev/zero", ANY), -ENFILE);
	assert_int_equal(opened("/dev/none", 0), -ENOENT);
	assert_int_equal(closed(0), -ENXIO);
	make_table(NR_PLACES);
	put_open("/dev/zero", O_CLOEXEC, 0, 1);
	assert_int_equal(made(&client), -EINVAL);
	assert_int_equal(opened("/dev/zero", 0), 0);
	assert_int_equal(opened("/dev/zero", NR_PLACES), -EINVAL);
	assert_int_equal(opened("/dev/zero", ANY), 1);
	assert_int_equal(opened("/dev/zero", 1), 0);
	now = dup(0);
	close(now);
	assert_int_equal(now, lowest);
	assert_int_equal(read_at(0), 1);
	assert_int_equal(read_at(1), 1);
	assert_int_equal(read_at(2), -EBADF);
	assert_int_equal(closed(NR_PLACES), -EINVAL);
	assert_int_equal(closed(ANY - 1), -EINVAL);
	assert_int_equal(closed(0), 0);
	assert_int_equal(closed(0), -EBADF);
	assert_int_equal(read_at(0), -EBADF);
	/* A ring registered with itself would never be freed. */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", client.fd);
	assert_int_equal(opened(self, 0), -EBADF);
	put_close(1, 1)->fd = 3;
	assert_int_equal(made(&client), -EINVAL);
	put_close(1, 1)->flags = IOSQE_FIXED_FILE;
	assert_int_equal(made(&client), -EBADF);
}

static void a_worker_or_a_chain_opens_as_well(void **state)
{
	char byte = 9;

	(void)state;
	make_table(NR_PLACES);
	put_open("/dev/zero", O_RDONLY, 3, 1)->flags = IOSQE_ASYNC;
	assert_int_equal(made(&client), 0);
	assert_int_equal(read_at(3), 1);
	put_close(3, 1)->flags = IOSQE_ASYNC;
	assert_int_equal(made(&client), 0);
	put_open("/dev/zero", O_RDONLY, 3, 1)->flags = IOSQE_IO_LINK;
	put_read(3, &byte, 2)->flags |= IOSQE_IO_LINK;
	put_close(3, 3);
	submit(&client, 3);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, 1);
	assert_got(&client, 3, 0);
	assert_int_equal(byte, 0);
	assert_int_equal(closed(3), -EBADF);
	/*
	 * If the open fails, no slot is filled, and the linked read is cancelled.
	 */
	put_open("/dev/none", O_RDONLY, ANY, 1)->flags = IOSQE_IO_LINK;
	put_read(0, &byte, 2);
	submit(&client, 2);
	assert_got(&client, 1, -ENOENT);
	assert_got(&client, 2, -ECANCELED);
}

static int32_t limit(uint32_t off, uint32_t len)
{
	struct io_uring_file_index_range range = { .off = off, .len = len };

	return (int32_t)reg(IORING_REGISTER_FILE_ALLOC_RANGE, &range, 0);
}

static void free_places_are_chosen_as_the_kernel_does(void **state)
{
	const char *zero = "/dev/zero";

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_FILE_ALLOC_RANGE, NULL, 0),
			 -EINVAL);
	assert_int_equal(limit(0, 0), 0);
	assert_int_equal(limit(0, 1), -EINVAL);
	make_table(200);
	for (int i = 0; i < 200; i++)
		assert_int_equal(opened(zero, ANY), i);
	assert_int_equal(opened(zero, ANY), -ENFILE);
	assert_int_equal(closed(5), 0);
	assert_int_equal(closed(150), 0);
	assert_int_equal(opened(zero, ANY), 150);
	assert_int_equal(opened(zero, ANY), 5);
	assert_int_equal(limit(~0u, 2), -EOVERFLOW);
	assert_int_equal(limit(100, 101), -EINVAL);
	assert_int_equal(limit(64, 64), 0);
	assert_int_equal(opened(zero, ANY), -ENFILE);
	assert_int_equal(closed(130), 0);
	assert_int_equal(opened(zero, ANY), -ENFILE);
	assert_int_equal(closed(127), 0);
	assert_int_equal(closed(64), 0);
	/*
	 * The registered range (IORING_REGISTER_FILE_ALLOC_RANGE) lets ANY choose only
	 * slots from 64 to 127, but a request can name slot 130.
	 */
	assert_int_equal(opened(zero, 130), 0);
	assert_int_equal(opened(zero, ANY), 64);
	assert_int_equal(opened(zero, ANY), 127);
	assert_int_equal(limit(0, 0), 0);
	assert_int_equal(closed(0), 0);
	assert_int_equal(opened(zero, ANY), -ENFILE);
}

static int32_t updated(uint64_t off, int32_t *fds, uint32_t nr)
{
	put_rw(&client, IORING_OP_FILES_UPDATE, -1, fds, nr, (int64_t)off, 1);
	return made(&client);
}

static void a_request_updates_the_table(void **state)
{
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	int32_t fds[4] = { zero, -1, IORING_REGISTER_FILES_SKIP, 12345 };
	int32_t *fixed = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(fixed, MAP_FAILED);
	*fixed = zero;
	assert_int_equal(mprotect(fixed, 4096, PROT_READ), 0);
	assert_int_equal(updated(0, fds, 1), -ENXIO);
	assert_int_equal(updated(IORING_FILE_INDEX_ALLOC, fds, 1), -ENXIO);
	make_table(4);
	assert_int_equal(updated(0, fds, 0), -EINVAL);
	assert_int_equal(updated(0, fds, 5), -EINVAL);
	assert_int_equal(updated(0, fds, 4), 3);
	assert_int_equal(updated(3, fds + 3, 1), -EBADF);
	assert_int_equal(read_at(0), 1);
	assert_int_equal(read_at(1), -EBADF);
	assert_int_equal(updated(IORING_FILE_INDEX_ALLOC - 1, fds, 5),
			 -EOVERFLOW);
	assert_int_equal(updated(0, NULL, 1), -EFAULT);
	fds[0] = fds[1] = fds[2] = fds[3] = zero;
	assert_int_equal(updated(IORING_FILE_INDEX_ALLOC, fixed, 1), -EFAULT);
	assert_int_equal(updated(IORING_FILE_INDEX_ALLOC, fds, 4), 3);
	assert_int_equal(fds[0], 1);
	assert_int_equal(fds[1], 2);
	assert_int_equal(fds[2], 3);
	assert_int_equal(fds[3], zero);
	assert_int_equal(updated(IORING_FILE_INDEX_ALLOC, fds + 3, 1), -ENFILE);
	assert_int_equal(read_at(3), 1);
	fds[0] = client.fd;
	assert_int_equal(updated(0, fds, 1), -EBADF);
	assert_int_equal(munmap(fixed, 4096), 0);
	unit_close(zero);
}

static int32_t installed(int place, uint32_t flags)
{
	struct io_uring_sqe *sqe =
		put(&client, IORING_OP_FIXED_FD_INSTALL, place, 1);

	sqe->flags = IOSQE_FIXED_FILE;
	sqe->rw_flags = (int)flags;
	return made(&client);
}

static void a_file_of_the_table_gets_a_number(void **state)
{
	int fd;

	(void)state;
	make_table(NR_PLACES);
	assert_int_equal(opened("/dev/zero", 2), 0);
	fd = installed(2, 0);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	unit_close(fd);
	fd = installed(2, IORING_FIXED_FD_NO_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	unit_close(fd);
	assert_int_equal(installed(1, 0), -EBADF);
	assert_int_equal(installed(2, 2), -EINVAL);
	put(&client, IORING_OP_FIXED_FD_INSTALL, 2, 1);
	assert_int_equal(made(&client), -EBADF);
}

static int32_t piped(uint32_t file_index, int *ends)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, IORING_OP_PIPE, 0, ends, 0, 0, 1);

	sqe->file_index = file_index;
	return made(&client);
}

static void a_pipe_has_two_places(void **state)
{
	int ends[2] = { 0, 0 };
	char byte;

	(void)state;
	assert_int_equal(piped(1, ends), -ENXIO);
	make_table(NR_PLACES);
	assert_int_equal(piped(NR_PLACES, ends), -EINVAL);
	assert_int_equal(closed(NR_PLACES - 1), -EBADF);
	assert_int_equal(piped(3, NULL), -EFAULT);
	assert_int_equal(piped(3, ends), 0);
	assert_int_equal(ends[0], 2);
	assert_int_equal(ends[1], 3);
	put_read(2, &byte, 2);
	submit(&client, 0);
	put_rw(&client, IORING_OP_WRITE, 3, "x", 1, -1, 1)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 2);
	assert_got_both(&client, 1, 1, 2, 1);
	assert_int_equal(byte, 'x');
	assert_int_equal(piped(IORING_FILE_INDEX_ALLOC, ends), 0);
	assert_int_equal(ends[0], 4);
	assert_int_equal(ends[1], 5);
}

/*
 * Put an end of a pipe into slot 0, with a tag, and submit a read from this slot.
 * Return: the pipe's other end.
 */
static int read_of_tagged_pipe(char *byte)
{
	uint64_t tag = 71;
	int ends[2];
	struct io_uring_rsrc_update2 update = { .data = (uintptr_t)ends,
						.tags = (uintptr_t)&tag,
						.nr = 1 };

	make_table(NR_PLACES);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(
		reg(IORING_REGISTER_FILES_UPDATE2, &update, sizeof(update)), 1);
	unit_close(ends[0]);
	put_read(0, byte, 2);
	submit(&client, 0);
	return ends[1];
}

static void a_file_stays_open_until_nothing_uses_it(void **state)
{
	char byte;
	int end = read_of_tagged_pipe(&byte);

	(void)state;
	assert_int_equal(opened("/dev/zero", 0), 0);
	assert_int_equal(read_at(0), 1);
	assert_none(&client);
	assert_int_equal(write(end, "x", 1), 1);
	assert_got(&client, 2, 1);
	assert_got(&client, 71, 0);
	assert_int_equal(byte, 'x');
	unit_close(end);
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), 0);
	end = read_of_tagged_pipe(&byte);
	assert_int_equal(closed(0), 0);
	assert_int_equal(read_at(0), -EBADF);
	assert_none(&client);
	unit_close(end);
	/*
	 * The read waits until the other end is closed, and only then the tag is
	 * posted.
	 */
	assert_got(&client, 2, 0);
	assert_got(&client, 71, 0);
}

/*
 * A worker opens a FIFO, which blocks until another thread opens the FIFO's other end
 */

static char fifo[64];
/* atomic: a worker opens the FIFO, or is about to */
static uint32_t is_opening;

static bool note_open(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_openat)
		store_relaxed(&is_opening, 1);
	return false;
}

static bool is_being_opened(void *arg)
{
	(void)arg;
	return load_relaxed(&is_opening);
}

static void make_fifo(void)
{
	snprintf(fifo, sizeof(fifo), "/tmp/uaio-direct-%d", (int)getpid());
	(void)unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	store_relaxed(&is_opening, 0);
	unit_hook(note_open);
	put_open(fifo, O_RDONLY, 1, 5)->flags = IOSQE_ASYNC;
	submit(&client, 0);
	unit_await(is_being_opened, NULL);
	unit_hook(NULL);
}

static void open_other_end(void)
{
	int fd = open(fifo, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(fifo), 0);
}

static void a_table_may_go_while_its_file_is_being_opened(void **state)
{
	(void)state;
	make_table(NR_PLACES);
	make_fifo();
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), 0);
	open_other_end();
	assert_got(&client, 5, -ENXIO);
	/*
	 * Another, smaller table of files may replace the first while the worker opens.
	 */
	make_table(NR_PLACES);
	make_fifo();
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), 0);
	make_table(1);
	open_other_end();
	assert_got(&client, 5, -EINVAL);
}

/*
 * A ring is closed while a worker opens a file for its table. The file must not stay
 * open, and the ring is freed afterwards.
 */
static void a_ring_may_go_while_its_file_is_being_opened(void **state)
{
	(void)state;
	make_table(NR_PLACES);
	make_fifo();
	client_close(&client);
	/* If the file stays open, the test's teardown reports it. */
	open_other_end();
	unit_await(rings_are_freed, NULL);
	client_open(&client, RING_ENTRIES, (struct io_uring_params){ 0 });
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(what_is_opened_has_a_place_and_no_number),
		RING_TEST(a_worker_or_a_chain_opens_as_well),
		RING_TEST(free_places_are_chosen_as_the_kernel_does),
		RING_TEST(a_request_updates_the_table),
		RING_TEST(a_file_of_the_table_gets_a_number),
		RING_TEST(a_pipe_has_two_places),
		RING_TEST(a_file_stays_open_until_nothing_uses_it),
		RING_TEST(a_table_may_go_while_its_file_is_being_opened),
		RING_TEST(a_ring_may_go_while_its_file_is_being_opened),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

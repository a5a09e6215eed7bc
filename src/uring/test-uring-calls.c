/* SPDX-License-Identifier: MIT */
/* System calls about files, paths and descriptors, as operations of a ring. */
#undef NDEBUG
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "test-uring.h"

static struct uring client;
static char folder[] = "test-uring-calls-XXXXXX";
static int dir;

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret < 0)
		return ret;
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	if (!mkdtemp(folder))
		return -1;
	dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	client_open(&client, 16, (struct io_uring_params){ 0 });
	return dir < 0;
}

static int stop(void **state)
{
	client_close(&client);
	unit_close(dir);
	if (rmdir(folder) < 0)
		return -1;
	return unit_teardown(state);
}

#define RING_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static int32_t opened(const char *name, int flags)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, IORING_OP_OPENAT, dir, name, 0600, 0, 1);

	sqe->open_flags = (uint32_t)(flags | O_CLOEXEC);
	return made(&client);
}

static int32_t unlinked(const char *name, int flags)
{
	put_rw(&client, IORING_OP_UNLINKAT, dir, name, 0, 0, 1)->unlink_flags =
		(uint32_t)flags;
	return made(&client);
}

static int32_t two_paths(uint8_t opcode, const char *from, const char *to,
			 uint32_t len)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, opcode, dir, from, len, 0, 1);

	sqe->addr2 = (uintptr_t)to;
	return made(&client);
}

static void files_are_opened_and_closed(void **state)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC };
	struct io_uring_sqe *sqe;
	int32_t fd = opened("a", O_CREAT | O_RDWR), other;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(opened("b", O_RDONLY), -ENOENT);
	assert_int_equal(opened(NULL, O_RDONLY), -EFAULT);
	sqe = put_rw(&client, IORING_OP_OPENAT2, dir, "a", sizeof(how), 0, 1);
	sqe->addr2 = (uintptr_t)&how;
	other = made(&client);
	assert_true(other >= 0);
	sqe = put_rw(&client, IORING_OP_OPENAT2, dir, "a", 8, 0, 1);
	sqe->addr2 = (uintptr_t)&how;
	assert_int_equal(made(&client), -EINVAL);
	sqe = put_rw(&client, IORING_OP_OPENAT2, dir, "a", sizeof(how), 0, 1);
	sqe->addr2 = (uintptr_t)&how;
	sqe->file_index = 1;
	assert_int_equal(made(&client), -EINVAL);
	how.flags = O_RDONLY;
	sqe = put_rw(&client, IORING_OP_OPENAT2, dir, "a", sizeof(how), 0, 1);
	sqe->addr2 = (uintptr_t)&how;
	sqe->file_index = 1;
	assert_int_equal(made(&client), -ENXIO);
	put_rw(&client, IORING_OP_OPENAT, dir, "a", 0, 0, 1)->file_index =
		IORING_FILE_INDEX_ALLOC;
	assert_int_equal(made(&client), -ENFILE);
	put(&client, IORING_OP_CLOSE, other, 1);
	assert_int_equal(made(&client), 0);
	put(&client, IORING_OP_CLOSE, other, 1);
	assert_int_equal(made(&client), -EBADF);
	put(&client, IORING_OP_CLOSE, client.fd, 1);
	assert_int_equal(made(&client), -EBADF);
	put(&client, IORING_OP_CLOSE, fd, 1)->len = 1;
	assert_int_equal(made(&client), -EINVAL);
	put(&client, IORING_OP_CLOSE, fd, 1);
	assert_int_equal(made(&client), 0);
	assert_int_equal(unlinked("a", 0), 0);
}

static void paths_are_made_moved_and_removed(void **state)
{
	struct statx st;
	struct io_uring_sqe *sqe;

	(void)state;
	put_rw(&client, IORING_OP_MKDIRAT, dir, "d", 0700, 0, 1);
	assert_int_equal(made(&client), 0);
	put_rw(&client, IORING_OP_MKDIRAT, dir, "d", 0700, 0, 1);
	assert_int_equal(made(&client), -EEXIST);
	assert_int_equal(two_paths(IORING_OP_SYMLINKAT, "target", "s", 0), 0);
	assert_int_equal(two_paths(IORING_OP_RENAMEAT, "d", "e", (uint32_t)dir),
			 0);
	assert_int_equal(two_paths(IORING_OP_RENAMEAT, "d", "e", (uint32_t)dir),
			 -ENOENT);
	assert_int_equal(two_paths(IORING_OP_LINKAT, "s", "t", (uint32_t)dir),
			 0);
	sqe = put_rw(&client, IORING_OP_STATX, dir, "e", STATX_BASIC_STATS, 0,
		     1);
	sqe->addr2 = (uintptr_t)&st;
	assert_int_equal(made(&client), 0);
	assert_true(S_ISDIR(st.stx_mode));
	assert_int_equal(unlinked("e", 0), -EISDIR);
	assert_int_equal(unlinked("e", AT_REMOVEDIR), 0);
	assert_int_equal(unlinked("s", 1), -EINVAL);
	assert_int_equal(unlinked("s", 0), 0);
	assert_int_equal(unlinked("t", 0), 0);
	put_rw(&client, IORING_OP_MKDIRAT, 0, "d", 0700, 0, 1)->flags =
		IOSQE_FIXED_FILE;
	assert_int_equal(made(&client), -EBADF);
}

/* As in the kernel, an unmapped address makes only its own request fail. */
static void addresses_where_nothing_is_fail_the_request(void **state)
{
	const size_t bytes = 4096;
	char *nowhere = mmap(NULL, bytes, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		uint8_t opcode;
		uint32_t len;
		const char *addr;
		const char *addr2;
		const char *addr3;
	} wrongs[] = {
		{ .opcode = IORING_OP_OPENAT, .addr = nowhere },
		{ IORING_OP_OPENAT2, 24, nowhere, folder, NULL },
		{ IORING_OP_OPENAT2, 24, "a", nowhere, NULL },
		{ .opcode = IORING_OP_STATX, .addr = nowhere, .addr2 = folder },
		{ .opcode = IORING_OP_STATX, .addr = ".", .addr2 = nowhere },
		{ .opcode = IORING_OP_RENAMEAT, .addr = nowhere, .addr2 = "a" },
		{ .opcode = IORING_OP_RENAMEAT, .addr = "a", .addr2 = nowhere },
		{ .opcode = IORING_OP_SYMLINKAT,
		  .addr = "a",
		  .addr2 = nowhere },
		{ .opcode = IORING_OP_LINKAT, .addr = "a", .addr2 = nowhere },
		{ .opcode = IORING_OP_UNLINKAT, .addr = nowhere },
		{ .opcode = IORING_OP_MKDIRAT, .addr = nowhere },
		{ IORING_OP_FGETXATTR, 0, nowhere, NULL, NULL },
		{ IORING_OP_FSETXATTR, 1, "user.a", nowhere, NULL },
		{ IORING_OP_GETXATTR, 0, "user.a", NULL, nowhere },
		{ IORING_OP_SETXATTR, 1, "user.a", nowhere, folder },
		{ IORING_OP_SETXATTR, 1, nowhere, "v", folder },
		{ IORING_OP_READV, 1, nowhere, NULL, NULL },
		{ IORING_OP_WRITEV, 1, nowhere, NULL, NULL },
		{ IORING_OP_READ, 1, nowhere, NULL, NULL },
		{ IORING_OP_WRITE, 1, nowhere, NULL, NULL },
		{ IORING_OP_TIMEOUT, 1, nowhere, NULL, NULL },
		{ IORING_OP_EPOLL_CTL, EPOLL_CTL_ADD, nowhere, NULL, NULL },
	};

	(void)state;
	assert_ptr_not_equal(nowhere, MAP_FAILED);
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		int fd = unit_file(false);
		struct io_uring_sqe *sqe =
			put_rw(&client, wrongs[i].opcode, fd, wrongs[i].addr,
			       wrongs[i].len, (intptr_t)wrongs[i].addr2, 1);

		if (wrongs[i].opcode == IORING_OP_OPENAT2 ||
		    wrongs[i].opcode == IORING_OP_STATX)
			sqe->fd = dir;
		if (wrongs[i].opcode == IORING_OP_READ)
			assert_int_equal(write(fd, "a", 1), 1);
		sqe->addr3 = (uintptr_t)wrongs[i].addr3;
		assert_int_equal(made(&client), -EFAULT);
		unit_close(fd);
	}
	assert_int_equal(munmap(nowhere, bytes), 0);
}

/*
 * A ring's descriptor refers to a memfd, but the library refuses operations on it, with
 * the kernel's errors.
 */
static void nothing_is_done_to_a_ring(void **state)
{
	static const struct {
		uint8_t opcode;
		int32_t res;
	} answers[] = {
		{ IORING_OP_READ, -EINVAL },
		{ IORING_OP_WRITE, -EINVAL },
		{ IORING_OP_FSYNC, -EINVAL },
		{ IORING_OP_FALLOCATE, -ENODEV },
		{ IORING_OP_SYNC_FILE_RANGE, -ESPIPE },
		{ IORING_OP_FTRUNCATE, -EINVAL },
		{ IORING_OP_SPLICE, -EINVAL },
	};
	static char memory[8];
	int rings[2] = { client.fd, dup(client.fd) }, ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	for (size_t i = 0; i < 2 * sizeof(answers) / sizeof(answers[0]); i++) {
		uint8_t opcode = answers[i / 2].opcode;
		bool is_rw =
			opcode == IORING_OP_READ || opcode == IORING_OP_WRITE;
		struct io_uring_sqe *sqe =
			put(&client, opcode, rings[i % 2], 1);

		if (opcode == IORING_OP_FALLOCATE)
			sqe->addr = 1;
		if (is_rw)
			sqe->addr = (uintptr_t)memory;
		if (is_rw || opcode == IORING_OP_SPLICE)
			sqe->len = 1;
		if (opcode == IORING_OP_SPLICE) {
			sqe->splice_fd_in = ends[0];
			sqe->splice_off_in = sqe->off = ~0ull;
		}
		assert_int_equal(made(&client), answers[i / 2].res);
	}
	put_rw(&client, IORING_OP_FSETXATTR, client.fd, "user.a", 1, 0, 1)
		->addr2 = (uintptr_t) "v";
	assert_int_equal(made(&client), -EPERM);
	/*
	 * The refused write breaks its chain, and its completion comes in order. The
	 * call accepts the submissions after the write.
	 */
	put(&client, IORING_OP_NOP, -1, 2)->flags = IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_WRITE, client.fd, memory, 1, 0, 3)->flags =
		IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 4);
	submit(&client, 3);
	assert_got(&client, 2, 0);
	assert_got(&client, 3, -EINVAL);
	assert_got(&client, 4, -ECANCELED);
	for (int i = 0; i < 2; i++)
		unit_close(ends[i]);
	unit_close(rings[1]);
}

static void files_are_allocated_cut_and_advised(void **state)
{
	int fd = unit_file(false);
	struct stat st;

	(void)state;
	put_rw(&client, IORING_OP_FALLOCATE, fd, (void *)8192, 0, 0, 1);
	assert_int_equal(made(&client), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8192);
	put_rw(&client, IORING_OP_FTRUNCATE, fd, NULL, 0, 100, 1);
	assert_int_equal(made(&client), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 100);
	put(&client, IORING_OP_FADVISE, fd, 1)->fadvise_advice =
		POSIX_FADV_SEQUENTIAL;
	assert_int_equal(made(&client), 0);
	put(&client, IORING_OP_FADVISE, fd, 1)->fadvise_advice = 99;
	assert_int_equal(made(&client), -EINVAL);
	put_rw(&client, IORING_OP_SYNC_FILE_RANGE, fd, NULL, 100, 0, 1)
		->sync_range_flags = SYNC_FILE_RANGE_WRITE;
	assert_int_equal(made(&client), 0);
	put(&client, IORING_OP_FALLOCATE, fd, 1)->rw_flags = 1;
	assert_int_equal(made(&client), -EINVAL);
	unit_close(fd);
}

static void data_are_spliced(void **state)
{
	int a[2], b[2], fds[2];
	struct io_uring_sqe *sqe;
	char in[4] = { 0 };

	(void)state;
	assert_int_equal(pipe2(a, O_CLOEXEC) | pipe2(b, O_CLOEXEC), 0);
	assert_int_equal(write(a[1], "abc", 3), 3);
	sqe = put_rw(&client, IORING_OP_TEE, b[1], NULL, 2, 0, 1);
	sqe->splice_fd_in = a[0];
	assert_int_equal(made(&client), 2);
	fds[0] = a[0];
	fds[1] = b[1];
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES, fds, 2),
			 0);
	sqe = put_rw(&client, IORING_OP_SPLICE, 1, NULL, 2, -1, 1);
	sqe->splice_off_in = ~0ull;
	sqe->splice_fd_in = 0;
	sqe->splice_flags = SPLICE_F_FD_IN_FIXED;
	sqe->flags = IOSQE_FIXED_FILE;
	assert_int_equal(made(&client), 2);
	assert_int_equal(read(b[0], in, 4), 4);
	assert_memory_equal(in, "abab", 4);
	sqe = put_rw(&client, IORING_OP_SPLICE, 9, NULL, 2, -1, 1);
	sqe->splice_off_in = ~0ull;
	sqe->flags = IOSQE_FIXED_FILE;
	assert_int_equal(made(&client), -EBADF);
	for (int i = 0; i < 2; i++) {
		unit_close(a[i]);
		unit_close(b[i]);
	}
}

/*
 * A splice on a worker waits for data. Its files are unregistered meanwhile, but stay
 * open until the splice completes.
 */
static void files_that_are_spliced_are_in_use(void **state)
{
	uint64_t tags[2] = { 71, 72 };
	int a[2], b[2], fds[2];
	const struct io_uring_rsrc_register what = {
		.nr = 2,
		.data = (uintptr_t)fds,
		.tags = (uintptr_t)tags,
	};
	struct io_uring_sqe *sqe;

	(void)state;
	assert_int_equal(pipe2(a, O_CLOEXEC) | pipe2(b, O_CLOEXEC), 0);
	fds[0] = a[0];
	fds[1] = b[1];
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_FILES2,
					     (void *)&what, sizeof(what)),
			 0);
	sqe = put_rw(&client, IORING_OP_SPLICE, 1, NULL, 2, -1, 1);
	sqe->splice_off_in = ~0ull;
	sqe->splice_fd_in = 0;
	sqe->splice_flags = SPLICE_F_FD_IN_FIXED;
	sqe->flags = IOSQE_FIXED_FILE;
	submit(&client, 0);
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_UNREGISTER_FILES, NULL, 0),
			 0);
	assert_none(&client);
	assert_int_equal(write(a[1], "ab", 2), 2);
	assert_got(&client, 1, 2);
	assert_got_both(&client, 71, 0, 72, 0);
	for (int i = 0; i < 2; i++) {
		unit_close(a[i]);
		unit_close(b[i]);
	}
}

static void an_epoll_is_told_of_a_file(void **state)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), ends[2];
	struct epoll_event event = { .events = EPOLLOUT, .data.u64 = 5 };
	struct io_uring_sqe *sqe;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	sqe = put_rw(&client, IORING_OP_EPOLL_CTL, ep, &event, EPOLL_CTL_ADD,
		     ends[1], 1);
	assert_int_equal(made(&client), 0);
	assert_int_equal(epoll_wait(ep, &event, 1, 0), 1);
	assert_int_equal(event.data.u64, 5);
	sqe = put_rw(&client, IORING_OP_EPOLL_CTL, ep, &event, EPOLL_CTL_ADD,
		     ends[1], 1);
	assert_int_equal(made(&client), -EEXIST);
	(void)sqe;
	unit_close(ep);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void calls_are_linked(void **state)
{
	struct io_uring_sqe *sqe;

	(void)state;
	put_rw(&client, IORING_OP_MKDIRAT, dir, "d", 0700, 0, 1)->flags =
		IOSQE_IO_LINK;
	sqe = put_rw(&client, IORING_OP_RENAMEAT, dir, "d", (uint32_t)dir, 0,
		     2);
	sqe->addr2 = (uintptr_t) "e";
	sqe->flags = IOSQE_IO_LINK;
	put_rw(&client, IORING_OP_UNLINKAT, dir, "e", 0, 0, 3)->unlink_flags =
		AT_REMOVEDIR;
	submit(&client, 3);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, 0);
	assert_got(&client, 3, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(files_are_opened_and_closed),
		RING_TEST(paths_are_made_moved_and_removed),
		RING_TEST(addresses_where_nothing_is_fail_the_request),
		RING_TEST(nothing_is_done_to_a_ring),
		RING_TEST(files_are_allocated_cut_and_advised),
		RING_TEST(data_are_spliced),
		RING_TEST(files_that_are_spliced_are_in_use),
		RING_TEST(an_epoll_is_told_of_a_file),
		RING_TEST(calls_are_linked),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

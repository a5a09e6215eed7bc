/* SPDX-License-Identifier: MIT */
/*
 * Tests of operations other than reads and writes, submitted through the tests' own
 * front-end (the "door")
 *
 * The tests execute each operation in three ways: during submission if possible, by a
 * worker, and in a chain behind a request that waits. src/op/test-call.c tests the
 * results of the operations.
 */
#undef NDEBUG
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "op/args.h"
#include "client.h"

static struct uaio_sqe on_file(enum uaio_op op, int fd, int64_t off,
			       uint64_t len)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = fd,
		.off = off,
		.len = len,
	};
}

static struct uaio_sqe with(enum uaio_op op, int fd, struct uaio_args *args)
{
	return (struct uaio_sqe){ .op = (uint8_t)op, .fd = fd, .args = args };
}

static struct uaio_sqe on_path(enum uaio_op op, const char *path)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = AT_FDCWD,
		.path = path,
		.len = strlen(path) + 1,
	};
}

static void put_core(struct uaio_sqe *sqe, uint32_t options, uint64_t tag)
{
	put_tagged((struct door_sqe){ .what = DOOR_CORE,
				      .memory = sqe,
				      .options = options },
		   tag);
}

enum how { AT_ONCE, BY_WORKER, IN_CHAIN, NR_HOWS };

/*
 * The chain's first request reads an empty pipe, so it waits until the whole chain has
 * been submitted.
 */
static int32_t make_in_chain(struct uaio_sqe *sqe)
{
	struct door_sqe first;
	struct door_cqe cqe;
	char byte;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	first = rw(DOOR_READ, ends[0], &byte, 1, 0);
	first.options = DOOR_LINK;
	put_tagged(first, 1);
	put_core(sqe, DOOR_LINK_HARD, 2);
	put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 3);
	assert_int_equal(enter(0), 3);
	memset(sqe, 0xff, sizeof(*sqe));
	assert_int_equal(nr_unread(), 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(1, 1);
	while (!nr_unread())
		assert_int_equal(enter(1), 0);
	cqe = get();
	assert_int_equal(cqe.tag, 2);
	await_got(3, 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
	return cqe.res;
}

/* Return: the result. */
static int32_t make(struct uaio_sqe sqe, enum how how)
{
	struct door_cqe cqe;

	if (how == IN_CHAIN)
		return make_in_chain(&sqe);
	put_core(&sqe, how == BY_WORKER ? DOOR_ASYNC : 0, 7);
	assert_int_equal(enter(0), 1);
	while (!nr_unread())
		assert_int_equal(enter(1), 0);
	cqe = get();
	assert_int_equal(cqe.tag, 7);
	return cqe.res;
}

static int64_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static void calls_on_an_open_file(enum how how)
{
	int fd = unit_file(false);
	char got[8];
	struct uaio_args args = { .name = "user.a",
				  .in = "value",
				  .out = got,
				  .in_bytes = 5,
				  .out_bytes = sizeof(got) };

	assert_int_equal(make(on_file(UAIO_OP_FALLOCATE, fd, 0, 100), how), 0);
	assert_int_equal(size_of(fd), 100);
	assert_int_equal(make(on_file(UAIO_OP_FTRUNCATE, fd, 10, 0), how), 0);
	assert_int_equal(size_of(fd), 10);
	assert_int_equal(make(on_file(UAIO_OP_SYNC_FILE_RANGE, fd, 0, 9), how),
			 0);
	assert_int_equal(make(on_file(UAIO_OP_FADVISE, fd, 0, 9), how), 0);
	assert_int_equal(make(with(UAIO_OP_FSETXATTR, fd, &args), how), 0);
	args.in_bytes = 0;
	assert_int_equal(make(with(UAIO_OP_FGETXATTR, fd, &args), how), 5);
	assert_memory_equal(got, "value", 5);
	assert_int_equal(make(on_file(UAIO_OP_FALLOCATE, 999, 0, 1), how),
			 -EBADF);
	unit_close(fd);
}

static void calls_on_paths(enum how how)
{
	char folder[] = "./uaio-calls-XXXXXX", path[3][64];
	struct open_how open_how = { .flags = O_RDWR | O_CREAT | O_CLOEXEC,
				     .mode = 0600 };
	struct statx st = { 0 };
	struct uaio_args args = { .path = path[0],
				  .name = path[1],
				  .out = &st,
				  .fd = AT_FDCWD,
				  .what = STATX_SIZE };
	struct uaio_args attribute = {
		.path = path[0], .name = "user.a", .in = "v", .in_bytes = 1
	};
	struct uaio_sqe sqe;
	int fd;

	assert_non_null(mkdtemp(folder));
	for (unsigned i = 0; i < 3; i++) {
		strcpy(path[i], folder);
		strcat(path[i], i == 0 ? "/a" : i == 1 ? "/b" : "/c");
	}
	args.in = &open_how;
	args.in_bytes = sizeof(open_how);
	fd = make(with(UAIO_OP_OPENAT2, AT_FDCWD, &args), how);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 77), 0);
	args.in_bytes = 0;
	assert_int_equal(make(with(UAIO_OP_STATX, AT_FDCWD, &args), how), 0);
	assert_int_equal(st.stx_size, 77);
	assert_int_equal(make(with(UAIO_OP_SETXATTR, 0, &attribute), how), 0);
	attribute.in_bytes = 0;
	assert_int_equal(make(with(UAIO_OP_GETXATTR, 0, &attribute), how), 1);
	assert_int_equal(make(with(UAIO_OP_LINKAT, AT_FDCWD, &args), how), 0);
	args.path = path[1];
	args.name = path[2];
	assert_int_equal(make(with(UAIO_OP_RENAMEAT, AT_FDCWD, &args), how), 0);
	args.name = path[1];
	assert_int_equal(make(with(UAIO_OP_SYMLINKAT, 0, &args), how), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(make(on_path(UAIO_OP_UNLINKAT, path[i]), how),
				 0);
	sqe = on_path(UAIO_OP_MKDIRAT, path[0]);
	sqe.mode = 0700;
	assert_int_equal(make(sqe, how), 0);
	sqe = on_path(UAIO_OP_UNLINKAT, path[0]);
	sqe.call_flags = AT_REMOVEDIR;
	assert_int_equal(make(sqe, how), 0);
	assert_int_equal(make(sqe, how), -ENOENT);
	assert_int_equal(make(on_file(UAIO_OP_CLOSE, fd, 0, 0), how), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(rmdir(folder), 0);
}

static void other_calls(enum how how)
{
	char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct epoll_event event = { .events = EPOLLIN };
	int in[2], out[2], epoll = epoll_create1(EPOLL_CLOEXEC);
	struct uaio_args args = { .in = &event, .what = EPOLL_CTL_ADD };
	struct uaio_sqe sqe = { .op = UAIO_OP_MADVISE,
				.buf = memory,
				.len = 4096,
				.call_flags = MADV_DONTNEED };
	char got[4];

	assert_true(memory != MAP_FAILED);
	*memory = 1;
	assert_int_equal(make(sqe, how), 0);
	assert_int_equal(*memory, 0);
	assert_int_equal(munmap(memory, 4096), 0);

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(write(in[1], "abc", 3), 3);
	args.fd = in[0];
	assert_int_equal(make(with(UAIO_OP_EPOLL_CTL, epoll, &args), how), 0);
	assert_int_equal(epoll_wait(epoll, &event, 1, 0), 1);
	args = (struct uaio_args){ .fd = in[0], .off = UAIO_OFF_POSITION };
	sqe = with(UAIO_OP_TEE, out[1], &args);
	sqe.len = 1;
	assert_int_equal(make(sqe, how), 1);
	sqe.op = UAIO_OP_SPLICE;
	sqe.off = UAIO_OFF_POSITION;
	sqe.len = 3;
	assert_int_equal(make(sqe, how), 3);
	assert_int_equal(read(out[0], got, 4), 4);
	assert_memory_equal(got, "aabc", 4);
	unit_close(epoll);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(in[i]);
		unit_close(out[i]);
	}
}

static void a_call_may_be_executed_at_once(void **state)
{
	(void)state;
	calls_on_an_open_file(AT_ONCE);
	calls_on_paths(AT_ONCE);
	other_calls(AT_ONCE);
}

static void a_call_may_be_executed_by_a_worker(void **state)
{
	(void)state;
	calls_on_an_open_file(BY_WORKER);
	calls_on_paths(BY_WORKER);
	other_calls(BY_WORKER);
}

static void a_call_may_wait_in_a_chain(void **state)
{
	(void)state;
	calls_on_an_open_file(IN_CHAIN);
	calls_on_paths(IN_CHAIN);
	other_calls(IN_CHAIN);
}

/*
 * An operation's result must break its chain if and only if it does so in io_uring.
 */
static void what_breaks_a_chain_depends_on_the_call(void **state)
{
	int fd = unit_file(false), pipe_ends[2], out[2];
	struct statx st;
	struct uaio_args none = {
		.path = "none", .name = "other", .out = &st, .fd = AT_FDCWD
	};
	struct uaio_args attribute = { .path = "none", .name = "user.none" };
	struct uaio_args ends = { .off = UAIO_OFF_POSITION };
	struct uaio_args epoll = { .what = EPOLL_CTL_DEL, .fd = fd };
	struct open_how how = { .flags = O_RDONLY };
	struct uaio_args opened = { .path = "none",
				    .in = &how,
				    .in_bytes = sizeof(how) };
	struct {
		struct uaio_sqe sqe;
		int32_t res;
		bool breaks;
	} rows[] = {
		{ on_file(UAIO_OP_FALLOCATE, fd, 0, 0), -EINVAL, false },
		{ on_file(UAIO_OP_FALLOCATE, 999, 0, 1), -EBADF, true },
		{ on_file(UAIO_OP_FTRUNCATE, fd, -5, 0), -EINVAL, false },
		{ on_file(UAIO_OP_SYNC_FILE_RANGE, fd, -1, 0), -EINVAL, false },
		{ on_file(UAIO_OP_FADVISE, fd, 0, 0), -EINVAL, true },
		{ on_file(UAIO_OP_MADVISE, -1, 0, 0), -EINVAL, false },
		{ with(UAIO_OP_FGETXATTR, fd, &attribute), -ENODATA, false },
		{ with(UAIO_OP_GETXATTR, 0, &attribute), -ENOENT, false },
		{ with(UAIO_OP_SETXATTR, 0, &attribute), -ENOENT, false },
		{ with(UAIO_OP_STATX, AT_FDCWD, &none), -ENOENT, false },
		{ with(UAIO_OP_RENAMEAT, AT_FDCWD, &none), -ENOENT, false },
		{ with(UAIO_OP_LINKAT, AT_FDCWD, &none), -ENOENT, false },
		{ on_path(UAIO_OP_UNLINKAT, "none"), -ENOENT, false },
		{ on_path(UAIO_OP_MKDIRAT, "/"), -EEXIST, false },
		{ on_path(UAIO_OP_MKDIRAT, ""), -ENOENT, true },
		{ on_path(UAIO_OP_OPENAT, "none"), -ENOENT, true },
		{ with(UAIO_OP_OPENAT2, AT_FDCWD, &opened), -ENOENT, true },
		{ on_file(UAIO_OP_CLOSE, 999, 0, 0), -EBADF, true },
		{ with(UAIO_OP_EPOLL_CTL, 999, &epoll), -EBADF, true },
		/*
		 * These operations transfer only three of the four requested bytes.
		 * Such a short result breaks the chain.
		 */
		{ with(UAIO_OP_TEE, -1, &ends), 3, true },
		{ with(UAIO_OP_SPLICE, -1, &ends), 3, true },
	};

	(void)state;
	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(write(pipe_ends[1], "abc", 3), 3);
	ends.fd = pipe_ends[0];
	for (unsigned i = 0; i < NR_ELEMENTS(rows); i++) {
		struct uaio_sqe *sqe = &rows[i].sqe;

		if (sqe->op == UAIO_OP_FADVISE || sqe->op == UAIO_OP_MADVISE)
			sqe->call_flags = 77;
		if (uaio_optab[sqe->op].has_ends) {
			sqe->fd = out[1];
			sqe->len = 4;
			sqe->off = UAIO_OFF_POSITION;
		}
		put_core(sqe, DOOR_LINK, 1);
		put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 2);
		assert_int_equal(enter(0), 2);
		await_got(1, rows[i].res);
		await_got(2, rows[i].breaks ? -ECANCELED : 0);
	}
	unit_close(fd);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(pipe_ends[i]);
		unit_close(out[i]);
	}
}

/*
 * The write is left to a worker. The close, submitted with the write, must be executed
 * after the write.
 */
static void a_close_comes_after_what_was_submitted_with_it(void **state)
{
	int fd = unit_file(false), kept = dup(fd);
	struct uaio_sqe write_sqe = on_file(UAIO_OP_WRITE, fd, 0, 1),
			close_sqe = on_file(UAIO_OP_CLOSE, fd, 0, 0);
	char got = 0;

	(void)state;
	write_sqe.buf = "w";
	put_core(&write_sqe, DOOR_ASYNC, 1);
	put_core(&close_sqe, 0, 2);
	assert_int_equal(enter(2), 2);
	for (unsigned i = 0; i < 2; i++) {
		struct door_cqe cqe = get();

		assert_int_equal(cqe.res, cqe.tag == 1 ? 1 : 0);
	}
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(pread(kept, &got, 1, 0), 1);
	assert_int_equal(got, 'w');
	unit_close(kept);
}

/* The slot of the fixed file keeps the file open after its descriptor is closed. */
static void a_fixed_file_is_changed_after_its_descriptor(void **state)
{
	int fd = unit_file(false), kept = dup(fd);
	struct uaio_sqe sqe = on_file(UAIO_OP_FTRUNCATE, 0, 55, 0);

	(void)state;
	assert_int_equal(door_fix(door, 0, fd), 0);
	unit_close(fd);
	put_core(&sqe, DOOR_FIXED, 1);
	assert_int_equal(enter(1), 1);
	await_got(1, 0);
	assert_int_equal(size_of(kept), 55);
	assert_int_equal(door_unfix(door, 0), 0);
	unit_close(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DOOR_TEST(a_call_may_be_executed_at_once),
		DOOR_TEST(a_call_may_be_executed_by_a_worker),
		DOOR_TEST(a_call_may_wait_in_a_chain),
		DOOR_TEST(what_breaks_a_chain_depends_on_the_call),
		DOOR_TEST(a_close_comes_after_what_was_submitted_with_it),
		DOOR_TEST(a_fixed_file_is_changed_after_its_descriptor),
	};

	return cmocka_run_group_tests_name("calls", tests, unit_engine, NULL);
}

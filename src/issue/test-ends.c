/* SPDX-License-Identifier: MIT */
/*
 * Splices. The submitting thread makes the system call if neither file makes it wait;
 * otherwise a worker makes it.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "op/args.h"
#include "unit.h"

/*
 * A hook fakes the results of system calls on the file. A real disk might be busy with
 * other work, so the file is in memory. The hook reports its file system as ext4, so
 * that the library treats the file as one on a disk.
 */
enum { PAGE = 4096, NR_PAGES = 16, SIZE = PAGE * NR_PAGES };

static struct {
	int fd; /* atomic */
	/* atomic: the results that the hook fakes */
	/* the error that calls with RWF_NOWAIT return; 0: none */
	uint32_t nowait_error;
	/* 1 + the index of a page that is not cached; 0: all pages are cached */
	uint32_t cold_page;
	uint32_t slow_us; /* the least time that a splice takes, in us */
	/* atomic: how many reads with RWF_NOWAIT the library made */
	uint32_t nr_nowait;
	uint32_t nr_here; /* atomic: how many splices the test's thread made */
	uint32_t nr_elsewhere;
} file;

static int ends[2];
static uint64_t handle;
static int self;

/* Return: whether the read includes the page that the test declares not cached. */
static bool meets_cold_page(const long args[6])
{
	const struct iovec *iov = (const struct iovec *)args[1];
	int64_t cold = ((int64_t)load_relaxed(&file.cold_page) - 1) * PAGE;
	int64_t end = args[3];

	for (long i = 0; i < args[2]; i++)
		end += (int64_t)iov[i].iov_len;
	return cold >= 0 && args[3] < cold + PAGE && end > cold;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fstatfs) {
		*ret_res = unit_say_ext4(args);
		return true;
	}
	if (nr == SYS_splice || nr == SYS_tee) {
		add_relaxed(sys_gettid() == self ? &file.nr_here
						 : &file.nr_elsewhere,
			    1);
		if (load_relaxed(&file.slow_us))
			unit_take_time(load_relaxed(&file.slow_us), true);
		return false;
	}
	if (nr != SYS_preadv2 || (int)args[0] != load_relaxed(&file.fd) ||
	    !(args[5] & RWF_NOWAIT))
		return false;
	add_relaxed(&file.nr_nowait, 1);
	*ret_res = -(long)load_relaxed(&file.nowait_error);
	if (*ret_res)
		return true;
	*ret_res =
		meets_cold_page(args)
			? -EAGAIN
			: uaio_sys_raw(nr, args[0], args[1], args[2], args[3],
				       args[4], args[5] & ~RWF_NOWAIT);
	return true;
}

static void reset_counts(void)
{
	store_relaxed(&file.nr_nowait, 0);
	store_relaxed(&file.nr_here, 0);
	store_relaxed(&file.nr_elsewhere, 0);
}

static int start(void **state)
{
	static char bytes[SIZE];
	int ret = unit_setup(state);

	self = sys_gettid();
	store_relaxed(&file.nowait_error, 0);
	store_relaxed(&file.cold_page, 0);
	store_relaxed(&file.slow_us, 0);
	reset_counts();
	store_relaxed(&file.fd, unit_file(true));
	for (unsigned i = 0; i < SIZE; i++)
		bytes[i] = (char)(i / 100);
	if (pwrite(file.fd, bytes, SIZE, 0) != SIZE ||
	    pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	handle = unit_context(64);
	unit_hook(answer);
	return ret;
}

static int stop(void **state)
{
	unit_hook(NULL);
	uaio_config.never_block = false;
	unit_destroy(handle);
	unit_close(file.fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
	return unit_teardown(state);
}

#define ENDS_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static int64_t do_splice(int in, int64_t in_off, int out, int64_t out_off,
			 uint64_t len)
{
	struct uaio_args args = { .fd = in, .off = in_off };
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_SPLICE,
		.fd = out,
		.off = out_off,
		.len = len,
		.args = &args,
	};

	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	return unit_reap_one(handle);
}

static int64_t from_file(int64_t off, uint64_t len)
{
	return do_splice(file.fd, off, ends[1], UAIO_OFF_POSITION, len);
}

static int64_t to_file(int64_t off, uint64_t len)
{
	return do_splice(ends[0], UAIO_OFF_POSITION, file.fd, off, len);
}

/* Empty the pipe. */
static void empty(size_t bytes)
{
	char got[SIZE];

	assert_int_equal(read(ends[0], got, bytes), bytes);
}

static void assert_was_here(bool is_here)
{
	assert_int_equal(load_relaxed(&file.nr_here), is_here);
	assert_int_equal(load_relaxed(&file.nr_elsewhere) > 0, !is_here);
	reset_counts();
}

static void cached_pages_are_spliced_here(void **state)
{
	char got[PAGE], there[PAGE];

	(void)state;
	assert_int_equal(from_file(PAGE, PAGE), PAGE);
	assert_was_here(true);
	assert_int_equal(to_file(3 * PAGE, PAGE), PAGE);
	assert_was_here(true);
	assert_int_equal(pread(file.fd, got, PAGE, PAGE), PAGE);
	assert_int_equal(pread(file.fd, there, PAGE, 3 * PAGE), PAGE);
	assert_memory_equal(got, there, PAGE);
}

/* The pipe holds one page. So only the first page of the range must be cached. */
static void no_more_is_asked_for_than_the_pipe_takes(void **state)
{
	(void)state;
	assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, PAGE), PAGE);
	store_relaxed(&file.cold_page, 1 + 2);
	assert_int_equal(from_file(PAGE, SIZE - PAGE), PAGE);
	assert_was_here(true);
}

static void the_end_of_the_file_is_found_here(void **state)
{
	(void)state;
	assert_int_equal(from_file(SIZE - 100, PAGE), 100);
	assert_was_here(true);
	assert_int_equal(from_file(SIZE, PAGE), 0);
	assert_was_here(true);
}

static void the_position_moves_once(void **state)
{
	(void)state;
	assert_int_equal(lseek(file.fd, PAGE, SEEK_SET), PAGE);
	assert_int_equal(from_file(UAIO_OFF_POSITION, PAGE), PAGE);
	assert_was_here(true);
	assert_int_equal(lseek(file.fd, 0, SEEK_CUR), 2 * PAGE);
	assert_int_equal(to_file(UAIO_OFF_POSITION, PAGE), PAGE);
	assert_was_here(true);
	assert_int_equal(lseek(file.fd, 0, SEEK_CUR), 3 * PAGE);
	/* If the page at the file position is not cached, a worker makes the call. */
	store_relaxed(&file.cold_page, 1 + 3);
	assert_int_equal(from_file(UAIO_OFF_POSITION, PAGE), PAGE);
	assert_was_here(false);
	assert_int_equal(lseek(file.fd, 0, SEEK_CUR), 4 * PAGE);
}

static void a_page_that_is_not_cached_is_spliced_by_a_worker(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_PAGES; i += 5) {
		store_relaxed(&file.cold_page, 1 + i);
		assert_int_equal(from_file(0, SIZE), SIZE);
		assert_was_here(false);
		empty(SIZE);
	}
}

static void a_file_that_refuses_nowait_is_asked_once(void **state)
{
	(void)state;
	store_relaxed(&file.nowait_error, EOPNOTSUPP);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(from_file(0, PAGE), PAGE);
		assert_int_equal(load_relaxed(&file.nr_nowait), i == 0);
		assert_was_here(false);
	}
}

/*
 * Splice until the library no longer queries the page cache. If the thread is preempted
 * meanwhile, more splices are needed.
 */
static void become_trusted(void)
{
	do {
		reset_counts();
		assert_int_equal(from_file(0, PAGE), PAGE);
		assert_int_equal(load_relaxed(&file.nr_here), 1);
		empty(PAGE);
	} while (load_relaxed(&file.nr_nowait));
	reset_counts();
}

static void a_file_whose_pages_are_always_there_is_not_asked(void **state)
{
	bool was_trusted;

	(void)state;
	assert_int_equal(from_file(0, PAGE), PAGE);
	assert_true(load_relaxed(&file.nr_nowait));
	/*
	 * After one slow splice, the library queries the page cache again. The slow splice
	 * itself must be made without a query. If the library made a query for the slow
	 * splice, an earlier splice was slow by chance: repeat.
	 */
	do {
		become_trusted();
		store_relaxed(&file.slow_us, 300);
		assert_int_equal(from_file(0, PAGE), PAGE);
		store_relaxed(&file.slow_us, 0);
		was_trusted = !load_relaxed(&file.nr_nowait);
		reset_counts();
	} while (!was_trusted);
	assert_int_equal(from_file(0, PAGE), PAGE);
	assert_true(load_relaxed(&file.nr_nowait));
}

static void never_block_always_asks(void **state)
{
	(void)state;
	uaio_config.never_block = true;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(from_file(0, PAGE), PAGE);
		empty(PAGE);
	}
	assert_true(load_relaxed(&file.nr_nowait) >= 100);
	assert_int_equal(load_relaxed(&file.nr_here), 100);
}

/*
 * A write by a worker may hold the inode's lock, so a splice of the file goes to a worker,
 * too.
 */
static void a_file_with_a_write_at_a_worker_is_left_to_workers(void **state)
{
	char byte = 'x';
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITE,
		.fd = file.fd,
		.is_async = true,
		.buf = &byte,
		.len = 1,
		.data = 1,
	};
	struct io_event event;

	(void)state;
	assert_int_equal(from_file(0, 2 * PAGE), 2 * PAGE);
	assert_was_here(true);
	unit_gate_close(file.fd);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	unit_gate_await(1);
	assert_int_equal(to_file(PAGE, PAGE), PAGE);
	assert_was_here(false);
	assert_int_equal(from_file(PAGE, PAGE), PAGE);
	assert_was_here(false);
	unit_gate_open();
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, 1);
	assert_int_equal(to_file(PAGE, PAGE), PAGE);
	assert_was_here(true);
}

static void a_write_that_waits_for_the_disk_goes_to_a_worker(void **state)
{
	char path[32];
	int fd;

	(void)state;
	assert_int_equal(from_file(0, PAGE), PAGE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file.fd);
	fd = open(path, O_WRONLY | O_DSYNC | O_CLOEXEC);
	assert_true(fd >= 0);
	reset_counts();
	assert_int_equal(do_splice(ends[0], UAIO_OFF_POSITION, fd, 0, PAGE),
			 PAGE);
	assert_was_here(false);
	unit_close(fd);
}

/* If a pipe is not ready, only a worker makes calls that take the pipe's mutex. */
static void a_worker_waits_for_a_pipe(void **state)
{
	struct uaio_args args = { .fd = ends[0], .off = UAIO_OFF_POSITION };
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_SPLICE,
		.fd = file.fd,
		.len = 1,
		.args = &args,
	};

	(void)state;
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	unit_assert_no_more(handle);
	assert_int_equal(write(ends[1], "a", 1), 1);
	assert_int_equal(unit_reap_one(handle), 1);
	assert_int_equal(load_relaxed(&file.nr_here), 0);
	assert_true(load_relaxed(&file.nr_elsewhere));
}

/*
 * A splice raises no signal in the program, whether the submitting thread or a worker
 * makes the call.
 */
static void no_signal_is_sent(void **state)
{
	const struct rlimit small = { .rlim_cur = PAGE,
				      .rlim_max = RLIM_INFINITY };
	struct rlimit old;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(from_file(0, PAGE), PAGE);
	reset_counts();
	/* Raised signals (SIGXFSZ, SIGPIPE) would end the test. */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(to_file(PAGE, PAGE), -EFBIG);
	assert_int_equal(load_relaxed(&file.nr_here), 1);
	/*
	 * The call raises no signal even if the file size limit lies inside the range to be
	 * moved.
	 */
	assert_int_equal(from_file(0, PAGE), PAGE);
	reset_counts();
	assert_int_equal(to_file(PAGE / 2, 2 * PAGE), PAGE / 2);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(load_relaxed(&file.nr_here), 1);
	empty(PAGE + PAGE / 2);
	unit_close(ends[0]);
	reset_counts();
	assert_int_equal(from_file(0, PAGE), -EPIPE);
	assert_int_equal(load_relaxed(&file.nr_here), 1);
	unit_close(ends[1]);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

/*
 * By a call that the library does not see, the test makes the descriptor refer to a
 * socket. A splice may wait on a socket, so a worker must make the system call.
 */
static void a_number_that_is_another_files_is_a_workers(void **state)
{
	const char text[PAGE] = { 1 };
	int sockets[2], fd = load_relaxed(&file.fd), kept;

	(void)state;
	assert_int_equal(from_file(UAIO_OFF_POSITION, PAGE), PAGE);
	assert_int_equal(load_relaxed(&file.nr_here), 1);
	empty(PAGE);
	kept = dup(fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	assert_int_equal(write(sockets[1], text, PAGE), PAGE);
	assert_int_equal(
		uaio_sys_raw(SYS_dup3, sockets[0], fd, O_CLOEXEC, 0, 0, 0), fd);
	reset_counts();
	assert_int_equal(from_file(UAIO_OFF_POSITION, PAGE), PAGE);
	assert_int_equal(load_relaxed(&file.nr_here), 0);
	assert_int_equal(load_relaxed(&file.nr_elsewhere), 1);
	empty(PAGE);
	unit_close(fd);
	assert_int_equal(dup2(kept, fd), fd);
	unit_close(kept);
	unit_close(sockets[0]);
	unit_close(sockets[1]);
}

static void signals_of_the_program_are_kept(void **state)
{
	sigset_t set, old, pending;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	assert_int_equal(pthread_kill(pthread_self(), SIGPIPE), 0);
	unit_close(ends[0]);
	assert_int_equal(from_file(0, PAGE), -EPIPE);
	assert_int_equal(load_relaxed(&file.nr_here), 1);
	unit_close(ends[1]);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(sigpending(&pending), 0);
	assert_int_equal(sigismember(&pending, SIGPIPE), 1);
	assert_int_equal(sigwaitinfo(&set, NULL), SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENDS_TEST(cached_pages_are_spliced_here),
		ENDS_TEST(no_more_is_asked_for_than_the_pipe_takes),
		ENDS_TEST(the_end_of_the_file_is_found_here),
		ENDS_TEST(the_position_moves_once),
		ENDS_TEST(a_page_that_is_not_cached_is_spliced_by_a_worker),
		ENDS_TEST(a_file_that_refuses_nowait_is_asked_once),
		ENDS_TEST(a_file_whose_pages_are_always_there_is_not_asked),
		ENDS_TEST(never_block_always_asks),
		ENDS_TEST(a_file_with_a_write_at_a_worker_is_left_to_workers),
		ENDS_TEST(a_write_that_waits_for_the_disk_goes_to_a_worker),
		ENDS_TEST(a_worker_waits_for_a_pipe),
		ENDS_TEST(no_signal_is_sent),
		ENDS_TEST(a_number_that_is_another_files_is_a_workers),
		ENDS_TEST(signals_of_the_program_are_kept),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "aio/iocb.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "proc/table.h"
#include "req/sink.h"
#include "unit.h"

static const uint64_t FULL = UINT64_MAX - 1;

typedef int get_fn(int fd, uint64_t *ret_word);

/*
 * Functions that return a reference to an eventfd, which a request keeps as its word (a
 * 64-bit value, sink.h). The first is for threads that share the library's descriptor
 * table, the second for threads with a table of their own.
 */
static get_fn *const gets[] = { uaio_resfd_get, uaio_resfd_get_parted };

static int event_fd(uint64_t count, int flags)
{
	int fd = eventfd(0, EFD_CLOEXEC | flags);

	assert_true(fd >= 0);
	if (count)
		assert_int_equal(write(fd, &count, sizeof(count)),
				 sizeof(count));
	return fd;
}

/* Read an eventfd, which resets it. Return: its count. */
static uint64_t take_count(int fd)
{
	uint64_t count = 0;

	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	return count;
}

/*
 * Post a completion with each word (a reference to an eventfd), as a context does.
 */
static void post(const uint64_t *words, unsigned nr)
{
	struct uaio_completion completions[8] = { 0 };
	struct uaio_post post = {
		.completions = completions,
		.nr = nr,
		.is_inline = true,
	};

	assert_true(nr <= NR_ELEMENTS(completions));
	for (unsigned i = 0; i < nr; i++) {
		completions[i].word = words[i];
		post.words |= words[i];
	}
	uaio_resfd_signal(&post);
	uaio_resfd_drop(&post);
}

static void post_one(get_fn *get, int fd)
{
	uint64_t word;

	assert_int_equal(get(fd, &word), 0);
	post(&word, 1);
}

/* A hook counts the calls of one system call. */
static struct {
	long nr;
	uint32_t nr_calls; /* atomic */
} counted;

static bool count_one(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == counted.nr)
		add_relaxed(&counted.nr_calls, 1);
	return false;
}

static void count(long nr)
{
	counted.nr = nr;
	store_relaxed(&counted.nr_calls, 0);
	unit_hook(count_one);
}

static void each_completion_adds_one_to_its_own_eventfd(void **state)
{
	int fds[2] = { event_fd(0, 0), event_fd(5, 0) };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(gets); i++) {
		uint64_t a[4], b[2];

		for (unsigned k = 0; k < NR_ELEMENTS(a); k++)
			assert_int_equal(gets[i](fds[0], &a[k]), 0);
		for (unsigned k = 0; k < NR_ELEMENTS(b); k++)
			assert_int_equal(gets[i](fds[1], &b[k]), 0);
		/* A request without an eventfd has 0 in place of a reference. */
		{
			const uint64_t words[] = { a[0], a[1], 0,    a[2],
						   b[0], b[1], a[3], 0 };

			count(SYS_write);
			post(words, NR_ELEMENTS(words));
			unit_hook(NULL);
		}
		/*
		 * If successive completions have the same eventfd, the eventfd gets
		 * only one write.
		 */
		assert_int_equal(load_relaxed(&counted.nr_calls), 4);
		assert_int_equal(take_count(fds[0]), 4);
		assert_int_equal(take_count(fds[1]), i == 0 ? 5 + 2 : 2);
	}
	unit_close(fds[0]);
	unit_close(fds[1]);
}

static void a_full_counter_is_not_waited_for(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(gets); i++)
		for (int flags = 0; flags <= EFD_NONBLOCK;
		     flags += EFD_NONBLOCK) {
			int fd = event_fd(FULL, flags);

			post_one(gets[i], fd);
			assert_int_equal(take_count(fd), FULL);
			post_one(gets[i], fd);
			assert_int_equal(take_count(fd), 1);
			unit_close(fd);
		}
}

static bool refuse_ppoll(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -EPERM;
	return nr == SYS_ppoll;
}

static void a_refused_ppoll_is_no_full_counter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(gets); i++) {
		int fd = event_fd(1, 0);

		unit_hook(refuse_ppoll);
		post_one(gets[i], fd);
		unit_hook(NULL);
		assert_int_equal(take_count(fd), 1 + 1);
		unit_close(fd);
	}
}

static void what_is_no_eventfd_is_refused(void **state)
{
	int file = unit_file(true), ends[2];
	int path = open("/", O_PATH | O_CLOEXEC);

	(void)state;
	assert_true(path >= 0);
	assert_int_equal(pipe(ends), 0);
	for (unsigned i = 0; i < NR_ELEMENTS(gets); i++) {
		uint64_t word;

		assert_int_equal(gets[i](file, &word), -EINVAL);
		assert_int_equal(gets[i](ends[1], &word), -EINVAL);
		assert_int_equal(gets[i](path, &word), -EBADF);
		assert_int_equal(gets[i](-1, &word), -EBADF);
	}
	unit_close(path);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(file);
}

static void an_eventfd_closed_meanwhile_is_signalled_all_the_same(void **state)
{
	int fd = event_fd(0, 0), copy = dup(fd), file = unit_file(true);
	uint64_t words[2];
	char byte;

	(void)state;
	assert_int_equal(uaio_resfd_get(fd, &words[0]), 0);
	assert_int_equal(uaio_resfd_get(fd, &words[1]), 0);
	/*
	 * Make the descriptor refer to a file instead. The references in words[] must
	 * still signal the eventfd, and nothing may be written to the file.
	 */
	unit_dup2(file, fd);
	post(words, 1);
	assert_int_equal(take_count(copy), 1);
	unit_close(fd);
	post(words + 1, 1);
	assert_int_equal(take_count(copy), 1);
	assert_int_equal(pread(file, &byte, 1, 0), 0);
	unit_close(copy);
	unit_close(file);
}

static void a_word_that_is_put_signals_nothing(void **state)
{
	int fd = event_fd(1, 0);

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(gets); i++) {
		uint64_t word;

		assert_int_equal(gets[i](fd, &word), 0);
		uaio_resfd_put(word);
	}
	uaio_resfd_put(0);
	assert_int_equal(take_count(fd), 1);
	/*
	 * Count the calls of fcntl(): if a word still referred to the eventfd, the
	 * library would duplicate the descriptor before unit_close() closes it.
	 */
	count(SYS_fcntl);
	unit_close(fd);
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&counted.nr_calls), 0);
}

/* A thread with its own descriptor table */

struct parting {
	uint64_t handle;
	/*
	 * a descriptor number: an eventfd in the thread's own descriptor table, a file
	 * in the table of the other threads
	 */
	int number;
	/* the eventfd's counts, without and with a seccomp filter */
	uint64_t counts[2];
};

static int submit_with_eventfd(uint64_t handle, int fd, int resfd)
{
	struct iocb iocb = unit_iocb(IOCB_CMD_PWRITE, fd, "x", 1, 0);
	struct io_event event;

	iocb.aio_flags = IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)resfd;
	return unit_submit(handle, &iocb) == 1 &&
	       unit_reap(handle, 1, &event) == 1 && event.res == 1;
}

static long part_and_submit(void *arg)
{
	const long args[3] = { CLONE_FILES };
	struct parting *parting = arg;
	int fd = unit_file(true), own = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (own < 0 || uaio_table_part(SYS_unshare, args) != 0 ||
	    !uaio_table_is_other() || dup2(own, parting->number) < 0)
		return -1;
	for (unsigned i = 0; i < NR_ELEMENTS(parting->counts); i++) {
		if (i == 1)
			unit_hook(refuse_ppoll);
		if (!submit_with_eventfd(parting->handle, fd, parting->number))
			return -2;
		unit_hook(NULL);
		(void)!read(own, &parting->counts[i], sizeof(uint64_t));
	}
	/*
	 * The descriptor table of this thread ends with the thread. In the other
	 * threads' table the main thread must close both descriptors, so return both:
	 * fd in the upper half, `own` in the lower half.
	 */
	return (long)fd << 32 | own;
}

static void a_thread_with_its_own_descriptors_has_its_own_eventfd(void **state)
{
	struct parting parting = { .handle = unit_context(1) };
	struct unit_thread thread;
	char byte;
	long ret;

	(void)state;
	parting.number = unit_file(true);
	unit_thread_start(&thread, part_and_submit, &parting);
	ret = unit_thread_join(&thread);
	assert_true(ret > 0);
	assert_int_equal(parting.counts[0], 1);
	assert_int_equal(parting.counts[1], 1);
	assert_int_equal(pread(parting.number, &byte, 1, 0), 0);
	unit_close((int)(ret >> 32));
	unit_close((int)ret);
	unit_close(parting.number);
	unit_destroy(parting.handle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_completion_adds_one_to_its_own_eventfd),
		UNIT_TEST(a_full_counter_is_not_waited_for),
		UNIT_TEST(a_refused_ppoll_is_no_full_counter),
		UNIT_TEST(what_is_no_eventfd_is_refused),
		UNIT_TEST(
			an_eventfd_closed_meanwhile_is_signalled_all_the_same),
		UNIT_TEST(a_word_that_is_put_signals_nothing),
		/*
		 * Keep this test last: after it, the library checks in each call which
		 * descriptor table the thread has, so other tests would test other code.
		 */
		UNIT_TEST(
			a_thread_with_its_own_descriptors_has_its_own_eventfd),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

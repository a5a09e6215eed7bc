/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "file/file.h"
#include "aio/aio.h"
#include "aio/ring.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR = 16 };

static char buffers[NR][SIZE];

static long close_descriptor(void *arg)
{
	unit_close(*(int *)arg);
	return 0;
}

/*
 * Return: whether the closing thread has slept several times. Before each sleep it
 * checks whether the requests of the file still need the descriptor.
 */
static bool has_looked_often(void *arg)
{
	return unit_thread_sleeps(arg) > 6;
}

static void
closing_a_file_waits_until_its_requests_have_looked_it_up(void **state)
{
	int fd = unit_numbered_file(true, NR);
	uint64_t handle = unit_context(NR);
	struct io_event events[NR];
	struct unit_thread thread;

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i],
					     SIZE, i * SIZE);

		assert_int_equal(unit_submit(handle, &iocb), 1);
	}
	unit_gate_await(NR);
	unit_thread_start(&thread, close_descriptor, &fd);
	unit_await(has_looked_often, &thread);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	unit_gate_open();
	assert_int_equal(unit_reap(handle, NR, events), NR);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(events[i].res, SIZE);
	unit_thread_join(&thread);
	uaio_config.force_worker = false;
	unit_destroy(handle);
}

static void closing_a_file_waits_for_its_requests(void **state)
{
	int fd = unit_numbered_file(true, NR), copy = dup(fd);
	uint64_t handle = unit_context(NR);
	struct io_event events[NR];
	struct iocb iocbs[NR];
	struct unit_thread thread;
	struct stat st;

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	for (unsigned i = 0; i < NR; i++) {
		memset(buffers[i], 'A' + (int)i, SIZE);
		iocbs[i] = unit_iocb(IOCB_CMD_PWRITE, fd, buffers[i], SIZE,
				     i * SIZE);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	unit_gate_await(1);
	unit_thread_start(&thread, close_descriptor, &fd);
	for (unsigned i = 0; i < NR; i++) {
		unit_await_sleep(&thread);
		assert_int_equal(fstat(fd, &st), 0);
		unit_gate_await_key(i);
		unit_gate_pass(i);
	}
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(unit_reap(handle, NR, events), NR);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(events[i].res, SIZE);
	unit_gate_open();
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(copy);
}

static void close_one(void *arg)
{
	unsigned fd = *(unsigned *)arg;

	uaio_fds_closing(fd, fd);
}

static void closing_what_nobody_uses_makes_no_calls(void **state)
{
	int fd = unit_file(true);

	(void)state;
	assert_int_equal(unit_count_calls(close_one, &fd), 0);
	unit_close(fd);
}

/* A request never runs on a file that is opened later at the same descriptor. */
static void a_descriptor_used_again_is_another_file(void **state)
{
	char text[2] = "";
	int copy, number;

	(void)state;
	for (unsigned round = 0; round < unit_rounds(2000); round++) {
		uint64_t handle = unit_context(4);
		int old = unit_file(round % 2), new = unit_file(round % 3 == 0);
		struct io_event events[4];
		struct iocb iocbs[4];

		uaio_config.force_worker = round % 4 != 3;
		copy = dup(old);
		number = old;
		for (unsigned i = 0; i < 4; i++) {
			iocbs[i] =
				unit_iocb(IOCB_CMD_PWRITE, number, "old", 1, i);
			assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
		}
		unit_dup2(new, number);
		assert_int_equal(lseek(new, 0, SEEK_END), 0);
		iocbs[0] = unit_iocb(IOCB_CMD_PWRITE, number, "new", 1, 9);
		assert_int_equal(unit_reap(handle, 4, events), 4);
		assert_int_equal(unit_submit(handle, &iocbs[0]), 1);
		assert_int_equal(unit_reap_one(handle), 1);
		assert_int_equal(lseek(copy, 0, SEEK_END), 4);
		assert_int_equal(lseek(new, 0, SEEK_END), 10);
		assert_int_equal(pread(new, text, 1, 9), 1);
		assert_string_equal(text, "n");
		unit_destroy(handle);
		unit_close(copy);
		unit_close(new);
		unit_close(number);
	}
	uaio_config.force_worker = false;
}

/*
 * While the library queries a descriptor, dup2() makes the descriptor refer to another
 * file. The query takes several system calls: the tests replace the file after the
 * first call, after the second call, and so on.
 */
static struct {
	/* atomic, because idle workers also make system calls and call the hook */
	/* how many calls on fd come before the replacement */
	uint32_t countdown;
	int fd;
	int to;
} switching;

static bool switch_file(long nr, const long args[6], long *ret_res)
{
	int fd = load_relaxed(&switching.fd);
	long res;

	if ((int)args[0] != fd ||
	    (nr != SYS_fcntl && nr != SYS_fstat && nr != SYS_fstatfs &&
	     nr != SYS_lseek) ||
	    !load_relaxed(&switching.countdown) ||
	    sub_relaxed(&switching.countdown, 1) != 1)
		return false;
	res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
			   args[5]);
	uaio_fds_closing((unsigned)fd, (unsigned)fd);
	(void)dup2(load_relaxed(&switching.to), fd);
	uaio_fds_closed((unsigned)fd, (unsigned)fd);
	*ret_res = res;
	return true;
}

struct changing {
	uint64_t handle;
	int file;
	int ends[2];
	/* the end of the pipe whose descriptor is made to refer to the file */
	int fd;
};

/*
 * Submit a read of one end of a pipe. After n system calls on that descriptor, the
 * hook makes the descriptor refer to a file.
 */
static void read_changing(struct changing *it, unsigned end, unsigned n)
{
	char text[4];
	struct iocb iocb;
	long ret;

	it->handle = unit_context(4);
	it->file = unit_numbered_file(true, 4);
	assert_int_equal(pipe2(it->ends, O_CLOEXEC), 0);
	assert_int_equal(write(it->ends[1], "text", 4), 4);
	it->fd = it->ends[end];
	store_relaxed(&switching.fd, it->fd);
	store_relaxed(&switching.to, it->file);
	store_relaxed(&switching.countdown, n);
	unit_hook(switch_file);
	/* Do not check the result: this read may be executed on the pipe or on the file. */
	iocb = unit_iocb(IOCB_CMD_PREAD, it->fd, text, 4, 2 * SIZE);
	ret = unit_submit(it->handle, &iocb);
	unit_hook(NULL);
	if (ret == 1)
		unit_reap_one(it->handle);
}

/* Check that a read of the descriptor is executed on the file, not on the pipe. */
static void assert_changed(const struct changing *it)
{
	char block[SIZE];
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, it->fd, block, SIZE, 2 * SIZE);

	assert_int_equal(unit_submit(it->handle, &iocb), 1);
	assert_int_equal(unit_reap_one(it->handle), SIZE);
	assert_int_equal(block[0], 2);
}

static void close_changing(const struct changing *it)
{
	unit_close(it->file);
	unit_close(it->ends[0]);
	unit_close(it->ends[1]);
	unit_destroy(it->handle);
}

static void a_file_closed_while_it_is_looked_up_leaves_no_trace(void **state)
{
	struct changing it;

	(void)state;
	for (unsigned n = 1; n <= 4; n++) {
		read_changing(&it, 0, n);
		unit_dup2(it.file, it.fd);
		store_relaxed(&switching.countdown, 0);
		assert_changed(&it);
		close_changing(&it);
	}
}

/*
 * While the library makes an entry for a pipe's descriptor, dup2() puts another file
 * there. The library must not keep the entry of the pipe. If it kept an entry of the
 * read end, a later read could still notice that the inode differs. So also test the
 * write end, whose entry would make the read fail with EBADF.
 */
static bool stale_entry_is_not_kept(unsigned end, unsigned n)
{
	struct changing it;
	bool has_switched;

	read_changing(&it, end, n);
	has_switched = !load_relaxed(&switching.countdown);
	if (has_switched)
		assert_changed(&it);
	close_changing(&it);
	return has_switched;
}

static void a_stale_entry_is_not_kept(void **state)
{
	(void)state;
	for (unsigned end = 0; end < 2; end++) {
		unsigned n = 1;

		while (stale_entry_is_not_kept(end, n))
			n++;
		assert_true(n > 2);
	}
}

/*
 * Between uaio_fds_closing() and the dup2() that replaces the file, the library makes
 * an entry of the old file. After the dup2(), the library must not find this entry.
 */
static void an_entry_of_the_file_before_is_not_kept(void **state)
{
	(void)state;
	for (int is_range = 0; is_range < 2; is_range++) {
		int number = unit_file(true), other = unit_file(true);
		unsigned first = (unsigned)number, last = first + !!is_range;
		struct uaio_file *file;

		uaio_fds_closing(first, last);
		assert_int_equal(uaio_file_open(number, &file), 0);
		assert_int_equal(dup2(other, number), number);
		uaio_fds_closed(first, last);
		assert_null(uaio_file_find(number));
		unit_close(number);
		unit_close(other);
	}
}

/*
 * Close `number`, and open the file of `from` there, as another thread might do before
 * uaio_fds_closed() reports the close. If that thread submits requests and closes the
 * descriptor, its close must still wait for the requests.
 * Return: the descriptor.
 */
static int taken_by_another(int number, int from)
{
	struct uaio_file *file;

	assert_int_equal(uaio_file_open(number, &file), 0);
	uaio_fds_closing((unsigned)number, (unsigned)number);
	assert_int_equal(close(number), 0);
	assert_int_equal(fcntl(from, F_DUPFD_CLOEXEC, number), number);
	return number;
}

static void a_stream_at_a_used_number_keeps_its_entry(void **state)
{
	int fd, ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fd = taken_by_another(unit_file(true), ends[0]);
	for (unsigned last = (unsigned)fd; last <= (unsigned)fd + 1; last++) {
		uint64_t handle = unit_context(4);
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], 1, 0);
		struct uaio_file *file;

		assert_int_equal(unit_submit(handle, &iocb), 1);
		file = uaio_file_find(fd);
		uaio_fds_closed((unsigned)fd, last);
		assert_ptr_equal(uaio_file_find(fd), file);
		assert_int_equal(write(ends[1], "x", 1), 1);
		assert_int_equal(unit_reap_one(handle), 1);
		unit_destroy(handle);
	}
	unit_close(fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void closing_a_used_number_waits_for_its_requests(void **state)
{
	int other = unit_file(true),
	    fd = taken_by_another(unit_file(true), other);
	uint64_t handle = unit_context(NR);
	struct iocb iocb = unit_iocb(IOCB_CMD_PWRITE, fd, buffers[0], SIZE, 0);
	struct unit_thread thread;
	struct uaio_file *file;
	struct stat st;

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	unit_gate_await(1);
	file = uaio_file_find(fd);
	uaio_fds_closed((unsigned)fd, (unsigned)fd);
	assert_ptr_equal(uaio_file_find(fd), file);
	unit_thread_start(&thread, close_descriptor, &fd);
	unit_await_sleep(&thread);
	assert_int_equal(fstat(fd, &st), 0);
	unit_gate_open();
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(unit_reap_one(handle), SIZE);
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(other);
}

/* During the request, the descriptor aio_resfd is made to refer to another file. */
static struct {
	uint32_t is_armed; /* atomic */
	int read;          /* a read of this descriptor triggers the hook */
	int resfd;         /* the descriptor to replace */
	/* resfd is replaced by a duplicate of this descriptor */
	int to;
} resfd_switch;

static bool switch_resfd(long nr, const long args[6], long *ret_res)
{
	uint32_t armed = 1;

	(void)ret_res;
	if ((nr != SYS_pread64 && nr != SYS_preadv2) ||
	    args[0] != resfd_switch.read ||
	    !cas_relaxed(&resfd_switch.is_armed, &armed, 0))
		return false;
	uaio_fds_closing((unsigned)resfd_switch.resfd,
			 (unsigned)resfd_switch.resfd);
	(void)dup2(resfd_switch.to, resfd_switch.resfd);
	uaio_fds_closed((unsigned)resfd_switch.resfd,
			(unsigned)resfd_switch.resfd);
	return false;
}

static void a_signal_never_lands_in_a_file(void **state)
{
	(void)state;
	for (int in_worker = 0; in_worker < 2; in_worker++) {
		uint64_t handle = unit_context(4);
		int fd = unit_numbered_file(true, 1), victim = unit_file(true);
		int resfd = eventfd(0, EFD_CLOEXEC), watcher = dup(resfd);
		struct iocb iocb;
		uint64_t count;

		uaio_config.force_worker = in_worker;
		resfd_switch.read = fd;
		resfd_switch.resfd = resfd;
		resfd_switch.to = victim;
		store_relaxed(&resfd_switch.is_armed, 1);
		unit_hook(switch_resfd);
		iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], SIZE, 0);
		iocb.aio_flags = IOCB_FLAG_RESFD;
		iocb.aio_resfd = (uint32_t)resfd;
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(unit_reap_one(handle), SIZE);
		/*
		 * The library signals the eventfd to which aio_resfd referred at
		 * submission.
		 */
		assert_int_equal(read(watcher, &count, 8), 8);
		unit_destroy(handle);
		unit_hook(NULL);
		assert_int_equal(lseek(victim, 0, SEEK_END), 0);
		unit_close(fd);
		unit_close(victim);
		unit_close(resfd);
		unit_close(watcher);
	}
	uaio_config.force_worker = false;
}

static void a_full_eventfd_holds_up_nobody(void **state)
{
	(void)state;
	for (int in_worker = 0; in_worker < 2; in_worker++) {
		uint64_t handle = unit_context(4), full = UINT64_MAX - 1;
		int fd = unit_numbered_file(true, 1);
		int resfd = eventfd(0, EFD_CLOEXEC);
		struct iocb iocb;

		uaio_config.force_worker = in_worker;
		assert_int_equal(write(resfd, &full, 8), 8);
		iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], SIZE, 0);
		iocb.aio_flags = IOCB_FLAG_RESFD;
		iocb.aio_resfd = (uint32_t)resfd;
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(unit_reap_one(handle), SIZE);
		unit_destroy(handle);
		unit_close(fd);
		unit_close(resfd);
	}
	uaio_config.force_worker = false;
}

/*
 * The event must be in the ring before the eventfd (aio_resfd) is signalled, because the
 * signal wakes a thread that reads the ring.
 */
static struct {
	/* atomic, because idle workers also make system calls and call the hook */
	uint64_t handle;
	int resfd;
	/* how many signals were sent before their event was in the ring */
	uint32_t nr_early;
} signalling;

static bool look_for_event(long nr, const long args[6], long *ret_res)
{
	const struct uaio_ring_map *ring;

	(void)ret_res;
	if (nr != SYS_write || (int)args[0] != load_relaxed(&signalling.resfd))
		return false;
	ring = (const void *)(uintptr_t)load_relaxed(&signalling.handle);
	if (load_acquire(&ring->tail) == load_relaxed(&ring->head))
		add_relaxed(&signalling.nr_early, 1);
	return false;
}

static void a_signal_comes_after_its_event(void **state)
{
	(void)state;
	for (int in_worker = 0; in_worker < 2; in_worker++) {
		int fd = unit_numbered_file(true, 1);
		struct iocb iocb;

		uaio_config.force_worker = in_worker;
		store_relaxed(&signalling.handle, unit_context(4));
		store_relaxed(&signalling.resfd, eventfd(0, EFD_CLOEXEC));
		store_relaxed(&signalling.nr_early, 0);
		unit_hook(look_for_event);
		iocb = unit_iocb(IOCB_CMD_PREAD, fd, buffers[0], SIZE, 0);
		iocb.aio_flags = IOCB_FLAG_RESFD;
		iocb.aio_resfd = (uint32_t)signalling.resfd;
		assert_int_equal(unit_submit(signalling.handle, &iocb), 1);
		/* Destroy the context first, so that no thread calls the hook any more. */
		unit_destroy(signalling.handle);
		unit_hook(NULL);
		assert_int_equal(load_relaxed(&signalling.nr_early), 0);
		unit_close(fd);
		unit_close(signalling.resfd);
	}
	uaio_config.force_worker = false;
}

static void an_eventfd_counts_each_completion(void **state)
{
	(void)state;
	for (int in_worker = 0; in_worker < 2; in_worker++) {
		uint64_t handle = unit_context(NR), count, sum = 0;
		int fd = unit_numbered_file(true, NR);
		int resfd = eventfd(0, EFD_CLOEXEC);
		struct iocb iocbs[NR], *list[NR];
		struct io_event events[NR];

		uaio_config.force_worker = in_worker;
		for (unsigned i = 0; i < NR; i++) {
			iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i],
					     SIZE, i * SIZE);
			iocbs[i].aio_flags = IOCB_FLAG_RESFD;
			iocbs[i].aio_resfd = (uint32_t)resfd;
			list[i] = &iocbs[i];
		}
		assert_int_equal(uaio_aio_submit(handle, NR, list), NR);
		while (sum < NR) {
			assert_int_equal(read(resfd, &count, 8), 8);
			sum += count;
		}
		assert_int_equal(sum, NR);
		/* All events are in the ring now: each came before its signal. */
		assert_int_equal(unit_reap(handle, NR, events), NR);
		unit_destroy(handle);
		unit_close(fd);
		unit_close(resfd);
	}
	uaio_config.force_worker = false;
}

/* Close a range of descriptors, as close_range() does. The call waits for requests. */
static void closing_a_range_waits_for_all_in_it(void **state)
{
	uint64_t handle = unit_context(NR);
	struct io_event events[NR];
	struct iocb iocbs[NR];
	int fds[NR];

	(void)state;
	uaio_config.force_worker = true;
	for (unsigned i = 0; i < NR; i++) {
		fds[i] = unit_numbered_file(true, 1);
		iocbs[i] =
			unit_iocb(IOCB_CMD_PREAD, fds[i], buffers[i], SIZE, 0);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	uaio_fds_closing((unsigned)fds[0], ~0u);
	for (unsigned i = 0; i < NR; i++)
		close(fds[i]);
	uaio_fds_closed((unsigned)fds[0], ~0u);
	assert_int_equal(unit_reap(handle, NR, events), NR);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(events[i].res, SIZE);
	uaio_config.force_worker = false;
	unit_destroy(handle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			closing_a_file_waits_until_its_requests_have_looked_it_up),
		UNIT_TEST(closing_a_file_waits_for_its_requests),
		UNIT_TEST(closing_what_nobody_uses_makes_no_calls),
		UNIT_TEST(a_descriptor_used_again_is_another_file),
		UNIT_TEST(a_file_closed_while_it_is_looked_up_leaves_no_trace),
		UNIT_TEST(a_stale_entry_is_not_kept),
		UNIT_TEST(an_entry_of_the_file_before_is_not_kept),
		UNIT_TEST(a_stream_at_a_used_number_keeps_its_entry),
		UNIT_TEST(closing_a_used_number_waits_for_its_requests),
		UNIT_TEST(a_signal_never_lands_in_a_file),
		UNIT_TEST(a_signal_comes_after_its_event),
		UNIT_TEST(an_eventfd_counts_each_completion),
		UNIT_TEST(closing_a_range_waits_for_all_in_it),
		UNIT_TEST(a_full_eventfd_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

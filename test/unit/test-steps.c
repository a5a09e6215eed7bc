/* SPDX-License-Identifier: MIT */
/*
 * Each test holds a thread after each of its instructions in turn. Meanwhile another
 * thread does something that might harm it.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "file/file.h"
#include "aio/aio.h"
#include "aio/handle.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES };

/*
 * A test of unit_interleave() itself: the victim must be held before, between and after
 * its three stores.
 */
static uint32_t count; /* atomic */
static unsigned nr_seen[4];

static long count_to_three(void *arg)
{
	(void)arg;
	for (uint32_t i = 1; i <= 3; i++)
		store_relaxed(&count, i);
	return 3;
}

static long look_at_count(void *arg)
{
	(void)arg;
	return load_relaxed(&count);
}

static void reset_count(void)
{
	store_relaxed(&count, 0);
}

static void note_count(long victims, long intruders)
{
	assert_int_equal(victims, 3);
	assert_in_range(intruders, 0, 3);
	nr_seen[intruders]++;
}

static void a_thread_is_held_at_each_of_its_instructions(void **state)
{
	const struct unit_stepping stepping = {
		.victim = count_to_three,
		.intruder = look_at_count,
		.prepare = reset_count,
		.check = note_count,
		.nr_min = 6,
	};

	(void)state;
	memset(nr_seen, 0, sizeof(nr_seen));
	unit_step_through(&stepping);
	for (unsigned i = UNIT_CAN_STEP ? 0 : 3; i < 4; i++)
		assert_true(nr_seen[i] > 0);
}

/*
 * A thread takes a reference to a descriptor's entry (struct uaio_file). Meanwhile
 * another thread replaces the descriptor's file. In the second test, the other thread
 * then also opens an entry for a third file. The new entry may reuse the memory of the
 * first entry.
 */
static struct {
	int before, after, third; /* descriptors of three files */
	int number;
	ino_t inodes[2]; /* of before, after */
} taking;

static ino_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/*
 * Return: the inode of the file to which the reference leads; -1 if there is no entry.
 */
static long take_reference(void *arg)
{
	struct uaio_file *file;
	ino_t inode;

	(void)arg;
	if (uaio_file_get(taking.number, &file) < 0)
		return -1;
	inode = inode_of(uaio_file_use(file));
	uaio_file_unuse(file);
	uaio_file_put(file);
	return (long)inode;
}

static long replace_number(void *arg)
{
	(void)arg;
	unit_dup2(taking.after, taking.number);
	return 0;
}

static long replace_number_and_entry(void *arg)
{
	struct uaio_file *file;

	replace_number(arg);
	return uaio_file_open(taking.third, &file);
}

static void prepare_number(void)
{
	struct uaio_file *file;

	taking.number = dup(taking.before);
	assert_int_equal(uaio_file_open(taking.number, &file), 0);
}

static void forget(int fd)
{
	uaio_fds_closing((unsigned)fd, (unsigned)fd);
}

static void check_reference(long victims, long intruders)
{
	struct uaio_file *a, *b;

	assert_int_equal(intruders, 0);
	assert_true((ino_t)victims == taking.inodes[0] ||
		    (ino_t)victims == taking.inodes[1]);
	unit_close(taking.number);
	forget(taking.third);
	/*
	 * If the entry had been freed twice, these two calls would get the same entry.
	 */
	assert_int_equal(uaio_file_open(taking.before, &a), 0);
	assert_int_equal(uaio_file_open(taking.after, &b), 0);
	assert_ptr_not_equal(a, b);
	forget(taking.before);
	forget(taking.after);
}

static void change_hands(unit_step_fn *intruder)
{
	const struct unit_stepping stepping = {
		.victim = take_reference,
		.intruder = intruder,
		.prepare = prepare_number,
		.check = check_reference,
		.nr_min = 50,
	};

	taking.before = unit_file(true);
	taking.after = unit_file(true);
	taking.third = unit_file(true);
	taking.inodes[0] = inode_of(taking.before);
	taking.inodes[1] = inode_of(taking.after);
	unit_step_through(&stepping);
	unit_close(taking.before);
	unit_close(taking.after);
	unit_close(taking.third);
}

static void a_number_that_changes_hands_leads_to_either_file(void **state)
{
	(void)state;
	change_hands(replace_number);
	change_hands(replace_number_and_entry);
}

/*
 * While a call uses a context's handle, another thread destroys the context and creates
 * a new one with another handle, which reuses the memory.
 */
enum { OLD = 1, NEW };

static struct {
	int fd;
	uint64_t handle, new_handle;
} replacing;

static long submit_read(uint64_t handle, uint64_t data)
{
	static char buffers[NEW + 1][SIZE];
	struct iocb iocb =
		unit_iocb(IOCB_CMD_PREAD, replacing.fd, buffers[data], SIZE, 0);

	iocb.aio_data = data;
	return unit_submit(handle, &iocb);
}

static long submit_to_old(void *arg)
{
	(void)arg;
	return submit_read(replacing.handle, OLD);
}

static long look_at_old(void *arg)
{
	const struct timespec zero = { 0, 0 };
	struct uaio_event event;

	(void)arg;
	return uaio_aio_getevents(replacing.handle, 0, 1, &event, &zero);
}

static long wait_for_old(void *arg)
{
	struct uaio_event event;

	(void)arg;
	return uaio_aio_getevents(replacing.handle, 1, 1, &event, NULL);
}

static long destroy_old(void *arg)
{
	(void)arg;
	return uaio_ctx_destroy(replacing.handle);
}

static long replace_context(void *arg)
{
	(void)arg;
	unit_destroy(replacing.handle);
	replacing.new_handle = unit_context(1000);
	return submit_read(replacing.new_handle, NEW);
}

static void prepare_context(void)
{
	replacing.handle = unit_context(1);
}

/* The new context must have exactly the request that was submitted to it. */
static void check_new(long intruders)
{
	const struct timespec zero = { 0, 0 };
	struct uaio_event events[2];

	assert_int_equal(intruders, 1);
	assert_true(replacing.handle != replacing.new_handle);
	assert_int_equal(
		uaio_aio_getevents(replacing.new_handle, 0, 2, events, &zero),
		1);
	assert_int_equal(events[0].data, NEW);
	unit_destroy(replacing.new_handle);
}

static void check_submit(long victims, long intruders)
{
	assert_true(victims == 1 || victims == -EINVAL);
	check_new(intruders);
}

static void check_look(long victims, long intruders)
{
	assert_true(victims == 0 || victims == -EINVAL);
	check_new(intruders);
}

static void check_wait(long victims, long intruders)
{
	assert_int_equal(victims, -EINVAL);
	check_new(intruders);
}

static void replace_during(unit_step_fn *victim, void (*check)(long, long))
{
	const struct unit_stepping stepping = {
		.victim = victim,
		.intruder = replace_context,
		.prepare = prepare_context,
		.check = check,
		.nr_min = 100,
	};
	uint64_t first = unit_context(1), neighbour = unit_context(1);

	/*
	 * The ring of the new context is longer than the ring of `first`. It does not
	 * fit into the gap that `first` leaves before `neighbour`. So the new context
	 * gets another handle.
	 */
	unit_destroy(first);
	replacing.fd = unit_numbered_file(true, 1);
	unit_step_through(&stepping);
	unit_close(replacing.fd);
	unit_destroy(neighbour);
}

static void a_request_for_a_context_that_is_replaced_ends_with_it(void **state)
{
	(void)state;
	replace_during(submit_to_old, check_submit);
}

static void a_look_at_a_context_that_is_replaced_takes_nothing(void **state)
{
	(void)state;
	replace_during(look_at_old, check_look);
}

static void a_wait_for_a_context_that_is_replaced_ends(void **state)
{
	(void)state;
	replace_during(wait_for_old, check_wait);
}

/* An event is posted while a thread is about to sleep for it. */
static void check_one_event(long victims, long intruders)
{
	assert_int_equal(victims, 1);
	assert_int_equal(intruders, 1);
	unit_destroy(replacing.handle);
}

static void an_event_on_the_way_to_sleep_is_not_missed(void **state)
{
	const struct unit_stepping stepping = {
		.victim = wait_for_old,
		.intruder = submit_to_old,
		.prepare = prepare_context,
		.check = check_one_event,
		.nr_min = 100,
	};

	(void)state;
	replacing.fd = unit_numbered_file(true, 1);
	unit_step_through(&stepping);
	unit_close(replacing.fd);
}

/*
 * In this test, a thread destroys a context. Meanwhile a worker completes the context's
 * last request and becomes idle.
 */
static uint32_t nr_idle; /* atomic */

static bool count_idle(long nr, const long args[6], long *ret_res)
{
	const struct timespec *until = (const struct timespec *)args[3];

	(void)ret_res;
	/*
	 * A new worker first sets its name (prctl). At this moment, unblock SIGTRAP in
	 * its thread, because the thread may come to the breakpoint.
	 */
	if (nr == SYS_prctl)
		unit_let_step();
	/*
	 * Only idle workers sleep with a deadline that is less than an hour away.
	 */
	if (nr == SYS_futex && (args[1] & 127) == 9 /* FUTEX_WAIT_BITSET */ &&
	    until->tv_sec < uaio_now_ns() / 1000000000 + 3600) {
		add_relaxed(&nr_idle, 1);
		uaio_wake(&nr_idle, 1);
	}
	return false;
}

static long let_request_end(void *arg)
{
	uint32_t nr = load_relaxed(&nr_idle);

	(void)arg;
	unit_gate_open();
	/*
	 * Sleep instead of spinning. If the worker waits for the victim, all threads
	 * then sleep, so unit_interleave() lets the victim continue.
	 */
	while (load_relaxed(&nr_idle) == nr)
		(void)uaio_sleep(&nr_idle, nr, UAIO_FOREVER);
	return 0;
}

static void prepare_request(void)
{
	replacing.handle = unit_context(1);
	unit_gate_close(replacing.fd);
	assert_int_equal(submit_read(replacing.handle, OLD), 1);
	unit_gate_await(1);
}

static void check_destroy(long victims, long intruders)
{
	assert_int_equal(victims, 0);
	assert_int_equal(intruders, 0);
}

static void the_end_of_the_last_request_is_not_missed(void **state)
{
	const struct unit_stepping stepping = {
		.victim = destroy_old,
		.intruder = let_request_end,
		.prepare = prepare_request,
		.check = check_destroy,
		.nr_min = 100,
	};

	(void)state;
	uaio_config.force_worker = true;
	unit_hook(count_idle);
	replacing.fd = unit_numbered_file(true, 1);
	unit_step_through(&stepping);
	unit_close(replacing.fd);
	uaio_config.force_worker = false;
}

/* While a thread cancels a read, data for the read arrives. */
static struct {
	uint64_t handle;
	int ends[2];
	struct iocb iocb;
} cancelling;

static long cancel_read(void *arg)
{
	(void)arg;
	return uaio_aio_cancel(cancelling.handle, &cancelling.iocb);
}

static long feed_read(void *arg)
{
	(void)arg;
	assert_int_equal(write(cancelling.ends[1], "x", 1), 1);
	return unit_reap_one(cancelling.handle);
}

static void prepare_read(void)
{
	static char byte;

	cancelling.handle = unit_context(1);
	assert_int_equal(pipe2(cancelling.ends, O_CLOEXEC), 0);
	cancelling.iocb =
		unit_iocb(IOCB_CMD_PREAD, cancelling.ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(cancelling.handle, &cancelling.iocb), 1);
}

static void check_cancel(long victims, long intruders)
{
	struct timespec zero = { 0, 0 };
	struct uaio_event event;

	assert_true((victims == -EINPROGRESS && intruders == -ECANCELED) ||
		    (victims == -EINVAL && intruders == 1));
	assert_int_equal(
		uaio_aio_getevents(cancelling.handle, 0, 1, &event, &zero), 0);
	unit_destroy(cancelling.handle);
	unit_close(cancelling.ends[0]);
	unit_close(cancelling.ends[1]);
}

/*
 * A new thread of the library sets its name first. Let it come to the breakpoint.
 */
static bool let_step(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_prctl)
		unit_let_step();
	return false;
}

static void a_read_is_cancelled_or_made_never_both(void **state)
{
	const struct unit_stepping stepping = {
		.victim = cancel_read,
		.intruder = feed_read,
		.prepare = prepare_read,
		.check = check_cancel,
		.nr_min = 100,
	};

	(void)state;
	unit_hook(let_step);
	unit_step_through(&stepping);
}

/* io_getevents tries the waiting read, which finds no data. */
static long look_for_read(void *arg)
{
	struct timespec zero = { 0, 0 };
	struct uaio_event event;

	(void)arg;
	return uaio_aio_getevents(cancelling.handle, 0, 1, &event, &zero);
}

static void check_cancelled(long victims, long intruders)
{
	assert_int_equal(intruders, -EINPROGRESS);
	if (!victims)
		assert_int_equal(unit_reap_one(cancelling.handle), -ECANCELED);
	assert_int_equal(look_for_read(NULL), 0);
	unit_destroy(cancelling.handle);
	unit_close(cancelling.ends[0]);
	unit_close(cancelling.ends[1]);
}

static void a_read_that_is_tried_in_vain_is_cancelled(void **state)
{
	const struct unit_stepping stepping = {
		.victim = look_for_read,
		.intruder = cancel_read,
		.prepare = prepare_read,
		.check = check_cancelled,
		.nr_min = 100,
	};

	(void)state;
	unit_hook(let_step);
	unit_step_through(&stepping);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_thread_is_held_at_each_of_its_instructions),
		UNIT_TEST(a_number_that_changes_hands_leads_to_either_file),
		UNIT_TEST(
			a_request_for_a_context_that_is_replaced_ends_with_it),
		UNIT_TEST(a_look_at_a_context_that_is_replaced_takes_nothing),
		UNIT_TEST(a_wait_for_a_context_that_is_replaced_ends),
		UNIT_TEST(an_event_on_the_way_to_sleep_is_not_missed),
		UNIT_TEST(a_read_is_cancelled_or_made_never_both),
		UNIT_TEST(a_read_that_is_tried_in_vain_is_cancelled),
		UNIT_TEST(the_end_of_the_last_request_is_not_missed),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

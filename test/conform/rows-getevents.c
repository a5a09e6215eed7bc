/* SPDX-License-Identifier: MIT */
/*
 * io_getevents: counts, pointers, timeouts, and events that exist when io_submit
 * returns
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "conform.h"
#include "ring.h"

static char buf[8192];

/* Makes a context with nr_events events that io_getevents has not returned yet. */
static aio_context_t context_with(long nr_events)
{
	aio_context_t ctx = new_context(16);
	int fd = file_of("f", 4096, O_RDONLY);
	struct iocb cb = PREAD_OF(fd, buf, 16, 0);
	long i;

	for (i = 0; i < nr_events; i++)
		REQUIRE(submit_one(ctx, &cb) == 1);
	return ctx;
}

static struct timespec *no_time(void)
{
	static struct timespec now;

	now = (struct timespec){ 0 };
	return &now;
}

static struct timespec *short_time(void)
{
	static struct timespec some;

	some = (struct timespec){ .tv_nsec = 20 * MS };
	return &some;
}

/*
 * Calls syscall(2), because libaio answers some of these calls without a system call.
 */
static void numbers_empty(void)
{
	aio_context_t ctx = context_with(0);
	struct io_event ev[4];

	note_result("0_0", raw_getevents(ctx, 0, 0, ev, no_time()));
	note_result("0_4", raw_getevents(ctx, 0, 4, ev, no_time()));
	note_result("1_4", raw_getevents(ctx, 1, 4, ev, no_time()));
	note_result("5_4", raw_getevents(ctx, 5, 4, ev, no_time()));
	note_result("1_0", raw_getevents(ctx, 1, 0, ev, no_time()));
	note_result("-1_4", raw_getevents(ctx, -1, 4, ev, no_time()));
	note_result("0_-1", raw_getevents(ctx, 0, -1, ev, no_time()));
	note_result("-2_-1", raw_getevents(ctx, -2, -1, ev, no_time()));
	note_result("-1_-2", raw_getevents(ctx, -1, -2, ev, no_time()));
	note_result("0_max", raw_getevents(ctx, 0, LONG_MAX, ev, no_time()));
	note_result("min_0", raw_getevents(ctx, LONG_MIN, 0, ev, no_time()));
	note_result("0_int", raw_getevents(ctx, 0, 1l << 32, ev, no_time()));
}

static void numbers_pending(void)
{
	aio_context_t ctx = context_with(4);
	struct io_event ev[4];

	note_result("5_4", call_getevents(ctx, 5, 4, ev, no_time()));
	note_result("1_0", call_getevents(ctx, 1, 0, ev, no_time()));
	note_result("-1_4", call_getevents(ctx, -1, 4, ev, no_time()));
	note_result("0_-1", call_getevents(ctx, 0, -1, ev, no_time()));
	note_result("0_0", call_getevents(ctx, 0, 0, ev, no_time()));
	note_result("0_0_forever", call_getevents(ctx, 0, 0, ev, NULL));
	note_result("0_1", call_getevents(ctx, 0, 1, ev, no_time()));
	note_result("1_1", call_getevents(ctx, 1, 1, ev, NULL));
	note_result("0_max", call_getevents(ctx, 0, LONG_MAX, ev, NULL));
}

static void libaio_answers_itself(void)
{
	aio_context_t ctx = context_with(0);
	struct io_event ev[4];

	note_result("5_4", call_getevents(ctx, 5, 4, ev, no_time()));
	note_result("-1_4", call_getevents(ctx, -1, 4, ev, no_time()));
	note_result("0_-1", call_getevents(ctx, 0, -1, ev, no_time()));
}

static void events_pointer(void)
{
	aio_context_t ctx = context_with(0);

	note_result("null_empty", raw_getevents(ctx, 0, 1, NULL, no_time()));
	note_result("kernel_empty",
		    raw_getevents(ctx, 0, 1, KERNEL_ADDRESS, no_time()));
	note_result("null_wait", raw_getevents(ctx, 1, 1, NULL, short_time()));
	note_result("null_nr_0", raw_getevents(ctx, 0, 0, NULL, no_time()));
	ctx = context_with(3);
	note_result("null_nr_0_3", raw_getevents(ctx, 0, 0, NULL, no_time()));
	note_result("null_3", call_getevents(ctx, 0, 1, NULL, no_time()));
	note_result("kernel_3",
		    call_getevents(ctx, 0, 1, KERNEL_ADDRESS, no_time()));
	note_result("null_3_wait", call_getevents(ctx, 1, 1, NULL, NULL));
	note_pending("left", ctx);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static long wait_until_alarm(aio_context_t ctx, long min_nr,
			     struct timespec timeout, long alarm_us)
{
	struct itimerval timer = { { 0, alarm_us }, { 0, alarm_us } };
	struct itimerval none = { 0 };
	struct io_event ev[2];
	long ret;

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &timer, NULL);
	ret = call_getevents(ctx, min_nr, 2, ev, &timeout);
	setitimer(ITIMER_REAL, &none, NULL);
	return ret;
}

/*
 * Prints how the wait ends: by itself (with a count), or by a signal (EINTR). On a busy
 * machine the signal may come before the wait could end by itself. So EINTR is printed
 * only if the signal also ends a second try, in which it comes far later.
 */
static void note_wait(const char *key, aio_context_t ctx, long min_nr,
		      struct timespec timeout)
{
	long ret = wait_until_alarm(ctx, min_nr, timeout, 60000);

	if (ret == -EINTR)
		ret = wait_until_alarm(ctx, min_nr, timeout, 600000);
	note_result(key, ret);
}

static void timeouts_out_of_range(void)
{
	static const struct timespec strange[] = {
		{ 0, -1 },
		{ 0, 1000000000 },
		{ 0, LONG_MAX },
		{ 0, LONG_MIN },
		{ -1, 0 },
		{ -1, -1 },
		{ -1, 999999999 },
		{ 1, -999999999 },
		{ 1, -1000000001 },
		{ 0, 10 * MS },
		{ LONG_MAX, LONG_MAX },
	};
	aio_context_t ctx = context_with(0);
	char key[64];
	size_t i;

	for (i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		snprintf(key, sizeof(key), "%ld_%ld", strange[i].tv_sec,
			 strange[i].tv_nsec);
		note_wait(key, ctx, 1, strange[i]);
	}
}

static void timeouts_not_needed(void)
{
	aio_context_t ctx = context_with(1);

	note_wait("min_0_negative", ctx, 0, (struct timespec){ -1, 0 });
	note_wait("min_0_late", ctx, 0, (struct timespec){ 0, 1000000000 });
	ctx = context_with(1);
	note_wait("min_1_negative", ctx, 1, (struct timespec){ -1, 0 });
	note_wait("min_3_late", ctx, 3, (struct timespec){ 0, 1000000000 });
}

static void timeouts_pointer(void)
{
	aio_context_t ctx = context_with(1);
	struct io_event ev[2];

	note_result("kernel", raw_getevents(ctx, 1, 2, ev, KERNEL_ADDRESS));
	note_result("bad_ctx", raw_getevents(0, 1, 2, ev, KERNEL_ADDRESS));
}

static void timeout_gives_count(void)
{
	aio_context_t ctx = context_with(3);
	struct timespec some = { .tv_nsec = 30 * MS };
	struct io_event ev[8];

	note_result("of_8", call_getevents(ctx, 8, 8, ev, &some));
	note("timeout_sec", some.tv_sec);
	note("timeout_nsec", some.tv_nsec);
	note_result("empty", call_getevents(ctx, 1, 8, ev, &some));
	note_result("empty_min_0", call_getevents(ctx, 0, 8, ev, &some));
	note_result("empty_zero", call_getevents(ctx, 8, 8, ev, no_time()));
}

static void timeout_is_kept(void)
{
	aio_context_t ctx = context_with(1);
	struct timespec some = { .tv_nsec = 50 * MS }, from, to;
	struct io_event ev[8];
	long ms;

	clock_gettime(CLOCK_MONOTONIC, &from);
	note_result("of_8", call_getevents(ctx, 8, 8, ev, &some));
	clock_gettime(CLOCK_MONOTONIC, &to);
	ms = (to.tv_sec - from.tv_sec) * 1000 +
	     (to.tv_nsec - from.tv_nsec) / MS;
	note("not_early", ms >= 49);
	note("not_late", ms < 10000);
}

static void timeout_huge(void)
{
	aio_context_t ctx = context_with(1);
	struct timespec huge = { .tv_sec = LONG_MAX, .tv_nsec = 999999999 };
	struct io_event ev[8];

	note_result("max", call_getevents(ctx, 1, 8, ev, &huge));
}

static void min_nr_beyond_ring(void)
{
	aio_context_t ctx = context_with(3);
	struct io_event *ev = calloc(1000, sizeof(*ev));

	note_result("1000", call_getevents(ctx, 1000, 1000, ev, short_time()));
}

/*
 * Submits a request and looks for its event without waiting, 50 times.
 * Return: how many times the event was there.
 */
static int count_at_once(aio_context_t ctx, struct iocb *cb)
{
	struct io_event ev;
	int i, hits = 0;

	for (i = 0; i < 50; i++) {
		bool is_there;

		REQUIRE(submit_one(ctx, cb) == 1);
		is_there = call_getevents(ctx, 0, 1, &ev, no_time()) == 1;
		REQUIRE(is_there || reap(ctx, 1, &ev) == 1);
		hits += is_there;
		cb->aio_offset += (long)cb->aio_nbytes;
	}
	return hits;
}

/*
 * Prints how many of 50 events are there when their io_submit has returned. If a busy
 * disk delays two successive writes, the library gives the next writes to a worker for
 * a moment. So the test case may have to try again later.
 */
static void note_at_once(const char *key, aio_context_t ctx, struct iocb *cb)
{
	enum { TIMES = 400, MOMENT_MS = 150 };
	int hits = count_at_once(ctx, cb), i;

	for (i = 1; i < TIMES && hits < 50; i++) {
		aio_context_t other = new_context(64);

		ring_forget(other);
		(void)poll(NULL, 0, MOMENT_MS);
		hits = count_at_once(other, cb);
		call_destroy(other);
	}
	note(key, hits);
}

static void complete_at_once(void)
{
	aio_context_t ctx = new_context(64);
	int fd = file_of("f", 65536, O_RDWR);
	struct iocb cb = PREAD_OF(fd, buf, 512, 0);

	note_at_once("read", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 512, 0);
	note_at_once("write", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 512, 65536);
	note_at_once("extend", ctx, &cb);
	cb = PREAD_OF(fd, buf, 512, 1 << 20);
	note_at_once("read_past_end", ctx, &cb);
}

static void complete_at_once_direct(void)
{
	aio_context_t ctx = new_context(64);
	int fd = file_of("f", 0, O_RDWR | O_DIRECT);
	void *page = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iocb cb = PWRITE_OF(fd, page, 4096, 0);

	note_at_once("extend", ctx, &cb);
}

static void order_of_events(void)
{
	aio_context_t ctx = new_context(16);
	int fd = file_of("f", 65536, O_RDWR);
	struct iocb cbs[8], *list[8];
	struct io_event ev[8];
	int i, in_order = 1;

	for (i = 0; i < 8; i++) {
		cbs[i] = PREAD_OF(fd, buf, 16 + i, 0);
		list[i] = &cbs[i];
	}
	REQUIRE(call_submit(ctx, 8, list) == 8);
	note_result("reap", reap(ctx, 8, ev));
	for (i = 0; i < 8; i++)
		in_order &=
			ev[i].obj == (uintptr_t)&cbs[i] && ev[i].res == 16 + i;
	note("in_order", in_order);
}

static void ring_wraps(void)
{
	aio_context_t ctx = context_with(0);
	const struct ring *ring = (void *)ctx;
	int fd = file_of("g", 4096, O_RDWR), i;
	struct iocb cb;
	struct io_event ev[3];
	long good = 0;

	for (i = 0; i < 300; i++) {
		cb = PREAD_OF(fd, buf, 1 + i, 0);
		REQUIRE(submit_one(ctx, &cb) == 1);
		REQUIRE(submit_one(ctx, &cb) == 1);
		REQUIRE(submit_one(ctx, &cb) == 1);
		good += call_getevents(ctx, 3, 3, ev, NULL) == 3 &&
			ev[0].res == 1 + i && ev[2].res == 1 + i;
	}
	note("good", good);
	note("head_is_tail", ring->head == ring->tail);
	note("head", ring->head);
}

const struct row rows_getevents[] = {
	ROW("counts out of range are EINVAL, with and without events",
	    numbers_empty),
	ROW("counts with events pending", numbers_pending),
	ROW("libaio answers for an empty ring without checking the counts",
	    libaio_answers_itself),
	ROW("a bad array is EFAULT only if there is an event", events_pointer),
	ROW("a negative timeout waits for ever, nanoseconds may exceed a "
	    "second",
	    timeouts_out_of_range),
	ROW("a timeout out of range is not looked at unless needed",
	    timeouts_not_needed),
	ROW("a bad timeout pointer is EFAULT", timeouts_pointer),
	ROW("when time is up the count so far is returned",
	    timeout_gives_count),
	ROW("a timeout is neither early nor late", timeout_is_kept),
	ROW("the longest timeout does not overflow", timeout_huge),
	ROW("min_nr may be more than the ring can hold", min_nr_beyond_ring),
	ROW("buffered requests are complete when io_submit returns",
	    complete_at_once),
	ROW("extending direct writes are complete when io_submit returns",
	    complete_at_once_direct),
	ROW("events of buffered reads come in order", order_of_events),
	ROW("events wrap around the end of a ring", ring_wraps),
	NO_ROW,
};

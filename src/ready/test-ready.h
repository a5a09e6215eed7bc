/* SPDX-License-Identifier: MIT */
/*
 * Shared by tests of requests that wait for a pipe: one pipe, one context, and measured
 * times. One measurement may be too long because the thread was preempted, so the tests
 * compare the median of several with a limit.
 */
#ifndef TEST_READY_H
#define TEST_READY_H

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/newer.h"
#include "base/sleep.h"
#include "proc/entry.h"
#include "ready/ready.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "aio/ring.h"
#include "unit.h"

/*
 * The descriptors of a pipe: reading end, writing end. Hooks load them atomically, as a
 * thread of the library may still be in a hook when the next test sets them.
 */
static int ends[2];
static uint64_t handle;

static inline void set_ends(const int fds[2])
{
	store_relaxed(&ends[0], fds[0]);
	store_relaxed(&ends[1], fds[1]);
}

/*
 * For hooks.
 * Return: whether fd is ends[i].
 */
static inline bool is_end(unsigned i, long fd)
{
	return (int)fd == load_relaxed(&ends[i]);
}

static inline void open_pipe(unsigned nr_events)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	set_ends(fds);
	handle = unit_context(nr_events);
}

static inline void close_pipe(void)
{
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static inline void put_text(const char *text)
{
	assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
}

/* Return: an iocb that reads one byte from the pipe. */
static inline struct iocb read_of_byte(char *byte)
{
	return unit_iocb(IOCB_CMD_PREAD, ends[0], byte, 1, 0);
}

static inline void submit_read_of_byte(char *byte)
{
	struct iocb iocb = read_of_byte(byte);

	assert_int_equal(unit_submit(handle, &iocb), 1);
}

/*
 * For unit_thread_start(): wait for one event and return its res, or for two events and
 * return their number.
 */
static inline long reap_one(void *arg)
{
	(void)arg;
	return unit_reap_one(handle);
}

static inline long reap_two(void *arg)
{
	struct io_event events[2];

	(void)arg;
	return unit_reap(handle, 2, events);
}

/* times */

struct times {
	unsigned nr;
	int64_t ns[100];
};

static inline int compare_times(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static inline void add_time(struct times *times, int64_t since)
{
	assert_true(times->nr < NR_ELEMENTS(times->ns));
	times->ns[times->nr++] = uaio_now_ns() - since;
}

static inline void assert_median_below_ms(struct times *times, int64_t ms)
{
	qsort(times->ns, times->nr, sizeof(times->ns[0]), compare_times);
	assert_true(times->nr);
	if (times->ns[times->nr / 2] >= ms * 1000000)
		fail_msg("%ld us", (long)(times->ns[times->nr / 2] / 1000));
}

/* Let time pass while the thread makes no call of the library. */
static inline void stay_away_us(int64_t us)
{
	for (int64_t end = uaio_now_ns() + us * 1000; uaio_now_ns() < end;)
		sched_yield();
}

/* Functions for a client that reads the ring in memory, without system calls */

static inline bool has_unread(void *arg)
{
	struct uaio_ring_map *map =
		(struct uaio_ring_map *)(uintptr_t) * (uint64_t *)arg;

	return load_acquire(&map->tail) != load_relaxed(&map->head);
}

/*
 * Wait until the ring has an event, and consume it in memory, without a call. Only this
 * thread consumes events.
 * Return: res of the event.
 */
static inline int64_t take_from_ring(uint64_t ring)
{
	struct uaio_ring_map *map = (struct uaio_ring_map *)(uintptr_t)ring;
	uint32_t head;
	int64_t res;

	unit_await(has_unread, &ring);
	head = load_relaxed(&map->head);
	res = map->events[head].res;
	store_release(&map->head, (head + 1) % map->nr);
	return res;
}

/* Stopping the fallback thread before it sleeps */

/*
 * All atomic. If `thread_is_held` is set, the hook stops threads; `nr_held` counts the
 * threads that it has stopped. `others_tids` has the ids of threads that also sleep in
 * an epoll, but are not stopped.
 */
static uint32_t thread_is_held, nr_held, others_tids[2];

static inline bool hold_thread(long nr, const long args[6], long *ret_res)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	(void)args;
	(void)ret_res;
	if (nr == SYS_prctl)
		unit_let_step();
	if (nr != SYS_epoll_pwait2 || tid == load_relaxed(&others_tids[0]) ||
	    tid == load_relaxed(&others_tids[1]))
		return false;
	add_seq_cst(&nr_held, 1);
	while (load_acquire(&thread_is_held))
		(void)uaio_sleep(&thread_is_held, 1, UAIO_FOREVER);
	sub_seq_cst(&nr_held, 1);
	return false;
}

static inline bool is_thread_held(void *arg)
{
	(void)arg;
	return load_seq_cst(&nr_held);
}

static inline bool is_no_thread_held(void *arg)
{
	(void)arg;
	return !load_seq_cst(&nr_held);
}

/*
 * Stop the fallback thread before its next sleep. So this thread does not begin to
 * watch the epoll of context `of`, and completes no timers.
 */
static inline void hold_fallback_thread(uint64_t of)
{
	store_relaxed(&others_tids[0], (uint32_t)syscall(SYS_gettid));
	store_relaxed(&others_tids[1], 0);
	store_release(&thread_is_held, 1);
	unit_hook(hold_thread);
	assert_true(uaio_enter());
	uaio_fallback_nudge(&uaio_ctx_find(of)->queue.group);
	uaio_leave();
	unit_await(is_thread_held, NULL);
}

static inline void let_fallback_thread_go(void)
{
	unit_hook(NULL);
	store_release(&thread_is_held, 0);
	uaio_wake(&thread_is_held, INT32_MAX);
	unit_await(is_no_thread_held, NULL);
}

#endif /* TEST_READY_H */

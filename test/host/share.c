/* SPDX-License-Identifier: MIT */
/*
 * Cases: a program with more contexts than the process may have descriptors. Each
 * context has a request that waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

enum {
	LIMIT = 1024,
	NR_FILES = 100, /* shared by all contexts */
	CONTEXTS_MAX = 2000,
};

static aio_context_t contexts[CONTEXTS_MAX];
static int files[NR_FILES];

static void limit_descriptors_to(rlim_t nr)
{
	const struct rlimit limit = { nr, nr };

	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static int new_event(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	REQUIRE(fd >= 0);
	return fd;
}

static void count_up(int fd)
{
	const uint64_t one = 1;

	REQUIRE(write(fd, &one, sizeof(one)) == sizeof(one));
}

static void park(aio_context_t ctx, int fd)
{
	struct iocb iocb = host_poll(fd);

	REQUIRE(host_submit(ctx, &iocb) == 1);
}

static long reap_for(aio_context_t ctx, time_t seconds, long ns)
{
	struct timespec timeout = { seconds, ns };
	struct io_event event;
	long ret = syscall(SYS_io_getevents, ctx, 1l, 1l, &event, &timeout);

	REQUIRE(ret <= 0 || event.res & POLLIN);
	return ret < 0 ? -errno : ret;
}

static void reap(aio_context_t ctx)
{
	struct io_event event;

	REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res & POLLIN);
}

/*
 * Return: how many descriptors the program can have: nr_open descriptors that are open
 * now, and all that it can still open.
 */
static unsigned count_own_numbers(unsigned nr_open)
{
	static int more[LIMIT];
	unsigned nr = 0;

	while ((more[nr] = dup(0)) >= 0)
		nr++;
	REQUIRE(errno == EMFILE);
	for (unsigned i = 0; i < nr; i++)
		REQUIRE(close(more[i]) == 0);
	return nr + nr_open;
}

/* Give each context a poll that waits. Many of the polls are on the same file. */
static void set_up(unsigned nr)
{
	limit_descriptors_to(LIMIT);
	for (unsigned i = 0; i < NR_FILES; i++)
		files[i] = new_event();
	for (unsigned i = 0; i < nr; i++) {
		contexts[i] = host_context(2);
		park(contexts[i], files[i % NR_FILES]);
	}
}

/*
 * Without the library, destroy only some contexts, because the kernel's io_destroy is
 * slow. The kernel destroys the remaining contexts when the process exits.
 */
static void end_all(unsigned nr)
{
	unsigned nr_ended = host_is_uaio() ? nr : 10;

	for (unsigned i = 0; i < nr_ended; i++)
		REQUIRE(host_destroy(contexts[i]) == 0);
}

/*
 * Tests that the program can still open most of its descriptors, and that each request
 * completes
 */

static int park_in_all(void *arg)
{
	unsigned nr = *(const unsigned *)arg;

	set_up(nr);
	REQUIRE(count_own_numbers(NR_FILES) >= LIMIT * 3 / 4);
	for (unsigned i = 0; i < nr; i++)
		REQUIRE(reap_for(contexts[i], 0, 0) == 0);
	for (unsigned i = 0; i < NR_FILES; i++)
		count_up(files[i]);
	for (unsigned i = 0; i < nr; i++)
		reap(contexts[i]);
	for (unsigned i = 0; i < nr; i++)
		REQUIRE(reap_for(contexts[i], 0, 0) == 0);
	end_all(nr);
	return 0;
}

void share_of_descriptors(void)
{
	static unsigned numbers[] = { 600, CONTEXTS_MAX };

	for (size_t i = 0; i < NR_ELEMENTS(numbers); i++)
		REQUIRE(host_in_child(park_in_all, &numbers[i]) == 0);
}

/* Each way to wait for a completion, while the program has many contexts */

struct waiter {
	aio_context_t ctx;
	pthread_t thread;
	uint32_t tid; /* atomic */
	bool has_timeout;
	bool has_mask;
};

static void *wait_for_event(void *arg)
{
	const struct timespec minute = { .tv_sec = 60 };
	struct waiter *waiter = arg;
	struct io_event event;
	uint64_t mask = 0;
	struct {
		const uint64_t *mask;
		size_t bytes;
	} signals = { &mask, sizeof(mask) };

	__atomic_store_n(&waiter->tid, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
	REQUIRE(syscall(SYS_io_pgetevents, waiter->ctx, 1l, 1l, &event,
			waiter->has_timeout ? &minute : NULL,
			waiter->has_mask ? &signals : NULL) == 1);
	REQUIRE(event.res & POLLIN);
	return NULL;
}

static void wait_in_vain(aio_context_t ctx)
{
	struct timespec before, after;
	int64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &before);
	REQUIRE(reap_for(ctx, 0, 20000000) == 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	ns = (after.tv_sec - before.tv_sec) * 1000000000ll + after.tv_nsec -
	     before.tv_nsec;
	REQUIRE(ns >= 20000000);
}

static void by_waiter(aio_context_t ctx, bool has_timeout, bool has_mask)
{
	struct waiter waiter = {
		.ctx = ctx,
		.has_timeout = has_timeout,
		.has_mask = has_mask,
	};
	int fd = new_event();
	pid_t tid;

	park(ctx, fd);
	wait_in_vain(ctx);
	REQUIRE(!pthread_create(&waiter.thread, NULL, wait_for_event, &waiter));
	while (!(tid = (pid_t)__atomic_load_n(&waiter.tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	host_await_sleep(tid);
	count_up(fd);
	REQUIRE(!pthread_join(waiter.thread, NULL));
	REQUIRE(close(fd) == 0);
}

/*
 * A thread waits in the context. The request that it waits for is submitted later, by
 * another thread.
 */
static void by_later_request(aio_context_t ctx)
{
	struct waiter waiter = { .ctx = ctx };
	int idle = new_event(), fd = new_event();
	struct iocb iocb = host_poll(idle);
	struct io_event event;
	pid_t tid;

	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(!pthread_create(&waiter.thread, NULL, wait_for_event, &waiter));
	while (!(tid = (pid_t)__atomic_load_n(&waiter.tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	host_await_sleep(tid);
	park(ctx, fd);
	count_up(fd);
	REQUIRE(!pthread_join(waiter.thread, NULL));
	/* A cancelled request must have an event, too. */
	REQUIRE(syscall(SYS_io_cancel, ctx, &iocb, &event) < 0 &&
		errno == EINPROGRESS);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(event.obj == (uintptr_t)&iocb);
	REQUIRE(close(fd) == 0 && close(idle) == 0);
}

/* Fields of the kernel's AIO ring that programs read and write. */
struct ring {
	uint32_t id;
	uint32_t nr;
	uint32_t head; /* atomic */
	uint32_t tail; /* atomic */
	uint32_t magic;
};

static void by_ring(aio_context_t ctx)
{
	struct ring *ring = (struct ring *)(uintptr_t)ctx;
	uint32_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	int fd = new_event();

	REQUIRE(ring->magic == 0xa10a10a1);
	REQUIRE(__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) == tail);
	park(ctx, fd);
	count_up(fd);
	while (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) == tail)
		sched_yield();
	reap(ctx);
	REQUIRE(close(fd) == 0);
}

static void by_resfd(aio_context_t ctx)
{
	int fd = new_event(), resfd = new_event();
	struct pollfd slot = { .fd = resfd, .events = POLLIN };
	struct iocb iocb = host_poll(fd);

	iocb.aio_flags |= IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)resfd;
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(poll(&slot, 1, 20) == 0);
	count_up(fd);
	REQUIRE(poll(&slot, 1, -1) == 1);
	reap(ctx);
	REQUIRE(close(fd) == 0 && close(resfd) == 0);
}

/*
 * Requests of two contexts wait on one file. One request is cancelled, or its context is
 * destroyed; the request of the other context must still complete.
 */
static void beside_one_that_goes(aio_context_t ctx)
{
	aio_context_t other = host_context(2);
	int fd = new_event();
	struct iocb iocb = host_poll(fd);
	struct io_event event;

	park(ctx, fd);
	REQUIRE(host_submit(other, &iocb) == 1);
	REQUIRE(syscall(SYS_io_cancel, other, &iocb, &event) < 0 &&
		errno == EINPROGRESS);
	REQUIRE(host_reap(other, 1, &event) == 1);
	park(other, fd);
	REQUIRE(host_destroy(other) == 0);
	REQUIRE(reap_for(ctx, 0, 0) == 0);
	count_up(fd);
	reap(ctx);
	REQUIRE(close(fd) == 0);
}

/*
 * A poll waits on a descriptor, which is then closed and reused for another file. The
 * poll must stay with the old file.
 */
static void with_number_reused(aio_context_t ctx)
{
	aio_context_t other = host_context(2);
	int old[2], new[2];

	REQUIRE(pipe2(old, O_CLOEXEC) == 0);
	park(ctx, old[0]);
	REQUIRE(close(old[0]) == 0);
	REQUIRE(pipe2(new, O_CLOEXEC) == 0 && new[0] == old[0]);
	park(other, new[0]);
	REQUIRE(write(old[1], "x", 1) == 1);
	reap(ctx);
	REQUIRE(reap_for(other, 0, 0) == 0);
	REQUIRE(write(new[1], "x", 1) == 1);
	reap(other);
	REQUIRE(host_destroy(other) == 0);
	REQUIRE(close(old[1]) == 0 && close(new[0]) == 0 && close(new[1]) == 0);
}

static int park_in_child(void *arg)
{
	aio_context_t ctx = host_context(2);
	int fd = new_event();

	(void)arg;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t count;

		park(ctx, fd);
		count_up(fd);
		reap(ctx);
		REQUIRE(read(fd, &count, sizeof(count)) == sizeof(count));
	}
	set_up(600 - NR_FILES);
	end_all(600 - NR_FILES);
	return 0;
}

static void beside_child(aio_context_t ctx)
{
	int fd = new_event();

	park(ctx, fd);
	REQUIRE(host_in_child(park_in_child, NULL) == 0);
	REQUIRE(reap_for(ctx, 0, 0) == 0);
	count_up(fd);
	reap(ctx);
	REQUIRE(close(fd) == 0);
}

static int learn_of_events(void *arg)
{
	enum { NR = 600 };
	aio_context_t ctx;

	(void)arg;
	set_up(NR);
	ctx = host_context(4);
	for (unsigned i = 0; i < 3; i++) {
		by_waiter(ctx, i, i == 2);
		by_later_request(ctx);
		by_ring(ctx);
		by_resfd(ctx);
		beside_one_that_goes(ctx);
		with_number_reused(ctx);
		beside_child(ctx);
	}
	REQUIRE(host_destroy(ctx) == 0);
	/* The requests that set_up() submitted to 600 other contexts must still complete. */
	for (unsigned i = 0; i < NR_FILES; i++)
		count_up(files[i]);
	for (unsigned i = 0; i < NR; i++)
		reap(contexts[i]);
	end_all(NR);
	return 0;
}

void share_is_used_up(void)
{
	REQUIRE(host_in_child(learn_of_events, NULL) == 0);
}

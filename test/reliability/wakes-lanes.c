/* SPDX-License-Identifier: MIT */
/* The reaping process and the waking process (see wakes.h) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "clock.h"
#include "wakes-door.h"

static struct seat seats[NR_LANES];

/* Waiting for descriptors */

static void add(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

void watch_open(struct watch *watch, int fd, enum way way)
{
	*watch = (struct watch){ way, fd, -1, -1 };
	if (way < BY_LEVEL)
		return;
	watch->epoll = epoll_create1(EPOLL_CLOEXEC);
	REQUIRE(watch->epoll >= 0);
	add(watch->epoll, fd,
	    EPOLLIN | (way == BY_EDGE      ? EPOLLET
		       : way == BY_ONESHOT ? EPOLLONESHOT
					   : 0u));
	if (way != BY_NESTED)
		return;
	watch->outer = epoll_create1(EPOLL_CLOEXEC);
	REQUIRE(watch->outer >= 0);
	add(watch->outer, watch->epoll, EPOLLIN);
}

void watch_close(struct watch *watch)
{
	if (watch->outer >= 0)
		REQUIRE(close(watch->outer) == 0);
	if (watch->epoll >= 0)
		REQUIRE(close(watch->epoll) == 0);
}

/* Repeat the call if a signal, a stop or a tracer interrupts it. */
static void sleep_in_epoll(int epoll)
{
	struct epoll_event event;
	int ret;

	do
		ret = epoll_wait(epoll, &event, 1, -1);
	while (ret < 0 && errno == EINTR);
	REQUIRE(ret == 1);
}

void watch_sleep(const struct watch *watch)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	struct pollfd pfd = { .fd = watch->fd, .events = POLLIN };
	int ret;

	switch (watch->way) {
	case IN_CALL:
	case BY_READ: return;
	case BY_POLL:
		do
			ret = poll(&pfd, 1, -1);
		while (ret < 0 && errno == EINTR);
		REQUIRE(ret == 1);
		return;
	case BY_ONESHOT:
		event.data.fd = watch->fd;
		REQUIRE(epoll_ctl(watch->epoll, EPOLL_CTL_MOD, watch->fd,
				  &event) == 0);
		sleep_in_epoll(watch->epoll);
		return;
	case BY_NESTED:
		sleep_in_epoll(watch->outer);
		/*
		 * The inner epoll may report no event. This is no failure: the caller
		 * checks itself whether there is a completion.
		 */
		ret = epoll_wait(watch->epoll, &event, 1, 0);
		REQUIRE(ret >= 0 || errno == EINTR);
		return;
	case BY_LEVEL:
	case BY_EDGE: sleep_in_epoll(watch->epoll); return;
	}
}

bool watch_read(const struct watch *watch, void *buffer, size_t bytes)
{
	ssize_t ret;

	do
		ret = read(watch->fd, buffer, bytes);
	while (ret < 0 && errno == EINTR);
	REQUIRE(ret == (ssize_t)bytes || (ret < 0 && errno == EAGAIN));
	return ret > 0;
}

/*
 * Seats
 */

int seat_fd(const struct seat *seat)
{
	return seat->kind->ask->request == DIRECT ? seat->file
						  : seat->lane->ends[0];
}

void seat_check(struct seat *seat, long result)
{
	const unsigned char byte = (unsigned char)seat->number;

	switch (seat->kind->ask->request) {
	case READ: REQUIRE(result == 1 && seat->buffer[0] == byte); return;
	case POLL:
		REQUIRE(result & POLLIN);
		REQUIRE(read(seat->lane->ends[0], seat->buffer, 1) == 1);
		REQUIRE(seat->buffer[0] == byte);
		return;
	case TIMEOUT: REQUIRE(result == -ETIME); return;
	case NOP: REQUIRE(result == 0); return;
	case MESSAGE: REQUIRE(result == byte); return;
	/* the result of a cancelled poll depends on the interface */
	case CANCEL: return;
	case DIRECT:
		REQUIRE(result == BLOCK);
		REQUIRE(seat->buffer[0] == seat->block);
		REQUIRE(seat->buffer[BLOCK - 1] == seat->block);
		return;
	}
}

void team_start(struct seat *seat, void *(*thread)(void *))
{
	REQUIRE(pthread_mutex_init(&seat->mutex, NULL) == 0);
	REQUIRE(sem_init(&seat->called, 0, 0) == 0);
	for (unsigned i = 0; i < NR_TEAM; i++)
		REQUIRE(pthread_create(&seat->team[i], NULL, thread, seat) ==
			0);
}

void team_join(struct seat *seat)
{
	for (unsigned i = 0; i < NR_TEAM; i++)
		REQUIRE(pthread_join(seat->team[i], NULL) == 0);
}

void team_report(struct seat *seat, uint64_t number, long result)
{
	seat->taken = number;
	seat->result = result;
	REQUIRE(sem_post(&seat->called) == 0);
}

long team_await(struct seat *seat)
{
	while (sem_wait(&seat->called))
		REQUIRE(errno == EINTR);
	REQUIRE(seat->taken == seat->number);
	return seat->result;
}

/* Return: a file without a name, with O_DIRECT if the file system supports that. */
static int new_file(unsigned char *buffer)
{
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), flags;

	REQUIRE(fd >= 0);
	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		memset(buffer, (int)i, BLOCK);
		REQUIRE(pwrite(fd, buffer, BLOCK, (off_t)i * BLOCK) == BLOCK);
	}
	REQUIRE(fsync(fd) == 0);
	flags = fcntl(fd, F_GETFL);
	(void)!fcntl(fd, F_SETFL, flags | O_DIRECT);
	return fd;
}

static void seat_open(struct seat *seat)
{
	seat->buffer = aligned_alloc(BLOCK, BLOCK);
	REQUIRE(seat->buffer);
	seat->event = seat->file = seat->bystander = -1;
	if (seat->kind->ask->request == DIRECT)
		seat->file = new_file(seat->buffer);
	/*
	 * Usually also poll an eventfd that is never ready: other waiting requests may
	 * influence how, and by which thread, the reaper is woken.
	 */
	if (random_below(&seat->random, 4)) {
		seat->bystander = eventfd(0, EFD_CLOEXEC);
		REQUIRE(seat->bystander >= 0);
	}
	seat->kind->door->open(seat);
}

static void seat_close(struct seat *seat)
{
	seat->kind->door->close(seat);
	if (seat->event >= 0)
		REQUIRE(close(seat->event) == 0);
	if (seat->file >= 0)
		REQUIRE(close(seat->file) == 0);
	if (seat->bystander >= 0)
		REQUIRE(close(seat->bystander) == 0);
	free(seat->buffer);
}

/*
 * Reapers
 */

/*
 * Sometimes wait for a moment, so that wakers and reapers act in all possible orders.
 */
static void dawdle(struct random *random)
{
	const uint32_t what = random_below(random, 128);
	uint32_t n;

	if (what >= 80 && what < 122)
		for (n = random_below(random, 16u << what % 11); n; n--)
			__asm__ volatile("" ::: "memory");
	else if (what >= 122 && what < 127)
		sched_yield();
	else if (what == 127)
		usleep(random_below(random, 100));
}

static void become_idle(bool is_asked)
{
	const struct sched_param param = { 0 };

	if (is_asked)
		REQUIRE(sched_setscheduler(0, SCHED_IDLE, &param) == 0);
}

static long futex(uint32_t *word, int call, uint32_t value)
{
	return syscall(SYS_futex, word, call, value, NULL, NULL, 0);
}

/* Mark the reaper's lane as idle, which allows the waker to wake this reaper. */
static void offer(struct seat *seat)
{
	struct idle *idle = &shared->stage.idle[seat->kind->ask->waker];
	uint32_t nr;

	store_release(&seat->lane->is_idle, 1);
	nr = add_seq_cst(&idle->nr, 1) + 1;
	if (nr >= load_seq_cst(&idle->wanted))
		(void)futex(&idle->nr, FUTEX_WAKE, 1);
}

/*
 * The waker sleeps here until `wanted` reapers may be woken. Then it wakes them one after
 * another. If it slept before each wake, it would sleep most of the time.
 */
static void await_idle(struct idle *idle, uint32_t wanted)
{
	uint32_t nr;

	store_seq_cst(&idle->wanted, wanted);
	while ((nr = load_seq_cst(&idle->nr)) < wanted)
		(void)futex(&idle->nr, FUTEX_WAIT, nr);
	store_seq_cst(&idle->wanted, UINT32_MAX);
}

/* Prepare the reaper's next wake: submit a request, and let the waker complete it. */
static void begin_wake(struct seat *seat)
{
	const struct ask *ask = seat->kind->ask;
	struct lane *lane = seat->lane;

	seat->number = load_relaxed(&lane->acked) + 1;
	seat->block = random_below(&seat->random, NR_BLOCKS);
	if (ask->waker == NOBODY) {
		if (load_acquire(&shared->stage.is_over))
			store_relaxed(&lane->is_last, 1);
		lane->fed_ns = now_ns();
		store_release(&lane->fed, seat->number);
		seat->kind->door->arm(seat);
		return;
	}
	/*
	 * Sometimes allow the wake before the request is submitted. Never do so with
	 * CANCEL, because only a submitted request can be cancelled.
	 */
	if (ask->request != CANCEL && random_below(&seat->random, 4) == 0) {
		offer(seat);
		dawdle(&seat->random);
		seat->kind->door->arm(seat);
	} else {
		seat->kind->door->arm(seat);
		offer(seat);
	}
}

/*
 * Note in shared memory that this reaper has been woken. The supervisor watches this.
 * Return: whether this was the reaper's last wake.
 */
static bool acknowledge(struct seat *seat)
{
	struct lane *lane = seat->lane;
	int64_t took_ns;
	bool is_last;

	/*
	 * Before a wake, the waker sets `fed` to the wake's number. So if the request
	 * had completed without this wake, `fed` would be less than seat->number.
	 */
	REQUIRE(load_acquire(&lane->fed) == seat->number);
	took_ns = now_ns() - lane->fed_ns;
	if (took_ns > lane->longest_ns)
		lane->longest_ns = took_ns;
	is_last = load_relaxed(&lane->is_last);
	store_release(&lane->acked, seat->number);
	return is_last;
}

static void *reap(void *arg)
{
	struct seat *seat = arg;

	become_idle(shared->stage.condition->has_idle_reapers);
	seat_open(seat);
	do {
		begin_wake(seat);
		dawdle(&seat->random);
		seat->kind->door->await(seat);
	} while (!acknowledge(seat));
	seat_close(seat);
	store_release(&seat->lane->has_ended, 1);
	return NULL;
}

/*
 * Wakers
 */

static void put(const struct lane *lane, uint64_t number)
{
	const unsigned char byte = (unsigned char)number;

	REQUIRE(write(lane->ends[1], &byte, 1) == 1);
}

/*
 * Find the next lane of this waker whose reaper may be woken (is_idle), beginning after
 * lane `after`. Clear is_idle.
 * Return: the lane's index.
 */
static unsigned next_idle(enum waker waker, unsigned after)
{
	struct stage *stage = &shared->stage;

	for (unsigned i = 1; i <= stage->nr_lanes; i++) {
		const unsigned nr = (after + i) % stage->nr_lanes;
		struct lane *lane = &stage->lanes[nr];

		if (lane->kind->ask->waker == waker &&
		    load_acquire(&lane->is_idle)) {
			store_relaxed(&lane->is_idle, 0);
			return nr;
		}
	}
	fail("a lane is idle, and none says so");
}

/*
 * Wake the reapers of this waker, until each reaper has had its last wake.
 */
static void wake_all(enum waker waker,
		     void (*wake)(unsigned nr, uint64_t number))
{
	struct stage *stage = &shared->stage;
	struct random random = { stage->seed + NR_LANES + waker };
	struct idle *idle = &stage->idle[waker];
	unsigned nr_left = 0, nr = 0;

	become_idle(stage->condition->has_idle_wakers);
	for (unsigned i = 0; i < stage->nr_lanes; i++)
		nr_left += stage->lanes[i].kind->ask->waker == waker;
	while (nr_left) {
		struct lane *lane;
		uint64_t number;

		if (!load_seq_cst(&idle->nr))
			await_idle(idle,
				   1 + random_below(&random, 1 + nr_left / 2));
		sub_seq_cst(&idle->nr, 1);
		dawdle(&random);
		nr = next_idle(waker, nr);
		lane = &stage->lanes[nr];
		if (load_acquire(&stage->is_over)) {
			store_relaxed(&lane->is_last, 1);
			nr_left--;
		}
		number = load_relaxed(&lane->fed) + 1;
		lane->fed_ns = now_ns();
		store_release(&lane->fed, number);
		wake(nr, number);
	}
}

static void wake_by_byte(unsigned nr, uint64_t number)
{
	put(&shared->stage.lanes[nr], number);
}

static struct uring messages; /* ring of the waking thread */

static void wake_by_request(unsigned nr, uint64_t number)
{
	const struct seat *seat = &seats[nr];

	if (seat->kind->ask->request == MESSAGE)
		uring_message(&messages, seat, number);
	else if (seat->kind->ask->request == CANCEL)
		seat->kind->door->cancel(&seats[nr]);
	else
		put(seat->lane, number);
}

static void *wake_by_thread(void *arg)
{
	bool has_messages = false;

	(void)arg;
	for (unsigned i = 0; i < shared->stage.nr_lanes; i++)
		has_messages |= seats[i].kind->ask->request == MESSAGE;
	if (has_messages)
		uring_for_messages(&messages);
	wake_all(THREAD, wake_by_request);
	if (has_messages) {
		REQUIRE(close(messages.fd) == 0);
		uring_unmap(&messages);
	}
	return NULL;
}

/*
 * Processes
 */

static void await_go(void)
{
	while (sem_wait(&shared->stage.go))
		REQUIRE(errno == EINTR);
}

_Noreturn void waking_process(void)
{
	await_go();
	wake_all(PROCESS, wake_by_byte);
	exit(0);
}

/*
 * Return: how many descriptors below 512 are open. The library uses only higher ones,
 * if the limit allows.
 */
static unsigned count_descriptors(void)
{
	enum { LIBRARY_FIRST = 512 };
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	struct rlimit limit;
	unsigned nr = 0;

	if (!dir)
		return 0;
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	while (limit.rlim_cur > LIBRARY_FIRST && (entry = readdir(dir)))
		nr += atoi(entry->d_name) < LIBRARY_FIRST;
	closedir(dir);
	return nr;
}

static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
		sigaddset(&set, signal);
	REQUIRE(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

_Noreturn void reaping_process(void)
{
	const struct stage *stage = &shared->stage;
	pthread_t reapers[NR_LANES], waker;
	const unsigned nr_before = count_descriptors();

#ifdef __GLIBC__
	/*
	 * Each waiting read may occupy one of the threads with which glibc executes
	 * requests, so allow many threads.
	 */
	aio_init(&(struct aioinit){ .aio_threads = 64, .aio_num = 64 });
#endif
	block_signals();
	for (unsigned i = 0; i < stage->nr_lanes; i++) {
		struct lane *lane = &shared->stage.lanes[i];

		seats[i] = (struct seat){ .lane = lane,
					  .kind = lane->kind,
					  .index = i,
					  .random = { stage->seed + i } };
	}
	await_go();
	for (unsigned i = 0; i < stage->nr_lanes; i++)
		REQUIRE(pthread_create(&reapers[i], NULL, reap, &seats[i]) ==
			0);
	REQUIRE(pthread_create(&waker, NULL, wake_by_thread, NULL) == 0);
	for (unsigned i = 0; i < stage->nr_lanes; i++)
		REQUIRE(pthread_join(reapers[i], NULL) == 0);
	REQUIRE(pthread_join(waker, NULL) == 0);
	if (count_descriptors() != nr_before)
		fail("%u descriptors were open, and %u are", nr_before,
		     count_descriptors());
	exit(0);
}

/* SPDX-License-Identifier: MIT */
/*
 * Threads that disturb the threads that submit. They replace descriptors, send signals,
 * fork, make and close rings, leave calls by siglongjmp(), and are cancelled in calls.
 */
#include "rings.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "older.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { SIG_JUMP = SIGUSR1, SIG_STORM = SIGUSR2, NS_PER_US = 1000 };

static bool is_over(void)
{
	return __atomic_load_n(&world.is_over, __ATOMIC_ACQUIRE);
}

static void count(uint64_t *counter, uint64_t nr)
{
	__atomic_add_fetch(counter, nr, __ATOMIC_RELAXED);
}

/*
 * Descriptors
 */

static void replace_file(struct thread *thread)
{
	const unsigned pair = any(thread, NR_PAIRS);
	const int to = PAIR_FD + (int)pair;
	const int fd = world.files[pair_files[pair][any(thread, 2)]];

	switch (any(thread, 4)) {
	case 0: close(to); break;
	case 1: require(dup2(fd, to) == to, "dup2()"); break;
	default: require(dup3(fd, to, O_CLOEXEC) == to, "dup3()");
	}
}

static void replace_stream(struct thread *thread)
{
	const int to = STREAM_FD + (int)any(thread, 2);
	const int fd = world.streams[any(thread, 2)].ends[0];

	if (any(thread, 4) == 0)
		close(to);
	else
		require(dup3(fd, to, O_CLOEXEC) == to, "dup3()");
}

static void replace_registered(struct thread *thread)
{
	const struct ring *ring = &rings[any(thread, NR_SHARED)];
	const unsigned pair = any(thread, NR_PAIRS);
	int fd = any(thread, 4) ? world.files[pair_files[pair][any(thread, 2)]]
				: -1;
	const struct io_uring_rsrc_update update = {
		.offset = PAIR_INDEX + pair,
		.data = (uintptr_t)&fd,
	};
	long ret = uring_register(ring->uring.fd, IORING_REGISTER_FILES_UPDATE,
				  &update, 1);

	if (ret != 1 && ret != -EINTR)
		failed("IORING_REGISTER_FILES_UPDATE is %ld", ret);
}

void *replace_descriptors(void *arg)
{
	struct thread *thread = arg;

	while (!is_over()) {
		const uint32_t what = any(thread, 16);

		if (what == 0)
			require(close_range(PAIR_FD, OWN_FD - 1, 0) == 0,
				"close_range()");
		else if (what < 7)
			replace_file(thread);
		else if (what < 10)
			replace_stream(thread);
		else
			replace_registered(thread);
		pause_us(any(thread, 100));
	}
	return NULL;
}

/*
 * Signals
 */

/* A ring to which signal handlers submit. Only one handler uses it at a time. */
static struct {
	struct uring uring;
	uint32_t is_used; /* atomic */
	uint32_t nr_accepted, nr_taken;
} storm;

void open_storm_ring(void)
{
	const struct io_uring_params params = { 0 };

	memset(&storm, 0, sizeof(storm));
	require(uring_open(&storm.uring, 8, &params) == 0,
		"a ring for handlers");
}

void close_storm_ring(void)
{
	/*
	 * Mark the ring as used: if a signal comes late, its handler then does not
	 * touch the ring.
	 */
	(void)__atomic_exchange_n(&storm.is_used, 1, __ATOMIC_ACQUIRE);
	storm.nr_taken += uring_take_all(&storm.uring);
	if (!world.may_leave && storm.nr_taken != storm.nr_accepted)
		failed("handlers have submitted %u NOPs, of which %u have "
		       "completed",
		       storm.nr_accepted, storm.nr_taken);
	uring_unmap(&storm.uring);
	require(close(storm.uring.fd) == 0, "close() of a ring");
}

static void on_storm(int sig)
{
	const int saved = errno;
	struct uring *uring = &storm.uring;

	(void)sig;
	count(&record->nr_signals, 1);
	if (!__atomic_exchange_n(&storm.is_used, 1, __ATOMIC_ACQUIRE)) {
		uring->prepared = *uring->sq_tail;
		if (uring_publish(uring) == 0)
			uring_put(uring, IORING_OP_NOP, -1, 0);
		if (uring_submit(uring) == 1)
			storm.nr_accepted++;
		storm.nr_taken += uring_take_all(uring);
		__atomic_store_n(&storm.is_used, 0, __ATOMIC_RELEASE);
	}
	errno = saved;
}

static volatile sig_atomic_t is_armed;
static sigjmp_buf out;

static void on_jump(int sig)
{
	(void)sig;
	if (!is_armed)
		return;
	is_armed = 0;
	count(&record->nr_jumps, 1);
	siglongjmp(out, 1);
}

void handle_signals(struct thread *thread)
{
	struct sigaction storming = {
		.sa_handler = on_storm,
		.sa_flags = any(thread, 2) ? SA_RESTART : 0,
	};
	struct sigaction jumping = { .sa_handler = on_jump };

	/*
	 * Block SIG_JUMP while the handler of SIG_STORM runs: a jump must not leave
	 * that handler.
	 */
	(void)sigaddset(&storming.sa_mask, SIG_JUMP);
	require(sigaction(SIG_STORM, &storming, NULL) == 0, "sigaction()");
	require(sigaction(SIG_JUMP, &jumping, NULL) == 0, "sigaction()");
}

static void set_timer(timer_t timer, long ns)
{
	const struct itimerspec spec = { { 0, ns }, { 0, ns } };

	require(timer_settime(timer, 0, &spec, NULL) == 0, "timer_settime()");
}

void *send_signals(void *arg)
{
	struct thread *thread = arg;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIG_STORM };
	timer_t timer;

	require(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0,
		"timer_create()");
	set_timer(timer, (100 + any(thread, 400)) * NS_PER_US);
	while (!is_over()) {
		const unsigned which = any(thread, world.nr_threads);

		require(pthread_kill(world.threads[which].thread, SIG_STORM) ==
				0,
			"pthread_kill()");
		pause_us(any(thread, 200));
	}
	require(timer_delete(timer) == 0, "timer_delete()");
	return NULL;
}

/*
 * Children
 */

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		require(errno == EINTR, "waitpid()");
	return status;
}

/*
 * Return: the child's pid; 0 in the child; -1 if the system cannot create a process.
 */
static pid_t fork_one(void)
{
	pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pid < 0)
		require(errno == EAGAIN || errno == ENOMEM, "fork()");
	else if (pid > 0)
		count(&record->nr_children, 1);
	return pid;
}

/*
 * In a child of fork(): submit to the parent's ring, and stay until all completions are
 * in the ring. With the library, a completion that finds the ring full is lost when the
 * child ends (doc/differences.md).
 */
static int submit_in_child(const struct batch *batch)
{
	const struct uring *uring = &batch->ring->uring;
	long ret = uring_enter(uring->fd, batch->nr, 0, 0, NULL, 0);

	while (load(uring->sq_flags) & IORING_SQ_CQ_OVERFLOW) {
		(void)uring_enter(uring->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL,
				  0);
		pause_us(100);
	}
	return ret != (long)batch->nr;
}

static void fork_user(struct thread *thread)
{
	struct ring *ring = any_plain_ring(thread);
	struct batch batch;
	int status = 0;
	pid_t pid, ended;

	lock(&ring->sq_lock);
	begin_batch(&batch, thread, ring, true, 1 + any(thread, 4));
	pid = fork_one();
	if (pid == 0)
		_exit(submit_in_child(&batch));
	while (pid > 0 && (ended = waitpid(pid, &status, WNOHANG)) != pid) {
		require(ended == 0 || errno == EINTR, "waitpid()");
		(void)uring_enter(ring->uring.fd, 0, 0, IORING_ENTER_GETEVENTS,
				  NULL, 0);
		if (!reap(ring))
			pause_us(100);
	}
	(void)settle(&batch);
	unlock(&ring->sq_lock);
	if (status)
		failed("a child that submits to its parent's ring has the "
		       "status %#x",
		       status);
}

/* Return: 0, or the number of the step that failed. */
static int use_own_ring(void)
{
	enum { NR_NOPS = 4 };
	const struct io_uring_params params = { 0 };
	struct io_uring_cqe cqe;
	uint64_t words[WORDS];
	struct uring uring;
	unsigned nr = 0;

	if (uring_open(&uring, 8, &params) < 0)
		return 1;
	for (unsigned i = 0; i < NR_NOPS; i++)
		(void)uring_put(&uring, IORING_OP_NOP, -1, i);
	(void)uring_put_rw(&uring, IORING_OP_READ, world.files[1],
			   (uintptr_t)words, sizeof(words), 0, NR_NOPS);
	if (uring_submit_wait(&uring, NR_NOPS + 1) != NR_NOPS + 1)
		return 2;
	for (; uring_take(&uring, &cqe); nr++)
		if (cqe.res != (cqe.user_data == NR_NOPS ? BLOCK : 0))
			return 3;
	if (nr != NR_NOPS + 1)
		return 4;
	for (uint32_t i = 0; i < WORDS; i++)
		if (!(files_of(id_of(words[i])) & 2) || (uint32_t)words[i] != i)
			return 5;
	return close(uring.fd) == 0 ? 0 : 6;
}

static void fork_own(void)
{
	pid_t pid = fork_one();
	int status = 0;

	if (pid == 0)
		_exit(use_own_ring());
	if (pid > 0)
		status = wait_for(pid);
	if (status)
		failed("a child with a ring of its own has the status %#x",
		       status);
}

static void spawn_one(void)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	pid_t pid;

	if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ) != 0)
		return;
	require(wait_for(pid) == 0, "a program that was spawned");
	count(&record->nr_children, 1);
}

void *fork_children(void *arg)
{
	struct thread *thread = arg;

	thread->leaves = true;
	while (!is_over()) {
		const uint32_t what = any(thread, 12);

		if (what == 0) {
			spawn_one();
		} else if (what < 6) {
			fork_user(thread);
		} else if (what < 9) {
			fork_own();
		} else {
			pid_t pid = fork_one();

			if (pid == 0)
				_exit(0);
			if (pid > 0)
				require(wait_for(pid) == 0, "a child");
		}
		pause_us(any(thread, 6000));
	}
	return NULL;
}

/* Rings that are created, used and closed while their requests may be in flight */

enum { MADE_MAX = 8 };

/* Memory that requests of a closed ring may still use later */
static struct {
	uint64_t read[MADE_MAX][WORDS];
	uint64_t written[MADE_MAX][WORDS];
} made;
static const struct __kernel_timespec for_long = { .tv_sec = 1000 };

static uint32_t made_block(unsigned i)
{
	return NR_BLOCKS - NR_SPARE + i;
}

/*
 * Fill the memory for writes with the words that the files already contain, so that a
 * late write changes nothing.
 */
static void fill_made(void)
{
	for (unsigned i = 0; i < MADE_MAX; i++)
		for (uint32_t k = 0; k < WORDS; k++)
			made.written[i][k] = word_of(i % NR_STABLE, 0,
						     made_block(i) * WORDS + k);
}

static void put_made(struct thread *thread, struct uring *uring, unsigned i)
{
	const uint64_t at = (uint64_t)made_block(i) * BLOCK;
	const int fd = world.files[i % NR_STABLE];

	switch (any(thread, 6)) {
	case 0:
		(void)uring_put_rw(uring, IORING_OP_READ, fd,
				   (uintptr_t)made.read[i], BLOCK, at, i);
		break;
	case 1:
		(void)uring_put_rw(uring, IORING_OP_READ, world.stall[0],
				   (uintptr_t)made.read[i], BLOCK, (uint64_t)-1,
				   i);
		break;
	case 2:
		(void)uring_put_rw(uring, IORING_OP_TIMEOUT, -1,
				   (uintptr_t)&for_long, 1, 0, i);
		break;
	case 3:
		uring_put_rw(uring, IORING_OP_WRITE, fd,
			     (uintptr_t)made.written[i], BLOCK, at, i)
			->flags = IOSQE_ASYNC;
		break;
	default: (void)uring_put(uring, IORING_OP_NOP, -1, i);
	}
}

static void take_made(struct uring *uring, unsigned nr)
{
	struct io_uring_cqe cqe;
	unsigned seen = 0, nr_taken = 0;

	for (; uring_take(uring, &cqe); nr_taken++) {
		if (cqe.user_data >= nr || seen & 1u << cqe.user_data)
			failed("a new ring has a completion of nobody's: %#llx",
			       (unsigned long long)cqe.user_data);
		seen |= 1u << cqe.user_data;
	}
	count(&record->nr_completed, nr_taken);
}

static void make_one(struct thread *thread)
{
	static const uint32_t flags[] = {
		0,
		IORING_SETUP_NO_SQARRAY,
		IORING_SETUP_COOP_TASKRUN,
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_SQPOLL,
	};
	const struct io_uring_params params = {
		.flags = IORING_SETUP_SUBMIT_ALL |
			 flags[any(thread, NR_ELEMENTS(flags))],
		.sq_thread_idle = 1,
	};
	const bool is_polled = params.flags & IORING_SETUP_SQPOLL;
	const unsigned nr = any(thread, MADE_MAX + 1);
	struct uring uring;
	int other = -1;
	long ret;

	require(uring_open(&uring, MADE_MAX, &params) == 0, "a new ring");
	for (unsigned i = 0; i < nr; i++)
		put_made(thread, &uring, i);
	(void)uring_publish(&uring);
	ret = uring_enter(uring.fd, nr, 0,
			  is_polled ? IORING_ENTER_SQ_WAKEUP
				    : IORING_ENTER_GETEVENTS,
			  NULL, 0);
	if (ret != (long)nr && ret != -EINTR && ret != -EAGAIN)
		failed("a new ring has accepted %ld of %u submissions", ret,
		       nr);
	if (any(thread, 2))
		take_made(&uring, nr);
	if (any(thread, 4) == 0)
		other = dup(uring.fd);
	if (any(thread, 2)) {
		require(close(uring.fd) == 0, "close() of a new ring");
		uring_unmap(&uring);
	} else {
		uring_unmap(&uring);
		require(close(uring.fd) == 0, "close() of a new ring");
	}
	if (other >= 0)
		require(close(other) == 0, "close() of a new ring");
	count(&record->nr_made, 1);
}

void *make_rings(void *arg)
{
	struct thread *thread = arg;

	if (!made.written[0][0])
		fill_made();

	while (!is_over()) {
		make_one(thread);
		pause_us(any(thread, 1000));
	}
	return NULL;
}

/* System calls that a thread leaves by a jump or by cancellation */

/*
 * Call io_uring_enter(). If the call has not returned when SIG_JUMP comes, the signal's
 * handler leaves the call by siglongjmp().
 */
static void enter_and_jump(int fd, unsigned nr)
{
	if (sigsetjmp(out, 1) == 0) {
		is_armed = 1;
		(void)uring_enter(fd, nr, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	}
	is_armed = 0;
}

void *jump_out(void *arg)
{
	struct thread *thread = arg;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIG_JUMP };
	timer_t timer;

	thread->leaves = true;
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	require(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0,
		"timer_create()");
	while (!is_over()) {
		struct ring *ring = any_plain_ring(thread);
		struct batch batch;

		lock(&ring->sq_lock);
		begin_batch(&batch, thread, ring, false, any(thread, 8));
		set_timer(timer, (10 + any(thread, 50)) * NS_PER_US);
		enter_and_jump(ring->uring.fd, batch.nr);
		set_timer(timer, 0);
		(void)settle(&batch);
		unlock(&ring->sq_lock);
		reap(ring);
		pause_us(any(thread, 300));
	}
	require(timer_delete(timer) == 0, "timer_delete()");
	return NULL;
}

/* A thread holds this lock while it calls pthread_cancel() for another thread. */
static pthread_mutex_t cancelling = PTHREAD_MUTEX_INITIALIZER;

static void set_cancellable(int state)
{
	require(pthread_setcancelstate(state, NULL) == 0,
		"pthread_setcancelstate()");
	if (state == PTHREAD_CANCEL_ENABLE)
		return;
	/*
	 * pthread_cancel() of glibc 2.36 reads this thread's state, then sends a
	 * signal. If this thread disables cancellation in between, the signal still
	 * ends the thread. So wait here until a call of pthread_cancel() that has begun
	 * has sent its signal. The signal then arrives by the end of the system call
	 * below, where this thread may end.
	 */
	lock(&cancelling);
	unlock(&cancelling);
	(void)syscall(SYS_getppid);
}

static void end_batch(void *arg)
{
	struct batch *batch = arg;

	(void)settle(batch);
	unlock(&batch->ring->sq_lock);
}

static void *enter_for_ever(void *arg)
{
	struct thread *thread = arg;

	set_cancellable(PTHREAD_CANCEL_DISABLE);
	require(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0,
		"pthread_setcanceltype()");
	for (;;) {
		struct ring *ring = any_plain_ring(thread);
		const int fd = ring->uring.fd;
		struct batch batch;

		lock(&ring->sq_lock);
		begin_batch(&batch, thread, ring, false, any(thread, 8));
		pthread_cleanup_push(end_batch, &batch);
		set_cancellable(PTHREAD_CANCEL_ENABLE);
		(void)uring_enter(fd, batch.nr, 0, IORING_ENTER_GETEVENTS, NULL,
				  0);
		set_cancellable(PTHREAD_CANCEL_DISABLE);
		pthread_cleanup_pop(1);
		reap(ring);
		set_cancellable(PTHREAD_CANCEL_ENABLE);
		(void)uring_enter(fd, 0, 1 + thread->random % 8,
				  IORING_ENTER_GETEVENTS, NULL, 0);
		set_cancellable(PTHREAD_CANCEL_DISABLE);
	}
	return NULL;
}

void *cancel_threads(void *arg)
{
	struct thread *thread = arg;

	thread->leaves = true;
	while (!is_over()) {
		pthread_t other;

		/*
		 * The other thread draws from this thread's random generator. The two
		 * threads do not race, because this thread draws no number until the
		 * other has ended.
		 */
		require(pthread_create(&other, NULL, enter_for_ever, thread) ==
				0,
			"pthread_create()");
		pause_us(300);
		lock(&cancelling);
		require(pthread_cancel(other) == 0, "pthread_cancel()");
		unlock(&cancelling);
		/*
		 * Do not check whether the thread was cancelled: the C library may miss
		 * a cancellation that arrives in pthread_setcancelstate().
		 */
		require(pthread_join(other, NULL) == 0, "pthread_join()");
		/*
		 * The other thread may have ended while it held the lock, so initialize
		 * the lock again.
		 */
		require(pthread_mutex_init(&cancelling, NULL) == 0,
			"pthread_mutex_init()");
		count(&record->nr_cancelled, 1);
	}
	return NULL;
}

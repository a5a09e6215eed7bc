/* SPDX-License-Identifier: MIT */
/*
 * Tests signals for a thread that sleeps until a pipe is ready. A signal must end the
 * sleep if, and only if, this signal would end the kernel's io_getevents or
 * io_pgetevents. The thread's read goes on waiting, even if a signal handler leaves the
 * sleep by siglongjmp().
 */
#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ready/test-ready.h"
#include "base/newer.h"

enum {
	AT_ONCE_MS = 500,
	/* limit of a wait that only the fallback thread may be able to end */
	LATER_MS = 2000,
};

static uint32_t nr_signals; /* atomic */

static void count_signal(int signal)
{
	(void)signal;
	add_relaxed(&nr_signals, 1);
}

static void handle_signal(void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	store_relaxed(&nr_signals, 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

struct waiting {
	/* signals blocked during the wait (io_pgetevents), or NULL */
	const sigset_t *mask;
	/* signals that the thread itself blocks, or NULL */
	const sigset_t *blocks;
};

static long wait_for_one(void *arg)
{
	static const struct waiting plainly;
	const struct waiting *waiting = arg ? arg : &plainly;
	struct uaio_aio_sigset set = { waiting->mask, 8 };
	struct uaio_event event;
	long ret;

	if (waiting->blocks)
		pthread_sigmask(SIG_BLOCK, waiting->blocks, NULL);
	ret = uaio_aio_pgetevents(handle, 1, 1, &event, NULL,
				  waiting->mask ? &set : NULL);
	return ret == 1 ? event.res : ret;
}

/*
 * Check that the read still waits, and that a thread which begins to wait now gets the
 * read's event.
 */
static void assert_served_now(void)
{
	struct unit_thread thread;

	unit_thread_start(&thread, wait_for_one, NULL);
	unit_await_sleep(&thread);
	put_text("x");
	assert_int_equal(unit_thread_join(&thread), 1);
}

static void a_handler_ends_the_sleep_and_nothing_else(void **state)
{
	sigset_t none;

	(void)state;
	sigemptyset(&none);
	open_pipe(4);
	for (unsigned i = 0; i < 8; i++) {
		struct waiting waiting = { .mask = i & 1 ? &none : NULL };
		struct unit_thread thread;
		struct iocb iocb;
		char byte;

		handle_signal(count_signal, i & 2 ? SA_RESTART : 0);
		iocb = read_of_byte(&byte);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		unit_thread_start(&thread, wait_for_one, &waiting);
		unit_await_sleep(&thread);
		assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
		assert_int_equal(unit_thread_join(&thread), -EINTR);
		assert_int_equal(load_relaxed(&nr_signals), 1);
		assert_served_now();
	}
	close_pipe();
}

/*
 * Some signals are ignored, explicitly or by default. Others are blocked by the thread,
 * or by the mask of the wait. None of them may end the sleep.
 */
static void a_signal_that_is_not_handled_ends_no_sleep(void **state)
{
	static const int signals[] = { SIGUSR1, SIGURG, SIGWINCH, SIGUSR2 };
	sigset_t blocked;

	(void)state;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	open_pipe(4);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, count_signal);
	store_relaxed(&nr_signals, 0);
	for (unsigned i = 0; i < 2; i++) {
		struct waiting waiting = { .mask = i ? &blocked : NULL,
					   .blocks = i ? NULL : &blocked };
		struct unit_thread thread;
		struct iocb iocb;
		char byte;

		iocb = read_of_byte(&byte);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		unit_thread_start(&thread, wait_for_one, &waiting);
		unit_await_sleep(&thread);
		for (unsigned k = 0; k < NR_ELEMENTS(signals); k++) {
			assert_int_equal(pthread_kill(thread.id, signals[k]),
					 0);
			unit_await_sleep(&thread);
		}
		assert_int_equal(load_relaxed(&nr_signals), 0);
		put_text("x");
		assert_int_equal(unit_thread_join(&thread), 1);
		/*
		 * A signal that only the mask of the wait blocks is delivered after the
		 * wait.
		 */
		assert_int_equal(load_relaxed(&nr_signals), i);
	}
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	close_pipe();
}

/*
 * The signal is pending when the wait begins, and only the mask of the wait unblocks
 * it. So the signal must end the wait.
 */
static void a_mask_lets_a_pending_signal_in(void **state)
{
	sigset_t none, blocked, old;
	struct waiting waiting = { .mask = &none };
	struct iocb iocb;
	char byte;

	(void)state;
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	open_pipe(4);
	handle_signal(count_signal, 0);
	pthread_sigmask(SIG_BLOCK, &blocked, &old);
	for (unsigned i = 0; i < 100; i++) {
		iocb = read_of_byte(&byte);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		store_relaxed(&nr_signals, 0);
		raise(SIGUSR1);
		assert_int_equal(load_relaxed(&nr_signals), 0);
		assert_int_equal(wait_for_one(&waiting), -EINTR);
		assert_int_equal(load_relaxed(&nr_signals), 1);
		put_text("x");
		assert_int_equal(wait_for_one(&waiting), 1);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close_pipe();
}

/* a pipe to which the child writes just before it sleeps */
static int asleep[2];

static bool tell_of_sleep(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	/*
	 * Only the main thread's call means that the child is about to sleep: threads
	 * of the library call epoll_pwait2, too.
	 */
	if (nr == SYS_epoll_pwait2 && gettid() == getpid()) {
		unit_hook(NULL);
		assert(write(asleep[1], "s", 1) == 1);
	}
	return false;
}

/* Run in a child, since SIGSTOP stops the whole process. */
static int be_stopped(void)
{
	struct iocb iocb;
	char byte;

	if (unit_engine(NULL) < 0)
		return 1;
	handle = unit_context(4);
	iocb = read_of_byte(&byte);
	if (unit_submit(handle, &iocb) != 1)
		return 2;
	unit_hook(tell_of_sleep);
	return wait_for_one(NULL) == -EINTR ? 0 : 3;
}

static void await_child(pid_t pid, char wanted)
{
	char path[32], line[256], *state;
	ssize_t got;
	int fd;

	do {
		sched_yield();
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		got = read(fd, line, sizeof(line) - 1);
		close(fd);
		assert_true(got > 0);
		line[got] = '\0';
		state = strrchr(line, ')') + 2;
	} while (*state != wanted);
}

static void a_process_that_was_stopped_ends_its_sleep(void **state)
{
	pid_t pid;
	char told;
	int status;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(asleep, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(30);
		_exit(be_stopped());
	}
	/*
	 * The child writes this byte just before it sleeps in io_getevents. Earlier it
	 * may sleep for other reasons.
	 */
	assert_int_equal(read(asleep[0], &told, 1), 1);
	await_child(pid, 'S');
	assert_int_equal(kill(pid, SIGSTOP), 0);
	await_child(pid, 'T');
	assert_int_equal(kill(pid, SIGCONT), 0);
	/*
	 * If SIGCONT wrongly does not end the child's sleep, a byte in the child's pipe
	 * ends it. Then the child's exit status reports the error.
	 */
	stay_away_us(20000);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		put_text("x");
		stay_away_us(20000);
	}
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) {
		unit_close(ends[i]);
		unit_close(asleep[i]);
	}
}

/* Jumps */

static __thread sigjmp_buf back;

static void jump(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

struct jumper {
	struct waiting waiting;
	bool waits_again;
	uint32_t has_jumped; /* atomic */
};

static long leave_by_jump(void *arg)
{
	struct jumper *jumper = arg;

	if (!sigsetjmp(back, 1)) {
		(void)wait_for_one(&jumper->waiting);
		return -ENOTRECOVERABLE;
	}
	store_release(&jumper->has_jumped, 1);
	return jumper->waits_again ? wait_for_one(&jumper->waiting) : 0;
}

static bool has_jumped(void *arg)
{
	return load_acquire(&((struct jumper *)arg)->has_jumped);
}

/*
 * One of two threads leaves its sleep by siglongjmp(). The other thread begins to wait
 * before the first one (BEFORE), after it (AFTER), or only after the jump (ALONE).
 * After the jump the first thread waits again, or does not.
 */
enum { ALONE, BEFORE, AFTER, NR_PLACES };

static void jump_out(unsigned place, bool waits_again, const sigset_t *mask,
		     struct times *times)
{
	struct jumper jumper = { { mask, NULL }, waits_again, 0 };
	struct unit_thread leaver, other;
	struct iocb iocbs[2];
	char bytes[2];
	int64_t since;

	for (unsigned i = 0; i < 2; i++) {
		iocbs[i] = read_of_byte(&bytes[i]);
		assert_int_equal(unit_submit(handle, &iocbs[i]), 1);
	}
	if (place == BEFORE) {
		unit_thread_start(&other, wait_for_one, NULL);
		unit_await_sleep(&other);
	}
	unit_thread_start(&leaver, leave_by_jump, &jumper);
	unit_await_sleep(&leaver);
	if (place == AFTER) {
		unit_thread_start(&other, wait_for_one, NULL);
		unit_await_sleep(&other);
	}
	assert_int_equal(pthread_kill(leaver.id, SIGUSR1), 0);
	unit_await(has_jumped, &jumper);
	if (waits_again)
		unit_await_sleep(&leaver);
	if (place == ALONE) {
		unit_thread_start(&other, wait_for_one, NULL);
		unit_await_sleep(&other);
	}
	since = uaio_now_ns();
	put_text(waits_again ? "ab" : "a");
	assert_int_equal(unit_thread_join(&other), 1);
	assert_int_equal(unit_thread_join(&leaver), waits_again);
	add_time(times, since);
	if (!waits_again) {
		put_text("b");
		assert_int_equal(unit_reap_one(handle), 1);
	}
}

static void a_thread_that_leaves_by_a_jump_takes_nothing_along(void **state)
{
	sigset_t none;

	(void)state;
	/* Sanitizers do not support siglongjmp() out of a signal handler. */
	if (UNIT_IS_SANITIZED)
		skip();
	sigemptyset(&none);
	open_pipe(4);
	handle_signal(jump, 0);
	for (unsigned place = 0; place < NR_PLACES; place++)
		for (unsigned kind = 0; kind < 4; kind++) {
			struct times times = { 0 };

			for (unsigned i = 0; i < 5; i++)
				jump_out(place, kind & 1,
					 kind & 2 ? &none : NULL, &times);
			/*
			 * The thread that jumped does not wake the other thread. So the
			 * other thread may have to wait for the fallback thread.
			 */
			assert_median_below_ms(
				&times, place == ALONE ? AT_ONCE_MS : LATER_MS);
		}
	close_pipe();
}

/* Return: how many descriptors are open in the process, including the library's own. */
static unsigned count_numbers(void)
{
	unsigned nr = 0;

	for (int fd = 0; fd < 1024; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

/*
 * If a wait has a signal mask, the waiter sleeps on an eventfd of its own, unless it is
 * the leader. If a signal handler leaves the sleep by siglongjmp(), the eventfd must
 * not stay open for ever.
 */
static void jumps_use_no_descriptors_up(void **state)
{
	enum { MANY = 50, FEW = 10 };
	struct jumper jumper = { 0 };
	struct iocb iocb;
	unsigned before;
	char byte;

	(void)state;
	if (UNIT_IS_SANITIZED)
		skip();
	open_pipe(4);
	handle_signal(jump, 0);
	iocb = read_of_byte(&byte);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	before = count_numbers();
	for (unsigned i = 0; i < MANY; i++) {
		struct unit_thread thread;

		unit_thread_start(&thread, leave_by_jump, &jumper);
		unit_await_sleep(&thread);
		assert_int_equal(pthread_kill(thread.id, SIGUSR1), 0);
		assert_int_equal(unit_thread_join(&thread), 0);
	}
	assert_in_range(count_numbers(), before, before + FEW);
	assert_served_now();
	close_pipe();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_handler_ends_the_sleep_and_nothing_else),
		UNIT_TEST(a_signal_that_is_not_handled_ends_no_sleep),
		UNIT_TEST(a_mask_lets_a_pending_signal_in),
		UNIT_TEST(a_process_that_was_stopped_ends_its_sleep),
		UNIT_TEST(a_thread_that_leaves_by_a_jump_takes_nothing_along),
		UNIT_TEST(jumps_use_no_descriptors_up),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

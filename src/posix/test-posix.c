/* SPDX-License-Identifier: MIT */
/*
 * Tests POSIX AIO inside the library: requests, waiting, lists, cancelling, and
 * notifying the client. The tests in test/posix/ check what programs see.
 */
#undef NDEBUG
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "ready/ready.h"
#include "posix/door.h"
#include "posix/posix.h"
#include "posix/wait.h"
#include "threads.h"
#include "unit.h"

static int ends[2];

static int start(void **state)
{
	int ret = unit_setup(state);

	if (ret == 0)
		ret = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
	return ret;
}

/*
 * Return: whether *nr waits (struct wait in wait.c) are on the list of waits. Tests
 * must await this number: the library writes the error code before it removes waits
 * from the list.
 */
static bool are_waits(void *nr)
{
	return load_relaxed(&uaio_posix_nr_waits) == *(const uint32_t *)nr;
}

static void await_waits(uint32_t nr)
{
	unit_await(are_waits, &nr);
}

static int stop(void **state)
{
	unit_close(ends[0]);
	unit_close(ends[1]);
	await_waits(0);
	return unit_teardown(state);
}

#define POSIX_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

static struct aiocb aiocb_of(int fd, void *buf, size_t bytes)
{
	return (struct aiocb){
		.aio_fildes = fd,
		.aio_buf = buf,
		.aio_nbytes = bytes,
		.aio_sigevent.sigev_notify = SIGEV_NONE,
	};
}

static void write_byte(char byte)
{
	assert_int_equal(write(ends[1], &byte, 1), 1);
}

static int wait_for(const struct aiocb *aiocb)
{
	return uaio_posix_suspend(&aiocb, 1, NULL);
}

static long wait_in_thread(void *arg)
{
	return wait_for(arg);
}

/*
 * Results
 */

static void a_cached_read_is_complete_at_once(void **state)
{
	int fd = unit_numbered_file(true, 4);
	char buf[UNIT_KEY_BYTES];
	struct aiocb aiocb = aiocb_of(fd, buf, sizeof(buf));

	(void)state;
	aiocb.aio_offset = 2 * UNIT_KEY_BYTES;
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), 0);
	assert_int_equal(aiocb.__return_value, sizeof(buf));
	assert_int_equal(buf[0], 2);
	unit_close(fd);
}

static void an_error_of_the_request_is_its_result(void **state)
{
	char byte;
	struct aiocb closed = aiocb_of(-1, &byte, 1);
	struct aiocb negative = aiocb_of(unit_file(true), &byte, 1);
	struct aiocb urgent = aiocb_of(ends[0], &byte, 1);

	(void)state;
	assert_int_equal(uaio_posix_read(&closed), 0);
	assert_int_equal(uaio_posix_error(&closed), EBADF);
	assert_int_equal(closed.__return_value, -1);
	negative.aio_offset = -1;
	assert_int_equal(uaio_posix_read(&negative), 0);
	assert_int_equal(uaio_posix_error(&negative), EINVAL);
	urgent.aio_reqprio = 21;
	assert_int_equal(uaio_posix_read(&urgent), -EINVAL);
	assert_int_equal(uaio_posix_error(&urgent), EINVAL);
	unit_close(negative.aio_fildes);
}

static void a_stream_ignores_the_offset(void **state)
{
	char byte = 'a';
	struct aiocb aiocb = aiocb_of(ends[1], &byte, 1);

	(void)state;
	aiocb.aio_offset = 7;
	assert_int_equal(uaio_posix_write(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), 0);
	aiocb.aio_fildes = ends[0];
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), 0);
}

static void a_write_without_a_reader_raises_no_signal(void **state)
{
	char byte = 'a';
	struct aiocb aiocb;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(close(fds[0]), 0);
	aiocb = aiocb_of(fds[1], &byte, 1);
	/* If the write sent SIGPIPE, its default action would end this test. */
	assert_int_equal(uaio_posix_write(&aiocb), 0);
	assert_int_equal(wait_for(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), EPIPE);
	unit_close(fds[1]);
	/* A write of 0 bytes must not send SIGPIPE either. */
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(close(fds[0]), 0);
	aiocb = aiocb_of(fds[1], &byte, 0);
	assert_int_equal(uaio_posix_write(&aiocb), 0);
	assert_int_equal(wait_for(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), EPIPE);
	unit_close(fds[1]);
}

/*
 * Waiting
 */

static void a_wait_ends_with_the_first_of_its_requests(void **state)
{
	char bytes[2];
	struct aiocb aiocbs[2] = { aiocb_of(ends[0], &bytes[0], 1),
				   aiocb_of(ends[1], &bytes[1], 1) };
	struct unit_thread thread;

	(void)state;
	assert_int_equal(uaio_posix_read(&aiocbs[0]), 0);
	assert_int_equal(uaio_posix_error(&aiocbs[0]), EINPROGRESS);
	assert_int_equal(uaio_posix_read(&aiocbs[1]), 0);
	unit_thread_start(&thread, wait_in_thread, &aiocbs[1]);
	unit_await_sleep(&thread);
	/* No thread waits for the request that completes now. */
	write_byte('a');
	assert_int_equal(wait_for(&aiocbs[0]), 0);
	assert_int_equal(aiocbs[0].__return_value, 1);
	assert_int_equal(uaio_posix_error(&aiocbs[1]), EINPROGRESS);
	assert_int_equal(write(ends[0], "b", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(bytes[1], 'b');
}

enum { MANY = 100 };

static long wait_for_many(void *arg)
{
	return uaio_posix_suspend(arg, MANY, NULL);
}

static void a_wait_for_many_requests_ends_with_any(void **state)
{
	static struct aiocb aiocbs[MANY];
	const struct aiocb *list[MANY];
	struct unit_thread thread;
	char byte;

	(void)state;
	/*
	 * The requests complete in the order of this loop. The list for which the
	 * thread waits has the reverse order.
	 */
	for (int i = 0; i < MANY; i++) {
		aiocbs[i] = aiocb_of(ends[0], &byte, 1);
		list[MANY - 1 - i] = &aiocbs[i];
		assert_int_equal(uaio_posix_read(&aiocbs[i]), 0);
	}
	unit_thread_start(&thread, wait_for_many, list);
	unit_await_sleep(&thread);
	write_byte('a');
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(uaio_posix_error(&aiocbs[0]), 0);
	for (int i = 1; i < MANY; i++) {
		write_byte('a');
		assert_int_equal(wait_for(&aiocbs[i]), 0);
	}
}

static void a_wait_ends_when_its_time_is_over(void **state)
{
	const struct timespec soon = { .tv_nsec = 1000000 };
	const struct timespec past = { .tv_sec = -1 };
	const struct timespec bad = { .tv_nsec = 2000000000 };
	const struct aiocb *list[2] = { NULL, NULL };
	char byte;
	struct aiocb aiocb = aiocb_of(ends[0], &byte, 1);

	(void)state;
	assert_int_equal(uaio_posix_suspend(list, 2, NULL), 0);
	assert_int_equal(uaio_posix_suspend(list, -1, NULL), -EINVAL);
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	list[1] = &aiocb;
	assert_int_equal(uaio_posix_suspend(list, 2, &soon), -EAGAIN);
	assert_int_equal(uaio_posix_suspend(list, 2, &past), -EAGAIN);
	assert_int_equal(uaio_posix_suspend(list, 2, &bad), -EINVAL);
	write_byte('a');
	assert_int_equal(uaio_posix_suspend(list, 2, NULL), 0);
}

static void do_nothing(int signo)
{
	(void)signo;
}

static void a_wait_is_interrupted_by_a_handler(void **state)
{
	const struct sigaction action = { .sa_handler = do_nothing,
					  .sa_flags = SA_RESTART };
	char byte;
	struct aiocb aiocb = aiocb_of(ends[0], &byte, 1);
	struct unit_thread thread;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	unit_thread_start(&thread, wait_in_thread, &aiocb);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill((pthread_t)thread.id, SIGUSR1), 0);
	assert_int_equal(unit_thread_join(&thread), -EINTR);
	write_byte('a');
	assert_int_equal(wait_for(&aiocb), 0);
}

static sigjmp_buf way_out;

static void leave(int signo)
{
	(void)signo;
	siglongjmp(way_out, 1);
}

static long wait_and_leave(void *arg)
{
	if (sigsetjmp(way_out, 1) == 0)
		(void)wait_for(arg);
	return uaio_is_inside();
}

static void a_handler_may_leave_the_wait_for_good(void **state)
{
	const struct sigaction action = { .sa_handler = leave };
	char byte;
	struct aiocb aiocb = aiocb_of(ends[0], &byte, 1);
	struct unit_thread thread;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	unit_thread_start(&thread, wait_and_leave, &aiocb);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_kill((pthread_t)thread.id, SIGUSR1), 0);
	assert_int_equal(unit_thread_join(&thread), false);
	/*
	 * When the thread that has left its wait ends, the library must remove the wait
	 * from the list.
	 */
	await_waits(0);
	write_byte('a');
	assert_int_equal(wait_for(&aiocb), 0);
}

/*
 * These tests do not run under AddressSanitizer, which does not see that a cancelled
 * thread leaves its stack frames. So it would report later use of this stack as an
 * overflow.
 */
#ifndef __SANITIZE_ADDRESS__

static void *wait_to_be_cancelled(void *arg)
{
	store_release(&((struct unit_thread *)arg)->tid,
		      (uint32_t)sys_gettid());
	(void)wait_for(((struct unit_thread *)arg)->arg);
	return NULL;
}

/*
 * Cancel a thread that waits, either as the leader (the thread that polls files for the
 * queue) or as one of the other waiting threads.
 */
static void cancel_in_wait(const struct aiocb *aiocb)
{
	struct unit_thread thread = { .arg = (void *)(uintptr_t)aiocb };
	pthread_t id;
	void *ret;

	assert_int_equal(
		pthread_create(&id, NULL, wait_to_be_cancelled, &thread), 0);
	unit_await_sleep(&thread);
	assert_int_equal(pthread_cancel(id), 0);
	assert_int_equal(pthread_join(id, &ret), 0);
	assert_ptr_equal(ret, PTHREAD_CANCELED);
}

static void a_thread_may_be_cancelled_in_its_wait(void **state)
{
	char bytes[2];
	struct aiocb aiocb = aiocb_of(ends[0], &bytes[0], 1);
	struct aiocb led = aiocb_of(ends[1], &bytes[1], 1);
	struct unit_thread leader;

	(void)state;
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	cancel_in_wait(&aiocb);
	await_waits(0);
	assert_int_equal(uaio_posix_read(&led), 0);
	unit_thread_start(&leader, wait_in_thread, &led);
	unit_await_sleep(&leader);
	cancel_in_wait(&aiocb);
	write_byte('a');
	assert_int_equal(wait_for(&aiocb), 0);
	assert_int_equal(write(ends[0], "b", 1), 1);
	assert_int_equal(unit_thread_join(&leader), 0);
}

#endif /* __SANITIZE_ADDRESS__ */

/*
 * Cancelling
 */

static void what_waits_is_cancelled(void **state)
{
	char bytes[2];
	struct aiocb first = aiocb_of(ends[0], &bytes[0], 1);
	struct aiocb second = aiocb_of(ends[0], &bytes[1], 1);

	(void)state;
	assert_int_equal(uaio_posix_cancel(-1, NULL), -EBADF);
	assert_int_equal(uaio_posix_cancel(ends[0], NULL), AIO_ALLDONE);
	assert_int_equal(uaio_posix_read(&first), 0);
	assert_int_equal(uaio_posix_read(&second), 0);
	assert_int_equal(uaio_posix_cancel(ends[1], &second), -EINVAL);
	assert_int_equal(uaio_posix_cancel(ends[0], &second), AIO_CANCELED);
	assert_int_equal(uaio_posix_error(&second), ECANCELED);
	assert_int_equal(second.__return_value, -1);
	assert_int_equal(uaio_posix_error(&first), EINPROGRESS);
	assert_int_equal(uaio_posix_cancel(ends[0], &second), AIO_ALLDONE);
	assert_int_equal(uaio_posix_read(&second), 0);
	assert_int_equal(uaio_posix_cancel(ends[0], NULL), AIO_CANCELED);
	assert_int_equal(uaio_posix_error(&first), ECANCELED);
	assert_int_equal(uaio_posix_error(&second), ECANCELED);
}

static void what_is_being_executed_is_not_cancelled(void **state)
{
	int fd = unit_file(false);
	struct aiocb sync = aiocb_of(fd, NULL, 0);

	(void)state;
	unit_gate_close(fd);
	assert_int_equal(uaio_posix_fsync(O_SYNC, &sync), 0);
	unit_gate_await(1);
	assert_int_equal(uaio_posix_cancel(fd, &sync), AIO_NOTCANCELED);
	assert_int_equal(uaio_posix_cancel(fd, NULL), AIO_NOTCANCELED);
	unit_gate_open();
	assert_int_equal(wait_for(&sync), 0);
	assert_int_equal(uaio_posix_error(&sync), 0);
	assert_int_equal(uaio_posix_cancel(fd, &sync), AIO_ALLDONE);
	unit_close(fd);
}

/* Notifying the client */

static uint32_t nr_told; /* atomic */
static uint32_t nr_told_inside;
static int told_value; /* atomic */
/* the aiocb that the signal handler is to submit again; or NULL */
static struct aiocb *resubmitted;

static void be_told(int signo, siginfo_t *info, void *context)
{
	int old_errno = errno;

	(void)signo;
	(void)context;
	if (info->si_code != SI_ASYNCIO || info->si_pid != sys_getpid())
		abort();
	store_relaxed(&told_value, info->si_value.sival_int);
	if (uaio_is_inside())
		add_relaxed(&nr_told_inside, 1);
	if (resubmitted) {
		struct aiocb *aiocb = resubmitted;

		resubmitted = NULL;
		if (uaio_posix_read(aiocb) < 0)
			abort();
	}
	add_relaxed(&nr_told, 1);
	errno = old_errno;
}

static void expect_signals(void)
{
	const struct sigaction action = { .sa_sigaction = be_told,
					  .sa_flags = SA_SIGINFO };

	store_relaxed(&nr_told, 0);
	store_relaxed(&nr_told_inside, 0);
	assert_int_equal(sigaction(SIGRTMIN + 1, &action, NULL), 0);
}

static struct sigevent signal_of(int value)
{
	return (struct sigevent){
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGRTMIN + 1,
		.sigev_value.sival_int = value,
	};
}

static bool is_told(void *nr)
{
	return load_relaxed(&nr_told) >= *(const uint32_t *)nr;
}

static void await_told(uint32_t nr)
{
	unit_await(is_told, &nr);
	assert_int_equal(load_relaxed(&nr_told), nr);
}

static void a_handler_finds_the_result_and_may_submit(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char buf[8];
	struct aiocb aiocb = aiocb_of(fd, buf, sizeof(buf));
	struct aiocb next = aiocb_of(fd, buf, sizeof(buf));

	(void)state;
	expect_signals();
	aiocb.aio_sigevent = signal_of(17);
	next.aio_sigevent = signal_of(18);
	/*
	 * Under ThreadSanitizer a signal handler may run late, when the thread is
	 * inside the library. Then the handler could not submit.
	 */
	if (!UNIT_IS_SANITIZED)
		resubmitted = &next;
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	if (UNIT_IS_SANITIZED)
		assert_int_equal(uaio_posix_read(&next), 0);
	await_told(2);
	if (!UNIT_IS_SANITIZED)
		assert_int_equal(load_relaxed(&nr_told_inside), 0);
	assert_int_equal(uaio_posix_error(&next), 0);
	unit_close(fd);
}

static void a_signal_comes_though_the_waiter_executes_the_request(void **state)
{
	char byte;
	struct aiocb aiocb = aiocb_of(ends[0], &byte, 1);
	struct unit_thread thread;
	long ret;

	(void)state;
	expect_signals();
	aiocb.aio_sigevent = signal_of(19);
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	unit_thread_start(&thread, wait_in_thread, &aiocb);
	unit_await_sleep(&thread);
	write_byte('a');
	ret = unit_thread_join(&thread);
	assert_true(ret == 0 || ret == -EINTR);
	await_told(1);
	assert_int_equal(load_relaxed(&told_value), 19);
}

/*
 * A thread completes a request while it waits for another one, and no thread can be
 * created. So the thread does not call the library again before the signal has come.
 */
static void complete_without_threads(void (*await_signal)(void))
{
	char bytes[2];
	int others[2];
	struct aiocb aiocb = aiocb_of(ends[0], &bytes[0], 1);
	struct aiocb other;
	struct unit_thread thread;
	long ret;

	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	other = aiocb_of(others[0], &bytes[1], 1);
	aiocb.aio_sigevent = signal_of(21);
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_read(&other), 0);
	unit_thread_start(&thread, wait_in_thread, &other);
	unit_await_sleep(&thread);
	unit_allow_threads(0);
	write_byte('a');
	await_signal();
	unit_allow_threads(UINT32_MAX);
	assert_int_equal(write(others[1], "b", 1), 1);
	ret = unit_thread_join(&thread);
	assert_true(ret == 0 || ret == -EINTR);
	assert_int_equal(wait_for(&other), 0);
	unit_close(others[0]);
	unit_close(others[1]);
}

static void await_handler(void)
{
	await_told(1);
	assert_int_equal(load_relaxed(&told_value), 21);
}

static void a_signal_comes_though_no_thread_can_be_created(void **state)
{
	(void)state;
	expect_signals();
	complete_without_threads(await_handler);
}

static void take_signal(void)
{
	siginfo_t info;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGRTMIN + 1);
	assert_int_equal(sigwaitinfo(&set, &info), SIGRTMIN + 1);
	assert_int_equal(info.si_value.sival_int, 21);
}

static void a_signal_without_a_handler_takes_no_thread(void **state)
{
	uint32_t nr_refused = unit_nr_refused_threads();
	sigset_t set, old;

	(void)state;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGRTMIN + 1);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	assert_true(signal(SIGRTMIN + 1, SIG_DFL) != SIG_ERR);
	complete_without_threads(take_signal);
	assert_int_equal(unit_nr_refused_threads(), nr_refused);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

static void a_request_that_is_cancelled_is_told_of(void **state)
{
	char byte;
	struct aiocb aiocb = aiocb_of(ends[0], &byte, 1);

	(void)state;
	expect_signals();
	aiocb.aio_sigevent = signal_of(20);
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_cancel(ends[0], &aiocb), AIO_CANCELED);
	await_told(1);
}

static void a_signal_that_there_is_not_is_the_requests_error(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char buf[8];
	struct aiocb aiocb = aiocb_of(fd, buf, sizeof(buf));

	(void)state;
	aiocb.aio_sigevent = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL,
						.sigev_signo = 65 };
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), EINVAL);
	/* A sigevent of zeros requests signal 0, which means no signal. */
	aiocb.aio_sigevent = (struct sigevent){ 0 };
	assert_int_equal(uaio_posix_read(&aiocb), 0);
	assert_int_equal(uaio_posix_error(&aiocb), 0);
	unit_close(fd);
}

/*
 * Lists
 */

static void a_list_is_waited_for(void **state)
{
	enum { NR = 40 };
	int fd = unit_numbered_file(true, NR);
	static char bytes[NR];
	static struct aiocb aiocbs[NR];
	struct aiocb *list[NR + 1] = { NULL };

	(void)state;
	for (int i = 0; i < NR; i++) {
		aiocbs[i] = aiocb_of(fd, &bytes[i], 1);
		aiocbs[i].aio_offset = (off_t)i * UNIT_KEY_BYTES;
		aiocbs[i].aio_lio_opcode = i == 7 ? LIO_NOP : LIO_READ;
		list[i] = &aiocbs[i];
	}
	assert_int_equal(uaio_posix_listio(LIO_WAIT, list, NR + 1, NULL), 0);
	for (int i = 0; i < NR; i++)
		assert_int_equal(bytes[i], i == 7 ? 0 : i);
	aiocbs[3].aio_lio_opcode = 99;
	assert_int_equal(uaio_posix_listio(LIO_WAIT, list, NR, NULL), -EIO);
	assert_int_equal(uaio_posix_error(&aiocbs[3]), EINVAL);
	assert_int_equal(uaio_posix_listio(5, list, NR, NULL), -EINVAL);
	/* lio_listio() must not wait for a member that was refused. */
	aiocbs[3].aio_lio_opcode = LIO_READ;
	aiocbs[3].aio_reqprio = -1;
	assert_int_equal(uaio_posix_listio(LIO_WAIT, list, NR, NULL), -EIO);
	assert_int_equal(uaio_posix_error(&aiocbs[3]), EINVAL);
	assert_int_equal(uaio_posix_listio(LIO_NOWAIT, list, NR, NULL),
			 -EINVAL);
	unit_close(fd);
}

struct listing {
	struct aiocb **list;
	int nr;
};

static long wait_for_list(void *arg)
{
	const struct listing *listing = arg;

	return uaio_posix_listio(LIO_WAIT, listing->list, listing->nr, NULL);
}

static void a_list_ends_with_its_last_member(void **state)
{
	char bytes[2];
	struct aiocb aiocbs[2] = { aiocb_of(ends[0], &bytes[0], 1),
				   aiocb_of(ends[1], &bytes[1], 1) };
	struct aiocb *list[2] = { &aiocbs[0], &aiocbs[1] };
	struct listing listing = { list, 2 };
	struct unit_thread thread;

	(void)state;
	aiocbs[0].aio_lio_opcode = aiocbs[1].aio_lio_opcode = LIO_READ;
	unit_thread_start(&thread, wait_for_list, &listing);
	unit_await_sleep(&thread);
	write_byte('a');
	assert_int_equal(wait_for(&aiocbs[0]), 0);
	assert_int_equal(write(ends[0], "b", 1), 1);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(bytes[1], 'b');
}

static void the_end_of_a_list_is_told_once(void **state)
{
	char bytes[3];
	int fd = unit_numbered_file(true, 1);
	struct aiocb aiocbs[3] = { aiocb_of(fd, &bytes[0], 1),
				   aiocb_of(ends[0], &bytes[1], 1),
				   aiocb_of(-1, &bytes[2], 1) };
	struct aiocb *list[3] = { &aiocbs[0], &aiocbs[1], &aiocbs[2] };
	const struct sigevent event = signal_of(30);

	(void)state;
	expect_signals();
	assert_int_equal(uaio_posix_listio(LIO_NOWAIT, list, 0, &event), 0);
	await_told(1);
	for (int i = 0; i < 3; i++)
		aiocbs[i].aio_lio_opcode = LIO_READ;
	/* One member of the list has a notification of its own. */
	aiocbs[0].aio_sigevent = signal_of(31);
	assert_int_equal(uaio_posix_listio(LIO_NOWAIT, list, 3, &event), 0);
	await_told(2);
	assert_int_equal(load_relaxed(&told_value), 31);
	write_byte('a');
	assert_int_equal(wait_for(&aiocbs[1]), 0);
	await_told(3);
	assert_int_equal(load_relaxed(&told_value), 30);
	unit_close(fd);
}

/* Concurrent threads */

enum { MEETING_THREADS = 4, MEETING_DEPTH = 8 };

/*
 * Each thread has its own requests on its own sockets. It waits for any of them,
 * cancels some, and frees each aiocb as soon as the error code is written.
 */
static long meet(void *arg)
{
	unsigned rounds = unit_rounds(3000), seed = (unsigned)(uintptr_t)arg;
	struct aiocb *aiocbs[MEETING_DEPTH] = { NULL };
	static char bytes[MEETING_THREADS][MEETING_DEPTH];
	char *mine = bytes[(uintptr_t)arg];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -1;
	for (unsigned i = 0; i < rounds; i++) {
		for (int j = 0; j < MEETING_DEPTH; j++) {
			if (!aiocbs[j]) {
				aiocbs[j] = malloc(sizeof(struct aiocb));
				*aiocbs[j] = aiocb_of(pair[0], &mine[j], 1);
				if (uaio_posix_read(aiocbs[j]) < 0)
					return -2;
			}
		}
		if (rand_r(&seed) % 4 == 0)
			(void)uaio_posix_cancel(
				pair[0], aiocbs[rand_r(&seed) % MEETING_DEPTH]);
		else if (write(pair[1], "x", 1) != 1)
			return -3;
		if (uaio_posix_suspend((const struct aiocb *const *)aiocbs,
				       MEETING_DEPTH, NULL) < 0)
			return -4;
		for (int j = 0; j < MEETING_DEPTH; j++) {
			if (uaio_posix_error(aiocbs[j]) != EINPROGRESS) {
				free(aiocbs[j]);
				aiocbs[j] = NULL;
			}
		}
	}
	(void)uaio_posix_cancel(pair[0], NULL);
	for (int j = 0; j < MEETING_DEPTH; j++) {
		if (aiocbs[j] && wait_for(aiocbs[j]) < 0)
			return -5;
		free(aiocbs[j]);
	}
	unit_close(pair[0]);
	unit_close(pair[1]);
	return 0;
}

static void threads_that_meet_lose_no_completion(void **state)
{
	struct unit_thread threads[MEETING_THREADS];

	(void)state;
	for (uintptr_t i = 0; i < MEETING_THREADS; i++)
		unit_thread_start(&threads[i], meet, (void *)i);
	for (int i = 0; i < MEETING_THREADS; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
}

/* Tests with a thread that has its own descriptor table */

struct wakers {
	int epoll;
	int wake;
};

/*
 * Find the epoll and the eventfd by which the leader (the thread that polls files for
 * the queue) is woken.
 * Return: false if there is no leader yet.
 */
static bool is_led(void *arg)
{
	struct uaio_ready *ready =
		&uaio_ready_home(&uaio_posix_queue.group.ready)->ready;
	struct uaio_poller *poller = &ready->poller;
	struct wakers *wakers = arg;
	bool is_open;

	uaio_lock(&poller->lock, UAIO_RANK_POLLER);
	is_open = poller->fds;
	if (is_open)
		*wakers = (struct wakers){ poller->fds->epoll,
					   poller->fds->wake };
	uaio_unlock(&poller->lock, UAIO_RANK_POLLER);
	return is_open && uaio_ready_has(ready, UAIO_LEADER);
}

/*
 * In this thread's own descriptor table, let the numbers of the leader's epoll and
 * eventfd refer to a file of the thread. Then write 0 bytes.
 * Return: the size of that file: 0, unless the library has written to one of these
 * numbers.
 */
static long write_nothing_apart(void *arg)
{
	const struct wakers *wakers = arg;
	const long args[3] = { CLONE_FILES };
	struct aiocb aiocb;
	int own;

	if (uaio_table_part(SYS_unshare, args) != 0 || !uaio_table_is_other())
		return -1;
	own = unit_file(true);
	unit_dup2(own, wakers->epoll);
	unit_dup2(own, wakers->wake);
	aiocb = aiocb_of(own, NULL, 0);
	if (uaio_posix_write(&aiocb) || uaio_posix_error(&aiocb))
		return -2;
	return lseek(own, 0, SEEK_END);
}

/*
 * A thread with its own descriptor table writes 0 bytes. The front-end completes this
 * write itself, and wakes a thread that waits for any completion. To wake it, the
 * front-end must not write to the library's eventfd by number: in this thread's table
 * that number is another file.
 */
static void a_thread_apart_writes_to_no_descriptor_of_the_library(void **state)
{
	static struct aiocb aiocbs[MANY];
	const struct aiocb *list[MANY];
	struct unit_thread waiter, apart;
	struct wakers wakers;
	char byte;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		aiocbs[i] = aiocb_of(ends[0], &byte, 1);
		list[i] = &aiocbs[i];
		assert_int_equal(uaio_posix_read(&aiocbs[i]), 0);
	}
	unit_thread_start(&waiter, wait_for_many, list);
	unit_await(is_led, &wakers);
	unit_await_sleep(&waiter);
	unit_thread_start(&apart, write_nothing_apart, &wakers);
	assert_int_equal(unit_thread_join(&apart), 0);
	write_byte('a');
	assert_int_equal(unit_thread_join(&waiter), 0);
	for (int i = 1; i < MANY; i++) {
		write_byte('a');
		assert_int_equal(wait_for(&aiocbs[i]), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POSIX_TEST(a_cached_read_is_complete_at_once),
		POSIX_TEST(an_error_of_the_request_is_its_result),
		POSIX_TEST(a_stream_ignores_the_offset),
		POSIX_TEST(a_write_without_a_reader_raises_no_signal),
		POSIX_TEST(a_wait_ends_with_the_first_of_its_requests),
		POSIX_TEST(a_wait_for_many_requests_ends_with_any),
		POSIX_TEST(a_wait_ends_when_its_time_is_over),
		POSIX_TEST(a_wait_is_interrupted_by_a_handler),
		POSIX_TEST(a_handler_may_leave_the_wait_for_good),
#ifndef __SANITIZE_ADDRESS__
		POSIX_TEST(a_thread_may_be_cancelled_in_its_wait),
#endif
		POSIX_TEST(what_waits_is_cancelled),
		POSIX_TEST(what_is_being_executed_is_not_cancelled),
		POSIX_TEST(a_handler_finds_the_result_and_may_submit),
		POSIX_TEST(
			a_signal_comes_though_the_waiter_executes_the_request),
		POSIX_TEST(a_signal_comes_though_no_thread_can_be_created),
		POSIX_TEST(a_signal_without_a_handler_takes_no_thread),
		POSIX_TEST(a_request_that_is_cancelled_is_told_of),
		POSIX_TEST(a_signal_that_there_is_not_is_the_requests_error),
		POSIX_TEST(a_list_is_waited_for),
		POSIX_TEST(a_list_ends_with_its_last_member),
		POSIX_TEST(the_end_of_a_list_is_told_once),
		POSIX_TEST(threads_that_meet_lose_no_completion),
		/*
		 * Keep this test last: after it, the library checks in each call which
		 * descriptor table the thread has, so other tests would test other code.
		 */
		POSIX_TEST(
			a_thread_apart_writes_to_no_descriptor_of_the_library),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/* aio_error and aio_return at any time, aio_suspend, and waits in general. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "differences.h"
#include "posix.h"

static const struct timespec at_once, shortly = { 0, 2 * MS };
static const struct timespec long_time = { PATIENCE_MS / 1000, 0 };

static struct aiocb *done_read(void)
{
	struct aiocb *cb =
		request(file_of("done", 100, O_RDWR),
			pages_of(4096, PROT_READ | PROT_WRITE), 10, 0);

	REQUIRE(aio_read(cb) == 0);
	REQUIRE(is_over(cb));
	return cb;
}

static struct aiocb *failed_read(void)
{
	struct aiocb *cb = request(-1, NULL, 10, 0);

	REQUIRE(aio_read(cb) == 0);
	REQUIRE(is_over(cb));
	return cb;
}

/*
 * aio_error and aio_return
 */

static void before_any(void)
{
	struct aiocb *cb = request(0, NULL, 0, 0);

	note_call("error", aio_error(cb));
	note_call("return", aio_return(cb));
}

static void while_waiting(void)
{
	int writer;
	struct aiocb *cb = waiting_read(&writer);

	note_call("error", aio_error(cb));
	note_call("again", aio_error(cb));
	end_read(writer);
	note_end("end", cb);
}

static void afterwards(void)
{
	struct aiocb *cb = done_read();

	note_state("state", cb);
	note_state("again", cb);
	note_call("return", aio_return(cb));
	note_call("return_again", aio_return(cb));
	note_call("error", aio_error(cb));
}

static void after_failure(void)
{
	struct aiocb *cb = failed_read();

	errno = 0;
	note("error", aio_error(cb) == EBADF);
	note("errno", errno);
	note("return", aio_return(cb));
	note("errno", errno);
	note("return_again", aio_return(cb));
}

static void after_refusal(void)
{
	struct aiocb *cb = request(0, NULL, 0, 0);

	cb->aio_reqprio = -1;
	note_call("read", aio_read(cb));
	note("error", aio_error(cb) == EINVAL);
	note_call("return", aio_return(cb));
	cb->aio_reqprio = 21;
	note_call("write", aio_write(cb));
	note("error", aio_error(cb) == EINVAL);
	cb->aio_reqprio = 0;
	note_call("sync", aio_fsync(-1, cb));
	note("error", aio_error(cb) == EINVAL);
	cb->aio_fildes = -1;
	note_call("bad_sync", aio_fsync(O_SYNC, cb));
	note("error", aio_error(cb) == EINVAL);
}

static void short_reads(void)
{
	char *buf = pages_of(4096, PROT_READ | PROT_WRITE);
	int fd = file_of("short", 100, O_RDWR);

	read_and_note("whole", request(fd, buf, 100, 0));
	read_and_note("short", request(fd, buf, 100, 60));
	read_and_note("end", request(fd, buf, 100, 100));
	read_and_note("beyond", request(fd, buf, 100, 1000));
}

/*
 * aio_suspend
 */

static void note_suspend(const char *key, const struct aiocb *const list[],
			 int nr, const struct timespec *timeout)
{
	note_call(key, aio_suspend(list, nr, timeout));
}

static void empty_lists(void)
{
	const struct aiocb *none[3] = { NULL, NULL, NULL };

	note_suspend("zero", none, 0, &long_time);
	note_suspend("zero_forever", none, 0, NULL);
	note_suspend("minus_1", none, -1, NULL);
	note_suspend("least", none, INT32_MIN, NULL);
	note_suspend("nulls", none, 3, NULL);
	note_suspend("nulls_for_a_time", none, 3, &shortly);
}

static void something_done(void)
{
	int writer;
	const struct aiocb *waiting = waiting_read(&writer);
	const struct aiocb *done = done_read(), *failed = failed_read();
	const struct aiocb *never = request(0, NULL, 0, 0);

	note_suspend("done", &done, 1, NULL);
	note_suspend("failed", &failed, 1, NULL);
	note_suspend("never_submitted", &never, 1, NULL);
	note_suspend("done_last",
		     (const struct aiocb *[]){ NULL, waiting, NULL, done }, 4,
		     NULL);
	note_suspend("done_first", (const struct aiocb *[]){ done, waiting }, 2,
		     NULL);
	note_suspend("twice", (const struct aiocb *[]){ done, done }, 2, NULL);
	note_suspend("done_at_once", &done, 1, &at_once);
}

static void over_time(void)
{
	int writer;
	const struct aiocb *cb = waiting_read(&writer);
	const struct aiocb *mixed[] = { NULL, cb, NULL, cb };

	note_suspend("at_once", &cb, 1, &at_once);
	note_suspend("shortly", &cb, 1, &shortly);
	note_suspend("mixed", mixed, 4, &shortly);
	note_suspend("nanosecond", &cb, 1, &(struct timespec){ 0, 1 });
	note_state("state", cb);
	end_read(writer);
	note_suspend("ended", &cb, 1, &long_time);
	note_state("state", cb);
}

static int odd_timeout(void)
{
	int writer;
	const struct aiocb *cb = waiting_read(&writer);

	/*
	 * Close stderr: a child that aborts may print a message, which would be
	 * mistaken for a field.
	 */
	close(STDERR_FILENO);
	note_suspend("nanoseconds", &cb, 1,
		     &(struct timespec){ 0, 2000000000 });
	return 0;
}

static int negative_nanoseconds(void)
{
	int writer;
	const struct aiocb *cb = waiting_read(&writer);

	close(STDERR_FILENO);
	note_suspend("negative_nanoseconds", &cb, 1,
		     &(struct timespec){ 0, -1 });
	return 0;
}

static int negative_seconds(void)
{
	int writer;
	const struct aiocb *cb = waiting_read(&writer);

	close(STDERR_FILENO);
	note_suspend("negative_seconds", &cb, 1, &(struct timespec){ -1, 0 });
	return 0;
}

static void odd_timeouts(void)
{
	note("ended", in_child(odd_timeout));
}

static void negative_timeouts(void)
{
	note("ended", in_child(negative_nanoseconds));
}

static void past_timeouts(void)
{
	note("ended", in_child(negative_seconds));
}

static void odd_timeouts_of_nothing(void)
{
	const struct aiocb *done = done_read(), *none = NULL;
	const struct timespec odd = { 0, 2000000000 };

	note_suspend("done", &done, 1, &odd);
	note_suspend("none", &none, 1, &odd);
	note_suspend("negative", &done, 1, &(struct timespec){ -5, -5 });
}

static void while_asleep(void)
{
	struct waker waker = { 0 };
	const struct aiocb *cb = waiting_read(&waker.writer);

	wake_this(&waker);
	note_suspend("one", &cb, 1, NULL);
	note_state("state", cb);
}

static void while_asleep_for_a_time(void)
{
	struct waker waker = { 0 };
	const struct aiocb *cb = waiting_read(&waker.writer);

	wake_this(&waker);
	note_suspend("one", &cb, 1, &long_time);
	note_state("state", cb);
}

static void one_of_many(void)
{
	enum { NR = 15 };
	struct waker waker = { 0 };
	const struct aiocb *list[NR];
	int other;

	for (int i = 0; i < NR - 1; i++)
		list[i] = waiting_read(&other);
	list[NR - 1] = waiting_read(&waker.writer);
	wake_this(&waker);
	note_suspend("last", list, NR, NULL);
	note_state("last", list[NR - 1]);
	note_state("first", list[0]);
}

/* All requests are on one pipe, so all but the first are queued. */
static void longer_lists(void)
{
	enum { NR = 200 };
	struct waker waker = { 0 };
	const struct aiocb *list[NR];
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	waker.writer = fds[1];
	for (int i = NR - 1; i >= 0; i--)
		list[i] = waiting_read_of(fds[0]);
	wake_this(&waker);
	note_suspend("last", list, NR, NULL);
	note_state("last", list[NR - 1]);
	note_state("first", list[0]);
}

static void with_duplicates(void)
{
	struct waker waker = { 0 };
	const struct aiocb *cb = waiting_read(&waker.writer);
	const struct aiocb *list[] = { cb, NULL, cb, cb };

	wake_this(&waker);
	note_suspend("thrice", list, 4, NULL);
	note_state("state", cb);
}

/*
 * Signals that interrupt a wait
 */

static volatile sig_atomic_t nr_handled;

static void count(int signo)
{
	(void)signo;
	nr_handled++;
}

static void handle(int signo, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	REQUIRE(sigaction(signo, &action, NULL) == 0);
}

static void interrupted(void)
{
	static struct waker first = { .signo = SIGUSR1 },
			    second = { .signo = SIGUSR1 };
	int writer;
	const struct aiocb *cb = waiting_read(&writer);

	handle(SIGUSR1, count, 0);
	wake_this(&first);
	note_suspend("forever", &cb, 1, NULL);
	__atomic_store_n(&first.is_over, 1, __ATOMIC_SEQ_CST);
	wake_this(&second);
	note_suspend("for_a_time", &cb, 1, &long_time);
	__atomic_store_n(&second.is_over, 1, __ATOMIC_SEQ_CST);
	note("handled", nr_handled > 1);
	note_state("state", cb);
}

static void interrupted_restarting(void)
{
	static struct waker waker = { .signo = SIGUSR1 };
	const struct aiocb *cb = waiting_read(&waker.writer);

	handle(SIGUSR1, count, SA_RESTART);
	signal_this_and_end(&waker);
	note_suspend("forever", &cb, 1, NULL);
	note_end("state", cb);
}

static void stopped(void)
{
	int writer;
	const struct aiocb *cb = waiting_read(&writer);

	stop_this_and_end(writer);
	note_suspend("forever", &cb, 1, NULL);
	note_state("state", cb);
	cb = waiting_read(&writer);
	stop_this_and_end(writer);
	note_suspend("for_a_time", &cb, 1, &long_time);
	note_state("state", cb);
}

static void ignored_signals(void)
{
	static struct waker waker;
	const struct aiocb *cb = waiting_read(&waker.writer);

	handle(SIGUSR1, SIG_IGN, 0);
	waker.signo = SIGUSR1;
	signal_this_and_end(&waker);
	note_suspend("ignored", &cb, 1, NULL);
	note_state("state", cb);
}

static const struct aiocb *handlers_done, *handlers_waiting;

static void suspend_in_handler(int signo)
{
	(void)signo;
	if (nr_handled++)
		return;
	note_suspend("done", &handlers_done, 1, NULL);
	note_suspend("waiting", &handlers_waiting, 1, &shortly);
	note_state("error", handlers_waiting);
}

static void in_handler(void)
{
	int writer;

	handlers_done = done_read();
	handlers_waiting = waiting_read(&writer);
	handle(SIGUSR1, suspend_in_handler, 0);
	raise(SIGUSR1);
}

static void in_handler_of_suspend(void)
{
	static struct waker waker = { .signo = SIGUSR1 };
	int writer;

	handlers_done = done_read();
	handlers_waiting = waiting_read(&writer);
	handle(SIGUSR1, suspend_in_handler, 0);
	wake_this(&waker);
	note_suspend("interrupted", &handlers_waiting, 1, NULL);
	__atomic_store_n(&waker.is_over, 1, __ATOMIC_SEQ_CST);
}

/*
 * Threads that are cancelled in aio_suspend()
 */

struct sleeper {
	const struct aiocb *cb;
	int state, type;
	/*
	 * pthread_cancel() is called for the thread before it calls aio_suspend()
	 */
	bool is_pending;
	uint32_t tid; /* atomic */
	long ret;
};

static void *suspend_and_return(void *arg)
{
	struct sleeper *sleeper = arg;
	int old;

	pthread_setcancelstate(sleeper->state, &old);
	pthread_setcanceltype(sleeper->type, &old);
	if (sleeper->is_pending)
		pthread_cancel(pthread_self());
	__atomic_store_n(&sleeper->tid, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	sleeper->ret = aio_suspend(&sleeper->cb, 1, NULL);
	return NULL;
}

static void note_thread(const char *key, pthread_t thread)
{
	void *result;

	REQUIRE(!pthread_join(thread, &result));
	note_text(key, result == PTHREAD_CANCELED ? "cancelled" : "returned");
}

static void cancel_sleeper(const char *key, int state, int type)
{
	int writer;
	struct sleeper sleeper = { .cb = waiting_read(&writer),
				   .state = state,
				   .type = type };
	pthread_t thread;
	uint32_t tid;

	REQUIRE(!pthread_create(&thread, NULL, suspend_and_return, &sleeper));
	while (!(tid = __atomic_load_n(&sleeper.tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	wait_asleep((pid_t)tid);
	REQUIRE(!pthread_cancel(thread));
	if (state == PTHREAD_CANCEL_DISABLE)
		end_read(writer);
	note_thread(key, thread);
	note_state(key, sleeper.cb);
	if (state == PTHREAD_CANCEL_ENABLE) {
		end_read(writer);
		note_end(key, sleeper.cb);
	}
}

static void cancelled(void)
{
	cancel_sleeper("deferred", PTHREAD_CANCEL_ENABLE,
		       PTHREAD_CANCEL_DEFERRED);
}

static void not_cancelled(void)
{
	int writer;
	struct sleeper sleeper = { .cb = waiting_read(&writer),
				   .state = PTHREAD_CANCEL_DISABLE };
	pthread_t thread;
	uint32_t tid;

	REQUIRE(!pthread_create(&thread, NULL, suspend_and_return, &sleeper));
	while (!(tid = __atomic_load_n(&sleeper.tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	wait_asleep((pid_t)tid);
	REQUIRE(!pthread_cancel(thread));
	end_read(writer);
	note_thread("disabled", thread);
	note("ret", sleeper.ret);
}

static void cancelled_at_once(void)
{
	int writer;
	struct sleeper sleeper = { .cb = waiting_read(&writer),
				   .is_pending = true };
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, suspend_and_return, &sleeper));
	note_thread("waiting", thread);
	note_state("state", sleeper.cb);
}

static void cancelled_with_done(void)
{
	struct sleeper sleeper = { .cb = done_read(), .is_pending = true };
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, suspend_and_return, &sleeper));
	note_thread("done", thread);
}

static void cancelled_elsewhere(void)
{
	int writer;
	struct sleeper sleeper = { .cb = waiting_read(&writer) };
	pthread_t thread;
	uint32_t tid;
	const struct aiocb *cb = sleeper.cb;

	REQUIRE(!pthread_create(&thread, NULL, suspend_and_return, &sleeper));
	while (!(tid = __atomic_load_n(&sleeper.tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	wait_asleep((pid_t)tid);
	REQUIRE(!pthread_cancel(thread));
	note_thread("one", thread);
	note_suspend("other", &cb, 1, &shortly);
	end_read(writer);
	note_suspend("other", &cb, 1, &long_time);
	note_state("state", cb);
}

static void two_threads(void)
{
	int writer;
	struct aiocb *cb = waiting_read(&writer);
	struct sleeper sleepers[2] = { { .cb = cb }, { .cb = cb } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, suspend_and_return,
					&sleepers[i]));
	for (int i = 0; i < 2; i++) {
		uint32_t tid;

		while (!(tid = __atomic_load_n(&sleepers[i].tid,
					       __ATOMIC_SEQ_CST)))
			sched_yield();
		wait_asleep((pid_t)tid);
	}
	end_read(writer);
	for (int i = 0; i < 2; i++) {
		REQUIRE(!pthread_join(threads[i], NULL));
		note("ret", sleepers[i].ret);
	}
}

const struct row rows_posix_state[] = {
	ROW("aio_error and aio_return before any request", before_any),
	ROW("aio_error while a request waits", while_waiting),
	ROW("aio_error and aio_return can be repeated", afterwards),
	ROW("aio_error and aio_return of a request that failed", after_failure),
	ROW("aio_error of a request that was refused", after_refusal),
	ROW("aio_return counts the bytes of short reads", short_reads),
	ROW("aio_suspend of nothing", empty_lists),
	ROW("aio_suspend returns at once if something is complete",
	    something_done),
	ROW("aio_suspend ends when its time is over", over_time),
	ROW_DIFFERS("aio_suspend with nanoseconds that are none", odd_timeouts,
		    differs_posix_timeout,
		    { "ended=1006", "nanoseconds=EINVAL" }),
	ROW_DIFFERS("aio_suspend with nanoseconds before none",
		    negative_timeouts, differs_posix_timeout,
		    { "negative_nanoseconds=EAGAIN",
		      "negative_nanoseconds=EINVAL" }),
	ROW("aio_suspend with a time that is past", past_timeouts),
	ROW("aio_suspend looks at no timeout if something is complete",
	    odd_timeouts_of_nothing),
	ROW("aio_suspend sleeps until a request is complete", while_asleep),
	ROW("aio_suspend with a timeout sleeps until a request is complete",
	    while_asleep_for_a_time),
	ROW("aio_suspend ends with the last of its list", one_of_many),
	ROW("aio_suspend ends with any of a long list", longer_lists),
	ROW("aio_suspend of one request that is listed often", with_duplicates),
	ROW("aio_suspend ends when a handler has run", interrupted),
	ROW("aio_suspend continues after the process was stopped", stopped),
	ROW_DIFFERS("aio_suspend after a handler with SA_RESTART has run",
		    interrupted_restarting, differs_posix_restart,
		    { "forever=0", "forever=EINTR" }),
	ROW("aio_suspend goes on after a signal that is ignored",
	    ignored_signals),
	ROW("aio_suspend in a signal handler", in_handler),
	ROW("aio_suspend in a handler that interrupted aio_suspend",
	    in_handler_of_suspend),
	ROW("a thread can be cancelled in aio_suspend", cancelled),
	ROW("a thread that disables it is not cancelled in aio_suspend",
	    not_cancelled),
	ROW("aio_suspend is left by a thread that is cancelled before",
	    cancelled_at_once),
	ROW("aio_suspend of a complete request, by a thread that is cancelled",
	    cancelled_with_done),
	ROW("a request can be waited for again after a thread was cancelled",
	    cancelled_elsewhere),
	ROW("two threads wait for one request", two_threads),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* aio_cancel and aio_fsync, while other requests are executed or queued */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "differences.h"
#include "posix.h"

static const struct timespec long_time = { PATIENCE_MS / 1000, 0 };

static struct aiocb *done_read(int fd)
{
	struct aiocb *cb =
		request(fd, pages_of(4096, PROT_READ | PROT_WRITE), 10, 0);

	REQUIRE(aio_read(cb) == 0);
	REQUIRE(is_over(cb));
	return cb;
}

/* Cancels on a valid descriptor whose requests are all complete. */
static void what_is_done(void)
{
	int fd = file_of("file", 100, O_RDWR);
	struct aiocb *cb = done_read(fd);

	note_call("one", aio_cancel(fd, cb));
	note_call("all", aio_cancel(fd, NULL));
	note_state("state", cb);
	note_call("again", aio_cancel(fd, cb));
}

static void what_never_was(void)
{
	int fd = file_of("file", 100, O_RDWR);
	struct aiocb *cb = request(fd, NULL, 0, 0);

	note_call("all", aio_cancel(fd, NULL));
	note_call("one", aio_cancel(fd, cb));
	note_state("state", cb);
}

static void what_failed(void)
{
	int fd = file_of("file", 100, O_WRONLY);
	struct aiocb *cb = request(fd, NULL, 10, 0);

	read_and_note("read", cb);
	note_call("one", aio_cancel(fd, cb));
	note_state("state", cb);
}

static void bad_descriptors(void)
{
	int fd = file_of("file", 100, O_RDWR), writer;
	int path = file_of("path", 100, O_PATH);
	struct aiocb *cb = done_read(fd), *waiting = waiting_read(&writer);

	note_call("minus_1", aio_cancel(-1, NULL));
	note_call("minus_1_one", aio_cancel(-1, cb));
	note_call("high", aio_cancel(77777, NULL));
	note_call("path", aio_cancel(path, NULL));
	note_call("directory", aio_cancel(open(".", O_RDONLY), NULL));
	note_call("mismatch_done", aio_cancel(waiting->aio_fildes, cb));
	note_call("mismatch_waiting", aio_cancel(fd, waiting));
	note_state("waiting", waiting);
	close(fd);
	note_call("closed", aio_cancel(fd, NULL));
	note_call("closed_one", aio_cancel(fd, cb));
}

/*
 * Cancels a read that waits. glibc cannot: one of its threads is executing the read.
 * The library can.
 */
static void what_waits(void)
{
	int writer;
	struct aiocb *cb = waiting_read(&writer);

	note_call("one", aio_cancel(cb->aio_fildes, cb));
	end_read(writer);
	note_end("state", cb);
}

static void all_that_wait(void)
{
	int writer;
	struct aiocb *cb = waiting_read(&writer);

	note_call("all", aio_cancel(cb->aio_fildes, NULL));
	end_read(writer);
	note_end("state", cb);
}

static void all_after_fcntl(void)
{
	int writer;
	struct aiocb *cb = waiting_read(&writer);

	REQUIRE(fcntl(cb->aio_fildes, F_SETFL, 0) == 0);
	note_call("all", aio_cancel(cb->aio_fildes, NULL));
	end_read(writer);
	note_end("state", cb);
}

static int nr_in(int fd)
{
	int nr = 0;

	REQUIRE(ioctl(fd, FIONREAD, &nr) == 0);
	return nr;
}

/*
 * A pipe that the first write fills, so that the writes in `more` wait in the queue and
 * have not begun.
 */
struct queued {
	int reader, writer;
	struct aiocb *first, *more[3];
};

static struct queued queue_writes(void)
{
	enum { FILLS = 256 * 1024 };
	static char bytes[FILLS];
	struct queued queued;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	queued.reader = fds[0];
	queued.writer = fds[1];
	queued.first = request(queued.writer, bytes, FILLS, 0);
	REQUIRE(aio_write(queued.first) == 0);
	while (nr_in(queued.reader) < 65536)
		sched_yield();
	for (int i = 0; i < 3; i++) {
		queued.more[i] = request(queued.writer, bytes, 1, 0);
		REQUIRE(aio_write(queued.more[i]) == 0);
	}
	return queued;
}

/* Reads from the pipe until the request `until` is complete. */
static void drain(const struct queued *queued, const struct aiocb *until)
{
	char bytes[65536];

	while (aio_error(until) == EINPROGRESS) {
		if (nr_in(queued->reader))
			REQUIRE(read(queued->reader, bytes, sizeof(bytes)) > 0);
		else
			sched_yield();
	}
}

static void one_that_is_queued(void)
{
	struct queued queued = queue_writes();

	note_call("one", aio_cancel(queued.writer, queued.more[1]));
	note_state("cancelled", queued.more[1]);
	note_call("again", aio_cancel(queued.writer, queued.more[1]));
	note_state("before", queued.more[0]);
	drain(&queued, queued.more[2]);
	note_end("first", queued.first);
	note_end("before", queued.more[0]);
	note_end("behind", queued.more[2]);
}

static void last_that_is_queued(void)
{
	struct queued queued = queue_writes();

	note_call("one", aio_cancel(queued.writer, queued.more[2]));
	note_state("cancelled", queued.more[2]);
	drain(&queued, queued.more[1]);
	note_end("before", queued.more[1]);
}

static void some_under_way(void)
{
	struct queued queued = queue_writes();

	note_call("all", aio_cancel(queued.writer, NULL));
	for (int i = 0; i < 3; i++)
		note_end("queued", queued.more[i]);
	drain(&queued, queued.first);
	note_end("first", queued.first);
	note_call("again", aio_cancel(queued.writer, NULL));
}

static void by_duplicate(void)
{
	struct queued queued = queue_writes();
	int copy = dup(queued.writer);

	note_call("all", aio_cancel(copy, NULL));
	note_call("one", aio_cancel(copy, queued.more[2]));
	drain(&queued, queued.more[2]);
	for (int i = 0; i < 3; i++)
		note_end("queued", queued.more[i]);
}

static void other_files(void)
{
	struct queued queued = queue_writes();
	int writer, fd = file_of("file", 100, O_RDWR);
	struct aiocb *waiting = waiting_read(&writer);

	note_call("file", aio_cancel(fd, NULL));
	note_call("reader", aio_cancel(queued.reader, NULL));
	note_state("queued", queued.more[0]);
	note_state("waiting", waiting);
}

static void then_again(void)
{
	struct queued queued = queue_writes();

	note_call("one", aio_cancel(queued.writer, queued.more[2]));
	note_call("write", aio_write(queued.more[2]));
	note_state("write", queued.more[2]);
	drain(&queued, queued.more[2]);
	note_end("write", queued.more[2]);
}

static void waited_for(void)
{
	struct queued queued = queue_writes();
	const struct aiocb *cb = queued.more[2];

	note_call("one", aio_cancel(queued.writer, queued.more[2]));
	note_call("suspend", aio_suspend(&cb, 1, NULL));
	note_call("suspend_for", aio_suspend(&cb, 1, &long_time));
}

/* Whether cancelled requests are notified */

static volatile sig_atomic_t nr_signals, last_value, last_error;
static struct aiocb *last;

static void count(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	nr_signals++;
	last_value = info->si_value.sival_int;
	last_error = aio_error(last);
}

static void by_signal(void)
{
	const struct sigaction action = { .sa_sigaction = count,
					  .sa_flags = SA_SIGINFO };
	struct queued queued = queue_writes();
	struct sigevent *event;

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	last = request(queued.writer, "x", 1, 0);
	event = &last->aio_sigevent;
	event->sigev_notify = SIGEV_SIGNAL;
	event->sigev_signo = SIGUSR1;
	event->sigev_value.sival_int = 5;
	REQUIRE(aio_write(last) == 0);
	note_call("cancel", aio_cancel(queued.writer, last));
	for (int i = 0; i < PATIENCE_MS && !nr_signals; i++)
		usleep(1000);
	note("signals", nr_signals);
	note("value", last_value);
	note("error", last_error == ECANCELED);
}

static uint32_t nr_calls;

static void call(union sigval value)
{
	last_value = value.sival_int;
	last_error = aio_error(last);
	__atomic_add_fetch(&nr_calls, 1, __ATOMIC_SEQ_CST);
}

static void by_thread(void)
{
	struct queued queued = queue_writes();
	struct sigevent *event;

	last = request(queued.writer, "x", 1, 0);
	event = &last->aio_sigevent;
	event->sigev_notify = SIGEV_THREAD;
	event->sigev_notify_function = call;
	event->sigev_notify_attributes = NULL;
	event->sigev_value.sival_int = 6;
	REQUIRE(aio_write(last) == 0);
	note_call("cancel", aio_cancel(queued.writer, last));
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (__atomic_load_n(&nr_calls, __ATOMIC_SEQ_CST))
			break;
		usleep(1000);
	}
	note("calls", __atomic_load_n(&nr_calls, __ATOMIC_SEQ_CST));
	note("value", last_value);
	note("error", last_error == ECANCELED);
}

/*
 * aio_fsync
 */

static void syncs_after_writes(void)
{
	enum { NR = 20 };
	int fd = file_of("file", 0, O_RDWR), nr_done = 0;
	char *buf = pages_of(65536, PROT_READ);
	struct aiocb *writes[NR], *sync = request(fd, NULL, 0, 0);

	for (int i = 0; i < NR; i++) {
		writes[i] = request(fd, buf, 65536, 65536l * i);
		REQUIRE(aio_write(writes[i]) == 0);
	}
	REQUIRE(aio_fsync(O_SYNC, sync) == 0);
	note_end("sync", sync);
	for (int i = 0; i < NR; i++)
		nr_done += aio_error(writes[i]) == 0;
	note("written", nr_done);
}

static void bad_sync(void)
{
	struct aiocb *cb = request(-1, NULL, 0, 0);

	note_call("fd_and_op", aio_fsync(-1, cb));
	note_call("fd", aio_fsync(O_SYNC, cb));
	cb->aio_fildes = file_of("file", 10, O_RDONLY);
	note_call("op", aio_fsync(-1, cb));
	cb->aio_reqprio = -1;
	note_call("prio", aio_fsync(O_SYNC, cb));
	cb->aio_reqprio = 0;
	note_try("read_only", aio_fsync(O_DSYNC, cb), cb);
	cb->aio_lio_opcode = 99;
	note_try("opcode", aio_fsync(O_DSYNC, cb), cb);
}

static void sync_notifies(void)
{
	struct aiocb *cb = request(file_of("file", 10, O_RDWR), NULL, 0, 0);
	struct timespec timeout = long_time;
	siginfo_t info = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	cb->aio_sigevent.sigev_notify = SIGEV_SIGNAL;
	cb->aio_sigevent.sigev_signo = SIGUSR1;
	cb->aio_sigevent.sigev_value.sival_int = 3;
	note_call("sync", aio_fsync(O_SYNC, cb));
	note_call("signal", sigtimedwait(&set, &info, &timeout) == SIGUSR1);
	note("value", info.si_value.sival_int);
	note("code", info.si_code == SI_ASYNCIO);
	note_state("state", cb);
}

const struct row rows_posix_cancel[] = {
	ROW("aio_cancel of complete requests", what_is_done),
	ROW("aio_cancel of a request that was never submitted", what_never_was),
	ROW("aio_cancel of failed requests", what_failed),
	ROW("aio_cancel with a descriptor that is not the request's",
	    bad_descriptors),
	ROW_DIFFERS("aio_cancel of a read that waits", what_waits,
		    differs_posix_cancelled, { "one=1", "one=0" },
		    { "state=0,1", "state=ECANCELED,-1" }),
	ROW_DIFFERS("aio_cancel of all that waits", all_that_wait,
		    differs_posix_cancelled, { "all=1", "all=0" },
		    { "state=0,1", "state=ECANCELED,-1" }),
	ROW_DIFFERS("aio_cancel of all that waits, after fcntl(F_SETFL)",
		    all_after_fcntl, differs_posix_cancelled,
		    { "all=1", "all=0" },
		    { "state=0,1", "state=ECANCELED,-1" }),
	ROW("aio_cancel of a write in a queue", one_that_is_queued),
	ROW("aio_cancel of the last write in a queue", last_that_is_queued),
	ROW_DIFFERS("aio_cancel of a queue whose first write is under way",
		    some_under_way, differs_posix_cancelled,
		    { "all=1", "all=0" },
		    { "first=0,262144", "first=0,65536" }),
	ROW("aio_cancel by a duplicate", by_duplicate),
	ROW("aio_cancel leaves other files", other_files),
	ROW("a request can be made again after aio_cancel", then_again),
	ROW("aio_suspend returns for cancelled requests", waited_for),
	ROW("a cancelled request sends its signal", by_signal),
	ROW("a cancelled request calls its function", by_thread),
	ROW("aio_fsync completes after the writes of its file",
	    syncs_after_writes),
	ROW("aio_fsync with arguments that are bad", bad_sync),
	ROW("aio_fsync sends its signal", sync_notifies),
	NO_ROW,
};

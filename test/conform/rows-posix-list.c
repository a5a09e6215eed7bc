/* SPDX-License-Identifier: MIT */
/* lio_listio: which lists it accepts, its results, and its notifications */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "differences.h"
#include "posix.h"

enum { BYTES = 4096 };

static struct aiocb *member(int opcode, int fd, size_t nbytes, off_t offset)
{
	struct aiocb *cb = request(fd, pages_of(BYTES, PROT_READ | PROT_WRITE),
				   nbytes, offset);

	cb->aio_lio_opcode = opcode;
	return cb;
}

static struct aiocb *waiting_member(int *ret_writer)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	*ret_writer = fds[1];
	return member(LIO_READ, fds[0], 1, 0);
}

static int a_file(void)
{
	return file_of("file", BYTES, O_RDWR);
}

static void odd_arguments(void)
{
	struct aiocb *one = member(LIO_READ, a_file(), 10, 0);
	struct aiocb *list[] = { one };

	note_call("mode_-1", lio_listio(-1, list, 1, NULL));
	note_call("mode_2", lio_listio(2, list, 1, NULL));
	note_call("mode_99", lio_listio(99, list, 1, NULL));
	note_state("untouched", one);
	note_call("minus_1", lio_listio(LIO_WAIT, list, -1, NULL));
	note_call("mode_and_minus_1", lio_listio(99, list, -1, NULL));
	note_state("untouched", one);
}

static void nothing_to_do(void)
{
	struct aiocb *nulls[3] = { NULL }, **none = nulls;
	struct aiocb *nops[2] = { member(LIO_NOP, -1, 10, 0),
				  member(LIO_NOP, a_file(), 10, 0) };

	note_call("wait_none", lio_listio(LIO_WAIT, none, 0, NULL));
	note_call("none", lio_listio(LIO_NOWAIT, none, 0, NULL));
	note_call("wait_nulls", lio_listio(LIO_WAIT, nulls, 3, NULL));
	note_call("nulls", lio_listio(LIO_NOWAIT, nulls, 3, NULL));
	note_call("wait_nops", lio_listio(LIO_WAIT, nops, 2, NULL));
	note_call("nops", lio_listio(LIO_NOWAIT, nops, 2, NULL));
	note_state("nop", nops[0]);
	note_state("nop", nops[1]);
}

static void mixed(void)
{
	int fd = a_file();
	struct aiocb *list[] = {
		member(LIO_READ, fd, 100, 0),    NULL,
		member(LIO_WRITE, fd, 50, 4096), member(LIO_NOP, fd, 7, 0),
		member(LIO_READ, fd, 200, 4000),
	};

	note_call("list", lio_listio(LIO_WAIT, list, 5, NULL));
	note_state("read", list[0]);
	note_state("write", list[2]);
	note_state("nop", list[3]);
	note("data", is_pattern((void *)list[0]->aio_buf, 100, 0));
	note("size", lseek(fd, 0, SEEK_END));
}

static void not_waiting(void)
{
	int fd = a_file();
	struct aiocb *list[] = { member(LIO_READ, fd, 100, 0),
				 member(LIO_WRITE, fd, 50, 4096) };

	note_call("list", lio_listio(LIO_NOWAIT, list, 2, NULL));
	note_end("read", list[0]);
	note_end("write", list[1]);
}

static void one_fails(int mode)
{
	int fd = a_file();
	struct aiocb *list[] = {
		member(LIO_READ, fd, 100, 0),
		member(LIO_READ, -1, 100, 0),
		member(LIO_WRITE, fd, 10, 0),
		member(LIO_READ, fd, 10, -5),
	};

	note_call("list", lio_listio(mode, list, 4, NULL));
	for (int i = 0; i < 4; i++)
		note_end("member", list[i]);
}

static void one_fails_waiting(void)
{
	one_fails(LIO_WAIT);
}

static void one_fails_not_waiting(void)
{
	one_fails(LIO_NOWAIT);
}

static void bad_opcode(int mode)
{
	static const int opcodes[] = { -1, 3, 77, 128 };

	for (int i = 0; i < 4; i++) {
		struct aiocb *list[] = { member(opcodes[i], a_file(), 10, 0) };

		note_call("list", lio_listio(mode, list, 1, NULL));
		note_end("member", list[0]);
	}
}

static void bad_opcode_waiting(void)
{
	bad_opcode(LIO_WAIT);
}

static void bad_opcode_not_waiting(void)
{
	bad_opcode(LIO_NOWAIT);
}

static void refused(int mode)
{
	int fd = a_file();
	struct aiocb *list[] = { member(LIO_READ, fd, 100, 0),
				 member(LIO_READ, fd, 100, 0),
				 member(LIO_READ, fd, 100, 0) };

	list[1]->aio_reqprio = -1;
	note_call("list", lio_listio(mode, list, 3, NULL));
	for (int i = 0; i < 3; i++)
		note_end("member", list[i]);
	note_call("alone", lio_listio(mode, list + 1, 1, NULL));
	note_end("alone", list[1]);
}

static void refused_waiting(void)
{
	refused(LIO_WAIT);
}

static void refused_not_waiting(void)
{
	refused(LIO_NOWAIT);
}

static void same_file_often(void)
{
	enum { NR = 500 };
	struct aiocb *list[NR];
	int fd = a_file(), nr_good = 0;

	for (int i = 0; i < NR; i++) {
		list[i] = member(i % 2 ? LIO_WRITE : LIO_READ, fd, 16,
				 i % 64 * 16);
		memset((void *)list[i]->aio_buf, i, 16);
	}
	note_call("list", lio_listio(LIO_WAIT, list, NR, NULL));
	for (int i = 0; i < NR; i++)
		nr_good += aio_error(list[i]) == 0 && aio_return(list[i]) == 16;
	note("good", nr_good);
}

static void same_member_again(void)
{
	struct aiocb *list[] = { member(LIO_READ, a_file(), 100, 0) };

	note_call("first", lio_listio(LIO_WAIT, list, 1, NULL));
	list[0]->aio_offset = 4090;
	note_call("second", lio_listio(LIO_WAIT, list, 1, NULL));
	note_state("member", list[0]);
}

/*
 * Lists with LIO_WAIT
 */

static void until_all(void)
{
	struct waker waker = { 0 };
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0),
				 waiting_member(&waker.writer) };

	wake_this(&waker);
	note_call("list", lio_listio(LIO_WAIT, list, 2, NULL));
	note_state("file", list[0]);
	note_state("pipe", list[1]);
}

static void stopped(void)
{
	int writer;
	struct aiocb *list[] = { waiting_member(&writer) };

	stop_this_and_end(writer);
	note_call("list", lio_listio(LIO_WAIT, list, 1, NULL));
	note_state("member", list[0]);
}

static volatile sig_atomic_t nr_handled;

static void count(int signo)
{
	(void)signo;
	nr_handled++;
}

static void interrupted(void)
{
	const struct sigaction action = { .sa_handler = count };
	static struct waker waker = { .signo = SIGUSR1 };
	struct aiocb *list[] = { waiting_member(&waker.writer) };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	wake_this(&waker);
	note_call("list", lio_listio(LIO_WAIT, list, 1, NULL));
	__atomic_store_n(&waker.is_over, 1, __ATOMIC_SEQ_CST);
	note("handled", nr_handled > 0);
	note_state("member", list[0]);
}

static void interrupted_restarting(void)
{
	const struct sigaction action = { .sa_handler = count,
					  .sa_flags = SA_RESTART };
	static struct waker waker = { .signo = SIGUSR1 };
	struct aiocb *list[] = { waiting_member(&waker.writer) };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	signal_this_and_end(&waker);
	note_call("list", lio_listio(LIO_WAIT, list, 1, NULL));
	note_end("member", list[0]);
}

struct listing {
	struct aiocb *list[1];
	uint32_t tid; /* atomic */
	int ret;
};

static void *list_and_wait(void *arg)
{
	struct listing *listing = arg;

	__atomic_store_n(&listing->tid, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	listing->ret = 1 + lio_listio(LIO_WAIT, listing->list, 1, NULL);
	return NULL;
}

static void cancelled_thread(void)
{
	struct listing listing = { 0 };
	pthread_t thread;
	void *result;
	uint32_t tid;
	int writer;

	listing.list[0] = waiting_member(&writer);
	REQUIRE(!pthread_create(&thread, NULL, list_and_wait, &listing));
	while (!(tid = __atomic_load_n(&listing.tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	/*
	 * Wait until lio_listio has submitted the request, because until then the
	 * thread may sleep for other reasons.
	 */
	while (aio_error(listing.list[0]) != EINPROGRESS)
		sched_yield();
	wait_asleep((pid_t)tid);
	REQUIRE(!pthread_cancel(thread));
	end_read(writer);
	REQUIRE(!pthread_join(thread, &result));
	note("cancelled", result == PTHREAD_CANCELED);
	note("returned", listing.ret);
	note_end("member", listing.list[0]);
}

static void cancelled_member(void)
{
	static char bytes[256 * 1024];
	int fds[2];
	struct aiocb *first, *list[2];

	REQUIRE(pipe(fds) == 0);
	first = request(fds[1], bytes, sizeof(bytes), 0);
	REQUIRE(aio_write(first) == 0);
	list[0] = member(LIO_READ, a_file(), 10, 0);
	list[1] = member(LIO_WRITE, fds[1], 10, 0);
	note_call("list", lio_listio(LIO_NOWAIT, list, 2, NULL));
	note_call("cancel", aio_cancel(fds[1], list[1]));
	note_end("file", list[0]);
	note_end("pipe", list[1]);
}

/*
 * Notifications of a whole list, and of each of its requests
 */

static sigset_t set;

/*
 * Waits for the signal, and prints its data. The wait takes at most `seconds` seconds,
 * or 50 ms if `seconds` is 0.
 */
static void note_signal(const char *key, time_t seconds)
{
	const struct timespec timeout = { .tv_sec = seconds,
					  .tv_nsec = seconds ? 0 : 50 * MS };
	siginfo_t info = { 0 };
	int signo = sigtimedwait(&set, &info, &timeout);

	note_call(key, signo);
	if (signo < 0)
		return;
	note("code", info.si_code == SI_ASYNCIO);
	note("value", info.si_value.sival_int);
	note("self", info.si_pid == getpid() && info.si_uid == getuid());
}

static struct sigevent by_signal(int signo, int value)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = signo };

	event.sigev_value.sival_int = value;
	return event;
}

static void one_signal_for_all(void)
{
	struct sigevent event = by_signal(SIGRTMIN + 2, 11);
	int writer;
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0),
				 waiting_member(&writer) };

	set = block_signal(SIGRTMIN + 2);
	note_call("list", lio_listio(LIO_NOWAIT, list, 2, &event));
	note_end("file", list[0]);
	note_signal("early", 0);
	end_read(writer);
	note_signal("signal", PATIENCE_MS / 1000);
	note_state("pipe", list[1]);
	note_signal("more", 0);
}

static void signal_for_nothing(void)
{
	struct sigevent event = by_signal(SIGRTMIN + 2, 12);
	struct aiocb *list[] = { NULL };

	set = block_signal(SIGRTMIN + 2);
	note_call("none", lio_listio(LIO_NOWAIT, list, 0, &event));
	note_signal("none", PATIENCE_MS / 1000);
	note_call("nulls", lio_listio(LIO_NOWAIT, list, 1, &event));
	note_signal("nulls", PATIENCE_MS / 1000);
	note_call("wait", lio_listio(LIO_WAIT, list, 1, &event));
	note_signal("wait", 0);
}

static void waiting_tells_nobody(void)
{
	struct sigevent event = by_signal(SIGRTMIN + 2, 13);
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0) };

	set = block_signal(SIGRTMIN + 2);
	note_call("list", lio_listio(LIO_WAIT, list, 1, &event));
	note_signal("signal", 0);
}

static void members_tell(int mode)
{
	int fd = a_file();
	struct aiocb *list[] = { member(LIO_READ, fd, 10, 0),
				 member(LIO_READ, -1, 10, 0) };

	set = block_signal(SIGRTMIN + 2);
	list[0]->aio_sigevent = by_signal(SIGRTMIN + 2, 21);
	note_call("list", lio_listio(mode, list, 1, NULL));
	note_signal("good", PATIENCE_MS / 1000);
	list[1]->aio_sigevent = by_signal(SIGRTMIN + 2, 22);
	note_call("list", lio_listio(mode, list + 1, 1, NULL));
	note_signal("failed", PATIENCE_MS / 1000);
	note_signal("more", 0);
}

static void members_tell_waiting(void)
{
	members_tell(LIO_WAIT);
}

static void members_tell_not_waiting(void)
{
	members_tell(LIO_NOWAIT);
}

static void failed_tells(void)
{
	struct sigevent event = by_signal(SIGRTMIN + 2, 31);
	struct aiocb *list[] = { member(LIO_READ, -1, 10, 0) };

	set = block_signal(SIGRTMIN + 2);
	note_call("list", lio_listio(LIO_NOWAIT, list, 1, &event));
	note_signal("signal", PATIENCE_MS / 1000);
	note_end("member", list[0]);
}

static void refused_tells(void)
{
	struct sigevent event = by_signal(SIGRTMIN + 2, 32);
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0),
				 member(LIO_READ, a_file(), 10, 0) };

	list[1]->aio_reqprio = 99;
	set = block_signal(SIGRTMIN + 2);
	note_call("list", lio_listio(LIO_NOWAIT, list, 2, &event));
	note_signal("signal", PATIENCE_MS / 1000);
	note_signal("more", 0);
	note_end("good", list[0]);
	note_end("refused", list[1]);
}

static struct aiocb *watched;
static uint32_t nr_calls;
static int value_seen, error_seen;

static void called(union sigval value)
{
	value_seen = value.sival_int;
	error_seen = aio_error(watched);
	__atomic_add_fetch(&nr_calls, 1, __ATOMIC_SEQ_CST);
}

static void one_call_for_all(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = called };
	int writer;
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0),
				 waiting_member(&writer) };

	watched = list[1];
	event.sigev_value.sival_int = 41;
	note_call("list", lio_listio(LIO_NOWAIT, list, 2, &event));
	note_end("file", list[0]);
	note("early", __atomic_load_n(&nr_calls, __ATOMIC_SEQ_CST));
	end_read(writer);
	for (int i = 0; i < PATIENCE_MS; i++) {
		if (__atomic_load_n(&nr_calls, __ATOMIC_SEQ_CST))
			break;
		usleep(1000);
	}
	note("calls", __atomic_load_n(&nr_calls, __ATOMIC_SEQ_CST));
	note("value", value_seen);
	note("error", error_seen);
}

static void silent_event(void)
{
	struct sigevent none = { .sigev_notify = SIGEV_NONE },
			unknown = { .sigev_notify = 99 };
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0) };

	note_call("none", lio_listio(LIO_NOWAIT, list, 1, &none));
	note_end("none", list[0]);
	note_call("unknown", lio_listio(LIO_NOWAIT, list, 1, &unknown));
	note_end("unknown", list[0]);
}

static void bad_signal(void)
{
	struct sigevent event = by_signal(65, 1);
	struct aiocb *list[] = { member(LIO_READ, a_file(), 10, 0) };

	note_call("list", lio_listio(LIO_NOWAIT, list, 1, &event));
	note_end("member", list[0]);
}

const struct row rows_posix_list[] = {
	ROW("lio_listio with arguments that are bad", odd_arguments),
	ROW("lio_listio of nothing", nothing_to_do),
	ROW("lio_listio of reads, writes and nothing", mixed),
	ROW("lio_listio that does not wait", not_waiting),
	ROW("lio_listio that waits, with members that fail", one_fails_waiting),
	ROW("lio_listio that does not wait, with members that fail",
	    one_fails_not_waiting),
	ROW_DIFFERS("lio_listio that waits, with an unknown opcode",
		    bad_opcode_waiting, differs_posix_opcode,
		    { "list=0", "list=EIO" },
		    { "member=0,*", "member=EINVAL,-1" }),
	ROW_DIFFERS("lio_listio that does not wait, with an unknown opcode",
		    bad_opcode_not_waiting, differs_posix_opcode,
		    { "member=0,*", "member=EINVAL,-1" }),
	ROW("lio_listio that waits, with a member that is refused",
	    refused_waiting),
	ROW("lio_listio that does not wait, with a member that is refused",
	    refused_not_waiting),
	ROW("lio_listio of five hundred requests of a file", same_file_often),
	ROW("lio_listio of a member that was there before", same_member_again),
	ROW("lio_listio waits for all", until_all),
	ROW("lio_listio ends when a handler has run", interrupted),
	ROW("lio_listio continues after the process was stopped", stopped),
	ROW_DIFFERS("lio_listio after a handler with SA_RESTART has run",
		    interrupted_restarting, differs_posix_restart,
		    { "list=0", "list=EINTR" }),
	ROW("a thread that is cancelled in lio_listio", cancelled_thread),
	ROW("a member of a list can be cancelled", cancelled_member),
	ROW("lio_listio sends one signal for all", one_signal_for_all),
	ROW("lio_listio of nothing sends its signal", signal_for_nothing),
	ROW("lio_listio that waits sends no signal", waiting_tells_nobody),
	ROW("members of a list that is waited for send signals",
	    members_tell_waiting),
	ROW("members of a list that is not waited for send signals",
	    members_tell_not_waiting),
	ROW("lio_listio sends its signal when all have failed", failed_tells),
	ROW("lio_listio sends its signal when one was refused", refused_tells),
	ROW("lio_listio calls one function for all", one_call_for_all),
	ROW("lio_listio with SIGEV_NONE", silent_event),
	ROW("lio_listio with a signal that there is not", bad_signal),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/*
 * Reapers (threads that sleep until a completion wakes them, wakes.h) that use POSIX
 * AIO
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "wakes-door.h"

enum source { SUSPEND, SIGNAL, SIGNALFD, CALL };

static const struct sleep sleeps[] = {
	{ "aio_suspend", IN_CALL, SUSPEND, OF_NEITHER },
	{ "sigwaitinfo of SIGEV_SIGNAL", IN_CALL, SIGNAL, OF_SIGNALS },
	{ "read of a signalfd of SIGEV_SIGNAL", BY_READ, SIGNALFD, OF_SIGNALS },
	{ "epoll_wait by level of a signalfd of SIGEV_SIGNAL", BY_LEVEL,
	  SIGNALFD, OF_SIGNALS },
	{ "sem_wait for the function of SIGEV_THREAD", IN_CALL, CALL,
	  OF_THREADS_WITHOUT_MASK },
};

static bool has(const struct sleep *how, const struct ask *ask)
{
	(void)how;
	switch (ask->request) {
	case READ:
	case DIRECT: return true;
	case CANCEL:
		return is_uaio(); /* glibc cannot cancel a request that waits */
	default: return false;
	}
}

static int signal_of(const struct seat *seat)
{
	return SIGRTMIN + (int)seat->index;
}

static sigset_t set_of(const struct seat *seat)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal_of(seat));
	return set;
}

static void open_seat(struct seat *seat)
{
	const struct sleep *how = seat->kind->sleep;
	const sigset_t set = set_of(seat);

	REQUIRE(sem_init(&seat->called, 0, 0) == 0);
	if (how->source != SIGNALFD)
		return;
	seat->event = signalfd(
		-1, &set,
		SFD_CLOEXEC | (how->way == BY_READ ? 0 : SFD_NONBLOCK));
	REQUIRE(seat->event >= 0);
	watch_open(&seat->watch, seat->event, how->way);
}

static void close_seat(struct seat *seat)
{
	if (seat->event >= 0)
		watch_close(&seat->watch);
}

static void call(union sigval value)
{
	struct seat *seat = value.sival_ptr;

	REQUIRE(sem_post(&seat->called) == 0);
}

static void arm(struct seat *seat)
{
	const bool is_direct = seat->kind->ask->request == DIRECT;
	const int source = seat->kind->sleep->source;
	struct aiocb *aiocb = &seat->aiocb;
	struct sigevent *event = &aiocb->aio_sigevent;

	memset(aiocb, 0, sizeof(*aiocb));
	aiocb->aio_fildes = seat_fd(seat);
	aiocb->aio_buf = seat->buffer;
	aiocb->aio_nbytes = is_direct ? BLOCK : 1;
	aiocb->aio_offset = is_direct ? (off_t)seat->block * BLOCK : 0;
	event->sigev_notify = SIGEV_NONE;
	if (source == CALL) {
		event->sigev_notify = SIGEV_THREAD;
		event->sigev_notify_function = call;
		event->sigev_value.sival_ptr = seat;
	} else if (source != SUSPEND) {
		event->sigev_notify = SIGEV_SIGNAL;
		event->sigev_signo = signal_of(seat);
		event->sigev_value.sival_int = (int)seat->number;
	}
	REQUIRE(aio_read(aiocb) == 0);
}

static void suspend(struct seat *seat)
{
	const struct aiocb *list[] = { NULL, &seat->aiocb };

	while (aio_error(&seat->aiocb) == EINPROGRESS)
		REQUIRE(aio_suspend(list, 2, NULL) == 0 || errno == EINTR);
}

static void await_signal(const struct seat *seat)
{
	const sigset_t set = set_of(seat);
	siginfo_t info;

	while (sigwaitinfo(&set, &info) < 0)
		REQUIRE(errno == EINTR);
	REQUIRE(info.si_value.sival_int == (int)seat->number);
}

static void await_signalfd(const struct seat *seat)
{
	struct signalfd_siginfo info;

	do
		watch_sleep(&seat->watch);
	while (!watch_read(&seat->watch, &info, sizeof(info)));
	REQUIRE(info.ssi_int == (int)seat->number);
}

static void await(struct seat *seat)
{
	long result;
	int error;

	switch ((enum source)seat->kind->sleep->source) {
	case SUSPEND: suspend(seat); break;
	case SIGNAL: await_signal(seat); break;
	case SIGNALFD: await_signalfd(seat); break;
	case CALL:
		while (sem_wait(&seat->called))
			REQUIRE(errno == EINTR);
		break;
	}
	error = aio_error(&seat->aiocb);
	REQUIRE(error != EINPROGRESS);
	result = aio_return(&seat->aiocb);
	seat_check(seat, error ? -error : result);
}

static void cancel(struct seat *seat)
{
	while (aio_cancel(seat_fd(seat), &seat->aiocb) != AIO_CANCELED)
		sched_yield();
}

const struct door posix_door = {
	.sleeps = sleeps,
	.nr_sleeps = NR_ELEMENTS(sleeps),
	.has = has,
	.open = open_seat,
	.arm = arm,
	.await = await,
	.cancel = cancel,
	.close = close_seat,
};

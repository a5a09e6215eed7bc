/* SPDX-License-Identifier: MIT */
/*
 * Reapers (threads that sleep until a completion wakes them, wakes.h) that use kernel
 * AIO
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wakes-door.h"

/*
 * The aio_data of a request is the number of the wake that completes the request. Wakes
 * are counted from 1. The polls that end the threads of a team (several threads in place
 * of one reaper) have the aio_data LEAVE.
 */
enum { LEAVE = 0 };
enum source { ALONE, TEAM };

static const struct sleep sleeps[] = {
	{ "io_getevents", IN_CALL, ALONE, OF_NEITHER },
	{ "three threads in io_getevents", IN_CALL, TEAM, OF_NEITHER },
	{ "read of an eventfd of kernel AIO", BY_READ, ALONE, OF_NEITHER },
	{ "poll of an eventfd of kernel AIO", BY_POLL, ALONE, OF_NEITHER },
	{ "epoll_wait by level of an eventfd of kernel AIO", BY_LEVEL, ALONE,
	  OF_NEITHER },
	{ "epoll_wait by edge of an eventfd of kernel AIO", BY_EDGE, ALONE,
	  OF_NEITHER },
	{ "epoll_wait once of an eventfd of kernel AIO", BY_ONESHOT, ALONE,
	  OF_NEITHER },
	{ "epoll in an epoll of an eventfd of kernel AIO", BY_NESTED, ALONE,
	  OF_NEITHER },
};

static bool has(const struct sleep *how, const struct ask *ask)
{
	(void)how;
	switch (ask->request) {
	case READ: return is_uaio(); /* the kernel's io_submit() would block */
	case POLL:
	case CANCEL:
	case DIRECT: return true;
	default: return false;
	}
}

/*
 * Wait until there are nr_min events. A signal that interrupts the call does not end
 * the wait.
 * Return: whether there was an event.
 */
static bool take(const struct seat *seat, long nr_min, struct io_event *event)
{
	long ret;

	do
		ret = syscall(SYS_io_getevents, seat->ctx, nr_min, 1l, event,
			      NULL);
	while (ret < 0 && errno == EINTR);
	REQUIRE(ret == 0 || ret == 1);
	return ret == 1;
}

/*
 * A thread of a team. A team is several threads that sleep in place of one reaper.
 */
static void *take_for_seat(void *arg)
{
	struct seat *seat = arg;

	for (;;) {
		struct io_event event;

		if (!take(seat, 1, &event))
			continue;
		if (event.data == LEAVE)
			return NULL;
		team_report(seat, event.data, (long)event.res);
	}
}

static void submit_poll(const struct seat *seat, struct iocb *iocb, int fd,
			int events)
{
	*iocb = (struct iocb){
		.aio_data = LEAVE,
		.aio_fildes = (uint32_t)fd,
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_buf = (uint64_t)events,
	};
	REQUIRE(syscall(SYS_io_submit, seat->ctx, 1l, &iocb) == 1);
}

static void open_seat(struct seat *seat)
{
	const enum way way = seat->kind->sleep->way;
	struct iocb iocb;

	REQUIRE(syscall(SYS_io_setup, 8, &seat->ctx) == 0);
	if (seat->bystander >= 0)
		submit_poll(seat, &iocb, seat->bystander, POLLIN);
	if (seat->kind->sleep->source == TEAM)
		team_start(seat, take_for_seat);
	if (way == IN_CALL)
		return;
	seat->event =
		eventfd(0, EFD_CLOEXEC | (way == BY_READ ? 0 : EFD_NONBLOCK));
	REQUIRE(seat->event >= 0);
	watch_open(&seat->watch, seat->event, way);
}

/*
 * End the team (the threads that sleep in place of the reaper). For each of its threads,
 * submit a poll that completes at once; the thread that reaps the poll returns.
 */
static void end_team(struct seat *seat)
{
	struct iocb iocb;

	for (unsigned i = 0; i < NR_TEAM; i++)
		submit_poll(seat, &iocb, seat->lane->ends[1], POLLOUT);
	team_join(seat);
}

static void close_seat(struct seat *seat)
{
	if (seat->kind->sleep->source == TEAM)
		end_team(seat);
	if (seat->kind->sleep->way != IN_CALL)
		watch_close(&seat->watch);
	REQUIRE(syscall(SYS_io_destroy, seat->ctx) == 0);
}

static void arm(struct seat *seat)
{
	struct iocb *iocb = &seat->iocb;

	*iocb = (struct iocb){
		.aio_data = seat->number,
		.aio_fildes = (uint32_t)seat_fd(seat),
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_buf = (uintptr_t)seat->buffer,
		.aio_nbytes = 1,
	};
	switch (seat->kind->ask->request) {
	case POLL:
	case CANCEL: /* kernel AIO can cancel only polls */
		iocb->aio_lio_opcode = IOCB_CMD_POLL;
		iocb->aio_buf = POLLIN;
		iocb->aio_nbytes = 0;
		break;
	case DIRECT:
		iocb->aio_nbytes = BLOCK;
		iocb->aio_offset = (int64_t)seat->block * BLOCK;
		break;
	default: break;
	}
	if (seat->event >= 0) {
		iocb->aio_flags = IOCB_FLAG_RESFD;
		iocb->aio_resfd = (uint32_t)seat->event;
	}
	REQUIRE(syscall(SYS_io_submit, seat->ctx, 1l, &iocb) == 1);
}

/*
 * Sleep until there may be an event.
 * Return: whether there was one.
 */
static bool sleep_once(struct seat *seat, struct io_event *event)
{
	uint64_t count;

	if (seat->event < 0)
		return take(seat, 1, event);
	watch_sleep(&seat->watch);
	/*
	 * When the eventfd counts an event, the event must already be in the ring.
	 */
	if (!watch_read(&seat->watch, &count, sizeof(count)))
		return false;
	REQUIRE(count == 1);
	REQUIRE(take(seat, 0, event));
	return true;
}

static void await(struct seat *seat)
{
	struct io_event event;

	if (seat->kind->sleep->source == TEAM) {
		seat_check(seat, team_await(seat));
		return;
	}
	while (!sleep_once(seat, &event))
		;
	REQUIRE(event.data == seat->number);
	REQUIRE(event.obj == (uintptr_t)&seat->iocb);
	seat_check(seat, (long)event.res);
}

static void cancel(struct seat *seat)
{
	struct io_event event;

	while (syscall(SYS_io_cancel, seat->ctx, &seat->iocb, &event)) {
		if (errno == EINPROGRESS)
			return;
		REQUIRE(errno == EINVAL || errno == EAGAIN);
		sched_yield();
	}
}

const struct door aio_door = {
	.sleeps = sleeps,
	.nr_sleeps = NR_ELEMENTS(sleeps),
	.has = has,
	.open = open_seat,
	.arm = arm,
	.await = await,
	.cancel = cancel,
	.close = close_seat,
};

/* SPDX-License-Identifier: MIT */
/* Reapers that use io_uring (wakes-door.h) */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wakes-door.h"

/*
 * The user_data of a request is the number of the wake that completes the request.
 * Wakes are counted from 1. The NOPs that end the threads of a team (several threads in
 * place of one reaper) have the user_data LEAVE.
 */
enum { ENTRIES = 8, LEAVE = 0 };
enum source { RING, DEFERRED, EVENTFD, TEAM };

static const struct sleep sleeps[] = {
	{ "io_uring_enter", IN_CALL, RING, OF_NEITHER },
	{ "io_uring_enter with DEFER_TASKRUN", IN_CALL, DEFERRED, OF_NEITHER },
	{ "three threads in io_uring_enter", IN_CALL, TEAM, OF_NEITHER },
	{ "three threads in epoll_wait of a ring", BY_LEVEL, TEAM, OF_NEITHER },
	{ "poll of a ring", BY_POLL, RING, OF_NEITHER },
	{ "epoll_wait by level of a ring", BY_LEVEL, RING, OF_NEITHER },
	{ "epoll_wait by edge of a ring", BY_EDGE, RING, OF_NEITHER },
	{ "epoll_wait once of a ring", BY_ONESHOT, RING, OF_NEITHER },
	{ "epoll in an epoll of a ring", BY_NESTED, RING, OF_NEITHER },
	{ "read of a ring's eventfd", BY_READ, EVENTFD, OF_NEITHER },
	{ "poll of a ring's eventfd", BY_POLL, EVENTFD, OF_NEITHER },
	{ "epoll_wait by edge of a ring's eventfd", BY_EDGE, EVENTFD,
	  OF_NEITHER },
};

static bool has(const struct sleep *how, const struct ask *ask)
{
	/*
	 * The ring has IORING_SETUP_SINGLE_ISSUER, so no other thread may submit a
	 * cancel.
	 */
	return how->source != DEFERRED || ask->request != CANCEL;
}

static void open_ring(struct seat *seat)
{
	const uint32_t coop =
		random_below(&seat->random, 2) ? IORING_SETUP_COOP_TASKRUN : 0;
	struct io_uring_params params = {
		.flags = seat->kind->sleep->source == DEFERRED
				 ? IORING_SETUP_SINGLE_ISSUER |
					   IORING_SETUP_DEFER_TASKRUN
				 : coop,
	};
	long ret = uring_open(&seat->ring, ENTRIES, &params);

	/* Before Linux 6.1, the kernel refuses some of these flags: use none. */
	if (ret == -EINVAL) {
		params.flags = 0;
		ret = uring_open(&seat->ring, ENTRIES, &params);
	}
	REQUIRE(ret == 0);
}

/* Sleep until there may be a completion. */
static void sleep_once(struct seat *seat, uint32_t to_submit)
{
	const struct uring *ring = &seat->ring;
	uint64_t count;
	long ret;

	if (seat->kind->sleep->way == IN_CALL) {
		ret = uring_enter(ring->fd, to_submit, 1,
				  IORING_ENTER_GETEVENTS, NULL, 0);
		REQUIRE(ret >= 0 || ret == -EINTR);
		return;
	}
	watch_sleep(&seat->watch);
	if (seat->kind->sleep->source == EVENTFD)
		(void)watch_read(&seat->watch, &count, sizeof(count));
}

/*
 * A thread of a team. A team is several threads that sleep in place of one reaper.
 */
static void *take_for_seat(void *arg)
{
	struct seat *seat = arg;

	for (;;) {
		struct io_uring_cqe cqe;
		bool is_taken;

		sleep_once(seat, 0);
		REQUIRE(pthread_mutex_lock(&seat->mutex) == 0);
		is_taken = uring_take(&seat->ring, &cqe);
		REQUIRE(pthread_mutex_unlock(&seat->mutex) == 0);
		if (!is_taken)
			continue;
		if (cqe.user_data == LEAVE)
			return NULL;
		team_report(seat, cqe.user_data, cqe.res);
	}
}

static void open_seat(struct seat *seat)
{
	const struct sleep *how = seat->kind->sleep;
	int fd;

	open_ring(seat);
	fd = seat->ring.fd;
	if (how->source == EVENTFD) {
		seat->event = eventfd(
			0,
			EFD_CLOEXEC | (how->way == BY_READ ? 0 : EFD_NONBLOCK));
		REQUIRE(seat->event >= 0);
		REQUIRE(uring_register(fd, IORING_REGISTER_EVENTFD,
				       &seat->event, 1) == 0);
		fd = seat->event;
	}
	watch_open(&seat->watch, fd, how->way);
	if (seat->bystander >= 0) {
		uring_put(&seat->ring, IORING_OP_POLL_ADD, seat->bystander,
			  LEAVE)
			->poll32_events = POLLIN;
		REQUIRE(uring_submit(&seat->ring) == 1);
	}
	if (how->source == TEAM)
		team_start(seat, take_for_seat);
}

/*
 * End the team (the threads that sleep in place of the reaper): submit a NOP for each
 * thread. A thread ends when it consumes the completion of a NOP.
 */
static void end_team(struct seat *seat)
{
	for (unsigned i = 0; i < NR_TEAM; i++)
		uring_put(&seat->ring, IORING_OP_NOP, -1, LEAVE);
	REQUIRE(uring_submit(&seat->ring) == NR_TEAM);
	team_join(seat);
}

static void close_seat(struct seat *seat)
{
	if (seat->kind->sleep->source == TEAM)
		end_team(seat);
	watch_close(&seat->watch);
	REQUIRE(close(seat->ring.fd) == 0);
	uring_unmap(&seat->ring);
}

static void arm(struct seat *seat)
{
	const struct ask *ask = seat->kind->ask;
	const uintptr_t buffer = (uintptr_t)seat->buffer;
	struct uring *ring = &seat->ring;
	const uint64_t number = seat->number;
	const int fd = seat_fd(seat);

	switch (ask->request) {
	case READ:
	case CANCEL:
		uring_put_rw(ring,
			     ask->is_socket ? IORING_OP_RECV : IORING_OP_READ,
			     fd, buffer, 1, 0, number);
		break;
	case POLL:
		uring_put(ring, IORING_OP_POLL_ADD, fd, number)->poll32_events =
			POLLIN;
		break;
	case TIMEOUT:
		seat->time.tv_nsec = random_below(&seat->random, 200000);
		uring_put_rw(ring, IORING_OP_TIMEOUT, -1,
			     (uintptr_t)&seat->time, 1, 0, number);
		break;
	case NOP:
		uring_put(ring, IORING_OP_NOP, -1, number)->flags = IOSQE_ASYNC;
		break;
	case MESSAGE: return;
	case DIRECT:
		uring_put_rw(ring, IORING_OP_READ, fd, buffer, BLOCK,
			     (uint64_t)seat->block * BLOCK, number);
		break;
	}
	/*
	 * If the reaper sleeps in io_uring_enter(), that call can also submit the
	 * request: choose at random where to submit it. Submit the request here if the
	 * reaper sleeps in another way, or if another thread is to cancel the request
	 * or to consume its completion.
	 */
	if (seat->kind->sleep->way != IN_CALL ||
	    seat->kind->sleep->source == TEAM || ask->request == CANCEL ||
	    random_below(&seat->random, 2))
		REQUIRE(uring_submit(ring) == 1);
}

static void await(struct seat *seat)
{
	struct io_uring_cqe cqe;

	if (seat->kind->sleep->source == TEAM) {
		seat_check(seat, team_await(seat));
		return;
	}
	do
		sleep_once(seat, uring_publish(&seat->ring));
	while (!uring_take(&seat->ring, &cqe));
	REQUIRE(cqe.user_data == seat->number);
	seat_check(seat, cqe.res);
	REQUIRE(uring_ready(&seat->ring) == 0);
}

static void cancel(struct seat *seat)
{
	struct io_uring_sync_cancel_reg what = {
		.addr = seat->number,
		.fd = -1,
		.timeout = { -1, -1 },
	};
	long ret;

	for (;;) {
		ret = uring_register(seat->ring.fd, IORING_REGISTER_SYNC_CANCEL,
				     &what, 1);
		if (ret == 0)
			return;
		/*
		 * The cancel finds no request, because the request does not wait yet:
		 * try again.
		 */
		REQUIRE(ret == -ENOENT || ret == -EALREADY || ret == -EINTR);
		sched_yield();
	}
}

void uring_for_messages(struct uring *ring)
{
	const struct io_uring_params params = { 0 };

	REQUIRE(uring_open(ring, ENTRIES, &params) == 0);
}

void uring_message(struct uring *from, const struct seat *seat, uint64_t number)
{
	struct io_uring_cqe cqe;

	uring_put_rw(from, IORING_OP_MSG_RING, seat->ring.fd, IORING_MSG_DATA,
		     (unsigned char)number, number, 0);
	REQUIRE(uring_submit(from) == 1);
	while (!uring_take(from, &cqe)) {
		long ret = uring_enter(from->fd, 0, 1, IORING_ENTER_GETEVENTS,
				       NULL, 0);

		REQUIRE(ret >= 0 || ret == -EINTR);
	}
	REQUIRE(cqe.res == 0);
}

const struct door uring_door = {
	.sleeps = sleeps,
	.nr_sleeps = NR_ELEMENTS(sleeps),
	.has = has,
	.open = open_seat,
	.arm = arm,
	.await = await,
	.cancel = cancel,
	.close = close_seat,
};

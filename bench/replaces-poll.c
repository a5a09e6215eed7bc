/* SPDX-License-Identifier: MIT */
/*
 * Two works (kinds of load) of replaces.c, which use POLL requests of kernel AIO
 * on sockets.
 *
 * "ping-pong": two processes send a byte to and fro. Each process waits for an eventfd
 * by epoll. Its POLL request on the socket names the eventfd by IOCB_FLAG_RESFD.
 * Without AIO, another thread of the process waits for the socket by a second epoll,
 * and writes to the eventfd.
 *
 * "sockets": a POLL request waits on each of many sockets. In each round some sockets
 * become ready; the program reads from them and submits new requests for them. Without
 * AIO, one epoll watches all sockets.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handles.h"
#include "replaces.h"

enum {
	SOCKETS = 5000,
	READY = 100, /* number of sockets that a round makes ready */
	/* after socket i, a round makes socket i + STEP ready */
	STEP = 7,
	SPARE_FDS = 64, /* descriptors besides those of the sockets */
};

/* Return: the call's result. Ends the program if the call failed. */
static int checked(const char *what, ssize_t ret)
{
	if (ret < 0)
		fail(what, errno);
	return (int)ret;
}

static void send_byte(int socket)
{
	checked("send", send(socket, "u", 1, MSG_NOSIGNAL));
}

/* Return: true if a byte was read; false if the other end is closed. */
static bool take_byte(int socket)
{
	char byte;

	return checked("read", read(socket, &byte, 1)) > 0;
}

static int new_epoll(void)
{
	return checked("epoll_create1", epoll_create1(EPOLL_CLOEXEC));
}

static void watch(int epoll, int fd, uint32_t events, uint32_t number)
{
	struct epoll_event event = { .events = events, .data.u32 = number };

	checked("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

/*
 * Wait for events of the epoll.
 * Return: how many there are: at least 1, at most `most`.
 */
static size_t wait_for(int epoll, struct epoll_event *events, size_t most)
{
	int nr;

	do
		nr = epoll_wait(epoll, events, (int)most, -1);
	while (nr == 0 || (nr < 0 && errno == EINTR));
	return (size_t)checked("epoll_wait", nr);
}

/*
 * Reap events, and check that each one is POLLIN.
 * Return: how many there were.
 */
static size_t reap_polls(io_context_t context, struct io_event *events,
			 size_t most)
{
	int nr = io_getevents(context, 1, (long)most, events, NULL);

	if (nr < 1)
		fail("io_getevents", nr < 0 ? -nr : EPROTO);
	for (int i = 0; i < nr; i++) {
		long res = (long)events[i].res;

		if (res < 0 || !(res & POLLIN))
			fail("a request", res < 0 ? (int)-res : EIO);
	}
	return (size_t)nr;
}

/*
 * ping-pong
 */

struct side {
	int socket;
	int eventfd;
	int epoll; /* the epoll in which the program waits for the eventfd */
	io_context_t context;
	struct iocb poll;
	pthread_t relay; /* only without AIO */
};

static int near_end;
static pid_t far_process;

/* Without AIO: write to the eventfd each time the socket becomes ready. */
static void *run_relay(void *arg)
{
	const struct side *side = arg;
	struct epoll_event event;
	int epoll = new_epoll();

	watch(epoll, side->socket, EPOLLIN | EPOLLET, 0);
	for (;;) {
		wait_for(epoll, &event, 1);
		checked("eventfd", eventfd_write(side->eventfd, 1));
	}
	return NULL;
}

static void begin_side(const struct job *job, struct side *side, int socket)
{
	*side = (struct side){
		.socket = socket,
		.eventfd = checked("eventfd",
				   eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
		.epoll = new_epoll(),
	};
	watch(side->epoll, side->eventfd, EPOLLIN, 0);
	if (!job->is_plain) {
		side->context = new_context(job);
		io_prep_poll(&side->poll, socket, POLLIN);
		io_set_eventfd(&side->poll, side->eventfd);
	} else if (pthread_create(&side->relay, NULL, run_relay, side)) {
		fail("a thread", EAGAIN);
	}
}

/*
 * Close the descriptors that begin_side() opened for this process, and the socket. The
 * process's AIO context, if any, was destroyed before.
 */
static void end_side(const struct job *job, struct side *side)
{
	if (job->is_plain) {
		pthread_cancel(side->relay);
		pthread_join(side->relay, NULL);
	}
	close(side->epoll);
	close(side->eventfd);
	close(side->socket);
}

static void wait_for_ball(const struct job *job, struct side *side)
{
	struct iocb *poll = &side->poll;
	struct epoll_event event;
	struct io_event done;
	eventfd_t times;

	if (!job->is_plain)
		submit_all(side->context, &poll, 1);
	wait_for(side->epoll, &event, 1);
	checked("eventfd", eventfd_read(side->eventfd, &times));
	if (!job->is_plain)
		reap_polls(side->context, &done, 1);
}

/* Run the second process, which answers until the first one closes the socket. */
static _Noreturn void run_far(const struct job *job, int socket)
{
	struct side side;

	begin_side(job, &side, socket);
	for (;;) {
		wait_for_ball(job, &side);
		job->other->requests++;
		if (!take_byte(socket))
			break;
		send_byte(socket);
	}
	job->other->rings = nr_kernel_rings();
	if (!job->is_plain)
		io_destroy(side.context);
	end_side(job, &side);
	exit(0);
}

static void set_up_ping_pong(struct job *job)
{
	int ends[2];

	job->other = mmap(NULL, sizeof(*job->other), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job->other == MAP_FAILED)
		fail("memory", errno);
	checked("socketpair",
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	far_process = checked("fork", fork());
	if (far_process == 0) {
		close(ends[0]);
		run_far(job, ends[1]);
	}
	close(ends[1]);
	near_end = ends[0];
}

/* Run the first process, which sends the first byte. */
static uint64_t run_ping_pong(const struct job *job, size_t thread)
{
	struct side side;
	uint64_t nr = 0;
	int status;

	(void)thread; /* this work has only thread 0 */
	begin_side(job, &side, near_end);
	for (; !is_over(job); nr++) {
		send_byte(near_end);
		wait_for_ball(job, &side);
		if (!take_byte(near_end))
			fail("the other process", EPIPE);
	}
	if (!job->is_plain)
		end_context(side.context);
	end_side(job, &side);
	if (waitpid(far_process, &status, 0) < 0 || status)
		fail("the other process", ECHILD);
	return nr;
}

/*
 * sockets
 */

/* A request waits for pairs[i][0]; writing to pairs[i][1] makes pairs[i][0] ready. */
static int pairs[SOCKETS][2];

static void allow_descriptors(rlim_t nr)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= nr)
		return;
	limit.rlim_cur = nr;
	if (limit.rlim_max < nr)
		limit.rlim_max = nr;
	checked("RLIMIT_NOFILE", setrlimit(RLIMIT_NOFILE, &limit));
}

static void set_up_sockets(struct job *job)
{
	(void)job;
	allow_descriptors(2 * SOCKETS + SPARE_FDS);
	for (size_t i = 0; i < SOCKETS; i++)
		checked("socketpair",
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				   pairs[i]));
}

/* Make nr different sockets ready, beginning at a random socket. */
static void make_ready(size_t nr, uint64_t *random)
{
	size_t i;

	*random = *random * 6364136223846793005u + 1442695040888963407u;
	i = (size_t)(*random >> 33);
	for (; nr > 0; nr--, i += STEP)
		send_byte(pairs[i % SOCKETS][1]);
}

struct polls {
	io_context_t context;
	struct iocb iocbs[SOCKETS], *all[SOCKETS];
	struct io_event events[SOCKETS];
};

/*
 * Reap the events of nr ready sockets. Put the requests of these sockets first in
 * all[], where the caller submits them again.
 */
static void take_ready(struct polls *polls, size_t nr)
{
	for (size_t done = 0; done < nr;) {
		struct io_event *events = polls->events;
		size_t got = reap_polls(polls->context, events, nr - done);

		for (size_t i = 0; i < got; i++) {
			take_byte(events[i].obj->aio_fildes);
			polls->all[done++] = events[i].obj;
		}
	}
}

static uint64_t run_polls(const struct job *job)
{
	const struct job all = { .depth = SOCKETS };
	struct polls *polls = calloc(1, sizeof(*polls));
	uint64_t random = 0, nr = SOCKETS;

	if (!polls)
		fail("memory", ENOMEM);
	polls->context = new_context(&all);
	for (size_t i = 0; i < SOCKETS; i++) {
		polls->all[i] = &polls->iocbs[i];
		io_prep_poll(polls->all[i], pairs[i][0], POLLIN);
	}
	submit_all(polls->context, polls->all, SOCKETS);
	for (; !is_over(job); nr += READY) {
		make_ready(READY, &random);
		take_ready(polls, READY);
		submit_all(polls->context, polls->all, READY);
	}
	make_ready(SOCKETS, &random);
	take_ready(polls, SOCKETS);
	end_context(polls->context);
	free(polls);
	return nr;
}

static void take_ready_plain(int epoll, size_t nr)
{
	struct epoll_event events[READY];

	while (nr > 0) {
		size_t got = wait_for(epoll, events, READY);

		for (size_t i = 0; i < got; i++)
			take_byte(pairs[events[i].data.u32][0]);
		nr -= got;
	}
}

static uint64_t run_plain(const struct job *job)
{
	int epoll = new_epoll();
	uint64_t random = 0, nr = SOCKETS;

	for (uint32_t i = 0; i < SOCKETS; i++)
		watch(epoll, pairs[i][0], EPOLLIN, i);
	for (; !is_over(job); nr += READY) {
		make_ready(READY, &random);
		take_ready_plain(epoll, READY);
	}
	make_ready(SOCKETS, &random);
	take_ready_plain(epoll, SOCKETS);
	close(epoll);
	return nr;
}

static uint64_t run_sockets(const struct job *job, size_t thread)
{
	(void)thread; /* this work has only thread 0 */
	return job->is_plain ? run_plain(job) : run_polls(job);
}

const struct work replaces_ping_pong = { "ping-pong", set_up_ping_pong,
					 run_ping_pong };
const struct work replaces_sockets = { "sockets", set_up_sockets, run_sockets };

/* SPDX-License-Identifier: MIT */
/*
 * soak's client process (soak.h), which makes no asynchronous requests of its own
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "clock.h"
#include "soak.h"

enum { NR_IN_FLIGHT = 64 };

/* for each socket: the message in flight; number 0: no message */
static struct message sent[NR_SOCKETS_MAX];
static unsigned nr_in_flight;
static uint32_t nr_sent;
static uint64_t random_state;

static unsigned bucket_of(int64_t ns)
{
	const uint64_t n = ns > 8 ? (uint64_t)ns : 8;
	const unsigned power = 63 - (unsigned)__builtin_clzll(n);

	return power * 8 + (unsigned)(n >> (power - 3) & 7);
}

static void send_one(void)
{
	const unsigned socket = random_below(&random_state, shared->nr_sockets);
	struct message *message = &sent[socket];

	if (message->number)
		return;
	*message = (struct message){ now_ns(), socket, ++nr_sent, 0 };
	message->check = check_of(message);
	REQUIRE(send(shared->ends[socket][1], message, sizeof(*message), 0) ==
		sizeof(*message));
	nr_in_flight++;
}

static void take_echo(unsigned socket)
{
	struct message *message = &sent[socket], echo;

	REQUIRE(recv(shared->ends[socket][1], &echo, sizeof(echo),
		     MSG_WAITALL) == sizeof(echo));
	REQUIRE(message->number && echo.number == message->number);
	REQUIRE(echo.socket == socket && echo.sent_ns == message->sent_ns);
	REQUIRE(echo.check == check_of(&echo));
	add_relaxed(&shared->echoes[bucket_of(now_ns() - echo.sent_ns)], 1);
	add_relaxed(&shared->nr_echoes, 1);
	message->number = 0;
	nr_in_flight--;
}

static int watch_all(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	REQUIRE(epoll >= 0);
	for (unsigned i = 0; i < shared->nr_sockets; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };

		REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, shared->ends[i][1],
				  &event) == 0);
	}
	return epoll;
}

_Noreturn void client_process(void)
{
	struct epoll_event events[NR_IN_FLIGHT];
	int epoll, nr;

	random_state = shared->seed;
	for (unsigned i = 0; i < shared->nr_sockets; i++)
		REQUIRE(close(shared->ends[i][0]) == 0);
	epoll = watch_all();
	while (nr_in_flight || !load_acquire(&shared->is_over)) {
		while (!load_acquire(&shared->is_over) &&
		       nr_in_flight < NR_IN_FLIGHT &&
		       nr_in_flight < shared->nr_sockets)
			send_one();
		if (!nr_in_flight)
			continue;
		nr = epoll_wait(epoll, events, NR_IN_FLIGHT, -1);
		REQUIRE(nr > 0 || errno == EINTR);
		for (int i = 0; i < nr; i++)
			take_echo(events[i].data.u32);
	}
	/*
	 * The exit closes the client's ends of the sockets, which ends the server's
	 * receives.
	 */
	exit(0);
}

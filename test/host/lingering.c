/* SPDX-License-Identifier: MIT */
/*
 * Cases: close() of a socket with SO_LINGER blocks until the peer has received the
 * data. No other thread may have to wait for that close().
 */
#include "host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "older.h"

enum { LINGERER = 300, EARLIER = LINGERER - 1, LINGER_S = 60, FAR_UP = 4000 };

static unsigned full_port;

/*
 * Fill the buffers of a new connection.
 * Return: a socket, whose port is now full_port. *ret_peer: its peer, which has not read
 * any data.
 */
static int full_socket(int *ret_peer)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_S };
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[65536];
	const int little = 4096, much = 4 * (int)sizeof(bytes);
	long room = 0, nr;

	REQUIRE(listener >= 0 && fd >= 0);
	/*
	 * With an explicit SO_RCVBUF the peer's buffer does not grow, so data stays
	 * unsent.
	 */
	REQUIRE(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little,
			   sizeof(little)) == 0);
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &much, sizeof(much)) ==
		0);
	REQUIRE(bind(listener, (void *)&address, size) == 0);
	REQUIRE(listen(listener, 1) == 0);
	REQUIRE(getsockname(listener, (void *)&address, &size) == 0);
	REQUIRE(connect(fd, (void *)&address, size) == 0);
	*ret_peer = accept(listener, NULL, NULL);
	REQUIRE(*ret_peer >= 0 && close(listener) == 0);
	REQUIRE(getsockname(fd, (void *)&address, &size) == 0);
	full_port = ntohs(address.sin_port);
	while ((nr = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		room += nr;
	REQUIRE(room > (long)sizeof(bytes));
	REQUIRE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger,
			   sizeof(linger)) == 0);
	return fd;
}

static int null_fd;

static void by_dup2(void)
{
	REQUIRE(dup2(null_fd, LINGERER) == LINGERER);
}

static void by_dup3(void)
{
	REQUIRE(dup3(null_fd, LINGERER, O_CLOEXEC) == LINGERER);
}

static void by_dup3_number(void)
{
	REQUIRE(syscall(SYS_dup3, null_fd, LINGERER, 0) == LINGERER);
}

static void by_close_range(void)
{
	REQUIRE(close_range(LINGERER, FAR_UP, 0) == 0);
}

static void by_close_range_number(void)
{
	REQUIRE(syscall(SYS_close_range, LINGERER, ~0u, 0) == 0);
}

static void by_closefrom(void)
{
	closefrom(EARLIER);
}

static void by_close_range_earlier(void)
{
	REQUIRE(close_range(EARLIER, FAR_UP, 0) == 0);
}

static void by_close(void)
{
	REQUIRE(close(LINGERER) == 0);
}

static void (*const ways[])(void) = {
	by_close,       by_dup2,        by_dup3,
	by_dup3_number, by_close_range, by_close_range_number,
};

static struct {
	void (*replace)(void);
	uint32_t is_over; /* atomic */
} lingerer;

static void *linger(void *arg)
{
	sigset_t all;

	(void)arg;
	/*
	 * Block all signals: a signal, here SIGCHLD, would end the wait in close().
	 */
	sigfillset(&all);
	REQUIRE(!pthread_sigmask(SIG_BLOCK, &all, NULL));
	lingerer.replace();
	__atomic_store_n(&lingerer.is_over, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * The state of the socket is read from /proc/net/tcp. A query through the descriptor
 * would take a reference to the file. If that became the last reference, this thread
 * would close the socket, and linger.
 * Return: whether the socket is being closed.
 */
static bool is_lingering(void)
{
	enum { FIN_WAIT1 = 4 };
	FILE *connections = fopen("/proc/net/tcp", "re");
	unsigned port, state;
	char line[256];
	bool is = false;

	REQUIRE(connections);
	while (!is && fgets(line, sizeof(line), connections))
		is = sscanf(line, "%*u: %*8x:%x %*8x:%*x %x", &port, &state) ==
			     2 &&
		     port == full_port && state == FIN_WAIT1;
	REQUIRE(fclose(connections) == 0);
	return is;
}

static void await_lingering(void)
{
	while (!is_lingering())
		(void)usleep(1000);
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void linger_once(void (*replace)(void))
{
	int peer, fd = full_socket(&peer), ends[2];
	aio_context_t ctx = host_context(4);
	struct io_event event;
	struct iocb iocb;
	pthread_t thread;

	REQUIRE(dup2(fd, LINGERER) == LINGERER && close(fd) == 0);
	REQUIRE(pipe(ends) == 0);
	memset(&lingerer, 0, sizeof(lingerer));
	lingerer.replace = replace;
	REQUIRE(!pthread_create(&thread, NULL, linger, NULL));
	await_lingering();
	REQUIRE(host_in_child(do_nothing, NULL) == 0);
	iocb = host_poll(ends[0]);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(write(ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(host_destroy(ctx) == 0);
	REQUIRE(!__atomic_load_n(&lingerer.is_over, __ATOMIC_SEQ_CST));
	REQUIRE(close(peer) == 0);
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/*
 * The program closes the descriptor while a read waits, so the read holds the last
 * reference to the socket. When data arrives, the read completes. Other requests must
 * not wait for the close of the socket. This runs only with the library: kernel AIO
 * would wait for the data in io_submit. The request must be a read, not a poll: unread
 * data would make the close reset the connection instead of linger.
 */
static void linger_behind_read(void)
{
	int peer, fd = full_socket(&peer), ends[2];
	aio_context_t ctx = host_context(4);
	struct timespec since, now;
	struct io_event events[2];
	struct iocb iocbs[2], *list[2] = { &iocbs[0], &iocbs[1] };
	char byte;

	REQUIRE(pipe(ends) == 0);
	iocbs[0] = host_iocb(IOCB_CMD_PREAD, fd, &byte, 1, 0);
	iocbs[1] = host_poll(ends[0]);
	REQUIRE(syscall(SYS_io_submit, ctx, 2l, list) == 2);
	REQUIRE(close(fd) == 0);
	REQUIRE(clock_gettime(CLOCK_MONOTONIC, &since) == 0);
	REQUIRE(send(peer, "x", 1, 0) == 1 && write(ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, 2, events) == 2);
	REQUIRE(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	REQUIRE(now.tv_sec - since.tv_sec < LINGER_S / 2);
	REQUIRE(close(peer) == 0);
	REQUIRE(host_destroy(ctx) == 0);
	REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0);
}

void lingering_close(void)
{
	int high;

	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	REQUIRE(null_fd >= 0);
	for (size_t i = 0; i < NR_ELEMENTS(ways); i++)
		linger_once(ways[i]);
	if (host_is_uaio())
		linger_behind_read();
	/*
	 * close_range must also close descriptors far above those of the library.
	 */
	high = fcntl(null_fd, F_DUPFD_CLOEXEC, FAR_UP + 200);
	if (high >= 0)
		REQUIRE(close_range(LINGERER, ~0u, 0) == 0 &&
			fcntl(high, F_GETFD) < 0);
}

/*
 * Thread linger() closes a range: first a plain descriptor, then a lingering socket.
 * While linger() waits in the socket's close, the main thread opens a file, which gets
 * the number of the plain descriptor. This file must stay open.
 */
static void open_behind_range(void (*replace)(void))
{
	int peer, fd = full_socket(&peer);
	pthread_t thread;

	REQUIRE(dup2(fd, LINGERER) == LINGERER && close(fd) == 0);
	REQUIRE(dup2(null_fd, EARLIER) == EARLIER);
	memset(&lingerer, 0, sizeof(lingerer));
	lingerer.replace = replace;
	REQUIRE(!pthread_create(&thread, NULL, linger, NULL));
	await_lingering();
	REQUIRE(fcntl(null_fd, F_DUPFD_CLOEXEC, EARLIER) == EARLIER);
	REQUIRE(!__atomic_load_n(&lingerer.is_over, __ATOMIC_SEQ_CST));
	REQUIRE(close(peer) == 0);
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(fcntl(EARLIER, F_GETFD) >= 0 && close(EARLIER) == 0);
}

void lingering_range(void)
{
	static void (*const ranges[])(void) = { by_close_range_earlier,
						by_closefrom };
	/*
	 * Create a context first: without one, the library passes close_range on to the
	 * kernel.
	 */
	aio_context_t ctx = host_context(4);

	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	REQUIRE(null_fd >= 0);
	for (size_t i = 0; i < NR_ELEMENTS(ranges); i++)
		open_behind_range(ranges[i]);
	REQUIRE(host_destroy(ctx) == 0);
}

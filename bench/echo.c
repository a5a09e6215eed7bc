/* SPDX-License-Identifier: MIT */
/*
 * echo - an echo server and its clients, to be run on the kernel and under `uaio run
 * --uring=always`
 *
 *	echo HOW [-n BUSY] [-i IDLE] [-m MS] [-t]
 *
 * HOW is the kind of server. "epoll" is a plain server without io_uring. "ring" makes
 * one io_uring request for each receive and each send. "multishot" makes one multishot
 * receive per connection, into provided buffers. The clients are a child process with
 * BUSY TCP connections over the loopback device. The child sends on all of these
 * connections, then receives on all. IDLE further connections stay silent. -t uses the
 * kernel's cheapest ring (SINGLE_ISSUER and DEFER_TASKRUN).
 *
 * The program prints one JSON object about the server:
 *
 *	requests, usecs		messages sent back, and the measured time
 *	cpu_us, switches	processor time and context switches of all the server's
 *				threads in that time
 *	rings			number of the server's descriptors that are rings of the
 *				kernel
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handles.h"

enum {
	MESSAGE = 64,
	MAX_CONNECTIONS = 4096,
	ENTRIES = 4096,
	BUFFERS = 1024,
	GROUP = 1,
};

static struct job {
	const char *how;
	int nr_busy, nr_idle, ms;
	bool is_cheap;
} job = { .nr_busy = 1, .ms = 300 };

/* descriptors of the server's connections; the busy ones come first */
static int fds[MAX_CONNECTIONS];
static char buffers[MAX_CONNECTIONS][MESSAGE];
static char provided[BUFFERS][MESSAGE];
static uint64_t nr_echoed;
static int nr_open; /* busy connections that are still open */

static _Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "echo: %s: %s\n", what, strerror(error));
	exit(1);
}

static int nr_connections(void)
{
	return job.nr_busy + job.nr_idle;
}

/*
 * The clients
 */

static void transfer(int fd, bool sends)
{
	static char message[MESSAGE];
	ssize_t got = 0, part;

	while (got < MESSAGE) {
		part = sends ? send(fd, message, MESSAGE, 0)
			     : recv(fd, message, (size_t)(MESSAGE - got), 0);
		if (part <= 0)
			fail(sends ? "send" : "recv", part ? errno : EPIPE);
		got += part;
	}
}

static _Noreturn void run_clients(const struct sockaddr_in *address)
{
	uint64_t end;

	for (int i = 0; i < nr_connections(); i++) {
		int one = 1;

		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (fds[i] < 0)
			fail("socket", errno);
		if (connect(fds[i], (const void *)address, sizeof(*address)))
			fail("connect", errno);
		setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	end = now_ns() + (uint64_t)job.ms * 1000000;
	while (now_ns() < end) {
		for (int i = 0; i < job.nr_busy; i++)
			transfer(fds[i], true);
		for (int i = 0; i < job.nr_busy; i++)
			transfer(fds[i], false);
	}
	exit(0);
}

/*
 * The servers. Each server function returns when the clients have closed all busy
 * connections.
 */

static void send_back(int fd, const char *message, ssize_t len)
{
	if (send(fd, message, (size_t)len, MSG_NOSIGNAL) == len)
		nr_echoed++;
}

static void serve_by_epoll(void)
{
	struct epoll_event events[64];
	int epoll = epoll_create1(0);

	for (int i = 0; i < nr_connections(); i++) {
		struct epoll_event event = { .events = EPOLLIN };

		event.data.u32 = (uint32_t)i;
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event))
			fail("epoll_ctl", errno);
	}
	while (nr_open) {
		int nr = epoll_wait(epoll, events, 64, -1);

		for (int k = 0; k < nr; k++) {
			int i = (int)events[k].data.u32;
			ssize_t len = recv(fds[i], buffers[i], MESSAGE, 0);

			if (len > 0) {
				send_back(fds[i], buffers[i], len);
				continue;
			}
			nr_open -= i < job.nr_busy;
			epoll_ctl(epoll, EPOLL_CTL_DEL, fds[i], NULL);
		}
	}
}

/* A request's user_data is KINDS * (index of its connection) + RECEIVED or SENT. */
enum { RECEIVED, SENT, KINDS };

static struct io_uring ring;
static struct io_uring_buf_ring *array;

static struct io_uring_sqe *next_sqe(int i, int kind, int extra)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		fail("no room in the ring", ENOSPC);
	sqe->user_data = 0;
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data64(sqe, (uint64_t)extra << 32 |
					     (uint64_t)(i * KINDS + kind));
	return sqe;
}

static void receive(int i)
{
	struct io_uring_sqe *sqe = next_sqe(i, RECEIVED, 0);
	uint64_t data = sqe->user_data;

	if (array) {
		io_uring_prep_recv_multishot(sqe, fds[i], NULL, 0, 0);
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
	} else {
		io_uring_prep_recv(sqe, fds[i], buffers[i], MESSAGE, 0);
	}
	sqe->user_data = data;
}

static void answer(int i, const void *message, int len, int bid)
{
	struct io_uring_sqe *sqe = next_sqe(i, SENT, bid);
	uint64_t data = sqe->user_data;

	io_uring_prep_send(sqe, fds[i], message, (size_t)len, MSG_NOSIGNAL);
	sqe->user_data = data;
}

static void give_back(int bid)
{
	io_uring_buf_ring_add(array, provided[bid], MESSAGE,
			      (unsigned short)bid,
			      io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(array, 1);
}

static void received(int i, const struct io_uring_cqe *cqe)
{
	int bid = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
	bool goes_on = cqe->flags & IORING_CQE_F_MORE;

	if (cqe->res > 0) {
		answer(i, array ? provided[bid] : buffers[i], cqe->res,
		       array ? bid : 0);
		if (array && !goes_on)
			receive(i);
		return;
	}
	if (cqe->res == -ENOBUFS)
		receive(i);
	else
		nr_open -= i < job.nr_busy;
}

static void take(const struct io_uring_cqe *cqe)
{
	uint32_t what = (uint32_t)cqe->user_data;
	int i = (int)(what / KINDS);

	if (what % KINDS == RECEIVED) {
		received(i, cqe);
		return;
	}
	nr_echoed += cqe->res > 0;
	if (array)
		give_back((int)(cqe->user_data >> 32));
	else
		receive(i);
}

static void provide(void)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS,
					.bgid = GROUP };
	int ret;

	array = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
	if (!array)
		fail("memory", ENOMEM);
	io_uring_buf_ring_init(array);
	reg.ring_addr = (uintptr_t)array;
	ret = io_uring_register_buf_ring(&ring, &reg, 0);
	if (ret)
		fail("io_uring_register", -ret);
	for (int i = 0; i < BUFFERS; i++)
		give_back(i);
}

static void serve_by_ring(bool is_multishot)
{
	unsigned flags = job.is_cheap ? IORING_SETUP_SINGLE_ISSUER |
						IORING_SETUP_DEFER_TASKRUN
				      : 0;
	int ret = io_uring_queue_init(ENTRIES, &ring, flags);

	if (ret)
		fail("io_uring_setup", -ret);
	if (is_multishot)
		provide();
	for (int i = 0; i < nr_connections(); i++)
		receive(i);
	while (nr_open) {
		struct io_uring_cqe *cqe;
		unsigned head, nr = 0;

		ret = io_uring_submit_and_wait(&ring, 1);
		if (ret < 0 && ret != -EINTR)
			fail("io_uring_enter", -ret);
		io_uring_for_each_cqe(&ring, head, cqe)
		{
			take(cqe);
			nr++;
		}
		io_uring_cq_advance(&ring, nr);
	}
}

/*
 * The measurement
 */

static int nr_rings(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	char link[64];
	int nr = 0;

	while (dir && (entry = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, 63);

		link[len < 0 ? 0 : len] = '\0';
		nr += !strcmp(link, "anon_inode:[io_uring]");
	}
	if (dir)
		closedir(dir);
	return nr;
}

static int listen_at(struct sockaddr_in *ret_address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*ret_address);

	*ret_address = (struct sockaddr_in){ .sin_family = AF_INET };
	ret_address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (void *)ret_address, len) ||
	    getsockname(fd, (void *)ret_address, &len) ||
	    listen(fd, MAX_CONNECTIONS))
		fail("listen", errno);
	return fd;
}

static void accept_all(int listener)
{
	for (int i = 0; i < nr_connections(); i++) {
		int one = 1;

		fds[i] = accept(listener, NULL, NULL);
		if (fds[i] < 0)
			fail("accept", errno);
		setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	nr_open = job.nr_busy;
}

static double us_of(const struct timeval *time)
{
	return (double)time->tv_sec * 1e6 + (double)time->tv_usec;
}

static void serve(void)
{
	struct rusage before, after;
	uint64_t start;
	double us;

	getrusage(RUSAGE_SELF, &before);
	start = now_ns();
	if (!strcmp(job.how, "epoll"))
		serve_by_epoll();
	else
		serve_by_ring(!strcmp(job.how, "multishot"));
	us = (double)(now_ns() - start) / 1000;
	getrusage(RUSAGE_SELF, &after);
	printf("{\"requests\": %llu, \"usecs\": %.0f, \"cpu_us\": %.0f, "
	       "\"switches\": %ld, \"rings\": %d}\n",
	       (unsigned long long)nr_echoed, us,
	       us_of(&after.ru_utime) + us_of(&after.ru_stime) -
		       us_of(&before.ru_utime) - us_of(&before.ru_stime),
	       after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw -
		       before.ru_nivcsw,
	       nr_rings());
}

int main(int argc, char **argv)
{
	struct rlimit limit = { 2 * MAX_CONNECTIONS, 2 * MAX_CONNECTIONS };
	struct sockaddr_in address;
	int option, listener, status;
	pid_t pid;

	job.how = argc > 1 ? argv[1] : "";
	while ((option = getopt(argc, argv, "n:i:m:t")) != -1) {
		switch (option) {
		case 'n': job.nr_busy = atoi(optarg); break;
		case 'i': job.nr_idle = atoi(optarg); break;
		case 'm': job.ms = atoi(optarg); break;
		case 't': job.is_cheap = true; break;
		default: return 2;
		}
	}
	if ((strcmp(job.how, "epoll") && strcmp(job.how, "ring") &&
	     strcmp(job.how, "multishot")) ||
	    job.nr_busy < 1 || nr_connections() > MAX_CONNECTIONS)
		fail(job.how, EINVAL);
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	listener = listen_at(&address);
	pid = fork();
	if (pid < 0)
		fail("fork", errno);
	if (pid == 0)
		run_clients(&address);
	accept_all(listener);
	serve();
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

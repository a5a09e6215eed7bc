/* SPDX-License-Identifier: MIT */
/*
 * Cases: programs that wait for an io_uring ring by epoll, poll, select or a variant of
 * these calls
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host.h"
#include "older.h"
#include "uring-client.h"

enum { ENTRIES = 8, LONG_MS = 60000 };

/*
 * A ring, a pipe that the ring's poll request watches, and an epoll that watches the
 * ring
 */
struct desk {
	struct uring ring;
	int ends[2];
	int epoll;
};

static void submit(struct uring *ring, uint8_t opcode, int fd)
{
	struct io_uring_sqe *sqe = uring_put(ring, opcode, fd, 0);

	if (opcode == IORING_OP_POLL_ADD)
		sqe->poll32_events = POLLIN;
	REQUIRE(uring_submit(ring) == 1);
}

static void watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events };

	event.data.fd = fd;
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void set_up(struct desk *desk, uint32_t events)
{
	const struct io_uring_params params = { .flags = 0 };

	if (uring_open(&desk->ring, ENTRIES, &params) < 0)
		host_skip("there is no io_uring here");
	REQUIRE(pipe2(desk->ends, O_CLOEXEC | O_NONBLOCK) == 0);
	desk->epoll = epoll_create1(EPOLL_CLOEXEC);
	REQUIRE(desk->epoll >= 0);
	watch(desk->epoll, desk->ring.fd, events);
}

static void take_down(const struct desk *desk)
{
	REQUIRE(close(desk->ring.fd) == 0 && close(desk->epoll) == 0);
	REQUIRE(close(desk->ends[0]) == 0 && close(desk->ends[1]) == 0);
}

/*
 * Functions that sleep until the ring is ready.
 * Return: 1 if the ring is ready, 0 after the timeout, or a negative result with errno.
 */

typedef long sleep_fn(const struct desk *desk, int timeout_ms);

static struct timespec time_of(int timeout_ms)
{
	return (struct timespec){ timeout_ms / 1000,
				  timeout_ms % 1000 * 1000000l };
}

static long is_told(long ret, const struct desk *desk,
		    const struct epoll_event *event)
{
	REQUIRE(ret <= 0 ||
		(event->events == EPOLLIN && event->data.fd == desk->ring.fd));
	return ret;
}

static long by_epoll_wait(const struct desk *desk, int timeout_ms)
{
	struct epoll_event event;

	return is_told(epoll_wait(desk->epoll, &event, 1, timeout_ms), desk,
		       &event);
}

static long by_epoll_pwait(const struct desk *desk, int timeout_ms)
{
	struct epoll_event event;

	return is_told(epoll_pwait(desk->epoll, &event, 1, timeout_ms, NULL),
		       desk, &event);
}

static long by_epoll_pwait2(const struct desk *desk, int timeout_ms)
{
	struct timespec timeout = time_of(timeout_ms);
	struct epoll_event event;
	long ret = epoll_pwait2(desk->epoll, &event, 1, &timeout, NULL);

	/* Kernels before Linux 5.11 lack epoll_pwait2. */
	if (ret < 0 && errno == ENOSYS)
		return by_epoll_pwait(desk, timeout_ms);
	return is_told(ret, desk, &event);
}

static long by_epoll_number(const struct desk *desk, int timeout_ms)
{
	struct epoll_event event;

	return is_told(syscall(SYS_epoll_pwait, desk->epoll, &event, 1,
			       timeout_ms, NULL, 8),
		       desk, &event);
}

/*
 * In the array for poll(), the ring's element is between elements for other
 * descriptors. It also requests POLLPRI. A ring never reports POLLPRI, so poll() must
 * return POLLIN alone.
 */
enum { NR_POLLED = 3, PLACE = 1 };

static void fill(const struct desk *desk, struct pollfd *pfds)
{
	pfds[0] = (struct pollfd){ .fd = desk->ends[0], .events = POLLPRI };
	pfds[1] = (struct pollfd){ .fd = desk->ring.fd,
				   .events = POLLIN | POLLPRI };
	pfds[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
}

static long is_polled(long ret, const struct desk *desk,
		      const struct pollfd *pfds)
{
	if (ret < 0)
		return ret;
	REQUIRE(pfds[PLACE].fd == desk->ring.fd);
	REQUIRE(pfds[PLACE].revents == (ret ? POLLIN : 0));
	REQUIRE(pfds[0].revents == 0 && pfds[2].revents == 0);
	return ret;
}

static long by_poll(const struct desk *desk, int timeout_ms)
{
	struct pollfd pfds[NR_POLLED];

	fill(desk, pfds);
	return is_polled(poll(pfds, NR_POLLED, timeout_ms), desk, pfds);
}

static long by_ppoll(const struct desk *desk, int timeout_ms)
{
	struct timespec timeout = time_of(timeout_ms);
	struct pollfd pfds[NR_POLLED];

	fill(desk, pfds);
	return is_polled(ppoll(pfds, NR_POLLED, &timeout, NULL), desk, pfds);
}

static long by_poll_number(const struct desk *desk, int timeout_ms)
{
	struct timespec timeout = time_of(timeout_ms);
	struct pollfd pfds[NR_POLLED];

	fill(desk, pfds);
	return is_polled(syscall(SYS_ppoll, pfds, NR_POLLED, &timeout, NULL, 8),
			 desk, pfds);
}

static int nr_of(const struct desk *desk)
{
	return (desk->ring.fd > desk->ends[1] ? desk->ring.fd : desk->ends[1]) +
	       1;
}

static fd_set set_of(const struct desk *desk)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(desk->ring.fd, &set);
	FD_SET(desk->ends[1], &set); /* a pipe's write end: never readable */
	/*
	 * Descriptor 63 is not open. It is not below nfds, so the call must ignore it,
	 * although its bit is in the same word of the set as the bits of the ring and
	 * the pipe.
	 */
	FD_SET(63, &set);
	return set;
}

static long is_selected(long ret, const struct desk *desk, const fd_set *in)
{
	int nr = 0;

	if (ret < 0)
		return ret;
	for (int fd = 0; fd < FD_SETSIZE; fd++)
		nr += FD_ISSET(fd, in) != 0;
	REQUIRE(nr == ret && !FD_ISSET(desk->ring.fd, in) == !ret);
	return ret;
}

static long by_select(const struct desk *desk, int timeout_ms)
{
	struct timeval timeout = { timeout_ms / 1000,
				   timeout_ms % 1000 * 1000l };
	fd_set in = set_of(desk);

	return is_selected(select(nr_of(desk), &in, NULL, NULL, &timeout), desk,
			   &in);
}

static long by_pselect(const struct desk *desk, int timeout_ms)
{
	struct timespec timeout = time_of(timeout_ms);
	fd_set in = set_of(desk);

	return is_selected(
		pselect(nr_of(desk), &in, NULL, NULL, &timeout, NULL), desk,
		&in);
}

static long by_select_number(const struct desk *desk, int timeout_ms)
{
	struct timespec timeout = time_of(timeout_ms);
	fd_set in = set_of(desk);

	return is_selected(syscall(SYS_pselect6, nr_of(desk), &in, NULL, NULL,
				   &timeout, NULL),
			   desk, &in);
}

static sleep_fn *const calls[] = {
	by_epoll_wait, by_epoll_pwait,   by_epoll_pwait2, by_epoll_number,
	by_poll,       by_ppoll,         by_poll_number,  by_select,
	by_pselect,    by_select_number,
};

static void *put_later(void *arg)
{
	const struct desk *desk = arg;

	usleep(2000);
	REQUIRE(write(desk->ends[1], "x", 1) == 1);
	return NULL;
}

/*
 * With the kernel's io_uring, the call may fail with EINTR: the kernel posts the
 * completion by task work, which interrupts the call.
 */
static long sleep_on(const struct desk *desk, sleep_fn *sleep)
{
	long ret;

	do
		ret = sleep(desk, LONG_MS);
	while (ret < 0 && errno == EINTR);
	return ret;
}

/*
 * A poll request completes while its submitter sleeps in the function `sleep`. The
 * function must then return 1.
 */
static void sleep_until_told(struct desk *desk, sleep_fn *sleep)
{
	pthread_t thread;
	char byte;

	submit(&desk->ring, IORING_OP_POLL_ADD, desk->ends[0]);
	REQUIRE(sleep(desk, 0) == 0);
	REQUIRE(pthread_create(&thread, NULL, put_later, desk) == 0);
	REQUIRE(sleep_on(desk, sleep) == 1);
	REQUIRE(pthread_join(thread, NULL) == 0);
	REQUIRE(sleep_on(desk, sleep) == 1);
	REQUIRE(uring_take_all(&desk->ring) == 1);
	REQUIRE(sleep(desk, 0) == 0);
	REQUIRE(sleep(desk, 1) == 0);
	REQUIRE(read(desk->ends[0], &byte, 1) == 1);
}

void bells_by_any_call(void)
{
	struct desk desk;

	set_up(&desk, EPOLLIN);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < NR_ELEMENTS(calls); i++)
			sleep_until_told(&desk, calls[i]);
	take_down(&desk);
}

/*
 * Descriptors from 512 on are the library's. The program replaces each open descriptor
 * in this range by a file of its own. So the library must move its files to other
 * descriptors.
 */
void bells_replaced(void)
{
	enum { FIRST = 512, LAST = 1023 };
	bool is_ours[LAST + 1] = { false };
	struct stat own, there;
	struct desk desk;

	set_up(&desk, EPOLLIN);
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++)
		REQUIRE(calls[i](&desk, 0) == 0);
	for (int fd = FIRST; fd <= LAST; fd++) {
		is_ours[fd] = fcntl(fd, F_GETFD) >= 0;
		REQUIRE(!is_ours[fd] || dup2(desk.ends[0], fd) == fd);
	}
	for (unsigned i = 0; i < NR_ELEMENTS(calls); i++)
		sleep_until_told(&desk, calls[i]);
	REQUIRE(fstat(desk.ends[0], &own) == 0);
	take_down(&desk);
	for (int fd = FIRST; fd <= LAST; fd++)
		REQUIRE(!is_ours[fd] ||
			(fstat(fd, &there) == 0 && there.st_ino == own.st_ino));
}

/*
 * Event libraries nest epolls: one epoll watches another epoll, which watches the ring,
 * level- or edge-triggered.
 */
void bells_in_epolls(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	struct desk level, edge;
	int outer = epoll_create1(EPOLL_CLOEXEC);

	set_up(&level, EPOLLIN);
	set_up(&edge, EPOLLIN | EPOLLET);
	watch(outer, level.epoll, EPOLLIN);
	for (unsigned i = 0; i < 100; i++) {
		struct epoll_event events[2];

		REQUIRE(epoll_wait(outer, events, 2, 0) == 0);
		submit(&level.ring, IORING_OP_NOP, -1);
		REQUIRE(epoll_wait(outer, events, 2, LONG_MS) == 1);
		REQUIRE(events[0].data.fd == level.epoll);
		REQUIRE(by_epoll_wait(&level, LONG_MS) == 1);
		REQUIRE(by_epoll_wait(&level, LONG_MS) == 1);
		REQUIRE(uring_take_all(&level.ring) == 1);

		submit(&edge.ring, IORING_OP_NOP, -1);
		REQUIRE(by_epoll_wait(&edge, LONG_MS) == 1);
		REQUIRE(by_epoll_wait(&edge, 0) == 0);
		submit(&edge.ring, IORING_OP_NOP, -1);
		REQUIRE(by_epoll_wait(&edge, LONG_MS) == 1);
		REQUIRE(uring_take_all(&edge.ring) == 2);
		REQUIRE(by_epoll_wait(&edge, 0) == 0);
	}
	/* EPOLLONESHOT must report the ring once, and again after EPOLL_CTL_MOD. */
	event.data.fd = level.ring.fd;
	REQUIRE(epoll_ctl(level.epoll, EPOLL_CTL_MOD, level.ring.fd, &event) ==
		0);
	submit(&level.ring, IORING_OP_NOP, -1);
	REQUIRE(by_epoll_wait(&level, LONG_MS) == 1);
	REQUIRE(by_epoll_wait(&level, 0) == 0);
	REQUIRE(syscall(SYS_epoll_ctl, level.epoll, EPOLL_CTL_MOD,
			level.ring.fd, &event) == 0);
	REQUIRE(by_epoll_wait(&level, LONG_MS) == 1);
	REQUIRE(epoll_ctl(level.epoll, EPOLL_CTL_DEL, level.ring.fd, NULL) ==
		0);
	REQUIRE(epoll_ctl(level.epoll, EPOLL_CTL_DEL, level.ring.fd, NULL) < 0);
	REQUIRE(errno == ENOENT);
	REQUIRE(close(outer) == 0);
	take_down(&level);
	take_down(&edge);
}

/* Two threads sleep in the same epoll, while a third thread submits */

static struct desk common;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned nr_taken, nr_to_take; /* atomic */

static void *take_told(void *arg)
{
	(void)arg;
	while (__atomic_load_n(&nr_taken, __ATOMIC_ACQUIRE) < nr_to_take) {
		/*
		 * Wait with a timeout, because the other thread may consume the last
		 * completion.
		 */
		if (by_epoll_wait(&common, 20) == 0)
			continue;
		REQUIRE(pthread_mutex_lock(&mutex) == 0);
		/*
		 * The ring may have overflowed. This call moves completions from the
		 * overflow list into the ring.
		 */
		REQUIRE(uring_enter(common.ring.fd, 0, 0,
				    IORING_ENTER_GETEVENTS, NULL, 0) == 0);
		__atomic_fetch_add(&nr_taken, uring_take_all(&common.ring),
				   __ATOMIC_RELEASE);
		REQUIRE(pthread_mutex_unlock(&mutex) == 0);
	}
	return NULL;
}

void bells_together(void)
{
	pthread_t threads[2];

	set_up(&common, EPOLLIN);
	nr_to_take = host_rounds(2000);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(pthread_create(&threads[i], NULL, take_told, NULL) ==
			0);
	for (unsigned i = 0; i < nr_to_take; i++)
		submit(&common.ring, IORING_OP_NOP, -1);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	REQUIRE(nr_taken == nr_to_take);
	REQUIRE(by_epoll_wait(&common, 0) == 0);
	take_down(&common);
}

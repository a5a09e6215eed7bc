/* SPDX-License-Identifier: MIT */
/*
 * Rows (measurements) of growth.c. Some rows have n rings; in several of these rows one
 * epoll watches all rings. Others have n threads with a ring each, or one ring with n
 * registered files or buffers.
 *
 * In the rows that end in -beside, `op` names the function whose calls are timed while
 * the n rings exist.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

#include "growth.h"

enum { SMALL = 8, PAGE = 4096 };

static int new_epoll(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		fail("epoll_create1", errno);
	return epoll;
}

static void watch(int epoll, int fd, uint32_t at)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = at };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl", errno);
}

static int ready_eventfd(void)
{
	int fd = eventfd(1, EFD_CLOEXEC);

	if (fd < 0)
		fail("eventfd", errno);
	return fd;
}

/*
 * Rings
 */

static void measure_make(const struct row *row, struct meter *meter, size_t n)
{
	(void)row;
	for (size_t i = 0; i < n; i++)
		ring_make(SMALL);
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		close(ring_make(SMALL));
		meter->ops++;
	}
	meter_end(meter, 0);
}

enum call { EPOLL_WAIT, POLL, SELECT };

/* Return: how many ready descriptors the call reports. */
static int call_once(enum call call, int epoll, int fd)
{
	struct epoll_event event;
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	struct timeval none = { 0 };
	fd_set set;

	switch (call) {
	case EPOLL_WAIT: return epoll_wait(epoll, &event, 1, 0);
	case POLL: return poll(&polled, 1, 0);
	default:
		FD_ZERO(&set);
		FD_SET(fd, &set);
		return select(fd + 1, &set, NULL, NULL, &none);
	}
}

static void measure_beside(const struct row *row, struct meter *meter, size_t n)
{
	int fd = ready_eventfd(), epoll = new_epoll(), other = new_epoll();

	watch(epoll, fd, 0);
	for (size_t i = 0; i < n; i++)
		watch(other, ring_make(SMALL), 0);
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		if (call_once((enum call)row->op, epoll, fd) != 1)
			fail("a call beside rings", EPROTO);
		meter->ops++;
	}
	meter_end(meter, 0);
}

static struct ring *open_rings(int epoll, size_t n)
{
	struct ring *rings = room_for(n, sizeof(*rings));

	for (size_t i = 0; i < n; i++) {
		ring_open(&rings[i], SMALL, 0);
		watch(epoll, rings[i].fd, (uint32_t)i);
	}
	return rings;
}

/*
 * Wait in epoll_wait() until a ring has a completion, and consume the completion.
 * Return: the ring's index.
 */
static size_t take_notified(int epoll, struct ring *rings)
{
	struct epoll_event event;
	int res;

	if (epoll_wait(epoll, &event, 1, -1) != 1)
		fail("epoll_wait", errno);
	ring_take(&rings[event.data.u32], &res);
	if (res < 0)
		fail("a request", -res);
	return event.data.u32;
}

static void measure_nop(const struct row *row, struct meter *meter, size_t n)
{
	int epoll = new_epoll();
	struct ring *rings = open_rings(epoll, n);

	(void)row;
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		struct ring *ring = &rings[random_below(n)];

		ring_sqe(ring, IORING_OP_NOP, -1, 0);
		ring_enter(ring, 0);
		if (&rings[take_notified(epoll, rings)] != ring)
			fail("epoll_wait: another ring", EPROTO);
		meter->ops++;
	}
	meter_end(meter, 0);
}

static void read_pipe(struct ring *ring, int fd)
{
	static char byte;
	struct io_uring_sqe *sqe = ring_sqe(ring, IORING_OP_READ, fd, 0);

	sqe->addr = (uintptr_t)&byte;
	sqe->len = 1;
	ring_enter(ring, 0);
}

static void measure_pipes(const struct row *row, struct meter *meter, size_t n)
{
	int epoll = new_epoll();
	struct ring *rings = open_rings(epoll, n);
	int(*pipes)[2] = room_for(n, sizeof(*pipes));

	(void)row;
	for (size_t i = 0; i < n; i++) {
		if (pipe(pipes[i]) < 0)
			fail("pipe", errno);
		read_pipe(&rings[i], pipes[i][0]);
	}
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		size_t at = random_below(n);

		if (write(pipes[at][1], "", 1) != 1)
			fail("write", errno);
		if (take_notified(epoll, rings) != at)
			fail("epoll_wait: another ring", EPROTO);
		read_pipe(&rings[at], pipes[at][0]);
		meter->ops++;
	}
	meter_end(meter, 0);
}

/* Measurements with registered files and buffers */

static void measure_files(const struct row *row, struct meter *meter, size_t n)
{
	struct ring ring;
	int fd = ready_eventfd();
	int *fds = room_for(n, sizeof(*fds));

	(void)row;
	ring_open(&ring, SMALL, 0);
	for (size_t i = 0; i < n; i++)
		fds[i] = fd;
	ring_register(&ring, IORING_REGISTER_FILES, fds, (unsigned)n);
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		struct io_uring_files_update update = {
			.offset = (unsigned)random_below(n),
			.fds = (uintptr_t)&fd,
		};

		ring_register(&ring, IORING_REGISTER_FILES_UPDATE, &update, 1);
		meter->ops++;
	}
	meter_end(meter, 0);
}

static struct iovec *buffers_of(size_t n)
{
	struct iovec *buffers = room_for(n, sizeof(*buffers));
	char *memory = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap", errno);
	for (size_t i = 0; i < n; i++)
		buffers[i] = (struct iovec){ memory + i * PAGE, PAGE };
	return buffers;
}

static void measure_buffers(const struct row *row, struct meter *meter,
			    size_t n)
{
	struct ring ring;
	struct iovec *buffers = buffers_of(n);

	(void)row;
	ring_open(&ring, SMALL, 0);
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		ring_register(&ring, IORING_REGISTER_BUFFERS, buffers,
			      (unsigned)n);
		ring_register(&ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
		meter->ops += n;
	}
	meter_end(meter, 0);
}

static void measure_fixed(const struct row *row, struct meter *meter, size_t n)
{
	struct ring ring;
	struct iovec *buffers = buffers_of(n);
	int fd = file_in_memory(), res;

	(void)row;
	ring_open(&ring, SMALL, 0);
	ring_register(&ring, IORING_REGISTER_BUFFERS, buffers, (unsigned)n);
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		size_t at = random_below(n);
		struct io_uring_sqe *sqe =
			ring_sqe(&ring, IORING_OP_READ_FIXED, fd, 0);

		sqe->addr = (uintptr_t)buffers[at].iov_base;
		sqe->len = 512;
		sqe->buf_index = (uint16_t)at;
		ring_enter(&ring, 1);
		ring_take(&ring, &res);
		if (res != 512)
			fail("a read", -res);
		meter->ops++;
	}
	meter_end(meter, 0);
}

/*
 * Threads
 */

static struct {
	pthread_barrier_t there, begin;
	size_t nr_each;
} crowd;

static void *make_nops(void *arg)
{
	struct ring ring;
	int res;

	(void)arg;
	ring_open(&ring, SMALL, 0);
	pthread_barrier_wait(&crowd.there);
	pthread_barrier_wait(&crowd.begin);
	for (size_t i = 0; i < crowd.nr_each; i++) {
		ring_sqe(&ring, IORING_OP_NOP, -1, 0);
		ring_enter(&ring, 1);
		ring_take(&ring, &res);
	}
	return NULL;
}

/*
 * Each thread makes enough no-ops to make the cost of starting and switching threads
 * negligible.
 */
static void measure_threads(const struct row *row, struct meter *meter,
			    size_t n)
{
	pthread_t *threads = room_for(n, sizeof(*threads));

	(void)row;
	crowd.nr_each = 100 + 10 * meter->wanted / n;
	pthread_barrier_init(&crowd.there, NULL, (unsigned)n + 1);
	pthread_barrier_init(&crowd.begin, NULL, (unsigned)n + 1);
	for (size_t i = 0; i < n; i++) {
		int error = pthread_create(&threads[i], NULL, make_nops, NULL);

		if (error)
			fail("pthread_create", error);
	}
	pthread_barrier_wait(&crowd.there);
	meter_begin(meter);
	pthread_barrier_wait(&crowd.begin);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	meter_end(meter, n * crowd.nr_each);
}

const struct row ring_rows[] = {
	{ .name = "ring-make", .measure = measure_make },
	{ .name = "epoll-beside", .measure = measure_beside, .op = EPOLL_WAIT },
	{ .name = "poll-beside", .measure = measure_beside, .op = POLL },
	{ .name = "select-beside", .measure = measure_beside, .op = SELECT },
	{ .name = "nop-epoll", .measure = measure_nop },
	{ .name = "rings-pipes", .measure = measure_pipes },
	{ .name = "files-update", .measure = measure_files },
	{ .name = "buffers-register", .measure = measure_buffers },
	{ .name = "buffers-read", .measure = measure_fixed },
	{ .name = "threads", .measure = measure_threads },
	{ 0 },
};

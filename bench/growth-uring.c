/* SPDX-License-Identifier: MIT */
/*
 * Rows (measurements) of growth.c for io_uring, while n requests wait. Each timed
 * operation cancels, updates or completes one of the n requests.
 *
 * The members of a row: `fill` is the opcode of the n requests, `files` the kind of
 * files for which they wait. `op` is the timed operation, and `order` the order in
 * which the program visits the n requests. COMPLETE writes to a request's file, so that
 * the request completes.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "growth.h"

enum files { NO_FILES, ONE_PIPE, PIPES, EVENTFDS };
/* Values of `op` that are not opcodes of io_uring. */
enum { COMPLETE = 1000, CANCEL_BY_FD, UPDATE };

#define OF_OPERATION (UINT64_C(1) << 40)

struct waiting {
	struct ring ring;
	/*
	 * for each request: the descriptor that it reads, and the one to which the
	 * program writes so that the request completes
	 */
	int *in, *out;
	uint64_t *buffers;
	struct __kernel_timespec hour;
};

static void make_file(enum files files, int *in, int *out)
{
	int ends[2];

	if (files == EVENTFDS) {
		*in = *out = eventfd(0, EFD_CLOEXEC);
		if (*in < 0)
			fail("eventfd", errno);
		return;
	}
	if (pipe(ends) < 0)
		fail("pipe", errno);
	*in = ends[0];
	*out = ends[1];
}

static void make_files(struct waiting *all, enum files files, size_t n)
{
	all->in = room_for(n, sizeof(int));
	all->out = room_for(n, sizeof(int));
	for (size_t i = 0; i < n; i++) {
		if (files == NO_FILES) {
			all->in[i] = -1;
		} else if (files == ONE_PIPE && i) {
			all->in[i] = all->in[0];
			all->out[i] = all->out[0];
		} else {
			make_file(files, &all->in[i], &all->out[i]);
		}
	}
}

static void make_waiting(struct waiting *all, const struct row *row, size_t n)
{
	size_t completions = 4096;

	ring_open(&all->ring, RING_ENTRIES, completions);
	all->buffers = room_for(n, sizeof(*all->buffers));
	all->hour = (struct __kernel_timespec){ .tv_sec = 3600 };
	make_files(all, (enum files)row->files, n);
}

static void submit_waiting(struct waiting *all, const struct row *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct io_uring_sqe *sqe =
			ring_sqe(&all->ring, row->fill, all->in[i], i);

		switch (row->fill) {
		case IORING_OP_POLL_ADD: sqe->poll32_events = POLLIN; break;
		case IORING_OP_TIMEOUT:
			sqe->addr = (uintptr_t)&all->hour;
			sqe->len = 1;
			break;
		default:
			sqe->addr = (uintptr_t)&all->buffers[i];
			sqe->len = sizeof(all->buffers[i]);
		}
	}
	ring_enter(&all->ring, 0);
}

/*
 * Prepare the timed operation on request `at`.
 * Return: how many completions the operation causes.
 */
static unsigned put_operation(struct waiting *all, const struct row *row,
			      size_t at)
{
	int op = row->op == CANCEL_BY_FD ? IORING_OP_ASYNC_CANCEL
		 : row->op == UPDATE     ? IORING_OP_POLL_REMOVE
					 : row->op;
	struct io_uring_sqe *sqe = ring_sqe(&all->ring, op, -1, OF_OPERATION);

	sqe->addr = at;
	if (row->op == CANCEL_BY_FD) {
		sqe->fd = all->in[at];
		sqe->addr = 0;
		sqe->cancel_flags = IORING_ASYNC_CANCEL_FD;
	}
	if (row->op == UPDATE) {
		sqe->len = IORING_POLL_UPDATE_EVENTS;
		sqe->poll32_events = POLLIN;
		return 1;
	}
	return 2;
}

static void complete_one(struct waiting *all, size_t at)
{
	uint64_t one = 1;
	int res;

	/*
	 * Write to the request's file, so that its waiting read completes. A write to a
	 * pipe has one byte. A write to an eventfd, where in[at] is the same descriptor
	 * as out[at], has eight.
	 */
	if (write(all->out[at], &one, all->in[at] == all->out[at] ? 8 : 1) < 0)
		fail("write", errno);
	ring_enter(&all->ring, 1);
	ring_take(&all->ring, &res);
	if (res < 1)
		fail("a read", -res);
}

static void operate(struct waiting *all, const struct row *row, size_t at)
{
	unsigned nr;

	if (row->op == COMPLETE) {
		complete_one(all, at);
		return;
	}
	nr = put_operation(all, row, at);
	ring_enter(&all->ring, nr);
	while (nr-- > 0) {
		int res;

		if (ring_take(&all->ring, &res) == OF_OPERATION && res)
			fail("the operation", -res);
	}
}

static void measure_waiting(const struct row *row, struct meter *meter,
			    size_t n)
{
	struct waiting all;
	size_t *order = indices(n, (enum order)row->order);

	make_waiting(&all, row, n);
	/*
	 * An update leaves all n requests in flight, so submit the requests once,
	 * before the loop. Any other operation ends a request, so each round of the
	 * loop submits all requests.
	 */
	if (row->op == UPDATE)
		submit_waiting(&all, row, n);
	do {
		size_t nr = 0, nr_before;

		if (row->op != UPDATE)
			submit_waiting(&all, row, n);
		/*
		 * Do not time the first cancel: during this call the library builds an
		 * index of all requests that wait.
		 */
		if (!meter->ops && n > 1)
			operate(&all, row, order[nr++]);
		nr_before = nr;
		meter_begin(meter);
		while (nr < n && nr < meter->wanted && !meter_is_late(meter))
			operate(&all, row, order[nr++]);
		meter_end(meter, nr - nr_before);
	} while (meter_wants(meter));
}

/* Time the first READ of each of n eventfds, all of which are ready. */
static void measure_first(const struct row *row, struct meter *meter, size_t n)
{
	struct waiting all;
	uint64_t value;
	int res;

	(void)row;
	ring_open(&all.ring, RING_ENTRIES, 0);
	all.in = room_for(n, sizeof(int));
	do {
		for (size_t i = 0; i < n; i++) {
			all.in[i] = eventfd(1, EFD_CLOEXEC);
			if (all.in[i] < 0)
				fail("eventfd", errno);
		}
		meter_begin(meter);
		for (size_t i = 0; i < n; i++) {
			struct io_uring_sqe *sqe = ring_sqe(
				&all.ring, IORING_OP_READ, all.in[i], 0);

			sqe->addr = (uintptr_t)&value;
			sqe->len = sizeof(value);
			ring_enter(&all.ring, 1);
			ring_take(&all.ring, &res);
			if (res != sizeof(value))
				fail("a read", -res);
		}
		meter_end(meter, n);
		for (size_t i = 0; i < n; i++)
			close(all.in[i]);
	} while (meter_wants(meter));
}

#define WAITING(name, fill, files, op, order)                 \
	{                                                     \
		name, measure_waiting, fill, files, op, order \
	}

const struct row uring_rows[] = {
	WAITING("cancel-newest", IORING_OP_POLL_ADD, ONE_PIPE,
		IORING_OP_ASYNC_CANCEL, NEWEST_FIRST),
	WAITING("cancel-random", IORING_OP_POLL_ADD, ONE_PIPE,
		IORING_OP_ASYNC_CANCEL, AT_RANDOM),
	WAITING("poll-update", IORING_OP_POLL_ADD, ONE_PIPE, UPDATE, AT_RANDOM),
	WAITING("poll-remove", IORING_OP_POLL_ADD, ONE_PIPE,
		IORING_OP_POLL_REMOVE, AT_RANDOM),
	WAITING("timeout-remove", IORING_OP_TIMEOUT, NO_FILES,
		IORING_OP_TIMEOUT_REMOVE, AT_RANDOM),
	WAITING("cancel-fd", IORING_OP_POLL_ADD, EVENTFDS, CANCEL_BY_FD,
		AT_RANDOM),
	WAITING("cancel-reads", IORING_OP_READ, ONE_PIPE,
		IORING_OP_ASYNC_CANCEL, AT_RANDOM),
	WAITING("one-pipe", IORING_OP_READ, ONE_PIPE, COMPLETE, AT_RANDOM),
	WAITING("pipes", IORING_OP_READ, PIPES, COMPLETE, AT_RANDOM),
	WAITING("eventfds", IORING_OP_READ, EVENTFDS, COMPLETE, NEWEST_FIRST),
	{ .name = "first-read", .measure = measure_first },
	{ 0 },
};

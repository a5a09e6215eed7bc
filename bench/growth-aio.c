/* SPDX-License-Identifier: MIT */
/*
 * Rows (measurements) of growth.c for kernel AIO and POSIX AIO. With kernel AIO, n
 * polls wait in a context during the measurement. With POSIX AIO, n reads of a pipe
 * wait. Only in the row lio-listio nothing waits: this row times n reads of a file.
 */
#include <aio.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "growth.h"

enum { BYTES = 512 };

static int empty_pipe(void)
{
	int ends[2];

	if (pipe(ends) < 0)
		fail("pipe", errno);
	return ends[0];
}

/*
 * Kernel AIO
 */

static void submit(aio_context_t context, struct iocb *iocb)
{
	if (syscall(SYS_io_submit, context, 1, &iocb) != 1)
		fail("io_submit", errno);
}

static void take_event(aio_context_t context)
{
	struct io_event event;

	if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
		fail("io_getevents", errno);
}

static aio_context_t new_context(size_t n)
{
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, n + 8, &context) < 0)
		fail("io_setup", errno);
	return context;
}

static void submit_polls(aio_context_t context, struct iocb *iocbs, size_t n,
			 int fd)
{
	for (size_t i = 0; i < n; i++) {
		iocbs[i] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_POLL,
			.aio_fildes = (unsigned)fd,
			.aio_buf = POLLIN,
		};
		submit(context, &iocbs[i]);
	}
}

/* Time reads of a file in memory, which complete at once. */
static void measure_read(const struct row *row, struct meter *meter, size_t n)
{
	static char memory[BYTES];
	aio_context_t context = new_context(n);
	struct iocb *iocbs = room_for(n, sizeof(*iocbs));
	struct iocb read = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = (unsigned)file_in_memory(),
		.aio_buf = (uintptr_t)memory,
		.aio_nbytes = BYTES,
	};

	(void)row;
	submit_polls(context, iocbs, n, empty_pipe());
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		submit(context, &read);
		take_event(context);
		meter->ops++;
	}
	meter_end(meter, 0);
}

static void measure_cancel(const struct row *row, struct meter *meter, size_t n)
{
	aio_context_t context = new_context(n);
	struct iocb *iocbs = room_for(n, sizeof(*iocbs));
	size_t *order = indices(n, (enum order)row->order);
	int fd = empty_pipe();

	do {
		size_t nr = 0;

		submit_polls(context, iocbs, n, fd);
		meter_begin(meter);
		while (nr < n && nr < meter->wanted && !meter_is_late(meter)) {
			struct io_event event;

			/*
			 * A cancelled poll also posts an event, so take the event.
			 */
			if (syscall(SYS_io_cancel, context, &iocbs[order[nr++]],
				    &event) < 0 &&
			    errno != EINPROGRESS)
				fail("io_cancel", errno);
			take_event(context);
		}
		meter_end(meter, nr);
	} while (meter_wants(meter));
}

/*
 * POSIX AIO
 */

static struct aiocb read_of(int fd)
{
	static char memory[BYTES];

	return (struct aiocb){
		.aio_fildes = fd,
		.aio_buf = memory,
		.aio_nbytes = BYTES,
		.aio_sigevent.sigev_notify = SIGEV_NONE,
	};
}

/* Time n reads of a file in memory by one lio_listio, which waits for them. */
static void measure_listio(const struct row *row, struct meter *meter, size_t n)
{
	struct aiocb *blocks = room_for(n, sizeof(*blocks));
	struct aiocb **list = room_for(n, sizeof(*list));
	int fd = file_in_memory();

	(void)row;
	do {
		for (size_t i = 0; i < n; i++) {
			blocks[i] = read_of(fd);
			blocks[i].aio_lio_opcode = LIO_READ;
			list[i] = &blocks[i];
		}
		meter_begin(meter);
		if (lio_listio(LIO_WAIT, list, (int)n, NULL) < 0)
			fail("lio_listio", errno);
		meter_end(meter, n);
		for (size_t i = 0; i < n; i++)
			if (aio_return(list[i]) != BYTES)
				fail("a read", EIO);
	} while (meter_wants(meter));
}

static struct aiocb *read_pipe(size_t n, int fd)
{
	struct aiocb *blocks = room_for(n + 1, sizeof(*blocks));

	for (size_t i = 0; i < n; i++) {
		blocks[i] = read_of(fd);
		if (aio_read(&blocks[i]) < 0)
			fail("aio_read", errno);
	}
	return blocks;
}

/* Time aio_suspend for a read that completes at once, while n reads wait. */
static void measure_suspend(const struct row *row, struct meter *meter,
			    size_t n)
{
	struct aiocb *blocks = read_pipe(n, empty_pipe());
	int fd = file_in_memory();
	struct aiocb *block = &blocks[n];
	const struct aiocb *list[] = { block };

	(void)row;
	meter_begin(meter);
	while (meter->ops < meter->wanted && !meter_is_late(meter)) {
		*block = read_of(fd);
		if (aio_read(block) < 0)
			fail("aio_read", errno);
		while (aio_error(block) == EINPROGRESS)
			aio_suspend(list, 1, NULL);
		if (aio_return(block) != BYTES)
			fail("a read", EIO);
		meter->ops++;
	}
	meter_end(meter, 0);
}

/*
 * glibc cannot cancel the read that was submitted first, because a thread already
 * executes it. So this read stays in flight, and the row times how n later reads are
 * cancelled.
 */
static void measure_aio_cancel(const struct row *row, struct meter *meter,
			       size_t n)
{
	int fd = empty_pipe();
	size_t *order = indices(n, (enum order)row->order);

	do {
		struct aiocb *first = read_pipe(1, fd);
		struct aiocb *blocks = read_pipe(n, fd);
		size_t nr = 0;

		(void)first;
		meter_begin(meter);
		while (nr < n && nr < meter->wanted && !meter_is_late(meter)) {
			struct aiocb *block = &blocks[order[nr++]];

			if (aio_cancel(fd, block) != AIO_CANCELED ||
			    aio_return(block) != -1)
				fail("aio_cancel", errno);
		}
		meter_end(meter, nr);
	} while (meter_wants(meter));
}

const struct row aio_rows[] = {
	{ .name = "aio-read", .measure = measure_read },
	{ .name = "aio-cancel", .measure = measure_cancel, .order = AT_RANDOM },
	{ .name = "lio-listio", .measure = measure_listio },
	{ .name = "posix-suspend", .measure = measure_suspend },
	{ .name = "posix-cancel",
	  .measure = measure_aio_cancel,
	  .order = AT_RANDOM },
	{ 0 },
};

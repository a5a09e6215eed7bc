/* SPDX-License-Identifier: MIT */
/* FSYNC and FDSYNC, and completions signalled by an eventfd. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"

static char buf[4096];

static void fsync_pipe_order(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	cb = iocb_of(IOCB_CMD_FSYNC, fds[1], buf, 0, 0);
	try_one("pipe_and_buf", ctx, &cb);
	cb = iocb_of(IOCB_CMD_FSYNC, fds[1], NULL, 0, 0);
	try_one("pipe", ctx, &cb);
	cb = iocb_of(IOCB_CMD_FSYNC, open(".", O_RDONLY), NULL, 0, 0);
	try_one("directory", ctx, &cb);
}

static void fsync_odd_file(void)
{
	aio_context_t ctx = new_context(8);
	int fd = open("/proc/version", O_RDONLY);
	struct iocb cb = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);

	try_one("proc", ctx, &cb);
}

static void fsync_after_writes(void)
{
	aio_context_t ctx = new_context(16);
	int fd = file_of("f", 0, O_RDWR), i;
	struct iocb cbs[9], *list[9];
	struct io_event ev[9];
	long wrong = 0, last = -1;

	for (i = 0; i < 9; i++) {
		cbs[i] = PWRITE_OF(fd, buf, 4096, 4096 * i);
		list[i] = &cbs[i];
	}
	cbs[8] = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);
	note_result("submit", call_submit(ctx, 9, list));
	note_result("reap", reap(ctx, 9, ev));
	for (i = 0; i < 9; i++) {
		wrong += ev[i].res != 4096;
		if (ev[i].obj == (uintptr_t)&cbs[8])
			last = i;
	}
	note("wrong", wrong);
	note("fsync_came", last);
}

static void fsync_outlives_descriptor(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR);
	struct iocb cb = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);
	struct io_event ev;

	note_result("submit", submit_one(ctx, &cb));
	close(fd);
	note_result("reap", reap(ctx, 1, &ev));
	note_event("fsync", &ev, &cb);
}

static struct iocb with_eventfd(struct iocb cb, int efd)
{
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (uint32_t)efd;
	return cb;
}

static void eventfd_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR), efd = eventfd(0, 0), fds[2];
	struct iocb rd = PREAD_OF(fd, buf, 16, 0), cb;

	REQUIRE(pipe(fds) == 0);
	cb = with_eventfd(rd, -1);
	try_one("minus_1", ctx, &cb);
	cb = with_eventfd(rd, fd);
	try_one("regular", ctx, &cb);
	cb = with_eventfd(rd, fds[1]);
	try_one("pipe", ctx, &cb);
	cb = with_eventfd(rd, open(".", O_PATH));
	try_one("path", ctx, &cb);
	close(efd);
	cb = with_eventfd(rd, efd);
	try_one("closed", ctx, &cb);
	note_pending("events", ctx);
}

static void eventfd_counts(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR), efd = eventfd(0, EFD_NONBLOCK), i;
	struct iocb cbs[5], *list[5];
	struct io_event ev[5];
	eventfd_t count = 0;

	for (i = 0; i < 5; i++) {
		cbs[i] = PREAD_OF(fd, buf, 16, 0);
		if (i != 2)
			cbs[i] = with_eventfd(cbs[i], efd);
		list[i] = &cbs[i];
	}
	note_result("submit", call_submit(ctx, 5, list));
	note("read", eventfd_read(efd, &count));
	note("count", (long)count);
	note_result("reap", reap(ctx, 5, ev));
	note("after_reap", eventfd_read(efd, &count));
	/*
	 * The eventfd counts a request that fails later, but not one that io_submit
	 * refuses.
	 */
	cbs[0].aio_buf = 0;
	cbs[1].aio_fildes = -1u;
	note_result("submit", call_submit(ctx, 2, list));
	note_result("reap", reap(ctx, 1, ev));
	note("read", eventfd_read(efd, &count));
	note("count", (long)count);
}

static void eventfd_many(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR), i;
	int efds[3] = { eventfd(0, 0), eventfd(10, 0),
			eventfd(0, EFD_SEMAPHORE) };
	struct iocb cbs[6], *list[6];
	struct io_event ev[6];
	eventfd_t count = 0;

	for (i = 0; i < 6; i++) {
		cbs[i] = with_eventfd(PREAD_OF(fd, buf, 16, 0), efds[i % 3]);
		list[i] = &cbs[i];
	}
	note_result("submit", call_submit(ctx, 6, list));
	note_result("reap", reap(ctx, 6, ev));
	for (i = 0; i < 3; i++) {
		eventfd_read(efds[i], &count);
		note("count", (long)count);
	}
}

/* A thread sleeps in poll(2) on the eventfd. Once it wakes, the event must be there. */
static void eventfd_wakes(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(0, 0), fds[2];
	struct pollfd wait = { .fd = efd, .events = POLLIN };
	struct iocb cb;
	eventfd_t count;

	REQUIRE(pipe(fds) == 0);
	cb = with_eventfd(POLL_OF(fds[0], POLLIN), efd);
	REQUIRE(submit_one(ctx, &cb) == 1);
	if (fork_helper() == 0) {
		wait_asleep(getppid());
		_exit(write(fds[1], "x", 1) != 1);
	}
	note("poll", poll(&wait, 1, PATIENCE_MS));
	note("read", eventfd_read(efd, &count));
	note("count", (long)count);
	note_pending("events", ctx);
}

/*
 * A write to a pipe completes a poll. A thread that then gets the poll's event must
 * find the eventfd already signalled.
 */
static void eventfd_in_time(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(0, EFD_NONBLOCK), fds[2], i;
	struct io_event ev;
	struct iocb cb;
	eventfd_t count;
	long late = 0;
	char byte;

	REQUIRE(pipe(fds) == 0);
	for (i = 0; i < 200; i++) {
		cb = with_eventfd(POLL_OF(fds[0], POLLIN), efd);
		REQUIRE(submit_one(ctx, &cb) == 1);
		REQUIRE(write(fds[1], "x", 1) == 1);
		REQUIRE(reap(ctx, 1, &ev) == 1);
		late += eventfd_read(efd, &count) != 0;
		REQUIRE(read(fds[0], &byte, 1) == 1);
	}
	note("late", late);
}

static void eventfd_closed(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(0, EFD_NONBLOCK), copy = dup(efd), fds[2];
	struct io_event ev;
	struct iocb cb;
	struct pollfd counted = { .fd = copy, .events = POLLIN };
	eventfd_t count = 0;

	REQUIRE(pipe(fds) == 0);
	cb = with_eventfd(POLL_OF(fds[0], POLLIN), efd);
	REQUIRE(submit_one(ctx, &cb) == 1);
	REQUIRE(dup2(fds[0], efd) == efd);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("reap", reap(ctx, 1, &ev));
	/*
	 * Wait for the eventfd, because the thread that completed the request may not
	 * have signalled it yet.
	 */
	note("counted", poll(&counted, 1, PATIENCE_MS));
	note("read", eventfd_read(copy, &count));
	note("count", (long)count);
}

const struct row rows_sync[] = {
	ROW("FSYNC on files that cannot be synced", fsync_pipe_order),
	ROW_DIFFERS("FSYNC on a regular file that cannot be synced",
		    fsync_odd_file, differs_sync_error,
		    { "proc=EINVAL", "proc=event:EINVAL" },
		    { "ring_0.*", "ring_0.*" }),
	ROW("FSYNC completes after the writes before it", fsync_after_writes),
	ROW("FSYNC outlives its descriptor", fsync_outlives_descriptor),
	ROW("a resfd that is no eventfd is refused", eventfd_bad),
	ROW("an eventfd counts completions", eventfd_counts),
	ROW("each request has an eventfd of its own", eventfd_many),
	ROW("an eventfd wakes a poll(2)", eventfd_wakes),
	ROW("an eventfd is counted up before its event is reaped",
	    eventfd_in_time),
	ROW("an eventfd outlives its descriptor", eventfd_closed),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/*
 * IOCB_CMD_POLL.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"

/*
 * Gets a poll's event, and prints those bits of its result that its mask requested.
 */
static void reap_poll(const char *key, aio_context_t ctx, const struct iocb *cb)
{
	struct io_event ev;
	long ret = reap(ctx, 1, &ev);

	if (ret != 1)
		return note_text(key, "no-event");
	ev.res = result_as_asked(&ev);
	note_event(key, &ev, cb);
}

static void poll_bits(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0 && write(fds[1], "x", 1) == 1);
	cb = POLL_OF(fds[0], 0x10000);
	try_one("bit_16", ctx, &cb);
	cb = POLL_OF(fds[0], 1ull << 32 | POLLIN);
	try_one("bit_32", ctx, &cb);
	cb = POLL_OF(fds[0], ~0ull);
	try_one("all_bits", ctx, &cb);
	cb = POLL_OF(fds[0], 0xffff);
	try_one("low_bits", ctx, &cb);
	cb = POLL_OF(-1, 0x10000);
	try_one("bit_16_bad_fd", ctx, &cb);
}

static void poll_regular(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 16, O_RDONLY);
	struct iocb cb = POLL_OF(fd, POLLIN);

	try_one("in", ctx, &cb);
	cb = POLL_OF(fd, 0);
	try_one("none", ctx, &cb);
	cb = POLL_OF(open(".", O_RDONLY | O_DIRECTORY), POLLIN);
	try_one("directory", ctx, &cb);
	cb = POLL_OF(open("/dev/null", O_RDWR), POLLIN | POLLOUT);
	try_one("dev_null", ctx, &cb);
	cb = POLL_OF(open(".", O_PATH), POLLIN);
	try_one("o_path", ctx, &cb);
}

static void poll_ready(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[1], POLLOUT);
	try_one("out", ctx, &cb);
	cb = POLL_OF(fds[1], POLLIN | POLLOUT);
	try_one("both_on_writer", ctx, &cb);
	REQUIRE(write(fds[1], "x", 1) == 1);
	cb = POLL_OF(fds[0], POLLIN);
	try_one("in", ctx, &cb);
	cb = POLL_OF(fds[0], POLLIN | POLLRDNORM | POLLPRI);
	try_one("more", ctx, &cb);
	cb = POLL_OF(fds[0], POLLRDNORM);
	try_one("rdnorm", ctx, &cb);
}

static void poll_ready_at_once(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[1], POLLOUT);
	note_result("submit", submit_one(ctx, &cb));
	note_pending("events", ctx);
}

static void poll_later(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	note_result("submit", submit_one(ctx, &cb));
	note_pending("before", ctx);
	REQUIRE(write(fds[1], "x", 1) == 1);
	reap_poll("poll", ctx, &cb);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_pending("once", ctx);
}

/*
 * Polls a pipe, and makes the pipe readable.
 * Return: how many events io_getevents() then finds without waiting.
 */
static int poll_and_look_once(void)
{
	aio_context_t ctx = new_context(8);
	struct timespec now = { 0 };
	struct io_event event;
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	REQUIRE(write(fds[1], "x", 1) == 1);
	return (int)call_getevents(ctx, 0, 1, &event, &now);
}

/*
 * When write() returns, the pipe has woken the poll. Under uaio, a thread of the
 * library may be executing the poll at that moment. An io_getevents with a timeout of 0
 * does not wait for that thread. So the test case tries several times: at least one try
 * must find the event.
 */
static void poll_later_no_wait(void)
{
	enum { TRIES = 10 };
	int status = 0;

	for (int i = 0; i < TRIES && status == 0; i++) {
		pid_t pid = fork_helper();

		if (pid == 0)
			_exit(poll_and_look_once());
		REQUIRE(waitpid(pid, &status, 0) == pid);
	}
	REQUIRE(WIFEXITED(status));
	note_result("events", WEXITSTATUS(status));
}

static void poll_while_waiting(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	if (fork_helper() == 0) {
		wait_asleep(getppid());
		_exit(write(fds[1], "x", 1) != 1);
	}
	reap_poll("poll", ctx, &cb);
}

static void poll_hang_up(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], 0);
	note_result("submit_none", submit_one(ctx, &cb));
	close(fds[1]);
	reap_poll("hup", ctx, &cb);
	cb = POLL_OF(fds[0], POLLIN);
	try_one("already_hup", ctx, &cb);
	REQUIRE(pipe(fds) == 0);
	close(fds[0]);
	cb = POLL_OF(fds[1], 0);
	try_one("err", ctx, &cb);
	cb = POLL_OF(fds[1], POLLOUT);
	try_one("err_out", ctx, &cb);
}

static void poll_socket(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	cb = POLL_OF(fds[0], POLLIN | POLLOUT);
	try_one("out", ctx, &cb);
	cb = POLL_OF(fds[0], POLLIN | POLLRDHUP);
	REQUIRE(submit_one(ctx, &cb) == 1);
	note_pending("before", ctx);
	shutdown(fds[1], SHUT_WR);
	reap_poll("shutdown", ctx, &cb);
	close(fds[1]);
	cb = POLL_OF(fds[0], POLLIN | POLLOUT | POLLRDHUP);
	try_one("closed", ctx, &cb);
}

static void poll_eventfd(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(0, 0);
	struct iocb cb = POLL_OF(efd, POLLIN);

	note_result("submit", submit_one(ctx, &cb));
	note_pending("before", ctx);
	eventfd_write(efd, 3);
	reap_poll("in", ctx, &cb);
	cb = POLL_OF(efd, POLLIN | POLLOUT);
	try_one("in_out", ctx, &cb);
}

static void poll_epoll(void)
{
	aio_context_t ctx = new_context(8);
	struct epoll_event want = { .events = EPOLLIN };
	int ep = epoll_create1(0), fds[2];
	struct iocb cb = POLL_OF(ep, POLLIN);

	REQUIRE(pipe(fds) == 0);
	REQUIRE(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &want) == 0);
	note_result("submit", submit_one(ctx, &cb));
	note_pending("before", ctx);
	REQUIRE(write(fds[1], "x", 1) == 1);
	reap_poll("in", ctx, &cb);
}

static void poll_closed_before_ready(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	close(fds[0]);
	note_pending("after_close", ctx);
	/*
	 * The request still keeps the pipe's reader open, so the write does not fail with
	 * EPIPE.
	 */
	note("write", write(fds[1], "x", 1));
	reap_poll("in", ctx, &cb);
}

static void poll_number_reused(void)
{
	aio_context_t ctx = new_context(8);
	int a[2], b[2];
	struct iocb cb;

	REQUIRE(pipe(a) == 0 && pipe(b) == 0);
	cb = POLL_OF(a[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	REQUIRE(dup2(b[0], a[0]) == a[0]);
	REQUIRE(write(b[1], "x", 1) == 1);
	note_pending("other_file_ready", ctx);
	REQUIRE(write(a[1], "x", 1) == 1);
	reap_poll("own_file_ready", ctx, &cb);
}

static void poll_many_on_one(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cbs[4], *list[4];
	struct io_event ev[4];
	int fds[2], i;

	REQUIRE(pipe(fds) == 0);
	for (i = 0; i < 4; i++) {
		cbs[i] = POLL_OF(fds[0], i == 3 ? POLLPRI : POLLIN);
		list[i] = &cbs[i];
	}
	note_result("submit", call_submit(ctx, 4, list));
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("reap", reap(ctx, 3, ev));
	note_text("order", ev[0].obj == (uintptr_t)&cbs[0] ? "first to last"
							   : "last to first");
	note_pending("more", ctx);
}

static void poll_wrong_mask(void)
{
	aio_context_t ctx = new_context(8);
	struct timespec some = { .tv_nsec = 50 * MS };
	struct io_event ev;
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLPRI);
	REQUIRE(submit_one(ctx, &cb) == 1);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("in_is_not_pri", call_getevents(ctx, 1, 1, &ev, &some));
	close(fds[1]);
	reap_poll("hup", ctx, &cb);
}

static void poll_reports_wake_up(void)
{
	aio_context_t ctx = new_context(8);
	struct timespec some = { .tv_nsec = 50 * MS };
	struct io_event ev;
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1 && write(fds[1], "x", 1) == 1);
	note_result("pipe", reap(ctx, 1, &ev));
	note_event("pipe_in", &ev, &cb);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1 && write(fds[1], "x", 1) == 1);
	note_result("socket", reap(ctx, 1, &ev));
	note_event("socket_in", &ev, &cb);
	cb = POLL_OF(fds[0], POLLPRI);
	REQUIRE(submit_one(ctx, &cb) == 1 && write(fds[1], "x", 1) == 1);
	note_result("pri", call_getevents(ctx, 1, 1, &ev, &some));
}

/* Sets O_NONBLOCK on a polled pipe while no descriptor is free. */
static void poll_set_nonblock(void)
{
	const struct rlimit few = { 128, 128 };
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	note_pending("before", ctx);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
	while (dup(fds[0]) >= 0)
		;
	REQUIRE(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	note_pending("after", ctx);
	REQUIRE(write(fds[1], "x", 1) == 1);
	reap_poll("poll", ctx, &cb);
}

/*
 * Clears O_NONBLOCK of a request's full eventfd. Signalling the eventfd must not block
 * all the same.
 */
static void poll_signals_blocking(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(0, EFD_NONBLOCK), fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	REQUIRE(eventfd_write(efd, UINT64_MAX - 1) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (uint32_t)efd;
	REQUIRE(submit_one(ctx, &cb) == 1);
	REQUIRE(fcntl(efd, F_SETFL, 0) == 0);
	REQUIRE(write(fds[1], "x", 1) == 1);
	reap_poll("poll", ctx, &cb);
}

const struct row rows_poll[] = {
	ROW("a poll's events have sixteen bits", poll_bits),
	ROW("a poll on a file that cannot be polled", poll_regular),
	ROW("a poll on a ready file", poll_ready),
	ROW("a ready poll is complete when io_submit returns",
	    poll_ready_at_once),
	ROW("a poll waits, and reports once", poll_later),
	ROW("a poll made ready needs no waiting", poll_later_no_wait),
	ROW("a poll wakes a waiter", poll_while_waiting),
	ROW("a poll reports hang-up and error unasked", poll_hang_up),
	ROW("a poll on a socket", poll_socket),
	ROW("a poll on an eventfd", poll_eventfd),
	ROW("a poll on an epoll", poll_epoll),
	ROW("a poll outlives its descriptor", poll_closed_before_ready),
	ROW("a poll stays with its file when its descriptor is reused",
	    poll_number_reused),
	ROW_DIFFERS("all polls of one file are woken", poll_many_on_one,
		    differs_poll_order,
		    { "order=last to first", "order=first to last" },
		    { "ring_0.events=*", "ring_0.events=*" }),
	ROW("a poll is not woken by events outside its mask", poll_wrong_mask),
	ROW("a poll goes on when O_NONBLOCK is set", poll_set_nonblock),
	ROW("a poll signals an eventfd that no longer is O_NONBLOCK",
	    poll_signals_blocking),
	ROW_DIFFERS("a poll that waited reports all bits of the wake-up",
		    poll_reports_wake_up, differs_poll_bits,
		    { "pipe_in=event:65", "pipe_in=event:1" },
		    { "socket_in=event:195", "socket_in=event:1" },
		    { "pri=1", "pri=0" }, { "ring_0.*", "ring_0.*" }),
	NO_ROW,
};

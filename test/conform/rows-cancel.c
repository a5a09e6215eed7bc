/* SPDX-License-Identifier: MIT */
/* io_cancel: which requests it can cancel, and how their events arrive. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "ring.h"

static char buf[4096];

static void cancel_pointers(void)
{
	aio_context_t ctx = new_context(8);
	struct io_event ev;

	note_result("null", call_cancel(ctx, NULL, &ev));
	note_result("kernel", call_cancel(ctx, KERNEL_ADDRESS, &ev));
	note_result("null_bad_ctx", call_cancel(0, NULL, &ev));
}

static void cancel_unknown(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(0, buf, 1, 0);
	struct io_event ev;

	note_result("zero_key", call_cancel(ctx, &cb, &ev));
	cb.aio_key = 77;
	note_result("other_key", call_cancel(ctx, &cb, &ev));
	note_result("null_event", call_cancel(ctx, &cb, NULL));
}

static void cancel_completed(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	struct io_event ev;

	REQUIRE(submit_one(ctx, &cb) == 1);
	note_result("before_reap", call_cancel(ctx, &cb, &ev));
	note_pending("events", ctx);
	note_result("after_reap", call_cancel(ctx, &cb, &ev));
}

/* Makes a context with a poll in flight, on a pipe that is never ready. */
static aio_context_t context_with_poll(struct iocb *cb, int fds[2])
{
	aio_context_t ctx = new_context(8);

	REQUIRE(pipe(fds) == 0);
	*cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, cb) == 1);
	return ctx;
}

static void cancel_poll(void)
{
	struct iocb cb;
	struct io_event ev, out;
	int fds[2];
	aio_context_t ctx = context_with_poll(&cb, fds);

	memset(&out, 0x5a, sizeof(out));
	note_pending("before", ctx);
	note_result("cancel", call_cancel(ctx, &cb, &out));
	note("out_untouched", out.obj == 0x5a5a5a5a5a5a5a5a);
	note_result("reap", reap(ctx, 1, &ev));
	note_event("poll", &ev, &cb);
	note_result("again", call_cancel(ctx, &cb, &out));
	note_pending("after", ctx);
}

static void cancel_poll_event_pointer(void)
{
	struct iocb cb;
	struct io_event ev;
	int fds[2];
	aio_context_t ctx = context_with_poll(&cb, fds);

	note_result("null", call_cancel(ctx, &cb, NULL));
	note_result("reap", reap(ctx, 1, &ev));
	ctx = context_with_poll(&cb, fds);
	note_result("kernel", call_cancel(ctx, &cb, KERNEL_ADDRESS));
	note_result("reap_kernel", reap(ctx, 1, &ev));
}

static void cancel_poll_key(void)
{
	struct iocb cb, copy;
	struct io_event ev;
	int fds[2];
	aio_context_t ctx = context_with_poll(&cb, fds);

	copy = cb;
	note_result("copy", call_cancel(ctx, &copy, &ev));
	cb.aio_key = 77;
	note_result("key_changed", call_cancel(ctx, &cb, &ev));
	cb.aio_key = 0;
	cb.aio_lio_opcode = 99;
	cb.aio_fildes = -1u;
	note_result("rest_changed", call_cancel(ctx, &cb, &ev));
	note_result("reap", reap(ctx, 1, &ev));
}

static void cancel_poll_other_context(void)
{
	struct iocb cb;
	struct io_event ev;
	int fds[2];
	aio_context_t ctx = context_with_poll(&cb, fds);

	note_result("other", call_cancel(new_context(8), &cb, &ev));
	note_result("own", call_cancel(ctx, &cb, &ev));
	note_result("reap", reap(ctx, 1, &ev));
}

static void cancel_one_of_many(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cbs[3], *list[3] = { &cbs[0], &cbs[1], &cbs[2] };
	struct io_event ev, others[2];
	int fds[2], i;

	rings_unordered();
	REQUIRE(pipe(fds) == 0);
	for (i = 0; i < 3; i++)
		cbs[i] = POLL_OF(fds[0], POLLIN);
	REQUIRE(call_submit(ctx, 3, list) == 3);
	note_result("cancel", call_cancel(ctx, &cbs[1], &ev));
	note_result("reap", reap(ctx, 1, &ev));
	note_event("second", &ev, &cbs[1]);
	note_pending("others", ctx);
	REQUIRE(write(fds[1], "x", 1) == 1);
	/*
	 * Wait for the events of the two other requests: under uaio, a thread of the
	 * library may still be executing these requests.
	 */
	note_result("then", reap(ctx, 2, others));
}

static void cancel_same_iocb(void)
{
	struct iocb cb;
	struct io_event ev, both[2];
	int fds[2];
	aio_context_t ctx = context_with_poll(&cb, fds);

	REQUIRE(submit_one(ctx, &cb) == 1);
	note_result("first", call_cancel(ctx, &cb, &ev));
	note_result("second", call_cancel(ctx, &cb, &ev));
	note_result("third", call_cancel(ctx, &cb, &ev));
	note_result("reap", reap(ctx, 2, both));
}

static void cancel_ready_poll(void)
{
	struct iocb cb;
	struct io_event ev;
	int fds[2];
	aio_context_t ctx = context_with_poll(&cb, fds);

	REQUIRE(write(fds[1], "x", 1) == 1);
	reap(ctx, 1, &ev);
	note("res", ev.res & POLLIN);
	note_result("cancel", call_cancel(ctx, &cb, &ev));
	note_pending("events", ctx);
}

/*
 * When a direct read is cancelled, the read may be queued or running. In both cases it
 * must have one event.
 */
static void cancel_direct_reads(void)
{
	static char pages[65536] __attribute__((aligned(4096)));
	aio_context_t ctx = new_context(64);
	int fd = file_of("f", 65536, O_RDONLY | O_DIRECT), i;
	struct iocb cbs[16], *list[16];
	struct io_event ev[16], out;
	long refused = 0;

	for (i = 0; i < 16; i++) {
		cbs[i] = PREAD_OF(fd, pages + 4096 * i, 4096, 4096 * i);
		list[i] = &cbs[i];
	}
	REQUIRE(call_submit(ctx, 16, list) == 16);
	/*
	 * Which reads were cancelled depends on timing, so the ring is not printed.
	 */
	ring_forget(ctx);
	for (i = 0; i < 16; i++)
		refused += call_cancel(ctx, &cbs[i], &out) != 0;
	note("never_0", refused);
	note_result("reap", reap(ctx, 16, ev));
	note_pending("more", ctx);
}

struct submission {
	aio_context_t ctx;
	struct iocb cb;
	/* an eventfd that is signalled when io_submit has returned */
	int done_fd;
};

static void *submit_it(void *arg)
{
	struct submission *it = arg;

	note_result("submit", submit_one(it->ctx, &it->cb));
	eventfd_write(it->done_fd, 1);
	return NULL;
}

/*
 * Waits until io_submit has returned, or the thread in io_submit sleeps. If that thread
 * sleeps, the test case writes to the pipe, which completes the read.
 */
static void cancel_stream_read(void)
{
	struct submission it = { .ctx = new_context(8) };
	struct pollfd done = { .events = POLLIN };
	struct io_event ev, out;
	pthread_t thread;
	int fds[2], is_done;

	it.done_fd = done.fd = eventfd(0, 0);
	REQUIRE(pipe(fds) == 0);
	it.cb = PREAD_OF(fds[0], buf, 64, 0);
	REQUIRE(!pthread_create(&thread, NULL, submit_it, &it));
	do {
		is_done = poll(&done, 1, 500);
	} while (!is_done && !others_sleep());
	if (!is_done)
		REQUIRE(write(fds[1], "0123456789", 10) == 10);
	REQUIRE(!pthread_join(thread, NULL));
	note_text("io_submit", is_done ? "returns" : "waits");
	note_result("cancel", call_cancel(it.ctx, &it.cb, &out));
	note_result("reap", reap(it.ctx, 1, &ev));
	note_event("event", &ev, &it.cb);
}

static void cancel_signals_eventfd(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2], efd = eventfd(0, EFD_NONBLOCK);
	struct pollfd counted = { .fd = efd, .events = POLLIN };
	struct io_event ev;
	struct iocb cb;
	eventfd_t count = 0;

	REQUIRE(pipe(fds) == 0 && efd >= 0);
	cb = POLL_OF(fds[0], POLLIN);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (unsigned int)efd;
	REQUIRE(submit_one(ctx, &cb) == 1);
	note("before", eventfd_read(efd, &count));
	note_result("cancel", call_cancel(ctx, &cb, &ev));
	note_result("reap", reap(ctx, 1, &ev));
	/*
	 * Wait for the eventfd, because the kernel completes the request in another
	 * thread. That thread adds the event before it signals the eventfd.
	 */
	note("counted", poll(&counted, 1, PATIENCE_MS));
	note("after", eventfd_read(efd, &count));
	note("count", (long)count);
}

const struct row rows_cancel[] = {
	ROW("io_cancel checks the iocb, then the context", cancel_pointers),
	ROW("a request never made cannot be cancelled", cancel_unknown),
	ROW("a completed request cannot be cancelled", cancel_completed),
	ROW("io_cancel of a poll posts its event to the ring", cancel_poll),
	ROW("io_cancel does not touch its event argument",
	    cancel_poll_event_pointer),
	ROW("a request is found by address and key alone", cancel_poll_key),
	ROW("a request is not found in another context",
	    cancel_poll_other_context),
	ROW("one of many polls is cancelled", cancel_one_of_many),
	ROW("one iocb in flight twice is cancelled once a call",
	    cancel_same_iocb),
	ROW("a poll that was ready cannot be cancelled", cancel_ready_poll),
	ROW("io_cancel never returns 0, and posts one event",
	    cancel_direct_reads),
	ROW_DIFFERS("a read of an empty pipe waits in io_submit",
		    cancel_stream_read, differs_not_blocked,
		    { "io_submit=waits", "io_submit=returns" },
		    { "cancel=EINVAL", "cancel=EINPROGRESS" },
		    { "event=event:10", "event=event:ECANCELED" },
		    { "ring_0.*", "ring_0.*" }),
	ROW("a cancelled request signals its eventfd", cancel_signals_eventfd),
	NO_ROW,
};

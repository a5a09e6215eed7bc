/* SPDX-License-Identifier: MIT */
/*
 * IOCB_CMD_POLL on every kind of file that can block: its result at once, and
 * after something happens to the file.
 *
 * Each test case is for one kind of file and one event that happens to it. The test
 * case has a field for each mask of a poll, and polls a new file for each mask. It
 * cancels a poll that has not completed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "stream.h"
#include "streams.h"

static char bytes[4096];

static void give(const struct ends *ends, const struct stream_kind *kind)
{
	struct pollfd given = { .fd = ends->own, .events = POLLIN };

	if (kind->put)
		kind->put(ends, 1);
	else
		REQUIRE(write(ends->peer, bytes, 10) == 10);
	/*
	 * Wait until the file is ready. A timerfd is not ready before its timer
	 * expires.
	 */
	REQUIRE(poll(&given, 1, PATIENCE_MS) == 1);
}

static void go(const struct ends *ends, const struct stream_kind *kind)
{
	(void)kind;
	REQUIRE(close(ends->peer) == 0);
}

static void reset(const struct ends *ends, const struct stream_kind *kind)
{
	const struct linger at_once = { .l_onoff = 1 };

	(void)kind;
	REQUIRE(!setsockopt(ends->peer, SOL_SOCKET, SO_LINGER, &at_once,
			    sizeof(at_once)));
	REQUIRE(close(ends->peer) == 0);
}

static void stop_writing(const struct ends *ends,
			 const struct stream_kind *kind)
{
	(void)kind;
	REQUIRE(shutdown(ends->peer, SHUT_WR) == 0);
}

static void stop_both(const struct ends *ends, const struct stream_kind *kind)
{
	(void)kind;
	REQUIRE(shutdown(ends->peer, SHUT_RDWR) == 0);
}

static void stop_own_reading(const struct ends *ends,
			     const struct stream_kind *kind)
{
	(void)kind;
	REQUIRE(shutdown(ends->own, SHUT_RD) == 0);
}

static void stop_own(const struct ends *ends, const struct stream_kind *kind)
{
	(void)kind;
	REQUIRE(shutdown(ends->own, SHUT_RDWR) == 0);
}

static void send_urgent(const struct ends *ends, const struct stream_kind *kind)
{
	(void)kind;
	REQUIRE(send(ends->peer, "!", 1, MSG_OOB) == 1);
}

static void empty(const struct ends *ends, const struct stream_kind *kind)
{
	(void)kind;
	drain_stream(ends->peer);
}

/* The initializers of struct happening leave out members that they do not use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/*
 * In the kernel, the wake-up for normal data of a socket also completes a poll for
 * urgent data. The wake-up for urgent data also completes a poll for normal data. Under
 * uaio neither happens.
 */
#define WAKES(mask, bit, ...)                                                  \
	SHOWINGS(                                                              \
		{ &differs_poll_bits, NULL,                                    \
		  PAIRS({ mask "=later", mask "=cancelled" },                  \
			{ mask ".result=event:" bit, mask ".result=event:0" }, \
			__VA_ARGS__{ "ring_0.*", "ring_0.*" }) })

static const struct happening {
	const char *name;
	unsigned kinds;
	bool is_full; /* whether to fill the file with data before the poll */
	void (*happen)(const struct ends *ends, const struct stream_kind *kind);
	const struct showing *differs;
} happenings[] = {
	{ "made readable",
	  PIPE | FIFO | EVENTFD | SEMAPHORE | TIMERFD | SIGNALFD | INOTIFY |
		  PACKETS | USERFAULT | MQUEUE | PIDFD,
	  false, give },
	{ "made readable", TWO_WAY | RECORDS | UDP | NETLINK | RAW_IP, false,
	  give, WAKES("pri", "2") },
	{ "made readable", LISTENER, false, give,
	  WAKES("pri", "2",
		{ "all.result=event:195", "all.result=event:65" }, ) },
	{ "whose other end goes", PIPE | FIFO | TWO_WAY | RECORDS, false, go },
	{ "that is reset", TCP, false, reset },
	{ "whose other end stops writing", TWO_WAY | UNIX_SEQPACKET, false,
	  stop_writing },
	{ "whose other end stops both", TWO_WAY | UNIX_SEQPACKET, false,
	  stop_both },
	{ "that stops reading", TWO_WAY | RECORDS | UDP, false,
	  stop_own_reading },
	{ "that stops both", TWO_WAY | RECORDS, false, stop_own },
	{ "with urgent data", TCP, false, send_urgent, WAKES("in*", "1") },
	{ "full and emptied", PIPE | FIFO | UNIX_STREAM | RECORDS, true,
	  empty },
	{ "full and its other end goes", PIPE | FIFO | UNIX_STREAM | RECORDS,
	  true, go },
};

static const struct {
	const char *name;
	uint64_t bits;
} masks[] = {
	{ "none", 0 },
	{ "in", POLLIN },
	{ "out", POLLOUT },
	{ "pri", POLLPRI },
	{ "rdhup", POLLRDHUP },
	{ "err_hup", POLLERR | POLLHUP },
	{ "in_rdhup", POLLIN | POLLRDHUP },
	{ "in_out", POLLIN | POLLOUT },
	{ "normal", POLLRDNORM | POLLWRNORM },
	{ "all", 0xffff },
	{ "exclusive", POLLIN | 1u << 28 },
	{ "wakeup", POLLIN | 1u << 29 },
	{ "oneshot", POLLIN | 1u << 30 },
	{ "edge", POLLIN | 1u << 31 },
};

enum {
	NR_HAPPENINGS = sizeof(happenings) / sizeof(happenings[0]),
	NR_MASKS = sizeof(masks) / sizeof(masks[0]),
	NR_ROWS_MAX = 128,
};

struct row rows_polls[NR_ROWS_MAX + 1];

/*
 * Waits up to PATIENCE_MS for the poll's event if poll(2) finds the file ready.
 * Otherwise waits only 2 ms, because usually no event arrives.
 */
static bool reap_poll(aio_context_t ctx, const struct pollfd *asked,
		      struct io_event *ret_event)
{
	struct timespec timeout = { .tv_nsec = 2 * MS };
	struct pollfd now = *asked;

	if (poll(&now, 1, 0) == 1)
		timeout = (struct timespec){ .tv_sec = PATIENCE_MS / 1000 };
	return call_getevents(ctx, 1, 1, ret_event, &timeout) == 1;
}

static void note_poll(const char *mask, const char *how, struct io_event *event,
		      const struct iocb *cb)
{
	char key[64];

	note_text(mask, how);
	snprintf(key, sizeof(key), "%s.result", mask);
	event->res = result_as_asked(event);
	note_event(key, event, cb);
}

static void cancel_poll(const char *mask, aio_context_t ctx, struct iocb *cb)
{
	struct io_event event;

	if (call_cancel(ctx, cb, &event) == -EINPROGRESS &&
	    reap(ctx, 1, &event) == 1)
		note_poll(mask, "cancelled", &event, cb);
	else
		note_text(mask, "lost");
}

/*
 * Waits until a TCP packet has arrived, which takes time even on the same machine.
 */
static void await_news(const struct ends *ends, const struct stream_kind *kind)
{
	struct pollfd news = { .fd = ends->own,
			       .events = POLLIN | POLLPRI | POLLRDHUP };

	if (kind->bit & TCP)
		REQUIRE(poll(&news, 1, PATIENCE_MS) == 1);
}

/*
 * Return: whether the poll's result may or may not contain POLLOUT. When one end
 * of a Unix socket closes, the kernel first notifies the other end, then frees the data
 * that the other end had written. Between these two steps, a poll still finds the
 * socket full, both in the library and in the kernel.
 */
static bool may_be_full_yet(const struct happening *happening,
			    const struct stream_kind *kind)
{
	return happening->is_full && happening->happen == go &&
	       kind->bit & (UNIX_STREAM | RECORDS);
}

static void try_mask(aio_context_t ctx, const char *name, uint64_t mask)
{
	const struct happening *happening = this_row->about;
	const struct stream_kind *kind = this_row->on;
	struct timespec at_once = { 0 };
	struct pollfd asked = { .events = (short)mask };
	struct io_event event;
	struct ends ends;
	struct iocb cb;
	long ret;

	kind->open(happening->is_full, &ends);
	if (happening->is_full)
		/*
		 * Fill the file before the request: filling sets O_NONBLOCK for a
		 * moment, which the request would notice.
		 */
		fill_stream(ends.own, 1000);
	asked.fd = ends.own;
	cb = POLL_OF(ends.own, mask);
	if (may_be_full_yet(happening, kind))
		poll_bits_are_open(&cb, POLLOUT | POLLWRNORM | POLLWRBAND);
	ret = submit_one(ctx, &cb);
	if (ret != 1)
		return note_result(name, ret);
	if (call_getevents(ctx, 0, 1, &event, &at_once) == 1)
		return note_poll(name, "at_once", &event, &cb);
	happening->happen(&ends, kind);
	await_news(&ends, kind);
	if (reap_poll(ctx, &asked, &event))
		return note_poll(name, "later", &event, &cb);
	cancel_poll(name, ctx, &cb);
}

static void run_polls(void)
{
	aio_context_t ctx = new_context(8);
	size_t i;

	for (i = 0; i < NR_MASKS; i++) {
		try_mask(ctx, masks[i].name, masks[i].bits);
		(void)!unlink("fifo");
	}
}

void make_polls(void)
{
	const struct happening *happening;
	const struct stream_kind *kind = NULL;

	for (happening = happenings; happening < happenings + NR_HAPPENINGS;
	     happening++)
		while ((kind = next_kind(kind, happening->kinds)))
			add_row(rows_polls, NR_ROWS_MAX,
				&(struct row){ .run = run_polls,
					       .differs = happening->differs,
					       .about = happening,
					       .on = kind },
				"POLL on %s %s", kind->name, happening->name);
}

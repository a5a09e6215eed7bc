/* SPDX-License-Identifier: MIT */
/*
 * Requests that complete inside io_submit on files that can block: requests
 * that need not wait, requests that must not wait (O_NONBLOCK, RWF_NOWAIT), and
 * writes to a stream whose other end is closed.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "stream.h"
#include "streams.h"

enum { NR_BYTES = 64, NR_LARGE = 300000, NOWAIT = 0x8, NOSIGNAL = 0x100 };

static char buf[NR_LARGE];

static struct iocb request_of(int opcode, int fd, size_t nbytes, uint32_t flags)
{
	static struct iovec pieces[2];
	struct iocb cb;

	pieces[0] = (struct iovec){ buf, nbytes / 2 };
	pieces[1] = (struct iovec){ buf + nbytes / 2, nbytes / 2 };
	if (opcode == IOCB_CMD_PREADV || opcode == IOCB_CMD_PWRITEV)
		cb = iocb_of(opcode, fd, pieces, 2, 0);
	else
		cb = iocb_of(opcode, fd, buf, nbytes, 0);
	cb.aio_rw_flags = (__kernel_rwf_t)flags;
	return cb;
}

static const struct {
	const char *name;
	int opcodes[2];
	size_t nbytes;
} requests[] = {
	{ "plain", { IOCB_CMD_PREAD, IOCB_CMD_PWRITE }, NR_BYTES },
	{ "pieces", { IOCB_CMD_PREADV, IOCB_CMD_PWRITEV }, NR_BYTES },
	{ "one_byte", { IOCB_CMD_PREAD, IOCB_CMD_PWRITE }, 1 },
	{ "signal", { IOCB_CMD_PREAD, IOCB_CMD_PWRITE }, 128 },
	{ "nothing", { IOCB_CMD_PREAD, IOCB_CMD_PWRITE }, 0 },
	{ "empty_pieces", { IOCB_CMD_PREADV, IOCB_CMD_PWRITEV }, 0 },
};
enum { NR_REQUESTS = sizeof(requests) / sizeof(requests[0]) };

static void try_all(const char *how, aio_context_t ctx, int fd, bool is_write,
		    uint32_t flags)
{
	struct iocb cb;
	char key[64];
	size_t i;

	for (i = 0; i < NR_REQUESTS; i++) {
		cb = request_of(requests[i].opcodes[is_write], fd,
				requests[i].nbytes, flags);
		snprintf(key, sizeof(key), "%s.%s", how, requests[i].name);
		try_one(key, ctx, &cb);
	}
}

static void give(const struct ends *ends, const struct stream_kind *kind)
{
	if (kind->put)
		kind->put(ends, 1);
	else
		REQUIRE(write(ends->peer, "0123456789", 10) == 10);
}

/*
 * Waits until the file polls ready, then reads the file. A timerfd, for example, is not
 * ready before its timer expires.
 */
static void read_ready(const struct stream_kind *kind)
{
	aio_context_t ctx = new_context(8);
	struct pollfd ready = { .events = POLLIN };
	struct ends ends;
	struct iocb cb;
	size_t i;

	for (i = 0; i < NR_REQUESTS; i++) {
		kind->open(false, &ends);
		give(&ends, kind);
		ready.fd = ends.own;
		REQUIRE(poll(&ready, 1, PATIENCE_MS) == 1);
		memset(buf, 0, NR_BYTES);
		cb = request_of(requests[i].opcodes[0], ends.own,
				requests[i].nbytes, 0);
		try_one(requests[i].name, ctx, &cb);
		note("first", buf[0]);
		note("readable", poll(&ready, 1, 0));
		(void)!unlink("fifo");
	}
}

static void write_ready(const struct stream_kind *kind)
{
	aio_context_t ctx = new_context(8);
	struct pollfd ready = { .events = POLLIN };
	struct ends ends;

	kind->open(true, &ends);
	try_all("blocking", ctx, ends.own, true, 0);
	try_all("nowait", ctx, ends.own, true, NOWAIT);
	ready.fd = ends.peer;
	while (poll(&ready, 1, 0) == 1)
		note("came", read(ends.peer, buf, sizeof(buf)));
}

static void set_nonblock(int fd, bool is_set)
{
	REQUIRE(fcntl(fd, F_SETFL, is_set ? O_NONBLOCK : 0) == 0);
}

static void try_without_waiting(aio_context_t ctx, int fd, bool is_write)
{
	set_nonblock(fd, true);
	try_all("nonblock", ctx, fd, is_write, 0);
	try_all("nonblock_nowait", ctx, fd, is_write, NOWAIT);
	set_nonblock(fd, false);
	try_all("nowait", ctx, fd, is_write, NOWAIT);
	note("nonblock_after", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
}

static void read_empty(const struct stream_kind *kind)
{
	aio_context_t ctx = new_context(8);
	struct ends ends;

	kind->open(false, &ends);
	try_without_waiting(ctx, ends.own, false);
}

static void write_full(const struct stream_kind *kind)
{
	aio_context_t ctx = new_context(8);
	struct ends ends;

	kind->open(true, &ends);
	set_nonblock(ends.own, true);
	fill_stream(ends.own, 1000);
	try_without_waiting(ctx, ends.own, true);
}

/* Writes more bytes than the file has room for. */
static void write_part(const struct stream_kind *kind)
{
	static const char *const names[] = { "nonblock", "nowait" };
	aio_context_t ctx = new_context(8);
	struct ends ends;
	struct iocb cb;
	int i;

	for (i = 0; i < 2; i++) {
		kind->open(true, &ends);
		set_nonblock(ends.own, !i);
		cb = PWRITE_OF(ends.own, buf, NR_LARGE, 0);
		cb.aio_rw_flags = i ? NOWAIT : 0;
		try_one(names[i], ctx, &cb);
		(void)!unlink("fifo");
	}
}

/* descriptor for write_to_nobody(); the other end is closed */
static int end_without_other;

static void write_to_nobody(const char *name, uint32_t flags)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PWRITE_OF(end_without_other, buf, NR_BYTES, 0);

	cb.aio_rw_flags = (__kernel_rwf_t)flags;
	nr_sigpipe = 0;
	try_one(name, ctx, &cb);
	note("sigpipe", nr_sigpipe);
}

static int write_in_child(void)
{
	write_to_nobody("deadly", 0);
	return 0;
}

static void write_broken(const struct stream_kind *kind)
{
	struct ends ends;

	kind->open(true, &ends);
	close(ends.peer);
	end_without_other = ends.own;
	note("child", in_child(write_in_child));
	signal(SIGPIPE, SIG_IGN);
	write_to_nobody("ignored", 0);
	count_sigpipe();
	write_to_nobody("handled", 0);
	write_to_nobody("nosignal", NOSIGNAL);
	set_nonblock(ends.own, true);
	write_to_nobody("nonblock", 0);
}

/* Kinds of files that do not support RWF_NOWAIT. */
#define WITHOUT \
	(FIFO | FIFO_BOTH | PIPE_SPLICED | PTYS | CANONICAL | PACKET_MASTER)
/*
 * Kinds of files that a test case cannot make readable, or can make readable only once.
 */
#define UNREAD (UNIX_SHARED | FUSE_SERVER)

#define NOT_FOUND(request)                                \
	{                                                 \
		request "=EOPNOTSUPP", request "=event:0" \
	}
#define UNTRIED                                             \
	SHOWINGS({ &differs_flag_refused, NULL,             \
		   PAIRS(NOT_FOUND("*nowait.nothing"),      \
			 NOT_FOUND("*nowait.empty_pieces"), \
			 { "ring_0.*", "ring_0.*" }) })

static const struct situation_here {
	const char *name;
	unsigned kinds;
	void (*run)(const struct stream_kind *kind);
	const struct showing *differs;
} situations_here[] = {
	{ "a read of data that is there", ~(unsigned)UNREAD, read_ready, NULL },
	{ "a write that has room", PIPE | UNIX_STREAM | RECORDS | UDP,
	  write_ready, NULL },
	{ "a write that has room", WITHOUT &(PIPES | FIFO_BOTH), write_ready,
	  UNTRIED },
	{ "a read that must not wait", ~(unsigned)(WITHOUT | UNREAD),
	  read_empty, NULL },
	{ "a read that must not wait", WITHOUT, read_empty, UNTRIED },
	{ "a write that must not wait", PIPE | UNIX_STREAM | RECORDS,
	  write_full, NULL },
	{ "a write that must not wait", PIPE_SPLICED | FIFO, write_full,
	  UNTRIED },
	{ "a write of which a part must not wait",
	  PIPE | PIPE_SPLICED | FIFO | UNIX_STREAM, write_part, NULL },
	{ "a write to an end that is gone",
	  PIPE | PIPE_SPLICED | FIFO | UNIX_STREAM | RECORDS, write_broken,
	  NULL },
};

enum {
	NR_SITUATIONS = sizeof(situations_here) / sizeof(situations_here[0]),
	NR_ROWS_MAX = 96,
};

struct row rows_atonce[NR_ROWS_MAX + 1];

static void run_atonce(void)
{
	const struct situation_here *situation = this_row->about;
	const struct stream_kind *kind = this_row->on;

	/*
	 * These test cases need Linux 6.10. On older kernels, some of these kinds of
	 * files do not support RWF_NOWAIT or have no read_iter.
	 */
	if (kind->bit & (TIMERFD | WALL_TIMERFD | SIGNALFD | USERFAULT) ||
	    strstr(situation->name, "must not wait") ||
	    strstr(situation->name, "has room"))
		need_kernel_of(is_kernel_of_6_10(), "6.10");
	situation->run(kind);
}

void make_atonce(void)
{
	const struct situation_here *situation;
	const struct stream_kind *kind = NULL;

	for (situation = situations_here;
	     situation < situations_here + NR_SITUATIONS; situation++)
		while ((kind = next_kind(kind, situation->kinds)))
			add_row(rows_atonce, NR_ROWS_MAX,
				&(struct row){ .run = run_atonce,
					       .differs = situation->differs,
					       .about = situation,
					       .on = kind },
				"%s: %s", situation->name, kind->name);
}

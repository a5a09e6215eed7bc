/* SPDX-License-Identifier: MIT */
/*
 * Runs the steps of a situation (stream.h) on one kind of file. The library or
 * stream-calls.c executes the requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "conform.h"
#include "stream-play.h"

enum { RECORD_BYTES = 1000, CHUNK_BYTES = 4096 };

static bool is_of(const struct play *play, unsigned kinds)
{
	return play->kind->bit & kinds;
}

/* Fills `bytes` with the bytes that the test case expects to read next from `peer`. */
static void fill_pattern(struct play *play, char *bytes, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		bytes[i] = (char)pattern_at(play->nr_out + i);
}

/*
 * Steps that make a request
 */

static void cut_in_pieces(struct stream_request *request)
{
	size_t third = request->nbytes / 3;
	char *at = request->buf;

	request->pieces[0] = (struct iovec){ at, third };
	request->pieces[1] = (struct iovec){ NULL, 0 };
	request->pieces[2] = (struct iovec){ at + third, third };
	request->pieces[3] =
		(struct iovec){ at + 2 * third, request->nbytes - 2 * third };
	request->nr_pieces = 4;
}

static bool is_write_verb(enum verb verb)
{
	return verb == WRITE || verb == WRITEV;
}

static struct stream_request *new_request(struct play *play,
					  const struct step *step)
{
	struct stream_request *request = &play->requests[play->nr_requests++];

	REQUIRE(play->nr_requests <= REQUESTS_MAX);
	request->way = step->verb == POLL          ? POLLS
		       : is_write_verb(step->verb) ? WRITES
						   : READS;
	request->fd = play->ends.own;
	request->flags = step->flags;
	request->nbytes = step->nr;
	request->buf = calloc(1, step->nr + 1);
	REQUIRE(request->buf);
	request->pieces[0] = (struct iovec){ request->buf, step->nr };
	request->nr_pieces = 1;
	if (step->verb == READV || step->verb == WRITEV)
		cut_in_pieces(request);
	if (request->way == WRITES) {
		fill_pattern(play, request->buf, step->nr);
		play->nr_out += step->nr;
	}
	return request;
}

static int opcode_of(const struct stream_request *request)
{
	if (request->nr_pieces > 1)
		return request->way == WRITES ? IOCB_CMD_PWRITEV
					      : IOCB_CMD_PREADV;
	return request->way == WRITES ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
}

static struct iocb iocb_for(struct stream_request *request)
{
	if (request->way == POLLS)
		return POLL_OF(request->fd, request->nbytes);
	if (request->nr_pieces > 1)
		return iocb_of(opcode_of(request), request->fd, request->pieces,
			       (size_t)request->nr_pieces, 0);
	return iocb_of(opcode_of(request), request->fd, request->buf,
		       request->nbytes, 0);
}

static void submit(struct play *play, struct stream_request *request)
{
	long ret;

	request->cb = iocb_for(request);
	request->cb.aio_rw_flags = (__kernel_rwf_t)request->flags;
	/*
	 * Test cases that use libaio wait in io_getevents. Other test cases wait for an
	 * eventfd.
	 */
	if (door == DOOR_SYSCALL) {
		request->cb.aio_flags = IOCB_FLAG_RESFD;
		request->cb.aio_resfd = (uint32_t)play->completions;
	}
	ret = submit_one(play->ctx, &request->cb);
	if (ret == 1)
		return;
	note_result("refused", ret);
	request->is_done = true;
	request->res = ret;
}

static void make_request(struct play *play, const struct step *step)
{
	struct stream_request *request = new_request(play, step);

	if (step->verb == READ_DUPLICATE)
		request->fd = dup(request->fd);
	if (by_calls)
		calls_give(play, request);
	else
		submit(play, request);
}

/*
 * Consumes events. If `may_wait` is set, first waits until there is an event. The
 * eventfd may report an event that an earlier call has consumed. Then this call finds
 * no event.
 * Return: false if the wait has timed out.
 */
static bool take_events(struct play *play, bool may_wait)
{
	struct pollfd completed = { .fd = play->completions, .events = POLLIN };
	struct timespec timeout = { 0 };
	struct io_event events[REQUESTS_MAX];
	eventfd_t count;
	long nr, i;

	if (may_wait && door == DOOR_SYSCALL) {
		if (poll(&completed, 1, PATIENCE_MS) != 1)
			return false;
		REQUIRE(eventfd_read(play->completions, &count) == 0);
	} else if (may_wait) {
		timeout.tv_sec = PATIENCE_MS / 1000;
	}
	nr = call_getevents(play->ctx, may_wait, REQUESTS_MAX, events,
			    &timeout);
	for (i = 0; i < nr; i++) {
		struct stream_request *request =
			&play->requests[events[i].data - play->first_data];

		REQUIRE(request < play->requests + play->nr_requests);
		request->is_done = true;
		request->res = events[i].res;
	}
	return nr > 0 || door == DOOR_SYSCALL;
}

static bool await(struct play *play, struct stream_request *request)
{
	if (by_calls)
		return calls_await(request, PATIENCE_MS);
	while (!request->is_done)
		if (!take_events(play, true))
			return false;
	return true;
}

static void note_waiting(struct play *play, size_t nr)
{
	char key[32];

	if (!by_calls)
		(void)take_events(play, false);
	snprintf(key, sizeof(key), "%zu.complete", nr);
	note(key, by_calls ? calls_is_done(&play->requests[nr])
			   : play->requests[nr].is_done);
}

/*
 * Return: an FNV-1a hash of the data that a read returned. For a signalfd, the hash is of
 * the signal's number only, as the other members differ from run to run.
 */
static long digest(const struct play *play,
		   const struct stream_request *request)
{
	long nr = is_of(play, SIGNALFD) ? 4 : request->res, i;
	uint32_t hash = 2166136261u;

	for (i = 0; i < nr; i++)
		hash = (hash ^ (unsigned char)request->buf[i]) * 16777619u;
	return hash;
}

static void note_end(struct play *play, const struct step *step)
{
	struct stream_request *request = &play->requests[step->nr];
	char key[32];

	snprintf(key, sizeof(key), "%zu.result", step->nr);
	if (!await(play, request))
		return note_text(key, "none");
	if (step->verb == END_SIGN && request->res > 0)
		return note_text(key, "some");
	note_result(key, request->res);
	if (request->way != READS || request->res <= 0 || play->is_order_open ||
	    is_of(play, VARYING & ~SIGNALFD))
		return;
	snprintf(key, sizeof(key), "%zu.bytes", step->nr);
	note(key, digest(play, request));
}

/*
 * Steps that act on one end of the file: on `own`, which has the requests, or on `peer`
 */

static bool is_ready(int fd, short events, int ms)
{
	struct pollfd ready = { .fd = fd, .events = events };

	return poll(&ready, 1, ms) == 1 && ready.revents & events;
}

static void put(struct play *play, size_t nr)
{
	char bytes[CHUNK_BYTES];
	size_t i;

	if (play->kind->put)
		return play->kind->put(&play->ends, nr);
	REQUIRE(nr <= sizeof(bytes));
	for (i = 0; i < nr; i++)
		bytes[i] = (char)pattern_at(play->nr_in + i);
	play->nr_in += nr;
	REQUIRE(write(play->ends.peer, bytes, nr) == (ssize_t)nr);
}

/*
 * Reads up to nr bytes, or one record, from the peer.
 * Return: the number of bytes.
 */
static size_t take_some(struct play *play, size_t nr)
{
	char bytes[65536];
	ssize_t len;

	if (!is_ready(play->ends.peer, POLLIN, PATIENCE_MS))
		return 0;
	len = read(play->ends.peer, bytes, nr < sizeof(bytes) ? nr : 65536);
	REQUIRE(len >= 0);
	if (!is_pattern(bytes, (size_t)len, play->nr_taken))
		play->nr_wrong++;
	play->nr_taken += (size_t)len;
	return (size_t)len;
}

static void take(struct play *play, size_t nr)
{
	size_t got = 0, part;

	if (is_of(play, IN_PIECES)) {
		while (nr--)
			note("record", (long)take_some(play, CHUNK_BYTES));
		return;
	}
	while (got < nr && (part = take_some(play, nr - got)))
		got += part;
	note("taken", (long)got);
}

static void take_all(struct play *play)
{
	while (is_ready(play->ends.peer, POLLIN, 0) &&
	       take_some(play, CHUNK_BYTES))
		;
}

static void drain(struct play *play)
{
	while (play->nr_taken < play->nr_out &&
	       take_some(play, play->nr_out - play->nr_taken))
		;
	note("left", (long)(play->nr_out - play->nr_taken));
	note("wrong", play->nr_wrong);
}

static void await_held(struct play *play, size_t nr)
{
	int held, tries;

	for (tries = 0; tries < PATIENCE_MS; tries++) {
		REQUIRE(ioctl(play->ends.peer, FIONREAD, &held) == 0);
		if ((size_t)held == nr)
			break;
		/*
		 * Look again every millisecond: there is no system call that waits
		 * until a pipe contains nr bytes.
		 */
		(void)poll(NULL, 0, 1);
	}
	note("holds", held);
}

static void reset_peer(struct play *play)
{
	const struct linger at_once = { .l_onoff = 1 };

	REQUIRE(!setsockopt(play->ends.peer, SOL_SOCKET, SO_LINGER, &at_once,
			    sizeof(at_once)));
	REQUIRE(close(play->ends.peer) == 0);
}

static void open_peer(struct play *play)
{
	bool is_writer = play->nr_out;

	play->ends.peer = open("fifo", is_writer ? O_RDONLY : O_WRONLY);
	REQUIRE(play->ends.peer >= 0);
}

static ssize_t write_at_once(const struct play *play, const char *bytes)
{
	if (is_of(play, TWO_WAY | RECORDS | NETLINK | UNIX_SHARED))
		return send(play->ends.own, bytes, RECORD_BYTES, MSG_DONTWAIT);
	/* A pipe that polls writable has room for a page, so the write cannot block. */
	return is_ready(play->ends.own, POLLOUT, 0)
		       ? write(play->ends.own, bytes, CHUNK_BYTES)
		       : -1;
}

static void fill(struct play *play)
{
	char bytes[CHUNK_BYTES];
	ssize_t len;

	do {
		fill_pattern(play, bytes, sizeof(bytes));
		len = write_at_once(play, bytes);
		if (len > 0)
			play->nr_out += (size_t)len;
	} while (len > 0);
}

static void put_back(struct play *play, size_t nr)
{
	char bytes[CHUNK_BYTES] = "";

	REQUIRE(nr <= sizeof(bytes));
	REQUIRE(write(play->ends.own, bytes, nr) == (ssize_t)nr);
}

static void close_own(struct play *play)
{
	REQUIRE(close(play->ends.own) == 0);
	play->is_own_closed = true;
}

static void reuse_own(struct play *play)
{
	bool is_writer = play->nr_out;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	if (!is_writer)
		REQUIRE(write(fds[1], "other", 5) == 5);
	REQUIRE(dup2(fds[is_writer], play->ends.own) == play->ends.own);
	play->other = fds[0];
}

/*
 * Starts a process that shares the open file and looks again and again whether
 * O_NONBLOCK is set.
 */
static void watch_flags(struct play *play)
{
	int fds[2];
	bool is_seen = false;

	REQUIRE(pipe(fds) == 0);
	play->watcher = fork_helper();
	if (play->watcher == 0) {
		close(play->ends.peer);
		close(fds[1]);
		while (!is_ready(fds[0], POLLHUP, 0))
			is_seen |=
				!!(fcntl(play->ends.own, F_GETFL) & O_NONBLOCK);
		_exit(is_seen);
	}
	close(fds[0]);
	play->watcher_end = fds[1];
}

static void unwatch_flags(struct play *play)
{
	int status;

	close(play->watcher_end);
	REQUIRE(waitpid(play->watcher, &status, 0) == play->watcher);
	note("nonblock_seen", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void set_nonblock(const struct play *play, int is_on)
{
	REQUIRE(ioctl(play->ends.own, FIONBIO, &is_on) == 0);
}

static void set_nonblock_elsewhere(const struct play *play, int is_on)
{
	pid_t pid = fork_helper();
	int status;

	if (pid == 0)
		_exit(ioctl(play->ends.own, FIONBIO, &is_on) != 0);
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
}

static void set_timeout(const struct play *play, int which, size_t ms)
{
	const struct timeval timeout = {
		.tv_sec = (time_t)ms / 1000,
		.tv_usec = (suseconds_t)ms % 1000 * 1000,
	};

	REQUIRE(!setsockopt(play->ends.own, SOL_SOCKET, which, &timeout,
			    sizeof(timeout)));
}

static void set_option(const struct play *play, int level, int which, int value)
{
	REQUIRE(!setsockopt(play->ends.own, level, which, &value,
			    sizeof(value)));
}

static void set_least(const struct play *play, size_t which, size_t nr)
{
	struct termios mode;

	REQUIRE(tcgetattr(play->ends.own, &mode) == 0);
	mode.c_cc[which] = (cc_t)nr;
	REQUIRE(tcsetattr(play->ends.own, TCSANOW, &mode) == 0);
}

static void signal_thread(void)
{
	pid_t thread = by_calls ? calls_thread(READS) : gettid();

	REQUIRE(tgkill(getpid(), thread, SIGUSR1) == 0);
}

/*
 * Moves the system's clock by a microsecond, and back at the next call. Other programs
 * may rely on the clock. So skips the test case unless the environment contains
 * CONFORM_SETS_CLOCK.
 */
static void set_clock(void)
{
	static const struct timeval offsets[] = { { 0, 1 }, { -1, 999999 } };
	static size_t nr;
	struct timex by = { .modes = ADJ_SETOFFSET };

	if (!getenv("CONFORM_SETS_CLOCK"))
		skip("clock-not-to-be-set");
	by.time = offsets[nr++ % 2];
	REQUIRE(adjtimex(&by) >= 0);
}

static void take_step(struct play *play, const struct step *step)
{
	switch (step->verb) {
	case END_OF_STEPS: break;
	case READ:
	case READV:
	case WRITE:
	case WRITEV:
	case POLL:
	case READ_DUPLICATE: make_request(play, step); break;
	case WAITS: note_waiting(play, step->nr); break;
	case END:
	case END_SIGN: note_end(play, step); break;
	case PUT: put(play, step->nr); break;
	case TAKE: take(play, step->nr); break;
	case TAKE_ALL: take_all(play); break;
	case DRAIN: drain(play); break;
	case HOLDS: await_held(play, step->nr); break;
	case CLOSE_PEER: REQUIRE(close(play->ends.peer) == 0); break;
	case OPEN_PEER: open_peer(play); break;
	case SHUT_PEER:
		REQUIRE(shutdown(play->ends.peer, (int)step->nr) == 0);
		break;
	case RESET: reset_peer(play); break;
	case FILL: fill(play); break;
	case PUT_BACK: put_back(play, step->nr); break;
	case SHUT_OWN:
		REQUIRE(shutdown(play->ends.own, (int)step->nr) == 0);
		break;
	case CLOSE_OWN: close_own(play); break;
	case REUSE_OWN: reuse_own(play); break;
	case WATCH: watch_flags(play); break;
	case UNWATCH: unwatch_flags(play); break;
	case NONBLOCK: set_nonblock(play, (int)step->nr); break;
	case NONBLOCK_BY_OTHERS:
		set_nonblock_elsewhere(play, (int)step->nr);
		break;
	case RECEIVE_TIMEOUT: set_timeout(play, SO_RCVTIMEO, step->nr); break;
	case SEND_TIMEOUT: set_timeout(play, SO_SNDTIMEO, step->nr); break;
	case LOW_WATER:
		set_option(play, SOL_SOCKET, SO_RCVLOWAT, (int)step->nr);
		break;
	case KEEP_ERRORS: set_option(play, IPPROTO_IP, IP_RECVERR, 1); break;
	case PIPE_BYTES:
		REQUIRE(fcntl(play->ends.own, F_SETPIPE_SZ, step->nr) >= 0);
		break;
	case LEAST_BYTES: set_least(play, VMIN, step->nr); break;
	case LEAST_TIME: set_least(play, VTIME, step->nr); break;
	case PUT_SPOILT: put_spoilt(&play->ends, step->nr); break;
	case SIGNAL_THREAD:
		need_kernel_of(is_kernel_of_6_10(), "6.10");
		signal_thread();
		break;
	case SET_CLOCK: set_clock(); break;
	}
}

static void note_after(const struct play *play)
{
	int held;

	note("sigpipe", nr_sigpipe);
	if (play->other >= 0) {
		REQUIRE(ioctl(play->other, FIONREAD, &held) == 0);
		note("other_holds", held);
	} else if (!play->is_own_closed) {
		note("nonblock",
		     !!(fcntl(play->ends.own, F_GETFL) & O_NONBLOCK));
	}
}

static bool has_writes(const struct step *step)
{
	for (; step->verb; step++)
		if (is_write_verb(step->verb) || step->verb == FILL)
			return true;
	return false;
}

void play(const struct situation *situation, const struct stream_kind *kind)
{
	static struct play the_play = { .other = -1 };
	struct play *play = &the_play;
	const struct step *step;

	play->kind = kind;
	count_sigpipe();
	kind->open(has_writes(situation->steps), &play->ends);
	if (!by_calls) {
		play->ctx = new_context(REQUESTS_MAX);
		play->completions = eventfd(0, 0);
		/* The reference (--calls) has no completion ring, so print none. */
		ring_forget(play->ctx);
		play->first_data = iocb_of(0, 0, NULL, 0, 0).aio_data + 1;
	}
	for (step = situation->steps; step->verb; step++) {
		play->is_order_open |= step->verb == READ_DUPLICATE;
		take_step(play, step);
		if (by_calls)
			calls_settle(play);
	}
	note_after(play);
}

/* SPDX-License-Identifier: MIT */
/*
 * The results of requests that had to wait (stream.h). Each test case is for a
 * situation and a kind of file.
 */
#include <poll.h>
#include <sys/socket.h>

#include "conform.h"
#include "differences.h"
#include "stream.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

bool by_calls;

enum {
	/* RWF_* flags that the headers of many machines lack */
	RWF_HIPRI_ = 0x1,
	RWF_DSYNC_ = 0x2,
	BIG = 300000, /* more bytes than any of these files can hold */
};

#define BYTE_STREAMS (PIPES | FIFO_BOTH | TWO_WAY | PTYS)

static const struct situation situations[] = {
	/*
	 * Reads
	 */
	{ "a read returns the data that arrives", BYTE_STREAMS | RECORDS | UDP,
	  STEPS({ READ, 100 }, { WAITS, 0 }, { PUT, 10 }, { END, 0 }) },
	{ "a vectored read returns the data that arrives",
	  BYTE_STREAMS | RECORDS | UDP,
	  STEPS({ READV, 100 }, { WAITS, 0 }, { PUT, 50 }, { END, 0 }) },
	{ "a read leaves data beyond its length", BYTE_STREAMS,
	  STEPS({ READ, 4 }, { PUT, 10 }, { END, 0 }, { READ, 100 },
		{ END, 1 }) },
	{ "a read cuts a record", RECORDS | UDP,
	  STEPS({ READ, 4 }, { PUT, 10 }, { END, 0 }, { READ, 100 },
		{ WAITS, 1 }, { PUT, 7 }, { END, 1 }) },
	{ "reads return data in the order of submission", BYTE_STREAMS & ~PTYS,
	  STEPS({ READ, 10 }, { READV, 11 }, { READ, 12 }, { WAITS, 0 },
		{ WAITS, 2 }, { PUT, 30 }, { END, 0 }, { END, 1 },
		{ END, 2 }) },
	{ "reads take pieces in the order of submission",
	  BYTE_STREAMS | RECORDS | UDP,
	  STEPS({ READ, 100 }, { READV, 100 }, { READ, 100 }, { PUT, 10 },
		{ END, 0 }, { WAITS, 1 }, { PUT, 11 }, { END, 1 }, { WAITS, 2 },
		{ PUT, 12 }, { END, 2 }) },
	{ "a read does not overtake one that waits", BYTE_STREAMS & ~PTYS,
	  STEPS({ READ, 10 }, { PUT, 25 }, { READ, 10 }, { END, 0 }, { END, 1 },
		{ READ, 10 }, { END, 2 }) },
	{ "records go to reads in the order of submission", RECORDS | UDP,
	  STEPS({ READ, 100 }, { READV, 5 }, { READ, 100 }, { PUT, 10 },
		{ PUT, 11 }, { PUT, 12 }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "a read of nothing waits for those before it", BYTE_STREAMS & ~PTYS,
	  STEPS({ READ, 10 }, { READ, 0 }, { READ, 10 }, { WAITS, 1 },
		{ PUT, 10 }, { END, 0 }, { END, 1 }, { WAITS, 2 }, { PUT, 10 },
		{ END, 2 }) },
	{ "an empty record is read", UNIX_DGRAM | UNIX_SEQPACKET | UDP,
	  STEPS({ READ, 10 }, { WAITS, 0 }, { PUT, 0 }, { PUT, 3 }, { END, 0 },
		{ READ, 10 }, { END, 1 }) },
	{ "a read with flags waits", PIPES | TWO_WAY | RECORDS | UDP,
	  STEPS({ READ, 10, RWF_HIPRI_ }, { READV, 10, RWF_DSYNC_ },
		{ WAITS, 0 }, { PUT, 10 }, { END, 0 }, { WAITS, 1 },
		{ PUT, 10 }, { END, 1 }) },
	{ "a long read returns the data that is there when it wakes",
	  PIPES | FIFO_BOTH,
	  STEPS({ READ, 100000 }, { WAITS, 0 }, { PUT, 4096 }, { END, 0 }) },

	{ "all reads end when the other end closes",
	  PIPES | TWO_WAY | UNIX_SEQPACKET | PTY_MASTER,
	  STEPS({ READ, 10 }, { READV, 10 }, { READ, 10 }, { WAITS, 0 },
		{ CLOSE_PEER }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "reads return the data before the end of file",
	  PIPES | TWO_WAY | UNIX_SEQPACKET,
	  STEPS({ READ, 10 }, { READ, 10 }, { READ, 10 }, { PUT, 15 },
		{ CLOSE_PEER }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "a FIFO is opened again", FIFO,
	  STEPS({ READ, 10 }, { CLOSE_PEER }, { END, 0 }, { READ, 10 },
		{ END, 1 }, { OPEN_PEER }, { READ, 10 }, { WAITS, 2 },
		{ PUT, 7 }, { END, 2 }) },
	{ "the other end is shut for writing", TWO_WAY | UNIX_SEQPACKET,
	  STEPS({ READ, 10 }, { READ, 10 }, { WAITS, 0 }, { PUT, 5 },
		{ SHUT_PEER, SHUT_WR }, { END, 0 }, { END, 1 }) },
	{ "the other end is shut for reading", TWO_WAY,
	  STEPS({ READ, 10 }, { SHUT_PEER, SHUT_RD }, { WAITS, 0 }, { PUT, 5 },
		{ END, 0 }) },
	{ "this end is shut for reading", TWO_WAY | RECORDS | UDP,
	  STEPS({ READ, 10 }, { READ, 10 }, { WAITS, 0 }, { SHUT_OWN, SHUT_RD },
		{ END, 0 }, { END, 1 }) },
	{ "a reset ends the first read with its error", TCP,
	  STEPS({ READ, 10 }, { READ, 10 }, { READ, 10 }, { WAITS, 0 },
		{ RESET }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "the other end leaves something unread", TWO_WAY | UNIX_SEQPACKET,
	  STEPS({ PUT_BACK, 5 }, { READ, 10 }, { READ, 10 }, { WAITS, 0 },
		{ CLOSE_PEER }, { END, 0 }, { END, 1 }) },
	{ "the other end of a datagram socket closes", UNIX_DGRAM,
	  STEPS({ READ, 10 }, { WAITS, 0 }, { PUT, 5 }, { CLOSE_PEER },
		{ END, 0 }) },
	{ "a refused datagram fails the read", UDP,
	  STEPS({ READ, 10 }, { WAITS, 0 }, { CLOSE_PEER }, { PUT_BACK, 5 },
		{ END, 0 }) },

	{ "a counter is waited for", EVENTFD | SEMAPHORE,
	  STEPS({ READ, 8 }, { WAITS, 0 }, { PUT, 3 }, { END, 0 }) },
	{ "a counter is waited for, with room for more", EVENTFD | SEMAPHORE,
	  STEPS({ READV, 24 }, { WAITS, 0 }, { PUT, 3 }, { END, 0 }) },
	{ "a semaphore gives to each", SEMAPHORE,
	  STEPS({ READ, 8 }, { READ, 8 }, { READ, 8 }, { PUT, 2 }, { END, 0 },
		{ END, 1 }, { WAITS, 2 }, { PUT, 1 }, { END, 2 }) },
	{ "a counter gives all to the first", EVENTFD,
	  STEPS({ READ, 8 }, { READ, 8 }, { PUT, 2 }, { END, 0 }, { WAITS, 1 },
		{ PUT, 9 }, { END, 1 }) },
	{ "a read too short is refused before it waits",
	  EVENTFD | SEMAPHORE | TIMERFD | SIGNALFD,
	  STEPS({ READ, 4 }, { END, 0 }) },
	{ "a read too short does not end those before it", EVENTFD | TIMERFD,
	  STEPS({ READ, 8 }, { READ, 4 }, { READ, 8 }, { WAITS, 0 }, { PUT, 1 },
		{ END, 0 }, { END, 1 }, { WAITS, 2 }, { PUT, 1 }, { END, 2 }) },
	{ "a timer is waited for", TIMERFD,
	  STEPS({ READ, 8 }, { READV, 8 }, { WAITS, 0 }, { PUT, 1 }, { END, 0 },
		{ WAITS, 1 }, { PUT, 1 }, { END, 1 }) },
	{ "a signal is waited for", SIGNALFD,
	  STEPS({ READ, 128 }, { WAITS, 0 }, { PUT, 1 }, { END, 0 }) },

	/*
	 * Writes
	 */
	{ "a write completes when all of it is written", PIPES | TWO_WAY,
	  STEPS({ WRITE, BIG }, { WAITS, 0 }, { TAKE, 100000 }, { WAITS, 0 },
		{ TAKE, BIG - 100000 }, { END, 0 }, { DRAIN }) },
	{ "a vectored write completes when all of it is written",
	  PIPES | TWO_WAY,
	  STEPS({ WRITEV, BIG }, { WAITS, 0 }, { DRAIN }, { END, 0 }) },
	{ "writes take their turn", PIPES | UNIX_STREAM,
	  STEPS({ FILL }, { WRITE, 5000 }, { WRITEV, 5001 }, { WRITE, 3 },
		{ WRITE, BIG }, { WAITS, 0 }, { WAITS, 3 }, { DRAIN },
		{ END, 0 }, { END, 1 }, { END, 2 }, { END, 3 }) },
	{ "a write does not overtake one that waits", PIPES | UNIX_STREAM,
	  STEPS({ FILL }, { WRITE, 5000 }, { WRITE, 10 }, { TAKE_ALL },
		{ WRITE, 5001 }, { DRAIN }, { END, 0 }, { END, 1 },
		{ END, 2 }) },
	{ "large writes take their turn", PIPES | TWO_WAY,
	  STEPS({ WRITE, BIG }, { WRITEV, BIG }, { WRITE, 10 }, { WAITS, 0 },
		{ DRAIN }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "a write with flags waits", PIPES | UNIX_STREAM | RECORDS,
	  STEPS({ FILL }, { WRITE, 100, RWF_HIPRI_ },
		{ WRITEV, 100, RWF_DSYNC_ }, { WAITS, 0 }, { DRAIN },
		{ END, 0 }, { END, 1 }) },
	{ "a record waits for room", RECORDS,
	  STEPS({ FILL }, { WRITE, 700 }, { WRITEV, 500 }, { WAITS, 0 },
		{ DRAIN }, { END, 0 }, { END, 1 }) },
	{ "records keep their bounds", RECORDS | UDP,
	  STEPS({ WRITE, 700 }, { WRITEV, 500 }, { WRITE, 1 }, { END, 0 },
		{ END, 1 }, { END, 2 }, { TAKE, 3 }) },
	{ "a record too large is refused before it waits", RECORDS,
	  STEPS({ FILL }, { WRITE, BIG }, { END, 0 }) },
	{ "a record too large does not end those before it", RECORDS,
	  STEPS({ FILL }, { WRITE, 700 }, { WRITE, BIG }, { WAITS, 0 },
		{ TAKE_ALL }, { END, 0 }, { END, 1 }) },
	{ "a write of nothing waits for those before it", PIPES | UNIX_STREAM,
	  STEPS({ FILL }, { WRITE, 10 }, { WRITE, 0 }, { WAITS, 1 }, { DRAIN },
		{ END, 0 }, { END, 1 }) },

	{ "the reader closes while writes wait", PIPES,
	  STEPS({ FILL }, { WRITE, 100 }, { WRITEV, 5000 }, { WRITE, BIG },
		{ WAITS, 0 }, { CLOSE_PEER }, { END, 0 }, { END, 1 },
		{ END, 2 }) },
	{ "the other end closes while writes wait",
	  UNIX_STREAM | UNIX_SEQPACKET,
	  STEPS({ FILL }, { WRITE, 100 }, { WRITE, 101 }, { WAITS, 0 },
		{ CLOSE_PEER }, { END, 0 }, { END, 1 }) },
	{ "the reader closes after part of a write", PIPES,
	  STEPS({ WRITE, BIG }, { WRITE, 10 }, { WAITS, 0 }, { HOLDS, 65536 },
		{ CLOSE_PEER }, { END, 0 }, { END, 1 }) },
	{ "the other end closes after part of a write", TWO_WAY,
	  STEPS({ WRITE, BIG }, { WAITS, 0 }, { CLOSE_PEER },
		{ END_SIGN, 0 }) },
	{ "the reader closes after more of a write", PIPES,
	  STEPS({ WRITE, BIG }, { HOLDS, 65536 }, { TAKE, 8192 },
		{ HOLDS, 65536 }, { CLOSE_PEER }, { END, 0 }) },
	{ "the other end is shut for reading while writes wait", UNIX_STREAM,
	  STEPS({ FILL }, { WRITE, 100 }, { WRITE, 101 }, { WAITS, 0 },
		{ SHUT_PEER, SHUT_RD }, { TAKE_ALL }, { END, 0 }, { END, 1 }) },
	{ "this end is shut for writing while writes wait", UNIX_STREAM,
	  STEPS({ FILL }, { WRITE, 100 }, { WRITE, 101 }, { WAITS, 0 },
		{ SHUT_OWN, SHUT_WR }, { TAKE_ALL }, { END, 0 }, { END, 1 }) },
	{ "this end is shut after part of a write", TWO_WAY,
	  STEPS({ WRITE, BIG }, { WRITE, 10 }, { WAITS, 0 },
		{ SHUT_OWN, SHUT_WR }, { TAKE_ALL }, { END_SIGN, 0 },
		{ END, 1 }) },
	{ "a reset after part of a write", TCP,
	  STEPS({ WRITE, BIG }, { WAITS, 0 }, { RESET }, { END_SIGN, 0 }) },

	/*
	 * Polls
	 */
	{ "a poll and a read both complete", BYTE_STREAMS,
	  STEPS({ POLL, POLLIN }, { READ, 10 }, { WAITS, 0 }, { WAITS, 1 },
		{ PUT, 20 }, { END, 0 }, { END, 1 }) },
	{ "a poll after a read completes, too", BYTE_STREAMS,
	  STEPS({ READ, 10 }, { POLL, POLLIN }, { READ, 10 }, { WAITS, 1 },
		{ PUT, 30 }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "a poll waits beside a read", PIPE | TWO_WAY,
	  STEPS({ POLL, POLLPRI }, { READ, 10 }, { PUT, 10 }, { END, 1 },
		{ WAITS, 0 }, { READ, 10 }, { WAITS, 0 }, { PUT, 10 },
		{ END, 2 }, { WAITS, 0 }) },
	{ "a poll and a read outlive their descriptor", PIPE | FIFO | TWO_WAY,
	  STEPS({ POLL, POLLIN }, { READ, 10 }, { CLOSE_OWN }, { PUT, 20 },
		{ END, 0 }, { END, 1 }) },
	{ "a poll and a read complete at the end of file", PIPE | FIFO,
	  STEPS({ POLL, POLLIN }, { READ, 10 }, { CLOSE_PEER }, { END, 0 },
		{ END, 1 }) },
	{ "a poll for room and a write both complete",
	  PIPE | FIFO | UNIX_STREAM,
	  STEPS({ FILL }, { POLL, POLLOUT }, { WRITE, 100 }, { WAITS, 0 },
		{ WAITS, 1 }, { TAKE_ALL }, { END, 0 }, { END, 1 }) },
	{ "polls for different things wait on one file", UNIX_STREAM,
	  STEPS({ FILL }, { POLL, POLLIN }, { POLL, POLLOUT }, { WAITS, 0 },
		{ WAITS, 1 }, { PUT, 10 }, { END, 0 }, { WAITS, 1 },
		{ TAKE_ALL }, { END, 1 }) },

	/*
	 * Descriptors
	 */
	{ "a read outlives its descriptor", BYTE_STREAMS | RECORDS | UDP,
	  STEPS({ READ, 10 }, { READ, 10 }, { WAITS, 0 }, { CLOSE_OWN },
		{ PUT, 5 }, { END, 0 }, { WAITS, 1 }, { PUT, 6 }, { END, 1 }) },
	{ "a counter's read outlives its descriptor",
	  EVENTFD | TIMERFD | SIGNALFD,
	  STEPS({ READ, 128 }, { WAITS, 0 }, { CLOSE_OWN }, { PUT, 1 },
		{ END, 0 }) },
	{ "a read does not go to the file that reuses its descriptor",
	  BYTE_STREAMS | RECORDS | UDP,
	  STEPS({ READ, 10 }, { WAITS, 0 }, { REUSE_OWN }, { PUT, 4 },
		{ END, 0 }) },
	{ "a write outlives its descriptor", PIPES | TWO_WAY,
	  STEPS({ WRITE, BIG }, { WAITS, 0 }, { CLOSE_OWN }, { DRAIN },
		{ END, 0 }) },
	{ "a write does not go to the file that reuses its descriptor",
	  PIPES | TWO_WAY,
	  STEPS({ WRITE, BIG }, { WAITS, 0 }, { REUSE_OWN }, { DRAIN },
		{ END, 0 }) },
	{ "a read whose descriptor is closed ends when the other end closes",
	  PIPES | TWO_WAY,
	  STEPS({ READ, 10 }, { CLOSE_OWN }, { CLOSE_PEER }, { END, 0 }) },
	{ "two descriptors of one file both read", BYTE_STREAMS & ~PTYS,
	  STEPS({ READ, 10 }, { READ_DUPLICATE, 10 }, { WAITS, 0 }, { PUT, 20 },
		{ END, 0 }, { END, 1 }) },
	{ "O_NONBLOCK is never seen, by a read",
	  BYTE_STREAMS | RECORDS | EVENTFD,
	  STEPS({ WATCH }, { READ, 8 }, { WAITS, 0 }, { PUT, 8 }, { END, 0 },
		{ READ, 8 }, { PUT, 8 }, { END, 1 }, { UNWATCH }) },
	{ "O_NONBLOCK is never seen, by a write", PIPES | TWO_WAY,
	  STEPS({ WATCH }, { WRITE, BIG }, { WAITS, 0 }, { DRAIN }, { END, 0 },
		{ UNWATCH }) },

	/* Changes of O_NONBLOCK of which the library is not notified */
	{ "a read does not wait once O_NONBLOCK was set by ioctl",
	  BYTE_STREAMS | RECORDS | UDP | EVENTFD | SEMAPHORE | SIGNALFD,
	  STEPS({ READ, 128 }, { PUT, 1 }, { END, 0 }, { NONBLOCK, 1 },
		{ READ, 128 }, { END, 1 }, { READV, 128 }, { END, 2 },
		{ PUT, 1 }, { READ, 128 }, { END, 3 }, { NONBLOCK, 0 },
		{ READ, 128 }, { WAITS, 4 }, { PUT, 1 }, { END, 4 }) },
	/*
	 * Do not start the timer again before a read with O_NONBLOCK: whether such a
	 * read fails would depend on when the timer expires.
	 */
	{ "a timer's read does not wait once O_NONBLOCK was set by ioctl",
	  TIMERFD,
	  STEPS({ READ, 128 }, { PUT, 1 }, { END, 0 }, { NONBLOCK, 1 },
		{ READ, 128 }, { END, 1 }, { READV, 128 }, { END, 2 },
		{ NONBLOCK, 0 }, { READ, 128 }, { WAITS, 3 }, { PUT, 1 },
		{ END, 3 }) },
	{ "a read does not wait once another process set O_NONBLOCK",
	  BYTE_STREAMS | RECORDS | UDP | EVENTFD,
	  STEPS({ READ, 128 }, { PUT, 1 }, { END, 0 },
		{ NONBLOCK_BY_OTHERS, 1 }, { READ, 128 }, { END, 1 },
		{ READV, 128 }, { END, 2 }, { NONBLOCK_BY_OTHERS, 0 },
		{ READ, 128 }, { WAITS, 3 }, { PUT, 1 }, { END, 3 }) },
	{ "a read waits once another process cleared O_NONBLOCK",
	  BYTE_STREAMS | RECORDS | UDP | EVENTFD,
	  STEPS({ NONBLOCK, 1 }, { READ, 128 }, { END, 0 },
		{ NONBLOCK_BY_OTHERS, 0 }, { READ, 128 }, { WAITS, 1 },
		{ PUT, 1 }, { END, 1 }) },
	{ "a read that waits waits on when O_NONBLOCK is set",
	  PIPES | TWO_WAY | RECORDS | UDP | EVENTFD,
	  STEPS({ READ, 128 }, { WAITS, 0 }, { NONBLOCK, 1 }, { WAITS, 0 },
		{ PUT, 1 }, { END, 0 }) },
	{ "a write does not wait once O_NONBLOCK was set by ioctl",
	  PIPES | UNIX_STREAM | RECORDS,
	  STEPS({ WRITE, 100 }, { END, 0 }, { FILL }, { NONBLOCK, 1 },
		{ WRITE, 5000 }, { END, 1 }, { WRITEV, 5000 }, { END, 2 },
		{ NONBLOCK, 0 }, { WRITE, 100 }, { WAITS, 3 }, { TAKE_ALL },
		{ END, 3 }) },
	{ "a write with O_NONBLOCK returns what it has written", PIPES,
	  STEPS({ WRITE, 100 }, { END, 0 }, { NONBLOCK_BY_OTHERS, 1 },
		{ WRITE, BIG }, { END, 1 }) },

	/*
	 * Timeouts
	 */
	{ "a read ends at its timeout", TWO_WAY | RECORDS | UDP,
	  STEPS({ RECEIVE_TIMEOUT, 40 }, { READ, 10 }, { END, 0 },
		{ READV, 10 }, { END, 1 }, { RECEIVE_TIMEOUT, 0 }, { READ, 10 },
		{ WAITS, 2 }, { PUT, 5 }, { END, 2 }) },
	{ "reads end one after the other when their time is over",
	  TWO_WAY | RECORDS | UDP,
	  STEPS({ RECEIVE_TIMEOUT, 40 }, { READ, 10 }, { READ, 10 },
		{ READ, 10 }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "a read returns the data that arrives before its timeout",
	  TWO_WAY | RECORDS | UDP,
	  STEPS({ RECEIVE_TIMEOUT, 600000 }, { READ, 10 }, { READ, 10 },
		{ WAITS, 0 }, { PUT, 5 }, { END, 0 }, { WAITS, 1 }, { PUT, 6 },
		{ END, 1 }) },
	{ "a read whose descriptor is closed ends at its timeout",
	  TWO_WAY | RECORDS | UDP,
	  STEPS({ RECEIVE_TIMEOUT, 40 }, { READ, 10 }, { CLOSE_OWN },
		{ END, 0 }) },
	{ "a write ends when its time is over", UNIX_STREAM | RECORDS,
	  STEPS({ FILL }, { SEND_TIMEOUT, 40 }, { WRITE, 100 }, { END, 0 }) },
	{ "a write returns what it has written at its timeout", TWO_WAY,
	  STEPS({ SEND_TIMEOUT, 40 }, { WRITE, BIG }, { END_SIGN, 0 }) },
	{ NULL, 0, NULL },
};

enum { NR_ROWS_MAX = 512 };

struct row rows_stream[NR_ROWS_MAX + 1];

static void run_play(void)
{
	play(this_row->about, this_row->on);
}

void add_situations(struct row rows[], size_t nr_max,
		    const struct situation *situation)
{
	const struct stream_kind *kind = NULL;

	for (; situation->name; situation++)
		while ((kind = next_kind(kind, situation->kinds)))
			add_row(rows, nr_max,
				&(struct row){ .run = run_play,
					       .differs = situation->differs,
					       .about = situation,
					       .on = kind },
				"%s: %s", situation->name, kind->name);
}

void make_streams(void)
{
	add_situations(rows_stream, NR_ROWS_MAX, situations);
}

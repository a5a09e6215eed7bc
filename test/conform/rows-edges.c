/* SPDX-License-Identifier: MIT */
/*
 * Unusual reports (edges) of an edge-triggered epoll. Some files poll ready although a
 * call on them would block. Some files change, but the epoll reports no further edge
 * for them. Some files become ready for only one of several waiting requests. The test
 * cases have the form of those in rows-stream.c. In test cases with "again" in their
 * name, the library's epoll already watches the file when the request is submitted.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "conform.h"
#include "differences.h"
#include "stream.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define WITH_ROOM \
	(PIPES | PACKETS | UNIX_STREAM | RECORDS | NETLINK | UNIX_SHARED)
#define BOTH_WAYS (UNIX_STREAM | RECORDS | NETLINK)
#define ALL_READ                                                           \
	(PIPES | FIFO_BOTH | PACKETS | TWO_WAY | RECORDS | UDP | NETLINK | \
	 PTYS | PACKET_MASTER | RAW_IP | LINK | TUN | USERFAULT)

/* The largest value that an eventfd can hold. */
#define FULL ((size_t)-2)

static const struct situation situations[] = {
	/*
	 * Repeated waits: the library's epoll already watches the file when a later
	 * request waits.
	 */
	{ "a read waits again and again", ALL_READ,
	  STEPS({ READ, 100 }, { WAITS, 0 }, { PUT, 10 }, { END, 0 },
		{ READ, 100 }, { WAITS, 1 }, { PUT, 11 }, { END, 1 },
		{ READ, 100 }, { WAITS, 2 }, { PUT, 12 }, { END, 2 }) },
	{ "of several reads the first takes all",
	  PIPES | FIFO_BOTH | TWO_WAY | NETLINK,
	  STEPS({ READ, 100 }, { READ, 100 }, { READ, 100 }, { PUT, 30 },
		{ END, 0 }, { WAITS, 1 }, { PUT, 20 }, { END, 1 }, { WAITS, 2 },
		{ PUT, 10 }, { END, 2 }) },
	{ "a write waits for room again and again", WITH_ROOM,
	  STEPS({ FILL }, { WRITE, 100 }, { WAITS, 0 }, { TAKE_ALL },
		{ END, 0 }, { TAKE_ALL }, { FILL }, { WRITE, 200 },
		{ WAITS, 1 }, { TAKE_ALL }, { END, 1 }, { TAKE_ALL }, { FILL },
		{ WRITE, 300 }, { WAITS, 2 }, { TAKE_ALL }, { END, 2 }) },
	{ "several writes wait for room again", WITH_ROOM,
	  STEPS({ FILL }, { WRITE, 100 }, { WRITE, 200 }, { WAITS, 0 },
		{ TAKE_ALL }, { END, 0 }, { END, 1 }, { TAKE_ALL }, { FILL },
		{ WRITE, 300 }, { WRITE, 400 }, { WAITS, 2 }, { TAKE_ALL },
		{ END, 2 }, { END, 3 }) },
	{ "both ways wait on one descriptor", BOTH_WAYS,
	  STEPS({ FILL }, { WRITE, 100 }, { READ, 10 }, { WAITS, 0 },
		{ WAITS, 1 }, { PUT, 5 }, { END, 1 }, { WAITS, 0 },
		{ READ, 10 }, { TAKE_ALL }, { END, 0 }, { TAKE_ALL },
		{ WAITS, 2 }, { FILL }, { WRITE, 100 }, { WAITS, 3 },
		{ PUT, 6 }, { END, 2 }, { WAITS, 3 }, { TAKE_ALL },
		{ END, 3 }) },
	{ "two descriptors of one file read in turn", ALL_READ & ~(PTYS | TUN),
	  STEPS({ READ_DUPLICATE, 100 }, { WAITS, 0 }, { PUT, 20 }, { END, 0 },
		{ READ, 100 }, { WAITS, 1 }, { PUT, 21 }, { END, 1 },
		{ READ_DUPLICATE, 100 }, { WAITS, 2 }, { PUT, 22 },
		{ END, 2 }) },

	/*
	 * Sockets
	 */
	{ "a datagram with a bad checksum ends no read", UDP,
	  STEPS({ READ, 10 }, { WAITS, 0 }, { PUT_SPOILT, 5 }, { WAITS, 0 },
		{ PUT, 3 }, { END, 0 }, { PUT_SPOILT, 5 }, { READ, 10 },
		{ WAITS, 1 }, { PUT_SPOILT, 5 }, { PUT, 4 }, { END, 1 }) },
	{ "errors that are kept make no read ready", UDP,
	  STEPS({ KEEP_ERRORS }, { READ, 10 }, { CLOSE_PEER }, { PUT_BACK, 5 },
		{ END, 0 }, { RECEIVE_TIMEOUT, 20 }, { READ, 10 }, { END, 1 },
		{ READ, 10 }, { END, 2 }) },
	{ "a read that has some waits for as many as SO_RCVLOWAT says",
	  UNIX_STREAM,
	  STEPS({ LOW_WATER, 10 }, { PUT, 4 }, { READ, 100 }, { WAITS, 0 },
		{ PUT, 6 }, { END, 0 }),
	  SHOWINGS({ &differs_low_water, NULL,
		     PAIRS({ "0.complete=0", "0.complete=1" },
			   { "0.result=10", "0.result=4" },
			   { "0.bytes=*", "0.bytes=*" }) }) },
	{ "a record is none the less for SO_RCVLOWAT", RECORDS | UDP,
	  STEPS({ LOW_WATER, 10 }, { READ, 100 }, { WAITS, 0 }, { PUT, 4 },
		{ END, 0 }) },
	{ "a listening socket is not read", LISTENER,
	  STEPS({ READ, 10 }, { END, 0 }, { PUT, 1 }, { READ, 10 },
		{ END, 1 }) },

	/*
	 * Pipes
	 */
	{ "a page waits for a page", PIPES,
	  STEPS({ WRITE, 65535 }, { END, 0 }, { WRITE, 4096 }, { WAITS, 1 },
		{ TAKE, 1 }, { WAITS, 1 }, { TAKE, 4095 }, { END, 1 }) },
	{ "a write waits until a pipe is made larger", PIPES | PACKETS,
	  STEPS({ FILL }, { WRITE, 4096 }, { WAITS, 0 }, { PIPE_BYTES, 131072 },
		{ END, 0 }, { FILL }, { WRITE, 4096 }, { WAITS, 1 },
		{ PIPE_BYTES, 262144 }, { END, 1 }) },
	{ "a packet is read whole, or cut", PACKETS,
	  STEPS({ READ, 100 }, { READ, 5 }, { READ, 100 }, { PUT, 10 },
		{ PUT, 11 }, { PUT, 12 }, { END, 0 }, { END, 1 }, { END, 2 }) },
	{ "a FIFO's writers come and go", FIFO,
	  STEPS({ READ, 10 }, { WAITS, 0 }, { CLOSE_PEER }, { END, 0 },
		{ OPEN_PEER }, { READ, 10 }, { WAITS, 1 }, { CLOSE_PEER },
		{ END, 1 }, { OPEN_PEER }, { READ, 10 }, { WAITS, 2 },
		{ PUT, 3 }, { END, 2 }, { CLOSE_PEER }, { READ, 10 },
		{ END, 3 }) },

	/*
	 * Counters, timers, signals
	 */
	{ "a semaphore gives to each, again", SEMAPHORE,
	  STEPS({ READ, 8 }, { READ, 8 }, { READ, 8 }, { READ, 8 }, { PUT, 3 },
		{ END, 0 }, { END, 1 }, { END, 2 }, { WAITS, 3 }, { READ, 8 },
		{ PUT, 2 }, { END, 3 }, { END, 4 }, { READ, 8 }, { WAITS, 5 },
		{ PUT, 1 }, { END, 5 }) },
	{ "a counter is full until it is read", EVENTFD | SEMAPHORE,
	  STEPS({ PUT, FULL }, { POLL, POLLOUT }, { WAITS, 0 }, { READ, 8 },
		{ END, 1 }, { END, 0 }) },
	{ "a timer is set again while a read waits", TIMERFD,
	  STEPS({ READ, 8 }, { PUT, 600000 }, { WAITS, 0 }, { PUT, 0 },
		{ WAITS, 0 }, { PUT, 1 }, { END, 0 }, { PUT, 600000 },
		{ READ, 8 }, { WAITS, 1 }, { PUT, 1 }, { END, 1 }) },
	{ "a timer is cancelled when the clock is set", WALL_TIMERFD,
	  STEPS({ PUT, 600000 }, { READ, 8 }, { WAITS, 0 }, { SET_CLOCK },
		{ END, 0 }, { PUT, 600000 }, { READ, 8 }, { WAITS, 1 },
		{ SET_CLOCK }, { END, 1 }) },
	{ "a signal completes one of the waiting reads", SIGNALFD,
	  STEPS({ READ, 128 }, { READ, 128 }, { PUT, 1 }, { END, 0 },
		{ WAITS, 1 }, { PUT, 1 }, { END, 1 }) },
	{ "a signal to the thread is waited for", SIGNALFD,
	  STEPS({ READ, 128 }, { WAITS, 0 }, { SIGNAL_THREAD }, { END, 0 },
		{ READ, 128 }, { WAITS, 1 }, { SIGNAL_THREAD }, { END, 1 }) },

	/*
	 * Terminals
	 */
	{ "a read of a terminal waits for a line", CANONICAL,
	  STEPS({ READ, 100 }, { PUT, 2 }, { WAITS, 0 }, { PUT, 1 }, { END, 0 },
		{ READ, 100 }, { PUT, 3 }, { WAITS, 1 }, { PUT, 1 },
		{ END, 1 }) },
	{ "a line is read in parts", CANONICAL,
	  STEPS({ READ, 3 }, { READ, 100 }, { PUT, 5 }, { WAITS, 0 },
		{ PUT, 1 }, { END, 0 }, { END, 1 }, { READ, 100 }, { WAITS, 2 },
		{ PUT, 1 }, { END, 2 }) },
	{ "a read of a terminal waits for so many bytes", PTY_SLAVE,
	  STEPS({ LEAST_BYTES, 5 }, { READ, 100 }, { PUT, 3 }, { WAITS, 0 },
		{ PUT, 2 }, { END, 0 }, { READ, 100 }, { PUT, 2 }, { WAITS, 1 },
		{ PUT, 3 }, { END, 1 }) },
	{ "a read of a terminal ends when VTIME is over", PTY_SLAVE,
	  STEPS({ LEAST_BYTES, 5 }, { LEAST_TIME, 1 }, { READ, 100 },
		{ PUT, 3 }, { END, 0 }) },
	{ "a read of a terminal ends by time alone", PTY_SLAVE,
	  STEPS({ LEAST_BYTES, 0 }, { LEAST_TIME, 1 }, { READ, 100 },
		{ END, 0 }) },

	/*
	 * Other kinds of files
	 */
	{ "a FUSE server's read waits for a request", FUSE_SERVER,
	  STEPS({ READ, 16384 }, { END, 0 }, { READ, 16384 }, { WAITS, 1 },
		{ PUT, 1 }, { END, 1 }) },
	{ "a poll completes when its event comes",
	  (IN_PIECES & ~UNIX_SHARED) | EVENTFD | TIMERFD | SIGNALFD |
		  CANONICAL | PACKET_MASTER | RAW_IP | LINK | TUN | USERFAULT |
		  EPOLL | MQUEUE | PIDFD | INOTIFY | LISTENER,
	  STEPS({ POLL, POLLIN }, { POLL, POLLIN | POLLPRI }, { WAITS, 0 },
		{ WAITS, 1 }, { PUT, 1 }, { END, 0 }, { END, 1 }) },
	{ NULL, 0, NULL },
};

enum { NR_ROWS_MAX = 160 };

struct row rows_edges[NR_ROWS_MAX + 1];

void make_edges(void)
{
	add_situations(rows_edges, NR_ROWS_MAX, situations);
}

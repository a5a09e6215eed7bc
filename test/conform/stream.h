/* SPDX-License-Identifier: MIT */
/*
 * Rows of requests that have to wait: a situation, step by step, on a kind of
 * file
 *
 * Kernel AIO would wait in io_submit, so it cannot be the reference. With
 * --calls, a thread executes the requests of a row by read(2), write(2) and
 * their like, one after the other in the order of submission; without it they
 * are submitted. The events must have the results of the calls.
 *
 * With --calls, each step after which a call may go on is followed by a wait
 * until the thread sleeps in a call or has made all calls. A situation says
 * with END where a submitted request too has to be complete before the
 * situation goes on.
 */
#ifndef STREAM_H
#define STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rows' requests are made by calls, in a thread. */
extern bool by_calls;

/* The kinds of files, as a set. */
enum {
	PIPE = 1 << 0,
	FIFO = 1 << 1, /* opened by its path */
	UNIX_STREAM = 1 << 2,
	UNIX_DGRAM = 1 << 3,
	UNIX_SEQPACKET = 1 << 4,
	TCP = 1 << 5,
	UDP = 1 << 6,
	EVENTFD = 1 << 7,
	SEMAPHORE = 1 << 8, /* an eventfd with EFD_SEMAPHORE */
	TIMERFD = 1 << 9,
	SIGNALFD = 1 << 10,
	PTY_MASTER = 1 << 11, /* both of a raw terminal */
	PTY_SLAVE = 1 << 12,
	FIFO_BOTH = 1 << 13,    /* one descriptor, O_RDWR, is both ends */
	PIPE_SPLICED = 1 << 14, /* a pipe that once was spliced from */
	LISTENER = 1 << 15,     /* a TCP socket */
	INOTIFY = 1 << 16,

	/* stream-kinds-rare.c */
	NETLINK = 1 << 17,       /* from a program to another */
	UNIX_SHARED = 1 << 18,   /* datagrams to one who receives from all */
	PACKETS = 1 << 19,       /* a pipe with O_DIRECT */
	CANONICAL = 1 << 20,     /* a terminal that reads lines */
	PACKET_MASTER = 1 << 21, /* of a terminal, with TIOCPKT */
	RAW_IP = 1 << 22,
	LINK = 1 << 23,        /* AF_PACKET */
	TUN = 1 << 24,         /* a network device's other side */
	FUSE_SERVER = 1 << 25, /* that is mounted, and answers nothing */
	USERFAULT = 1 << 26,
	EPOLL = 1 << 27,
	MQUEUE = 1 << 28,
	PIDFD = 1 << 29,
	WALL_TIMERFD = 1 << 30, /* cancelled when the clock is set */

	PIPES = PIPE | FIFO | PIPE_SPLICED,
	TWO_WAY = UNIX_STREAM | TCP, /* byte streams */
	RECORDS = UNIX_DGRAM | UNIX_SEQPACKET,
	PTYS = PTY_MASTER | PTY_SLAVE,

	/* What comes in one piece is taken in one. */
	IN_PIECES = RECORDS | UDP | NETLINK | UNIX_SHARED | PACKETS,
	/* Bytes that are not the same in every run. */
	VARYING = SIGNALFD | RAW_IP | FUSE_SERVER | USERFAULT,
};

struct ends {
	int own;  /* the requests are on */
	int peer; /* the other end, or own again: what feeds and empties it */
};

struct stream_kind {
	unsigned bit;
	const char *name;
	void (*open)(bool is_writer, struct ends *ret_ends);
	/* Makes it readable, with a number; NULL: bytes are written to peer. */
	void (*put)(const struct ends *ends, size_t nr);
};

extern const struct stream_kind rare_kinds[]; /* the last has no name */

/* Return: of a set of kinds the one after kind, or after NULL; or NULL. */
const struct stream_kind *next_kind(const struct stream_kind *kind,
				    unsigned kinds);

/* Sends own, a UDP socket, a datagram of its peer's with a bad checksum. */
void put_spoilt(const struct ends *ends, size_t nr);

enum verb {
	END_OF_STEPS,

	/* requests, numbered from 0: so many bytes, with flags */
	READ,
	READV,
	WRITE,
	WRITEV,
	POLL,           /* for these events */
	READ_DUPLICATE, /* by another number of the same open file */
	WAITS,          /* request number: notes whether it is complete */
	END,            /* request number: notes its result */
	END_SIGN,       /* the same, if how many bytes is open */

	/* the other end */
	PUT,        /* gives so many bytes, or a number */
	TAKE,       /* takes so many bytes, or records */
	TAKE_ALL,   /* takes what it has now */
	DRAIN,      /* takes all that fills and writes have given */
	HOLDS,      /* waits until it holds so many bytes (a pipe) */
	CLOSE_PEER, /* also RESET: with SO_LINGER at 0 */
	OPEN_PEER,  /* of a FIFO, again */
	SHUT_PEER,  /* how, as shutdown(2) has it */
	RESET,

	/* this end */
	FILL,      /* writes until there is no room */
	PUT_BACK,  /* writes so many bytes, which nobody will read */
	SHUT_OWN,  /* how */
	CLOSE_OWN, /* the number */
	REUSE_OWN, /* the number, for another pipe that is ready */
	WATCH,     /* from now on another process looks at O_NONBLOCK */
	UNWATCH,   /* notes whether it ever saw it set */
	NONBLOCK,  /* sets O_NONBLOCK, or with 0 clears it, by ioctl(2) */
	NONBLOCK_BY_OTHERS, /* the same, another process: it shares the file */
	RECEIVE_TIMEOUT,    /* so many ms */
	SEND_TIMEOUT,
	LOW_WATER,   /* SO_RCVLOWAT: so many bytes */
	KEEP_ERRORS, /* IP_RECVERR: and until they are taken it polls so */
	PIPE_BYTES,  /* has room for so many */
	LEAST_BYTES, /* of a terminal without lines: VMIN */
	LEAST_TIME,  /* and VTIME, in tenths of a second */

	/* elsewhere */
	PUT_SPOILT, /* a UDP datagram of so many bytes, with a bad checksum */
	SIGNAL_THREAD, /* that makes the requests, and no other */
	SET_CLOCK,     /* to what it is */
};

struct step {
	enum verb verb;
	size_t nr;
	uint32_t flags; /* RWF_* of a request */
};

struct showing;
struct situation {
	const char *name;
	unsigned kinds;
	const struct step *steps;
	const struct showing *differs; /* as in struct row */
};

/* Make a row of each of them, the last of which has no name, and each kind. */
struct row;
void add_situations(struct row rows[], size_t nr_max,
		    const struct situation *situations);

/* Steps leave out what they have no use for. */
#define STEPS(...) ((const struct step[]){ __VA_ARGS__, { END_OF_STEPS } })

void play(const struct situation *situation, const struct stream_kind *kind);

#endif

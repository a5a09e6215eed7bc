/* SPDX-License-Identifier: MIT */
/*
 * Rows (test cases) whose requests wait: a situation, step by step, on each kind of file
 *
 * Kernel AIO would block in io_submit, so it cannot be the reference. With
 * --calls, a thread executes a row's requests by read(2), write(2) and poll(2),
 * one after the other in the order of submission. Without --calls the row
 * submits them. The events must have the results of the calls.
 *
 * With --calls, after each step that may let a call return, the row waits until
 * the thread sleeps in a call or has made all calls. A situation uses END where
 * a submitted request, too, has to be complete before the situation continues.
 */
#ifndef STREAM_H
#define STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set by --calls: a thread makes the rows' requests as system calls. */
extern bool by_calls;

/* The kinds of files, one bit each. */
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
	/* a raw terminal; requests on its master or slave */
	PTY_MASTER = 1 << 11,
	PTY_SLAVE = 1 << 12,
	FIFO_BOTH = 1 << 13,    /* one descriptor, O_RDWR, that is both ends */
	PIPE_SPLICED = 1 << 14, /* a pipe from which data was spliced before */
	LISTENER = 1 << 15,     /* a TCP socket */
	INOTIFY = 1 << 16,

	/* kinds of stream-kinds-rare.c */
	NETLINK = 1 << 17, /* messages from one program to another */
	/* datagrams to one receiver from all senders */
	UNIX_SHARED = 1 << 18,
	PACKETS = 1 << 19,       /* a pipe with O_DIRECT, which keeps packets */
	CANONICAL = 1 << 20,     /* a terminal that reads lines */
	PACKET_MASTER = 1 << 21, /* master of a terminal, with TIOCPKT */
	RAW_IP = 1 << 22,
	LINK = 1 << 23,        /* an AF_PACKET socket */
	TUN = 1 << 24,         /* the program's side of a network device */
	FUSE_SERVER = 1 << 25, /* a mounted FUSE server that answers nothing */
	USERFAULT = 1 << 26,
	EPOLL = 1 << 27,
	MQUEUE = 1 << 28,
	PIDFD = 1 << 29,
	WALL_TIMERFD = 1 << 30, /* cancelled when the clock is set */

	PIPES = PIPE | FIFO | PIPE_SPLICED,
	TWO_WAY = UNIX_STREAM | TCP, /* byte streams */
	RECORDS = UNIX_DGRAM | UNIX_SEQPACKET,
	PTYS = PTY_MASTER | PTY_SLAVE,

	/* One read of these kinds returns one message. */
	IN_PIECES = RECORDS | UDP | NETLINK | UNIX_SHARED | PACKETS,
	/* These kinds return bytes that differ from run to run. */
	VARYING = SIGNALFD | RAW_IP | FUSE_SERVER | USERFAULT,
};

struct ends {
	int own;  /* the descriptor on which requests are made */
	int peer; /* the other end, which feeds and empties own; or own */
};

struct stream_kind {
	unsigned bit;
	const char *name;
	void (*open)(bool is_writer, struct ends *ret_ends);
	/* Makes own readable by data number nr. NULL: rows write bytes to peer. */
	void (*put)(const struct ends *ends, size_t nr);
};

extern const struct stream_kind rare_kinds[]; /* the last has no name */

/*
 * Return: the kind after this one in the set. NULL stands before the first and after the
 * last.
 */
const struct stream_kind *next_kind(const struct stream_kind *kind,
				    unsigned kinds);

/* Sends a UDP datagram with a bad checksum from peer's address to own. */
void put_spoilt(const struct ends *ends, size_t nr);

enum verb {
	END_OF_STEPS,

	/* A request of nr bytes with flags. Requests are numbered from 0. */
	READ,
	READV,
	WRITE,
	WRITEV,
	POLL,           /* nr holds the events to poll for */
	READ_DUPLICATE, /* by a duplicate of the descriptor */
	WAITS,          /* notes whether request nr is complete */
	END,            /* notes the result of request nr */
	END_SIGN,       /* as END, but the number of bytes may vary */

	/* on the other end, peer */
	PUT,      /* writes nr bytes to peer, or puts a number */
	TAKE,     /* reads nr bytes or records from peer */
	TAKE_ALL, /* reads what peer has now */
	DRAIN,    /* reads all that FILL and writes wrote to own */
	HOLDS, /* waits until the pipe from which peer reads holds nr bytes */
	CLOSE_PEER, /* RESET also sets SO_LINGER to 0 */
	OPEN_PEER,  /* opens the other end of a FIFO again */
	SHUT_PEER,  /* nr is shutdown(2)'s how */
	RESET,

	/* on this end, own */
	FILL,      /* writes until there is no room */
	PUT_BACK,  /* writes nr bytes that no thread reads */
	SHUT_OWN,  /* nr is shutdown(2)'s how */
	CLOSE_OWN, /* closes the descriptor */
	REUSE_OWN, /* makes own the end of another pipe, which is ready */
	WATCH,     /* starts a process that looks for O_NONBLOCK */
	UNWATCH,   /* notes whether that process saw O_NONBLOCK set */
	NONBLOCK,  /* sets O_NONBLOCK by ioctl(2), or clears it if nr is 0 */
	/* as NONBLOCK, by a process that shares the open file */
	NONBLOCK_BY_OTHERS,
	RECEIVE_TIMEOUT, /* SO_RCVTIMEO, in ms */
	SEND_TIMEOUT,
	LOW_WATER,   /* SO_RCVLOWAT, in bytes */
	KEEP_ERRORS, /* IP_RECVERR: own polls POLLERR until errors are read */
	PIPE_BYTES,  /* sets the pipe's capacity */
	LEAST_BYTES, /* VMIN of a terminal without lines */
	LEAST_TIME,  /* VTIME of a terminal, in tenths of a second */

	/* elsewhere */
	PUT_SPOILT,    /* sends a UDP datagram of nr bytes, bad checksum */
	SIGNAL_THREAD, /* signals only the thread that makes the requests */
	SET_CLOCK,     /* sets the clock to its current time */
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

/*
 * Makes a row of each situation on each of its kinds of files. The last situation has no
 * name.
 */
struct row;
void add_situations(struct row rows[], size_t nr_max,
		    const struct situation *situations);

/* Steps leave out members that they do not use. */
#define STEPS(...) ((const struct step[]){ __VA_ARGS__, { END_OF_STEPS } })

void play(const struct situation *situation, const struct stream_kind *kind);

#endif

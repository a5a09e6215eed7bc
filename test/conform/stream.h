/* SPDX-License-Identifier: MIT */
/*
 * Test cases whose requests wait. Each test case executes one situation, which is a
 * list of steps, on one kind of file.
 *
 * Kernel AIO would block in io_submit until the requests complete, so its results
 * cannot be the reference. With --calls, three threads execute the requests: one by
 * read(2), one by write(2), one by poll(2), each in the order of submission. Without
 * --calls, the library executes the requests, and their events must have the results of
 * these calls.
 *
 * With --calls, the test case waits after each step that may let a call return. This
 * wait ends when each thread sleeps in a call or has made all its calls. Without
 * --calls the test case waits only in the step END, until a request is complete.
 */
#ifndef STREAM_H
#define STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set by --calls: threads make the test cases' requests as system calls. */
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
	/* a raw terminal: requests are made on its master, or on its slave */
	PTY_MASTER = 1 << 11,
	PTY_SLAVE = 1 << 12,
	FIFO_BOTH = 1 << 13, /* a FIFO: one descriptor, O_RDWR, is both ends */
	PIPE_SPLICED = 1 << 14, /* a pipe from which data was spliced before */
	LISTENER = 1 << 15,     /* a listening TCP socket */
	INOTIFY = 1 << 16,

	/* kinds of files that stream-kinds-rare.c opens */
	NETLINK = 1 << 17, /* messages from one program to another */
	/* `own` sends to a socket that receives datagrams from any sender */
	UNIX_SHARED = 1 << 18,
	PACKETS = 1 << 19,       /* a pipe with O_DIRECT, which keeps packets */
	CANONICAL = 1 << 20,     /* a canonical terminal: reads return lines */
	PACKET_MASTER = 1 << 21, /* master of a terminal, with TIOCPKT */
	RAW_IP = 1 << 22,
	LINK = 1 << 23,        /* an AF_PACKET socket */
	TUN = 1 << 24,         /* the program's side of a network device */
	FUSE_SERVER = 1 << 25, /* a file of a FUSE server that never answers */
	USERFAULT = 1 << 26,
	EPOLL = 1 << 27,
	MQUEUE = 1 << 28,
	PIDFD = 1 << 29,
	WALL_TIMERFD = 1 << 30, /* TFD_TIMER_CANCEL_ON_SET */

	PIPES = PIPE | FIFO | PIPE_SPLICED,
	TWO_WAY = UNIX_STREAM | TCP, /* byte streams */
	RECORDS = UNIX_DGRAM | UNIX_SEQPACKET,
	PTYS = PTY_MASTER | PTY_SLAVE,

	/* A read of these kinds of file returns one message. */
	IN_PIECES = RECORDS | UDP | NETLINK | UNIX_SHARED | PACKETS,
	/* Reads of these kinds of file return bytes that differ from run to run. */
	VARYING = SIGNALFD | RAW_IP | FUSE_SERVER | USERFAULT,
};

struct ends {
	int own; /* the descriptor on which requests are made */
	/*
	 * the other end, by which test cases fill or empty `own`; or the same as `own`
	 */
	int peer;
};

struct stream_kind {
	unsigned bit;
	const char *name;
	void (*open)(bool is_writer, struct ends *ret_ends);
	/*
	 * Makes `own` readable; nr says how much arrives, for example how many bytes.
	 * NULL: test cases write bytes to `peer` instead.
	 */
	void (*put)(const struct ends *ends, size_t nr);
};

extern const struct stream_kind rare_kinds[]; /* the last has no name */

/*
 * Return: the kind that follows this one in the set `kinds`; the first kind if `kind`
 * is NULL; NULL after the last kind.
 */
const struct stream_kind *next_kind(const struct stream_kind *kind,
				    unsigned kinds);

/*
 * Sends a UDP datagram with a wrong checksum, from the address of `peer` to `own`.
 */
void put_spoilt(const struct ends *ends, size_t nr);

enum verb {
	END_OF_STEPS,

	/*
	 * These steps make a request of nr bytes on `own` with RWF_* flags. The test
	 * case numbers its requests from 0.
	 */
	READ,
	READV,
	WRITE,
	WRITEV,
	POLL,           /* nr is the mask of events */
	READ_DUPLICATE, /* like READ, on a duplicate of `own` */
	WAITS,          /* prints whether request nr is complete */
	END,            /* prints the result of request nr */
	END_SIGN,       /* as END, but prints "some" for a number of bytes */

	/* Steps on the other end, `peer` */
	PUT,        /* writes nr bytes, or calls put() with nr */
	TAKE,       /* reads nr bytes or records from `peer` */
	TAKE_ALL,   /* reads what `peer` has now */
	DRAIN,      /* reads from `peer` all that was written to `own` */
	HOLDS,      /* waits until nr bytes can be read from `peer`, a pipe */
	CLOSE_PEER, /* closes `peer`; RESET first sets SO_LINGER to 0 */
	OPEN_PEER,  /* opens the other end of a FIFO again */
	SHUT_PEER,  /* nr is shutdown(2)'s how */
	RESET,

	/* Steps on this end, `own` */
	FILL,      /* writes to `own` until it has no room */
	PUT_BACK,  /* writes nr bytes to `own`, not by a request */
	SHUT_OWN,  /* nr is shutdown(2)'s how */
	CLOSE_OWN, /* closes the descriptor */
	REUSE_OWN, /* dup2() puts a new pipe, which is ready, at `own` */
	WATCH,     /* starts a process that looks for O_NONBLOCK */
	UNWATCH,   /* prints whether the process of WATCH saw O_NONBLOCK set */
	NONBLOCK,  /* sets O_NONBLOCK by ioctl(2), or clears it if nr is 0 */
	/* as NONBLOCK, by a process that shares the open file */
	NONBLOCK_BY_OTHERS,
	RECEIVE_TIMEOUT, /* SO_RCVTIMEO, in ms */
	SEND_TIMEOUT,
	LOW_WATER,   /* SO_RCVLOWAT, in bytes */
	KEEP_ERRORS, /* IP_RECVERR: `own` polls POLLERR until errors are read */
	PIPE_BYTES,  /* sets the pipe's capacity */
	LEAST_BYTES, /* VMIN of a noncanonical terminal */
	/* VTIME of a noncanonical terminal, in tenths of a second */
	LEAST_TIME,

	/* Steps that act on neither end */
	PUT_SPOILT,    /* sends a UDP datagram of nr bytes, bad checksum */
	SIGNAL_THREAD, /* signals only the thread that makes the requests */
	SET_CLOCK, /* sets the clock 1 us forward, the next time 1 us back */
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
 * Adds test cases: each situation runs on each kind of file in its set `kinds`. An
 * element without a name ends the array `situations`.
 */
struct row;
void add_situations(struct row rows[], size_t nr_max,
		    const struct situation *situations);

/* A list of steps. Each step gives only the members that it uses. */
#define STEPS(...) ((const struct step[]){ __VA_ARGS__, { END_OF_STEPS } })

void play(const struct situation *situation, const struct stream_kind *kind);

#endif

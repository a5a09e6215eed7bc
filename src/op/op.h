/* SPDX-License-Identifier: MIT */
/*
 * Operations: how a request is described, checked and executed
 *
 * A front-end (kernel AIO, io_uring or POSIX AIO) describes a request by a struct uaio_sqe.
 * optab.c has one row per operation, with the functions that check and execute it. The modules
 * above this one decide when and on which thread they execute it.
 */
#ifndef UAIO_OP_OP_H
#define UAIO_OP_OP_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/check.h"
#include "options/names.h"

struct uaio_args;
struct uaio_called;
struct uaio_file;

/* The policy and the order of an inode's requests depend on the class. */
enum uaio_op_class {
	UAIO_CLASS_READ,
	UAIO_CLASS_WRITE,
	/* changes the size of the file, or the space allocated to it */
	UAIO_CLASS_RESIZE,
	UAIO_CLASS_SYNC,
	UAIO_CLASS_ABOUT, /* attributes of the file, or advice about it */
	UAIO_CLASS_POLL,
	UAIO_NR_CLASSES, /* the number of classes in the policy's table */
	/*
	 * A plain system call that has no file, so the policy for files does not apply. If the
	 * call may block, a worker executes it, however long that takes.
	 */
	UAIO_CLASS_CALL = UAIO_NR_CLASSES,
	/* No system call: the request completes at a given time, with -ETIME. */
	UAIO_CLASS_TIMER,
};

/*
 * By default a timer's time is relative, and by CLOCK_MONOTONIC. A time by another clock is
 * converted once. If, when the timer expires, that clock has not yet reached the time, the
 * timer waits again.
 */
enum {
	UAIO_TIMER_ABSOLUTE = 1,
	UAIO_TIMER_REALTIME = 2,
	UAIO_TIMER_BOOTTIME = 4,
	UAIO_TIMER_SUCCEEDS =
		8, /* succeeds at its expiry: linked requests start */
};

/* What each interface guarantees its clients; uaio_sqe.door selects the row. */
struct uaio_rules {
	/*
	 * Reads and syncs of a file are not ordered, unless linked. Writes, changes of the
	 * size and requests at the file position are ordered.
	 */
	bool has_no_order;
	/*
	 * A request waits for an O_NONBLOCK stream, too, unless no call can try the operation.
	 */
	bool waits_for_nonblock;
	/* A request on a socket ignores SO_RCVTIMEO and SO_SNDTIMEO. */
	bool ignores_timeouts;
	/* A short write ends the request, and moves no file position. */
	bool ends_short_writes;
	/* A read or write of 0 bytes succeeds where the kernel would fail it. */
	bool skips_empty;
	/* A write fails with EAGAIN if the file cannot execute it with RWF_NOWAIT at once. */
	bool fails_busy_writes;
	/* A write raises no SIGPIPE. */
	bool no_sigpipe;
};

enum uaio_door_rules {
	UAIO_RULES_OF_AIO, /* the default */
	UAIO_RULES_OF_URING,
	UAIO_RULES_OF_POSIX,
	UAIO_NR_RULES,
};

extern const struct uaio_rules uaio_rules[UAIO_NR_RULES];

/* Whether a receive has left bytes in its socket. */
enum uaio_rest {
	UAIO_REST_UNKNOWN,
	/* not known: the caller must query the socket (UAIO_RWF_ASKS_LATER) */
	UAIO_REST_TO_ASK,
	UAIO_REST_THERE,
	/* For a multishot request: no bytes, so skip the receive that would return EAGAIN. */
	UAIO_REST_NONE,
	/*
	 * Multishot: like NONE, unless epoll has reported the end of the stream or an error.
	 */
	UAIO_REST_NO_BYTES,
};

/* How a multishot receive can find out that its socket is empty. Queried once per request. */
enum uaio_empty_by {
	UAIO_EMPTY_BY_UNKNOWN,
	/* only by a receive, as SO_RCVLOWAT keeps poll() from reporting few bytes */
	UAIO_EMPTY_BY_TRY,
	UAIO_EMPTY_BY_POLL, /* also poll() */
	/* also by poll(), and by a receive that does not fill its buffer */
	UAIO_EMPTY_BY_SHORT,
};

/* What calls of a RECV or RECVMSG have learnt about their socket; 0 before the first. */
struct uaio_found {
	uint8_t rest : 3;     /* enum uaio_rest */
	uint8_t empty_by : 2; /* enum uaio_empty_by */
};

struct uaio_sqe {
	uint8_t op; /* enum uaio_op */
	/* its completion is signalled to an eventfd or an epoll */
	bool is_signalled : 1;
	/*
	 * For a socket: poll() must report it ready before the first call is made, or before
	 * an error is returned.
	 */
	bool polls_first : 1;
	/*
	 * The client wants a worker to execute it; or the front-end does, because the
	 * submitting thread must not make the call. On a regular file a worker executes the
	 * request. On a stream the operation's first() decides, and may have it tried at once.
	 */
	bool is_async : 1;
	/*
	 * A poll: post a completion with MORE (sink.h) each time its file becomes
	 * ready, until it is cancelled or the sink has no room (ready.h, I10). A timer:
	 * post one each interval, at most len times; len 0: without limit. Another
	 * operation of a stream: post one each time it succeeds, until it returns 0
	 * bytes or an error.
	 */
	bool is_multishot : 1;
	/* Post its completion before the next request of its submission is issued. */
	bool posts_at_once : 1;
	/* on a registered file (submit.h, chain.h), not on fd */
	bool is_fixed : 1;
	/*
	 * Its front-end chooses its buffer, or receives its new descriptor: struct
	 * uaio_op_door.
	 */
	bool by_door : 1;
	uint8_t door; /* enum uaio_door_rules: the rules of its interface */
	/* UAIO_LINK* and UAIO_DRAIN: whether it is linked in a chain, or is a drain */
	uint16_t links;
	uint16_t ioprio; /* 0: none given */
	union {
		uint32_t rw_flags;   /* RWF_* of preadv2() */
		uint32_t open_flags; /* O_* */
		uint32_t timer_flags;
		/* Flags, mode or advice of another call; MSG_* of a socket's call. */
		uint32_t call_flags;
	};
	/*
	 * An operation without a file: its directory, or a descriptor that is looked up
	 * when the call is made. In a chain, if is_fixed: the slot of the file.
	 */
	int fd;
	uint64_t word; /* a value of its front-end's; 0: none (sink.h) */
	union {
		int64_t off;   /* offset in the file, or UAIO_OFF_POSITION */
		uint32_t mode; /* of a new file or directory */
		int64_t time_ns;
	};
	union {
		void *buf; /* borrows: the client's memory */
		/* borrows; a waiting request owns a copy */
		const struct iovec *iov;
		const char *path; /* borrows; a waiting request owns a copy */
		uint64_t events;  /* of poll(): the low 16 bits */
		/* borrows; a waiting request owns a copy (args.h) */
		struct uaio_args *args;
		struct uaio_called *called; /* borrows until the completion */
	};
	uint64_t len;  /* bytes (of a path with its 0), or number of iovecs */
	uint64_t data; /* returned in the completion */
	/* returned in the completion; cancelling searches by it */
	uint64_t key;
};

static inline const struct uaio_rules *
uaio_sqe_rules(const struct uaio_sqe *sqe)
{
	return &uaio_rules[sqe->door];
}

/*
 * Value of off: the open file's own position, as read() and write() use; streams have no
 * other. A partial read or write there cannot be repeated, because the position has
 * moved.
 */
#define UAIO_OFF_POSITION INT64_C(-1)

/*
 * A function of a front-end that is called as a request, so that the call is ordered in a
 * chain or behind a drain. The front-end defines off, len and open_flags.
 */
struct uaio_called {
	/* Return: the result. Context: any thread that has entered. */
	int64_t (*call)(struct uaio_called *called, const struct uaio_sqe *sqe);
};

/*
 * Extra flag of run: the request has waited, and is tried again. With this flag, a write
 * raises no SIGPIPE. Connects, and reads whose front-end chooses the memory, also test this
 * flag. (The value is RWF_NOSIGNAL, which not all kernels know.)
 */
enum { UAIO_RWF_HAS_WAITED = 0x100 };

/*
 * Extra flag of run, for RECV and RECVMSG that are not multishot: run may set rest to
 * UAIO_REST_TO_ASK. The caller will then call uaio_sock_ask_rests().
 */
enum { UAIO_RWF_ASKS_LATER = 0x40000000 };

/*
 * Extra flags of run that describe the file: it has no offsets; it is a SOCK_STREAM
 * socket. (The values are UAIO_FILE_F_STREAM and UAIO_FILE_F_SOCK_STREAM.)
 */
enum {
	UAIO_RWF_ON_STREAM = 1 << 17,
	UAIO_RWF_ON_SOCKET = 1 << 18,
	UAIO_RWF_ON = UAIO_RWF_ON_STREAM | UAIO_RWF_ON_SOCKET,
};

/* The most bytes that one call moves, as in the kernel: MAX_RW_COUNT. */
#define UAIO_RW_BYTES_MAX ((uint64_t)0x7ffff000)

/*
 * The next submitted request starts when this one completes (link.h): with UAIO_LINK only
 * if it succeeds, with UAIO_LINK_HARD in any case.
 */
enum { UAIO_LINK = 1, UAIO_LINK_HARD = 2 };

/* While the request, or its chain, runs, no other request of the queue does (drain.h). */
enum { UAIO_DRAIN = 4 };

/* With UAIO_LINK: if the request fails, the rest of its chain completes as QUIET (sink.h). */
enum { UAIO_LINK_QUIET = 8 };

/* Result of run: the call cannot be made without blocking. Not an errno. */
#define UAIO_OP_BLOCKS INT64_MIN

/*
 * Where a request goes next. The thread that tried the request decides; uaio_place() (place.h)
 * may change the decision; the request stores it; route() in send.c acts on it.
 */
enum uaio_next {
	UAIO_NEXT_DONE, /* it is complete, and has a result */
	/* it waits for older requests of its inode (order.h) */
	UAIO_NEXT_WAIT_ORDER,
	/* it waits until its pages, being read now, are cached (page.h) */
	UAIO_NEXT_WAIT_PAGES,
	UAIO_NEXT_WAIT_FILE, /* it waits until its file is ready (ready.h) */
	UAIO_NEXT_WAIT_TIME, /* it waits until its time comes (timer.h) */
	UAIO_NEXT_WORKER, /* a worker executes it, where it may block (wq.h) */
};

/* Return: whether the request will be parked, for its file or for a time. */
static inline bool uaio_next_parks(enum uaio_next next)
{
	return next == UAIO_NEXT_WAIT_FILE || next == UAIO_NEXT_WAIT_TIME;
}

/* What a waiting request has a copy of, besides its vectors. */
enum uaio_copies {
	UAIO_COPIES_NOTHING,
	UAIO_COPIES_PATH,
	UAIO_COPIES_ARGS,
};

/*
 * Which result breaks the request's chain (link.h). A request that could not start also breaks
 * its chain. With UAIO_LINK_HARD, the next request starts whatever the result.
 */
enum uaio_breaks {
	UAIO_BREAKS_BY_ERROR,
	UAIO_BREAKS_BY_LESS, /* an error, or fewer bytes than len */
	UAIO_BREAKS_NEVER,
	/* like BY_LESS with MSG_WAITALL, else like BY_ERROR */
	UAIO_BREAKS_IF_WHOLE,
};

/* How the submitting call begins a request on a stream. */
enum uaio_first {
	/* try it by a call that does not block, if no other request waits for the file */
	UAIO_FIRST_TRY,
	/* try it by a call that does not block, even if other requests wait */
	UAIO_FIRST_PASS,
	/* try it by a call that does not block; it never waits for its file */
	UAIO_FIRST_NOW,
	UAIO_FIRST_HERE,   /* make the final call; it does not block */
	UAIO_FIRST_WAIT,   /* wait for the file, without a try */
	UAIO_FIRST_LOOKED, /* wait: poll() says that it is not ready */
	UAIO_FIRST_WORKER, /* a worker makes the call */
	/* If the file can be polled, wait; otherwise a worker makes the call. */
	UAIO_FIRST_ASIDE,
	/* If the file can be polled, try it; otherwise a worker makes the call. */
	UAIO_FIRST_ASIDE_TRIED,
};

/*
 * How requests of an operation wait for a stream. All rows of the classes READ, WRITE and
 * POLL have these functions; rows may share them (tries.c).
 *
 * Context: any thread, without a lock. fd: the file's descriptor, or another descriptor
 * of its open file.
 */
struct uaio_op_tries {
	/* Return: how the submitting call begins a request. */
	enum uaio_first (*first)(const struct uaio_sqe *sqe, int fd);
	/*
	 * Return: whether a call that has no flag against blocking fails instead of blocking.
	 */
	bool (*fails_at_once)(const struct uaio_sqe *sqe, int fd);
	/* Return: whether a request that has waited waits again, without a try. */
	bool (*waits_on)(const struct uaio_sqe *sqe, int fd);
	/*
	 * Return: whether res, the result of a call, must not complete the request until its
	 * file is ready. has_begun: an earlier call has moved bytes.
	 */
	bool (*waits_to_end)(const struct uaio_sqe *sqe,
			     const struct uaio_file *file, int fd,
			     bool has_begun, int64_t res);
	/*
	 * Return: whether a worker repeats the calls of a multishot request until one
	 * fails, instead of letting the request wait again after each.
	 */
	bool (*takes_all)(const struct uaio_sqe *sqe, int fd);
	/*
	 * Return: whether a request is tried although other requests wait for its socket,
	 * because it fails at once. waiting: the oldest waiting request; NULL: that request is
	 * being tried.
	 */
	bool (*passes)(const struct uaio_sqe *sqe,
		       const struct uaio_sqe *waiting, int fd);
};

/* The credentials of a thread on which the calls of an operation depend (proc/former.h). */
enum uaio_op_ids {
	UAIO_OP_IDS_OF_FILE, /* as the operation's class and its file imply */
	/* on none; but what the call opens belongs to the calling thread */
	UAIO_OP_IDS_NONE,
	UAIO_OP_IDS_ALL,
	UAIO_OP_IDS_ANYBODYS, /* on none, so any thread may make the call */
};

struct uaio_op_def {
	alignas(64) const char *name;
	uint8_t class;         /* enum uaio_op_class */
	bool is_vectored;      /* iov is copied when the request waits */
	uint8_t copies;        /* enum uaio_copies */
	uint8_t breaks;        /* enum uaio_breaks */
	bool has_no_file;      /* its requests have no file (NULL) */
	bool has_ends;         /* its args have two files */
	bool never_blocks : 1; /* it takes almost no time */
	bool is_empty : 1;     /* it makes no system call: its result is len */
	/* only sockets are accepted (sock.h) */
	bool is_of_socket : 1;
	/* it sleeps on a worker; its args have a sleeper (sleeper.h) */
	bool sleeps : 1;
	bool is_closing; /* closing: it may wait for other requests */
	uint8_t ids;     /* enum uaio_op_ids */
	/* NULL: requests of this operation never wait for a file */
	const struct uaio_op_tries *tries;

	/*
	 * Refuse a request that is not safe to execute, or that can never succeed. What only
	 * one interface refuses, the front-end of that interface has already refused.
	 * Return: 0 or -errno.
	 */
	int (*prep)(const struct uaio_sqe *sqe, const struct uaio_file *file);

	/*
	 * Make the request's system call on fd. extra_flags are added to the client's RWF_*:
	 * RWF_NOWAIT, without which the call may block for ever; UAIO_RWF_HAS_WAITED;
	 * UAIO_RWF_ASKS_LATER; UAIO_RWF_ON_STREAM; UAIO_RWF_ON_SOCKET. found: the request's,
	 * which a RECV or RECVMSG updates.
	 * Return: the call's result or -errno; with RWF_NOWAIT also UAIO_OP_BLOCKS.
	 */
	int64_t (*run)(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags);
};

extern const struct uaio_op_def uaio_optab[UAIO_NR_OPS];
static_assert(sizeof(struct uaio_op_def) == 64, "a row is found by a shift");

/*
 * The function that CLOSE calls, because op/ does not know the requests of a descriptor: close
 * fd, and treat the requests on it as close() does. If may_wait is false and closing might
 * take long, do nothing. Return: as close(); -EOPNOTSUPP: nothing was done. Set while the
 * engine starts.
 */
typedef int uaio_close_fn(int fd, bool may_wait);

extern uaio_close_fn *uaio_op_close;

/*
 * Memory in several pieces, chosen by a front-end for a request with UAIO_MSG_PIECES (sock.h).
 * The kernel's io_uring takes at most this number of buffers at once.
 */
enum { UAIO_PIECES_MAX = 256 };

struct uaio_pieces {
	unsigned nr;
	uint64_t bytes; /* of all */
	struct iovec iov[UAIO_PIECES_MAX];
};

/*
 * Functions of a front-end for its own requests, which it recognises by their word. Context:
 * the thread that executes the request, without locks.
 */
struct uaio_op_door {
	/*
	 * Choose the memory (a provided buffer) for a call that may succeed: up to max bytes;
	 * 0: no limit. If may_block is true, other requests of the front-end may wait until
	 * picked() is called.
	 * Return: 0; or -errno, the request's result: no memory was chosen.
	 */
	int (*pick)(const struct uaio_sqe *sqe, uint64_t max, bool may_block,
		    struct iovec *ret_iov);
	/* The call has returned res. After an error, pick() may be called again. */
	void (*picked)(const struct uaio_sqe *sqe, int64_t res);
	/*
	 * Like picked(), but the request continues with the rest of the chosen memory, which
	 * the next pick() returns.
	 */
	void (*keep)(const struct uaio_sqe *sqe, int64_t res);
	/* Return: whether keep() has kept a rest. */
	bool (*has_rest)(const struct uaio_sqe *sqe);
	/* Return: whether a multishot request ends although it succeeded. */
	bool (*is_last)(const struct uaio_sqe *sqe);
	/* Return: whether a shot of the request has succeeded. */
	bool (*has_begun)(const struct uaio_sqe *sqe);
	/*
	 * Like pick() and picked(), in pieces. known: bytes known to be in the socket,
	 * after a call that has filled its memory; or 0. keeps: call keep().
	 * picked_pieces() returns res; -ENOMEM if res was -EAGAIN, and the memory
	 * cannot be kept.
	 */
	int (*pick_pieces)(const struct uaio_sqe *sqe, uint64_t known,
			   bool may_block, struct uaio_pieces *ret_pieces);
	int64_t (*picked_pieces)(const struct uaio_sqe *sqe,
				 const struct uaio_pieces *pieces, int64_t res,
				 bool keeps);
	/*
	 * A receive has filled the chosen memory, after `bytes` bytes in all. known: bytes
	 * left in the socket; 0: none, or not known. Return: whether the request chooses
	 * memory again, for the same completion.
	 */
	bool (*goes_on)(const struct uaio_sqe *sqe, uint64_t bytes,
			uint64_t known);
	/* Return: how many bytes of memory the request chose last. */
	uint64_t (*picked_bytes)(const struct uaio_sqe *sqe);
	/*
	 * Receive fd, which the request has opened and which belongs to the front-end from now
	 * on. Return: the request's result.
	 */
	int64_t (*land)(const struct uaio_sqe *sqe, int fd);
	/* The request is about to be submitted. NULL: requests are not checked. */
	void (*submitted)(const struct uaio_sqe *sqe);
};

/*
 * The functions of the one front-end that submits such requests. Set while the engine starts.
 */
extern const struct uaio_op_door *uaio_op_door;

/* Return: the result of a request whose call opened res, or failed with -errno. */
static inline int64_t uaio_sqe_land(const struct uaio_sqe *sqe, int64_t res)
{
	return likely(!sqe->by_door) || res < 0
		       ? res
		       : uaio_op_door->land(sqe, (int)res);
}

/*
 * Choose the memory of a READ_SELECT once and for all: it becomes a READ. Return: 0 or -errno.
 */
int uaio_rw_select(struct uaio_sqe *sqe);

/* Return: 0; or -errno if a read or write must not have this priority. */
int uaio_rw_check_ioprio(uint16_t ioprio);

/*
 * Return: whether sqe reads or writes a file that can only be polled: a pidfd or epoll.
 */
bool uaio_rw_can_only_poll(const struct uaio_sqe *sqe,
			   const struct uaio_file *file);

/* Return: whether the driver of fd supports polling; true if this cannot be found out. */
bool uaio_poll_is_possible(int fd);

size_t uaio_args_bytes(const struct uaio_sqe *sqe); /* args.h */
void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes);

/* Return: the size of the arguments that a waiting request has a copy of, in bytes. */
static inline size_t uaio_sqe_copied_bytes(const struct uaio_sqe *sqe)
{
	if (uaio_optab[sqe->op].is_vectored)
		return sqe->len * sizeof(*sqe->iov);
	if (likely(!uaio_optab[sqe->op].copies))
		return 0;
	return uaio_optab[sqe->op].copies == UAIO_COPIES_PATH
		       ? sqe->len
		       : uaio_args_bytes(sqe);
}

/* Return: vector i; a client's array of vectors need not be aligned. */
static inline struct iovec uaio_sqe_iov(const struct uaio_sqe *sqe, uint64_t i)
{
	struct iovec iov;

	memcpy(&iov, (const char *)sqe->iov + i * sizeof(iov), sizeof(iov));
	return iov;
}

/* Return: the bytes that a read or write requests, limited to what one call moves. */
static inline uint64_t uaio_sqe_bytes(const struct uaio_sqe *sqe)
{
	uint64_t bytes = 0;

	if (!uaio_optab[sqe->op].is_vectored)
		return sqe->len;
	for (uint64_t i = 0; i < sqe->len; i++)
		bytes += uaio_sqe_iov(sqe, i).iov_len;
	return bytes < UAIO_RW_BYTES_MAX ? bytes : UAIO_RW_BYTES_MAX;
}

/* Limit the total of copied vectors to what one call moves, even if several calls are made. */
static inline void uaio_iovs_cut(struct iovec *iov, uint64_t nr)
{
	uint64_t left = UAIO_RW_BYTES_MAX;

	for (uint64_t i = 0; i < nr; i++) {
		if (iov[i].iov_len > left)
			iov[i].iov_len = left;
		left -= iov[i].iov_len;
	}
}

/*
 * Skip the first `bytes` bytes of sqe, which are done. iov is the copy of the vectors that sqe
 * points to. Vectors that are used up become empty, but stay, so that their number does not
 * change.
 */
static inline void uaio_sqe_advance(struct uaio_sqe *sqe, struct iovec *iov,
				    uint64_t bytes)
{
	if (sqe->off != UAIO_OFF_POSITION)
		sqe->off += (int64_t)bytes; /* streams have none */
	/* The front-end keeps the rest of the memory that it has chosen. */
	if (unlikely(sqe->by_door))
		return;
	if (unlikely(uaio_optab[sqe->op].copies == UAIO_COPIES_ARGS)) {
		uaio_args_advance(sqe, bytes);
		return;
	}
	if (!uaio_optab[sqe->op].is_vectored) {
		sqe->buf = (char *)sqe->buf + bytes;
		sqe->len -= bytes;
		return;
	}
	for (uint64_t i = 0; i < sqe->len && bytes; i++) {
		size_t part = iov[i].iov_len;

		if (part > bytes)
			part = bytes;
		iov[i].iov_base = (char *)iov[i].iov_base + part;
		iov[i].iov_len -= part;
		bytes -= part;
	}
}

#endif /* UAIO_OP_OP_H */

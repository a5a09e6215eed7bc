/* SPDX-License-Identifier: MIT */
/*
 * Operations: how a request is described, checked and executed
 *
 * A front-end (kernel AIO, io_uring or POSIX AIO) describes a request by a struct uaio_sqe.
 * optab.c has one row for each operation, with the functions that check and execute it.
 * Modules above this one decide when a request is executed, and on which thread.
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

/*
 * Classes of operations. The class decides where a request runs (policy), and how it is
 * ordered among the requests of its inode.
 */
enum uaio_op_class {
	UAIO_CLASS_READ,
	UAIO_CLASS_WRITE,
	/* changes the size of the file, or the space allocated to it */
	UAIO_CLASS_RESIZE,
	UAIO_CLASS_SYNC,
	/* operations on attributes of a file, and advice about a file */
	UAIO_CLASS_ABOUT,
	UAIO_CLASS_POLL,
	UAIO_NR_CLASSES, /* the number of classes in the policy's table */
	/*
	 * A plain system call without a file. The policy has no column for this class.
	 * If the call may block, a worker executes it, however long that takes.
	 */
	UAIO_CLASS_CALL = UAIO_NR_CLASSES,
	/* No system call: the request completes at a given time, with -ETIME. */
	UAIO_CLASS_TIMER,
};

/*
 * Flags of a timer. By default its time is relative, and by CLOCK_MONOTONIC. If the time
 * is by another clock, the library converts it to CLOCK_MONOTONIC once. If the other
 * clock has not reached the requested time when the timer expires, the timer waits again.
 */
enum {
	UAIO_TIMER_ABSOLUTE = 1,
	UAIO_TIMER_REALTIME = 2,
	UAIO_TIMER_BOOTTIME = 4,
	UAIO_TIMER_SUCCEEDS =
		8, /* the expiry counts as success: a linked request starts */
};

/* Rules that differ between the interfaces; uaio_sqe.door selects the row. */
struct uaio_rules {
	/*
	 * Reads and syncs of a file are not ordered, except in a chain. Writes, changes
	 * of the size and requests at the file position are ordered.
	 */
	bool has_no_order;
	/*
	 * A request that would block waits even if its stream is O_NONBLOCK. Exception:
	 * a stream whose driver has no non-blocking call for the operation.
	 */
	bool waits_for_nonblock;
	/* A request on a socket ignores SO_RCVTIMEO and SO_SNDTIMEO. */
	bool ignores_timeouts;
	/* A short write completes the request, and leaves the file position unchanged. */
	bool ends_short_writes;
	/* A read or write of 0 bytes succeeds even where read() or write() would fail. */
	bool skips_empty;
	/* A write with RWF_NOWAIT fails with EAGAIN if it cannot be executed at once. */
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
	/* the caller must query the socket (UAIO_RWF_ASKS_LATER) */
	UAIO_REST_TO_ASK,
	UAIO_REST_THERE,
	/* Multishot: no bytes are left, so skip the receive that would return EAGAIN. */
	UAIO_REST_NONE,
	/*
	 * Multishot: no bytes left; receive if epoll reported the stream's end or an error.
	 */
	UAIO_REST_NO_BYTES,
};

/* How a multishot receive can find out that its socket is empty. Queried once per request. */
enum uaio_empty_by {
	UAIO_EMPTY_BY_UNKNOWN,
	/* only by a receive: because of SO_RCVLOWAT, poll() does not report few bytes */
	UAIO_EMPTY_BY_TRY,
	UAIO_EMPTY_BY_POLL, /* by a receive, or by poll() */
	/* by a receive, by poll(), or by a receive that does not fill its buffer */
	UAIO_EMPTY_BY_SHORT,
};

/*
 * What earlier calls of RECV or RECVMSG found out about the socket; 0: nothing yet.
 */
struct uaio_found {
	uint8_t rest : 3;     /* enum uaio_rest */
	uint8_t empty_by : 2; /* enum uaio_empty_by */
};

struct uaio_sqe {
	uint8_t op; /* enum uaio_op */
	/* when the request completes, an eventfd or epoll is signalled */
	bool is_signalled : 1;
	/*
	 * For a socket: wait until poll() reports the socket ready, and only then make
	 * the first call, or return an error.
	 */
	bool polls_first : 1;
	/*
	 * Set if the client requests that a worker executes the request, or if the
	 * front-end does not want the submitting thread to make the call. On a regular
	 * file a worker executes the request. On a stream the operation's first()
	 * decides, and may let the submitting thread try the request.
	 */
	bool is_async : 1;
	/*
	 * A poll: post a completion with MORE (sink.h) each time the file becomes ready,
	 * until the poll is cancelled or the sink has no room (ready.h, I10). A timer: post
	 * a completion each interval, at most `len` times, or without limit if `len` is 0.
	 * Another operation on a stream: post a completion each time the call succeeds,
	 * until the call returns 0 bytes or an error.
	 */
	bool is_multishot : 1;
	/* Post the completion before this thread executes another request. */
	bool posts_at_once : 1;
	/* the file is registered, passed beside sqe (submit.h) or by slot (chain.h) */
	bool is_fixed : 1;
	/*
	 * The front-end chooses the request's buffer, or receives the descriptor that
	 * the request opens (struct uaio_op_door).
	 */
	bool by_door : 1;
	uint8_t door; /* enum uaio_door_rules: whose rules apply */
	/* UAIO_LINK*: the next request is linked to this; UAIO_DRAIN: this is a drain */
	uint16_t links;
	uint16_t ioprio; /* 0: none given */
	union {
		uint32_t rw_flags;   /* RWF_* of preadv2() */
		uint32_t open_flags; /* O_* */
		uint32_t timer_flags;
		/* MSG_* for a socket; for other calls: flags, mode or advice */
		uint32_t call_flags;
	};
	/*
	 * The file's descriptor; in a chain, if is_fixed, its slot. Without a file: a
	 * directory, or a descriptor that the kernel looks up in the system call.
	 */
	int fd;
	uint64_t word; /* the front-end's own value; 0: none (sink.h) */
	union {
		int64_t off;   /* offset in the file, or UAIO_OFF_POSITION */
		uint32_t mode; /* mode of a new file or directory */
		int64_t time_ns;
	};
	union {
		void *buf; /* borrows: the client's memory */
		/* borrows; a waiting request owns a copy */
		const struct iovec *iov;
		const char *path; /* borrows; a waiting request owns a copy */
		uint64_t events;  /* POLL*, in the low 16 bits */
		/* borrows; a waiting request owns a copy (args.h) */
		struct uaio_args *args;
		struct uaio_called *called; /* borrows until the completion */
	};
	uint64_t len;  /* bytes (of a path with its 0), or number of iovecs */
	uint64_t data; /* the client's value, returned in the completion */
	/* returned in the completion; cancellers find the request by this key */
	uint64_t key;
};

static inline const struct uaio_rules *
uaio_sqe_rules(const struct uaio_sqe *sqe)
{
	return &uaio_rules[sqe->door];
}

/*
 * Value of uaio_sqe.off: use the open file's own position, as read() and write() do.
 * Requests on streams always use this value. A partial read or write at the position cannot
 * be repeated, because the position has moved.
 */
#define UAIO_OFF_POSITION INT64_C(-1)

/*
 * A front-end's function, executed as a request so that a chain or drain can order it. The
 * front-end defines the meaning of sqe->off, sqe->len and sqe->open_flags.
 */
struct uaio_called {
	/* Return: the result. Context: a thread in the library (proc/entry.h). */
	int64_t (*call)(struct uaio_called *called, const struct uaio_sqe *sqe);
};

/*
 * Extra flag for run(): the request has waited, and is tried again. With this flag, a
 * write raises no SIGPIPE. A connect takes EALREADY for "still connecting", and EISCONN
 * for success. A read waits again if it finds neither a provided buffer nor data. (The
 * value is that of RWF_NOSIGNAL, which older kernels do not know.)
 */
enum { UAIO_RWF_HAS_WAITED = 0x100 };

/*
 * Extra flag for run(), for RECV and RECVMSG that are not multishot. run() need not query
 * the socket: it may set found->rest to UAIO_REST_TO_ASK, and the caller then calls
 * uaio_sock_ask_rests().
 */
enum { UAIO_RWF_ASKS_LATER = 0x40000000 };

/*
 * Extra flags for run(). _ON_STREAM: the file has no offsets; _ON_SOCKET: the file is a
 * SOCK_STREAM socket. (Same values as UAIO_FILE_F_STREAM and UAIO_FILE_F_SOCK_STREAM.)
 */
enum {
	UAIO_RWF_ON_STREAM = 1 << 17,
	UAIO_RWF_ON_SOCKET = 1 << 18,
	UAIO_RWF_ON = UAIO_RWF_ON_STREAM | UAIO_RWF_ON_SOCKET,
};

/* The most bytes that one call transfers, as in the kernel: MAX_RW_COUNT. */
#define UAIO_RW_BYTES_MAX ((uint64_t)0x7ffff000)

/*
 * The next submitted request starts when this one completes (link.h): with UAIO_LINK only
 * if it succeeds, with UAIO_LINK_HARD in any case.
 */
enum { UAIO_LINK = 1, UAIO_LINK_HARD = 2 };

/* While the request, or its chain, runs, no other request of its queue runs (drain.h). */
enum { UAIO_DRAIN = 4 };

/* With UAIO_LINK: after a failure, later completions of the chain are QUIET (sink.h). */
enum { UAIO_LINK_QUIET = 8 };

/* A result of run(), not an errno: the library cannot make the call without blocking. */
#define UAIO_OP_BLOCKS INT64_MIN

/*
 * What a request has to wait for. The thread that tried the request decides; uaio_place()
 * (place.h) may change the decision; the request stores it; route() in send.c acts on it.
 */
enum uaio_next {
	UAIO_NEXT_DONE, /* the request is complete, and has a result */
	/* the request waits for older requests of its inode (order.h) */
	UAIO_NEXT_WAIT_ORDER,
	/* the request waits until its pages are in the page cache (page.h) */
	UAIO_NEXT_WAIT_PAGES,
	UAIO_NEXT_WAIT_FILE, /* the request waits for its file (ready.h) */
	UAIO_NEXT_WAIT_TIME, /* the request waits for a time (timer.h) */
	/* a worker executes the request, and may block (wq.h) */
	UAIO_NEXT_WORKER,
};

/* Return: whether the request will be parked, for its file or for a time. */
static inline bool uaio_next_parks(enum uaio_next next)
{
	return next == UAIO_NEXT_WAIT_FILE || next == UAIO_NEXT_WAIT_TIME;
}

/* What is copied for a waiting request, besides its vectors. */
enum uaio_copies {
	UAIO_COPIES_NOTHING,
	UAIO_COPIES_PATH,
	UAIO_COPIES_ARGS,
};

/*
 * Which results of a request cancel the later requests of its chain (link.h). A request
 * that could not start always cancels them. With UAIO_LINK_HARD, no result cancels them.
 */
enum uaio_breaks {
	UAIO_BREAKS_BY_ERROR,
	UAIO_BREAKS_BY_LESS, /* an error, or fewer bytes than sqe.len */
	UAIO_BREAKS_NEVER,
	/* with MSG_WAITALL like BY_LESS, else like BY_ERROR */
	UAIO_BREAKS_IF_WHOLE,
};

/* How a request on a stream begins at submission. A try is a call that does not block. */
enum uaio_first {
	/* try the request, unless another request waits for the file */
	UAIO_FIRST_TRY,
	/* try the request, even if other requests wait for the file */
	UAIO_FIRST_PASS,
	/* try the request, which never waits for its file */
	UAIO_FIRST_NOW,
	UAIO_FIRST_HERE, /* make the call, which will not block */
	UAIO_FIRST_WAIT, /* wait for the file, without a try */
	/* wait for the file, which poll() has reported not ready */
	UAIO_FIRST_LOOKED,
	UAIO_FIRST_WORKER, /* a worker makes the call */
	/* If the file can be polled, wait; otherwise a worker makes the call. */
	UAIO_FIRST_ASIDE,
	/* If the file can be polled, try the call; otherwise a worker makes it. */
	UAIO_FIRST_ASIDE_TRIED,
};

/*
 * How requests of an operation begin and wait on a stream. All rows of the classes READ,
 * WRITE and POLL have these functions; several rows may share them (tries.c).
 *
 * Context: any thread, without a lock. fd: the file's descriptor, or another descriptor
 * of its open file.
 */
struct uaio_op_tries {
	/* Return: how the submitting call begins a request. */
	enum uaio_first (*first)(const struct uaio_sqe *sqe, int fd);
	/* Return: whether a call that might block would fail at once instead. */
	bool (*fails_at_once)(const struct uaio_sqe *sqe, int fd);
	/* Return: whether a request that has waited must keep waiting, without a try. */
	bool (*waits_on)(const struct uaio_sqe *sqe, int fd);
	/*
	 * Return: whether a request that already has the result res must still wait
	 * until its file is ready. has_begun: an earlier call has transferred bytes.
	 */
	bool (*waits_to_end)(const struct uaio_sqe *sqe,
			     const struct uaio_file *file, int fd,
			     bool has_begun, int64_t res);
	/*
	 * Return: whether a worker repeats the call of a multishot request until one fails.
	 * Otherwise the request waits again after each call.
	 */
	bool (*takes_all)(const struct uaio_sqe *sqe, int fd);
	/*
	 * A request that fails at once (as a receive does on a listening socket) need
	 * not wait. waiting: the oldest waiting request; NULL while a thread tries the
	 * waiting requests.
	 * Return: whether to try such a request although others wait for its socket.
	 */
	bool (*passes)(const struct uaio_sqe *sqe,
		       const struct uaio_sqe *waiting, int fd);
};

/* On which credentials of the calling thread a call's result depends (proc/former.h). */
enum uaio_op_ids {
	/* the operation's class and the file decide: uaio_req_need() */
	UAIO_OP_IDS_OF_FILE,
	/* none; but the opened file keeps the thread's, which must be the submitter's */
	UAIO_OP_IDS_NONE,
	UAIO_OP_IDS_ALL,
	/* on no credentials: any thread may make the call */
	UAIO_OP_IDS_ANYBODYS,
};

struct uaio_op_def {
	alignas(64) const char *name;
	uint8_t class;         /* enum uaio_op_class */
	bool is_vectored;      /* iov is copied if the request waits */
	uint8_t copies;        /* enum uaio_copies */
	uint8_t breaks;        /* enum uaio_breaks */
	bool has_no_file;      /* requests of this operation have no file */
	bool has_ends;         /* requests have two files, in args */
	bool never_blocks : 1; /* the system call takes almost no time */
	bool is_empty : 1;     /* no system call: the result is sqe.len */
	/* the operation accepts only sockets (sock.h) */
	bool is_of_socket : 1;
	/* the operation's call may sleep on a worker; args has a sleeper (sleeper.h) */
	bool sleeps : 1;
	/* the operation closes a descriptor, and may wait for other requests */
	bool is_closing;
	uint8_t ids; /* enum uaio_op_ids */
	/* NULL: requests of this operation never wait for a file */
	const struct uaio_op_tries *tries;

	/*
	 * Refuse a request that is not safe to execute, or that can never succeed. The
	 * front-end has already checked the rules that only its own interface has.
	 * Return: 0 or -errno.
	 */
	int (*prep)(const struct uaio_sqe *sqe, const struct uaio_file *file);

	/*
	 * Make the request's system call on fd. extra_flags are added to the client's
	 * RWF_* flags. They may contain RWF_NOWAIT, UAIO_RWF_HAS_WAITED, _ASKS_LATER,
	 * _ON_STREAM and _ON_SOCKET. Without RWF_NOWAIT the call may block for ever.
	 * found belongs to the request; a RECV or RECVMSG updates it.
	 * Return: the call's result or -errno; with RWF_NOWAIT also UAIO_OP_BLOCKS.
	 */
	int64_t (*run)(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags);
};

extern const struct uaio_op_def uaio_optab[UAIO_NR_OPS];
static_assert(sizeof(struct uaio_op_def) == 64, "a row is found by a shift");

/*
 * The function that CLOSE calls, as op/ does not know which requests a descriptor has.
 * It closes fd, and treats fd's requests as close() does. If may_wait is false, and
 * closing might take long, the function does nothing. Set while the engine starts.
 * Return: as for close(); -EOPNOTSUPP: nothing was done.
 */
typedef int uaio_close_fn(int fd, bool may_wait);

extern uaio_close_fn *uaio_op_close;

/*
 * Memory in several pieces, which a front-end chooses for a request with UAIO_MSG_PIECES
 * (sock.h). The kernel's io_uring uses at most this number of buffers at once.
 */
enum { UAIO_PIECES_MAX = 256 };

struct uaio_pieces {
	unsigned nr;
	uint64_t bytes; /* of all pieces together */
	struct iovec iov[UAIO_PIECES_MAX];
};

/*
 * Functions of a front-end for its own requests: those with by_door. The front-end
 * recognises its request by the member `word` of the struct uaio_sqe. "Memory" is a
 * provided buffer. Context: the thread that executes the request, without locks.
 */
struct uaio_op_door {
	/*
	 * Choose memory for a call that may succeed: up to max bytes; 0: no limit. If
	 * may_block is true, other requests of the front-end may wait until picked() is
	 * called.
	 * Return: 0; or -errno, the request's result: no memory was chosen.
	 */
	int (*pick)(const struct uaio_sqe *sqe, uint64_t max, bool may_block,
		    struct iovec *ret_iov);
	/* The call has returned res. After an error, pick() may be called again. */
	void (*picked)(const struct uaio_sqe *sqe, int64_t res);
	/*
	 * Called instead of picked(), if the request continues: the next pick() returns
	 * the part of the chosen memory that the call has not filled.
	 */
	void (*keep)(const struct uaio_sqe *sqe, int64_t res);
	/* Return: whether keep() has kept memory. */
	bool (*has_rest)(const struct uaio_sqe *sqe);
	/* Return: whether a multishot request ends with this successful call. */
	bool (*is_last)(const struct uaio_sqe *sqe);
	/* Return: whether a call (shot) of the multishot request has succeeded. */
	bool (*has_begun)(const struct uaio_sqe *sqe);
	/*
	 * Like pick() and picked(), for struct uaio_pieces. known: how many bytes the socket
	 * still holds after a call that filled its memory; otherwise 0. keeps: whether to
	 * keep the unused memory, as keep() does. picked_pieces() returns res; or -ENOMEM,
	 * if res is -EAGAIN and the memory cannot be kept.
	 */
	int (*pick_pieces)(const struct uaio_sqe *sqe, uint64_t known,
			   bool may_block, struct uaio_pieces *ret_pieces);
	int64_t (*picked_pieces)(const struct uaio_sqe *sqe,
				 const struct uaio_pieces *pieces, int64_t res,
				 bool keeps);
	/*
	 * A receive has filled its memory, and received `bytes` bytes in all. known: how
	 * many bytes the socket still holds; 0: none, or not known.
	 * Return: whether the request chooses more memory, for the same completion.
	 */
	bool (*goes_on)(const struct uaio_sqe *sqe, uint64_t bytes,
			uint64_t known);
	/* Return: the size of the memory that the last pick() chose for the request. */
	uint64_t (*picked_bytes)(const struct uaio_sqe *sqe);
	/*
	 * Take over fd, which the request has opened.
	 * Return: the request's result.
	 */
	int64_t (*land)(const struct uaio_sqe *sqe, int fd);
	/* The request is about to be submitted. NULL without `uaio check`. */
	void (*submitted)(const struct uaio_sqe *sqe);
};

/*
 * Functions of the only front-end whose requests have by_door. Set at the engine's start.
 */
extern const struct uaio_op_door *uaio_op_door;

/* Return: the result of a request whose call returned res: a new descriptor, or -errno. */
static inline int64_t uaio_sqe_land(const struct uaio_sqe *sqe, int64_t res)
{
	return likely(!sqe->by_door) || res < 0
		       ? res
		       : uaio_op_door->land(sqe, (int)res);
}

/*
 * Choose the provided buffer of a READ_SELECT now: the request becomes a READ.
 * Return: 0; -EBADFD: the request is multishot; or the error of pick().
 */
int uaio_rw_select(struct uaio_sqe *sqe);

/* Return: 0; or -errno if a read or write must not have this priority. */
int uaio_rw_check_ioprio(uint16_t ioprio);

/* Return: whether sqe reads or writes a file that can only be polled: a pidfd or epoll. */
bool uaio_rw_can_only_poll(const struct uaio_sqe *sqe,
			   const struct uaio_file *file);

/* Return: whether the driver of fd supports polling; true if this cannot be found out. */
bool uaio_poll_is_possible(int fd);

size_t uaio_args_bytes(const struct uaio_sqe *sqe); /* args.h */
void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes);

/* Return: how many bytes the copied arguments of a waiting request have. */
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

/* Return: vector i, copied because a client's array of vectors may be misaligned. */
static inline struct iovec uaio_sqe_iov(const struct uaio_sqe *sqe, uint64_t i)
{
	struct iovec iov;

	memcpy(&iov, (const char *)sqe->iov + i * sizeof(iov), sizeof(iov));
	return iov;
}

/* Return: how many bytes a read or write requests, at most UAIO_RW_BYTES_MAX. */
static inline uint64_t uaio_sqe_bytes(const struct uaio_sqe *sqe)
{
	uint64_t bytes = 0;

	if (!uaio_optab[sqe->op].is_vectored)
		return sqe->len;
	for (uint64_t i = 0; i < sqe->len; i++)
		bytes += uaio_sqe_iov(sqe, i).iov_len;
	return bytes < UAIO_RW_BYTES_MAX ? bytes : UAIO_RW_BYTES_MAX;
}

/* Limit the sum of a request's copied vectors to UAIO_RW_BYTES_MAX. */
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
 * Called after a call that has transferred the first `bytes` bytes of sqe: make sqe
 * describe the bytes that are left. iov: the copy of the vectors that sqe points to.
 * Used vectors become empty, but stay, so their number does not change.
 */
static inline void uaio_sqe_advance(struct uaio_sqe *sqe, struct iovec *iov,
				    uint64_t bytes)
{
	if (sqe->off != UAIO_OFF_POSITION)
		sqe->off += (int64_t)bytes; /* streams have no offset */
	/* With by_door the front-end itself keeps the rest of the memory. */
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

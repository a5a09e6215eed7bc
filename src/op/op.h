/* SPDX-License-Identifier: MIT */
/*
 * Operations: how a request is described, and what can be done with it
 *
 * A front-end describes a request in a struct uaio_sqe; optab.c has one row per
 * operation, with the functions that check and execute it. The rooms above this
 * one decide on which thread and when it is executed.
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

/* The policy, and the order of a file's requests, depend on the class. */
enum uaio_op_class {
	UAIO_CLASS_READ,
	UAIO_CLASS_WRITE,
	UAIO_CLASS_RESIZE, /* changes where the file ends, or what it occupies */
	UAIO_CLASS_SYNC,
	UAIO_CLASS_ABOUT, /* about the file, and not its data */
	UAIO_CLASS_POLL,
	UAIO_NR_CLASSES, /* the classes in the policy's table */
	/*
	 * A plain system call without a file, so there is no policy to ask: if
	 * it may block, a worker executes it, for however long that takes.
	 */
	UAIO_CLASS_CALL = UAIO_NR_CLASSES,
	/* No call at all: it ends at a time, with -ETIME. */
	UAIO_CLASS_TIMER,
};

/*
 * The time of a timer is from now on, and by CLOCK_MONOTONIC, unless a flag says
 * otherwise. A time by another clock is converted once. If that clock shows less when
 * the timer is due, the timer waits on.
 */
enum {
	UAIO_TIMER_ABSOLUTE = 1,
	UAIO_TIMER_REALTIME = 2,
	UAIO_TIMER_BOOTTIME = 4,
	UAIO_TIMER_SUCCEEDS =
		8, /* what is linked to it starts when it is due */
};

/* What clients of a door count on: a row for each door, which its requests name. */
struct uaio_rules {
	/*
	 * Reads and syncs of a file have no order unless linked. Writes, changes of its size
	 * and requests at its position keep theirs.
	 */
	bool has_no_order;
	/* A request waits for a stream that is O_NONBLOCK, if it need not block for that. */
	bool waits_for_nonblock;
	/* A request waits for a socket however long the timeouts of that are. */
	bool ignores_timeouts;
	/* A write that has moved a part of its bytes ends, and moves no file's position. */
	bool ends_short_writes;
	/* A read or write of no bytes is not made where the kernel fails it. */
	bool skips_empty;
	/* A write that its file cannot make with RWF_NOWAIT just then fails with EAGAIN. */
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

/* What is known of bytes that a receive has left in its socket. */
enum uaio_rest {
	UAIO_REST_UNKNOWN,
	UAIO_REST_TO_ASK, /* whether there are some (UAIO_RWF_ASKS_LATER) */
	UAIO_REST_THERE,
	UAIO_REST_NONE, /* Multishot: so no try needs to find EAGAIN. */
	/* Multishot: NONE, unless epoll has reported the end or an error. */
	UAIO_REST_NO_BYTES,
};

/* What tells a multishot receive that its socket has no more bytes. It is asked once. */
enum uaio_empty_by {
	UAIO_EMPTY_BY_UNKNOWN,
	UAIO_EMPTY_BY_TRY,  /* SO_RCVLOWAT keeps poll() from reporting some */
	UAIO_EMPTY_BY_POLL, /* poll(), too */
	UAIO_EMPTY_BY_SHORT, /* poll(), and a receive of less than there was room for */
};

/*
 * What calls of a RECV or RECVMSG have found out of their socket. It is all 0 before the
 * first call of a request.
 */
struct uaio_found {
	uint8_t rest : 3;     /* enum uaio_rest */
	uint8_t empty_by : 2; /* enum uaio_empty_by */
};

struct uaio_sqe {
	uint8_t op;            /* enum uaio_op */
	bool is_signalled : 1; /* its completion is signalled by a descriptor */
	/* Of a socket: poll() calls it ready before the first call, or before an error ends it. */
	bool polls_first : 1;
	/*
	 * A worker is asked for: by the client, or by the door, whose thread may not make
	 * the call. On a regular file a worker executes the request; on a stream the
	 * operation's first() decides, which may have it tried at once.
	 */
	bool is_async : 1;
	/*
	 * A poll: it has a completion with MORE (sink.h) each time its file gets
	 * ready, until it is cancelled or the sink has no room. See ready.h, I10.
	 * A timer by an interval: the same each time that has passed, but no more
	 * than len times, if that is not 0. Another operation of a stream: the same
	 * each time it succeeds, until its result is 0 bytes or an error.
	 */
	bool is_multishot : 1;
	/* It is posted before the next request of its submission is issued. */
	bool posts_at_once : 1;
	bool is_fixed : 1; /* on a fixed file, not fd: submit.h's, or chain.h */
	/* Its door chooses its memory, or takes what it opens: struct uaio_op_door. */
	bool by_door : 1;
	uint8_t door; /* enum uaio_door_rules: what its client counts on */
	uint16_t
		links; /* UAIO_LINK*, UAIO_DRAIN: it is in a chain, or drains */
	uint16_t ioprio; /* 0: none asked for */
	union {
		uint32_t rw_flags;   /* RWF_* of preadv2() */
		uint32_t open_flags; /* O_* */
		uint32_t timer_flags;
		/* Flags, mode or advice of another call; of a socket: MSG_*. */
		uint32_t call_flags;
	};
	/*
	 * Of an operation without a file: the directory, or the descriptor, if
	 * its call has such; it is looked up when the call is made. In a chain,
	 * if is_fixed, the file's place.
	 */
	int fd;
	uint64_t word; /* the door's, or 0: see sink.h */
	union {
		int64_t off;   /* or UAIO_OFF_POSITION */
		uint32_t mode; /* of a new file or directory */
		int64_t time_ns;
	};
	union {
		void *buf;               /* borrows: the client's memory */
		const struct iovec *iov; /* borrows; a request owns its copy */
		const char *path;        /* the same */
		uint64_t events;         /* of poll(): the low 16 bits */
		struct uaio_args *args;  /* as iov: see args.h */
		struct uaio_called *called; /* borrows: lives until the end */
	};
	uint64_t len;  /* bytes (of a path with its 0), or number of iovecs */
	uint64_t data; /* given back in the completion */
	uint64_t key;  /* as well; requests are cancelled by it */
};

static inline const struct uaio_rules *
uaio_sqe_rules(const struct uaio_sqe *sqe)
{
	return &uaio_rules[sqe->door];
}

/*
 * As off: at the open file's own position, as read() and write(); streams have no
 * other. A read or write there that was done in part cannot be repeated, because
 * the position has moved.
 */
#define UAIO_OFF_POSITION INT64_C(-1)

/*
 * What a door has called as a request, so that it has a place among others: in a
 * chain, behind a drain. off, len and open_flags are the door's.
 */
struct uaio_called {
	/* Return: the result. Context: any thread that has entered. */
	int64_t (*call)(struct uaio_called *called, const struct uaio_sqe *sqe);
};

/*
 * One of the extra flags for run: the request has waited, and is tried again. The thread
 * that tries a write must not get SIGPIPE. Connects and reads that choose their memory
 * look at it, too. (The value is RWF_NOSIGNAL, which not all kernels know.)
 */
enum { UAIO_RWF_HAS_WAITED = 0x100 };

/*
 * Another one, of a RECV or RECVMSG with one shot: the caller asks whether the socket has
 * more, if that is TO_ASK afterwards (enum uaio_rest), by uaio_sock_ask_rests().
 */
enum { UAIO_RWF_ASKS_LATER = 0x40000000 };

/*
 * What is known of the file, in the extra flags of each call on one: it has no offsets; it is
 * a socket of type SOCK_STREAM. (The values are UAIO_FILE_F_STREAM and
 * UAIO_FILE_F_SOCK_STREAM.)
 */
enum {
	UAIO_RWF_ON_STREAM = 1 << 17,
	UAIO_RWF_ON_SOCKET = 1 << 18,
	UAIO_RWF_ON = UAIO_RWF_ON_STREAM | UAIO_RWF_ON_SOCKET,
};

/* The most bytes that one call moves, as in the kernel: MAX_RW_COUNT. */
#define UAIO_RW_BYTES_MAX ((uint64_t)0x7ffff000)

/*
 * The next request that is submitted starts when this one is complete (link.h):
 * if it has succeeded; or however it ended.
 */
enum { UAIO_LINK = 1, UAIO_LINK_HARD = 2 };

/* It, and all of its chain, has its queue to itself (drain.h). */
enum { UAIO_DRAIN = 4 };

/* Beside UAIO_LINK: if it fails, the completions of those after it are QUIET (sink.h). */
enum { UAIO_LINK_QUIET = 8 };

/* What run returns if there is no way to make the call without blocking; no errno. */
#define UAIO_OP_BLOCKS INT64_MIN

/*
 * What is to become of a request next. The thread that tries it says so. uaio_place()
 * (place.h) may change that, and the request keeps it. route(), in send.c, acts on it.
 */
enum uaio_next {
	UAIO_NEXT_DONE,       /* nothing: it is complete, with a result */
	UAIO_NEXT_WAIT_ORDER, /* it waits behind others of its inode (order.h) */
	UAIO_NEXT_WAIT_PAGES, /* until its pages, being read now, are there (page.h) */
	UAIO_NEXT_WAIT_FILE, /* until its file is ready (ready.h) */
	UAIO_NEXT_WAIT_TIME, /* until its time has come (timer.h) */
	UAIO_NEXT_WORKER, /* a worker executes it, where it may block (wq.h) */
};

/* Return: whether it parks: until its file is ready, or for a time. */
static inline bool uaio_next_parks(enum uaio_next next)
{
	return next == UAIO_NEXT_WAIT_FILE || next == UAIO_NEXT_WAIT_TIME;
}

/* What is copied if the request waits, beside vectors. */
enum uaio_copies {
	UAIO_COPIES_NOTHING,
	UAIO_COPIES_PATH,
	UAIO_COPIES_ARGS,
};

/*
 * Which result breaks the chain that a request is in (link.h). A request that could not
 * begin breaks it, too. UAIO_LINK_HARD joins a request to the next whatever its result.
 */
enum uaio_breaks {
	UAIO_BREAKS_BY_ERROR,
	UAIO_BREAKS_BY_LESS, /* also if fewer bytes than its len are moved */
	UAIO_BREAKS_NEVER,
	UAIO_BREAKS_IF_WHOLE, /* as BY_LESS if MSG_WAITALL asks for all, else BY_ERROR */
};

/* How a request of a stream begins, in the submitting call. */
enum uaio_first {
	UAIO_FIRST_TRY, /* by a call that does not wait, if no other request waits */
	UAIO_FIRST_PASS, /* by such a call, whatever waits */
	UAIO_FIRST_NOW, /* by such a call, after which it does not wait for its file */
	UAIO_FIRST_HERE, /* by the call itself, which does not wait */
	UAIO_FIRST_WAIT, /* it waits for its file, untried */
	UAIO_FIRST_LOOKED, /* it waits, as poll() says that its file is not ready */
	UAIO_FIRST_WORKER, /* a worker makes the call */
	/* It waits if its file can be polled; else a worker makes the call. */
	UAIO_FIRST_ASIDE,
	/* It is tried if its file can be polled; else a worker makes the call. */
	UAIO_FIRST_ASIDE_TRIED,
};

/*
 * How requests of an operation wait for a stream. All rows of the classes READ, WRITE and
 * POLL have these functions; rows may share them (tries.c).
 *
 * Context: any thread, without a lock. fd: the file's descriptor, or one that its open
 * file shares.
 */
struct uaio_op_tries {
	/* Return: how a request that is submitted begins. */
	enum uaio_first (*first)(const struct uaio_sqe *sqe, int fd);
	/* Return: whether a call that cannot be told not to wait fails at once. */
	bool (*fails_at_once)(const struct uaio_sqe *sqe, int fd);
	/* Return: whether a request that has waited waits on, untried. */
	bool (*waits_on)(const struct uaio_sqe *sqe, int fd);
	/*
	 * Return: whether res, the result of a call, is not to end the request before
	 * its file is ready. has_begun: an earlier call has moved bytes.
	 */
	bool (*waits_to_end)(const struct uaio_sqe *sqe,
			     const struct uaio_file *file, int fd,
			     bool has_begun, int64_t res);
	/*
	 * Return: whether a worker makes calls of a multishot request until one fails,
	 * rather than have the request wait again after each.
	 */
	bool (*takes_all)(const struct uaio_sqe *sqe, int fd);
	/*
	 * Return: whether a request is tried though others wait for its socket, as it fails
	 * at once. waiting: the first of those; NULL: that one is being tried.
	 */
	bool (*passes)(const struct uaio_sqe *sqe,
		       const struct uaio_sqe *waiting, int fd);
};

/* Which ids of a thread the calls of an operation depend on (proc/former.h). */
enum uaio_op_ids {
	UAIO_OP_IDS_OF_FILE, /* what its class and its file say */
	UAIO_OP_IDS_NONE, /* but what it opens is the thread's that makes it */
	UAIO_OP_IDS_ALL,
	UAIO_OP_IDS_ANYBODYS, /* and any thread may make them */
};

struct uaio_op_def {
	alignas(64) const char *name;
	uint8_t class;         /* enum uaio_op_class */
	bool is_vectored;      /* iov is copied if the request waits */
	uint8_t copies;        /* enum uaio_copies */
	uint8_t breaks;        /* enum uaio_breaks */
	bool has_no_file;      /* the file of its requests is NULL */
	bool has_ends;         /* it has two files, in args */
	bool never_blocks : 1; /* and takes next to no time */
	bool is_empty : 1;     /* and makes no system call: its result is len */
	bool is_of_socket : 1; /* it refuses any other file (sock.h) */
	bool sleeps : 1; /* on a worker; its args have a sleeper (sleeper.h) */
	bool is_closing; /* it may wait for other requests */
	uint8_t ids;     /* enum uaio_op_ids */
	const struct uaio_op_tries
		*tries; /* or NULL: it never waits for a file */

	/*
	 * Refuse a request that is not safe to execute, or that can never
	 * succeed. A front-end has already refused what only its interface
	 * refuses.
	 * Return: 0 or -errno.
	 */
	int (*prep)(const struct uaio_sqe *sqe, const struct uaio_file *file);

	/*
	 * Make the request's system call on fd. extra_flags are added to the
	 * client's RWF_* flags: RWF_NOWAIT, without which the call may block
	 * for however long it takes; UAIO_RWF_HAS_WAITED;
	 * UAIO_RWF_ASKS_LATER; UAIO_RWF_ON_STREAM; UAIO_RWF_ON_SOCKET.
	 * found: the request's, which a RECV or RECVMSG brings up to date.
	 * Return: the call's result or -errno; with RWF_NOWAIT also
	 * UAIO_OP_BLOCKS.
	 */
	int64_t (*run)(const struct uaio_sqe *sqe, int fd,
		       struct uaio_found *found, uint32_t extra_flags);
};

extern const struct uaio_op_def uaio_optab[UAIO_NR_OPS];
static_assert(sizeof(struct uaio_op_def) == 64, "a row is found by a shift");

/*
 * What CLOSE calls, as what a descriptor's requests are is not known here: close
 * fd, and see to the requests on it as close() does. If may_wait is false and that
 * might take long, nothing is done.
 * Return: as of close(); -EOPNOTSUPP: nothing was done. Set while the engine comes
 * up.
 */
typedef int uaio_close_fn(int fd, bool may_wait);

extern uaio_close_fn *uaio_op_close;

/*
 * Memory that a door has chosen in several pieces, for a request that takes such
 * (sock.h: UAIO_MSG_PIECES). So many buffers the kernel's io_uring takes at once.
 */
enum { UAIO_PIECES_MAX = 256 };

struct uaio_pieces {
	unsigned nr;
	uint64_t bytes; /* of all */
	struct iovec iov[UAIO_PIECES_MAX];
};

/*
 * What a door does while a request of its own is executed, of which it knows by the
 * request's word. Context: the thread that executes it, without locks.
 */
struct uaio_op_door {
	/*
	 * Choose the memory into which the request reads up to max bytes (0: as
	 * many as there is room for), just before a call that may succeed. If that
	 * may not block, other requests of the door may wait until picked().
	 * Return: 0; or -errno, which is the request's result: nothing was picked.
	 */
	int (*pick)(const struct uaio_sqe *sqe, uint64_t max, bool may_block,
		    struct iovec *ret_iov);
	/*
	 * The call has returned res. Nothing was read if that is an error, and the
	 * request may pick again.
	 */
	void (*picked)(const struct uaio_sqe *sqe, int64_t res);
	/*
	 * As picked(), of res bytes, but the request goes on with the rest of what it
	 * has picked, which pick() gives next.
	 */
	void (*keep)(const struct uaio_sqe *sqe, int64_t res);
	/* Return: whether there is such a rest. */
	bool (*has_rest)(const struct uaio_sqe *sqe);
	/* Return: whether a multishot request ends although it has succeeded. */
	bool (*is_last)(const struct uaio_sqe *sqe);
	/* Return: whether one has succeeded before. */
	bool (*has_begun)(const struct uaio_sqe *sqe);
	/*
	 * The same as pick() and picked(), in pieces. known: so many bytes are known
	 * to be there, after a call that has filled all that was picked; or 0.
	 * keeps: as keep(). The second returns res; -ENOMEM if that was -EAGAIN, and
	 * what was picked cannot be kept.
	 */
	int (*pick_pieces)(const struct uaio_sqe *sqe, uint64_t known,
			   bool may_block, struct uaio_pieces *ret_pieces);
	int64_t (*picked_pieces)(const struct uaio_sqe *sqe,
				 const struct uaio_pieces *pieces, int64_t res,
				 bool keeps);
	/*
	 * A receive has filled what it picked, so many bytes in all, and known more
	 * are there; 0: none, or that is not known.
	 * Return: whether it picks again, for the same completion.
	 */
	bool (*goes_on)(const struct uaio_sqe *sqe, uint64_t bytes,
			uint64_t known);
	/* Return: how many bytes the request has last picked. */
	uint64_t (*picked_bytes)(const struct uaio_sqe *sqe);
	/*
	 * The request has opened fd, which is the door's now.
	 * Return: the request's result.
	 */
	int64_t (*land)(const struct uaio_sqe *sqe, int fd);
	/* Where requests are checked; or NULL. The request is about to be submitted. */
	void (*submitted)(const struct uaio_sqe *sqe);
};

/* Of the one door that submits such requests. Set while the engine comes up. */
extern const struct uaio_op_door *uaio_op_door;

/* Return: the result of a request whose call has opened res, or is -errno. */
static inline int64_t uaio_sqe_land(const struct uaio_sqe *sqe, int64_t res)
{
	return likely(!sqe->by_door) || res < 0
		       ? res
		       : uaio_op_door->land(sqe, (int)res);
}

/*
 * Choose the memory of a READ_SELECT for good: from now on it is a READ.
 * Return: 0 or -errno.
 */
int uaio_rw_select(struct uaio_sqe *sqe);

/* Return: 0, or why a read or write cannot have the priority. */
int uaio_rw_check_ioprio(uint16_t ioprio);

/*
 * Return: whether it is a read or write of a file that may have neither, but can be polled:
 * a pidfd, or an epoll.
 */
bool uaio_rw_can_only_poll(const struct uaio_sqe *sqe,
			   const struct uaio_file *file);

/* Return: whether the driver of fd supports polling; true if that is not known. */
bool uaio_poll_is_possible(int fd);

size_t uaio_args_bytes(const struct uaio_sqe *sqe); /* args.h */
void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes);

/* Return: the size of the arguments that a request has a copy of, in bytes. */
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

/* Return: one of the vectors, which a client may have put at any address. */
static inline struct iovec uaio_sqe_iov(const struct uaio_sqe *sqe, uint64_t i)
{
	struct iovec iov;

	memcpy(&iov, (const char *)sqe->iov + i * sizeof(iov), sizeof(iov));
	return iov;
}

/* Return: the bytes that a read or write asks for, cut to what one call moves. */
static inline uint64_t uaio_sqe_bytes(const struct uaio_sqe *sqe)
{
	uint64_t bytes = 0;

	if (!uaio_optab[sqe->op].is_vectored)
		return sqe->len;
	for (uint64_t i = 0; i < sqe->len; i++)
		bytes += uaio_sqe_iov(sqe, i).iov_len;
	return bytes < UAIO_RW_BYTES_MAX ? bytes : UAIO_RW_BYTES_MAX;
}

/* Cut a copy of vectors to what one call moves, even if more calls are made. */
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
 * Note that bytes of sqe are done; the rest remains to be done. iov is the copy of
 * the vectors that sqe points to. Vectors that are used up stay as empty ones, so
 * that their number does not change.
 */
static inline void uaio_sqe_advance(struct uaio_sqe *sqe, struct iovec *iov,
				    uint64_t bytes)
{
	if (sqe->off != UAIO_OFF_POSITION)
		sqe->off += (int64_t)bytes; /* streams have none */
	/* The door has the rest of what it has chosen. */
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

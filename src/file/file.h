/* SPDX-License-Identifier: MIT */
/*
 * Open files: what the library remembers of each file descriptor
 *
 * The library queries the kernel once about a descriptor, and keeps the results in an entry
 * until the program closes the descriptor (close() and similar calls are interposed). A
 * two-level table, indexed by descriptor, holds the entries.
 *
 *   I1  The table holds one reference to each entry. Each request that did not complete inside
 *       the submitting call holds one, too.
 *   I2  The memory of an entry is never unmapped (slab.h). A submitter may read an entry
 *       without a reference, as a hint only: it makes its system call on the client's
 *       descriptor, which the kernel looks up again. If the descriptor is closed and reused
 *       meanwhile, the call may use the old or the new file; both are correct.
 *   I3  A waiting request belongs to the open file on which it was submitted. When the program
 *       closes the descriptor of a regular file or block device, close() waits until the
 *       system call of each request has looked up the descriptor (closing.h). Requests on a
 *       stream or device continue on a private duplicate of the descriptor (one that the
 *       library owns), or fail with -EBADF if no duplicate can be made.
 *   I4  A thread that is about to close a descriptor first removes its entry from the table.
 *       No other thread removes an entry that still describes its descriptor: otherwise the
 *       descriptor could be closed before the requests of the entry have been executed on it.
 *   I5  The entry of a fixed file (registered with an io_uring) is in no table, and owns a
 *       private duplicate from the start. So the program may close or reuse its own
 *       descriptor. Requests hold references, so the owner may put the entry while requests
 *       are in flight. While a request uses the duplicate of a regular file, the duplicate's
 *       number does not change. The number of a stream's duplicate may change between two
 *       system calls.
 *
 * Thread-safety: any thread. uaio_file_closing() and uaio_file_closed() may sleep.
 */
#ifndef UAIO_FILE_FILE_H
#define UAIO_FILE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"

struct uaio_inode;
struct uaio_tuning;

/* The file's row in the policy table, which decides where requests run (issue/policy.c). */
enum uaio_kind {
	UAIO_KIND_MEMORY, /* tmpfs, ramfs: never waits for a device */
	UAIO_KIND_CACHED, /* regular file, directory, block device */
	UAIO_KIND_DIRECT, /* regular file or block device with O_DIRECT */
	/* pipe, socket, eventfd, ...: poll() shows whether it is ready */
	UAIO_KIND_STREAM,
	UAIO_KIND_DEVICE, /* character device */
	UAIO_NR_KINDS,
};

enum {
	UAIO_FILE_F_READ = 1u << 0,     /* open for reading */
	UAIO_FILE_F_WRITE = 1u << 1,    /* open for writing */
	UAIO_FILE_F_NONBLOCK = 1u << 2, /* O_NONBLOCK was set when inspected */
	UAIO_FILE_F_APPEND = 1u << 3,   /* writes go to the end */
	UAIO_FILE_F_SYNC = 1u << 4,     /* O_SYNC or O_DSYNC */
	UAIO_FILE_F_EVENTFD = 1u << 6,  /* eventfd: allowed as aio_resfd */
	UAIO_FILE_F_OLD_READ = 1u << 7, /* reads accept no RWF_* flags */
	UAIO_FILE_F_BLOCKDEV = 1u << 8, /* block device: its size is fixed */
	UAIO_FILE_F_PATH = 1u << 9,     /* O_PATH: allows no operation */
	UAIO_FILE_F_OLD_WRITE = 1u << 10, /* writes accept no RWF_* flags */
	UAIO_FILE_F_SOCKET = 1u << 11,    /* refuses offsets */
	/* a terminal, but no pty master: terminal.h */
	UAIO_FILE_F_TERMINAL = 1u << 12,
	UAIO_FILE_F_REMOTE = 1u << 13, /* on a server that may not respond */
	UAIO_FILE_F_CERTAIN = 1u
			      << 14, /* if poll() says ready, no call blocks */
	UAIO_FILE_F_PERSONAL = 1u << 15, /* may be ready for one thread only */
	UAIO_FILE_F_USERFAULT = 1u
				<< 16, /* reads accept no RWF_* before 6.10 */
	/*
	 * An io_uring that the library has made, which is a file in memory. Such a file has no
	 * other flag, so it counts as open neither for reading nor for writing. As in the
	 * kernel, a read or write of an io_uring fails with EINVAL, not EBADF.
	 */
	UAIO_FILE_F_RING = 1u << 5,
	UAIO_FILE_F_STREAM = 1u << 17, /* has no file position */
	UAIO_FILE_F_SOCK_STREAM = 1u << 18,
	UAIO_FILE_F_EPOLL = 1u << 19,
};

/* The two lists (wait queues) in which requests wait until a file is ready (ready.h). */
enum uaio_waitq_id {
	UAIO_WAITQ_READ,
	UAIO_WAITQ_WRITE,
	UAIO_WAITQ_ERRORS, /* recvmsg(MSG_ERRQUEUE) */
	UAIO_WAITQ_POLL,
	UAIO_NR_WAITQS,
};

struct uaio_waitq {
	struct list parked; /* struct uaio_req, oldest first */
	/* atomic: number of requests parked, being tried, or on a worker */
	uint32_t nr;
	bool is_running; /* a thread is trying its requests */
	bool is_kicked;  /* kicked while is_running */

	/*
	 * Results of earlier tries, by which the library decides whether to try the next
	 * request at once.
	 */
	uint32_t nr_misses; /* atomic: requests in a row tried too early */
	/* the last try before a sleep succeeded, so such tries pay */
	bool retry_pays;
	uint32_t nr_unretried; /* requests parked while retry_pays is false */
};

struct uaio_file {
	struct uaio_slab_node node;

	/*
	 * immutable after init; atomic, since a thread without a reference may read them while
	 * the entry is reused for another file (I2)
	 */
	uint32_t kind;            /* enum uaio_kind */
	uint32_t flags;           /* UAIO_FILE_F_* */
	struct uaio_inode *inode; /* shares (ref); NULL for streams, devices */
	uint64_t dev;             /* dev and ino identify the file: */
	uint64_t ino;             /* inspect.h, uaio_is_replaced() */

	/* hints for the policy; relaxed: a lost update only costs time */
	uint32_t hit_streak;     /* cached reads in a row that did not wait */
	uint32_t nowait_refused; /* RWF_NOWAIT does not work here */

	/* owned by native.h; a hint, relaxed */
	uint32_t nr_unnative
		/* requests in a row that got EAGAIN: small ones, large ones */
		[2];
	/* the kernel has accepted RWF_NOWAIT on this file */
	uint32_t takes_nowait;

	uint64_t trace_number; /* atomic: see record.c; 0: not traced yet */
	uint32_t alignment;    /* atomic: see align.h; 0: not known yet */
	struct uaio_tuning *tuning; /* atomic; owns: see tune.h; or NULL */

	/* atomic */
	uint32_t refs;
	uint32_t nr_native;   /* requests that the kernel executes: native.h */
	uint32_t is_closing;  /* the closing thread waits until refs is 1 */
	uint32_t closer_goes; /* workers make no further calls: closing.h I3 */

	/* under lock, for streams; immutable otherwise */
	struct uaio_lock lock; /* rank FILE */
	int fd;                /* atomic */
	bool owns_fd; /* atomic: fd is a private duplicate, closed with the file */
	int reopened; /* atomic; owns: the reopened terminal (terminal.h); or -1 */
	struct list
		/* node in the list of duplicate.c, if it owns a descriptor */
		in_private;
	uint32_t nr_using; /* atomic: calls on fd in progress */
	uint32_t nr_tries; /* atomic, written under lock: tries in progress */
	/* atomic: a thread waits until nr_using and nr_tries are 0 */
	uint32_t is_awaited;

	/* owned by ready.c, under lock */
	struct uaio_waitq waitqs[UAIO_NR_WAITQS];
	struct list watches;
	/* atomic: the watch used last, a hint; or NULL */
	struct uaio_watch *last_watch;
	/* atomic: number of edges (changes of readiness) that epolls have reported; never 0 */
	uint32_t nr_edges;
	uint32_t told; /* EPOLL*: the events that the last edge reported */
	/* EPOLL*: the events for which the epoll was armed at the last edge */
	uint32_t told_of;
	/*
	 * About the edges since the polls were last run: told_by_any: the events that at least
	 * one edge reported; told_of_by_all: the events for which the epoll was armed at every
	 * edge; told_after: the value of nr_edges before the first of these edges.
	 */
	uint32_t told_by_any, told_of_by_all, told_after;
	/*
	 * EPOLL*: the events that parked polls wait for, and perhaps more; cleared when a poll
	 * is parked while no other poll is.
	 */
	uint32_t polled;
	bool is_unpollable; /* epoll refuses such files */
	bool told_of_more; /* an edge reported the end of the stream, or an error */
};

/* What file/ calls in the modules above it, which know about requests. */
struct uaio_file_ops {
	/*
	 * The program is about to close the descriptor of a regular file that has requests:
	 * wait until the descriptor may be closed (closing.h). The caller has removed file
	 * from the table, and holds the table's reference.
	 */
	void (*see_through)(struct uaio_file *file);

	/*
	 * System calls on file, whose lock is held, use the descriptor file->fd instead of
	 * `old` from now on.
	 */
	void (*moved_locked)(struct uaio_file *file, int old);

	/* The last reference is dropped; the file's descriptor is still open. */
	void (*dropped)(struct uaio_file *file);

	/*
	 * Return: whether this file in memory is a ring of the library's.
	 * Context: no lock is held.
	 */
	bool (*is_ring)(uint64_t dev, uint64_t ino);

	/* Free tuning, the measurements of a file whose entry is being freed. */
	void (*put_tuning)(struct uaio_tuning *tuning);
};

/* Called when the library starts: the table is empty. Return: 0 or -ENOMEM. */
int uaio_files_init(const struct uaio_file_ops *ops);

/* Return: the entry of fd, without a reference (I2); NULL if there is none. */
struct uaio_file *uaio_file_find(int fd);

/* Make an entry for fd, unless there is one. Return: 0, -EBADF, -ENOMEM. */
int uaio_file_open(int fd, struct uaio_file **ret_file);

/*
 * Make an entry for fd of a thread that has its own descriptor table (CLONE_FILES not set).
 * The entry is not in the table of entries. The caller owns the entry, and calls
 * uaio_file_put().
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_open_parted(int fd, struct uaio_file **ret_file);

/*
 * Make an entry for a fixed file (I5), the open file of fd. The caller owns the entry, and
 * calls uaio_file_put().
 * Return: 0, -EBADF, -ENOMEM; -EMFILE: no descriptor can be had for the duplicate.
 */
int uaio_file_fix(int fd, struct uaio_file **ret_file);

/*
 * Take a reference to the entry of fd for a request; make the entry if there is none.
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_get(int fd, struct uaio_file **ret_file);
void uaio_file_put(struct uaio_file *file);

/*
 * Take a reference to an entry that the caller found without one (I2).
 * Return: false if the entry has no references any more.
 */
bool uaio_file_try_get(struct uaio_file *file);

/*
 * Add count to an eventfd, unless its counter is full. Never blocks, except where ppoll(2)
 * fails (a seccomp filter).
 */
void uaio_file_signal(struct uaio_file *file, uint64_t count);
/* As uaio_file_signal(), for a descriptor that has no entry. */
void uaio_eventfd_add(int fd, uint64_t count);

/*
 * Begin and end a system call on the file. uaio_file_use() returns the descriptor for the
 * call. The descriptor refers to the file until uaio_file_unuse().
 */
int uaio_file_use(struct uaio_file *file);
void uaio_file_unuse(struct uaio_file *file);

/*
 * As uaio_file_use() and uaio_file_unuse(), for a thread that holds the file's lock in both
 * calls.
 */
int uaio_file_begin_try_locked(struct uaio_file *file);
void uaio_file_end_try_locked(struct uaio_file *file);

/* The caller need not have a reference (I2). */
static inline enum uaio_kind uaio_file_kind(const struct uaio_file *file)
{
	return load_relaxed(&file->kind);
}

static inline bool uaio_file_has(const struct uaio_file *file, uint32_t flags)
{
	return load_relaxed(&file->flags) & flags;
}

/*
 * Return: a count that changes whenever an epoll reports an edge (a change of readiness) of
 * the file; never 0.
 */
static inline uint32_t uaio_file_edges(const struct uaio_file *file)
{
	/*
	 * [MB:edges] [step: EDGES] acquire: the caller reads the count, then tries the file.
	 * Pairs with note_edge_locked(), in the thread to which the epoll reports an edge.
	 */
	return load_acquire(&file->nr_edges);
}

/*
 * Let the file's requests continue on a private duplicate of its descriptor. Only for streams
 * and devices: closing a duplicate of a regular file would drop the process's record locks on
 * the file (fcntl(2)).
 * Return: false if no descriptor can be had.
 */
bool uaio_file_make_private(struct uaio_file *file);

/*
 * Let the polls of a regular file continue on a private duplicate, if all of its requests are
 * polls; if no duplicate can be had, the polls fail with -EBADF. Otherwise the closing thread
 * could wait for ever. (A duplicate may drop record locks, but programs that lock files rarely
 * poll them.) The caller has removed the entry from the table.
 * Return: false if the file has other requests, or none.
 */
bool uaio_file_part_polls(struct uaio_file *file);

/*
 * The program wants to open a file at fd (dup2): if fd is a private duplicate, move the
 * duplicate to another number.
 * Return: 0; -ENOENT if fd is no duplicate; -EBUSY if a call on fd is in progress, which may
 * block for ever, or if no other descriptor can be had.
 */
int uaio_file_yield(int fd);

/*
 * Return: whether fd may have an entry, so that closing fd must be reported. Costs two loads.
 */
bool uaio_file_may_know(int fd);

/*
 * The program is about to close or replace fd: remove its entry, and wait for its requests or
 * give them a duplicate (I3). If fd has no entry, this costs two loads.
 */
void uaio_file_closing(int fd);

/*
 * Remove the entry of fd, which is about to be closed, if it has no requests and closing fd is
 * fast (uaio_closes_at_once()).
 * Return: false if not; then the entry stays.
 */
bool uaio_file_forget_idle(int fd);

/*
 * The program has closed or replaced fd: remove the entry, if another thread has meanwhile
 * made one of the old file. An entry of the file that is open at fd by now stays.
 */
void uaio_file_closed(int fd);

/* uaio_file_closing() and uaio_file_closed() for all descriptors in [first, last]. */
void uaio_file_closing_range(unsigned first, unsigned last);
void uaio_file_closed_range(unsigned first, unsigned last);

#endif /* UAIO_FILE_FILE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Open files
 *
 * What a request needs to know of its descriptor is asked of the kernel once,
 * and kept in an entry until the descriptor is closed (the calls that close are
 * interposed). A two-level table has the entries by descriptor.
 *
 * When the program closes a descriptor, waiting requests stay with the file they
 * were submitted on. On a regular file or block device, close() waits until each has
 * begun: its system call has looked up the descriptor. On a stream or a device they go
 * on with a private duplicate, or end with -EBADF if there is no number for one.
 *
 *   I1  The table holds one reference to each entry, and so does every request
 *       that was not completed inside the submitting call.
 *   I2  Entries are never unmapped (slab.h). A submitter reads one without a
 *       reference: it uses it as advice, and makes its system calls on the
 *       descriptor that its client gave, which the kernel looks up again. If
 *       the descriptor is closed and reused meanwhile, the call may go to
 *       the old file or the new one: both are right.
 *   I3  A request that waits belongs to the open file on which it was
 *       submitted. When the descriptor of a regular file is closed, the closing
 *       thread waits until all its requests have begun (closing.h). The
 *       requests of a file that may never get ready go on with a private
 *       duplicate of the descriptor.
 *   I4  A thread that is about to close a descriptor takes its entry out of the
 *       table before; as long as the entry is true, no other thread takes it
 *       out. Otherwise the descriptor could be closed while requests of the
 *       entry have yet to be executed on it.
 *
 *   I5  The entry of a fixed file is in no table: it is found by whoever has a
 *       reference, and owns a private duplicate from the start. What the program
 *       does with its own descriptor, or what is open there later, does not
 *       concern it. Requests keep the entry, so it may be put while there are
 *       some. A request on a fixed regular file uses the duplicate for as long as
 *       it lives, so that its number stays; on a stream, during each call.
 *
 * Thread-safety: any thread. uaio_file_closing() and _closed() may sleep.
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

/* Which row of the policy table a file's requests are looked up in. */
enum uaio_kind {
	UAIO_KIND_MEMORY, /* tmpfs, ramfs: never waits */
	UAIO_KIND_CACHED, /* regular file, block device, in the page cache */
	UAIO_KIND_DIRECT, /* the same with O_DIRECT */
	UAIO_KIND_STREAM, /* pipe, socket, eventfd, ...: ready or not */
	UAIO_KIND_DEVICE, /* character device */
	UAIO_NR_KINDS,
};

enum {
	UAIO_FILE_F_READ = 1u << 0,       /* open for reading */
	UAIO_FILE_F_WRITE = 1u << 1,      /* open for writing */
	UAIO_FILE_F_NONBLOCK = 1u << 2,   /* was O_NONBLOCK: it may change */
	UAIO_FILE_F_APPEND = 1u << 3,     /* writes go to the end */
	UAIO_FILE_F_SYNC = 1u << 4,       /* O_SYNC or O_DSYNC */
	UAIO_FILE_F_EVENTFD = 1u << 6,    /* may be a RESFD */
	UAIO_FILE_F_OLD_READ = 1u << 7,   /* read without RWF_*, if at all */
	UAIO_FILE_F_BLOCKDEV = 1u << 8,   /* block device: of fixed size */
	UAIO_FILE_F_PATH = 1u << 9,       /* O_PATH: allows no operation */
	UAIO_FILE_F_OLD_WRITE = 1u << 10, /* written without, if at all */
	UAIO_FILE_F_SOCKET = 1u << 11, /* refuses offsets, others ignore them */
	UAIO_FILE_F_TERMINAL = 1u << 12,  /* but not a master: terminal.h */
	UAIO_FILE_F_REMOTE = 1u << 13,    /* a server answers, or never does */
	UAIO_FILE_F_CERTAIN = 1u << 14,   /* polls ready: no call waits */
	UAIO_FILE_F_PERSONAL = 1u << 15,  /* may be ready for one thread only */
	UAIO_FILE_F_USERFAULT = 1u << 16, /* read without RWF_* before 6.10 */
	/*
	 * A ring of a door's: none of its bytes is a client's to move, so it is
	 * open neither for reading nor for writing, but that is not said (EBADF).
	 */
	UAIO_FILE_F_RING = 1u << 5,
	UAIO_FILE_F_STREAM = 1u << 17, /* has no position */
	/* A socket of type SOCK_STREAM. */
	UAIO_FILE_F_SOCK_STREAM = 1u << 18,
	UAIO_FILE_F_EPOLL = 1u << 19,
};

/* Where requests on a file that is not ready wait (ready.h). */
enum uaio_waitq_id {
	UAIO_WAITQ_READ,
	UAIO_WAITQ_WRITE,
	UAIO_WAITQ_ERRORS, /* reads of a socket's queue of errors */
	UAIO_WAITQ_POLL,
	UAIO_NR_WAITQS,
};

struct uaio_waitq {
	struct list parked; /* struct uaio_req, oldest first */
	uint32_t nr;        /* atomic: those parked, tried, or on a worker */
	bool is_running;
	bool is_kicked; /* while it was running */

	/* Whether trying pays, by what came of earlier tries. */
	uint32_t nr_misses; /* atomic: in vain when submitted, not later */
	bool retry_pays;    /* the last by the next caller was not in vain */
	uint32_t nr_unretried;
};

struct uaio_file {
	struct uaio_slab_node node;

	/*
	 * immutable after init; atomic, since a reader without a reference may
	 * look while the entry becomes another file's (I2)
	 */
	uint32_t kind;            /* enum uaio_kind */
	uint32_t flags;           /* UAIO_FILE_F_* */
	struct uaio_inode *inode; /* shares (ref); NULL for streams, devices */
	uint64_t dev;             /* both tell whether it is still this file: */
	uint64_t ino;             /* inspect.h */

	/* advice to the policy; relaxed: a lost update costs a slower try */
	uint32_t hit_streak;     /* cached reads in a row that did not wait */
	uint32_t nowait_refused; /* RWF_NOWAIT does not work here */

	/* native.h's, the same: requests in a row that the kernel gave back */
	uint32_t nr_unnative[2]; /* small ones, large ones */
	uint32_t takes_nowait;   /* it has taken one with RWF_NOWAIT */

	uint64_t trace_number;      /* atomic: record.c's; 0: not traced yet */
	uint32_t alignment;         /* atomic: align.h's; 0: not asked yet */
	struct uaio_tuning *tuning; /* atomic; owns: see tune.h; or NULL */

	/* atomic */
	uint32_t refs;
	uint32_t nr_native;  /* requests with the kernel: native.h */
	uint32_t is_closing; /* a thread waits until refs is 1 */
	uint32_t
		closer_goes; /* the closer has looked at the calls: closing.h */

	/* under lock, for streams; immutable otherwise */
	struct uaio_lock lock; /* rank FILE */
	int fd;                /* atomic */
	bool owns_fd; /* atomic: a private duplicate, closed with the file */
	int reopened; /* atomic; owns: see terminal.h; or -1 */
	struct list in_private; /* duplicate.c's: if it owns either */
	uint32_t nr_using;      /* atomic: calls on fd that are going on */
	uint32_t nr_tries; /* atomic, written under lock: the same, of tries */
	uint32_t is_awaited; /* atomic: a thread may wait until they end */

	/* ready.c's, under lock */
	struct uaio_waitq waitqs[UAIO_NR_WAITQS];
	struct list watches;
	struct uaio_watch *last_watch; /* atomic: a guess; or NULL */
	uint32_t nr_edges; /* atomic: how many an epoll reported; never 0 */
	uint32_t told;     /* EPOLL*: the events that the last one reported */
	uint32_t told_of;  /* EPOLL*: those that it could have reported */
	/*
	 * Since the polls were last run: what any edge reported, what each of them could
	 * have reported, and nr_edges before the first.
	 */
	uint32_t told_by_any, told_of_by_all, told_after;
	/* EPOLL*: what any poll waits for that was parked since there was none. */
	uint32_t polled;
	bool is_unpollable; /* epoll refuses such files */
	bool told_of_more; /* an edge reported the end of the stream, or an error */
};

/* What this room asks of the rooms above, which know of requests. */
struct uaio_file_ops {
	/*
	 * The descriptor of a regular file with requests is about to be closed:
	 * wait until it may be (closing.h). The caller has taken file out of
	 * the table, and holds the table's reference.
	 */
	void (*see_through)(struct uaio_file *file);

	/* Calls on file, whose lock is held, were made on old until now. */
	void (*moved_locked)(struct uaio_file *file, int old);

	/* The last reference is gone; the file's descriptor is still open. */
	void (*dropped)(struct uaio_file *file);

	/*
	 * Return: whether this file in memory is a ring of a door's. No lock is
	 * held.
	 */
	bool (*is_ring)(uint64_t dev, uint64_t ino);

	/* The entry is freed, and had these. */
	void (*put_tuning)(struct uaio_tuning *tuning);
};

/* Called when the library comes up: no file is known. Return: 0 or -ENOMEM. */
int uaio_files_init(const struct uaio_file_ops *ops);

/* Return: the entry of fd, without a reference (I2); NULL if there is none. */
struct uaio_file *uaio_file_find(int fd);

/* Make an entry for fd, unless there is one. Return: 0, -EBADF, -ENOMEM. */
int uaio_file_open(int fd, struct uaio_file **ret_file);

/*
 * For a thread with a descriptor table of its own: make an entry for what fd is
 * there, which is not put in the table of entries. The caller owns the entry,
 * and puts it.
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_open_parted(int fd, struct uaio_file **ret_file);

/*
 * Fix the file that fd is (I5). The caller owns the entry, and puts it.
 * Return: 0, -EBADF, -ENOMEM; -EMFILE: no descriptor can be had.
 */
int uaio_file_fix(int fd, struct uaio_file **ret_file);

/*
 * Take a reference to the entry of fd for a request; make the entry if there is
 * none. Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_get(int fd, struct uaio_file **ret_file);
void uaio_file_put(struct uaio_file *file);

/*
 * Take a reference to an entry to which the caller has none (I2).
 * Return: false if the entry has none any more.
 */
bool uaio_file_try_get(struct uaio_file *file);

/*
 * Add count to an eventfd, unless its counter is full. Where ppoll(2) answers,
 * this never waits. The first is for a thread with a descriptor table of its
 * own.
 */
void uaio_eventfd_add(int fd, uint64_t count);
void uaio_file_signal(struct uaio_file *file, uint64_t count);

/*
 * Begin and end a system call on the file. uaio_file_use() returns the
 * descriptor to make it on; until uaio_file_unuse() that cannot become another
 * file.
 */
int uaio_file_use(struct uaio_file *file);
void uaio_file_unuse(struct uaio_file *file);

/* uaio_file_use() and _unuse() for a thread that holds the file's lock in both calls. */
int uaio_file_begin_try_locked(struct uaio_file *file);
void uaio_file_end_try_locked(struct uaio_file *file);

/* What the file is. The caller needs no reference. */
static inline enum uaio_kind uaio_file_kind(const struct uaio_file *file)
{
	return load_relaxed(&file->kind);
}

static inline bool uaio_file_has(const struct uaio_file *file, uint32_t flags)
{
	return load_relaxed(&file->flags) & flags;
}

/* Return: a number that changes whenever an epoll reports the file; never 0. */
static inline uint32_t uaio_file_edges(const struct uaio_file *file)
{
	/*
	 * [MB:edges] [step: EDGES] acquire: the file is tried after this. Pairs
	 * with the thread to which the epoll reports an edge.
	 */
	return load_acquire(&file->nr_edges);
}

/*
 * Have the file's requests go on with a private duplicate of its descriptor.
 * This is for streams and devices: to close a duplicate of a regular file would
 * drop the process's record locks on that file.
 * Return: false if no descriptor can be had.
 */
bool uaio_file_make_private(struct uaio_file *file);

/*
 * The same for a regular file that is in no table any more, if all of its
 * requests are polls. The closing thread cannot have them end; and programs
 * that lock files rarely poll them.
 * Return: false if the file has other requests, or none.
 */
bool uaio_file_part_polls(struct uaio_file *file);

/*
 * The client wants to open a file at fd: if that is a private duplicate, move
 * the duplicate to another number.
 * Return: 0; -ENOENT if it is none; -EBUSY if a call on it is going on, which
 * may last for ever, or if no other descriptor can be had.
 */
int uaio_file_yield(int fd);

/*
 * Return: whether there may be anything to forget when fd is closed; two loads.
 */
bool uaio_file_may_know(int fd);

/*
 * fd is about to be closed or replaced: see to the requests that wait on it
 * (I3), and forget it. If nothing is known of fd, that costs two loads.
 */
void uaio_file_closing(int fd);

/*
 * The same if nothing waits on fd, and to close it will not take long.
 * Return: whether that is so; if not, fd is not forgotten.
 */
bool uaio_file_forget_idle(int fd);

/*
 * fd has been closed or replaced: forget what was noted of it meanwhile. By now
 * another thread may have opened it again, and may close it next.
 */
void uaio_file_closed(int fd);

/* The same for all descriptors in [first, last]. */
void uaio_file_closing_range(unsigned first, unsigned last);
void uaio_file_closed_range(unsigned first, unsigned last);

#endif /* UAIO_FILE_FILE_H */

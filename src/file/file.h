/* SPDX-License-Identifier: MIT */
/*
 * Open files: what the library remembers of each file descriptor
 *
 * The library queries the kernel once about a descriptor, and keeps the results in an entry
 * until the program closes the descriptor. (The library interposes close() and similar
 * calls.) A two-level table, indexed by descriptor, holds the entries.
 *
 *   I1  The table holds one reference to each entry. Each request that did not complete inside
 *       the submitting call holds one, too.
 *   I2  The memory of an entry is never unmapped (slab.h). A submitter may read an entry
 *       without a reference, but only as a hint: it makes its system call on the client's
 *       descriptor, which the kernel looks up again. If the descriptor is closed and reused
 *       meanwhile, the call may use the old or the new file; both are correct. Calls on
 *       streams have no offset, so the submitter first checks that the flags it read are
 *       those of its descriptor (uaio_file_read_flags()).
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
 *       descriptor. Requests hold references, so the ring may drop its reference while
 *       requests are in flight. While a request uses the duplicate of a regular file, the
 *       duplicate's number does not change. The number of a stream's duplicate may change
 *       between two system calls.
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

/*
 * The kind of a file selects a row in the table of issue/policy.c, which decides where
 * the requests of the file run.
 */
enum uaio_kind {
	/* in memory (tmpfs, ramfs): never waits for a device */
	UAIO_KIND_MEMORY,
	/* regular file, directory or block device, without O_DIRECT */
	UAIO_KIND_CACHED,
	UAIO_KIND_DIRECT, /* regular file or block device with O_DIRECT */
	/* pipe, socket, eventfd, ...: poll() shows whether it is ready */
	UAIO_KIND_STREAM,
	UAIO_KIND_DEVICE, /* character device */
	UAIO_NR_KINDS,
};

enum {
	UAIO_FILE_F_READ = 1u << 0,  /* open for reading */
	UAIO_FILE_F_WRITE = 1u << 1, /* open for writing */
	/*
	 * O_NONBLOCK was set when the library queried the file; not in entries
	 * (is_nonblock)
	 */
	UAIO_FILE_F_NONBLOCK = 1u << 2,
	UAIO_FILE_F_APPEND = 1u << 3,  /* O_APPEND: writes go to the end */
	UAIO_FILE_F_SYNC = 1u << 4,    /* O_SYNC or O_DSYNC */
	UAIO_FILE_F_EVENTFD = 1u << 6, /* an eventfd: may be aio_resfd */
	/* reads of the file accept no RWF_* flags */
	UAIO_FILE_F_OLD_READ = 1u << 7,
	/* a block device: its size is fixed */
	UAIO_FILE_F_BLOCKDEV = 1u << 8,
	/* opened with O_PATH: allows no operation */
	UAIO_FILE_F_PATH = 1u << 9,
	/* writes to the file accept no RWF_* flags */
	UAIO_FILE_F_OLD_WRITE = 1u << 10,
	UAIO_FILE_F_SOCKET = 1u << 11, /* refuses offsets */
	/* a terminal, but no pseudoterminal master (terminal.h) */
	UAIO_FILE_F_TERMINAL = 1u << 12,
	/* the file is on a server, which may not respond */
	UAIO_FILE_F_REMOTE = 1u << 13,
	/* once poll() reports the file ready, no call blocks */
	UAIO_FILE_F_CERTAIN = 1u << 14,
	/*
	 * poll() may report the file ready to one thread and not to another (signalfd)
	 */
	UAIO_FILE_F_PERSONAL = 1u << 15,
	/* a userfaultfd: reads accept no RWF_* flags before Linux 6.10 */
	UAIO_FILE_F_USERFAULT = 1u << 16,
	/*
	 * An io_uring that the library has made, which is really a file in memory. The
	 * other flags are not set, so it counts as open neither for reading nor for
	 * writing. As in the kernel, a read or write of an io_uring fails with EINVAL, not
	 * EBADF.
	 */
	UAIO_FILE_F_RING = 1u << 5,
	UAIO_FILE_F_STREAM = 1u << 17, /* a stream: has no file position */
	UAIO_FILE_F_SOCK_STREAM = 1u << 18,
	UAIO_FILE_F_EPOLL = 1u << 19,
	/* no stream, but pread() (or pwrite()) fails with ESPIPE */
	UAIO_FILE_F_NO_PREAD = 1u << 20,
	UAIO_FILE_F_NO_PWRITE = 1u << 21,
};

/*
 * The wait queues of an open file: lists in which requests wait until the file is ready
 * (ready.h).
 */
enum uaio_waitq_id {
	UAIO_WAITQ_READ,
	UAIO_WAITQ_WRITE,
	UAIO_WAITQ_ERRORS, /* recvmsg(MSG_ERRQUEUE) */
	UAIO_WAITQ_POLL,
	UAIO_NR_WAITQS,
};

struct uaio_waitq {
	struct list parked; /* requests (struct uaio_req), oldest first */
	/*
	 * atomic: how many requests of this wait queue are parked in it, being tried by
	 * a thread, or on a worker
	 */
	uint32_t nr;
	bool is_running; /* a thread is trying the parked requests */
	/* while is_running: set if that thread must try the parked requests again */
	bool is_kicked;

	/*
	 * Results of earlier tries. They decide whether the library tries the next
	 * request at once.
	 */
	/*
	 * atomic: how many tries in a row by submitting calls found the file not ready.
	 * After MISSES such tries (issue/stream.c), submitting calls skip most tries;
	 * skipped tries count, too.
	 */
	uint32_t nr_misses;
	/*
	 * the last try by a thread that was about to sleep succeeded, so another such try
	 * of a parked request is worth its cost
	 */
	bool retry_pays;
	/*
	 * while retry_pays is false: counts parked requests; a thread that is about to
	 * sleep still tries one in 16 of them
	 */
	uint32_t nr_unretried;
};

struct uaio_file {
	struct uaio_slab_node node;

	/*
	 * These members do not change after init. They are atomic, since a thread without a
	 * reference may read them while the entry is reused for another file (I2).
	 */
	uint32_t kind;  /* enum uaio_kind */
	uint32_t flags; /* UAIO_FILE_F_* */
	/* owns a reference; NULL for streams, devices */
	struct uaio_inode *inode;
	/* dev and ino identify the file (uaio_is_replaced() of inspect.h) */
	uint64_t dev;
	uint64_t ino;

	/* hints for issue/policy.c; relaxed: a lost update only costs time */
	uint32_t hit_streak;     /* cached reads in a row that did not wait */
	uint32_t nowait_refused; /* whether the file refuses RWF_NOWAIT */

	/* owned by native.h; relaxed, as these counts are only hints */
	/*
	 * how many requests in a row the kernel handed back with EAGAIN: [0] small, [1]
	 * large requests (native/suits.c)
	 */
	uint32_t nr_unnative[2];
	/* whether the kernel has accepted RWF_NOWAIT on this file */
	uint32_t takes_nowait;

	/* atomic: the file's number in traces (record.c); 0: not traced yet */
	uint64_t trace_number;
	/* atomic: the alignment of direct I/O (align.h); 0: not known yet */
	uint32_t alignment;
	/* atomic; owns: measurements of the file (tune.h); or NULL */
	struct uaio_tuning *tuning;

	/* atomic */
	uint32_t refs;
	/* how many requests of the file the kernel is executing (native.h) */
	uint32_t nr_native;
	/* set while the closing thread waits until refs is 1 */
	uint32_t is_closing;
	/*
	 * set once the closing thread may stop waiting: a worker then finishes its
	 * present call on fd, and makes no other (closing.h, I3)
	 */
	uint32_t closer_goes;
	/* O_NONBLOCK was set when the library last looked; changes under files.lock */
	uint32_t is_nonblock;

	/*
	 * The descriptors of the file: `fd`, `owns_fd` and `reopened` change only under
	 * the lock.
	 */
	struct uaio_lock lock; /* rank FILE */
	int fd;                /* atomic */
	bool owns_fd; /* atomic: fd is a private duplicate, closed with the file */
	int reopened; /* atomic; owns: the reopened terminal (terminal.h); or -1 */
	/* node of duplicate.c's list, while the file owns a descriptor */
	struct list in_private;
	uint32_t nr_using; /* atomic: how many calls on fd are in progress */
	/*
	 * atomic, written under lock: how many tries of requests on fd are in progress
	 */
	uint32_t nr_tries;
	/* atomic: a thread waits until nr_using and nr_tries are 0 */
	uint32_t is_awaited;

	/* owned by ready.c; these members change under the lock */
	struct uaio_waitq waitqs[UAIO_NR_WAITQS];
	struct list watches;
	/* atomic: the watch used last, as a hint; or NULL */
	struct uaio_watch *last_watch;
	/* atomic: number of edges (changes of readiness) that epolls have reported; never 0 */
	uint32_t nr_edges;
	uint32_t told; /* EPOLL*: the events that the last edge reported */
	/*
	 * EPOLL*: the events for which the epoll was armed when it reported the last edge
	 */
	uint32_t told_of;
	/*
	 * These three members describe the edges (reports of an epoll) since parked polls
	 * were last tried. told_by_any: the events that at least one edge reported.
	 * told_of_by_all: the events for which the epoll was armed at each edge.
	 * told_after: the value of nr_edges when the polls were last tried.
	 */
	uint32_t told_by_any, told_of_by_all, told_after;
	/*
	 * EPOLL*: all events that parked polls wait for. Events of polls that have
	 * ended may still be set: they are cleared when the next poll is parked in an
	 * empty list.
	 */
	uint32_t polled;
	bool is_unpollable; /* epoll refuses the file (EPERM) */
	bool told_of_more; /* an edge reported the end of the stream, or an error */
};

/*
 * file/ does not know what a request is. It calls these functions of higher modules for
 * what concerns requests.
 */
struct uaio_file_ops {
	/*
	 * The program is about to close the descriptor of a regular file that has
	 * requests: wait until the descriptor may be closed (closing.h). The caller has
	 * removed `file` from the table, and holds the table's reference.
	 */
	void (*see_through)(struct uaio_file *file);

	/*
	 * The library now makes its system calls on file->fd instead of `old`. The
	 * file's lock is held.
	 */
	void (*moved_locked)(struct uaio_file *file, int old);

	/*
	 * The last reference to the entry is dropped. The file's descriptor is still open.
	 */
	void (*dropped)(struct uaio_file *file);

	/*
	 * Return: whether this file in memory is one of the library's rings. Context: no
	 * lock is held.
	 */
	bool (*is_ring)(uint64_t dev, uint64_t ino);

	/* Free the measurements (tuning) of a file whose entry is being freed. */
	void (*put_tuning)(struct uaio_tuning *tuning);
};

/*
 * Called when the library starts: make an empty table.
 * Return: 0 or -ENOMEM.
 */
int uaio_files_init(const struct uaio_file_ops *ops);

/* Return: the entry of fd, without a reference (I2); NULL if there is none. */
struct uaio_file *uaio_file_find(int fd);

/*
 * Find the entry of fd; make one if there is none.
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_open(int fd, struct uaio_file **ret_file);

/*
 * Make an entry for a descriptor of the calling thread, which has its own descriptor table
 * (made without CLONE_FILES). The entry is not in the library's table of entries. The
 * caller owns the entry, and drops it by uaio_file_put().
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_open_parted(int fd, struct uaio_file **ret_file);

/*
 * Make an entry for a fixed file (I5), the open file of fd. The caller owns the entry, and
 * drops it by uaio_file_put().
 * Return: 0, -EBADF, -ENOMEM; -EMFILE: no descriptor is left for the duplicate.
 */
int uaio_file_fix(int fd, struct uaio_file **ret_file);

/*
 * Take a reference to the entry of fd for a request; make the entry if there is none.
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_get(int fd, struct uaio_file **ret_file);
void uaio_file_put(struct uaio_file *file);

/*
 * Take a reference to an entry to which the caller has none (I2).
 * Return: false if the entry has no references any more.
 */
bool uaio_file_try_get(struct uaio_file *file);

/*
 * Add `count` to an eventfd. If its counter is full, do nothing. Never blocks, except
 * where ppoll(2) fails (a seccomp filter).
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
 * As uaio_file_use() and uaio_file_unuse(), for a thread that holds the file's lock
 * when it calls these functions.
 */
int uaio_file_begin_try_locked(struct uaio_file *file);
void uaio_file_end_try_locked(struct uaio_file *file);

/*
 * Return: the file's kind; only a hint, as the caller may have no reference (I2).
 */
static inline enum uaio_kind uaio_file_kind(const struct uaio_file *file)
{
	return load_relaxed(&file->kind);
}

/*
 * Read the flags of an entry of fd, to which the caller may have no reference.
 * Return: whether *ret_flags (UAIO_FILE_F_*) are those of fd. If another thread has
 * closed fd, the entry may describe another file by now (I2).
 */
static inline bool uaio_file_read_flags(const struct uaio_file *file, int fd,
					uint32_t *ret_flags)
{
	/*
	 * [MB:reused] acquire: this thread reads the flags before it reads the slot. Pairs
	 * with classify().
	 */
	*ret_flags = load_acquire(&file->flags);
	return uaio_file_find(fd) == file;
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
	 * [MB:edges] [step: EDGES] acquire: the caller reads the count, then tries a
	 * request on the file. Pairs with note_edge_locked(), in the thread to which
	 * the epoll reports an edge.
	 */
	return load_acquire(&file->nr_edges);
}

/*
 * Let the file's requests continue on a private duplicate of its descriptor. Only for
 * streams and devices: closing a duplicate of a regular file would drop the process's
 * record locks on the file (fcntl(2)).
 * Return: false if no descriptor is left for the duplicate.
 */
bool uaio_file_make_private(struct uaio_file *file);

/*
 * The program closes a regular file, and the caller has removed its entry from the table.
 * If all requests of the file are polls, let them continue on a private duplicate:
 * otherwise the closing thread could wait for ever. If no descriptor is left, the polls
 * fail with -EBADF. (Closing the duplicate may drop record locks, but programs that lock
 * files rarely poll them.)
 * Return: false if the file has other requests, or none.
 */
bool uaio_file_part_polls(struct uaio_file *file);

/*
 * The program wants to open a file at fd (dup2). If fd is a private duplicate, move the
 * duplicate to another descriptor.
 * Return: 0; -ENOENT if fd is no duplicate; -EBUSY if no other descriptor is left, or if a
 * call on fd is in progress, which may block for ever.
 */
int uaio_file_yield(int fd);

/*
 * Return: whether fd may have an entry. If so, a thread that closes fd must call
 * uaio_file_closing() and uaio_file_closed(). Costs two loads.
 */
bool uaio_file_may_know(int fd);

/*
 * The program is about to close or replace fd. Remove its entry, and wait for its requests
 * or give them a duplicate (I3). If fd has no entry, this costs two loads.
 */
void uaio_file_closing(int fd);

/*
 * fcntl(F_SETFL) is about to set open_flags for fd, or, if open_flags is negative, has
 * returned. If this changes O_APPEND or O_DIRECT of a regular file or block device, do
 * what uaio_file_closing() does. Otherwise the entry stays, with its requests.
 */
void uaio_file_flags_change(int fd, int open_flags);

/*
 * fd is about to be closed. If its entry has no requests, and closing fd is fast
 * (uaio_closes_at_once()), remove the entry.
 * Return: false if the entry stays.
 */
bool uaio_file_forget_idle(int fd);

/*
 * The program has closed or replaced fd. If another thread has meanwhile made an entry
 * of the old file, remove this entry. An entry of the file that is open at fd by now
 * stays.
 */
void uaio_file_closed(int fd);

/* uaio_file_closing() and uaio_file_closed() for all descriptors in [first, last]. */
void uaio_file_closing_range(unsigned first, unsigned last);
void uaio_file_closed_range(unsigned first, unsigned last);

#endif /* UAIO_FILE_FILE_H */

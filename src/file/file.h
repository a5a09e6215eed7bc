/* SPDX-License-Identifier: MIT */
/*
 * Open files
 *
 * What a request needs to know of its descriptor, asked of the kernel once and
 * kept in a two-level table by descriptor number until the number is closed
 * (the calls that close are interposed).
 *
 *   I1  The table holds one reference to each entry; every request that was
 *       not completed inside the submitting call holds one.
 *   I2  Entries are never unmapped (slab.h). A submitter reads one without a
 *       reference: it takes advice from it and makes its system calls on the
 *       number its client gave, as the kernel would look it up itself. If the
 *       number is closed meanwhile, either file is right.
 *   I3  A request that waits belongs to the open file it was submitted on. On
 *       a regular file the closer waits until all have begun (closing.h); on
 *       one that may never get ready they move to a private duplicate.
 *   I4  Who closes a number takes its entry out before, and nobody else does
 *       while the entry says what the number is: else the number could go
 *       while requests of the entry are still to be made on it.
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
struct uaio_widths;

/* Which row of the policy table a file's requests are looked up in. */
enum uaio_kind {
	UAIO_KIND_MEMORY, /* tmpfs, ramfs: never waits */
	UAIO_KIND_CACHED, /* regular or block device, through the page cache */
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
	UAIO_FILE_F_STREAM = 1u << 5,     /* has no position */
	UAIO_FILE_F_EVENTFD = 1u << 6,    /* may be a RESFD */
	UAIO_FILE_F_OLD_READ = 1u << 7,   /* read without flags, if at all */
	UAIO_FILE_F_BLOCKDEV = 1u << 8,   /* of fixed size */
	UAIO_FILE_F_PATH = 1u << 9,       /* O_PATH: no operation at all */
	UAIO_FILE_F_OLD_WRITE = 1u << 10, /* the same of writing */
	UAIO_FILE_F_SOCKET = 1u << 11, /* refuses offsets, others ignore them */
	UAIO_FILE_F_TERMINAL = 1u << 12, /* and no master: terminal.h */
	UAIO_FILE_F_REMOTE = 1u << 13,   /* a server answers, or never does */
	UAIO_FILE_F_CERTAIN = 1u << 14,  /* what polls ready can be made */
	UAIO_FILE_F_PERSONAL = 1u << 15, /* may be ready for one thread only */
	UAIO_FILE_F_USERFAULT = 1u
				<< 16, /* read in the older way before 6.10 */
};

/* Where requests on a file that is not ready wait (ready.h). */
enum uaio_lane_id {
	UAIO_LANE_READ,
	UAIO_LANE_WRITE,
	UAIO_LANE_POLL,
	UAIO_NR_LANES,
};

struct uaio_lane {
	struct list parked; /* struct uaio_req, oldest first */
	uint32_t nr;        /* atomic: those in it, being tried, on a worker */
	bool is_running;
	bool is_kicked; /* while it was running */

	/* What trying is worth, by what came of it. */
	uint32_t nr_misses; /* atomic: in vain when submitted, not later */
	bool retry_pays;    /* the last by who called in next was not in vain */
	uint32_t nr_unretried;
};

struct uaio_file {
	struct uaio_slab_node node;

	/*
	 * Immutable after init; atomic, because a reader without a reference
	 * may look while the entry becomes another file's (I2)
	 */
	uint32_t kind;            /* enum uaio_kind */
	uint32_t flags;           /* UAIO_FILE_F_* */
	struct uaio_inode *inode; /* shares (ref); NULL for streams, devices */
	uint64_t dev;             /* identity.h: to know it again by */
	uint64_t ino;

	/* advice to the policy; relaxed: a lost update costs a slower try */
	uint32_t hit_streak;     /* cached reads in a row that did not wait */
	uint32_t nowait_refused; /* RWF_NOWAIT does not work here */

	uint32_t alignment;         /* atomic: align.h's; 0: nobody asked yet */
	struct uaio_widths *widths; /* atomic; owns: see width.h; or NULL */

	/* atomic */
	uint32_t refs;
	uint32_t is_closing; /* somebody waits for refs to become 1 */
	uint32_t is_left;    /* and may go while calls are made: closing.h */

	/* under lock, for streams; immutable otherwise */
	struct uaio_lock lock; /* rank FILE */
	int fd;                /* atomic */
	bool owns_fd; /* atomic: a private duplicate, closed with the file */
	int anew;     /* atomic; owns: see terminal.h; or -1 */
	struct list in_private; /* number.c's: if it owns either */
	uint32_t nr_using;   /* atomic: calls on fd being made (not closing) */
	uint32_t is_awaited; /* atomic: somebody may wait for them */

	/* ready.c's, under lock */
	struct uaio_lane lanes[UAIO_NR_LANES];
	struct list watches;
	struct uaio_watch *last_watch; /* atomic: a guess; or NULL */
	uint32_t nr_edges;  /* atomic: that were told of it; never 0 */
	uint32_t told;      /* EPOLL*: what the latest said */
	uint32_t told_of;   /* EPOLL*: of which of these it would say it */
	bool is_unpollable; /* the epoll refuses such files */
};

/* What files ask of what has requests on them, and waits for them. */
struct uaio_file_ops {
	/*
	 * The number of a regular file that has requests is being closed: wait
	 * until it may go (closing.h). The caller has taken file out of the
	 * table, and holds the table's reference.
	 */
	void (*see_through)(struct uaio_file *file);

	/* The number of file, whose lock is held, was old. */
	void (*moved_locked)(struct uaio_file *file, int old);

	/* The last reference of file is gone, its number is open yet. */
	void (*dropped)(struct uaio_file *file);

	/* The file goes, and has these. */
	void (*put_widths)(struct uaio_widths *widths);
};

/* From nothing. Return: 0 or -ENOMEM. */
int uaio_files_init(const struct uaio_file_ops *ops);

/* Return: the entry of fd, borrowed under I2; NULL if there is none. */
struct uaio_file *uaio_file_find(int fd);

/* Make the entry of fd. Return: 0, -EBADF, -ENOMEM. */
int uaio_file_open(int fd, struct uaio_file **ret_file);

/*
 * An entry that is in no table: of what fd is to a thread with a descriptor
 * table of its own. It is the caller's, who puts it.
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_open_parted(int fd, struct uaio_file **ret_file);

/*
 * Take a reference to the entry of fd for a request, opening it if needed.
 * Return: 0, -EBADF, -ENOMEM.
 */
int uaio_file_get(int fd, struct uaio_file **ret_file);
void uaio_file_put(struct uaio_file *file);

/*
 * Take a reference to an entry that is borrowed under I2.
 * Return: false if the last one is gone.
 */
bool uaio_file_try_get(struct uaio_file *file);

/* Add count to the eventfd. Never waits. */
void uaio_file_signal(struct uaio_file *file, uint64_t count);

/*
 * The number to make a call on, and the end of that call; between the two the
 * number cannot come to mean another file.
 */
int uaio_file_use(struct uaio_file *file);
int uaio_file_use_locked(struct uaio_file *file); /* of a stream or device */
void uaio_file_unuse(struct uaio_file *file);

/* What the file is, for readers without a reference. */
static inline enum uaio_kind uaio_file_kind(const struct uaio_file *file)
{
	return load_relaxed(&file->kind);
}

static inline bool uaio_file_has(const struct uaio_file *file, uint32_t flags)
{
	return load_relaxed(&file->flags) & flags;
}

/* Return: a number that changes when the file was told to be ready; never 0. */
static inline uint32_t uaio_file_edges(const struct uaio_file *file)
{
	/*
	 * [MB:edges] acquire: before the file is tried. Pairs with the one who
	 * was told.
	 */
	return load_acquire(&file->nr_edges);
}

/*
 * Let the file's requests go on with a private duplicate of its descriptor.
 * For streams and devices: closing a duplicate of a regular file would
 * drop the process's record locks on it.
 * Return: false if the descriptor table is full.
 */
bool uaio_file_make_private(struct uaio_file *file);

/*
 * The same for a regular file, in no table any more, of which polls are all that
 * is left: none can be made to end, and few that lock files poll them.
 * Return: false if the file has other requests, or none.
 */
bool uaio_file_part_polls(struct uaio_file *file);

/*
 * The client wants the number of a private duplicate: move to another.
 * Return: 0; -ENOENT: fd is none; -EBUSY: a call on it is under way, which may
 * last for ever, or the descriptor table is full.
 */
int uaio_file_yield(int fd);

/* Return: whether there is anything to forget when fd is closed; two loads. */
bool uaio_file_may_know(int fd);

/*
 * fd is about to be closed or replaced: forget it, after seeing to the
 * requests that wait on it (I3). With nothing known of fd these are two loads.
 */
void uaio_file_closing(int fd);

/*
 * fd has been closed or replaced: forget what was made of it on the way there.
 * It may be open again by now, by another thread, and closed by that one next.
 */
void uaio_file_closed(int fd);

/* The same for all of [first, last]. */
void uaio_file_closing_range(unsigned first, unsigned last);
void uaio_file_closed_range(unsigned first, unsigned last);

#endif /* UAIO_FILE_FILE_H */

/* SPDX-License-Identifier: MIT */
/*
 * slowfs: a file system whose reads, writes and syncs wait until the test lets
 * them go, or take as long as it says, and fail when it says so
 *
 * A FUSE server in a process of its own, without libfuse: a flat directory of
 * files in memory, of at most 64 MiB each. A call that is held is answered when it
 * is let go, in order of arrival, or with EINTR if its caller is killed. Nothing
 * is cached, unless the server was started so, and O_DIRECT is supported: each
 * read or write of a client is one call here, or several of at most 1 MiB, one
 * after another. Calls of several clients are served at the same time, including
 * writes that do not extend a file.
 *
 * The server ends with the thread that started it, which takes the mount's
 * answers away (ENOTCONN) but not the mount: start it in a mount namespace of
 * the test's own (test/oracle/sandbox.py).
 *
 * Thread-safety: any thread, and any process forked since the start.
 */
#ifndef SLOWFS_H
#define SLOWFS_H

#include <stdbool.h>
#include <stdint.h>

enum slowfs_op {
	SLOWFS_READ,
	SLOWFS_WRITE,
	SLOWFS_SYNC,
	SLOWFS_ATTRIBUTES, /* of a file, when they are asked for */
	SLOWFS_NR_OPS,
};

/* The most of a call: reads and writes of more are several. */
enum { SLOWFS_CALL_BYTES = 1 << 20 };

struct slowfs;

/* What a call does instead: fail, or make no more than so many bytes. */
struct slowfs_fault {
	int error; /* 0, or as EIO */
	uint32_t bytes;
};

/*
 * Mount it on the folder, which is made.
 * Return: it, or NULL with errno: this user or machine cannot.
 */
struct slowfs *slowfs_start(const char *folder);
/* The same, but no read is of more bytes, a multiple of 4096. */
struct slowfs *slowfs_start_in_pieces(const char *folder, uint32_t read_bytes);
/*
 * The same, but files are read through the page cache, which keeps them when
 * they are closed. Writes are calls here, and are in the cache then.
 */
struct slowfs *slowfs_start_cached(const char *folder);
/*
 * The same as slowfs_start(), but the kernel's own AIO waits for no O_DIRECT
 * call, as on a device.
 */
struct slowfs *slowfs_start_async(const char *folder);
/*
 * The same as slowfs_start_async(), but a write keeps others of its file waiting until
 * its call returns. The kernel's AIO waits with more than background_max requests that
 * are not answered.
 */
struct slowfs *slowfs_start_locking(const char *folder,
				    uint16_t background_max);
void slowfs_stop(struct slowfs *fs);
/*
 * Return: whether close(2) leaves writes alone that are held, where nothing is cached.
 * Before Linux 5.16 it waits for them in the kernel.
 */
bool slowfs_closes_at_once(const struct slowfs *fs);

/* From now on the operation is held, until it is released with all held. */
void slowfs_hold(struct slowfs *fs, enum slowfs_op op);
void slowfs_release(struct slowfs *fs, enum slowfs_op op);

/* Answer those held calls that go over this byte of a file. */
void slowfs_release_at(struct slowfs *fs, enum slowfs_op op, uint64_t off);

/* From now on each takes so long, however many there are at the same time. */
void slowfs_delay(struct slowfs *fs, enum slowfs_op op, unsigned us);

/* Return once so many are held; a minute without ends the process. */
void slowfs_await(struct slowfs *fs, enum slowfs_op op, unsigned nr);

/* Who makes a call, as the kernel tells the server. */
struct slowfs_caller {
	uint32_t uid, gid;
	uint32_t
		process; /* that the calling thread is of; 0: there was no call */
};

/* From now on the server notes who makes each call. */
void slowfs_note_callers(struct slowfs *fs);
/* Return: who made the last call with this number, FUSE_* of <linux/fuse.h>. */
struct slowfs_caller slowfs_caller(const struct slowfs *fs, uint32_t opcode);

/* Return: how many have been carried out so far, those with a fault too. */
unsigned slowfs_nr_done(struct slowfs *fs, enum slowfs_op op);
/* Return: how many were held, or took their time, at once, since last asked. */
unsigned slowfs_most_held(struct slowfs *fs, enum slowfs_op op);

/*
 * A fault of all calls from now on that go over this byte of a file; or of the
 * n-th that comes from now on, 1 being the next. There may be 8 at a time.
 */
void slowfs_fault_at(struct slowfs *fs, enum slowfs_op op, uint64_t off,
		     struct slowfs_fault fault);
void slowfs_fault_nth(struct slowfs *fs, enum slowfs_op op, unsigned n,
		      struct slowfs_fault fault);
/* None any more. */
void slowfs_mend(struct slowfs *fs);

#endif /* SLOWFS_H */

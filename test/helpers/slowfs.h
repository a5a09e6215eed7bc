/* SPDX-License-Identifier: MIT */
/*
 * slowfs: a file system whose reads, writes and syncs a test can hold, delay or let
 * fail
 *
 * It is a FUSE server in its own process, without libfuse: a flat directory of files in
 * memory, of at most 64 MiB each. A held call is answered when the test releases it, in
 * order of arrival, or with EINTR if its caller is killed. Nothing is cached, except by
 * slowfs_start_cached(). O_DIRECT is supported. Each read or write of a client is one
 * call of the server, or several of at most 1 MiB, one after another. The server serves
 * calls of several clients in parallel, including writes that do not extend a file.
 *
 * The server ends with the thread that started it. The mount stays, but then fails with
 * ENOTCONN: start the server in the test's own mount namespace
 * (test/oracle/sandbox.py).
 *
 * Thread-safety: any thread, and any process forked after the start.
 */
#ifndef SLOWFS_H
#define SLOWFS_H

#include <stdbool.h>
#include <stdint.h>

enum slowfs_op {
	SLOWFS_READ,
	SLOWFS_WRITE,
	SLOWFS_SYNC,
	SLOWFS_ATTRIBUTES, /* FUSE_GETATTR of a file */
	SLOWFS_NR_OPS,
};

/* Larger reads and writes are split into calls of at most this size. */
enum { SLOWFS_CALL_BYTES = 1 << 20 };

struct slowfs;

/* How a faulty call ends: it fails, or transfers at most `bytes`. */
struct slowfs_fault {
	int error; /* 0, or a positive errno such as EIO */
	uint32_t bytes;
};

/*
 * Create the directory `folder` and mount a slow file system on it.
 * Return: the file system, or NULL with errno if this user or machine cannot.
 */
struct slowfs *slowfs_start(const char *folder);
/* Like slowfs_start(), with reads of at most read_bytes, a multiple of 4096. */
struct slowfs *slowfs_start_in_pieces(const char *folder, uint32_t read_bytes);
/*
 * Like slowfs_start(), but files are read through the page cache, which keeps them
 * after close. Writes go to the server and to the cache.
 */
struct slowfs *slowfs_start_cached(const char *folder);
/* Like slowfs_start(), but kernel AIO is asynchronous with O_DIRECT, as on a device. */
struct slowfs *slowfs_start_async(const char *folder);
/*
 * Like slowfs_start_async(), but writes to one file run one after another. The kernel's
 * io_submit blocks while background_max requests are unanswered.
 */
struct slowfs *slowfs_start_locking(const char *folder,
				    uint16_t background_max);
void slowfs_stop(struct slowfs *fs);
/*
 * Return: whether close(2) returns although writes are held. Before Linux 5.16 it waits for
 * them. Not for slowfs_start_cached().
 */
bool slowfs_closes_at_once(const struct slowfs *fs);

/* Hold all calls of the operation from now on. slowfs_release() answers all held calls. */
void slowfs_hold(struct slowfs *fs, enum slowfs_op op);
void slowfs_release(struct slowfs *fs, enum slowfs_op op);

/* Answer the held calls whose range includes this byte of a file. */
void slowfs_release_at(struct slowfs *fs, enum slowfs_op op, uint64_t off);

/*
 * Delay each call of the operation by this time from now on. Calls in parallel are each
 * delayed.
 */
void slowfs_delay(struct slowfs *fs, enum slowfs_op op, unsigned us);

/* Return when nr calls are held; after a minute, end the process. */
void slowfs_await(struct slowfs *fs, enum slowfs_op op, unsigned nr);

/* The thread that makes a call, as the kernel reports it to the server. */
struct slowfs_caller {
	uint32_t uid, gid;
	uint32_t process; /* of the caller; 0: no call yet */
};

/* From now on the server records who makes each call. */
void slowfs_note_callers(struct slowfs *fs);
/* Return: who made the last call with this opcode, FUSE_* of <linux/fuse.h>. */
struct slowfs_caller slowfs_caller(const struct slowfs *fs, uint32_t opcode);

/* Return: how many calls were executed so far, including calls with a fault. */
unsigned slowfs_nr_done(struct slowfs *fs, enum slowfs_op op);
/*
 * Return: the most calls that were held or delayed at once since the last call of this
 * function.
 */
unsigned slowfs_most_held(struct slowfs *fs, enum slowfs_op op);

/*
 * Make calls fail from now on. slowfs_fault_at(): all calls whose range includes this byte
 * of a file. slowfs_fault_nth(): the n-th call from now, counted from 1. At most 8 faults
 * can be set.
 */
void slowfs_fault_at(struct slowfs *fs, enum slowfs_op op, uint64_t off,
		     struct slowfs_fault fault);
void slowfs_fault_nth(struct slowfs *fs, enum slowfs_op op, unsigned n,
		      struct slowfs_fault fault);
/* Remove all faults. */
void slowfs_mend(struct slowfs *fs);

#endif /* SLOWFS_H */

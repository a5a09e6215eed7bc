/* SPDX-License-Identifier: MIT */
/*
 * slowfs: a file system whose reads, writes and syncs a test can hold, delay or let
 * fail
 *
 * slowfs is a FUSE server in its own process, without libfuse. It serves one flat
 * directory of files in memory, each of at most 64 MiB. When the test releases the held
 * calls, the server answers them in order of arrival. If the process that made a held
 * call is killed, the server answers that call with EINTR. Only a file system of
 * slowfs_start_cached() uses the page cache. O_DIRECT is supported. The server gets
 * each read or write of a client as one call, or as several calls of at most 1 MiB, one
 * after another. It serves calls of several clients in parallel. Since Linux 6.2 these
 * include writes to one file that do not extend the file.
 *
 * The server ends with the thread that started it. The mount stays, but then fails with
 * ENOTCONN. So start the server in the test's own mount namespace
 * (test/oracle/sandbox.py). That namespace ends with the test.
 *
 * Thread-safety: all threads, and processes forked after the start, may call these
 * functions.
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

/* The kernel splits larger reads and writes into calls of at most this size. */
enum { SLOWFS_CALL_BYTES = 1 << 20 };

struct slowfs;

/*
 * How a faulty call ends: it fails with this error. If the error is 0, it succeeds, but
 * transfers at most `bytes` bytes.
 */
struct slowfs_fault {
	int error; /* 0, or a positive errno such as EIO */
	uint32_t bytes;
};

/*
 * Create the directory `folder` and mount a slow file system on it.
 * Return: the file system; NULL with errno if this user or machine cannot mount one.
 */
struct slowfs *slowfs_start(const char *folder);
/*
 * Like slowfs_start(), but each call reads at most read_bytes, a multiple of 4096.
 */
struct slowfs *slowfs_start_in_pieces(const char *folder, uint32_t read_bytes);
/*
 * Like slowfs_start(), but reads go through the page cache, which keeps a file's data
 * after close. Writes go to the server and to the cache.
 */
struct slowfs *slowfs_start_cached(const char *folder);
/*
 * Like slowfs_start(), but kernel AIO with O_DIRECT is asynchronous, as on a disk.
 */
struct slowfs *slowfs_start_async(const char *folder);
/*
 * Like slowfs_start_async(), but the kernel runs writes to one file one after another.
 * The kernel's io_submit blocks while background_max FUSE requests are unanswered.
 */
struct slowfs *slowfs_start_locking(const char *folder,
				    uint16_t background_max);
void slowfs_stop(struct slowfs *fs);
/*
 * Return: whether close(2) returns while writes of the file are held. Before Linux
 * 5.16, close(2) waits for these writes. The result does not hold for a file system of
 * slowfs_start_cached(), because close(2) flushes the page cache.
 */
bool slowfs_closes_at_once(const struct slowfs *fs);

/*
 * Hold all calls of the operation from now on: the server leaves them unanswered, so
 * their callers wait. slowfs_release() answers the held calls, and ends the holding.
 */
void slowfs_hold(struct slowfs *fs, enum slowfs_op op);
void slowfs_release(struct slowfs *fs, enum slowfs_op op);

/* Answer the held calls whose range includes this byte of a file. */
void slowfs_release_at(struct slowfs *fs, enum slowfs_op op, uint64_t off);

/*
 * Delay each call of the operation by this time from now on. Parallel calls are each
 * delayed by this time, not one after another.
 */
void slowfs_delay(struct slowfs *fs, enum slowfs_op op, unsigned us);

/*
 * Return when the server holds nr calls of the operation. If a minute passes, end the
 * process.
 */
void slowfs_await(struct slowfs *fs, enum slowfs_op op, unsigned nr);

/* The thread that made a call, as the kernel reports it to the FUSE server */
struct slowfs_caller {
	uint32_t uid, gid;
	uint32_t process; /* id of the thread's process; 0: no call yet */
};

/* From now on the server records which thread makes each call. */
void slowfs_note_callers(struct slowfs *fs);
/*
 * Return: the thread that made the last call with this opcode, FUSE_* of
 * <linux/fuse.h>.
 */
struct slowfs_caller slowfs_caller(const struct slowfs *fs, uint32_t opcode);

/* Return: how many calls were executed so far, including calls with a fault. */
unsigned slowfs_nr_done(struct slowfs *fs, enum slowfs_op op);
/*
 * Return: the largest number of calls of the operation that were held or delayed at the
 * same time. Each call of slowfs_most_held() starts a new count.
 */
unsigned slowfs_most_held(struct slowfs *fs, enum slowfs_op op);

/*
 * Make calls of the operation end with a fault from now on. slowfs_fault_at(): all
 * calls whose range includes this byte of a file. slowfs_fault_nth(): the n-th call
 * from now, counted from 1. At most 8 faults can be set.
 */
void slowfs_fault_at(struct slowfs *fs, enum slowfs_op op, uint64_t off,
		     struct slowfs_fault fault);
void slowfs_fault_nth(struct slowfs *fs, enum slowfs_op op, unsigned n,
		      struct slowfs_fault fault);
/* Remove all faults. */
void slowfs_mend(struct slowfs *fs);

#endif /* SLOWFS_H */

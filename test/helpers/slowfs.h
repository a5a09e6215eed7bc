/* SPDX-License-Identifier: MIT */
/*
 * slowfs: a file system whose reads, writes and syncs take until they are told
 *
 * A FUSE server of its own process, without libfuse: a flat directory of files
 * in memory. What is held is answered when it is let go, in order of arrival,
 * or with EINTR if its caller is killed. Nothing is cached, so every call of a
 * client is a call here.
 *
 * The server ends with the thread that started it, which takes the mount's
 * answers away (ENOTCONN) but not the mount: start it in a mount namespace of
 * the test's own (test/oracle/sandbox.py).
 *
 * Thread-safety: any thread, and any process forked since the start.
 */
#ifndef SLOWFS_H
#define SLOWFS_H

enum slowfs_op {
	SLOWFS_READ,
	SLOWFS_WRITE,
	SLOWFS_SYNC,
	SLOWFS_NR_OPS,
};

struct slowfs;

/*
 * Mount it on the folder, which is made.
 * Return: it, or NULL with errno: this user or machine cannot.
 */
struct slowfs *slowfs_start(const char *folder);
void slowfs_stop(struct slowfs *fs);

/* From now on the operation is held, until it is released with all held. */
void slowfs_hold(struct slowfs *fs, enum slowfs_op op);
void slowfs_release(struct slowfs *fs, enum slowfs_op op);

/* Return once so many are held; a minute without ends the process. */
void slowfs_await(struct slowfs *fs, enum slowfs_op op, unsigned nr);

/* Return: how many have been carried out so far. */
unsigned slowfs_nr_done(struct slowfs *fs, enum slowfs_op op);

#endif /* SLOWFS_H */

/* SPDX-License-Identifier: MIT */
/*
 * Queries the kernel about a descriptor: kind of file, access, file system, size
 *
 * uaio_inspect() makes several system calls, and the descriptor may become another file between
 * two of them. The result is valid only if no descriptor was closed meanwhile; file.c checks
 * that.
 *
 * Thread-safety: any thread.
 * Tested by test-inspect.c and test-stale.c.
 */
#ifndef UAIO_FILE_INSPECT_H
#define UAIO_FILE_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;

struct uaio_fd_facts {
	uint32_t kind;  /* enum uaio_kind */
	uint32_t flags; /* UAIO_FILE_F_* */
	bool has_inode; /* regular file, directory or block device */
	/*
	 * st_dev and st_ino; for a block device UINT64_MAX and st_rdev. (All anonymous inodes
	 * have the same dev and ino.)
	 */
	uint64_t dev;
	uint64_t ino;
};

enum { UAIO_FD_PATH_BYTES = 40 };

/* Write the path of fd in /proc/thread-self/fd. */
void uaio_fd_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);
/* Write the path of fd in /proc/thread-self/fdinfo. */
void uaio_fdinfo_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);

/* Return: whether close() may block if fd is the last descriptor of the socket (SO_LINGER). */
bool uaio_socket_lingers(int fd);

/*
 * Return: whether close(fd) is fast even if fd is the last descriptor of its open file. False
 * for sockets that linger, for devices, and for files on a server, as close() flushes these.
 * True if fd is not open.
 */
bool uaio_closes_at_once(int fd);

/* Return: 0; -EBADF: fd is not open; another error of fstat(). */
int uaio_inspect(int fd, struct uaio_fd_facts *ret_facts);

/*
 * Return: whether fd is on a network file system or FUSE, where each call may wait for a
 * server.
 */
bool uaio_is_remote(int fd);

/*
 * Return: whether a direct O_DSYNC write to fd is synced only after the system call that
 * submits it: ext4 and XFS leave the sync to a kernel thread. btrfs syncs inside the call.
 */
bool uaio_syncs_later(int fd);

/*
 * Get the size of a regular file, as the kernel has cached it. No server is queried; the
 * kernel does not query one for a write either. Return: 0, -errno.
 */
int uaio_size_of(const struct uaio_file *file, int fd, uint64_t *ret_size);

/*
 * Return: whether fd is still the regular file that the entry was made for, and the file ends
 * at or before offset. Makes one system call. For a remote file, makes no call and returns
 * false.
 */
bool uaio_ends_by(const struct uaio_file *file, int fd, uint64_t offset);

/*
 * Return: whether fd is certainly another file than the entry was made for: a system call that
 * the library does not see has closed fd, and fd was opened again. Makes one system call. For
 * a remote file, makes no call and returns false.
 */
bool uaio_is_replaced(const struct uaio_file *file, int fd);

/*
 * Return: whether the descriptors of both entries share one open file. Before Linux 6.10 the
 * library can find this out only for sockets; for other files the result is false. Makes at
 * most one system call, which does not block.
 */
bool uaio_is_duplicate(const struct uaio_file *file,
		       const struct uaio_file *other);

#endif /* UAIO_FILE_INSPECT_H */

/* SPDX-License-Identifier: MIT */
/*
 * Queries to the kernel about a descriptor: kind of file, access mode, file system, size
 *
 * uaio_inspect() makes several system calls, and the descriptor may be replaced between two
 * of them. The result is valid only if no descriptor was closed meanwhile; file.c checks
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
	/* a regular file, directory or block device, which has an inode */
	bool has_inode;
	/*
	 * st_dev and st_ino; for a block device UINT64_MAX and st_rdev. They do not tell
	 * anonymous inodes apart.
	 */
	uint64_t dev;
	uint64_t ino;
};

enum { UAIO_FD_PATH_BYTES = 40 };

/* Store in ret_path the path of the link to fd's file: /proc/thread-self/fd/FD. */
void uaio_fd_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);
/*
 * Store in ret_path the path of the text that describes fd:
 * /proc/thread-self/fdinfo/FD.
 */
void uaio_fdinfo_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);

/* Return: whether close() of the socket's last descriptor may block (SO_LINGER). */
bool uaio_socket_lingers(int fd);

/*
 * Return: whether close(fd) is fast even if fd is the last descriptor of its open file.
 * False for sockets that linger, for devices, and for files on a server: there close()
 * may first flush data. True if fd is not open.
 */
bool uaio_closes_at_once(int fd);

/* Return: 0; -EBADF: fd is not open; another error of fstat(). */
int uaio_inspect(int fd, struct uaio_fd_facts *ret_facts);

/*
 * fcntl() is about to set open_flags (O_*) for fd, or, if open_flags is negative, may have
 * changed its flags. Store O_NONBLOCK in the entry of fd.
 * Return: false if O_APPEND or O_DIRECT differs from what the entry of a regular file
 * or block device says, or if a terminal that was O_NONBLOCK may be reopened now
 * (terminal.h). Then nothing is stored.
 */
bool uaio_take_flags(struct uaio_file *file, int fd, int open_flags);

/*
 * Return: whether fd is on a network file system or FUSE, where each call may wait for a
 * server.
 */
bool uaio_is_remote(int fd);

/*
 * Return: whether a direct O_DSYNC write to fd is synced only after the system call that
 * submits it. On ext4 and XFS a kernel thread syncs later; btrfs syncs inside the call.
 */
bool uaio_syncs_later(int fd);

/*
 * Get the size of a regular file, as the kernel has cached it. No server is queried.
 * (The kernel's own writes use this cached size, too.)
 * Return: 0, or the error of the query.
 */
int uaio_size_of(const struct uaio_file *file, int fd, uint64_t *ret_size);

/*
 * Return: whether fd is still the regular file that the entry was made for, and the file
 * ends at or before `offset`. Makes one system call. For a remote file the result is
 * false, without a call.
 */
bool uaio_ends_by(const struct uaio_file *file, int fd, uint64_t offset);

/*
 * Return: whether fd is certainly another file than the entry was made for: the program has
 * closed fd, by a system call that the library does not see, and opened it again. Makes one
 * system call. For a remote file the result is false, without a call.
 */
bool uaio_is_replaced(const struct uaio_file *file, int fd);

/*
 * Return: as uaio_is_replaced(), and also true if fd is not open, or is open for another
 * access (reading, writing) than the entry says. Makes two system calls.
 */
bool uaio_is_reopened(const struct uaio_file *file, int fd);

/*
 * Return: whether the descriptors of both entries share one open file. Makes at most one
 * system call, which does not block. Before Linux 6.10 the library can find this out only
 * for sockets; for other files the result is false.
 */
bool uaio_is_duplicate(const struct uaio_file *file,
		       const struct uaio_file *other);

#endif /* UAIO_FILE_INSPECT_H */

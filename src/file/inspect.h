/* SPDX-License-Identifier: MIT */
/*
 * What a descriptor is: what the kernel says of it, and what follows from that
 *
 * It takes several system calls, between which the descriptor may become
 * another file: the answer is only valid if nothing was closed meanwhile
 * (file.c).
 *
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
	bool has_inode; /* regular file, folder or block device */
	/*
	 * Of a block device UINT64_MAX and its device number. All anonymous
	 * inodes have the same.
	 */
	uint64_t dev;
	uint64_t ino;
};

/* Write the path of a descriptor of this thread in /proc. */
enum { UAIO_FD_PATH_BYTES = 40 };

void uaio_fd_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);
/* The same for what the kernel says of it there. */
void uaio_fdinfo_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);

/* Return: whether closing the last descriptor of a socket may take long. */
bool uaio_socket_lingers(int fd);

/*
 * Return: whether to close fd, if no other descriptor has its file, takes next to
 * no time. Not so: sockets that linger, devices, and what has to be flushed. True
 * if fd is not open.
 */
bool uaio_closes_at_once(int fd);

/* Return: false if fd is not open. */
bool uaio_inspect(int fd, struct uaio_fd_facts *ret_facts);

/*
 * Return: whether the kernel may have to ask a server about fd, which may be
 * slow.
 */
bool uaio_is_remote(int fd);

/*
 * Return: whether a direct write with O_DSYNC is synced after the call that submits it:
 * ext4 and XFS have a thread of the kernel's do that. btrfs syncs in the call.
 */
bool uaio_syncs_later(int fd);

/*
 * Find out the size of a regular file, as far as the kernel knows it: as for a
 * write, no server is asked.
 * Return: 0, -errno.
 */
int uaio_size_of(const struct uaio_file *file, int fd, uint64_t *ret_size);

/*
 * Return: whether fd is the regular file that the entry was made for, and ends at
 * that offset, or before. This takes one system call. A file of a server is not
 * asked.
 */
bool uaio_ends_by(const struct uaio_file *file, int fd, uint64_t offset);

/*
 * Return: whether fd is certainly another file than the entry was made for: it
 * was closed by a call that the library does not see, and opened again. This
 * takes one system call. A file of a server is not asked, and counts as the
 * same.
 */
bool uaio_is_replaced(const struct uaio_file *file, int fd);

/*
 * Return: whether the descriptors of both entries have the same open file. Before
 * Linux 6.10 there is no answer, and it counts as another. This takes one system call,
 * which does not wait, if both are the same inode.
 */
bool uaio_is_duplicate(const struct uaio_file *file,
		       const struct uaio_file *other);

#endif /* UAIO_FILE_INSPECT_H */

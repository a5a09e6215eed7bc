/* SPDX-License-Identifier: MIT */
/*
 * What a descriptor is: the questions to the kernel, and what they come to
 *
 * Several calls, between which the number may become another file: the answer
 * is worth something only if nothing was closed meanwhile (file.c).
 */
#ifndef UAIO_FILE_IDENTITY_H
#define UAIO_FILE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;

struct uaio_identity {
	uint32_t kind;  /* enum uaio_kind */
	uint32_t flags; /* UAIO_FILE_F_* */
	bool has_inode; /* regular files, folders, block devices */
	uint64_t dev;   /* of a block device: UINT64_MAX, and the device */
	uint64_t ino;   /* of anonymous ones: one for all */
};

/* The path by which /proc knows a descriptor of this thread. */
enum { UAIO_FD_PATH_BYTES = 40 };

void uaio_fd_path(int fd, char ret_path[UAIO_FD_PATH_BYTES]);

/* Return: false if fd is not open. */
bool uaio_identify(int fd, struct uaio_identity *ret_id);

/* Return: whether what is asked of fd may be asked of a server, who may be slow. */
bool uaio_is_remote(int fd);

/*
 * The size of a regular file, as the kernel knows it: nobody else is asked, as
 * nobody is for a write.
 * Return: 0, -errno.
 */
int uaio_size_of(const struct uaio_file *file, int fd, uint64_t *ret_size);

/*
 * Return: whether fd is surely another file than the entry was made of: it was
 * closed by a call that we do not see, and is open again. One system call; what
 * lies elsewhere is not asked.
 */
bool uaio_is_replaced(const struct uaio_file *file, int fd);

#endif /* UAIO_FILE_IDENTITY_H */

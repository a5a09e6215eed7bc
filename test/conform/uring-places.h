/* SPDX-License-Identifier: MIT */
/*
 * Functions that open, close and read files in slots of a ring's table of registered
 * files
 */
#ifndef CONFORM_URING_PLACES_H
#define CONFORM_URING_PLACES_H

#include <fcntl.h>

#include "uring.h"

enum { NR_PLACES = 8, ANY = -1 };

static char buf[100];

static inline long make_table(const struct uring *ring, uint32_t nr)
{
	struct io_uring_rsrc_register reg = {
		.nr = nr, .flags = IORING_RSRC_REGISTER_SPARSE
	};

	return uring_register(ring->fd, IORING_REGISTER_FILES2, &reg,
			      sizeof(reg));
}

static inline struct io_uring_sqe *open_of(struct uring *ring, const char *path,
					   uint32_t flags, int place)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_OPENAT, AT_FDCWD, path, 0600, 0);

	sqe->open_flags = flags;
	sqe->file_index =
		place == ANY ? IORING_FILE_INDEX_ALLOC : (uint32_t)place + 1;
	return sqe;
}

static inline void open_at(const char *key, struct uring *ring, int place)
{
	open_of(ring, "/dev/zero", O_RDONLY, place);
	try_sqe(key, ring);
}

static inline struct io_uring_sqe *close_of(struct uring *ring, int place)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_CLOSE, 0);

	sqe->file_index = (uint32_t)place + 1;
	return sqe;
}

static inline void close_at(const char *key, struct uring *ring, int place)
{
	close_of(ring, place);
	try_sqe(key, ring);
}

static inline struct io_uring_sqe *read_of(struct uring *ring, int place)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_READ, place, buf, 10, 0);

	sqe->flags = IOSQE_FIXED_FILE;
	return sqe;
}

static inline void read_at(const char *key, struct uring *ring, int place)
{
	read_of(ring, place);
	try_sqe(key, ring);
}

#endif

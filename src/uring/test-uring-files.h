/* SPDX-License-Identifier: MIT */
/* Shared by tests of registered files: a client that opens files into its table. */
#ifndef TEST_URING_FILES_H
#define TEST_URING_FILES_H

#include <fcntl.h>

#define RING_ENTRIES 64
#include "test-uring.h"

enum { NR_PLACES = 8, ANY = -1 };

static inline void make_table(uint32_t nr)
{
	struct io_uring_rsrc_register what = {
		.nr = nr, .flags = IORING_RSRC_REGISTER_SPARSE
	};

	assert_int_equal(reg(IORING_REGISTER_FILES2, &what, sizeof(what)), 0);
}

/* `place` is the slot in the table of registered files; ANY: a free slot. */
static inline struct io_uring_sqe *put_open(const char *path, uint32_t flags,
					    int place, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put_rw(&client, IORING_OP_OPENAT, AT_FDCWD,
					  path, 0600, 0, user_data);

	sqe->open_flags = flags;
	sqe->file_index =
		place == ANY ? IORING_FILE_INDEX_ALLOC : (uint32_t)place + 1;
	return sqe;
}

static inline struct io_uring_sqe *put_close(int place, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(&client, IORING_OP_CLOSE, 0, user_data);

	sqe->file_index = (uint32_t)place + 1;
	return sqe;
}

static inline struct io_uring_sqe *put_read(int place, void *byte,
					    uint64_t user_data)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, IORING_OP_READ, place, byte, 1, 0, user_data);

	sqe->flags = IOSQE_FIXED_FILE;
	return sqe;
}

#endif /* TEST_URING_FILES_H */

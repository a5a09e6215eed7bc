/* SPDX-License-Identifier: MIT */
/*
 * Files in the table of a ring: registered, opened straight into it, and closed there
 *
 *   I1  A request that changes places does so when it is executed, on any thread
 *       (rsrc.h, I3): so it finds the table as it is then, or none.
 *   I2  What a place had stays open until no request uses it.
 *
 * Tested by test-uring-register.c and test-uring-direct.c.
 */
#ifndef UAIO_URING_FILETABLE_H
#define UAIO_URING_FILETABLE_H

#include <stdint.h>

#include "uring/abi.h"

struct uaio_file;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_entry;

/*
 * io_uring_register(). Addresses are the client's; that of the tags may be 0: there
 * are none. If that of the descriptors is 0, all places are empty.
 * Return: as the call. Context: the ring is held.
 */
long uaio_uring_register_files(struct uaio_uring *ring, uint64_t fds,
			       uint32_t nr, uint64_t tags);
long uaio_uring_update_files(struct uaio_uring *ring,
			     const struct io_uring_rsrc_update2 *update,
			     uint32_t nr);
long uaio_uring_limit_places(struct uaio_uring *ring, const void *arg,
			     uint32_t nr);

/*
 * Put a file in a place of the table; it is given away, also if that fails.
 * Return: as uaio_uring_table_put_file().
 */
int uaio_uring_put_file(struct uaio_uring *ring, uint32_t place,
			struct uaio_file *file, uint64_t tag);

/*
 * openclose.c: for an operation that opens something. If the submission says so, that
 * goes to a place in the table. open_flags: O_* of what is opened, as far as they
 * matter here.
 * Return: 0; -EINVAL: O_CLOEXEC is for descriptors; -ENOMEM.
 */
int uaio_uring_prep_land(struct uaio_uring_entry *entry, uint64_t open_flags);
/* A function of struct uaio_op_door. */
int64_t uaio_uring_land(const struct uaio_sqe *sqe, int fd);

/*
 * What uaio_uring_called() does for requests that change the table, or use it, and
 * look for no path. They cannot block. Return: the result.
 */
int64_t uaio_uring_update_places(struct uaio_uring *ring,
				 const struct uaio_sqe *sqe);
int64_t uaio_uring_install(struct uaio_uring *ring, const struct uaio_sqe *sqe);
int64_t uaio_uring_make_pipe(struct uaio_uring *ring,
			     const struct uaio_sqe *sqe);

#endif /* UAIO_URING_FILETABLE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Files in the table of a ring: registered, opened straight into it, and closed there
 *
 * What a request opens has the number that the kernel gave it for a moment, until the
 * library has a duplicate of its own (uaio_file_fix()); then that is what the table
 * has, and the number is free again.
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
 * For an operation that opens something: if the submission says so, that goes to a
 * place in the table. open_flags: O_* of what is opened, as far as they matter here.
 * Return: 0; -EINVAL: O_CLOEXEC is for descriptors; -ENOMEM.
 */
int uaio_uring_prep_land(struct uaio_uring_entry *entry, uint64_t open_flags);
/* A function of struct uaio_op_door. */
int64_t uaio_uring_land(const struct uaio_sqe *sqe, int fd);

/*
 * Requests that change the table, or use it, and look for no path. Each calls the door
 * (op.h) and cannot block.
 */

/* Close a place: file_index says which. Return: 0. */
int uaio_uring_prep_close_place(struct uaio_uring_entry *entry);
/* IORING_OP_FILES_UPDATE. Return: 0, -EINVAL, -ENOMEM. */
int uaio_uring_prep_files_update(struct uaio_uring_entry *entry);
/* IORING_OP_FIXED_FD_INSTALL. Return: 0, -EINVAL, -EBADF. */
int uaio_uring_prep_install(struct uaio_uring_entry *entry);
/* IORING_OP_PIPE with a file_index. Return: 0, -EINVAL, -ENOMEM. */
int uaio_uring_prep_pipe_places(struct uaio_uring_entry *entry);
/* What uaio_uring_called() does for them. Return: the result. */
int64_t uaio_uring_call_on_files(struct uaio_uring *ring,
				 const struct uaio_sqe *sqe);

#endif /* UAIO_URING_FILETABLE_H */

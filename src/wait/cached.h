/* SPDX-License-Identifier: MIT */
/*
 * Reads out of the page cache, without waiting for the device
 *
 * Two threads ask whether a read can be answered from the page cache: the one
 * that submits it, and the one that looks whether the pages of a cold read have
 * come (page.h).
 *
 * Tested by test-policy.c and test-page.c.
 */
#ifndef UAIO_WAIT_CACHED_H
#define UAIO_WAIT_CACHED_H

#include <stdint.h>

struct uaio_file;
struct uaio_outcome;
struct uaio_sqe;

/*
 * Execute a read if the page cache has its data. file is borrowed under I2 of
 * file.h.
 * Return: the whole result; -EAGAIN if part of the data is not cached;
 * UAIO_OP_BLOCKS if the file refuses RWF_NOWAIT.
 */
int64_t uaio_read_cached(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret);

#endif /* UAIO_WAIT_CACHED_H */

/* SPDX-License-Identifier: MIT */
/*
 * Whether a descriptor that was closed was the last one of its ring
 *
 * The kernel keeps a lock of an open file (F_OFD_SETLK) until the last descriptor of
 * the open file is closed, in all processes, and the last mapping by one of them has
 * ended. So each ring's open file has such a lock, and the library maps the ring by
 * another open file, to which /proc leads. Before the program closes the last descriptor
 * that is known, the closing thread opens a witness: a descriptor of the same memory,
 * and again of another open file. If the lock is gone after the program's call, the
 * ring has no other descriptor. Otherwise the descriptors are looked at one by one
 * (table.h, I3): there may be another, or a child of fork() has one, or the program has
 * not ended its mapping.
 *
 *   I1  Without /proc, without such locks, and in a thread with a descriptor table of
 *       its own there is no witness.
 *   I2  A witness is the ring's, which has one at most (ring->witness, under the table's
 *       lock), from before the program's call until after it.
 *
 * Tested by test-uring-witness.c.
 */
#ifndef UAIO_URING_WITNESS_H
#define UAIO_URING_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_uring_mem;

/* Note in mem the numbers of the new file fd. Return: 0 or -ENOMEM. */
int uaio_uring_witness_note(struct uaio_uring_mem *mem, int fd);

/*
 * fd is the only descriptor of a ring's new open file, whose numbers are noted. Lock the
 * open file, and note whether it is locked.
 * Return: a descriptor of another open file of the memory, which is open for reading and
 * writing and which the caller closes; or -errno: the open file has no lock.
 */
int uaio_uring_witness_lock(struct uaio_uring_mem *mem, int fd);

/* Return: a witness for fd, if that is the memory with these numbers; or -errno. */
int uaio_uring_witness_open(int fd, uint64_t dev, uint64_t ino);

/* Close a witness. Return: whether the lock was gone. */
bool uaio_uring_witness_close(int witness);

#endif /* UAIO_URING_WITNESS_H */

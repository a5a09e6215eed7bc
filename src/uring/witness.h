/* SPDX-License-Identifier: MIT */
/*
 * Whether a closed descriptor was the last one of its ring
 *
 * The kernel keeps a lock of an open file (F_OFD_SETLK) until no process has a
 * descriptor or a mapping of this open file. So the library locks each ring's open
 * file, but maps the ring by a second open file, which it opens through /proc. Before
 * the program closes the last known descriptor, the closing thread opens a witness: a
 * descriptor of a third open file of the same memory. After the close, the thread queries
 * through the witness whether the lock still exists (F_OFD_GETLK). If the lock is gone,
 * the ring has no other descriptor. Else the library searches the descriptors one by
 * one (table.h, I3): the ring may have another descriptor, or a child of fork() has
 * one, or the program still maps the ring.
 *
 *   I1  No witness is opened without /proc, without F_OFD_SETLK (before Linux 3.15), or
 *       in a thread with its own descriptor table.
 *   I2  A ring has at most one witness (ring->witness, under the table's lock), from
 *       before the program's close until after it.
 *
 * Tested by test-uring-witness.c.
 */
#ifndef UAIO_URING_WITNESS_H
#define UAIO_URING_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_uring_mem;

/*
 * Store the device and inode number of the new file fd in mem.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_witness_note(struct uaio_uring_mem *mem, int fd);

/*
 * Lock the open file of a new ring, and store in mem whether this succeeded. fd is the
 * ring's only descriptor, and mem has its device and inode number.
 * Return: a descriptor of another open file of the memory, for reading and writing,
 * which the caller closes; or -errno: the open file has no lock.
 */
int uaio_uring_witness_lock(struct uaio_uring_mem *mem, int fd);

/*
 * Return: a witness for fd; or -errno. -ESTALE: fd is not the file with this device and
 * inode number.
 */
int uaio_uring_witness_open(int fd, uint64_t dev, uint64_t ino);

/*
 * Close a witness.
 * Return: true if the ring's lock is gone: no process has a descriptor or a mapping of
 * the locked open file any more.
 */
bool uaio_uring_witness_close(int witness);

#endif /* UAIO_URING_WITNESS_H */

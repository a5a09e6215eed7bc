/* SPDX-License-Identifier: MIT */
/*
 * The three io_uring system calls
 *
 * These functions take the kernel's arguments, and return the result or -errno. The
 * interposed syscall(2), liburing's functions and patched call sites call them.
 *
 * Context: any thread. In a signal handler that interrupted the library, these
 * functions return -EAGAIN. They preserve errno.
 */
#ifndef UAIO_URING_URING_H
#define UAIO_URING_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io_uring_params;

/* Mirrors io_uring_setup(2). Return: the new ring's descriptor. */
long uaio_uring_setup(uint32_t nr_entries, struct io_uring_params *params);

/* Mirrors io_uring_enter(2); the last two arguments depend on flags. */
long uaio_uring_enter(uint32_t fd, uint32_t to_submit, uint32_t min_complete,
		      uint32_t flags, const void *arg, size_t arg_bytes);

/* Mirrors io_uring_register(2). */
long uaio_uring_register(uint32_t fd, uint32_t opcode, void *arg,
			 uint32_t nr_args);

/*
 * Return: whether the library serves calls on fd. It does if fd is the descriptor of
 * one of its rings or, with is_registered, the slot of such a ring in this thread.
 * Costs one relaxed load while the process has no ring.
 */
bool uaio_uring_owns(uint32_t fd, bool is_registered);

/*
 * Return: whether the library serves an io_uring_register() call whose fd is -1. It
 * serves only IORING_REGISTER_SEND_MSG_RING, a message to the ring that the entry at
 * arg names: if that ring is the library's, or if the entry cannot be read (the call
 * then fails).
 */
bool uaio_uring_owns_message(uint32_t fd, uint32_t opcode, const void *arg);

/*
 * liburing's functions (liburing/queue.c) call this if the completion queue is empty,
 * and the program does not wait.
 * Return: whether to call io_uring_enter(), which takes 0.4 us. The call is useful if
 * the library's ring has requests that wait for files: some may complete. Exception:
 * the first call after a wait for completions returns false, because the program has
 * only just consumed the completions that it waited for.
 */
bool uaio_uring_may_complete(uint32_t fd, bool is_registered);

/* Return: whether this process, or one it forked from, made a ring of the library. */
bool uaio_uring_has_rings(void);

/* Return: whether fd is in the table of rings (table.h). */
bool uaio_uring_is_known(int fd);

/*
 * The program is about to close fd. If fd is a ring, open a witness (witness.h), by
 * which the library finds out after the close whether the ring has another descriptor.
 * Costs two loads if fd is not known to be a ring.
 */
void uaio_uring_closing(int fd);

/*
 * The program maps fd at `offset`.
 * Return: the offset to pass to the kernel's mmap() instead; `offset` itself if fd is
 * not a ring of the library.
 */
int64_t uaio_uring_map_offset(int fd, int64_t offset);

/*
 * A client has mapped `offset` of fd at this address, which is recorded for
 * ThreadSanitizer. Ignored if fd is not a ring of the library.
 */
void uaio_uring_note_mapped(int fd, const void *at, int64_t offset);

/*
 * Rings of the kernel in a process that may also have rings of the library (tctx.c).
 * Rings of both kinds share the 16 slots that a thread has for registered rings.
 *
 * Context: any thread, for calls that the kernel serves. In a signal handler that
 * interrupted the library, these functions leave out what needs the library's locks,
 * such as emptying a stale slot (table.h, I4).
 */

/*
 * The kernel has made a ring: ret is what io_uring_setup() returned. If ret is a slot
 * for registered rings, record that the slot has a ring of the kernel.
 * Return: false if a ring of the library is in this slot; then this function closes
 * the kernel's ring.
 */
bool uaio_uring_note_kernels(long ret, const struct io_uring_params *params);

/*
 * Return: whether IORING_SETUP_ATTACH_WQ of a new ring names a ring of the library.
 */
bool uaio_uring_attaches_to_ours(const struct io_uring_params *params);

/*
 * Serve IORING_REGISTER_RING_FDS or IORING_UNREGISTER_RING_FDS of a ring of the kernel;
 * a: the call's arguments. The library makes one call to the kernel for each slot, so
 * that no slot with a ring of the library is overwritten.
 */
long uaio_uring_register_kernels(const long a[4]);

#endif /* UAIO_URING_URING_H */

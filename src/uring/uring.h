/* SPDX-License-Identifier: MIT */
/*
 * The three io_uring calls
 *
 * They have the kernel's arguments, and return the result or a negative error
 * number. syscall(2), liburing's functions and patched call sites all come here.
 *
 * Context: any thread. In a signal handler that interrupted the engine they
 * return -EAGAIN. errno is not touched.
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
 * Return: whether calls on fd are answered here: it is one of our rings' (or, with
 * IORING_ENTER_REGISTERED_RING, the number of one that this thread registered).
 * A relaxed load and no more while the process has no ring.
 */
bool uaio_uring_owns(uint32_t fd, bool is_registered);

/*
 * Return: whether a call of io_uring_register() without a ring, which sends a message,
 * is answered here: it goes to one of our rings.
 */
bool uaio_uring_owns_message(uint32_t fd, uint32_t opcode, const void *arg);

/*
 * The program has found its CQ empty. Return: whether the ring is ours, and requests in it
 * wait for files, of which a call may complete some. That call takes 0.4 us. So the answer
 * is false for the first time after the program has waited: it has then only seen the end
 * of what it has waited for.
 */
bool uaio_uring_may_complete(uint32_t fd, bool is_registered);

/* Return: whether this process, or one it was forked from, made a ring of ours. */
bool uaio_uring_has_rings(void);

/* Return: whether fd is known to be a ring's. */
bool uaio_uring_is_known(int fd);

/* fd is about to be closed: two loads if it is not known to be a ring's. */
void uaio_uring_closing(int fd);

/*
 * Return: the offset at which an mmap() of fd has to map what a client asks for at
 * offset; offset itself if fd is no ring of ours.
 */
int64_t uaio_uring_map_offset(int fd, int64_t offset);

/*
 * A client has mapped what fd has at this offset, as is of interest to sanitizers of
 * threads. Nothing if that is no ring of ours.
 */
void uaio_uring_note_mapped(int fd, const void *at, int64_t offset);

/*
 * Rings of the kernel's in a process that may have rings of the library's as well
 * (tctx.c). Both kinds share the 16 slots that a thread has for registered rings.
 *
 * Context: any thread, for calls that the kernel answers. In a signal handler that
 * interrupted the engine they do what they can without it.
 */

/*
 * The kernel has made a ring: ret is what io_uring_setup() returned.
 * Return: false if its slot already belongs to a ring of the library's; the kernel's
 * ring is gone then.
 */
bool uaio_uring_note_kernels(long ret, const struct io_uring_params *params);

/* Return: whether the new ring is to share workers with a ring of the library's. */
bool uaio_uring_attaches_to_ours(const struct io_uring_params *params);

/*
 * io_uring_register() of a ring of the kernel's, with IORING_REGISTER_RING_FDS or
 * IORING_UNREGISTER_RING_FDS. A slot of one of the library's rings is in use.
 */
long uaio_uring_register_kernels(const long a[4]);

#endif /* UAIO_URING_URING_H */

/* SPDX-License-Identifier: MIT */
/*
 * What the three io_uring calls do after uring.c has checked their arguments
 *
 * Context: any thread that has called uaio_enter() (proc/entry.h).
 * uaio_uring_check_params(), the functions of uaccess.c, and the functions whose names
 * contain `kernels` do not need uaio_enter().
 *
 * Tested by test-uring-setup.c, test-uring.c and test-uring-register.c.
 */
#ifndef UAIO_URING_CALLS_H
#define UAIO_URING_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ready/waiter.h"
#include "uring/abi.h"

struct io_uring_sqe;
struct uaio_uring;

/*
 * setup.c: check params (a copy of the client's struct), and choose the ring's sizes.
 */
int uaio_uring_check_params(uint32_t nr_entries,
			    struct io_uring_params *params);
/*
 * Make a ring, and set params->features and the offsets that io_uring_setup() returns.
 * Return: the ring's descriptor, or -errno.
 */
int uaio_uring_make(struct io_uring_params *params);

/* The arguments of an io_uring_enter() call. */
struct uaio_uring_enter {
	uint32_t fd;
	uint32_t to_submit;
	uint32_t min_complete;
	uint32_t flags;
	const void *arg;
	size_t arg_bytes;
};

/* enter.c */
long uaio_uring_do_enter(const struct uaio_uring_enter *call);

/*
 * Find the ring of an io_uring_register() call, by its descriptor or by its slot in
 * this thread (tctx.c).
 * Return: NULL if there is no such ring; *ret_error says why.
 */
struct uaio_uring *uaio_uring_named(uint32_t fd, bool is_registered,
				    long *ret_error);
/*
 * register.c: the part of io_uring_register() that needs a ring. The caller holds the
 * ring (ring.h, I2).
 */
long uaio_uring_do_register(struct uaio_uring *ring, uint32_t opcode, void *arg,
			    uint32_t nr_args);

/*
 * tctx.c: this thread's slots for registered rings (IORING_REGISTER_RING_FDS). A slot
 * keeps its ring alive.
 */

/* Return: the ring in slot `place` of this thread; NULL if the slot is empty. */
struct uaio_uring *uaio_uring_registered(uint32_t place);
/* Record that this thread makes a ring. */
void uaio_uring_meet_thread(void);
/*
 * Return: whether this thread ever made or registered a ring. If not, its calls that name
 * an empty slot fail with EINVAL instead of EBADF, as in the kernel.
 */
bool uaio_uring_knows_thread(void);
/*
 * Put a new ring, which no descriptor or slot refers to yet, into a free slot of this
 * thread.
 * Return: the slot; -EBUSY if no slot is free; -ENOMEM if memory is refused.
 */
int uaio_uring_register_new(struct uaio_uring *ring);
/*
 * Remove the ring, if any, from slot `place` of this thread's slots for registered
 * rings.
 */
void uaio_uring_unregister_place(uint32_t place);
long uaio_uring_register_rings(void *arg, uint32_t nr);
long uaio_uring_unregister_rings(void *arg, uint32_t nr);
/*
 * uaio_uring_regrings_init() prepares the slots when the library is loaded.
 * uaio_uring_regrings_forget() resets their lock each time the engine (the library's
 * core) starts.
 */
void uaio_uring_regrings_init(void);
void uaio_uring_regrings_forget(void);

/*
 * tctx.c: Return: whether the process has, or had, a ring that the kernel serves.
 */
bool uaio_uring_has_kernels(void);
/* Return: whether this slot of the thread holds a ring of the kernel. */
bool uaio_uring_is_kernels_slot(uint32_t slot);
/* Return: whether fd is a ring of the kernel. */
bool uaio_uring_is_kernels_ring(uint32_t fd);

/*
 * Parts of io_uring_register(). The caller holds the ring (ring.h, I2), unless said
 * otherwise.
 */

/*
 * Copy element i of a client's array; do nothing if the array's address is 0.
 * Return: 0 or -EFAULT.
 */
int uaio_uring_read_one(uint64_t array, uint32_t i, void *ret, size_t bytes);
/*
 * Check whether the slots [first, first + nr) are in a table of `size` slots (registered
 * files or buffers).
 * Return: 0; -EOVERFLOW if first + nr overflows; -ENXIO if the table has no slots;
 * -EINVAL if it has too few.
 */
int uaio_uring_check_places(uint32_t size, uint32_t first, uint32_t nr);

/* rsrc.c: IORING_REGISTER_CLONE_BUFFERS. */
long uaio_uring_clone_buffers(struct uaio_uring *ring, const void *arg,
			      uint32_t nr);

/* IORING_REGISTER_QUERY, which needs no ring. */
long uaio_uring_query(void *arg, uint32_t nr);

/* setup.c: IORING_REGISTER_RESIZE_RINGS */
long uaio_uring_resize(struct uaio_uring *ring, void *arg, uint32_t nr);

/*
 * cancel.c: IORING_REGISTER_SYNC_CANCEL. The caller does not hold the ring (ring.h,
 * I2). It uses the ring (ring.h, I4), so that the ring is not freed.
 */
long uaio_uring_sync_cancel(struct uaio_uring *ring, const void *arg,
			    uint32_t nr);

/*
 * msg_ring.c: IORING_REGISTER_SEND_MSG_RING: send a message to a ring. The sender needs
 * no ring.
 */
long uaio_uring_send_blindly(const void *arg, uint32_t nr);

/* restrict.c */

/*
 * IORING_REGISTER_RESTRICTIONS.
 * Return: -EBADFD if the ring is enabled already.
 */
long uaio_uring_restrict(struct uaio_uring *ring, const void *arg, uint32_t nr);

/* Return: whether a submission to a restricted ring is allowed. */
bool uaio_uring_is_allowed(const struct uaio_uring *ring,
			   const struct io_uring_sqe *raw);

/*
 * Return: 0 if this thread may call io_uring_register() with this opcode; -EEXIST: only
 * another thread may use the ring; -EACCES: the ring does not allow the opcode.
 * Context: any.
 */
int uaio_uring_check_register(const struct uaio_uring *ring, uint32_t opcode);

/* IORING_REGISTER_PERSONALITY and IORING_UNREGISTER_PERSONALITY. */
long uaio_uring_register_personality(struct uaio_uring *ring, const void *arg,
				     uint32_t nr);
long uaio_uring_unregister_personality(struct uaio_uring *ring, const void *arg,
				       uint32_t id);

/*
 * Return: 0 if this thread may submit with this personality; -EINVAL: no such
 * personality; -EACCES: this thread's credentials differ from those of the personality.
 */
int uaio_uring_check_personality(const struct uaio_uring *ring, uint32_t id);

/* Called when the ring is freed. */
void uaio_uring_forget_personalities(struct uaio_uring *ring);

/* uaccess.c: access memory of the client. Return: 0 or -EFAULT. */
int uaio_uring_copy_in(void *to, uint64_t from, size_t bytes);
int uaio_uring_copy_out(uint64_t to, const void *from, size_t bytes);
/* Fill memory of the client with zeroes; bytes may be 0. */
int uaio_uring_clear(uint64_t to, size_t bytes);

#endif /* UAIO_URING_CALLS_H */

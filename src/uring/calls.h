/* SPDX-License-Identifier: MIT */
/*
 * The parts of the three calls, below what uring.c checks of their arguments
 *
 * Context: any thread that has entered (entry.h).
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

struct uaio_uring;

/* setup.c: check params, a copy of the client's, and choose the sizes. */
int uaio_uring_check_params(uint32_t nr_entries,
			    struct io_uring_params *params);
/*
 * Choose sizes by what params has of them.
 * Return: 0; -EINVAL; -EOVERFLOW: too few for completions of either size.
 */
int uaio_uring_choose_sizes(struct io_uring_params *params,
			    uint32_t nr_entries);
/* Make a ring, and fill in the rest. Return: its descriptor, or -errno. */
int uaio_uring_make(struct io_uring_params *params);

/* How io_uring_enter() was called. */
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
 * The ring that a register call names: by descriptor, or by its place among those that
 * the thread has registered.
 * Return: NULL if there is none: then *ret_error says why.
 */
struct uaio_uring *uaio_uring_named(uint32_t fd, bool is_registered,
				    long *ret_error);
/* register.c; the ring is held. */
long uaio_uring_do_register(struct uaio_uring *ring, uint32_t opcode, void *arg,
			    uint32_t nr_args);

/*
 * tctx.c: the rings that this thread has registered, each kept by its place.
 */

/* Return: the ring in a place; NULL if there is none. */
struct uaio_uring *uaio_uring_registered(uint32_t place);
/*
 * The thread makes a ring. Return: whether it ever did, or has registered one. A
 * thread that did not gets another error for a place.
 */
void uaio_uring_meet_thread(void);
bool uaio_uring_knows_thread(void);
/*
 * Give a ring, which has no other hold, a place of this thread's. Return: that;
 * -EBUSY, -ENOMEM.
 */
int uaio_uring_register_new(struct uaio_uring *ring);
/* Empty a place. */
void uaio_uring_unregister_place(uint32_t place);
long uaio_uring_register_rings(void *arg, uint32_t nr);
long uaio_uring_unregister_rings(void *arg, uint32_t nr);
/* Called when the library is loaded; and each time the engine starts. */
void uaio_uring_regrings_init(void);
void uaio_uring_regrings_forget(void);

/* tctx.c: Return: whether the process has, or had, a ring of the kernel's. */
bool uaio_uring_has_kernels(void);
/* Return: whether a ring of the kernel's has this slot of the thread's. */
bool uaio_uring_is_kernels_slot(uint32_t slot);
/* Return: whether fd is a ring of the kernel's. */
bool uaio_uring_is_kernels_ring(uint32_t fd);

/* uaccess.c: memory of the client. Return: 0 or -EFAULT. */
int uaio_uring_copy_in(void *to, uint64_t from, size_t bytes);
int uaio_uring_copy_out(uint64_t to, const void *from, size_t bytes);
/* Fill it with zeroes, of which there may be none. */
int uaio_uring_clear(uint64_t to, size_t bytes);

#endif /* UAIO_URING_CALLS_H */

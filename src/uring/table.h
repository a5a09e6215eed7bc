/* SPDX-License-Identifier: MIT */
/*
 * The table that finds the ring of a descriptor
 *
 * The table has the ring of each known descriptor. An unknown descriptor may also be a
 * descriptor of a ring, from dup() or SCM_RIGHTS. Then the library compares the
 * descriptor's file with each ring's memory file, and adds the descriptor. The library
 * interposes the calls that close descriptors. But a program may close a descriptor by
 * its own system call instruction, as liburing does if linked statically. So a slot may
 * be stale: its descriptor is closed, or is another file now.
 *
 *   I1  A slot is written under the table's lock, and counts in nr_holds of its ring
 *       (ring.h).
 *   I2  A thread reads a slot without a lock, holds or uses the ring (ring.h), then
 *       reads the slot again. If the slot has changed, the thread does not work on the
 *       ring.
 *   I3  When the last known descriptor of a ring is closed, the library searches the
 *       first 4096 descriptors for another descriptor of the ring. It does not search
 *       if a witness (witness.h) shows that there is none. Meanwhile nr_holds stays 1,
 *       then counts the descriptor that was found.
 *   I4  io_uring_enter() and messages (msg_ring.c) trust a slot, and so find the ring
 *       without a system call. Functions that must distinguish a ring from another file
 *       query the kernel which file a descriptor is. A stale slot is emptied when its
 *       descriptor is polled, when the descriptor becomes a new ring, and by a sweep:
 *       each io_uring_setup() checks 8 slots.
 *
 * Tested by test-uring.c.
 */
#ifndef UAIO_URING_TABLE_H
#define UAIO_URING_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_uring;

/*
 * Called each time the engine (the library's core) starts. Keeps the slots, because a
 * child of fork() has its parent's descriptors.
 */
void uaio_uring_tab_init(void);

/* Return: whether this process, or one it was forked from, ever made a ring. */
bool uaio_uring_tab_is_used(void);

/*
 * Return: the ring of fd, which the caller then verifies (I2); NULL if fd is not a
 * ring.
 */
struct uaio_uring *uaio_uring_find(uint32_t fd);
/*
 * Return: the ring of fd according to the kernel, which also knows that a descriptor
 * was closed and reused unnoticed (I4); or NULL.
 */
struct uaio_uring *uaio_uring_ask(uint32_t fd);
/*
 * Return: whether fd is a ring of this process, or of a process that it was forked from
 * (I4).
 */
bool uaio_uring_is_ring(int fd);
/*
 * Return: the result of uaio_uring_find(), but NULL also if fd is not yet in the table.
 */
struct uaio_uring *uaio_uring_known(uint32_t fd);
/*
 * Return: a descriptor of the ring, which another thread may close at any time;
 * -1 if the ring has none.
 */
int uaio_uring_tab_number(const struct uaio_uring *ring);
bool uaio_uring_is_still(uint32_t fd, const struct uaio_uring *ring);

/*
 * Return: whether the file with this device and inode number is an open ring's memory.
 */
bool uaio_uring_tab_has(uint64_t dev, uint64_t ino);

/* A value for fd: the ring has no descriptor. */
#define UAIO_URING_TAB_NO_FD UINT32_MAX

/*
 * Add a new ring to the table, at its descriptor fd; nr_holds becomes 1.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_tab_add(uint32_t fd, struct uaio_uring *ring);

/*
 * Take over the parent's ring at fd (share.h).
 * Return: false if another thread has done so already, or memory is refused.
 */
bool uaio_uring_tab_adopt(uint32_t fd, struct uaio_uring *ring);

/*
 * The program is about to close fd: open a witness (witness.h), which then shows
 * whether the ring has another descriptor. Call uaio_uring_tab_closed() after the
 * close.
 */
void uaio_uring_tab_closing(uint32_t fd);

/*
 * The ring is freed: close its witness (witness.h). The ring still has one if two
 * threads have closed its descriptor at the same time.
 */
void uaio_uring_tab_forget(struct uaio_uring *ring);

#ifdef UAIO_TESTING
/* How many descriptors were examined in searches for a ring's descriptor; atomic. */
extern uint32_t uaio_uring_tab_nr_looked_at;
#endif

/*
 * Query the kernel which descriptors from `first` to `last` are closed, and empty their
 * slots.
 */
void uaio_uring_tab_closed(unsigned first, unsigned last);

/* Empty some of the stale slots (I4). Caller holds no ring. */
void uaio_uring_tab_sweep(void);

/*
 * Increment or decrement nr_holds (ring.h, I3).
 * Return: false if nr_holds is 0 already: the ring is dead.
 */
bool uaio_uring_keep(struct uaio_uring *ring);
void uaio_uring_let_go(struct uaio_uring *ring);

#endif /* UAIO_URING_TABLE_H */

/* SPDX-License-Identifier: MIT */
/*
 * From descriptors to rings
 *
 * A table has the ring of each descriptor that is known to be one. A descriptor that
 * is not known may be a ring's all the same (dup(), a socket): then its file is
 * compared with the memory of all rings, and it is noted. The calls that close are
 * interposed, but a program may close a descriptor by an instruction of its own, as
 * liburing does that is linked statically. So a slot may be outdated: its descriptor is
 * another file, or none.
 *
 *   I1  A slot is written under the table's lock, and each counts in nr_holds of its
 *       ring (ring.h).
 *   I2  A thread reads a slot without a lock, gets hold of the ring or its use, and
 *       reads the slot again: it works on no other ring than the descriptor's.
 *   I3  When the last descriptor that is known is closed, others are looked for among
 *       the first 4096, unless a witness says that there is none (witness.h). The ring
 *       has a hold meanwhile, which one of these gets.
 *   I4  io_uring_enter() and messages rely on a slot, and so make no call to find a ring.
 *       Whoever treats a descriptor as a ring's and not as a file asks the kernel which
 *       file it is. An outdated slot is emptied when its descriptor is polled, when it is
 *       a new ring's, and by a sweep: each io_uring_setup() looks at 8 slots.
 *
 * Tested by test-uring.c.
 */
#ifndef UAIO_URING_TABLE_H
#define UAIO_URING_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_uring;

/* Called each time the engine starts; what is noted stays. */
void uaio_uring_tab_init(void);

/* Return: whether this process, or one it was forked from, ever made a ring. */
bool uaio_uring_tab_is_used(void);

/* Return: the ring of fd, which the caller verifies (I2); or NULL. */
struct uaio_uring *uaio_uring_find(uint32_t fd);
/* The same, asked of the kernel: also where fd was closed and used again unseen (I4). */
struct uaio_uring *uaio_uring_ask(uint32_t fd);
/* Return: whether fd is a ring of this process or of one that it was forked from (I4). */
bool uaio_uring_is_ring(int fd);
/* As uaio_uring_find(); NULL as well if it has not found the ring by fd before. */
struct uaio_uring *uaio_uring_known(uint32_t fd);
/* Return: a descriptor that was the ring's just now; -1 if there is none. */
int uaio_uring_tab_number(const struct uaio_uring *ring);
bool uaio_uring_is_still(uint32_t fd, const struct uaio_uring *ring);

/* Return: whether the file with these numbers is the memory of an open ring. */
bool uaio_uring_tab_has(uint64_t dev, uint64_t ino);

/* As fd: there is no descriptor. */
#define UAIO_URING_TAB_NO_FD UINT32_MAX

/* fd is a new ring's, which has no hold yet. Return: 0 or -ENOMEM. */
int uaio_uring_tab_add(uint32_t fd, struct uaio_uring *ring);

/*
 * fd is that of a ring of a parent's, which becomes one of this process.
 * Return: whether it has; false: it was already.
 */
bool uaio_uring_tab_adopt(uint32_t fd, struct uaio_uring *ring);

/* fd is about to be closed, and uaio_uring_tab_closed() follows: for a witness. */
void uaio_uring_tab_closing(uint32_t fd);

/* The ring is freed: a second close() of its descriptor may have left a witness. */
void uaio_uring_tab_forget(struct uaio_uring *ring);

#ifdef UAIO_TESTING
/* How many descriptors were looked at for one of a ring's; atomic. */
extern uint32_t uaio_uring_tab_nr_looked_at;
#endif

/* fd was closed, or may have been: then the kernel is asked. */
void uaio_uring_tab_closed(unsigned first, unsigned last);

/* Look whether some of the known descriptors were closed (I4). No ring is held. */
void uaio_uring_tab_sweep(void);

/* Take another hold of a ring, or drop one. Return: false if it is dead. */
bool uaio_uring_keep(struct uaio_uring *ring);
void uaio_uring_let_go(struct uaio_uring *ring);

#endif /* UAIO_URING_TABLE_H */

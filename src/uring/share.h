/* SPDX-License-Identifier: MIT */
/*
 * Rings that several processes use: after fork() a child has its parent's
 *
 * The memory of a ring is shared, and all else is each process's own. A child takes a
 * ring over when it first calls io_uring, or epoll_ctl, on its descriptor: from then
 * on it submits for itself. It does not have the requests of its parent, nor its
 * registered files and eventfd; registered buffers it has, without tags.
 *
 *   I1  A ring is shared in a process that has forked since it was made, and in one
 *       that has taken it over. There the head and the tail that count are those in
 *       the ring's memory. Who posts looks whether it is under the queue's lock, and
 *       a thread that forks has had each of these since the fork was counted: so no
 *       post that began before is under way when there is a child. (A handler that
 *       has interrupted the library, and forks, does not wait for them; and a ring
 *       that another thread makes meanwhile is shared when fork() has returned.)
 *   I2  Each process posts the completions of its own requests. Those of a shared ring
 *       exclude each other meanwhile, by the word `posting` of its memory, which the
 *       kernel frees if its holder is killed (robust.h). What that was about to post is
 *       lost; nobody sees half of it, as one store of the tail shows it. A thread that
 *       has waited for a second for one and the same holder goes on all the same.
 *       Then, if a client has not spoilt the word, completions may be lost.
 *   I3  No process wakes a thread of another, or rings its bells. A thread that waits in
 *       a shared ring looks for completions again and again, at last every LOOK_NS_MAX.
 *       One that waited before its process forked does not.
 *   I4  One process at a time submits. Nobody looks at that: clients have to. The head
 *       passes each submission as it is copied: if a process is killed while it
 *       submits, the next one goes on behind what that one had taken, and takes
 *       nothing twice. Of a chain it may so take the end alone.
 *   I5  What found no room is its process's. The flag that says so (sq_flags) is there
 *       while any has such a list, by their number, nr_over. A process that is killed
 *       stays counted, and leaves the flag: then clients call that need not.
 *   I6  Only the thread that made a ring with IORING_SETUP_DEFER_TASKRUN resizes it. If it
 *       is killed meanwhile, what children had not taken of the ring may be lost.
 *
 * Tested by test-uring-share.c, and by test-uring-death.c, which kills a process after
 * each instruction.
 */
#ifndef UAIO_URING_SHARE_H
#define UAIO_URING_SHARE_H

#include <stdint.h>

struct uaio_uring;
struct uaio_wait;

/*
 * Take over a ring that is not of this process; fd is its descriptor.
 * Return: the ring; NULL if the engine does not come up, or fd is no ring's any more.
 */
struct uaio_uring *uaio_uring_adopt(uint32_t fd, struct uaio_uring *ring);

/*
 * Around posting to a shared ring, under the queue's lock. In between the tail of
 * progress is that of the ring's memory.
 */
void uaio_uring_share_begin(struct uaio_uring *ring);
void uaio_uring_share_end(struct uaio_uring *ring);

/* Look at what other processes have posted. */
void uaio_uring_share_look(struct uaio_uring *ring);

/*
 * As uaio_queue_wait() until need (cq.h) is met, but it may return sooner with 0.
 * *span_ns: how long the caller's last one took at most; 0 at first.
 */
int uaio_uring_share_wait(struct uaio_uring *ring, uint64_t need,
			  const struct uaio_wait *wait, int64_t *span_ns);

#endif /* UAIO_URING_SHARE_H */

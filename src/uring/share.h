/* SPDX-License-Identifier: MIT */
/*
 * Rings that several processes use: a child of fork() shares its parent's rings
 *
 * Processes share only the memory of a ring. A child takes a ring over when it first
 * makes an io_uring call, or epoll_ctl(), on the ring's descriptor. From then on the
 * child submits its own requests. The child has neither its parent's requests nor its
 * parent's registered files and eventfd. It has its parent's registered buffers,
 * without tags.
 *
 *   I1  A ring is shared in a process that has forked since the ring was made, and in
 *       one that has taken it over. In a shared ring the head and the tail in the
 *       ring's memory are authoritative, not the library's copies. A poster checks
 *       under the queue's lock whether the ring is shared. fork() first increments
 *       uaio_process_nr_forks, then locks and unlocks each queue. So when the child
 *       exists, each post that began before fork() has ended. (Exceptions: fork() does
 *       not wait in a signal handler that interrupted the library. A ring that another
 *       thread makes during fork() is shared once fork() has returned.)
 *   I2  Each process posts the completions of its own requests. Processes that post to
 *       a shared ring exclude each other by `posting`, a lock in the ring's memory. The
 *       kernel frees this lock if its owner is killed (robust.h); the completions that
 *       the owner was about to publish are then lost. No process sees half of a post,
 *       because a single store of the tail publishes it. A process that has waited a
 *       second for one owner proceeds without the lock. If the owner was only slow,
 *       completions may be lost; if a client had overwritten the lock, none are lost.
 *   I3  No process wakes threads of another process, or rings its bells (bell.h). A
 *       thread that waits in a shared ring checks for completions periodically, at
 *       least every LOOK_NS_MAX. A thread that was already waiting when its process
 *       forked does not check.
 *   I4  One process at a time may submit; the library does not enforce this. A
 *       submitter advances the head past each submission when it has copied it. So if a
 *       process is killed while it submits, the next submitter continues after the last
 *       copied submission. No submission is executed twice. But if the killed process
 *       had copied only the first requests of a chain, only the chain's last requests
 *       are executed.
 *   I5  Each process keeps its own overflowed completions. The flag
 *       IORING_SQ_CQ_OVERFLOW in sq_flags is set while any process has overflowed
 *       completions; nr_over counts these processes. A killed process stays counted, so
 *       the flag stays set and clients make needless calls.
 *   I6  Only the thread that made a ring with IORING_SETUP_DEFER_TASKRUN resizes it. If
 *       the thread's process is killed meanwhile, completions that its child processes
 *       have not consumed may be lost.
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
 * Take over the parent process's ring at descriptor fd.
 * Return: the ring; NULL if the engine does not start, or fd is no longer a ring.
 */
struct uaio_uring *uaio_uring_adopt(uint32_t fd, struct uaio_uring *ring);

/*
 * Begin and end a post to a shared ring, under the queue's lock. Between these two
 * calls the tail in `progress` is the tail of the ring's memory.
 */
void uaio_uring_share_begin(struct uaio_uring *ring);
void uaio_uring_share_end(struct uaio_uring *ring);

/*
 * Copy the tail of the ring's memory to `progress`, because other processes may have
 * posted completions.
 */
void uaio_uring_share_look(struct uaio_uring *ring);

/*
 * Wait like uaio_queue_wait() until the need of the wait (cq.h) is met. But after
 * *span_ns look for completions of other processes, and return 0 even if the need is
 * not met. Each call doubles *span_ns, up to LOOK_NS_MAX; the caller sets it to 0
 * before the first call.
 */
int uaio_uring_share_wait(struct uaio_uring *ring, uint64_t need,
			  const struct uaio_wait *wait, int64_t *span_ns);

#endif /* UAIO_URING_SHARE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Attending: a thread serves queues while it sleeps in its own poll or epoll
 *
 * A client that uses IOCB_FLAG_RESFD, or a ring with an eventfd or in an epoll, sleeps
 * in its own epoll_wait() or poll(), and a descriptor reports its completions. If only
 * the fallback thread executed the client's parked requests, each completion would wait
 * until that thread runs. So a thread that goes to sleep in such a call becomes the
 * leader (lead.h) of up to sixteen queues in which it has parked such a request, if
 * they have no leader. The front-end adds the queues' epolls to the descriptors that
 * the client waits for. The client need not wait for the descriptor of each queue: if
 * another thread waits for that descriptor, it is woken as if the fallback thread had
 * written to it. The fallback thread looks after each queue that this thread does not
 * lead (I6 of ready.h): its requests may complete late, but are never lost.
 *
 *   I1  The thread holds nothing while it sleeps, and a pin or a lock only while it is
 *       inside the library: as I4 of lead.h. While it sleeps it leads all queues marked
 *       is_led, by one waiter, which is on no queue's list.
 *
 *   I2  A sleep may never return. If the thread is cancelled in the sleep, the thread
 *       ends the sleep before any cancellation handler of the program runs. If a signal
 *       handler has left the sleep by siglongjmp(), the thread's next sleep, poll or
 *       submission finds that, or the end of the thread does (lost.c). A thread does
 *       not attend if the library would not learn of its end.
 *
 *   I3  A signal handler may run in the sleep, and call the library: then the library
 *       ends what the sleep leads before the handler leads anything itself. By the
 *       number of the sleep (serial) uaio_attend_end() learns that nothing is left to
 *       end.
 *
 *   I4  The data of an attending thread are its own: no other thread reads them, only
 *       their address. Each queue has the address of the thread that noted it last
 *       (attender).
 *
 *   I5  Until one of the events of I2, no thread runs the requests of the queues that
 *       the sleep leads. If signal handlers do not end the sleep (proc/handlers.h), a
 *       handler may delay it for long, so there the thread attends to only one queue.
 *
 *   I6  The thread first becomes the queue's leader. Then it makes sure that the
 *       queue's epoll reports all that is parked there, or that nothing needs doing for
 *       that (at rest). Requests that other threads park later are theirs to arm, or to
 *       wake the epoll for, since they see the leader. The client's call polls the
 *       epolls level-triggered, and a thread takes events out of them only to run them.
 *       So an event that comes while the thread prepares the next queue ends the sleep,
 *       in whatever order the queues are led.
 *
 *   I7  When the sleep ends the thread stops leading every queue, ready or not. Events
 *       of queues that were not ready stay in their epolls. The next leader or the
 *       fallback thread then looks after the queue. The fallback thread takes a queue
 *       off its list first and then looks whether there is a leader, so a queue that is
 *       on its list at that time needs no further notice.
 *
 *   I8  A queue may be closed, and opened again, at any time from when it is led. Its
 *       end clears the leader, under the lock, and wakes the epoll, which the hold on
 *       the poller keeps open. What the thread has noted of a queue is valid for one
 *       generation of it.
 *
 * Tested by test-attend.c, test-attend-many.c and test/host/sleeps.c.
 */
#ifndef UAIO_READY_ATTEND_H
#define UAIO_READY_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;

/*
 * The most queues that a thread attends to. Each makes a sleep begin later; further
 * queues are left to the fallback thread.
 */
enum { UAIO_ATTENDED_MAX = 16 };

/* One sleep, from uaio_attend_begin() to uaio_attend_end(). */
struct uaio_attend {
	uint32_t serial;
	unsigned nr;
	int fds[UAIO_ATTENDED_MAX]; /* to be polled for POLLIN in the sleep */
};

/*
 * The number of the engine's start in which this thread last parked such a request (see
 * uaio_attend_note()); 0: none.
 */
extern _Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* This thread has parked a request whose completion a descriptor will signal. */
void uaio_attend_note(struct uaio_queue *queue);

/* Return: false if this thread certainly has no queue to attend to. */
static inline bool uaio_attend_may(void)
{
	return __builtin_expect(uaio_attended, 0);
}

/*
 * Execute requests whose files are ready, and become the leader. Context: the caller
 * has not entered the library (entry.h).
 * Return: whether the caller must also wait for ret->fds, by uaio_sleep_poll(), and
 * call uaio_attend_end() afterwards. A deferred signal handler (proc/handlers.h) ends
 * that sleep. The caller's stack frame must exist until then.
 */
bool uaio_attend_begin(struct uaio_attend *ret);

/*
 * End the sleep, and execute requests whose files have become ready. ready: a bit for
 * each of the descriptors that is readable. Does not change errno.
 */
void uaio_attend_end(const struct uaio_attend *attend, uint32_t ready);

/*
 * If this thread still attends, a signal handler has left its sleep, or runs in it: end
 * the sleep.
 */
void uaio_attend_forget(void);

/*
 * uaio_attend_forget() for a thread that has not entered the library: it is about to
 * make a call that polls without attending. Does not change errno.
 */
void uaio_attend_awake_slowly(void);

static inline void uaio_attend_awake(void)
{
	if (uaio_attend_may())
		uaio_attend_awake_slowly();
}

/* This thread ends. keeps: it cannot end the sleep in which it may have ended. */
void uaio_attend_leave(bool keeps);

/* Called each time the engine starts, also in a child of fork(). */
void uaio_attend_init(void);

#endif /* UAIO_READY_ATTEND_H */

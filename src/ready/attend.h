/* SPDX-License-Identifier: MIT */
/*
 * Attending: a thread serves queues while it sleeps in its own poll or epoll
 *
 * A client that uses IOCB_FLAG_RESFD, or a ring with an eventfd or in an epoll, sleeps
 * in its own epoll_wait() or poll(), and a descriptor tells it of its completions. If
 * its parked requests were left to the fallback thread, each completion would have to
 * wait for that thread to run. So a thread that goes to sleep in such a call becomes
 * the leader (lead.h) of up to sixteen queues in which it has parked such a request, as
 * far as they have no leader: the front-end adds the queues' epolls to what the client
 * waits for. It does not matter whether the client waits for the descriptor of each
 * queue: if it does not, some other thread does and is woken by it, as if the fallback
 * thread had written to the descriptor. A queue that this thread does not lead, for
 * whatever reason, is the fallback thread's (I6 of ready.h): late, but never lost.
 *
 *   I1  The thread holds nothing while it sleeps, and a pin or a lock only while it is
 *       inside the library: as I4 of lead.h. While it sleeps it leads all the queues
 *       that are marked, as one waiter, which is on no queue's list.
 *   I2  A sleep may never return. A thread that is cancelled in it ends it before any
 *       handler of the program's for that runs. If a handler of a signal has left it by
 *       siglongjmp(), the thread's next sleep, poll or submission finds it, or the end
 *       of the thread does (lost.c). A thread of whose end the library would not be told
 *       does not attend.
 *   I3  A handler that runs in the sleep, and calls the library, ends what the sleep
 *       leads before it leads anything itself. The number of the sleep (serial) tells
 *       uaio_attend_end() that nothing is left to be ended.
 *   I4  What the thread attends to is its own: no other thread reads it, but for the
 *       address. A queue has the address of the one that noted it last (attender).
 *   I5  Until one of I2 happens, nobody runs what the sleep leads. Where handlers of
 *       signals do not end the sleep (proc/handlers.h) one may keep it, so the thread
 *       attends to only one queue there.
 *   I6  The thread leads a queue first, and then sees to it that the queue's epoll tells
 *       of all that is parked there, or that nothing is left to be done for that (at
 *       rest). What other threads park later they arm, or wake the epoll for, since they
 *       see the leader. The client's call polls the epolls by level, and no thread takes
 *       events out of them but to run them. So an event that comes while the thread
 *       prepares the next queue ends the sleep, in whatever order the queues are led.
 *   I7  When the sleep ends the thread gives up each queue, ready or not. Events of those
 *       that were not ready stay in their epolls. The queue is left to the next leader or
 *       to the fallback thread, which looks whether there is a leader only after it has
 *       taken the queue off its list: a queue that is on the list then is left there.
 *   I8  A queue may end, and be opened again, at any time from when it is led. Its end
 *       takes the leader away, under the lock, and wakes the epoll, which the hold on the
 *       poller keeps open. What is noted of a queue is of one generation.
 *
 * Tested by test-attend.c, test-attend-many.c and test/host/sleeps.c.
 */
#ifndef UAIO_READY_ATTEND_H
#define UAIO_READY_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;

/* More are left to the fallback thread: each takes part of the time to begin a sleep. */
enum { UAIO_ATTENDED_MAX = 16 };

/* One sleep, from uaio_attend_begin() to uaio_attend_end(). */
struct uaio_attend {
	uint32_t serial;
	unsigned nr;
	int fds[UAIO_ATTENDED_MAX]; /* to be polled for POLLIN meanwhile */
};

/* The start of the engine in which this thread parked such a request; 0: none. */
extern _Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* This thread has parked a request whose end a descriptor will signal. */
void uaio_attend_note(struct uaio_queue *queue);

/* Return: false if this thread surely has nothing to attend to. */
static inline bool uaio_attend_may(void)
{
	return __builtin_expect(uaio_attended, 0);
}

/*
 * Execute requests whose file is ready, and become the leader. Context: the caller
 * has not entered (entry.h).
 * Return: whether the caller has to wait for ret->fds, too, by uaio_sleep_poll(), and
 * to call uaio_attend_end() afterwards. A deferred handler (proc/handlers.h) ends that
 * sleep. The caller's frame stays until then.
 */
bool uaio_attend_begin(struct uaio_attend *ret);

/*
 * End the sleep, and execute requests whose file has become ready. ready: which of the
 * descriptors are, as bits. Does not change errno.
 */
void uaio_attend_end(const struct uaio_attend *attend, uint32_t ready);

/* If this thread attends, a handler has left that sleep behind, or runs in it: end it. */
void uaio_attend_forget(void);

/*
 * The same, for a thread that has not entered the library. It makes a call that polls, and
 * does not attend meanwhile. Does not change errno.
 */
void uaio_attend_awake_slowly(void);

static inline void uaio_attend_awake(void)
{
	if (uaio_attend_may())
		uaio_attend_awake_slowly();
}

/* This thread ends. keeps: it cannot end the sleep that it may have ended in. */
void uaio_attend_leave(bool keeps);

/* Called each time the engine starts, also in a child of fork(). */
void uaio_attend_init(void);

#endif /* UAIO_READY_ATTEND_H */

/* SPDX-License-Identifier: MIT */
/*
 * Attending: a thread serves the library's queues while it sleeps in its own poll() or
 * epoll_wait()
 *
 * Some clients learn of completions by a descriptor: by IOCB_FLAG_RESFD, or by a ring's
 * eventfd, or by a ring in an epoll. Such a client sleeps in its own poll() or
 * epoll_wait(). Meanwhile its requests may be parked: they wait for their files
 * (ready.h). If only the library's fallback thread (fallback.c) executed parked
 * requests, each completion would wait until that thread runs. So a thread that goes to
 * sleep in poll() or epoll_wait() becomes the leader (lead.h) of up to sixteen queues.
 * It leads a queue if the queue has no other leader, and if the thread itself has
 * parked a request there whose completion a descriptor signals. The front-end adds the
 * queues' epolls to the descriptors for which the client polls. The client need not
 * poll the descriptor of each queue: if another thread polls that descriptor,
 * completions wake the other thread as usual. The fallback thread serves each queue
 * that the sleeping thread does not lead (I6 of ready.h). Requests of such a queue may
 * complete late, but are never lost.
 *
 *   I1  The sleeping thread holds no lock and no pin (a reference that keeps a queue
 *       alive). It takes them only while it executes code of the library, as I4 of
 *       lead.h says. In the sleep the thread leads all queues marked is_led (attend.c).
 *       For all of them it uses one struct uaio_waiter, which is on no queue's list.
 *
 *   I2  The client's poll() may never return. If the thread is cancelled in the sleep,
 *       the sleep ends before any cancellation handler of the program runs. If a signal
 *       handler leaves the sleep by siglongjmp(), the thread's next sleep, poll or
 *       submission ends the old sleep. If the thread makes no such call, the old sleep
 *       ends when the thread ends (lost.c). If the library would not learn of a thread's
 *       end, the thread never leads in its own sleep.
 *
 *   I3  A signal handler that interrupts the sleep may call the library. Then the
 *       library first ends the sleep's leadership of all queues, and only then may the
 *       handler lead a queue. Each sleep has a number (serial). By this number
 *       uaio_attend_end() recognizes that the handler has already ended the sleep.
 *
 *   I4  Only the thread itself reads its struct attender. Other threads know only the
 *       address of the struct: a queue stores it in the member `attender`. It is the
 *       struct of the thread that last called uaio_attend_note() for the queue, or last
 *       led the queue in its own sleep.
 *
 *   I5  While the thread sleeps, no other thread executes requests of the queues that it
 *       leads. This state ends when the thread wakes, or when its sleep ends as in I2. A
 *       signal handler may delay the thread for long. So if the library cannot make
 *       handlers end the sleep (proc/handlers.h), the thread leads only one queue.
 *
 *   I6  The thread first becomes the queue's leader. Then it makes sure that the
 *       queue's epoll reports every file on which a request is parked. A thread that
 *       parks a request later sees that there is a leader, and adds the file to the
 *       epoll or wakes the leader. The client's call polls the epolls level-triggered,
 *       and the events stay in an epoll until a thread acts on them. So an event in one
 *       queue's epoll ends the sleep, even if it comes while the thread still prepares
 *       another queue.
 *
 *   I7  When the sleep ends, the thread stops leading all its queues, whether their
 *       epolls have events or not. Events that the thread does not read stay in the
 *       epolls, for the next leader or the fallback thread. The fallback thread first
 *       takes a queue off its list, then checks whether the queue has a leader. So if a
 *       queue is still on that list when its leader stops, the leader need not notify
 *       the fallback thread.
 *
 *   I8  A queue that the thread leads may be closed, and its memory opened as another
 *       queue, at any time. The thread that closes the queue clears the leader under
 *       the lock, and wakes the sleeping thread by the queue's epoll. The epoll stays
 *       open, because the sleeping thread has a hold on it (poller.h). What the thread
 *       has stored about a queue is valid only for one generation of the queue.
 *
 * Tested by test-attend.c, test-attend-many.c and test/host/sleeps.c.
 */
#ifndef UAIO_READY_ATTEND_H
#define UAIO_READY_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;

/*
 * The most queues that one thread leads in its own sleep. Each queue delays the
 * beginning of the sleep. The fallback thread serves the thread's other queues.
 */
enum { UAIO_ATTENDED_MAX = 16 };

/*
 * One sleep in the client's own poll(), from uaio_attend_begin() to uaio_attend_end().
 */
struct uaio_attend {
	uint32_t serial;
	unsigned nr;
	/* epolls for which the client's call must also poll (POLLIN) */
	int fds[UAIO_ATTENDED_MAX];
};

/*
 * How often the engine had been started when this thread last called uaio_attend_note()
 * successfully; 0: never. A child of fork() starts the engine once more, so it sees
 * that the list of queues is its parent's.
 */
extern _Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * This thread has parked a request of queue, and a descriptor will signal the
 * completion: the thread's next poll() or epoll_wait() shall serve the queue.
 */
void uaio_attend_note(struct uaio_queue *queue);

/*
 * Return: false if this thread has no queue to serve in its sleep. True may be wrong.
 */
static inline bool uaio_attend_may(void)
{
	return __builtin_expect(uaio_attended, 0);
}

/*
 * Before the client's own poll: execute requests whose files are ready, and become the
 * leader of queues that this thread has noted (uaio_attend_note()) and that have no
 * leader. Context: outside the library (entry.h).
 * Return: whether the caller must also wait for ret->fds, by uaio_sleep_poll(), and
 * call uaio_attend_end() afterwards. A deferred signal handler (proc/handlers.h) ends
 * uaio_sleep_poll(). The caller's stack frame must exist until uaio_attend_end()
 * returns.
 */
bool uaio_attend_begin(struct uaio_attend *ret);

/*
 * End the sleep, and execute requests whose files have become ready. ready: bit i is
 * set if attend->fds[i] is readable. Does not change errno.
 */
void uaio_attend_end(const struct uaio_attend *attend, uint32_t ready);

/*
 * If this thread still counts as sleeping in uaio_attend_begin(), a signal handler has
 * left that sleep, or runs in it. Then end the sleep.
 */
void uaio_attend_forget(void);

/*
 * Call uaio_attend_forget() for a thread that is outside the library, and is about to
 * poll without leading queues. Does not change errno.
 */
void uaio_attend_awake_slowly(void);

static inline void uaio_attend_awake(void)
{
	if (uaio_attend_may())
		uaio_attend_awake_slowly();
}

/*
 * This thread ends: stop leading, and free its struct attender. keeps: the thread has
 * another descriptor table by now, so the library cannot use its epolls. If a sleep has
 * not ended, the struct then stays allocated.
 */
void uaio_attend_leave(bool keeps);

/* Called each time the engine starts, also in a child of fork(): reset the module. */
void uaio_attend_init(void);

#endif /* UAIO_READY_ATTEND_H */

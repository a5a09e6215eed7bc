/* SPDX-License-Identifier: MIT */
/*
 * Attending: a thread serves a queue while it sleeps in its own poll or epoll
 *
 * A client that uses IOCB_FLAG_RESFD sleeps in its own epoll_wait() or poll(), and
 * an eventfd tells it of its events. If its parked requests were left to the
 * fallback thread, each event would have to wait for that thread to run. So a
 * thread that goes to sleep in such a call becomes the leader (lead.h) of the
 * queue in which it last parked a request with an eventfd, if the queue has no
 * leader: the front-end adds the queue's epoll to what the client waits for. It
 * does not matter whether the client waits for that eventfd: if it does not, some
 * other thread does and is woken by it, as if the fallback thread had written to
 * the eventfd.
 *
 *   I1  The thread holds nothing while it sleeps, and a pin only while it is
 *       inside the library: as I4 of lead.h.
 *   I2  A sleep may never return, because of siglongjmp() or because the thread
 *       was cancelled. The next sleep of that thread finds it, or the end of the
 *       thread does (lost.c). A thread of whose end the library would not be told
 *       does not attend.
 */
#ifndef UAIO_READY_ATTEND_H
#define UAIO_READY_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;
struct uaio_waiter;

/* One sleep, from uaio_attend_begin() to uaio_attend_end(). */
struct uaio_attend {
	struct uaio_queue *queue;   /* its memory outlives it (slab.h) */
	struct uaio_waiter *waiter; /* as above */
	uint32_t generation;        /* of the poller */
	uint32_t serial;            /* of the wait */
	int fd;                     /* to be polled for POLLIN meanwhile */
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
 * Return: whether the caller has to wait for ret->fd, too, by uaio_sleep_poll(), and
 * to call uaio_attend_end() afterwards. A deferred handler (proc/handlers.h) ends that
 * sleep. The caller's frame stays until then.
 */
bool uaio_attend_begin(struct uaio_attend *ret);

/*
 * End the sleep; if is_ready, execute requests whose file has become ready. Does
 * not change errno.
 */
void uaio_attend_end(const struct uaio_attend *attend, bool is_ready);

#endif /* UAIO_READY_ATTEND_H */

/* SPDX-License-Identifier: MIT */
/*
 * Attending: a thread that sleeps in a call of its own
 *
 * A client of IOCB_FLAG_RESFD sleeps in its own epoll, or in poll(), and is told
 * by its eventfd. Were what it has parked left to the standby thread, each event
 * would take that thread's turn first. So a thread that goes to sleep in such a
 * call leads (lead.h) the context in which it parked such a request last, if
 * nobody does: the front-end has it wait for the context's epoll beside what the
 * client waits for. What the client waits for is not looked into: where its
 * eventfd is not among it, somebody else wakes by it, as if the standby thread
 * had written it.
 *
 *   I1  Nothing is held while it sleeps, and a pin only while it is inside: as
 *       I4 of lead.h.
 *   I2  A sleep that is never come back to, by siglongjmp() or since the thread
 *       was cancelled, is found by the thread's next one, or when it ends
 *       (lost.h); where that is not told, nobody attends.
 */
#ifndef UAIO_ENGINE_ATTEND_H
#define UAIO_ENGINE_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_queue;
struct uaio_waiter;

/* A sleep, from begin to end. */
struct uaio_attend {
	struct uaio_queue *queue;   /* its memory outlives it (slab.h) */
	struct uaio_waiter *waiter; /* as above */
	uint32_t life;              /* of the poller */
	uint32_t serial;            /* of the wait */
	int fd;                     /* to be polled for POLLIN meanwhile */
};

/* Of this thread: in which start of the engine it parked such a request; 0: none. */
extern _Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* This thread has parked a request of which a descriptor tells. */
void uaio_attend_note(struct uaio_queue *queue);

/* Return: false if there is surely nothing to attend to. */
static inline bool uaio_attend_may(void)
{
	return __builtin_expect(uaio_attended, 0);
}

/*
 * Make what is ready, and lead. Context: the caller has not entered.
 * Return: whether the caller is to sleep with ret->fd, and to end that.
 */
bool uaio_attend_begin(struct uaio_attend *ret);

/* Make what has got ready, if is_ready. errno is left alone. */
void uaio_attend_end(const struct uaio_attend *attend, bool is_ready);

#endif /* UAIO_ENGINE_ATTEND_H */

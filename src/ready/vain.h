/* SPDX-License-Identifier: MIT */
/*
 * Looks in vain: when a client that does not wait must sleep all the same
 *
 * A client that looks for events again and again without waiting may keep the
 * threads that it waits for from their processor: with a real-time policy and
 * one processor, for ever. (The kernel completes by interrupt.) Two signs give
 * such a client away: work items that no worker gets to run; and an event that
 * does not come for long, but does as soon as the client sleeps. So after 10 ms
 * of looks in vain one look sleeps a little; and for a while after either sign
 * looks sleep for up to half of the time. The scheduling policy of the thread
 * is not asked for: a sandbox may forbid that.
 *
 * All of it is guesses: relaxed, and harmless if two threads that look at the
 * same time mix theirs.
 *
 * Tested by test/oracle/realtime.c.
 */
#ifndef UAIO_READY_VAIN_H
#define UAIO_READY_VAIN_H

#include <stdbool.h>
#include <stdint.h>

/* How long such a sleep lasts, unless an event ends it. */
enum { UAIO_DOZE_NS = 100000 };

/* What is known of one client. All members are atomic. */
struct uaio_vain {
	uint32_t nr_looks;
	int64_t checked_ns;    /* when a look last read the clock */
	uint64_t checked_done; /* events posted by then */
	int64_t since_ns;      /* no event since, and no sleep */
};

/*
 * A look has found nothing, while requests are on their way; nr_done events
 * were ever posted.
 * Return: whether the look is to sleep for UAIO_DOZE_NS.
 */
bool uaio_vain_must_doze(struct uaio_vain *vain, uint64_t nr_done);

/* The look has slept; has_event: an event has come. */
void uaio_vain_has_dozed(struct uaio_vain *vain, bool has_event);

#endif /* UAIO_READY_VAIN_H */

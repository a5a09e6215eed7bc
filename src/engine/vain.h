/* SPDX-License-Identifier: MIT */
/*
 * Looks in vain: when a client that does not wait must sleep all the same
 *
 * A client that looks for events again and again without waiting may keep from their
 * processor the threads that it waits for: with a real-time policy, and one
 * processor, for ever. (The kernel completes by interrupt.) Two things tell it: work
 * that nobody comes to; and an event that does not come for long, but does as soon as
 * the client sleeps. So after 10 ms of looks in vain one sleeps a little; and for a
 * while after one of the two has been seen they do so at most half of the time. Which
 * policy a thread has is asked of nobody: a sandbox may forbid that.
 *
 * All is guesses: relaxed, and harmless if two threads that look at the same time
 * mix theirs.
 */
#ifndef UAIO_ENGINE_VAIN_H
#define UAIO_ENGINE_VAIN_H

#include <stdbool.h>
#include <stdint.h>

/* How long such a sleep is, unless an event ends it. */
enum { UAIO_DOZE_NS = 100000 };

/* Of a context; all atomic. */
struct uaio_vain {
	uint32_t nr_looks;
	int64_t checked_ns;    /* when a look last read the clock */
	uint64_t checked_done; /* what had been posted by then */
	int64_t since_ns;      /* no event since, and no sleep */
};

/*
 * A look has found nothing, while requests are on their way; nr_done events were ever
 * posted. Return: whether it is to sleep.
 */
bool uaio_vain_must_doze(struct uaio_vain *vain, uint64_t nr_done);

/* It has slept. */
void uaio_vain_has_dozed(struct uaio_vain *vain, bool has_event);

#endif /* UAIO_ENGINE_VAIN_H */

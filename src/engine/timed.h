/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait until their file is ready, and no longer than a time
 *
 * A socket may have a time for its reads and one for its writes (SO_RCVTIMEO,
 * SO_SNDTIMEO); a call that waited for so long ends with EAGAIN, or with what it
 * got rid of. The standby thread ends such requests when their time is over.
 *
 *   I1  A request with a time is on the list while it is in its lane; both
 *       change under its file's lock. So it holds its file, which who finds it
 *       on the list may take a reference to.
 *   I2  Who puts one on the list that is the first to end wakes the thread.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_TIMED_H
#define UAIO_ENGINE_TIMED_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_req;

/* From nothing. */
void uaio_timed_init(void);

/* req enters its lane. Return: whether it is the first to end. */
bool uaio_timed_add_locked(struct uaio_req *req);
/* req leaves its lane. */
void uaio_timed_remove_locked(struct uaio_req *req);

/* Return: when the first one ends, UAIO_FOREVER if there is none. */
int64_t uaio_timed_next(void);

/* End those whose time is over; what is being tried just now is left. */
void uaio_timed_end(void);

#endif /* UAIO_ENGINE_TIMED_H */

/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait until their file is ready, and no longer than a given time
 *
 * A socket may have a time limit for reads and one for writes (SO_RCVTIMEO,
 * SO_SNDTIMEO). A call that has waited for so long ends with EAGAIN, or with
 * the bytes that are done. The fallback thread ends such requests when their
 * time is over.
 *
 *   I1  A request with a time limit is on the list while it is in its wait
 *       queue; both change under its file's lock. It holds its file meanwhile,
 *       so a thread that finds it on the list may take a reference to the file.
 *   I2  A thread that puts a request on the list as the first to end wakes the
 *       fallback thread.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_READY_TIMED_H
#define UAIO_READY_TIMED_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_req;

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_timed_init(void);

/*
 * req enters its wait queue; the file's lock is held.
 * Return: whether it is now the first to end.
 */
bool uaio_timed_add_locked(struct uaio_req *req);
/* req leaves its wait queue; the file's lock is held. */
void uaio_timed_remove_locked(struct uaio_req *req);

/* Return: when the first one ends; UAIO_FOREVER if there is none. */
int64_t uaio_timed_next(void);

/* End the requests whose time is over, but for those that are being tried. */
void uaio_timed_end(void);

#endif /* UAIO_READY_TIMED_H */

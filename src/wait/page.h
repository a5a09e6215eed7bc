/* SPDX-License-Identifier: MIT */
/*
 * Cold reads: reads of data that is not in the page cache
 *
 * A cold read waits until its pages are in the page cache. Meanwhile it has the state
 * PAGED, and is on the list of its device. A read of more than 128 KiB, or with an I/O
 * priority, does not wait, but goes to a worker at once (policy.h).
 *
 * The submitter asks the kernel to read the pages, and continues. Once the pages are
 * there, the read is only a copy. A thread tries a PAGED read: it executes the read by
 * a call that fails if pages are not cached. A thread that waits for events tries the
 * reads of its own queue; a worker tries the reads of all queues. A worker also
 * executes the oldest read of each device, by a plain call that blocks until the data
 * is there. When that call returns, the worker tries the device's other reads, and the
 * next oldest read is queued for a worker.
 *
 *   I1  A PAGED request is on the list of its device and on the list of its group (the
 *       requests of its queue). While a thread tries it, it also has the bit TRIED, and
 *       stays on both lists. One lock protects both lists, which are in the order of
 *       submission.
 *   I2  While requests of a device are PAGED, at least one of three things is true. A
 *       worker executes a read of the device; or a read of the device is queued for a
 *       worker; or a thread tries reads of the device, and will then queue one for a
 *       worker. So each read is executed in the end, even if its pages never arrive, or
 *       are evicted.
 *   I3  A try uses only calls that do not block. A thread tries a limited number of
 *       requests at a time.
 *   I4  nr_using of a file counts its requests that are being tried. Once the file's
 *       descriptor is being closed, no try begins. The closing thread queues the file's
 *       PAGED requests, and waits until the count is 0.
 *   I5  The submitter asks the kernel to read the pages (readahead), so that a later try
 *       finds them. If tries find no pages all the same, readahead does not help. Then the
 *       device's next 1024 reads go to a worker each, without readahead. Until tries find
 *       pages again, this number doubles each time, up to 2^20.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_WAIT_PAGE_H
#define UAIO_WAIT_PAGE_H

#include <stdbool.h>
#include <stdint.h>

struct list;
struct uaio_device;
struct uaio_file;
struct uaio_group;
struct uaio_inode;
struct uaio_outcome;
struct uaio_req;
struct uaio_sqe;

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_page_init(void);
void uaio_page_init_group(struct uaio_group *group);

/*
 * Have the kernel start reading the pages of a read of this size (POSIX_FADV_WILLNEED).
 * The caller needs no reference to inode (I2 of file.h).
 * Return: false if the read should go to a worker of its own.
 */
bool uaio_page_start(const struct uaio_inode *inode, const struct uaio_sqe *sqe,
		     uint64_t bytes);

/*
 * Let a request that is prepared, but not started (PREPPED), wait for its pages, which
 * the kernel is reading by now.
 * Return: false if the caller must queue the request for a worker. That is so if no other
 * read of the device is queued or executed, so that this read becomes the oldest (I2). It
 * is also so if the device cannot be added, or the descriptor is being closed, or now
 * belongs to another kind of file.
 */
bool uaio_page_park(struct uaio_req *req);

/*
 * Called when the oldest read of the device has returned, or will not be executed: try
 * the device's other reads. Requests that must be queued now are appended to
 * ret_startable.
 */
void uaio_page_next(struct uaio_device *device, struct list *ret_startable);

/*
 * Try the cold reads of this group (the requests of a queue). A thread calls this before
 * it waits for events.
 */
void uaio_page_try_group(struct uaio_group *group);

/* cached.c */

/*
 * Execute a read of a regular file if the page cache has all its data.
 * Return: the whole result; -EAGAIN if part of the data is not cached; UAIO_OP_BLOCKS
 * if the file refuses RWF_NOWAIT.
 */
int64_t uaio_read_cached(const struct uaio_sqe *sqe, struct uaio_outcome *ret);

#endif /* UAIO_WAIT_PAGE_H */

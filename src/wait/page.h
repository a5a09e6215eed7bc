/* SPDX-License-Identifier: MIT */
/*
 * Cold reads: requests that wait until their pages are in the page cache
 *
 * A read of data that is not in the page cache waits in the state PAGED, on the list of its
 * device. The policy (policy.h) sends a read of more than 128 KiB, or with an I/O priority, to
 * a worker at once.
 *
 * The submitter has the kernel start reading the pages, and continues. Once the pages are
 * there, the read is only a copy. Threads try PAGED reads, and execute those whose pages are
 * cached: a thread that waits for events tries the reads of its own queue; a worker tries the
 * reads of all queues. A worker also executes the oldest read of each device, by a plain call
 * that blocks until the data is there. When that call returns, the worker tries the device's
 * other reads, and the next oldest read is queued for a worker.
 *
 *   I1  A PAGED request is on the list of its device and on the list of its group. While a
 *       thread tries it, it also has the bit TRIED, and stays on both lists. The lock protects
 *       both lists, which are in the order of submission.
 *   I2  While requests of a device are PAGED, a worker executes a read of the device, or a
 *       read of the device is queued for a worker, or a thread tries some of these reads and
 *       will then queue one. So each read is executed in the end, even if its pages never
 *       arrive, or are evicted.
 *   I3  A try uses only calls that do not block. A thread tries a bounded number of
 *       requests at a time.
 *   I4  nr_using of a file counts its requests that are being tried. No try begins once
 *       the file's descriptor is being closed. The closing thread queues the file's PAGED
 *       requests, and waits until the count is 0.
 *   I5  If tries find no pages present, it does not help to start reads of pages early. Then
 *       each read goes to a worker of its own, for a number of reads that doubles each time.
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

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_page_init(void);
void uaio_page_init_group(struct uaio_group *group);

/*
 * Have the kernel start reading the pages of a read of this size (POSIX_FADV_WILLNEED).
 * inode is borrowed under I2 of file.h.
 * Return: false if the read should go to a worker of its own.
 */
bool uaio_page_start(const struct uaio_inode *inode, const struct uaio_sqe *sqe,
		     uint64_t bytes);

/*
 * Park a PREPPED request whose pages were started.
 * Return: false if the caller must queue it: it is the oldest of its device, its device
 * cannot be added, or its descriptor is being closed or belongs to another kind of file.
 */
bool uaio_page_park(struct uaio_req *req);

/*
 * Called when the oldest read of the device has returned, or will not be executed: try the
 * device's other reads. Requests to queue now are appended to ret_startable.
 */
void uaio_page_next(struct uaio_device *device, struct list *ret_startable);

/* Try the cold reads of this group. Called by a thread that is about to wait for events. */
void uaio_page_try_group(struct uaio_group *group);

/* cached.c */

/*
 * Execute a read if the page cache has its data. file is borrowed under I2 of file.h.
 * Return: the whole result; -EAGAIN if part of the data is not cached; UAIO_OP_BLOCKS if
 * the file refuses RWF_NOWAIT.
 */
int64_t uaio_read_cached(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret);

#endif /* UAIO_WAIT_PAGE_H */

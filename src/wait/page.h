/* SPDX-License-Identifier: MIT */
/*
 * Cold reads: requests that wait until their pages are in the page cache
 *
 * A read of a file that is not cached waits here: in the state PAGED, on the list
 * of its device. The policy (policy.h) sends a read of more than 128 KiB, or with
 * an I/O priority, to a worker at once.
 *
 * The submitter has the kernel start reading the pages, and goes on. The read
 * itself then only copies. It is executed by a thread that comes by and finds
 * the pages there: a thread that waits for events tries the reads of its own
 * queue, a worker those of all queues. Of each device a worker executes one
 * read, the oldest, by a plain call, which blocks until the data is there. When
 * that call returns, the worker tries the other reads of the device, and the
 * next oldest is queued.
 *
 *   I1  While a request is on the list of its device and on that of its group,
 *       it is PAGED; while a thread tries it, it also has the bit TRIED. Both
 *       lists are in the order of submission, under the lock, and a try does
 *       not change its place.
 *   I2  While requests of a device are PAGED, one of that device's is queued or
 *       being read by a worker, or some are being tried, and the thread that
 *       tries them will queue one. So each is read in the end, whether its
 *       pages come, or are evicted again, or never came.
 *   I3  Requests are tried only with calls that do not block, and a bounded
 *       number at a time.
 *   I4  nr_using of a file counts its requests that are being tried. No try
 *       begins once the file's descriptor is being closed: the closing thread
 *       queues the requests that are PAGED, and waits until that count has
 *       become 0.
 *   I5  Where starting pages does not help, because tries find nothing, each
 *       request goes to a worker of its own, for a number of reads that doubles
 *       each time.
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
 * Have the kernel start reading the pages of a read of so many bytes
 * (POSIX_FADV_WILLNEED). inode is borrowed under I2 of file.h.
 * Return: false if the read is better executed by a worker of its own.
 */
bool uaio_page_start(const struct uaio_inode *inode, const struct uaio_sqe *sqe,
		     uint64_t bytes);

/*
 * Park a PREPPED request whose pages were started.
 * Return: false if the caller is to queue it: it is the oldest of its device, its
 * descriptor is another kind of file by now or is being closed, or memory is short.
 */
bool uaio_page_park(struct uaio_req *req);

/*
 * The oldest read of the device has returned, or will not be executed: try the
 * others. Requests that are to be queued now are appended to ret_startable.
 */
void uaio_page_next(struct uaio_device *device, struct list *ret_startable);

/*
 * Try the cold reads of this group. For a thread that is about to wait for its
 * events.
 */
void uaio_page_try_group(struct uaio_group *group);

/*
 * cached.c: reads out of the page cache, without waiting for the device
 */

/*
 * Execute a read if the page cache has its data. file is borrowed under I2 of
 * file.h.
 * Return: the whole result; -EAGAIN if part of the data is not cached;
 * UAIO_OP_BLOCKS if the file refuses RWF_NOWAIT.
 */
int64_t uaio_read_cached(const struct uaio_file *file,
			 const struct uaio_sqe *sqe, struct uaio_outcome *ret);

#endif /* UAIO_WAIT_PAGE_H */

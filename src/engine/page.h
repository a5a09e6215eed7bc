/* SPDX-License-Identifier: MIT */
/*
 * Cold reads: requests that wait until their pages are in the page cache
 *
 * The submitter starts the pages and goes on; the read itself, which only
 * copies then, is made by whoever comes by and finds them there: who waits for
 * events, for its own context, and a worker, for all. Of each device one request
 * is read by a worker with a plain call, which blocks until it is there: the
 * oldest. When that returns, the worker sweeps what else has come, and the next
 * oldest is queued.
 *
 *   I1  A request is PAGED, and TRIED while it is being tried, while it is on the
 *       list of its device and on that of its group; both are in order of
 *       submission, under the lock, and a try does not change its place.
 *   I2  While requests of a device are PAGED, one of that device's is queued or
 *       read by a worker, or some are being tried and who tries them will see
 *       to it. So each is read in the end, whether its pages come, get lost
 *       again, or never came.
 *   I3  Requests are tried only with calls that do not block, a bounded number
 *       in one go.
 *   I4  nr_using of a file counts its requests that are being tried, and none is
 *       once its number is being closed: the closer queues what is PAGED, and
 *       waits until that count has become 0.
 *   I5  Where starting pages helps nobody, which is seen by no try finding any,
 *       requests go to a worker each, for a number of reads that doubles.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_PAGE_H
#define UAIO_ENGINE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

struct list;
struct uaio_device;
struct uaio_file;
struct uaio_group;
struct uaio_inode;
struct uaio_req;
struct uaio_sqe;

/* From nothing. */
void uaio_page_init(void);
void uaio_page_init_group(struct uaio_group *group);

/*
 * Start the pages of a read of so many bytes. inode is borrowed under I2 of
 * file.h. Return: false if it is better made by a worker of its own.
 */
bool uaio_page_start(const struct uaio_inode *inode, const struct uaio_sqe *sqe,
		     uint64_t bytes);

/* The pages of req, which is PREPPED, were started: it may be parked. */
void uaio_page_expect(struct uaio_req *req);

/*
 * Park a PREPPED request that is expected.
 * Return: false if it is to be queued: as the oldest of its device, or because
 * its number is being closed.
 */
bool uaio_page_park(struct uaio_req *req);

/*
 * The oldest of the device has been read, or will not be: try the others.
 * ret_startable is appended what is to be queued now.
 */
void uaio_page_next(struct uaio_device *device, struct list *ret_startable);

/* The caller is about to wait for events of this context: try its requests. */
void uaio_page_try_group(struct uaio_group *group);

#endif /* UAIO_ENGINE_PAGE_H */

/* SPDX-License-Identifier: MIT */
/* Cancelling: see cancel.c. */
#ifndef UAIO_FLOW_CANCEL_H
#define UAIO_FLOW_CANCEL_H

#include <stdint.h>

struct uaio_file;
struct uaio_group;
struct uaio_queue;

/*
 * The group is being closed: cancel its requests that may wait for ever, that is,
 * those that wait for their file to be ready, and let no more begin to.
 */
void uaio_group_close(struct uaio_group *group);

/*
 * Cancel
 *  - the oldest pending request with this key,
 *  - all requests that are pending on the open file that fd refers to now,
 *  - all requests that are pending on file, to which the caller has a reference,
 *  - all pending requests.
 * Each cancelled request has its completion when this returns. The caller sees to
 * it that the queue stays.
 * Return: the first 0, the others how many were cancelled, at least 1; -EALREADY
 * if other threads execute or move on every request that is meant; -ENOENT if
 * there is none.
 */
int uaio_queue_cancel_one(struct uaio_queue *queue, uint64_t key);
int uaio_queue_cancel_fd(struct uaio_queue *queue, int fd);
int uaio_queue_cancel_file(struct uaio_queue *queue, struct uaio_file *file);
int uaio_queue_cancel_all(struct uaio_queue *queue);

#endif /* UAIO_FLOW_CANCEL_H */

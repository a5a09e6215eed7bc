/* SPDX-License-Identifier: MIT */
/*
 * Counts the requests of a batch (submit.h), if the member `stats` of the batch is not
 * NULL. Used by the files of issue/ only. Context: the thread that submits the batch.
 */
#ifndef UAIO_ISSUE_COUNT_H
#define UAIO_ISSUE_COUNT_H

#include "op/op.h"

struct uaio_batch;
struct uaio_file;
struct uaio_outcome;
struct uaio_req;

/*
 * Count sqe, which the submitting thread has executed. file: NULL if the operation has
 * none.
 */
void uaio_batch_count(struct uaio_batch *batch, struct uaio_file *file,
		      const struct uaio_sqe *sqe,
		      const struct uaio_outcome *outcome);

/*
 * Count a request that did not complete at once, so that req was created for it. next:
 * what req waits for. Does nothing if batch->stats is NULL.
 */
void uaio_batch_count_handed_over(struct uaio_batch *batch,
				  struct uaio_req *req, enum uaio_next next,
				  const struct uaio_outcome *outcome);

/* The batch has ended: add it to the statistics. */
void uaio_batch_count_call(const struct uaio_batch *batch);

#endif /* UAIO_ISSUE_COUNT_H */

/* SPDX-License-Identifier: MIT */
/*
 * Counting and timing the requests of a submission, for statistics
 *
 * Tested by src/req/test-sample.c and test/run/live.py.
 */
#include "issue/count.h"

#include "file/file.h"
#include "req/call.h"
#include "req/record.h"
#include "req/req.h"
#include "req/sample.h"
#include "req/stats.h"
#include "issue/submit.h"

void uaio_batch_count(struct uaio_batch *batch, struct uaio_file *file,
		      const struct uaio_sqe *sqe,
		      const struct uaio_outcome *outcome)
{
	struct uaio_live_block *stats = batch->stats;

	uaio_stats_add(stats, &stats->nr_accepted[sqe->op][UAIO_WAY_INLINE], 1);
	if (!batch->weight) {
		batch->nr_inline++;
		return;
	}
	if (!batch->nr_inline && !batch->nr_handed_over)
		batch->start = outcome->start;
	if (batch->nr_inline++)
		uaio_stats_time(stats, UAIO_TIME_SERVICE, outcome->start,
				outcome->end, batch->weight);
	else {
		batch->first_start = outcome->start;
		batch->first_end = outcome->end;
	}
	batch->end = outcome->end;
	/*
	 * This call is the last in the function, so the compiler need not save values
	 * across it.
	 */
	if (uaio_stats_is_traced(stats))
		uaio_record_inline(stats, batch->by.queue, file, sqe, outcome);
}

void uaio_batch_count_handed_over(struct uaio_batch *batch,
				  struct uaio_req *req, enum uaio_next next,
				  const struct uaio_outcome *outcome)
{
	enum uaio_way way = uaio_next_parks(next) && !uaio_req_inode(req)
				    ? UAIO_WAY_PARKED
				    : UAIO_WAY_QUEUED;

	if (likely(!batch->stats))
		return;
	req->weight = batch->weight;
	if (batch->weight) {
		req->handed_over = uaio_cycles();
		/*
		 * This request is the first of its submission. If this thread has tried
		 * to execute the request, the submission began with that attempt, at
		 * outcome->start; else it begins now.
		 */
		if (!batch->nr_inline && !batch->nr_handed_over)
			batch->start = outcome->start ? outcome->start
						      : req->handed_over;
		req->submitted = batch->start;
		req->started = 0;
	}
	batch->nr_handed_over++;
	uaio_stats_add(batch->stats,
		       &batch->stats->nr_accepted[req->sqe.op][way], 1);
	if (uaio_stats_is_traced(batch->stats) && req->file)
		(void)uaio_record_name(batch->stats, req->file, req->sqe.fd);
}

/*
 * The events of inline requests are posted when the submission ends. So the total time of
 * each inline request is the time of the whole submission, which is measured once, because
 * reading the clock is expensive.
 */
void uaio_batch_count_call(const struct uaio_batch *batch)
{
	struct uaio_live_block *stats = batch->stats;
	uint64_t end = batch->end, weight = batch->weight;

	uaio_stats_add(stats, &stats->nr_submits, 1);
	if (!weight)
		return;
	if (batch->nr_inline == 1 && !batch->nr_handed_over) {
		uaio_stats_time(stats, UAIO_TIME_ALONE, batch->start, end,
				weight);
		return;
	}
	if (batch->nr_handed_over)
		end = uaio_cycles();
	uaio_stats_time(stats, UAIO_TIME_SUBMIT, batch->start, end, weight);
	if (!batch->nr_inline)
		return;
	uaio_stats_time(stats, UAIO_TIME_SERVICE, batch->first_start,
			batch->first_end, weight);
	uaio_stats_time(stats, UAIO_TIME_TOTAL, batch->start, end,
			batch->nr_inline * weight);
}

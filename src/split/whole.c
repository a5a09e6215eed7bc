/* SPDX-License-Identifier: MIT */
#include "split/whole.h"

#include "base/check.h"
#include "base/cycles.h"
#include "options/config.h"
#include "req/req.h"
#include "split/bounce.h"

static int64_t execute(struct uaio_req *req)
{
	const struct uaio_op_def *op = &uaio_optab[req->sqe.op];
	int64_t res;

	if (unlikely(!req->file))
		return op->run(&req->sqe, -1, &req->found, 0);
	res = uaio_req_execute_part(req, &req->sqe);
	if (unlikely(uaio_may_bounce(req->file, &req->sqe, res)))
		res = uaio_bounce(req);
	return res < 0 && req->done_bytes ? req->done_bytes
	       : res < 0                  ? res
					  : res + req->done_bytes;
}

int64_t uaio_req_execute(struct uaio_req *req)
{
	struct uaio_former_call call;
	int64_t res;

	uaio_req_note_start(req);
	if (unlikely(uaio_req_begin_call(req, &call) < 0))
		return uaio_req_cancelled_res(req);
	res = execute(req);
	uaio_former_end(&call);
	return res;
}

int64_t uaio_req_execute_by(struct uaio_req *req, struct uaio_worker *worker)
{
	int64_t res;

	/*
	 * A request that is executed through a copy (--bounce) may need more than one
	 * call. Then a thread that closes the file waits until the request is complete
	 * (closing.h).
	 */
	req->is_one_call = uaio_req_inode(req) && !uaio_config.bounces;
	uaio_wq_calls(worker, req->is_one_call ? req->file : NULL);
	res = uaio_req_execute(req);
	uaio_wq_calls(worker, NULL);
	return res;
}

/* SPDX-License-Identifier: MIT */
#include "ready/done.h"

#include "base/check.h"
#include "op/sock.h"

/* Return: whether uaio_flow_ops.complete_together() may complete it. */
static bool is_plain(const struct uaio_req *req)
{
	const struct uaio_sqe *sqe = &req->sqe;

	return sqe->op == UAIO_OP_RECV && !sqe->is_multishot && !sqe->links &&
	       !sqe->is_async && !sqe->word && !req->is_faulty;
}

void uaio_done_add(struct uaio_done *done, struct uaio_req *req, int64_t res,
		   int fd)
{
	if (likely(is_plain(req))) {
		done->reqs[done->nr] = req;
		done->results[done->nr] = res;
		done->fds[done->nr] = fd;
		if (++done->nr == UAIO_REQS_TOGETHER)
			uaio_done_complete(done);
		return;
	}
	uaio_done_complete(done);
	if (req->sqe.found.asks_rest)
		req->sqe.found.leaves_more = uaio_sock_bytes_there(fd);
	uaio_flow->complete(req, res, NULL);
}

/* Ask the sockets that are to be asked whether they have more. */
static void ask_rests(struct uaio_done *done)
{
	bool have_more[UAIO_REQS_TOGETHER];
	int fds[UAIO_REQS_TOGETHER];
	unsigned nr = 0;

	for (unsigned i = 0; i < done->nr; i++)
		if (done->reqs[i]->sqe.found.asks_rest)
			fds[nr++] = done->fds[i];
	uaio_sock_ask_rests(fds, nr, have_more);
	nr = 0;
	for (unsigned i = 0; i < done->nr; i++)
		if (done->reqs[i]->sqe.found.asks_rest)
			done->reqs[i]->sqe.found.leaves_more = have_more[nr++];
}

void uaio_done_complete(struct uaio_done *done)
{
	unsigned nr = done->nr;

	if (likely(!nr))
		return;
	ask_rests(done);
	done->nr = 0;
	uaio_flow->complete_together(done->reqs, done->results, nr, NULL);
}

bool uaio_done_asks(const struct uaio_done *done, const struct uaio_file *file)
{
	for (unsigned i = 0; i < done->nr; i++)
		if (done->reqs[i]->file == file &&
		    done->reqs[i]->sqe.found.asks_rest)
			return true;
	return false;
}

/* SPDX-License-Identifier: MIT */
/*
 * Several receives that one thread executes on different sockets, and then completes
 * together
 *
 * A thread that tries parked receives collects the successful ones. Then one system
 * call asks all their sockets whether they have more to receive (UAIO_REST_TO_ASK). All
 * completions are posted together, under one lock.
 *
 *   I1  Collected requests are RUNNING, and owned by the thread that tried them. The
 *       thread completes them before it releases the queue's list of kicked files
 *       (ready.h, I5), and before it completes any other request. So completions come
 *       in the order of the tries. Until they are completed, the requests count as
 *       parked.
 *
 *   I2  A collected receive may still need the query of its socket. Another try on that
 *       socket could consume the data before the query. So before such a try the thread
 *       completes the collected requests.
 *
 *   I3  Between collecting a request and completing it, the thread only tries other
 *       requests, by calls that do not block. It does nothing that could wait for a
 *       collected request. The thread completes the collected requests before it notifies
 *       a canceller, and before it hands a request to a worker.
 *
 *   I4  The thread queries a socket by a descriptor that it does not hold open.
 *       Meanwhile another thread may close the descriptor and open another file, which
 *       gets the same descriptor. Then the thread queries that file. This is harmless:
 *       the answer is only a hint, about a socket that the client has closed.
 *
 * Tested by uring/test-uring-together.c and uring/test-uring-socket.c.
 */
#include "base/check.h"
#include "op/sock.h"
#include "ready/readyint.h"

/*
 * Return: whether req may be completed together with other receives
 * (complete_together() of struct uaio_flow_ops).
 */
static bool is_plain(const struct uaio_req *req)
{
	const struct uaio_sqe *sqe = &req->sqe;

	return sqe->op == UAIO_OP_RECV && !sqe->is_multishot && !sqe->links &&
	       !sqe->is_async && !sqe->word && !req->fault;
}

static bool asks_rest(const struct uaio_req *req)
{
	return req->found.rest == UAIO_REST_TO_ASK;
}

static void note_rest(struct uaio_req *req, bool has_more)
{
	req->found.rest = has_more ? UAIO_REST_THERE : UAIO_REST_UNKNOWN;
}

/*
 * Return: the bit of file in a set of files; about one in 64 other files has the same
 * bit.
 */
static uint64_t bit_of(const struct uaio_file *file)
{
	return UINT64_C(1) << (uintptr_t)file / sizeof(*file) % 64;
}

bool uaio_done_note(struct uaio_done *done, struct uaio_req *req, int64_t res,
		    int fd)
{
	if (unlikely(!is_plain(req)) || done->nr == UAIO_REQS_TOGETHER)
		return false;
	done->reqs[done->nr] = req;
	done->results[done->nr] = res;
	done->fds[done->nr] = fd;
	done->nr++;
	done->files |= bit_of(req->file);
	if (likely(uaio_ready_home(&req->group->ready) == done->home))
		done->nr_of_home++;
	else
		uaio_ready_unexpect(req->group);
	return true;
}

void uaio_done_add(struct uaio_done *done, struct uaio_req *req, int64_t res,
		   int fd)
{
	uaio_done_complete(done);
	if (uaio_done_note(done, req, res, fd))
		return;
	uaio_ready_unexpect(req->group);
	if (asks_rest(req))
		note_rest(req, uaio_sock_bytes_there(fd));
	uaio_flow->complete(req, res, NULL);
}

/*
 * Find out for each collected receive whether its socket has more to receive, unless
 * this is already known.
 */
static void ask_rests(struct uaio_done *done)
{
	bool have_more[UAIO_REQS_TOGETHER];
	int fds[UAIO_REQS_TOGETHER];
	unsigned nr = 0;

	for (unsigned i = 0; i < done->nr; i++)
		if (asks_rest(done->reqs[i]))
			fds[nr++] = done->fds[i];
	uaio_sock_ask_rests(fds, nr, have_more);
	nr = 0;
	for (unsigned i = 0; i < done->nr; i++)
		if (asks_rest(done->reqs[i]))
			note_rest(done->reqs[i], have_more[nr++]);
}

void uaio_done_complete(struct uaio_done *done)
{
	unsigned nr = done->nr;

	if (likely(!nr))
		return;
	if (done->nr_of_home)
		/*
		 * relaxed: if another thread reads the old count, it only looks for
		 * parked requests and finds none
		 */
		sub_relaxed(&done->home->ready.nr_parked, done->nr_of_home);
	ask_rests(done);
	uaio_done_init(done, done->home);
	uaio_flow->complete_together(done->reqs, done->results, nr, NULL);
}

bool uaio_done_asks(const struct uaio_done *done, const struct uaio_file *file)
{
	if (likely(!(done->files & bit_of(file))))
		return false;
	for (unsigned i = 0; i < done->nr; i++)
		if (done->reqs[i]->file == file && asks_rest(done->reqs[i]))
			return true;
	return false;
}

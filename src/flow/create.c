/* SPDX-License-Identifier: MIT */
/* Creating and freeing requests. Tested by all tests with requests that wait. */
#include <errno.h>
#include <string.h>

#include "proc/entry.h"
#include "req/req.h"
#include "req/stats.h"
#include "wait/page.h"
#include "ready/ready.h"
#include "flow/copy.h"
#include "flow/drain.h"
#include "flow/flow.h"
#include "flow/gate.h"

static struct uaio_slab slab; /* of requests */

void uaio_req_init_slab(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_req), 65536);
	uaio_indexes_init();
}

void uaio_group_init(struct uaio_group *group)
{
	list_init(&group->requests);
	group->free = NULL;
	group->index = NULL;
	group->peak = 0;
	uaio_drain_init_group(group);
	uaio_ready_init_group(group);
	uaio_page_init_group(group);
}

void uaio_group_fini(struct uaio_group *group)
{
	struct uaio_req *req;

	UAIO_CHECK(list_is_empty(&group->requests));
	uaio_ready_fini_group(group);
	uaio_stats_queue_ends(group->peak);
	while ((req = group->free)) {
		group->free = req->next_free;
		uaio_slab_put(&slab, req);
	}
}

/*
 * Get the open file of sqe, and a reference to it. *ret_file is NULL if the operation has
 * no file.
 */
static int get_file(const struct uaio_sqe *sqe, struct uaio_file *fixed,
		    struct uaio_file **ret_file)
{
	if (unlikely(sqe->is_fixed)) {
		*ret_file = fixed;
		return uaio_file_try_get(fixed) ? 0 : -EBADF;
	}
	if (!uaio_optab[sqe->op].has_no_file)
		return uaio_file_get(sqe->fd, ret_file);
	*ret_file = NULL;
	return 0;
}

static void put_file(struct uaio_file *file)
{
	if (likely(file))
		uaio_file_put(file);
}

/*
 * Initialise req. `copy`: memory that already has a copy of the arguments; NULL if they
 * fit into the request.
 */
static inline __attribute__((always_inline)) void
fill(struct uaio_req *req, const struct uaio_sqe *sqe, size_t bytes, void *copy)
{
	const struct uaio_op_def *op = &uaio_optab[sqe->op];
	bool may_block = !op->never_blocks;

	req->sqe = *sqe;
	/* These members are adjacent, so the compiler merges the stores. */
	req->next = UAIO_NEXT_DONE;
	req->is_oldest = false;
	req->owns_waitq = false;
	req->is_one_call = req->was_paged = false;
	req->fault = UAIO_REQ_SOUND;
	req->in_chain = UAIO_CHAIN_BEGINS;
	req->native = UAIO_KERNEL_HAS_NOT;
	req->edges = 0;
	req->until_ns = 0;
	/*
	 * A caller that adds the request to an inode's order changes req->order afterwards.
	 */
	req->order = UAIO_ORDER_NONE;
	req->is_unwanted = false;
	req->found = (struct uaio_found){ .rest = UAIO_REST_UNKNOWN };
	req->done_bytes = 0;
	req->work.may_block = may_block;
	req->work.is_public = req->work.is_held = false;
	req->work.is_part = false;
	req->work.is_patient = op->sleeps | op->has_ends;
	req->work.slot = NULL;
	req->device = NULL;
	list_init(&req->link);
	req->late.held = UAIO_REQ_NOT_HELD;
	list_init(&req->work.link);
	list_init(&req->in_order);
	list_init(&req->in_paged);
	req->copy = copy;
	if (bytes && !copy) {
		req->copy = req->inline_iov;
		memcpy(req->inline_iov, sqe->buf, bytes);
	}
	if (req->copy)
		uaio_copy_use(req);
}

static struct uaio_req *take_locked(struct uaio_group *group)
{
	struct uaio_req *req = group->free;

	if (req) {
		group->free = req->next_free;
		return req;
	}
	return uaio_slab_get(&slab);
}

/*
 * Return: the crew (workers with the same credentials) that executes what the calling thread
 * submits.
 */
static unsigned enlist(const struct uaio_submitter *by)
{
	if (likely(!uaio_identities_are_many()))
		return 0;
	if (!by->is_maker)
		return uaio_wq_enlist();
	uaio_wq_enlist_in(by->queue->crew);
	return by->queue->crew;
}

static inline void count_locked(struct uaio_group *group)
{
	uint32_t nr_posted = (uint32_t)uaio_queue_of(group)->nr_queued;

	if (likely(++group->nr_made - nr_posted <= group->peak))
		return;
	group->peak++;
	uaio_stats_queue_peaks();
}

static inline __attribute__((always_inline)) struct uaio_req *
create(const struct uaio_submitter *by, const struct uaio_sqe *sqe,
       struct uaio_file *file, struct uaio_watch *watch)
{
	struct uaio_group *group = &by->queue->group;
	size_t bytes = uaio_sqe_copied_bytes(sqe);
	unsigned crew = enlist(by);
	struct uaio_req *req;
	void *copy = NULL;

	if (unlikely(crew == UAIO_WQ_NO_CREW))
		return NULL;
	if (bytes > sizeof(req->inline_iov) &&
	    !(copy = uaio_copy_new(sqe, bytes))) {
		uaio_wq_delist(crew);
		return NULL;
	}
	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	req = take_locked(group);
	if (req) {
		req->group = group;
		req->file = file;
		req->watch = watch;
		fill(req, sqe, bytes, copy);
		req->work.crew = (uint8_t)crew;
		req->since = uaio_former_now();
		uaio_req_move(req, UAIO_REQ_FREE, UAIO_REQ_PREPPED);
		list_add_tail(&group->requests, &req->in_group);
		if (unlikely(group->index))
			uaio_index_add(req);
		count_locked(group);
		if (uaio_req_delays_exit(req))
			uaio_gate_delay();
	}
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	if (!req) {
		uaio_wq_delist(crew);
		if (copy)
			uaio_copy_free(sqe, copy);
	}
	return req;
}

struct uaio_req *uaio_req_new_held(const struct uaio_submitter *by,
				   const struct uaio_sqe *sqe)
{
	return create(by, sqe, NULL, NULL);
}

int uaio_req_new(const struct uaio_submitter *by, struct uaio_file *fixed,
		 const struct uaio_sqe *sqe, bool parks,
		 struct uaio_req **ret_req)
{
	struct uaio_watch *watch = NULL;
	struct uaio_file *file;
	struct uaio_req *req;
	int ret;

	ret = get_file(sqe, fixed, &file);
	if (ret < 0)
		return ret == -ENOMEM ? -EAGAIN : ret;
	/*
	 * A request that parks needs a watch on its file; a timer has no file. If the
	 * program has reopened the descriptor as a regular file since the first try, only a
	 * poll still parks and needs a watch.
	 */
	if (parks && likely(file) &&
	    (!file->inode || uaio_optab[sqe->op].class == UAIO_CLASS_POLL) &&
	    !(watch = uaio_watch_get(&by->queue->group, file)))
		goto err_file;
	req = create(by, sqe, file, watch);
	if (!req)
		goto err_file;
	if (uaio_req_uses_number(req))
		(void)uaio_file_use(file);
	*ret_req = req;
	return 0;

err_file:
	put_file(file);
	return -EAGAIN;
}

void uaio_req_leave_locked(struct uaio_req *req, bool is_reusable)
{
	struct uaio_group *group = req->group;

	uaio_req_move(req, UAIO_REQ_RUNNING, UAIO_REQ_FREE);
	uaio_wq_delist(req->work.crew);
	list_remove(&req->in_group);
	if (unlikely(group->index))
		uaio_index_remove(req);
	if (is_reusable) {
		req->next_free = group->free;
		group->free = req;
	}
}

void uaio_req_free(struct uaio_req *req)
{
	uaio_slab_put(&slab, req);
}

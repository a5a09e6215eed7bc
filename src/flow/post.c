/* SPDX-License-Identifier: MIT */
#include "flow/post.h"

#include "base/check.h"
#include "proc/table.h"
#include "native/native.h"
#include "ready/ready.h"
#include "ready/waiter.h"
#include "flow/cancel.h"
#include "flow/drain.h"
#include "flow/flow.h"

void uaio_queue_init(struct uaio_queue *queue, const struct uaio_sink *sink)
{
	/*
	 * Take the lock: a thread that waited on this queue before it was closed may still
	 * read the queue's members, under the lock.
	 */
	uaio_queue_lock(queue);
	store_relaxed(&queue->sink, sink);
	uaio_group_init(&queue->group);
	list_init(&queue->waiters);
	queue->leader = NULL;
	queue->nr_leads = 0;
	queue->nr_inline = queue->nr_queued = queue->nr_wakeups = 0;
	queue->wants_act = false;
	queue->is_makers = false;
	uaio_queue_unlock(queue);
}

void uaio_queue_keep_maker(struct uaio_queue *queue)
{
	unsigned crew = uaio_wq_enlist();

	/*
	 * All crews are in use, so none can be reserved for the maker (the thread that has
	 * opened the queue). Workers then use the credentials of each submitter.
	 */
	if (crew == UAIO_WQ_NO_CREW)
		return;
	queue->is_makers = true;
	queue->crew = (uint16_t)crew;
	queue->identity = uaio_identity_mine();
	queue->start_nr = uaio_engine_start_nr();
}

void uaio_queue_drop_maker(struct uaio_queue *queue)
{
	if (queue->is_makers && queue->start_nr == uaio_engine_start_nr())
		uaio_wq_delist(queue->crew);
	queue->is_makers = false;
}

void uaio_queue_fini(struct uaio_queue *queue)
{
	uaio_group_fini(&queue->group);
}

void uaio_queue_open_locked(struct uaio_queue *queue)
{
	static uint16_t nr_opened; /* atomic */

	UAIO_CHECK(!uaio_queue_is_open_locked(queue));
	store_relaxed(&queue->number,
		      (uint16_t)(add_relaxed(&nr_opened, 1) + 1));
	/*
	 * relaxed: a thread that reads `generation` without the lock compares it again
	 * under the lock
	 */
	store_relaxed(&queue->generation, queue->generation + 1);
}

void uaio_queue_close(struct uaio_queue *queue)
{
	struct uaio_group *group = &queue->group;
	uint32_t nr;

	uaio_waiters_dismiss(queue);
	uaio_group_close(group);
	/*
	 * Requests in kernel AIO end by themselves. No other thread waits on this queue
	 * any more, so this thread reaps the completions of these requests.
	 */
	while ((nr = uaio_native_nr(group))) {
		if (!uaio_ready_take_native(group))
			uaio_native_await(group, nr);
	}
}

static void give_to_sink_locked(struct uaio_queue *queue,
				const struct uaio_sink *sink,
				const struct uaio_post *post)
{
	sink->post(queue, post);
	if (post->is_inline)
		queue->nr_inline += post->nr;
	else
		queue->nr_queued += post->nr;
}

/*
 * Return: whether sink->act() has to be called. If so, uaio_ready_pin() now keeps the
 * queue from being freed.
 */
static bool begins_act_locked(struct uaio_queue *queue)
{
	if (likely(!queue->wants_act))
		return false;
	queue->wants_act = false;
	uaio_ready_pin(&queue->group.ready);
	return true;
}

static void act(struct uaio_queue *queue, const struct uaio_sink *sink)
{
	sink->act(queue);
	uaio_ready_unpin(&queue->group.ready);
}

/*
 * Not inline: usually no thread waits, and then the caller needs no stack for the array of
 * wake-ups.
 */
static __attribute__((noinline)) void unlock_and_wake(struct uaio_queue *queue)
{
	struct uaio_wakeups wakeups;

	wakeups.nr = 0;
	uaio_waiters_collect_locked(queue, &wakeups);
	uaio_queue_unlock(queue);
	uaio_wakeups_deliver(&wakeups);
}

/*
 * Unlock the queue, and wake the waiters that have enough completions. After that the queue
 * may be freed.
 */
static inline void unlock(struct uaio_queue *queue)
{
	if (likely(list_is_empty(&queue->waiters)))
		uaio_queue_unlock(queue);
	else
		unlock_and_wake(queue);
}

static inline __attribute__((always_inline)) void
post_all(struct uaio_queue *queue, const struct uaio_post *post,
	 struct list *ret_startable)
{
	const struct uaio_sink *sink = queue->sink;
	bool acts = false;

	uaio_queue_lock(queue);
	give_to_sink_locked(queue, sink, post);
	if (ret_startable)
		acts = begins_act_locked(queue);
	/* relaxed: `drained` changes only under this lock */
	if (ret_startable && unlikely(load_relaxed(&queue->group.drained)))
		uaio_drain_advance_locked(&queue->group, ret_startable);
	unlock(queue);
	if (unlikely(post->words))
		sink->drop_words(post);
	if (unlikely(acts))
		act(queue, sink);
}

void uaio_queue_post(struct uaio_queue *queue, const struct uaio_post *post)
{
	post_all(queue, post, NULL);
}

void uaio_queue_post_late(struct uaio_queue *queue,
			  const struct uaio_post *post,
			  struct list *ret_startable)
{
	post_all(queue, post, ret_startable);
}

bool uaio_queue_post_more(struct uaio_queue *queue,
			  const struct uaio_completion *completion)
{
	const struct uaio_sink *sink = queue->sink;
	const struct uaio_post post = {
		.completions = completion,
		.nr = 1,
		.words = completion->word,
	};
	bool has_room, acts = false;

	uaio_queue_lock(queue);
	has_room = sink->has_room && sink->has_room(queue);
	if (has_room) {
		/*
		 * nr_queued is not incremented: it counts only the last completion of a
		 * request.
		 */
		sink->post(queue, &post);
		acts = begins_act_locked(queue);
		unlock(queue);
	} else {
		uaio_queue_unlock(queue);
	}
	if (unlikely(acts))
		act(queue, sink);
	return has_room;
}

static long collect(const void *arg)
{
	struct uaio_queue *queue = (struct uaio_queue *)(uintptr_t)arg;

	uaio_queue_lock(queue);
	unlock(queue);
	return 0;
}

void uaio_queue_post_parted(struct uaio_queue *queue,
			    const struct uaio_post *post)
{
	const struct uaio_sink *sink = queue->sink;
	bool has_waiters;

	/* Keep the queue from being freed before uaio_table_call() below. */
	uaio_ready_pin(&queue->group.ready);
	uaio_queue_lock(queue);
	give_to_sink_locked(queue, sink, post);
	has_waiters = !list_is_empty(&queue->waiters);
	uaio_queue_unlock(queue);
	if (has_waiters)
		(void)uaio_table_call(collect, queue, false);
	uaio_ready_unpin(&queue->group.ready);
	if (post->words)
		sink->drop_words(post);
}

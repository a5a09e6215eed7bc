/* SPDX-License-Identifier: MIT */
#include "door.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/slab.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "file/file.h"
#include "req/queue.h"
#include "ready/waiter.h"
#include "flow/cancel.h"
#include "flow/post.h"
#include "issue/chain.h"
#include "issue/submit.h"
#include "life/life.h"

struct door {
	struct uaio_slab_node node;

	/* immutable while the door is open */
	uint32_t epoch;
	uint64_t generation;

	/* used only by the submitter */
	uint32_t sq_head;

	struct uaio_queue queue;

	/* used under the lock of `queue`; only the submitter changes `fixed` */
	struct uaio_file *fixed[DOOR_NR_FIXED]; /* NULL: the slot is empty */
	uint32_t cq_tail;
	uint64_t nr_taken;
	uint64_t nr_done; /* how many accepted requests have completed */
	/*
	 * atomic: a futex. The thread that closes the door sleeps on it until all
	 * requests have completed.
	 */
	uint32_t drain;
	uint32_t is_closing;

	struct door_rings rings;
};

static struct {
	struct uaio_slab slab;
	/* how many engines were started; a child of fork() starts its own engine */
	uint32_t epoch;
} doors;

/*
 * The sink
 */

static uint32_t nr_unread(const struct uaio_queue *queue)
{
	const struct door *door = container_of(queue, struct door, queue);
	uint32_t nr = load_relaxed(&door->cq_tail) -
		      load_relaxed(&door->rings.cq_head);

	return nr < DOOR_NR_CQES ? nr : DOOR_NR_CQES;
}

/*
 * Return: whether a thread that waits for `need` unread completions may return from the
 * wait.
 */
static bool is_met(const struct uaio_queue *queue, uint64_t need)
{
	return nr_unread(queue) >= need;
}

static bool has_unread(const struct uaio_queue *queue)
{
	return nr_unread(queue);
}

static void post(struct uaio_queue *queue, const struct uaio_post *post)
{
	struct door *door = container_of(queue, struct door, queue);
	uint32_t tail = door->cq_tail, nr_last = 0;

	for (unsigned i = 0; i < post->nr; i++) {
		const struct uaio_completion *completion =
			&post->completions[i];
		bool has_more = completion->flags & UAIO_COMPLETION_MORE;

		door->rings.cqes[tail++ % DOOR_NR_CQES] = (struct door_cqe){
			.tag = completion->data,
			.res = completion->res,
			.flags = has_more ? DOOR_MORE : 0,
		};
		nr_last += !has_more;
	}
	store_relaxed(&door->cq_tail, tail);
	/*
	 * Release: publishes completions. Pairs with the client's acquire load of
	 * cq_tail.
	 */
	store_release(&door->rings.cq_tail, tail);
	door->nr_done += nr_last;
	if (door->is_closing) {
		__atomic_fetch_add(&door->drain, 1, __ATOMIC_RELEASE);
		uaio_wake(&door->drain, 1);
	}
}

/*
 * Return: how many slots of the completion ring are free. A free slot holds no unread
 * completion, and is not reserved for the last completion of an accepted request (I1).
 */
static uint32_t room_locked(const struct door *door)
{
	uint64_t owed =
		door->nr_taken - door->nr_done + nr_unread(&door->queue);

	return owed < DOOR_NR_CQES ? (uint32_t)(DOOR_NR_CQES - owed) : 0;
}

static bool has_room(struct uaio_queue *queue)
{
	return room_locked(container_of(queue, struct door, queue));
}

static void drop_words(const struct uaio_post *post)
{
	(void)post;
}

static struct uaio_file *get_fixed(struct uaio_queue *queue, int place)
{
	struct door *door = container_of(queue, struct door, queue);
	struct uaio_file *file = NULL;

	if ((uint32_t)place >= DOOR_NR_FIXED)
		return NULL;
	uaio_queue_lock(queue);
	if (door->fixed[place] && uaio_file_try_get(door->fixed[place]))
		file = door->fixed[place];
	uaio_queue_unlock(queue);
	return file;
}

static const struct uaio_sink sink = {
	.post = post,
	.has_room = has_room,
	.drop_words = drop_words,
	.is_met = is_met,
	.has_unreaped = has_unread,
	.get_fixed = get_fixed,
};

/*
 * Opening and closing
 */

/*
 * The first call starts the engine. The front-ends of the library start their engine in
 * the same way.
 */
static int start(void)
{
	int ret;

	if (uaio_engine_is_up() && doors.epoch)
		return 0;
	ret = uaio_engine_start();
	if (ret == 0) {
		uaio_slab_init(&doors.slab, sizeof(struct door), 65536);
		doors.epoch++;
	}
	return ret;
}

int door_open(struct door **ret_door, struct door_rings **ret_rings)
{
	struct door *door;
	int ret = start();

	if (ret < 0)
		return ret;
	if (!uaio_enter())
		return -EAGAIN;
	door = uaio_slab_get(&doors.slab);
	if (door) {
		door->epoch = doors.epoch;
		door->sq_head = door->cq_tail = 0;
		door->nr_taken = door->nr_done = 0;
		door->is_closing = 0;
		for (unsigned i = 0; i < DOOR_NR_FIXED; i++)
			door->fixed[i] = NULL;
		door->rings = (struct door_rings){ 0 };
		uaio_queue_init(&door->queue, &sink);
		uaio_queue_lock(&door->queue);
		uaio_queue_open_locked(&door->queue);
		door->generation = door->queue.generation;
		uaio_queue_unlock(&door->queue);
		*ret_door = door;
		*ret_rings = &door->rings;
	}
	uaio_leave();
	return door ? 0 : -ENOMEM;
}

/*
 * Return: whether this process opened the door. A child of fork() inherits a copy of
 * the door, which it cannot use.
 */
static bool is_open(const struct door *door)
{
	return uaio_engine_is_up() && door->epoch == doors.epoch;
}

/*
 * Call uaio_enter() if this process opened the door.
 * Return: 0 if the thread is now inside the library; -EBADF if another process opened
 * the door; -EAGAIN if the thread was already inside.
 */
static int step_in(const struct door *door)
{
	return !is_open(door) ? -EBADF : uaio_enter() ? 0 : -EAGAIN;
}

static bool is_drained(struct door *door)
{
	bool ret;

	uaio_queue_lock(&door->queue);
	ret = door->nr_done == door->nr_taken;
	uaio_queue_unlock(&door->queue);
	return ret;
}

int door_close(struct door *door)
{
	int ret = step_in(door);

	if (ret < 0)
		return ret;
	uaio_queue_lock(&door->queue);
	door->is_closing = 1;
	uaio_queue_unlock(&door->queue);
	uaio_queue_close(&door->queue);
	for (;;) {
		/* Pairs with post(). */
		uint32_t key = load_acquire(&door->drain);

		if (is_drained(door))
			break;
		(void)uaio_sleep_outside(&door->drain, key, UAIO_FOREVER);
	}
	uaio_queue_fini(&door->queue);
	for (unsigned i = 0; i < DOOR_NR_FIXED; i++)
		if (door->fixed[i])
			uaio_file_put(door->fixed[i]);
	uaio_slab_put(&doors.slab, door);
	uaio_leave();
	return 0;
}

/*
 * Fixed files
 */

static void set_fixed(struct door *door, uint32_t place, struct uaio_file *file)
{
	uaio_queue_lock(&door->queue);
	door->fixed[place] = file;
	uaio_queue_unlock(&door->queue);
}

int door_fix(struct door *door, uint32_t place, int fd)
{
	struct uaio_file *file;
	int ret = step_in(door);

	if (ret < 0)
		return ret;
	if (place >= DOOR_NR_FIXED)
		ret = -EINVAL;
	else if (door->fixed[place])
		ret = -EBUSY;
	else if ((ret = uaio_file_fix(fd, &file)) == 0)
		set_fixed(door, place, file);
	uaio_leave();
	return ret;
}

int door_unfix(struct door *door, uint32_t place)
{
	int ret = step_in(door);

	if (ret < 0)
		return ret;
	if (place >= DOOR_NR_FIXED || !door->fixed[place]) {
		ret = -ENOENT;
	} else {
		struct uaio_file *file = door->fixed[place];

		set_fixed(door, place, NULL);
		uaio_file_put(file);
	}
	uaio_leave();
	return ret;
}

/*
 * Submitting
 */

static const uint8_t op_of[DOOR_NR_WHATS] = {
	[DOOR_READ] = UAIO_OP_READ,
	[DOOR_READV] = UAIO_OP_READV,
	[DOOR_WRITE] = UAIO_OP_WRITE,
	[DOOR_SYNC] = UAIO_OP_FSYNC,
	[DOOR_POLL] = UAIO_OP_POLL,
	[DOOR_NOP] = UAIO_OP_NOP,
	[DOOR_OPEN] = UAIO_OP_OPENAT,
	[DOOR_TIMER] = UAIO_OP_TIMER,
	[DOOR_LINK_TIMER] = UAIO_OP_LINK_TIMER,
};

/* Translate a submission from the door's format to the engine's. */
static struct uaio_sqe translate(const struct door_sqe *from)
{
	struct uaio_sqe sqe = {
		.op = op_of[from->what],
		.links = (from->options & DOOR_LINK ? UAIO_LINK : 0) |
			 (from->options & DOOR_LINK_HARD ? UAIO_LINK_HARD : 0) |
			 (from->options & DOOR_DRAIN ? UAIO_DRAIN : 0),
		.is_async = from->options & DOOR_ASYNC,
		.fd = from->fd,
		.off = from->place, /* DOOR_TIMER: the duration */
		.buf = from->memory,
		.len = from->size,
		.data = from->tag,
		.key = from->tag,
	};

	if (from->what == DOOR_CORE) {
		const struct uaio_sqe *core = from->memory;
		uint16_t links = sqe.links;

		sqe = *core;
		sqe.links = links;
		sqe.data = sqe.key = from->tag;
		sqe.is_async = from->options & DOOR_ASYNC;
	}
	if (from->what == DOOR_POLL) {
		sqe.events = from->size;
		sqe.is_multishot = from->options & DOOR_REPEATEDLY;
	}
	if (from->what == DOOR_OPEN) {
		sqe.open_flags = (uint32_t)from->place;
		sqe.mode = 0600;
	}
	return sqe;
}

/* Post the completion of a submission that the door handles without the engine. */
static void answer(struct door *door, struct uaio_batch *batch, uint64_t tag,
		   int64_t res)
{
	const struct uaio_completion completion = {
		.data = tag,
		.res = (int32_t)res,
	};
	const struct uaio_post post = {
		.completions = &completion,
		.nr = 1,
		.is_inline = true,
	};

	uaio_batch_post(batch);
	uaio_queue_post(&door->queue, &post);
}

/* Return: the fixed file of a submission; NULL if there is none. */
static struct uaio_file *fixed_of(const struct door *door,
				  const struct door_sqe *from)
{
	return (uint32_t)from->fd < DOOR_NR_FIXED ? door->fixed[from->fd]
						  : NULL;
}

static int add(struct door *door, struct uaio_batch *batch,
	       struct uaio_chain *chain, const struct door_sqe *from)
{
	const struct uaio_sqe sqe = translate(from);
	struct uaio_file *file = NULL;
	int ret = 0;

	if (uaio_chain_takes(chain, &sqe))
		return from->options & DOOR_FIXED
			       ? uaio_chain_add_fixed(chain, &sqe)
			       : uaio_chain_add(chain, &sqe);
	if (from->options & DOOR_FIXED) {
		file = fixed_of(door, from);
		return file ? uaio_batch_add_fixed(batch, file, &sqe) : -EBADF;
	}
	if (!uaio_optab[sqe.op].has_no_file)
		ret = uaio_look_up(sqe.fd, &file);
	return ret < 0 ? ret : uaio_batch_add(batch, file, &sqe);
}

static int cancel(struct door *door, const struct door_sqe *from)
{
	struct uaio_file *file = fixed_of(door, from);

	if (!(from->options & DOOR_FIXED))
		return uaio_queue_cancel_one(&door->queue,
					     (uint64_t)from->place);
	return file ? uaio_queue_cancel_file(&door->queue, file) : -EBADF;
}

static void take_in(struct door *door, struct uaio_batch *batch,
		    struct uaio_chain *chain, const struct door_sqe *from)
{
	int ret;

	if (from->what >= DOOR_NR_WHATS) {
		answer(door, batch, from->tag, -EINVAL);
	} else if (from->what == DOOR_CANCEL) {
		/*
		 * Submit the earlier requests to the engine first, so that the cancel
		 * finds them.
		 */
		uaio_chain_end(chain);
		uaio_batch_end(batch);
		ret = cancel(door, from);
		uaio_batch_begin(batch, &door->queue);
		answer(door, batch, from->tag, ret);
	} else if ((ret = add(door, batch, chain, from)) < 0) {
		answer(door, batch, from->tag, ret);
	}
}

/*
 * Reserve a slot of the completion ring for the last completion of each of the next nr
 * submissions.
 * Return: how many slots were reserved.
 */
static uint32_t reserve(struct door *door, uint32_t nr)
{
	uaio_queue_lock(&door->queue);
	if (nr > room_locked(door))
		nr = room_locked(door);
	door->nr_taken += nr;
	uaio_queue_unlock(&door->queue);
	return nr;
}

static int submit(struct door *door)
{
	/* Acquire: the client filled in the submissions before it advanced sq_tail. */
	uint32_t nr = load_acquire(&door->rings.sq_tail) - door->sq_head;
	struct uaio_batch batch;
	struct uaio_chain chain;

	nr = reserve(door, nr < DOOR_NR_SQES ? nr : DOOR_NR_SQES);
	if (!nr)
		return 0;
	uaio_batch_begin(&batch, &door->queue);
	uaio_chain_begin(&chain, &batch);
	for (uint32_t i = 0; i < nr; i++) {
		/*
		 * Copy the submission once, because the client may change it at any time
		 * (I2).
		 */
		const struct door_sqe sqe =
			door->rings.sqes[door->sq_head % DOOR_NR_SQES];

		door->sq_head++;
		take_in(door, &batch, &chain, &sqe);
	}
	uaio_chain_end(&chain);
	uaio_batch_end(&batch);
	store_release(&door->rings.sq_head, door->sq_head);
	return (int)nr;
}

/*
 * Waiting
 */

static int await(struct door *door, uint32_t nr_min, int64_t deadline_ns)
{
	const struct uaio_wait wait = { .deadline_ns = deadline_ns };
	struct uaio_queue *queue = &door->queue;
	int ret = 0;

	if (nr_min > DOOR_NR_CQES)
		nr_min = DOOR_NR_CQES;
	while (nr_unread(queue) < nr_min && ret == 0) {
		uaio_queue_run(queue, deadline_ns != 0);
		if (nr_unread(queue) < nr_min)
			ret = uaio_queue_wait(queue, door->generation, nr_min,
					      &wait);
	}
	return nr_unread(queue) < nr_min ? ret : 0;
}

int door_wait(struct door *door, uint32_t nr_min, int64_t deadline_ns)
{
	int ret = step_in(door);

	if (ret < 0)
		return ret;
	ret = await(door, nr_min, deadline_ns);
	uaio_leave();
	return ret;
}

int door_enter(struct door *door, uint32_t nr_min, int64_t deadline_ns)
{
	int ret = step_in(door), error;

	if (ret < 0)
		return ret;
	ret = submit(door);
	error = await(door, nr_min, deadline_ns);
	uaio_leave();
	return ret ? ret : error;
}

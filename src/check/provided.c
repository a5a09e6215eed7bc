/* SPDX-License-Identifier: MIT */
/*
 * Checks provided buffers of io_uring, which requests with IOSQE_BUFFER_SELECT choose
 *
 * The program may read and write a provided buffer, as no manual page forbids this. But
 * until a request has used the buffer, its memory must stay: the program must not free
 * or unmap it, or return from the function of which it is a local variable. The error
 * is reported when a request chooses the buffer afterwards. A program that frees its
 * buffers and then closes its ring is correct.
 *
 *   V1  The buffers of a group are in a queue, in the order in which requests choose them.
 *   V2  A buffer is in the address index (index.c) until the program frees its memory, or a
 *       request chooses the buffer.
 *   V3  The queue of a group changes under the lock that the ring has for its buffer groups.
 *       A thread acquires this lock before the lock of this file.
 *
 * Tested by test-check.c.
 */
#include "check/check.h"

#include "base/atomic.h"
#include "base/list.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "op/op.h"
#include "check/checker.h"
#include "check/checkint.h"

/* At most this number of buffers is checked. */
enum { BUFFERS = 65536 };

struct buffer {
	/*
	 * valid if the buffer is in the index, or the program has freed its memory
	 */
	struct uaio_check_part part;
	/*
	 * index of the next buffer in the group's queue, or in the list of free
	 * entries; 0: none
	 */
	uint32_t next;
	/* number of the call stack that provided the buffer */
	uint32_t stack;
	uint32_t end_stack;
	bool is_in_index;
	/* the program has freed the buffer's memory; `end` says how */
	bool has_ended;
	enum uaio_check_end end;
};

static struct {
	/*
	 * a new number each time the library starts, also in a child of fork(): groups
	 * with another number were recorded in the parent, and are not checked
	 */
	uint64_t life;

	/* under the lock; mapped once, and never unmapped */
	/* index 0 is not used */
	struct buffer *buffers;
	uint32_t nr_buffers, free_buffer;
	/* atomic: written under the lock */
	uint32_t nr_on_stack;
} provided;

void uaio_check_provided_init(void)
{
	if (!provided.buffers)
		provided.buffers =
			uaio_check_map(BUFFERS * sizeof(*provided.buffers));
	provided.nr_buffers = 1;
	provided.free_buffer = 0;
	provided.life++;
	store_relaxed(&provided.nr_on_stack, 0);
}

/* Called with the lock held */

static struct buffer *buffer_of(struct uaio_check_part *part)
{
	return container_of(part, struct buffer, part);
}

static uint32_t new_buffer_locked(void)
{
	uint32_t number = provided.free_buffer;

	if (number)
		provided.free_buffer = provided.buffers[number].next;
	else if (provided.buffers && provided.nr_buffers < BUFFERS)
		number = provided.nr_buffers++;
	return number;
}

static void take_from_index_locked(struct buffer *buffer)
{
	if (buffer->is_in_index)
		uaio_check_index_remove(&buffer->part);
	buffer->is_in_index = false;
	sub_relaxed(&provided.nr_on_stack, buffer->part.is_on_stack);
	buffer->part.is_on_stack = false;
}

static void put_in_index_locked(struct buffer *buffer)
{
	const struct uaio_check_part *part = &buffer->part;

	buffer->is_in_index =
		part->bytes && uaio_is_accessible(part->at, part->bytes);
	if (buffer->is_in_index)
		uaio_check_index_add(&buffer->part);
	add_relaxed(&provided.nr_on_stack, part->is_on_stack);
}

static void end_locked(struct buffer *buffer, enum uaio_check_end end,
		       uint32_t stack)
{
	take_from_index_locked(buffer);
	buffer->has_ended = true;
	buffer->end = end;
	buffer->end_stack = stack;
}

/*
 * A request has chosen the buffer. If the program had freed its memory before, set *ret
 * to this buffer.
 */
static void note_chosen_locked(const struct buffer *buffer,
			       struct uaio_check_ended *ret)
{
	if (buffer->has_ended)
		*ret = (struct uaio_check_ended){
			.at = buffer->part.at,
			.bytes = buffer->part.bytes,
			.end = buffer->end,
			.provided_at = buffer->stack,
			.ended_at = buffer->end_stack,
		};
}

static void drop_first_locked(struct uaio_check_provided *group)
{
	uint32_t number = group->first;
	struct buffer *buffer = &provided.buffers[number];

	take_from_index_locked(buffer);
	group->first = buffer->next;
	group->nr--;
	buffer->next = provided.free_buffer;
	provided.free_buffer = number;
}

/*
 * Return: whether the group's buffers were recorded in this process, not in its parent
 * before a fork().
 */
static bool is_alive(const struct uaio_check_provided *group)
{
	return group->nr && group->life == provided.life;
}

/*
 * Recording the buffers of a group
 */

static void drop_all_locked(struct uaio_check_provided *group)
{
	while (group->nr)
		drop_first_locked(group);
}

/*
 * Where buffers are provided: the frames and the stack bounds of the calling thread.
 */
struct place {
	struct uaio_check_walk walk;
	struct uaio_check_span stack;
};

/* Return: false if there is no room to record another buffer. */
static bool add_locked(struct uaio_check_provided *group,
		       const struct uaio_check_buffer *what,
		       const struct place *place)
{
	uint32_t number = new_buffer_locked();
	struct buffer *buffer = &provided.buffers[number];

	if (!number)
		return false;
	*buffer = (struct buffer){ .stack = place->walk.number };
	buffer->part.at = what->at;
	buffer->part.bytes = what->bytes;
	buffer->part.is_provided = true;
	buffer->part.is_on_stack =
		place->stack.end &&
		uaio_check_find_holder(&place->walk, what->at,
				       &buffer->part.holder);
	put_in_index_locked(buffer);
	if (group->nr)
		provided.buffers[group->last].next = number;
	else
		group->first = number;
	group->last = number;
	group->nr++;
	return true;
}

/*
 * Make helgrind and drd ignore the buffers, as a request of any thread may write to
 * them at any time.
 */
static void untrack(unsigned nr, uaio_check_buffer_fn *function,
		    const void *arg)
{
	for (unsigned i = 0; i < nr; i++) {
		const struct uaio_check_buffer what = function(arg, i);

		uaio_helgrind_untrack(what.at, what.bytes);
	}
}

void uaio_check_provide(struct uaio_check_provided *group, unsigned nr,
			uaio_check_buffer_fn *function, const void *arg)
{
	struct place place;

	if (unlikely(uaio_helgrind_name()))
		untrack(nr, function, arg);
	if (!uaio_check_is_on() || !nr || group->has_too_many)
		return;
	uaio_check_walk_now(&place.walk);
	place.stack = uaio_check_my_stack(uaio_check_sp(&place.walk));
	if (!is_alive(group))
		group->nr = 0;
	group->life = provided.life;
	uaio_check_lock();
	for (unsigned i = 0; i < nr && !group->has_too_many; i++) {
		const struct uaio_check_buffer what = function(arg, i);

		group->has_too_many = !add_locked(group, &what, &place);
	}
	if (group->has_too_many)
		drop_all_locked(group);
	uaio_check_unlock();
}

void uaio_check_provided_used(struct uaio_check_provided *group, uint32_t nr,
			      struct uaio_check_ended *ret)
{
	if (!nr || !is_alive(group))
		return;
	uaio_check_lock();
	for (; nr && group->nr; nr--) {
		note_chosen_locked(&provided.buffers[group->first], ret);
		drop_first_locked(group);
	}
	uaio_check_unlock();
}

void uaio_check_provided_begun(struct uaio_check_provided *group, uintptr_t at,
			       struct uaio_check_ended *ret)
{
	struct buffer *buffer;
	uintptr_t end;

	if (!is_alive(group))
		return;
	uaio_check_lock();
	buffer = &provided.buffers[group->first];
	end = buffer->part.at + buffer->part.bytes;
	if (at > buffer->part.at && at < end) {
		bool is_on_stack = buffer->part.is_on_stack;

		note_chosen_locked(buffer, ret);
		take_from_index_locked(buffer);
		buffer->part.at = at;
		buffer->part.bytes = end - at;
		buffer->part.is_on_stack = is_on_stack;
		if (!buffer->has_ended)
			put_in_index_locked(buffer);
	}
	uaio_check_unlock();
}

void uaio_check_provided_failed(const struct uaio_check_provided *group,
				struct uaio_check_ended *ret)
{
	if (!is_alive(group))
		return;
	uaio_check_lock();
	note_chosen_locked(&provided.buffers[group->first], ret);
	uaio_check_unlock();
}

void uaio_check_provided_end(struct uaio_check_provided *group)
{
	if (!is_alive(group))
		return;
	uaio_check_lock();
	drop_all_locked(group);
	uaio_check_unlock();
}

/*
 * Memory of provided buffers that the program frees
 */

static bool is_provided(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	return part->is_provided;
}

void uaio_check_provided_memory_ends(enum uaio_check_end end, uintptr_t at,
				     size_t bytes)
{
	struct uaio_check_part *part;
	uint32_t stack = 0;

	uaio_check_lock();
	part = uaio_check_index_find(at, bytes, is_provided, NULL);
	uaio_check_unlock();
	if (!part)
		return;
	stack = uaio_check_here();
	uaio_check_lock();
	while ((part = uaio_check_index_find(at, bytes, is_provided, NULL)))
		end_locked(buffer_of(part), end, stack);
	uaio_check_unlock();
}

bool uaio_check_provided_has_stack(void)
{
	/*
	 * relaxed: a thread sees at least the buffers that it has provided itself, and
	 * it looks for no others on its stack
	 */
	return load_relaxed(&provided.nr_on_stack);
}

static bool has_returned(const void *arg, const struct uaio_check_part *part)
{
	return part->is_provided && part->is_on_stack &&
	       uaio_check_has_returned(arg, &part->holder);
}

void uaio_check_provided_look_at_stack(const struct uaio_check_walk *walk,
				       const struct uaio_check_span *stack)
{
	struct uaio_check_part *part;

	uaio_check_lock();
	while ((part = uaio_check_index_find(stack->begin,
					     stack->end - stack->begin,
					     has_returned, walk)))
		end_locked(buffer_of(part), UAIO_CHECK_RETURNED, walk->number);
	uaio_check_unlock();
}

void uaio_check_say_chosen(const struct uaio_check_ended *ended,
			   const struct uaio_sqe *sqe)
{
	static const char *const did[] = {
		[UAIO_CHECK_FREED] = "that the program has freed",
		[UAIO_CHECK_UNMAPPED] = "that the program has unmapped",
		[UAIO_CHECK_RETURNED] =
			"in the stack frame of a function that has returned",
	};
	const struct uaio_check_report report = {
		.kind = UAIO_CHECK_KIND_PROVIDED,
		.at = ended->at,
		.bytes = ended->bytes,
		.did = did[ended->end],
		.record = { .stack = ended->provided_at,
			    .op = sqe->op,
			    /*
			     * Report no descriptor: sqe->fd may be a descriptor of the
			     * library.
			     */
			    .fd = -1,
			    .off = -1,
			    .data = sqe->data },
		.part = { .at = ended->at, .bytes = ended->bytes },
		.other.op = UAIO_NR_OPS,
		.now = ended->ended_at,
	};

	/*
	 * If the unmapped memory is readable again, report nothing: the program may
	 * have mapped new memory for the buffer.
	 */
	if (ended->end == UAIO_CHECK_UNMAPPED &&
	    uaio_can_read(ended->at, ended->bytes))
		return;
	uaio_check_report(&report);
}

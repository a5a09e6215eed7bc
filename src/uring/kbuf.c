/* SPDX-License-Identifier: MIT */
#include "uring/kbuf.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/slab.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "file/file.h"
#include "proc/entry.h"
#include "op/sock.h"
#include "check/check.h"
#include "uring/calls.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/sq.h"

enum {
	BUF_FLAGS = IORING_CQE_F_BUFFER | IORING_CQE_F_BUF_MORE,
	BID_SHIFT = IORING_CQE_BUFFER_SHIFT,
	NR_LIST_MAX = UINT16_MAX,
};

static struct uaio_slab buffers, groups;

void uaio_uring_kbufs_init(void)
{
	uaio_slab_init(&buffers, sizeof(struct uaio_uring_buffer), 65536);
	uaio_slab_init(&groups, sizeof(struct uaio_uring_group), 16384);
	uaio_uring_bundles_init();
}

void uaio_uring_groups_lock(struct uaio_uring *ring)
{
	uaio_lock(&ring->groups.lock, UAIO_RANK_BUFFERS);
}

void uaio_uring_groups_unlock(struct uaio_uring *ring)
{
	uaio_unlock(&ring->groups.lock, UAIO_RANK_BUFFERS);
}

/* Groups of buffers. The caller holds the lock of the ring's groups. */

struct uaio_uring_group *uaio_uring_group_find(struct uaio_uring *ring,
					       uint32_t id)
{
	struct uaio_uring_group **link = &ring->groups.first, *group;

	while ((group = *link) && group->id != id)
		link = &group->next;
	if (!group || link == &ring->groups.first)
		return group;
	/*
	 * Move the group to the front, because the next search is likely to be for it.
	 */
	*link = group->next;
	group->next = ring->groups.first;
	ring->groups.first = group;
	return group;
}

struct uaio_uring_group *uaio_uring_group_new(struct uaio_uring *ring,
					      uint16_t id)
{
	struct uaio_uring_group *group = uaio_slab_get(&groups);

	if (!group)
		return NULL;
	group->id = id;
	group->array = NULL;
	group->own_bytes = 0;
	group->nr_ahead = 0;
	group->is_begun = false;
	group->provided = (struct uaio_check_provided){ .nr = 0 };
	group->first = group->last = NULL;
	group->nr = 0;
	group->next = ring->groups.first;
	ring->groups.first = group;
	return group;
}

static void drop_first(struct uaio_uring_group *group)
{
	struct uaio_uring_buffer *buffer = group->first;

	group->first = buffer->next;
	group->nr--;
	uaio_slab_put(&buffers, buffer);
}

void uaio_uring_group_free(struct uaio_uring *ring,
			   struct uaio_uring_group *group)
{
	struct uaio_uring_group **link = &ring->groups.first;

	while (*link != group)
		link = &(*link)->next;
	*link = group->next;
	if (unlikely(uaio_config.is_examined))
		uaio_check_provided_end(&group->provided);
	while (group->first)
		drop_first(group);
	if (group->own_bytes)
		(void)sys_munmap(group->array, group->own_bytes);
	uaio_slab_put(&groups, group);
}

void uaio_uring_groups_init(struct uaio_uring *ring)
{
	ring->groups = (struct uaio_uring_groups){ .first = NULL };
}

void uaio_uring_groups_fini(struct uaio_uring *ring)
{
	uaio_uring_groups_lock(ring);
	while (ring->groups.first)
		uaio_uring_group_free(ring, ring->groups.first);
	uaio_uring_groups_unlock(ring);
}

/* Selecting a buffer. The caller holds the lock of the ring's groups. */

static bool may_read(const struct uaio_uring_group *group, const void *at,
		     size_t bytes)
{
	return group->own_bytes || uaio_can_read((uintptr_t)at, bytes);
}

/* Return: whether buf is in the array's first 4096 bytes, as the tail is. */
static bool is_in_first_page(const struct io_uring_buf_ring *array,
			     const struct io_uring_buf *buf)
{
	return (uintptr_t)buf - (uintptr_t)array < 4096;
}

/* Return: whether an entry of the array, and the array's tail, can be read. */
static bool may_read_entry(const struct uaio_uring_group *group,
			   const struct io_uring_buf *buf)
{
	const struct io_uring_buf_ring *array = group->array;

	/*
	 * Arrays are page-aligned. So if the entry is in the first 4096 bytes, one
	 * check covers the entry and the tail.
	 */
	return may_read(group, buf, sizeof(*buf)) &&
	       (is_in_first_page(array, buf) ||
		may_read(group, &array->tail, sizeof(array->tail)));
}

/* Return: entry number group->head + after, masked. Entry 0 contains the tail. */
static struct io_uring_buf *entry_at(const struct uaio_uring_group *group,
				     unsigned after)
{
	return (struct io_uring_buf *)group->array +
	       ((group->head + after) & group->mask);
}

/*
 * Return: how many buffers the array has. The caller has checked that the tail can be
 * read.
 */
static unsigned nr_there(const struct uaio_uring_group *group)
{
	/* [MB:uring-sq] acquire: load the tail before the buffers. Pairs with the client. */
	return (uint16_t)(load_acquire(&group->array->tail) - group->head);
}

unsigned uaio_uring_array_nr(const struct uaio_uring_group *group)
{
	return may_read_entry(group, entry_at(group, 0)) ? nr_there(group)
							 : group->is_begun;
}

static unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Read entries of the array ahead of their use. Begin `after` positions past the next
 * buffer, and stop at the next multiple of 4096 bytes, so that one check covers all
 * these entries.
 */
static void read_ahead(struct uaio_uring_group *group, unsigned after)
{
	const struct io_uring_buf *buf = entry_at(group, after);
	unsigned to_page_end = (4096 - ((unsigned)(uintptr_t)buf & 4095)) /
			       (unsigned)sizeof(*buf),
		 to_wrap = group->mask + 1u -
			   ((group->head + after) & group->mask),
		 nr;

	group->nr_ahead = 0;
	if (!may_read_entry(group, buf))
		return;
	nr = nr_there(group);
	nr = nr > after ? nr - after : 0;
	nr = min(min(nr, UAIO_URING_NR_AHEAD), min(to_page_end, to_wrap));
	/* relaxed, all: the acquire of the tail (nr_there()) orders these loads */
	for (unsigned i = 0; i < nr; i++)
		group->ahead[i] = (struct uaio_uring_ahead){
			.addr = load_relaxed(&buf[i].addr),
			.len = load_relaxed(&buf[i].len),
			.bid = load_relaxed(&buf[i].bid),
		};
	group->ahead_of = (uint16_t)(group->head + after);
	group->nr_ahead = (uint16_t)nr;
}

static void choose(struct uaio_uring_choice *ret,
		   const struct uaio_uring_ahead *buffer)
{
	ret->addr = buffer->addr;
	ret->len = buffer->len;
	ret->bid = buffer->bid;
}

bool uaio_uring_array_look(struct uaio_uring_group *group, unsigned after,
			   struct uaio_uring_choice *ret)
{
	unsigned place = (uint16_t)(group->head + after - group->ahead_of);

	if (!after && group->is_begun) {
		choose(ret, &group->rest);
		return true;
	}
	if (place >= group->nr_ahead) {
		read_ahead(group, after);
		if (!group->nr_ahead)
			return false;
		place = 0;
	}
	choose(ret, &group->ahead[place]);
	return true;
}

/*
 * Return: whether an entry of the array can be written. The check takes a system call.
 * So a thread that executes many requests in one run (struct uaio_entry_run) checks
 * each page once.
 */
static bool may_write_entry(const struct uaio_uring_group *group,
			    const struct io_uring_buf *buf)
{
	/* As in read_ahead(), the check covers 4096 bytes, even if pages are larger. */
	const uintptr_t page = (uintptr_t)buf & ~(uintptr_t)4095;
	struct uaio_entry_run *run = uaio_entry.run;

	if (group->own_bytes || (run && run->writable == page))
		return true;
	if (!uaio_can_write((uintptr_t)buf, sizeof(*buf)))
		return false;
	if (run)
		run->writable = page;
	return true;
}

/*
 * `choice` describes the next buffer, of which len bytes are left: write the address
 * and length of these bytes to the client's array. Write nothing if the array is
 * unmapped, or its entry differs from `choice`: the memory may now have another use.
 */
static void show_rest(struct uaio_uring_group *group,
		      const struct uaio_uring_choice *choice, uint32_t len)
{
	struct io_uring_buf *buf = entry_at(group, 0);

	if (!may_write_entry(group, buf))
		return;
	/*
	 * relaxed, all: the client does not change the entry until its buffer is used
	 * up
	 */
	if (load_relaxed(&buf->addr) != choice->addr ||
	    load_relaxed(&buf->len) != choice->room ||
	    load_relaxed(&buf->bid) != choice->bid)
		return;
	if (len)
		store_relaxed(&buf->addr, choice->addr + choice->room - len);
	store_relaxed(&buf->len, len);
}

/*
 * Consume `bytes` bytes of the next buffer, which is incremental (IOU_PBUF_RING_INC).
 * Return: whether the buffer is used up.
 */
static bool use_part(struct uaio_uring_group *group,
		     const struct uaio_uring_choice *choice, uint32_t bytes)
{
	uint32_t len = choice->room > bytes ? choice->room - bytes : 0;

	if (!bytes)
		return false;
	if (len < group->min_left)
		len = 0;
	show_rest(group, choice, len);
	group->is_begun = len;
	group->rest = (struct uaio_uring_ahead){
		.addr = choice->addr + bytes,
		.len = len,
		.bid = choice->bid,
	};
	return !len;
}

static bool use_array(struct uaio_uring_group *group,
		      const struct uaio_uring_choice *choice, uint32_t bytes)
{
	bool is_used_up =
		!group->is_incremental || use_part(group, choice, bytes);

	group->head += is_used_up;
	return is_used_up;
}

bool uaio_uring_use_up(struct uaio_uring_group *group,
		       const struct uaio_uring_choice *choice, uint32_t bytes)
{
	if (group->array)
		return use_array(group, choice, bytes);
	drop_first(group);
	return true;
}

void uaio_uring_tell_buffer(struct uaio_uring_note *note, bool is_used_up)
{
	note->cqe_flags =
		(note->cqe_flags & UINT16_MAX & ~(uint32_t)BUF_FLAGS) |
		IORING_CQE_F_BUFFER | (is_used_up ? 0 : IORING_CQE_F_BUF_MORE) |
		(uint32_t)note->choice.bid << BID_SHIFT;
}

void uaio_uring_tell_none(struct uaio_uring_note *note)
{
	note->cqe_flags &= UINT16_MAX & ~(uint32_t)BUF_FLAGS;
}

/* Consume bytes of the selected buffer, and name the buffer in the completion. */
static void use(struct uaio_uring_group *group, struct uaio_uring_note *note,
		uint32_t bytes)
{
	uaio_uring_tell_buffer(note,
			       uaio_uring_use_up(group, &note->choice, bytes));
}

/* Picking and releasing a buffer */

/* Return: whether sqe is READ or READV, which use a buffer even for 0 bytes. */
static bool is_read(const struct uaio_sqe *sqe)
{
	return sqe->key == IORING_OP_READ || sqe->key == IORING_OP_READV;
}

int uaio_uring_no_group(const struct uaio_sqe *sqe)
{
	/* The kernel's error for a missing group depends on the operation. */
	return uaio_uring_is_send(sqe) || sqe->call_flags & UAIO_MSG_PIECES
		       ? -ENOENT
		       : -ENOBUFS;
}

/*
 * Return: whether the request owns its buffer from the first attempt on, whatever the
 * result, as in the kernel. This holds for sends, and for reads with a buffer of a
 * list. With IOSQE_ASYNC it also holds for other requests with a buffer of an array.
 */
static bool keeps_from_first(const struct uaio_sqe *sqe,
			     const struct uaio_uring_choice *choice)
{
	if (uaio_uring_is_send(sqe))
		return true;
	return choice->of->array ? sqe->is_async && !sqe->is_multishot
				 : is_read(sqe);
}

/* Select the group's next buffer. Return: 0; -ENOBUFS, -ENOENT: there is none. */
static int choose_locked(const struct uaio_sqe *sqe,
			 struct uaio_uring_note *note, uint64_t max)
{
	struct uaio_uring_choice *choice = &note->choice;
	struct uaio_uring_group *group =
		uaio_uring_group_find(choice->ring, choice->group);

	/* The note may name the previous completion's buffer: remove this name. */
	uaio_uring_tell_none(note);
	if (!group)
		return uaio_uring_no_group(sqe);
	if (!uaio_uring_look(group, choice))
		return -ENOBUFS;
	/* As in the kernel, a read or receive into address 0 finds no buffer. */
	if (!choice->addr && !uaio_uring_is_send(sqe))
		return -ENOBUFS;
	/* As in the kernel, a send of length 0 from an array finds no buffer. */
	if (!choice->len && group->array && uaio_uring_is_send(sqe))
		return -ENOBUFS;
	choice->room = choice->len;
	/* As in the kernel, a send from an array is limited to INT_MAX bytes. */
	if (!max && group->array && uaio_uring_is_send(sqe))
		max = INT_MAX;
	/* A send from a list uses the whole buffer, even beyond max. */
	if (max && choice->len > max &&
	    (group->array || !uaio_uring_is_send(sqe)))
		choice->len = (uint32_t)max;
	if (is_read(sqe) || sqe->call_flags & MSG_WAITALL)
		note->expected = choice->len;
	choice->of = group;
	return 0;
}

/*
 * Return: 0; -EFAULT if the buffer of a read cannot be user memory: then the read does
 * not use the buffer.
 */
static int check_locked(const struct uaio_sqe *sqe,
			const struct uaio_uring_choice *choice)
{
	return choice->of->array && is_read(sqe)
		       ? uaio_uring_check_range(choice->addr, choice->len)
		       : 0;
}

int uaio_uring_pick(const struct uaio_sqe *sqe, uint64_t max, bool may_block,
		    struct iovec *ret_iov)
{
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);
	struct uaio_uring_choice *choice = &note->choice;
	bool keeps;
	int ret;

	if (choice->state == UAIO_URING_NOT_CHOSEN) {
		uaio_uring_groups_lock(choice->ring);
		ret = choose_locked(sqe, note, max);
		keeps = may_block ||
			(ret == 0 && keeps_from_first(sqe, choice));
		if (ret == 0 && !keeps)
			ret = check_locked(sqe, choice);
		if (ret < 0) {
			uaio_uring_groups_unlock(choice->ring);
			return ret;
		}
		choice->state = UAIO_URING_TRYING;
		if (keeps) {
			choice->state = UAIO_URING_KEPT;
			use(choice->of, note, choice->len);
			uaio_uring_groups_unlock(choice->ring);
		}
	}
	ret_iov->iov_base = (void *)(uintptr_t)choice->addr;
	ret_iov->iov_len = choice->len;
	return 0;
}

void uaio_uring_picked(const struct uaio_sqe *sqe, int64_t res)
{
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);
	struct uaio_uring_choice *choice = &note->choice;

	if (choice->state == UAIO_URING_KEPT) {
		/* After a failure the request may try again with the same buffer. */
		if (res >= 0)
			choice->state = UAIO_URING_NOT_CHOSEN;
		uaio_uring_count_bytes(choice, res);
		return;
	}
	if (choice->state == UAIO_URING_NOT_CHOSEN)
		return;
	choice->state = UAIO_URING_NOT_CHOSEN;
	/* A read at the end of a file uses its buffer. */
	if (res > 0 || (res == 0 && is_read(sqe)))
		use(choice->of, note, (uint32_t)res);
	else
		uaio_uring_tell_none(note);
	uaio_uring_groups_unlock(choice->ring);
	uaio_uring_count_bytes(choice, res);
}

void uaio_uring_keep_rest(const struct uaio_sqe *sqe, int64_t res)
{
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);
	struct uaio_uring_choice *choice = &note->choice;

	if (choice->state == UAIO_URING_TRYING) {
		use(choice->of, note, choice->len);
		choice->state = UAIO_URING_KEPT;
		uaio_uring_groups_unlock(choice->ring);
	}
	choice->addr += (uint64_t)res;
	choice->len -= (uint32_t)res;
}

bool uaio_uring_has_rest(const struct uaio_sqe *sqe)
{
	return uaio_uring_note_of(sqe->word)->choice.state == UAIO_URING_KEPT;
}

bool uaio_uring_is_last(const struct uaio_sqe *sqe)
{
	return uaio_uring_note_of(sqe->word)->choice.is_last;
}

bool uaio_uring_has_begun(const struct uaio_sqe *sqe)
{
	return uaio_uring_note_of(sqe->word)->choice.has_begun;
}

uint64_t uaio_uring_picked_bytes(const struct uaio_sqe *sqe)
{
	return uaio_uring_note_of(sqe->word)->expected;
}

/*
 * Lists
 */

/* Return: how many buffers were added. *ret_error: why not all were added, or 0. */
static uint32_t add_all(struct uaio_uring_group *group,
			const struct uaio_uring_choice *what, int *ret_error)
{
	*ret_error = 0;
	for (uint32_t i = 0; i < what->nr; i++) {
		struct uaio_uring_buffer *buffer;

		if (group->nr == NR_LIST_MAX) {
			*ret_error = -EOVERFLOW;
			return i;
		}
		buffer = uaio_slab_get(&buffers);
		if (!buffer) {
			*ret_error = -ENOMEM;
			return i;
		}
		buffer->next = NULL;
		buffer->addr = what->addr + (uint64_t)i * what->len;
		buffer->len = what->len < UAIO_RW_BYTES_MAX
				      ? what->len
				      : (uint32_t)UAIO_RW_BYTES_MAX;
		buffer->bid = (uint16_t)(what->bid + i);
		if (group->first)
			group->last->next = buffer;
		else
			group->first = buffer;
		group->last = buffer;
		group->nr++;
	}
	return what->nr;
}

static int64_t add_to_list(struct uaio_uring_group *group,
			   const struct uaio_uring_choice *what)
{
	int error;
	uint32_t nr = add_all(group, what, &error);

	if (unlikely(uaio_config.is_examined))
		uaio_uring_check_provided(group, what, nr);
	return nr ? 0 : error;
}

int64_t uaio_uring_provide(const struct uaio_uring_choice *what)
{
	struct uaio_uring_group *group;
	int64_t ret = -ENOMEM;

	uaio_uring_groups_lock(what->ring);
	group = uaio_uring_group_find(what->ring, what->group);
	if (!group)
		group = uaio_uring_group_new(what->ring, what->group);
	if (group)
		ret = group->array ? -EINVAL : add_to_list(group, what);
	uaio_uring_groups_unlock(what->ring);
	return ret;
}

int64_t uaio_uring_remove(const struct uaio_uring_choice *what)
{
	struct uaio_uring_group *group;
	int64_t ret = 0;

	uaio_uring_groups_lock(what->ring);
	group = uaio_uring_group_find(what->ring, what->group);
	if (!group)
		ret = -ENOENT;
	else if (group->array)
		ret = -EINVAL;
	else
		for (; ret < what->nr && group->first; ret++)
			drop_first(group);
	if (unlikely(uaio_config.is_examined) && ret > 0)
		uaio_uring_check_removed(group);
	uaio_uring_groups_unlock(what->ring);
	return ret;
}

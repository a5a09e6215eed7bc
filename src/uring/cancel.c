/* SPDX-License-Identifier: MIT */
#include "uring/cancel.h"

#include <errno.h>

#include "base/check.h"
#include "file/file.h"
#include "file/inspect.h"
#include "ready/timer.h"
#include "flow/cancel.h"
#include "issue/submit.h"
#include "uring/bell.h"
#include "uring/timeout.h"
#include "uring/filetable.h"
#include "uring/msg_ring.h"
#include "uring/note.h"
#include "uring/kbuf.h"
#include "uring/ring.h"
#include "uring/sq.h"

int uaio_uring_call_for(struct uaio_uring_entry *entry,
			enum uaio_uring_call call)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_uring_note *note = uaio_uring_note_for(entry);

	if (!note)
		return -ENOMEM;
	note->aim = (struct uaio_uring_aim){
		.user_data = raw->addr,
		.fd = raw->fd,
		.opcode = (uint8_t)raw->len,
	};
	if (call == UAIO_URING_CANCEL)
		note->aim.flags = raw->cancel_flags;
	else if (call != UAIO_URING_TIMEOUT_REMOVE)
		note->aim.flags = call == UAIO_URING_TIMEOUT_UPDATE
					  ? raw->timeout_flags
					  : raw->len;
	if (call == UAIO_URING_CANCEL && raw->flags & IOSQE_FIXED_FILE)
		note->aim.flags |= IORING_ASYNC_CANCEL_FD_FIXED;
	note->new_data = raw->off;
	note->events = raw->poll32_events & 0xffff;
	entry->sqe.called = &entry->ring->called;
	entry->sqe.open_flags = call;
	entry->sqe.posts_at_once = call == UAIO_URING_CANCEL ||
				   call == UAIO_URING_POLL_REMOVE ||
				   call == UAIO_URING_TIMEOUT_REMOVE;
	entry->looks_up = true;
	return 0;
}

/*
 * Cancelling
 */

struct by_client {
	struct uaio_cancel_aim aim;
	const struct uaio_uring_aim *what;
	const struct uaio_file *file; /* borrows: that of FD */
	uint64_t own_word;            /* of the request that cancels; or 0 */
	int op;                       /* enum uaio_op; -1: any */
	bool *sleeps; /* whether the last that was meant does (op.h) */
};

/* The queue's lock is held. */
static bool is_meant(const struct uaio_cancel_aim *aim,
		     const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct by_client *client =
		container_of(aim, const struct by_client, aim);
	const struct uaio_uring_aim *what = client->what;
	bool by_data = what->flags & IORING_ASYNC_CANCEL_USERDATA ||
		       !(what->flags &
			 (IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_OP |
			  IORING_ASYNC_CANCEL_ANY));
	bool is_it;

	/* A linked timeout ends with its request. */
	if ((sqe->word && sqe->word == client->own_word) ||
	    sqe->op == UAIO_OP_LINK_TIMER)
		return false;
	if (client->op >= 0 && sqe->op != client->op)
		return false;
	if (what->flags & IORING_ASYNC_CANCEL_OP && sqe->key != what->opcode)
		return false;
	if (by_data && sqe->data != what->user_data)
		return false;
	/* The last, because it may take a system call. */
	is_it = !(what->flags & IORING_ASYNC_CANCEL_FD) ||
		file == client->file ||
		(file && uaio_is_duplicate(file, client->file));
	if (is_it)
		*client->sleeps = uaio_optab[sqe->op].sleeps;
	return is_it;
}

/* A ring is polled by its bell (bell.h), and nothing else of it waits. */
static void mean_bell(int fd, struct uaio_file **file)
{
	bool is_full;
	struct uaio_file *bell = uaio_uring_bell_file(fd, &is_full);

	if (!bell)
		return;
	uaio_file_put(*file);
	*file = bell;
}

/*
 * Find the file that is meant by its descriptor, or by its place. The reference keeps
 * its entry from becoming another file's.
 * Return: 0; -EBADF.
 */
static int find_file(struct uaio_uring *ring, const struct uaio_uring_aim *what,
		     struct uaio_file **ret_file)
{
	struct uaio_file *file;

	if (!(what->flags & IORING_ASYNC_CANCEL_FD))
		return 0;
	if (what->flags & IORING_ASYNC_CANCEL_FD_FIXED)
		file = uaio_uring_get_fixed(&ring->queue, what->fd);
	else if (uaio_file_get(what->fd, &file) < 0)
		file = NULL;
	/* The kernel does not count a descriptor that is open for no operation. */
	if (file && uaio_file_has(file, UAIO_FILE_F_PATH)) {
		uaio_file_put(file);
		file = NULL;
	}
	if (!file)
		return -EBADF;
	*ret_file = file;
	if (unlikely(uaio_file_has(file, UAIO_FILE_F_RING)))
		mean_bell(what->fd, ret_file);
	return 0;
}

/*
 * Have what a request cancels completed after its own completion.
 * Return: where that is kept until then; or NULL.
 */
static struct uaio_cancelled *complete_later(uint64_t own_word)
{
	struct uaio_uring_note *note = uaio_uring_note_of(own_word);

	if (!note)
		return NULL;
	uaio_cancelled_init(&note->later);
	note->has_later = true;
	return &note->later;
}

/* own_word: of the request that asks; 0: it is a call. */
static int cancel(struct uaio_uring *ring, const struct uaio_uring_aim *aim,
		  uint64_t own_word, int op)
{
	bool is_all = aim->flags &
		      (IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY);
	bool sleeps = false;
	struct by_client client = {
		.aim = { .is_meant = is_meant, .is_one = !is_all },
		.sleeps = &sleeps,
		.what = aim,
		.own_word = own_word,
		.op = op,
	};
	struct uaio_file *file = NULL;
	int ret, nr_others = 0;

	ret = find_file(ring, aim, &file);
	if (ret < 0)
		return ret;
	client.file = file;
	client.aim.ret_later = complete_later(own_word);
	ret = uaio_queue_cancel_meant(&ring->queue, &client.aim, &nr_others);
	if (file)
		uaio_file_put(file);
	/* As the kernel, which counts those even if it is asked for one. */
	if (!is_all)
		return ret > 0 ? sleeps : ret;
	return (ret > 0 ? ret : 0) + nr_others;
}

int uaio_uring_cancel(struct uaio_uring *ring, const struct uaio_uring_aim *aim)
{
	return cancel(ring, aim, 0, -1);
}

static int remove(struct uaio_uring *ring, const struct uaio_sqe *sqe,
		  enum uaio_op op)
{
	const struct uaio_uring_aim aim = {
		.user_data = uaio_uring_note_of(sqe->word)->aim.user_data,
	};

	return cancel(ring, &aim, sqe->word, (int)op);
}

/*
 * Changing a poll
 */

struct by_update {
	struct uaio_cancel_aim aim;
	struct uaio_uring *ring;
	uint64_t user_data;
	struct found {
		struct uaio_sqe sqe;
		struct uaio_file *file; /* shares (ref); or NULL */
		bool skips;
	} * found;
};

/* The queue's lock is held. The last one that is asked about is taken, if any is. */
static bool is_poll(const struct uaio_cancel_aim *aim,
		    const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct by_update *update =
		container_of(aim, const struct by_update, aim);
	struct uaio_file *own = (struct uaio_file *)(uintptr_t)file;

	if (sqe->op != UAIO_OP_POLL || sqe->data != update->user_data ||
	    update->found->file || !own || !uaio_file_try_get(own))
		return false;
	update->found->sqe = *sqe;
	update->found->file = own;
	update->found->skips = uaio_uring_note_of(sqe->word)->skips;
	update->ring->updating = uaio_uring_note_of(sqe->word);
	return true;
}

/* Return: whether this is the only thread that changes a poll. */
static bool begin_update(struct uaio_uring *ring)
{
	bool is_free;

	uaio_queue_lock(&ring->queue);
	is_free = !ring->is_updating;
	ring->is_updating = true;
	uaio_queue_unlock(&ring->queue);
	return is_free;
}

/* Return: whether the completion of the poll was swallowed. */
static bool end_update(struct uaio_uring *ring)
{
	bool was_swallowed;

	uaio_queue_lock(&ring->queue);
	was_swallowed = ring->was_swallowed;
	ring->was_swallowed = ring->is_updating = false;
	ring->updating = NULL;
	uaio_queue_unlock(&ring->queue);
	return was_swallowed;
}

static void submit_again(struct uaio_uring *ring, const struct found *found)
{
	struct uaio_uring_note *note = uaio_uring_note_new();
	struct uaio_sqe sqe = found->sqe;
	struct uaio_batch batch;
	int ret = -ENOMEM;

	sqe.links = 0;
	sqe.word = (uintptr_t)note;
	if (note) {
		note->is_poll = true;
		note->skips = found->skips;
		uaio_batch_begin(&batch, &ring->queue);
		ret = uaio_batch_add_fixed(&batch, found->file, &sqe);
		uaio_batch_end(&batch);
		if (ret < 0)
			uaio_uring_note_free(note);
	}
	if (ret < 0)
		uaio_uring_answer(ring, sqe.data, ret);
}

static int update_poll(struct uaio_uring *ring,
		       const struct uaio_uring_note *note)
{
	struct found found = { .file = NULL };
	const struct by_update update = {
		.aim = { .is_meant = is_poll, .is_one = true },
		.ring = ring,
		.user_data = note->aim.user_data,
		.found = &found,
	};
	bool was_swallowed;
	int ret;

	if (!begin_update(ring))
		return -EALREADY;
	ret = uaio_queue_cancel_meant(&ring->queue, &update.aim, NULL);
	was_swallowed = end_update(ring);
	if (ret < 0 && was_swallowed)
		/* Another thread has cancelled it just then. */
		uaio_uring_answer(ring, found.sqe.data, -ECANCELED);
	if (ret >= 0) {
		if (note->aim.flags & IORING_POLL_UPDATE_EVENTS)
			found.sqe.events = note->events;
		if (note->aim.flags & IORING_POLL_UPDATE_USER_DATA)
			found.sqe.data = note->new_data;
		submit_again(ring, &found);
	}
	if (found.file)
		uaio_file_put(found.file);
	return ret > 0 ? 0 : ret;
}

/*
 * Changing a timeout
 */

struct by_time {
	struct uaio_timer_aim aim;
	struct uaio_uring *ring;
	uint64_t user_data;
	bool is_linked;
};

/* The queue's lock is held. */
static bool is_timeout(const struct uaio_timer_aim *aim,
		       const struct uaio_sqe *sqe)
{
	const struct by_time *by = container_of(aim, const struct by_time, aim);

	if (sqe->data != by->user_data ||
	    (sqe->op == UAIO_OP_LINK_TIMER) != by->is_linked)
		return false;
	/* From now on it ends by its time only. */
	uaio_uring_uncount_locked(by->ring, uaio_uring_note_of(sqe->word));
	return true;
}

static int update_timeout(struct uaio_uring *ring,
			  const struct uaio_uring_note *note)
{
	const struct by_time by = {
		.aim = { .is_meant = is_timeout,
			 .time_ns = note->time_ns,
			 .is_absolute = note->aim.flags & IORING_TIMEOUT_ABS },
		.ring = ring,
		.user_data = note->aim.user_data,
		.is_linked = note->aim.flags & IORING_LINK_TIMEOUT_UPDATE,
	};

	return uaio_timer_change(&ring->queue, &by.aim);
}

int64_t uaio_uring_called(struct uaio_called *called,
			  const struct uaio_sqe *sqe)
{
	struct uaio_uring *ring =
		container_of(called, struct uaio_uring, called);
	const struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);

	switch ((enum uaio_uring_call)sqe->open_flags) {
	case UAIO_URING_CANCEL: return cancel(ring, &note->aim, sqe->word, -1);
	case UAIO_URING_POLL_REMOVE: return remove(ring, sqe, UAIO_OP_POLL);
	case UAIO_URING_POLL_UPDATE: return update_poll(ring, note);
	case UAIO_URING_TIMEOUT_REMOVE: return remove(ring, sqe, UAIO_OP_TIMER);
	case UAIO_URING_TIMEOUT_UPDATE: return update_timeout(ring, note);
	case UAIO_URING_CLOSE_PLACE:
	case UAIO_URING_UPDATE_PLACES:
	case UAIO_URING_PIPE_PLACES:
	case UAIO_URING_INSTALL: return uaio_uring_call_on_files(ring, sqe);
	case UAIO_URING_PROVIDE: return uaio_uring_provide(&note->choice);
	case UAIO_URING_REMOVE: return uaio_uring_remove(&note->choice);
	case UAIO_URING_MSG: return uaio_uring_send(ring, &note->msg);
	}
	return -EINVAL;
}

/* SPDX-License-Identifier: MIT */
#include "uring/cancel.h"

#include <errno.h>

#include "base/check.h"
#include "base/sleep.h"
#include "file/file.h"
#include "file/inspect.h"
#include "flow/cancel.h"
#include "uring/bell.h"
#include "uring/calls.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/rsrc.h"
#include "uring/sq.h"

void uaio_uring_call_door(struct uaio_uring_entry *entry,
			  enum uaio_uring_call call)
{
	entry->sqe.called = &entry->ring->called;
	entry->sqe.open_flags = call;
}

int uaio_uring_call_for(struct uaio_uring_entry *entry,
			enum uaio_uring_call call)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_uring_note *note = uaio_uring_note_for(entry);
	struct uaio_uring_aim *aim;

	if (!note)
		return -ENOMEM;
	note->kind = UAIO_URING_NOTE_CHANGE;
	note->change = (struct uaio_uring_change){
		.aim = {
			.user_data = raw->addr,
			.fd = raw->fd,
			.opcode = (uint8_t)raw->len,
		},
		.new_data = raw->off,
		.events = raw->poll32_events & 0xffff,
	};
	aim = &note->change.aim;
	if (call == UAIO_URING_CANCEL)
		aim->flags = raw->cancel_flags;
	else if (call != UAIO_URING_TIMEOUT_REMOVE)
		aim->flags = call == UAIO_URING_TIMEOUT_UPDATE
				     ? raw->timeout_flags
				     : raw->len;
	if (call == UAIO_URING_CANCEL && raw->flags & IOSQE_FIXED_FILE)
		aim->flags |= IORING_ASYNC_CANCEL_FD_FIXED;
	uaio_uring_call_door(entry, call);
	entry->sqe.posts_at_once = call == UAIO_URING_CANCEL ||
				   call == UAIO_URING_POLL_REMOVE ||
				   call == UAIO_URING_POLL_UPDATE ||
				   call == UAIO_URING_TIMEOUT_REMOVE;
	entry->looks_up = true;
	return 0;
}

/*
 * Cancelling
 */

int uaio_uring_prep_async_cancel(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	const uint32_t flags = raw->cancel_flags;

	if (raw->off || raw->splice_fd_in ||
	    flags & ~(uint32_t)UAIO_URING_CANCEL_FLAGS)
		return -EINVAL;
	if (flags & (IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_OP) &&
	    flags & IORING_ASYNC_CANCEL_ANY)
		return -EINVAL;
	return uaio_uring_call_for(entry, UAIO_URING_CANCEL);
}

struct by_client {
	struct uaio_cancel_aim aim;
	const struct uaio_uring_aim *what;
	const struct uaio_file
		/* borrows: the file named with IORING_ASYNC_CANCEL_FD; or NULL */
		*file;
	/* note (note.h) of the cancelling request, as an address; or 0 */
	uint64_t own_word;
	int op; /* enum uaio_op; -1: any */
	/*
	 * also match requests whose file is a duplicate of `file`; this comparison
	 * takes system calls
	 */
	bool asks;
	/*
	 * output, used if a single request is cancelled: whether that request sleeps in
	 * its system call (futex, waitid)
	 */
	bool *sleeps;
};

static bool is_by_data(const struct uaio_uring_aim *what)
{
	return !(what->flags & IORING_ASYNC_CANCEL_ANY) &&
	       (what->flags & IORING_ASYNC_CANCEL_USERDATA ||
		!(what->flags &
		  (IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_OP)));
}

/* Return: whether `aim` matches this request. Caller holds the queue's lock. */
static bool is_meant(const struct uaio_cancel_aim *aim,
		     const struct uaio_sqe *sqe, const struct uaio_file *file)
{
	const struct by_client *client =
		container_of(aim, const struct by_client, aim);
	const struct uaio_uring_aim *what = client->what;
	bool is_it;

	/*
	 * A linked timeout completes with the request that it limits, and cannot be
	 * cancelled alone.
	 */
	if ((sqe->word && sqe->word == client->own_word) ||
	    sqe->op == UAIO_OP_LINK_TIMER)
		return false;
	/* As in the kernel, a timeout does not match if a descriptor is given. */
	if (what->flags & IORING_ASYNC_CANCEL_ANY)
		return !(what->flags & IORING_ASYNC_CANCEL_FD) ||
		       sqe->op != UAIO_OP_TIMER;
	if (client->op >= 0 && sqe->op != client->op)
		return false;
	if (what->flags & IORING_ASYNC_CANCEL_OP && sqe->key != what->opcode)
		return false;
	if (is_by_data(what) && sqe->data != what->user_data)
		return false;
	/* Compare files last: uaio_is_duplicate() may make a system call. */
	is_it = !(what->flags & IORING_ASYNC_CANCEL_FD) ||
		file == client->file ||
		(client->asks && file && uaio_is_duplicate(file, client->file));
	if (is_it)
		*client->sleeps = uaio_optab[sqe->op].sleeps;
	return is_it;
}

/*
 * A request that polls a ring waits for the ring's bell, an eventfd (bell.h). So search
 * for the bell's file. No other request waits for a ring.
 */
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
 * Find the file whose requests are to be cancelled, from its descriptor or registered
 * slot. *ret_file has a reference, so that its struct is not reused for another file
 * meanwhile.
 * Return: 0; -EBADF: no file is there.
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
	/*
	 * As in the kernel, a descriptor opened with O_PATH counts as not open here.
	 */
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
 * Let cancelled requests complete after the request that cancels them.
 * Return: the list in which the cancelled requests stay until then; NULL: complete them
 * at once.
 */
static struct uaio_cancelled *complete_later(uint64_t own_word)
{
	struct uaio_uring_note *note = uaio_uring_note_of(own_word);

	if (!note)
		return NULL;
	uaio_cancelled_init(&note->change.later);
	note->change.has_later = true;
	return &note->change.later;
}

/*
 * Choose the index (req/index.h) in which to search: the index by user_data, the index
 * by file, or none.
 */
static void find_by(struct by_client *client)
{
	if (is_by_data(client->what)) {
		client->aim.by = UAIO_INDEX_DATA;
		client->aim.key = client->what->user_data;
	} else if (client->file &&
		   !(client->what->flags & IORING_ASYNC_CANCEL_ANY)) {
		client->aim.by = UAIO_INDEX_FILE;
		client->aim.key = uaio_index_key_of(client->file);
	} else {
		client->aim.by = UAIO_INDEX_NONE;
	}
}

/*
 * Cancel the requests that `aim` matches. own_word: address of the cancelling request's
 * note (note.h); 0: io_uring_register() cancels. op: enum uaio_op of the requests; -1:
 * any.
 * Return: as uaio_uring_cancel().
 */
static int cancel(struct uaio_uring *ring, const struct uaio_uring_aim *aim,
		  uint64_t own_word, int op)
{
	bool is_all = aim->flags &
		      (IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY);
	bool sleeps = false;
	struct by_client client = {
		.aim = { .is_meant = is_meant,
			 .is_one = !is_all,
			 .ends_unparked = true },
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
	find_by(&client);
	client.aim.ret_later = complete_later(own_word);
	/*
	 * All eventfds have the same inode. So the library needs a system call to find
	 * out whether two descriptors are the same eventfd. If a single request is to
	 * be cancelled, first search without system calls for a request on exactly this
	 * descriptor.
	 */
	client.asks = is_all || !file;
	ret = uaio_queue_cancel_meant(&ring->queue, &client.aim, &nr_others);
	if ((ret == -ENOENT || ret == -EALREADY) && !client.asks) {
		client.asks = true;
		ret = uaio_queue_cancel_meant(&ring->queue, &client.aim,
					      &nr_others);
	}
	if (file)
		uaio_file_put(file);
	/*
	 * As in the kernel, cancelling a single request returns 1 for operations that
	 * sleep (futex, waitid), otherwise 0.
	 */
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
		.user_data =
			uaio_uring_note_of(sqe->word)->change.aim.user_data,
	};

	return cancel(ring, &aim, sqe->word, (int)op);
}

/*
 * IORING_REGISTER_SYNC_CANCEL
 */

/* struct io_uring_sync_cancel_reg, with the members that older headers lack. */
struct sync_cancel {
	uint64_t addr;
	int32_t fd;
	uint32_t flags;
	struct __kernel_timespec timeout;
	uint8_t opcode;
	uint8_t pad[7];
	uint64_t pad2[3];
};

static bool is_clean(const struct sync_cancel *what)
{
	for (unsigned i = 0; i < sizeof(what->pad); i++)
		if (what->pad[i])
			return false;
	return !(what->pad2[0] | what->pad2[1] | what->pad2[2]);
}

/*
 * Return: the deadline, on CLOCK_MONOTONIC, of the call's wait for requests that are
 * being executed.
 */
static int64_t deadline_of(const struct __kernel_timespec *ts)
{
	int64_t ns;

	if (ts->tv_sec == -1 && ts->tv_nsec == -1)
		return UAIO_FOREVER;
	if (__builtin_mul_overflow(ts->tv_sec, (int64_t)1000000000, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)ts->tv_nsec, &ns) ||
	    __builtin_add_overflow(ns, uaio_now_ns(), &ns))
		return UAIO_FOREVER;
	return ns;
}

/*
 * Requests that are being executed cannot be cancelled, but complete by themselves:
 * retry until the deadline.
 */
static int cancel_waiting(struct uaio_uring *ring,
			  const struct uaio_uring_aim *aim, int64_t deadline_ns)
{
	enum { SOON_NS = 1000000 };
	uint32_t word = 0;
	int ret;

	while ((ret = uaio_uring_cancel(ring, aim)) == -EALREADY) {
		int64_t now = uaio_now_ns();

		if (now >= deadline_ns)
			return -ETIME;
		if (uaio_sleep_outside(&word, 0,
				       deadline_ns - now < SOON_NS
					       ? deadline_ns
					       : now + SOON_NS) == -EINTR)
			return -EINTR;
	}
	return ret == -ENOENT ? 0 : ret;
}

long uaio_uring_sync_cancel(struct uaio_uring *ring, const void *arg,
			    uint32_t nr)
{
	struct uaio_uring_aim aim;
	struct sync_cancel what;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&what, (uintptr_t)arg, sizeof(what)) < 0)
		return -EFAULT;
	if (what.flags & ~(uint32_t)UAIO_URING_CANCEL_FLAGS || !is_clean(&what))
		return -EINVAL;
	aim = (struct uaio_uring_aim){
		.user_data = what.addr,
		.flags = what.flags,
		.fd = what.fd,
		.opcode = what.opcode,
	};
	ret = uaio_uring_cancel(ring, &aim);
	if (ret == -EALREADY)
		ret = cancel_waiting(ring, &aim, deadline_of(&what.timeout));
	return ret;
}

/* Requests that the core executes by calling the io_uring front-end */

int64_t uaio_uring_called(struct uaio_called *called,
			  const struct uaio_sqe *sqe)
{
	struct uaio_uring *ring =
		container_of(called, struct uaio_uring, called);
	struct uaio_uring_note *note = uaio_uring_note_of(sqe->word);

	switch ((enum uaio_uring_call)sqe->open_flags) {
	case UAIO_URING_CANCEL:
		return cancel(ring, &note->change.aim, sqe->word, -1);
	case UAIO_URING_POLL_REMOVE: return remove(ring, sqe, UAIO_OP_POLL);
	case UAIO_URING_POLL_UPDATE:
		return uaio_uring_update_poll(ring, &note->change);
	case UAIO_URING_TIMEOUT_REMOVE: return remove(ring, sqe, UAIO_OP_TIMER);
	case UAIO_URING_TIMEOUT_UPDATE:
		return uaio_uring_update_timeout(ring, &note->change);
	case UAIO_URING_CLOSE_PLACE:
		return uaio_uring_table_empty(ring, &ring->files,
					      (uint32_t)sqe->len);
	case UAIO_URING_UPDATE_PLACES:
		return uaio_uring_update_places(ring, sqe);
	case UAIO_URING_INSTALL: return uaio_uring_install(ring, sqe);
	case UAIO_URING_PIPE_PLACES: return uaio_uring_make_pipe(ring, sqe);
	case UAIO_URING_PROVIDE: return uaio_uring_provide(&note->choice);
	case UAIO_URING_REMOVE: return uaio_uring_remove(&note->choice);
	case UAIO_URING_MSG: return uaio_uring_send(ring, &note->msg);
	}
	return -EINVAL;
}

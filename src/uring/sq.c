/* SPDX-License-Identifier: MIT */
#include "uring/sq.h"

#include <errno.h>

#include "base/check.h"
#include "base/uaddr.h"
#include "file/file.h"
#include "op/sleeper.h"
#include "flow/asleep.h"
#include "flow/drain.h"
#include "issue/chain.h"
#include "issue/submit.h"
#include "proc/ownfd.h"
#include "uring/abi.h"
#include "uring/bell.h"
#include "uring/calls.h"
#include "uring/cq.h"
#include "uring/kbuf.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"

enum { LINKS = IOSQE_IO_LINK | IOSQE_IO_HARDLINK };

/* One io_uring_enter() call that submits. */
struct call {
	struct uaio_uring *ring;
	bool is_shared; /* other processes may also submit to the ring */
	/* an eventfd or a bell (bell.h) reports completions, so post each at once */
	bool is_signalled;
	/* ring->cq_events before this call (timeout.c, I1) */
	uint64_t nr_before;
	bool has_later; /* a request waits for the call's end (begins_later()) */
	/* the previous submission was a LINK_TIMEOUT, even if it was refused */
	bool was_timeout;
	struct uaio_batch batch;
	struct uaio_chain chain;
};

struct uaio_uring_note *uaio_uring_note_for(struct uaio_uring_entry *entry)
{
	if (!entry->note)
		entry->note = uaio_uring_note_new();
	return entry->note;
}

/* Return: 0, or the error of the flags. The checks are in the kernel's order. */
static int check_flags(struct uaio_uring *ring,
		       const struct uaio_uring_row *row,
		       const struct io_uring_sqe *raw)
{
	if (raw->flags & ~(uint32_t)UAIO_URING_SQE_FLAGS)
		return -EINVAL;
	if (raw->flags & IOSQE_BUFFER_SELECT && !row->selects_buffer)
		return -EOPNOTSUPP;
	if (raw->flags & IOSQE_CQE_SKIP_SUCCESS)
		ring->is_without_drains = true;
	if (raw->flags & IOSQE_IO_DRAIN && ring->is_without_drains)
		return -EOPNOTSUPP;
	ring->was_drained |= !!(raw->flags & IOSQE_IO_DRAIN);
	return 0;
}

static uint16_t links_of(const struct io_uring_sqe *raw)
{
	if (likely(!(raw->flags & (LINKS | IOSQE_IO_DRAIN))))
		return 0;
	return (uint16_t)((raw->flags & IOSQE_IO_HARDLINK ? UAIO_LINK_HARD
			   : raw->flags & IOSQE_IO_LINK   ? UAIO_LINK
							  : 0) |
			  (raw->flags & IOSQE_IO_DRAIN ? UAIO_DRAIN : 0) |
			  (raw->flags & LINKS &&
					   raw->flags & IOSQE_CQE_SKIP_SUCCESS
				   ? UAIO_LINK_QUIET
				   : 0));
}

/* Check the rarely used members of a submission. Return: 0, or their error. */
static __attribute__((noinline)) int
prepare_rare(struct uaio_uring_entry *entry)
{
	const struct uaio_uring_row *row = entry->row;
	const struct io_uring_sqe *raw = &entry->raw;
	int ret = check_flags(entry->ring, row, raw);

	entry->sqe.is_async = raw->flags & IOSQE_ASYNC;
	entry->sqe.links = links_of(raw);
	if (ret < 0)
		return ret;
	/*
	 * relaxed: restrictions begin when a thread enables the ring. If this is
	 * another thread, the client orders that thread's call before this call.
	 */
	if (load_relaxed(&entry->ring->is_restricted) &&
	    !uaio_uring_is_allowed(entry->ring, raw))
		return -EACCES;
	if ((raw->ioprio && !row->has_ioprio) ||
	    (entry->ring->setup & IORING_SETUP_IOPOLL && !row->has_iopoll))
		return -EINVAL;
	return raw->personality ? uaio_uring_check_personality(entry->ring,
							       raw->personality)
				: 0;
}

/* Translate a submission. Return: 0, or the submission's error. */
static int prepare(const struct call *call, struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	int ret;

	entry->sqe = (struct uaio_sqe){
		.fd = raw->fd,
		.data = raw->user_data,
		.key = raw->opcode,
		.is_signalled = call->is_signalled,
		.door = UAIO_RULES_OF_URING,
	};
	if (unlikely(!entry->row)) {
		entry->sqe.links = links_of(raw);
		return -EINVAL;
	}
	if (unlikely(raw->flags | raw->ioprio | raw->personality |
		     entry->ring->checks_each_sqe)) {
		ret = prepare_rare(entry);
		if (ret < 0)
			return ret;
	}
	/* SQPOLL: this thread lacks the ring maker's credentials; a worker has them. */
	if (unlikely(call->batch.by.is_maker))
		entry->sqe.is_async = true;
	entry->sqe.op = entry->row->op;
	ret = entry->row->prep(entry);
	if (likely(ret == 0 && !(raw->flags & IOSQE_CQE_SKIP_SUCCESS)))
		return ret;
	if (ret == 0 && !uaio_uring_note_for(entry))
		ret = -ENOMEM;
	if (ret < 0)
		return ret;
	entry->note->skips = true;
	entry->note->errors_succeed =
		uaio_optab[entry->sqe.op].breaks == UAIO_BREAKS_NEVER;
	return 0;
}

/*
 * Post the error of a submission, after earlier completions. Frees the note (note.h).
 */
static void answer(struct call *call, const struct uaio_uring_entry *entry,
		   int error)
{
	struct uaio_uring_note *note = entry->note;

	/* The completion gets flags, such as IORING_CQE_F_MORE, from the note. */
	if (unlikely(note) && note->cqe_flags) {
		uaio_batch_post(&call->batch);
		uaio_uring_answer_by(call->ring, note, entry->raw.user_data,
				     error);
		return;
	}
	if (note)
		uaio_uring_note_free(note);
	uaio_batch_post(&call->batch);
	uaio_uring_answer(call->ring, entry->raw.user_data, error);
}

/*
 * Return: the registered file of the submission (rsrc.h); NULL: there is none. If other
 * threads may change slots, entry->held keeps the file during the submission.
 */
static struct uaio_uring_rsrc *find_fixed(struct uaio_uring_entry *entry)
{
	struct uaio_uring *ring = entry->ring;
	uint32_t place = (uint32_t)entry->raw.fd;

	if (likely(!uaio_uring_shares_files(ring)))
		return uaio_uring_table_at(&ring->files, place);
	entry->held = uaio_uring_table_get(ring, &ring->files, place);
	return entry->held;
}

/* Return: the registered file of a submission, or NULL. */
static struct uaio_file *fixed_of(struct uaio_uring_entry *entry)
{
	struct uaio_uring_rsrc *rsrc = find_fixed(entry);
	struct uaio_uring_note *note;

	if (!rsrc)
		return NULL;
	if (rsrc->tag && (note = uaio_uring_note_for(entry)))
		uaio_uring_note_use(note, rsrc);
	return rsrc->file;
}

static bool receives_much(const struct uaio_uring_entry *entry)
{
	return entry->sqe.is_multishot && (entry->sqe.op == UAIO_OP_RECV ||
					   entry->sqe.op == UAIO_OP_RECVMSG);
}

/* Return: whether a multishot receive will probably end early (nr_short in ring.h). */
static bool is_short(struct uaio_uring *ring)
{
	/* relaxed, both: a guess */
	uint32_t nr = load_relaxed(&ring->nr_short);

	if (likely(!nr))
		return false;
	store_relaxed(&ring->nr_short, nr - 1);
	return true;
}

/*
 * Before each try of a waiting request, the library queries the kernel whether the
 * request's descriptor still is the same file. For a multishot receive this query would
 * cost a tenth of the time for a message, so the request gets its own duplicate of the
 * descriptor. Making and closing the duplicate costs seven system calls. So a receive
 * that probably ends after one or two messages (is_short()) gets no duplicate.
 */
static struct uaio_file *file_of_shots(const struct uaio_uring_entry *entry,
				       const struct uaio_file *file)
{
	struct uaio_file *own;

	if (!receives_much(entry) || !uaio_file_has(file, UAIO_FILE_F_SOCKET) ||
	    is_short(entry->ring) || !uaio_ownfds_are_few() ||
	    uaio_file_fix(entry->sqe.fd, &own) < 0)
		return NULL;
	return own;
}

/*
 * Return: a struct uaio_file that only this request uses, with a reference; NULL: the
 * request uses `file`.
 */
static struct uaio_file *own_file_of(struct uaio_uring_entry *entry,
				     const struct uaio_file *file)
{
	if (unlikely(entry->sqe.op == UAIO_OP_POLL) &&
	    unlikely(uaio_file_has(file, UAIO_FILE_F_RING)))
		return uaio_uring_polled(&entry->sqe);
	return file_of_shots(entry, file);
}

bool uaio_uring_begins_aside(const struct uaio_uring_entry *entry)
{
	return entry->raw.flags & (IOSQE_ASYNC | IOSQE_IO_DRAIN) ||
	       entry->ring->was_drained ||
	       uaio_drain_is_on(&entry->ring->queue.group);
}

/* Return: whether the request provides or removes buffers. */
static bool is_of_buffers(const struct uaio_uring_entry *entry)
{
	return entry->raw.opcode == IORING_OP_PROVIDE_BUFFERS ||
	       entry->raw.opcode == IORING_OP_REMOVE_BUFFERS;
}

/*
 * Return: whether the request begins only when the submitting call ends, as in the
 * kernel. This holds for a send that polls first. It also holds for requests with
 * IOSQE_ASYNC that use provided buffers: a worker needs the ring, which the submitting
 * thread holds until the call ends. The library excepts multishot requests.
 */
static bool begins_later(const struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	bool is_send = uaio_optab[entry->sqe.op].class == UAIO_CLASS_WRITE;

	if (entry->sqe.is_multishot)
		return false;
	if (unlikely(entry->sqe.polls_first) && is_send)
		return true;
	if (!(raw->flags & IOSQE_ASYNC))
		return false;
	return is_of_buffers(entry) || raw->flags & IOSQE_BUFFER_SELECT;
}

/*
 * Add a request that is linked, follows a drain, or must not start before the submitting
 * call ends (begins_later()). As in the kernel, the first request that is submitted once
 * a drain is complete also starts only when the submitting call ends.
 */
static __attribute__((noinline)) int add_linked(struct call *call,
						struct uaio_uring_entry *entry,
						bool is_fixed, int error,
						bool is_late, bool is_later)
{
	struct uaio_uring_timeout *timeout = uaio_uring_timeout_of(entry->note);
	bool begins = !uaio_chain_is_open(&call->chain) &&
		      !uaio_drain_is_on(&call->ring->queue.group);

	entry->sqe.word = (uintptr_t)entry->note;
	if (begins && call->ring->was_drained) {
		call->chain.is_late = true;
		call->ring->was_drained = entry->sqe.links & UAIO_DRAIN;
	} else if (begins && is_later) {
		call->chain.is_late = call->has_later = true;
	} else if (begins && timeout && timeout->counts) {
		timeout->has_from = true;
		timeout->from = call->nr_before;
	}
	/* Clear `is_linked`: else IOSQE_CQE_SKIP_SUCCESS hides the error (note.c). */
	if (error && timeout)
		timeout->is_linked = false;
	if (error)
		return uaio_chain_refuse(&call->chain, &entry->sqe, error,
					 is_late);
	return is_fixed ? uaio_chain_add_fixed(&call->chain, &entry->sqe)
			: uaio_chain_add(&call->chain, &entry->sqe);
}

/* If the request is a timeout with a count, let it count from this call on. */
static void count_from(const struct call *call, struct uaio_uring_entry *entry)
{
	struct uaio_uring_timeout *timeout = uaio_uring_timeout_of(entry->note);

	if (timeout && timeout->counts)
		uaio_uring_count(call->ring, timeout, call->nr_before);
}

/*
 * Add a request. Return: 0: the core completes the request; otherwise the result to
 * post.
 */
static __attribute__((noinline)) int
add(struct call *call, struct uaio_uring_entry *entry, int error)
{
	bool has_file = !error && entry->row->has_file;
	struct uaio_file *file = NULL, *own;
	bool is_fixed = has_file && entry->raw.flags & IOSQE_FIXED_FILE;
	bool is_late = !error, is_later;
	int ret = 0;

	if (!error)
		error = entry->late_error;
	if (unlikely(is_fixed))
		file = fixed_of(entry);
	is_later = !error && begins_later(entry);
	if (unlikely(uaio_chain_takes(&call->chain, &entry->sqe)) ||
	    unlikely((call->ring->was_drained && is_late) || is_later))
		return add_linked(call, entry, is_fixed, error, is_late,
				  is_later);
	if (unlikely(is_fixed && !file))
		return -EBADF;
	/* As in the kernel, report a bad descriptor rather than `error`. */
	if (unlikely(error) && has_file && !is_fixed)
		ret = uaio_look_up(entry->sqe.fd, &file);
	if (unlikely(error))
		return ret < 0 ? ret : error;
	if (unlikely(entry->looks_up)) {
		/*
		 * This request, e.g. a cancel, searches for earlier ones: start these.
		 */
		if (unlikely(call->has_later) && !is_of_buffers(entry)) {
			uaio_chain_end(&call->chain);
			call->has_later = false;
		}
		uaio_batch_end(&call->batch);
		uaio_batch_begin(&call->batch, &call->ring->queue);
	}
	if (unlikely(entry->note))
		count_from(call, entry);
	entry->sqe.word = (uintptr_t)entry->note;
	if (has_file && !is_fixed)
		ret = uaio_look_up(entry->sqe.fd, &file);
	if (unlikely(entry->sqe.op == UAIO_OP_READ_SELECT) && ret == 0)
		ret = uaio_uring_select_first(&call->batch, entry, &file);
	else if (unlikely(receives_much(entry)) && ret == 0)
		ret = uaio_uring_room_first(&entry->sqe, file);
	if (ret < 0)
		return ret;
	if (unlikely(is_fixed))
		return uaio_batch_add_fixed(&call->batch, file, &entry->sqe);
	own = has_file ? own_file_of(entry, file) : NULL;
	if (!own)
		return uaio_batch_add(&call->batch, file, &entry->sqe);
	ret = uaio_batch_add_fixed(&call->batch, own, &entry->sqe);
	uaio_file_put(own);
	return ret;
}

/* Return: whether the call accepts submissions after this one, which has `error`. */
static bool goes_on(const struct call *call,
		    const struct uaio_uring_entry *entry, int error)
{
	return !error || entry->raw.flags & LINKS ||
	       call->ring->setup & IORING_SETUP_SUBMIT_ALL;
}

/*
 * Return: whether the kernel would find this error before the request begins. That is
 * so for bad addresses, and for errors in paths and in names and sizes of attributes.
 */
static bool is_early(const struct uaio_uring_entry *entry, int error)
{
	bool is_text = error == -ENOENT || error == -ENAMETOOLONG ||
		       error == -ERANGE || error == -E2BIG;

	return (error == -EFAULT || is_text) && !entry->late_error &&
	       !(entry->raw.flags & IOSQE_BUFFER_SELECT);
}

/* Post res for a request that was not added. Return: as goes_on(). */
static __attribute__((noinline)) bool
refuse(struct call *call, struct uaio_uring_entry *entry, int error, int res)
{
	struct uaio_uring_timeout *timeout = uaio_uring_timeout_of(entry->note);

	if (timeout && timeout->counts)
		uaio_uring_uncount(call->ring, timeout);
	answer(call, entry, res);
	if (is_early(entry, res))
		error = res;
	return goes_on(call, entry, error);
}

/*
 * Return: whether add_bare() may add the submission: it has no note, no late_error and
 * no flag except IOSQE_ASYNC, is in no chain, and follows no drain.
 */
static bool is_bare(const struct call *call,
		    const struct uaio_uring_entry *entry)
{
	return !(entry->raw.flags & ~IOSQE_ASYNC) && !entry->note &&
	       !entry->late_error && !entry->looks_up &&
	       !call->ring->was_drained &&
	       !(unlikely(entry->sqe.polls_first) && begins_later(entry)) &&
	       !uaio_chain_takes(&call->chain, &entry->sqe);
}

/* Add a request for which is_bare() holds. Return: the result of add(). */
static int add_bare(struct call *call, struct uaio_uring_entry *entry)
{
	struct uaio_file *file = NULL;
	int ret = 0;

	if (entry->row->has_file)
		ret = uaio_look_up(entry->sqe.fd, &file);
	return ret < 0 ? ret : uaio_batch_add(&call->batch, file, &entry->sqe);
}

/*
 * Accept a submission that is not bare (is_bare()), or has an error.
 * Return: whether the call may accept the next submission.
 */
static __attribute__((noinline)) bool
take_in_rare(struct call *call, struct uaio_uring_entry *entry, int error)
{
	bool is_timeout = entry->raw.opcode == IORING_OP_LINK_TIMEOUT;
	int ret;

	entry->held = NULL;
	if (unlikely(is_timeout) && !error &&
	    (!uaio_chain_is_open(&call->chain) || call->was_timeout))
		error = -EINVAL;
	call->was_timeout = is_timeout;
	call->chain.mistake = 0;
	ret = add(call, entry, error);
	if (unlikely(entry->held))
		uaio_uring_rsrc_put(entry->held);
	if (ret < 0)
		return refuse(call, entry, error, ret);
	/*
	 * An error of this submission ends the call now, even if a drain delays the
	 * completion with the error.
	 */
	if (!error && is_early(entry, call->chain.mistake))
		error = call->chain.mistake;
	return goes_on(call, entry, error);
}

/* Accept a submission. Return: whether the call may accept the next one. */
static inline bool take_in(struct call *call, struct uaio_uring_entry *entry)
{
	int error = prepare(call, entry), ret;

	if (unlikely(error) || unlikely(!is_bare(call, entry)))
		return take_in_rare(call, entry, error);
	ret = add_bare(call, entry);
	return likely(ret == 0) || refuse(call, entry, 0, ret);
}

/* Copy the next submission. Return: false: its index is invalid, so it is dropped. */
static bool copy_next(struct uaio_uring *ring, struct io_uring_sqe *ret_raw)
{
	uint32_t place = ring->sq_head++ & (ring->sq_entries - 1);

	if (ring->mem.array) {
		/* relaxed: the tail was acquired. Read a slot once: clients write it */
		place = load_relaxed(&ring->mem.array[place]);
		if (unlikely(place >= ring->sq_entries)) {
			add_relaxed(&ring->mem.rings->sq_dropped, 1);
			return false;
		}
	}
	uaio_copy_once(ret_raw, &ring->mem.sqes[place << ring->mem.sqe_shift],
		       sizeof(*ret_raw));
	return true;
}

/* Return the copied entries to the client, by advancing the head. */
static inline void pass(struct uaio_uring *ring)
{
	/* [MB:uring-sq] release: the entries are copied. Pairs with the client. */
	store_release(&ring->mem.rings->sq_head, ring->sq_head);
}

/*
 * Wait until requests that sleep (futexes, waitid) are asleep, as in the kernel. So a
 * later submission, or a system call after this one, can wake or cancel them. While a
 * chain is incomplete its requests have not begun, so do nothing yet.
 */
static __attribute__((noinline)) void settle(struct call *call)
{
	struct uaio_uring *ring = call->ring;
	struct uaio_sleeper **link = &ring->sleepers, *sleeper;

	if (uaio_chain_is_open(&call->chain))
		return;
	uaio_batch_end(&call->batch);
	uaio_batch_begin(&call->batch, &ring->queue);
	while ((sleeper = *link)) {
		/*
		 * A request that starts when the call ends is awaited only at the end
		 * of the call.
		 */
		if (call->chain.has_later &&
		    uaio_sleeper_state(sleeper) == UAIO_SLEEPER_NEW) {
			link = &sleeper->next;
			continue;
		}
		*link = sleeper->next;
		uaio_asleep_settle(sleeper);
		uaio_sleeper_put(sleeper);
	}
}

uint32_t uaio_uring_submit(struct uaio_uring *ring, uint32_t nr)
{
	uint32_t there, nr_taken = 0;
	struct uaio_uring_entry entry;
	bool may_go_on = true;
	struct call call;

	call.is_shared = uaio_uring_is_shared(ring);
	/* relaxed: the clients let one process submit at a time (share.h, I4) */
	if (call.is_shared)
		ring->sq_head = load_relaxed(&ring->mem.rings->sq_head);
	/* [MB:uring-sq] acquire: load the tail before the submissions. Pairs with the client. */
	there = load_acquire(&ring->mem.rings->sq_tail) - ring->sq_head;
	if (there > ring->sq_entries)
		there = ring->sq_entries;
	if (nr > there)
		nr = there;
	if (!nr)
		return 0;
	call.ring = ring;
	/*
	 * relaxed: if this load misses a new bell, its maker settles the bell (bell.h)
	 */
	call.is_signalled = ring->eventfd || load_relaxed(&ring->bell) >= 0;
	/* relaxed: timeouts may count a completion that is posted just now, or not */
	call.nr_before = load_relaxed(&ring->cq_events);
	call.has_later = call.was_timeout = false;
	ring->nr_taken += nr;
	uaio_batch_begin(&call.batch, &ring->queue);
	uaio_chain_begin(&call.chain, &call.batch);
	entry.ring = ring;
	while (nr_taken < nr && may_go_on) {
		if (!copy_next(ring, &entry.raw))
			break;
		/*
		 * Advance the head at once: if this process is killed now, no other
		 * process submits the entry again.
		 */
		if (unlikely(call.is_shared))
			pass(ring);
		entry.row = uaio_uring_row_of(entry.raw.opcode);
		entry.note = NULL;
		entry.late_error = 0;
		entry.looks_up = false;
		nr_taken++;
		may_go_on = take_in(&call, &entry);
		if (unlikely(ring->sleepers))
			settle(&call);
	}
	uaio_chain_end(&call.chain);
	if (unlikely(ring->sleepers))
		settle(&call);
	uaio_batch_end(&call.batch);
	/* nr was added to nr_taken in advance: subtract the submissions not accepted. */
	ring->nr_taken -= nr - nr_taken;
	pass(ring);
	/* relaxed: this thread itself marked the timeouts to complete (timeout.c, I2) */
	if (unlikely(load_relaxed(&ring->nr_reached)))
		uaio_uring_end_reached(ring);
	return nr_taken;
}

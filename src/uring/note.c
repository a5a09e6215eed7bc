/* SPDX-License-Identifier: MIT */
#include "uring/note.h"

#include "base/atomic.h"
#include "base/check.h"
#include "req/sink.h"
#include "uring/ring.h"
#include "uring/rsrc.h"

#include <errno.h>

static struct uaio_slab slab;

void uaio_uring_notes_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_uring_note), 16384);
}

struct uaio_uring_note *uaio_uring_note_new(void)
{
	struct uaio_uring_note *note = uaio_slab_get(&slab);

	if (!note)
		return NULL;
	note->kind = UAIO_URING_NOTE_PLAIN;
	note->skips = note->errors_succeed = false;
	note->expected = note->cqe_flags = 0;
	note->used[0] = note->used[1] = NULL;
	note->polled = NULL;
	note->extra[0] = note->extra[1] = 0;
	return note;
}

void uaio_uring_note_use(struct uaio_uring_note *note,
			 struct uaio_uring_rsrc *rsrc)
{
	uaio_uring_rsrc_get(rsrc);
	note->used[note->used[0] != NULL] = rsrc;
}

void uaio_uring_note_free(struct uaio_uring_note *note)
{
	if (note->kind == UAIO_URING_NOTE_CHANGE && note->change.has_later)
		uaio_cancelled_complete(&note->change.later);
	if (note->kind == UAIO_URING_NOTE_CHANGE && note->change.has_changed)
		uaio_changed_start(&note->change.changed);
	for (unsigned i = 0; i < 2; i++)
		if (note->used[i])
			uaio_uring_rsrc_put(note->used[i]);
	if (note->kind == UAIO_URING_NOTE_CHOICE)
		uaio_uring_bundle_drop(&note->choice);
	uaio_slab_put(&slab, note);
}

void uaio_uring_notes_drop(const struct uaio_post *post)
{
	for (unsigned i = 0; i < post->nr; i++)
		if (post->completions[i].word)
			uaio_uring_note_free(
				uaio_uring_note_of(post->completions[i].word));
}

static bool is_success(const struct uaio_uring_note *note,
		       const struct uaio_completion *completion, int32_t res)
{
	if (unlikely(completion->flags & UAIO_COMPLETION_UNBEGUN))
		return false;
	if (note->errors_succeed && res < 0)
		return res != -ECANCELED;
	if (note->kind == UAIO_URING_NOTE_TIMEOUT)
		return res >= 0 || note->timeout.is_linked ||
		       (res == -ETIME && note->timeout.succeeds);
	return res >= 0 && (uint32_t)res >= note->expected;
}

/*
 * Return: whether this is the completion of an unlinked timeout that has expired or
 * reached its count. This completion ends every wait on the ring (cq.h).
 */
static bool is_ended(const struct uaio_uring_note *note, int32_t res)
{
	return note->kind == UAIO_URING_NOTE_TIMEOUT &&
	       !note->timeout.is_linked && (res == -ETIME || res == 0);
}

/* Return: whether IOSQE_CQE_SKIP_SUCCESS hides the completion from the client. */
static bool is_skipped(const struct uaio_uring_note *note,
		       const struct uaio_completion *completion, int32_t res)
{
	if (unlikely(completion->flags & UAIO_COMPLETION_CUT))
		return completion->flags & UAIO_COMPLETION_QUIET;
	/* A completion with IORING_CQE_F_MORE has data that the client needs. */
	if (completion->flags & UAIO_COMPLETION_MORE)
		return false;
	return note->skips && is_success(note, completion, res);
}

bool uaio_uring_is_told(struct uaio_uring *ring,
			const struct uaio_completion *completion,
			struct io_uring_cqe *cqe)
{
	struct uaio_uring_note *note = uaio_uring_note_of(completion->word);
	bool has_more = completion->flags & UAIO_COMPLETION_MORE;
	bool has_ended;

	if (completion->flags & UAIO_COMPLETION_LEAVES)
		cqe->flags |= IORING_CQE_F_SOCK_NONEMPTY;
	if (unlikely(!note))
		return !(completion->flags & UAIO_COMPLETION_QUIET);
	/*
	 * If a broken chain kept the request from starting, leave out the note's flags:
	 * they are for an executed request.
	 */
	if (!(completion->flags & UAIO_COMPLETION_CUT))
		cqe->flags |= note->cqe_flags;
	if (has_more)
		note->cqe_flags = 0;
	if (!has_more && note->kind == UAIO_URING_NOTE_TIMEOUT)
		uaio_uring_uncount_locked(ring, &note->timeout);
	has_ended = is_ended(note, cqe->res);
	ring->nr_timeouts += has_ended;
	if (is_skipped(note, completion, cqe->res))
		return false;
	/*
	 * A timeout that counts completions does not count the end of another timeout.
	 */
	if (has_ended)
		ring->nr_uncounted++;
	return true;
}

bool uaio_uring_notice_of(const struct uaio_completion *completion,
			  struct io_uring_cqe *cqe)
{
	const struct uaio_uring_note *note =
		uaio_uring_note_of(completion->word);

	if (!note || likely(note->kind != UAIO_URING_NOTE_NOTICE))
		return false;
	cqe->res = note->notice.is_0_on_fault && completion->res == -EFAULT
			   ? 0
			   : note->notice.res;
	cqe->flags = IORING_CQE_F_NOTIF;
	return true;
}

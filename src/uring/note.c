/* SPDX-License-Identifier: MIT */
#include "uring/note.h"

#include "base/atomic.h"
#include "base/check.h"
#include "req/sink.h"
#include "uring/rsrc.h"

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
	note->skips = note->forgives = note->is_poll = note->is_timeout = false;
	note->is_linked = note->succeeds = note->counts = false;
	note->notifies = note->has_from = false;
	note->faults = false;
	note->notice = 0;
	note->expected = note->count = note->cqe_flags = 0;
	note->extra[0] = note->extra[1] = 0;
	note->used[0] = note->used[1] = NULL;
	note->is_counting = note->has_choice = note->has_later = false;
	/* relaxed: written under the queue's lock once it counts */
	store_relaxed(&note->is_reached, 0);
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
	if (unlikely(note->has_later))
		uaio_cancelled_complete(&note->later);
	for (unsigned i = 0; i < 2; i++)
		if (note->used[i])
			uaio_uring_rsrc_put(note->used[i]);
	if (unlikely(note->has_choice))
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

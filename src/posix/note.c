/* SPDX-License-Identifier: MIT */
#include "posix/note.h"

#include <errno.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/list.h"
#include "proc/entry.h"
#include "req/sink.h"

/*
 * If this bit of a word is set, the rest is the address of a list; otherwise the word
 * is the address of a note.
 */
static const uint64_t IS_LIST = 1;

static struct uaio_slab notes, lists;

void uaio_posix_notes_init(void)
{
	uaio_slab_init(&notes, sizeof(struct uaio_posix_note), 16384);
	uaio_slab_init(&lists, sizeof(struct uaio_posix_list), 4096);
}

/*
 * Drop a reference to a note or list.
 * Return: whether it was the last one.
 */
static bool drop(uint32_t *nr_refs)
{
	/* [MB:posix-refs] release: this thread no longer accesses the object. */
	if (sub_release(nr_refs, 1) != 1)
		return false;
	/*
	 * [MB:posix-refs] acquire: the other threads no longer access the object
	 * either.
	 */
	(void)load_acquire(nr_refs);
	return true;
}

/*
 * If the caller is outside the library, enter the library before locking the slab. A
 * signal handler that interrupts this function may call the library: that call then
 * fails, because waiting for the slab's lock would be a deadlock.
 */
static void put_back(struct uaio_slab *slab, void *object)
{
	bool was_outside = uaio_enter();

	uaio_slab_put(slab, object);
	if (was_outside)
		uaio_leave();
}

/*
 * Called when uaio_posix_notify() no longer needs the notice in a list: free the list.
 */
static void release_list(struct uaio_posix_notice *notice)
{
	put_back(&lists, container_of(notice, struct uaio_posix_list, notice));
}

struct uaio_posix_list *uaio_posix_list_new(const struct sigevent *event,
					    uint32_t nr_members)
{
	struct uaio_posix_list *list = uaio_slab_get(&lists);

	if (!list)
		return NULL;
	if (uaio_posix_notice_init(&list->notice, event) < 0) {
		uaio_slab_put(&lists, list);
		return NULL;
	}
	list->notice.release = release_list;
	/*
	 * relaxed: no other thread knows the new list yet. But its memory may have been
	 * another list before. If a thread left its wait for that list by siglongjmp(),
	 * is_done may still be read on behalf of that thread (wait.h, I3).
	 */
	store_relaxed(&list->is_done, 0);
	store_relaxed(&list->nr_refs, 1);
	list->nr_left = 1 + nr_members;
	return list;
}

void uaio_posix_list_put(struct uaio_posix_list *list)
{
	if (drop(&list->nr_refs))
		uaio_posix_notify(&list->notice);
}

void uaio_posix_list_leave_locked(struct uaio_posix_list *list)
{
	if (--list->nr_left == 0)
		/* relaxed: a waiting thread reads is_done again under the lock */
		store_relaxed(&list->is_done, 1);
}

static void put(struct uaio_posix_note *note)
{
	if (drop(&note->nr_refs))
		put_back(&notes, note);
}

/*
 * Called when uaio_posix_notify() no longer needs the notice in a note. This is just
 * before the signal is sent, or when the call of the client's function begins. Drop the
 * completion's reference to the note.
 */
static void release_note(struct uaio_posix_notice *notice)
{
	put(container_of(notice, struct uaio_posix_note, notice));
}

static struct uaio_posix_note *note_of(uint64_t word)
{
	return (struct uaio_posix_note *)(uintptr_t)word;
}

struct uaio_posix_list *uaio_posix_list_of(uint64_t word)
{
	return word & IS_LIST
		       ? (struct uaio_posix_list *)(uintptr_t)(word & ~IS_LIST)
		       : note_of(word)->list;
}

int uaio_posix_word_new(const struct sigevent *event,
			struct uaio_posix_list *list, uint64_t *ret_word,
			struct uaio_posix_note **ret_note)
{
	struct uaio_posix_note *note;
	int ret;

	*ret_note = NULL;
	*ret_word = 0;
	if (uaio_posix_notice_kind(event) == UAIO_POSIX_SILENT) {
		if (list)
			*ret_word = (uintptr_t)list | IS_LIST;
	} else {
		note = uaio_slab_get(&notes);
		if (!note)
			return -EAGAIN;
		ret = uaio_posix_notice_init(&note->notice, event);
		if (ret < 0) {
			uaio_slab_put(&notes, note);
			return ret;
		}
		note->notice.release = release_note;
		note->list = list;
		note->is_inline = false;
		store_relaxed(&note->nr_refs, 2);
		*ret_word = (uintptr_t)note;
		*ret_note = note;
	}
	if (list)
		/* relaxed: the caller's own reference keeps the list from being freed */
		add_relaxed(&list->nr_refs, 1);
	return 0;
}

void uaio_posix_word_drop(uint64_t word)
{
	struct uaio_posix_list *list = uaio_posix_list_of(word);

	if (!(word & IS_LIST)) {
		uaio_posix_notice_fini(&note_of(word)->notice);
		uaio_slab_put(&notes, note_of(word));
	}
	if (list)
		uaio_posix_list_put(list);
}

int uaio_posix_word_error(uint64_t word)
{
	return !(word & IS_LIST) && note_of(word)->notice.kind ==
					    UAIO_POSIX_IMPOSSIBLE
		       ? -EINVAL
		       : 0;
}

/*
 * Notify the client that a request is complete. uaio_posix_notify() also drops the
 * completion's reference to the note. Then drop the request's reference to its list.
 */
static void finish(struct uaio_posix_note *note)
{
	struct uaio_posix_list *list = note->list;

	uaio_posix_notify(&note->notice);
	if (list)
		uaio_posix_list_put(list);
}

void uaio_posix_note_end(struct uaio_posix_note *note)
{
	if (note->is_inline)
		finish(note);
	put(note);
}

static void drop_note(struct uaio_posix_note *note, bool is_inline)
{
	/*
	 * Keep the completion's reference to the note: uaio_posix_note_end() in the
	 * submitting call will drop it.
	 */
	if (is_inline)
		note->is_inline = true;
	else
		finish(note);
}

void uaio_posix_drop_words(const struct uaio_post *post)
{
	for (unsigned i = 0; i < post->nr; i++) {
		uint64_t word = post->completions[i].word;

		if (word & IS_LIST)
			uaio_posix_list_put(uaio_posix_list_of(word));
		else if (word)
			drop_note(note_of(word), post->is_inline);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * What POSIX AIO stores for a request, apart from the address of its aiocb
 *
 * A request has a word, a 64-bit value that the front-end chooses (sink.h). Usually it
 * is 0: nothing is stored. If the request is a member of a list (lio_listio), and the
 * client waits for the list or is notified of its end, the word is the address of the
 * list. If the request has its own notification, the word is the address of a note,
 * which contains the notification and the address of the list.
 *
 *   I1  A list counts references: each member whose completion will be posted has one,
 *       and the call that submits the list has one. Dropping the last reference notifies
 *       the client.
 *   I2  nr_left is the number of members that are not complete, plus 1 until the call has
 *       submitted all members. It changes under the queue's lock. is_done is set when
 *       nr_left becomes 0.
 *   I3  If a request with a note completes inside the submitting call, that call notifies
 *       the client. For this the call has its own reference to the note.
 *
 * Tested by test-posix.c.
 */
#ifndef UAIO_POSIX_NOTE_H
#define UAIO_POSIX_NOTE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slab.h"
#include "posix/callback.h"

struct uaio_post;

/*
 * notice.c: notifying the client of a completion, by a signal or by a call of its
 * function
 */

enum uaio_posix_notice_kind {
	UAIO_POSIX_SILENT,
	UAIO_POSIX_SIGNAL,
	UAIO_POSIX_CALLBACK,
	/* the client has passed an invalid signal number */
	UAIO_POSIX_IMPOSSIBLE,
};

struct uaio_posix_notice {
	enum uaio_posix_notice_kind kind;
	int signo;
	union sigval value;
	void (*function)(union sigval);
	/*
	 * Releases the notice when it is no longer needed. The caller of
	 * uaio_posix_notify() sets this member before.
	 */
	void (*release)(struct uaio_posix_notice *notice);
	/*
	 * the call of `function`, or of the library's function that sends the signal
	 */
	struct uaio_callback callback;
	bool has_attr;
	/*
	 * if has_attr: a copy of the client's thread attributes, which this struct owns
	 */
	pthread_attr_t attr;
	/* if has_attr: `attr` sets the thread's processors */
	bool has_cpus;
};

/*
 * Return: the kind of notification that event requests. Accesses nothing but event.
 */
enum uaio_posix_notice_kind
uaio_posix_notice_kind(const struct sigevent *event);

/*
 * Copy the notification that `event` requests; if `event` is NULL, there is none.
 * Return: 0; -EAGAIN: the thread attributes cannot be copied.
 */
int uaio_posix_notice_init(struct uaio_posix_notice *notice,
			   const struct sigevent *event);
/* Release the notice without notifying the client. */
void uaio_posix_notice_fini(struct uaio_posix_notice *notice);

/*
 * Notify the client, and release the notice. Do not free the notice before some thread
 * calls notice->release(), which the caller has set. The caller holds no lock. If the
 * calling thread is a thread of the client that is inside the library (entry.h), and the
 * signal's handler is not deferred (handlers.h), a new thread sends the signal, if one
 * can be created: the handler might never return, or might call the library.
 */
void uaio_posix_notify(struct uaio_posix_notice *notice);

struct uaio_posix_list {
	struct uaio_slab_node node;
	struct uaio_posix_notice notice; /* immutable */
	uint32_t nr_refs;                /* atomic */
	/*
	 * atomic: 1 if all members are complete; a thread that waits for the list waits
	 * for this word (wait.h)
	 */
	uint32_t is_done;
	/* under the queue's lock: number of incomplete members (I2) */
	uint32_t nr_left;
};

struct uaio_posix_note {
	struct uaio_slab_node node;
	struct uaio_posix_notice notice; /* immutable */
	/*
	 * The list that contains the request, or NULL. This struct has a reference to the
	 * list. The member never changes.
	 */
	struct uaio_posix_list *list;
	uint32_t nr_refs; /* atomic */
	/*
	 * the request completed inside the submitting call, which then notifies the
	 * client (I3)
	 */
	bool is_inline;
};

void uaio_posix_notes_init(void);

/*
 * Create a list with nr_members members. event: how to notify the client of the list's
 * end, or NULL. The caller gets a reference, and is counted in nr_left.
 * Return: the list; NULL if memory is refused.
 */
struct uaio_posix_list *uaio_posix_list_new(const struct sigevent *event,
					    uint32_t nr_members);
/*
 * Drop a reference to the list. May notify the client, so the caller holds no lock.
 */
void uaio_posix_list_put(struct uaio_posix_list *list);

/*
 * Decrement nr_left: a member is complete or was refused, or the call has submitted all
 * members.
 */
void uaio_posix_list_leave_locked(struct uaio_posix_list *list);

/*
 * Determine the word of a request (see the head of this file), and create the note if
 * the word is a note's address. event: the request's notification. list: the list that
 * contains the request, or NULL; the word or the note gets a reference to it.
 * *ret_note: the note, with a reference for the caller; NULL if the request needs no
 * note.
 * Return: 0; -EAGAIN if memory is refused.
 */
int uaio_posix_word_new(const struct sigevent *event,
			struct uaio_posix_list *list, uint64_t *ret_word,
			struct uaio_posix_note **ret_note);

/*
 * The request with this word was refused: free its note, and drop its reference to the
 * list.
 */
void uaio_posix_word_drop(uint64_t word);

/*
 * Return: the list whose address is in the word, or in the note to which the word
 * points; or NULL.
 */
struct uaio_posix_list *uaio_posix_list_of(uint64_t word);

/*
 * Called by the submitting call at its end: notify the client if the request has
 * completed inside this call, and drop the call's reference.
 */
void uaio_posix_note_end(struct uaio_posix_note *note);

/*
 * Return: -EINVAL if the notification in the word's note has an invalid signal number;
 * else 0.
 */
int uaio_posix_word_error(uint64_t word);

/*
 * The function drop_words of POSIX AIO's struct uaio_sink (sink.h): drop the references
 * in the words of posted completions, and notify the client.
 */
void uaio_posix_drop_words(const struct uaio_post *post);

#endif /* UAIO_POSIX_NOTE_H */

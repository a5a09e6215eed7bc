/* SPDX-License-Identifier: MIT */
/*
 * What the door stores of a request, beside the address of its aiocb
 *
 * Usually nothing: then the request's word (sink.h) is 0. If the client waits for a list, or
 * is notified of its end, the word of a member without its own notification is the list. The
 * word of a request with a notification is a note, which has the notification and the list.
 *
 *   I1  A list counts the references to it: one of each member that will be posted, and one
 *       of the call that submits the list. Dropping the last reference notifies the client.
 *   I2  nr_left counts the members that are not complete, and 1 for the call until all are
 *       submitted. It changes under the queue's lock. is_done is set when nr_left becomes 0.
 *   I3  If a request with a note completes inside the submitting call, that call notifies the
 *       client. For this it has its own reference to the note.
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

/* notice.c: notifying the client of a completion, by a signal or a call of its function */

enum uaio_posix_notice_kind {
	UAIO_POSIX_SILENT,
	UAIO_POSIX_SIGNAL,
	UAIO_POSIX_CALLBACK,
	UAIO_POSIX_IMPOSSIBLE, /* there is no signal of that number */
};

struct uaio_posix_notice {
	enum uaio_posix_notice_kind kind;
	int signo;
	union sigval value;
	void (*function)(union sigval);
	/* No longer needed: frees the notice. The caller of uaio_posix_notify() sets it. */
	void (*release)(struct uaio_posix_notice *notice);
	/* calls the function, or sends the signal */
	struct uaio_callback callback;
	bool has_attr;
	pthread_attr_t attr; /* owns, if has_attr: a copy of the client's */
};

/* Return: the kind of notification that event requests. Reads only event. */
enum uaio_posix_notice_kind
uaio_posix_notice_kind(const struct sigevent *event);

/* Copy the notification that event requests; NULL: none. Return: 0 or -EAGAIN. */
int uaio_posix_notice_init(struct uaio_posix_notice *notice,
			   const struct sigevent *event);
/* Release the notice without notifying. */
void uaio_posix_notice_fini(struct uaio_posix_notice *notice);

/*
 * Notify the client, and release the notice. Its memory is needed until this thread or
 * another calls notice->release(), which the caller has set. The caller holds no lock. If the
 * calling thread is the client's and inside the library (entry.h), another thread sends the
 * signal, as the handler may not return, or may call the library.
 */
void uaio_posix_notify(struct uaio_posix_notice *notice);

struct uaio_posix_list {
	struct uaio_slab_node node;
	struct uaio_posix_notice notice; /* immutable */
	uint32_t nr_refs;                /* atomic */
	uint32_t is_done;                /* atomic: a waiter's need (wait.h) */
	uint32_t nr_left;                /* under the queue's lock */
};

struct uaio_posix_note {
	struct uaio_slab_node node;
	struct uaio_posix_notice notice; /* immutable */
	struct uaio_posix_list *list;    /* shares (ref), immutable; or NULL */
	uint32_t nr_refs;                /* atomic */
	bool is_inline;                  /* the submitting call notifies (I3) */
};

void uaio_posix_notes_init(void);

/*
 * Create a list of nr_members. event: how to notify the client of its end, or NULL. The
 * caller has a reference, and counts in nr_left.
 * Return: NULL if memory is refused.
 */
struct uaio_posix_list *uaio_posix_list_new(const struct sigevent *event,
					    uint32_t nr_members);
/* Drop a reference. May notify; the caller holds no lock. */
void uaio_posix_list_put(struct uaio_posix_list *list);

/* A member is complete or was refused, or the call has submitted all members. */
void uaio_posix_list_leave_locked(struct uaio_posix_list *list);

/*
 * Make the word of a request with this notification, in list or, if NULL, in no list.
 * *ret_note: the note, with a reference for the caller; NULL if the word needs none.
 * Return: 0; -EAGAIN if memory is refused.
 */
int uaio_posix_word_new(const struct sigevent *event,
			struct uaio_posix_list *list, uint64_t *ret_word,
			struct uaio_posix_note **ret_note);

/* The request was refused: drop its word. */
void uaio_posix_word_drop(uint64_t word);

/* Return: the list of a word or of its note; or NULL. */
struct uaio_posix_list *uaio_posix_list_of(uint64_t word);

/* Notify if the request has completed inside the call, and drop the call's reference. */
void uaio_posix_note_end(struct uaio_posix_note *note);

/* Return: the error of a notification that is impossible, or 0. */
int uaio_posix_word_error(uint64_t word);

/* A function of struct uaio_sink. */
void uaio_posix_drop_words(const struct uaio_post *post);

#endif /* UAIO_POSIX_NOTE_H */

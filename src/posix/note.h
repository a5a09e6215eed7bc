/* SPDX-License-Identifier: MIT */
/*
 * What POSIX AIO stores of a request, beside the address of its aiocb
 *
 * A request has a word, a 64-bit value of the front-end's (sink.h). Usually it is 0: nothing
 * is stored. If the request is a member of a list (lio_listio) which the client waits for, or
 * whose end it is notified of, the word is the address of the list. If the request has its own
 * notification, the word is the address of a note, which holds the notification and the
 * address of the list.
 *
 *   I1  A list counts references: each member that will be posted has one, and the call that
 *       submits the list has one. Dropping the last reference notifies the client.
 *   I2  nr_left is the number of members that are not complete, plus 1 until the call has
 *       submitted all members. It changes under the queue's lock. is_done is set when nr_left
 *       becomes 0.
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
	UAIO_POSIX_IMPOSSIBLE, /* the number of the signal is invalid */
};

struct uaio_posix_notice {
	enum uaio_posix_notice_kind kind;
	int signo;
	union sigval value;
	void (*function)(union sigval);
	/*
	 * Frees the notice when it is no longer needed. Set by the caller of
	 * uaio_posix_notify().
	 */
	void (*release)(struct uaio_posix_notice *notice);
	/* calls the function, or sends the signal */
	struct uaio_callback callback;
	bool has_attr;
	/* owns, if has_attr: a copy of the client's attributes */
	pthread_attr_t attr;
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
 * Notify the client, and release the notice. Its memory is needed until this thread or another
 * calls notice->release(), which the caller has set. The caller holds no lock. If the calling
 * thread is a thread of the client's that is inside the library (entry.h), another thread
 * sends the signal: the signal handler might never return, or might call the library.
 */
void uaio_posix_notify(struct uaio_posix_notice *notice);

struct uaio_posix_list {
	struct uaio_slab_node node;
	struct uaio_posix_notice notice; /* immutable */
	uint32_t nr_refs;                /* atomic */
	/* atomic: the word that a waiting thread needs to be 1 (wait.h) */
	uint32_t is_done;
	uint32_t nr_left; /* under the queue's lock */
};

struct uaio_posix_note {
	struct uaio_slab_node node;
	struct uaio_posix_notice notice; /* immutable */
	struct uaio_posix_list *list;    /* shares (ref), immutable; or NULL */
	uint32_t nr_refs;                /* atomic */
	/* the request completed inside the submitting call, which notifies the client (I3) */
	bool is_inline;
};

void uaio_posix_notes_init(void);

/*
 * Create a list of nr_members. event: how to notify the client of its end, or NULL. The caller
 * gets a reference, and is counted in nr_left.
 * Return: NULL if memory is refused.
 */
struct uaio_posix_list *uaio_posix_list_new(const struct sigevent *event,
					    uint32_t nr_members);
/* Drop a reference. May notify; the caller holds no lock. */
void uaio_posix_list_put(struct uaio_posix_list *list);

/*
 * Count down nr_left: a member is complete or was refused, or the call has submitted all
 * members.
 */
void uaio_posix_list_leave_locked(struct uaio_posix_list *list);

/*
 * Make the word of a request with the notification `event`. list: the list that the request is
 * in, or NULL. *ret_note: the note, with a reference for the caller; NULL if the word needs
 * none.
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

/* The function drop_words of struct uaio_sink. */
void uaio_posix_drop_words(const struct uaio_post *post);

#endif /* UAIO_POSIX_NOTE_H */

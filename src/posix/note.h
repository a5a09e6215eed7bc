/* SPDX-License-Identifier: MIT */
/*
 * What the door remembers of a request, beside the address of its aiocb
 *
 * Nothing, as a rule: then its word (sink.h) is 0. A member of a list of which the
 * client wants to know the end, without a notification of its own, has the list as
 * its word. Any other request has a note, which has the notification and the list.
 *
 *   I1  A list counts the references to it: one of each member that is to come to
 *       it, and one of the call that submits it. The last one that is dropped
 *       notifies the client.
 *   I2  nr_left counts the members that are not complete, and the call until all
 *       are submitted; it changes under the queue's lock. is_done is set when it
 *       becomes 0.
 *   I3  A note that completes inside the submitting call is left to that call, which
 *       has a reference of its own.
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
 * notice.c: telling a client that a request is complete: a signal, or a call of a function
 */

enum uaio_posix_notice_kind {
	UAIO_POSIX_SILENT,
	UAIO_POSIX_SIGNAL,
	UAIO_POSIX_CALLBACK,
	UAIO_POSIX_IMPOSSIBLE, /* the signal has a number that there is not */
};

struct uaio_posix_notice {
	enum uaio_posix_notice_kind kind;
	int signo;
	union sigval value;
	void (*function)(union sigval);
	/* The notice is needed no longer; the caller of notify sets it. */
	void (*is_told)(struct uaio_posix_notice *notice);
	struct uaio_callback callback; /* that of the function or of a signal */
	bool has_attr;
	pthread_attr_t attr; /* owns, if has_attr: a copy of the client's */
};

/* Return: how the event is notified; reads nothing but the event. */
enum uaio_posix_notice_kind
uaio_posix_notice_kind(const struct sigevent *event);

/* Copy what the event asks for; NULL: nothing. Return: 0 or -EAGAIN. */
int uaio_posix_notice_init(struct uaio_posix_notice *notice,
			   const struct sigevent *event);
/* Forget it without notifying. */
void uaio_posix_notice_fini(struct uaio_posix_notice *notice);

/*
 * Notify, and forget it: its memory is needed until notice->is_told(), which the caller
 * has set, is called, from here or by another thread. The caller holds no lock. If it
 * is a thread of the client's that is inside the library (entry.h), another thread
 * sends the signal: its handler may not return, or call the library.
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
	bool is_inline;                  /* the submitting thread's */
};

void uaio_posix_notes_init(void);

/*
 * A list of nr_members whose client is told of its end as event says, or not at all.
 * The caller has a reference, and is one of those that are left.
 * Return: NULL if memory is refused.
 */
struct uaio_posix_list *uaio_posix_list_new(const struct sigevent *event,
					    uint32_t nr_members);
/* Drop a reference. May notify; the caller holds no lock. */
void uaio_posix_list_put(struct uaio_posix_list *list);

/* One of those that are left is complete, or has been refused. */
void uaio_posix_list_leave_locked(struct uaio_posix_list *list);

/*
 * The word of a request with this notification, which is in list, or in none. With
 * a note: *ret_note has it, with a reference for the caller; else NULL.
 * Return: 0; -EAGAIN if memory is refused.
 */
int uaio_posix_word_new(const struct sigevent *event,
			struct uaio_posix_list *list, uint64_t *ret_word,
			struct uaio_posix_note **ret_note);

/* The request was refused: drop its word. */
void uaio_posix_word_drop(uint64_t word);

/* The list that a word stands for, directly or by its note; or NULL. */
struct uaio_posix_list *uaio_posix_list_of(uint64_t word);

/* Notify if the request has completed inside the call, and drop the reference. */
void uaio_posix_note_end(struct uaio_posix_note *note);

/* Return: the error of a notification that can never be made, or 0. */
int uaio_posix_word_error(uint64_t word);

/* A function of struct uaio_sink. */
void uaio_posix_drop_words(const struct uaio_post *post);

#endif /* UAIO_POSIX_NOTE_H */

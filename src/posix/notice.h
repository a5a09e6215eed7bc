/* SPDX-License-Identifier: MIT */
/*
 * Telling a client that a request is complete: a signal, or a call of a function
 *
 * A signal is queued for the process, as glibc does: SI_ASYNCIO, with the client's
 * value. If it cannot be queued because too many are pending, it is sent without the
 * value. A function is called by a thread that has no other purpose (callback.h).
 *
 * Tested by test-posix.c and test/posix/.
 */
#ifndef UAIO_POSIX_NOTICE_H
#define UAIO_POSIX_NOTICE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "posix/callback.h"

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

#endif /* UAIO_POSIX_NOTICE_H */

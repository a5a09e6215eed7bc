/* SPDX-License-Identifier: MIT */
/*
 * The completion ring, which is at the address that the handle is, as clients
 * read it, and what every row notes of it
 *
 * The calls watch the ring of each context. When a context is destroyed, and at
 * the end of the row, the ring's header and the bytes of its events are noted.
 * For each event that a call returned, it is noted whether the ring held the
 * same.
 */
#ifndef CONFORM_RING_H
#define CONFORM_RING_H

#include <linux/aio_abi.h>
#include <stdbool.h>

struct ring {
	unsigned int id;
	unsigned int nr;
	unsigned int head;
	unsigned int tail;
	unsigned int magic;
	unsigned int compat_features;
	unsigned int incompat_features;
	unsigned int header_length;
	struct io_event events[];
};

/*
 * From now on, until it is forgotten: because it is gone, or because requests
 * are left running.
 */
void ring_watch(aio_context_t ctx);
void ring_forget(aio_context_t ctx);
/* The client moved it. */
void ring_moved(aio_context_t from, aio_context_t to);

/* The head before events are taken. Return: -1 if the ring is not watched. */
long ring_head(aio_context_t ctx);
/* A call that met this head gave those events, or what it returned. */
void ring_reaped(aio_context_t ctx, long head, const struct io_event *events,
		 long nr);

/* Requests of this row complete in any order: so are their events noted. */
void rings_unordered(void);

/* Notes the ring, if it is watched. */
void ring_note(aio_context_t ctx);
/* Notes all rings watched that this process made. */
void rings_note(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The fields that every test case prints about its rings.
 *
 * A test case may have overwritten, moved or unmapped its ring. So this code reads the
 * ring by a system call, which fails where a memory access would crash, and trusts
 * nothing that it reads.
 */
#include "ring.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"

enum { RINGS_MAX = 64, EVENTS_NOTED = 40 };

static struct watched {
	aio_context_t ctx; /* 0: free */
	/* process that made the context; its forked children ignore this element */
	pid_t pid;
	unsigned int nr; /* the nr_events passed to io_setup */
	long nr_reaped, nr_wrong;
} rings[RINGS_MAX];
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_unordered;

static bool peek(uintptr_t from, void *to, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)from, bytes };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) ==
	       (ssize_t)bytes;
}

static struct watched *find(aio_context_t ctx)
{
	struct watched *ring = NULL;
	int i;

	pthread_mutex_lock(&rings_lock);
	for (i = 0; i < RINGS_MAX && !ring; i++)
		if (rings[i].ctx == ctx && rings[i].pid == getpid())
			ring = &rings[i];
	pthread_mutex_unlock(&rings_lock);
	return ctx ? ring : NULL;
}

void ring_watch(aio_context_t ctx)
{
	struct ring header;
	int i;

	REQUIRE(peek(ctx, &header, sizeof(header)));
	pthread_mutex_lock(&rings_lock);
	for (i = 0; i < RINGS_MAX; i++)
		if (!rings[i].ctx)
			break;
	REQUIRE(i < RINGS_MAX);
	rings[i] = (struct watched){
		.ctx = ctx,
		.pid = getpid(),
		.nr = header.nr,
	};
	pthread_mutex_unlock(&rings_lock);
}

void ring_forget(aio_context_t ctx)
{
	struct watched *ring = find(ctx);

	if (ring)
		ring->ctx = 0;
}

void ring_moved(aio_context_t from, aio_context_t to)
{
	struct watched *ring = find(from);

	REQUIRE(ring);
	ring->ctx = to;
}

long ring_head(aio_context_t ctx)
{
	const struct watched *ring = find(ctx);
	struct ring header;

	if (!ring || !peek(ctx, &header, sizeof(header)))
		return -1;
	return header.head % ring->nr;
}

static uintptr_t slot_of(const struct watched *ring, unsigned int slot)
{
	return ring->ctx + sizeof(struct ring) + slot * sizeof(struct io_event);
}

void ring_reaped(aio_context_t ctx, long head, const struct io_event *events,
		 long nr)
{
	struct watched *ring = find(ctx);
	struct io_event slot;
	long i;

	for (i = 0; ring && head >= 0 && i < nr; i++) {
		ring->nr_reaped++;
		if (!peek(slot_of(ring, (unsigned int)(head + i) % ring->nr),
			  &slot, sizeof(slot)) ||
		    memcmp(&slot, &events[i], sizeof(slot)) != 0)
			ring->nr_wrong++;
	}
}

void rings_unordered(void)
{
	is_unordered = true;
}

static int compare_data(const void *a, const void *b)
{
	const struct io_event *x = a, *y = b;

	return x->data < y->data ? -1 : x->data > y->data;
}

/*
 * Prints each request's serial number and result. The iocb's address differs from run
 * to run, so it is not printed. Instead, ring_reaped() compares it with the event that
 * the call returned.
 */
static void note_events(const char *name, struct io_event *events, size_t nr)
{
	char text[EVENTS_NOTED * 32] = "", key[64];
	size_t i, len = 0, first = nr > EVENTS_NOTED ? nr - EVENTS_NOTED : 0;

	if (is_unordered)
		qsort(events, nr, sizeof(*events), compare_data);
	for (i = first; i < nr; i++) {
		bool is_ours = is_serial(events[i].data);

		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%s%d:%lld%s", i > first ? " " : "",
					is_ours ? (int)(uint32_t)events[i].data
						: -1,
					result_as_asked(&events[i]),
					events[i].res2 ? ",res2" : "");
	}
	snprintf(key, sizeof(key), "%s.events", name);
	note_text(key, nr ? text : "none");
}

static void note_header(const char *name, const struct watched *ring,
			const struct ring *header)
{
	char text[128], key[64];

	snprintf(key, sizeof(key), "%s.header", name);
	snprintf(text, sizeof(text),
		 "id %u, nr %u, magic %x, compat %x, incompat %x, length %u",
		 header->id, header->nr, header->magic, header->compat_features,
		 header->incompat_features, header->header_length);
	note_text(key, text);
	snprintf(key, sizeof(key), "%s.head", name);
	note(key, header->head);
	snprintf(key, sizeof(key), "%s.tail", name);
	note(key, header->tail);
	snprintf(key, sizeof(key), "%s.reaped", name);
	note(key, ring->nr_reaped);
	if (ring->nr_wrong) {
		snprintf(key, sizeof(key), "%s.reaped_other", name);
		note(key, ring->nr_wrong);
	}
}

static void note_ring(const struct watched *ring)
{
	struct io_event *events;
	struct ring header;
	char name[32];
	size_t nr, i;

	snprintf(name, sizeof(name), "ring_%d", (int)(ring - rings));
	if (!peek(ring->ctx, &header, sizeof(header)))
		return note_text(name, "unmapped");
	note_header(name, ring, &header);
	/*
	 * If the requests complete in any order and the ring has wrapped around, the
	 * order decides which events remain, so print none.
	 */
	if (is_unordered && ring->nr_reaped >= ring->nr)
		return;
	/*
	 * Leave out the slots from the tail on, which may never have held an event.
	 */
	nr = header.tail < ring->nr ? header.tail : ring->nr;
	events = calloc(nr + 1, sizeof(*events));
	REQUIRE(events);
	for (i = 0; i < nr; i++)
		REQUIRE(peek(slot_of(ring, (unsigned int)i), &events[i],
			     sizeof(*events)));
	note_events(name, events, nr);
	free(events);
}

void ring_note(aio_context_t ctx)
{
	const struct watched *ring = find(ctx);

	if (ring)
		note_ring(ring);
}

void rings_note(void)
{
	int i;

	for (i = 0; i < RINGS_MAX; i++)
		if (rings[i].ctx && rings[i].pid == getpid())
			note_ring(&rings[i]);
}

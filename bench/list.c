/* SPDX-License-Identifier: MIT */
/*
 * uaio with its contexts in a list: the library as it is, but io_submit and
 * io_getevents find a context by walking one list of all of them, newest first,
 * as kernel AIO did before it had a table.
 *
 * It is the least that such a list can do: an entry holds a handle and nothing
 * that must be looked at beside it, no lock is taken, and a context that is
 * destroyed stays in it for ever. A measure, not a library.
 */
#include <stdlib.h>

/* Ours have these names; the engine's are what they are made of. */
#define uaio_ctx_find uaio_ctx_find_in_table
#define uaio_ctx_setup uaio_ctx_setup_in_table
#include "engine/ctx.c"
#undef uaio_ctx_find
#undef uaio_ctx_setup

struct uaio_ctx *uaio_ctx_find(uint64_t handle);
int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle);

struct entry {
	const struct entry *next;
	uint64_t handle;
	struct uaio_ctx *ctx;
};

static const struct entry *newest; /* atomic */

struct uaio_ctx *uaio_ctx_find(uint64_t handle)
{
	const struct entry *entry = load_acquire(&newest);

	while (entry && entry->handle != handle)
		entry = entry->next;
	return entry ? entry->ctx : NULL;
}

int uaio_ctx_setup(uint32_t nr_events, uint64_t *ret_handle)
{
	struct entry *entry = malloc(sizeof(*entry));
	int ret;

	if (!entry)
		return -ENOMEM;
	ret = uaio_ctx_setup_in_table(nr_events, &entry->handle);
	if (ret < 0) {
		free(entry);
		return ret;
	}
	*ret_handle = entry->handle;
	entry->ctx = uaio_ctx_find_in_table(entry->handle);
	entry->next = load_acquire(&newest);
	while (!__atomic_compare_exchange_n(&newest, &entry->next, entry, true,
					    __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		;
	return 0;
}

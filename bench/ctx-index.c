/* SPDX-License-Identifier: MIT */
/*
 * libuaio with another index of contexts: io_submit and io_getevents find a context in
 * the list or the radix tree (contextindex.h; INDEX names it), as kernel AIO did before
 * it had a table. Only for measurements.
 *
 * The index changes together with the table, under the table's lock. The table still
 * gives out numbers, and io_cancel and io_destroy, which are not measured, use it. The
 * library's own code finds a ring that mremap() moved.
 *
 * When the counters are read, the library writes to the file that UAIO_INDEX names: which
 * index it has, and how many contexts were inserted. This proves which index was used.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * In the library's other files uaio_ctx_find() is find_by_index(). The function of that
 * name in aio/ctx.c, included below, gets another symbol.
 */
struct uaio_ctx;
struct uaio_ctx *find_by_index(uint64_t handle) __asm__("uaio_ctx_find");
struct uaio_ctx *
uaio_ctx_find(uint64_t handle) __asm__("uaio_ctx_find_in_table");

#include "base/sys.h"
#include "life/door.h"
#include "aio/ctx.h"
#include "aio/ctxtab.h"
#include "contextindex.h"

#define PASTE(index, verb) index##_##verb
#define OF(index, verb) PASTE(index, verb)

static int reserve_locked(struct uaio_ctxtab *tab, uint32_t *ret_id);
static void set_locked(struct uaio_ctxtab *tab, uint32_t id,
		       struct uaio_ctx *ctx);

/* In aio/ctx.c, these calls are calls of the functions of this file. */
#define uaio_ctx_find(handle) find_by_index(handle)
#define uaio_ctxtab_free_id_locked reserve_locked
#define uaio_ctxtab_set_locked set_locked
/* This file also replaces the table entry by which the library finds kernel AIO. */
#undef UAIO_DOOR
#define UAIO_DOOR(row) static const struct uaio_door *const of_table = &(row)
#include "aio/ctx.c"
#undef uaio_ctx_find
#undef uaio_ctxtab_free_id_locked
#undef uaio_ctxtab_set_locked

/* under the table's lock */
/* by id: the handle under which the context was inserted */
static struct uaio_ctxtab handles;
static unsigned long nr_put;

static int start_with_index(void)
{
	uaio_ctxtab_init(&handles);
	OF(INDEX, init)();
	nr_put = 0;
	return of_table->start();
}

/* The table of handles always has the same free ids as the table of contexts. */
static int reserve_locked(struct uaio_ctxtab *tab, uint32_t *ret_id)
{
	uint32_t id;
	int ret = OF(INDEX, reserve)();

	if (ret < 0)
		return ret;
	ret = uaio_ctxtab_free_id_locked(&handles, &id);
	if (ret < 0)
		return ret;
	return uaio_ctxtab_free_id_locked(tab, ret_id);
}

static void set_locked(struct uaio_ctxtab *tab, uint32_t id,
		       struct uaio_ctx *ctx)
{
	/* The table only stores the address: it never uses it as a pointer to a context. */
	struct uaio_ctx *handle = ctx ? (void *)ctx->ring.map : NULL;

	if (ctx) {
		nr_put++;
		OF(INDEX, insert)((uintptr_t)handle, ctx);
	} else {
		OF(INDEX, remove)((uintptr_t)uaio_ctxtab_find(&handles, id));
	}
	uaio_ctxtab_set_locked(&handles, id, handle);
	uaio_ctxtab_set_locked(tab, id, ctx);
}

struct uaio_ctx *find_by_index(uint64_t handle)
{
	struct uaio_ctx *ctx = OF(INDEX, find)(handle);

	/*
	 * A ring that lies in the library's memory has not been moved. The table's lock may
	 * be held.
	 */
	if (likely(ctx) || uaio_ringmem_contains(handle))
		return ctx;
	return uaio_moved_find(handle);
}

static void tell(const char *path, unsigned long nr)
{
	char line[128];
	int len = snprintf(line, sizeof(line),
			   "{\"pid\": %d, \"index\": \"%s\", \"put\": %lu}\n",
			   sys_getpid(), INDEX.name, nr);
	int fd = sys_openat(AT_FDCWD, path,
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	(void)sys_write(fd, line, (size_t)len);
	(void)sys_close(fd);
}

static void count_index(struct uaio_counters *counters)
{
	const char *path = secure_getenv("UAIO_INDEX");
	unsigned long nr;

	of_table->count(counters);
	uaio_lock(&ctxs.lock, UAIO_RANK_TABLE);
	counters->table_bytes = OF(INDEX, bytes)();
	nr = nr_put;
	uaio_unlock(&ctxs.lock, UAIO_RANK_TABLE);
	/* Report the size of the index only, without the table of ring addresses. */
	counters->index_bytes = 0;
	if (path && nr)
		tell(path, nr);
}

static const struct uaio_door index_door = {
	.load = load,
	.start = start_with_index,
	.count = count_index,
};

static const struct uaio_door *const index_registered
	__attribute__((section("uaio_doors"), used)) = &index_door;

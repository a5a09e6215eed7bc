/* SPDX-License-Identifier: MIT */
/*
 * libuaio with another index of kernel AIO contexts, for measurements only. The
 * released library finds a context by a table (aio/ctxtab.h). Here io_submit and
 * io_getevents find it by the index that the macro INDEX names: list_index or
 * radix_index (contextindex.h).
 *
 * When a context is inserted or removed, the index changes together with the table,
 * under the table's lock. The table still allocates the contexts' ids. io_cancel and
 * io_destroy, which are not measured, still find contexts by the table. The index does
 * not know the new address of a ring that mremap() has moved, so the library's own code
 * finds that context.
 *
 * The environment variable UAIO_INDEX may name a file. Then the library appends a line
 * to this file whenever it reads its counters: the index's name, and how many contexts
 * were inserted. The line proves that the benchmark used this index.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Calls of uaio_ctx_find() in the library's other files must reach find_by_index(), so
 * find_by_index() gets the symbol uaio_ctx_find. The function uaio_ctx_find() of
 * aio/ctx.c, which is included below, gets another symbol.
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

/*
 * In aio/ctx.c, included below, these macros replace calls by calls of this file's
 * functions. The definition of uaio_ctx_find() there has its name in brackets, so the
 * macro does not rename it.
 */
#define uaio_ctx_find(handle) find_by_index(handle)
#define uaio_ctxtab_free_id_locked reserve_locked
#define uaio_ctxtab_set_locked set_locked
/*
 * In aio/ctx.c, UAIO_DOOR would add the row of kernel AIO to the library's table of
 * interfaces. Here the macro only makes of_table point to that row, because this file
 * adds its own row, index_door.
 */
#undef UAIO_DOOR
#define UAIO_DOOR(row) static const struct uaio_door *const of_table = &(row)
#include "aio/ctx.c"
#undef uaio_ctx_find
#undef uaio_ctxtab_free_id_locked
#undef uaio_ctxtab_set_locked

/* protected by the context table's lock: */
/* for each context's id, the handle under which the context was inserted */
static struct uaio_ctxtab handles;
static unsigned long nr_put;

static int start_with_index(void)
{
	uaio_ctxtab_init(&handles);
	OF(INDEX, init)();
	nr_put = 0;
	return of_table->start();
}

/*
 * The tables of handles and of contexts always have the same free ids. So a search for
 * the lowest free id finds the same id in both tables.
 */
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
	/*
	 * The handle is the address of the ring. The table `handles` stores this address
	 * in place of a context's address, and never accesses memory there.
	 */
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
	 * If INDEX has no context with the handle, search the moved rings. An address
	 * in the library's ring memory never belongs to a moved ring, so skip the
	 * search: it would acquire the table's lock, which the caller may hold.
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
	/*
	 * Report only the bytes of INDEX, in table_bytes. The other index, which only
	 * helps the table to find contexts, does not count.
	 */
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

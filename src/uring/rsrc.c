/* SPDX-License-Identifier: MIT */
#include "uring/rsrc.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "file/file.h"
#include "uring/ring.h"

static struct uaio_slab slab; /* of entries */

void uaio_uring_rsrcs_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_uring_rsrc), 16384);
}

void uaio_uring_rsrc_init(struct uaio_uring *ring)
{
	ring->files = (struct uaio_uring_table){ 0 };
	ring->buffers = (struct uaio_uring_table){ 0 };
}

void uaio_uring_rsrc_fini(struct uaio_uring *ring)
{
	uaio_uring_table_free(ring, &ring->files);
	uaio_uring_table_free(ring, &ring->buffers);
}

int uaio_uring_table_new(struct uaio_uring *ring,
			 struct uaio_uring_table *table, uint32_t nr)
{
	void *entries =
		sys_mmap(NULL, (size_t)nr * sizeof(struct uaio_uring_rsrc *),
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

	if (sys_is_map_error(entries))
		return -ENOMEM;
	uaio_queue_lock(&ring->queue);
	*table = (struct uaio_uring_table){ .entries = entries, .nr = nr };
	uaio_queue_unlock(&ring->queue);
	return 0;
}

void uaio_uring_table_free(struct uaio_uring *ring,
			   struct uaio_uring_table *table)
{
	struct uaio_uring_table old = *table;

	for (uint32_t i = 0; i < old.nr; i++)
		uaio_uring_table_empty(table, i);
	uaio_queue_lock(&ring->queue);
	*table = (struct uaio_uring_table){ 0 };
	uaio_queue_unlock(&ring->queue);
	if (old.entries)
		(void)sys_munmap(old.entries,
				 old.nr * sizeof(struct uaio_uring_rsrc *));
}

struct uaio_file *uaio_uring_get_fixed(struct uaio_queue *queue, int place)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);
	struct uaio_file *file = NULL;
	struct uaio_uring_rsrc *rsrc;

	uaio_queue_lock(queue);
	rsrc = uaio_uring_table_at(&ring->files, (uint32_t)place);
	if (rsrc && uaio_file_try_get(rsrc->file))
		file = rsrc->file;
	uaio_queue_unlock(queue);
	return file;
}

static int put(struct uaio_uring *ring, struct uaio_uring_table *table,
	       uint32_t place, const struct uaio_uring_rsrc *what)
{
	struct uaio_uring_rsrc *rsrc = uaio_slab_get(&slab);

	if (!rsrc)
		return -ENOMEM;
	rsrc->ring = ring;
	rsrc->tag = what->tag;
	rsrc->file = what->file;
	rsrc->base = what->base;
	rsrc->bytes = what->bytes;
	/* relaxed: the thread that holds the ring hands it on */
	store_relaxed(&rsrc->refs, 1);
	ring->nr_taken += rsrc->tag != 0;
	uaio_queue_lock(&ring->queue);
	table->entries[place] = rsrc;
	uaio_queue_unlock(&ring->queue);
	return 0;
}

int uaio_uring_table_put_file(struct uaio_uring *ring, uint32_t place,
			      struct uaio_file *file, uint64_t tag)
{
	return put(ring, &ring->files, place,
		   &(struct uaio_uring_rsrc){ .file = file, .tag = tag });
}

int uaio_uring_table_put_buffer(struct uaio_uring *ring, uint32_t place,
				uint64_t base, uint64_t bytes, uint64_t tag)
{
	return put(ring, &ring->buffers, place,
		   &(struct uaio_uring_rsrc){
			   .base = base, .bytes = bytes, .tag = tag });
}

void uaio_uring_table_empty(struct uaio_uring_table *table, uint32_t place)
{
	struct uaio_uring_rsrc *rsrc = table->entries[place];

	if (!rsrc)
		return;
	uaio_queue_lock(&rsrc->ring->queue);
	table->entries[place] = NULL;
	uaio_queue_unlock(&rsrc->ring->queue);
	if (rsrc)
		uaio_uring_rsrc_put(rsrc);
}

void uaio_uring_rsrc_get(struct uaio_uring_rsrc *rsrc)
{
	/* relaxed: the table's reference is there */
	add_relaxed(&rsrc->refs, 1);
}

void uaio_uring_rsrc_put(struct uaio_uring_rsrc *rsrc)
{
	struct uaio_uring *ring = rsrc->ring;
	uint64_t tag = rsrc->tag;

	/* [MB:uring-rsrc] release: after our last use. Pairs with the last. */
	if (sub_release(&rsrc->refs, 1) != 1)
		return;
	/* [MB:uring-rsrc] acquire: the last one comes after all uses. */
	(void)load_acquire(&rsrc->refs);
	if (rsrc->file)
		uaio_file_put(rsrc->file);
	uaio_slab_put(&slab, rsrc);
	if (tag)
		uaio_uring_answer(ring, tag, 0);
}

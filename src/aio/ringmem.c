/* SPDX-License-Identifier: MIT */
#include "aio/ringmem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/slab.h"
#include "base/sys.h"
#include "base/uaddr.h"

enum {
	CHUNK_BYTES = 1 << 20,
	CHUNK_PAGES_MAX = CHUNK_BYTES / 4096,
	/*
	 * If a ring has at least this size, it pays off to return the ring's memory to
	 * the kernel by a system call.
	 */
	TRIM_BYTES = 5 * 4096,
	/*
	 * A million contexts with one page each need 4096 chunks. Up to 4096 chunks, each
	 * usually has a bucket of its own.
	 */
	NR_BUCKETS = 4096,
};

struct chunk {
	struct uaio_slab_node node;

	/* these members do not change once the chunk is in the index (I2) */
	char *base; /* the chunk owns this mapping and never unmaps it (I1) */
	/*
	 * if this is CHUNK_BYTES, small rings share the chunk; if it is more, the chunk
	 * is for one large ring
	 */
	size_t bytes;
	struct chunk *next; /* the next chunk in the same bucket */

	/* under the lock */
	/* node of ringmem.shared or .whole, while the chunk has free pages */
	struct list usable;
	size_t nr_free; /* pages */
	/* one bit for each page; set: in use */
	uint64_t taken[CHUNK_PAGES_MAX / 64];
};

static struct {
	/*
	 * the index of all chunks, which ringmem owns; the head of each bucket is
	 * atomic
	 */
	struct chunk **buckets;

	/* under lock */
	struct uaio_lock lock;
	/* chunks that small rings share and that have free pages */
	struct list shared;
	struct list whole; /* free mappings of single large rings */
	size_t nr_pages_out;
	size_t nr_chunks;
	struct uaio_slab chunks;
} ringmem;

static size_t chunk_pages(void)
{
	return CHUNK_BYTES / uaio_page_bytes();
}

/*
 * Return: the longest ring that shares a chunk, in pages. A longer ring has its own
 * mapping: a second ring of its size would not fit into the chunk.
 */
static size_t shared_pages_max(void)
{
	return chunk_pages() / 2;
}

int uaio_ringmem_init(void)
{
	struct chunk **buckets =
		sys_mmap(NULL, NR_BUCKETS * sizeof(*buckets),
			 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

	if (sys_is_map_error(buckets))
		return -ENOMEM;
	ringmem.buckets = buckets;
	ringmem.lock = (struct uaio_lock){ 0 };
	list_init(&ringmem.shared);
	list_init(&ringmem.whole);
	ringmem.nr_pages_out = 0;
	ringmem.nr_chunks = 0;
	uaio_slab_init(&ringmem.chunks, sizeof(struct chunk), 16384);
	return 0;
}

static struct chunk **bucket_of(uint64_t base)
{
	/* Neighbouring chunks get neighbouring buckets, so they do not collide. */
	return &ringmem.buckets[base / CHUNK_BYTES % NR_BUCKETS];
}

static struct chunk *find_chunk(uint64_t addr)
{
	uint64_t base = addr & ~(uint64_t)(CHUNK_BYTES - 1);
	struct chunk *chunk;

	/*
	 * [MB:chunk] acquire: load the pointer before the chunk's members. Pairs with
	 * index_chunk_locked().
	 */
	chunk = load_acquire(bucket_of(base));
	while (chunk && (uintptr_t)chunk->base != base)
		chunk = chunk->next;
	return chunk;
}

bool uaio_ringmem_contains(uint64_t addr)
{
	const struct chunk *chunk;

	/*
	 * The size of a page is a power of two: use a mask. Every system call of kernel
	 * AIO makes this check, so a division would cost too much.
	 */
	if (addr & (uaio_page_bytes() - 1))
		return false;
	chunk = find_chunk(addr);
	return chunk &&
	       (chunk->bytes == CHUNK_BYTES || (uintptr_t)chunk->base == addr);
}

static void index_chunk_locked(struct chunk *chunk)
{
	struct chunk **bucket = bucket_of((uintptr_t)chunk->base);

	chunk->next = load_relaxed(bucket);
	/*
	 * [MB:chunk] release: write the chunk's members before the bucket. Pairs with
	 * find_chunk().
	 */
	store_release(bucket, chunk);
	ringmem.nr_chunks++;
}

/* Map memory at a multiple of CHUNK_BYTES: map more than needed, then unmap both ends. */
static void *map_aligned(size_t bytes)
{
	char *map, *base, *end;

	map = sys_mmap(NULL, bytes + CHUNK_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(map))
		return NULL;
	end = map + bytes + CHUNK_BYTES;
	base = (char *)(((uintptr_t)map + CHUNK_BYTES - 1) &
			~(uintptr_t)(CHUNK_BYTES - 1));
	if (base > map)
		(void)sys_munmap(map, (size_t)(base - map));
	if (base + bytes < end)
		(void)sys_munmap(base + bytes, (size_t)(end - base) - bytes);
	return base;
}

static struct chunk *new_chunk_locked(size_t nr_pages)
{
	struct chunk *chunk = uaio_slab_get(&ringmem.chunks);

	if (!chunk)
		return NULL;
	chunk->bytes = nr_pages * uaio_page_bytes();
	chunk->base = map_aligned(chunk->bytes);
	if (!chunk->base) {
		uaio_slab_put(&ringmem.chunks, chunk);
		return NULL;
	}
	chunk->nr_free = nr_pages;
	list_init(&chunk->usable);
	memset(chunk->taken, 0, sizeof(chunk->taken));
	index_chunk_locked(chunk);
	return chunk;
}

static bool is_taken(const struct chunk *chunk, size_t page)
{
	return chunk->taken[page / 64] >> page % 64 & 1;
}

static void flip_pages(struct chunk *chunk, size_t first, size_t nr)
{
	for (size_t page = first; page < first + nr; page++)
		chunk->taken[page / 64] ^= 1ull << page % 64;
}

/* Return: the first of nr consecutive free pages; chunk_pages() if there are none. */
static size_t find_run(const struct chunk *chunk, size_t nr)
{
	const size_t nr_pages = chunk_pages();
	size_t run = 0;

	for (size_t page = 0; page < nr_pages; page++) {
		if (page % 64 == 0 && chunk->taken[page / 64] == UINT64_MAX) {
			page += 63;
			run = 0;
			continue;
		}
		run = is_taken(chunk, page) ? 0 : run + 1;
		if (run == nr)
			return page + 1 - nr;
	}
	return nr_pages;
}

static void *take_shared_locked(struct chunk *chunk, size_t nr_pages)
{
	size_t page;

	if (chunk->nr_free < nr_pages)
		return NULL;
	page = find_run(chunk, nr_pages);
	if (page == chunk_pages())
		return NULL;
	flip_pages(chunk, page, nr_pages);
	chunk->nr_free -= nr_pages;
	if (chunk->nr_free == 0)
		list_remove(&chunk->usable);
	return chunk->base + page * uaio_page_bytes();
}

static void *get_shared_locked(size_t nr_pages)
{
	struct chunk *chunk;

	list_for_each (pos, &ringmem.shared) {
		chunk = container_of(pos, struct chunk, usable);

		char *ring = take_shared_locked(chunk, nr_pages);
		if (ring)
			return ring;
	}
	chunk = new_chunk_locked(chunk_pages());
	if (!chunk)
		return NULL;
	/*
	 * Put the new chunk first on the list: the other chunks are fuller, so searching
	 * them is more often useless.
	 */
	list_add_head(&ringmem.shared, &chunk->usable);
	return take_shared_locked(chunk, nr_pages);
}

/* A large ring gets a mapping of a whole number of chunks, which is reused as a whole. */
static void *get_whole_locked(size_t nr_pages)
{
	const size_t whole = chunk_pages();
	size_t rounded = (nr_pages + whole - 1) / whole * whole;
	struct chunk *chunk;

	/*
	 * Make the mapping longer than one chunk: the index would treat a mapping of one
	 * chunk as shared by small rings.
	 */
	if (rounded == whole)
		rounded += whole;
	list_for_each (pos, &ringmem.whole) {
		chunk = container_of(pos, struct chunk, usable);
		if (chunk->bytes == rounded * uaio_page_bytes()) {
			list_remove(&chunk->usable);
			return chunk->base;
		}
	}
	chunk = new_chunk_locked(rounded);
	return chunk ? chunk->base : NULL;
}

void *uaio_ringmem_get(size_t nr_pages)
{
	void *ring;

	uaio_lock(&ringmem.lock, UAIO_RANK_RINGMEM);
	ring = nr_pages <= shared_pages_max() ? get_shared_locked(nr_pages)
					      : get_whole_locked(nr_pages);
	if (ring)
		ringmem.nr_pages_out += nr_pages;
	uaio_unlock(&ringmem.lock, UAIO_RANK_RINGMEM);
	return ring;
}

void uaio_ringmem_put(void *ring, size_t nr_pages)
{
	struct chunk *chunk = find_chunk((uintptr_t)ring);

	UAIO_CHECK(chunk);
	/*
	 * Return the memory of a long ring to the kernel. This fails, harmlessly, if the
	 * memory is locked (mlock).
	 */
	if (nr_pages * uaio_page_bytes() >= TRIM_BYTES)
		(void)sys_madvise(ring, nr_pages * uaio_page_bytes(),
				  MADV_DONTNEED);

	uaio_lock(&ringmem.lock, UAIO_RANK_RINGMEM);
	if (nr_pages > shared_pages_max()) {
		list_add_head(&ringmem.whole, &chunk->usable);
	} else {
		size_t first = (size_t)((char *)ring - chunk->base) /
			       uaio_page_bytes();

		UAIO_CHECK(is_taken(chunk, first));
		flip_pages(chunk, first, nr_pages);
		chunk->nr_free += nr_pages;
		if (!list_is_linked(&chunk->usable))
			list_add_tail(&ringmem.shared, &chunk->usable);
	}
	ringmem.nr_pages_out -= nr_pages;
	uaio_unlock(&ringmem.lock, UAIO_RANK_RINGMEM);
}

size_t uaio_ringmem_nr_pages(void)
{
	size_t nr;

	uaio_lock(&ringmem.lock, UAIO_RANK_RINGMEM);
	nr = ringmem.nr_pages_out;
	uaio_unlock(&ringmem.lock, UAIO_RANK_RINGMEM);
	return nr;
}

size_t uaio_ringmem_index_bytes(void)
{
	size_t nr;

	uaio_lock(&ringmem.lock, UAIO_RANK_RINGMEM);
	nr = ringmem.nr_chunks;
	uaio_unlock(&ringmem.lock, UAIO_RANK_RINGMEM);
	return nr * (sizeof(struct chunk) + sizeof(struct chunk *));
}

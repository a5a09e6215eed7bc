/* SPDX-License-Identifier: MIT */
#include "req/index.h"

#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/slab.h"
#include "base/sys.h"
#include "file/file.h"
#include "req/queue.h"
#include "req/req.h"

enum {
	/*
	 * Number of buckets in the first segment of a table. Each further segment
	 * doubles the number of buckets of the table.
	 */
	FIRST_BUCKETS = 256,
	NR_SEGMENTS = 20,
};

struct table {
	uint32_t by; /* enum uaio_index_by */
	/* number of buckets; 0: the table does not exist */
	uint32_t nr_buckets;
	uint32_t nr; /* requests */
	/* the greatest power of two that is at most nr_buckets */
	uint32_t half;
	struct list *segments[NR_SEGMENTS]; /* owns */
};

struct uaio_index {
	struct uaio_slab_node node;
	struct table tables[UAIO_NR_INDEXES];
};

static struct uaio_slab indexes;

#ifdef UAIO_TESTING
uint64_t uaio_index_nr_looked, uaio_index_nr_moved;
#endif

static inline void count_looked(void)
{
#ifdef UAIO_TESTING
	/* relaxed: only tests read this count */
	add_relaxed(&uaio_index_nr_looked, 1);
#endif
}

static inline void count_moved(void)
{
#ifdef UAIO_TESTING
	/* relaxed: only tests read this count */
	add_relaxed(&uaio_index_nr_moved, 1);
#endif
}

void uaio_indexes_init(void)
{
	uaio_slab_init(&indexes, sizeof(struct uaio_index), 4096);
}

/*
 * Hashing
 */

static uint32_t hash(uint64_t key)
{
	/* Keys may differ only in their high bits: mix these into the low bits. */
	key ^= key >> 32;
	return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

uint64_t uaio_index_key_of(const struct uaio_file *file)
{
	/*
	 * relaxed: while the caller has a reference to the file, its struct is not
	 * reused for another file
	 */
	return load_relaxed(&file->ino) + load_relaxed(&file->dev) * 31;
}

static uint32_t hash_in(const struct table *table, const struct uaio_req *req)
{
	switch (table->by) {
	case UAIO_INDEX_DATA: return hash(req->sqe.data);
	case UAIO_INDEX_KEY: return hash(req->sqe.key);
	default: return hash(uaio_index_key_of(req->file));
	}
}

static struct list *node_in(const struct table *table, struct uaio_req *req)
{
	return &req->in_index[table->by - 1];
}

/*
 * Buckets
 */

/*
 * Return: the segment that contains the bucket. Each segment but the first has as many
 * buckets as all earlier segments together.
 */
static unsigned segment_of(uint32_t bucket)
{
	unsigned segment = 0;

	for (bucket /= FIRST_BUCKETS; bucket; bucket /= 2)
		segment++;
	return segment;
}

static uint32_t first_of(unsigned segment)
{
	return segment ? (uint32_t)FIRST_BUCKETS << (segment - 1) : 0;
}

static size_t segment_bytes(unsigned segment)
{
	return (segment ? first_of(segment) : (uint32_t)FIRST_BUCKETS) *
	       sizeof(struct list);
}

static struct list *bucket_at(const struct table *table, uint32_t bucket)
{
	unsigned segment = segment_of(bucket);

	return &table->segments[segment][bucket - first_of(segment)];
}

static struct list *bucket_of(const struct table *table, uint32_t hash)
{
	uint32_t bucket = hash & (2 * table->half - 1);

	return bucket_at(table, bucket < table->nr_buckets
					? bucket
					: bucket - table->half);
}

/* Return: whether memory for the bucket exists, or could be mapped. */
static bool has_memory(struct table *table, uint32_t bucket)
{
	unsigned segment = segment_of(bucket);
	struct list *buckets;

	if (segment >= NR_SEGMENTS)
		return false;
	if (table->segments[segment])
		return true;
	buckets = sys_mmap(NULL, segment_bytes(segment), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(buckets))
		return false;
	table->segments[segment] = buckets;
	return true;
}

/*
 * Add one bucket to the table, and move to it the requests that now belong there (I4).
 */
static void grow(struct table *table)
{
	uint32_t next = table->nr_buckets, half = table->half;
	struct list *from, *to;

	if (next == 2 * half)
		half = next;
	if (!has_memory(table, next))
		return;
	from = bucket_at(table, next - half);
	to = bucket_at(table, next);
	list_init(to);
	list_for_each_safe (pos, from) {
		const struct uaio_req *req = container_of(
			pos - (table->by - 1), struct uaio_req, in_index[0]);

		count_moved();
		if ((hash_in(table, req) & (2 * half - 1)) != next)
			continue;
		list_remove(pos);
		list_add_tail(to, pos);
	}
	table->half = half;
	table->nr_buckets = next + 1;
}

/*
 * Tables
 */

static struct table *table_at(struct uaio_index *index, enum uaio_index_by by)
{
	return &index->tables[by - 1];
}

static void reset(struct table *table, unsigned by)
{
	memset(table, 0, sizeof(*table));
	table->by = by;
}

static void drop(struct table *table)
{
	for (unsigned i = 0; i < NR_SEGMENTS && table->segments[i]; i++)
		(void)sys_munmap(table->segments[i], segment_bytes(i));
	reset(table, table->by);
}

static void add(struct table *table, struct uaio_req *req)
{
	if (table->by == UAIO_INDEX_FILE && !req->file) {
		list_init(node_in(table, req));
		return;
	}
	if (table->nr >= table->nr_buckets)
		grow(table);
	list_add_tail(bucket_of(table, hash_in(table, req)),
		      node_in(table, req));
	table->nr++;
}

static void remove_from(struct table *table, struct uaio_req *req)
{
	if (!list_is_linked(node_in(table, req)))
		return;
	list_remove(node_in(table, req));
	table->nr--;
}

/* Make the buckets of a new table, and add the group's nr requests. */
static void make(struct table *table, struct uaio_group *group, uint32_t nr)
{
	uint32_t bucket = 0;

	/*
	 * Make at least one bucket for each request, or fewer if memory is refused
	 * (I5).
	 */
	while (bucket < nr && has_memory(table, bucket)) {
		for (uint32_t end = bucket ? 2 * bucket : FIRST_BUCKETS;
		     bucket < end; bucket++)
			list_init(bucket_at(table, bucket));
		table->nr_buckets = table->half = bucket;
	}
	if (!table->nr_buckets)
		return;
	list_for_each (pos, &group->requests)
		add(table, container_of(pos, struct uaio_req, in_group));
}

/* Return: how many requests the group has; 0 if at most UAIO_INDEX_MIN. */
static uint32_t nr_if_many(const struct uaio_group *group)
{
	const struct list *head = &group->requests, *pos = head->next;
	uint32_t nr = 0;

	for (; pos != head && nr <= UAIO_INDEX_MIN; pos = pos->next)
		nr++;
	if (nr <= UAIO_INDEX_MIN)
		return 0;
	for (; pos != head; pos = pos->next)
		nr++;
	return nr;
}

static struct uaio_index *new_index(void)
{
	struct uaio_index *index = uaio_slab_get(&indexes);

	if (index)
		for (unsigned i = 0; i < UAIO_NR_INDEXES; i++)
			reset(&index->tables[i], i + 1);
	return index;
}

/*
 * Return: the group's table for searches by `by`, which is created if the group has
 * enough requests; or NULL.
 */
static struct table *table_of(struct uaio_group *group, enum uaio_index_by by)
{
	struct table *table;
	uint32_t nr;

	if (group->index && table_at(group->index, by)->nr_buckets)
		return table_at(group->index, by);
	nr = nr_if_many(group);
	if (!nr)
		return NULL;
	if (!group->index && !(group->index = new_index()))
		return NULL;
	table = table_at(group->index, by);
	make(table, group, nr);
	return table->nr_buckets ? table : NULL;
}

/*
 * Searching
 */

struct uaio_search uaio_index_search(struct uaio_group *group,
				     enum uaio_index_by by, uint64_t key)
{
	const struct table *table =
		by == UAIO_INDEX_NONE ? NULL : table_of(group, by);

	if (!table)
		return (struct uaio_search){
			.head = &group->requests,
			.node = offsetof(struct uaio_req, in_group),
		};
	return (struct uaio_search){
		.head = bucket_of(table, hash(key)),
		.node = offsetof(struct uaio_req, in_index) +
			(by - 1) * sizeof(struct list),
	};
}

struct uaio_req *uaio_search_at(const struct uaio_search *search,
				struct list *pos)
{
	count_looked();
	return (struct uaio_req *)(void *)((char *)pos - search->node);
}

/* Updating the index when a request is added, is removed or changes */

void uaio_index_add(struct uaio_req *req)
{
	struct uaio_index *index = req->group->index;

	for (unsigned i = 0; i < UAIO_NR_INDEXES; i++)
		if (index->tables[i].nr_buckets)
			add(&index->tables[i], req);
}

void uaio_index_remove(struct uaio_req *req)
{
	struct uaio_group *group = req->group;
	struct uaio_index *index = group->index;
	bool is_last = list_is_empty(&group->requests);

	for (unsigned i = 0; i < UAIO_NR_INDEXES; i++) {
		struct table *table = &index->tables[i];

		if (table->nr_buckets)
			remove_from(table, req);
		if (is_last)
			drop(table);
	}
	if (!is_last)
		return;
	group->index = NULL;
	uaio_slab_put(&indexes, index);
}

void uaio_index_change_data(struct uaio_req *req, uint64_t data)
{
	struct uaio_group *group = req->group;

	list_remove(&req->in_group);
	if (group->index)
		uaio_index_remove(req);
	req->sqe.data = data;
	list_add_tail(&group->requests, &req->in_group);
	if (group->index)
		uaio_index_add(req);
}

void uaio_index_change_file(struct uaio_req *req, struct uaio_file *file)
{
	struct uaio_index *index = req->group->index;
	struct table *table = index ? table_at(index, UAIO_INDEX_FILE) : NULL;

	if (table && table->nr_buckets) {
		if (file)
			drop(table); /* I3 */
		else
			remove_from(table, req);
	}
	req->file = file;
}

/* SPDX-License-Identifier: MIT */
/*
 * A radix tree over the page numbers of the handles, with 64 slots per node. It is as
 * high as the largest key needs, and an empty node is freed. A lookup goes down from
 * the root without a lock.
 *
 * A node belongs to a level, 0 at the bottom, and its memory is never reused for
 * another level. So a reader always knows whether a slot holds a node or a context. I2
 * of contextindex.h holds because the nodes on the way to a present context are not
 * empty, hence not freed, and never move. The tree grows by a new root above the old
 * one, and shrinks only when its last context is removed.
 */
#include "contextindex.h"

#include <errno.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/slab.h"

enum {
	PAGE_SHIFT = 12,
	SLOT_BITS = 6,
	NR_SLOTS = 1 << SLOT_BITS,
	NR_LEVELS = (64 - PAGE_SHIFT + SLOT_BITS - 1) / SLOT_BITS,
	/* spare nodes: a level may need a new root and a node on the way down */
	NR_SPARE = 2,
	BATCH_BYTES = 65536,
};

struct node {
	struct uaio_slab_node node;

	uint32_t level;   /* immutable: the level of its slab */
	uint32_t nr_used; /* used slots; under the lock */

	/* atomic, written under the lock; all are NULL when it is freed */
	void *slots[NR_SLOTS];
};

static struct {
	struct node *root; /* atomic, written under the lock */

	/* under the lock */
	size_t nr_nodes;
	struct {
		struct uaio_slab nodes;
		struct node *spare[NR_SPARE]; /* owns */
		unsigned nr_spare;
	} levels[NR_LEVELS];
} radix;

static uint64_t key_of(uint64_t handle)
{
	return handle >> PAGE_SHIFT;
}

static unsigned slot_of(uint64_t key, uint32_t level)
{
	return (unsigned)(key >> (level * SLOT_BITS)) % NR_SLOTS;
}

/* Return: whether a tree whose root has this level is too low for the key. */
static bool is_beyond(uint64_t key, uint32_t level)
{
	return key >> ((level + 1) * SLOT_BITS);
}

void radix_index_init(void)
{
	radix.root = NULL;
	radix.nr_nodes = 0;
	for (unsigned level = 0; level < NR_LEVELS; level++) {
		radix.levels[level].nr_spare = 0;
		uaio_slab_init(&radix.levels[level].nodes, sizeof(struct node),
			       BATCH_BYTES);
	}
}

static struct node *new_node(uint32_t level)
{
	struct node *node = uaio_slab_get(&radix.levels[level].nodes);

	/* Set the level of a new node before any reader can see it. */
	if (node && node->level != level)
		node->level = level;
	return node;
}

int radix_index_reserve(void)
{
	for (uint32_t level = 0; level < NR_LEVELS; level++) {
		while (radix.levels[level].nr_spare < NR_SPARE) {
			struct node *node = new_node(level);

			if (!node)
				return -ENOMEM;
			radix.levels[level]
				.spare[radix.levels[level].nr_spare++] = node;
		}
	}
	return 0;
}

static struct node *take_spare(uint32_t level)
{
	UAIO_CHECK(radix.levels[level].nr_spare > 0);
	radix.nr_nodes++;
	return radix.levels[level].spare[--radix.levels[level].nr_spare];
}

static void fill(struct node *node, unsigned slot, void *value)
{
	node->nr_used++;
	/* release: publishes the value's content. Pairs with radix_index_find(). */
	store_release(&node->slots[slot], value);
}

/* Return: the root of a tree that has a slot for the key. */
static struct node *grow_to(uint64_t key)
{
	struct node *root = radix.root, *above;
	uint32_t level = 0;

	if (!root) {
		while (is_beyond(key, level))
			level++;
		root = take_spare(level);
	}
	while (is_beyond(key, root->level)) {
		above = take_spare(root->level + 1);
		fill(above, 0, root);
		root = above;
	}
	/* release: publishes the root's slots. Pairs with radix_index_find(). */
	store_release(&radix.root, root);
	return root;
}

void radix_index_insert(uint64_t handle, void *context)
{
	uint64_t key = key_of(handle);
	struct node *node = grow_to(key);

	for (uint32_t level = node->level; level > 0; level--) {
		unsigned slot = slot_of(key, level);

		/* relaxed: only written under the lock, which is held */
		if (!load_relaxed(&node->slots[slot]))
			fill(node, slot, take_spare(level - 1));
		node = load_relaxed(&node->slots[slot]);
	}
	UAIO_CHECK(!load_relaxed(&node->slots[slot_of(key, 0)]));
	fill(node, slot_of(key, 0), context);
}

void radix_index_remove(uint64_t handle)
{
	uint64_t key = key_of(handle);
	struct node *path[NR_LEVELS], *node = radix.root;
	uint32_t level, top;

	UAIO_CHECK(node && !is_beyond(key, node->level));
	top = node->level;
	for (level = top; level > 0; level--) {
		path[level] = node;
		/* relaxed: only written under the lock, which is held */
		node = load_relaxed(&node->slots[slot_of(key, level)]);
		UAIO_CHECK(node);
	}
	path[0] = node;
	UAIO_CHECK(load_relaxed(&node->slots[slot_of(key, 0)]));
	for (level = 0; level <= top; level++) {
		store_relaxed(&path[level]->slots[slot_of(key, level)], NULL);
		if (--path[level]->nr_used > 0)
			return;
		if (level == top)
			store_relaxed(&radix.root, NULL);
		radix.nr_nodes--;
		uaio_slab_put(&radix.levels[level].nodes, path[level]);
	}
}

void *radix_index_find(uint64_t handle)
{
	uint64_t key = key_of(handle);
	const struct node *node = load_acquire(&radix.root);

	if (!node || is_beyond(key, node->level))
		return NULL;
	for (uint32_t level = node->level; level > 0; level--) {
		node = load_acquire(&node->slots[slot_of(key, level)]);
		if (!node)
			return NULL;
	}
	return load_acquire(&node->slots[slot_of(key, 0)]);
}

size_t radix_index_bytes(void)
{
	return radix.nr_nodes * sizeof(struct node);
}

const struct contextindex radix_index = CONTEXTINDEX(radix_index, "radix");

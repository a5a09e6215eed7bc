/* SPDX-License-Identifier: MIT */
/*
 * A radix tree over the page numbers of the handles, with 64 slots per node. The tree
 * has only as many levels as its largest key needs, and empty nodes are freed. A lookup
 * goes from the root to a leaf without a lock.
 *
 * A node belongs to a level; level 0 is at the bottom. The node's memory is never
 * reused for another level, so a reader always knows whether a slot holds a node or a
 * context. A lookup finds every context that stays in the tree (I2 of contextindex.h).
 * This is because the nodes above such a context are not empty, so they are not freed,
 * and nodes never move. The tree grows by a new root above the old root, so readers of
 * the old root still find its contexts. The tree shrinks only when its last context is
 * removed.
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
	/*
	 * spare nodes for each level: an insert may need a node of this level as the
	 * new root, and one between the root and the key's slot
	 */
	NR_SPARE = 2,
	BATCH_BYTES = 65536,
};

struct node {
	struct uaio_slab_node node;

	/*
	 * immutable: the memory of a node is reused only for nodes of the same level
	 */
	uint32_t level;
	uint32_t nr_used; /* number of used slots; changed under the lock */

	/* atomic, written under the lock; when a node is freed, all are NULL */
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

/* Return: whether the key has no slot in a tree whose root has this level. */
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
	/*
	 * release: publishes the node or context to which `value` points. Pairs with
	 * radix_index_find().
	 */
	store_release(&node->slots[slot], value);
}

/*
 * Add roots until the tree has a slot for the key.
 * Return: the root.
 */
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

		/*
		 * relaxed: slots are written only under the lock, which the caller
		 * holds
		 */
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
		/*
		 * relaxed: slots are written only under the lock, which the caller
		 * holds
		 */
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

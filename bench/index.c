/* SPDX-License-Identifier: MIT */
/*
 * index N...: the two indexes that kernel AIO had before its table, and what
 * they cost, in a process of their own.
 *
 *   list    one list of all contexts, newest first, walked to the handle
 *   radix   a radix tree over the page numbers of the handles, 64 slots a node,
 *           as high as the largest of them needs
 *
 * Handles are addresses of pages: side by side as mmap() gives them, and then
 * (for the tree) scattered over the whole address space, where a list costs the
 * same but a tree has few nodes to share.
 *
 * Prints a line for each: index, N, nanoseconds per lookup, bytes per handle.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "handles.h"

enum {
	PAGE_SHIFT = 12,
	RADIX_SHIFT = 6,
	RADIX_SLOTS = 1 << RADIX_SHIFT,
	ADDRESS_BITS = 47,
};

/* What is looked for: a context knows its handle, and the next in the list. */
struct entry {
	struct entry *next;
	uint64_t handle;
};

struct radix_node {
	void *slots[RADIX_SLOTS];
};

struct radix_tree {
	struct radix_node *root;
	unsigned height; /* levels; 0 is an empty tree */
	size_t nr_nodes;
};

static void *zalloc(size_t len)
{
	void *p = calloc(1, len);

	if (!p) {
		perror("index");
		exit(1);
	}
	return p;
}

static const struct entry *list_find(const struct entry *head, uint64_t handle)
{
	while (head && head->handle != handle)
		head = head->next;
	return head;
}

static unsigned radix_slot(uint64_t key, unsigned level)
{
	return (unsigned)(key >> (level * RADIX_SHIFT)) % RADIX_SLOTS;
}

/* True if a tree of that height has no place for the key. */
static bool radix_is_beyond(uint64_t key, unsigned height)
{
	return key >> (height * RADIX_SHIFT);
}

static struct radix_node *radix_node_new(struct radix_tree *tree)
{
	tree->nr_nodes++;
	return zalloc(sizeof(struct radix_node));
}

static void radix_insert(struct radix_tree *tree, struct entry *entry)
{
	uint64_t key = entry->handle >> PAGE_SHIFT;
	struct radix_node *node;
	unsigned level;

	while (!tree->root || radix_is_beyond(key, tree->height)) {
		node = radix_node_new(tree);
		node->slots[0] = tree->root;
		tree->root = node;
		tree->height++;
	}
	node = tree->root;
	for (level = tree->height - 1; level > 0; level--) {
		void **slot = &node->slots[radix_slot(key, level)];

		if (!*slot)
			*slot = radix_node_new(tree);
		node = *slot;
	}
	node->slots[radix_slot(key, 0)] = entry;
}

static const struct entry *radix_find(const struct radix_tree *tree,
				      uint64_t handle)
{
	uint64_t key = handle >> PAGE_SHIFT;
	const void *node = tree->root;

	if (radix_is_beyond(key, tree->height))
		return NULL;
	for (unsigned level = tree->height; node && level > 0; level--)
		node = ((const struct radix_node *)node)
			       ->slots[radix_slot(key, level - 1)];
	return node;
}

static void radix_free(struct radix_node *node, unsigned height)
{
	if (!node)
		return;
	for (size_t i = 0; height > 1 && i < RADIX_SLOTS; i++)
		radix_free(node->slots[i], height - 1);
	free(node);
}

struct hot_set {
	const struct entry *list;
	struct radix_tree radix;
	uint64_t handles[HOT];
};

/* A lookup with the wrong result is no figure. */
static void check(const struct entry *found, uint64_t handle)
{
	if (!found || found->handle != handle) {
		fputs("index: a handle was not found\n", stderr);
		exit(1);
	}
}

static void look_up_list(void *arg)
{
	const struct hot_set *hot = arg;

	for (size_t i = 0; i < HOT; i++)
		check(list_find(hot->list, hot->handles[i]), hot->handles[i]);
}

static void look_up_radix(void *arg)
{
	const struct hot_set *hot = arg;

	for (size_t i = 0; i < HOT; i++)
		check(radix_find(&hot->radix, hot->handles[i]),
		      hot->handles[i]);
}

/* A fixed sequence: every run measures the same handles. */
static uint64_t scattered(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return x >> (64 - ADDRESS_BITS) >> PAGE_SHIFT << PAGE_SHIFT;
}

/* As mmap() hands out pages: downwards from the top. */
static uint64_t adjacent(uint64_t i)
{
	const uint64_t top = 0x7ffff7fff000;

	return top - (i << PAGE_SHIFT);
}

static void measure(size_t nr, bool is_scattered)
{
	struct entry *list = NULL, **entries = zalloc(nr * sizeof(*entries));
	struct hot_set hot = { 0 };

	for (size_t i = 0; i < nr; i++) {
		entries[i] = zalloc(sizeof(*entries[i]));
		entries[i]->handle = is_scattered ? scattered(i) : adjacent(i);
		entries[i]->next = list;
		list = entries[i];
		radix_insert(&hot.radix, entries[i]);
	}
	hot.list = list;
	for (size_t i = 0; i < HOT; i++)
		hot.handles[i] = entries[hot_index(i, nr)]->handle;

	if (!is_scattered)
		printf("list %zu %.2f %zu\n", nr,
		       time_rounds(look_up_list, &hot, HOT),
		       sizeof(struct entry *));
	printf("%s %zu %.2f %zu\n", is_scattered ? "radix-scattered" : "radix",
	       nr, time_rounds(look_up_radix, &hot, HOT),
	       hot.radix.nr_nodes * sizeof(struct radix_node) / nr);

	radix_free(hot.radix.root, hot.radix.height);
	for (size_t i = 0; i < nr; i++)
		free(entries[i]);
	free(entries);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		measure(count_argument(argv[i]), false);
		measure(count_argument(argv[i]), true);
	}
	return 0;
}

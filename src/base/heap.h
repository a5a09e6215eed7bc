/* SPDX-License-Identifier: MIT */
/*
 * Heap: which of many comes first
 *
 * A pairing heap whose nodes lie in the objects of its user. Adding a node takes
 * constant time; removing one, the first or any other, takes logarithmic time on
 * average over many. Nothing is allocated, and nothing recurses.
 *
 *   I1  No node comes before its parent.
 *   I2  prev is the sibling before a node; of a first child, the parent; of the
 *       root, NULL.
 *
 * Nodes of which neither comes before the other may leave in any order.
 *
 * Thread-safety: none. The user has a lock.
 */
#ifndef UAIO_BASE_HEAP_H
#define UAIO_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct heap_node {
	struct heap_node *child; /* the first */
	struct heap_node *next;  /* sibling */
	struct heap_node *prev;  /* I2 */
};

struct heap {
	struct heap_node *root;
};

/* Return: whether a has to leave before b. */
typedef bool heap_is_before_fn(const struct heap_node *a,
			       const struct heap_node *b);

static inline void heap_init(struct heap *heap)
{
	heap->root = NULL;
}

/* Return: the node that comes first; NULL if the heap is empty. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->root;
}

/* Make the later of two roots the first child of the other. */
static inline struct heap_node *heap_meld(struct heap_node *a,
					  struct heap_node *b,
					  heap_is_before_fn *is_before)
{
	struct heap_node *parent = is_before(b, a) ? b : a;
	struct heap_node *child = parent == a ? b : a;

	child->next = parent->child;
	if (child->next)
		child->next->prev = child;
	child->prev = parent;
	parent->child = child;
	return parent;
}

/*
 * Make one tree of siblings: meld each with its neighbour, then all of these
 * together, from the last to the first.
 * Return: its root; NULL if there is none.
 */
static inline struct heap_node *heap_meld_all(struct heap_node *sibling,
					      heap_is_before_fn *is_before)
{
	struct heap_node *pairs = NULL, *root = NULL, *pair, *rest;

	for (; sibling; sibling = rest) {
		pair = sibling;
		rest = pair->next;
		if (rest) {
			sibling = rest;
			rest = sibling->next;
			pair = heap_meld(pair, sibling, is_before);
		}
		pair->next = pairs;
		pairs = pair;
	}
	for (; pairs; pairs = rest) {
		rest = pairs->next;
		root = root ? heap_meld(root, pairs, is_before) : pairs;
	}
	if (root)
		root->next = root->prev = NULL;
	return root;
}

static inline void heap_add(struct heap *heap, struct heap_node *node,
			    heap_is_before_fn *is_before)
{
	node->child = node->next = node->prev = NULL;
	heap->root = heap->root ? heap_meld(heap->root, node, is_before) : node;
}

/* Remove a node, which is in the heap. */
static inline void heap_remove(struct heap *heap, struct heap_node *node,
			       heap_is_before_fn *is_before)
{
	struct heap_node *rest = heap_meld_all(node->child, is_before);

	if (heap->root == node) {
		heap->root = rest;
		return;
	}
	if (node->prev->child == node)
		node->prev->child = node->next;
	else
		node->prev->next = node->next;
	if (node->next)
		node->next->prev = node->prev;
	if (rest)
		heap->root = heap_meld(heap->root, rest, is_before);
}

#endif /* UAIO_BASE_HEAP_H */

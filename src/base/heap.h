/* SPDX-License-Identifier: MIT */
/*
 * Heap: finds the object that is first in an order which the heap's user defines
 *
 * The heap is a pairing heap whose nodes are members of the user's objects. Adding a
 * node takes constant time; removing any node takes logarithmic time on average. No
 * function allocates memory or recurses.
 *
 *   I1  In the order, no node is before its parent.
 *   I2  prev points to the sibling before the node. If the node is its parent's first
 *       child, prev points to the parent; if the node is the root, prev is NULL.
 *
 * Nodes that compare equal leave the heap in no particular order.
 *
 * Context: the caller holds a lock that protects the heap.
 */
#ifndef UAIO_BASE_HEAP_H
#define UAIO_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct heap_node {
	struct heap_node *child; /* first child */
	struct heap_node *next;  /* next sibling */
	/* the sibling before this node, or the parent (I2) */
	struct heap_node *prev;
};

struct heap {
	struct heap_node *root;
};

/* Return: whether `a` is before `b` in the heap's order. */
typedef bool heap_is_before_fn(const struct heap_node *a,
			       const struct heap_node *b);

static inline void heap_init(struct heap *heap)
{
	heap->root = NULL;
}

/* Return: the node that is first in the order; NULL if the heap is empty. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->root;
}

/*
 * Join two trees: the root that is later in the order becomes the first child of the
 * other root.
 * Return: the root of the result.
 */
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
 * Join the trees of several siblings into one: first join them in pairs, then join the
 * resulting trees, from the last to the first.
 * Return: the root of the result; NULL if there are no siblings.
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

/* Remove `node`, which must be in the heap. */
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

/* SPDX-License-Identifier: MIT */
/*
 * A circular list with a head; each object has a struct list as a member
 *
 * A node that is on no list is linked to itself. So a caller may remove a node twice,
 * and list_is_linked() works for any node. Context: the caller holds a lock that
 * protects the list.
 */
#ifndef UAIO_BASE_LIST_H
#define UAIO_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define list_for_each(pos, head) \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* Like list_for_each(), but the loop body may remove pos from the list. */
#define list_for_each_safe(pos, head)                                  \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; \
	     pos != (head); pos = pos##_next, pos##_next = pos->next)

static inline void list_init(struct list *node)
{
	node->next = node;
	node->prev = node;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_is_linked(const struct list *node)
{
	return node->next != node;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_add_head(struct list *head, struct list *node)
{
	list_add_tail(head->next, node);
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/*
 * Append all nodes of the list `from` to the list `head`, in their order. Then `from`
 * is empty.
 */
static inline void list_splice_tail(struct list *head, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#endif /* UAIO_BASE_LIST_H */

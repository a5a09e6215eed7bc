/* SPDX-License-Identifier: MIT */
/*
 * Index: the requests of a group, found by what their client names them by
 *
 * A client that cancels one of 16 000 requests names it by its user_data. Without an
 * index the canceller would look at all of them under the group's lock. An index has a
 * hash table for each enum uaio_index_by but the first.
 *
 *   I1  A table exists from the first search among more than UAIO_INDEX_MIN requests
 *       until the group is empty. A group that nobody searches has no index: creating
 *       and completing its requests then costs one look at a pointer.
 *   I2  A table that exists has all requests of the group. The table of files has those
 *       that have a file.
 *   I3  A bucket has its requests in the order of the group's list, oldest first. So a
 *       search finds the same request with and without a table. A request that gets its
 *       file later than it was created would come too late: the table of files is
 *       dropped then, and the next search makes it again.
 *   I4  A table grows by one bucket for each request that is added: the new bucket takes
 *       its share of one other bucket (linear hashing). Nothing else moves, so adding a
 *       request takes as long among 100 000 as among 100.
 *   I5  If memory is refused, the buckets get longer; if it is refused for the first
 *       buckets, the search goes through the group's list.
 *
 * Thread-safety: all functions but uaio_indexes_init() are called with the group's lock
 * held. Tested by test-index.c.
 */
#ifndef UAIO_REQ_INDEX_H
#define UAIO_REQ_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct uaio_file;
struct uaio_group;
struct uaio_req;

/* What requests are found by. */
enum uaio_index_by {
	UAIO_INDEX_NONE, /* by nothing: all are looked at */
	UAIO_INDEX_DATA, /* sqe.data */
	UAIO_INDEX_KEY,  /* sqe.key */
	/* The inode of the file: duplicates of one descriptor have the same. */
	UAIO_INDEX_FILE,
	UAIO_NR_INDEXES = UAIO_INDEX_FILE,
};

/* A group with no more requests than that is searched without an index. */
enum { UAIO_INDEX_MIN = 64 };

/* Where a search looks: a list of requests, the oldest first. */
struct uaio_search {
	struct list *head;
	size_t node; /* offset of the list's nodes in a request */
};

/* Called each time the engine starts: no group has an index. */
void uaio_indexes_init(void);

/* Return: what UAIO_INDEX_FILE finds the requests of file by. */
uint64_t uaio_index_key_of(const struct uaio_file *file);

/*
 * Return: a list that has all requests of group that are named so, and perhaps others.
 * The caller holds the group's lock as long as it uses the list.
 */
struct uaio_search uaio_index_search(struct uaio_group *group,
				     enum uaio_index_by by, uint64_t key);

/* Return: the request of a node of the list. */
struct uaio_req *uaio_search_at(const struct uaio_search *search,
				struct list *pos);

/* The group has an index, and req has just been added to the group's list. */
void uaio_index_add(struct uaio_req *req);
/* The group has an index, and req has just been removed from the group's list. */
void uaio_index_remove(struct uaio_req *req);
/* Give req a file, or take away the file that it has (NULL). The group may have no index. */
void uaio_index_change_file(struct uaio_req *req, struct uaio_file *file);

#ifdef UAIO_TESTING
/* How many requests searches have looked at, and additions have moved; atomic. */
extern uint64_t uaio_index_nr_looked, uaio_index_nr_moved;
#endif

#endif /* UAIO_REQ_INDEX_H */

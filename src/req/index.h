/* SPDX-License-Identifier: MIT */
/*
 * Index: finds a group's requests by user_data, key or file
 *
 * A client that cancels one of 16 000 requests names it by its user_data. Without an
 * index the canceller would compare all of them under the group's lock. An index has a
 * hash table for each value of enum uaio_index_by except UAIO_INDEX_NONE.
 *
 *   I1  The first search among more than UAIO_INDEX_MIN requests creates a table. The table
 *       lives until the group is empty. As long as nothing is searched, the index costs one
 *       test of a pointer when a request is created, and one when it completes.
 *   I2  A table contains all requests of the group. The table of files contains only
 *       requests that have a file.
 *   I3  A bucket lists its requests in the order of the group's list, oldest first. So a
 *       search finds the same request with and without a table. A request that gets its file
 *       only after it was created would be in the wrong position. So when this happens, the
 *       table of files is dropped, and the next search makes it again.
 *   I4  Each added request adds one bucket to the table, and splits one other bucket
 *       (linear hashing). No other bucket changes, so adding a request takes as long
 *       among 100 000 as among 100.
 *   I5  If memory for another bucket is refused, the buckets get longer. If memory for
 *       the first buckets is refused, the search scans the group's list.
 *
 * Thread-safety: the caller holds the group's lock, except in uaio_indexes_init(). Tested
 * by test-index.c.
 */
#ifndef UAIO_REQ_INDEX_H
#define UAIO_REQ_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct uaio_file;
struct uaio_group;
struct uaio_req;

/* Which member of a request a search compares. */
enum uaio_index_by {
	UAIO_INDEX_NONE, /* none: the search returns all requests */
	UAIO_INDEX_DATA, /* sqe.data */
	UAIO_INDEX_KEY,  /* sqe.key */
	/* The inode of the file, so that duplicates of one descriptor match. */
	UAIO_INDEX_FILE,
	UAIO_NR_INDEXES = UAIO_INDEX_FILE,
};

/* A search of a group with at most this many requests does not use an index. */
enum { UAIO_INDEX_MIN = 64 };

/* The list to search through: requests, oldest first. */
struct uaio_search {
	struct list *head;
	size_t node; /* offset of the list's nodes in a request */
};

/* Forget the indexes of all groups. Called each time the engine starts. */
void uaio_indexes_init(void);

/* Return: the key with which a search by UAIO_INDEX_FILE finds the requests of file. */
uint64_t uaio_index_key_of(const struct uaio_file *file);

/*
 * Return: a list that contains all requests of group with that key, and perhaps others.
 * The caller holds the group's lock as long as it uses the list.
 */
struct uaio_search uaio_index_search(struct uaio_group *group,
				     enum uaio_index_by by, uint64_t key);

struct uaio_req *uaio_search_at(const struct uaio_search *search,
				struct list *pos);

/* Add req, just added to its group's list, to the group's index. */
void uaio_index_add(struct uaio_req *req);
/* Remove req, just removed from its group's list, from the group's index. */
void uaio_index_remove(struct uaio_req *req);
/* Set the file of req; NULL: it has none any more. The group may have no index. */
void uaio_index_change_file(struct uaio_req *req, struct uaio_file *file);

#ifdef UAIO_TESTING
/*
 * For tests; atomic: how many requests searches have compared, and how many were moved when a
 * table grew.
 */
extern uint64_t uaio_index_nr_looked, uaio_index_nr_moved;
#endif

#endif /* UAIO_REQ_INDEX_H */

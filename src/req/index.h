/* SPDX-License-Identifier: MIT */
/*
 * Index: finds requests of a queue's group (queue.h) by user_data, by `key` (struct
 * uaio_sqe) or by file
 *
 * A client that cancels one of 16 000 requests names the request by its user_data.
 * Without an index the canceller would compare all of them under the queue's lock. An
 * index has a hash table for each value of enum uaio_index_by except UAIO_INDEX_NONE.
 *
 *   I1  The first search among more than UAIO_INDEX_MIN requests creates a table. The
 *       table lives until the group is empty. Until the first search, the index costs
 *       one test of a pointer when a request is created, and one when it completes.
 *   I2  A table contains all requests of the group. The table of files contains only
 *       requests that have a file.
 *   I3  A bucket lists its requests in the order of the group's list, oldest first. So a
 *       search finds the same request with and without a table. If a request gets its
 *       file only after it was created, its position in the table of files would be
 *       wrong. So the table of files is dropped, and the next search makes it again.
 *   I4  When a request is added, the table gets one more bucket, to which some requests
 *       of one other bucket move (linear hashing). No other bucket changes, so adding a
 *       request takes as long among 100 000 as among 100.
 *   I5  If memory for another bucket is refused, the existing buckets get longer. If
 *       memory for the first buckets is refused, the search scans the group's list.
 *
 * Thread-safety: the caller holds the queue's lock, except in uaio_indexes_init().
 * Tested by test-index.c.
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
	/* not a member: the search returns all requests */
	UAIO_INDEX_NONE,
	UAIO_INDEX_DATA, /* sqe.data */
	UAIO_INDEX_KEY,  /* sqe.key */
	/*
	 * The inode of the request's file, so that duplicates of one descriptor match.
	 */
	UAIO_INDEX_FILE,
	UAIO_NR_INDEXES = UAIO_INDEX_FILE,
};

/* A search of a group with at most this many requests does not use an index. */
enum { UAIO_INDEX_MIN = 64 };

/* The list that the caller of a search scans: requests, oldest first. */
struct uaio_search {
	struct list *head;
	/* offset of the list's node in struct uaio_req */
	size_t node;
};

/* Called each time the library starts: forget the indexes of all groups. */
void uaio_indexes_init(void);

/*
 * Return: the key to pass to a search by UAIO_INDEX_FILE that finds the requests on
 * `file`.
 */
uint64_t uaio_index_key_of(const struct uaio_file *file);

/*
 * Return: a list that contains all requests of the group that match `key`, and perhaps
 * some that do not match. The caller holds the queue's lock as long as it uses the
 * list.
 */
struct uaio_search uaio_index_search(struct uaio_group *group,
				     enum uaio_index_by by, uint64_t key);

struct uaio_req *uaio_search_at(const struct uaio_search *search,
				struct list *pos);

/*
 * Add req to the group's index. The caller has just added req to the group's list.
 */
void uaio_index_add(struct uaio_req *req);
/*
 * Remove req from the group's index. The caller has just removed req from the group's
 * list.
 */
void uaio_index_remove(struct uaio_req *req);
/*
 * Set sqe.data of req, and update the group's index if there is one. req becomes the
 * newest request of the group (I3).
 */
void uaio_index_change_data(struct uaio_req *req, uint64_t data);
/*
 * Set the file of req, and update the group's index if there is one. file: NULL if req
 * has no file any more.
 */
void uaio_index_change_file(struct uaio_req *req, struct uaio_file *file);

#ifdef UAIO_TESTING
/*
 * Counts for tests; atomic: how many requests were compared by searches, and how many
 * were moved to another bucket because a table grew.
 */
extern uint64_t uaio_index_nr_looked, uaio_index_nr_moved;
#endif

#endif /* UAIO_REQ_INDEX_H */

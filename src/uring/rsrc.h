/* SPDX-License-Identifier: MIT */
/*
 * What is registered with a ring: files and buffers
 *
 * A table of a ring has an entry in each place that is not empty. An entry may have a
 * tag: when it has left its table, and no request uses it any more, a completion with
 * the tag as user_data says so.
 *
 *   I1  The table has a reference to each of its entries, and a request has one to
 *       each entry with a tag that it uses, until its last completion is posted.
 *   I2  An entry with a tag owes a completion: it counts in nr_taken of its ring
 *       (ring.h), so that the ring stays. Only the thread that holds the ring makes
 *       such entries.
 *   I3  Tables and their places change under the queue's lock. A table as a whole is
 *       changed by the thread that holds the ring, and so are the places of buffers.
 *       The places of files are changed by any thread that executes a request which
 *       does so: it finds the table as it is then, under the lock.
 *   I4  The thread that holds the ring reads the tables without the lock, and an entry
 *       that it finds is there for as long as it holds the ring: but not those of files
 *       once it has set shares_files. It does so before it gives the core the first
 *       request that changes places, and that is never taken back. From then on it
 *       takes a reference under the lock to what it finds (uaio_uring_table_get()), and
 *       so does any other thread at any time.
 *   I5  A thread that puts a file in the table of a ring of which it has no request
 *       sets shares_files as well, but the thread that holds the ring just then may
 *       have what was in that place: so it is that thread which drops it, when it
 *       releases the ring (UAIO_URING_OWES).
 *   I6  A request that changes places does so when it is executed, on any thread (I3): so
 *       it finds the table as it is then, or none.
 *   I7  What a place had stays open until no request uses it.
 *
 * Tested by test-uring-register.c, test-uring-direct.c, test-uring-places.c and
 * test-uring-regbuf.c.
 */
#ifndef UAIO_URING_RSRC_H
#define UAIO_URING_RSRC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/slab.h"
#include "uring/abi.h"

struct uaio_file;
struct uaio_queue;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_entry;

struct uaio_uring_rsrc {
	struct uaio_slab_node node;

	/* immutable, but for the tag until the table is registered */
	struct uaio_uring *ring; /* borrows (I2) */
	uint64_t tag;
	struct uaio_file *file; /* shares (ref): of a file */
	uint64_t base, bytes;   /* of a buffer: the client's memory */

	struct uaio_uring_rsrc *next; /* under the queue's lock: owed (I5) */

	uint32_t refs; /* atomic */
};

struct uaio_uring_table {
	/* owns; each atomic, or NULL; NULL: none is registered */
	struct uaio_uring_rsrc **entries;
	uint32_t nr;

	/* under the queue's lock: which places are free to be chosen */
	uint32_t first,
		end;     /* within these: IORING_REGISTER_FILE_ALLOC_RANGE */
	uint32_t hint;   /* from there on */
	uint64_t *taken; /* a bit for each place, in the memory of entries */
};

/* As a place: one that is free. */
#define UAIO_URING_ANY_PLACE UINT32_MAX

void uaio_uring_rsrcs_init(void);
/* Around each life of a ring. */
void uaio_uring_rsrc_init(struct uaio_uring *ring);
void uaio_uring_rsrc_fini(struct uaio_uring *ring);

/* Return: 0 or -ENOMEM. */
int uaio_uring_table_new(struct uaio_uring *ring,
			 struct uaio_uring_table *table, uint32_t nr);
/* Empty the table and free it. */
void uaio_uring_table_free(struct uaio_uring *ring,
			   struct uaio_uring_table *table);
/*
 * The same of a table that could not be filled, by the thread that holds the ring:
 * its tags post no completion.
 */
void uaio_uring_table_abandon(struct uaio_uring *ring,
			      struct uaio_uring_table *table);

/*
 * Put an entry in a place, instead of what is there. file is given to the entry.
 * Return: 0, or the place that was chosen; -ENXIO: there is no table; -EINVAL: no such
 * place; -ENFILE: none that is free; -ENOMEM. Then the caller keeps the file.
 * Context: any thread, without locks; with a tag, or a buffer, that which holds the
 * ring.
 */
int uaio_uring_table_put_file(struct uaio_uring *ring, uint32_t place,
			      struct uaio_file *file, uint64_t tag);
int uaio_uring_table_put_buffer(struct uaio_uring *ring, uint32_t place,
				uint64_t base, uint64_t bytes, uint64_t tag);
/* The same, for a thread with no request of the ring (I5), which it uses. */
int uaio_uring_table_give_file(struct uaio_uring *ring, uint32_t place,
			       struct uaio_file *file);
/* The thread that holds the ring lets go of what others have replaced (I5). */
void uaio_uring_rsrc_drop_owed(struct uaio_uring *ring);
/* Empty a place. Return: 0; -ENXIO, -EINVAL: as above; -EBADF: it is empty. */
int uaio_uring_table_empty(struct uaio_uring *ring,
			   struct uaio_uring_table *table, uint32_t place);
/*
 * Choose free places from here to there.
 * Return: 0; -EINVAL: the table is shorter.
 */
int uaio_uring_table_limit(struct uaio_uring *ring,
			   struct uaio_uring_table *table, uint32_t first,
			   uint32_t end);
/* Return: how many places the table has. Context: any thread. */
uint32_t uaio_uring_table_size(struct uaio_uring *ring,
			       const struct uaio_uring_table *table);

/*
 * Return: what is in a place, with a reference; NULL: nothing, or there is no such
 * place. Context: any thread, without locks.
 */
struct uaio_uring_rsrc *
uaio_uring_table_get(struct uaio_uring *ring,
		     const struct uaio_uring_table *table, uint32_t place);
/* The same without one, for the thread that holds the ring (I4), or the lock. */
static inline struct uaio_uring_rsrc *
uaio_uring_table_at(const struct uaio_uring_table *table, uint32_t place)
{
	/*
	 * [MB:uring-place] acquire: what the entry says. Pairs with
	 * exchange_locked().
	 */
	return place < table->nr ? load_acquire(&table->entries[place]) : NULL;
}

/* Return: whether there is a file in a place. Context: as uaio_uring_table_get(). */
bool uaio_uring_has_fixed(struct uaio_uring *ring, uint32_t place);
/* A function of struct uaio_sink. */
struct uaio_file *uaio_uring_get_fixed(struct uaio_queue *queue, int place);

void uaio_uring_rsrc_get(struct uaio_uring_rsrc *rsrc);
void uaio_uring_rsrc_put(struct uaio_uring_rsrc *rsrc);

/*
 * filetable.c, openclose.c: files in the table: registered; opened straight into it, closed
 */

/*
 * io_uring_register(). Addresses are the client's; that of the tags may be 0: there
 * are none. If that of the descriptors is 0, all places are empty.
 * Return: as the call. Context: the ring is held.
 */
long uaio_uring_register_files(struct uaio_uring *ring, uint64_t fds,
			       uint32_t nr, uint64_t tags);
long uaio_uring_update_files(struct uaio_uring *ring,
			     const struct io_uring_rsrc_update2 *update,
			     uint32_t nr);
long uaio_uring_limit_places(struct uaio_uring *ring, const void *arg,
			     uint32_t nr);

/*
 * Put a file in a place of the table; it is given away, also if that fails.
 * Return: as uaio_uring_table_put_file().
 */
int uaio_uring_put_file(struct uaio_uring *ring, uint32_t place,
			struct uaio_file *file, uint64_t tag);

/*
 * openclose.c: for an operation that opens something. If the submission says so, that
 * goes to a place in the table. open_flags: O_* of what is opened, as far as they
 * matter here.
 * Return: 0; -EINVAL: O_CLOEXEC is for descriptors; -ENOMEM.
 */
int uaio_uring_prep_land(struct uaio_uring_entry *entry, uint64_t open_flags);
/* A function of struct uaio_op_door. */
int64_t uaio_uring_land(const struct uaio_sqe *sqe, int fd);

/*
 * What uaio_uring_called() does for requests that change the table, or use it, and
 * look for no path. They cannot block. Return: the result.
 */
int64_t uaio_uring_update_places(struct uaio_uring *ring,
				 const struct uaio_sqe *sqe);
int64_t uaio_uring_install(struct uaio_uring *ring, const struct uaio_sqe *sqe);
int64_t uaio_uring_make_pipe(struct uaio_uring *ring,
			     const struct uaio_sqe *sqe);

#endif /* UAIO_URING_RSRC_H */

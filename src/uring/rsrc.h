/* SPDX-License-Identifier: MIT */
/*
 * Resources that a client registers with a ring: files and buffers
 *
 * A table of a ring has an entry in each slot that is not empty. An entry may have a
 * tag: once it has left the table and no request uses it, a completion with the tag as
 * user_data is posted.
 *
 *   I1  The table has a reference to each entry. A request has a reference to each
 *       tagged entry that it uses, until its last completion is posted.
 *   I2  A tagged entry owes a completion: it counts in its ring's nr_taken (ring.h),
 *       which keeps the ring. Only the thread that holds the ring (ring.h, I2) makes
 *       tagged entries.
 *   I3  Tables and their slots change under the queue's lock. Only the thread that
 *       holds the ring replaces a whole table, or changes slots of buffers. Any thread
 *       that executes a request may change slots of registered files: the thread finds
 *       the current table under the lock.
 *   I4  The thread that holds the ring reads tables without the lock. Buffers that it
 *       finds stay while it holds the ring, and files do so until shares_files is set.
 *       Before the holder gives the core the first request that changes slots, the
 *       holder sets shares_files, which is never cleared. From then on the holder takes
 *       references under the lock (uaio_uring_table_get()), as all other threads always
 *       do.
 *   I5  A thread that puts a file into the table without a request of the ring
 *       (msg_ring.c) also sets shares_files. But the thread that holds the ring at that
 *       moment may be using the replaced entry. So the holder drops the replaced entry
 *       when it releases the ring (UAIO_URING_OWES).
 *   I6  A request that changes slots uses the table that the ring has when the request
 *       is executed, whichever thread executes it (I3). If the ring then has no table,
 *       the request fails.
 *   I7  A replaced file stays open until no request uses it.
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

	/* Immutable; but uaio_uring_table_abandon() clears the tag. */
	struct uaio_uring *ring; /* borrows (I2) */
	uint64_t tag;
	struct uaio_file *file; /* shares (ref): the file; NULL for a buffer */
	uint64_t base, bytes;   /* of a buffer: the client's memory */

	/* under the queue's lock: next in the ring's list `owed` (I5) */
	struct uaio_uring_rsrc *next;

	uint32_t refs; /* atomic */
};

struct uaio_uring_table {
	/* owns: array of atomic pointers, NULL for empty slots; NULL: no table */
	struct uaio_uring_rsrc **entries;
	uint32_t nr;

	/* Under the queue's lock: from which slots to choose a free one. */
	uint32_t first,
		end;   /* range of slots: IORING_REGISTER_FILE_ALLOC_RANGE */
	uint32_t hint; /* slot where the next search begins */
	uint64_t *
		taken; /* bits of the slots that are in use, in memory after the entries */
};

/* A value for `place`: choose a free slot. */
#define UAIO_URING_ANY_PLACE UINT32_MAX

void uaio_uring_rsrcs_init(void);
/* Called when a ring is made, and when it ends. */
void uaio_uring_rsrc_init(struct uaio_uring *ring);
void uaio_uring_rsrc_fini(struct uaio_uring *ring);

/*
 * Make an empty table with nr slots.
 * Return: 0 or -ENOMEM.
 */
int uaio_uring_table_new(struct uaio_uring *ring,
			 struct uaio_uring_table *table, uint32_t nr);
/* Empty the table and free it. */
void uaio_uring_table_free(struct uaio_uring *ring,
			   struct uaio_uring_table *table);
/*
 * Empty and free a table that could not be filled, without completions for its tags.
 * The caller holds the ring.
 */
void uaio_uring_table_abandon(struct uaio_uring *ring,
			      struct uaio_uring_table *table);

/*
 * Put an entry into a slot, and drop the previous entry of the slot. The entry takes
 * over the caller's reference to `file`.
 * Return: 0, or the chosen slot; -ENXIO: there is no table; -EINVAL: no such slot;
 * -ENFILE: no free slot; -ENOMEM. On error the caller keeps the file.
 * Context: any thread, without locks; for a tagged entry or a buffer, the thread that
 * holds the ring.
 */
int uaio_uring_table_put_file(struct uaio_uring *ring, uint32_t place,
			      struct uaio_file *file, uint64_t tag);
int uaio_uring_table_put_buffer(struct uaio_uring *ring, uint32_t place,
				uint64_t base, uint64_t bytes, uint64_t tag);
/*
 * Put a file into a slot like uaio_uring_table_put_file(). For a thread that sends a
 * file from another ring: it uses the ring (ring.h, I4), but lets the holder of the
 * ring drop the replaced entry (I5).
 */
int uaio_uring_table_give_file(struct uaio_uring *ring, uint32_t place,
			       struct uaio_file *file);
/* Drop entries that other threads replaced (I5). Called when the ring is released. */
void uaio_uring_rsrc_drop_owed(struct uaio_uring *ring);
/* Empty a slot. Return: 0; -ENXIO: no table; -EINVAL: no such slot; -EBADF: empty. */
int uaio_uring_table_empty(struct uaio_uring *ring,
			   struct uaio_uring_table *table, uint32_t place);
/*
 * From now on choose free slots only in [first, end). Return: 0; -EINVAL: `end` is
 * beyond the table.
 */
int uaio_uring_table_limit(struct uaio_uring *ring,
			   struct uaio_uring_table *table, uint32_t first,
			   uint32_t end);
/* Return: how many slots the table has. Context: any thread. */
uint32_t uaio_uring_table_size(struct uaio_uring *ring,
			       const struct uaio_uring_table *table);

/*
 * Return: the entry in a slot, with a reference; NULL: the slot is empty or does not
 * exist. Context: any thread, without locks.
 */
struct uaio_uring_rsrc *
uaio_uring_table_get(struct uaio_uring *ring,
		     const struct uaio_uring_table *table, uint32_t place);
/*
 * Return: the entry in a slot, without a reference; NULL if the slot is empty or does
 * not exist. The caller holds the ring (I4), or the queue's lock.
 */
static inline struct uaio_uring_rsrc *
uaio_uring_table_at(const struct uaio_uring_table *table, uint32_t place)
{
	/*
	 * [MB:uring-place] acquire: this thread sees the entry's members. Pairs with
	 * exchange_locked().
	 */
	return place < table->nr ? load_acquire(&table->entries[place]) : NULL;
}

/* Return: whether there is a file in a slot. Context: as uaio_uring_table_get(). */
bool uaio_uring_has_fixed(struct uaio_uring *ring, uint32_t place);
/* The function `get_fixed` of struct uaio_sink (sink.h): find a registered file. */
struct uaio_file *uaio_uring_get_fixed(struct uaio_queue *queue, int place);

void uaio_uring_rsrc_get(struct uaio_uring_rsrc *rsrc);
void uaio_uring_rsrc_put(struct uaio_uring_rsrc *rsrc);

/* filetable.c, openclose.c: registered files, and files opened into the table */

/*
 * Parts of io_uring_register(). The addresses are the client's. If the address of the
 * tags is 0, entries have no tags; if the address of the descriptors is 0, all slots
 * are empty.
 * Return: the result of io_uring_register().
 * Context: the thread holds the ring.
 */
long uaio_uring_register_files(struct uaio_uring *ring, uint64_t fds,
			       uint32_t nr, uint64_t tags);
long uaio_uring_update_files(struct uaio_uring *ring,
			     const struct io_uring_rsrc_update2 *update,
			     uint32_t nr);
long uaio_uring_limit_places(struct uaio_uring *ring, const void *arg,
			     uint32_t nr);

/*
 * Put a file into a slot of the table. Consumes the caller's reference, also on error.
 * Return: the result of uaio_uring_table_put_file().
 */
int uaio_uring_put_file(struct uaio_uring *ring, uint32_t place,
			struct uaio_file *file, uint64_t tag);

/*
 * openclose.c: prepare an operation that opens a file. If the submission names a slot
 * of the table, the file is put into this slot instead of a descriptor. open_flags: the
 * O_* flags with which the file is opened.
 * Return: 0; -EINVAL: O_CLOEXEC with a slot; -ENOMEM.
 */
int uaio_uring_prep_land(struct uaio_uring_entry *entry, uint64_t open_flags);
/*
 * The function `land` of struct uaio_op_door (op.h): put an opened file into its slot.
 */
int64_t uaio_uring_land(const struct uaio_sqe *sqe, int fd);

/*
 * Parts of uaio_uring_called(): execute requests that change or use the table of
 * registered files. They resolve no path, so they cannot block.
 * Return: the result.
 */
int64_t uaio_uring_update_places(struct uaio_uring *ring,
				 const struct uaio_sqe *sqe);
int64_t uaio_uring_install(struct uaio_uring *ring, const struct uaio_sqe *sqe);
int64_t uaio_uring_make_pipe(struct uaio_uring *ring,
			     const struct uaio_sqe *sqe);

#endif /* UAIO_URING_RSRC_H */

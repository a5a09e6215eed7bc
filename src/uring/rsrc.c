/* SPDX-License-Identifier: MIT */
#include "uring/rsrc.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "file/file.h"
#include "ready/ready.h"
#include "uring/calls.h"
#include "uring/cq.h"
#include "uring/note.h"
#include "uring/ring.h"
#include "uring/table.h"

static struct uaio_slab slab; /* for entries */

void uaio_uring_rsrcs_init(void)
{
	uaio_slab_init(&slab, sizeof(struct uaio_uring_rsrc), 16384);
}

void uaio_uring_rsrc_init(struct uaio_uring *ring)
{
	ring->files = (struct uaio_uring_table){ 0 };
	ring->buffers = (struct uaio_uring_table){ 0 };
	/* relaxed: no other thread knows the ring */
	store_relaxed(&ring->shares_files, 0);
	ring->owed = NULL;
}

void uaio_uring_rsrc_fini(struct uaio_uring *ring)
{
	uaio_uring_table_free(ring, &ring->files);
	uaio_uring_table_free(ring, &ring->buffers);
}

static size_t bits_bytes(uint32_t nr)
{
	return ((size_t)nr + 63) / 64 * sizeof(uint64_t);
}

static size_t table_bytes(uint32_t nr)
{
	return nr * sizeof(struct uaio_uring_rsrc *) + bits_bytes(nr);
}

/* Allocate an empty table. Return: 0 or -ENOMEM. */
static int map_table(struct uaio_uring_table *ret_table, uint32_t nr)
{
	struct uaio_uring_rsrc **entries =
		sys_mmap(NULL, table_bytes(nr), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS);

	if (sys_is_map_error(entries))
		return -ENOMEM;
	*ret_table = (struct uaio_uring_table){
		.entries = entries,
		.nr = nr,
		.end = nr,
		.taken = (uint64_t *)(void *)(entries + nr),
	};
	return 0;
}

static void unmap_table(const struct uaio_uring_table *table)
{
	if (table->entries)
		(void)sys_munmap(table->entries, table_bytes(table->nr));
}

int uaio_uring_table_new(struct uaio_uring *ring,
			 struct uaio_uring_table *table, uint32_t nr)
{
	struct uaio_uring_table fresh;
	int ret = map_table(&fresh, nr);

	if (ret < 0)
		return ret;
	uaio_queue_lock(&ring->queue);
	*table = fresh;
	uaio_queue_unlock(&ring->queue);
	return 0;
}

/* Make a table longer; the new slots are empty. Return: 0 or -ENOMEM. */
static int grow(struct uaio_uring *ring, struct uaio_uring_table *table,
		uint32_t nr)
{
	struct uaio_uring_table fresh, old;
	int ret = map_table(&fresh, nr);

	if (ret < 0)
		return ret;
	uaio_queue_lock(&ring->queue);
	old = *table;
	memcpy(fresh.entries, old.entries, old.nr * sizeof(*old.entries));
	memcpy(fresh.taken, old.taken, bits_bytes(old.nr));
	*table = fresh;
	uaio_queue_unlock(&ring->queue);
	unmap_table(&old);
	return 0;
}

void uaio_uring_table_free(struct uaio_uring *ring,
			   struct uaio_uring_table *table)
{
	struct uaio_uring_table old;

	/* Remove the table: from here on other threads cannot find the table. */
	uaio_queue_lock(&ring->queue);
	old = *table;
	*table = (struct uaio_uring_table){ 0 };
	uaio_queue_unlock(&ring->queue);
	for (uint32_t i = 0; i < old.nr; i++)
		if (old.entries[i])
			uaio_uring_rsrc_put(old.entries[i]);
	unmap_table(&old);
}

void uaio_uring_table_abandon(struct uaio_uring *ring,
			      struct uaio_uring_table *table)
{
	/*
	 * Clear the tags, so that none is posted. No request uses these entries: only
	 * the ring's holder, the caller, could have given one to a request.
	 */
	for (uint32_t i = 0; i < table->nr; i++) {
		struct uaio_uring_rsrc *rsrc = table->entries[i];

		if (rsrc && rsrc->tag) {
			rsrc->tag = 0;
			ring->nr_taken--;
		}
	}
	uaio_uring_table_free(ring, table);
}

bool uaio_uring_has_fixed(struct uaio_uring *ring, uint32_t place)
{
	bool has;

	uaio_queue_lock(&ring->queue);
	has = uaio_uring_table_at(&ring->files, place) != NULL;
	uaio_queue_unlock(&ring->queue);
	return has;
}

struct uaio_file *uaio_uring_get_fixed(struct uaio_queue *queue, int place)
{
	struct uaio_uring *ring = container_of(queue, struct uaio_uring, queue);
	struct uaio_file *file = NULL;
	struct uaio_uring_rsrc *rsrc;

	uaio_queue_lock(queue);
	rsrc = uaio_uring_table_at(&ring->files, (uint32_t)place);
	if (rsrc && uaio_file_try_get(rsrc->file))
		file = rsrc->file;
	uaio_queue_unlock(queue);
	return file;
}

struct uaio_uring_rsrc *
uaio_uring_table_get(struct uaio_uring *ring,
		     const struct uaio_uring_table *table, uint32_t place)
{
	struct uaio_uring_rsrc *rsrc;

	uaio_queue_lock(&ring->queue);
	rsrc = uaio_uring_table_at(table, place);
	if (rsrc)
		uaio_uring_rsrc_get(rsrc);
	uaio_queue_unlock(&ring->queue);
	return rsrc;
}

uint32_t uaio_uring_table_size(struct uaio_uring *ring,
			       const struct uaio_uring_table *table)
{
	uint32_t nr;

	uaio_queue_lock(&ring->queue);
	nr = table->nr;
	uaio_queue_unlock(&ring->queue);
	return nr;
}

/* Slots */

/* Return: the first free slot in [first, end); `end` if there is none. */
static uint32_t find_free(const struct uaio_uring_table *table, uint32_t first,
			  uint32_t end)
{
	while (first < end) {
		uint64_t free = ~table->taken[first / 64] >> first % 64;

		if (free) {
			first += (uint32_t)__builtin_ctzll(free);
			return first < end ? first : end;
		}
		first = (first / 64 + 1) * 64;
	}
	return end;
}

/* Return: the free slot that the kernel would choose; or -ENFILE. */
static int choose_locked(const struct uaio_uring_table *table)
{
	uint32_t hint = table->hint, place;

	if (hint < table->first || hint >= table->end)
		hint = table->first;
	place = find_free(table, hint, table->end);
	if (place < table->end)
		return (int)place;
	place = find_free(table, table->first, hint);
	return place < hint ? (int)place : -ENFILE;
}

static int check_place_locked(const struct uaio_uring_table *table,
			      uint32_t place)
{
	if (!table->nr)
		return -ENXIO;
	return place < table->nr ? 0 : -EINVAL;
}

/* Put rsrc, or NULL, into a slot. Return: the previous entry, or NULL. */
static struct uaio_uring_rsrc *exchange_locked(struct uaio_uring_table *table,
					       uint32_t place,
					       struct uaio_uring_rsrc *rsrc)
{
	struct uaio_uring_rsrc *old = load_relaxed(&table->entries[place]);
	uint64_t bit = 1ull << place % 64;

	/* [MB:uring-place] release: rsrc is written. Pairs with uaio_uring_table_at(). */
	store_release(&table->entries[place], rsrc);
	if (rsrc)
		table->taken[place / 64] |= bit;
	else
		table->taken[place / 64] &= ~bit;
	/* As in the kernel, replacing a file does not move the next search's start. */
	if (!rsrc)
		table->hint = place;
	else if (!old)
		table->hint = place + 1;
	return old;
}

static struct uaio_uring_rsrc *new_rsrc(struct uaio_uring *ring,
					const struct uaio_uring_rsrc *what)
{
	struct uaio_uring_rsrc *rsrc = uaio_slab_get(&slab);

	if (!rsrc)
		return NULL;
	rsrc->ring = ring;
	rsrc->tag = what->tag;
	rsrc->file = what->file;
	rsrc->base = what->base;
	rsrc->bytes = what->bytes;
	/* relaxed: the queue's lock publishes this store */
	store_relaxed(&rsrc->refs, 1);
	return rsrc;
}

/*
 * Put an entry into a slot; *ret_old: the slot's previous entry.
 * Return: 0, or the slot chosen for UAIO_URING_ANY_PLACE; -errno: no such slot.
 */
static int put_locked(struct uaio_uring_table *table, uint32_t place,
		      struct uaio_uring_rsrc *rsrc,
		      struct uaio_uring_rsrc **ret_old)
{
	bool is_any = place == UAIO_URING_ANY_PLACE;
	int ret = is_any ? choose_locked(table)
			 : check_place_locked(table, place);

	if (ret >= 0)
		*ret_old = exchange_locked(
			table, is_any ? (uint32_t)ret : place, rsrc);
	return ret;
}

static int put(struct uaio_uring *ring, struct uaio_uring_table *table,
	       uint32_t place, const struct uaio_uring_rsrc *what)
{
	struct uaio_uring_rsrc *rsrc = new_rsrc(ring, what), *old = NULL;
	int ret;

	if (!rsrc)
		return -ENOMEM;
	/* Only the ring's holder puts entries with tags, so it may change nr_taken. */
	if (what->tag)
		ring->nr_taken++;
	uaio_queue_lock(&ring->queue);
	ret = put_locked(table, place, rsrc, &old);
	uaio_queue_unlock(&ring->queue);
	if (ret < 0) {
		if (what->tag)
			ring->nr_taken--;
		uaio_slab_put(&slab, rsrc);
	}
	if (old)
		uaio_uring_rsrc_put(old);
	return ret;
}

/*
 * Let the thread that holds the ring drop `old`: a replaced entry, or NULL.
 * Return: false if no thread holds the ring.
 */
static bool owe_locked(struct uaio_uring *ring, struct uaio_uring_rsrc *old)
{
	uint32_t word = load_relaxed(&ring->submit), next;

	/*
	 * [MB:uring-submit] seq_cst: the next holder of the ring sees shares_files. If
	 * no thread holds the ring, no thread uses an entry without a reference.
	 */
	do
		next = word & UAIO_URING_HELD ? word | UAIO_URING_OWES : word;
	while (!cas_seq_cst(&ring->submit, &word, next));
	if (!(word & UAIO_URING_HELD))
		return false;
	if (old) {
		old->next = ring->owed;
		ring->owed = old;
	}
	return true;
}

int uaio_uring_table_give_file(struct uaio_uring *ring, uint32_t place,
			       struct uaio_file *file)
{
	struct uaio_uring_rsrc *old = NULL,
			       *rsrc = new_rsrc(ring, &(struct uaio_uring_rsrc){
							      .file = file });
	int ret;

	if (!rsrc)
		return -ENOMEM;
	uaio_queue_lock(&ring->queue);
	/* relaxed: see owe_locked() */
	store_relaxed(&ring->shares_files, 1);
	ret = put_locked(&ring->files, place, rsrc, &old);
	if (owe_locked(ring, old))
		old = NULL;
	uaio_queue_unlock(&ring->queue);
	if (ret < 0)
		uaio_slab_put(&slab, rsrc);
	if (old)
		uaio_uring_rsrc_put(old);
	return ret;
}

void uaio_uring_rsrc_drop_owed(struct uaio_uring *ring)
{
	struct uaio_uring_rsrc *owed, *next;

	uaio_queue_lock(&ring->queue);
	owed = ring->owed;
	ring->owed = NULL;
	uaio_queue_unlock(&ring->queue);
	for (; owed; owed = next) {
		next = owed->next;
		uaio_uring_rsrc_put(owed);
	}
}

int uaio_uring_table_put_file(struct uaio_uring *ring, uint32_t place,
			      struct uaio_file *file, uint64_t tag)
{
	return put(ring, &ring->files, place,
		   &(struct uaio_uring_rsrc){ .file = file, .tag = tag });
}

int uaio_uring_table_put_buffer(struct uaio_uring *ring, uint32_t place,
				uint64_t base, uint64_t bytes, uint64_t tag)
{
	return put(ring, &ring->buffers, place,
		   &(struct uaio_uring_rsrc){
			   .base = base, .bytes = bytes, .tag = tag });
}

int uaio_uring_table_empty(struct uaio_uring *ring,
			   struct uaio_uring_table *table, uint32_t place)
{
	struct uaio_uring_rsrc *old = NULL;
	int ret;

	uaio_queue_lock(&ring->queue);
	ret = check_place_locked(table, place);
	if (ret == 0 && !table->entries[place])
		ret = -EBADF;
	if (ret == 0)
		old = exchange_locked(table, place, NULL);
	uaio_queue_unlock(&ring->queue);
	if (old)
		uaio_uring_rsrc_put(old);
	return ret;
}

int uaio_uring_table_limit(struct uaio_uring *ring,
			   struct uaio_uring_table *table, uint32_t first,
			   uint32_t end)
{
	int ret = -EINVAL;

	uaio_queue_lock(&ring->queue);
	if (end <= table->nr) {
		table->first = table->hint = first;
		table->end = end;
		ret = 0;
	}
	uaio_queue_unlock(&ring->queue);
	return ret;
}

void uaio_uring_rsrc_get(struct uaio_uring_rsrc *rsrc)
{
	/* relaxed: the table's reference keeps the entry */
	add_relaxed(&rsrc->refs, 1);
}

void uaio_uring_rsrc_put(struct uaio_uring_rsrc *rsrc)
{
	struct uaio_uring *ring = rsrc->ring;
	uint64_t tag = rsrc->tag;

	/* [MB:uring-rsrc] release: this use is over. Pairs with the load below. */
	if (sub_release(&rsrc->refs, 1) != 1)
		return;
	/* [MB:uring-rsrc] acquire: all uses are over. Pairs with the subtraction above. */
	(void)load_acquire(&rsrc->refs);
	if (rsrc->file)
		uaio_file_put(rsrc->file);
	uaio_slab_put(&slab, rsrc);
	if (!tag)
		return;
	/* Keep the queue (pin): once the tag is posted, the ring could be freed. */
	uaio_ready_pin(&ring->queue.group.ready);
	uaio_uring_answer(ring, tag, 0);
	/*
	 * relaxed: the completion of the tag may have reached the count of a timeout.
	 * Then this thread itself has marked the timeout (timeout.c, I2).
	 */
	if (unlikely(load_relaxed(&ring->nr_reached)))
		uaio_uring_end_reached(ring);
	uaio_ready_unpin(&ring->queue.group.ready);
}

/*
 * IORING_REGISTER_CLONE_BUFFERS: register buffers of one ring with another
 *
 * A buffer is an address and a length, so a clone is another entry for the same memory.
 * Tags stay with the source ring.
 *
 * The caller holds the target ring. It uses the source ring (ring.h, I4) without
 * holding it, and reads the source's table under the source's queue lock. So two
 * threads that clone from each other's ring do not deadlock.
 */

/* The client's argument, struct io_uring_clone_buffers: older headers lack it. */
struct clone {
	uint32_t src_fd;
	uint32_t flags;
	uint32_t src_off;
	uint32_t dst_off;
	uint32_t nr;
	uint32_t pad[3];
};

/* The range of a registered buffer; bytes is 0 if the slot is empty. */
struct buffer {
	uint64_t base, bytes;
};

static int check_ends(const struct clone *what, uint32_t nr_there)
{
	uint32_t end;

	if (!nr_there)
		return -ENXIO;
	if (what->nr > nr_there)
		return -EINVAL;
	if (__builtin_add_overflow(what->nr, what->src_off, &end) ||
	    end > nr_there)
		return -EOVERFLOW;
	if (__builtin_add_overflow(what->nr, what->dst_off, &end))
		return -EOVERFLOW;
	return end > UAIO_URING_BUFFERS_MAX ? -EINVAL : 0;
}

/* Copy what->nr buffers to clone (0: all). Return: 0, or check_ends()'s error. */
static int copy_buffers(struct uaio_uring *from, struct clone *what,
			struct buffer *ret_buffers)
{
	const struct uaio_uring_table *table = &from->buffers;
	int ret;

	uaio_queue_lock(&from->queue);
	if (!what->nr)
		what->nr = table->nr;
	ret = check_ends(what, table->nr);
	for (uint32_t i = 0; i < what->nr && ret == 0; i++) {
		const struct uaio_uring_rsrc *rsrc =
			uaio_uring_table_at(table, what->src_off + i);

		ret_buffers[i] =
			rsrc ? (struct buffer){ rsrc->base, rsrc->bytes }
			     : (struct buffer){ 0 };
	}
	uaio_queue_unlock(&from->queue);
	return ret;
}

/* Put the buffers into the table. If memory is refused, the first ones stay. */
static int put_buffers(struct uaio_uring *ring, const struct clone *what,
		       const struct buffer *buffers)
{
	uint32_t size = what->dst_off + what->nr;
	int ret = 0;

	if (!ring->buffers.nr)
		ret = uaio_uring_table_new(ring, &ring->buffers, size);
	else if (ring->buffers.nr < size)
		ret = grow(ring, &ring->buffers, size);
	for (uint32_t i = 0; i < what->nr && ret == 0; i++) {
		uint32_t place = what->dst_off + i;

		if (buffers[i].bytes)
			ret = uaio_uring_table_put_buffer(ring, place,
							  buffers[i].base,
							  buffers[i].bytes, 0);
		else
			(void)uaio_uring_table_empty(ring, &ring->buffers,
						     place);
	}
	return ret;
}

static long clone_from(struct uaio_uring *ring, struct uaio_uring *from,
		       struct clone *what)
{
	const size_t bytes = UAIO_URING_BUFFERS_MAX * sizeof(struct buffer);
	const void *owner = load_relaxed(&from->owner);
	struct buffer *buffers;
	int ret;

	if (owner && owner != &uaio_entry)
		return -EEXIST;
	if (!what->nr && (what->src_off || what->dst_off))
		return -EINVAL;
	buffers = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(buffers))
		return -ENOMEM;
	ret = copy_buffers(from, what, buffers);
	if (ret == 0)
		ret = put_buffers(ring, what, buffers);
	(void)sys_munmap(buffers, bytes);
	return ret;
}

long uaio_uring_clone_buffers(struct uaio_uring *ring, const void *arg,
			      uint32_t nr)
{
	static const uint32_t zero[3];
	struct uaio_uring *from;
	struct clone what;
	bool is_registered;
	long ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&what, (uintptr_t)arg, sizeof(what)) < 0)
		return -EFAULT;
	if (what.flags &
	    ~(IORING_REGISTER_SRC_REGISTERED | IORING_REGISTER_DST_REPLACE))
		return -EINVAL;
	if (!(what.flags & IORING_REGISTER_DST_REPLACE) && ring->buffers.nr)
		return -EBUSY;
	if (memcmp(what.pad, zero, sizeof(zero)))
		return -EINVAL;
	is_registered = what.flags & IORING_REGISTER_SRC_REGISTERED;
	from = uaio_uring_named(what.src_fd, is_registered, &ret);
	if (!from)
		return ret;
	if (!uaio_uring_use(from))
		return -EBADF;
	ret = is_registered || uaio_uring_is_still(what.src_fd, from)
		      ? clone_from(ring, from, &what)
		      : -EBADF;
	uaio_uring_unuse(from);
	return ret;
}

/* SPDX-License-Identifier: MIT */
#include "file/file.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "file/inspect.h"
#include "file/inode.h"
#include "file/duplicate.h"
#include "file/terminal.h"

enum {
	LEAF_BITS = 14,
	LEAF_FDS = 1 << LEAF_BITS,
	/* allows 2^30 descriptors, more than the kernel does */
	ROOT_LEAVES = 1 << 16,
};

static struct {
	/* the table: both levels are atomic, filled under the lock, and never freed */
	struct uaio_file ***leaves; /* owns */
	uint32_t nr_leaves; /* one more than the index of the last leaf */

	const struct uaio_file_ops *ops; /* borrows */
	uint32_t nr_opening; /* atomic: how many threads are making an entry */

	/* under lock */
	struct uaio_lock lock; /* rank FILES */
	/* number of calls that closed descriptors which may have an entry */
	uint64_t nr_closings;
	struct uaio_slab slab;
} files;

int uaio_files_init(const struct uaio_file_ops *ops)
{
	void *leaves = sys_mmap(NULL, ROOT_LEAVES * sizeof(*files.leaves),
				PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (sys_is_map_error(leaves))
		return -ENOMEM;
	files.lock = (struct uaio_lock){ 0 };
	store_relaxed(&files.nr_leaves, 0);
	store_relaxed(&files.nr_opening, 0);
	uaio_inodes_init();
	uaio_slab_init(&files.slab, sizeof(struct uaio_file), 16384);
	uaio_file_duplicates_init(ops);
	uaio_kept_init();
	files.ops = ops;
	files.leaves = leaves;
	return 0;
}

static struct uaio_file **slot_of(int fd)
{
	unsigned leaf = (unsigned)fd >> LEAF_BITS;
	struct uaio_file **slots;

	if (unlikely(leaf >= ROOT_LEAVES))
		return NULL;
	/*
	 * [MB:leaf] acquire: read the leaf's slots after its address. Pairs with
	 * make_slot_locked().
	 */
	slots = load_acquire(&files.leaves[leaf]);
	return slots ? &slots[(unsigned)fd % LEAF_FDS] : NULL;
}

struct uaio_file *uaio_file_find(int fd)
{
	struct uaio_file **slot = slot_of(fd);

	/* [MB:file] acquire: read the entry's members after its address. Pairs with publish(). */
	return slot ? load_acquire(slot) : NULL;
}

static struct uaio_file **make_slot_locked(int fd)
{
	unsigned leaf = (unsigned)fd >> LEAF_BITS;
	struct uaio_file **slots;

	if (leaf >= ROOT_LEAVES)
		return NULL;
	/* relaxed: leaves are written only under this lock */
	if (!load_relaxed(&files.leaves[leaf])) {
		slots = sys_mmap(NULL, LEAF_FDS * sizeof(*slots),
				 PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
		if (sys_is_map_error(slots))
			return NULL;
		/* [MB:leaf] release: the slots are mapped before this. Pairs with slot_of(). */
		store_release(&files.leaves[leaf], slots);
		if (leaf >= load_relaxed(&files.nr_leaves))
			store_relaxed(&files.nr_leaves, leaf + 1);
	}
	return slot_of(fd);
}

static uint32_t flags_of(const struct uaio_fd_facts *facts)
{
	return facts->kind == UAIO_KIND_MEMORY &&
			       files.ops->is_ring(facts->dev, facts->ino)
		       ? UAIO_FILE_F_RING
		       : facts->flags & ~(uint32_t)UAIO_FILE_F_NONBLOCK;
}

/* Fill in the members that describe the file. Return: 0 or -ENOMEM. */
static int classify(struct uaio_file *file, int fd,
		    const struct uaio_fd_facts *facts)
{
	struct uaio_inode *inode = NULL;

	if (facts->has_inode &&
	    !(inode = uaio_inode_get(facts->dev, facts->ino)))
		return -ENOMEM;
	/* relaxed: publish() releases the values; in a reused entry they are hints (I2) */
	store_relaxed(&file->fd, fd);
	store_relaxed(&file->kind, facts->kind);
	store_relaxed(&file->is_nonblock, facts->flags & UAIO_FILE_F_NONBLOCK);
	/*
	 * [MB:reused] release: if this entry is reused, a thread that reads the new flags sees
	 * that the entry's old slot is empty. Pairs with uaio_file_read_flags().
	 */
	store_release(&file->flags, flags_of(facts));
	store_relaxed(&file->inode, inode);
	store_relaxed(&file->dev, facts->dev);
	store_relaxed(&file->ino, facts->ino);
	return 0;
}

static void init_waitqs(struct uaio_file *file)
{
	uint32_t nr_edges = load_relaxed(&file->nr_edges) + 1;

	/* Locked, as a thread may still search a reused entry's watches (ready.h, I2). */
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	for (unsigned i = 0; i < UAIO_NR_WAITQS; i++) {
		list_init(&file->waitqs[i].parked);
		store_relaxed(&file->waitqs[i].nr, 0);
		file->waitqs[i].is_running = file->waitqs[i].is_kicked = false;
		store_relaxed(&file->waitqs[i].nr_misses, 0);
		file->waitqs[i].retry_pays = true;
		file->waitqs[i].nr_unretried = 0;
	}
	list_init(&file->watches);
	store_relaxed(&file->last_watch, NULL);
	/* Threads compare this number, so a reused entry gets a new one; 0 means "none". */
	store_relaxed(&file->nr_edges, nr_edges ? nr_edges : 1);
	file->told = file->told_of = 0;
	file->told_by_any = UINT32_MAX;
	file->told_of_by_all = file->told_after = 0;
	file->is_unpollable = file->told_of_more = false;
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

static struct uaio_file *new_file(int fd, const struct uaio_fd_facts *facts)
{
	struct uaio_file *file = uaio_slab_get(&files.slab);

	if (!file)
		return NULL;
	/* relaxed, all: readers of a reused entry take these values as hints (I2) */
	store_relaxed(&file->owns_fd, false);
	list_init(&file->in_private);
	store_relaxed(&file->nr_using, 0);
	store_relaxed(&file->nr_tries, 0);
	store_relaxed(&file->is_awaited, 0);
	init_waitqs(file);
	store_relaxed(&file->hit_streak, 0);
	store_relaxed(&file->nowait_refused, 0);
	store_relaxed(&file->nr_unnative[0], 0);
	store_relaxed(&file->nr_unnative[1], 0);
	store_relaxed(&file->takes_nowait, 0);
	store_relaxed(&file->nr_native, 0);
	store_relaxed(&file->trace_number, 0);
	store_relaxed(&file->alignment, 0);
	store_relaxed(&file->is_closing, 0);
	store_relaxed(&file->closer_goes, 0);
	store_relaxed(&file->tuning, NULL);
	if (classify(file, fd, facts) < 0) {
		uaio_slab_put(&files.slab, file);
		return NULL;
	}
	store_relaxed(&file->reopened, uaio_terminal_open(fd, facts->flags));
	if (file->reopened >= 0)
		uaio_file_note_private(file);
	return file;
}

static void free_file(struct uaio_file *file)
{
	if (!list_is_empty(&file->watches))
		files.ops->dropped(file);
	uaio_file_close_fds(file);
	if (file->inode)
		uaio_inode_put(file->inode);
	if (file->tuning)
		files.ops->put_tuning(file->tuning);
	uaio_slab_put(&files.slab, file);
}

/*
 * Put `file` in the slot of fd, unless the slot has an entry already. Fail if a
 * descriptor was closed since nr_closings was read: fd may then refer to another file
 * than the one that `file` describes. If `file` is not put into the slot, it is freed.
 * Return: 0, with the slot's entry in *ret_file; -EAGAIN if a descriptor was closed;
 * -ENOMEM.
 */
static int publish(int fd, struct uaio_file *file, uint64_t nr_closings,
		   struct uaio_file **ret_file)
{
	struct uaio_file *old = NULL, **slot;
	int ret = 0;

	uaio_lock(&files.lock, UAIO_RANK_FILES);
	slot = make_slot_locked(fd);
	if (!slot)
		ret = -ENOMEM;
	else if (files.nr_closings != nr_closings)
		ret = -EAGAIN;
	else
		/* relaxed: slots are written only under this lock */
		old = load_relaxed(slot);
	if (ret == 0 && !old) {
		store_relaxed(&file->refs, 1);
		/*
		 * [MB:file] release: the members are written before the slot. Pairs with
		 * uaio_file_find().
		 */
		store_release(slot, file);
	}
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	if (ret < 0 || old)
		free_file(file);
	*ret_file = old ? old : file;
	return ret;
}

static int open_once(int fd, struct uaio_file **ret_file)
{
	struct uaio_file *file;
	struct uaio_fd_facts facts;
	uint64_t nr_closings;
	int ret;

	uaio_lock(&files.lock, UAIO_RANK_FILES);
	nr_closings = files.nr_closings;
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	ret = uaio_inspect(fd, &facts);
	if (ret < 0)
		return ret;
	file = new_file(fd, &facts);
	return file ? publish(fd, file, nr_closings, ret_file) : -ENOMEM;
}

int uaio_file_open(int fd, struct uaio_file **ret_file)
{
	int ret;

	if (fd < 0)
		return -EBADF;
	/*
	 * [MB:opening] seq_cst: this thread counts itself before it inspects the descriptor.
	 * Pairs with uaio_file_may_know(): a thread that closes the descriptor later sees the
	 * count, or finds the entry.
	 */
	add_seq_cst(&files.nr_opening, 1);
	do
		ret = open_once(fd, ret_file);
	while (ret == -EAGAIN);
	/* [MB:opening] seq_cst: this thread publishes the entry before it decrements the count. */
	add_seq_cst(&files.nr_opening, (uint32_t)-1);
	return ret;
}

int uaio_file_open_parted(int fd, struct uaio_file **ret_file)
{
	struct uaio_fd_facts facts;
	struct uaio_file *file;
	int ret = fd < 0 ? -EBADF : uaio_inspect(fd, &facts);

	if (ret < 0)
		return ret;
	if (facts.flags & UAIO_FILE_F_PATH)
		return -EBADF;
	/* Reopen no terminal: only this thread's table would have the new descriptor. */
	facts.flags &= ~(uint32_t)UAIO_FILE_F_TERMINAL;
	file = new_file(fd, &facts);
	if (!file)
		return -ENOMEM;
	store_relaxed(&file->refs, 1);
	*ret_file = file;
	return 0;
}

int uaio_file_fix(int fd, struct uaio_file **ret_file)
{
	int own = uaio_kept_take(fd), ret;
	struct uaio_file *file = NULL;
	struct uaio_fd_facts facts;

	if (own < 0)
		own = uaio_ownfd_dup(fd);
	if (own < 0)
		return own;
	ret = uaio_inspect(own, &facts);
	if (ret == 0 && facts.flags & UAIO_FILE_F_PATH)
		ret = -EBADF;
	if (ret == 0 && !(file = new_file(own, &facts)))
		ret = -ENOMEM;
	if (ret < 0) {
		if (!uaio_kept_keep(own))
			uaio_ownfd_close(own);
		return ret;
	}
	/* relaxed, both: no other thread knows the entry yet */
	store_relaxed(&file->owns_fd, true);
	store_relaxed(&file->refs, 1);
	uaio_file_note_private(file);
	*ret_file = file;
	return 0;
}

bool uaio_file_may_know(int fd)
{
	/* [MB:opening] seq_cst: read the count, then the slot. Pairs with uaio_file_open(). */
	return load_seq_cst(&files.nr_opening) || uaio_file_find(fd);
}

bool uaio_file_try_get(struct uaio_file *file)
{
	uint32_t refs = load_relaxed(&file->refs);

	do {
		if (!refs)
			return false;
		/* [MB:file-ref] seq_cst: increment refs, then read the slot (is_in_slot()). */
	} while (!__atomic_compare_exchange_n(&file->refs, &refs, refs + 1,
					      false, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return true;
}

/* Return: whether `file`, to which the caller has a reference, is still fd's entry. */
static inline bool is_in_slot(const struct uaio_file *file, int fd)
{
	/*
	 * [MB:file-ref] seq_cst: this thread took its reference before it reads the slot. Pairs
	 * with uaio_file_closing(), whose thread empties the slot before it reads the
	 * references. So at least one of the two threads sees what the other wrote.
	 */
	return load_seq_cst(slot_of(fd)) == file;
}

/* Slow path of uaio_file_get(). noinline: the fast path then saves few registers. */
static __attribute__((noinline)) int get_after_all(int fd,
						   struct uaio_file **ret_file)
{
	for (;;) {
		struct uaio_file *file = uaio_file_find(fd);
		int ret = file ? 0 : uaio_file_open(fd, &file);

		if (ret < 0)
			return ret;
		if (uaio_file_try_get(file)) {
			if (is_in_slot(file, fd)) {
				*ret_file = file;
				return 0;
			}
			uaio_file_put(file);
		}
	}
}

static __attribute__((noinline)) int get_another(struct uaio_file *file, int fd,
						 struct uaio_file **ret_file)
{
	uaio_file_put(file);
	return get_after_all(fd, ret_file);
}

int uaio_file_get(int fd, struct uaio_file **ret_file)
{
	struct uaio_file *file = uaio_file_find(fd);

	if (unlikely(!file || !uaio_file_try_get(file)))
		return get_after_all(fd, ret_file);
	if (unlikely(!is_in_slot(file, fd)))
		return get_another(file, fd, ret_file);
	*ret_file = file;
	return 0;
}

void uaio_file_put(struct uaio_file *file)
{
	/*
	 * [MB:file-ref] seq_cst: this thread drops its reference before it reads is_closing.
	 * Pairs with uaio_closing_see_through().
	 */
	uint32_t refs = __atomic_fetch_sub(&file->refs, 1, __ATOMIC_SEQ_CST);

	UAIO_CHECK(refs > 0);
	if (refs == 1)
		free_file(file);
	/* [MB:file-ref] seq_cst: is_closing is read after the reference was dropped. */
	else if (refs == 2 && load_seq_cst(&file->is_closing))
		uaio_wake(&file->refs, 1);
}

/* Return: the entry of fd, or NULL. The caller holds files.lock. */
static struct uaio_file *peek_locked(int fd)
{
	struct uaio_file **slot = slot_of(fd);

	return slot ? load_relaxed(slot) : NULL;
}

static struct uaio_file *take_out_locked(int fd)
{
	struct uaio_file *file = peek_locked(fd);

	if (file)
		/* [MB:file-ref] seq_cst: empty the slot, then read refs. Pairs with is_in_slot(). */
		store_seq_cst(slot_of(fd), NULL);
	return file;
}

/* Drop the table's reference to an entry that the caller has removed from its slot. */
static void let_go(struct uaio_file *file)
{
	/* [MB:file-ref] seq_cst: the slot was emptied before this. Pairs with is_in_slot(). */
	if (load_seq_cst(&file->refs) > 1) {
		if (file->kind < UAIO_KIND_STREAM)
			files.ops->see_through(file);
		else if (!uaio_file_make_private(file))
			uaio_file_lose_fd(file);
	}
	uaio_file_put(file);
}

void uaio_file_closing(int fd)
{
	struct uaio_file *file;

	if (!files.leaves || fd < 0 || !uaio_file_may_know(fd))
		return;
	uaio_lock(&files.lock, UAIO_RANK_FILES);
	files.nr_closings++;
	file = take_out_locked(fd);
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	if (file)
		let_go(file);
}

void uaio_file_flags_change(int fd, int open_flags)
{
	struct uaio_file *file;

	if (!files.leaves || fd < 0 || !uaio_file_may_know(fd))
		return;
	uaio_lock(&files.lock, UAIO_RANK_FILES);
	/* Another thread may be making an entry with the old flags: it must try again. */
	files.nr_closings++;
	file = peek_locked(fd);
	if (file && uaio_take_flags(file, fd, open_flags))
		file = NULL;
	if (file)
		(void)take_out_locked(fd);
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	if (file)
		let_go(file);
}

/*
 * Remove the entry of fd from its slot, if only the table has a reference to it.
 * Return: whether the slot is empty now.
 */
static bool take_out_idle(int fd)
{
	struct uaio_file *file;
	bool is_idle = true;

	uaio_lock(&files.lock, UAIO_RANK_FILES);
	file = peek_locked(fd);
	if (file) {
		uint32_t refs = 1;

		/*
		 * [MB:file-ref] seq_cst: once refs is 0, no thread gets a reference. Pairs with
		 * uaio_file_try_get().
		 */
		is_idle = __atomic_compare_exchange_n(&file->refs, &refs, 0,
						      false, __ATOMIC_SEQ_CST,
						      __ATOMIC_RELAXED);
	}
	if (is_idle) {
		files.nr_closings++;
		(void)take_out_locked(fd);
	}
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	if (is_idle && file)
		free_file(file);
	return is_idle;
}

bool uaio_file_forget_idle(int fd)
{
	if (!files.leaves || fd < 0)
		return true;
	return uaio_closes_at_once(fd) &&
	       (!uaio_file_may_know(fd) || take_out_idle(fd));
}

/* Return: whether the entry still describes fd. The caller needs no reference. */
static bool is_entry_of(const struct uaio_file *file, int fd)
{
	struct uaio_inode *inode = NULL;
	struct uaio_fd_facts facts;
	bool is_same;

	if (uaio_inspect(fd, &facts) < 0)
		return false;
	if (facts.has_inode && !(inode = uaio_inode_get(facts.dev, facts.ino)))
		return false;
	/* relaxed: the entry may be reused meanwhile; the caller notices by nr_closings */
	is_same = load_relaxed(&file->kind) == facts.kind &&
		  (load_relaxed(&file->flags) | UAIO_FILE_F_NONBLOCK) ==
			  (facts.flags | UAIO_FILE_F_NONBLOCK) &&
		  load_relaxed(&file->inode) == inode &&
		  uaio_terminal_is_still(file, fd);
	if (inode)
		uaio_inode_put(inode);
	return is_same;
}

/*
 * Another thread may have opened a new file as fd meanwhile. If the entry describes this
 * file, the entry stays in the table: a later close() of fd needs the entry, to wait for
 * the requests.
 */
void uaio_file_closed(int fd)
{
	struct uaio_file *file;
	uint64_t nr_closings;
	bool is_out;

	if (!files.leaves || fd < 0 || !uaio_file_may_know(fd))
		return;
	do {
		uaio_lock(&files.lock, UAIO_RANK_FILES);
		nr_closings = ++files.nr_closings;
		file = peek_locked(fd);
		uaio_unlock(&files.lock, UAIO_RANK_FILES);
		if (!file || is_entry_of(file, fd))
			return;
		/* If a descriptor was closed meanwhile, the slot may have changed: retry. */
		uaio_lock(&files.lock, UAIO_RANK_FILES);
		is_out = files.nr_closings == nr_closings;
		if (is_out)
			(void)take_out_locked(fd);
		uaio_unlock(&files.lock, UAIO_RANK_FILES);
	} while (!is_out);
	uaio_file_forget_fd(file);
	let_go(file);
}

static void for_range(unsigned first, unsigned last, void (*report)(int fd))
{
	/* relaxed: the loop may miss entries that other threads make just now */
	uint32_t nr_leaves = files.leaves ? load_relaxed(&files.nr_leaves) : 0;
	uint64_t end = (uint64_t)nr_leaves << LEAF_BITS;

	uaio_lock(&files.lock, UAIO_RANK_FILES);
	files.nr_closings++;
	uaio_unlock(&files.lock, UAIO_RANK_FILES);
	for (uint64_t fd = first; fd <= last && fd < end; fd++) {
		if (!load_relaxed(&files.leaves[fd >> LEAF_BITS]))
			fd |= LEAF_FDS - 1;
		else
			report((int)fd);
	}
}

void uaio_file_closing_range(unsigned first, unsigned last)
{
	for_range(first, last, uaio_file_closing);
}

void uaio_file_closed_range(unsigned first, unsigned last)
{
	for_range(first, last, uaio_file_closed);
}

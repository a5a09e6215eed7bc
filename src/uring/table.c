/* SPDX-License-Identifier: MIT */
#include "uring/table.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "proc/process.h"
#include "uring/ring.h"
#include "uring/witness.h"

enum {
	FDS_MAX = 1 << 20,
	LEAF_FDS =
		/*
		 * slots of one array (leaf): few, because after mlockall() an array for
		 * all descriptors would be charged to RLIMIT_MEMLOCK
		 */
	1 << 12,
	/* how many descriptors to search for another descriptor of a ring */
	SEARCHED_MAX = 4096,
	NONE = -1,
	NOT_SOUGHT = -2,
};

#define NO_FD UAIO_URING_TAB_NO_FD

static struct {
	/*
	 * Arrays of slots, each for LEAF_FDS descriptors. The pointers to the arrays,
	 * and the slots, are atomic; slots are written under the lock.
	 */
	struct uaio_uring **leaves[FDS_MAX / LEAF_FDS]; /* owns; or NULL */
	uint32_t is_used;
	/* greater than all descriptors that were ever in the table */
	uint32_t end;
	/* atomic: the slot where the next sweep (I4) begins; a guess */
	uint32_t swept;

	struct uaio_lock lock; /* rank TABLE */
} tab;

static void lock(void)
{
	uaio_lock(&tab.lock, UAIO_RANK_TABLE);
}

static void unlock(void)
{
	uaio_unlock(&tab.lock, UAIO_RANK_TABLE);
}

void uaio_uring_tab_init(void)
{
	/*
	 * When the parent forked, one of its threads may have held the lock: reset it.
	 */
	tab.lock = (struct uaio_lock){ 0 };
}

bool uaio_uring_tab_is_used(void)
{
	/* relaxed: a thread got a ring's descriptor only after is_used was set */
	return load_relaxed(&tab.is_used);
}

/* Return: whether fd is the file with this device and inode number. */
static bool is_file(uint32_t fd, uint64_t dev, uint64_t ino)
{
	struct stat st;

	return sys_fstat((int)fd, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

/* Return: the slot of fd, which is below FDS_MAX; NULL if its array does not exist. */
static struct uaio_uring **slot_of(uint32_t fd)
{
	/*
	 * [MB:uring-tab] acquire: this thread sees the zeroed slots. Pairs with
	 * make_slot().
	 */
	struct uaio_uring **leaf = load_acquire(&tab.leaves[fd / LEAF_FDS]);

	return leaf ? &leaf[fd % LEAF_FDS] : NULL;
}

/* Make the slot of fd, which is below FDS_MAX. Return: 0 or -ENOMEM. */
static int make_slot(uint32_t fd)
{
	const size_t bytes = LEAF_FDS * sizeof(struct uaio_uring *);
	void *leaf;

	if (slot_of(fd))
		return 0;
	leaf = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	if (sys_is_map_error(leaf))
		return -ENOMEM;
	lock();
	if (!load_relaxed(&tab.leaves[fd / LEAF_FDS])) {
		/* [MB:uring-tab] release: pairs with slot_of(). */
		store_release(&tab.leaves[fd / LEAF_FDS], leaf);
		leaf = NULL;
	}
	unlock();
	if (leaf)
		(void)sys_munmap(leaf, bytes);
	return 0;
}

/* Return: the ring in the slot of fd; NULL if there is none. */
static struct uaio_uring *peek_locked(uint32_t fd)
{
	struct uaio_uring **slot = slot_of(fd);

	return slot ? load_relaxed(slot) : NULL;
}

/*
 * Put a ring, or NULL, into the slot of fd. If the slot's array does not exist, because
 * memory was refused, do nothing: the ring then stays alive until the process ends.
 */
static void set_locked(uint32_t fd, struct uaio_uring *ring)
{
	struct uaio_uring **slot = slot_of(fd);

	if (!slot)
		return;
	if (fd >= load_relaxed(&tab.end))
		store_relaxed(&tab.end, fd + 1);
	/*
	 * [MB:uring-tab] release: write the ring's members before the slot. Pairs with
	 * look().
	 */
	store_release(slot, ring);
}

static struct uaio_uring *look(uint32_t fd)
{
	struct uaio_uring **slot = fd < FDS_MAX ? slot_of(fd) : NULL;

	/* [MB:uring-tab] acquire: pairs with set_locked(). */
	return slot ? load_acquire(slot) : NULL;
}

static void closed(uint32_t fd);
static int find_other(const struct uaio_uring *ring);

int uaio_uring_tab_number(const struct uaio_uring *ring)
{
	/* relaxed, all: these values were set before this thread found the ring */
	uint32_t end = load_relaxed(&tab.end);

	for (uint32_t fd = 0; fd < end; fd++)
		if (look(fd) == ring && is_file(fd, load_relaxed(&ring->dev),
						load_relaxed(&ring->ino)))
			return (int)fd;
	/*
	 * All descriptors in the table are closed, unnoticed by the library. Search for
	 * another descriptor of the ring.
	 */
	return find_other(ring);
}

/*
 * Add fd, a descriptor of the ring, to the table. Another thread may already have
 * closed fd.
 * Return: whether the ring is still open, and fd its descriptor.
 */
static bool note(uint32_t fd, struct uaio_uring *ring, uint64_t ino)
{
	/* twice, because closed() may first have to empty a stale slot */
	enum { TRIES = 2 };
	bool is_open = make_slot(fd) == 0, is_noted = false;

	for (unsigned i = 0; i < TRIES && is_open && !is_noted; i++) {
		lock();
		is_open = load_relaxed(&ring->ino) == ino;
		if (is_open && !peek_locked(fd)) {
			set_locked(fd, ring);
			store_relaxed(&ring->nr_holds,
				      load_relaxed(&ring->nr_holds) + 1);
		}
		unlock();
		closed(fd);
		is_noted = uaio_uring_is_still(fd, ring);
	}
	return is_open && is_noted;
}

static struct uaio_uring *find_by_file(uint32_t fd)
{
	struct stat st;

	if (fd >= FDS_MAX || sys_fstat((int)fd, &st) < 0 ||
	    !S_ISREG(st.st_mode))
		return NULL;
	for (struct uaio_uring *ring = uaio_uring_first(); ring;
	     ring = ring->next) {
		if (load_relaxed(&ring->ino) != st.st_ino ||
		    load_relaxed(&ring->dev) != st.st_dev)
			continue;
		/*
		 * Do not add a ring of the parent: uaio_uring_tab_adopt() will add it.
		 */
		if (!uaio_uring_is_here(ring) || note(fd, ring, st.st_ino))
			return ring;
	}
	return NULL;
}

struct uaio_uring *uaio_uring_known(uint32_t fd)
{
	struct uaio_uring *ring = look(fd);

	return ring && uaio_uring_is_here(ring) ? ring : NULL;
}

struct uaio_uring *uaio_uring_ask(uint32_t fd)
{
	struct uaio_uring *ring = look(fd);

	if (ring &&
	    is_file(fd, load_relaxed(&ring->dev), load_relaxed(&ring->ino)))
		return ring;
	return uaio_uring_tab_is_used() ? find_by_file(fd) : NULL;
}

bool uaio_uring_is_ring(int fd)
{
	struct stat st;

	return uaio_uring_tab_is_used() && sys_fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && uaio_uring_tab_has(st.st_dev, st.st_ino);
}

bool uaio_uring_tab_has(uint64_t dev, uint64_t ino)
{
	/* relaxed: a thread got a ring's descriptor only after the ring was made */
	for (struct uaio_uring *ring = uaio_uring_first(); ring;
	     ring = ring->next)
		if (load_relaxed(&ring->ino) == ino &&
		    load_relaxed(&ring->dev) == dev)
			return true;
	return false;
}

static __attribute__((noinline)) struct uaio_uring *
find_slowly(uint32_t fd, struct uaio_uring *ring)
{
	/*
	 * A child of fork() without rings of its own does not empty stale slots, so
	 * query the kernel.
	 */
	if (ring)
		return is_file(fd, load_relaxed(&ring->dev),
			       load_relaxed(&ring->ino))
			       ? ring
			       : NULL;
	return uaio_uring_tab_is_used() ? find_by_file(fd) : NULL;
}

struct uaio_uring *uaio_uring_find(uint32_t fd)
{
	struct uaio_uring *ring = look(fd);

	if (likely(ring) && likely(uaio_uring_is_here(ring)))
		return ring;
	return find_slowly(fd, ring);
}

bool uaio_uring_is_still(uint32_t fd, const struct uaio_uring *ring)
{
	struct uaio_uring **slot = slot_of(fd);

	/* relaxed: the caller holds or uses the ring (ring.h, I2, I4) */
	return slot && load_relaxed(slot) == ring;
}

int uaio_uring_tab_add(uint32_t fd, struct uaio_uring *ring)
{
	struct uaio_uring *old = NULL;

	if (fd != NO_FD && (fd >= FDS_MAX || make_slot(fd) < 0))
		return -ENOMEM;
	lock();
	if (fd != NO_FD)
		old = peek_locked(fd);
	store_relaxed(&ring->dev, ring->mem.dev);
	store_relaxed(&ring->ino, ring->mem.ino);
	store_relaxed(&ring->nr_holds, 1);
	store_relaxed(&tab.is_used, 1);
	if (fd != NO_FD)
		set_locked(fd, ring);
	unlock();
	/* `old` counts fd, which was closed unnoticed, in nr_holds: subtract it. */
	if (old && uaio_uring_is_here(old))
		uaio_uring_let_go(old);
	return 0;
}

bool uaio_uring_tab_adopt(uint32_t fd, struct uaio_uring *ring)
{
	bool is_new;

	if (make_slot(fd) < 0)
		return false;
	lock();
	is_new = !uaio_uring_is_here(ring);
	if (is_new) {
		uaio_uring_take_over(ring);
		/*
		 * Empty the ring's slots: their descriptors may be closed. Open
		 * descriptors are added again when they are used.
		 */
		for (uint32_t i = 0; i < load_relaxed(&tab.end); i++)
			if (peek_locked(i) == ring)
				set_locked(i, NULL);
		store_relaxed(&ring->nr_holds, 1);
		set_locked(fd, ring);
		/*
		 * [MB:uring-epoch] release: write the ring's members before `epoch`.
		 * Pairs with uaio_uring_is_here().
		 */
		store_release(&ring->epoch, uaio_engine_start_nr());
	}
	unlock();
	return is_new;
}

bool uaio_uring_keep(struct uaio_uring *ring)
{
	bool is_open;

	lock();
	is_open = load_relaxed(&ring->nr_holds);
	if (is_open)
		store_relaxed(&ring->nr_holds,
			      load_relaxed(&ring->nr_holds) + 1);
	unlock();
	return is_open;
}

/*
 * Return: whether fd belongs to the client, and not to the library. For a request on a
 * ring's descriptor the library may own a duplicate of this descriptor. The duplicate
 * must not keep the ring, because nothing notices when the library closes it.
 */
static bool is_clients(uint32_t fd, uint64_t dev, uint64_t ino)
{
	bool is_own;

	/*
	 * A descriptor that another thread of the library is just opening or closing
	 * looks like a client's. So let no thread do this now.
	 */
	uaio_ownfds_quiesce();
	is_own = uaio_ownfd_has((int)fd) || !is_file(fd, dev, ino);
	uaio_ownfds_resume();
	return !is_own;
}

/* Set the ring's witness; -1 for none. Return: the previous one, or -1. */
static int swap_witness(struct uaio_uring *ring, int witness)
{
	int old;

	lock();
	/*
	 * relaxed, both: `witness` changes under the lock; readers without the lock
	 * need only a guess
	 */
	old = load_relaxed(&ring->witness);
	store_relaxed(&ring->witness, witness);
	unlock();
	return old;
}

/*
 * Close the ring's witness (witness.h).
 * Return: whether the witness shows that no process has a descriptor of the ring.
 */
static bool testifies(struct uaio_uring *ring)
{
	int witness = -1;

	/* relaxed: this thread opened the witness before the close */
	if (load_relaxed(&ring->witness) >= 0)
		witness = swap_witness(ring, -1);
	return witness >= 0 && uaio_uring_witness_close(witness);
}

void uaio_uring_tab_forget(struct uaio_uring *ring)
{
	(void)testifies(ring);
}

void uaio_uring_tab_closing(uint32_t fd)
{
	struct uaio_uring *ring = look(fd);
	int witness;

	/*
	 * relaxed, both: a wrong guess only costs a search. Open no witness if the ring
	 * has other descriptors, or if fd was closed unnoticed and is another file now.
	 */
	if (!ring || !uaio_engine_is_of_process() ||
	    !uaio_uring_is_here(ring) || load_relaxed(&ring->nr_holds) != 1 ||
	    !is_file(fd, load_relaxed(&ring->dev), load_relaxed(&ring->ino)) ||
	    !uaio_uring_use(ring))
		return;
	witness = ring->mem.is_locked
			  ? uaio_uring_witness_open((int)fd, ring->mem.dev,
						    ring->mem.ino)
			  : -1;
	if (witness >= 0)
		witness = swap_witness(ring, witness);
	/* Another thread also closes this descriptor: close that thread's witness. */
	if (witness >= 0)
		(void)uaio_uring_witness_close(witness);
	uaio_uring_unuse(ring);
}

#ifdef UAIO_TESTING
uint32_t uaio_uring_tab_nr_looked_at;
#endif

/* Return: a descriptor of the ring; NONE if there is none. */
static int find_other(const struct uaio_uring *ring)
{
	uint64_t dev = load_relaxed(&ring->dev), ino = load_relaxed(&ring->ino);
	struct rlimit limit;
	uint32_t end = SEARCHED_MAX;

	if (sys_getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < end)
		end = (uint32_t)limit.rlim_cur;
	/* Device 0 marks a ring without a descriptor (memmap.h). */
	for (uint32_t fd = 0; dev && ino && fd < end; fd++) {
#ifdef UAIO_TESTING
		/* relaxed: a count */
		add_relaxed(&uaio_uring_tab_nr_looked_at, 1);
#endif
		if (is_file(fd, dev, ino) && is_clients(fd, dev, ino))
			return (int)fd;
	}
	return NONE;
}

/* The result of dropping a hold (nr_holds in ring.h). */
enum drop {
	DROP_DONE,
	DROP_LAST, /* it was the last hold */
	/*
	 * nothing was dropped: it is the last hold, so first search for another
	 * descriptor
	 */
	DROP_WAIT,
};

/*
 * Drop the hold that the ring has because of its descriptor fd; NO_FD: a hold without a
 * descriptor. If this is the ring's last hold, and `other` is a descriptor of the ring,
 * `other` keeps the hold. *ret_old: the ring that was in the slot of `other` until now;
 * the descriptor of that ring was closed unnoticed. ino: the ring's inode number when
 * the caller found fd closed. If the ring has another number now, the struct was reused
 * for another ring: drop nothing.
 */
static enum drop drop_locked(struct uaio_uring *ring, uint64_t ino, uint32_t fd,
			     int other, struct uaio_uring **ret_old)
{
	uint32_t nr = load_relaxed(&ring->nr_holds);
	bool is_here = uaio_uring_is_here(ring);

	if (load_relaxed(&ring->ino) != ino ||
	    (fd != NO_FD && peek_locked(fd) != ring))
		return DROP_DONE;
	if (is_here && nr == 1 && other == NOT_SOUGHT)
		return DROP_WAIT;
	if (fd != NO_FD)
		set_locked(fd, NULL);
	if (!is_here)
		return DROP_DONE;
	UAIO_CHECK(nr);
	if (nr == 1 && other >= 0) {
		*ret_old = peek_locked((uint32_t)other);
		set_locked((uint32_t)other, ring);
		return DROP_DONE;
	}
	store_relaxed(&ring->nr_holds, nr - 1);
	if (nr > 1)
		return DROP_DONE;
	store_relaxed(&ring->ino, 0);
	return DROP_LAST;
}

/*
 * Drop a hold: one of those that nr_holds counts (ring.h). Before the last hold is
 * dropped, a search decides whether the ring dies, or keeps the hold for another
 * descriptor that the search has found. The search takes no lock. It could miss a new
 * descriptor only if a thread with a second hold made the descriptor, and dropped that
 * hold during the search. So the result is valid, because the ring had only this hold
 * before the search.
 */
static void drop(struct uaio_uring *ring, uint64_t ino, uint32_t fd)
{
	struct uaio_uring *old = NULL;
	int other = NOT_SOUGHT;
	enum drop ret;

	for (;;) {
		lock();
		ret = drop_locked(ring, ino, fd, other, &old);
		unlock();
		if (ret != DROP_WAIT)
			break;
		other = testifies(ring) ? NONE : find_other(ring);
		if (other >= 0)
			(void)make_slot((uint32_t)other);
	}
	if (ret == DROP_LAST)
		uaio_uring_die(ring);
	else if (other >= 0)
		/*
		 * Another thread may have closed `other` before this thread added it.
		 * If so, empty its slot.
		 */
		closed((uint32_t)other);
	if (old && uaio_uring_is_here(old))
		uaio_uring_let_go(old);
}

void uaio_uring_let_go(struct uaio_uring *ring)
{
	drop(ring, load_relaxed(&ring->ino), NO_FD);
}

/* Empty the slot of fd if fd is closed. Not called in a child of vfork(). */
static void closed_here(uint32_t fd)
{
	struct uaio_uring *ring = look(fd);
	uint64_t ino;

	/* Another thread may have emptied the slot meanwhile. */
	if (likely(!ring))
		return;
	ino = load_relaxed(&ring->ino);
	if (!is_file(fd, load_relaxed(&ring->dev), ino))
		drop(ring, ino, fd);
	/*
	 * Close a witness that was not needed: fd is still open, or the table has another
	 * descriptor of the ring now.
	 */
	(void)testifies(ring);
}

static void closed(uint32_t fd)
{
	/*
	 * A child of vfork() has closed only its own descriptor, so do nothing there.
	 */
	if (unlikely(look(fd)) && uaio_engine_is_of_process())
		closed_here(fd);
}

void uaio_uring_tab_closed(unsigned first, unsigned last)
{
	/* relaxed: a descriptor is added to the table before a thread closes it */
	uint32_t end = load_relaxed(&tab.end);

	for (uint32_t fd = first; fd <= last && fd < end; fd++)
		closed(fd);
}

void uaio_uring_tab_sweep(void)
{
	enum { LOOKED_AT_MAX = 4096, ASKED_MAX = 8 };
	/* relaxed, both: it does not matter which thread sweeps which slots */
	uint32_t end = load_relaxed(&tab.end), fd = load_relaxed(&tab.swept);
	unsigned nr_asked = 0;

	if (!end || !uaio_engine_is_of_process())
		return;
	for (uint32_t i = 0; i < end && i < LOOKED_AT_MAX; i++) {
		if (nr_asked == ASKED_MAX)
			break;
		fd = fd + 1 < end ? fd + 1 : 0;
		if (!look(fd))
			continue;
		closed_here(fd);
		nr_asked++;
	}
	store_relaxed(&tab.swept, fd);
}

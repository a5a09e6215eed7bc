/* SPDX-License-Identifier: MIT */
/*
 * The 16 slots of a thread for registered rings, of the library and of the kernel
 *
 * One process may have rings of the library and rings of the kernel, because the kernel
 * charges each ring to RLIMIT_MEMLOCK and may refuse only some. If a call names a ring
 * by a descriptor, the library knows from the descriptor whose ring it is. But a
 * registered ring is named by one of 16 slots of the thread. The kernel does not know
 * which slots have rings of the library. So this file keeps rings of the library and of
 * the kernel apart:
 *
 *   I1  A slot of a thread holds a ring of the library or of the kernel, never both. The
 *       library records the slots that the kernel has filled. It does not pass a
 *       registration on to the kernel if the slot holds a ring of the library.
 *   I2  A child of fork() has none of its parent's slots, neither in the kernel nor
 *       here.
 *
 * Tested by test-uring-register.c, test-uring-kernels.c and test/uring/uring.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/slab.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/table.h"
#include "uring/uring.h"

struct places {
	struct uaio_slab_node node;
	uint32_t
		/*
		 * uaio_engine_start_nr() when this struct was made; a child of fork()
		 * has another number, and so none of these slots
		 */
		start_nr;
	/* or NULL; each slot counts in nr_holds of its ring (ring.h) */
	struct uaio_uring *rings[UAIO_URING_RINGFDS_MAX];
};

static struct {
	struct uaio_slab slab;
	/* uaio_engine_start_nr() when the slab was made; a child makes a new slab */
	uint32_t start_nr;
	struct uaio_lock lock; /* rank TABLE */
	pthread_key_t key;
	bool has_key;
} regrings;

/* Return: the slots of this thread, or NULL. */
static struct places *mine(void)
{
	return regrings.has_key ? pthread_getspecific(regrings.key) : NULL;
}

static bool is_current(const struct places *places)
{
	return places && places->start_nr == uaio_engine_start_nr();
}

/* A thread ends: let go of the rings in its slots (nr_holds), and free the slots. */
static void forget(void *value)
{
	struct places *places = value;

	if (!is_current(places) || !uaio_engine_is_up() || !uaio_enter())
		return;
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++)
		if (places->rings[i])
			uaio_uring_let_go(places->rings[i]);
	uaio_slab_put(&regrings.slab, places);
	uaio_leave();
}

void uaio_uring_regrings_forget(void)
{
	/*
	 * When the parent forked, one of its threads may have held the lock: reset it.
	 */
	regrings.lock = (struct uaio_lock){ 0 };
}

void uaio_uring_regrings_init(void)
{
	if (!regrings.has_key)
		regrings.has_key = !pthread_key_create(&regrings.key, forget);
}

/* Return: the slots of this thread; NULL if memory is refused. */
static struct places *places_of_mine(void)
{
	struct places *places = mine();

	if (!regrings.has_key || is_current(places))
		return places;
	uaio_lock(&regrings.lock, UAIO_RANK_TABLE);
	if (regrings.start_nr != uaio_engine_start_nr())
		uaio_slab_init(&regrings.slab, sizeof(struct places), 4096);
	regrings.start_nr = uaio_engine_start_nr();
	uaio_unlock(&regrings.lock, UAIO_RANK_TABLE);
	places = uaio_slab_get(&regrings.slab);
	if (!places)
		return NULL;
	places->start_nr = uaio_engine_start_nr();
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++)
		places->rings[i] = NULL;
	if (pthread_setspecific(regrings.key, places) == 0)
		return places;
	uaio_slab_put(&regrings.slab, places);
	return NULL;
}

struct uaio_uring *uaio_uring_registered(uint32_t place)
{
	const struct places *places = mine();

	return place < UAIO_URING_RINGFDS_MAX && is_current(places)
		       ? places->rings[place]
		       : NULL;
}

void uaio_uring_meet_thread(void)
{
	/*
	 * If memory is refused, the thread counts as one that never had a ring: calls
	 * by a registered slot fail with EINVAL instead of EBADF.
	 */
	(void)places_of_mine();
}

bool uaio_uring_knows_thread(void)
{
	return mine() != NULL;
}

/* Put a ring into the slot that the client names, or a free one. */
static int add(struct places *places, struct uaio_uring *ring, uint32_t *offset)
{
	uint32_t first = *offset, end = *offset + 1;

	if (*offset == UINT32_MAX) {
		first = 0;
		end = UAIO_URING_RINGFDS_MAX;
	}
	for (uint32_t i = first; i < end; i++) {
		if (places->rings[i] || uaio_uring_is_kernels_slot(i))
			continue;
		if (!uaio_uring_keep(ring))
			return -EBADF;
		places->rings[i] = ring;
		*offset = i;
		return 0;
	}
	return -EBUSY;
}

int uaio_uring_register_new(struct uaio_uring *ring)
{
	struct places *places = places_of_mine();

	if (!places)
		return -ENOMEM;
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++) {
		if (places->rings[i] || uaio_uring_is_kernels_slot(i))
			continue;
		places->rings[i] = ring;
		return (int)i;
	}
	return -EBUSY;
}

void uaio_uring_unregister_place(uint32_t place)
{
	struct places *places = mine();
	struct uaio_uring *ring = places->rings[place];

	places->rings[place] = NULL;
	if (ring)
		uaio_uring_let_go(ring);
}

static int register_one(struct places *places, uint64_t at)
{
	struct io_uring_rsrc_update update;
	struct uaio_uring *ring;
	int ret;

	if (uaio_uring_copy_in(&update, at, sizeof(update)) < 0)
		return -EFAULT;
	if (update.resv)
		return -EINVAL;
	if (update.offset != UINT32_MAX &&
	    update.offset >= UAIO_URING_RINGFDS_MAX)
		return -EINVAL;
	ring = uaio_uring_ask((uint32_t)update.data);
	if (!ring)
		return sys_fcntl((int)update.data, F_GETFD, 0) < 0
			       ? -EBADF
			       : -EOPNOTSUPP;
	if (!uaio_uring_is_here(ring))
		return -EBADF;
	ret = add(places, ring, &update.offset);
	if (ret < 0)
		return ret;
	if (!uaio_uring_is_still((uint32_t)update.data, ring)) {
		/* The descriptor was closed meanwhile, and fd is another ring now. */
		places->rings[update.offset] = NULL;
		uaio_uring_let_go(ring);
		return -EBADF;
	}
	if (uaio_uring_copy_out(at, &update, sizeof(update)) == 0)
		return 0;
	places->rings[update.offset] = NULL;
	uaio_uring_let_go(ring);
	return -EFAULT;
}

static int unregister_one(struct places *places, uint64_t at)
{
	struct io_uring_rsrc_update update;

	(void)places; /* uaio_uring_unregister_place() finds the slots itself */
	if (uaio_uring_copy_in(&update, at, sizeof(update)) < 0)
		return -EFAULT;
	if (update.resv || update.data ||
	    update.offset >= UAIO_URING_RINGFDS_MAX)
		return -EINVAL;
	uaio_uring_unregister_place(update.offset);
	return 0;
}

static long for_all(void *arg, uint32_t nr,
		    int (*act)(struct places *places, uint64_t at))
{
	struct places *places;
	uint32_t i;
	int ret = 0;

	if (!nr || nr > UAIO_URING_RINGFDS_MAX)
		return -EINVAL;
	places = places_of_mine();
	if (!places)
		return -ENOMEM;
	for (i = 0; i < nr && ret == 0; i++)
		ret = act(places,
			  (uintptr_t)arg +
				  i * sizeof(struct io_uring_rsrc_update));
	return ret < 0 && i == 1 ? ret : (long)i - (ret < 0);
}

long uaio_uring_register_rings(void *arg, uint32_t nr)
{
	return for_all(arg, nr, register_one);
}

long uaio_uring_unregister_rings(void *arg, uint32_t nr)
{
	if (nr && nr <= UAIO_URING_RINGFDS_MAX && !uaio_uring_knows_thread())
		return 0;
	return for_all(arg, nr, unregister_one);
}

/* Rings of the kernel */

/*
 * whether the kernel has made a ring for this process; atomic; relaxed, because a
 * client that uses the ring in another thread orders both calls
 */
static bool has_kernels;

/*
 * The slots that the kernel has filled for this thread, in the process `pid` (I2).
 */
static _Thread_local struct {
	int pid;
	uint32_t slots; /* a bit for each slot */
} of_kernel __attribute__((tls_model("initial-exec")));

static uint32_t kernels_slots(void)
{
	return of_kernel.slots && of_kernel.pid == sys_getpid()
		       ? of_kernel.slots
		       : 0;
}

static void note_slot(uint32_t slot, bool is_filled)
{
	const uint32_t bit = 1u << slot;

	of_kernel.slots =
		is_filled ? kernels_slots() | bit : kernels_slots() & ~bit;
	of_kernel.pid = sys_getpid();
}

bool uaio_uring_has_kernels(void)
{
	return load_relaxed(&has_kernels);
}

bool uaio_uring_is_kernels_slot(uint32_t slot)
{
	return kernels_slots() >> slot & 1;
}

bool uaio_uring_is_kernels_ring(uint32_t fd)
{
	int ret;

	if (!uaio_uring_has_kernels())
		return false;
	/*
	 * With nothing to submit and no wait, the kernel's call only checks the
	 * descriptor.
	 */
	ret = sys_uring_enter((int)fd, 0, 0, 0);
	return ret != -EOPNOTSUPP && ret != -EBADF && ret != -ENOSYS;
}

/*
 * Make the program's io_uring_register() call for one slot only.
 * Return: its result.
 */
static long ask(const long a[4], struct io_uring_rsrc_update *update)
{
	return sys_uring_register((int)a[0], (unsigned)a[1], update, 1);
}

bool uaio_uring_note_kernels(long ret, const struct io_uring_params *params)
{
	struct io_uring_rsrc_update update = { .offset = (uint32_t)ret };
	struct io_uring_params made;

	store_relaxed(&has_kernels, true);
	/* This copy cannot fail: the kernel has just written to params. */
	if (uaio_uring_copy_in(&made, (uintptr_t)params, sizeof(made)) < 0)
		return true;
	if (!(made.flags & IORING_SETUP_REGISTERED_FD_ONLY)) {
		/*
		 * If a ring of the library had this descriptor before, empty its slot.
		 */
		if (uaio_uring_tab_is_used() && uaio_enter()) {
			uaio_uring_tab_closed((unsigned)ret, (unsigned)ret);
			uaio_leave();
		}
		return true;
	}
	if (!uaio_uring_registered((uint32_t)ret)) {
		note_slot((uint32_t)ret, true);
		return true;
	}
	(void)ask(
		(const long[4]){ ret,
				 IORING_UNREGISTER_RING_FDS |
					 IORING_REGISTER_USE_REGISTERED_RING },
		&update);
	return false;
}

bool uaio_uring_attaches_to_ours(const struct io_uring_params *params)
{
	struct io_uring_params asked;

	return unlikely(uaio_uring_tab_is_used()) &&
	       uaio_uring_copy_in(&asked, (uintptr_t)params, sizeof(asked)) ==
		       0 &&
	       asked.flags & IORING_SETUP_ATTACH_WQ &&
	       uaio_uring_ask(asked.wq_fd);
}

/*
 * Fill the slot that the client names, or the first free one.
 * Return: the kernel's result.
 */
static long fill(const long a[4], struct io_uring_rsrc_update *update)
{
	const bool is_any = update->offset == UINT32_MAX;
	uint32_t slot = is_any ? 0 : update->offset;
	uint32_t end = is_any ? UAIO_URING_RINGFDS_MAX : slot + 1;
	long ret;

	for (; slot < end; slot++) {
		if (uaio_uring_registered(slot))
			continue;
		update->offset = slot;
		ret = ask(a, update);
		if (ret != -EBUSY || !is_any)
			return ret;
		/*
		 * The program has filled the slot by its own system call instruction:
		 * record it, and try the next slot.
		 */
		note_slot(slot, true);
	}
	return -EBUSY;
}

/* Fill or empty one slot. Return: 0; -EFAULT; or the kernel's error. */
static long do_one(const long a[4], uint64_t at, bool fills)
{
	struct io_uring_rsrc_update update;
	long ret;

	if (uaio_uring_copy_in(&update, at, sizeof(update)) < 0)
		return -EFAULT;
	ret = fills ? fill(a, &update) : ask(a, &update);
	if (ret < 0)
		return ret;
	note_slot(update.offset, fills);
	if (!fills || uaio_uring_copy_out(at, &update, sizeof(update)) == 0)
		return 0;
	update.data = 0;
	(void)sys_uring_register(
		(int)a[0],
		IORING_UNREGISTER_RING_FDS |
			((unsigned)a[1] & IORING_REGISTER_USE_REGISTERED_RING),
		&update, 1);
	note_slot(update.offset, false);
	return -EFAULT;
}

long uaio_uring_register_kernels(const long a[4])
{
	const uint32_t opcode =
		(uint32_t)a[1] & ~IORING_REGISTER_USE_REGISTERED_RING;
	const uint32_t nr = (uint32_t)a[3];
	long ret = 0;
	uint32_t i;

	if (!nr || nr > UAIO_URING_RINGFDS_MAX)
		return sys_uring_register((int)a[0], (unsigned)a[1],
					  (void *)a[2], nr);
	for (i = 0; i < nr; i++) {
		ret = do_one(a,
			     (uint64_t)a[2] +
				     i * sizeof(struct io_uring_rsrc_update),
			     opcode == IORING_REGISTER_RING_FDS);
		if (ret < 0)
			break;
	}
	return i ? (long)i : ret;
}

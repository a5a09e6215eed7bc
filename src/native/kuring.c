/* SPDX-License-Identifier: MIT */
/* Tested by test-driver.c. */
#include "native/krings.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "proc/ownfd.h"

/* Older kernel headers lack these constants of io_uring. */
enum {
	SETUP_SUBMIT_ALL = 1 << 7,
	SETUP_COOP_TASKRUN = 1 << 8,
	ENTER_REGISTERED_RING = 1 << 4,
	REGISTER_IOWQ_MAX_WORKERS = 19,
	REGISTER_RING_FDS = 20,
};

/* A kernel with these features also knows all the constants above. */
#define NEEDED_FEATURES                                 \
	(IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | \
	 IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS)

static void *map(int fd, size_t bytes, int64_t off)
{
	void *at = sys_mmap_file(bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_POPULATE, fd, off);

	if (sys_is_map_error(at))
		return NULL;
	(void)sys_madvise(at, bytes, MADV_DONTFORK);
	return at;
}

static void *at(const struct uaio_kuring *ring, uint32_t off)
{
	return (char *)ring->rings + off;
}

/* Map the ring's memory by means of its descriptor. */
static int map_all(struct uaio_kuring *ring, const struct io_uring_params *p)
{
	size_t sq = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	size_t cq =
		p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	uint32_t *array;

	ring->rings_bytes = sq > cq ? sq : cq;
	ring->sqes_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
	ring->rings = map(ring->fd, ring->rings_bytes, IORING_OFF_SQ_RING);
	ring->sqes = map(ring->fd, ring->sqes_bytes, IORING_OFF_SQES);
	if (!ring->rings || !ring->sqes)
		return -ENOMEM;
	ring->sq_head = at(ring, p->sq_off.head);
	ring->sq_tail = at(ring, p->sq_off.tail);
	ring->cq_head = at(ring, p->cq_off.head);
	ring->cq_tail = at(ring, p->cq_off.tail);
	ring->cqes = at(ring, p->cq_off.cqes);
	ring->sq_entries = p->sq_entries;
	ring->cq_entries = p->cq_entries;
	array = at(ring, p->sq_off.array);
	for (uint32_t i = 0; i < ring->sq_entries; i++)
		array[i] = i;
	return 0;
}

int uaio_kuring_open(unsigned nr_sq, unsigned nr_cq,
		     struct uaio_kuring *ret_ring)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | SETUP_SUBMIT_ALL |
			 SETUP_COOP_TASKRUN,
		.cq_entries = nr_cq,
	};
	int ret;

	*ret_ring = (struct uaio_kuring){ .fd = -1 };
	ret = uaio_ownfd_uring(nr_sq, &params);
	if (ret < 0)
		return ret;
	ret_ring->fd = ret;
	ret = (params.features & NEEDED_FEATURES) == NEEDED_FEATURES
		      ? map_all(ret_ring, &params)
		      : -ENOSYS;
	if (ret < 0)
		uaio_kuring_close(ret_ring);
	return ret;
}

int uaio_kuring_adopt(struct uaio_kuring *ring)
{
	struct io_uring_rsrc_update update = {
		.offset = UINT32_MAX, /* any free index */
		.data = (uint64_t)ring->fd,
	};
	/*
	 * Let the kernel have a thread for each request that would block; by default it
	 * has few.
	 */
	uint32_t nr_threads[2] = { ring->cq_entries, 0 };
	int ret;

	(void)sys_uring_register(ring->fd, REGISTER_IOWQ_MAX_WORKERS,
				 nr_threads, 2);
	ret = sys_uring_register(ring->fd, REGISTER_RING_FDS, &update, 1);

	ring->index = update.offset;
	return ret == 1 ? 0 : ret < 0 ? ret : -ENOSYS;
}

void uaio_kuring_drop_fd(struct uaio_kuring *ring)
{
	if (ring->fd >= 0)
		uaio_ownfd_close(ring->fd);
	ring->fd = -1;
}

void uaio_kuring_close(struct uaio_kuring *ring)
{
	uaio_kuring_drop_fd(ring);
	if (ring->rings)
		(void)sys_munmap(ring->rings, ring->rings_bytes);
	if (ring->sqes)
		(void)sys_munmap(ring->sqes, ring->sqes_bytes);
	ring->rings = ring->sqes = NULL;
}

struct io_uring_sqe *uaio_kuring_next(struct uaio_kuring *ring)
{
	/*
	 * relaxed: only this thread writes the tail. When a submitting call returns, the
	 * kernel has consumed the entries before the tail, so they may be filled again.
	 */
	uint32_t nr = ring->filled - load_relaxed(ring->sq_tail);
	struct io_uring_sqe *sqe;

	if (nr >= ring->sq_entries)
		return NULL;
	sqe = &ring->sqes[ring->filled++ & (ring->sq_entries - 1)];
	memset(sqe, 0, sizeof(*sqe));
	return sqe;
}

int uaio_kuring_submit(struct uaio_kuring *ring)
{
	/* relaxed: only this thread writes the tail */
	uint32_t nr = ring->filled - load_relaxed(ring->sq_tail);
	int ret;

	/*
	 * [MB:kuring] release: publishes the filled entries. Pairs with the
	 * kernel.
	 */
	store_release(ring->sq_tail, ring->filled);
	ret = sys_uring_enter((int)ring->index, nr, 0, ENTER_REGISTERED_RING);
	if (likely(ret == (int)nr))
		return ret;
	/* The kernel has not consumed these entries: discard them. */
	ring->filled -= nr - (ret > 0 ? (uint32_t)ret : 0);
	/* relaxed: the kernel reads the tail only during calls of this thread */
	store_relaxed(ring->sq_tail, ring->filled);
	return ret ? ret : -EAGAIN;
}

unsigned uaio_kuring_take(struct uaio_kuring *ring,
			  struct io_uring_cqe *ret_cqes, unsigned max)
{
	/* relaxed: only this thread writes the head */
	uint32_t head = load_relaxed(ring->cq_head);
	/*
	 * [MB:kuring] acquire: read the tail first, then the completions. Pairs with the
	 * kernel.
	 */
	uint32_t tail = load_acquire(ring->cq_tail);
	unsigned nr = 0;

	/* The program may have overwritten this memory, so check the values. */
	if (unlikely(tail - head > ring->cq_entries))
		return 0;
	while (head != tail && nr < max)
		ret_cqes[nr++] = ring->cqes[head++ & (ring->cq_entries - 1)];
	/*
	 * [MB:kuring] release: before this store, this thread has read the completions.
	 * Pairs with the kernel.
	 */
	if (nr)
		store_release(ring->cq_head, head);
	return nr;
}

/* SPDX-License-Identifier: MIT */
/* Sets up, maps and tears down a ring. Tested by test/uring/library.c. */
#include "liburing/liburing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "host/host.h"

enum {
	HUGE_PAGE = 2 << 20,
	READ_WRITE = 3, /* PROT_READ | PROT_WRITE */
	SHARED_POPULATED = 0x8001,
	/* the flags MAP_ANONYMOUS, MAP_SHARED and MAP_POPULATE together */
	ANONYMOUS = 0x8021,
	HUGETLB = 0x40000,
	DONTFORK = 10,
	/* size of the part before the CQEs, with the heads, tails and other words */
	RINGS_BYTES = 64,
	SQ_ENTRIES_MAX = 32768,
	CQ_ENTRIES_MAX = 2 * SQ_ENTRIES_MAX,
	NR_PROBED = 256,
};

UAIO_EXPORT int io_uring_setup(unsigned nr_entries, struct io_uring_params *p);
UAIO_EXPORT int io_uring_queue_mmap(int fd, struct io_uring_params *p,
				    struct uaio_liburing *ring);
UAIO_EXPORT int io_uring_queue_init(unsigned nr_entries,
				    struct uaio_liburing *ring, unsigned flags);
UAIO_EXPORT int io_uring_queue_init_params(unsigned nr_entries,
					   struct uaio_liburing *ring,
					   struct io_uring_params *p);
UAIO_EXPORT int io_uring_queue_init_mem(unsigned nr_entries,
					struct uaio_liburing *ring,
					struct io_uring_params *p, void *buf,
					size_t bytes);
UAIO_EXPORT void io_uring_queue_exit(struct uaio_liburing *ring);
UAIO_EXPORT int io_uring_ring_dontfork(struct uaio_liburing *ring);
UAIO_EXPORT int io_uring_resize_rings(struct uaio_liburing *ring,
				      struct io_uring_params *p);
UAIO_EXPORT struct io_uring_probe *
io_uring_get_probe_ring(struct uaio_liburing *ring);
UAIO_EXPORT struct io_uring_probe *io_uring_get_probe(void);
UAIO_EXPORT void io_uring_free_probe(struct io_uring_probe *probe);
UAIO_EXPORT ssize_t io_uring_mlock_size_params(unsigned nr_entries,
					       struct io_uring_params *p);
UAIO_EXPORT ssize_t io_uring_mlock_size(unsigned nr_entries, unsigned flags);

static void *map(size_t bytes, int flags, int fd, uint64_t offset)
{
	return (void *)uaio_host_raw_mmap((const long[6]){
		0, (long)bytes, READ_WRITE, flags, fd, (long)offset });
}

static void unmap(void *addr, size_t bytes)
{
	(void)uaio_host_raw_munmap(addr, bytes);
}

int io_uring_setup(unsigned nr_entries, struct io_uring_params *p)
{
	return (int)uaio_host_uring_setup(nr_entries, (long)p);
}

/*
 * Sizes
 */

static size_t sqe_bytes(const struct io_uring_params *p)
{
	return p->flags & IORING_SETUP_SQE128 ? 128 : 64;
}

static size_t cqe_bytes(const struct io_uring_params *p)
{
	return p->flags & IORING_SETUP_CQE32 ? 32 : 16;
}

/* Setting the pointers to the words of the rings */

static uint32_t *word(void *ring, uint32_t offset)
{
	return (uint32_t *)((char *)ring + offset);
}

/*
 * Set the pointers to the words of both rings. The sizes are those that the system call
 * has returned in params. They are not read from the rings: other processes may write
 * to the rings, and with a wrong size the program would access memory beyond them.
 */
static void point(const struct io_uring_params *p, struct uaio_liburing *ring)
{
	struct uaio_liburing_sq *sq = &ring->sq;
	struct uaio_liburing_cq *cq = &ring->cq;

	sq->khead = word(sq->ring, p->sq_off.head);
	sq->ktail = word(sq->ring, p->sq_off.tail);
	sq->kring_mask = word(sq->ring, p->sq_off.ring_mask);
	sq->kring_entries = word(sq->ring, p->sq_off.ring_entries);
	sq->kflags = word(sq->ring, p->sq_off.flags);
	sq->kdropped = word(sq->ring, p->sq_off.dropped);
	sq->array = p->flags & U_SETUP_NO_SQARRAY
			    ? NULL
			    : word(sq->ring, p->sq_off.array);
	sq->mask = p->sq_entries - 1;
	sq->nr_entries = p->sq_entries;
	cq->khead = word(cq->ring, p->cq_off.head);
	cq->ktail = word(cq->ring, p->cq_off.tail);
	cq->kring_mask = word(cq->ring, p->cq_off.ring_mask);
	cq->kring_entries = word(cq->ring, p->cq_off.ring_entries);
	cq->koverflow = word(cq->ring, p->cq_off.overflow);
	cq->kflags = p->cq_off.flags ? word(cq->ring, p->cq_off.flags) : NULL;
	cq->cqes = (struct io_uring_cqe *)word(cq->ring, p->cq_off.cqes);
	cq->mask = p->cq_entries - 1;
	cq->nr_entries = p->cq_entries;
}

/*
 * Fill the submission array (I2 in liburing.h). When the first submission is published,
 * the store of the queue's tail also publishes the array.
 */
static void fill_array(struct uaio_liburing_sq *sq)
{
	for (uint32_t i = 0; sq->array && i < sq->nr_entries; i++)
		store_relaxed(&sq->array[i], i);
}

static void unmap_rings(struct uaio_liburing *ring)
{
	if (ring->sq.ring)
		unmap(ring->sq.ring, ring->sq.ring_bytes);
	if (ring->cq.ring && ring->cq.ring != ring->sq.ring)
		unmap(ring->cq.ring, ring->cq.ring_bytes);
}

/*
 * Map a part of the ring.
 * Return: 0 with *ret_addr; or -errno.
 */
static int map_part(size_t bytes, int fd, uint64_t offset, void *ret_addr)
{
	void *addr = map(bytes, SHARED_POPULATED, fd, offset);

	if (sys_is_map_error(addr))
		return (int)(intptr_t)addr;
	*(void **)ret_addr = addr;
	return 0;
}

static int map_rings(int fd, const struct io_uring_params *p,
		     struct uaio_liburing *ring)
{
	struct uaio_liburing_sq *sq = &ring->sq;
	struct uaio_liburing_cq *cq = &ring->cq;
	int ret;

	sq->ring_bytes = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	cq->ring_bytes = p->cq_off.cqes + p->cq_entries * cqe_bytes(p);
	sq->sqes_bytes = (uint32_t)(p->sq_entries * sqe_bytes(p));
	if (p->features & IORING_FEAT_SINGLE_MMAP) {
		if (cq->ring_bytes > sq->ring_bytes)
			sq->ring_bytes = cq->ring_bytes;
		cq->ring_bytes = sq->ring_bytes;
	}
	ret = map_part(sq->ring_bytes, fd, IORING_OFF_SQ_RING, &sq->ring);
	if (ret == 0 && p->features & IORING_FEAT_SINGLE_MMAP)
		cq->ring = sq->ring;
	else if (ret == 0)
		ret = map_part(cq->ring_bytes, fd, IORING_OFF_CQ_RING,
			       &cq->ring);
	if (ret == 0)
		ret = map_part(sq->sqes_bytes, fd, IORING_OFF_SQES, &sq->sqes);
	if (ret < 0)
		unmap_rings(ring);
	else
		point(p, ring);
	return ret;
}

int io_uring_queue_mmap(int fd, struct io_uring_params *p,
			struct uaio_liburing *ring)
{
	int ret;

	memset(ring, 0, sizeof(*ring));
	ret = map_rings(fd, p, ring);
	if (ret < 0)
		return ret;
	ring->flags = p->flags;
	ring->features = p->features;
	ring->ring_fd = fd;
	ring->enter_fd = fd;
	return 0;
}

/* Rings in memory of the program (IORING_SETUP_NO_MMAP) */

static uint32_t power_of_two(uint32_t n)
{
	uint32_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

/*
 * Compute how many entries the kernel will give both queues.
 * Return: 0; -EINVAL if the kernel refuses the requested numbers.
 */
static int count_entries(uint32_t nr, const struct io_uring_params *p,
			 uint32_t *ret_sq, uint32_t *ret_cq)
{
	uint32_t nr_cq = p->flags & IORING_SETUP_CQSIZE ? p->cq_entries : 0;

	if (!nr || (p->flags & IORING_SETUP_CQSIZE && !nr_cq))
		return -EINVAL;
	if (!(p->flags & IORING_SETUP_CLAMP) &&
	    (nr > SQ_ENTRIES_MAX || nr_cq > CQ_ENTRIES_MAX))
		return -EINVAL;
	nr = power_of_two(nr > SQ_ENTRIES_MAX ? SQ_ENTRIES_MAX : nr);
	nr_cq = nr_cq > CQ_ENTRIES_MAX ? CQ_ENTRIES_MAX : nr_cq;
	*ret_sq = nr;
	*ret_cq = nr_cq ? power_of_two(nr_cq) : 2 * nr;
	return *ret_cq < nr ? -EINVAL : 0;
}

static size_t whole_pages(size_t bytes)
{
	size_t page = getauxval(AT_PAGESZ);

	return (bytes + page - 1) & ~(page - 1);
}

/*
 * Return: the offset of the submission array in the kernel's ring: after the CQEs,
 * aligned to a cache line.
 */
static size_t array_offset(const struct io_uring_params *p, uint32_t nr_cq)
{
	const size_t line = 64;
	size_t bytes = RINGS_BYTES + nr_cq * cqe_bytes(p);

	return (bytes + line - 1) & ~(line - 1);
}

struct sizes {
	/* in bytes; multiples of the page size */
	size_t sqes, rings;
};

static int measure(uint32_t nr_entries, const struct io_uring_params *p,
		   struct sizes *ret)
{
	uint32_t nr_sq, nr_cq;
	size_t rings;
	int r = count_entries(nr_entries, p, &nr_sq, &nr_cq);

	if (r < 0)
		return r;
	rings = p->flags & U_SETUP_NO_SQARRAY
			? RINGS_BYTES + nr_cq * cqe_bytes(p)
			: array_offset(p, nr_cq) + nr_sq * sizeof(uint32_t);
	ret->sqes = whole_pages(nr_sq * sqe_bytes(p));
	ret->rings = whole_pages(rings);
	return 0;
}

/*
 * Map memory for a ring. The kernel accepts only one page, or one huge page.
 */
static void *map_clients(size_t *bytes)
{
	bool is_small = *bytes <= getauxval(AT_PAGESZ);

	*bytes = is_small ? *bytes : HUGE_PAGE;
	return map(*bytes, is_small ? ANONYMOUS : ANONYMOUS | HUGETLB, -1, 0);
}

struct memory {
	char *sqes, *rings;
	/* how many bytes to unmap; 0: the memory belongs to the caller */
	size_t sqes_bytes, rings_bytes;
	size_t used;
};

static void free_memory(const struct memory *memory)
{
	if (memory->sqes_bytes)
		unmap(memory->sqes, memory->sqes_bytes);
	if (memory->rings_bytes)
		unmap(memory->rings, memory->rings_bytes);
}

static int get_memory(const struct sizes *sizes, void *buf, size_t bytes,
		      struct memory *memory)
{
	void *at;

	*memory = (struct memory){ .sqes = buf,
				   .used = sizes->sqes + sizes->rings };
	if (buf) {
		memory->rings = (char *)buf + sizes->sqes;
		return memory->used > bytes ? -ENOMEM : 0;
	}
	if (sizes->sqes > HUGE_PAGE || sizes->rings > HUGE_PAGE)
		return -ENOMEM;
	memory->sqes_bytes = sizes->sqes;
	at = map_clients(&memory->sqes_bytes);
	if (sys_is_map_error(at))
		return (int)(intptr_t)at;
	memory->sqes = at;
	memory->rings = memory->sqes + sizes->sqes;
	if (memory->used <= memory->sqes_bytes)
		return 0;
	memory->rings_bytes = sizes->rings;
	at = map_clients(&memory->rings_bytes);
	if (sys_is_map_error(at)) {
		unmap(memory->sqes, memory->sqes_bytes);
		return (int)(intptr_t)at;
	}
	memory->rings = at;
	return 0;
}

/*
 * Set user_addr of both queues. Older headers have a reserved word in its place, so
 * write it by address.
 */
static void name_memory(struct io_uring_params *p, const struct memory *memory)
{
	uint64_t rings = (uintptr_t)memory->rings;
	uint64_t sqes = (uintptr_t)memory->sqes;

	static_assert(sizeof(p->cq_off) == 40 && sizeof(p->sq_off) == 40,
		      "the address is in the last eight bytes");
	memcpy((char *)&p->cq_off + 32, &rings, 8);
	memcpy((char *)&p->sq_off + 32, &sqes, 8);
}

/*
 * Set the pointers to the rings, which are in `memory`. If sqes_bytes is not 0,
 * io_uring_queue_exit() unmaps the memory.
 */
static void place(const struct io_uring_params *p, const struct memory *memory,
		  struct uaio_liburing *ring)
{
	ring->sq.sqes = (struct io_uring_sqe *)memory->sqes;
	ring->sq.sqes_bytes = (uint32_t)memory->sqes_bytes;
	ring->sq.ring = memory->rings;
	ring->cq.ring = memory->rings;
	ring->sq.ring_bytes = memory->rings_bytes;
	ring->cq.ring_bytes = memory->rings_bytes;
	ring->int_flags |= UAIO_LIBURING_HAS_CLIENTS_MEMORY;
	point(p, ring);
}

/*
 * Setting up
 */

/* The ring exists: fill in the members that other functions use. */
static void finish(int fd, const struct io_uring_params *p,
		   struct uaio_liburing *ring)
{
	ring->flags = p->flags;
	ring->features = p->features;
	ring->enter_fd = fd;
	ring->ring_fd = fd;
	if (p->flags & U_SETUP_REGISTERED_FD_ONLY) {
		ring->ring_fd = -1;
		ring->int_flags |= UAIO_LIBURING_ENTERS_BY_INDEX |
				   UAIO_LIBURING_REGISTERS_BY_INDEX;
	}
	fill_array(&ring->sq);
}

static int init_mapped(unsigned nr_entries, struct uaio_liburing *ring,
		       struct io_uring_params *p)
{
	int fd = io_uring_setup(nr_entries, p), ret;

	if (fd < 0)
		return fd;
	ret = map_rings(fd, p, ring);
	if (ret < 0) {
		(void)uaio_host_raw_close(fd);
		return ret;
	}
	finish(fd, p, ring);
	return 0;
}

/*
 * Make a ring in the memory buf or, if buf is NULL, in new memory.
 * Return: how many bytes of the memory the ring uses; or -errno.
 */
static int init_in_memory(unsigned nr_entries, struct uaio_liburing *ring,
			  struct io_uring_params *p, void *buf, size_t bytes)
{
	struct memory memory = { 0 };
	struct sizes sizes;
	int ret = measure(nr_entries, p, &sizes);

	if (ret == 0)
		ret = get_memory(&sizes, buf, bytes, &memory);
	if (ret < 0)
		return ret;
	name_memory(p, &memory);
	ret = io_uring_setup(nr_entries, p);
	if (ret < 0) {
		free_memory(&memory);
		return ret;
	}
	place(p, &memory, ring);
	finish(ret, p, ring);
	return (int)memory.used;
}

int io_uring_queue_init_mem(unsigned nr_entries, struct uaio_liburing *ring,
			    struct io_uring_params *p, void *buf, size_t bytes)
{
	memset(ring, 0, sizeof(*ring));
	/*
	 * The rings are in memory of the program, so the ring needs the flag NO_MMAP.
	 */
	p->flags |= U_SETUP_NO_MMAP;
	return init_in_memory(nr_entries, ring, p, buf, bytes);
}

int io_uring_queue_init_params(unsigned nr_entries, struct uaio_liburing *ring,
			       struct io_uring_params *p)
{
	int ret;

	memset(ring, 0, sizeof(*ring));
	if (!(p->flags & U_SETUP_NO_MMAP))
		return init_mapped(nr_entries, ring, p);
	ret = init_in_memory(nr_entries, ring, p, NULL, 0);
	return ret < 0 ? ret : 0;
}

int io_uring_queue_init(unsigned nr_entries, struct uaio_liburing *ring,
			unsigned flags)
{
	struct io_uring_params p = { .flags = flags };

	return io_uring_queue_init_params(nr_entries, ring, &p);
}

static void drop_index(const struct uaio_liburing *ring)
{
	const struct io_uring_rsrc_update update = {
		.offset = (uint32_t)ring->enter_fd
	};

	(void)uaio_liburing_register(ring, IORING_UNREGISTER_RING_FDS, &update,
				     1);
}

void io_uring_queue_exit(struct uaio_liburing *ring)
{
	if (ring->int_flags & UAIO_LIBURING_HAS_CLIENTS_MEMORY) {
		const struct memory memory = {
			.sqes = (char *)ring->sq.sqes,
			.sqes_bytes = ring->sq.sqes_bytes,
			.rings = ring->sq.ring,
			.rings_bytes = ring->sq.ring_bytes,
		};

		free_memory(&memory);
	} else {
		unmap(ring->sq.sqes, ring->sq.sqes_bytes);
		unmap_rings(ring);
	}
	if (ring->int_flags & UAIO_LIBURING_ENTERS_BY_INDEX)
		drop_index(ring);
	if (ring->ring_fd != -1)
		(void)uaio_host_raw_close(ring->ring_fd);
}

int io_uring_ring_dontfork(struct uaio_liburing *ring)
{
	int ret;

	if (!ring->sq.ring || !ring->sq.sqes || !ring->cq.ring)
		return -EINVAL;
	ret = sys_madvise(ring->sq.sqes, ring->sq.sqes_bytes, DONTFORK);
	if (ret == 0)
		ret = sys_madvise(ring->sq.ring, ring->sq.ring_bytes, DONTFORK);
	if (ret == 0 && ring->cq.ring != ring->sq.ring)
		ret = sys_madvise(ring->cq.ring, ring->cq.ring_bytes, DONTFORK);
	return ret;
}

/*
 * The resized ring still has the prepared SQEs and the unread CQEs, so sqe_head and
 * sqe_tail keep their values.
 */
int io_uring_resize_rings(struct uaio_liburing *ring, struct io_uring_params *p)
{
	enum { RESIZE_RINGS = 33 };
	uint32_t head = ring->sq.sqe_head, tail = ring->sq.sqe_tail;
	int ret;

	if (ring->int_flags & UAIO_LIBURING_HAS_CLIENTS_MEMORY)
		return -EINVAL;
	ret = uaio_liburing_register(ring, RESIZE_RINGS, p, 1);
	if (ret < 0)
		return ret;
	unmap(ring->sq.sqes, ring->sq.sqes_bytes);
	unmap_rings(ring);
	memset(&ring->sq, 0, sizeof(ring->sq));
	memset(&ring->cq, 0, sizeof(ring->cq));
	/*
	 * The system call does not return these flags, which determine the memory's
	 * layout.
	 */
	p->flags |= ring->flags & (IORING_SETUP_SQE128 | IORING_SETUP_CQE32 |
				   U_SETUP_NO_SQARRAY);
	p->features |= ring->features & IORING_FEAT_SINGLE_MMAP;
	/*
	 * The system call does not return the offset of the submission array.
	 */
	if (!p->sq_off.array && !(p->flags & U_SETUP_NO_SQARRAY))
		p->sq_off.array = (uint32_t)array_offset(p, p->cq_entries);
	ret = map_rings(ring->ring_fd, p, ring);
	if (ret < 0)
		return ret;
	ring->sq.sqe_head = head;
	ring->sq.sqe_tail = tail;
	fill_array(&ring->sq);
	return 0;
}

/* Functions that query a ring's features, and how much memory it locks */

struct io_uring_probe *io_uring_get_probe_ring(struct uaio_liburing *ring)
{
	int saved = errno;
	struct io_uring_probe *probe =
		calloc(1, sizeof(*probe) + NR_PROBED * sizeof(probe->ops[0]));

	errno = saved;
	if (probe && uaio_liburing_register(ring, IORING_REGISTER_PROBE, probe,
					    NR_PROBED) < 0) {
		free(probe);
		probe = NULL;
	}
	return probe;
}

struct io_uring_probe *io_uring_get_probe(void)
{
	struct io_uring_probe *probe;
	struct uaio_liburing ring;

	if (io_uring_queue_init(2, &ring, 0) < 0)
		return NULL;
	probe = io_uring_get_probe_ring(&ring);
	io_uring_queue_exit(&ring);
	return probe;
}

void io_uring_free_probe(struct io_uring_probe *probe)
{
	free(probe);
}

/* Newer kernels do not charge rings to RLIMIT_MEMLOCK; then the result is 0. */
ssize_t io_uring_mlock_size_params(unsigned nr_entries,
				   struct io_uring_params *p)
{
	struct io_uring_params try = { 0 };
	struct uaio_liburing ring;
	struct sizes sizes;
	int ret = io_uring_queue_init_params(1, &ring, &try);

	if (ret == 0)
		io_uring_queue_exit(&ring);
	if (ret == 0 && try.features & IORING_FEAT_NATIVE_WORKERS)
		return 0;
	ret = measure(nr_entries, p, &sizes);
	return ret < 0 ? ret : (ssize_t)(sizes.sqes + sizes.rings);
}

ssize_t io_uring_mlock_size(unsigned nr_entries, unsigned flags)
{
	struct io_uring_params p = { .flags = flags };

	return io_uring_mlock_size_params(nr_entries, &p);
}

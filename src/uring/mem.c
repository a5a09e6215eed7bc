/* SPDX-License-Identifier: MIT */
#include "uring/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"

static void choose_layout(struct uaio_uring_mem *mem,
			  const struct io_uring_params *params)
{
	bool has_array = !(params->flags & IORING_SETUP_NO_SQARRAY);

	mem->sqe_shift = params->flags & IORING_SETUP_SQE128 ? 1 : 0;
	mem->cqe_shift = params->flags & IORING_SETUP_CQE32 ? 1 : 0;
	mem->sqes_bytes = (params->sq_entries * sizeof(struct io_uring_sqe))
			  << mem->sqe_shift;
	mem->rings_bytes =
		sizeof(struct uaio_uring_rings) +
		((params->cq_entries * sizeof(struct io_uring_cqe))
		 << mem->cqe_shift) +
		(has_array ? params->sq_entries * sizeof(uint32_t) : 0);
}

/* A file of more than the limit would be answered with SIGXFSZ. */
static bool may_be_large(int64_t bytes)
{
	struct rlimit limit;

	return sys_getrlimit(RLIMIT_FSIZE, &limit) < 0 ||
	       limit.rlim_cur == RLIM_INFINITY ||
	       limit.rlim_cur >= (uint64_t)bytes;
}

static int64_t array_off(unsigned group)
{
	return (int64_t)(IORING_OFF_PBUF_RING +
			 ((uint64_t)group << IORING_OFF_PBUF_SHIFT));
}

static int64_t bytes_of(const struct uaio_uring_mem *mem)
{
	const int64_t array_bytes = (int64_t)sizeof(struct io_uring_buf) *
				    UAIO_URING_ARRAY_ENTRIES_MAX;

	return mem->has_arrays
		       ? array_off(UAIO_URING_MMAP_GROUPS - 1) + array_bytes
		       : mem->sqes_off + (int64_t)mem->sqes_bytes;
}

/* Return: whether there is a place for the submissions in a file. */
static bool place_sqes(struct uaio_uring_mem *mem)
{
	enum { PAGE_MAX = 65536 }; /* of any machine */

	mem->sqes_off = IORING_OFF_SQES;
	mem->has_arrays = true;
	if (likely(may_be_large(bytes_of(mem))))
		return true;
	mem->has_arrays = false;
	if (may_be_large(bytes_of(mem)))
		return true;
	mem->sqes_off = (int64_t)((mem->rings_bytes + PAGE_MAX - 1) / PAGE_MAX *
				  PAGE_MAX);
	return may_be_large(bytes_of(mem));
}

static void *map(int fd, size_t bytes, int64_t off)
{
	void *at = sys_mmap_file(bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_POPULATE, fd, off);

	return sys_is_map_error(at) ? NULL : at;
}

static int map_all(struct uaio_uring_mem *mem, int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st) < 0)
		return -ENOMEM;
	mem->dev = st.st_dev;
	mem->ino = st.st_ino;
	mem->rings = map(fd, mem->rings_bytes, IORING_OFF_SQ_RING);
	if (!mem->rings)
		return -ENOMEM;
	mem->sqes = map(fd, mem->sqes_bytes, mem->sqes_off);
	if (mem->sqes)
		return 0;
	(void)sys_munmap(mem->rings, mem->rings_bytes);
	return -ENOMEM;
}

/* Fill in the words that are written once, and find the array. */
static void fill(struct uaio_uring_mem *mem,
		 const struct io_uring_params *params)
{
	struct uaio_uring_rings *rings = mem->rings;

	/* relaxed, all: no client knows it yet */
	store_relaxed(&rings->sq_mask, params->sq_entries - 1);
	store_relaxed(&rings->sq_entries, params->sq_entries);
	store_relaxed(&rings->cq_mask, params->cq_entries - 1);
	store_relaxed(&rings->cq_entries, params->cq_entries);
	if (!(params->flags & IORING_SETUP_NO_SQARRAY))
		mem->array =
			(uint32_t *)(void *)&rings
				->cqes[params->cq_entries << mem->cqe_shift];
}

int uaio_uring_mem_init(struct uaio_uring_mem *ret_mem,
			const struct io_uring_params *params)
{
	struct uaio_uring_mem mem = { .array = NULL };
	int fd, ret = -ENOMEM;

	choose_layout(&mem, params);
	if (!place_sqes(&mem))
		return -ENOMEM;
	fd = sys_memfd("[io_uring]");
	if (fd < 0)
		return fd;
	if (sys_ftruncate(fd, bytes_of(&mem)) == 0 && sys_seal_size(fd) == 0)
		ret = map_all(&mem, fd);
	if (ret < 0) {
		(void)sys_close(fd);
		return ret;
	}
	fill(&mem, params);
	*ret_mem = mem;
	return fd;
}

void uaio_uring_mem_fini(struct uaio_uring_mem *mem)
{
	(void)sys_munmap(mem->rings, mem->rings_bytes);
	(void)sys_munmap(mem->sqes, mem->sqes_bytes);
	*mem = (struct uaio_uring_mem){ 0 };
}

void *uaio_uring_mem_map_array(const struct uaio_uring_mem *mem, int fd,
			       uint16_t group, size_t bytes)
{
	void *at = map(fd, bytes, array_off(group));
	struct stat st;

	if (!at)
		return NULL;
	/* Another thread may have closed it meanwhile. */
	if (sys_fstat(fd, &st) == 0 && st.st_dev == mem->dev &&
	    st.st_ino == mem->ino)
		return memset(at, 0, bytes);
	(void)sys_munmap(at, bytes);
	return NULL;
}

#define OFFSET(member) \
	((uint32_t) __builtin_offsetof(struct uaio_uring_rings, member))

void uaio_uring_mem_tell(const struct uaio_uring_mem *mem,
			 struct io_uring_params *ret_params)
{
	ret_params->sq_off = (struct io_sqring_offsets){
		.head = OFFSET(sq_head),
		.tail = OFFSET(sq_tail),
		.ring_mask = OFFSET(sq_mask),
		.ring_entries = OFFSET(sq_entries),
		.flags = OFFSET(sq_flags),
		.dropped = OFFSET(sq_dropped),
		.array = mem->array ? (uint32_t)((char *)mem->array -
						 (char *)mem->rings)
				    : 0,
	};
	ret_params->cq_off = (struct io_cqring_offsets){
		.head = OFFSET(cq_head),
		.tail = OFFSET(cq_tail),
		.ring_mask = OFFSET(cq_mask),
		.ring_entries = OFFSET(cq_entries),
		.overflow = OFFSET(cq_overflow),
		.cqes = OFFSET(cqes),
		.flags = OFFSET(cq_flags),
	};
}

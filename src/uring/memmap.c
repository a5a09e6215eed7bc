/* SPDX-License-Identifier: MIT */
#include "uring/memmap.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "proc/ownfd.h"
#include "check/check.h"
#include "uring/calls.h"
#include "uring/ring.h"
#include "uring/table.h"
#include "uring/witness.h"

static size_t bytes_of_sqes(const struct io_uring_params *params)
{
	return (params->sq_entries * sizeof(struct io_uring_sqe))
	       << (params->flags & IORING_SETUP_SQE128 ? 1 : 0);
}

static size_t bytes_of_rings(const struct io_uring_params *params)
{
	bool has_array = !(params->flags & IORING_SETUP_NO_SQARRAY);

	return sizeof(struct uaio_uring_rings) +
	       ((params->cq_entries * sizeof(struct io_uring_cqe))
		<< (params->flags & IORING_SETUP_CQE32 ? 1 : 0)) +
	       (has_array ? params->sq_entries * sizeof(uint32_t) : 0);
}

static void choose_layout(struct uaio_uring_mem *mem,
			  const struct io_uring_params *params)
{
	mem->sqe_shift = params->flags & IORING_SETUP_SQE128 ? 1 : 0;
	mem->cqe_shift = params->flags & IORING_SETUP_CQE32 ? 1 : 0;
	mem->sqes_bytes = bytes_of_sqes(params);
	mem->rings_bytes = bytes_of_rings(params);
}

/* Return: whether RLIMIT_FSIZE allows this size; exceeding it raises SIGXFSZ. */
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

/*
 * Choose the file offset of the submission entries.
 * Return: false if RLIMIT_FSIZE is too low.
 */
static bool place_sqes(struct uaio_uring_mem *mem)
{
	enum { PAGE_MAX = 65536 }; /* the largest page size of any machine */

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

/* Choose the maximum sizes for a resizable ring. Unused pages take no memory. */
static void make_room(struct uaio_uring_mem *mem,
		      const struct io_uring_params *params)
{
	struct io_uring_params largest = *params;

	largest.sq_entries = UAIO_URING_SQ_ENTRIES_MAX;
	largest.cq_entries = UAIO_URING_CQ_ENTRIES_MAX;
	mem->sqes_bytes = bytes_of_sqes(&largest);
	mem->rings_bytes = bytes_of_rings(&largest);
}

static void *map_by(int flags, int fd, size_t bytes, int64_t off)
{
	void *at = sys_mmap_file(bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED | flags, fd, off);

	return sys_is_map_error(at) ? NULL : at;
}

static void *map(int fd, size_t bytes, int64_t off)
{
	return map_by(MAP_POPULATE, fd, bytes, off);
}

static int map_all(struct uaio_uring_mem *mem, int fd, int flags)
{
	mem->rings = map_by(flags, fd, mem->rings_bytes, IORING_OFF_SQ_RING);
	if (!mem->rings)
		return -ENOMEM;
	mem->sqes = map_by(flags, fd, mem->sqes_bytes, mem->sqes_off);
	mem->owns_rings = mem->owns_sqes = true;
	if (mem->sqes)
		return 0;
	(void)sys_munmap(mem->rings, mem->rings_bytes);
	return -ENOMEM;
}

/* Lock the new file fd, and map it by a second open file if possible (witness.h). */
static int map_apart(struct uaio_uring_mem *mem, int fd, int flags)
{
	int other = uaio_uring_witness_lock(mem, fd), ret;

	if (other < 0)
		return map_all(mem, fd, flags);
	ret = map_all(mem, other, flags);
	uaio_ownfd_close(other);
	return ret;
}

/* Find the array of submission indices, which follows the completions. */
static void find_array(struct uaio_uring_mem *mem,
		       const struct io_uring_params *params)
{
	if (!(params->flags & IORING_SETUP_NO_SQARRAY))
		mem->array =
			(uint32_t *)(void *)&mem->rings
				->cqes[params->cq_entries << mem->cqe_shift];
}

/* Write sizes and masks to the ring, where the client reads them. */
static void fill(struct uaio_uring_mem *mem,
		 const struct io_uring_params *params)
{
	struct uaio_uring_rings *rings = mem->rings;

	/* relaxed, all: the client reads these after the system call returns */
	store_relaxed(&rings->sq_mask, params->sq_entries - 1);
	store_relaxed(&rings->sq_entries, params->sq_entries);
	store_relaxed(&rings->cq_mask, params->cq_entries - 1);
	store_relaxed(&rings->cq_entries, params->cq_entries);
}

/* Return: the descriptor of a new memory file, which is mapped; or -errno. */
static int make_file(struct uaio_uring_mem *mem,
		     const struct io_uring_params *params)
{
	int fd, flags = MAP_POPULATE, ret = -ENOMEM;

	if (!place_sqes(mem))
		return -ENOMEM;
	fd = sys_memfd("[io_uring]");
	if (fd < 0)
		return fd;
	if (sys_ftruncate(fd, bytes_of(mem)) < 0 || sys_seal_size(fd) < 0)
		goto err_fd;
	if (params->flags & IORING_SETUP_DEFER_TASKRUN && mem->has_arrays) {
		make_room(mem, params);
		flags = 0;
	}
	ret = uaio_uring_witness_note(mem, fd);
	if (ret == 0)
		ret = map_apart(mem, fd, flags);
	if (ret == 0)
		return fd;
err_fd:
	(void)sys_close(fd);
	return ret;
}

/* Rings in memory of the client */

/*
 * Return: 0; or the kernel's error if the client's memory cannot hold a ring. Checks
 * are in the kernel's order.
 */
static int check_given(uint64_t addr, size_t bytes)
{
	const size_t page = uaio_page_bytes();

	bytes = (bytes + page - 1) & ~(page - 1);
	if (!addr)
		return -EFAULT;
	if (addr % page)
		return -EINVAL;
	return uaio_is_accessible(addr, bytes) && uaio_can_write(addr, bytes)
		       ? 0
		       : -EFAULT;
}

/* Return: whether two addresses are the same word: a write to *a is visible in *b. */
static bool is_same(uint32_t *a, const uint32_t *b)
{
	/* relaxed, all: only this thread accesses the word */
	uint32_t old = load_relaxed(a);
	bool is_same = load_relaxed(b) == old;

	store_relaxed(a, ~old);
	is_same = is_same && load_relaxed(b) == ~old;
	store_relaxed(a, old);
	return is_same;
}

/* Return: whether two ranges map the same pages. */
static bool are_same(char *a, const char *b, size_t bytes)
{
	/* Let the kernel check `b`: reads beyond a mapped file's end raise SIGBUS. */
	if (!uaio_can_write((uintptr_t)b, bytes))
		return false;
	for (size_t at = 0; at < bytes; at += uaio_page_bytes())
		if (!is_same((uint32_t *)(void *)(a + at),
			     (const uint32_t *)(const void *)(b + at)))
			return false;
	return true;
}

/*
 * Map memory of the client a second time. mremap() with an old size of 0 duplicates a
 * shared mapping.
 * Return: the address of the new mapping; or addr, if the memory cannot be mapped
 * twice. *ret_owns: whether the mapping is new.
 */
static void *map_given(uint64_t addr, size_t bytes, bool *ret_owns)
{
	void *given = (void *)(uintptr_t)addr;
	void *ours = sys_mremap(given, 0, bytes, MREMAP_MAYMOVE, NULL);

	*ret_owns = !sys_is_map_error(ours);
	if (!*ret_owns)
		return given;
	if (are_same(given, ours, bytes))
		return ours;
	(void)sys_munmap(ours, bytes);
	*ret_owns = false;
	return given;
}

/* Return: an empty file, sealed so that nobody can map it for writing; or -errno. */
static int make_empty_file(struct uaio_uring_mem *mem)
{
	int fd = sys_memfd("[io_uring]"), other;

	if (fd < 0)
		return fd;
	if (sys_seal_all(fd) < 0 || uaio_uring_witness_note(mem, fd) < 0) {
		(void)sys_close(fd);
		return -ENOMEM;
	}
	other = uaio_uring_witness_lock(mem, fd);
	if (other >= 0)
		uaio_ownfd_close(other);
	return fd;
}

/* Make a ring in the client's memory. Return: as uaio_uring_mem_init(). */
static int use_given(struct uaio_uring_mem *mem,
		     const struct io_uring_params *params)
{
	static uint64_t nr_nameless; /* atomic */
	struct io_uring_params own = *params;
	uint64_t rings = *uaio_uring_rings_addr(&own);
	uint64_t sqes = *uaio_uring_sqes_addr(&own);
	int fd = UAIO_URING_NO_FD, ret = check_given(rings, mem->rings_bytes);

	if (ret == 0)
		ret = check_given(sqes, mem->sqes_bytes);
	if (ret < 0)
		return ret;
	if (params->flags & IORING_SETUP_REGISTERED_FD_ONLY)
		/* relaxed: `ino` is no real inode here, and need only be unique */
		mem->ino = add_relaxed(&nr_nameless, 1) + 1;
	else
		fd = make_empty_file(mem);
	if (fd < 0)
		return fd;
	/* an offset beyond the file's end, so that the client's mmap() fails */
	mem->sqes_off = -1;
	mem->rings = map_given(rings, mem->rings_bytes, &mem->owns_rings);
	mem->sqes = map_given(sqes, mem->sqes_bytes, &mem->owns_sqes);
	uaio_check_shared((void *)(uintptr_t)rings, mem->rings_bytes);
	uaio_check_shared((void *)(uintptr_t)sqes, mem->sqes_bytes);
	memset(mem->rings, 0, sizeof(*mem->rings));
	return fd;
}

int uaio_uring_mem_init(struct uaio_uring_mem *ret_mem,
			const struct io_uring_params *params)
{
	struct uaio_uring_mem mem = { .array = NULL };
	int ret;

	choose_layout(&mem, params);
	ret = params->flags & IORING_SETUP_NO_MMAP ? use_given(&mem, params)
						   : make_file(&mem, params);
	if (ret < 0)
		return ret;
	fill(&mem, params);
	find_array(&mem, params);
	*ret_mem = mem;
	return ret;
}

void uaio_uring_mem_retire(struct uaio_uring_mem *mem)
{
	void *ours = sys_mmap(NULL, mem->rings_bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS);

	if (sys_is_map_error(ours))
		return;
	memcpy(ours, mem->rings, sizeof(*mem->rings));
	mem->retired = mem->owns_rings ? mem->rings : NULL;
	mem->owns_rings = true;
	/* relaxed: a thread that waits on the dead ring may use old or new memory */
	store_relaxed(&mem->rings, ours);
}

void uaio_uring_mem_fini(struct uaio_uring_mem *mem)
{
	if (mem->owns_rings)
		(void)sys_munmap(mem->rings, mem->rings_bytes);
	if (mem->retired)
		(void)sys_munmap(mem->retired, mem->rings_bytes);
	if (mem->owns_sqes)
		(void)sys_munmap(mem->sqes, mem->sqes_bytes);
	*mem = (struct uaio_uring_mem){ 0 };
}

/* Map a part of the ring's file through fd. Return: its address; or NULL. */
static void *map_part(const struct uaio_uring_mem *mem, int fd, size_t bytes,
		      int64_t off)
{
	void *at = map(fd, bytes, off);
	struct stat st;

	if (!at)
		return NULL;
	/* Is fd still the ring's file? Another thread may have closed and reused fd. */
	if (sys_fstat(fd, &st) == 0 && st.st_dev == mem->dev &&
	    st.st_ino == mem->ino)
		return at;
	(void)sys_munmap(at, bytes);
	return NULL;
}

void *uaio_uring_mem_map_array(const struct uaio_uring_mem *mem, int fd,
			       uint16_t group, size_t bytes)
{
	void *at = map_part(mem, fd, bytes, array_off(group));

	return at ? memset(at, 0, bytes) : NULL;
}

/*
 * Map the region at the offset where the client will map it. fd was a descriptor of the
 * ring; if another thread has closed it since, the call fails.
 * Return: the region's address, all zero at first; NULL on failure.
 */
static void *map_clients_region(const struct uaio_uring_mem *mem, int fd,
				uint64_t bytes)
{
	return mem->has_arrays && bytes <= IORING_OFF_PBUF_RING -
						   UAIO_URING_OFF_REGION
		       ? map_part(mem, fd, bytes, UAIO_URING_OFF_REGION)
		       : NULL;
}

bool uaio_uring_mem_has_completions(const struct uaio_uring_mem *mem,
				    uint32_t nr)
{
	return nr <= UAIO_URING_CQ_ENTRIES_MAX &&
	       sizeof(struct uaio_uring_rings) +
			       ((nr * sizeof(struct io_uring_cqe))
				<< mem->cqe_shift) <=
		       mem->rings_bytes;
}

bool uaio_uring_mem_has_room(const struct uaio_uring_mem *mem,
			     const struct io_uring_params *params)
{
	return bytes_of_sqes(params) <= mem->sqes_bytes &&
	       bytes_of_rings(params) <= mem->rings_bytes;
}

struct uaio_uring_mem
uaio_uring_mem_resized(const struct uaio_uring_mem *mem,
		       const struct io_uring_params *params)
{
	struct uaio_uring_mem resized = *mem;

	find_array(&resized, params);
	return resized;
}

void uaio_uring_mem_resize(struct uaio_uring_mem *mem,
			   const struct io_uring_params *params)
{
	fill(mem, params);
	find_array(mem, params);
	if (mem->array)
		memset(mem->array, 0, params->sq_entries * sizeof(uint32_t));
}

#define OFFSET(member) \
	((uint32_t) __builtin_offsetof(struct uaio_uring_rings, member))

void uaio_uring_mem_tell(const struct uaio_uring_mem *mem,
			 struct io_uring_params *ret_params)
{
	bool is_given = ret_params->flags & IORING_SETUP_NO_MMAP;
	const uint64_t sqes = is_given ? *uaio_uring_sqes_addr(ret_params) : 0;
	const uint64_t rings =
		is_given ? *uaio_uring_rings_addr(ret_params) : 0;

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
	*uaio_uring_sqes_addr(ret_params) = sqes;
	*uaio_uring_rings_addr(ret_params) = rings;
}

/*
 * Regions
 */

void uaio_uring_region_init(struct uaio_uring_region *region)
{
	*region = (struct uaio_uring_region){ .is_set = false };
}

void uaio_uring_region_fini(struct uaio_uring_region *region)
{
	if (region->map)
		(void)sys_munmap(region->map, region->bytes);
	uaio_uring_region_init(region);
}

/* Return: 0, or the kernel's first error for a region's description. */
static int check_region(const struct uaio_uring_region_desc *desc)
{
	const size_t page = uaio_page_bytes();
	const bool is_given = desc->flags & UAIO_URING_REGION_GIVEN;
	uint64_t end;

	for (unsigned i = 0; i < 4; i++)
		if (desc->resv[i])
			return -EINVAL;
	if (desc->flags & ~(uint32_t)UAIO_URING_REGION_GIVEN)
		return -EINVAL;
	if (is_given != (desc->addr != 0))
		return -EFAULT;
	if (!desc->bytes || desc->map_offset || desc->id)
		return -EINVAL;
	if (desc->bytes / page > INT_MAX)
		return -E2BIG;
	if ((desc->addr | desc->bytes) % page)
		return -EINVAL;
	if (__builtin_add_overflow(desc->addr, desc->bytes, &end))
		return -EOVERFLOW;
	if (!is_given)
		return 0;
	return uaio_is_accessible(desc->addr, desc->bytes) &&
			       uaio_can_write(desc->addr, desc->bytes)
		       ? 0
		       : -EFAULT;
}

/*
 * Map the part of the ring's file that the client will map as the region. Return: 0 or
 * -ENOMEM.
 */
static int map_region(struct uaio_uring *ring,
		      struct uaio_uring_region_desc *desc)
{
	struct uaio_uring_region *region = &ring->region;
	int fd = uaio_uring_tab_number(ring);

	if (fd < 0)
		return -ENOMEM;
	region->map = map_clients_region(&ring->mem, fd, desc->bytes);
	if (!region->map)
		return -ENOMEM;
	region->bytes = desc->bytes;
	desc->map_offset = UAIO_URING_OFF_REGION;
	return 0;
}

/* Let waiting threads find the region. */
static void publish(struct uaio_uring_region *region,
		    const struct uaio_uring_region_desc *desc)
{
	/*
	 * relaxed, both: a client that waits in another thread orders both calls; a
	 * thread that sees only one of the stores finds no region
	 */
	store_relaxed(&region->wait_at,
		      region->map ? (uintptr_t)region->map : desc->addr);
	store_relaxed(&region->wait_bytes, desc->bytes);
}

/* Read the client's arguments. Return: 0; -EFAULT: a bad address; -EINVAL: bad flags. */
static int read_args(const struct uaio_uring *ring, const void *arg,
		     struct uaio_uring_region_reg *ret_reg,
		     struct uaio_uring_region_desc *ret_desc)
{
	if (uaio_uring_copy_in(ret_reg, (uintptr_t)arg, sizeof(*ret_reg)) < 0 ||
	    uaio_uring_copy_in(ret_desc, ret_reg->desc, sizeof(*ret_desc)) < 0)
		return -EFAULT;
	if (ret_reg->resv[0] | ret_reg->resv[1] ||
	    ret_reg->flags & ~(uint64_t)UAIO_URING_REGION_WAITS)
		return -EINVAL;
	/* relaxed: if another thread enables the ring, the client orders both calls */
	return ret_reg->flags & UAIO_URING_REGION_WAITS &&
			       !load_relaxed(&ring->is_disabled)
		       ? -EINVAL
		       : 0;
}

long uaio_uring_register_region(struct uaio_uring *ring, const void *arg,
				uint32_t nr)
{
	struct uaio_uring_region *region = &ring->region;
	struct uaio_uring_region_desc desc;
	struct uaio_uring_region_reg reg;
	int ret;

	if (!arg || nr != 1)
		return -EINVAL;
	if (region->is_set)
		return -EBUSY;
	ret = read_args(ring, arg, &reg, &desc);
	if (ret == 0)
		ret = check_region(&desc);
	if (ret == 0 && !(desc.flags & UAIO_URING_REGION_GIVEN))
		ret = map_region(ring, &desc);
	if (ret < 0)
		return ret;
	if (uaio_uring_copy_out(reg.desc, &desc, sizeof(desc)) < 0) {
		uaio_uring_region_fini(region);
		return -EFAULT;
	}
	region->is_set = true;
	if (reg.flags & UAIO_URING_REGION_WAITS)
		publish(region, &desc);
	return 0;
}

int uaio_uring_region_read(const struct uaio_uring_region *region,
			   uint64_t offset,
			   struct uaio_uring_reg_wait *ret_wait)
{
	/* relaxed, both: see publish() */
	const uint64_t bytes = load_relaxed(&region->wait_bytes);
	const uint64_t at = load_relaxed(&region->wait_at);
	uint64_t end;

	if (offset % sizeof(long) ||
	    __builtin_add_overflow(offset, sizeof(*ret_wait), &end) ||
	    end > bytes)
		return -EFAULT;
	return uaio_uring_copy_in(ret_wait, at + offset, sizeof(*ret_wait));
}

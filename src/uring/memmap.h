/* SPDX-License-Identifier: MIT */
/*
 * The memory of a ring, which clients map
 *
 * A ring's memory is a memory file (memfd), and the ring's descriptor is a descriptor
 * of this file. The file is sealed, so that no client can truncate it while the library
 * uses it. The library has its own mapping.
 *
 *   I1  Clients can write all of the memory. So the library treats what it reads there
 *       as a request of the client, and never relies on it: each word is read once per
 *       use, and each index is masked. The library keeps its own copies of the sizes,
 *       of the head of the submissions and of the tail of the completions, which
 *       clients cannot write (ring.h).
 *   I2  io_uring_setup() tells clients the offsets of the ring's members, as the kernel
 *       does. The layout is the library's own.
 *   I3  Submission entries begin at 256 MiB, the offset at which clients map them; the
 *       gap before them is a hole. If RLIMIT_FSIZE is lower, the entries follow the
 *       rings directly, and the library translates the offset of a client's mmap()
 *       (host/mmap.c).
 *   I4  A memory region (I7) and arrays of buffers (kbuf.h) that clients map come after
 *       the submission entries. If RLIMIT_FSIZE is too low for regions and arrays, the
 *       library refuses to make them.
 *
 *   I5  With IORING_SETUP_NO_MMAP the client provides the memory, and the file is
 *       empty. If the client's mapping is shared, the library maps the memory a second
 *       time, so that the client may unmap it, as in the kernel. If the mapping is
 *       private, the library uses this mapping: if the client unmaps it before the ring
 *       dies, the process gets SIGSEGV. After the ring has died, the library does not
 *       write to the client's memory.
 *
 *   I6  A resize does not move a ring, neither in the file nor in the library's
 *       mappings. If a ring can be resized, the file and the mappings have room for its
 *       maximum size from the start.
 *
 * A ring may have a memory region (IORING_REGISTER_MEM_REGION), in which a client keeps
 * the arguments of its waits. The client then passes io_uring_enter() an offset in the
 * region.
 *
 *   I7  A ring gets at most one region, and keeps it until the ring is freed.
 *   I8  The region is memory of the client, or a part of the ring's file that both the
 *       client and the library map. The client may write to it at any time, so a wait
 *       copies its arguments once.
 *   I9  Waits use a region only if it was registered while the ring was disabled, when
 *       no thread can wait.
 *
 * Tested by test-uring.c, test-uring-layout.c, test-uring-resize.c and
 * test-uring-region.c.
 */
#ifndef UAIO_URING_MEMMAP_H
#define UAIO_URING_MEMMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uring/abi.h"

struct uaio_uring;
struct uaio_uring_reg_wait;

/* The start of a ring's memory. All members are atomic. */
struct uaio_uring_rings {
	/* written by the library */
	uint32_t sq_head;
	uint32_t cq_tail;
	uint32_t sq_flags; /* IORING_SQ_* */
	uint32_t
		sq_dropped; /* number of submissions with an index out of range */
	uint32_t cq_overflow; /* number of lost completions */
	/* a lock that the kernel frees if its owner dies: share.h */
	uint32_t posting;
	uint32_t nr_over; /* number of processes with overflowed completions */
	uint32_t unused[9];

	/* the client writes the next members */
	uint32_t sq_tail __attribute__((aligned(64)));
	uint32_t cq_head;
	uint32_t cq_flags; /* IORING_CQ_* */

	/* the library writes the next members when it makes or resizes the ring */
	uint32_t sq_mask __attribute__((aligned(64)));
	uint32_t sq_entries;
	uint32_t cq_mask;
	uint32_t cq_entries;

	struct io_uring_cqe cqes[] __attribute__((aligned(64)));
	/* the array of submission indices follows, unless NO_SQARRAY */
};

struct uaio_uring_mem {
	/* owns if owns_rings; otherwise borrows */
	struct uaio_uring_rings *rings;
	/* owns if owns_sqes; otherwise borrows */
	struct io_uring_sqe *sqes;
	/*
	 * true: the pointer is to a mapping of the library; false: to the client's
	 * mapping
	 */
	bool owns_rings, owns_sqes;
	/*
	 * owns: the mapping to which `rings` pointed until the ring died; or NULL. A
	 * thread that still waits may use this mapping.
	 */
	void *retired;
	uint32_t *array; /* sq_entries submission indices; or NULL */
	/*
	 * A submission entry takes 1 << sqe_shift slots. With IORING_SETUP_SQE128 it
	 * takes 2 slots, and the library does not read the second. A completion takes 1
	 * << cqe_shift slots. With CQE32 it takes 2 slots, and the library writes both.
	 */
	uint8_t sqe_shift, cqe_shift;
	/* sizes of the library's mappings */
	size_t rings_bytes;
	size_t sqes_bytes;
	int64_t sqes_off; /* offset of the submission entries in the file */
	/* the ring's file has room for arrays of provided buffers (kbuf.h) */
	bool has_arrays;
	/*
	 * device and inode number of the ring's file; if the ring has no descriptor,
	 * ino is a serial number and dev is 0
	 */
	uint64_t dev;
	uint64_t ino;
	/* the ring's open file has the lock that a witness tests (witness.h) */
	bool is_locked;
};

/*
 * Make the memory of a ring as params say; the numbers of entries are powers of two.
 * Return: the ring's descriptor, or UAIO_URING_NO_FD with
 * IORING_SETUP_REGISTERED_FD_ONLY; -EMFILE, -ENFILE, -ENOMEM; -ENOSYS: the memory
 * file cannot be made; -EINVAL, -EFAULT: the client's memory cannot be used.
 */
enum { UAIO_URING_NO_FD = INT32_MAX };
int uaio_uring_mem_init(struct uaio_uring_mem *ret_mem,
			const struct io_uring_params *params);
void uaio_uring_mem_fini(struct uaio_uring_mem *mem);

/*
 * The ring has died, and the client may reuse the memory that it provided: write later
 * posts to other memory. Caller holds the queue's lock.
 */
void uaio_uring_mem_retire(struct uaio_uring_mem *mem);

/*
 * Map the array of a group of buffers, in the part of the ring's file that the client
 * maps, too. fd was a descriptor of the ring; if another thread has closed it since,
 * the call fails.
 * Return: the array, all zero; NULL on failure.
 */
void *uaio_uring_mem_map_array(const struct uaio_uring_mem *mem, int fd,
			       uint16_t group, size_t bytes);

/*
 * Return: whether nr completions, or a ring of the sizes in params, fit into the
 * memory. To resize a ring, uaio_uring_mem_resized() computes the new layout of the
 * memory, and uaio_uring_mem_resize() adopts this layout; the caller moves the entries.
 */
bool uaio_uring_mem_has_completions(const struct uaio_uring_mem *mem,
				    uint32_t nr);
bool uaio_uring_mem_has_room(const struct uaio_uring_mem *mem,
			     const struct io_uring_params *params);
struct uaio_uring_mem
uaio_uring_mem_resized(const struct uaio_uring_mem *mem,
		       const struct io_uring_params *params);
void uaio_uring_mem_resize(struct uaio_uring_mem *mem,
			   const struct io_uring_params *params);

/* Write the offsets of the ring's members to params, for the client. */
void uaio_uring_mem_tell(const struct uaio_uring_mem *mem,
			 struct io_uring_params *ret_params);

/*
 * Return: the member of params in which a client passes the address of its memory for
 * submission entries: the last member of sq_off, which older headers call reserved.
 */
static inline uint64_t *uaio_uring_sqes_addr(struct io_uring_params *params)
{
	return (uint64_t *)(void *)((char *)(&params->sq_off + 1) -
				    sizeof(uint64_t));
}

/*
 * Return: the member of params in which a client passes the address of its memory for
 * the rings: the last member of cq_off, which older headers call reserved.
 */
static inline uint64_t *uaio_uring_rings_addr(struct io_uring_params *params)
{
	return (uint64_t *)(void *)((char *)(&params->cq_off + 1) -
				    sizeof(uint64_t));
}

struct uaio_uring_region {
	/* These members belong to the thread that holds the ring (ring.h, I2). */
	bool is_set;
	/* owns: the mapping, if the region is part of the ring's file; or NULL */
	void *map;
	uint64_t bytes;

	/* Atomic. */
	/* address of the memory with the arguments of waits */
	uint64_t wait_at;
	uint64_t wait_bytes; /* 0: waits do not use the region */
};

void uaio_uring_region_init(struct uaio_uring_region *region);
/* Free a region. No thread uses the ring any more. */
void uaio_uring_region_fini(struct uaio_uring_region *region);

/* IORING_REGISTER_MEM_REGION */
long uaio_uring_register_region(struct uaio_uring *ring, const void *arg,
				uint32_t nr);

/*
 * Copy the arguments of a wait, at `offset` in the region.
 * Return: 0 or -EFAULT.
 */
int uaio_uring_region_read(const struct uaio_uring_region *region,
			   uint64_t offset,
			   struct uaio_uring_reg_wait *ret_wait);

#endif /* UAIO_URING_MEMMAP_H */

/* SPDX-License-Identifier: MIT */
/*
 * The memory of a ring, which clients map
 *
 * It is a file in memory, whose descriptor is the ring's. The file is sealed, so
 * that no client can make it shorter under us. We map it for ourselves, wherever
 * clients map it.
 *
 *   I1  Clients can write all of it. So nothing that is read there decides anything
 *       but what a client asks for; each word is read once for each use, and an
 *       index is masked. Sizes, the head of the submissions and the tail of the
 *       completions have copies that clients cannot write (ring.h).
 *   I2  The offsets at which clients find its members are told to them by setup,
 *       as the kernel does; the layout is ours.
 *   I3  The submissions are where clients map them, at 256 MiB, and between there is
 *       nothing. If a limit on the size of files (RLIMIT_FSIZE) is below that, they
 *       are right behind the rings, and what a client maps is found there (mmap.c).
 *   I4  Behind them are a region and arrays of buffers (kbuf.h) that clients
 *       map, as far as there are any, unless the limit is below that: then there are none.
 *
 *   I5  With IORING_SETUP_NO_MMAP the client gives the memory, and the file is empty. If
 *       that memory is a shared mapping we map it a second time, so that the client may
 *       unmap it, as in the kernel. Memory of no other process can only be used where
 *       the client has it: if it is unmapped before the ring ends, the process gets
 *       SIGSEGV. When the ring has died nothing is written there any more.
 *
 *   I6  A ring that can be resized stays where it is, for us as for the file: our
 *       mappings are as large as it can become. So what is mapped never changes.
 *
 * A ring may have a memory region (IORING_REGISTER_MEM_REGION), in which a client has the
 * arguments of its waits: then io_uring_enter() is told only where in it.
 *
 *   I7  A ring has one region at most, until it ends.
 *   I8  The memory is the client's, or it is part of the ring's file and we map it as
 *       well as the client. Either may be written at any time: a wait copies its
 *       arguments once.
 *   I9  Waits find it only if it was registered before the ring was enabled, so no
 *       thread waits meanwhile.
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

/* All atomic. */
struct uaio_uring_rings {
	/* ours to write */
	uint32_t sq_head;
	uint32_t cq_tail;
	uint32_t sq_flags;    /* IORING_SQ_* */
	uint32_t sq_dropped;  /* submissions with an index out of range */
	uint32_t cq_overflow; /* completions that are lost */
	uint32_t posting;     /* see share.h */
	uint32_t
		nr_over; /* processes with completions for which there is no room */
	uint32_t unused[9];

	/* the client's to write */
	uint32_t sq_tail __attribute__((aligned(64)));
	uint32_t cq_head;
	uint32_t cq_flags; /* IORING_CQ_* */

	/* written when the ring is made or resized */
	uint32_t sq_mask __attribute__((aligned(64)));
	uint32_t sq_entries;
	uint32_t cq_mask;
	uint32_t cq_entries;

	struct io_uring_cqe cqes[] __attribute__((aligned(64)));
	/* and then the array of indices of submissions, if there is one */
};

struct uaio_uring_mem {
	struct uaio_uring_rings *rings; /* owns if owns_rings, or borrows */
	struct io_uring_sqe *sqes;      /* the same */
	bool owns_rings, owns_sqes;     /* the mappings, not the memory */
	void *retired;   /* owns: a mapping that rings was before; or NULL */
	uint32_t *array; /* of sq_entries indices; or NULL */
	/*
	 * A submission, or completion, has 1 << shift of the plain ones' places: 2 with
	 * IORING_SETUP_SQE128, or CQE32. Of the second nothing is read; what is behind
	 * a completion is written.
	 */
	uint8_t sqe_shift, cqe_shift;
	/* of the mappings */
	size_t rings_bytes;
	size_t sqes_bytes;
	int64_t sqes_off; /* in the file */
	bool has_arrays;  /* the file is large enough for them */
	/* which file it is; of a ring without a descriptor: a number, and dev is 0 */
	uint64_t dev;
	uint64_t ino;
	bool is_locked; /* its open file has a lock: witness.h */
};

/*
 * Make the memory of a ring as params say, of which the numbers of entries are powers
 * of two.
 * Return: its descriptor, or UAIO_URING_NO_FD, which has IORING_SETUP_REGISTERED_FD_ONLY;
 * -EMFILE, -ENFILE, -ENOMEM; -ENOSYS: no such file can be had; -EINVAL, -EFAULT: of the
 * client's memory.
 */
enum { UAIO_URING_NO_FD = INT32_MAX };
int uaio_uring_mem_init(struct uaio_uring_mem *ret_mem,
			const struct io_uring_params *params);
void uaio_uring_mem_fini(struct uaio_uring_mem *mem);

/*
 * The ring is dead, and its client may use the memory that it gave for something
 * else: what is still posted goes elsewhere. The queue's lock is held.
 */
void uaio_uring_mem_retire(struct uaio_uring_mem *mem);

/*
 * Map the array of buffers of a group, of which a client maps so many bytes. fd was
 * the ring's descriptor just now.
 * Return: the array, all zero; NULL if it cannot be had.
 */
void *uaio_uring_mem_map_array(const struct uaio_uring_mem *mem, int fd,
			       uint16_t group, size_t bytes);

/*
 * Whether so many completions, or a ring with such sizes, have room in the memory;
 * what the memory is then; and make it that. The caller moves what is there.
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

/* Tell a client where it finds what. */
void uaio_uring_mem_tell(const struct uaio_uring_mem *mem,
			 struct io_uring_params *ret_params);

/*
 * The last member of either kind of offsets, which older headers call reserved: where
 * the client has the memory.
 */
static inline uint64_t *uaio_uring_sqes_addr(struct io_uring_params *params)
{
	return (uint64_t *)(void *)((char *)(&params->sq_off + 1) -
				    sizeof(uint64_t));
}

static inline uint64_t *uaio_uring_rings_addr(struct io_uring_params *params)
{
	return (uint64_t *)(void *)((char *)(&params->cq_off + 1) -
				    sizeof(uint64_t));
}

struct uaio_uring_region {
	/* of the thread that holds the ring */
	bool is_set;
	void *map; /* owns, if it is in the ring's file; or NULL */
	uint64_t bytes;

	/* atomic */
	uint64_t wait_at;    /* where waits find it */
	uint64_t wait_bytes; /* 0: they do not */
};

void uaio_uring_region_init(struct uaio_uring_region *region);
/* Nobody uses the ring any more. */
void uaio_uring_region_fini(struct uaio_uring_region *region);

/* IORING_REGISTER_MEM_REGION */
long uaio_uring_register_region(struct uaio_uring *ring, const void *arg,
				uint32_t nr);

/* Copy the arguments of a wait that are so far inside. Return: 0 or -EFAULT. */
int uaio_uring_region_read(const struct uaio_uring_region *region,
			   uint64_t offset,
			   struct uaio_uring_reg_wait *ret_wait);

#endif /* UAIO_URING_MEMMAP_H */

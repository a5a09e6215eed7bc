/* SPDX-License-Identifier: MIT */
/* Registers resources with a ring. Tested by test/uring/library.c. */
#include "liburing/liburing.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "base/sys.h"
#include "host/host.h"

/* Opcodes of io_uring_register() that some headers lack. */
enum {
	PBUF_STATUS = 26,
	REGISTER_NAPI = 27,
	UNREGISTER_NAPI = 28,
	REGISTER_CLOCK = 29,
	CLONE_BUFFERS = 30,
	SEND_MSG_RING = 31,
	MEM_REGION = 34,
	SRC_REGISTERED = 1,
};

/* size of an entry in a ring of provided buffers */
enum { BUF_BYTES = 16 };

struct io_uring_napi;
struct io_uring_clock_register;
struct io_uring_mem_region_reg;
struct io_uring_reg_wait;

#define RING struct uaio_liburing *ring

UAIO_EXPORT int io_uring_register(unsigned fd, unsigned opcode, const void *arg,
				  unsigned nr);
UAIO_EXPORT int io_uring_register_buffers(RING, const struct iovec *iov,
					  unsigned nr);
UAIO_EXPORT int io_uring_register_buffers_tags(RING, const struct iovec *iov,
					       const __u64 *tags, unsigned nr);
UAIO_EXPORT int io_uring_register_buffers_sparse(RING, unsigned nr);
UAIO_EXPORT int io_uring_register_buffers_update_tag(RING, unsigned first,
						     const struct iovec *iov,
						     const __u64 *tags,
						     unsigned nr);
UAIO_EXPORT int io_uring_unregister_buffers(RING);
UAIO_EXPORT int io_uring_register_files(RING, const int *fds, unsigned nr);
UAIO_EXPORT int io_uring_register_files_tags(RING, const int *fds,
					     const __u64 *tags, unsigned nr);
UAIO_EXPORT int io_uring_register_files_sparse(RING, unsigned nr);
UAIO_EXPORT int io_uring_register_files_update(RING, unsigned first,
					       const int *fds, unsigned nr);
UAIO_EXPORT int io_uring_register_files_update_tag(RING, unsigned first,
						   const int *fds,
						   const __u64 *tags,
						   unsigned nr);
UAIO_EXPORT int io_uring_unregister_files(RING);
UAIO_EXPORT int io_uring_register_file_alloc_range(RING, unsigned first,
						   unsigned nr);
UAIO_EXPORT int io_uring_register_eventfd(RING, int fd);
UAIO_EXPORT int io_uring_register_eventfd_async(RING, int fd);
UAIO_EXPORT int io_uring_unregister_eventfd(RING);
UAIO_EXPORT int io_uring_register_probe(RING, struct io_uring_probe *probe,
					unsigned nr);
UAIO_EXPORT int io_uring_register_personality(RING);
UAIO_EXPORT int io_uring_unregister_personality(RING, int id);
UAIO_EXPORT int io_uring_register_restrictions(RING,
					       struct io_uring_restriction *res,
					       unsigned nr);
UAIO_EXPORT int io_uring_enable_rings(RING);
UAIO_EXPORT int io_uring_register_iowq_aff(RING, size_t bytes,
					   const cpu_set_t *mask);
UAIO_EXPORT int io_uring_unregister_iowq_aff(RING);
UAIO_EXPORT int io_uring_register_iowq_max_workers(RING, unsigned *values);
UAIO_EXPORT int io_uring_register_ring_fd(RING);
UAIO_EXPORT int io_uring_unregister_ring_fd(RING);
UAIO_EXPORT int io_uring_close_ring_fd(RING);
UAIO_EXPORT int io_uring_register_buf_ring(RING, struct io_uring_buf_reg *reg,
					   unsigned flags);
UAIO_EXPORT int io_uring_unregister_buf_ring(RING, int group);
UAIO_EXPORT int io_uring_buf_ring_head(RING, int group, uint16_t *ret_head);
UAIO_EXPORT struct io_uring_buf_ring *io_uring_setup_buf_ring(RING, unsigned nr,
							      int group,
							      unsigned flags,
							      int *ret_error);
UAIO_EXPORT int io_uring_free_buf_ring(RING, struct io_uring_buf_ring *bufs,
				       unsigned nr, int group);
UAIO_EXPORT int
io_uring_register_sync_cancel(RING, struct io_uring_sync_cancel_reg *reg);
UAIO_EXPORT int io_uring_register_sync_msg(struct io_uring_sqe *sqe);
UAIO_EXPORT int io_uring_register_napi(RING, struct io_uring_napi *napi);
UAIO_EXPORT int io_uring_unregister_napi(RING, struct io_uring_napi *napi);
UAIO_EXPORT int io_uring_register_clock(RING,
					struct io_uring_clock_register *clock);
UAIO_EXPORT int io_uring_register_region(RING,
					 struct io_uring_mem_region_reg *reg);
UAIO_EXPORT int io_uring_register_wait_reg(RING, struct io_uring_reg_wait *reg,
					   int nr);
UAIO_EXPORT int io_uring_clone_buffers(struct uaio_liburing *to,
				       struct uaio_liburing *from);
UAIO_EXPORT int __io_uring_clone_buffers(struct uaio_liburing *to,
					 struct uaio_liburing *from);
UAIO_EXPORT int io_uring_clone_buffers_offset(struct uaio_liburing *to,
					      struct uaio_liburing *from,
					      unsigned to_first,
					      unsigned from_first, unsigned nr,
					      unsigned flags);
UAIO_EXPORT int __io_uring_clone_buffers_offset(struct uaio_liburing *to,
						struct uaio_liburing *from,
						unsigned to_first,
						unsigned from_first,
						unsigned nr, unsigned flags);

static int call(uint32_t fd, uint32_t opcode, const void *arg, uint32_t nr)
{
	return (int)uaio_host_uring_register(
		(const long[4]){ fd, opcode, (long)arg, nr });
}

int io_uring_register(unsigned fd, unsigned opcode, const void *arg,
		      unsigned nr)
{
	return call(fd, opcode, arg, nr);
}

int uaio_liburing_register(const struct uaio_liburing *ring, uint32_t opcode,
			   const void *arg, uint32_t nr_args)
{
	const uint32_t by_index = 1u << 31;

	return ring->int_flags & UAIO_LIBURING_REGISTERS_BY_INDEX
		       ? call((uint32_t)ring->enter_fd, opcode | by_index, arg,
			      nr_args)
		       : call((uint32_t)ring->ring_fd, opcode, arg, nr_args);
}

/* Make an io_uring_register() call that has no argument. */
static int tell(RING, uint32_t opcode)
{
	return uaio_liburing_register(ring, opcode, NULL, 0);
}

/* Registering buffers and files, also with tags */

static int set_up(RING, uint32_t opcode, uint32_t nr, uint32_t flags,
		  const void *data, const __u64 *tags)
{
	struct io_uring_rsrc_register reg = {
		.nr = nr,
		.data = (uintptr_t)data,
		.tags = (uintptr_t)tags,
	};

	/* Older headers have a reserved word in place of `flags`: write by address. */
	memcpy((char *)&reg + 4, &flags, 4);
	return uaio_liburing_register(ring, opcode, &reg, sizeof(reg));
}

static int update(RING, uint32_t opcode, uint32_t first, uint32_t nr,
		  const void *data, const __u64 *tags)
{
	const struct io_uring_rsrc_update2 up = {
		.offset = first,
		.data = (uintptr_t)data,
		.tags = (uintptr_t)tags,
		.nr = nr,
	};

	return uaio_liburing_register(ring, opcode, &up, sizeof(up));
}

enum { SPARSE = 1 };

int io_uring_register_buffers(RING, const struct iovec *iov, unsigned nr)
{
	return uaio_liburing_register(ring, IORING_REGISTER_BUFFERS, iov, nr);
}

int io_uring_register_buffers_tags(RING, const struct iovec *iov,
				   const __u64 *tags, unsigned nr)
{
	return set_up(ring, IORING_REGISTER_BUFFERS2, nr, 0, iov, tags);
}

int io_uring_register_buffers_sparse(RING, unsigned nr)
{
	return set_up(ring, IORING_REGISTER_BUFFERS2, nr, SPARSE, NULL, NULL);
}

int io_uring_register_buffers_update_tag(RING, unsigned first,
					 const struct iovec *iov,
					 const __u64 *tags, unsigned nr)
{
	return update(ring, IORING_REGISTER_BUFFERS_UPDATE, first, nr, iov,
		      tags);
}

int io_uring_unregister_buffers(RING)
{
	return tell(ring, IORING_UNREGISTER_BUFFERS);
}

/*
 * RLIMIT_NOFILE also limits how many files a ring may register. If the call failed
 * because of this limit, raise the limit by the number of files.
 * Return: whether to try again.
 */
static bool raise_limit(int error, uint32_t nr)
{
	struct rlimit limit;
	int saved = errno;
	bool is_raised = false;

	if (error == -EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur < nr) {
		limit.rlim_cur += nr;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
		is_raised = true;
	}
	errno = saved;
	return is_raised;
}

int io_uring_register_files(RING, const int *fds, unsigned nr)
{
	int ret = uaio_liburing_register(ring, IORING_REGISTER_FILES, fds, nr);

	return raise_limit(ret, nr)
		       ? uaio_liburing_register(ring, IORING_REGISTER_FILES,
						fds, nr)
		       : ret;
}

int io_uring_register_files_tags(RING, const int *fds, const __u64 *tags,
				 unsigned nr)
{
	int ret = set_up(ring, IORING_REGISTER_FILES2, nr, 0, fds, tags);

	return raise_limit(ret, nr)
		       ? set_up(ring, IORING_REGISTER_FILES2, nr, 0, fds, tags)
		       : ret;
}

int io_uring_register_files_sparse(RING, unsigned nr)
{
	int ret = set_up(ring, IORING_REGISTER_FILES2, nr, SPARSE, NULL, NULL);

	return raise_limit(ret, nr) ? set_up(ring, IORING_REGISTER_FILES2, nr,
					     SPARSE, NULL, NULL)
				    : ret;
}

int io_uring_register_files_update(RING, unsigned first, const int *fds,
				   unsigned nr)
{
	const struct io_uring_rsrc_update up = {
		.offset = first,
		.data = (uintptr_t)fds,
	};

	return uaio_liburing_register(ring, IORING_REGISTER_FILES_UPDATE, &up,
				      nr);
}

int io_uring_register_files_update_tag(RING, unsigned first, const int *fds,
				       const __u64 *tags, unsigned nr)
{
	return update(ring, IORING_REGISTER_FILES_UPDATE2, first, nr, fds,
		      tags);
}

int io_uring_unregister_files(RING)
{
	return tell(ring, IORING_UNREGISTER_FILES);
}

int io_uring_register_file_alloc_range(RING, unsigned first, unsigned nr)
{
	const struct io_uring_file_index_range range = { .off = first,
							 .len = nr };

	return uaio_liburing_register(ring, IORING_REGISTER_FILE_ALLOC_RANGE,
				      &range, 0);
}

/* Buffer rings */

int io_uring_register_buf_ring(RING, struct io_uring_buf_reg *reg,
			       unsigned flags)
{
	/*
	 * Older headers have a reserved word in place of the member flags, so write it
	 * by address.
	 */
	uint16_t word;

	memcpy(&word, (char *)reg + 14, 2);
	word |= (uint16_t)flags;
	memcpy((char *)reg + 14, &word, 2);
	return uaio_liburing_register(ring, IORING_REGISTER_PBUF_RING, reg, 1);
}

int io_uring_unregister_buf_ring(RING, int group)
{
	const struct io_uring_buf_reg reg = { .bgid = (uint16_t)group };

	return uaio_liburing_register(ring, IORING_UNREGISTER_PBUF_RING, &reg,
				      1);
}

int io_uring_buf_ring_head(RING, int group, uint16_t *ret_head)
{
	uint32_t status[10] = { (uint32_t)group };
	int ret = uaio_liburing_register(ring, PBUF_STATUS, status, 1);

	if (ret == 0)
		*ret_head = (uint16_t)status[1];
	return ret;
}

struct io_uring_buf_ring *io_uring_setup_buf_ring(RING, unsigned nr, int group,
						  unsigned flags,
						  int *ret_error)
{
	enum { READ_WRITE = 3, PRIVATE_ANONYMOUS = 0x22 };
	size_t bytes = (size_t)nr * BUF_BYTES;
	struct io_uring_buf_reg reg = { .ring_entries = nr,
					.bgid = (uint16_t)group };
	void *bufs = (void *)uaio_host_raw_mmap((const long[6]){
		0, (long)bytes, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0 });

	if (sys_is_map_error(bufs)) {
		*ret_error = (int)(intptr_t)bufs;
		return NULL;
	}
	reg.ring_addr = (uintptr_t)bufs;
	*ret_error = io_uring_register_buf_ring(ring, &reg, flags);
	if (*ret_error == 0)
		return bufs;
	(void)uaio_host_raw_munmap(bufs, bytes);
	return NULL;
}

int io_uring_free_buf_ring(RING, struct io_uring_buf_ring *bufs, unsigned nr,
			   int group)
{
	int ret = io_uring_unregister_buf_ring(ring, group);

	if (ret == 0)
		(void)uaio_host_raw_munmap(bufs, (size_t)nr * BUF_BYTES);
	return ret;
}

/*
 * Clone the buffers of ring `from` into ring `to`. `from` is passed to the system call
 * as a descriptor. If by_index is set, and `from` has a registered index, this index is
 * passed instead.
 */
static int clone_from(struct uaio_liburing *to,
		      const struct uaio_liburing *from, bool by_index,
		      const unsigned counts[3], uint32_t flags)
{
	uint32_t arg[8] = { (uint32_t)from->ring_fd, flags, counts[0],
			    counts[1], counts[2] };

	if (by_index && from->int_flags & UAIO_LIBURING_REGISTERS_BY_INDEX) {
		arg[0] = (uint32_t)from->enter_fd;
		arg[1] |= SRC_REGISTERED;
	}
	return uaio_liburing_register(to, CLONE_BUFFERS, arg, 1);
}

int io_uring_clone_buffers_offset(struct uaio_liburing *to,
				  struct uaio_liburing *from, unsigned to_first,
				  unsigned from_first, unsigned nr,
				  unsigned flags)
{
	return clone_from(to, from, true,
			  (const unsigned[3]){ from_first, to_first, nr },
			  flags);
}

int __io_uring_clone_buffers_offset(struct uaio_liburing *to,
				    struct uaio_liburing *from,
				    unsigned to_first, unsigned from_first,
				    unsigned nr, unsigned flags)
{
	return clone_from(to, from, false,
			  (const unsigned[3]){ from_first, to_first, nr },
			  flags);
}

int io_uring_clone_buffers(struct uaio_liburing *to, struct uaio_liburing *from)
{
	return io_uring_clone_buffers_offset(to, from, 0, 0, 0, 0);
}

int __io_uring_clone_buffers(struct uaio_liburing *to,
			     struct uaio_liburing *from)
{
	return __io_uring_clone_buffers_offset(to, from, 0, 0, 0, 0);
}

/* Registering the ring's own descriptor */

int io_uring_register_ring_fd(RING)
{
	struct io_uring_rsrc_update up = { .offset = ~0u,
					   .data = (uint32_t)ring->ring_fd };
	int ret;

	if (ring->int_flags & UAIO_LIBURING_ENTERS_BY_INDEX)
		return -EEXIST;
	ret = uaio_liburing_register(ring, IORING_REGISTER_RING_FDS, &up, 1);
	if (ret != 1)
		return ret;
	ring->enter_fd = (int)up.offset;
	ring->int_flags |= UAIO_LIBURING_ENTERS_BY_INDEX;
	if (ring->features & U_FEAT_REG_REG_RING)
		ring->int_flags |= UAIO_LIBURING_REGISTERS_BY_INDEX;
	return ret;
}

int io_uring_unregister_ring_fd(RING)
{
	const struct io_uring_rsrc_update up = {
		.offset = (uint32_t)ring->enter_fd
	};
	int ret;

	if (!(ring->int_flags & UAIO_LIBURING_ENTERS_BY_INDEX))
		return -EINVAL;
	ret = uaio_liburing_register(ring, IORING_UNREGISTER_RING_FDS, &up, 1);
	if (ret != 1)
		return ret;
	ring->enter_fd = ring->ring_fd;
	ring->int_flags &= (uint8_t) ~(UAIO_LIBURING_ENTERS_BY_INDEX |
				       UAIO_LIBURING_REGISTERS_BY_INDEX);
	return ret;
}

int io_uring_close_ring_fd(RING)
{
	if (!(ring->features & U_FEAT_REG_REG_RING))
		return -EOPNOTSUPP;
	if (!(ring->int_flags & UAIO_LIBURING_ENTERS_BY_INDEX))
		return -EINVAL;
	if (ring->ring_fd == -1)
		return -EBADF;
	(void)uaio_host_raw_close(ring->ring_fd);
	ring->ring_fd = -1;
	return 1;
}

/* Functions that only call io_uring_register(), and pass on their arguments */

int io_uring_register_eventfd(RING, int fd)
{
	return uaio_liburing_register(ring, IORING_REGISTER_EVENTFD, &fd, 1);
}

int io_uring_register_eventfd_async(RING, int fd)
{
	return uaio_liburing_register(ring, IORING_REGISTER_EVENTFD_ASYNC, &fd,
				      1);
}

int io_uring_unregister_eventfd(RING)
{
	return tell(ring, IORING_UNREGISTER_EVENTFD);
}

int io_uring_register_probe(RING, struct io_uring_probe *probe, unsigned nr)
{
	return uaio_liburing_register(ring, IORING_REGISTER_PROBE, probe, nr);
}

int io_uring_register_personality(RING)
{
	return tell(ring, IORING_REGISTER_PERSONALITY);
}

int io_uring_unregister_personality(RING, int id)
{
	return uaio_liburing_register(ring, IORING_UNREGISTER_PERSONALITY, NULL,
				      (uint32_t)id);
}

int io_uring_register_restrictions(RING, struct io_uring_restriction *res,
				   unsigned nr)
{
	return uaio_liburing_register(ring, IORING_REGISTER_RESTRICTIONS, res,
				      nr);
}

int io_uring_enable_rings(RING)
{
	return tell(ring, IORING_REGISTER_ENABLE_RINGS);
}

int io_uring_register_iowq_aff(RING, size_t bytes, const cpu_set_t *mask)
{
	if (bytes > INT32_MAX)
		return -EINVAL;
	return uaio_liburing_register(ring, IORING_REGISTER_IOWQ_AFF, mask,
				      (uint32_t)bytes);
}

int io_uring_unregister_iowq_aff(RING)
{
	return tell(ring, IORING_UNREGISTER_IOWQ_AFF);
}

int io_uring_register_iowq_max_workers(RING, unsigned *values)
{
	return uaio_liburing_register(ring, IORING_REGISTER_IOWQ_MAX_WORKERS,
				      values, 2);
}

int io_uring_register_sync_cancel(RING, struct io_uring_sync_cancel_reg *reg)
{
	return uaio_liburing_register(ring, IORING_REGISTER_SYNC_CANCEL, reg,
				      1);
}

/*
 * Send a message to the ring whose descriptor is in the SQE. The caller needs no ring.
 */
int io_uring_register_sync_msg(struct io_uring_sqe *sqe)
{
	return call(~0u, SEND_MSG_RING, sqe, 1);
}

int io_uring_register_napi(RING, struct io_uring_napi *napi)
{
	return uaio_liburing_register(ring, REGISTER_NAPI, napi, 1);
}

int io_uring_unregister_napi(RING, struct io_uring_napi *napi)
{
	return uaio_liburing_register(ring, UNREGISTER_NAPI, napi, 1);
}

int io_uring_register_clock(RING, struct io_uring_clock_register *clock)
{
	return uaio_liburing_register(ring, REGISTER_CLOCK, clock, 0);
}

int io_uring_register_region(RING, struct io_uring_mem_region_reg *reg)
{
	return uaio_liburing_register(ring, MEM_REGION, reg, 1);
}

/*
 * Programs built with an older liburing may call this function, which memory regions
 * have replaced. As in newer versions, it fails.
 */
int io_uring_register_wait_reg(RING, struct io_uring_reg_wait *reg, int nr)
{
	(void)ring;
	(void)reg;
	(void)nr;
	return -EINVAL;
}

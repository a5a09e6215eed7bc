/* SPDX-License-Identifier: MIT */
/*
 * The tests' system calls of io_uring, made through functions of the linked library
 */
#include "../helpers/uring-client.h"
#include "uring/uring.h"

long uring_setup(uint32_t nr, struct io_uring_params *params)
{
	return uaio_uring_setup(nr, params);
}

long uring_enter(int fd, uint32_t to_submit, uint32_t min_complete,
		 uint32_t flags, const void *arg, size_t arg_bytes)
{
	return uaio_uring_enter((uint32_t)fd, to_submit, min_complete, flags,
				arg, arg_bytes);
}

long uring_register(int fd, uint32_t opcode, const void *arg, uint32_t nr_args)
{
	return uaio_uring_register((uint32_t)fd, opcode, (void *)(uintptr_t)arg,
				   nr_args);
}

/*
 * Use the offset of the CQ ring for both rings. The library maps the same memory at both
 * offsets. So the tests behave like a client that maps only the CQ ring.
 */
int64_t uring_map_offset(int fd, uint64_t offset)
{
	if (offset == IORING_OFF_SQ_RING)
		offset = IORING_OFF_CQ_RING;
	return uaio_uring_map_offset(fd, (int64_t)offset);
}

/* SPDX-License-Identifier: MIT */
/*
 * Part of libuaio-check.so: interposes functions of liburing that write memory of the
 * program. taken.c interposes the functions by which a program gets completions.
 *
 * MemorySanitizer sees only what instrumented code writes, not what the kernel, the
 * library or other code writes. The functions here tell it that the written memory is
 * initialised.
 *
 * Tested by test/run/checkers.py.
 */
#include <assert.h>

#include "check/shim.h"

static_assert(sizeof(struct ring) == 216, "as liburing's");
static_assert(offsetof(struct ring, cq) == 104, "as liburing's");
static_assert(offsetof(struct ring, flags) == 192, "as liburing's");

enum {
	PARAMS_BYTES = 120,
	PROBE_BYTES =
		/*
		 * size of the head of struct io_uring_probe; an entry of 8 bytes for
		 * each operation follows
		 */
	16,
	PROBED_BYTES = 8,
	SQE128 = 1 << 10, /* IORING_SETUP_SQE128 */
	BUFFER_BYTES = 16,
};

struct params;
struct probe;

EXPORT int io_uring_setup(unsigned nr_entries, struct params *params);
EXPORT int io_uring_queue_mmap(int fd, struct params *params,
			       struct ring *ring);
EXPORT int io_uring_queue_init(unsigned nr_entries, struct ring *ring,
			       unsigned flags);
EXPORT int io_uring_queue_init_params(unsigned nr_entries, struct ring *ring,
				      struct params *params);
EXPORT int io_uring_queue_init_mem(unsigned nr_entries, struct ring *ring,
				   struct params *params, void *memory,
				   size_t bytes);
EXPORT int io_uring_resize_rings(struct ring *ring, struct params *params);
EXPORT int io_uring_register_probe(struct ring *ring, struct probe *probe,
				   unsigned nr);
EXPORT void *io_uring_setup_buf_ring(struct ring *ring, unsigned nr_entries,
				     int group, unsigned flags, int *ret_error);
EXPORT int io_uring_buf_ring_head(struct ring *ring, int group,
				  uint16_t *ret_head);

/*
 * The memory was just mapped: mark it as initialised. The sanitizer may still have the
 * state of an earlier mapping at this address.
 */
static void hand_mapped(const void *at, size_t bytes)
{
	if (at)
		uaio_shim_hand(at, bytes);
}

static void hand_ring(const struct ring *ring)
{
	size_t bytes = ring->flags & SQE128 ? 128 : 64;

	uaio_shim_hand(ring, sizeof(*ring));
	hand_mapped(ring->sq.ring, ring->sq.bytes);
	hand_mapped(ring->cq.ring, ring->cq.bytes);
	hand_mapped(ring->sq.sqes, ring->sq.nr_entries * bytes);
}

int io_uring_setup(unsigned nr_entries, struct params *params)
{
	int ret = NEXT(io_uring_setup)(nr_entries, params);

	if (ret >= 0)
		uaio_shim_hand(params, PARAMS_BYTES);
	return ret;
}

int io_uring_queue_mmap(int fd, struct params *params, struct ring *ring)
{
	int ret = NEXT(io_uring_queue_mmap)(fd, params, ring);

	if (ret == 0)
		hand_ring(ring);
	return ret;
}

int io_uring_queue_init(unsigned nr_entries, struct ring *ring, unsigned flags)
{
	int ret = NEXT(io_uring_queue_init)(nr_entries, ring, flags);

	if (ret == 0)
		hand_ring(ring);
	return ret;
}

int io_uring_queue_init_params(unsigned nr_entries, struct ring *ring,
			       struct params *params)
{
	int ret = NEXT(io_uring_queue_init_params)(nr_entries, ring, params);

	if (ret == 0) {
		hand_ring(ring);
		uaio_shim_hand(params, PARAMS_BYTES);
	}
	return ret;
}

int io_uring_queue_init_mem(unsigned nr_entries, struct ring *ring,
			    struct params *params, void *memory, size_t bytes)
{
	int ret = NEXT(io_uring_queue_init_mem)(nr_entries, ring, params,
						memory, bytes);

	if (ret >= 0) {
		hand_ring(ring);
		uaio_shim_hand(params, PARAMS_BYTES);
		/*
		 * On success, liburing returns how many bytes of `memory` it uses for
		 * the rings.
		 */
		hand_mapped(memory, (size_t)ret);
	}
	return ret;
}

int io_uring_resize_rings(struct ring *ring, struct params *params)
{
	int ret = NEXT(io_uring_resize_rings)(ring, params);

	if (ret == 0) {
		hand_ring(ring);
		uaio_shim_hand(params, PARAMS_BYTES);
	}
	return ret;
}

int io_uring_register_probe(struct ring *ring, struct probe *probe, unsigned nr)
{
	int ret = NEXT(io_uring_register_probe)(ring, probe, nr);

	if (ret == 0)
		uaio_shim_hand(probe, PROBE_BYTES + (size_t)nr * PROBED_BYTES);
	return ret;
}

void *io_uring_setup_buf_ring(struct ring *ring, unsigned nr_entries, int group,
			      unsigned flags, int *ret_error)
{
	void *ret = NEXT(io_uring_setup_buf_ring)(ring, nr_entries, group,
						  flags, ret_error);

	uaio_shim_hand(ret_error, sizeof(*ret_error));
	hand_mapped(ret, (size_t)nr_entries * BUFFER_BYTES);
	return ret;
}

int io_uring_buf_ring_head(struct ring *ring, int group, uint16_t *ret_head)
{
	int ret = NEXT(io_uring_buf_ring_head)(ring, group, ret_head);

	if (ret == 0)
		uaio_shim_hand(ret_head, sizeof(*ret_head));
	return ret;
}

/* SPDX-License-Identifier: MIT */
/*
 * The first walking version: one context per io_setup, reads made inside
 * io_submit, events handed out through a ring in the kernel's layout. No
 * locking; what it does not do it refuses.
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>

#include "base/sys.h"

#define EXPORT __attribute__((visibility("default")))

struct ring {
	uint32_t id, nr, head, tail, magic, compat, incompat, header_length;
	struct io_event events[];
};

EXPORT int io_setup(int nr, struct ring **ret_ctx);
EXPORT int io_queue_init(int nr, struct ring **ret_ctx);
EXPORT int io_destroy(struct ring *ring);
EXPORT int io_submit(struct ring *ring, long nr, struct iocb **iocbs);
EXPORT int io_getevents(struct ring *ring, long min_nr, long nr,
			struct io_event *events, struct timespec *timeout);
EXPORT int io_cancel(struct ring *ring, struct iocb *cb, struct io_event *ev);

enum { RING_BYTES = 1 << 16 };

EXPORT int io_setup(int nr, struct ring **ret_ctx)
{
	struct ring *ring;

	if (nr <= 0 || *ret_ctx)
		return -EINVAL;
	if (nr > (RING_BYTES - 32) / 32 - 1)
		return -EAGAIN;
	ring = sys_mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(ring))
		return -ENOMEM;
	*ring = (struct ring){
		.nr = (RING_BYTES - 32) / 32,
		.magic = 0xa10a10a1,
		.compat = 1,
		.header_length = 32,
	};
	*ret_ctx = ring;
	return 0;
}

EXPORT int io_queue_init(int nr, struct ring **ret_ctx)
{
	*ret_ctx = NULL;
	return io_setup(nr, ret_ctx);
}

EXPORT int io_destroy(struct ring *ring)
{
	return sys_munmap(ring, RING_BYTES);
}

EXPORT int io_submit(struct ring *ring, long nr, struct iocb **iocbs)
{
	long i;

	for (i = 0; i < nr; i++) {
		const struct iocb *cb = iocbs[i];
		uint32_t next = (ring->tail + 1) % ring->nr;
		long res;

		if (next == ring->head)
			return i ? (int)i : -EAGAIN;
		if (cb->aio_lio_opcode != IOCB_CMD_PREAD)
			return i ? (int)i : -EINVAL;
		res = sys_pread((int)cb->aio_fildes,
				(void *)(uintptr_t)cb->aio_buf, cb->aio_nbytes,
				cb->aio_offset);
		ring->events[ring->tail] = (struct io_event){
			.data = cb->aio_data,
			.obj = (uintptr_t)cb,
			.res = res,
		};
		ring->tail = next;
	}
	return (int)i;
}

EXPORT int io_getevents(struct ring *ring, long min_nr, long nr,
			struct io_event *events, struct timespec *timeout)
{
	long got = 0;

	(void)min_nr; /* all that was submitted has completed */
	(void)timeout;
	while (got < nr && ring->head != ring->tail) {
		events[got++] = ring->events[ring->head];
		ring->head = (ring->head + 1) % ring->nr;
	}
	return (int)got;
}

EXPORT int io_cancel(struct ring *ring, struct iocb *cb, struct io_event *ev)
{
	(void)ring;
	(void)cb;
	(void)ev;
	return -EINVAL;
}

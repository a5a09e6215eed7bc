/* SPDX-License-Identifier: MIT */
/*
 * Checks the layouts that programs share with the library. Most are checked when this
 * file is compiled; the values in the ring's header are checked at run time.
 */
#undef NDEBUG
#include <assert.h>
#include <linux/aio_abi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "aio/aio.h"
#include "aio/ring.h"

/* struct uaio_event must have the layout of the kernel's struct io_event. */
#define SAME_EVENT_MEMBER(name)                                     \
	static_assert(offsetof(struct uaio_event, name) ==          \
			      offsetof(struct io_event, name),      \
		      "offset of " #name);                          \
	static_assert(sizeof(((struct uaio_event *)0)->name) ==     \
			      sizeof(((struct io_event *)0)->name), \
		      "size of " #name)

static_assert(sizeof(struct uaio_event) == sizeof(struct io_event), "size");
static_assert(_Alignof(struct uaio_event) == _Alignof(struct io_event),
	      "alignment");
SAME_EVENT_MEMBER(data);
SAME_EVENT_MEMBER(obj);
SAME_EVENT_MEMBER(res);
SAME_EVENT_MEMBER(res2);

/*
 * Compiled programs depend on this layout of struct iocb, whatever today's header says.
 */
#define IOCB_MEMBER(name, offset, bytes)                           \
	static_assert(offsetof(struct iocb, name) == (offset),     \
		      "offset of " #name);                         \
	static_assert(sizeof(((struct iocb *)0)->name) == (bytes), \
		      "size of " #name)

static_assert(sizeof(struct iocb) == 64, "size");
IOCB_MEMBER(aio_data, 0, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
IOCB_MEMBER(aio_key, 8, 4);
IOCB_MEMBER(aio_rw_flags, 12, 4);
#endif
IOCB_MEMBER(aio_lio_opcode, 16, 2);
IOCB_MEMBER(aio_reqprio, 18, 2);
IOCB_MEMBER(aio_fildes, 20, 4);
IOCB_MEMBER(aio_buf, 24, 8);
IOCB_MEMBER(aio_nbytes, 32, 8);
IOCB_MEMBER(aio_offset, 40, 8);
IOCB_MEMBER(aio_reserved2, 48, 8);
IOCB_MEMBER(aio_flags, 56, 4);
IOCB_MEMBER(aio_resfd, 60, 4);

static_assert(IOCB_CMD_PREAD == 0 && IOCB_CMD_PWRITE == 1, "operations");
static_assert(IOCB_CMD_FSYNC == 2 && IOCB_CMD_FDSYNC == 3, "operations");
static_assert(IOCB_CMD_POLL == 5 && IOCB_CMD_NOOP == 6, "operations");
static_assert(IOCB_CMD_PREADV == 7 && IOCB_CMD_PWRITEV == 8, "operations");
static_assert(IOCB_FLAG_RESFD == 1 && IOCB_FLAG_IOPRIO == 2, "flags");

/*
 * No kernel header declares the header of an AIO ring, but libaio and other programs
 * rely on these offsets.
 */
#define RING_MEMBER(name, offset)                                       \
	static_assert(offsetof(struct uaio_ring_map, name) == (offset), \
		      "offset of " #name)

RING_MEMBER(id, 0);
RING_MEMBER(nr, 4);
RING_MEMBER(head, 8);
RING_MEMBER(tail, 12);
RING_MEMBER(magic, 16);
RING_MEMBER(compat_features, 20);
RING_MEMBER(incompat_features, 24);
RING_MEMBER(header_length, 28);
RING_MEMBER(events, 32);
static_assert(sizeof(struct uaio_ring_map) == 32, "size");

/*
 * The last argument of io_pgetevents points to this struct: a pointer to a signal mask,
 * and the mask's size.
 */
static_assert(sizeof(struct uaio_aio_sigset) == 16, "size");
static_assert(offsetof(struct uaio_aio_sigset, mask) == 0, "offset");
static_assert(offsetof(struct uaio_aio_sigset, mask_bytes) == 8, "offset");

/*
 * Check the fields of the ring's header that programs check before they reap events
 * from the ring in memory. With the kernel's AIO this test passes, too.
 */
int main(void)
{
	const struct uaio_ring_map *map;
	aio_context_t ctx = 0;

	assert(syscall(SYS_io_setup, 32, &ctx) == 0);
	map = (const struct uaio_ring_map *)(uintptr_t)ctx;
	assert(map->magic == 0xa10a10a1 && map->incompat_features == 0);
	assert(map->compat_features == 1);
	assert(map->header_length == sizeof(struct uaio_ring_map));
	assert(map->head == 0 && map->tail == 0 && map->nr > 32);
	assert(ctx % 4096 == 0);
	assert(syscall(SYS_io_destroy, ctx) == 0);
	return 0;
}

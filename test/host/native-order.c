/* SPDX-License-Identifier: MIT */
/*
 * Cases: requests on a block device that the kernel's own AIO executes for the library
 * (UAIO_BACKEND=aio). The cases test the order of requests for the same bytes, and
 * results at the end of the device and on I/O errors.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* NR: so few writes that io_submit does not block on any block device */
enum { NR = 4 };

static struct host_device device;

/*
 * Order: a buffered request or a sync must wait until earlier direct requests have
 * completed in the kernel. The kernel's own AIO does not order requests, so the library
 * lets the later request wait.
 */

static void require_no_event(aio_context_t ctx)
{
	struct timespec now = { 0 };
	struct io_event event;

	REQUIRE(syscall(SYS_io_getevents, ctx, 0l, 1l, &event, &now) == 0);
}

/* Check that block nr of the file has this content. */
static void require_block(int fd, unsigned nr, const uint32_t *block)
{
	static uint32_t seen[BLOCK / sizeof(uint32_t)];

	REQUIRE(pread(fd, seen, BLOCK, (off_t)nr * BLOCK) == BLOCK);
	REQUIRE(!memcmp(seen, block, BLOCK));
}

void native_order(void)
{
	static uint32_t read[NR][BLOCK / sizeof(uint32_t)];
	static uint32_t later[BLOCK / sizeof(uint32_t)];
	int buffered;

	device = host_device_open();
	buffered = open(device.path, O_RDWR | O_CLOEXEC);
	REQUIRE(buffered >= 0);
	memset(later, 'l', sizeof(later));
	for (unsigned round = 0; round < 10; round++) {
		struct host_held held = host_device_hold(&device, NR);
		struct iocb iocbs[] = {
			host_iocb(IOCB_CMD_PREAD, buffered, read, sizeof(read),
				  0),
			host_iocb(IOCB_CMD_PWRITE, buffered, later, BLOCK, 0),
			host_iocb(round & 1 ? IOCB_CMD_FSYNC : IOCB_CMD_FDSYNC,
				  round & 2 ? held.fd : buffered, NULL, 0, 0),
		};
		bool is_over[NR_ELEMENTS(iocbs)] = { false };

		for (size_t i = 0; i < NR_ELEMENTS(iocbs); i++)
			REQUIRE(host_submit(held.ctx, &iocbs[i]) == 1);
		require_no_event(held.ctx);
		slowfs_release(device.fs, SLOWFS_WRITE);
		for (unsigned i = 0; i < NR + NR_ELEMENTS(iocbs); i++) {
			struct io_event event;
			struct iocb *iocb;

			REQUIRE(host_reap(held.ctx, 1, &event) == 1);
			iocb = (struct iocb *)(uintptr_t)event.obj;
			if (iocb < iocbs ||
			    iocb >= iocbs + NR_ELEMENTS(iocbs)) {
				REQUIRE(event.res == BLOCK);
				/*
				 * This event belongs to a write. The sync was submitted
				 * after all writes, so the sync must not have completed
				 * yet.
				 */
				REQUIRE(!is_over[2]);
				continue;
			}
			REQUIRE(event.res == (int64_t)iocb->aio_nbytes);
			is_over[iocb - iocbs] = true;
		}
		/*
		 * The read must return the bytes that were written before it, and none
		 * that were written later.
		 */
		for (unsigned i = 0; i < NR; i++)
			REQUIRE(read[i][0] == i &&
				read[i][1] == (i ^ 1u << 16));
		require_block(buffered, 0, later);
		for (unsigned i = 1; i < NR; i++)
			require_block(buffered, i, read[i]);
		REQUIRE(fsync(buffered) == 0);
		require_block(device.file, 0, later);
		/*
		 * Drop the cached pages: while pages are cached, the library does not
		 * pass direct requests to the kernel.
		 */
		REQUIRE(!posix_fadvise(buffered, 0, 0, POSIX_FADV_DONTNEED));
		host_held_drop(&held);
	}
	REQUIRE(close(buffered) == 0);
	host_device_close(&device);
}

/*
 * Results at the end of the device, and after I/O errors
 */

static char buf[2 * BLOCK] __attribute__((aligned(4096)));

static int64_t result(aio_context_t ctx, int opcode, int fd, void *from,
		      size_t bytes, long long off)
{
	struct iocb iocb = host_iocb(opcode, fd, from, bytes, off);
	struct io_event event;

	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	return event.res;
}

void native_edges(void)
{
	const long long end = (long long)DEVICE_BLOCKS * BLOCK;
	aio_context_t ctx = host_context(4);
	static const struct {
		int opcode;
		unsigned bytes;
		long long from_end;
		int64_t res;
	} rows[] = {
		{ IOCB_CMD_PREAD, BLOCK, -BLOCK, BLOCK },
		{ IOCB_CMD_PREAD, 2 * BLOCK, -BLOCK, BLOCK },
		{ IOCB_CMD_PREAD, BLOCK, 0, 0 },
		{ IOCB_CMD_PREAD, BLOCK, BLOCK, 0 },
		{ IOCB_CMD_PREAD, BLOCK - 1, -BLOCK, -EINVAL },
		{ IOCB_CMD_PREAD, BLOCK, 1 - BLOCK, -EINVAL },
		{ IOCB_CMD_PWRITE, BLOCK, -BLOCK, BLOCK },
		{ IOCB_CMD_PWRITE, 2 * BLOCK, -BLOCK, BLOCK },
		{ IOCB_CMD_PWRITE, BLOCK, 0, -ENOSPC },
		{ IOCB_CMD_PWRITE, BLOCK, 1 - BLOCK, -EINVAL },
	};
	int fd;

	device = host_device_open();
	fd = host_device_direct(&device);
	for (unsigned round = 0; round < 10; round++)
		for (size_t i = 0; i < NR_ELEMENTS(rows); i++)
			REQUIRE(result(ctx, rows[i].opcode, fd, buf,
				       rows[i].bytes,
				       end + rows[i].from_end) == rows[i].res);
	REQUIRE(close(fd) == 0 && host_destroy(ctx) == 0);
	host_device_close(&device);
}

/*
 * Several requests are in flight. One block fails: only the request of that block may
 * have the error.
 */
static void fail_one(enum slowfs_op op, int opcode, aio_context_t ctx, int fd)
{
	static char blocks[NR][BLOCK] __attribute__((aligned(4096)));
	/* so far apart that the kernel does not merge the requests */
	enum { APART = 64 * BLOCK, BAD = 2 };
	struct iocb iocbs[NR];

	slowfs_fault_at(device.fs, op, BAD * APART,
			(struct slowfs_fault){ .error = EIO });
	for (unsigned i = 0; i < NR; i++) {
		iocbs[i] = host_iocb(opcode, fd, blocks[i], BLOCK,
				     (long long)i * APART);
		REQUIRE(host_submit(ctx, &iocbs[i]) == 1);
	}
	for (unsigned i = 0; i < NR; i++) {
		struct io_event event;

		REQUIRE(host_reap(ctx, 1, &event) == 1);
		REQUIRE(event.res ==
			(event.obj == (uintptr_t)&iocbs[BAD] ? -EIO : BLOCK));
	}
	slowfs_mend(device.fs);
	REQUIRE(result(ctx, opcode, fd, blocks[BAD], BLOCK, BAD * APART) ==
		BLOCK);
}

void native_failing(void)
{
	aio_context_t ctx = host_context(NR);
	int fd;

	device = host_device_open();
	fd = host_device_direct(&device);
	for (unsigned round = 0; round < 10; round++) {
		fail_one(SLOWFS_WRITE, IOCB_CMD_PWRITE, ctx, fd);
		fail_one(SLOWFS_READ, IOCB_CMD_PREAD, ctx, fd);
	}
	REQUIRE(close(fd) == 0 && host_destroy(ctx) == 0);
	host_device_close(&device);
}

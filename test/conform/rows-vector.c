/* SPDX-License-Identifier: MIT */
/*
 * PREADV and PWRITEV.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"

static char buf[8192];

#define PREADV_OF(...) iocb_of(IOCB_CMD_PREADV, __VA_ARGS__)
#define PWRITEV_OF(...) iocb_of(IOCB_CMD_PWRITEV, __VA_ARGS__)

static void counts(void)
{
	static struct iovec iov[1025];
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	static const size_t nrs[] = { 0,
				      1,
				      8,
				      9,
				      1023,
				      1024,
				      1025,
				      INT_MAX,
				      UINT_MAX,
				      1ul << 32,
				      (1ul << 32) + 1,
				      LONG_MAX,
				      -1ul };
	struct iocb cb;
	char key[64];
	size_t i;

	for (i = 0; i < 1025; i++)
		iov[i] = (struct iovec){ buf + i, 1 };
	for (i = 0; i < sizeof(nrs) / sizeof(nrs[0]); i++) {
		cb = PREADV_OF(fd, iov, nrs[i], 0);
		snprintf(key, sizeof(key), "read_%zx", nrs[i]);
		try_one(key, ctx, &cb);
		cb = PWRITEV_OF(fd, iov, nrs[i], 0);
		snprintf(key, sizeof(key), "write_%zx", nrs[i]);
		try_one(key, ctx, &cb);
	}
}

static void scatter_gather(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 300, O_RDWR);
	struct iovec iov[4] = {
		{ buf, 100 }, { NULL, 0 }, { buf + 200, 150 }, { buf + 400, 90 }
	};
	struct iocb cb = PREADV_OF(fd, iov, 4, 10);

	try_one("read", ctx, &cb);
	note("good", is_pattern(buf, 100, 10) &&
			     is_pattern(buf + 200, 150, 110) &&
			     is_pattern(buf + 400, 40, 260));
	note("rest", buf[440] == 0);
	TRY_EACH(ctx, fd, { "write", PWRITEV, iov, 4, 300 });
	memset(buf, 0, sizeof(buf));
	REQUIRE(pread(fd, buf, 400, 300) == 340);
	note("written", is_pattern(buf, 290, 10));
}

static void array_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	struct iovec *iov = pages_of(4096, PROT_READ | PROT_WRITE);

	TRY_EACH(ctx, fd, { "null", PREADV, NULL, 1, 0 },
		 { "null_0", PREADV, NULL, 0, 0 },
		 { "null_1025", PREADV, NULL, 1025, 0 },
		 { "kernel", PREADV, KERNEL_ADDRESS, 1, 0 },
		 { "kernel_0", PREADV, KERNEL_ADDRESS, 0, 0 });
	iov[255] = (struct iovec){ buf, 16 };
	TRY_EACH(ctx, fd, { "to_the_end", PREADV, iov + 255, 1, 0 });
}

static void lengths(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	struct iovec iov[3] = { { buf, 16 }, { buf, 16 }, { buf, 16 } };
	struct iocb cb = PREADV_OF(fd, iov, 3, 0);

	iov[1].iov_len = -1ul;
	try_one("negative", ctx, &cb);
	iov[1].iov_len = 1ul << 63;
	try_one("ssize_min", ctx, &cb);
	iov[1].iov_len = LONG_MAX;
	try_one("sum_overflows", ctx, &cb);
	iov[1].iov_len = 0x7ffff000;
	try_one("sum_is_cut", ctx, &cb);
	iov[0].iov_len = iov[1].iov_len = iov[2].iov_len = 0x7fffffff;
	try_one("all_long", ctx, &cb);
	iov[0].iov_len = iov[1].iov_len = iov[2].iov_len = 0;
	try_one("all_empty", ctx, &cb);
	iov[0].iov_len = -1ul;
	cb.aio_nbytes = 1;
	try_one("one_negative", ctx, &cb);
}

static void bases(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	struct iovec iov[3] = { { buf, 16 }, { buf, 16 }, { buf, 16 } };
	struct iocb cb = PREADV_OF(fd, iov, 3, 0);

	iov[1].iov_base = KERNEL_ADDRESS;
	try_one("kernel", ctx, &cb);
	iov[1].iov_len = 0;
	try_one("kernel_empty", ctx, &cb);
	cb.aio_lio_opcode = IOCB_CMD_PWRITEV;
	try_one("write_kernel_empty", ctx, &cb);
	iov[1] = (struct iovec){ NULL, 16 };
	try_one("write_null", ctx, &cb);
	cb.aio_lio_opcode = IOCB_CMD_PREADV;
	try_one("null", ctx, &cb);
	iov[1].iov_base = pages_of(4096, PROT_READ);
	try_one("read_only", ctx, &cb);
	iov[0].iov_base = NULL;
	try_one("first_null", ctx, &cb);
	cb.aio_offset = 4096;
	try_one("at_end", ctx, &cb);
}

static void order_of_checks(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	struct iovec iov[2] = { { buf, 16 }, { buf, -1ul } };
	struct iocb cb = PREADV_OF(-1, NULL, 1025, -1);

	try_one("fd_first", ctx, &cb);
	cb = PREADV_OF(fd, iov, 2, -1);
	try_one("length_and_offset", ctx, &cb);
	cb = PREADV_OF(fd, NULL, 1, -1);
	try_one("array_and_offset", ctx, &cb);
	iov[1].iov_len = 16;
	cb = PREADV_OF(fd, iov, 2, -1);
	try_one("offset", ctx, &cb);
	cb.aio_rw_flags = 1 << 30;
	cb.aio_nbytes = 1025;
	try_one("flags_and_count", ctx, &cb);
	iov[0].iov_base = KERNEL_ADDRESS;
	iov[1].iov_len = -1ul;
	cb = PREADV_OF(fd, iov, 2, 0);
	try_one("base_then_length", ctx, &cb);
	iov[0] = (struct iovec){ buf, -1ul };
	iov[1] = (struct iovec){ KERNEL_ADDRESS, 16 };
	try_one("length_then_base", ctx, &cb);
	cb = PREADV_OF(file_of("w", 16, O_WRONLY), NULL, 1025, 0);
	try_one("direction_and_count", ctx, &cb);
}

/* The client may overwrite its array of iovecs as soon as io_submit returns. */
static void array_reused(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR | O_DIRECT);
	char *pages = pages_of(8192, PROT_READ | PROT_WRITE);
	struct iovec *iov = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iocb cb = PREADV_OF(fd, iov, 2, 0);
	struct io_event ev;

	iov[0] = (struct iovec){ pages, 2048 };
	iov[1] = (struct iovec){ pages + 4096, 2048 };
	note_result("submit", submit_one(ctx, &cb));
	REQUIRE(munmap(iov, 4096) == 0);
	note_result("reap", reap(ctx, 1, &ev));
	note_event("read", &ev, &cb);
	note("good", is_pattern(pages, 2048, 0) &&
			     is_pattern(pages + 4096, 2048, 2048));
}

/*
 * Writes 3 GiB, but one call can move at most 2 GiB minus a page. A write to /dev/null
 * does not read the memory, so little memory is enough.
 */
static void more_than_a_call_moves(void)
{
	aio_context_t ctx = new_context(8);
	size_t bytes = 1ul << 30;
	int fd = open("/dev/null", O_WRONLY);
	char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct iovec iov[3] = { { pages, bytes },
				{ pages, bytes },
				{ pages, bytes } };
	struct iocb cb = PWRITEV_OF(fd, iov, 3, 0);

	REQUIRE(fd >= 0 && pages != MAP_FAILED);
	try_one("three_parts", ctx, &cb);
	cb = PWRITEV_OF(fd, iov, 1, 0);
	try_one("one_part", ctx, &cb);
	cb = iocb_of(IOCB_CMD_PWRITE, fd, pages, bytes, 0);
	try_one("no_parts", ctx, &cb);
	close(fd);
	REQUIRE(munmap(pages, bytes) == 0);
}

const struct row rows_vector[] = {
	ROW("the number of pieces is at most 1024", counts),
	ROW("pieces are filled and written in order", scatter_gather),
	ROW("a bad array of pieces is EFAULT", array_bad),
	ROW("lengths of pieces, and their sum", lengths),
	ROW("addresses of pieces", bases),
	ROW("pieces: the first of two mistakes", order_of_checks),
	ROW("the array of pieces is copied", array_reused),
	ROW("pieces of more than a call moves", more_than_a_call_moves),
	NO_ROW,
};

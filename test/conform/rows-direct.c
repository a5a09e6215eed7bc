/* SPDX-License-Identifier: MIT */
/* O_DIRECT: alignment, the end of the file, and reading back data. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "ring.h"

static char buf[65536] __attribute__((aligned(4096)));

static void aligned(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	struct iocb cb = PREAD_OF(fd, buf, 65536, 0);

	try_one("read", ctx, &cb);
	note("good", is_pattern(buf, 65536, 0));
	TRY_EACH(ctx, fd, { "write", PWRITE, buf + 4096, 4096, 0 },
		 { "again", PREAD, buf, 4096, 0 });
	note("written", is_pattern(buf, 4096, 4096));
	TRY_EACH(ctx, fd, { "nothing", PREAD, buf, 0, 0 },
		 { "nothing_misaligned", PREAD, buf + 1, 0, 1 });
}

static void misaligned(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);

	TRY_EACH(ctx, fd, { "read_buffer_1", PREAD, buf + 1, 4096, 0 },
		 { "read_offset_1", PREAD, buf, 4096, 1 },
		 { "read_length_4095", PREAD, buf, 4095, 0 },
		 { "read_length_100", PREAD, buf, 100, 0 },
		 { "write_buffer_1", PWRITE, buf + 1, 4096, 0 },
		 { "write_offset_1", PWRITE, buf, 4096, 1 },
		 { "write_length_4095", PWRITE, buf, 4095, 0 },
		 { "append_length_100", PWRITE, buf, 100, 65536 });
}

static void misaligned_past_end(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR | O_DIRECT);

	TRY_EACH(ctx, fd, { "offset", PREAD, buf, 4096, 8193 },
		 { "buffer", PREAD, buf + 1, 4096, 8192 },
		 { "null", PREAD, NULL, 4096, 8192 });
}

static void sector(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);

	TRY_EACH(ctx, fd, { "read_512", PREAD, buf + 512, 512, 512 },
		 { "read_buffer_4", PREAD, buf + 4, 512, 512 },
		 { "read_buffer_64", PREAD, buf + 64, 4096, 0 });
}

static void ends(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 10000, O_RDWR | O_DIRECT);

	TRY_EACH(ctx, fd, { "whole", PREAD, buf, 65536, 0 });
	note("good", is_pattern(buf, 10000, 0));
	TRY_EACH(ctx, fd, { "across_end", PREAD, buf, 4096, 8192 },
		 { "past_end", PREAD, buf, 4096, 12288 },
		 { "far_past_end", PREAD, buf, 4096, 1ll << 40 },
		 { "write_across_end", PWRITE, buf, 4096, 8192 });
	note("size", lseek(fd, 0, SEEK_END));
	TRY_EACH(ctx, fd, { "write_past_end", PWRITE, buf, 4096, 65536 });
	note("size", lseek(fd, 0, SEEK_END));
}

static void buffers_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	char *page = pages_of(4096, PROT_READ | PROT_WRITE);

	TRY_EACH(
		ctx, fd, { "read_null", PREAD, NULL, 4096, 0 },
		{ "read_read_only", PREAD, pages_of(4096, PROT_READ), 4096, 0 },
		{ "read_half", PREAD, page, 8192, 0 },
		{ "write_null", PWRITE, NULL, 4096, 0 },
		{ "write_no_access", PWRITE, pages_of(4096, PROT_NONE), 4096,
		  0 },
		{ "read_kernel", PREAD, KERNEL_ADDRESS, 4096, 0 });
}

static void vectors(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	struct iovec iov[3] = { { buf, 4096 },
				{ buf + 16384, 8192 },
				{ buf + 32768, 4096 } };
	struct iocb cb = iocb_of(IOCB_CMD_PREADV, fd, iov, 3, 4096);

	try_one("read", ctx, &cb);
	note("good", is_pattern(buf, 4096, 4096) &&
			     is_pattern(buf + 16384, 8192, 8192) &&
			     is_pattern(buf + 32768, 4096, 16384));
	iov[1].iov_len = 100;
	try_one("misaligned_piece", ctx, &cb);
	iov[1].iov_len = 0;
	try_one("empty_piece", ctx, &cb);
	iov[1] = (struct iovec){ buf + 16384, 4096 };
	cb = iocb_of(IOCB_CMD_PWRITEV, fd, iov, 3, 65536);
	try_one("write", ctx, &cb);
	note("size", lseek(fd, 0, SEEK_END));
}

static void offsets_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);

	TRY_EACH(ctx, fd, { "read_-1", PREAD, buf, 4096, -1 },
		 { "read_-4096", PREAD, buf, 4096, -4096 },
		 { "write_-4096", PWRITE, buf, 4096, -4096 },
		 { "read_last", PREAD, buf, 4096, LLONG_MAX - 4095 },
		 { "read_last_but_one", PREAD, buf, 4096, LLONG_MAX - 8191 },
		 { "write_last_but_one", PWRITE, buf, 4096, LLONG_MAX - 8191 });
}

static void limit_file_size(void)
{
	struct rlimit limit = { 8192, 8192 };
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 0, O_RDWR | O_DIRECT);

	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	TRY_EACH(ctx, fd, { "across", PWRITE, buf, 8192, 4096 },
		 { "at", PWRITE, buf, 4096, 8192 });
}

/*
 * Counts each SIGXFSZ during a direct write that overwrites existing bytes beyond
 * RLIMIT_FSIZE. Under uaio a worker executes the write, and no SIGXFSZ is raised.
 */
static volatile sig_atomic_t nr_sigxfsz;

static void on_sigxfsz(int sig)
{
	(void)sig;
	nr_sigxfsz++;
}

static void limit_in_place(void)
{
	struct rlimit limit = { 8192, 8192 };
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	struct iocb cb = PWRITE_OF(fd, buf, 4096, 16384);

	signal(SIGXFSZ, on_sigxfsz);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	try_one("write", ctx, &cb);
	note("sigxfsz", nr_sigxfsz);
}

static void depth(void)
{
	aio_context_t ctx = new_context(64);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT), i, round;
	struct iocb cbs[16], *list[16];
	struct io_event ev[16];
	long wrong = 0;

	rings_unordered();
	for (round = 0; round < 20; round++) {
		memset(buf, 0, sizeof(buf));
		for (i = 0; i < 16; i++) {
			cbs[i] = PREAD_OF(fd, buf + 4096 * i, 4096, 4096 * i);
			list[i] = &cbs[i];
		}
		REQUIRE(call_submit(ctx, 16, list) == 16);
		REQUIRE(reap(ctx, 16, ev) == 16);
		for (i = 0; i < 16; i++)
			wrong += ev[i].res != 4096;
		wrong += !is_pattern(buf, 65536, 0);
	}
	note("wrong", wrong);
}

static void closed_in_flight(void)
{
	aio_context_t ctx = new_context(64);
	struct iocb cbs[16], *list[16];
	struct io_event ev[16];
	int fd, other, i, round;
	long wrong = 0;

	rings_unordered();
	for (round = 0; round < 20; round++) {
		fd = file_of("f", 65536, O_RDWR | O_DIRECT);
		other = file_of("other", 0, O_RDWR);
		for (i = 0; i < 16; i++) {
			cbs[i] = PREAD_OF(fd, buf + 4096 * i, 4096, 4096 * i);
			list[i] = &cbs[i];
		}
		REQUIRE(call_submit(ctx, 16, list) == 16);
		REQUIRE(dup2(other, fd) == fd);
		REQUIRE(reap(ctx, 16, ev) == 16);
		for (i = 0; i < 16; i++)
			wrong += ev[i].res != 4096;
		wrong += !is_pattern(buf, 65536, 0);
		close(fd);
		close(other);
	}
	note("wrong", wrong);
}

const struct row rows_direct[] = {
	ROW("aligned direct requests", aligned),
	ROW("misaligned direct requests are the event's EINVAL", misaligned),
	ROW("misaligned direct reads past the end", misaligned_past_end),
	ROW("direct requests of a sector", sector),
	ROW("direct requests at the end of the file", ends),
	ROW("direct requests with bad buffers", buffers_bad),
	ROW("direct requests in pieces", vectors),
	ROW("direct requests at offsets out of range", offsets_bad),
	ROW("direct writes stop at RLIMIT_FSIZE", limit_file_size),
	ROW_DIFFERS("a direct write past RLIMIT_FSIZE raises SIGXFSZ",
		    limit_in_place, differs_signals_direct,
		    { "sigxfsz=1", "sigxfsz=0" }),
	ROW("many direct reads in flight", depth),
	ROW("direct reads stay with their file when its descriptor is reused",
	    closed_in_flight),
	NO_ROW,
};

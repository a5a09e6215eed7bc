/* SPDX-License-Identifier: MIT */
/*
 * O_DIRECT: alignment, ends, and what is read back.
 */
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
	cb = PWRITE_OF(fd, buf + 4096, 4096, 0);
	try_one("write", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, 0);
	try_one("again", ctx, &cb);
	note("written", is_pattern(buf, 4096, 4096));
	cb = PREAD_OF(fd, buf, 0, 0);
	try_one("nothing", ctx, &cb);
	cb = PREAD_OF(fd, buf + 1, 0, 1);
	try_one("nothing_misaligned", ctx, &cb);
}

static void misaligned(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	struct iocb cb;

	cb = PREAD_OF(fd, buf + 1, 4096, 0);
	try_one("read_buffer_1", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, 1);
	try_one("read_offset_1", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4095, 0);
	try_one("read_length_4095", ctx, &cb);
	cb = PREAD_OF(fd, buf, 100, 0);
	try_one("read_length_100", ctx, &cb);
	cb = PWRITE_OF(fd, buf + 1, 4096, 0);
	try_one("write_buffer_1", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 4096, 1);
	try_one("write_offset_1", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 4095, 0);
	try_one("write_length_4095", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 100, 65536);
	try_one("append_length_100", ctx, &cb);
}

static void misaligned_past_end(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR | O_DIRECT);
	struct iocb cb;

	cb = PREAD_OF(fd, buf, 4096, 8193);
	try_one("offset", ctx, &cb);
	cb = PREAD_OF(fd, buf + 1, 4096, 8192);
	try_one("buffer", ctx, &cb);
	cb = PREAD_OF(fd, NULL, 4096, 8192);
	try_one("null", ctx, &cb);
}

static void sector(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	struct iocb cb;

	cb = PREAD_OF(fd, buf + 512, 512, 512);
	try_one("read_512", ctx, &cb);
	cb = PREAD_OF(fd, buf + 4, 512, 512);
	try_one("read_buffer_4", ctx, &cb);
	cb = PREAD_OF(fd, buf + 64, 4096, 0);
	try_one("read_buffer_64", ctx, &cb);
}

static void ends(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 10000, O_RDWR | O_DIRECT);
	struct iocb cb;

	cb = PREAD_OF(fd, buf, 65536, 0);
	try_one("whole", ctx, &cb);
	note("good", is_pattern(buf, 10000, 0));
	cb = PREAD_OF(fd, buf, 4096, 8192);
	try_one("across_end", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, 12288);
	try_one("past_end", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, 1ll << 40);
	try_one("far_past_end", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 4096, 8192);
	try_one("write_across_end", ctx, &cb);
	note("size", lseek(fd, 0, SEEK_END));
	cb = PWRITE_OF(fd, buf, 4096, 65536);
	try_one("write_past_end", ctx, &cb);
	note("size", lseek(fd, 0, SEEK_END));
}

static void buffers_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 65536, O_RDWR | O_DIRECT);
	char *page = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iocb cb;

	cb = PREAD_OF(fd, NULL, 4096, 0);
	try_one("read_null", ctx, &cb);
	cb = PREAD_OF(fd, pages_of(4096, PROT_READ), 4096, 0);
	try_one("read_read_only", ctx, &cb);
	cb = PREAD_OF(fd, page, 8192, 0);
	try_one("read_half", ctx, &cb);
	cb = PWRITE_OF(fd, NULL, 4096, 0);
	try_one("write_null", ctx, &cb);
	cb = PWRITE_OF(fd, pages_of(4096, PROT_NONE), 4096, 0);
	try_one("write_no_access", ctx, &cb);
	cb = PREAD_OF(fd, KERNEL_ADDRESS, 4096, 0);
	try_one("read_kernel", ctx, &cb);
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
	struct iocb cb;

	cb = PREAD_OF(fd, buf, 4096, -1);
	try_one("read_-1", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, -4096);
	try_one("read_-4096", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 4096, -4096);
	try_one("write_-4096", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, LLONG_MAX - 4095);
	try_one("read_last", ctx, &cb);
	cb = PREAD_OF(fd, buf, 4096, LLONG_MAX - 8191);
	try_one("read_last_but_one", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 4096, LLONG_MAX - 8191);
	try_one("write_last_but_one", ctx, &cb);
}

static void limit_file_size(void)
{
	struct rlimit limit = { 8192, 8192 };
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 0, O_RDWR | O_DIRECT);
	struct iocb cb;

	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	cb = PWRITE_OF(fd, buf, 8192, 4096);
	try_one("across", ctx, &cb);
	cb = PWRITE_OF(fd, buf, 4096, 8192);
	try_one("at", ctx, &cb);
}

/* In place, so that it is not made at once: another thread is to blame. */
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
		    limit_in_place, differs_signals,
		    { "sigxfsz=1", "sigxfsz=0" }),
	ROW("many direct reads in flight", depth),
	ROW("direct reads stay with their file when the number is reused",
	    closed_in_flight),
	NO_ROW,
};

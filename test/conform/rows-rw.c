/* SPDX-License-Identifier: MIT */
/*
 * Buffered PREAD and PWRITE: lengths, offsets, buffers, the end of the file, and limits
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conform.h"

static char buf[16384];

static void lengths_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);

	TRY_EACH(ctx, fd, { "read_-1", PREAD, buf, -1ul, 0 },
		 { "write_-1", PWRITE, buf, -1ul, 0 },
		 { "read_ssize_min", PREAD, buf, 1ul << 63, 0 },
		 { "read_ssize_max", PREAD, buf, LONG_MAX, 0 },
		 { "read_2_47", PREAD, buf, 1ul << 47, 0 },
		 { "read_max_rw", PREAD, buf, 0x7ffff000, 0 },
		 { "read_int_max", PREAD, buf, 0x7fffffff, 0 },
		 { "read_2_32", PREAD, buf, 1ul << 32, 0 },
		 { "read_ssize_max_at_4096", PREAD, buf, LONG_MAX, 4096 },
		 { "read_ssize_max_past_end", PREAD, buf, LONG_MAX, 4097 });
}

static void lengths_zero(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);

	TRY_EACH(ctx, fd, { "read", PREAD, buf, 0, 0 },
		 { "write", PWRITE, buf, 0, 0 },
		 { "read_null", PREAD, NULL, 0, 0 },
		 { "read_kernel", PREAD, KERNEL_ADDRESS, 0, 0 },
		 { "write_kernel", PWRITE, KERNEL_ADDRESS, 0, 0 },
		 { "write_past_end", PWRITE, buf, 0, 1 << 20 },
		 { "read_offset_-1", PREAD, buf, 0, -1 },
		 { "write_offset_-1", PWRITE, buf, 0, -1 });
}

static void offsets_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);

	TRY_EACH(ctx, fd, { "read_-1", PREAD, buf, 16, -1 },
		 { "write_-1", PWRITE, buf, 16, -1 },
		 { "read_min", PREAD, buf, 16, LLONG_MIN },
		 { "read_max", PREAD, buf, 16, LLONG_MAX },
		 { "read_max_-15", PREAD, buf, 16, LLONG_MAX - 15 },
		 { "read_max_-4095", PREAD, buf, 16, LLONG_MAX - 4095 },
		 { "write_max", PWRITE, buf, 16, LLONG_MAX },
		 { "write_max_-15", PWRITE, buf, 16, LLONG_MAX - 15 },
		 { "write_max_-4095", PWRITE, buf, 16, LLONG_MAX - 4095 });
}

static void ends(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 10000, O_RDWR);
	struct iocb cb;

	TRY_EACH(ctx, fd, { "whole", PREAD, buf, sizeof(buf), 0 });
	note("good", is_pattern(buf, 10000, 0));
	TRY_EACH(ctx, fd, { "across_end", PREAD, buf, 4096, 8192 });
	note("good_tail", is_pattern(buf, 1808, 8192));
	TRY_EACH(ctx, fd, { "last_byte", PREAD, buf, 4096, 9999 },
		 { "at_end", PREAD, buf, 4096, 10000 },
		 { "far_past_end", PREAD, buf, 4096, 1ll << 40 });
	cb = PREAD_OF(file_of("empty", 0, O_RDONLY), buf, 4096, 0);
	try_one("empty_file", ctx, &cb);
}

static void write_and_look(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 100, O_RDWR);
	struct iocb cb = PWRITE_OF(fd, "hello", 5, 3);
	struct stat st;

	try_one("inside", ctx, &cb);
	REQUIRE(pread(fd, buf, 16, 0) == 16);
	note("hello", !memcmp(buf + 3, "hello", 5));
	note("around", is_pattern(buf, 3, 0) && is_pattern(buf + 8, 8, 8));
	TRY_EACH(ctx, fd, { "across_end", PWRITE, "hello", 5, 98 },
		 { "hole", PWRITE, "hello", 5, 5000 });
	REQUIRE(fstat(fd, &st) == 0);
	note("size", st.st_size);
	REQUIRE(pread(fd, buf, 8, 2000) == 8);
	note("zero", buf[0] == 0 && buf[7] == 0);
	note("offset_unmoved", lseek(fd, 0, SEEK_CUR));
}

static void buffers_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	void *bad[] = { NULL, (void *)4096, pages_of(4096, PROT_NONE),
			pages_of(4096, PROT_READ) };
	static const char *const names[] = { "null", "unmapped", "no_access",
					     "read_only" };
	struct iocb cb;
	char key[64];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(key, sizeof(key), "read_%s", names[i]);
		cb = PREAD_OF(fd, bad[i], 64, 0);
		try_one(key, ctx, &cb);
		snprintf(key, sizeof(key), "read_%s_at_end", names[i]);
		cb = PREAD_OF(fd, bad[i], 64, 4096);
		try_one(key, ctx, &cb);
		snprintf(key, sizeof(key), "write_%s", names[i]);
		cb = PWRITE_OF(fd, bad[i], 64, 0);
		try_one(key, ctx, &cb);
	}
}

static void buffers_kernel(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);

	TRY_EACH(ctx, fd, { "read", PREAD, KERNEL_ADDRESS, 64, 0 },
		 { "write", PWRITE, KERNEL_ADDRESS, 64, 0 },
		 { "read_top", PREAD, (void *)-1l, 1, 0 },
		 { "read_across", PREAD, (void *)0x7fffffffe000, 1 << 20, 0 },
		 { "read_non_canonical", PREAD, (void *)0x0000900000000000, 64,
		   0 },
		 { "read_long", PREAD, buf, 1ul << 62, 0 });
}

static void buffers_partial(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 16384, O_RDWR);
	char *page = pages_of(4096, PROT_READ | PROT_WRITE);

	TRY_EACH(ctx, fd, { "read_half", PREAD, page, 8192, 0 });
	note("good", is_pattern(page, 4096, 0));
	TRY_EACH(ctx, fd, { "read_96", PREAD, page + 4000, 8192, 4000 },
		 { "write_half", PWRITE, page, 8192, 0 },
		 { "write_96", PWRITE, page + 4000, 8192, 0 });
}

static void append(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 100, O_RDWR | O_APPEND);
	struct iocb cb = PWRITE_OF(fd, "hello", 5, 3);
	struct stat st;

	try_one("at_3", ctx, &cb);
	TRY_EACH(ctx, fd, { "at_1m", PWRITE, "hello", 5, 1 << 20 });
	REQUIRE(fstat(fd, &st) == 0);
	note("size", st.st_size);
	TRY_EACH(ctx, fd, { "at_-1", PWRITE, "hello", 5, -1 });
}

static void limit_file_size(int sig_ign)
{
	struct rlimit limit = { 10000, 10000 };
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 0, O_RDWR);
	struct iocb cb = PWRITE_OF(fd, buf, 8192, 4096);

	if (sig_ign)
		signal(SIGXFSZ, SIG_IGN);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	try_one("across", ctx, &cb);
	TRY_EACH(ctx, fd, { "to_the_byte", PWRITE, buf, 64, 9990 },
		 { "nothing_at", PWRITE, buf, 0, 10000 },
		 { "at", PWRITE, buf, 64, 10000 },
		 { "beyond", PWRITE, buf, 64, 20000 });
}

static void limit_ignored(void)
{
	limit_file_size(1);
}

static void limit_deadly(void)
{
	limit_file_size(0);
}

static void many_in_one_call(void)
{
	aio_context_t ctx = new_context(64);
	int fd = file_of("f", 0, O_RDWR), i;
	struct iocb cbs[32], *list[32];
	struct io_event ev[32];
	long wrong = 0;

	for (i = 0; i < 32; i++) {
		buf[i] = (char)i;
		cbs[i] = PWRITE_OF(fd, buf + i, 1, 31 - i);
		list[i] = &cbs[i];
	}
	note_result("submit", call_submit(ctx, 32, list));
	note_result("reap", reap(ctx, 32, ev));
	for (i = 0; i < 32; i++)
		wrong += ev[i].res != 1;
	REQUIRE(pread(fd, buf, 32, 0) == 32);
	for (i = 0; i < 32; i++)
		wrong += buf[i] != 31 - i;
	note("wrong", wrong);
}

static void write_then_read(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 0, O_RDWR);
	struct iocb cbs[4], *list[4] = { cbs, cbs + 1, cbs + 2, cbs + 3 };
	struct io_event ev[4];
	char in[6] = "", again[6] = "";

	cbs[0] = PWRITE_OF(fd, "first", 5, 0);
	cbs[1] = PREAD_OF(fd, in, 5, 0);
	cbs[2] = PWRITE_OF(fd, "again", 5, 0);
	cbs[3] = PREAD_OF(fd, again, 5, 0);
	note_result("submit", call_submit(ctx, 4, list));
	note_result("reap", reap(ctx, 4, ev));
	note_text("in", in);
	note_text("again", again);
}

const struct row rows_rw[] = {
	ROW("lengths that are no ssize_t are EINVAL, others are cut",
	    lengths_bad),
	ROW("requests for nothing", lengths_zero),
	ROW("offsets out of range", offsets_bad),
	ROW("reads end where the file ends", ends),
	ROW("writes go where they should", write_and_look),
	ROW("bad buffers are the event's EFAULT", buffers_bad),
	ROW("the kernel's addresses are io_submit's EFAULT", buffers_kernel),
	ROW("a buffer that runs into a hole gives a short count",
	    buffers_partial),
	ROW("O_APPEND wins over the offset", append),
	ROW("writes stop at RLIMIT_FSIZE", limit_ignored),
	ROW("a write past RLIMIT_FSIZE raises SIGXFSZ", limit_deadly),
	ROW("many writes in one call", many_in_one_call),
	ROW("a read sees the write before it", write_then_read),
	NO_ROW,
};

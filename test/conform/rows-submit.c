/* SPDX-License-Identifier: MIT */
/*
 * io_submit: the array of iocbs, the fields of an iocb, and the order of the
 * checks.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"

static char buf[8192];

static void list_empty(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb *list = NULL;

	note_result("nr_0", call_submit(ctx, 0, &list));
	note_result("nr_0_null", call_submit(ctx, 0, NULL));
	note_result("nr_0_kernel", call_submit(ctx, 0, KERNEL_ADDRESS));
}

static void list_negative(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(-1, buf, 1, 0), *list = &cb;

	note_result("nr_-1", call_submit(ctx, -1, &list));
	note_result("nr_-1_null", call_submit(ctx, -1, NULL));
	note_result("nr_long_min", call_submit(ctx, LONG_MIN, &list));
}

static void list_huge(void)
{
	static struct iocb cb, *list[300];
	aio_context_t ctx = new_context(1);
	int i;

	cb = PREAD_OF(file_of("f", 4096, O_RDONLY), buf, 1, 0);
	for (i = 0; i < 3; i++)
		list[i] = &cb;
	note_result("nr_long_max", call_submit(ctx, LONG_MAX, list));
	note_pending("events", ctx);
	note_result("nr_100", call_submit(ctx, 100, list));
	note_pending("events", ctx);
}

static void list_pointer(void)
{
	aio_context_t ctx = new_context(8);

	note_result("null", call_submit(ctx, 1, NULL));
	note_result("kernel", call_submit(ctx, 1, KERNEL_ADDRESS));
	note_result("all_ones", call_submit(ctx, 1, (void *)-8l));
	note_result("top", call_submit(ctx, LONG_MAX, (void *)0x7ffffffff000));
}

static void iocb_pointer(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb *list[1] = { NULL };

	note_result("null", call_submit(ctx, 1, list));
	list[0] = KERNEL_ADDRESS;
	note_result("kernel", call_submit(ctx, 1, list));
	note_pending("events", ctx);
}

static void iocb_pointer_second(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDONLY), buf, 1, 0);
	struct iocb *list[3] = { &cb, NULL, &cb };

	note_result("null", call_submit(ctx, 3, list));
	note_pending("events", ctx);
	list[1] = KERNEL_ADDRESS;
	note_result("kernel", call_submit(ctx, 3, list));
	note_pending("events", ctx);
}

static void iocb_bad_second(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDONLY);
	struct iocb good = PREAD_OF(fd, buf, 1, 0);
	struct iocb bad_fd = PREAD_OF(-1, buf, 1, 0);
	struct iocb bad_op = iocb_of(99, fd, buf, 1, 0);
	struct iocb *list[3] = { &good, &bad_fd, &good };

	note_result("fd", call_submit(ctx, 3, list));
	note_pending("events", ctx);
	list[1] = &bad_op;
	note_result("opcode", call_submit(ctx, 3, list));
	note_pending("events", ctx);
	list[0] = &bad_op;
	note_result("opcode_first", call_submit(ctx, 3, list));
	note_pending("events", ctx);
}

static void opcodes(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	static const int unknown[] = {
		4, 6, 9, 10, 99, 0x7fff, 0x8000, 0xffff
	};
	char key[32];
	struct iocb cb;
	size_t i;

	for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		cb = iocb_of(unknown[i], fd, NULL, 0, 0);
		snprintf(key, sizeof(key), "opcode_%d", unknown[i]);
		try_one(key, ctx, &cb);
	}
}

static void reserved_fields(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDWR), buf, 16, 0);

	cb.aio_reserved2 = 1;
	try_one("reserved2", ctx, &cb);
	cb.aio_reserved2 = 1ull << 63;
	try_one("reserved2_high", ctx, &cb);
	cb.aio_reserved2 = 0;
	cb.aio_key = 77;
	try_one("key", ctx, &cb);
	cb.aio_resfd = 77;
	try_one("resfd_without_flag", ctx, &cb);
}

static void key_written(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDWR), buf, 16, 0);
	struct iocb bad = cb;

	cb.aio_key = 77;
	submit_one(ctx, &cb);
	note("after_success", cb.aio_key);
	bad.aio_fildes = -1u;
	bad.aio_key = 77;
	submit_one(ctx, &bad);
	note("after_bad_fd", bad.aio_key);
	bad = cb;
	bad.aio_key = 77;
	bad.aio_lio_opcode = 99;
	submit_one(ctx, &bad);
	note("after_bad_opcode", bad.aio_key);
	bad.aio_key = 77;
	bad.aio_reserved2 = 1;
	submit_one(ctx, &bad);
	note("after_reserved", bad.aio_key);
	bad = cb;
	bad.aio_key = 77;
	bad.aio_flags = IOCB_FLAG_RESFD;
	bad.aio_resfd = -1u;
	submit_one(ctx, &bad);
	note("after_bad_resfd", bad.aio_key);
}

static void flags_unknown(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDWR), buf, 16, 0);

	cb.aio_flags = 1u << 2;
	try_one("bit_2", ctx, &cb);
	cb.aio_flags = 1u << 31;
	try_one("bit_31", ctx, &cb);
	cb.aio_flags = ~(unsigned int)(IOCB_FLAG_RESFD | IOCB_FLAG_IOPRIO);
	try_one("all_unknown", ctx, &cb);
}

static void check_order_sizes(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	struct iocb cb = PREAD_OF(fd, buf, 16, 0);

	cb.aio_reserved2 = 1;
	cb.aio_fildes = -1u;
	try_one("reserved_and_fd", ctx, &cb);
	cb = PREAD_OF(-1, buf, -1ul, 0);
	try_one("nbytes_and_fd", ctx, &cb);
	cb = iocb_of(99, -1, buf, 1, 0);
	try_one("opcode_and_fd", ctx, &cb);
	cb = iocb_of(99, fd, buf, -1ul, 0);
	try_one("opcode_and_nbytes", ctx, &cb);
	cb = PREAD_OF(-1, KERNEL_ADDRESS, 1, 0);
	try_one("fd_and_buf", ctx, &cb);
	cb = PREAD_OF(-1, buf, 1, 0);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (unsigned int)fd;
	try_one("fd_and_resfd", ctx, &cb);
	cb = iocb_of(99, fd, buf, 1, 0);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (unsigned int)fd;
	try_one("opcode_and_resfd", ctx, &cb);
	cb = PREAD_OF(fd, KERNEL_ADDRESS, 16, 0);
	cb.aio_rw_flags = 1 << 30;
	try_one("buf_and_rw_flags", ctx, &cb);
	cb = PREAD_OF(fd, KERNEL_ADDRESS, 16, -1);
	try_one("buf_and_offset", ctx, &cb);
	cb = PREAD_OF(fd, buf, -1ul, 0);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = -1u;
	try_one("nbytes_and_resfd", ctx, &cb);
}

static void check_order_full(void)
{
	aio_context_t ctx = new_context(1);
	struct iocb cb, *list[1] = { NULL };
	int quiet[2];
	long n = 0;

	stay_on_this_cpu();
	REQUIRE(pipe(quiet) == 0);
	cb = POLL_OF(quiet[0], 1);
	while (submit_one(ctx, &cb) == 1)
		n++;
	note("held", n);
	note_result("full", submit_one(ctx, &cb));
	note_result("full_null_iocb", call_submit(ctx, 1, list));
	note_result("full_null_list", call_submit(ctx, 1, NULL));
	cb.aio_reserved2 = 1;
	note_result("full_reserved", submit_one(ctx, &cb));
	cb = PREAD_OF(-1, buf, 1, 0);
	note_result("full_bad_fd", submit_one(ctx, &cb));
	cb = PREAD_OF(-1, buf, -1ul, 0);
	note_result("full_bad_nbytes", submit_one(ctx, &cb));
}

static void ring_full(void)
{
	static struct iocb cbs[300];
	struct iocb *list[300];
	struct io_event events[300];
	struct timespec now = { 0 };
	aio_context_t ctx = new_context(8);
	int i, fd = file_of("f", 4096, O_RDONLY);
	long first;

	stay_on_this_cpu();
	for (i = 0; i < 300; i++) {
		cbs[i] = PREAD_OF(fd, buf, 1, 0);
		list[i] = &cbs[i];
	}
	first = call_submit(ctx, 300, list);
	note("first", first);
	note_result("second", call_submit(ctx, 300, list));
	note("reaped", call_getevents(ctx, 1, 5, events, &now));
	note_result("third", call_submit(ctx, 300, list));
	note("reaped_all", call_getevents(ctx, 1, 300, events, &now));
	note("fourth", call_submit(ctx, 300, list));
}

static void iocb_reused_at_once(void)
{
	aio_context_t ctx = new_context(8);
	struct io_event event;
	int quiet[2];
	char in[4] = { 0 };
	struct iocb cb, first;

	REQUIRE(pipe(quiet) == 0);
	cb = POLL_OF(quiet[0], 1);
	first = cb;
	note_result("submit", submit_one(ctx, &cb));
	memset(&cb, 0xff, sizeof(cb));
	REQUIRE(write(quiet[1], "x", 1) == 1);
	note_result("reap", reap(ctx, 1, &event));
	note("data", event.data == first.aio_data);
	note("obj", event.obj == (uintptr_t)&cb);
	note("res", event.res & POLLIN);
	note("untouched", cb.aio_key == -1u);
	note("read", read(quiet[0], in, 4));
}

static void same_iocb_twice(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDONLY), buf, 9, 0);
	struct iocb *list[3] = { &cb, &cb, &cb };
	struct io_event events[3];

	note_result("submit", call_submit(ctx, 3, list));
	note_result("reap", reap(ctx, 3, events));
	note_event("third", &events[2], &cb);
}

const struct row rows_submit[] = {
	ROW("an empty list is accepted without a look at it", list_empty),
	ROW("a negative count of requests is EINVAL", list_negative),
	ROW("io_submit accepts no more requests than the context has room for",
	    list_huge),
	ROW("a bad list is EFAULT", list_pointer),
	ROW("a bad iocb pointer is EFAULT", iocb_pointer),
	ROW("a bad second pointer ends the call after the first",
	    iocb_pointer_second),
	ROW("a bad second request ends the call after the first",
	    iocb_bad_second),
	ROW("an unknown opcode is EINVAL, and so is NOOP", opcodes),
	ROW("reserved fields must be zero, unused ones need not",
	    reserved_fields),
	ROW("aio_key is written, and when", key_written),
	ROW("unknown aio_flags are ignored or refused", flags_unknown),
	ROW("the first of two mistakes is the one reported", check_order_sizes),
	ROW("a full context is reported before or after mistakes",
	    check_order_full),
	ROW("a slot is free again once its event was reaped", ring_full),
	ROW("an iocb may be overwritten once submitted", iocb_reused_at_once),
	ROW("one iocb may be in flight several times", same_iocb_twice),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/*
 * Differences between libaio's functions and syscall(2): errno, return values and
 * argument widths. The library interposes syscall(2), so this file also tests whether
 * syscall(2) still makes calls that have nothing to do with AIO.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conform.h"
#include "older.h"

static char buf[4096];

static void note_errno(const char *key, long ret)
{
	char text[64];
	int err = errno;

	snprintf(text, sizeof(text), "%ld,errno:%s", ret,
		 err == 12345 ? "untouched" : strerrorname_np(err));
	note_text(key, text);
	errno = 12345;
}

static void libaio_keeps_errno(void)
{
	aio_context_t ctx = 0;
	struct timespec now = { 0 };
	struct io_event ev;
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	struct iocb bad = PREAD_OF(-1, buf, 16, 0);

	door = DOOR_LIBAIO;
	errno = 12345;
	note_errno("setup_0", call_setup(0, &ctx));
	note_errno("setup", call_setup(8, &ctx));
	note_errno("submit", submit_one(ctx, &cb));
	note_errno("submit_bad", submit_one(ctx, &bad));
	note_errno("getevents", call_getevents(ctx, 1, 1, &ev, &now));
	note_errno("pgetevents", call_pgetevents(ctx, 0, 1, &ev, &now, NULL));
	note_errno("getevents_bad", call_getevents(ctx, 2, 1, &ev, NULL));
	note_errno("cancel", call_cancel(ctx, &cb, &ev));
	note_errno("destroy", call_destroy(ctx));
	note_errno("destroy_again", call_destroy(ctx));
}

static void syscall_sets_errno(void)
{
	aio_context_t ctx = 0;
	struct timespec now = { 0 };
	struct io_event ev;
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	struct iocb bad = PREAD_OF(-1, buf, 16, 0);
	struct iocb *list = &cb, *bad_list = &bad;

	errno = 12345;
	note_errno("setup_0", syscall(SYS_io_setup, 0, &ctx));
	note_errno("setup_null", syscall(SYS_io_setup, 1, NULL));
	note_errno("setup", syscall(SYS_io_setup, 8, &ctx));
	note_errno("submit", syscall(SYS_io_submit, ctx, 1, &list));
	note_errno("submit_bad", syscall(SYS_io_submit, ctx, 1, &bad_list));
	note_errno("getevents",
		   syscall(SYS_io_getevents, ctx, 1, 1, &ev, &now));
	note_errno("getevents_bad",
		   syscall(SYS_io_getevents, ctx, 2, 1, &ev, &now));
	note_errno("pgetevents",
		   syscall(SYS_io_pgetevents, ctx, 0, 1, &ev, &now, NULL));
	note_errno("cancel", syscall(SYS_io_cancel, ctx, &cb, &ev));
	note_errno("cancel_null", syscall(SYS_io_cancel, ctx, NULL, &ev));
	note_errno("destroy", syscall(SYS_io_destroy, ctx));
	note_errno("destroy_again", syscall(SYS_io_destroy, ctx));
}

static void syscall_other_numbers(void)
{
	char name[64], *page;

	errno = 12345;
	note("getpid", syscall(SYS_getpid) == getpid());
	note_errno("close", syscall(SYS_close, -1));
	note_errno("unknown", syscall(100000));
	note_errno("minus_1", syscall(-1));
	page = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE,
			       file_of("f", 8192, O_RDONLY), 4096);
	note("six_arguments", is_pattern(page, 4096, 4096));
	note_errno("getcwd", syscall(SYS_getcwd, name, 1));
}

static void syscall_widths(void)
{
	const unsigned long high = 0xabcdef0100000000;
	aio_context_t ctx = 0;
	struct timespec now = { 0 };
	struct io_event ev;
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	struct iocb *list = &cb;

	errno = 12345;
	note_errno("setup", syscall(SYS_io_setup, high | 1, &ctx));
	note_errno("setup_0", syscall(SYS_io_setup, high, &ctx));
	note_errno("submit", syscall(SYS_io_submit, ctx, high | 1, &list));
	note_errno("submit_one", syscall(SYS_io_submit, ctx, 1, &list));
	note_errno("getevents", syscall(SYS_io_getevents, ctx, 1l << 32,
					1l << 33, &ev, &now));
	note_errno("getevents_high",
		   syscall(SYS_io_getevents, ctx, high | 1, 1, &ev, &now));
}

static void doors_mix(void)
{
	aio_context_t ctx = 0;
	struct io_event ev;
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);

	door = DOOR_LIBAIO;
	note_result("setup", call_setup(8, &ctx));
	door = DOOR_SYSCALL;
	note_result("submit", submit_one(ctx, &cb));
	door = DOOR_LIBAIO;
	note_result("getevents", call_getevents(ctx, 1, 1, &ev, NULL));
	note_event("event", &ev, &cb);
	note_result("submit", submit_one(ctx, &cb));
	door = DOOR_SYSCALL;
	note_result("getevents", call_getevents(ctx, 1, 1, &ev, NULL));
	note_event("event", &ev, &cb);
	note_result("destroy", call_destroy(ctx));
}

static void descriptors_left(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	int before = dup(0), after;

	close(before);
	try_one("read", ctx, &cb);
	after = dup(0);
	note("same_number", before == after);
}

const struct row rows_raw[] = {
	ROW("libaio returns the error and keeps errno", libaio_keeps_errno),
	ROW("syscall(2) returns -1 and sets errno", syscall_sets_errno),
	ROW("syscall(2) still makes every other call", syscall_other_numbers),
	ROW("arguments are as wide as the kernel's", syscall_widths),
	ROW("libaio and syscall(2) use the same contexts", doors_mix),
	ROW("the library uses no low descriptor", descriptors_left),
	NO_ROW,
};

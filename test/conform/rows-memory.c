/* SPDX-License-Identifier: MIT */
/*
 * Addresses in user space that are not mapped, or that do not allow the access. The
 * kernel fails with EFAULT. By default the library checks such a pointer only in
 * io_setup; its other functions access the memory and raise SIGSEGV. With UAIO_STRICT=1
 * the library checks pointers first. These test cases run twice, without and with
 * UAIO_STRICT=1. With UAIO_STRICT=1 no difference is allowed.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"

static char buf[4096];

static void handle_unwritable(void)
{
	aio_context_t *handle;

	note_result("read_only", call_setup(1, pages_of(4096, PROT_READ)));
	note_result("no_access", call_setup(1, pages_of(4096, PROT_NONE)));
	note_result("unmapped", call_setup(1, (void *)4096));
	note_result("nr_0", call_setup(0, pages_of(4096, PROT_READ)));
	handle = pages_of(4096, PROT_READ | PROT_WRITE);
	*handle = 1;
	REQUIRE(mprotect(handle, 4096, PROT_READ) == 0);
	note_result("not_zero", call_setup(1, handle));
}

static void iocb_read_only(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb *cb = pages_of(4096, PROT_READ | PROT_WRITE);
	int fd = file_of("f", 4096, O_RDWR);

	*cb = PREAD_OF(fd, buf, 16, 0);
	REQUIRE(mprotect(cb, 4096, PROT_READ) == 0);
	try_one("read_only", ctx, cb);
	note_pending("events", ctx);
}

static void iocb_unmapped(void)
{
	aio_context_t ctx = new_context(8);
	char *page = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iocb *list[1] = { (void *)(page + 4096 - 32) };

	note_result("across_end", call_submit(ctx, 1, list));
	list[0] = (void *)(page + 4096);
	note_result("unmapped", call_submit(ctx, 1, list));
	list[0] = pages_of(4096, PROT_NONE);
	note_result("no_access", call_submit(ctx, 1, list));
	list[0] = (void *)8;
	note_result("first_page", call_submit(ctx, 1, list));
}

static void iocb_unmapped_second(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDWR), buf, 16, 0);
	struct iocb *list[3] = { &cb, pages_of(4096, PROT_NONE), &cb };

	note_result("submit", call_submit(ctx, 3, list));
	note_pending("events", ctx);
}

static void list_unmapped(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDWR), buf, 16, 0);
	struct iocb **list = pages_of(4096, PROT_READ | PROT_WRITE);

	list[511] = &cb;
	note_result("second_unmapped", call_submit(ctx, 2, list + 511));
	note_pending("events", ctx);
	note_result("first_unmapped", call_submit(ctx, 1, list + 512));
	note_result("nr_long_max", call_submit(ctx, LONG_MAX, list + 511));
	note_pending("events", ctx);
	note_result("no_access",
		    call_submit(ctx, 1, pages_of(4096, PROT_NONE)));
}

static void pieces_unmapped(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);
	struct iovec *iov = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iocb cb;

	cb = iocb_of(IOCB_CMD_PREADV, fd, pages_of(4096, PROT_NONE), 2, 0);
	try_one("no_access", ctx, &cb);
	iov[255] = (struct iovec){ buf, 16 };
	cb = iocb_of(IOCB_CMD_PREADV, fd, iov + 255, 2, 0);
	try_one("into_hole", ctx, &cb);
	cb = iocb_of(IOCB_CMD_PREADV, fd, (void *)64, 1, 0);
	try_one("first_page", ctx, &cb);
}

static aio_context_t context_with_reads(long nr)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDWR), buf, 16, 0);

	while (nr--)
		REQUIRE(submit_one(ctx, &cb) == 1);
	return ctx;
}

static void events_unwritable(void)
{
	aio_context_t ctx = context_with_reads(3);
	struct io_event *page = pages_of(4096, PROT_READ | PROT_WRITE);
	struct timespec now = { 0 };

	note_result("read_only",
		    call_getevents(ctx, 1, 1, pages_of(4096, PROT_READ), &now));
	note_result("first_page", call_getevents(ctx, 1, 1, (void *)32, &now));
	/* The page has room for two of three events; an unmapped page follows. */
	note_result("hole", call_getevents(ctx, 3, 3, page + 126, &now));
	note_pending("left", ctx);
	note_result("not_needed",
		    call_getevents(ctx, 0, 1, pages_of(4096, PROT_NONE), &now));
}

static void timeout_unreadable(void)
{
	aio_context_t ctx = context_with_reads(1);
	struct io_event ev[2];

	note_result("no_access",
		    raw_getevents(ctx, 1, 2, ev, pages_of(4096, PROT_NONE)));
	note_result("first_page", raw_getevents(ctx, 1, 2, ev, (void *)32));
	note_result("read_only",
		    raw_getevents(ctx, 1, 2, ev, pages_of(4096, PROT_READ)));
}

static void cancel_unreadable(void)
{
	aio_context_t ctx = new_context(8);
	struct io_event ev;

	note_result("hole", call_cancel(ctx, pages_of(4096, PROT_NONE), &ev));
	note_result("first_page", call_cancel(ctx, (void *)32, &ev));
}

static void mask_unreadable(void)
{
	aio_context_t ctx = new_context(8);
	struct timespec some = { .tv_nsec = MS };
	struct io_event ev;

	note_result("hole", call_pgetevents(ctx, 1, 1, &ev, &some,
					    pages_of(4096, PROT_NONE)));
}

const struct row rows_memory[] = {
	ROW("a handle in memory that cannot be written is EFAULT",
	    handle_unwritable),
	ROW_DIFFERS("an iocb that cannot be written is EFAULT", iocb_read_only,
		    differs_strict, { "read_only=EFAULT", "ended=SIGSEGV" }),
	ROW_DIFFERS("an iocb in a hole is EFAULT", iocb_unmapped,
		    differs_strict, { "across_end=EFAULT", "ended=SIGSEGV" }),
	ROW_DIFFERS("a second iocb in a hole ends the call after the first",
		    iocb_unmapped_second, differs_strict,
		    { "submit=1", "ended=SIGSEGV" }),
	ROW_DIFFERS("a list that runs into a hole ends the call there",
		    list_unmapped, differs_strict,
		    { "second_unmapped=1", "ended=SIGSEGV" }),
	ROW_DIFFERS("an array of pieces in a hole is EFAULT", pieces_unmapped,
		    differs_strict, { "no_access=EFAULT", "ended=SIGSEGV" }),
	ROW_DIFFERS("an array that cannot be written loses nothing",
		    events_unwritable, differs_strict,
		    { "read_only=EFAULT", "ended=SIGSEGV" }),
	ROW_DIFFERS("a timeout that cannot be read is EFAULT",
		    timeout_unreadable, differs_strict,
		    { "no_access=EFAULT", "ended=SIGSEGV" }),
	ROW_DIFFERS("io_cancel of an iocb in a hole is EFAULT",
		    cancel_unreadable, differs_strict,
		    { "hole=EFAULT", "ended=SIGSEGV" }),
	ROW_DIFFERS("a signal mask in a hole is EFAULT", mask_unreadable,
		    differs_strict, { "hole=EFAULT", "hole=0" }),
	NO_ROW,
};

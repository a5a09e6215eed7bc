/* SPDX-License-Identifier: MIT */
/* io_destroy, and invalid handles in each call. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"
#include "ring.h"

/* Prints what each call returns for the handle. */
static void note_calls(const char *name, aio_context_t ctx)
{
	struct timespec now = { 0 };
	struct io_event event;
	struct iocb cb = PREAD_OF(0, NULL, 0, 0), *list = &cb;
	char key[64];

	snprintf(key, sizeof(key), "%s.submit", name);
	note_result(key, call_submit(ctx, 1, &list));
	snprintf(key, sizeof(key), "%s.submit_0", name);
	note_result(key, call_submit(ctx, 0, &list));
	snprintf(key, sizeof(key), "%s.submit_null", name);
	note_result(key, call_submit(ctx, 1, NULL));
	snprintf(key, sizeof(key), "%s.cancel", name);
	note_result(key, call_cancel(ctx, &cb, &event));
	snprintf(key, sizeof(key), "%s.getevents", name);
	note_result(key, raw_getevents(ctx, 0, 1, &event, &now));
	snprintf(key, sizeof(key), "%s.getevents_null", name);
	note_result(key, raw_getevents(ctx, 0, 1, NULL, NULL));
	snprintf(key, sizeof(key), "%s.destroy", name);
	note_result(key, call_destroy(ctx));
}

static void handle_zero(void)
{
	note_calls("zero", 0);
}

static void handle_high(void)
{
	note_calls("all_ones", ~0ul);
	note_calls("kernel", (aio_context_t)KERNEL_ADDRESS);
	note_calls("odd", 0x8000000000000001ul);
}

static void handle_hole(void)
{
	note_calls("page_one", 4096);
	note_calls("non_canonical", 0x0000900000000000ul);
	note_calls("no_access", (aio_context_t)pages_of(4096, PROT_NONE));
	note_calls("page_end", (aio_context_t)pages_of(4096, PROT_READ) + 4094);
}

static void handle_memory(void)
{
	char page[8192] = { 0 };

	note_calls("stack", ((aio_context_t)page + 4095) & ~4095ul);
	note_calls("stack_odd", (aio_context_t)page + 1);
	note_calls("heap",
		   (aio_context_t)pages_of(4096, PROT_READ | PROT_WRITE));
}

static void handle_forged(void)
{
	const struct ring *ring = (void *)new_context(8);
	struct ring *forged = pages_of(4096, PROT_READ | PROT_WRITE);

	*forged = *ring;
	note_calls("copy", (aio_context_t)forged);
	note_result("real", call_destroy((aio_context_t)ring));
}

static void handle_inside(void)
{
	aio_context_t ctx = new_context(8);

	note_calls("plus_1", ctx + 1);
	note_calls("plus_8", ctx + 8);
	note_calls("plus_32", ctx + 32);
	note_calls("next_page", ctx + 4096);
	note_result("real", call_destroy(ctx));
}

static void handle_destroyed(void)
{
	aio_context_t ctx = new_context(8);

	note_result("first", call_destroy(ctx));
	note_calls("again", ctx);
}

static void handle_destroyed_among_others(void)
{
	aio_context_t before = new_context(8), ctx = new_context(8);
	aio_context_t after = new_context(8);

	note_result("first", call_destroy(ctx));
	note_calls("again", ctx);
	note_result("before", call_destroy(before));
	note_result("after", call_destroy(after));
}

static void destroy_drops_events(void)
{
	aio_context_t ctx = new_context(8);
	char buf[16];
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);

	note_result("submit", submit_one(ctx, &cb));
	note_result("destroy", call_destroy(ctx));
	note("read", is_pattern(buf, 16, 0));
}

static void destroy_ends_polls(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	note_result("submit", submit_one(ctx, &cb));
	note_result("destroy", call_destroy(ctx));
	note("write", write(fds[1], "x", 1));
}

static void destroy_many(void)
{
	aio_context_t ctx;
	long i, failed = 0;

	for (i = 0; i < 50; i++) {
		ctx = 0;
		failed += call_setup(100, &ctx) || call_destroy(ctx);
	}
	note("failed", failed);
}

const struct row rows_handle[] = {
	ROW("handle zero is EINVAL in every call", handle_zero),
	ROW("a handle in the kernel's half is EINVAL", handle_high),
	ROW("a handle to no memory is EINVAL, not a fault", handle_hole),
	ROW("a handle to other memory is EINVAL", handle_memory),
	ROW("a copy of a ring's header is no context", handle_forged),
	ROW("an address inside a ring is no context", handle_inside),
	ROW("a destroyed handle is EINVAL", handle_destroyed),
	ROW("a destroyed handle among live ones is EINVAL",
	    handle_destroyed_among_others),
	ROW("io_destroy drops events nobody took", destroy_drops_events),
	ROW("io_destroy ends polls in flight", destroy_ends_polls),
	ROW("fifty contexts after one another", destroy_many),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* io_setup, and the ring that it returns. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "ring.h"

static const unsigned int sizes[] = { 1, 2, 32, 63, 64, 127, 128, 1000, 5000 };
enum { NR_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void note_setup(const char *key, unsigned int nr)
{
	aio_context_t ctx = 0;
	long ret = call_setup(nr, &ctx);

	note_result(key, ret);
	if (ret == 0)
		call_destroy(ctx);
	else if (ctx)
		note_text(key, "handle-changed");
}

static void setup_of_nothing(void)
{
	note_setup("nr_0", 0);
}

static void setup_of_negative(void)
{
	note_setup("nr_-1", -1u);
	note_setup("nr_int_max", INT_MAX);
	note_setup("nr_0x10000000", 0x10000000);
}

static void setup_beyond_limit(void)
{
	note_setup("nr_4194305", 4194305);
	note_setup("nr_8388609", 8388609);
}

static void setup_at_limit(void)
{
	note_setup("nr_4194304", 4194304);
}

static void setup_wraps(void)
{
	note_setup("nr_int_min", (unsigned int)INT_MIN);
	note_setup("nr_int_min_plus_1", (unsigned int)INT_MIN + 1);
}

static void setup_handle_not_zero(void)
{
	aio_context_t ctx = 1, live = new_context(1), again = live;

	note_result("one", call_setup(1, &ctx));
	note("untouched", ctx == 1);
	note_result("live", call_setup(1, &again));
	note("untouched_live", again == live);
	note_result("nr_0", call_setup(0, &ctx));
}

static void setup_handle_pointer(void)
{
	note_result("null", call_setup(1, NULL));
	note_result("kernel", call_setup(1, KERNEL_ADDRESS));
	note_result("null_nr_0", call_setup(0, NULL));
	note_result("null_nr_-1", call_setup(-1u, NULL));
}

static void setup_leaves_handle(void)
{
	aio_context_t ctx = 0;

	call_setup(0, &ctx);
	note("after_einval", ctx == 0);
	call_setup(-1u, &ctx);
	note("after_too_many", ctx == 0);
}

static void handle_is_page(void)
{
	aio_context_t ctx = new_context(1);

	note("low_bits", (long)(ctx & 4095));
	note("upper_half", ctx >> 47);
}

static void header_fields(void)
{
	const struct ring *ring = (void *)new_context(32);

	note("head", ring->head);
	note("tail", ring->tail);
	note("magic", ring->magic);
	note("compat_features", ring->compat_features);
	note("incompat_features", ring->incompat_features);
	note("header_length", ring->header_length);
}

static void header_ids(void)
{
	const struct ring *a = (void *)new_context(1);
	const struct ring *b = (void *)new_context(1);

	note("differ", a->id != b->id);
	note("small", a->id < 1000 && b->id < 1000);
}

static void header_nr(void)
{
	const struct ring *ring;
	char key[32];
	int i;

	for (i = 0; i < NR_SIZES; i++) {
		ring = (void *)new_context(sizes[i]);
		snprintf(key, sizeof(key), "nr_of_%u", sizes[i]);
		note(key, ring->nr);
	}
}

/*
 * Fills a context with polls of a descriptor that never becomes ready, so that each
 * keeps its slot.
 */
static void capacity(void)
{
	static struct iocb cbs[6000];
	struct iocb *list[6000];
	aio_context_t ctx;
	int quiet[2], i, k;
	char key[32];
	long got, all;

	stay_on_this_cpu();
	REQUIRE(pipe(quiet) == 0);
	for (k = 0; k < 6000; k++) {
		cbs[k] = POLL_OF(quiet[0], POLLIN);
		list[k] = &cbs[k];
	}
	for (i = 0; i < NR_SIZES; i++) {
		ctx = new_context(sizes[i]);
		for (all = 0; all < 6000; all += got) {
			got = call_submit(ctx, 6000 - all, list + all);
			if (got <= 0)
				break;
		}
		snprintf(key, sizeof(key), "held_by_%u", sizes[i]);
		note(key, all);
		snprintf(key, sizeof(key), "then_%u", sizes[i]);
		note_result(key, got);
		note_result("destroy", call_destroy(ctx));
	}
}

static void ring_memory(void)
{
	struct ring *ring = (void *)new_context(32);

	ring->nr = 7;
	note("writable", ring->nr == 7);
}

const struct row rows_setup[] = {
	ROW("a context of no events is refused", setup_of_nothing),
	ROW("a negative number of events is refused", setup_of_negative),
	ROW("a context of 4194305 events is refused", setup_beyond_limit),
	ROW_DIFFERS("a context of 4194304 events meets the quota",
		    setup_at_limit, differs_quota,
		    { "nr_4194304=EAGAIN", "nr_4194304=0" },
		    { "(nothing)", "ring_0.header=*" }),
	ROW("a number that overflows when doubled is refused", setup_wraps),
	ROW("a handle that is not zero is refused", setup_handle_not_zero),
	ROW("a bad pointer to the handle is EFAULT", setup_handle_pointer),
	ROW("a failed io_setup leaves the handle alone", setup_leaves_handle),
	ROW("a handle is a page's address", handle_is_page),
	ROW("a new ring's header holds the published constants", header_fields),
	ROW("two contexts have two ids", header_ids),
	ROW("a ring is as large as the kernel would make it", header_nr),
	ROW("a context holds as many requests as the kernel's", capacity),
	ROW("a client may write to the ring", ring_memory),
	NO_ROW,
};

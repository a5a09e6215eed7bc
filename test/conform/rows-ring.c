/* SPDX-License-Identifier: MIT */
/*
 * What a client may do with kernel AIO's ring: reap without a system call, overwrite
 * fields, move the mapping
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "ring.h"

static char buf[4096];

static void note_read(const char *key, aio_context_t ctx, int fd)
{
	struct iocb cb = PREAD_OF(fd, buf, 16, 0);

	try_one(key, ctx, &cb);
}

/* Submits reads of 1, 2, 3, ... bytes, so that their results differ. */
static void submit_reads(aio_context_t ctx, int fd, int nr)
{
	struct iocb cb;
	int i;

	for (i = 1; i <= nr; i++) {
		cb = PREAD_OF(fd, buf, (size_t)i, 0);
		REQUIRE(submit_one(ctx, &cb) == 1);
	}
}

static void note_taken(const char *key, aio_context_t ctx, long nr)
{
	struct timespec now = { 0 };
	struct io_event ev[16];
	char text[128] = "";
	long i, got = raw_getevents(ctx, 0, nr, ev, &now);

	for (i = 0; i < got; i++)
		sprintf(text + strlen(text), "%s%lld", i ? "," : "",
			(long long)ev[i].res);
	note_text(key, got < 0 ? "error" : got ? text : "none");
}

static void fields_live(void)
{
	aio_context_t ctx = new_context(16);
	const struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);
	struct io_event ev[4];

	submit_reads(ctx, fd, 3);
	note("head", ring->head);
	note("tail", ring->tail);
	note("res_0", ring->events[0].res);
	note("res_2", ring->events[2].res);
	note("res2_2", ring->events[2].res2);
	note("reaped", reap(ctx, 2, ev));
	note("head", ring->head);
	note("tail", ring->tail);
}

static void reap_by_hand(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY), i;
	struct iocb cb;
	long good = 0;

	for (i = 0; i < 1000; i++) {
		cb = PREAD_OF(fd, buf, (size_t)i + 1, 0);
		REQUIRE(submit_one(ctx, &cb) == 1);
		if (ring->head == ring->tail)
			break;
		good += ring->events[ring->head].res == i + 1;
		atomic_store((_Atomic unsigned int *)&ring->head,
			     (ring->head + 1) % ring->nr);
	}
	note("good", good);
	note_pending("left", ctx);
}

static void reap_both_ways(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);

	submit_reads(ctx, fd, 6);
	ring->head += 2;
	note_taken("after_two", ctx, 2);
	ring->head += 1;
	note_taken("after_one", ctx, 16);
	submit_reads(ctx, fd, 2);
	note_taken("after_all", ctx, 16);
}

static void full_then_by_hand(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);
	struct iocb cb = PREAD_OF(fd, buf, 1, 0);
	long nr = 0, more = 0;

	stay_on_this_cpu();
	while (submit_one(ctx, &cb) == 1)
		nr++;
	ring->head += 3;
	while (submit_one(ctx, &cb) == 1)
		more++;
	note("more", more);
	ring->head = ring->tail;
	for (more = 0; submit_one(ctx, &cb) == 1;)
		more++;
	note("all_again", more == nr);
}

static void head_out_of_range(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);
	unsigned int nr = ring->nr;

	submit_reads(ctx, fd, 5);
	ring->head = nr + 2;
	note_taken("nr_plus_2", ctx, 1);
	note("head", ring->head);
	ring->head = nr * 2 + 4;
	note_taken("nr_times_2_plus_4", ctx, 16);
	note("head", ring->head);
	ring->head = nr;
	note_taken("nr", ctx, 2);
	ring->head = ring->tail;
	note_read("then", ctx, fd);
}

static void head_back(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);

	submit_reads(ctx, fd, 3);
	note_taken("first", ctx, 16);
	ring->head = 1;
	note_taken("back", ctx, 16);
	note_read("then", ctx, fd);
}

static void head_random(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);
	static const unsigned int heads[] = { ~0u, 1u << 31, 0x12345678 };
	struct iocb cb = PREAD_OF(fd, buf, 16, 0);
	struct timespec now = { 0 };
	struct io_event ev[200];
	size_t i;

	/*
	 * Skip the test case on a machine with one processor: there the kernel makes a
	 * ring of another size, which the reads of this test case would not fill.
	 */
	if (sysconf(_SC_NPROCESSORS_CONF) == 1)
		skip("one-processor");
	for (i = 0; i < 3; i++) {
		ring->head = heads[i];
		submit_one(ctx, &cb);
		note("sane", raw_getevents(ctx, 0, 200, ev, &now) >= 0);
		ring->head = ring->tail;
		note_read("then", ctx, fd);
	}
	note_result("destroy", call_destroy(ctx));
}

/*
 * A head past the tail makes the ring look full. The kernel accepts requests
 * nevertheless, because it counts free slots outside of the ring.
 */
static void head_past_tail(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDONLY), buf, 16, 0);

	submit_reads(ctx, (int)cb.aio_fildes, 2);
	ring->head = ring->tail + 1;
	note_result("submit", submit_one(ctx, &cb));
	ring->head = 0;
	note_taken("restored", ctx, 16);
	note_read("then", ctx, (int)cb.aio_fildes);
}

static void head_random_submit(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	struct iocb cb = PREAD_OF(file_of("f", 4096, O_RDONLY), buf, 16, 0);

	submit_reads(ctx, (int)cb.aio_fildes, 2);
	ring->head = ~0u;
	note_result("submit", submit_one(ctx, &cb));
	ring->head = 0;
	note_taken("restored", ctx, 16);
}

static void nr_overwritten(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);
	static const unsigned int nrs[] = { 0, 1, 2, ~0u };
	size_t i;

	for (i = 0; i < 4; i++) {
		ring->nr = nrs[i];
		submit_reads(ctx, fd, 3);
		note_taken("taken", ctx, 16);
	}
	note("nr", ring->nr);
	note_result("destroy", call_destroy(ctx));
}

static void tail_overwritten(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);

	submit_reads(ctx, fd, 3);
	ring->tail = 1;
	note_taken("one", ctx, 16);
	submit_reads(ctx, fd, 1);
	note("tail", ring->tail);
	note_taken("rest", ctx, 16);
	note_result("destroy", call_destroy(ctx));
}

static void rest_overwritten(void)
{
	aio_context_t ctx = new_context(16);
	struct ring *ring = (void *)ctx;
	int fd = file_of("f", 4096, O_RDONLY);

	ring->magic = 0;
	ring->compat_features = ring->incompat_features = ~0u;
	ring->header_length = 0;
	note_read("read", ctx, fd);
	note("magic", ring->magic);
	note_result("destroy", call_destroy(ctx));
}

static void note_with_id(const char *name, aio_context_t ctx, unsigned int id)
{
	struct ring *ring = (void *)ctx;
	struct timespec now = { 0 };
	struct io_event ev;
	struct iocb cb = PREAD_OF(-1, buf, 1, 0);
	char key[64];

	ring->id = id;
	snprintf(key, sizeof(key), "%s.submit", name);
	note_result(key, call_submit(ctx, 0, NULL));
	snprintf(key, sizeof(key), "%s.getevents", name);
	note_result(key, raw_getevents(ctx, 0, 1, &ev, &now));
	snprintf(key, sizeof(key), "%s.cancel", name);
	note_result(key, call_cancel(ctx, &cb, &ev));
	snprintf(key, sizeof(key), "%s.destroy", name);
	note_result(key, call_destroy(ctx));
}

static void id_overwritten(void)
{
	aio_context_t other = new_context(16), ctx = new_context(16);
	struct ring *ring = (void *)ctx, *other_ring = (void *)other;
	int fd = file_of("f", 4096, O_RDONLY);
	unsigned int id = ring->id;

	note_with_id("other", ctx, other_ring->id);
	note_with_id("next", ctx, id + 1);
	note_with_id("nr_minus_1", ctx, ring->nr - 1);
	note_with_id("nr", ctx, ring->nr);
	note_with_id("million", ctx, 1000000);
	note_with_id("int_max", ctx, 0x7fffffff);
	note_with_id("all_ones", ctx, ~0u);
	ring->id = id;
	note_read("restored", ctx, fd);
	note_result("destroy", call_destroy(ctx));
	note_read("other_lives", other, fd);
}

static void moved(void)
{
	aio_context_t old = new_context(16), ctx;
	const struct ring *ring;
	int fd = file_of("f", 4096, O_RDONLY);
	size_t size = 4096;
	void *to =
		mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	submit_reads(old, fd, 2);
	to = mremap((void *)old, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	REQUIRE(to != MAP_FAILED);
	ctx = (aio_context_t)to;
	ring = to;
	ring_moved(old, ctx);
	note("magic", ring->magic == 0xa10a10a1);
	note_taken("old", old, 16);
	note_result("old_destroy", call_destroy(old));
	note_taken("new", ctx, 16);
	note_read("read", ctx, fd);
	note("tail", ring->tail);
	note_result("destroy", call_destroy(ctx));
	note_result("again", call_destroy(ctx));
}

static void moved_in_flight(void)
{
	aio_context_t ctx = new_context(16);
	struct io_event ev;
	struct iocb cb;
	int fds[2];
	void *to =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], 1);
	REQUIRE(submit_one(ctx, &cb) == 1);
	to = mremap((void *)ctx, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	REQUIRE(to != MAP_FAILED);
	ring_moved(ctx, (aio_context_t)to);
	ctx = (aio_context_t)to;
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("reap", reap(ctx, 1, &ev));
	note("obj", ev.obj == (uintptr_t)&cb);
	note("tail", ((const struct ring *)to)->tail);
}

static void moved_large(void)
{
	aio_context_t ctx = new_context(1000);
	size_t size = 16 * 4096;
	int fd = file_of("f", 4096, O_RDONLY);
	void *to =
		mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	submit_reads(ctx, fd, 2);
	to = mremap((void *)ctx, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	REQUIRE(to != MAP_FAILED);
	ring_moved(ctx, (aio_context_t)to);
	ctx = (aio_context_t)to;
	note_taken("new", ctx, 16);
	note_read("read", ctx, fd);
	note_result("destroy", call_destroy(ctx));
}

/*
 * Tries mremap(2) on the ring with sizes that are not the ring's, such as parts of a
 * page.
 */
static void moved_in_part(void)
{
	static const size_t sizes[][2] = {
		{ 1, 1 },    { 4000, 100 },      { 4096, 0 },
		{ 0, 4096 }, { 4096, SIZE_MAX },
	};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		aio_context_t ctx = new_context(16);
		int fd = file_of("f", 4096, O_RDONLY);
		void *to = mmap(NULL, 4096, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		to = mremap((void *)ctx, sizes[i][0], sizes[i][1],
			    MREMAP_MAYMOVE | MREMAP_FIXED, to);
		note_result("moved", to == MAP_FAILED ? -errno : 0);
		if (to != MAP_FAILED) {
			ring_moved(ctx, (aio_context_t)to);
			ctx = (aio_context_t)to;
		}
		note_read("read", ctx, fd);
		note_result("destroy", call_destroy(ctx));
	}
}

static void grown(void)
{
	aio_context_t ctx = new_context(16);
	void *to = mremap((void *)ctx, 4096, 8192, MREMAP_MAYMOVE);

	note("refused", to == MAP_FAILED);
	note_result("destroy", call_destroy(ctx));
}

static void unmapped(void)
{
	aio_context_t ctx = new_context(16);
	struct timespec now = { 0 };
	struct io_event ev;

	REQUIRE(munmap((void *)ctx, 4096) == 0);
	ring_forget(ctx);
	note_result("submit", call_submit(ctx, 0, NULL));
	note_result("getevents", raw_getevents(ctx, 0, 1, &ev, &now));
	note_result("destroy", call_destroy(ctx));
	note_read("next", new_context(16), file_of("f", 4096, O_RDONLY));
}

static bool is_mapped(aio_context_t ctx)
{
	return msync((void *)ctx, 4096, MS_ASYNC) == 0;
}

static void memory_after(void)
{
	aio_context_t ctx = new_context(16);
	void *to =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	submit_reads(ctx, file_of("f", 4096, O_RDONLY), 2);
	note_result("destroy", call_destroy(ctx));
	note("mapped_after_destroy", is_mapped(ctx));
	ctx = new_context(16);
	note("res_in_first_slot", ((const struct ring *)ctx)->events[0].res);
	REQUIRE(mremap((void *)ctx, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED,
		       to) == to);
	ring_moved(ctx, (aio_context_t)to);
	note("mapped_after_move", is_mapped(ctx));
}

const struct row rows_ring[] = {
	ROW("head and tail move as events come and go", fields_live),
	ROW("a client reaps by moving the head", reap_by_hand),
	ROW("reaping by hand and by io_getevents mix", reap_both_ways),
	ROW("reaping by hand makes room", full_then_by_hand),
	ROW("a head out of range is taken modulo nr", head_out_of_range),
	ROW("a head set back gives old events again", head_back),
	ROW_DIFFERS("a wild head harms nothing", head_random, differs_head,
		    { "ring_0.*", "ring_0.*" }),
	ROW("a wild head does not stop io_submit", head_random_submit),
	ROW_DIFFERS("a head past the tail does not stop io_submit",
		    head_past_tail, differs_head,
		    { "submit=1", "submit=EAGAIN" },
		    { "restored=1,2,16", "restored=1,2" },
		    { "ring_0.*", "ring_0.*" }),
	ROW("nr overwritten by the client is not used", nr_overwritten),
	ROW_DIFFERS("tail overwritten by the client is used", tail_overwritten,
		    differs_tail, { "one=1", "one=1,2,3" },
		    { "rest=2,3,1", "rest=1" }),
	ROW("the other header fields are not used", rest_overwritten),
	ROW("an id overwritten by the client is EINVAL until restored",
	    id_overwritten),
	ROW("a ring may be moved by mremap", moved),
	ROW("a ring may be moved with requests in flight", moved_in_flight),
	ROW("a large ring may be moved", moved_large),
	ROW("a ring may be moved by mremap of a part of a page", moved_in_part),
	ROW("a ring cannot be grown by mremap", grown),
	ROW("a ring the client unmapped is no context", unmapped),
	ROW_DIFFERS("a ring's memory goes with it", memory_after,
		    differs_ring_memory,
		    { "mapped_after_destroy=0", "mapped_after_destroy=1" },
		    { "res_in_first_slot=0", "res_in_first_slot=1" },
		    { "mapped_after_move=0", "mapped_after_move=1" }),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* Timeouts: their clocks and completion counts, removing and updating */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "uring.h"

static struct __kernel_timespec soon, never;

static struct uring prepare(void)
{
	soon = SPAN_SOON;
	never = SPAN_NEVER;
	return new_uring(8, 0);
}

static struct io_uring_sqe *timeout(struct uring *ring,
				    const struct __kernel_timespec *span,
				    uint32_t count, uint32_t flags)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_TIMEOUT, -1, span, 1, count);

	sqe->timeout_flags = flags;
	return sqe;
}

static struct io_uring_sqe *removal(struct uring *ring, uint64_t user_data,
				    uint32_t flags,
				    const struct __kernel_timespec *span)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_TIMEOUT_REMOVE, -1);

	sqe->addr = user_data;
	sqe->off = (uintptr_t)span;
	sqe->timeout_flags = flags;
	return sqe;
}

static void expires(void)
{
	struct uring ring = prepare();

	timeout(&ring, &soon, 0, 0);
	try_sqe("relative", &ring);
	soon.tv_nsec = 0;
	timeout(&ring, &soon, 0, 0);
	try_sqe("zero", &ring);
}

static void clocks(void)
{
	static const struct {
		const char *key;
		clockid_t clock;
		uint32_t flag;
	} all[] = {
		{ "monotonic", CLOCK_MONOTONIC, 0 },
		{ "boottime", CLOCK_BOOTTIME, IORING_TIMEOUT_BOOTTIME },
		{ "realtime", CLOCK_REALTIME, IORING_TIMEOUT_REALTIME },
	};
	struct uring ring = prepare();
	struct __kernel_timespec end;
	struct timespec now;
	char key[64];
	size_t i;

	for (i = 0; i < 3; i++) {
		timeout(&ring, &soon, 0, all[i].flag);
		try_sqe(all[i].key, &ring);
		clock_gettime(all[i].clock, &now);
		end = span_of(now.tv_sec * 1000000000ll + now.tv_nsec + 2 * MS);
		timeout(&ring, &end, 0, all[i].flag | IORING_TIMEOUT_ABS);
		snprintf(key, sizeof(key), "%s_abs", all[i].key);
		try_sqe(key, &ring);
		end.tv_sec = 0;
		timeout(&ring, &end, 0, all[i].flag | IORING_TIMEOUT_ABS);
		snprintf(key, sizeof(key), "%s_past", all[i].key);
		try_sqe(key, &ring);
	}
	timeout(&ring, &soon, 0, IORING_TIMEOUT_CLOCK_MASK);
	try_sqe("both", &ring);
}

static void times(void)
{
	struct __kernel_timespec wrong[] = {
		{ -1, 0 }, { 0, -1 }, { 0, 1000000000 }, { 0, 2000000000 }
	};
	struct uring ring = prepare();
	char key[32];
	int i;

	for (i = 0; i < 4; i++) {
		timeout(&ring, &wrong[i], 0, 0);
		snprintf(key, sizeof(key), "time_%d", i);
		try_sqe(key, &ring);
	}
}

static void flag_bits(void)
{
	struct uring ring = prepare();
	char key[32];
	int bit;

	for (bit = 1; bit < 32; bit++) {
		/*
		 * Leave out bit 6 (MULTISHOT), which has test cases of its own, and bit
		 * 7, which only newer kernels know.
		 */
		if (bit == 6 || bit == 7)
			continue;
		timeout(&ring, &soon, 0, 1u << bit);
		snprintf(key, sizeof(key), "bit_%d", bit);
		try_sqe(key, &ring);
	}
}

static void success_of_time(void)
{
	struct uring ring = prepare();

	timeout(&ring, &soon, 0, IORING_TIMEOUT_ETIME_SUCCESS)->flags =
		IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("success", &ring, 2);
	timeout(&ring, &soon, 0, 0)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("failure", &ring, 2);
	timeout(&ring, &soon, 0, IORING_TIMEOUT_ETIME_SUCCESS)->flags =
		IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_HARDLINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("skipped", &ring, 1);
}

static void counts(void)
{
	struct uring ring = prepare();

	timeout(&ring, &never, 2, 0);
	note_result("submit", uring_submit(&ring));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_ready("one", &ring);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_in_order("cqe", &ring, 3);
}

/*
 * The field for the timeout's completion count has 64 bits, but only 32 are used.
 */
static void count_of_64_bits(void)
{
	struct uring ring = prepare();

	timeout(&ring, &soon, 0, 0)->off = 1ull << 32;
	note_result("submit", uring_submit(&ring));
	note_in_order("none", &ring, 1);
	timeout(&ring, &never, 0, 0)->off = (1ull << 32) + 1;
	note_result("submit", uring_submit(&ring));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_in_order("one", &ring, 2);
	timeout(&ring, &soon, 0, IORING_TIMEOUT_MULTISHOT)->off =
		(1ull << 32) + 1;
	note_result("submit", uring_submit(&ring));
	note_in_order("shot", &ring, 1);
}

static void count_in_batch(void)
{
	struct uring ring = prepare();

	timeout(&ring, &never, 1, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
}

/*
 * One submission has a request that is refused, followed by a timeout. The refused
 * request also counts for the timeout.
 */
static void count_of_refused(void)
{
	struct uring ring = prepare();
	char byte;

	sqe_rw(&ring, IORING_OP_READ, -1, &byte, 1, 0);
	timeout(&ring, &never, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	sqe_of(&ring, IORING_OP_NOP, -1);
	sqe_rw(&ring, IORING_OP_READ, -1, &byte, 1, 0);
	timeout(&ring, &never, 3, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
}

static void count_of_several(void)
{
	struct uring ring = prepare();
	int i;

	timeout(&ring, &never, 3, 0);
	timeout(&ring, &never, 1, 0);
	timeout(&ring, &never, 0, 0);
	note_result("submit", uring_submit(&ring));
	for (i = 0; i < 3; i++) {
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_submit(&ring);
		uring_enter(ring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
		note_ready("ready", &ring);
	}
	note_cqes("cqe", &ring, uring_settle(&ring));
}

/*
 * If the completion counts of several timeouts are reached together, the timeout with
 * the lowest count completes first. Timeouts with equal counts complete in the order of
 * submission.
 */
static void counts_end_together(void)
{
	struct uring ring = prepare();
	int i;

	timeout(&ring, &never, 3, 0);
	timeout(&ring, &never, 2, 0);
	timeout(&ring, &never, 3, 0);
	timeout(&ring, &never, 1, 0);
	note_result("submit", uring_submit(&ring));
	for (i = 0; i < 3; i++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("nops", uring_submit(&ring));
	note_in_order("cqe", &ring, 7);
}

/* Submits nr no-ops, each in its own submission. */
static void complete_some(struct uring *ring, int nr)
{
	while (nr--) {
		sqe_of(ring, IORING_OP_NOP, -1);
		note_result("nop", uring_submit(ring));
	}
}

static void count_in_chain(void)
{
	struct uring ring = prepare();
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], IOSQE_IO_LINK);
	timeout(&ring, &never, 2, 0);
	note_result("submit", uring_submit(&ring));
	complete_some(&ring, 2);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note("poll", uring_wait(&ring, 3));
	uring_settle(&ring);
	complete_some(&ring, 1);
	note("before", uring_settle(&ring));
	complete_some(&ring, 1);
	note_in_order("cqe", &ring, 6);
}

static void count_in_broken_chain(void)
{
	struct uring ring = prepare();
	struct io_uring_sqe *sqe;
	uint64_t first;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	first = sqe_poll(&ring, fds[0], IOSQE_IO_LINK)->user_data;
	timeout(&ring, &never, 1, 0);
	note_result("submit", uring_submit(&ring));
	complete_some(&ring, 1);
	sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->addr = first;
	note_result("cancel", uring_submit(&ring));
	note_cqes("cqe", &ring, 4);
}

static void count_goes_on(void)
{
	struct uring ring = prepare();

	timeout(&ring, &never, 1, 0)->flags = IOSQE_IO_LINK;
	timeout(&ring, &never, 1, 0)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	complete_some(&ring, 1);
	note("first", uring_wait(&ring, 2));
	note("second", uring_settle(&ring));
	complete_some(&ring, 1);
	note_cqes("cqe", &ring, 5);
}

/*
 * Completions of removed timeouts, and of linked timeouts, also count for other
 * timeouts.
 */
static void count_of_timeouts(void)
{
	struct uring ring = prepare();
	uint64_t target;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	timeout(&ring, &never, 2, 0);
	target = timeout(&ring, &never, 0, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, 0, NULL);
	note_result("remove", uring_submit(&ring));
	note_cqes("removed", &ring, 3);
	timeout(&ring, &never, 2, 0);
	sqe_of(&ring, IORING_OP_POLL_ADD, fds[0])->flags = IOSQE_IO_LINK;
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].poll32_events = POLLIN;
	sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("linked", &ring, 3);
}

/*
 * Each expiration of a multishot timeout ends a wait in io_uring_enter. The ring has
 * room for the completions of all expirations.
 */
static void ends_a_wait(void)
{
	const struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = 16384,
	};
	struct uring ring = prepare();
	int i;

	ring = new_uring_of(8, &params);
	timeout(&ring, &soon, 0, IORING_TIMEOUT_MULTISHOT);
	uring_publish(&ring);
	note_result("submit", uring_enter(ring.fd, 1, 16384,
					  IORING_ENTER_GETEVENTS, NULL, 0));
	for (i = 0; i < 3; i++) {
		note("some", uring_ready(&ring) > 0);
		note("all", uring_ready(&ring) >= 16384);
		*ring.cq_head = *ring.cq_tail;
		note_result("wait",
			    uring_enter(ring.fd, 0, 16384,
					IORING_ENTER_GETEVENTS, NULL, 0));
	}
}

static void multishot(void)
{
	static const struct __kernel_timespec at_once = { 0 };
	struct uring ring = prepare();

	timeout(&ring, &soon, 3, IORING_TIMEOUT_MULTISHOT);
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 3);
	timeout(&ring, &at_once, 3, IORING_TIMEOUT_MULTISHOT);
	note_result("at_once", uring_submit(&ring));
	note_in_order("at_once", &ring, 3);
	timeout(&ring, &soon, 1, IORING_TIMEOUT_MULTISHOT);
	note_result("once", uring_submit(&ring));
	note_in_order("once", &ring, 1);
	timeout(&ring, &soon, 1, IORING_TIMEOUT_MULTISHOT | IORING_TIMEOUT_ABS);
	try_sqe("absolute", &ring);
}

static void multishot_removed(void)
{
	struct uring ring = prepare();
	struct io_uring_cqe cqe;
	uint64_t target, removing;
	int nr_more = 0, nr_last, removal_res = 1, last_res = 1;

	target = timeout(&ring, &soon, 0, IORING_TIMEOUT_MULTISHOT)->user_data;
	note_result("submit", uring_submit(&ring));
	while (nr_more < 2 && uring_wait(&ring, 1) && uring_take(&ring, &cqe)) {
		note("more",
		     cqe.res == -ETIME && cqe.flags == IORING_CQE_F_MORE);
		nr_more++;
	}
	removing = removal(&ring, target, 0, NULL)->user_data;
	note_result("remove", uring_submit(&ring));
	/*
	 * Wait for the removal's completion and the timeout's last completion, in
	 * either order.
	 */
	for (nr_last = 0; nr_last < 2 && uring_wait(&ring, 1);) {
		uring_take(&ring, &cqe);
		if (cqe.user_data == removing)
			removal_res = cqe.res;
		else if (!(cqe.flags & IORING_CQE_F_MORE))
			last_res = cqe.res;
		else
			continue;
		nr_last++;
	}
	note_result("removal", removal_res);
	note_result("last", last_res);
}

/*
 * An updated timeout repeats for ever. The ring has room for completions that come
 * while this process does not run.
 */
static void multishot_updated(void)
{
	const struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = 16384,
	};
	struct uring ring = prepare();
	struct io_uring_cqe cqe;
	uint64_t target;

	ring = new_uring_of(8, &params);
	target = timeout(&ring, &never, 2, IORING_TIMEOUT_MULTISHOT)->user_data;
	removal(&ring, target, IORING_TIMEOUT_UPDATE, &soon);
	note_result("submit", uring_submit(&ring));
	for (int i = 0; i < 5 && uring_find(&ring, target, &cqe); i++)
		note_cqe("shot", &cqe);
}

/*
 * An absolute time becomes the length of the next intervals, which is then as long as
 * the machine has run. So there is only one completion.
 */
static void multishot_updated_by_clock(void)
{
	struct uring ring = prepare();
	struct __kernel_timespec end;
	struct timespec now;
	uint64_t target;

	target = timeout(&ring, &never, 0, IORING_TIMEOUT_MULTISHOT)->user_data;
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = span_of(now.tv_sec * 1000000000ll + now.tv_nsec + 2 * MS);
	removal(&ring, target, IORING_TIMEOUT_UPDATE | IORING_TIMEOUT_ABS,
		&end);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	timeout(&ring, &soon, 0, 0);
	note_result("later", uring_submit(&ring));
	note_cqes("later", &ring, 1);
}

static void removed(void)
{
	struct uring ring = prepare();
	uint64_t target;

	target = timeout(&ring, &never, 0, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, 0, NULL);
	note_result("remove", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	removal(&ring, target, 0, NULL);
	note_result("again", uring_submit(&ring));
	note_cqes("again", &ring, 1);
}

static void removed_one_of_two(void)
{
	struct uring ring = prepare();
	int i;

	timeout(&ring, &never, 0, 0)->user_data = 77;
	timeout(&ring, &never, 0, 0)->user_data = 77;
	note_result("submit", uring_submit(&ring));
	for (i = 0; i < 3; i++) {
		removal(&ring, 77, 0, NULL);
		note_result("remove", uring_submit(&ring));
		note("ready", uring_ready(&ring));
		*ring.cq_head = *ring.cq_tail;
	}
}

static void removing_what_is_none(void)
{
	struct uring ring = prepare();
	uint64_t target;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	target = sqe_of(&ring, IORING_OP_POLL_ADD, fds[0])->user_data;
	ring.sqes[0].poll32_events = POLLIN;
	uring_submit(&ring);
	removal(&ring, target, 0, NULL);
	try_sqe("poll", &ring);
}

static void removal_fields(void)
{
	struct uring ring = prepare();
	struct io_uring_sqe *sqe;
	uint64_t target;
	int i;

	target = timeout(&ring, &never, 0, 0)->user_data;
	uring_submit(&ring);
	for (i = 0; i < 6; i++) {
		sqe = removal(&ring, target, 0, NULL);
		if (i == 0)
			sqe->len = 1;
		else if (i == 1)
			sqe->ioprio = 1;
		else if (i == 2)
			sqe->timeout_flags = 1;
		else if (i == 3)
			sqe->buf_index = 1;
		else if (i == 4)
			sqe->splice_fd_in = 1;
		else
			sqe->flags = IOSQE_FIXED_FILE;
		try_sqe("spoilt", &ring);
	}
}

static void updated(void)
{
	struct uring ring = prepare();
	uint64_t target;

	target = timeout(&ring, &never, 0, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, IORING_TIMEOUT_UPDATE, &soon);
	note_result("update", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
	removal(&ring, target, IORING_TIMEOUT_UPDATE, &soon);
	note_result("too_late", uring_submit(&ring));
	note_cqes("too_late", &ring, 1);
}

static void update_fields(void)
{
	struct __kernel_timespec wrong = { 0, -1 }, past = { 0, 1 };
	struct uring ring = prepare();
	const uint32_t update = IORING_TIMEOUT_UPDATE;
	uint64_t target;

	target = timeout(&ring, &never, 0, 0)->user_data;
	uring_submit(&ring);
	removal(&ring, target, update, NULL);
	try_sqe("null", &ring);
	removal(&ring, target, update, KERNEL_ADDRESS);
	try_sqe("kernel", &ring);
	removal(&ring, target, update, &wrong);
	try_sqe("wrong", &ring);
	removal(&ring, target, update | IORING_TIMEOUT_BOOTTIME, &never);
	try_sqe("clock", &ring);
	removal(&ring, target, update | IORING_TIMEOUT_CLOCK_MASK, &never);
	try_sqe("clocks", &ring);
	removal(&ring, target, update | IORING_TIMEOUT_MULTISHOT, &never);
	try_sqe("multishot", &ring);
	removal(&ring, target, update | IORING_TIMEOUT_ABS, &past);
	note_result("past", uring_submit(&ring));
	note_cqes("past", &ring, 2);
}

static void update_of_linked(void)
{
	struct uring ring = prepare();
	uint64_t target;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_of(&ring, IORING_OP_POLL_ADD, fds[0])->flags = IOSQE_IO_LINK;
	ring.sqes[0].poll32_events = POLLIN;
	target = sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &never, 1, 0)
			 ->user_data;
	note_result("submit", uring_submit(&ring));
	removal(&ring, target, IORING_TIMEOUT_UPDATE, &soon);
	note_result("as_plain", uring_submit(&ring));
	note_ready("ready", &ring);
	removal(&ring, target,
		IORING_TIMEOUT_UPDATE | IORING_LINK_TIMEOUT_UPDATE, &never);
	note_result("both", uring_submit(&ring));
	note_ready("ready", &ring);
	removal(&ring, target,
		IORING_TIMEOUT_UPDATE | IORING_LINK_TIMEOUT_UPDATE, &soon);
	note_result("soon", uring_submit(&ring));
	removal(&ring, target, IORING_LINK_TIMEOUT_UPDATE, &soon);
	note_result("as_linked", uring_submit(&ring));
	note_cqes("cqe", &ring, 6);
}

static void update_before_start(void)
{
	const uint32_t update = IORING_TIMEOUT_UPDATE;
	struct uring ring = prepare();
	uint64_t plain, linked;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], IOSQE_IO_LINK);
	sqe_poll(&ring, fds[0], IOSQE_IO_LINK);
	linked = sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &never, 1, 0)
			 ->user_data;
	ring.sqes[2].flags = IOSQE_IO_LINK;
	plain = timeout(&ring, &never, 0, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	removal(&ring, plain, update, &soon);
	note_result("plain", uring_submit(&ring));
	removal(&ring, linked, update | IORING_LINK_TIMEOUT_UPDATE, &soon);
	note_result("linked", uring_submit(&ring));
	note_in_order("cqe", &ring, 2);
}

static void span_is_read_once(void)
{
	struct uring ring = prepare();

	timeout(&ring, &soon, 0, 0);
	note_result("submit", uring_submit(&ring));
	soon = never;
	note_cqes("cqe", &ring, 1);
}

/*
 * The process can open no further descriptor. A timeout, and a request that waits for
 * its file, must nevertheless work.
 */
static void without_descriptors(void)
{
	struct uring ring = prepare();
	struct rlimit limit;
	static char buf[8];
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = (rlim_t)ends[1] + 1;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	REQUIRE(dup(ends[0]) < 0 && errno == EMFILE);
	timeout(&ring, &soon, 0, 0);
	try_sqe("timeout", &ring);
	sqe_rw(&ring, IORING_OP_READ, ends[0], buf, 8, 0);
	note_result("submit", uring_submit(&ring));
	REQUIRE(write(ends[1], "abc", 3) == 3);
	note_cqes("read", &ring, 1);
}

const struct row rows_uring_timeout[] = {
	ROW("a timeout expires", expires),
	ROW("a timeout by each clock", clocks),
	ROW("a time that is none", times),
	ROW("each flag of a timeout", flag_bits),
	ROW("a timeout whose end is a success", success_of_time),
	ROW("a timeout ends after so many completions", counts),
	ROW("a timeout's count has more bits than count", count_of_64_bits),
	ROW("a timeout counts those of its own submission", count_in_batch),
	ROW("a timeout counts what is refused in its submission",
	    count_of_refused),
	ROW("several timeouts count", count_of_several),
	ROW("several counts end together", counts_end_together),
	ROW("a timeout in a chain counts from its start", count_in_chain),
	ROW("a timeout in a chain that breaks", count_in_broken_chain),
	ROW("a chain goes on after a count", count_goes_on),
	ROW("timeouts that are removed or linked are counted",
	    count_of_timeouts),
	ROW("a timeout ends a wait for more", ends_a_wait),
	ROW("a timeout that comes again", multishot),
	ROW("a timeout that comes again is removed", multishot_removed),
	ROW("a timeout that comes again is updated", multishot_updated),
	ROW("a timeout that comes again is updated by a clock",
	    multishot_updated_by_clock),
	ROW("a timeout is removed", removed),
	ROW("one of two timeouts is removed", removed_one_of_two),
	ROW("removing a request that is no timeout", removing_what_is_none),
	ROW("a removal's fields", removal_fields),
	ROW("a timeout is updated", updated),
	ROW("an update's fields", update_fields),
	ROW("a linked timeout is updated", update_of_linked),
	ROW("a timeout is updated before it starts", update_before_start),
	ROW("a timeout's span is read once", span_is_read_once),
	ROW("a timeout expires where no descriptor is left",
	    without_descriptors),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* A ring whose completions have two sizes (IORING_SETUP_CQE_MIXED) */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "uring.h"

enum {
	MIXED = 1 << 18,
	IS_WIDE = 1 << 15, /* a completion's flag IORING_CQE_F_32 */
	NOP_INJECT = 1 << 0,
	NOP_CQE32 = 1 << 5,
	PASS_FLAGS = 1 << 1,
	NARROW = 0,
	WIDE = 1,
};

static struct uring mixed(uint32_t sq_entries, uint32_t cq_entries)
{
	const struct io_uring_params params = {
		.flags = MIXED | IORING_SETUP_CQSIZE, .cq_entries = cq_entries
	};

	return new_uring_of(sq_entries, &params);
}

static struct io_uring_sqe *nop(struct uring *ring, int is_wide, uint64_t data)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_NOP, -1);

	sqe->user_data = data;
	if (is_wide) {
		sqe->rw_flags = NOP_CQE32;
		sqe->off = 0x100 + data;
		sqe->addr = 0x200 + data;
	}
	return sqe;
}

/* Consumes all completions, and prints each with its slot. */
static void note_mixed(const char *key, struct uring *ring)
{
	uring_settle(ring);
	while (uring_ready(ring)) {
		const uint32_t head = *ring->cq_head;
		const struct io_uring_cqe *cqe = uring_peek(ring);
		const uint64_t *extra = (const void *)(cqe + 1);
		bool is_wide = cqe->flags & IS_WIDE;
		char text[128];

		snprintf(text, sizeof(text), "at%u:%llx:%d:%#x:%llx:%llx",
			 head & ring->cq_mask,
			 (unsigned long long)cqe->user_data, cqe->res,
			 cqe->flags, is_wide ? (unsigned long long)extra[0] : 0,
			 is_wide ? (unsigned long long)extra[1] : 0);
		note_text(key, text);
		__atomic_store_n(ring->cq_head, head + 1 + is_wide,
				 __ATOMIC_RELEASE);
	}
	note_rings(key, ring);
}

static void setups(void)
{
	static const struct {
		uint32_t nr, flags, cq_entries;
	} tries[] = {
		{ 1, MIXED, 0 },
		{ 2, MIXED, 0 },
		{ 1, MIXED | IORING_SETUP_CQSIZE, 1 },
		{ 1, MIXED | IORING_SETUP_CQSIZE, 2 },
		{ 4, MIXED | IORING_SETUP_CQE32, 0 },
		{ 4, MIXED | IORING_SETUP_SQE128, 0 },
		{ 4, MIXED | IORING_SETUP_IOPOLL, 0 },
		{ 4, MIXED | IORING_SETUP_SQPOLL, 0 },
		{ 0, MIXED | IORING_SETUP_CQE32, 0 },
	};
	char key[16];

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct io_uring_params params = {
			.flags = tries[i].flags,
			.cq_entries = tries[i].cq_entries,
		};
		long fd = uring_setup(tries[i].nr, &params);

		snprintf(key, sizeof(key), "%zu", i);
		note_result(key, fd < 0 ? fd : 0);
		note(key, params.cq_entries);
	}
}

static void both_sizes(void)
{
	struct uring ring = mixed(4, 16);

	for (int i = 0; i < 20; i++) {
		nop(&ring, i % 3 == 1 ? WIDE : NARROW, (uint64_t)i);
		nop(&ring, i % 2 ? WIDE : NARROW, 0x50u + (uint64_t)i);
		note_result("submit", uring_submit(&ring));
		note_mixed("got", &ring);
	}
}

/*
 * A completion of double size needs two adjacent slots. If only the last slot of the
 * ring is left before the ring wraps around, the completion does not use that slot.
 */
static void at_the_end(void)
{
	for (uint32_t before = 0; before < 5; before++) {
		struct uring ring = mixed(4, 4);
		char key[16];

		snprintf(key, sizeof(key), "%u", before);
		for (uint32_t i = 0; i < before; i++) {
			nop(&ring, NARROW, i);
			uring_submit(&ring);
			*ring.cq_head = *ring.cq_tail;
		}
		for (int i = 0; i < 6; i++) {
			nop(&ring, WIDE, 0x10u + (uint64_t)i);
			note_result(key, uring_submit(&ring));
			note_rings(key, &ring);
		}
		for (int i = 0; i < 6; i++)
			note_mixed(key, &ring);
	}
}

/*
 * Completions of single and double size overflow the ring in turn, beginning with
 * single size. In another order, Linux 6.18 may overwrite a slot that the client has
 * not read, when a completion of double size overflows.
 */
static void overflows(void)
{
	struct uring ring = mixed(2, 4);

	for (int i = 0; i < 11; i++) {
		nop(&ring, i % 2, 0x30u + (uint64_t)i);
		note_result("submit", uring_submit(&ring));
		note_rings("then", &ring);
	}
	for (int i = 0; i < 8; i++)
		note_mixed("got", &ring);
}

/* One completion of double size ends a wait for two completions. */
static void waits(void)
{
	struct __kernel_timespec span = span_of(PATIENCE_MS * MS);
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&span };
	struct uring ring = mixed(4, 8);
	struct timespec before, after;

	nop(&ring, WIDE, 1);
	uring_submit(&ring);
	clock_gettime(CLOCK_MONOTONIC, &before);
	note_result("wait",
		    uring_enter(ring.fd, 0, 2,
				IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
				&arg, sizeof(arg)));
	clock_gettime(CLOCK_MONOTONIC, &after);
	note("at_once", after.tv_sec - before.tv_sec < PATIENCE_MS / 2000);
	note_mixed("got", &ring);
}

static void results(void)
{
	struct uring ring = mixed(8, 16);
	struct io_uring_sqe *sqe;

	for (int res = -EIO; res <= 7; res += EIO + 7) {
		sqe = nop(&ring, WIDE, 1);
		sqe->rw_flags |= NOP_INJECT;
		sqe->len = (uint32_t)res;
		note_result("submit", uring_submit(&ring));
		note_mixed("res", &ring);
	}
	sqe = nop(&ring, WIDE, 2);
	sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("submit", uring_submit(&ring));
	note_mixed("skipped", &ring);
	sqe = nop(&ring, WIDE, 3);
	sqe->rw_flags |= 1 << 30;
	note_result("submit", uring_submit(&ring));
	note_mixed("refused", &ring);
	sqe = nop(&ring, NARROW, 4);
	sqe->rw_flags = NOP_INJECT;
	sqe->len = (uint32_t)-EIO;
	sqe->flags = IOSQE_IO_LINK;
	nop(&ring, WIDE, 5);
	note_result("submit", uring_submit(&ring));
	note_mixed("cut", &ring);
	sqe = nop(&ring, WIDE, 6);
	sqe->flags = IOSQE_IO_LINK;
	nop(&ring, WIDE, 7);
	note_result("submit", uring_submit(&ring));
	note_mixed("linked", &ring);
	sqe = nop(&ring, WIDE, 8);
	sqe->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit_wait(&ring, 2));
	note_mixed("async", &ring);
}

static void messages(void)
{
	struct uring from = new_uring(8, 0), to = mixed(4, 4);
	struct io_uring_sqe *sqe;

	for (int i = 0; i < 6; i++) {
		sqe = sqe_of(&from, IORING_OP_MSG_RING, to.fd);
		sqe->user_data = 1;
		sqe->off = 0x70u + (uint64_t)i;
		sqe->len = 6;
		note_result("submit", uring_submit(&from));
		note_cqes("from", &from, 1);
		note_mixed("to", &to);
	}
}

const struct row rows_uring_mixed[] = {
	ROW("setups of a ring with completions of two sizes", setups),
	ROW("completions of two sizes", both_sizes),
	ROW("a completion of two slots at the end of the ring", at_the_end),
	ROW("completions of two sizes overflow", overflows),
	ROW("a completion of two slots counts twice for a wait", waits),
	ROW("the content of a completion of two slots", results),
	ROW("a message to a ring with completions of two sizes", messages),
	NO_ROW,
};

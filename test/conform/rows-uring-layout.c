/* SPDX-License-Identifier: MIT */
/*
 * Rings with larger entries, and rings in memory of the client's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

enum { PAGE = 4096, NOP_CQE32 = 32, NOP_INJECT = 1 };

/* A ring of which a place may have the size of two. */
struct wide {
	struct uring ring;
	uint32_t sqe_width, cqe_width;
	struct io_uring_sqe *sqes;
	const struct io_uring_cqe *cqes;
};

static struct wide wide_of(const struct uring *ring, uint32_t flags)
{
	return (struct wide){
		.ring = *ring,
		.sqe_width = flags & IORING_SETUP_SQE128 ? 2 : 1,
		.cqe_width = flags & IORING_SETUP_CQE32 ? 2 : 1,
		.sqes = ring->sqes,
		.cqes = ring->cqes,
	};
}

/* uring.c maps as much as plain entries need; map all. */
static struct wide new_wide(uint32_t nr, uint32_t flags)
{
	struct io_uring_params params = { .flags = flags };
	struct uring ring;
	struct wide wide;
	size_t bytes;
	long fd = uring_setup(nr, &params);
	char *base;

	if (fd < 0) {
		note_result("setup", fd);
		broken("new_wide");
	}
	REQUIRE(map_uring(&ring, (int)fd, &params) == 0);
	wide = wide_of(&ring, flags);
	bytes = params.cq_off.cqes + params.cq_entries * 16ul * wide.cqe_width +
		params.sq_entries * 4ul;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd,
		    IORING_OFF_SQ_RING);
	REQUIRE(base != MAP_FAILED);
	wide.cqes = (const void *)(base + params.cq_off.cqes);
	wide.ring.sq_array = (uint32_t *)(void *)(base + params.sq_off.array);
	wide.sqes = mmap(NULL, params.sq_entries * 64ul * wide.sqe_width,
			 PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd,
			 IORING_OFF_SQES);
	REQUIRE(wide.sqes != MAP_FAILED);
	return wide;
}

static struct io_uring_sqe *wide_sqe(struct wide *wide, int opcode, int fd,
				     uint64_t user_data)
{
	uint32_t slot = wide->ring.prepared++ & wide->ring.sq_mask;
	struct io_uring_sqe *sqe = &wide->sqes[slot * wide->sqe_width];

	wide->ring.sq_array[slot] = slot;
	memset(sqe, 0, sizeof(*sqe) * wide->sqe_width);
	sqe->opcode = (uint8_t)opcode;
	sqe->fd = fd;
	sqe->user_data = user_data;
	return sqe;
}

/* All that has come, with what is behind it. */
static void note_wide(const char *key, struct wide *wide)
{
	struct uring *ring = &wide->ring;

	uring_settle(ring);
	while (uring_ready(ring)) {
		const struct io_uring_cqe *cqe =
			&wide->cqes[(*ring->cq_head & ring->cq_mask) *
				    wide->cqe_width];
		const uint64_t *extra = (const void *)(cqe + 1);
		char text[128];

		snprintf(text, sizeof(text), "%llx:%d:%#x:%llx:%llx",
			 (unsigned long long)cqe->user_data, cqe->res,
			 cqe->flags,
			 wide->cqe_width > 1 ? (unsigned long long)extra[0] : 0,
			 wide->cqe_width > 1 ? (unsigned long long)extra[1]
					     : 0);
		note_text(key, text);
		__atomic_store_n(ring->cq_head, *ring->cq_head + 1,
				 __ATOMIC_RELEASE);
	}
}

static const struct {
	const char *key;
	uint32_t flags;
} sizes[] = {
	{ "plain", 0 },
	{ "sqe128", IORING_SETUP_SQE128 },
	{ "cqe32", IORING_SETUP_CQE32 },
	{ "both", IORING_SETUP_SQE128 | IORING_SETUP_CQE32 },
};

static void work(void)
{
	char block[64] = "abc", got[64] = "";
	int file = file_of("f", 64, 2), i, k;

	for (i = 0; i < 4; i++) {
		struct wide wide = new_wide(4, sizes[i].flags);

		note(sizes[i].key, wide.ring.params.cq_entries);
		for (k = 0; k < 3; k++) {
			struct io_uring_sqe *sqe = wide_sqe(
				&wide, IORING_OP_WRITE, file, 0x10u + k);

			sqe->addr = (uintptr_t)block;
			sqe->len = sizeof(block);
			sqe->flags = IOSQE_IO_LINK;
			sqe = wide_sqe(&wide, IORING_OP_READ, file, 0x20u + k);
			sqe->addr = (uintptr_t)got;
			sqe->len = sizeof(got);
			note_result(sizes[i].key,
				    uring_submit_wait(&wide.ring, 2));
			note_wide(sizes[i].key, &wide);
			note(sizes[i].key, memcmp(block, got, 64) == 0);
			block[0]++;
		}
	}
}

static void overflows(void)
{
	int i, k;

	for (i = 0; i < 4; i++) {
		struct wide wide = new_wide(2, sizes[i].flags);

		for (k = 0; k < 11; k++) {
			wide_sqe(&wide, IORING_OP_NOP, -1, 0x30u + k);
			note_result(sizes[i].key, uring_submit(&wide.ring));
		}
		note_rings(sizes[i].key, &wide.ring);
		for (k = 0; k < 4; k++)
			note_wide(sizes[i].key, &wide);
	}
}

/* A no-op may have something behind its completion. */
static void behind_completions(void)
{
	int i, k;

	for (i = 0; i < 4; i++) {
		struct wide wide = new_wide(2, sizes[i].flags);

		for (k = 0; k < 11; k++) {
			struct io_uring_sqe *sqe =
				wide_sqe(&wide, IORING_OP_NOP, -1, 0x40u + k);

			if (k % 3 != 1) {
				sqe->rw_flags = NOP_CQE32;
				sqe->off = 0x100u + k;
				sqe->addr = 0x200u + k;
			}
			if (k % 3 == 2) {
				sqe->rw_flags |= NOP_INJECT;
				sqe->len = k % 2 ? 77 : (uint32_t)-EIO;
			}
			note_result(sizes[i].key, uring_submit(&wide.ring));
		}
		for (k = 0; k < 4; k++)
			note_wide(sizes[i].key, &wide);
	}
}

static void messages(void)
{
	struct wide from = new_wide(4, IORING_SETUP_SQE128);
	struct wide to = new_wide(4, IORING_SETUP_CQE32);
	struct io_uring_sqe *sqe =
		wide_sqe(&from, IORING_OP_MSG_RING, to.ring.fd, 1);

	sqe->off = 5;
	sqe->len = 6;
	note_result("submit", uring_submit(&from.ring));
	note_wide("from", &from);
	note_wide("to", &to);
}

const struct row rows_uring_layout[] = {
	ROW("entries of each size", work),
	ROW("entries of each size overflow", overflows),
	ROW("something behind a completion", behind_completions),
	ROW("a message between rings of either size", messages),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* Rings with larger entries, and rings in memory that the client allocates. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

enum { NOP_CQE32 = 32, NOP_INJECT = 1 };

/* Prints all completions, each with the extra words of its larger entry. */
static void note_wide(const char *key, struct uring *ring)
{
	const bool is_wide = ring->cqe_slots > 1;
	struct io_uring_cqe cqe;

	uring_settle(ring);
	while (uring_ready(ring)) {
		const uint64_t *extra = (const void *)(uring_peek(ring) + 1);
		unsigned long long a = is_wide ? extra[0] : 0;
		unsigned long long b = is_wide ? extra[1] : 0;
		char text[128];

		uring_take(ring, &cqe);
		snprintf(text, sizeof(text), "%llx:%d:%#x:%llx:%llx",
			 (unsigned long long)cqe.user_data, cqe.res, cqe.flags,
			 a, b);
		note_text(key, text);
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
		struct uring wide = new_uring(4, sizes[i].flags);

		note(sizes[i].key, wide.params.cq_entries);
		for (k = 0; k < 3; k++) {
			struct io_uring_sqe *sqe = uring_put(
				&wide, IORING_OP_WRITE, file, 0x10u + k);

			sqe->addr = (uintptr_t)block;
			sqe->len = sizeof(block);
			sqe->flags = IOSQE_IO_LINK;
			sqe = uring_put(&wide, IORING_OP_READ, file, 0x20u + k);
			sqe->addr = (uintptr_t)got;
			sqe->len = sizeof(got);
			note_result(sizes[i].key, uring_submit_wait(&wide, 2));
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
		struct uring wide = new_uring(2, sizes[i].flags);

		for (k = 0; k < 11; k++) {
			uring_put(&wide, IORING_OP_NOP, -1, 0x30u + k);
			note_result(sizes[i].key, uring_submit(&wide));
		}
		note_rings(sizes[i].key, &wide);
		for (k = 0; k < 4; k++)
			note_wide(sizes[i].key, &wide);
	}
}

/*
 * In a ring whose completions have 32 bytes, a no-op with IORING_NOP_CQE32 sets the two
 * extra words of its completion.
 */
static void behind_completions(void)
{
	int i, k;

	for (i = 0; i < 4; i++) {
		struct uring wide = new_uring(2, sizes[i].flags);

		for (k = 0; k < 11; k++) {
			struct io_uring_sqe *sqe =
				uring_put(&wide, IORING_OP_NOP, -1, 0x40u + k);

			if (k % 3 != 1) {
				sqe->rw_flags = NOP_CQE32;
				sqe->off = 0x100u + k;
				sqe->addr = 0x200u + k;
			}
			if (k % 3 == 2) {
				sqe->rw_flags |= NOP_INJECT;
				sqe->len = k % 2 ? 77 : (uint32_t)-EIO;
			}
			note_result(sizes[i].key, uring_submit(&wide));
		}
		for (k = 0; k < 4; k++)
			note_wide(sizes[i].key, &wide);
	}
}

static void messages(void)
{
	struct uring from = new_uring(4, IORING_SETUP_SQE128);
	struct uring to = new_uring(4, IORING_SETUP_CQE32);
	struct io_uring_sqe *sqe =
		uring_put(&from, IORING_OP_MSG_RING, to.fd, 1);

	sqe->off = 5;
	sqe->len = 6;
	note_result("submit", uring_submit(&from));
	note_wide("from", &from);
	note_wide("to", &to);
}

/* Rings in the client's memory */

static void set_addresses(struct io_uring_params *params, const void *sqes,
			  const void *rings)
{
	/*
	 * Write the members named user_addr by their offset: older headers name them
	 * resv2.
	 */
	memcpy((char *)&params->sq_off + 32, &sqes, 8);
	memcpy((char *)&params->cq_off + 32, &rings, 8);
}

static char *some_memory(int flags)
{
	char *at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
			flags | MAP_ANONYMOUS, -1, 0);

	REQUIRE(at != MAP_FAILED);
	memset(at, 0xff, 16 * PAGE);
	return at;
}

static long setup_in(uint32_t nr, uint32_t flags, const void *sqes,
		     const void *rings, struct io_uring_params *params)
{
	*params = (struct io_uring_params){ .flags = IORING_SETUP_NO_MMAP |
						     flags };
	set_addresses(params, sqes, rings);
	return uring_setup(nr, params);
}

static struct uring ring_in(char *sqes, char *rings, int fd,
			    const struct io_uring_params *params)
{
	struct uring ring;

	uring_at(&ring, fd, params, rings, sqes);
	return ring;
}

static struct uring given_ring(char *memory, uint32_t flags)
{
	struct io_uring_params params;
	long fd = setup_in(4, flags, memory, memory + PAGE, &params);

	if (fd < 0) {
		note_result("setup", fd);
		broken("given_ring");
	}
	return ring_in(memory, memory + PAGE, (int)fd, &params);
}

static void nops(const char *key, struct uring *ring)
{
	int i;

	for (i = 0; i < 7; i++) {
		sqe_of(ring, IORING_OP_NOP, -1);
		sqe_of(ring, IORING_OP_NOP, -1);
		note_result(key, uring_submit(ring));
		note_cqes(key, ring, 2);
	}
	note_rings(key, ring);
}

static void given(void)
{
	const uint32_t flags[] = { 0, IORING_SETUP_NO_SQARRAY };
	const int kinds[] = { MAP_SHARED, MAP_PRIVATE };
	int i, k;

	for (i = 0; i < 2; i++)
		for (k = 0; k < 2; k++) {
			struct uring ring =
				given_ring(some_memory(kinds[k]), flags[i]);
			char key[16];

			snprintf(key, sizeof(key), "%d%d", i, k);
			nops(key, &ring);
			note("features",
			     ring.params.features & IORING_FEAT_SINGLE_MMAP);
			note("mmap", mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					  MAP_SHARED, ring.fd,
					  IORING_OFF_SQ_RING) == MAP_FAILED);
			note("mmap", mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					  MAP_SHARED, ring.fd,
					  IORING_OFF_SQES) == MAP_FAILED);
			close(ring.fd);
		}
}

static void addresses(void)
{
	char *memory = some_memory(MAP_SHARED), *rings = memory + PAGE;
	char *read_only = pages_of(PAGE, PROT_READ);
	char *none = pages_of(PAGE, PROT_NONE);
	struct io_uring_params params;
	const struct {
		const char *key;
		const void *sqes, *rings;
	} tries[] = {
		{ "right", memory, rings },
		{ "no_sqes", NULL, rings },
		{ "no_rings", memory, NULL },
		{ "odd_sqes", memory + 64, rings },
		{ "odd_rings", memory, rings + 64 },
		{ "no_sqes_odd_rings", NULL, rings + 64 },
		{ "odd_sqes_no_rings", memory + 64, NULL },
		{ "read_only_sqes", read_only, rings },
		{ "read_only_rings", memory, read_only },
		{ "no_access", none, rings },
		{ "kernel", KERNEL_ADDRESS, rings },
		{ "low", (void *)PAGE, rings },
		{ "together", memory, memory },
	};
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		long ret =
			setup_in(4, 0, tries[i].sqes, tries[i].rings, &params);
		void *sqes;

		note_result(tries[i].key, ret < 0 ? ret : 0);
		memcpy(&sqes, (char *)&params.sq_off + 32, 8);
		note(tries[i].key, sqes == tries[i].sqes);
		note(tries[i].key, params.sq_entries);
	}
	note_result("over_end",
		    setup_in(1024, 0, memory, memory + 15 * PAGE, &params));
	note_result("nr_0", setup_in(0, 0, NULL, NULL, &params));
	note_result("only_registered",
		    setup_in(4, IORING_SETUP_REGISTERED_FD_ONLY, NULL, NULL,
			     &params));
}

/*
 * After io_uring_setup() the client may unmap the memory that it gave for the ring, and
 * map something else there.
 */
static void unmapped(void)
{
	char *memory = some_memory(MAP_SHARED);
	char *other = mremap(memory, 0, 16 * PAGE, MREMAP_MAYMOVE);
	struct uring ring = given_ring(memory, 0);

	REQUIRE(other != MAP_FAILED);
	munmap(memory, 16 * PAGE);
	ring = ring_in(other, other + PAGE, ring.fd, &ring.params);
	nops("nops", &ring);
}

/*
 * A child waits until a request of its parent completes, and consumes the completion.
 */
static void for_a_child(void)
{
	struct uring ring = given_ring(some_memory(MAP_SHARED), 0);
	int status, ends[2], child;
	char byte = 0;

	REQUIRE(pipe(ends) == 0);
	sqe_rw(&ring, IORING_OP_READ, ends[0], &byte, 1, (uint64_t)-1);
	note_result("submit", uring_submit(&ring));
	child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		struct io_uring_cqe cqe = { .res = 0 };

		if (write(ends[1], "x", 1) != 1)
			_exit(100);
		if (!uring_wait(&ring, 1) || !uring_take(&ring, &cqe))
			_exit(101);
		_exit(cqe.res);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	note("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	note_ready("ready", &ring);
	nops("nops", &ring);
}

static void without_a_descriptor(void)
{
	const uint32_t only = IORING_SETUP_REGISTERED_FD_ONLY;
	char *memory = some_memory(MAP_SHARED);
	struct io_uring_rsrc_update update = { .offset = 0 };
	struct io_uring_params params;
	struct uring ring;
	int i;

	params = (struct io_uring_params){ .flags = only };
	note_result("alone", uring_setup(4, &params));
	note_result("first", setup_in(4, only, memory, memory + PAGE, &params));
	ring = ring_in(memory, memory + PAGE, 0, &params);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("enter", uring_enter(0, 1, 1,
					 IORING_ENTER_GETEVENTS |
						 IORING_ENTER_REGISTERED_RING,
					 NULL, 0));
	note_ready("nop", &ring);
	note_result("register", uring_register(0,
					       REGISTER_USE_REGISTERED_RING |
						       IORING_UNREGISTER_FILES,
					       NULL, 0));
	for (i = 0; i < 17; i++)
		note_result("more", setup_in(4, only, memory + 2 * PAGE,
					     memory + 3 * PAGE, &params));
	note_result("unregister",
		    uring_register(0,
				   REGISTER_USE_REGISTERED_RING |
					   IORING_UNREGISTER_RING_FDS,
				   &update, 1));
	note_result("enter", uring_enter(0, 1, 1,
					 IORING_ENTER_GETEVENTS |
						 IORING_ENTER_REGISTERED_RING,
					 NULL, 0));
	note_result("again", setup_in(4, only, memory + 2 * PAGE,
				      memory + 3 * PAGE, &params));
}

const struct row rows_uring_layout[] = {
	ROW("entries of each size", work),
	ROW("entries of each size overflow", overflows),
	ROW("something behind a completion", behind_completions),
	ROW("a message between rings of either size", messages),
	ROW("a ring in memory of the client's", given),
	ROW("where that memory is, and is not", addresses),
	ROW("memory of a ring that is unmapped", unmapped),
	ROW("a child waits on a ring in shared memory", for_a_child),
	ROW("a ring without a descriptor", without_a_descriptor),
	NO_ROW,
};

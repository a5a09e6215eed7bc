/* SPDX-License-Identifier: MIT */
/*
 * IORING_REGISTER_RESIZE_RINGS
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

enum { REGISTER_RESIZE = 33, MIXED = 1 << 18 };
#define OWNED (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

static long resize(const struct uring *ring, struct io_uring_params *params)
{
	return uring_register(ring->fd, REGISTER_RESIZE, params, 1);
}

/* Resizes the rings, and maps them again. */
static long resize_to(struct uring *ring, uint32_t sq_entries,
		      uint32_t cq_entries)
{
	struct io_uring_params params = { .sq_entries = sq_entries,
					  .cq_entries = cq_entries,
					  .flags = IORING_SETUP_CQSIZE };
	long ret = resize(ring, &params);

	if (ret < 0)
		return ret;
	uring_unmap(ring);
	REQUIRE(uring_map(ring, ring->fd, &params) == 0);
	return ret;
}

/*
 * Prints heads, tails and flags of both queues, and the counts `dropped` and
 * `overflow`. Leaves out NEED_WAKEUP and TASKRUN, because the kernel sets these flags
 * after a resize, for a moment or for ever. The two flags only advise the client.
 */
static void note_words(const char *key, const struct uring *ring)
{
	const uint32_t asks = IORING_SQ_NEED_WAKEUP | IORING_SQ_TASKRUN;
	char text[128];

	snprintf(text, sizeof(text),
		 "sq:%u-%u,flags:%#x,dropped:%u,cq:%u-%u,"
		 "flags:%#x,overflow:%u",
		 *ring->sq_head, *ring->sq_tail, *ring->sq_flags & ~asks,
		 *ring->sq_dropped, *ring->cq_head, *ring->cq_tail,
		 *ring->cq_flags, *ring->cq_overflow);
	note_text(key, text);
}

/*
 * Creates a ring without an SQ array, because a resize of Linux 6.18 does not return
 * the array's new offset.
 */
static struct uring new_owned(uint32_t nr, uint32_t flags)
{
	return new_uring(nr, OWNED | IORING_SETUP_NO_SQARRAY | flags);
}

static void sizes(void)
{
	static const struct {
		uint32_t sq, cq, flags;
	} tries[] = {
		{ 0, 0, 0 },
		{ 1, 0, 0 },
		{ 3, 0, 0 },
		{ 8, 77, 0 },
		{ 32768, 0, 0 },
		{ 32769, 0, 0 },
		{ 32769, 0, IORING_SETUP_CLAMP },
		{ 4, 2, IORING_SETUP_CQSIZE },
		{ 4, 0, IORING_SETUP_CQSIZE },
		{ 4, 33, IORING_SETUP_CQSIZE },
		{ 4, 65537, IORING_SETUP_CQSIZE },
		{ 4, 65537, IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP },
		{ 4, 0, OWNED },
		{ 4, 0, IORING_SETUP_CQE32 },
		{ 4, 0, IORING_SETUP_NO_SQARRAY },
		{ 4, 0, MIXED },
		{ 4, 0, 1u << 31 },
		{ 4, 0, 0 },
	};
	struct uring ring = new_owned(4, 0);
	char key[16];

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct io_uring_params params = { .sq_entries = tries[i].sq,
						  .cq_entries = tries[i].cq,
						  .flags = tries[i].flags };

		snprintf(key, sizeof(key), "%zu", i);
		note_result(key, resize(&ring, &params));
		note(key, params.sq_entries);
		note(key, params.cq_entries);
		note(key, params.flags);
	}
}

static void rings(void)
{
	static const struct {
		const char *key;
		uint32_t flags;
	} tries[] = {
		{ "plain", 0 },
		{ "single_issuer", IORING_SETUP_SINGLE_ISSUER },
		{ "coop", IORING_SETUP_COOP_TASKRUN },
		{ "owned", OWNED },
		{ "disabled", OWNED | IORING_SETUP_R_DISABLED },
		{ "sqe128", OWNED | IORING_SETUP_SQE128 },
		{ "cqe32", OWNED | IORING_SETUP_CQE32 },
		{ "mixed", OWNED | MIXED },
		{ "no_array", OWNED | IORING_SETUP_NO_SQARRAY },
		{ "polled_for", OWNED | IORING_SETUP_IOPOLL },
	};

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct uring ring = new_uring(4, tries[i].flags);
		struct io_uring_params params = { .sq_entries = 8 };

		note_result(tries[i].key, resize(&ring, &params));
		note(tries[i].key, params.flags);
		note(tries[i].key, params.sq_entries);
		params =
			(struct io_uring_params){ .sq_entries = 1,
						  .cq_entries = 1,
						  .flags =
							  IORING_SETUP_CQSIZE };
		note_result(tries[i].key, resize(&ring, &params));
		note(tries[i].key, params.flags);
	}
}

static void arguments(void)
{
	struct uring ring = new_owned(4, 0), plain = new_uring(4, 0);
	struct io_uring_params params = { .sq_entries = 8,
					  .features = 0x55,
					  .sq_thread_cpu = 7,
					  .sq_thread_idle = 8,
					  .wq_fd = 9,
					  .resv = { 1, 2, 3 } };
	struct io_uring_params *read_only =
		pages_of(4096, PROT_READ | PROT_WRITE);

	note_result("null", uring_register(ring.fd, REGISTER_RESIZE, NULL, 1));
	note_result("nr_0",
		    uring_register(ring.fd, REGISTER_RESIZE, &params, 0));
	note_result("nr_2",
		    uring_register(ring.fd, REGISTER_RESIZE, &params, 2));
	note_result("kernel", uring_register(ring.fd, REGISTER_RESIZE,
					     KERNEL_ADDRESS, 1));
	note_result("plain_kernel", uring_register(plain.fd, REGISTER_RESIZE,
						   KERNEL_ADDRESS, 1));
	note_result("others", resize(&ring, &params));
	note("features", params.features);
	note("cpu", params.sq_thread_cpu);
	note("idle", params.sq_thread_idle);
	note("wq", params.wq_fd);
	note("resv",
	     params.resv[0] * 100 + params.resv[1] * 10 + params.resv[2]);
	note("array", params.sq_off.array);
	*read_only = (struct io_uring_params){ .sq_entries = 16 };
	mprotect(read_only, 4096, PROT_READ);
	note_result("read_only", resize(&ring, read_only));
	REQUIRE(uring_map(&ring, ring.fd, &params) == 0);
	note("sq_mask", ring.sq_mask);
	note("cq_mask", ring.cq_mask);
}

static void use(const char *key, struct uring *ring, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		sqe_of(ring, IORING_OP_NOP, -1);
	note_result(key, uring_submit(ring));
	note_cqes(key, ring, nr);
	note_words(key, ring);
}

static void empty_rings(void)
{
	struct uring ring = new_owned(4, 0);
	static const uint32_t nrs[] = { 8, 2, 1, 64, 4, 4, 1024, 16 };

	use("new", &ring, 3);
	for (size_t i = 0; i < sizeof(nrs) / sizeof(nrs[0]); i++) {
		note_result("resize", resize_to(&ring, nrs[i], 2 * nrs[i]));
		note("sq_mask", ring.sq_mask);
		note("cq_mask", ring.cq_mask);
		use("then", &ring, nrs[i] < 16 ? nrs[i] : 16);
	}
}

/* A resize copies prepared requests and pending completions to the new rings. */
static void what_is_there(void)
{
	static const uint32_t nrs[] = { 16, 4, 3, 8, 2 };

	for (size_t i = 0; i < sizeof(nrs) / sizeof(nrs[0]); i++) {
		struct uring ring = new_owned(8, 0);
		char key[16];
		long ret;

		snprintf(key, sizeof(key), "%u", nrs[i]);
		/*
		 * Complete some requests first, so that the entries are not at the
		 * beginning of the rings.
		 */
		for (int k = 0; k < 3; k++) {
			for (int n = 0; n < 5; n++)
				sqe_of(&ring, IORING_OP_NOP, -1);
			uring_submit_wait(&ring, 5);
			*ring.cq_head = *ring.cq_tail - (k == 2 ? 4 : 0);
		}
		for (int n = 0; n < 3; n++)
			sqe_of(&ring, IORING_OP_NOP, -1);
		uring_publish(&ring);
		ret = resize_to(&ring, nrs[i], 2 * nrs[i]);
		note_result(key, ret);
		note_words(key, &ring);
		note_result(key, uring_submit_wait(&ring, 3));
		note_in_order(key, &ring, uring_ready(&ring));
		note_words(key, &ring);
	}
}

static void too_small(void)
{
	struct uring ring = new_owned(8, 0);
	struct io_uring_params params = { .sq_entries = 2,
					  .cq_entries = 4,
					  .flags = IORING_SETUP_CQSIZE };

	for (int n = 0; n < 5; n++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	uring_settle(&ring);
	note_result("too_few_cqes", resize(&ring, &params));
	note("told", params.sq_entries);
	note_words("as_it_was", &ring);
	note_in_order("nops", &ring, 5);
	for (int n = 0; n < 5; n++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	params = (struct io_uring_params){ .sq_entries = 4 };
	note_result("too_few_sqes", resize(&ring, &params));
	note_words("as_it_was", &ring);
	note_result("submit", uring_submit(&ring));
	note_in_order("nops", &ring, 5);
	note_result("fits", resize_to(&ring, 4, 8));
	use("then", &ring, 4);
}

static void with_overflow(void)
{
	struct uring ring = new_owned(4, 0);

	for (int n = 0; n < 3; n++) {
		for (int k = 0; k < 4; k++)
			sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
		uring_settle(&ring);
	}
	note_words("full", &ring);
	note_result("smaller", resize_to(&ring, 2, 4));
	note_result("larger", resize_to(&ring, 8, 16));
	note_words("resized", &ring);
	uring_settle(&ring);
	note_words("settled", &ring);
	note_in_order("nops", &ring, 12);
	note_words("taken", &ring);
}

static void while_something_waits(void)
{
	struct uring ring = new_owned(4, 0);
	int pipes[2];
	char byte = 0;

	REQUIRE(pipe(pipes) == 0);
	sqe_rw(&ring, IORING_OP_READ, pipes[0], &byte, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_result("resize", resize_to(&ring, 16, 64));
	REQUIRE(write(pipes[1], "x", 1) == 1);
	note_cqes("read", &ring, 1);
	note("byte", byte);
	use("then", &ring, 16);
}

static void registered(void)
{
	struct uring ring = new_owned(4, 0);
	struct io_uring_rsrc_update update = { .offset = -1u,
					       .data = (uint64_t)ring.fd };
	struct io_uring_params params = { .sq_entries = 8 };
	const int file = file_of("f", 16, 2);
	char got[16];

	note_result("file",
		    uring_register(ring.fd, IORING_REGISTER_FILES, &file, 1));
	note_result("ring", uring_register(ring.fd, IORING_REGISTER_RING_FDS,
					   &update, 1));
	note_result(
		"resize",
		uring_register((int)update.offset,
			       REGISTER_RESIZE | REGISTER_USE_REGISTERED_RING,
			       &params, 1));
	uring_unmap(&ring);
	REQUIRE(uring_map(&ring, ring.fd, &params) == 0);
	sqe_rw(&ring, IORING_OP_READ, 0, got, 16, 0)->flags = IOSQE_FIXED_FILE;
	try_sqe("read", &ring);
	use("then", &ring, 8);
}

/*
 * Maps memory: on x86-64 by an inline `syscall` instruction, otherwise by mmap().
 */
static void *map_by_itself(int fd, size_t bytes, uint64_t offset)
{
#ifdef __x86_64__
	register long flags __asm__("r10") = MAP_SHARED;
	register long file __asm__("r8") = fd;
	register uint64_t at __asm__("r9") = offset;
	long ret;

	/*
	 * Set the system call's number just before the instruction. The library
	 * searches the program's code for system call instructions, and from the number
	 * it sees that this one is an mmap.
	 */
	__asm__ volatile("movl %1, %%eax\n\tsyscall"
			 : "=&a"(ret)
			 : "i"(SYS_mmap), "D"(0L), "S"(bytes),
			   "d"((long)PROT_READ), "r"(flags), "r"(file), "r"(at)
			 : "rcx", "r11", "memory");
	REQUIRE(ret > 0 || ret < -4096);
	return (void *)ret;
#else
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);

	REQUIRE(at != MAP_FAILED);
	return at;
#endif
}

/*
 * Maps the resized rings by an inline instruction, as statically linked liburing does.
 * The features that the resize returns say at which offset the completion ring is.
 */
static void mapped_by_itself(void)
{
	struct uring ring = new_owned(4, 0);
	struct io_uring_params params = { .sq_entries = 8,
					  .cq_entries = 32,
					  .flags = IORING_SETUP_CQSIZE };
	const struct io_cqring_offsets *cq = &params.cq_off;
	const char *at;

	note_result("resize", resize(&ring, &params));
	at = map_by_itself(
		ring.fd, cq->cqes + params.cq_entries * sizeof(*ring.cqes),
		params.features & IORING_FEAT_SINGLE_MMAP ? IORING_OFF_SQ_RING
							  : IORING_OFF_CQ_RING);
	uring_unmap(&ring);
	REQUIRE(uring_map(&ring, ring.fd, &params) == 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit_wait(&ring, 1));
	note("entries", *(const uint32_t *)(at + cq->ring_entries));
	note("mask", *(const uint32_t *)(at + cq->ring_mask));
	note("completions", *(const uint32_t *)(at + cq->tail));
}

/*
 * Resizes rings whose entries have double size, while the rings have no completion.
 */
static void of_each_size(void)
{
	static const uint32_t flags[] = { IORING_SETUP_SQE128,
					  IORING_SETUP_CQE32, MIXED };

	for (int i = 0; i < 3; i++) {
		struct uring ring = new_owned(4, flags[i]);

		note_result("resize", resize_to(&ring, 8, 32));
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit_wait(&ring, 1));
		note_cqes("nop", &ring, 1);
		note_result("resize", resize_to(&ring, 1, 2));
		note_words("then", &ring);
	}
}

const struct row rows_uring_resize[] = {
	ROW("rings have other sizes, within the limits", sizes),
	ROW("which rings are resized", rings),
	ROW("a resize, argument by argument", arguments),
	ROW("empty rings that are resized", empty_rings),
	ROW("entries of rings that are resized", what_is_there),
	ROW("rings that would be too small", too_small),
	ROW("rings are resized that have overflowed", with_overflow),
	ROW("rings are resized while a request waits", while_something_waits),
	ROW("a ring that is resized keeps its registrations", registered),
	ROW("rings of each kind of entries are resized", of_each_size),
	ROW("a client maps resized rings by itself", mapped_by_itself),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/*
 * Futexes: which wake ends which wait, what is refused, and how a wait is cancelled.
 * When the call that submits a wait returns, the futex must already have this waiter.
 * So the test cases wake the futex at once.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"
#include "base/newer.h"

/* Flags that older headers lack. */
enum { SIZE_U32 = 2, PRIVATE = 128, NR = 126, MOST = 128 };

static uint32_t words[4];
static struct uaio_futex_waitv vector[MOST];
static struct uring ring;

static void prepare(void)
{
	ring = new_uring(16, 0);
	memset(words, 0, sizeof(words));
	for (size_t i = 0; i < MOST; i++)
		vector[i] = (struct uaio_futex_waitv){
			.uaddr = (uintptr_t)&words[i % 4],
			.flags = SIZE_U32 | PRIVATE,
		};
}

static struct io_uring_sqe *put_wait(uint32_t *word)
{
	struct io_uring_sqe *sqe =
		sqe_of(&ring, OP_FUTEX_WAIT, SIZE_U32 | PRIVATE);

	sqe->addr = (uintptr_t)word;
	sqe->addr3 = UINT32_MAX;
	return sqe;
}

static struct io_uring_sqe *put_wake(uint32_t *word, uint64_t nr)
{
	struct io_uring_sqe *sqe = put_wait(word);

	sqe->opcode = OP_FUTEX_WAKE;
	sqe->off = nr;
	return sqe;
}

static struct io_uring_sqe *put_waitv(uint32_t nr)
{
	struct io_uring_sqe *sqe = sqe_of(&ring, OP_FUTEX_WAITV, 0);

	sqe->addr = (uintptr_t)vector;
	sqe->len = nr;
	return sqe;
}

static long wake(uint32_t *word, int nr)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, nr, NULL, NULL, 0);
}

/* A futex call or a futex request wakes only the waits on its own futex. */
static void woken(void)
{
	prepare();
	put_wait(&words[0]);
	put_wait(&words[1]);
	put_wait(&words[0]);
	note_result("submit", uring_submit(&ring));
	note("wake", wake(&words[0], 1));
	note_in_order("first", &ring, 1);
	put_wake(&words[0], 9);
	note_result("submit", uring_submit(&ring));
	note_cqes("second", &ring, 2);
	note("none", wake(&words[0], 9));
	put_wake(&words[1], 1);
	note_result("submit", uring_submit(&ring));
	note_cqes("third", &ring, 2);
}

/* A wake of 0 waiters wakes no request, but its address is checked. */
static void none_woken(void)
{
	prepare();
	put_wait(&words[0]);
	put_wait(&words[0])->fd = SIZE_U32;
	note_result("submit", uring_submit(&ring));
	put_wake(&words[0], 0);
	try_sqe("private", &ring);
	put_wake(&words[0], 0)->fd = SIZE_U32;
	try_sqe("shared", &ring);
	put_wake(&words[0], 0)->addr3 = 0;
	try_sqe("no_mask", &ring);
	put_wake((uint32_t *)((char *)words + 1), 0);
	try_sqe("unaligned", &ring);
	put_wake(KERNEL_ADDRESS, 0);
	try_sqe("kernel", &ring);
	put_wake((uint32_t *)4096, 0)->fd = SIZE_U32;
	try_sqe("unmapped", &ring);
	note_ready("besides", &ring);
	put_wake(&words[0], 9);
	put_wake(&words[0], 9)->fd = SIZE_U32;
	note_result("submit", uring_submit(&ring));
	note_cqes("all", &ring, 4);
}

static void one_after_another(void)
{
	prepare();
	for (int i = 0; i < 20; i++) {
		put_wait(&words[0]);
		uring_submit(&ring);
		note("wake", wake(&words[0], 1));
		note_in_order("cqe", &ring, 1);
	}
}

static void differs(void)
{
	prepare();
	put_wait(&words[0])->off = 1;
	try_sqe("wait", &ring);
	put_wait(&words[0])->off = 1;
	put_wait(&words[0])->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("other", &ring, 1);
	vector[2].val = 1;
	put_waitv(4);
	try_sqe("waitv", &ring);
}

static void mistakes(void)
{
	prepare();
	put_wait(&words[0])->addr = 2;
	try_sqe("unaligned", &ring);
	put_wait((uint32_t *)4096);
	try_sqe("unmapped", &ring);
	put_wait(&words[0])->addr3 = 0;
	try_sqe("no_mask", &ring);
	put_wait(&words[0])->addr3 = 1ull << 32;
	try_sqe("long_mask", &ring);
	put_wait(&words[0])->off = 1ull << 32;
	try_sqe("long_value", &ring);
	put_wait(&words[0])->fd = SIZE_U32 | 16;
	try_sqe("flags", &ring);
	put_wait(&words[0])->fd = 3;
	try_sqe("size", &ring);
	put_wait(&words[0])->len = 1;
	try_sqe("len", &ring);
	put_wake(&words[0], 0);
	try_sqe("wake.none", &ring);
	put_wake(&words[0], 0)->addr = 2;
	try_sqe("wake.unaligned", &ring);
	put_wake(&words[0], 1)->addr3 = 0;
	try_sqe("wake.no_mask", &ring);
	put_wake((uint32_t *)4096, 1)->fd = SIZE_U32;
	try_sqe("wake.unmapped", &ring);
	put_wake(&words[0], 1ull << 32);
	try_sqe("wake.many", &ring);
}

static void mistakes_of_many(void)
{
	prepare();
	put_waitv(0);
	try_sqe("none", &ring);
	put_waitv(129);
	try_sqe("many", &ring);
	put_waitv(2)->addr = 0;
	try_sqe("unmapped", &ring);
	put_waitv(2)->addr3 = 1;
	try_sqe("addr3", &ring);
	put_waitv(2)->fd = 1;
	try_sqe("fd", &ring);
	vector[1].flags = PRIVATE;
	put_waitv(2);
	try_sqe("size", &ring);
	vector[1].flags = SIZE_U32;
	vector[1].reserved = 1;
	put_waitv(2);
	try_sqe("reserved", &ring);
	vector[1].reserved = 0;
	vector[1].uaddr = 4096;
	put_waitv(2);
	try_sqe("no_futex", &ring);
}

/*
 * A vectored wait (FUTEX_WAITV) returns the index of the futex that woke it. A wake of
 * a futex without waiters returns 0.
 */
static void of_many(void)
{
	prepare();
	put_waitv(3);
	note_result("submit", uring_submit(&ring));
	/*
	 * Change the vector, which must have no effect: the kernel has copied it.
	 */
	vector[1].uaddr = (uintptr_t)&words[3];
	note("wake", wake(&words[3], 1));
	note("wake", wake(&words[1], 1));
	note_in_order("cqe", &ring, 1);
	vector[1].uaddr = (uintptr_t)&words[1];
	put_waitv(NR);
	note_result("submit", uring_submit(&ring));
	note("wake", wake(&words[2], 1));
	/*
	 * Do not print the result: the vector contains this futex several times, so any
	 * of its indices may be returned.
	 */
	REQUIRE(uring_wait(&ring, 1));
}

/* A wait whose mask has all bits is woken by a wake with any bit. */
static void wakes_by_bits(void)
{
	prepare();
	put_wait(&words[0]);
	put_wait(&words[1]);
	put_wake(&words[0], 9)->addr3 = 4;
	put_wake(&words[1], 9)->addr3 = 1u << 31;
	note_result("submit", uring_submit(&ring));
	note_cqes("woken", &ring, 4);
}

/*
 * In Linux, if the mask of a wait has some bits, only a wake with one of these bits
 * wakes and counts the wait. The library refuses such a wait with EINVAL.
 */
static void waits_by_bits(void)
{
	prepare();
	put_wait(&words[0])->addr3 = 1;
	put_wait(&words[0])->addr3 = 6;
	note_result("submit", uring_submit(&ring));
	note("waits", 2 - uring_settle(&ring));
	put_wake(&words[0], 9)->addr3 = 8;
	put_wake(&words[0], 9)->addr3 = 2;
	put_wake(&words[0], 9);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 5);
}

static void of_too_many(void)
{
	prepare();
	for (uint32_t nr = NR + 1; nr <= MOST; nr++) {
		struct io_uring_cqe cqe;
		char key[8];

		put_waitv(nr);
		uring_submit(&ring);
		(void)uring_settle(&ring);
		(void)wake(&words[3], 9);
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		snprintf(key, sizeof(key), "%u", nr);
		note_result(key, cqe.res);
	}
	put_waitv(MOST + 1);
	try_sqe("more", &ring);
}

static uint32_t *shared_word;

static int wake_shared(void)
{
	return (int)syscall(SYS_futex, shared_word, FUTEX_WAKE, 5, NULL, NULL,
			    0);
}

static void shared(void)
{
	shared_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(shared_word != MAP_FAILED);
	prepare();
	put_wait(shared_word)->fd = SIZE_U32;
	note_result("submit", uring_submit(&ring));
	note("woken", in_child(wake_shared));
	note_in_order("cqe", &ring, 1);
}

static struct io_uring_sqe *put_cancel(uint64_t data)
{
	struct io_uring_sqe *sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);

	sqe->addr = data;
	return sqe;
}

static void cancelled(void)
{
	uint64_t data;

	prepare();
	data = put_wait(&words[0])->user_data;
	put_waitv(3);
	note_result("submit", uring_submit(&ring));
	put_cancel(data);
	note_result("submit", uring_submit(&ring));
	note_cqes("one", &ring, 2);
	put_cancel(0)->cancel_flags = IORING_ASYNC_CANCEL_ANY;
	note_result("submit", uring_submit(&ring));
	note_cqes("any", &ring, 2);
	note("left", wake(&words[0], 9));
	put_cancel(data);
	try_sqe("again", &ring);
}

/* A linked timeout that expires, and one that does not. */
static void linked_timeout(void)
{
	struct __kernel_timespec soon = SPAN_SOON, never = SPAN_NEVER;

	prepare();
	put_wait(&words[0])->flags = IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("over", &ring, 2);
	put_wait(&words[0])->flags = IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &never, 1, 0);
	note_result("submit", uring_submit(&ring));
	note("wake", wake(&words[0], 9));
	note_cqes("woken", &ring, 2);
}

static void in_chains(void)
{
	prepare();
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	put_wait(&words[0])->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note("before", uring_settle(&ring));
	note("wake", wake(&words[0], 1));
	note_cqes("woken", &ring, 3);
	put_wait(&words[0])->off = 1;
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("broken", &ring, 2);
	put_wake(&words[0], 0)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("wake", &ring, 2);
}

/* A wake that follows a wait in the same submission finds the waiter. */
static void together(void)
{
	uint64_t data;

	prepare();
	for (int i = 0; i < 20; i++) {
		put_wait(&words[0]);
		put_wake(&words[0], 9);
		note_result("submit", uring_submit(&ring));
		note_cqes("woken", &ring, 2);
	}
	for (int i = 0; i < 20; i++) {
		put_wait(&words[0]);
		put_wait(&words[0]);
		put_wake(&words[0], 1);
		note_result("submit", uring_submit(&ring));
		note_cqes("first", &ring, 2);
		note("left", wake(&words[0], 9));
		note_cqes("second", &ring, 1);
	}
	put_waitv(3);
	put_wake(&words[2], 1);
	note_result("submit", uring_submit(&ring));
	note_cqes("of_many", &ring, 2);
	data = put_wait(&words[0])->user_data;
	put_cancel(data);
	note_result("submit", uring_submit(&ring));
	note_cqes("cancel", &ring, 2);
	put_wait(&words[0])->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	put_wake(&words[0], 1);
	note_result("submit", uring_submit(&ring));
	note_cqes("chain", &ring, 3);
}

/*
 * Waits on a futex of a NUMA node. The word after the futex holds the node's number.
 */
static void of_nodes_by(uint32_t flags)
{
	static _Alignas(8) uint32_t words_of[2];
	char key[32];

	prepare();
	words_of[0] = 0;
	words_of[1] = UINT32_MAX;
	put_wait(words_of)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	put_wait(words_of)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	note_result("submit", uring_submit(&ring));
	note("waits", uring_settle(&ring));
	snprintf(key, sizeof(key), "node.%u", flags);
	note(key, words_of[1]);
	put_wake(words_of, 1)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	note_result("submit", uring_submit(&ring));
	note_cqes("woken", &ring, 2);
	vector[1] = (struct uaio_futex_waitv){ .uaddr = (uintptr_t)words_of,
					       .flags = SIZE_U32 | PRIVATE |
							flags };
	put_waitv(2);
	note_result("submit", uring_submit(&ring));
	put_wake(words_of, 9)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	note_result("submit", uring_submit(&ring));
	note_cqes("of_many", &ring, 3);
	put_wait(words_of)->off = 1;
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].fd =
		(int)(SIZE_U32 | PRIVATE | flags);
	try_sqe("differs", &ring);
	words_of[1] = 12345;
	put_wait(words_of)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	note_result("submit", uring_submit(&ring));
	note("bad_node", uring_settle(&ring));
	put_wake(words_of, 9)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	note_result("submit", uring_submit(&ring));
	note_cqes("bad_node", &ring, 2);
	put_wake(words_of + 1, 1)->fd = (int)(SIZE_U32 | PRIVATE | flags);
	try_sqe("unaligned", &ring);
}

static void of_nodes(void)
{
	for (uint32_t flags = 4; flags <= 12; flags += 4)
		of_nodes_by(flags);
}

/* Closing the ring ends the futex waits of its requests. */
static void left_behind(void)
{
	prepare();
	put_wait(&words[0]);
	put_waitv(2);
	note_result("submit", uring_submit(&ring));
	uring_unmap(&ring);
	close(ring.fd);
	ring = new_uring(8, 0);
	put_wait(&words[2]);
	note_result("submit", uring_submit(&ring));
	note("wake", wake(&words[2], 1));
	note_in_order("cqe", &ring, 1);
}

const struct row rows_uring_futex[] = {
	ROW("futexes: a wait that is woken", woken),
	ROW("futexes: a wake of none", none_woken),
	ROW("futexes: a wake finds the wait that was submitted",
	    one_after_another),
	ROW("futexes: a wait for another value", differs),
	ROW("futexes: mistakes", mistakes),
	ROW("futexes: mistakes in an array", mistakes_of_many),
	ROW("futexes: a wait for one of many", of_many),
	ROW("futexes: wakes by some of the bits", wakes_by_bits),
	ROW_DIFFERS("futexes: waits by some of the bits", waits_by_bits,
		    differs_ring_futexes, { "waits=2", "waits=0" },
		    { "cqe.0=0", "cqe.0=EINVAL" },
		    { "cqe.1=0", "cqe.1=EINVAL" }, { "cqe.3=1", "cqe.3=0" },
		    { "cqe.4=1", "cqe.4=0" }),
	ROW_DIFFERS("futexes: waits for one of more than 126", of_too_many,
		    differs_ring_futexes, { "127=3", "127=EINVAL" },
		    { "128=3", "128=EINVAL" }),
	ROW("futexes: a wait that another process ends", shared),
	ROW("futexes: a wait that is cancelled", cancelled),
	ROW("futexes: a wait with a linked timeout", linked_timeout),
	ROW("futexes: waits and wakes in chains", in_chains),
	ROW("futexes: waits, wakes and cancels in one submission", together),
	ROW("futexes: those that belong to a node of memory", of_nodes),
	ROW("futexes: a ring that is closed meanwhile", left_behind),
	NO_ROW,
};

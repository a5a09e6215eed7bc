/* SPDX-License-Identifier: MIT */
/*
 * A ring's memory region, waits whose arguments are in the region, and the clock by
 * which a ring's waits time out
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uring.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

enum {
	REGISTER_CLOCK = 29,
	REGISTER_MEM_REGION = 34,
	REGION_GIVEN = 1,
	REGION_WAITS = 1,
	WAIT_HAS_TIME = 1,
	EXT_REG = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | 1 << 6,
};

/* Has the layout of the kernel's struct io_uring_region_desc. */
struct desc {
	uint64_t addr, bytes;
	uint32_t flags, id;
	uint64_t map_offset;
	uint64_t resv[4];
};

/* Has the layout of the kernel's struct io_uring_mem_region_reg. */
struct reg {
	uint64_t desc, flags, resv[2];
};

/* Has the layout of the kernel's struct io_uring_reg_wait. */
struct wait {
	struct __kernel_timespec time;
	uint32_t min_wait_us, flags;
	uint64_t sigmask;
	uint32_t sigmask_bytes, pad[3];
	uint64_t pad2[2];
};

static long set_region(const struct uring *ring, struct desc *desc,
		       uint64_t flags)
{
	struct reg reg = { .desc = (uintptr_t)desc, .flags = flags };

	return uring_register(ring->fd, REGISTER_MEM_REGION, &reg, 1);
}

static void *memory(size_t pages)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	REQUIRE(at != MAP_FAILED);
	return at;
}

static void registering(void)
{
	struct uring ring = new_uring(4, IORING_SETUP_R_DISABLED);
	struct desc desc = { .addr = (uintptr_t)memory(1),
			     .bytes = PAGE,
			     .flags = REGION_GIVEN };
	struct reg reg = { .desc = (uintptr_t)&desc };

	note_result("null",
		    uring_register(ring.fd, REGISTER_MEM_REGION, NULL, 1));
	note_result("nr_0",
		    uring_register(ring.fd, REGISTER_MEM_REGION, &reg, 0));
	note_result("nr_2",
		    uring_register(ring.fd, REGISTER_MEM_REGION, &reg, 2));
	note_result("kernel", uring_register(ring.fd, REGISTER_MEM_REGION,
					     KERNEL_ADDRESS, 1));
	reg.desc = 0;
	note_result("no_desc",
		    uring_register(ring.fd, REGISTER_MEM_REGION, &reg, 1));
	reg.desc = (uintptr_t)&desc;
	for (int i = 0; i < 2; i++) {
		reg.resv[i] = 1;
		note_result("resv", uring_register(ring.fd, REGISTER_MEM_REGION,
						   &reg, 1));
		reg.resv[i] = 0;
	}
	note_result("flags_2", set_region(&ring, &desc, 2));
	note_result("right", set_region(&ring, &desc, REGION_WAITS));
	note("offset", (long)desc.map_offset);
	note_result("twice", set_region(&ring, &desc, REGION_WAITS));
	note_result("twice_null", uring_register(ring.fd, REGISTER_MEM_REGION,
						 KERNEL_ADDRESS, 1));
}

static void descriptions(void)
{
	char *five = memory(5);
	const uint64_t at = (uintptr_t)five;
	const uint64_t low = (uintptr_t)pages_of(PAGE, PROT_READ);
	const struct {
		const char *key;
		struct desc desc;
	} tries[] = {
		{ "resv", { at, PAGE, REGION_GIVEN, 0, 0, { 0, 0, 0, 1 } } },
		{ "flags", { at, PAGE, REGION_GIVEN | 2, 0, 0, { 0 } } },
		{ "not_given", { at, PAGE, 0, 0, 0, { 0 } } },
		{ "no_address", { 0, PAGE, REGION_GIVEN, 0, 0, { 0 } } },
		{ "no_bytes", { at, 0, REGION_GIVEN, 0, 0, { 0 } } },
		{ "id", { at, PAGE, REGION_GIVEN, 1, 0, { 0 } } },
		{ "offset", { at, PAGE, REGION_GIVEN, 0, 1, { 0 } } },
		{ "odd_address", { at + 8, PAGE, REGION_GIVEN, 0, 0, { 0 } } },
		{ "odd_bytes", { at, 64, REGION_GIVEN, 0, 0, { 0 } } },
		{ "odd_bytes_of_ours", { 0, 64, 0, 0, 0, { 0 } } },
		{ "large", { at, 1ull << 44, REGION_GIVEN, 0, 0, { 0 } } },
		{ "large_odd", { at, (1ull << 44) + 1, 0, 0, 0, { 0 } } },
		{ "wraps",
		  { 0ull - PAGE, 2 * PAGE, REGION_GIVEN, 0, 0, { 0 } } },
		{ "over_end",
		  { at + 3 * PAGE, 2 * PAGE, REGION_GIVEN, 0, 0, { 0 } } },
		{ "read_only", { low, PAGE, REGION_GIVEN, 0, 0, { 0 } } },
		{ "kernel",
		  { (uintptr_t)KERNEL_ADDRESS & ~4095ull,
		    PAGE,
		    REGION_GIVEN,
		    0,
		    0,
		    { 0 } } },
		{ "right", { at, 4 * PAGE, REGION_GIVEN, 0, 0, { 0 } } },
		{ "ours", { 0, 2 * PAGE, 0, 0, 0, { 0 } } },
	};

	REQUIRE(mprotect(five + 4 * PAGE, PAGE, PROT_NONE) == 0);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct uring ring = new_uring(4, 0);
		struct desc desc = tries[i].desc;
		char key[32];

		snprintf(key, sizeof(key), "%s_waits", tries[i].key);
		note_result(key, set_region(&ring, &desc, REGION_WAITS));
		note_result(tries[i].key, set_region(&ring, &desc, 0));
		note(tries[i].key, (long)desc.map_offset);
		close(ring.fd);
	}
}

static void read_only_description(void)
{
	struct uring ring = new_uring(4, 0);
	struct desc *desc = memory(1);

	*desc = (struct desc){ .bytes = PAGE };
	mprotect(desc, PAGE, PROT_READ);
	note_result("read_only", set_region(&ring, desc, 0));
	mprotect(desc, PAGE, PROT_READ | PROT_WRITE);
	note_result("then", set_region(&ring, desc, 0));
	note("offset", (long)desc->map_offset);
}

/*
 * Creates a ring with a memory region for the arguments of waits. If `is_given` is set,
 * the client allocates the region's memory, otherwise the ring does.
 */
static struct uring ring_with(int is_given, struct wait **ret_waits)
{
	struct uring ring = new_uring(8, IORING_SETUP_R_DISABLED);
	struct desc desc = { .bytes = PAGE };

	if (is_given) {
		*ret_waits = memory(1);
		desc.addr = (uintptr_t)*ret_waits;
		desc.flags = REGION_GIVEN;
	}
	note_result("region", set_region(&ring, &desc, REGION_WAITS));
	if (!is_given) {
		*ret_waits = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_POPULATE, ring.fd,
				  (off_t)desc.map_offset);
		REQUIRE(*ret_waits != MAP_FAILED);
		note("zero", (*ret_waits)->flags);
	}
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, NULL,
			       0) == 0);
	return ring;
}

static long wait_by(const struct uring *ring, uint32_t nr, size_t offset)
{
	return uring_enter(ring->fd, 0, nr, EXT_REG, (const void *)offset,
			   sizeof(struct wait));
}

static void waiting(void)
{
	for (int is_given = 0; is_given < 2; is_given++) {
		struct wait *waits;
		struct uring ring = ring_with(is_given, &waits);

		waits[0] = (struct wait){ .time = SPAN_SOON,
					  .flags = WAIT_HAS_TIME };
		waits[1] = (struct wait){ .time = SPAN_NEVER,
					  .flags = WAIT_HAS_TIME,
					  .min_wait_us = 1000 };
		note_result("time", wait_by(&ring, 1, 0));
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_submit(&ring);
		note_result("there", wait_by(&ring, 1, 0));
		note_result("one_of_two", wait_by(&ring, 2, 0));
		note_result("least", wait_by(&ring, 2, sizeof(struct wait)));
		note_ready("ready", &ring);
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_publish(&ring);
		note_result("submits", uring_enter(ring.fd, 1, 2, EXT_REG, NULL,
						   sizeof(struct wait)));
		note_ready("ready", &ring);
	}
}

static void mistakes_of_waits(void)
{
	struct wait *waits;
	struct uring ring = ring_with(1, &waits);
	const size_t offsets[] = { 1,           4,          8,
				   PAGE - 64,   PAGE - 56,  PAGE,
				   (size_t)-64, (size_t)-8, (size_t)waits };
	char key[32];

	for (size_t i = 0; i < PAGE / sizeof(*waits); i++)
		waits[i] = (struct wait){ .time = SPAN_SOON,
					  .flags = WAIT_HAS_TIME };
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		/*
		 * From here on, each offset points into the middle of a struct wait, so
		 * the kernel would take one member for another. So set all members to
		 * 0.
		 */
		if (offsets[i] == 8)
			memset(waits, 0, PAGE);
		snprintf(key, sizeof(key), "at_%zu", i);
		note_result(key, wait_by(&ring, 0, offsets[i]));
	}
	waits[0] = (struct wait){ .flags = 2 };
	note_result("flags", wait_by(&ring, 1, 0));
	note_result("flags_none", wait_by(&ring, 0, 0));
	waits[0] = (struct wait){ .time = SPAN_SOON,
				  .flags = WAIT_HAS_TIME,
				  .pad = { 1, 1, 1 },
				  .pad2 = { 1, 1 } };
	note_result("pad", wait_by(&ring, 1, 0));
	for (uint32_t bytes = 0; bytes < 80; bytes += 8) {
		snprintf(key, sizeof(key), "bytes_%u", bytes);
		note_result(key,
			    uring_enter(ring.fd, 0, 0, EXT_REG, NULL, bytes));
	}
	waits[0] = (struct wait){ .time = SPAN_SOON,
				  .flags = WAIT_HAS_TIME,
				  .sigmask = 1 };
	note_result("mask_size", wait_by(&ring, 1, 0));
	waits[0].sigmask_bytes = 8;
	note_result("mask", wait_by(&ring, 1, 0));
	/* Without IORING_ENTER_EXT_ARG, IORING_ENTER_EXT_ARG_REG has no effect. */
	note_result("alone",
		    uring_enter(ring.fd, 0, 0,
				EXT_REG & ~(uint32_t)IORING_ENTER_EXT_ARG, NULL,
				0));
	waits[0] = (struct wait){ .flags = 2 };
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("submits", uring_enter(ring.fd, 1, 1, EXT_REG, NULL,
					   sizeof(struct wait)));
	note_ready("ready", &ring);
}

static void without_a_region(void)
{
	const uint32_t flags[] = { 0, IORING_SETUP_IOPOLL,
				   IORING_SETUP_SINGLE_ISSUER |
					   IORING_SETUP_DEFER_TASKRUN };
	struct desc desc = { .bytes = PAGE };

	for (int i = 0; i < 3; i++) {
		struct uring ring = new_uring(4, flags[i]);

		note_result("none", wait_by(&ring, 0, 0));
		note_result("region", set_region(&ring, &desc, 0));
		desc.map_offset = 0;
		note_result("not_for_waits", wait_by(&ring, 0, 0));
		note_result("size",
			    uring_enter(ring.fd, 0, 0, EXT_REG, NULL, 24));
	}
}

static void polled_for(void)
{
	struct uring ring =
		new_uring(4, IORING_SETUP_IOPOLL | IORING_SETUP_R_DISABLED);
	struct desc desc = { .addr = (uintptr_t)memory(1),
			     .bytes = PAGE,
			     .flags = REGION_GIVEN };

	note_result("region", set_region(&ring, &desc, REGION_WAITS));
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, NULL,
			       0) == 0);
	note_result("wait", wait_by(&ring, 0, 0));
}

static void catch (int signal)
{
	(void)signal;
}

static void mask_in_a_region(void)
{
	struct sigaction action = { .sa_handler = catch };
	struct wait *waits;
	struct uring ring = ring_with(1, &waits);
	sigset_t blocked, none;

	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	raise(SIGUSR1);
	waits[0] = (struct wait){ .time = SPAN_NEVER,
				  .flags = WAIT_HAS_TIME,
				  .sigmask = (uintptr_t)&none,
				  .sigmask_bytes = 8 };
	note_result("wait", wait_by(&ring, 1, 0));
}

/* A child of fork uses the region that its parent registered. */
static void for_a_child(void)
{
	struct wait *waits;
	struct uring ring = ring_with(1, &waits);
	int status, child;

	waits[0] = (struct wait){ .time = SPAN_SOON, .flags = WAIT_HAS_TIME };
	child = fork();
	REQUIRE(child >= 0);
	if (!child)
		_exit((int)-wait_by(&ring, 1, 0));
	REQUIRE(waitpid(child, &status, 0) == child);
	note("exit", WIFEXITED(status) ? WEXITSTATUS(status) == ETIME : -1);
	note_result("parent", wait_by(&ring, 1, 0));
}

/*
 * IORING_REGISTER_CLOCK
 */

struct clock {
	uint32_t id, resv[3];
};

static long set_clock(const struct uring *ring, int id)
{
	struct clock clock = { .id = (uint32_t)id };

	return uring_register(ring->fd, REGISTER_CLOCK, &clock, 0);
}

static void clocks(void)
{
	struct uring ring = new_uring(4, 0);
	struct clock clock = { .id = CLOCK_BOOTTIME };
	char key[32];

	for (int id = -1; id < 13; id++) {
		snprintf(key, sizeof(key), "clock_%d", id);
		note_result(key, set_clock(&ring, id));
	}
	for (int i = 0; i < 3; i++) {
		clock.resv[i] = 1;
		note_result("resv",
			    uring_register(ring.fd, REGISTER_CLOCK, &clock, 0));
		clock.resv[i] = 0;
	}
	note_result("nr_1", uring_register(ring.fd, REGISTER_CLOCK, &clock, 1));
	note_result("null", uring_register(ring.fd, REGISTER_CLOCK, NULL, 0));
	note_result("kernel",
		    uring_register(ring.fd, REGISTER_CLOCK, KERNEL_ADDRESS, 0));
}

static void waits_by_clocks(void)
{
	const int ids[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME };
	struct uring ring = new_uring(4, 0);

	for (int i = 0; i < 2; i++) {
		struct __kernel_timespec span = SPAN_SOON;
		struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&span };
		const uint32_t flags =
			IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
		struct timespec now, then;

		note_result("set", set_clock(&ring, ids[i]));
		note_result("span", uring_enter(ring.fd, 0, 1, flags, &arg,
						sizeof(arg)));
		clock_gettime(ids[i], &now);
		span = (struct __kernel_timespec){ now.tv_sec, now.tv_nsec };
		note_result("now", uring_enter(ring.fd, 0, 1,
					       flags | IORING_ENTER_ABS_TIMER,
					       &arg, sizeof(arg)));
		span.tv_sec++;
		note_result("soon", uring_enter(ring.fd, 0, 1,
						flags | IORING_ENTER_ABS_TIMER,
						&arg, sizeof(arg)));
		clock_gettime(ids[i], &then);
		note("late", then.tv_sec > now.tv_sec);
	}
}

const struct row rows_uring_region[] = {
	ROW("a memory region is registered once", registering),
	ROW("a memory region, member by member", descriptions),
	ROW("a region whose description cannot be written",
	    read_only_description),
	ROW("a wait's arguments are in a region", waiting),
	ROW("mistakes of a wait in a region", mistakes_of_waits),
	ROW("waits without a region for them", without_a_region),
	ROW("a wait in a region, where completions are polled for", polled_for),
	ROW("a signal mask in a region", mask_in_a_region),
	ROW("a child waits by its parent's region", for_a_child),
	ROW("the clocks that waits may be by", clocks),
	ROW("waits by each clock", waits_by_clocks),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* Restrictions of a ring, and personalities. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

static struct io_uring_restriction restriction(uint16_t opcode, uint8_t what)
{
	return (struct io_uring_restriction){ .opcode = opcode,
					      .register_op = what };
}

static long restrict_to(const struct uring *ring, const void *what, uint32_t nr)
{
	return uring_register(ring->fd, IORING_REGISTER_RESTRICTIONS, what, nr);
}

static long enable(const struct uring *ring)
{
	return uring_register(ring->fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

static void arguments(void)
{
	struct io_uring_restriction what[104] = { { .opcode = 1 } };
	struct uring ring = new_uring(4, 0);

	note_result("enabled", restrict_to(&ring, what, 1));
	ring = new_uring(4, IORING_SETUP_R_DISABLED);
	note_result("null", restrict_to(&ring, NULL, 1));
	note_result("kernel", restrict_to(&ring, KERNEL_ADDRESS, 1));
	note_result("nr_104", restrict_to(&ring, what, 104));
	what[1].opcode = 4;
	note_result("second_bad", restrict_to(&ring, what, 2));
	what[0].resv = 1;
	what[0].resv2[1] = 1;
	note_result("reserved", restrict_to(&ring, what, 1));
	note_result("again", restrict_to(&ring, what, 1));
	ring = new_uring(4, IORING_SETUP_R_DISABLED);
	note_result("nr_0", restrict_to(&ring, what, 0));
	note_result("again", restrict_to(&ring, what, 1));
	note_result("enable", enable(&ring));
	sqe_of(&ring, IORING_OP_NOP, -1);
	try_sqe("nop", &ring);
	ring = new_uring(4, IORING_SETUP_R_DISABLED);
	note_result("null_nr_0", restrict_to(&ring, NULL, 0));
	ring = new_uring(4, IORING_SETUP_R_DISABLED);
	what[1].opcode = 0;
	note_result("nr_103", restrict_to(&ring, what, 103));
}

static void values(void)
{
	uint16_t opcode;
	unsigned value;

	for (opcode = 0; opcode < 6; opcode++)
		for (value = 0; value < 256; value += value < 80 ? 1 : 35) {
			struct io_uring_restriction what =
				restriction(opcode, (uint8_t)value);
			struct uring ring =
				new_uring(1, IORING_SETUP_R_DISABLED);
			char key[32];

			snprintf(key, sizeof(key), "%u.%u", opcode, value);
			note_result(key, restrict_to(&ring, &what, 1));
			uring_unmap(&ring);
			close(ring.fd);
		}
}

/* Creates a ring with these restrictions. */
static struct uring restricted(const struct io_uring_restriction *what,
			       uint32_t nr)
{
	struct uring ring = new_uring(8, IORING_SETUP_R_DISABLED);

	note_result("restrict", restrict_to(&ring, what, nr));
	note_result("enable", enable(&ring));
	return ring;
}

static void submissions(void)
{
	const struct io_uring_restriction what[] = {
		restriction(IORING_RESTRICTION_SQE_OP, IORING_OP_NOP),
		restriction(IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
			    IOSQE_IO_LINK),
	};
	struct uring ring = restricted(what, 2);
	unsigned flags;
	char key[32];

	for (flags = 0; flags < 256; flags = flags ? 2 * flags : 1) {
		snprintf(key, sizeof(key), "nop_%u", flags);
		sqe_of(&ring, IORING_OP_NOP, 0)->flags = (uint8_t)flags;
		try_sqe(key, &ring);
	}
	sqe_of(&ring, IORING_OP_READ, -1);
	try_sqe("read", &ring);
	sqe_of(&ring, IORING_OP_READ, -1)->ioprio = 0xffff;
	try_sqe("read_ioprio", &ring);
	sqe_of(&ring, IORING_OP_READ, -1)->flags = IOSQE_BUFFER_SELECT;
	try_sqe("read_select", &ring);
	sqe_of(&ring, 200, -1);
	try_sqe("200", &ring);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_READ, -1)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("chain", uring_submit(&ring));
	note_cqes("chain", &ring, 3);
	sqe_of(&ring, IORING_OP_READ, -1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("two", uring_submit(&ring));
	note_cqes("two", &ring, 1);
}

static void required_flags(void)
{
	const struct io_uring_restriction what[] = {
		restriction(IORING_RESTRICTION_SQE_OP, IORING_OP_NOP),
		restriction(IORING_RESTRICTION_SQE_FLAGS_REQUIRED, IOSQE_ASYNC),
	};
	struct uring ring = restricted(what, 2);

	sqe_of(&ring, IORING_OP_NOP, -1);
	try_sqe("plain", &ring);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_ASYNC;
	try_sqe("async", &ring);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_ASYNC | IOSQE_IO_DRAIN;
	try_sqe("async_drain", &ring);
}

static void calls(void)
{
	const struct io_uring_restriction what[] = {
		restriction(IORING_RESTRICTION_REGISTER_OP,
			    IORING_UNREGISTER_FILES),
	};
	struct uring ring = restricted(what, 1);
	uint32_t opcode;
	char key[32];

	for (opcode = 0; opcode <= IORING_UNREGISTER_IOWQ_AFF; opcode++) {
		snprintf(key, sizeof(key), "%u", opcode);
		note_result(key, uring_register(ring.fd, opcode, NULL, 0));
	}
	note_result(
		"sync_cancel",
		uring_register(ring.fd, IORING_REGISTER_SYNC_CANCEL, NULL, 0));
	note_result("1000", uring_register(ring.fd, 1000, NULL, 0));
	sqe_of(&ring, IORING_OP_NOP, -1);
	try_sqe("nop", &ring);
}

static void before_it_is_enabled(void)
{
	const struct io_uring_restriction what[] = {
		restriction(IORING_RESTRICTION_REGISTER_OP,
			    IORING_REGISTER_FILES),
	};
	struct uring ring = new_uring(8, IORING_SETUP_R_DISABLED);

	note_result("restrict", restrict_to(&ring, what, 1));
	note_result(
		"buffers",
		uring_register(ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_result(
		"enable_arg",
		uring_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, what, 0));
	note_result("enable", enable(&ring));
	note_result("enable", enable(&ring));
	note_result("submit", uring_submit(&ring));
	note_cqes("nop", &ring, 1);
}

/*
 * Personalities
 */

static long personality(const struct uring *ring)
{
	return uring_register(ring->fd, IORING_REGISTER_PERSONALITY, NULL, 0);
}

static long no_personality(const struct uring *ring, uint32_t id)
{
	return uring_register(ring->fd, IORING_UNREGISTER_PERSONALITY, NULL,
			      id);
}

static void personalities(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;

	note_result("unset", no_personality(&ring, 1));
	note_result("arg", uring_register(ring.fd, IORING_REGISTER_PERSONALITY,
					  &ring, 0));
	note_result("nr", uring_register(ring.fd, IORING_REGISTER_PERSONALITY,
					 NULL, 1));
	note_result("first", personality(&ring));
	note_result("second", personality(&ring));
	note_result("unset", no_personality(&ring, 1));
	note_result("unset", no_personality(&ring, 1));
	note_result("unset_0", no_personality(&ring, 0));
	note_result("unset_65538", no_personality(&ring, 65538));
	note_result("unset_arg",
		    uring_register(ring.fd, IORING_UNREGISTER_PERSONALITY,
				   &ring, 2));
	note_result("third", personality(&ring));
	sqe_of(&ring, IORING_OP_NOP, -1)->personality = 2;
	try_sqe("2", &ring);
	sqe_of(&ring, IORING_OP_NOP, -1)->personality = 1;
	try_sqe("1", &ring);
	sqe_of(&ring, IORING_OP_READ, 77777)->personality = 1;
	try_sqe("1_closed", &ring);
	sqe_of(&ring, IORING_OP_READ, 77777)->personality = 2;
	try_sqe("2_closed", &ring);
	sqe = sqe_of(&ring, IORING_OP_NOP, -1);
	sqe->personality = 9;
	sqe->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("chain", uring_submit(&ring));
	note_cqes("chain", &ring, 2);
	sqe_of(&ring, IORING_OP_NOP, -1)->personality = 9;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("two", uring_submit(&ring));
	note_cqes("two", &ring, 1);
	note_result("rest", uring_submit(&ring));
}

/* A child registers a personality and then drops its privileges. */
static void another(void)
{
	struct uring ring = new_uring(8, 0);
	int status, child = fork();

	REQUIRE(child >= 0);
	if (!child) {
		struct io_uring_cqe cqe = { .res = -EIO };

		ring = new_uring(8, 0);
		if (personality(&ring) != 1)
			_exit(100);
		if (syscall(SYS_setfsuid, 65534))
			_exit(101);
		sqe_of(&ring, IORING_OP_NOP, -1)->personality = 1;
		if (uring_submit(&ring) != 1 || !uring_take(&ring, &cqe))
			_exit(102);
		_exit(-cqe.res);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	note("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

const struct row rows_uring_restrict[] = {
	ROW("restrictions, argument by argument", arguments),
	ROW("operations that a restriction can allow", values),
	ROW("submissions to a restricted ring", submissions),
	ROW("flags that are required", required_flags),
	ROW("calls about a restricted ring", calls),
	ROW("a ring that is not enabled yet", before_it_is_enabled),
	ROW("personalities, argument by argument", personalities),
	ROW_DIFFERS("a personality that the thread has no more", another,
		    differs_ring_personality, { "exit=0", "exit=13" }),
	NO_ROW,
};

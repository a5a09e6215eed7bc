/* SPDX-License-Identifier: MIT */
/* Messages between rings, no-ops with flags, and requests that create pipes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

static struct uring from, to;
static int ends[2];

static void prepare(void)
{
	REQUIRE(pipe(ends) == 0);
	from = new_uring(8, 0);
	to = new_uring(8, 0);
}

/* Prepares a valid message. The test case then changes one field. */
static struct io_uring_sqe *msg(int fd)
{
	struct io_uring_sqe *sqe = sqe_of(&from, IORING_OP_MSG_RING, fd);

	sqe->off = 0x123;
	sqe->len = 7;
	return sqe;
}

/*
 * Prints the completions in a ring that receives messages, by the user_data that each
 * message carries.
 */
static void note_messages(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;
	char name[64];

	uring_settle(ring);
	while (uring_take(ring, &cqe)) {
		snprintf(name, sizeof(name), "%s.%llx", key,
			 (unsigned long long)cqe.user_data);
		note_cqe(name, &cqe);
	}
}

static void try(const char *key)
{
	try_sqe(key, &from);
	note_messages(key, &to);
}

static void commands(void)
{
	prepare();
	msg(to.fd);
	try("data");
	msg(to.fd)->len = (uint32_t)-EIO;
	try("negative");
	msg(to.fd)->addr = 2;
	try("no_command");
	msg(to.fd)->addr = 1ull << 32;
	try("long_command");
	msg(to.fd)->addr3 = 5;
	try("place");
	msg(to.fd)->file_index = 5;
	try("flags_not_passed");
	msg(to.fd)->buf_index = 1;
	try("buf_index");
	msg(to.fd)->ioprio = 1;
	try("ioprio");
	msg(to.fd)->__pad2[0] = 1;
	try("pad");
	msg(to.fd)->personality = 1;
	try("personality");
}

static void flags(void)
{
	struct io_uring_sqe *sqe;
	uint32_t i;

	prepare();
	for (i = 0; i < 4; i++) {
		static const char *const keys[] = { "none", "untold", "pass",
						    "both" };

		msg(to.fd)->msg_ring_flags = i;
		try(keys[i]);
	}
	msg(to.fd)->msg_ring_flags = 4;
	try("unknown");
	sqe = msg(to.fd);
	sqe->msg_ring_flags = 2;
	sqe->file_index = 0x80000002;
	try("passed");
	sqe = msg(to.fd);
	sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	note_result("untold", uring_submit(&from));
	note_messages("untold", &to);
	note_ready("untold", &from);
}

static void targets(void)
{
	struct uring disabled, polled;
	struct io_uring_sqe *sqe;

	prepare();
	msg(77777);
	try("closed");
	msg(-1);
	try("-1");
	msg(ends[0]);
	try("pipe");
	msg(ends[0])->addr = 9;
	try("pipe_no_command");
	msg(ends[0])->msg_ring_flags = 4;
	try("pipe_no_flag");
	msg(0)->flags = IOSQE_FIXED_FILE;
	try("fixed_no_table");
	REQUIRE(uring_register(from.fd, IORING_REGISTER_FILES, ends, 2) == 0);
	msg(0)->flags = IOSQE_FIXED_FILE;
	try("fixed");
	msg(2)->flags = IOSQE_FIXED_FILE;
	try("fixed_2");
	disabled = new_uring(4, IORING_SETUP_R_DISABLED);
	msg(disabled.fd);
	try("disabled");
	sqe = msg(disabled.fd);
	sqe->msg_ring_flags = 1;
	try("disabled_bad");
	REQUIRE(uring_register(disabled.fd, IORING_REGISTER_ENABLE_RINGS, NULL,
			       0) == 0);
	msg(disabled.fd);
	try("enabled");
	note_messages("enabled", &disabled);
	polled = new_uring(4, IORING_SETUP_IOPOLL);
	msg(polled.fd);
	try("iopoll");
	note_messages("iopoll", &polled);
	polled = new_uring(4, IORING_SETUP_SINGLE_ISSUER |
				      IORING_SETUP_DEFER_TASKRUN);
	msg(polled.fd);
	try("deferred");
	note_messages("deferred", &polled);
}

static void to_itself(void)
{
	struct io_uring_cqe cqe;
	int i;

	prepare();
	sqe_of(&from, IORING_OP_NOP, -1);
	msg(from.fd);
	sqe_of(&from, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&from));
	REQUIRE(uring_wait(&from, 4));
	for (i = 0; uring_take(&from, &cqe); i++) {
		char key[32];

		snprintf(key, sizeof(key), "%d.%s", i,
			 cqe.user_data == 0x123 ? "message" : "request");
		note_cqe(key, &cqe);
	}
}

static void in_chains(void)
{
	prepare();
	sqe_of(&from, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	msg(to.fd)->flags = IOSQE_IO_LINK;
	msg(ends[0])->flags = IOSQE_IO_LINK;
	msg(to.fd);
	note_result("submit", uring_submit(&from));
	note_cqes("chain", &from, 4);
	note_messages("chain", &to);
	msg(to.fd)->flags = IOSQE_ASYNC | IOSQE_IO_LINK;
	sqe_of(&from, IORING_OP_NOP, -1)->flags = IOSQE_IO_DRAIN;
	note_result("submit", uring_submit(&from));
	note_cqes("async", &from, 2);
	note_messages("async", &to);
}

/* More messages are sent to a ring than its two slots can hold. */
static void overflow(void)
{
	int i;

	prepare();
	to = new_uring(1, 0);
	for (i = 0; i < 5; i++) {
		msg(to.fd)->off = (uint64_t)i;
		note_result("submit", uring_submit(&from));
	}
	note_rings("rings", &to);
	note_messages("first", &to);
	note_rings("rings", &to);
	note_messages("second", &to);
	note_messages("third", &to);
	note_rings("rings", &to);
	note_cqes("from", &from, 5);
}

/*
 * A message signals the eventfd of the receiving ring, ends a poll of that ring, and
 * counts as a completion for the timeout of that ring.
 */
static void heard_of(void)
{
	struct __kernel_timespec never = SPAN_NEVER;
	int event = eventfd(0, EFD_NONBLOCK);
	struct pollfd polled;
	uint64_t nr = 0;

	prepare();
	polled = (struct pollfd){ .fd = to.fd, .events = POLLIN };
	REQUIRE(uring_register(to.fd, IORING_REGISTER_EVENTFD, &event, 1) == 0);
	sqe_rw(&to, IORING_OP_TIMEOUT, -1, &never, 1, 2);
	note_result("timeout", uring_submit(&to));
	note("polled", poll(&polled, 1, 0));
	msg(to.fd);
	try_sqe("msg", &from);
	note("polled", poll(&polled, 1, 0));
	note("ready", uring_settle(&to));
	msg(to.fd);
	try_sqe("msg", &from);
	note("ready", uring_wait(&to, 3));
	REQUIRE(read(event, &nr, sizeof(nr)) == sizeof(nr));
	note("signalled", nr > 0);
}

/*
 * Messages by io_uring_register() (IORING_REGISTER_SEND_MSG_RING), which needs no
 * sending ring
 */

static long send_blindly(const void *sqe, uint32_t nr)
{
	return uring_register(-1, 31, sqe, nr);
}

static void without_a_ring(void)
{
	struct io_uring_sqe sqe = { .opcode = IORING_OP_MSG_RING }, bad;

	prepare();
	sqe.fd = to.fd;
	sqe.off = 0x77;
	sqe.len = 3;
	note_result("data", send_blindly(&sqe, 1));
	note_messages("data", &to);
	note_result("nr_0", send_blindly(&sqe, 0));
	note_result("nr_2", send_blindly(&sqe, 2));
	note_result("null", send_blindly(NULL, 1));
	note_result("on_a_ring", uring_register(from.fd, 31, &sqe, 1));
	note_result("kernel", send_blindly(KERNEL_ADDRESS, 1));
#define SPOILT(key, member, value)                       \
	do {                                             \
		bad = sqe;                               \
		bad.member = value;                      \
		note_result(key, send_blindly(&bad, 1)); \
		note_messages(key, &to);                 \
	} while (0)
	SPOILT("flags", flags, IOSQE_ASYNC);
	SPOILT("opcode", opcode, IORING_OP_NOP);
	SPOILT("send_fd", addr, 1);
	SPOILT("closed", fd, 77777);
	SPOILT("pipe", fd, ends[0]);
	SPOILT("msg_flags", msg_ring_flags, 2);
	SPOILT("msg_flags_1", msg_ring_flags, 1);
	SPOILT("ioprio", ioprio, 3);
	SPOILT("personality", personality, 3);
	SPOILT("buf_index", buf_index, 1);
	note_result("other_opcode", uring_register(-1, 0, &sqe, 1));
}

/*
 * No-ops
 */

enum {
	NOP_INJECT = 1,
	NOP_FILE = 2,
	NOP_FIXED_FILE = 4,
	NOP_FIXED_BUFFER = 8,
	NOP_TW = 16,
	NOP_CQE32 = 32,
};

static void nop(const char *key, int fd, uint32_t nop_flags, uint32_t len)
{
	struct io_uring_sqe *sqe = sqe_of(&from, IORING_OP_NOP, fd);

	sqe->rw_flags = (int)nop_flags;
	sqe->len = len;
	try_sqe(key, &from);
}

static void nops(void)
{
	struct iovec buffer = { ends, sizeof(ends) };
	struct io_uring_sqe *sqe;

	prepare();
	nop("file", ends[0], NOP_FILE, 0);
	nop("closed", 77777, NOP_FILE, 0);
	nop("inject", ends[0], NOP_FILE | NOP_INJECT, 9);
	nop("inject_error", ends[0], NOP_FILE | NOP_INJECT, (uint32_t)-EIO);
	nop("closed_inject", 77777, NOP_FILE | NOP_INJECT, 9);
	nop("path", open("/", O_PATH), NOP_FILE, 0);
	nop("ring", to.fd, NOP_FILE, 0);
	nop("no_table", 0, NOP_FILE | NOP_FIXED_FILE, 0);
	nop("fixed_alone", 0, NOP_FIXED_FILE, 0);
	nop("buffer", 0, NOP_FIXED_BUFFER, 0);
	nop("both", 77777, NOP_FILE | NOP_FIXED_BUFFER, 0);
	nop("tw", 0, NOP_TW, 0);
	nop("tw_inject", 0, NOP_TW | NOP_INJECT, 3);
	nop("cqe32", 0, NOP_CQE32, 0);
	nop("unknown", 0, 64, 0);
	REQUIRE(uring_register(from.fd, IORING_REGISTER_FILES, ends, 2) == 0);
	REQUIRE(uring_register(from.fd, IORING_REGISTER_BUFFERS, &buffer, 1) ==
		0);
	nop("fixed", 1, NOP_FILE | NOP_FIXED_FILE, 0);
	nop("fixed_2", 2, NOP_FILE | NOP_FIXED_FILE, 0);
	nop("buffer", 0, NOP_FIXED_BUFFER, 0);
	sqe = sqe_of(&from, IORING_OP_NOP, 1);
	sqe->rw_flags = NOP_FILE;
	sqe->flags = IOSQE_FIXED_FILE;
	try_sqe("fixed_by_flag", &from);
	sqe = sqe_of(&from, IORING_OP_NOP, 1);
	sqe->rw_flags = NOP_FIXED_BUFFER;
	sqe->buf_index = 1;
	try_sqe("buffer_1", &from);
	sqe = sqe_of(&from, IORING_OP_NOP, 77777);
	sqe->rw_flags = NOP_FILE;
	sqe->flags = IOSQE_IO_LINK;
	sqe_of(&from, IORING_OP_NOP, 0);
	note_result("chain", uring_submit(&from));
	note_cqes("chain", &from, 2);
}

/*
 * Pipes
 */

enum { NOTIFICATION = O_EXCL };

static void new_pipe(const char *key, void *to_fill, int pipe_flags)
{
	struct io_uring_sqe *sqe = sqe_rw(&from, OP_PIPE, 0, to_fill, 0, 0);

	sqe->rw_flags = pipe_flags;
	try_sqe(key, &from);
}

/* Prints whether a byte written to pair[1] can be read from pair[0]. */
static void note_pipe(const char *key, const int pair[2])
{
	char byte = 'a', got = 0;

	note(key, write(pair[1], &byte, 1) == 1 &&
			  read(pair[0], &got, 1) == 1 && got == byte);
	note(key, fcntl(pair[0], F_GETFL));
	note(key, fcntl(pair[1], F_GETFL));
	note(key, fcntl(pair[0], F_GETFD));
}

static void pipes(void)
{
	int pair[2] = { -1, -1 };
	struct io_uring_sqe *sqe;
	int lowest;

	prepare();
	new_pipe("plain", pair, 0);
	note_pipe("plain", pair);
	new_pipe("flags", pair, O_CLOEXEC | O_NONBLOCK);
	note_pipe("flags", pair);
	new_pipe("direct", pair, O_DIRECT);
	note_pipe("direct", pair);
	lowest = dup(0);
	close(lowest);
	new_pipe("append", pair, O_APPEND);
	new_pipe("rdwr", pair, O_RDWR);
	new_pipe("null", NULL, 0);
	new_pipe("kernel", KERNEL_ADDRESS, 0);
	note("left", dup(0) == lowest);
	close(lowest);
	sqe = sqe_rw(&from, OP_PIPE, 0, pair, 0, 0);
	sqe->flags = IOSQE_FIXED_FILE;
	try_sqe("fixed_flag", &from);
	sqe = sqe_rw(&from, OP_PIPE, 0, pair, 0, 0);
	sqe->flags = IOSQE_ASYNC;
	try_sqe("async", &from);
	note_pipe("async", pair);
	new_pipe("watch", pair, NOTIFICATION);
	sqe_rw(&from, OP_PIPE, 0, pair, 0, 0)->flags = IOSQE_IO_LINK;
	sqe_rw(&from, OP_PIPE, 0, NULL, 0, 0)->flags = IOSQE_IO_LINK;
	sqe_rw(&from, OP_PIPE, 0, pair, 0, 0);
	note_result("chain", uring_submit(&from));
	note_cqes("chain", &from, 3);
}

/* Creates a pipe in two slots of registered files; file_index names the first slot. */
static void pipe_at(const char *key, int *pair, uint32_t file_index,
		    int pipe_flags)
{
	struct io_uring_sqe *sqe = sqe_rw(&from, OP_PIPE, 0, pair, 0, 0);

	sqe->rw_flags = pipe_flags;
	sqe->file_index = file_index;
	try_sqe(key, &from);
	if (pair) {
		note(key, pair[0]);
		note(key, pair[1]);
	}
}

static void note_fixed_pipe(const char *key, const int pair[2])
{
	char byte = 'a', got = 0;

	sqe_rw(&from, IORING_OP_WRITE, pair[1], &byte, 1, 0)->flags =
		IOSQE_FIXED_FILE;
	try_sqe(key, &from);
	sqe_rw(&from, IORING_OP_READ, pair[0], &got, 1, 0)->flags =
		IOSQE_FIXED_FILE;
	try_sqe(key, &from);
	note(key, got == byte);
}

static void pipes_in_the_table(void)
{
	const uint32_t any = IORING_FILE_INDEX_ALLOC;
	int none[6] = { -1, -1, -1, -1, -1, -1 }, pair[2] = { -9, -9 };
	int lowest;

	prepare();
	lowest = dup(0);
	close(lowest);
	pipe_at("no_table", pair, 1, 0);
	pipe_at("no_table_any", pair, any, 0);
	REQUIRE(uring_register(from.fd, IORING_REGISTER_FILES, none, 6) == 0);
	pipe_at("3", pair, 3, 0);
	note_fixed_pipe("3", pair);
	pipe_at("cloexec", pair, 1, O_CLOEXEC);
	pipe_at("nonblock", pair, 1, O_NONBLOCK);
	pipe_at("null", NULL, 5, 0);
	pipe_at("null_any", NULL, any, 0);
	pipe_at("any", pair, any, 0);
	note_fixed_pipe("any", pair);
	pipe_at("full", pair, any, 0);
	pipe_at("over_end", pair, 6, 0);
	pipe_at("beyond", pair, 7, 0);
	pipe_at("one_free", pair, any, 0);
	pipe_at("again", pair, 1, 0);
	note_fixed_pipe("again", pair);
	note("left", dup(0) == lowest);
}

const struct row rows_uring_msg[] = {
	ROW("messages of each command, and with mistakes", commands),
	ROW("messages with flags", flags),
	ROW("messages to rings, and to other files", targets),
	ROW("a message to its own ring", to_itself),
	ROW("messages in chains", in_chains),
	ROW("messages that find no room", overflow),
	ROW("messages are signalled as other completions", heard_of),
	ROW("a message of a thread without a ring", without_a_ring),
	ROW("no-ops that look for something", nops),
	ROW("pipes", pipes),
	ROW("pipes opened straight into the table", pipes_in_the_table),
	NO_ROW,
};

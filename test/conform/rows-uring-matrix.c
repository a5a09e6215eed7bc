/* SPDX-License-Identifier: MIT */
/*
 * Each operation of io_uring: with each field of its SQE changed, with each flag, and
 * on each kind of file. Each request has a ring of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptors.h"
#include "differences.h"
#include "uring-ops.h"

enum { NR_ROWS = 128, FILE_BYTES = 8192 };

struct row rows_uring_fields[NR_ROWS + 1];
struct row rows_uring_flags[NR_ROWS + 1];
struct row rows_uring_files[NR_ROWS + 1];

static const struct uring_op *this_op(void)
{
	return this_row->about;
}

static struct uring new_op_uring(void)
{
	struct uring ring = new_uring(8, 0);
	int opcode = this_op()->opcode;

	if (opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED ||
	    opcode == OP_READV_FIXED || opcode == OP_WRITEV_FIXED)
		register_op_buffer(&ring);
	return ring;
}

/* Submits the SQE alone on a ring, and prints its result. */
static void note_sqe(const char *key, const struct io_uring_sqe *sqe)
{
	struct uring ring = new_op_uring();
	struct io_uring_cqe cqe;
	long ret;

	sqe_copy(&ring, sqe);
	ret = uring_submit(&ring);
	if (ret != 1)
		note_result(key, ret);
	else if (!uring_wait(&ring, 1) || !uring_take(&ring, &cqe))
		note_text(key, "no-completion");
	else {
		forget_opened(this_op(), &cqe);
		note_cqe(key, &cqe);
	}
	close(ring.fd);
}

/*
 * Test cases that change one field of the SQE
 */

#define SPOILT(text, field, value)                                 \
	{                                                          \
		text, offsetof(struct io_uring_sqe, field),        \
			sizeof(((struct io_uring_sqe *)0)->field), \
			(uint64_t)(value)                          \
	}

static const struct {
	const char *key;
	size_t offset, bytes;
	uint64_t value;
} spoilt[] = {
	SPOILT("flags_0x80", flags, 0x80),
	SPOILT("ioprio_1", ioprio, 1),
	SPOILT("ioprio_0xffff", ioprio, 0xffff),
	SPOILT("fd_-1", fd, -1),
	SPOILT("fd_77777", fd, 77777),
	SPOILT("off_-2", off, -2),
	SPOILT("off_large", off, (1ull << 40) + 77777),
	SPOILT("addr_0", addr, 0),
	SPOILT("addr_kernel", addr, 0xffff888000001000),
	SPOILT("len_0", len, 0),
	SPOILT("len_1", len, 1),
	SPOILT("len_0x7fffffff", len, 0x7fffffff),
	SPOILT("len_-1", len, -1),
	SPOILT("rw_flags_1", rw_flags, 1),
	SPOILT("rw_flags_0x40000000", rw_flags, 0x40000000),
	SPOILT("rw_flags_-1", rw_flags, -1),
	SPOILT("buf_index_1", buf_index, 1),
	SPOILT("personality_1", personality, 1),
	SPOILT("file_index_1", file_index, 1),
	SPOILT("file_index_-1", file_index, -1),
	SPOILT("addr3_1", addr3, 1),
	SPOILT("pad2_1", __pad2, 1),
};

/*
 * Return: whether the test leaves this changed field out for the operation. The
 * comments below give the reasons.
 */
static bool is_left_out(size_t i)
{
	int opcode = this_op()->opcode;
	bool moves = this_op()->has_offset || opcode == OP_READV_FIXED ||
		     opcode == OP_WRITEV_FIXED;

	/*
	 * The library refuses a FUTEX_WAIT whose mask (addr3) does not have all bits.
	 * rows-uring-futex.c tests such masks.
	 */
	if (opcode == OP_FUTEX_WAIT &&
	    spoilt[i].offset == offsetof(struct io_uring_sqe, addr3))
		return true;
	/*
	 * If the poll's events have this value, no event ever comes, and the poll never
	 * completes.
	 */
	if (opcode == IORING_OP_POLL_ADD)
		return spoilt[i].value == 0x40000000;
	/*
	 * This field holds attributes of a read or write, which the library does not
	 * support.
	 */
	return moves &&
	       spoilt[i].offset == offsetof(struct io_uring_sqe, __pad2);
}

static void spoil_fields(void)
{
	struct io_uring_sqe sqe;
	size_t i;

	prepare_uring_ops();
	sqe = uring_op_sqe(this_op());
	note_sqe("right", &sqe);
	for (i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
		if (is_left_out(i))
			continue;
		sqe = uring_op_sqe(this_op());
		__builtin_memcpy((char *)&sqe + spoilt[i].offset,
				 &spoilt[i].value, spoilt[i].bytes);
		note_sqe(spoilt[i].key, &sqe);
	}
}

/*
 * Test cases that set an IOSQE_* flag
 */

static const struct {
	const char *key;
	uint8_t flags;
} flagged[] = {
	{ "none", 0 },
	{ "async", IOSQE_ASYNC },
	{ "drain", IOSQE_IO_DRAIN },
	{ "link", IOSQE_IO_LINK },
	{ "hardlink", IOSQE_IO_HARDLINK },
	{ "select", IOSQE_BUFFER_SELECT },
	{ "async_drain_link", IOSQE_ASYNC | IOSQE_IO_DRAIN | IOSQE_IO_LINK },
};

/*
 * Submits the request and then a no-op with IOSQE_IO_DRAIN, whose completion must come
 * last.
 */
static void note_before_drain(const char *key, const struct io_uring_sqe *sqe)
{
	struct uring ring = new_op_uring();
	struct io_uring_cqe cqe;
	char text[96];
	uint64_t last;
	long nr;

	sqe_copy(&ring, sqe);
	last = sqe_of(&ring, IORING_OP_NOP, -1)->user_data;
	ring.sqes[1].flags = IOSQE_IO_DRAIN;
	nr = uring_submit(&ring);
	note_result(key, nr);
	/*
	 * If the request is refused, the call stops before the drain, so there are
	 * fewer completions.
	 */
	while (nr-- > 0 && uring_wait(&ring, 1) && uring_take(&ring, &cqe)) {
		if (cqe.user_data != last)
			forget_opened(this_op(), &cqe);
		snprintf(text, sizeof(text), "%s.%s", key,
			 cqe.user_data == last ? "drain" : "it");
		note_cqe(text, &cqe);
	}
	note_rings(key, &ring);
	close(ring.fd);
}

/*
 * A request with IOSQE_CQE_SKIP_SUCCESS posts a completion only if it fails. The next
 * request of its chain always posts one.
 */
static void note_skipped(const char *key, const struct io_uring_sqe *sqe,
			 uint8_t flags)
{
	struct uring ring = new_op_uring();
	struct io_uring_sqe *skipped = sqe_copy(&ring, sqe);
	const uint64_t it = skipped->user_data;
	bool is_next;

	skipped->flags = flags | IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_HARDLINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result(key, uring_submit(&ring));
	is_next = uring_wait(&ring, 1);
	if (is_next && ring.cqes[*ring.cq_head & ring.cq_mask].user_data == it)
		/*
		 * If the request is refused at submission, it has a completion, and the
		 * next request of the chain may have one, too.
		 */
		is_next = this_op()->opcode == IORING_OP_LINK_TIMEOUT
				  ? uring_settle(&ring) > 1
				  : uring_wait(&ring, 2);
	note("next", is_next);
	note_cqes(key, &ring, uring_settle(&ring));
	close(ring.fd);
}

static void set_flags(void)
{
	struct io_uring_sqe sqe;
	size_t i;

	prepare_uring_ops();
	for (i = 0; i < sizeof(flagged) / sizeof(flagged[0]); i++) {
		sqe = uring_op_sqe(this_op());
		sqe.flags = flagged[i].flags;
		note_before_drain(flagged[i].key, &sqe);
	}
	sqe = uring_op_sqe(this_op());
	note_skipped("untold", &sqe, 0);
	sqe = uring_op_sqe(this_op());
	note_skipped("untold_async", &sqe, IOSQE_ASYNC);
}

/*
 * Registers a table of one file and one empty slot, and makes the request on slot
 * `number`. Prints its result.
 */
static void note_fixed(const char *key, int fd, int number)
{
	struct uring ring = new_op_uring();
	int32_t fds[2] = { fd, -1 };
	struct io_uring_sqe *sqe, filled;
	struct io_uring_cqe cqe;
	long ret;

	ret = uring_register(ring.fd, IORING_REGISTER_FILES, fds, 2);
	if (ret != 0)
		note_result("register", ret);
	filled = uring_op_sqe(this_op());
	sqe = sqe_copy(&ring, &filled);
	sqe->fd = number;
	sqe->flags = IOSQE_FIXED_FILE;
	ret = uring_submit(&ring);
	if (ret != 1)
		note_result("submit", ret);
	if (uring_wait(&ring, 1) && uring_take(&ring, &cqe)) {
		forget_opened(this_op(), &cqe);
		note_cqe(key, &cqe);
	} else {
		note_text(key, "no-completion");
	}
	close(ring.fd);
}

static void use_fixed_files(void)
{
	int fd;

	prepare_uring_ops();
	fd = this_op()->open ? this_op()->open() : -1;
	if (fd == AT_FDCWD)
		fd = open(".", O_RDONLY | O_DIRECTORY);
	note_fixed("fixed", fd, 0);
	note_fixed("empty", fd, 1);
	note_fixed("beyond", fd, 2);
	note_fixed("negative", fd, -1);
}

/*
 * The kinds of files
 */

static int open_closed(void)
{
	return 77777;
}

static int open_read_write(void)
{
	return file_of("f", FILE_BYTES, O_RDWR);
}

static int open_read_only(void)
{
	return file_of("f", FILE_BYTES, O_RDONLY);
}

static int open_write_only(void)
{
	return file_of("f", FILE_BYTES, O_WRONLY);
}

static int open_append(void)
{
	return file_of("f", FILE_BYTES, O_RDWR | O_APPEND);
}

static int open_path(void)
{
	close(file_of("f", FILE_BYTES, O_RDONLY));
	return open("f", O_PATH);
}

static int open_memfd(void)
{
	return open_memfd_of(FILE_BYTES);
}

static int open_pipe_reader(void)
{
	return open_pipe_reader_of("0123456789", 10);
}

static int open_pipe_broken(void)
{
	int fd = open_pipe_reader(), fds[2];

	close(fd);
	REQUIRE(pipe(fds) == 0);
	close(fds[1]);
	return fds[0];
}

static int open_eventfd(void)
{
	return eventfd(1, 0);
}

static int open_ready_epoll(void)
{
	struct epoll_event ready = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	REQUIRE(epoll_ctl(fd, EPOLL_CTL_ADD, open_pipe_reader(), &ready) == 0);
	return fd;
}

/*
 * Opens a ring that already has a completion, because a request on the ring's
 * descriptor may wait until the ring has one.
 */
static int open_ring(void)
{
	struct uring ring = new_uring(1, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	return ring.fd;
}

static const struct {
	const char *key;
	int (*open)(void);
} kinds[] = {
	{ "closed", open_closed },
	{ "read_write", open_read_write },
	{ "read_only", open_read_only },
	{ "write_only", open_write_only },
	{ "append", open_append },
	{ "o_path", open_path },
	{ "directory", open_directory },
	{ "memfd", open_memfd },
	{ "null", open_null },
	{ "zero", open_zero },
	{ "pipe_reader", open_pipe_reader },
	{ "pipe_writer", open_pipe_writer },
	{ "pipe_empty_nonblock", open_pipe_empty },
	{ "pipe_broken", open_pipe_broken },
	{ "eventfd", open_eventfd },
	{ "epoll", open_ready_epoll },
	{ "ring", open_ring },
};

/* Return: whether this operation waits for ever on the file that `open` opens. */
static bool waits_for(int (*open)(void))
{
	int opcode = this_op()->opcode;
	bool is_write = opcode == IORING_OP_WRITE ||
			opcode == IORING_OP_WRITEV ||
			opcode == IORING_OP_WRITE_FIXED;

	if (open == open_ready_epoll)
		return is_write;
	if (open == open_pipe_empty)
		return !is_write &&
		       (this_op()->has_offset || opcode == IORING_OP_POLL_ADD);
	return false;
}

static void try_files(void)
{
	struct io_uring_sqe sqe;
	char key[64];
	size_t i;

	prepare_uring_ops();
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (waits_for(kinds[i].open))
			continue;
		sqe = uring_op_sqe(this_op());
		sqe.fd = kinds[i].open();
		note_sqe(kinds[i].key, &sqe);
		if (!this_op()->has_offset)
			continue;
		sqe.fd = kinds[i].open();
		sqe.off = (uint64_t)-1;
		snprintf(key, sizeof(key), "%s.at_-1", kinds[i].key);
		note_sqe(key, &sqe);
		note("position", lseek(sqe.fd, 0, SEEK_CUR));
	}
}

/*
 * Return: how the library differs from the kernel for this operation on some kinds of
 * files; NULL if it does not. With the library, a ring's descriptor has a file
 * position, and URING_CMD on /dev/null fails.
 */
static const struct showing *files_differ(const struct uring_op *op)
{
	static const struct pair pairs[] = {
		{ "position=-1", "position=0" },
		{ NULL, NULL },
	};
	static const struct showing position[] = {
		{ &differs_ring_calls, NULL, pairs },
		{ NULL, NULL, NULL },
	};
	static const struct pair to_null[] = {
		{ "null=0", "null=EOPNOTSUPP" },
		{ NULL, NULL },
	};
	static const struct showing commands[] = {
		{ &differs_ring_commands, NULL, to_null },
		{ NULL, NULL, NULL },
	};

	if (op->opcode == IORING_OP_URING_CMD)
		return commands;
	return op->has_offset ? position : NULL;
}

static void make_rows_of(const struct uring_op *op)
{
	add_row(rows_uring_fields, NR_ROWS,
		&(struct row){ .run = spoil_fields, .about = op },
		"%s with each field spoilt", op->name);
	/*
	 * Leave out zero-copy sends. They post a second completion when the data has
	 * left, and a drain waits for this second completion.
	 */
	if (op->opcode != IORING_OP_SEND_ZC &&
	    op->opcode != IORING_OP_SENDMSG_ZC)
		add_row(rows_uring_flags, NR_ROWS,
			&(struct row){ .run = set_flags, .about = op },
			"%s with each flag, and a drain behind it", op->name);
	add_row(rows_uring_flags, NR_ROWS,
		&(struct row){ .run = use_fixed_files, .about = op },
		"%s with a fixed file", op->name);
	if (op->takes_any_file)
		add_row(rows_uring_files, NR_ROWS,
			&(struct row){ .run = try_files,
				       .about = op,
				       .differs = files_differ(op) },
			"%s on each kind of file", op->name);
}

void make_uring_matrix(void)
{
	const struct uring_op *op;

	for (op = uring_ops; op->name; op++)
		make_rows_of(op);
	for (op = uring_ops_rest; op->name; op++)
		make_rows_of(op);
}

/* SPDX-License-Identifier: MIT */
/* Reads and writes: offsets, vectors, fixed buffers, flags, limits, pipes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "differences.h"
#include "streams.h"
#include "uring.h"

enum { FILE_BYTES = 8192 };

static char buf[FILE_BYTES];
static const uint64_t POSITION = -1ull;

static void note_position(const char *key, int fd)
{
	note(key, lseek(fd, 0, SEEK_CUR));
}

static void at_position(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", FILE_BYTES, O_RDWR);

	sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, POSITION);
	try_sqe("first", &ring);
	note("is_first", is_pattern(buf, 100, 0));
	note_position("then", fd);
	sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, POSITION);
	try_sqe("second", &ring);
	note("is_second", is_pattern(buf, 100, 100));
	sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, 0);
	try_sqe("at_0", &ring);
	note_position("then", fd);
	sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 50, POSITION);
	try_sqe("write", &ring);
	note_position("then", fd);
	lseek(fd, 0, SEEK_END);
	sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, POSITION);
	try_sqe("at_end", &ring);
	note_position("then", fd);
}

/*
 * Writes to a file from memory that is only partly accessible. Such a write does not
 * move the file position.
 */
static void in_part(void)
{
	struct uring ring = new_uring(8, 0);
	char *page = pages_of(8192, PROT_READ | PROT_WRITE);
	int fd = file_of("f", FILE_BYTES, O_RDWR);

	REQUIRE(mprotect(page + 4096, 4096, PROT_NONE) == 0);
	for (int i = 0; i < 4; i++) {
		struct iovec iovs[2] = { { page, 20 }, { page + 4086, 30 } };
		struct io_uring_sqe *sqe =
			i & 1 ? sqe_rw(&ring, IORING_OP_WRITEV, fd, iovs, 2,
				       POSITION)
			      : sqe_rw(&ring, IORING_OP_WRITE, fd, page + 4086,
				       30, POSITION);

		lseek(fd, 100, SEEK_SET);
		sqe->flags = i & 2 ? IOSQE_ASYNC : 0;
		try_sqe("write", &ring);
		note_position("then", fd);
	}
}

static void at_position_in_chain(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", FILE_BYTES, O_RDWR), i;

	for (i = 0; i < 4; i++)
		sqe_rw(&ring, IORING_OP_READ, fd, buf + i * 10, 10, POSITION)
			->flags = i < 3 ? IOSQE_IO_LINK : 0;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 4);
	note("in_order", is_pattern(buf, 40, 0));
	note_position("then", fd);
}

static void offsets(void)
{
	static const uint64_t values[] = { FILE_BYTES - 1,  FILE_BYTES,
					   FILE_BYTES + 1,  LLONG_MAX,
					   LLONG_MAX - 100, 1ull << 63,
					   -2ull,           -100ull };
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", FILE_BYTES, O_RDWR);
	char key[64];
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, values[i]);
		snprintf(key, sizeof(key), "read_%lld", (long long)values[i]);
		try_sqe(key, &ring);
		if (i < 3)
			continue;
		sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 100, values[i]);
		snprintf(key, sizeof(key), "write_%lld", (long long)values[i]);
		try_sqe(key, &ring);
	}
}

static void pipes_and_offsets(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_rw(&ring, IORING_OP_WRITE, fds[1], "0123456789", 10, 0);
	try_sqe("write_0", &ring);
	sqe_rw(&ring, IORING_OP_WRITE, fds[1], "0123456789", 10, POSITION);
	try_sqe("write_-1", &ring);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 5, 0);
	try_sqe("read_0", &ring);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 5, POSITION);
	try_sqe("read_-1", &ring);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 5, 1000);
	try_sqe("read_1000", &ring);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 5, 1ull << 63);
	try_sqe("read_min", &ring);
}

static void pipe_waits(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 10, POSITION);
	note_result("submit", uring_submit(&ring));
	note_ready("waits", &ring);
	REQUIRE(write(fds[1], "abc", 3) == 3);
	note_cqes("cqe", &ring, 1);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 10, POSITION);
	note_result("submit", uring_submit(&ring));
	close(fds[1]);
	note_cqes("end", &ring, 1);
}

/* A request on a file that can be polled waits even if the file is O_NONBLOCK. */
static void nonblocking_pipe(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe2(fds, O_NONBLOCK) == 0);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 10, POSITION);
	note_result("read", uring_submit(&ring));
	note_ready("waits", &ring);
	REQUIRE(write(fds[1], "abc", 3) == 3);
	note_cqes("read", &ring, 1);
	fill_stream(fds[1], sizeof(buf));
	sqe_rw(&ring, IORING_OP_WRITE, fds[1], buf, 10, POSITION);
	note_result("write", uring_submit(&ring));
	note_ready("waits", &ring);
	REQUIRE(read(fds[0], buf, sizeof(buf)) == sizeof(buf));
	note_cqes("write", &ring, 1);
	REQUIRE(pipe(fds) == 0);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 10, POSITION)->rw_flags =
		RWF_NOWAIT;
	try_sqe("nowait", &ring);
}

static void broken_pipe(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	REQUIRE(pipe(fds) == 0);
	close(fds[0]);
	sqe_rw(&ring, IORING_OP_WRITE, fds[1], buf, 10, POSITION);
	try_sqe("write", &ring);
	sqe_rw(&ring, IORING_OP_WRITE, fds[1], buf, 0, POSITION);
	try_sqe("nothing", &ring);
}

static void vectors(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", FILE_BYTES, O_RDWR);
	struct iovec some[] = { { buf, 100 }, { NULL, 0 }, { buf + 100, 50 } };
	struct iovec bad[] = { { buf, 100 }, { KERNEL_ADDRESS, 50 } };
	struct iovec negative[] = { { buf, (size_t)-1 } };
	struct iovec *many = calloc(1025, sizeof(*many));
	int i;

	for (i = 0; i < 1025; i++)
		many[i] = (struct iovec){ buf + i, 1 };
	sqe_rw(&ring, IORING_OP_READV, fd, some, 3, 0);
	try_sqe("some", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, some, 0, 0);
	try_sqe("none", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, bad, 2, 0);
	try_sqe("bad", &ring);
	sqe_rw(&ring, IORING_OP_WRITEV, fd, bad, 2, 0);
	try_sqe("bad_write", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, negative, 1, 0);
	try_sqe("negative", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, many, 1024, 0);
	try_sqe("1024", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, many, 1025, 0);
	try_sqe("1025", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, NULL, 1, 0);
	try_sqe("null", &ring);
	sqe_rw(&ring, IORING_OP_READV, fd, KERNEL_ADDRESS, 1, 0);
	try_sqe("kernel", &ring);
}

static void vectors_are_read_once(void)
{
	struct uring ring = new_uring(8, 0);
	struct iovec vector = { buf, 3 };
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_rw(&ring, IORING_OP_READV, fds[0], &vector, 1, POSITION);
	note_result("submit", uring_submit(&ring));
	vector = (struct iovec){ NULL, 1000 };
	REQUIRE(write(fds[1], "abc", 3) == 3);
	note_cqes("cqe", &ring, 1);
}

static void sqe_is_read_once(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 3, POSITION);
	note_result("submit", uring_submit(&ring));
	memset(ring.sqes, 0xff, sizeof(*ring.sqes));
	REQUIRE(write(fds[1], "abc", 3) == 3);
	note_cqes("cqe", &ring, 1);
}

static void rw_flags(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", FILE_BYTES, O_RDWR), bit;
	char key[32];

	for (bit = 0; bit < 32; bit++) {
		/*
		 * Leave out the flags of newer kernels: ATOMIC, DONTCACHE, NOSIGNAL.
		 */
		if (bit >= 6 && bit <= 8)
			continue;
		sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, 0)->rw_flags =
			1 << bit;
		snprintf(key, sizeof(key), "read_%d", bit);
		try_sqe(key, &ring);
		sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 100, 0)->rw_flags =
			1 << bit;
		snprintf(key, sizeof(key), "write_%d", bit);
		try_sqe(key, &ring);
	}
	note("bytes", lseek(fd, 0, SEEK_END));
}

static void priorities(void)
{
	static const uint16_t values[] = { 1,           1 << 13, 2 << 13,
					   2 << 13 | 3, 3 << 13, 4 << 13,
					   7 << 13,     0xffff };
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", FILE_BYTES, O_RDWR);
	char key[32];
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, 0)->ioprio =
			values[i];
		snprintf(key, sizeof(key), "ioprio_%#x", values[i]);
		try_sqe(key, &ring);
	}
}

static void long_requests(void)
{
	struct uring ring = new_uring(8, 0);
	char *pages = pages_of(FILE_BYTES, PROT_READ | PROT_WRITE);
	int fd = file_of("f", FILE_BYTES, O_RDWR);

	sqe_rw(&ring, IORING_OP_READ, fd, pages, 0x7fffffff, 0);
	try_sqe("read_int_max", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, pages, 0xffffffff, 0);
	try_sqe("read_-1", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, pages + 4096, 8192, 0);
	try_sqe("read_over_end", &ring);
	sqe_rw(&ring, IORING_OP_WRITE, fd, pages + 4096, 8192, 0);
	try_sqe("write_over_end", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, NULL, 0, 0);
	try_sqe("nothing", &ring);
}

static void size_limit(void)
{
	struct rlimit limit = { 4096, RLIM_INFINITY };
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 100, O_RDWR);

	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 8192, 0);
	try_sqe("over", &ring);
	sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 100, 4096);
	try_sqe("beyond", &ring);
	sqe_of(&ring, IORING_OP_FALLOCATE, fd)->addr = 8192;
	try_sqe("fallocate", &ring);
	sqe_of(&ring, OP_FTRUNCATE, fd)->off = 8192;
	try_sqe("ftruncate", &ring);
}

/*
 * Fixed buffers
 */

static void fixed_buffers(void)
{
	struct uring ring = new_uring(8, 0);
	char *pages = pages_of(3 * 4096, PROT_READ | PROT_WRITE);
	struct iovec registered[] = { { pages, 4096 }, { pages + 8192, 100 } };
	int fd = file_of("f", FILE_BYTES, O_RDWR);
	const struct {
		const char *key;
		uint16_t index;
		char *addr;
		uint32_t len;
	} tries[] = {
		{ "first", 0, pages, 4096 },
		{ "part", 0, pages + 100, 200 },
		{ "to_end", 0, pages + 4000, 96 },
		{ "over_end", 0, pages + 4000, 97 },
		{ "before", 0, pages - 1, 10 },
		{ "other_memory", 0, buf, 10 },
		{ "second", 1, pages + 8192, 100 },
		{ "second_over", 1, pages + 8192, 101 },
		{ "of_first_in_second", 1, pages, 10 },
		{ "beyond", 2, pages, 10 },
		{ "far_beyond", 0xffff, pages, 10 },
		{ "nothing", 0, pages, 0 },
		{ "null", 0, NULL, 10 },
		{ "huge", 0, pages, 0xffffffff },
	};
	char key[64];
	size_t i;

	sqe_rw(&ring, IORING_OP_READ_FIXED, fd, pages, 10, 0);
	try_sqe("unregistered", &ring);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_BUFFERS, registered,
			       2) == 0);
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		sqe_rw(&ring, IORING_OP_READ_FIXED, fd, tries[i].addr,
		       tries[i].len, 0)
			->buf_index = tries[i].index;
		snprintf(key, sizeof(key), "read_%s", tries[i].key);
		try_sqe(key, &ring);
		sqe_rw(&ring, IORING_OP_WRITE_FIXED, fd, tries[i].addr,
		       tries[i].len, 0)
			->buf_index = tries[i].index;
		snprintf(key, sizeof(key), "write_%s", tries[i].key);
		try_sqe(key, &ring);
	}
}

static void fixed_buffer_data(void)
{
	struct uring ring = new_uring(8, 0);
	char *pages = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iovec registered = { pages, 4096 };
	int fd = file_of("f", FILE_BYTES, O_RDWR);

	REQUIRE(uring_register(ring.fd, IORING_REGISTER_BUFFERS, &registered,
			       1) == 0);
	sqe_rw(&ring, IORING_OP_READ_FIXED, fd, pages, 1000, 77);
	try_sqe("read", &ring);
	note("is_it", is_pattern(pages, 1000, 77));
	sqe_rw(&ring, IORING_OP_WRITE_FIXED, fd, pages, 1000, 4000);
	try_sqe("write", &ring);
	REQUIRE(pread(fd, buf, 1000, 4000) == 1000);
	note("is_it", is_pattern(buf, 1000, 77));
	sqe_rw(&ring, IORING_OP_READ_FIXED, fd, pages, 10, POSITION);
	try_sqe("at_position", &ring);
	note_position("then", fd);
}

static void fixed_buffer_on_pipe(void)
{
	struct uring ring = new_uring(8, 0);
	char *pages = pages_of(4096, PROT_READ | PROT_WRITE);
	struct iovec registered = { pages, 4096 };
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_BUFFERS, &registered,
			       1) == 0);
	sqe_rw(&ring, IORING_OP_READ_FIXED, fds[0], pages, 10, POSITION);
	note_result("submit", uring_submit(&ring));
	/*
	 * A request in flight keeps its registered buffer, even when the client
	 * unregisters it.
	 */
	note_result(
		"unregister",
		uring_register(ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	REQUIRE(write(fds[1], "abc", 3) == 3);
	note_cqes("cqe", &ring, 1);
	sqe_rw(&ring, IORING_OP_READ_FIXED, fds[0], pages, 10, POSITION);
	try_sqe("then", &ring);
}

static void append(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 100, O_RDWR | O_APPEND);

	sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 10, 0);
	try_sqe("at_0", &ring);
	note("bytes", lseek(fd, 0, SEEK_END));
	sqe_rw(&ring, IORING_OP_WRITE, fd, buf, 10, POSITION);
	try_sqe("at_-1", &ring);
	note("bytes", lseek(fd, 0, SEEK_END));
}

static void direct(void)
{
	struct uring ring = new_uring(8, 0);
	char *pages = pages_of(8192, PROT_READ | PROT_WRITE);
	int fd = file_of("f", FILE_BYTES, O_RDWR | O_DIRECT);

	sqe_rw(&ring, IORING_OP_READ, fd, pages, 4096, 0);
	try_sqe("aligned", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, pages + 1, 4096, 0);
	try_sqe("memory", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, pages, 4096, 1);
	try_sqe("offset", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, pages, 100, 0);
	try_sqe("length", &ring);
	sqe_rw(&ring, IORING_OP_WRITE, fd, pages, 4096, 4096);
	try_sqe("write", &ring);
	sqe_rw(&ring, IORING_OP_READ, fd, pages, 8192, 4096);
	try_sqe("over_end", &ring);
}

const struct row rows_uring_rw[] = {
	ROW("offset -1 is the file's position", at_position),
	ROW("a write at the position that is made in part", in_part),
	ROW("a chain at the file's position", at_position_in_chain),
	ROW("offsets of each kind", offsets),
	ROW("a pipe and an offset", pipes_and_offsets),
	ROW("a read of an empty pipe waits", pipe_waits),
	ROW("a pipe with O_NONBLOCK, or a request with RWF_NOWAIT",
	    nonblocking_pipe),
	ROW("a write to a broken pipe", broken_pipe),
	ROW("vectors of each kind", vectors),
	ROW("vectors are read once", vectors_are_read_once),
	ROW("an SQE is read once", sqe_is_read_once),
	ROW("each flag of a read and a write", rw_flags),
	ROW("priorities of requests", priorities),
	ROW("requests that are too long", long_requests),
	ROW("requests beyond RLIMIT_FSIZE", size_limit),
	ROW("fixed buffers and what is not in them", fixed_buffers),
	ROW("fixed buffers hold the data", fixed_buffer_data),
	ROW("a fixed buffer that is unregistered meanwhile",
	    fixed_buffer_on_pipe),
	ROW("writes that append", append),
	ROW("direct requests and alignment", direct),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* Chains (made by links and by hard links), drains, and linked timeouts */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "uring.h"

enum { LINK = IOSQE_IO_LINK, HARD = IOSQE_IO_HARDLINK, DRAIN = IOSQE_IO_DRAIN };

static char buf[4096];

static struct io_uring_sqe *nop(struct uring *ring, uint8_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_NOP, -1);

	sqe->flags = flags;
	return sqe;
}

static struct io_uring_sqe *fails(struct uring *ring, uint8_t flags)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_READ, 77777, buf, 1, 0);

	sqe->flags = flags;
	return sqe;
}

static struct io_uring_sqe *times(struct uring *ring,
				  const struct __kernel_timespec *span)
{
	return sqe_rw(ring, IORING_OP_LINK_TIMEOUT, -1, span, 1, 0);
}

static void chain(void)
{
	struct uring ring = new_uring(8, 0);

	nop(&ring, LINK);
	nop(&ring, LINK);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 3);
}

static void chain_breaks(void)
{
	struct uring ring = new_uring(8, 0);

	nop(&ring, LINK);
	fails(&ring, LINK);
	nop(&ring, LINK);
	nop(&ring, 0);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 5);
}

/*
 * Prepares a read that fails only when it is executed, because its fixed buffer is not
 * registered.
 */
static struct io_uring_sqe *fails_late(struct uring *ring, uint8_t flags)
{
	struct io_uring_sqe *sqe = sqe_rw(ring, IORING_OP_READ_FIXED,
					  file_of("f", 1, O_RDONLY), buf, 1, 0);

	sqe->flags = flags;
	return sqe;
}

static void late_chain(void)
{
	struct uring ring = new_uring(8, 0);

	fails_late(&ring, LINK);
	fails_late(&ring, LINK);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
	fails(&ring, LINK);
	fails_late(&ring, HARD);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
	fails_late(&ring, HARD);
	fails_late(&ring, LINK);
	fails_late(&ring, 0);
	note_result("hard", uring_submit(&ring));
	note_cqes("hard", &ring, 3);
	fails_late(&ring, LINK);
	sqe_of(&ring, 200, -1)->flags = LINK;
	fails_late(&ring, 0);
	note_result("mistake", uring_submit(&ring));
	note_cqes("mistake", &ring, 3);
}

static void hard_chain(void)
{
	struct uring ring = new_uring(8, 0);

	fails(&ring, HARD);
	nop(&ring, HARD);
	fails(&ring, LINK);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 4);
}

static void both_links(void)
{
	struct uring ring = new_uring(8, 0);

	fails(&ring, HARD | LINK);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
}

static void open_end(void)
{
	struct uring ring = new_uring(8, 0);

	nop(&ring, LINK);
	nop(&ring, LINK);
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 2);
	/*
	 * A chain ends at the end of its submission, even if its last request has the link
	 * flag.
	 */
	fails(&ring, LINK);
	note_result("submit", uring_submit(&ring));
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
}

static void short_read_breaks(void)
{
	struct uring ring = new_uring(8, 0);
	int file = file_of("f", 100, O_RDONLY);

	sqe_rw(&ring, IORING_OP_READ, file, buf, 200, 0)->flags = LINK;
	nop(&ring, 0);
	note_result("read", uring_submit(&ring));
	note_cqes("read", &ring, 2);
	sqe_rw(&ring, IORING_OP_READ, file, buf, 200, 0)->flags = HARD;
	nop(&ring, 0);
	note_result("hard", uring_submit(&ring));
	note_cqes("hard", &ring, 2);
	sqe_rw(&ring, IORING_OP_READ, file, buf, 200, 100)->flags = LINK;
	nop(&ring, 0);
	note_result("nothing", uring_submit(&ring));
	note_cqes("nothing", &ring, 2);
}

static void write_then_read(void)
{
	struct uring ring = new_uring(8, 0);
	int file = file_of("f", 0, O_RDWR);
	static const char text[] = "in order";

	sqe_rw(&ring, IORING_OP_WRITE, file, text, 8, 0)->flags = LINK;
	sqe_of(&ring, IORING_OP_FSYNC, file)->flags = LINK;
	sqe_rw(&ring, IORING_OP_READ, file, buf, 8, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
	note("same", !__builtin_memcmp(buf, text, 8));
}

static void open_then_close(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 100, O_RDONLY);

	sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, 0)->flags = LINK;
	sqe_of(&ring, IORING_OP_CLOSE, fd)->flags = LINK;
	sqe_rw(&ring, IORING_OP_READ, fd, buf, 100, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
}

/*
 * A request that is refused at submission ends its chain. The requests after it start a
 * new chain.
 */
static void refused_head(uint32_t flags)
{
	struct uring ring = new_uring(8, flags);

	sqe_of(&ring, 200, -1)->flags = LINK;
	nop(&ring, LINK);
	nop(&ring, 0);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_rings("rings", &ring);
	note_cqes("cqe", &ring, uring_settle(&ring));
	note_result("rest", uring_submit(&ring));
	note_cqes("rest", &ring, uring_settle(&ring));
}

static void refused_middle(uint32_t flags)
{
	struct uring ring = new_uring(8, flags);

	nop(&ring, LINK);
	nop(&ring, LINK | 0x80);
	nop(&ring, LINK);
	nop(&ring, 0);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_rings("rings", &ring);
	note_cqes("cqe", &ring, uring_settle(&ring));
	note_result("rest", uring_submit(&ring));
	note_cqes("rest", &ring, uring_settle(&ring));
}

static void refused_first(void)
{
	refused_head(0);
	refused_head(IORING_SETUP_SUBMIT_ALL);
}

static void refused_second(void)
{
	refused_middle(0);
	refused_middle(IORING_SETUP_SUBMIT_ALL);
}

static void submitted_in_part(void)
{
	struct uring ring = new_uring(8, 0);

	fails(&ring, LINK);
	nop(&ring, LINK);
	nop(&ring, 0);
	uring_publish(&ring);
	note_result("two", uring_enter(ring.fd, 2, 0, 0, NULL, 0));
	note_cqes("cqe", &ring, 2);
	note_result("rest", uring_enter(ring.fd, 1, 0, 0, NULL, 0));
	note_cqes("rest", &ring, uring_settle(&ring));
}

/*
 * Drains
 */

static void drain_waits(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], 0);
	nop(&ring, DRAIN);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_ready("held", &ring);
	nop(&ring, 0);
	note_result("later", uring_submit(&ring));
	note_ready("held", &ring);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_in_order("cqe", &ring, 4);
}

static void drain_of_nothing(void)
{
	struct uring ring = new_uring(8, 0);

	nop(&ring, DRAIN);
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 1);
}

/*
 * A request with IOSQE_IO_DRAIN has a mistake: it is a GETXATTR whose name is too long.
 * The kernel checks the name at submission, so the submission ends at this request.
 */
static void drain_of_mistake(void)
{
	static char name[400], value[8];
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;

	memset(name, 'x', sizeof(name) - 1);
	sqe = sqe_rw(&ring, IORING_OP_GETXATTR, 0, name, sizeof(value),
		     (int64_t)(uintptr_t)value);
	sqe->addr3 = (uintptr_t) ".";
	sqe->flags = DRAIN;
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 1);
	note_result("later", uring_submit(&ring));
	note_in_order("cqe", &ring, 1);
}

static void drain_in_chain(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], 0);
	nop(&ring, LINK);
	nop(&ring, DRAIN);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_ready("held", &ring);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_cqes("cqe", &ring, 4);
}

static void drain_and_refusal(void)
{
	struct uring ring = new_uring(8, IORING_SETUP_SUBMIT_ALL);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], 0);
	nop(&ring, DRAIN);
	sqe_of(&ring, 200, -1);
	note_result("submit", uring_submit(&ring));
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_cqes("cqe", &ring, 3);
}

static void all_behind_drain(void)
{
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], 0);
	nop(&ring, DRAIN);
	note_result("submit", uring_submit(&ring));
	note_ready("held", &ring);
	nop(&ring, 0);
	note_result("submit", uring_submit(&ring));
	note_ready("held", &ring);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_in_order("cqe", &ring, 3);
}

/* Linked timeouts */

static void timeout_expires(void)
{
	struct __kernel_timespec soon = SPAN_SOON;
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], LINK);
	times(&ring, &soon);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
}

static void timeout_not_needed(void)
{
	struct __kernel_timespec never = SPAN_NEVER;
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	nop(&ring, LINK);
	times(&ring, &never);
	note_result("at_once", uring_submit(&ring));
	note_cqes("at_once", &ring, 2);
	sqe_poll(&ring, fds[0], LINK);
	times(&ring, &never);
	note_result("later", uring_submit(&ring));
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_cqes("later", &ring, 2);
	fails(&ring, LINK);
	times(&ring, &never);
	note_result("fails", uring_submit(&ring));
	note_cqes("fails", &ring, 2);
}

static void timeout_in_chain(void)
{
	struct __kernel_timespec soon = SPAN_SOON, never = SPAN_NEVER;
	struct uring ring = new_uring(8, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_poll(&ring, fds[0], LINK);
	times(&ring, &soon)->flags = LINK;
	nop(&ring, 0);
	note_result("expires", uring_submit(&ring));
	note_cqes("expires", &ring, 3);
	nop(&ring, LINK);
	times(&ring, &never)->flags = LINK;
	nop(&ring, 0);
	note_result("not_needed", uring_submit(&ring));
	note_cqes("not_needed", &ring, 3);
	sqe_poll(&ring, fds[0], HARD);
	times(&ring, &soon)->flags = HARD;
	nop(&ring, 0);
	note_result("hard", uring_submit(&ring));
	note_cqes("hard", &ring, 3);
}

static void timeout_of_timeout(void)
{
	struct __kernel_timespec soon = SPAN_SOON, never = SPAN_NEVER;
	struct uring ring = new_uring(8, 0);

	sqe_rw(&ring, IORING_OP_TIMEOUT, -1, &never, 1, 0)->flags = LINK;
	times(&ring, &soon);
	note_result("timeout", uring_submit(&ring));
	note_cqes("timeout", &ring, 2);
	nop(&ring, LINK);
	times(&ring, &never)->flags = LINK;
	times(&ring, &never);
	note_result("two", uring_submit(&ring));
	note_cqes("two", &ring, uring_settle(&ring));
}

static void timeout_alone(void)
{
	struct __kernel_timespec soon = SPAN_SOON;
	struct uring ring = new_uring(8, 0);

	times(&ring, &soon);
	note_result("alone", uring_submit(&ring));
	note_cqes("alone", &ring, uring_settle(&ring));
	times(&ring, &soon)->flags = LINK;
	nop(&ring, 0);
	note_result("first", uring_submit(&ring));
	note_cqes("first", &ring, uring_settle(&ring));
	nop(&ring, 0);
	times(&ring, &soon);
	note_result("not_linked", uring_submit(&ring));
	note_cqes("not_linked", &ring, uring_settle(&ring));
}

static void timeout_fields(void)
{
	struct __kernel_timespec soon = SPAN_SOON, wrong = { 0, -1 };
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int i;

	for (i = 0; i < 5; i++) {
		nop(&ring, LINK);
		sqe = times(&ring, &soon);
		if (i == 0)
			sqe->len = 2;
		else if (i == 1)
			sqe->off = 1;
		else if (i == 2)
			sqe->addr = (uintptr_t)&wrong;
		else if (i == 3)
			sqe->addr = 0;
		else
			sqe->timeout_flags = 1u << 31;
		note_result("submit", uring_submit(&ring));
		note_cqes("cqe", &ring, uring_settle(&ring));
		uring_submit(&ring);
		note_cqes("rest", &ring, uring_settle(&ring));
	}
}

static struct io_uring_sqe *splice_of(struct uring *ring, int in,
				      int64_t in_off, int out, int64_t out_off,
				      uint32_t bytes)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_SPLICE, out, NULL, bytes, out_off);

	sqe->splice_fd_in = in;
	sqe->splice_off_in = (uint64_t)in_off;
	return sqe;
}

/*
 * Copies bytes by two linked splices: from in_off of the first file through a pipe to
 * out_off of the second file.
 */
static void copy(const char *key, struct uring *ring, const int files[2],
		 const int ends[2], int64_t in_off, int64_t out_off,
		 uint32_t bytes)
{
	splice_of(ring, files[0], in_off, ends[1], -1, bytes)->flags = LINK;
	splice_of(ring, ends[0], -1, files[1], out_off, bytes);
	note_result("submit", uring_submit(ring));
	note_cqes(key, ring, 2);
	note("read_at", lseek(files[0], 0, SEEK_CUR));
	note("written_at", lseek(files[1], 0, SEEK_CUR));
	note("size", lseek(files[1], 0, SEEK_END));
	REQUIRE(lseek(files[1], 0, SEEK_SET) == 0);
	/* Print how many bytes a broken chain has left in the pipe. */
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
		note("left", read(ends[0], buf, sizeof(buf)));
	fcntl(ends[0], F_SETFL, 0);
}

static void copied(void)
{
	struct uring ring = new_uring(8, 0);
	const int files[2] = { file_of("f", 10000, O_RDWR),
			       file_of("g", 0, O_RDWR) };
	int ends[2], i;

	REQUIRE(pipe(ends) == 0);
	for (i = 0; i < 2; i++) {
		copy("page", &ring, files, ends, 4096, 0, 4096);
		copy("odd", &ring, files, ends, 1, 5000, 4097);
		copy("at_position", &ring, files, ends, -1, -1, 3000);
		copy("short", &ring, files, ends, 9900, 0, 200);
		copy("at_end", &ring, files, ends, 10000, 0, 200);
	}
	REQUIRE(pread(files[1], buf, 2, 5000) == 2);
	note("copied", buf[0] * 256 + buf[1]);
	/*
	 * The pipe has no reader, so the splice fails. The splice must not raise
	 * SIGPIPE.
	 */
	close(ends[0]);
	splice_of(&ring, files[0], 0, ends[1], -1, 100);
	note_result("submit", uring_submit(&ring));
	note_cqes("broken", &ring, 1);
}

/* Splices to a Unix socket go on until its buffer is full, although nobody reads. */
static void spliced_to_nobody(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };
	static const char data[160 << 10];
	enum { MESSAGE = 64 << 10 };
	int socks[2], ends[2];

	for (int i = 0; i < 3; i++) {
		struct uring ring = new_uring(8, 0);

		REQUIRE(socketpair(AF_UNIX, types[i], 0, socks) == 0);
		REQUIRE(pipe(ends) == 0);
		for (int k = 0; k < 3; k++) {
			REQUIRE(write(ends[1], data, MESSAGE) == MESSAGE);
			splice_of(&ring, ends[0], -1, socks[0], -1, MESSAGE);
			note_result("submit", uring_submit(&ring));
			note_cqes("message", &ring, 1);
		}
		if (types[i] != SOCK_STREAM)
			continue;
		REQUIRE(socketpair(AF_UNIX, types[i], 0, socks) == 0);
		REQUIRE(fcntl(ends[1], F_SETPIPE_SZ, 256 << 10) > 0);
		REQUIRE(write(ends[1], data, sizeof(data)) == sizeof(data));
		splice_of(&ring, ends[0], -1, socks[0], -1, sizeof(data));
		note_result("submit", uring_submit(&ring));
		note_cqes("from_large_pipe", &ring, 1);
	}
}

/* Splices that wait do not delay requests of another ring, however many they are. */
static void many_splices_wait(void)
{
	enum { MANY = 300 };
	struct uring ring = new_uring(512, 0), other = new_uring(8, 0);
	int in[2], out[2];

	REQUIRE(pipe(in) == 0 && pipe(out) == 0);
	for (int i = 0; i < MANY; i++)
		splice_of(&ring, in[0], -1, out[1], -1, 8);
	note_result("submit", uring_submit(&ring));
	sqe_rw(&other, IORING_OP_STATX, AT_FDCWD, "/", STATX_TYPE,
	       (int64_t)(uintptr_t)buf);
	note_result("submit", uring_submit(&other));
	note_cqes("statx", &other, 1);
	close(in[1]);
	note("splices_end", uring_wait(&ring, MANY));
}

const struct row rows_uring_link[] = {
	ROW("a chain runs in its order", chain),
	ROW("a chain breaks where a request fails", chain_breaks),
	ROW("a late failure in a chain that breaks", late_chain),
	ROW("a hard chain does not break", hard_chain),
	ROW("both links together", both_links),
	ROW("a chain ends with its submission", open_end),
	ROW("a short read breaks a chain", short_read_breaks),
	ROW("a write, a sync and a read in a chain", write_then_read),
	ROW("a close in a chain", open_then_close),
	ROW("a file is copied by linked splices", copied),
	ROW("splices to a Unix socket that nobody reads", spliced_to_nobody),
	ROW("many splices wait", many_splices_wait),
	ROW("a chain whose first is refused", refused_first),
	ROW("a chain whose second is refused", refused_second),
	ROW("a chain that is submitted in part", submitted_in_part),
	ROW("a drain waits for all before it", drain_waits),
	ROW("a drain of nothing", drain_of_nothing),
	ROW("a drain of a mistake ends its submission", drain_of_mistake),
	ROW("a drain inside a chain", drain_in_chain),
	ROW("a drain and a refusal behind it", drain_and_refusal),
	ROW("requests after a drain are held", all_behind_drain),
	ROW("a linked timeout expires", timeout_expires),
	ROW("a linked timeout that is not needed", timeout_not_needed),
	ROW("a linked timeout inside a chain", timeout_in_chain),
	ROW("a linked timeout of a timeout", timeout_of_timeout),
	ROW("a linked timeout that is not linked", timeout_alone),
	ROW("a linked timeout's fields", timeout_fields),
	NO_ROW,
};

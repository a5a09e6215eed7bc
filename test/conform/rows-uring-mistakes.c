/* SPDX-License-Identifier: MIT */
/*
 * Mistakes that random requests have found (test/uring/fuzz.py): when each is found, what
 * of a submission goes on behind it, and what it uses up.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "uring.h"

static char data[4096];

static void pair_of(int type, int fds[2])
{
	REQUIRE(socketpair(AF_UNIX, type, 0, fds) == 0);
}

static int listening(int domain)
{
	struct sockaddr_in inet = { .sin_family = AF_INET };
	sa_family_t local = AF_UNIX;
	int fd = socket(domain, SOCK_STREAM, 0);

	inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(fd >= 0);
	if (domain == AF_UNIX)
		REQUIRE(bind(fd, (void *)&local, sizeof(local)) == 0);
	else
		REQUIRE(bind(fd, (void *)&inet, sizeof(inet)) == 0);
	REQUIRE(listen(fd, 4) == 0);
	return fd;
}

/* Submits what is prepared, and notes how many are taken, and how nr end. */
static void note_call(const char *key, struct uring *ring, uint32_t nr)
{
	char text[64];

	snprintf(text, sizeof(text), "%s.taken", key);
	note_result(text, uring_submit(ring));
	note_cqes(key, ring, nr);
	/* What is not taken is not the next call's. */
	*ring->sq_tail = ring->prepared = *ring->sq_head;
}

/*
 * Memory
 */

static const struct {
	const char *key;
	uint64_t addr;
	uint32_t len;
	bool is_possible;
} places[] = {
	{ "last", ~UINT64_C(0), 64, false },
	{ "last.empty", ~UINT64_C(0), 0, false },
	{ "kernel", UINT64_C(1) << 63, 64, false },
	{ "kernel.empty", UINT64_C(1) << 63, 0, false },
	{ "null", 0, 4, true },
	{ "null.empty", 0, 0, true },
};

static void moves_at_any_place(int opcode, bool is_vector, int nr)
{
	struct uring ring = new_uring(8, 0);
	int fd = open(".", O_PATH);

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct iovec iovs[2] = {
			{ (void *)(uintptr_t)places[i].addr, places[i].len },
			{ data, 1 },
		};
		struct io_uring_sqe *sqe = sqe_of(&ring, opcode, fd);

		sqe->addr = is_vector ? (uintptr_t)iovs : places[i].addr;
		sqe->len = is_vector ? (uint32_t)nr : places[i].len;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_call(places[i].key, &ring, places[i].is_possible ? 2 : 1);
	}
}

static void memory_of_nobody(void)
{
	static const int opcodes[] = { IORING_OP_READ, IORING_OP_WRITE };

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		moves_at_any_place(opcodes[i], false, 0);
}

static void vectors_of_nobody(void)
{
	for (int nr = 1; nr <= 2; nr++) {
		moves_at_any_place(IORING_OP_READV, true, nr);
		moves_at_any_place(IORING_OP_WRITEV, true, nr);
	}
}

/*
 * Chains, and what a call takes
 */

static void mistakes_of_a_file(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 4096, O_RDWR), fds[2];
	struct io_uring_sqe *sqe;

	pair_of(SOCK_STREAM, fds);
	sqe = sqe_rw(&ring, IORING_OP_READ, fd, data, 8, 0);
	sqe->flags = IOSQE_IO_HARDLINK;
	sqe->rw_flags = 0x10000;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_call("flag", &ring, 2);
	sqe = sqe_rw(&ring, IORING_OP_READ, fd, data, 8, (uint64_t)-2);
	sqe->flags = IOSQE_IO_HARDLINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_call("offset", &ring, 2);
	sqe_of(&ring, IORING_OP_NOP, -1)->flags = IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_READ, fd, data, 8, (uint64_t)-2);
	note_call("offset.second", &ring, 2);
	sqe = sqe_rw(&ring, IORING_OP_READ, fds[0], data, 8, 0);
	sqe->flags = IOSQE_IO_LINK;
	sqe->rw_flags = RWF_NOWAIT;
	sqe_rw(&ring, IORING_OP_READ, fd, data, 8, (uint64_t)-2);
	note_call("offset.behind_one_that_fails", &ring, 2);
	sqe = sqe_rw(&ring, IORING_OP_WRITE, fd, (void *)(intptr_t)-1, 8, 0);
	sqe->flags = IOSQE_IO_HARDLINK;
	sqe_rw(&ring, IORING_OP_READ, fds[0], data, 8, 0);
	note_call("memory", &ring, 2);
}

static void attributes(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 4096, O_RDWR);
	struct io_uring_sqe *sqe;

	for (int k = 0; k < 2; k++) {
		sqe = sqe_rw(&ring, IORING_OP_FSETXATTR, fd, "user.x",
			     k ? XATTR_SIZE_MAX + 1 : 4, (uintptr_t)data);
		sqe->xattr_flags = k ? 0 : 4;
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_call(k ? "size" : "flag", &ring, 1);
	}
	for (int k = 0; k < 2; k++) {
		sqe_rw(&ring, k ? IORING_OP_FSETXATTR : IORING_OP_FGETXATTR,
		       open(".", O_PATH), NULL, 4, (uintptr_t)data);
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_call(k ? "name.set" : "name.get", &ring, 1);
	}
}

static void flags_of_newer_kernels(void)
{
	struct uring ring = new_uring(8, 0);
	int fd = file_of("f", 4096, O_RDWR);

	for (unsigned flag = 0x40; flag <= 0x100; flag *= 2) {
		char key[32];

		snprintf(key, sizeof(key), "hipri_%#x", flag);
		sqe_rw(&ring, IORING_OP_WRITE, fd, data, 8, 0)->rw_flags =
			(int)(RWF_HIPRI | flag);
		try_sqe(key, &ring);
	}
}

/*
 * What cannot wait
 */

static void splice_of_one_that_listens(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe = sqe_of(&ring, IORING_OP_SPLICE, fds[1]);
	sqe->splice_fd_in = listening(AF_INET);
	sqe->splice_off_in = sqe->off = (uint64_t)-1;
	sqe->len = 100;
	try_sqe("splice", &ring);
}

static void polls_once(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	pair_of(SOCK_STREAM, fds);
	sqe = sqe_of(&ring, IORING_OP_POLL_ADD, fds[0]);
	sqe->poll32_events = EPOLLOUT | EPOLLONESHOT;
	sqe->len = IORING_POLL_ADD_MULTI;
	try_sqe("once", &ring);
}

/* Who has no child is told so at the address, too. */
static void no_children(void)
{
	struct uring ring = new_uring(8, 0);
	siginfo_t info;
	struct io_uring_sqe *sqe;

	for (int k = 0; k < 4; k++) {
		char key[32];

		memset(&info, 0xff, sizeof(info));
		sqe = sqe_of(&ring, OP_WAITID, 0);
		sqe->len = P_ALL;
		sqe->file_index = k & 1 ? WEXITED | WNOHANG : WEXITED;
		sqe->off = k & 2 ? 4096 : (uintptr_t)&info;
		snprintf(key, sizeof(key), "%s%s", k & 2 ? "no_memory" : "none",
			 k & 1 ? ".nohang" : "");
		try_sqe(key, &ring);
		note("signo", info.si_signo);
	}
}

const struct row rows_uring_mistakes[] = {
	ROW("memory that cannot be a client's", memory_of_nobody),
	ROW("vectors of such memory", vectors_of_nobody),
	ROW("what a file refuses is a result in a chain", mistakes_of_a_file),
	ROW("mistakes with attributes end a call", attributes),
	ROW("HIPRI with flags of newer kernels", flags_of_newer_kernels),
	ROW("a socket that listens is not spliced", splice_of_one_that_listens),
	ROW("many shots, and EPOLLONESHOT", polls_once),
	ROW("nobody is waited for", no_children),
	NO_ROW,
};

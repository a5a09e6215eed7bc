/* SPDX-License-Identifier: MIT */
/*
 * Sends from bad or very long memory, sends by a worker, and the second
 * completion of zero-copy sends.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sockets.h"
#include "streams.h"
#include "uring.h"
#include "older.h"

/* Flags that older headers lack. */
enum { RECVSEND_BUNDLE = 1 << 4, SEND_ZC_REPORT_USAGE = 1 << 3 };

enum { GROUP = 6, ENTRIES = 8, PART = 4096, CHUNK = 65536 };

/* No-ops between the send and the request that changes the send's buffer group. */
enum { BETWEEN = 4000 };

static char data[CHUNK], got[CHUNK];
static struct io_uring_buf_ring *array;

static void set_array(const struct uring *ring, uint16_t flags)
{
	struct buf_reg reg = { .ring_entries = ENTRIES,
			       .bgid = GROUP,
			       .flags = flags };

	array = pages_of(4096, PROT_READ | PROT_WRITE);
	reg.ring_addr = (uintptr_t)array;
	REQUIRE(uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1) ==
		0);
}

static void append(void *memory, uint32_t bytes)
{
	uint16_t tail = array->tail;
	struct io_uring_buf *buf =
		(struct io_uring_buf *)array + (tail & (ENTRIES - 1));

	buf->addr = (uintptr_t)memory;
	buf->len = bytes;
	buf->bid = tail;
	__atomic_store_n(&array->tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

static struct io_uring_sqe *selecting(struct uring *ring, int fd, uint32_t how,
				      uint32_t len)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_SEND, fd);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = (uint16_t)how;
	sqe->len = len;
	return sqe;
}

/* Prints a completion's result as a number, and all its flags. */
static void note_raw(const char *key, const struct io_uring_cqe *cqe)
{
	char text[64];

	if (cqe->res < 0 && cqe->res > -4096)
		snprintf(text, sizeof(text), "%s,%#x",
			 strerrorname_np(-cqe->res), cqe->flags);
	else
		snprintf(text, sizeof(text), "%d,%#x", cqe->res, cqe->flags);
	note_text(key, text);
}

/*
 * Waits for nr completions, and then until all other threads sleep. Prints all
 * completions.
 */
static void note_there(const char *key, struct uring *ring, uint32_t nr)
{
	struct io_uring_cqe cqe;

	REQUIRE(uring_wait(ring, nr));
	do
		uring_settle(ring);
	while (!others_sleep());
	note(key, uring_settle(ring));
	while (uring_take(ring, &cqe))
		note_raw(key, &cqe);
}

/* Waits for nr completions, and prints them. */
static void note_so_many(const char *key, struct uring *ring, uint32_t nr)
{
	struct io_uring_cqe cqe;

	REQUIRE(uring_wait(ring, nr));
	while (nr-- && uring_take(ring, &cqe))
		note_raw(key, &cqe);
}

/* Fills a socket until poll() reports no room, although some is left. */
static void fill_half(int fd)
{
	REQUIRE(send(fd, data, CHUNK, MSG_DONTWAIT) == CHUNK);
}

static void put_away(const struct uring *ring, const int fds[2])
{
	uring_unmap(ring);
	close(ring->fd);
	close(fds[0]);
	close(fds[1]);
}

/*
 * Return: memory of which `bytes` bytes are accessible, followed by inaccessible
 * memory.
 */
static char *short_memory(size_t bytes)
{
	char *pages = pages_of(2 * CHUNK, PROT_READ | PROT_WRITE);

	REQUIRE(mprotect(pages + CHUNK, CHUNK, PROT_NONE) == 0);
	return pages + CHUNK - bytes;
}

/*
 * Sends from a provided buffer that claims to have up to 4 GiB, of which 10 bytes are
 * accessible. Prints the buffer's length afterwards, because a send shortens an
 * incremental buffer.
 */
static void too_long(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	static const uint32_t buffers[] = { 10, 0x7fffffff, 0x80000000, ~0u };
	static const uint32_t lens[] = { 0, 5, 0x7fffffff };
	char key[64];

	for (unsigned i = 0; i < 3 * 4 * 3 * 4; i++) {
		const uint32_t bytes = buffers[i / 3 % 4], len = lens[i % 3];
		const bool is_bundle = i / 12 % 2;
		const uint16_t flags = i / 24 % 2 ? PBUF_RING_INC : 0;
		struct uring ring = new_uring(8, 0);
		const struct io_uring_buf *buf;
		int fds[2];

		pair_of(types[i / 48], fds);
		set_array(&ring, flags);
		append(short_memory(10), bytes);
		buf = (struct io_uring_buf *)array;
		selecting(&ring, fds[0], is_bundle ? RECVSEND_BUNDLE : 0, len);
		uring_submit(&ring);
		snprintf(key, sizeof(key), "type%d.%s%s.of%#x.len%#x",
			 types[i / 48], flags ? "parts" : "whole",
			 is_bundle ? ".bundle" : "", bytes, len);
		note_there(key, &ring, 1);
		note("left", buf->len);
		put_away(&ring, fds);
	}
}

static void note_head(const char *key, const struct uring *ring)
{
	struct buf_status status = { .group = GROUP };

	REQUIRE(uring_register(ring->fd, REGISTER_PBUF_STATUS, &status, 1) ==
		0);
	note(key, status.head);
}

/*
 * Sends or receives bundles of the buffers `bufs`, with each socket type, and with
 * whole or incremental buffers. Way 0 is a send, way 1 a multishot receive, way 2 a
 * send of 5 bytes.
 */
static void try_bundles(const char *name, const struct iovec *bufs, unsigned nr)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

	for (unsigned i = 0; i < 3 * 2 * 3; i++) {
		const uint16_t flags = i / 3 % 2 ? PBUF_RING_INC : 0;
		const unsigned way = i / 6;
		struct uring ring = new_uring(16, 0);
		struct io_uring_sqe *sqe;
		char key[64];
		int fds[2];

		pair_of(types[i % 3], fds);
		set_array(&ring, flags);
		for (unsigned k = 0; k < nr; k++)
			append(bufs[k].iov_base, (uint32_t)bufs[k].iov_len);
		sqe = selecting(&ring, fds[0], RECVSEND_BUNDLE,
				way == 2 ? 5 : 0);
		if (way == 1) {
			sqe->opcode = IORING_OP_RECV;
			sqe->ioprio |= IORING_RECV_MULTISHOT;
			/*
			 * Send two messages: the size of the second shot (completion)
			 * shows whether the first shot selected two buffers.
			 */
			for (unsigned k = 0; k < 2; k++)
				REQUIRE(send(fds[1], data, 25, 0) == 25);
		}
		uring_submit(&ring);
		snprintf(key, sizeof(key), "%s.type%d.%s.way%u", name,
			 types[i % 3], flags ? "parts" : "whole", way);
		note_there(key, &ring, 0);
		note_head("head", &ring);
		if (way != 1)
			note("got",
			     recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
		put_away(&ring, fds);
	}
}

/*
 * Bundles with buffers of 0 bytes. A send also uses up these buffers, except in an array
 * of incremental buffers.
 */
static void empty_buffers(void)
{
	const struct iovec bufs[] = {
		{ data, 10 }, { data, 0 },  { short_memory(10), ~0u },
		{ data, 0 },  { data, 10 }, { data, 10 },
		{ data, 0 }
	};

	try_bundles("long", bufs, 7);
	try_bundles("ends", bufs + 5, 2);
	try_bundles("middle", bufs + 3, 4);
	try_bundles("one", bufs + 6, 1);
}

/*
 * In each bundle, some buffers are inaccessible: their address is not in user memory,
 * or they begin just before the end of user memory.
 */
static void buffers_nowhere(void)
{
	char *const high = (void *)(uintptr_t)(UINT64_C(1) << 63);
	char *const end = (void *)(uintptr_t)0x7ffffffff000;
	const struct iovec bufs[] = {
		{ data, 10 },    { high, 10 }, { data, 10 }, { end, 10 },
		{ data, CHUNK }, { high, 10 }, { data, 10 }, { high, 100 },
		{ data, 10 },    { data, 5 },  { end, 100 }
	};

	try_bundles("alone", bufs + 1, 1);
	try_bundles("high", bufs, 3);
	try_bundles("end", bufs + 2, 3);
	try_bundles("behind", bufs + 4, 2);
	try_bundles("added", bufs + 6, 2);
	try_bundles("second", bufs + 8, 3);
}

/*
 * Multishot receives whose buffer is inaccessible. Only the first shot (completion)
 * checks its buffer before there is data.
 */
static void shots_nowhere(void)
{
	char *const high = (void *)(uintptr_t)(UINT64_C(1) << 63);
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM };

	for (unsigned i = 0; i < 2 * 8; i++) {
		const bool has_first = i & 1, is_bundle = i & 2;
		struct uring ring = new_uring(8, 0);
		struct io_uring_sqe *sqe;
		char key[32];
		int fds[2];

		pair_of(types[i / 8], fds);
		set_array(&ring, 0);
		if (has_first)
			append(data, 10);
		append(high, 10);
		REQUIRE(!has_first || send(fds[1], data, 10, 0) == 10);
		sqe = selecting(&ring, fds[0],
				IORING_RECV_MULTISHOT |
					(is_bundle ? RECVSEND_BUNDLE : 0),
				0);
		sqe->opcode = IORING_OP_RECV;
		if (i & 4)
			sqe->flags |= IOSQE_ASYNC;
		uring_submit(&ring);
		snprintf(key, sizeof(key), "shots.%u", i);
		note_there(key, &ring, 0);
		REQUIRE(send(fds[1], data, 10, 0) == 10);
		note_there("then", &ring, 0);
		note_head("head", &ring);
		put_away(&ring, fds);
	}
}

/*
 * Bundles with IOSQE_ASYNC. A send waits while its socket has no room. Once the socket
 * has room, the send fails with ECANCELED, because the kernel's worker finds no
 * buffers.
 */
static void bundles_of_threads(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET,
				     SOCK_STREAM | SOCK_NONBLOCK };

	for (unsigned i = 0; i < 4 * 4; i++) {
		const bool selects = i & 1, polls = i & 2;
		struct uring ring = new_uring(8, 0);
		struct io_uring_sqe *sqe;
		char key[32];
		int fds[2];

		pair_of(types[i / 4], fds);
		set_array(&ring, 0);
		append(data, 10);
		append(data, 10);
		snprintf(key, sizeof(key), "ready.%u", i);
		for (unsigned k = 0; k < 3; k++) {
			if (k == 1)
				snprintf(key, sizeof(key), "linked.%u", i);
			if (k == 1)
				sqe_of(&ring, IORING_OP_NOP, -1)->flags =
					IOSQE_IO_LINK;
			if (k == 2)
				snprintf(key, sizeof(key), "full.%u", i);
			if (k == 2)
				fill_stream(fds[0], 1000);
			if (selects)
				sqe = selecting(&ring, fds[0], 0, 0);
			else
				sqe = sqe_rw(&ring, IORING_OP_SEND, fds[0],
					     data, 10, 0);
			sqe->flags |= IOSQE_ASYNC;
			sqe->ioprio = RECVSEND_BUNDLE |
				      (polls ? IORING_RECVSEND_POLL_FIRST : 0);
			uring_submit(&ring);
			note_there(key, &ring, k < 2 ? k + 1 : 0);
		}
		drain_stream(fds[1]);
		note_there("emptied", &ring, 1);
		note("got", recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
		put_away(&ring, fds);
	}
}

static void send_all(struct uring *ring, unsigned how, int fd, char *memory,
		     struct iovec iov[2], struct msghdr *msg)
{
	struct io_uring_sqe *sqe;

	*msg = (struct msghdr){ .msg_iov = iov, .msg_iovlen = 2 };
	iov[0] = (struct iovec){ memory, CHUNK };
	iov[1] = (struct iovec){ memory + CHUNK, CHUNK };
	switch (how) {
	case 0:
		sqe_rw(ring, IORING_OP_SEND, fd, memory, 2 * CHUNK, 0)
			->msg_flags = MSG_WAITALL;
		break;
	case 1:
		sqe_rw(ring, IORING_OP_SEND, fd, memory, 2 * CHUNK, 0)->ioprio =
			RECVSEND_BUNDLE;
		break;
	case 2:
		sqe_rw(ring, IORING_OP_SENDMSG, fd, msg, 1, 0)->msg_flags =
			MSG_WAITALL;
		break;
	case 3:
		append(memory, 2 * CHUNK);
		sqe = selecting(ring, fd, 0, 0);
		sqe->msg_flags = MSG_WAITALL;
		break;
	case 4:
		append(memory, CHUNK);
		append(memory + CHUNK, CHUNK);
		selecting(ring, fd, RECVSEND_BUNDLE, 0);
		break;
	default: sqe_rw(ring, IORING_OP_SEND, fd, memory, 2 * CHUNK, 0); break;
	}
}

/*
 * Sends memory of which only a part is accessible. With MSG_WAITALL the request sends
 * this part, then waits for room to send the inaccessible part, and then fails.
 */
static void memory_ends(void)
{
	for (unsigned i = 0; i < 6 * 4; i++) {
		char *memory = short_memory(i & 2 ? CHUNK : CHUNK - PART - 7);
		const bool waits = i & 1 && i / 4 < 5;
		struct uring ring = new_uring(8, 0);
		struct iovec iov[2];
		struct msghdr msg;
		char key[32];
		int fds[2];

		pair_of(SOCK_STREAM, fds);
		set_array(&ring, 0);
		if (i & 1)
			fill_half(fds[0]);
		send_all(&ring, i / 4, fds[0], memory, iov, &msg);
		uring_submit(&ring);
		snprintf(key, sizeof(key), "way%u.%s", i / 4,
			 i & 1 ? "half" : "empty");
		note_there(key, &ring, !waits);
		drain_stream(fds[1]);
		note_there("emptied", &ring, waits);
		note("got", recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
		put_away(&ring, fds);
	}
}

/*
 * A send with IOSQE_ASYNC selects its buffer only after all requests of its submission
 * have started.
 */
static void chooses_late(void)
{
	for (unsigned i = 0; i < 8; i++) {
		struct uring ring = new_uring(BETWEEN + 2, 0);
		struct io_uring_sqe *sqe;
		const bool removes = i & 1, waits = i == 3 || i == 6;
		char key[32];
		int fds[2];

		pair_of(SOCK_STREAM, fds);
		if (removes)
			uring_provide(&ring, GROUP, data, 10, 0, 1);
		if (i & 2)
			fill_stream(fds[0], 1000);
		sqe = selecting(&ring, fds[0], 0, 0);
		if (i & 4)
			sqe->flags |= IOSQE_ASYNC;
		/*
		 * While these no-ops execute, a worker has time to select a buffer too
		 * early.
		 */
		for (unsigned k = 0; k < BETWEEN; k++)
			sqe_of(&ring, IORING_OP_NOP, -1)->flags =
				IOSQE_CQE_SKIP_SUCCESS;
		sqe = sqe_of(&ring,
			     removes ? IORING_OP_REMOVE_BUFFERS
				     : IORING_OP_PROVIDE_BUFFERS,
			     1);
		sqe->buf_group = GROUP;
		if (!removes) {
			sqe->addr = (uintptr_t)data;
			sqe->len = 10;
			sqe->off = 3;
		}
		uring_submit(&ring);
		snprintf(key, sizeof(key), "%s.%u",
			 removes ? "removed" : "provided", i);
		if (i & 2) {
			note_there(key, &ring, waits ? 1 : 2);
			drain_stream(fds[1]);
			note_there("emptied", &ring, waits);
		} else {
			REQUIRE(uring_wait(&ring, 2));
			note_cqes(key, &ring, 2);
			note("got",
			     recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
		}
	}
}

/*
 * Sends on a listening socket, which never becomes writable. A request with a mistake
 * fails without waiting for the socket.
 */
static void sends_to_a_listener(void)
{
	static const struct sockaddr_un address = { .sun_family = AF_UNIX,
						    .sun_path = "nobody" };

	for (unsigned i = 0; i < 8; i++) {
		const bool has_address = i & 1, selects = i & 2;
		struct uring ring = new_uring(8, 0);
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		struct io_uring_sqe *sqe;
		char key[32];

		REQUIRE(bind(fd, (const void *)&address,
			     sizeof(address.sun_family)) == 0 &&
			listen(fd, 1) == 0);
		set_array(&ring, 0);
		append(data, 10);
		sqe = selects ? selecting(&ring, fd, 0, 0)
			      : sqe_rw(&ring, IORING_OP_SEND, fd, data, 10, 0);
		if (i & 4)
			sqe->flags |= IOSQE_ASYNC;
		if (has_address)
			sqe->addr2 = (uintptr_t)&address;
		if (has_address)
			sqe->addr_len = sizeof(address);
		uring_submit(&ring);
		snprintf(key, sizeof(key), "send.%u", i);
		note_there(key, &ring, 1);
		uring_unmap(&ring);
		close(ring.fd);
		close(fd);
	}
}

static void try_zc(const char *name, struct uring *ring, int op, int fd,
		   const void *memory, size_t len, unsigned i)
{
	static const uint32_t flags[] = { 0, MSG_OOB, MSG_WAITALL,
					  MSG_DONTWAIT };
	struct io_uring_sqe *sqe = sqe_rw(ring, op, fd, memory, len, 0);
	char key[96];

	sqe->ioprio = (uint16_t)(i & 1 ? SEND_ZC_REPORT_USAGE : 0);
	sqe->msg_flags = flags[i / 2];
	uring_submit(ring);
	snprintf(key, sizeof(key), "%s.%s.flags%#x%s", name,
		 op == IORING_OP_SEND_ZC ? "send" : "message", flags[i / 2],
		 i & 1 ? ".reports" : "");
	note_so_many(key, ring, 2);
}

/* Sends the memory by SEND_ZC and by SENDMSG_ZC, with each set of flags. */
static void try_zcs(const char *name, struct uring *ring, int fd,
		    const void *memory, size_t len, const void *address,
		    size_t address_bytes)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)memory, len }, { 0 } };
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 1,
		.msg_name = (void *)(uintptr_t)address,
		.msg_namelen = (socklen_t)address_bytes,
	};

	for (unsigned i = 0; i < 8; i++) {
		if (!address)
			try_zc(name, ring, IORING_OP_SEND_ZC, fd, memory, len,
			       i);
		try_zc(name, ring, IORING_OP_SENDMSG_ZC, fd, &msg, 1, i);
	}
}

/*
 * Zero-copy sends of datagrams that fail. If the kernel found the error only after it
 * had begun the send, the send has a notification, too.
 */
static void notices_of_datagrams(void)
{
	struct sockaddr_in address, none = loopback();
	struct uring ring = new_uring(8, 0);
	int to = bound_inet(SOCK_DGRAM, &address);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	const size_t len = sizeof(address);

	try_zcs("nowhere", &ring, fd, data, 100, NULL, 0);
	try_zcs("no_port", &ring, fd, data, 100, &none, len);
	try_zcs("short", &ring, fd, data, 100, &address, 8);
	try_zcs("to", &ring, fd, data, 100, &address, len);
	try_zcs("to_null", &ring, fd, NULL, 100, &address, len);
	try_zcs("to_long", &ring, fd, data, CHUNK, &address, len);
	REQUIRE(connect(fd, (void *)&address, sizeof(address)) == 0);
	try_zcs("good", &ring, fd, data, 100, NULL, 0);
	try_zcs("large", &ring, fd, data, 40000, NULL, 0);
	try_zcs("nothing", &ring, fd, data, 0, NULL, 0);
	try_zcs("null", &ring, fd, NULL, 100, NULL, 0);
	try_zcs("null_large", &ring, fd, NULL, 40000, NULL, 0);
	try_zcs("null_long", &ring, fd, NULL, CHUNK, NULL, 0);
	try_zcs("long", &ring, fd, data, CHUNK, NULL, 0);
	try_zcs("ends", &ring, fd, short_memory(50), 100, NULL, 0);
	try_zcs("ends_later", &ring, fd, short_memory(20000), 40000, NULL, 0);
	drain_stream(to);
	close(to);
}

static void notices_of_streams(void)
{
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fd = socket(AF_INET, SOCK_STREAM, 0), fds[2];

	try_zcs("alone", &ring, fd, data, 100, NULL, 0);
	try_zcs("alone_null", &ring, fd, NULL, 100, NULL, 0);
	try_zcs("listens", &ring, listening(0, &address), data, 100, NULL, 0);
	tcp_pair(fds);
	try_zcs("good", &ring, fds[0], data, 100, NULL, 0);
	try_zcs("nothing", &ring, fds[0], data, 0, NULL, 0);
	try_zcs("null", &ring, fds[0], NULL, 100, NULL, 0);
	try_zcs("ends", &ring, fds[0], short_memory(50), 100, NULL, 0);
	try_zcs("ends_later", &ring, fds[0], short_memory(20000), 40000, NULL,
		0);
	shutdown(fds[0], SHUT_WR);
	try_zcs("shut", &ring, fds[0], data, 100, NULL, 0);
	pair_of(SOCK_STREAM, fds);
	try_zcs("unix", &ring, fds[0], data, 100, NULL, 0);
}

/*
 * Zero-copy sends from memory outside the registered buffer. With POLL_FIRST, the
 * kernel finds this error only once the socket is ready.
 */
static void polls_first(void)
{
	const struct iovec reg = { data, 100 };
	struct uring ring = new_uring(8, 0);
	struct sockaddr_in address;
	int fds[2], listener = listening(0, &address);

	tcp_pair(fds);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_BUFFERS, &reg, 1) == 0);
	for (unsigned i = 0; i < 8; i++) {
		struct iovec iov = { data, 200 };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		const bool waits = (i & 3) == 1;
		int fd = i & 1 ? listener : fds[0];
		struct io_uring_sqe *sqe;
		char key[32];

		if (i & 2)
			sqe = sqe_rw(&ring, IORING_OP_SENDMSG_ZC, fd, &msg, 1,
				     0);
		else
			sqe = sqe_rw(&ring, IORING_OP_SEND_ZC, fd, data,
				     i & 4 ? 0 : 200, 0);
		sqe->buf_index = i & 4 ? 7 : 0;
		sqe->ioprio = IORING_RECVSEND_POLL_FIRST |
			      IORING_RECVSEND_FIXED_BUF | SEND_ZC_REPORT_USAGE;
		uring_submit(&ring);
		snprintf(key, sizeof(key), "try.%u", i);
		note_there(key, &ring, waits ? 0 : 2);
	}
	for (unsigned i = 0; i < 2; i++) {
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, IORING_OP_SEND_ZC, i ? listener : fds[0],
			       data, 200, 0);

		sqe->ioprio =
			IORING_RECVSEND_POLL_FIRST | IORING_RECVSEND_FIXED_BUF;
		sqe->msg_flags = MSG_DONTWAIT;
		uring_submit(&ring);
		note_so_many("now", &ring, 2);
	}
}

const struct row rows_uring_send[] = {
	ROW("a send has a buffer that is too long", too_long),
	ROW("a thread is to send a bundle", bundles_of_threads),
	ROW("a bundle has buffers of no bytes", empty_buffers),
	ROW("a bundle has inaccessible buffers", buffers_nowhere),
	ROW("a multishot receive has an inaccessible buffer", shots_nowhere),
	ROW("a send of all meets the end of its memory", memory_ends),
	ROW("a send with IOSQE_ASYNC chooses its buffer", chooses_late),
	ROW("a send to a socket that listens fails at once",
	    sends_to_a_listener),
	ROW("notices of datagrams that are not copied", notices_of_datagrams),
	ROW("notices of streams that are not copied", notices_of_streams),
	ROW("a zero-copy send polls first, and fails", polls_first),
	NO_ROW,
};

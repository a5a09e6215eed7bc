/* SPDX-License-Identifier: MIT */
/*
 * Bundles (one request that uses several provided buffers), and multishot receives with
 * a limit
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets.h"
#include "uring.h"
#include "older.h"
#include "streams.h"

/* Flags that older headers lack. */
enum {
	RECVSEND_BUNDLE = 1 << 4,
	SEND_VECTORIZED = 1 << 5,
	FEAT_RECVSEND_BUNDLE = 1 << 14,
};

enum { GROUP = 7, BUFFERS = 512, BYTES = 10, ENTRIES = 512 };

static char memory[BUFFERS][BYTES], data[BUFFERS * BYTES], got[sizeof(data)];
static struct io_uring_buf_ring *array;

static void fill(void)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)('a' + i % 23);
}

static void new_pair(int type, int fds[2])
{
	fill();
	pair_of(type, fds);
}

static void set_array(const struct uring *ring, uint16_t flags)
{
	struct buf_reg reg = { .ring_entries = ENTRIES,
			       .bgid = GROUP,
			       .flags = flags };

	array = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(array != MAP_FAILED);
	reg.ring_addr = (uintptr_t)array;
	REQUIRE(uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1) ==
		0);
}

static void append_bytes(int bid, uint32_t bytes)
{
	uint16_t tail = array->tail;
	struct io_uring_buf *buf =
		(struct io_uring_buf *)array + (tail & (ENTRIES - 1));

	buf->addr = (uintptr_t)memory[bid];
	buf->len = bytes;
	buf->bid = (uint16_t)bid;
	__atomic_store_n(&array->tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

static void append(int first, int nr)
{
	for (int i = first; i < first + nr; i++)
		append_bytes(i, BYTES);
}

/* Provides nr buffers as a list: memory[first] and the elements after it. */
static void provide(struct uring *ring, int first, int nr)
{
	uring_provide(ring, GROUP, memory[first], BYTES, first, nr);
}

static struct uring prepare(uint16_t flags, int nr)
{
	struct uring ring = new_uring(16, 0);

	set_array(&ring, flags);
	append(0, nr);
	return ring;
}

static struct io_uring_sqe *selecting(struct uring *ring, int op, int fd,
				      uint32_t how, uint32_t len)
{
	struct io_uring_sqe *sqe = sqe_of(ring, op, fd);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = (uint16_t)how;
	sqe->len = len;
	return sqe;
}

static void note_head(const char *key, const struct uring *ring)
{
	struct buf_status status = { .group = GROUP };
	long ret = uring_register(ring->fd, REGISTER_PBUF_STATUS, &status, 1);
	char name[64];

	snprintf(name, sizeof(name), "%s.head", key);
	note(name, ret < 0 ? ret : (long)status.head);
}

static void note_raw(const char *key, const struct io_uring_cqe *cqe)
{
	char text[64];

	if (cqe->res < 0)
		snprintf(text, sizeof(text), "%s", strerrorname_np(-cqe->res));
	else
		snprintf(text, sizeof(text), "%d", cqe->res);
	if (cqe->flags)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 ",flags:%#x", cqe->flags);
	note_text(key, text);
}

/*
 * Waits until all other threads of the process sleep.
 * Return: how many completions the ring then has.
 */
static uint32_t settle(const struct uring *ring)
{
	do
		uring_settle(ring);
	while (!others_sleep());
	return uring_settle(ring);
}

/*
 * Prints all completions that have arrived, and how many buffers of an array are used.
 */
static void note_all(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;

	settle(ring);
	while (uring_take(ring, &cqe))
		note_raw(key, &cqe);
	note_head(key, ring);
}

/*
 * For several lengths, receives into an array of `nr` buffers. The bytes have arrived
 * before each receive is submitted.
 */
static void receive_some(const char *name, uint16_t array_flags, uint32_t how,
			 int nr)
{
	static const uint32_t lens[] = { 0, 5, 10, 15, 25, 1000 };
	static const size_t there[] = { 5, 10, 15, 25, 30, 35, 100 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		for (size_t k = 0; k < sizeof(there) / sizeof(there[0]); k++) {
			struct uring ring = prepare(array_flags, nr);
			char key[64];
			int fds[2];

			memset(memory, 0, sizeof(memory));
			new_pair(SOCK_STREAM, fds);
			send_bytes(fds[1], data, there[k]);
			selecting(&ring, IORING_OP_RECV, fds[0],
				  RECVSEND_BUNDLE | how, lens[i]);
			uring_submit(&ring);
			snprintf(key, sizeof(key), "%s.%d.len%u.of%zu", name,
				 nr, lens[i], there[k]);
			note_all(key, &ring);
			note("is_it",
			     memory[0][0] == 'a' && memory[0][4] == 'e');
			close(fds[0]);
			close(fds[1]);
			close(ring.fd);
			uring_unmap(&ring);
		}
	}
}

static void receives(void)
{
	receive_some("of", 0, 0, 1);
	receive_some("of", 0, 0, 3);
	receive_some("of", 0, 0, 8);
}

static void receives_again(void)
{
	receive_some("of", 0, IORING_RECV_MULTISHOT, 1);
	receive_some("of", 0, IORING_RECV_MULTISHOT, 3);
	receive_some("of", 0, IORING_RECV_MULTISHOT, 8);
}

/* With MSG_DONTWAIT, a receive from an empty socket ends at once and uses no buffer. */
static void receives_now(void)
{
	static const uint16_t flags[] = { 0, PBUF_RING_INC };

	for (int i = 0; i < 4; i++) {
		struct uring ring = prepare(flags[i % 2], 8);
		int fds[2];

		new_pair(SOCK_STREAM, fds);
		if (i >= 2)
			send_bytes(fds[1], data, 25);
		selecting(&ring, IORING_OP_RECV, fds[0],
			  RECVSEND_BUNDLE | IORING_RECV_MULTISHOT, 0)
			->msg_flags = MSG_DONTWAIT;
		note_result("submit", uring_submit(&ring));
		REQUIRE(uring_wait(&ring, 1));
		note_all(i < 2 ? "empty" : "some", &ring);
	}
}

/*
 * Receives into a buffer whose length or address is 0. Only a bundle checks these
 * values.
 */
static void receives_into_odd_ones(void)
{
	for (int i = 0; i < 4; i++) {
		struct uring ring = prepare(0, 2);
		struct io_uring_buf *bufs = (struct io_uring_buf *)array;
		struct io_uring_cqe cqe;
		int fds[2];

		if (i % 2)
			bufs[0].addr = 0;
		else
			bufs[0].len = 0;
		new_pair(SOCK_STREAM, fds);
		selecting(&ring, IORING_OP_RECV, fds[0],
			  RECVSEND_BUNDLE | IORING_RECV_MULTISHOT,
			  i < 2 ? 0 : 5);
		note_result("submit", uring_submit(&ring));
		note_all(i % 2 ? "null" : "empty", &ring);
		send_bytes(fds[1], data, 5);
		settle(&ring);
		while (uring_take(&ring, &cqe))
			note_cqe("data", &cqe);
	}
}

static void receives_into_parts(void)
{
	receive_some("of", PBUF_RING_INC, 0, 1);
	receive_some("of", PBUF_RING_INC, 0, 3);
	receive_some("of", PBUF_RING_INC, 0, 8);
}

static void receives_into_parts_again(void)
{
	receive_some("of", PBUF_RING_INC, IORING_RECV_MULTISHOT, 1);
	receive_some("of", PBUF_RING_INC, IORING_RECV_MULTISHOT, 3);
	receive_some("of", PBUF_RING_INC, IORING_RECV_MULTISHOT, 8);
}

static void receives_of_list(void)
{
	for (uint32_t how = 0; how <= IORING_RECV_MULTISHOT;
	     how += IORING_RECV_MULTISHOT) {
		for (uint32_t len = 0; len <= 50; len += 25) {
			struct uring ring = new_uring(16, 0);
			int fds[2];

			new_pair(SOCK_STREAM, fds);
			provide(&ring, 0, 4);
			send_bytes(fds[1], data, 25);
			selecting(&ring, IORING_OP_RECV, fds[0],
				  RECVSEND_BUNDLE | how, len);
			uring_submit(&ring);
			note_all(how ? "again" : "once", &ring);
			send_bytes(fds[1], data, 25);
			note_all("more", &ring);
		}
	}
}

static void receives_datagrams(void)
{
	static const int types[] = { SOCK_DGRAM, SOCK_SEQPACKET };

	for (size_t i = 0; i < 4; i++) {
		for (uint32_t len = 0; len <= 50; len += 50) {
			struct uring ring = prepare(0, 64);
			int fds[2];

			new_pair(types[i / 2], fds);
			send_bytes(fds[1], data, 25);
			send_bytes(fds[1], data, 25);
			selecting(&ring, IORING_OP_RECV, fds[0],
				  RECVSEND_BUNDLE |
					  (i % 2 ? IORING_RECV_MULTISHOT : 0),
				  len);
			uring_submit(&ring);
			note_all(len ? "limited" : "any", &ring);
		}
	}
}

static void waits(void)
{
	struct uring ring = prepare(0, 16);
	int fds[2];

	new_pair(SOCK_STREAM, fds);
	selecting(&ring, IORING_OP_RECV, fds[0],
		  RECVSEND_BUNDLE | IORING_RECV_MULTISHOT, 0);
	uring_submit(&ring);
	note_all("none", &ring);
	send_bytes(fds[1], data, 25);
	note_all("first", &ring);
	send_bytes(fds[1], data, 100);
	note_all("second", &ring);
	send_bytes(fds[1], data, 10);
	note_all("third", &ring);
	close(fds[1]);
	note_all("end", &ring);
	selecting(&ring, IORING_OP_RECV, fds[0], RECVSEND_BUNDLE, 0);
	uring_submit(&ring);
	note_all("again", &ring);
}

/*
 * Receives when no buffer is left. A multishot receive then ends only when further data
 * arrives.
 */
static void none_left(void)
{
	for (uint32_t how = 0; how <= RECVSEND_BUNDLE; how += RECVSEND_BUNDLE) {
		struct uring ring = prepare(0, 1);
		struct io_uring_cqe cqe;
		int fds[2];

		new_pair(SOCK_STREAM, fds);
		selecting(&ring, IORING_OP_RECV, fds[0],
			  IORING_RECV_MULTISHOT | how, 5);
		uring_submit(&ring);
		send_bytes(fds[1], data, 5);
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note_raw("first", &cqe);
		note("then", settle(&ring));
		send_bytes(fds[1], data, 5);
		note_all("more", &ring);
	}
}

static void send_some(const char *name, uint16_t array_flags, bool is_list,
		      int nr)
{
	static const uint32_t lens[] = { 0, 5, 10, 15, 25, 1000 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct uring ring =
			is_list ? new_uring(16, 0) : prepare(array_flags, nr);
		char key[64];
		int fds[2];

		if (is_list)
			provide(&ring, 0, nr);
		new_pair(SOCK_STREAM, fds);
		memcpy(memory, data, sizeof(memory));
		selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE,
			  lens[i]);
		uring_submit(&ring);
		snprintf(key, sizeof(key), "%s.len%u", name, lens[i]);
		note_all(key, &ring);
		note("got", recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
		note("is_it", !memcmp(got, data, 5));
		selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE, 0);
		uring_submit(&ring);
		note_all("none", &ring);
	}
}

static void sends(void)
{
	send_some("array", 0, false, 4);
	send_some("parts", PBUF_RING_INC, false, 4);
	send_some("list", 0, true, 4);
}

static void sends_many(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM };

	for (size_t i = 0; i < 2; i++) {
		struct uring ring = prepare(0, 300);
		int fds[2];

		new_pair(types[i], fds);
		selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE, 0);
		uring_submit(&ring);
		note_all("cqe", &ring);
		note("got", recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
		note("got", recv(fds[1], got, sizeof(got), MSG_DONTWAIT));
	}
}

static void fill_socket(int fd)
{
	fill_stream(fd, sizeof(data));
	fill_stream(fd, 1);
}

/*
 * A send that waits for room in the socket keeps all buffers of its bundle. Buffers
 * that the test case adds during the wait stay unused.
 */
static void waits_to_send(void)
{
	for (int i = 0; i < 3; i++) {
		struct uring ring = prepare(i == 2 ? PBUF_RING_INC : 0, 4);
		int fds[2];

		new_pair(SOCK_STREAM, fds);
		fill_socket(fds[0]);
		selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE,
			  i == 1 ? 15 : 0);
		uring_submit(&ring);
		note_all("waits", &ring);
		append(4, 2);
		drain_stream(fds[1]);
		note_all("sent", &ring);
		memcpy(memory, data, sizeof(memory));
	}
}

/*
 * A send of a bundle larger than the socket's buffer completes once all bytes are sent.
 */
static void sends_all(void)
{
	static char large[4][1 << 20];
	struct uring ring = new_uring(16, 0);
	size_t left = 3 << 20;
	int fds[2];

	set_array(&ring, 0);
	for (int i = 0; i < 4; i++) {
		append_bytes(i, sizeof(large[0]));
		((struct io_uring_buf *)array)[i].addr = (uintptr_t)large[i];
	}
	new_pair(SOCK_STREAM, fds);
	selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE, 3 << 20);
	uring_submit(&ring);
	note_all("begun", &ring);
	while (left) {
		ssize_t part = recv(fds[1], got, sizeof(got), MSG_DONTWAIT);

		if (part > 0)
			left -= (size_t)part;
		else
			uring_settle(&ring);
	}
	note_all("sent", &ring);
}

/*
 * Without IOSQE_BUFFER_SELECT, a SEND with RECVSEND_BUNDLE sends the memory that the
 * SQE names. In the kernel, if this send did not have to wait, the request then sends
 * again, with no bytes.
 */
static void sends_own(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

	for (int i = 0; i < 12; i++) {
		struct uring ring = new_uring(16, 0);
		char key[32];
		ssize_t part;
		int fds[2];

		new_pair(types[i / 4], fds);
		selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE,
			  i % 2 ? 10 : 0)
			->flags = i % 4 < 2 ? 0 : IOSQE_IO_LINK;
		ring.sqes[0].addr = (uintptr_t)data;
		if (i % 4 >= 2)
			sqe_of(&ring, IORING_OP_NOP, -1);
		uring_submit(&ring);
		snprintf(key, sizeof(key), "sent.%d", i);
		note_all(key, &ring);
		while ((part = recv(fds[1], got, sizeof(got), MSG_DONTWAIT)) >=
		       0)
			note("part", part);
	}
}

static struct io_uring_sqe *own(struct uring *ring, int fd, size_t len)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_SEND, fd, data, len, 0);

	sqe->ioprio = RECVSEND_BUNDLE;
	return sqe;
}

static void sends_own_in_vain(void)
{
	struct uring ring = new_uring(16, 0);
	int fds[2];

	new_pair(SOCK_STREAM, fds);
	own(&ring, fds[0], 10)->flags = IOSQE_ASYNC;
	try_sqe("async", &ring);
	own(&ring, fds[0], 10)->addr = 1;
	try_sqe("no_memory", &ring);
	fill_socket(fds[0]);
	own(&ring, fds[0], 10)->msg_flags = MSG_DONTWAIT;
	try_sqe("full", &ring);
	own(&ring, fds[0], sizeof(data));
	uring_submit(&ring);
	note_all("waits", &ring);
	while (!uring_settle(&ring))
		(void)recv(fds[1], got, sizeof(got), MSG_DONTWAIT);
	note_all("sent", &ring);
	drain_stream(fds[1]);
	own(&ring, fds[0], 10)->ioprio |= IORING_RECVSEND_POLL_FIRST;
	uring_submit(&ring);
	note_all("polled", &ring);
	close(fds[1]);
	own(&ring, fds[0], 10)->msg_flags = MSG_NOSIGNAL;
	try_sqe("gone", &ring);
}

static void send_fails(void)
{
	for (int i = 0; i < 6; i++) {
		struct uring ring =
			i / 2 == 1 ? new_uring(16, 0)
				   : prepare(i / 2 ? PBUF_RING_INC : 0, 4);
		const uint32_t how = i % 2 ? RECVSEND_BUNDLE : 0;
		int fds[2];

		if (i / 2 == 1)
			provide(&ring, 0, 4);
		new_pair(SOCK_STREAM, fds);
		fill_socket(fds[0]);
		selecting(&ring, IORING_OP_SEND, fds[0], how, 0)->msg_flags =
			MSG_DONTWAIT;
		uring_submit(&ring);
		REQUIRE(uring_wait(&ring, 1));
		note_all("full", &ring);
		if (i / 2 == 1)
			provide(&ring, 0, 4);
		else
			append(4, 2);
		selecting(&ring, IORING_OP_SEND, fds[0], how, 0);
		uring_submit(&ring);
		close(fds[1]);
		REQUIRE(uring_wait(&ring, 1));
		note_all("gone", &ring);
	}
}

static void mistakes(void)
{
	static const uint8_t ops[] = { IORING_OP_SENDMSG, IORING_OP_RECVMSG,
				       IORING_OP_SEND_ZC,
				       IORING_OP_SENDMSG_ZC };
	struct iovec iov = { data, 10 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct uring ring = prepare(0, 8);
	struct io_uring_sqe *sqe;
	int fds[2];

	new_pair(SOCK_STREAM, fds);
	note("feature", !!(ring.params.features & FEAT_RECVSEND_BUNDLE));
	for (size_t i = 0; i < 8; i++) {
		sqe = selecting(&ring, ops[i / 2], fds[0], RECVSEND_BUNDLE, 1);
		sqe->addr = (uintptr_t)&msg;
		if (i % 2) {
			sqe->flags = 0;
			sqe->buf_group = 0;
		}
		uring_submit(&ring);
		uring_wait(&ring, 1);
		note_all("op", &ring);
	}
	selecting(&ring, IORING_OP_RECV, fds[0], RECVSEND_BUNDLE, 0)
		->buf_group = 9;
	try_sqe("no_group", &ring);
	selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE, 0)
		->buf_group = 9;
	try_sqe("no_group", &ring);
	selecting(&ring, IORING_OP_SEND, fds[0], RECVSEND_BUNDLE, 0)->flags |=
		IOSQE_ASYNC;
	try_sqe("async", &ring);
	send_bytes(fds[1], data, 10);
	sqe = selecting(&ring, IORING_OP_RECV, fds[0], RECVSEND_BUNDLE, 4);
	sqe->flags = 0;
	sqe->buf_group = 0;
	sqe->addr = (uintptr_t)got;
	try_sqe("unselected", &ring);
	for (int bit = 6; bit < 16; bit++) {
		selecting(&ring, IORING_OP_RECV, fds[0], 1u << bit, 0);
		try_sqe("recv_bit", &ring);
		selecting(&ring, IORING_OP_SEND, fds[0], 1u << bit, 0);
		try_sqe("send_bit", &ring);
	}
	note_head("end", &ring);
}

/*
 * A receive with MSG_WAITALL waits until its selected buffer is full, or until the
 * SQE's length has arrived.
 */
static void waits_for_all(void)
{
	static const uint32_t lens[] = { 0, 7, 25 };

	for (size_t i = 0; i < 12; i++) {
		struct uring ring = i & 1 ? new_uring(16, 0) : prepare(0, 6);
		struct io_uring_cqe cqe;
		int fds[2];

		if (i & 1)
			provide(&ring, 0, 6);
		memset(memory, 0, sizeof(memory));
		new_pair(SOCK_STREAM, fds);
		send_bytes(fds[1], data, 4);
		selecting(&ring, IORING_OP_RECV, fds[0], 0, lens[i / 4])
			->msg_flags = MSG_WAITALL;
		uring_submit(&ring);
		note_all("four", &ring);
		REQUIRE(send(fds[1], data + 4, 2, 0) == 2);
		note_all("six", &ring);
		if (i & 2)
			close(fds[1]);
		else
			REQUIRE(send(fds[1], data + 6, 40, 0) == 40);
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note_cqe("all", &cqe);
		note("is_it", !memcmp(memory[0], data, 6));
		note("left", recv(fds[0], got, sizeof(got), MSG_DONTWAIT));
	}
}

/* Cancels a receive with MSG_WAITALL, and prints its result and flags. */
static void waits_for_all_in_vain(void)
{
	for (uint32_t how = 0; how <= RECVSEND_BUNDLE; how += RECVSEND_BUNDLE) {
		struct uring ring = prepare(0, 4);
		struct io_uring_sqe *sqe;
		int fds[2];

		new_pair(SOCK_STREAM, fds);
		send_bytes(fds[1], data, 4);
		selecting(&ring, IORING_OP_RECV, fds[0], how, 0)->msg_flags =
			MSG_WAITALL;
		uring_submit(&ring);
		sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
		sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY;
		uring_submit(&ring);
		note_cqes("cqe", &ring, 2);
	}
}

/* A bundle with MSG_WAITALL waits until its selected buffers are full. */
static void bundle_waits_for_all(void)
{
	for (int is_list = 0; is_list < 2; is_list++) {
		struct uring ring = is_list ? new_uring(16, 0) : prepare(0, 6);
		struct io_uring_cqe cqe;
		int fds[2];

		if (is_list)
			provide(&ring, 0, 6);
		memset(memory, 0, sizeof(memory));
		new_pair(SOCK_STREAM, fds);
		send_bytes(fds[1], data, 4);
		selecting(&ring, IORING_OP_RECV, fds[0], RECVSEND_BUNDLE, 25)
			->msg_flags = MSG_WAITALL;
		uring_submit(&ring);
		note("ready", settle(&ring));
		REQUIRE(send(fds[1], data + 4, 40, 0) == 40);
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note_raw("all", &cqe);
		note("is_it", !memcmp(memory[0], data, 20));
	}
}

static void chains(void)
{
	static const uint32_t lens[] = { 0, 7, 25 };

	for (size_t i = 0; i < 12; i++) {
		struct uring ring = prepare(0, 6);
		struct io_uring_sqe *sqe;
		int fds[2];

		new_pair(SOCK_STREAM, fds);
		send_bytes(fds[1], data, 4);
		if (i & 1)
			send_bytes(fds[1], data, 30);
		shutdown(fds[1], SHUT_WR);
		sqe = selecting(&ring, IORING_OP_RECV, fds[0],
				i & 2 ? RECVSEND_BUNDLE : 0, lens[i / 4]);
		sqe->msg_flags = MSG_WAITALL;
		sqe->flags |= IOSQE_IO_LINK;
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_submit(&ring);
		note_cqes("cqe", &ring, 2);
	}
}

/*
 * A multishot receive's limit is a number of bytes, for all its shots (completions)
 * together.
 */
static void limits(void)
{
	static const uint32_t nrs[] = { 5, 10, 15, 20, 25, 1000 };

	for (size_t i = 0; i < 24; i++) {
		struct uring ring = prepare(0, 30);
		const bool is_bundle = i & 1;
		struct io_uring_cqe cqe;
		int fds[2];

		new_pair(SOCK_STREAM, fds);
		send_bytes(fds[1], data, 40);
		selecting(&ring, IORING_OP_RECV, fds[0],
			  IORING_RECV_MULTISHOT |
				  (is_bundle ? RECVSEND_BUNDLE : 0),
			  i & 2 ? 7 : 0)
			->file_index = nrs[i / 4];
		uring_submit(&ring);
		if (is_bundle)
			note_all("bundle", &ring);
		settle(&ring);
		while (uring_take(&ring, &cqe))
			note_cqe("cqe", &cqe);
		note_head("cqe", &ring);
	}
}

static void wrong_limits(void)
{
	struct uring ring = prepare(0, 30);
	struct msghdr msg = { .msg_iov = NULL };
	struct io_uring_sqe *sqe;
	int fds[2];

	new_pair(SOCK_STREAM, fds);
	send_bytes(fds[1], data, 40);
	selecting(&ring, IORING_OP_RECV, fds[0], 0, 0)->file_index = 5;
	try_sqe("once", &ring);
	selecting(&ring, IORING_OP_RECV, fds[0], RECVSEND_BUNDLE, 0)
		->file_index = 5;
	try_sqe("bundle", &ring);
	for (uint32_t how = 0; how <= IORING_RECV_MULTISHOT;
	     how += IORING_RECV_MULTISHOT) {
		sqe = selecting(&ring, IORING_OP_RECVMSG, fds[0], how, 1);
		sqe->file_index = 5;
		sqe->addr = (uintptr_t)&msg;
		try_sqe("message", &ring);
	}
}

static void new_tcp_pair(int fds[2])
{
	fill();
	tcp_pair(fds);
}

/* Prepares a vectored send. The callers may then change fields of its SQE. */
static struct io_uring_sqe *send_vectors(struct uring *ring, int op, int fd,
					 const struct iovec *iov, size_t nr)
{
	struct io_uring_sqe *sqe = sqe_rw(ring, op, fd, iov, nr, 0);

	sqe->ioprio = SEND_VECTORIZED;
	return sqe;
}

static void try_vectors(const char *key, struct uring *ring, int op, int fd)
{
	struct io_uring_cqe cqe;

	uring_submit(ring);
	REQUIRE(uring_wait(ring, op == IORING_OP_SEND ? 1 : 2));
	while (uring_take(ring, &cqe))
		note_cqe(key, &cqe);
	note("got", recv(fd, got, sizeof(got), MSG_DONTWAIT));
}

static void vectors_by(int op)
{
	struct iovec iov[3] = { { data, 10 }, { data + 20, 5 }, { NULL, 0 } };
	struct iovec reg = { data, sizeof(data) };
	struct uring ring = new_uring(16, 0);
	struct io_uring_sqe *sqe;
	int fds[2];

	new_tcp_pair(fds);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_BUFFERS, &reg, 1) == 0);
	for (size_t nr = 0; nr < 4; nr++) {
		send_vectors(&ring, op, fds[0], iov, nr);
		try_vectors("nr", &ring, op, fds[1]);
	}
	note("is_it", !memcmp(got + 10, data + 20, 5));
	send_vectors(&ring, op, fds[0], iov, 1025);
	try_vectors("many", &ring, op, fds[1]);
	send_vectors(&ring, op, fds[0], iov, (size_t)-1);
	try_vectors("negative", &ring, op, fds[1]);
	send_vectors(&ring, op, fds[0], NULL, 2);
	try_vectors("null", &ring, op, fds[1]);
	iov[1].iov_base = (void *)1;
	send_vectors(&ring, op, fds[0], iov, 2);
	try_vectors("bad_memory", &ring, op, fds[1]);
	iov[1] = (struct iovec){ data + 20, (size_t)-1 };
	send_vectors(&ring, op, fds[0], iov, 2);
	try_vectors("bad_length", &ring, op, fds[1]);
	iov[1].iov_len = 5;
	sqe = send_vectors(&ring, op, fds[0], iov, 2);
	sqe->ioprio |= IORING_RECVSEND_FIXED_BUF;
	try_vectors("fixed", &ring, op, fds[1]);
	sqe = send_vectors(&ring, op, fds[0], iov, 2);
	sqe->msg_flags = MSG_WAITALL;
	try_vectors("waitall", &ring, op, fds[1]);
	sqe = send_vectors(&ring, op, fds[0], iov, 2);
	sqe->flags = IOSQE_ASYNC;
	try_vectors("async", &ring, op, fds[1]);
}

static void vectors(void)
{
	vectors_by(IORING_OP_SEND);
}

static void vectors_zc(void)
{
	vectors_by(IORING_OP_SEND_ZC);
}

/* The data of a zero-copy message (SENDMSG_ZC) may lie in a registered buffer. */
static void message_of_a_buffer(void)
{
	const struct iovec reg = { data, 100 };
	struct iovec iov[2] = { { data, 10 }, { data + 20, 5 } };
	struct msghdr msg = { .msg_iov = iov };
	struct uring ring = new_uring(16, 0);
	int fds[2];

	new_tcp_pair(fds);
	for (int i = 0; i < 6; i++) {
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, IORING_OP_SENDMSG_ZC, fds[0], &msg, 1, 0);
		char key[32];

		sqe->ioprio = IORING_RECVSEND_FIXED_BUF |
			      (i == 5 ? SEND_VECTORIZED : 0);
		sqe->flags = i == 1 ? IOSQE_ASYNC : 0;
		iov[1].iov_base = data + (i == 2 ? 98 : 20);
		iov[1].iov_len = i == 3 ? 0 : 5;
		msg.msg_iovlen = i == 4 ? 0 : 2;
		snprintf(key, sizeof(key), "try.%d", i);
		try_vectors(key, &ring, IORING_OP_SENDMSG_ZC, fds[1]);
		if (i == 0)
			note_result("reg",
				    uring_register(ring.fd,
						   IORING_REGISTER_BUFFERS,
						   &reg, 1));
	}
}

/*
 * Submits vectored sends that select a provided buffer. Also sets SEND_VECTORIZED in
 * operations other than SEND and SEND_ZC.
 */
static void other_vectors(void)
{
	struct iovec iov[2] = { { data, 10 }, { data + 20, 5 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct uring ring = prepare(0, 8);
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t len = sizeof(address);
	struct io_uring_sqe *sqe;
	int fds[2], to = socket(AF_INET, SOCK_DGRAM, 0);
	int from = socket(AF_INET, SOCK_DGRAM, 0);

	new_tcp_pair(fds);
	for (size_t nr = 0; nr <= 5; nr += 5) {
		sqe = send_vectors(&ring, IORING_OP_SEND, fds[0], NULL, nr);
		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
		try_sqe("selects", &ring);
		sqe = send_vectors(&ring, IORING_OP_SEND, fds[0], iov, nr);
		sqe->ioprio |= RECVSEND_BUNDLE;
		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
		uring_submit(&ring);
		note_all("bundle", &ring);
		append(0, 8);
	}
	send_vectors(&ring, IORING_OP_SENDMSG, fds[0], (void *)&msg, 1);
	try_sqe("message", &ring);
	send_vectors(&ring, IORING_OP_RECV, fds[0], iov, 2);
	try_sqe("recv", &ring);
	send_vectors(&ring, IORING_OP_RECVMSG, fds[0], (void *)&msg, 1);
	try_sqe("recvmsg", &ring);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(bind(to, (void *)&address, len) == 0);
	REQUIRE(getsockname(to, (void *)&address, &len) == 0);
	sqe = send_vectors(&ring, IORING_OP_SEND, from, iov, 2);
	sqe->addr2 = (uintptr_t)&address;
	sqe->addr_len = sizeof(address);
	try_sqe("to", &ring);
	note("got", recv(to, got, sizeof(got), MSG_DONTWAIT));
	sqe = selecting(&ring, IORING_OP_SEND, from, RECVSEND_BUNDLE, 15);
	sqe->addr2 = (uintptr_t)&address;
	sqe->addr_len = sizeof(address);
	uring_submit(&ring);
	note_all("bundle_to", &ring);
	note("got", recv(to, got, sizeof(got), MSG_DONTWAIT));
	note("got", recv(to, got, sizeof(got), MSG_DONTWAIT));
}

enum { NR_SOCKETS = 3, ATTEMPTS = 20 };

/*
 * Consumes nr completions and describes their order: "0*33 1*33" stands for 33
 * completions of the first socket, then 33 of the second.
 * Return: the largest lead, which is the number of completions that one socket had more
 * than another at some time.
 */
static unsigned describe_turns(struct uring *ring, uint32_t nr, char *ret,
			       size_t bytes)
{
	unsigned furthest = 0, in_a_row = 0, counts[NR_SOCKETS] = { 0 };
	uint64_t last = NR_SOCKETS;
	size_t at = 0;

	ret[0] = '\0';
	REQUIRE(uring_wait(ring, nr));
	for (uint32_t i = 0; i <= nr; i++) {
		struct io_uring_cqe cqe = { .user_data = NR_SOCKETS };

		REQUIRE(i == nr || uring_take(ring, &cqe));
		if (in_a_row && cqe.user_data != last && at < bytes) {
			at += (size_t)snprintf(ret + at, bytes - at, "%d*%u ",
					       (int)last, in_a_row);
			in_a_row = 0;
		}
		last = cqe.user_data;
		in_a_row++;
		if (last == NR_SOCKETS)
			continue;
		counts[last]++;
		for (int other = 0; other < NR_SOCKETS; other++)
			if (counts[last] > counts[other] + furthest)
				furthest = counts[last] - counts[other];
	}
	return furthest;
}

/*
 * Sends messages, each as large as one buffer, to several sockets. Receives them by a
 * multishot receive on each socket.
 * Return: the largest lead. *ret: the order of the completions (describe_turns()).
 */
static unsigned take_turns(uint32_t how, uint32_t len, unsigned nr_messages,
			   uint32_t nr_completions, char *ret, size_t bytes)
{
	struct uring ring = new_uring(128, 0);
	int fds[NR_SOCKETS][2];
	unsigned furthest;

	set_array(&ring, 0);
	append(0, (int)nr_messages * NR_SOCKETS);
	for (int i = 0; i < NR_SOCKETS; i++) {
		new_pair(SOCK_STREAM, fds[i]);
		for (unsigned k = 0; k < nr_messages; k++)
			send_bytes(fds[i][1], data, BYTES);
		selecting(&ring, IORING_OP_RECV, fds[i][0],
			  IORING_RECV_MULTISHOT | how, len)
			->user_data = (uint64_t)i;
	}
	REQUIRE(uring_submit(&ring) == NR_SOCKETS);
	furthest = describe_turns(&ring, nr_completions, ret, bytes);
	close(ring.fd);
	uring_unmap(&ring);
	for (int i = 0; i < NR_SOCKETS; i++) {
		close(fds[i][0]);
		close(fds[i][1]);
	}
	return furthest;
}

/*
 * Prints in which order the multishot receives of take_turns() complete. `turn` is the
 * largest lead that the test case accepts: how many completions one socket may be ahead
 * of another. A thread of the library may receive from the first sockets before the
 * program's thread has submitted the last receive. The lead may then be larger, so the
 * test case tries again.
 */
static void note_turns(const char *key, uint32_t how, uint32_t len,
		       unsigned nr_messages, uint32_t nr_completions,
		       unsigned turn)
{
	char text[256];

	for (int i = 0; i < ATTEMPTS; i++)
		if (take_turns(how, len, nr_messages, nr_completions, text,
			       sizeof(text)) <= turn)
			break;
	note_text(key, text);
}

static void take_turns_to_receive(void)
{
	note_turns("receives", 0, 0, 80, 240, 33);
	note_turns("bundles", RECVSEND_BUNDLE, 2 * BYTES, 12, 18, 1);
	note_turns("bundle_of_one", RECVSEND_BUNDLE, BYTES, 6, 18, 1);
}

const struct row rows_uring_bundle[] = {
	ROW("a bundle receives into several buffers", receives),
	ROW("a bundle receives again and again", receives_again),
	ROW("a bundle receives the data that is there", receives_now),
	ROW("a bundle begins with a buffer that is odd",
	    receives_into_odd_ones),
	ROW("a bundle receives into parts of buffers", receives_into_parts),
	ROW("a bundle receives into parts of buffers, again and again",
	    receives_into_parts_again),
	ROW("a bundle receives into buffers of a list", receives_of_list),
	ROW("a bundle receives datagrams", receives_datagrams),
	ROW("a bundle waits for data", waits),
	ROW("one request receives, and no buffer is left", none_left),
	ROW("a bundle sends several buffers", sends),
	ROW("a bundle sends more buffers than it has at once", sends_many),
	ROW("a bundle waits to be sent", waits_to_send),
	ROW("a bundle is sent as a whole", sends_all),
	ROW("a bundle of no buffers is sent", sends_own),
	ROW("a bundle of no buffers fails", sends_own_in_vain),
	ROW("a send of selected buffers fails", send_fails),
	ROW("mistakes with bundles", mistakes),
	ROW("a receive waits for a whole selected buffer", waits_for_all),
	ROW("a receive that waits for a whole selected buffer is cancelled",
	    waits_for_all_in_vain),
	ROW("a bundle waits for all of it", bundle_waits_for_all),
	ROW("a chain continues after a whole selected buffer", chains),
	ROW("multishot receives of several sockets take turns",
	    take_turns_to_receive),
	ROW("a multishot receive has a limit of bytes", limits),
	ROW("only multishot receives have a limit", wrong_limits),
	ROW("a send has vectors", vectors),
	ROW("a zero-copy send has vectors", vectors_zc),
	ROW("a message that is not copied is in a buffer", message_of_a_buffer),
	ROW("vectors of other requests", other_vectors),
	NO_ROW,
};

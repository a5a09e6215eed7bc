/* SPDX-License-Identifier: MIT */
/*
 * Bundles (requests that use several provided buffers): each byte arrives once and in
 * order, whichever buffers receive it. test/conform/ compares bundles with the
 * kernel's.
 */
#undef NDEBUG
#include "uring/kbuf.h"

#include <pthread.h>
#include <sys/socket.h>

#include "base/slab.h"

#define RING_ENTRIES 64
#include "test-uring.h"
#include "streams.h"

enum {
	GROUP = 7,
	NR_BUFS = 64,
	BYTES = 48,
	ARRAY_BYTES = 4096,
	STREAM_BYTES = 300000,
	PRIME = 251, /* period of the byte pattern in a stream */
};

static char memory[NR_BUFS][BYTES];
static struct io_uring_buf_ring *array;
static int fds[2];

static void set_array(uint16_t flags)
{
	struct io_uring_buf_reg reg = { .ring_entries = NR_BUFS,
					.bgid = GROUP,
					.flags = flags };

	array = mmap(NULL, ARRAY_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(array, MAP_FAILED);
	reg.ring_addr = (uintptr_t)array;
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_PBUF_RING, &reg,
					     1),
			 0);
}

static void append(unsigned bid, uint32_t bytes)
{
	uint16_t tail = load_relaxed(&array->tail);
	struct io_uring_buf *buf =
		(struct io_uring_buf *)array + (tail & (NR_BUFS - 1));

	store_relaxed(&buf->addr, (uintptr_t)memory[bid]);
	store_relaxed(&buf->len, bytes);
	store_relaxed(&buf->bid, (uint16_t)bid);
	store_release(&array->tail, (uint16_t)(tail + 1));
}

static void begin(uint16_t flags, unsigned nr)
{
	set_array(flags);
	for (unsigned i = 0; i < nr; i++)
		append(i, BYTES);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void end(void)
{
	struct io_uring_buf_reg reg = { .bgid = GROUP };

	/*
	 * This call fails, harmlessly, if the buffer group belonged to a ring that is
	 * closed now.
	 */
	(void)uaio_uring_register((uint32_t)client.fd,
				  IORING_UNREGISTER_PBUF_RING, &reg, 1);
	unit_close(fds[0]);
	unit_close(fds[1]);
	assert_int_equal(munmap(array, ARRAY_BYTES), 0);
}

static struct io_uring_sqe *put_bundle(uint8_t opcode, unsigned how,
				       uint32_t len, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(&client, opcode, fds[0], user_data);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio = (uint16_t)(IORING_RECVSEND_BUNDLE | how);
	sqe->len = len;
	return sqe;
}

/* A thread: send the pattern from the other end of the stream. */
static void *send_stream(void *arg)
{
	char part[1000];
	unsigned seed = 1;

	(void)arg;
	for (size_t at = 0; at < STREAM_BYTES;) {
		size_t len = 1 + (seed = seed * 1103515245 + 12345) / 65536 %
					 sizeof(part);

		if (len > STREAM_BYTES - at)
			len = STREAM_BYTES - at;
		for (size_t i = 0; i < len; i++)
			part[i] = (char)((at + i) % PRIME);
		assert_int_equal(send(fds[1], part, len, 0), len);
		at += len;
	}
	assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
	return NULL;
}

static void *receive_stream(void *arg)
{
	size_t *at = arg;
	char part[700];
	ssize_t len;

	while ((len = recv(fds[1], part, sizeof(part), 0)) > 0)
		for (ssize_t i = 0; i < len; i++, (*at)++)
			assert_int_equal((unsigned char)part[i], *at % PRIME);
	return NULL;
}

/*
 * Check the bytes that a completion reports in each buffer, and return each buffer to
 * the ring.
 */
static size_t take_bytes(const struct io_uring_cqe *cqe, size_t at)
{
	unsigned bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	size_t left = (size_t)cqe->res;

	assert_true(cqe->flags & IORING_CQE_F_BUFFER);
	while (left) {
		size_t len = left < BYTES ? left : BYTES;

		for (size_t i = 0; i < len; i++)
			assert_int_equal((unsigned char)memory[bid][i],
					 (at + i) % PRIME);
		append(bid, BYTES);
		at += len;
		left -= len;
		bid = (bid + 1) % NR_BUFS;
	}
	return at;
}

static void a_stream_comes_in_its_order(void **state)
{
	static const unsigned hows[] = { 0, IORING_RECV_MULTISHOT };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct io_uring_cqe cqe = { .res = 1 };
		pthread_t sender;
		size_t at = 0;

		begin(0, NR_BUFS);
		assert_int_equal(
			pthread_create(&sender, NULL, send_stream, NULL), 0);
		while (cqe.res) {
			if (!(cqe.flags & IORING_CQE_F_MORE)) {
				put_bundle(IORING_OP_RECV, hows[i], 0, 1);
				submit(&client, 0);
			}
			cqe = get(&client);
			if (cqe.res > 0)
				at = take_bytes(&cqe, at);
			else
				assert_true(!cqe.res || cqe.res == -ENOBUFS);
		}
		assert_int_equal(at, STREAM_BYTES);
		pthread_join(sender, NULL);
		end();
	}
}

/*
 * Fill nr buffers with the pattern, starting at position `at` of the stream.
 * Return: the next position.
 */
static size_t fill_buffers(unsigned first, unsigned nr, size_t at)
{
	for (unsigned k = 0; k < nr; k++) {
		unsigned bid = (first + k) % NR_BUFS;

		for (size_t i = 0; i < BYTES; i++, at++)
			memory[bid][i] = (char)(at % PRIME);
		append(bid, BYTES);
	}
	return at;
}

/* Send a long stream in bundles; check that each byte is sent once and in order. */
static void a_stream_is_sent_in_its_order(void **state)
{
	const int small = 1;
	unsigned first = 0, seed = 1;
	size_t at = 0, received = 0;
	pthread_t receiver;

	(void)state;
	begin(0, 0);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small,
				    sizeof(small)),
			 0);
	assert_int_equal(
		pthread_create(&receiver, NULL, receive_stream, &received), 0);
	while (at < STREAM_BYTES) {
		unsigned nr = 1 + (seed = seed * 1103515245 + 12345) / 65536 %
					  NR_BUFS;
		size_t sent = 0;
		struct io_uring_cqe cqe;

		at = fill_buffers(first, nr, at);
		put_bundle(IORING_OP_SEND, 0, seed / 65536 % 2 ? BYTES : 0, 1);
		submit(&client, 0);
		do {
			cqe = get(&client);
			/*
			 * A send that has waited for its socket ends its bundle, even
			 * if buffers are left: submit another bundle.
			 */
			if (cqe.res == -ENOBUFS)
				break;
			assert_true(cqe.res > 0);
			sent += (size_t)cqe.res;
			if (!(cqe.flags & IORING_CQE_F_MORE) &&
			    sent < nr * BYTES) {
				put_bundle(IORING_OP_SEND, 0, 0, 1);
				submit(&client, 0);
				cqe.flags |= IORING_CQE_F_MORE;
			}
		} while (cqe.flags & IORING_CQE_F_MORE);
		assert_int_equal(sent, nr * BYTES);
		first = (first + nr) % NR_BUFS;
	}
	assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
	pthread_join(receiver, NULL);
	assert_int_equal(received, at);
	end();
}

static void fill_socket(void)
{
	fill_stream(fds[0], 4096);
	fill_stream(fds[0], 1);
}

static void what_waits_ends_with_its_ring(void **state)
{
	struct uring other;

	(void)state;
	begin(0, 8);
	put_bundle(IORING_OP_RECV, 0, 0, 1)->msg_flags = MSG_WAITALL;
	submit(&client, 0);
	assert_int_equal(send(fds[1], "four", 4, 0), 4);
	assert_none(&client);
	fill_socket();
	put_bundle(IORING_OP_SEND, 0, 0, 2);
	submit(&client, 0);
	assert_none(&client);
	other = client;
	client_open(&client, RING_ENTRIES, (struct io_uring_params){ 0 });
	client_close(&other);
	assert_int_equal(send(fds[1], "five", 4, 0), 4);
	end();
}

/* Return: whether at most *arg objects from the library's slabs are in use. */
static bool are_back(void *arg)
{
	return load_relaxed(&uaio_slabs_nr_out) <= *(uint64_t *)arg;
}

static void what_is_cancelled_keeps_no_rest(void **state)
{
	uint64_t nr_out = 0;
	struct io_uring_cqe cqe;

	(void)state;
	begin(0, 64);
	fill_socket();
	for (unsigned i = 0; i < 32; i++) {
		put_bundle(IORING_OP_SEND, 0, 2 * BYTES, 2);
		submit(&client, 0);
		assert_none(&client);
		put(&client, IORING_OP_ASYNC_CANCEL, -1, 3)->addr = 2;
		submit(&client, 2);
		cqe = get(&client);
		if (cqe.user_data == 3) {
			assert_cqe(&cqe, 3, 0, 0);
			cqe = get(&client);
		} else {
			assert_got(&client, 3, 0);
		}
		/*
		 * As in the kernel, the buffers are used up although the request was
		 * cancelled.
		 */
		assert_cqe(&cqe, 2, -ECANCELED,
			   IORING_CQE_F_BUFFER |
				   i * 2 << IORING_CQE_BUFFER_SHIFT);
		if (!i)
			nr_out = load_relaxed(&uaio_slabs_nr_out);
	}
	unit_await(are_back, &nr_out);
	end();
}

/*
 * Execute a bundle. The first buffer of its array has this address and first_len bytes,
 * the second buffer other_len bytes.
 * Return: the result.
 */
static int32_t result_of(uint8_t opcode, uint64_t addr, uint32_t first_len,
			 uint32_t other_len)
{
	struct io_uring_buf *bufs;
	int32_t res;

	begin(0, 8);
	bufs = (struct io_uring_buf *)array;
	store_relaxed(&bufs[0].addr, addr);
	store_relaxed(&bufs[0].len, first_len);
	store_relaxed(&bufs[1].len, other_len);
	store_relaxed(&bufs[2].len, other_len);
	assert_int_equal(send(fds[1], "bytes", 5, 0), 5);
	put_bundle(opcode, 0, opcode == IORING_OP_RECV ? 100 : 0, 1);
	submit(&client, 1);
	res = get(&client).res;
	end();
	return res;
}

/* A client may write any address and length to its array: requests only fail. */
static void an_array_may_say_anything(void **state)
{
	uint64_t addr = (uintptr_t)memory[0];

	(void)state;
	assert_int_equal(result_of(IORING_OP_RECV, addr, 0, BYTES), -ENOBUFS);
	assert_int_equal(result_of(IORING_OP_RECV, 1, UINT32_MAX, BYTES),
			 -EFAULT);
	assert_true(result_of(IORING_OP_SEND, 1, 2, UINT32_MAX) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(a_stream_comes_in_its_order),
		RING_TEST(a_stream_is_sent_in_its_order),
		RING_TEST(what_waits_ends_with_its_ring),
		RING_TEST(what_is_cancelled_keeps_no_rest),
		RING_TEST(an_array_may_say_anything),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Messages between rings: each arrives, whatever the target ring does meanwhile. */
#undef NDEBUG
#define RING_ENTRIES 8
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include "test-uring.h"

/*
 * Prepare a message to the ring fd: a completion with the result res and the user_data
 * `told`.
 */
static struct io_uring_sqe *put_msg(struct uring *from, int fd, uint32_t res,
				    uint64_t told, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(from, IORING_OP_MSG_RING, fd, user_data);

	sqe->off = told;
	sqe->len = res;
	return sqe;
}

static void open_other(struct uring *other, uint32_t entries, uint32_t flags)
{
	client_open(other, entries, (struct io_uring_params){ .flags = flags });
}

static void a_message_is_a_completion_of_the_other_ring(void **state)
{
	struct uring other;
	struct io_uring_cqe cqe;

	(void)state;
	open_other(&other, 4, 0);
	put_msg(&client, other.fd, 7, 0x123, 1);
	put_msg(&client, other.fd, (uint32_t)-7, 0x124, 2);
	submit(&client, 2);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, 0);
	assert_got(&other, 0x123, 7);
	assert_got(&other, 0x124, -7);
	put_msg(&client, other.fd, 7, 5, 3);
	client.sqes[2].msg_ring_flags = IORING_MSG_RING_FLAGS_PASS;
	client.sqes[2].file_index = 0x10001;
	submit(&client, 1);
	cqe = get(&other);
	assert_cqe(&cqe, 5, 7, 0x10001);
	assert_got(&client, 3, 0);
	client_close(&other);
}

static void a_ring_may_send_to_itself(void **state)
{
	(void)state;
	put_msg(&client, client.fd, 7, 5, 1);
	submit(&client, 2);
	assert_got_both(&client, 5, 7, 1, 0);
}

static void a_chain_breaks_at_a_message_that_fails(void **state)
{
	struct uring other;

	(void)state;
	open_other(&other, 4, 0);
	put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_IO_LINK;
	put_msg(&client, other.fd, 1, 5, 2)->flags = IOSQE_IO_LINK;
	put_msg(&client, 12345, 1, 6, 3)->flags = IOSQE_IO_LINK;
	put_msg(&client, other.fd, 1, 7, 4);
	submit(&client, 4);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, 0);
	assert_got(&client, 3, -EBADF);
	assert_got(&client, 4, -ECANCELED);
	assert_got(&other, 5, 1);
	assert_none(&other);
	client_close(&other);
}

static void what_is_no_open_ring_gets_no_message(void **state)
{
	struct uring disabled;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	open_other(&disabled, 4, IORING_SETUP_R_DISABLED);
	put_msg(&client, ends[0], 1, 5, 1);
	put_msg(&client, 12345, 1, 5, 2);
	put_msg(&client, disabled.fd, 1, 5, 3);
	put_msg(&client, 0, 1, 5, 4)->flags = IOSQE_FIXED_FILE;
	submit(&client, 4);
	assert_got(&client, 1, -EBADFD);
	assert_got(&client, 2, -EBADF);
	assert_got(&client, 3, -EBADFD);
	assert_got(&client, 4, -EBADF);
	assert_int_equal(uaio_uring_register((uint32_t)disabled.fd,
					     IORING_REGISTER_ENABLE_RINGS, NULL,
					     0),
			 0);
	put_msg(&client, disabled.fd, 1, 5, 5);
	submit(&client, 1);
	assert_got(&client, 5, 0);
	assert_got(&disabled, 5, 1);
	client_close(&disabled);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void messages_that_find_no_room_are_kept(void **state)
{
	enum { NR = 20 };
	struct uring other;

	(void)state;
	open_other(&other, 1, 0);
	for (uint64_t i = 0; i < NR; i++) {
		put_msg(&client, other.fd, 1, i, i);
		submit(&client, 1);
		assert_got(&client, i, 0);
	}
	for (uint64_t i = 0; i < NR; i++)
		assert_got(&other, i, 1);
	assert_none(&other);
	client_close(&other);
}

static long send_blindly(const struct io_uring_sqe *sqe, uint32_t nr)
{
	return uaio_uring_register(UINT32_MAX, IORING_REGISTER_SEND_MSG_RING,
				   (void *)(uintptr_t)sqe, nr);
}

static void a_thread_without_a_ring_sends(void **state)
{
	struct io_uring_sqe sqe = {
		.opcode = IORING_OP_MSG_RING,
		.fd = client.fd,
		.off = 5,
		.len = 7,
	};

	(void)state;
	assert_true(uaio_uring_owns_message(
		UINT32_MAX, IORING_REGISTER_SEND_MSG_RING, &sqe));
	assert_int_equal(send_blindly(&sqe, 1), 0);
	assert_got(&client, 5, 7);
	assert_int_equal(send_blindly(&sqe, 0), -EINVAL);
	assert_int_equal(send_blindly(NULL, 1), -EINVAL);
	assert_int_equal(send_blindly((void *)-4096, 1), -EFAULT);
	sqe.addr = IORING_MSG_SEND_FD;
	assert_int_equal(send_blindly(&sqe, 1), -EINVAL);
	sqe.addr = IORING_MSG_DATA;
	sqe.flags = IOSQE_ASYNC;
	assert_int_equal(send_blindly(&sqe, 1), -EINVAL);
	sqe.flags = 0;
	sqe.fd = 12345;
	assert_false(uaio_uring_owns_message(
		UINT32_MAX, IORING_REGISTER_SEND_MSG_RING, &sqe));
	assert_int_equal(send_blindly(&sqe, 1), -EBADF);
	assert_none(&client);
}

/* A message ends a wait, and counts for a timeout that counts completions. */
static void a_message_counts_as_a_completion(void **state)
{
	struct __kernel_timespec hour = { .tv_sec = 3600 };
	struct uring other;

	(void)state;
	open_other(&other, 4, 0);
	put_rw(&other, IORING_OP_TIMEOUT, -1, &hour, 1, 1, 9);
	submit(&other, 0);
	put_msg(&client, other.fd, 1, 5, 1);
	submit(&client, 1);
	assert_got(&other, 5, 1);
	assert_got(&other, 9, 0);
	assert_got(&client, 1, 0);
	client_close(&other);
}

/*
 * Threads send to each other's rings, and to a ring that is repeatedly closed and made
 */

enum { NR_SENDERS = 3, NR_ROUNDS = 400 };

static struct sender {
	pthread_t thread;
	struct uring own;
	struct sender *next;
	uint32_t nr_got;   /* number of messages received */
	uint32_t nr_ended; /* number of requests completed */
} senders[NR_SENDERS];

static uint32_t has_failed, nr_running;
static int
	/* atomic: descriptor of the ring that is closed and made again */
	fickle;

/* Count the completions: messages (user_data 2) and requests. */
static void reap(struct sender *sender)
{
	while (unread(&sender->own)) {
		struct io_uring_cqe cqe = get(&sender->own);

		if (cqe.user_data == 2)
			sender->nr_got++;
		else
			sender->nr_ended++;
		if (cqe.user_data == 1 && cqe.res != 0)
			store_relaxed(&has_failed, 1);
	}
}

static void *send_around(void *arg)
{
	struct sender *sender = arg;

	for (uint32_t i = 0; i < NR_ROUNDS; i++) {
		put_msg(&sender->own, sender->next->own.fd, 0, 2, 1);
		put_msg(&sender->own, load_relaxed(&fickle), 0, 2, 3);
		if (enter(&sender->own, tell(&sender->own), 1) != 2)
			store_relaxed(&has_failed, 1);
		reap(sender);
	}
	sub_relaxed(&nr_running, 1);
	return NULL;
}

static void threads_send_to_each_other_and_to_rings_that_end(void **state)
{
	(void)state;
	store_relaxed(&has_failed, 0);
	store_relaxed(&nr_running, NR_SENDERS);
	store_relaxed(&fickle, client.fd);
	for (unsigned i = 0; i < NR_SENDERS; i++) {
		senders[i].next = &senders[(i + 1) % NR_SENDERS];
		senders[i].nr_got = senders[i].nr_ended = 0;
		open_other(&senders[i].own, 8, 0);
	}
	for (unsigned i = 0; i < NR_SENDERS; i++)
		assert_int_equal(pthread_create(&senders[i].thread, NULL,
						send_around, &senders[i]),
				 0);
	while (load_relaxed(&nr_running)) {
		struct io_uring_params params = { 0 };
		int fd = (int)uaio_uring_setup(4, &params);

		assert_true(fd >= 0);
		store_relaxed(&fickle, fd);
		sched_yield();
		unit_close(fd);
	}
	for (unsigned i = 0; i < NR_SENDERS; i++)
		assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
	assert_int_equal(load_relaxed(&has_failed), 0);
	for (unsigned i = 0; i < NR_SENDERS; i++) {
		while (senders[i].nr_got < NR_ROUNDS ||
		       senders[i].nr_ended < 2 * NR_ROUNDS) {
			assert_int_equal(enter(&senders[i].own, 0, 1), 0);
			reap(&senders[i]);
		}
		assert_none(&senders[i].own);
		client_close(&senders[i].own);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(a_message_is_a_completion_of_the_other_ring),
		RING_TEST(a_ring_may_send_to_itself),
		RING_TEST(a_chain_breaks_at_a_message_that_fails),
		RING_TEST(what_is_no_open_ring_gets_no_message),
		RING_TEST(messages_that_find_no_room_are_kept),
		RING_TEST(a_thread_without_a_ring_sends),
		RING_TEST(a_message_counts_as_a_completion),
		RING_TEST(threads_send_to_each_other_and_to_rings_that_end),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Requests that wait for child processes: each child is reaped once. If a request was
 * cancelled, or its ring has ended, the child is left for the next wait.
 */
#undef NDEBUG
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define RING_ENTRIES 16
#include "req/req.h"
#include "test-uring.h"

enum { CANCELLED = -ECANCELED };

/* Return: a child that sleeps until it is killed. */
static pid_t new_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	while (pid == 0)
		(void)pause();
	return pid;
}

static void put_waitid(int which, int id, siginfo_t *info, uint64_t user_data)
{
	struct io_uring_sqe *sqe =
		put(&client, IORING_OP_WAITID, id, user_data);

	sqe->len = (uint32_t)which;
	sqe->off = (uintptr_t)info;
	sqe->file_index = WEXITED;
}

static bool is_left(pid_t pid)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)pid, &info, WEXITED) == 0;
}

static void the_end_of_a_child(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(20); i++) {
		siginfo_t info = { 0 };
		pid_t pid = new_child();

		put_waitid(i % 2 ? P_PID : P_ALL, i % 2 ? pid : 0, &info, 1);
		submit(&client, 0);
		assert_none(&client);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_got(&client, 1, 0);
		assert_int_equal(info.si_pid, pid);
		assert_int_equal(info.si_status, SIGKILL);
		assert_false(is_left(pid));
	}
}

static void a_cancel_that_meets_the_end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < unit_rounds(40); i++) {
		pid_t pid = new_child();
		bool was_cancelled = false;

		put_waitid(i % 2 ? P_PID : P_ALL, i % 2 ? pid : 0, NULL, 1);
		submit(&client, 0);
		assert_int_equal(kill(pid, SIGKILL), 0);
		put(&client, IORING_OP_ASYNC_CANCEL, -1, 2)->addr = 1;
		submit(&client, 2);
		for (int k = 0; k < 2; k++) {
			struct io_uring_cqe cqe = get(&client);

			if (cqe.user_data == 1)
				was_cancelled = cqe.res == CANCELLED;
			if (cqe.user_data == 1 && !was_cancelled)
				assert_int_equal(cqe.res, 0);
		}
		assert_int_equal(is_left(pid), was_cancelled);
	}
}

/* Return: the state (req/req.h) of the ring's only request. */
static unsigned state_of_request(void)
{
	struct uaio_group *group =
		&uaio_uring_find((uint32_t)client.fd)->queue.group;
	unsigned state;

	uaio_lock(&group->lock, UAIO_RANK_GROUP);
	state = uaio_req_state(
		container_of(group->requests.next, struct uaio_req, in_group));
	uaio_unlock(&group->lock, UAIO_RANK_GROUP);
	return state;
}

/*
 * When the submitting call returns, the wait sleeps. So a cancelling request ends it at
 * once, and does not fail with EALREADY.
 */
static void a_wait_can_be_cancelled_once_it_is_submitted(void **state)
{
	pid_t pid = new_child();

	(void)state;
	for (unsigned i = 0; i < unit_rounds(20); i++) {
		put_waitid(i % 2 ? P_PID : P_ALL, i % 2 ? pid : 0, NULL, 1);
		submit(&client, 0);
		assert_int_equal(state_of_request(),
				 UAIO_REQ_ASLEEP | UAIO_REQ_TRIED);
		put(&client, IORING_OP_ASYNC_CANCEL, -1, 2)->addr = 1;
		submit(&client, 0);
		/* As in the kernel, a request that cancels a waitid returns 1. */
		assert_got_both(&client, 1, CANCELLED, 2, 1);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(is_left(pid));
}

static void a_ring_that_ends_leaves_children(void **state)
{
	(void)state;
	client_close(&client);
	for (unsigned i = 0; i < unit_rounds(20); i++) {
		pid_t pid = new_child();

		client_open(&client, RING_ENTRIES,
			    (struct io_uring_params){ 0 });
		put_waitid(P_PID, pid, NULL, 1);
		put_waitid(P_ALL, 0, NULL, 2);
		submit(&client, 0);
		client_close(&client);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_true(is_left(pid));
	}
	/*
	 * Wait, because a worker may still be executing a request of a closed ring.
	 */
	unit_await(rings_are_freed, NULL);
	client_open(&client, RING_ENTRIES, (struct io_uring_params){ 0 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RING_TEST(the_end_of_a_child),
		RING_TEST(a_cancel_that_meets_the_end),
		RING_TEST(a_wait_can_be_cancelled_once_it_is_submitted),
		RING_TEST(a_ring_that_ends_leaves_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

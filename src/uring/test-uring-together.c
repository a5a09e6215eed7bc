/* SPDX-License-Identifier: MIT */
/*
 * A thread executes several receives, and then posts their completions together
 * (ready/done.c). The test stops this thread at many of its instructions, also between
 * executing and posting. Meanwhile another thread, for example, cancels a receive or
 * closes the ring.
 */
#undef NDEBUG
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "ready/ready.h"
#include "uring/ring.h"
#include "uring/table.h"

#include "test-uring.h"

/*
 * There are three sockets. Receives 1 and 2 are from the first socket: receive 1 leaves
 * data for receive 2. Receive 3 is from the second socket, and leaves data there.
 * Receive 4 is from the third socket.
 */
enum { NR = 4, FULL = 4, CANCEL = 9, PER_FORK = 8, SOCKETS = 3 };

/*
 * The thread executes more than MANY instructions, and is stopped at each STRIDE-th
 * instruction.
 */
enum { MANY = 1000, STRIDE = 17 };

enum { EPOLL_PWAIT2 = 441 };

static const char *const sent[SOCKETS] = { "abcdef", "ghijklmn", "opqr" };

static int fds[SOCKETS][2];
static char memory[NR + 1][FULL];
static struct uring client;
static uint64_t
	cancelled; /* user_data of the request that the other thread cancels */

/* Hold the library's fallback thread, which would otherwise execute the receives */

static struct {
	uint32_t is_kept, is_there; /* atomic */
} away;

static _Thread_local bool is_clients;

static void __attribute__((noinline)) stay_away(void)
{
	const struct timespec while_ns = { .tv_nsec = 100000 };

	/* From now on the thread under test may reach its breakpoint. */
	unit_let_step();
	store_relaxed(&away.is_there, 1);
	while (load_relaxed(&away.is_kept))
		(void)uaio_sys_raw(SYS_nanosleep, (long)&while_ns, 0, 0, 0, 0,
				   0);
	store_relaxed(&away.is_there, 0);
}

static bool keep_away(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	/* Stop the fallback thread when it is about to sleep and holds no lock. */
	if (!is_clients && load_relaxed(&away.is_kept) && nr == EPOLL_PWAIT2)
		stay_away();
	return false;
}

static bool is_away(void *arg)
{
	(void)arg;
	return load_relaxed(&away.is_there);
}

static bool is_back(void *arg)
{
	return !is_away(arg);
}

static void send_away(void)
{
	store_relaxed(&away.is_kept, 1);
	unit_hook(keep_away);
	uaio_fallback_nudge(&uaio_uring_find((uint32_t)client.fd)->queue.group);
	unit_await(is_away, NULL);
}

static void bring_back(void)
{
	store_relaxed(&away.is_kept, 0);
	unit_await(is_back, NULL);
	unit_hook(NULL);
}

/* The thread that executes the receives, and is stopped */

static struct {
	uint32_t tid, is_over; /* atomic */
} victim;

static unsigned socket_of(uint64_t user_data)
{
	return user_data > 1 ? (unsigned)user_data - 2 : 0;
}

static void prepare(void)
{
	is_clients = true;
	for (int i = 0; i < SOCKETS; i++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC,
					    0, fds[i]),
				 0);
	client_open(&client, 8, (struct io_uring_params){ 0 });
	memset(memory, 0, sizeof(memory));
	store_relaxed(&victim.is_over, 0);
	for (uint64_t i = 1; i <= NR; i++)
		put_rw(&client, IORING_OP_RECV, fds[socket_of(i)][0], memory[i],
		       FULL, 0, i);
	submit(&client, 0);
	send_away();
	for (int i = 0; i < SOCKETS; i++)
		assert_int_equal(write(fds[i][1], sent[i], strlen(sent[i])),
				 strlen(sent[i]));
}

static long receive_all(void *arg)
{
	long ret;

	(void)arg;
	is_clients = true;
	store_relaxed(&victim.tid, (uint32_t)gettid());
	ret = enter(&client, 0, NR);
	store_release(&victim.is_over, 1);
	return ret;
}

/* On machines without breakpoints: start both threads at the same time. */
static void race(const struct unit_stepping *stepping)
{
	for (unsigned i = 0; i < unit_rounds(2000); i++) {
		struct unit_thread threads[2];
		long rets[2];

		stepping->prepare();
		unit_thread_start(&threads[0], stepping->victim, NULL);
		unit_thread_start(&threads[1], stepping->intruder, NULL);
		for (int k = 0; k < 2; k++)
			rets[k] = unit_thread_join(&threads[k]);
		stepping->check(rets[0], rets[1]);
		unit_restart_alarm();
	}
}

/* `which` is the user_data of the receive to cancel; 0: none is cancelled. */
static void step_receives(uint64_t which, unit_step_fn *intruder,
			  void (*check)(long victims, long intruders))
{
	const struct unit_stepping stepping = {
		.victim = receive_all,
		.intruder = intruder,
		.prepare = prepare,
		.check = check,
		.nr_min = MANY,
		.stride = STRIDE,
	};

	cancelled = which;
	if (UNIT_CAN_STEP)
		unit_step_through(&stepping);
	else
		race(&stepping);
}

/* The completions of a round */

struct outcome {
	unsigned nr;
	struct io_uring_cqe cqes[NR + 2];
	/*
	 * index: a user_data; value: the position of its completion, from 1 on; 0: no
	 * completion
	 */
	unsigned place[CANCEL + 1];
};

static void collect(struct outcome *ret, unsigned nr)
{
	memset(ret, 0, sizeof(*ret));
	while (ret->nr < nr) {
		struct io_uring_cqe cqe = get(&client);

		assert_in_range(cqe.user_data, 1, CANCEL);
		assert_int_equal(ret->place[cqe.user_data], 0);
		ret->cqes[ret->nr++] = cqe;
		ret->place[cqe.user_data] = ret->nr;
	}
	assert_none(&client);
}

static const struct io_uring_cqe *of(const struct outcome *outcome,
				     uint64_t user_data)
{
	assert_true(outcome->place[user_data]);
	return &outcome->cqes[outcome->place[user_data] - 1];
}

/*
 * Check that the receive has got the text at *next, up to a full buffer; or that it was
 * cancelled.
 */
static void assert_received(const struct outcome *outcome, uint64_t user_data,
			    const char **next)
{
	const struct io_uring_cqe *cqe = of(outcome, user_data);
	size_t left = strlen(*next), nr = left < FULL ? left : FULL;

	if (cqe->res == -ECANCELED) {
		assert_int_equal(user_data, cancelled);
		return;
	}
	assert_cqe(cqe, user_data, (int32_t)nr,
		   left > FULL ? IORING_CQE_F_SOCK_NONEMPTY : 0);
	assert_memory_equal(memory[user_data], *next, nr);
	*next += nr;
}

/* Check that each receive has completed once and in order, and that no byte is lost. */
static void assert_all_received(const struct outcome *outcome)
{
	const char *next[SOCKETS];
	char rest[16];

	memcpy(next, sent, sizeof(next));
	for (uint64_t i = 1; i <= NR; i++)
		assert_received(outcome, i, &next[socket_of(i)]);
	for (int i = 0; i < SOCKETS; i++) {
		size_t nr = strlen(next[i]);

		assert_int_equal(
			recv(fds[i][0], rest, sizeof(rest), MSG_DONTWAIT),
			nr ? (long)nr : -1);
		assert_memory_equal(rest, next[i], nr);
	}
}

static void close_sockets(void)
{
	for (int i = 0; i < SOCKETS; i++) {
		unit_close(fds[i][0]);
		close(fds[i][1]);
	}
}

static void check_all(long victims, long intruders)
{
	struct outcome outcome;

	assert_int_equal(victims, 0);
	assert_int_equal(intruders, 0);
	bring_back();
	collect(&outcome, NR);
	assert_all_received(&outcome);
	client_close(&client);
	close_sockets();
}

/* What the other thread does */

static long cancel_one(void *arg)
{
	(void)arg;
	is_clients = true;
	put(&client, IORING_OP_ASYNC_CANCEL, -1, CANCEL)->addr = cancelled;
	return enter(&client, tell(&client), 0);
}

/*
 * Check that the cancelling request reports correctly whether it has cancelled the
 * receive.
 */
static void check_cancelled(long victims, long intruders)
{
	struct outcome outcome;
	int32_t res, said;

	assert_int_equal(victims, 0);
	assert_int_equal(intruders, 1);
	bring_back();
	collect(&outcome, NR + 1);
	assert_all_received(&outcome);
	said = of(&outcome, CANCEL)->res;
	res = of(&outcome, cancelled)->res;
	if (said == 0)
		assert_int_equal(res, -ECANCELED);
	else
		assert_true(res > 0 && (said == -EALREADY || said == -ENOENT));
	client_close(&client);
	close_sockets();
}

static void one_is_cancelled(void **state)
{
	(void)state;
	step_receives(2, cancel_one, check_cancelled);
	step_receives(3, cancel_one, check_cancelled);
}

/* the receive's memory when the cancelling call returned */
static char seen[FULL];

static long cancel_and_wait(void *arg)
{
	struct io_uring_sync_cancel_reg what = { .addr = cancelled,
						 .timeout = { -1, -1 } };
	long ret;

	(void)arg;
	is_clients = true;
	ret = uaio_uring_register((uint32_t)client.fd,
				  IORING_REGISTER_SYNC_CANCEL, &what, 1);
	memcpy(seen, memory[cancelled], FULL);
	return ret == -ENOENT ? 0 : ret;
}

/*
 * Check that the receive's memory has not changed since the cancelling call returned.
 */
static void check_it_was_over(long victims, long intruders)
{
	assert_memory_equal(seen, memory[cancelled], FULL);
	check_all(victims, intruders);
}

static void one_is_cancelled_and_waited_for(void **state)
{
	(void)state;
	step_receives(2, cancel_and_wait, check_it_was_over);
	step_receives(3, cancel_and_wait, check_it_was_over);
}

static long wait_for_one(void *arg)
{
	long ret;

	(void)arg;
	is_clients = true;
	ret = enter(&client, 0, 1);
	return ret ? ret : !unread(&client);
}

static void another_thread_waits_for_one(void **state)
{
	(void)state;
	step_receives(0, wait_for_one, check_all);
}

static long close_ring(void *arg)
{
	(void)arg;
	is_clients = true;
	unit_close(client.fd);
	return 0;
}

/*
 * Return: whether the closed ring is freed. The library frees closed rings when it
 * makes a ring, so make one.
 */
static bool is_freed(void *arg)
{
	struct uaio_counters counters;

	(void)arg;
	client_open(&client, 1, (struct io_uring_params){ 0 });
	client_close(&client);
	uaio_counters_read(&counters);
	return !counters.nr_contexts;
}

static void check_it_is_freed(long victims, long intruders)
{
	assert_true(victims == 0 || victims == -EBADF);
	assert_int_equal(intruders, 0);
	bring_back();
	uring_unmap(&client);
	unit_await(is_freed, NULL);
	close_sockets();
}

static void their_ring_is_closed(void **state)
{
	(void)state;
	step_receives(0, close_ring, check_it_is_freed);
}

/* Close the sockets, and reuse their descriptors for other files. */
static long replace_sockets(void *arg)
{
	(void)arg;
	is_clients = true;
	for (int i = 0; i < SOCKETS; i++)
		unit_dup2(STDERR_FILENO, fds[i][0]);
	return 0;
}

static void check_without_sockets(long victims, long intruders)
{
	struct outcome outcome;

	assert_int_equal(victims, 0);
	assert_int_equal(intruders, 0);
	bring_back();
	collect(&outcome, NR);
	for (uint64_t i = 1; i <= NR; i++) {
		size_t nr = i == 2 ? strlen(sent[0]) - FULL : FULL;

		assert_int_equal(of(&outcome, i)->res, nr);
		assert_memory_equal(memory[i],
				    sent[socket_of(i)] + (i == 2 ? FULL : 0),
				    nr);
	}
	client_close(&client);
	close_sockets();
}

static void their_sockets_are_closed(void **state)
{
	(void)state;
	step_receives(0, replace_sockets, check_without_sockets);
}

/*
 * In a child of fork(): the parent's receives do not run here, and a new ring works.
 */
static int work_in_child(void)
{
	struct uring own;

	unit_hook(NULL);
	if (unread(&client) > NR || enter(&client, 0, 0) != 0)
		return 1;
	client_open(&own, 1, (struct io_uring_params){ 0 });
	put_rw(&own, IORING_OP_RECV, fds[1][1], memory[0], FULL, 0, 5);
	submit(&own, 0);
	if (write(fds[1][0], "back", FULL) != FULL)
		return 2;
	assert_got(&own, 5, FULL);
	client_close(&own);
	return 0;
}

static long fork_now_and_then(void *arg)
{
	static unsigned nr;

	(void)arg;
	is_clients = true;
	return nr++ % PER_FORK ? 0 : unit_in_child(work_in_child);
}

static void the_process_forks(void **state)
{
	(void)state;
	step_receives(0, fork_now_and_then, check_all);
}

/* A signal handler of the program interrupts the stopped thread */

static struct {
	uint32_t is_over; /* atomic */
	long ret;
} handler;

static void enter_ring(int signal)
{
	int error = errno;

	(void)signal;
	handler.ret = uaio_uring_enter((uint32_t)client.fd, 0, 0,
				       IORING_ENTER_GETEVENTS, NULL, 0);
	store_release(&handler.is_over, 1);
	errno = error;
}

static long interrupt(void *arg)
{
	(void)arg;
	is_clients = true;
	store_relaxed(&handler.is_over, 0);
	if (load_acquire(&victim.is_over) ||
	    syscall(SYS_tgkill, getpid(), load_relaxed(&victim.tid), SIGUSR1))
		return 0;
	while (!load_acquire(&handler.is_over) &&
	       !load_acquire(&victim.is_over))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	return load_acquire(&handler.is_over) && handler.ret != -EAGAIN
		       ? handler.ret
		       : 0;
}

static void check_interrupted(long victims, long intruders)
{
	struct outcome outcome;

	/* EINTR: the signal has interrupted a sleep. */
	assert_true(victims == 0 || victims == -EINTR);
	assert_int_equal(intruders, 0);
	bring_back();
	collect(&outcome, NR);
	assert_all_received(&outcome);
	client_close(&client);
	close_sockets();
}

static void a_signal_handler_enters_their_ring(void **state)
{
	struct sigaction action = { .sa_handler = enter_ring }, old;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	step_receives(0, interrupt, check_interrupted);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

/*
 * The process exits while the receiving thread is held before one of its system calls
 */

/* atomic: before which recvfrom() or ppoll() to hold the thread; 1: the first */
static uint32_t nr_before;
static uint32_t is_held; /* atomic */

static bool hold_at_call(long nr, const long args[6], long *ret_res)
{
	if (is_clients && (nr == SYS_recvfrom || nr == SYS_ppoll) &&
	    load_relaxed(&victim.tid) == (uint32_t)gettid() &&
	    sub_relaxed(&nr_before, 1) == 1) {
		store_release(&is_held, 1);
		for (;;)
			pause();
	}
	return keep_away(nr, args, ret_res);
}

static uint32_t held_at;

static int end_while_it_is_held(void)
{
	struct unit_thread thread;

	prepare();
	store_relaxed(&nr_before, held_at);
	store_relaxed(&is_held, 0);
	unit_hook(hold_at_call);
	unit_thread_start(&thread, receive_all, NULL);
	while (!load_acquire(&is_held) && !load_acquire(&victim.is_over))
		(void)uaio_sys_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	if (!load_relaxed(&is_held))
		_exit(2);
	exit(0);
}

static void the_process_ends(void **state)
{
	int ret = 0;

	(void)state;
	for (held_at = 1; ret == 0; held_at++)
		ret = unit_in_child(end_while_it_is_held);
	/*
	 * The child exits with 2 if the thread makes fewer than held_at calls, so that
	 * it was not held.
	 */
	assert_int_equal(ret, 2);
	assert_in_range(held_at, 5, 20);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(one_is_cancelled),
		UNIT_TEST(one_is_cancelled_and_waited_for),
		UNIT_TEST(another_thread_waits_for_one),
		UNIT_TEST(their_ring_is_closed),
		UNIT_TEST(their_sockets_are_closed),
		UNIT_TEST(the_process_forks),
		UNIT_TEST(a_signal_handler_enters_their_ring),
		UNIT_TEST(the_process_ends),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

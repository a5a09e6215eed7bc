/* SPDX-License-Identifier: MIT */
/*
 * Kills a child of fork() that uses its parent's ring: in each run at another of the
 * child's instructions. Afterwards the ring works for the parent and for another child.
 * No completion of these two is lost or posted twice, and neither waits for the dead
 * child. No completion of the dead child is posted twice.
 *
 * The test traces the child (ptrace). An act is one thing that the child does with the
 * ring, such as a submission. In the first run of an act the test steps through all
 * instructions and records them. In each later run it kills the child when the child
 * reaches one of these instructions for the nth time.
 */
#undef NDEBUG
#include "uring/share.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "uring/memmap.h"
#include "test-uring.h"
#include "threads.h"

#if defined(__x86_64__)

enum {
	ENTRIES = 16,
	NR_WORDS = 256, /* counters of completions, by user_data */
	/*
	 * user_data of completions tells which process owns them; numbers below
	 * OF_PARENT are of the child that is killed.
	 */
	OF_PARENT = 100,
	OF_PARENTS_READ,
	OF_OTHER,
	OF_OTHERS_READ,
	STEPS_MAX = 1 << 20,
	TID_MASK = 0x3fffffff,
	WAIT_BITSET = 9, /* FUTEX_WAIT_BITSET */
};

static struct uring client;
static int file;
/* pipes from which the parent (mine) and the second child (others) read */
static int mine[2], others[2];
/* pipes by which parent and second child take turns */
static int told[2], done[2];
static int pipe_of_dead[2];
static pid_t other;
/* how often each user_data was completed; memory that all processes share */
static uint32_t *nr_told;
static unsigned nr_between =
	97; /* default: kill the child only at every 97th instruction */

/* The test steps through the instructions between these labels. */

extern const char death_begins[], death_ends[];
static _Thread_local bool is_within;

static __attribute__((noinline)) void begin_steps(void)
{
	is_within = true;
	__asm__ volatile(".globl death_begins\n\tint3\ndeath_begins:" ::
				 : "memory");
}

static __attribute__((noinline)) void end_steps(void)
{
	__asm__ volatile(".globl death_ends\ndeath_ends:\n\tint3" ::: "memory");
}

/* What the child does with the ring: a function for each act */

static void put_nops(unsigned nr, uint64_t first, uint8_t flags)
{
	for (unsigned i = 0; i < nr; i++)
		put(&client, IORING_OP_NOP, -1, first + i)->flags = flags;
}

static void submit_nops(void)
{
	put_nops(2, 0, 0);
	begin_steps();
	(void)enter(&client, tell(&client), 2);
	end_steps();
}

static void take_the_ring_over(void)
{
	submit_nops();
}

/*
 * The first call on the ring takes the ring over (share.h): make this call before the
 * steps begin. Start no further threads, so that this thread does all work itself.
 */
static void become_user(void)
{
	unit_allow_threads(0);
	(void)uaio_uring_enter((uint32_t)client.fd, 0, 0,
			       IORING_ENTER_GETEVENTS, NULL, 0);
}

static void submit_known(void)
{
	become_user();
	submit_nops();
}

static void read_a_file(void)
{
	static char buffer[SIZE];

	become_user();
	put_rw(&client, IORING_OP_READ, file, buffer, SIZE, 0, 0);
	put(&client, IORING_OP_FSYNC, file, 1);
	begin_steps();
	(void)enter(&client, tell(&client), 2);
	end_steps();
}

static void read_a_pipe(void)
{
	static char byte;

	become_user();
	put_rw(&client, IORING_OP_READ, pipe_of_dead[0], &byte, 1, -1, 0);
	begin_steps();
	(void)enter(&client, tell(&client), 0);
	(void)!write(pipe_of_dead[1], "x", 1);
	(void)enter(&client, 0, 1);
	end_steps();
}

static void cancel_a_read(void)
{
	static char byte;

	become_user();
	put_rw(&client, IORING_OP_READ, pipe_of_dead[0], &byte, 1, -1, 0);
	put(&client, IORING_OP_ASYNC_CANCEL, -1, 1)->addr = 0;
	begin_steps();
	(void)enter(&client, tell(&client), 2);
	end_steps();
}

static void link_and_fail(void)
{
	become_user();
	put_nops(2, 0, IOSQE_IO_LINK);
	put(&client, IORING_OP_READ, -1, 2)->flags = IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 3);
	begin_steps();
	(void)enter(&client, tell(&client), 4);
	end_steps();
}

static void end_a_timeout(void)
{
	/* static: the parent may submit the entry, and finds ts at the same address */
	static struct __kernel_timespec ts = { 0, 1000 };

	become_user();
	put_rw(&client, IORING_OP_TIMEOUT, -1, &ts, 1, 0, 0);
	begin_steps();
	(void)enter(&client, tell(&client), 1);
	end_steps();
}

static void register_things(void)
{
	static char buffer[SIZE];
	struct iovec iov = { buffer, SIZE };
	const uint32_t fd = (uint32_t)client.fd;

	become_user();
	begin_steps();
	(void)uaio_uring_register(fd, IORING_REGISTER_BUFFERS, &iov, 1);
	(void)uaio_uring_register(fd, IORING_REGISTER_FILES, &file, 1);
	(void)uaio_uring_register(fd, IORING_UNREGISTER_FILES, NULL, 0);
	(void)uaio_uring_register(fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
	end_steps();
}

static void overflow(void)
{
	become_user();
	for (unsigned i = 0; i < 2; i++) {
		put_nops(ENTRIES, i * ENTRIES, 0);
		(void)enter(&client, tell(&client), 0);
	}
	put_nops(2, 2 * ENTRIES, 0);
	begin_steps();
	(void)enter(&client, tell(&client), 0);
	(void)enter(&client, 0, 1);
	end_steps();
}

static void send_a_message(void)
{
	struct uring own;

	become_user();
	client_open(&own, 4, (struct io_uring_params){ 0 });
	put_rw(&own, IORING_OP_MSG_RING, client.fd, NULL, 5, 0, 0);
	begin_steps();
	(void)enter(&own, tell(&own), 1);
	end_steps();
}

static void close_the_ring(void)
{
	const struct rlimit few = { 64, 64 };

	become_user();
	/*
	 * A low limit, so that there are fewer steps: the library searches few
	 * descriptors for another descriptor of the ring.
	 */
	(void)setrlimit(RLIMIT_NOFILE, &few);
	begin_steps();
	unit_close(client.fd);
	end_steps();
}

/*
 * Hook of system calls. Step through a worker's instructions: from when the worker sets
 * its name (the second thread to do so, after the manager) until it sleeps idle.
 */
static bool step_the_worker(long nr, const long args[6], long *ret_res)
{
	static uint32_t nr_named; /* atomic */

	(void)ret_res;
	if (nr == SYS_prctl && add_relaxed(&nr_named, 1) == 1)
		begin_steps();
	if (nr == SYS_futex && is_within && (args[1] & 127) == WAIT_BITSET)
		end_steps();
	return false;
}

static void have_a_worker_post(void)
{
	become_user();
	unit_allow_threads(2);
	put_nops(2, 0, IOSQE_ASYNC);
	unit_hook(step_the_worker);
	(void)enter(&client, tell(&client), 2);
	for (;;)
		pause();
}

/* The tracer */

static struct step {
	unsigned long ip;
	uint32_t nr; /* how often this address was executed before, plus 1 */
	bool is_posting;
} * steps;
static unsigned nr_steps;

static unsigned long ip_of(pid_t tid)
{
	errno = 0;
	return (unsigned long)ptrace(PTRACE_PEEKUSER, tid,
				     offsetof(struct user_regs_struct, rip), 0);
}

static void go(pid_t tid, enum __ptrace_request how)
{
	assert_int_equal(ptrace(how, tid, 0, 0), 0);
}

/*
 * Wait for a thread's ptrace event. If `only` is 0, wait for any thread.
 * Return: the thread.
 */
static pid_t await(pid_t only, int *ret_status)
{
	pid_t tid;

	do
		tid = waitpid(only ? only : -1, ret_status, __WALL);
	while (tid < 0 && errno == EINTR);
	assert_true(tid > 0);
	assert_int_not_equal(tid, other);
	return tid;
}

/*
 * Continue all threads until one of them traps. Return: that thread; 0: the child has
 * ended.
 */
static pid_t run_until_trap(pid_t child)
{
	int status;

	for (;;) {
		pid_t tid = await(0, &status);

		if (!WIFSTOPPED(status)) {
			if (tid == child)
				return 0;
			continue;
		}
		if (WSTOPSIG(status) == SIGTRAP && !(status >> 16))
			return tid;
		/*
		 * Either a new thread, which has stopped, or a thread that reports the
		 * creation of a thread: go on.
		 */
		go(tid, PTRACE_CONT);
	}
}

static uint32_t *posting(void)
{
	return sq_word(&client, offsetof(struct uaio_uring_rings, posting));
}

static void kill_it(pid_t child)
{
	int status;

	assert_int_equal(kill(child, SIGKILL), 0);
	do
		while (await(0, &status) != child)
			;
	while (WIFSTOPPED(status));
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/*
 * Start a child that performs an act.
 * Return: the child; *ret_tid: its thread, stopped at the first instruction to step.
 */
static pid_t begin(void (*act)(void), pid_t *ret_tid)
{
	pid_t child;
	int status;

	assert_int_equal(pipe(pipe_of_dead), 0);
	catch_up(&client);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, 0, 0);
		(void)raise(SIGSTOP);
		act();
		_exit(1);
	}
	(void)await(child, &status);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, 0,
				PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE),
			 0);
	go(child, PTRACE_CONT);
	*ret_tid = run_until_trap(child);
	assert_int_not_equal(*ret_tid, 0);
	assert_int_equal(ip_of(*ret_tid), (unsigned long)death_begins);
	return child;
}

/* Step the thread to its next instruction. Other threads run meanwhile. */
static void step_once(pid_t tid)
{
	go(tid, PTRACE_SINGLESTEP);
	for (;;) {
		int status;
		pid_t stopped = await(0, &status);

		assert_true(WIFSTOPPED(status));
		if (stopped == tid && WSTOPSIG(status) == SIGTRAP &&
		    !(status >> 16))
			return;
		go(stopped, stopped == tid ? PTRACE_SINGLESTEP : PTRACE_CONT);
	}
}

/*
 * Step until the instruction pointer changes: a repeated instruction (rep) counts as
 * one.
 */
static void step_over(pid_t tid, unsigned long ip)
{
	do
		step_once(tid);
	while (ip_of(tid) == ip);
}

static int compare(const void *a, const void *b)
{
	const struct step *x = *(struct step *const *)a;
	const struct step *y = *(struct step *const *)b;

	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Number the executions of each instruction address, from 1 on. */
static void count_times(void)
{
	struct step **sorted = calloc(nr_steps, sizeof(struct step *));

	assert_non_null(sorted);
	for (unsigned i = 0; i < nr_steps; i++)
		sorted[i] = &steps[i];
	qsort(sorted, nr_steps, sizeof(*sorted), compare);
	for (unsigned i = 0; i < nr_steps; i++)
		sorted[i]->nr = i && sorted[i]->ip == sorted[i - 1]->ip
					? sorted[i - 1]->nr + 1
					: 1;
	free(sorted);
}

static void note_steps(void (*act)(void))
{
	pid_t tid, child = begin(act, &tid);
	unsigned long ip;

	nr_steps = 0;
	while ((ip = ip_of(tid)) != (unsigned long)death_ends) {
		assert_true(nr_steps < STEPS_MAX);
		steps[nr_steps++] = (struct step){
			.ip = ip,
			.is_posting = load_relaxed(posting()) & TID_MASK,
		};
		step_over(tid, ip);
	}
	count_times();
	kill_it(child);
}

/* Have the thread stop at this address, with a debug register. */
static void set_breakpoint(pid_t tid, unsigned long ip)
{
	const size_t at = offsetof(struct user, u_debugreg[0]);
	const size_t control = offsetof(struct user, u_debugreg[7]);

	assert_int_equal(ptrace(PTRACE_POKEUSER, tid, at, ip), 0);
	assert_int_equal(ptrace(PTRACE_POKEUSER, tid, control, 1), 0);
}

/* Run the thread to a step. Return: whether the thread reached it. */
static bool run_to(pid_t child, pid_t tid, const struct step *step)
{
	uint32_t nr = 0;

	set_breakpoint(tid, step->ip);
	for (;;) {
		pid_t trapped;

		go(tid, PTRACE_CONT);
		trapped = run_until_trap(child);
		if (!trapped || ip_of(trapped) == (unsigned long)death_ends + 1)
			return false;
		assert_int_equal(trapped, tid);
		assert_int_equal(ip_of(tid), step->ip);
		if (++nr == step->nr)
			return true;
	}
}

/* Checks after the child was killed */

static void take_one(void)
{
	struct io_uring_cqe cqe = get(&client);

	assert_in_range(cqe.user_data, 0, NR_WORDS - 1);
	add_relaxed(&nr_told[cqe.user_data], 1);
}

static void take_until_told(uint64_t user_data)
{
	while (!load_relaxed(&nr_told[user_data]))
		take_one();
}

static void put_read(const int ends[2], uint64_t user_data)
{
	static char byte;

	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, user_data);
}

/* Submit a no-op, then a read that waits for a pipe, and check both. */
static void use_the_ring(const int ends[2], uint64_t user_data)
{
	uint32_t nr;

	catch_up(&client);
	put(&client, IORING_OP_NOP, -1, user_data);
	nr = tell(&client);
	assert_int_equal(enter(&client, nr, 1), nr);
	take_until_told(user_data);
	assert_int_equal(write(ends[1], "x", 1), 1);
	take_until_told(user_data + 1);
	put_read(ends, user_data + 1);
	assert_int_equal(enter(&client, tell(&client), 0), 1);
}

static int take_turns(void)
{
	char byte;

	put_read(others, OF_OTHERS_READ);
	if (enter(&client, tell(&client), 0) != 1 ||
	    write(done[1], "d", 1) != 1)
		return 1;
	while (read(told[0], &byte, 1) == 1 && byte == 't') {
		use_the_ring(others, OF_OTHER);
		if (write(done[1], "d", 1) != 1)
			return 2;
		alarm(60);
	}
	return 0;
}

/*
 * Submit the entries that the killed child has put into the ring, but not submitted.
 * Each must complete once.
 */
static void submit_what_is_left(void)
{
	uint32_t head = load_acquire(client.sq_head);
	uint32_t nr;

	catch_up(&client);
	nr = client.prepared - head;
	assert_in_range(nr, 0, ENTRIES);
	assert_int_equal(enter(&client, nr, 0), nr);
	for (uint32_t i = 0; i < nr; i++)
		take_until_told(
			client.sqes[(head + i) & (ENTRIES - 1)].user_data);
}

static void check_others(void)
{
	char byte;

	if (load_relaxed(posting()) & TID_MASK)
		print_error("still posting\n");
	assert_int_equal(load_relaxed(posting()) & TID_MASK, 0);
	unit_close(pipe_of_dead[1]);
	submit_what_is_left();
	unit_close(pipe_of_dead[0]);
	use_the_ring(mine, OF_PARENT);
	assert_int_equal(write(told[1], "t", 1), 1);
	assert_int_equal(read(done[0], &byte, 1), 1);
	assert_none(&client);
	for (unsigned i = 0; i < OF_PARENT; i++)
		assert_in_range(load_relaxed(&nr_told[i]), 0, 1);
	for (unsigned i = OF_PARENT; i <= OF_OTHERS_READ; i++)
		assert_int_equal(load_relaxed(&nr_told[i]), 1);
	memset(nr_told, 0, NR_WORDS * sizeof(*nr_told));
}

static void be_killed_at(void (*act)(void), const struct step *step,
			 unsigned *nr_missed)
{
	pid_t tid, child = begin(act, &tid);
	const bool is_there = run_to(child, tid, step);

	*nr_missed += !is_there;
	kill_it(child);
	check_others();
}

static void is_killed_during(void (*act)(void), unsigned nr_min)
{
	unsigned nr = 0, nr_posting = 0, nr_missed = 0;

	/*
	 * Record the steps twice, and keep the second record. In the first run the
	 * dynamic linker still resolves functions, which it need not do in later
	 * children.
	 */
	for (unsigned i = 0; i < 2; i++) {
		note_steps(act);
		check_others();
	}
	assert_true(nr_steps >= nr_min);
	for (unsigned i = 0; i < nr_steps; i++) {
		nr_posting += steps[i].is_posting;
		if (i %
		    (steps[i].is_posting ? (nr_between + 11) / 12 : nr_between))
			continue;
		be_killed_at(act, &steps[i], &nr_missed);
		nr++;
		unit_restart_alarm();
	}
	print_message("%u instructions, %u of them while posting; "
		      "killed at %u, beside %u\n",
		      nr_steps, nr_posting, nr - nr_missed, nr_missed);
}

#define DEATH(act, nr_min)                      \
	static void act##_and_die(void **state) \
	{                                       \
		(void)state;                    \
		is_killed_during(act, nr_min);  \
	}

DEATH(take_the_ring_over, 1000)
DEATH(submit_known, 100)
DEATH(read_a_file, 100)
DEATH(read_a_pipe, 100)
DEATH(cancel_a_read, 100)
DEATH(link_and_fail, 100)
DEATH(end_a_timeout, 100)
DEATH(register_things, 100)
DEATH(overflow, 100)
DEATH(send_a_message, 100)
DEATH(close_the_ring, 100)
DEATH(have_a_worker_post, 100)

static int start(void **state)
{
	int ret = unit_setup(state);
	char byte;

	if (ret < 0)
		return ret;
	nr_told = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(nr_told, MAP_FAILED);
	client_open(&client, ENTRIES, (struct io_uring_params){ 0 });
	file = unit_numbered_file(true, 2);
	assert_int_equal(pipe(mine), 0);
	assert_int_equal(pipe(others), 0);
	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(done), 0);
	put_read(mine, OF_PARENTS_READ);
	submit(&client, 0);
	other = fork();
	assert_true(other >= 0);
	if (other == 0)
		_exit(take_turns());
	assert_int_equal(read(done[0], &byte, 1), 1);
	return 0;
}

static int stop(void **state)
{
	int status;

	assert_int_equal(write(told[1], "e", 1), 1);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(status, 0);
	client_close(&client);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(mine[i]);
		unit_close(others[i]);
		unit_close(told[i]);
		unit_close(done[i]);
	}
	unit_close(file);
	assert_int_equal(munmap(nr_told, 4096), 0);
	return unit_teardown(state);
}

#define DEATH_TEST(act) \
	cmocka_unit_test_setup_teardown(act##_and_die, start, stop)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		DEATH_TEST(submit_known),       DEATH_TEST(read_a_file),
		DEATH_TEST(read_a_pipe),        DEATH_TEST(cancel_a_read),
		DEATH_TEST(link_and_fail),      DEATH_TEST(end_a_timeout),
		DEATH_TEST(register_things),    DEATH_TEST(overflow),
		DEATH_TEST(send_a_message),     DEATH_TEST(close_the_ring),
		DEATH_TEST(have_a_worker_post), DEATH_TEST(take_the_ring_over),
	};

	if (argc > 1)
		nr_between = 1;
	(void)argv;
	if (UNIT_IS_SANITIZED)
		return 0;
	steps = calloc(STEPS_MAX, sizeof(*steps));
	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

#else

int main(void)
{
	return 0;
}

#endif

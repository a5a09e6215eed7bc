/* SPDX-License-Identifier: MIT */
/*
 * io_uring_enter: arguments, waiting, and the results if only a part of the submissions is
 * accepted.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "uring.h"

#define GET IORING_ENTER_GETEVENTS
#define EXT (IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG)

static void descriptors(void)
{
	int file = file_of("f", 16, O_RDWR), pipes[2];

	REQUIRE(pipe(pipes) == 0);
	note_result("closed", uring_enter(77777, 1, 0, 0, NULL, 0));
	note_result("-1", uring_enter(-1, 1, 0, 0, NULL, 0));
	note_result("file", uring_enter(file, 1, 0, 0, NULL, 0));
	note_result("pipe", uring_enter(pipes[0], 0, 0, GET, NULL, 0));
	note_result("bad_flags", uring_enter(-1, 1, 0, 1u << 31, NULL, 0));
	note_result("file_bad_flags",
		    uring_enter(file, 1, 0, 1u << 31, NULL, 0));
	note_result(
		"registered",
		uring_enter(0, 1, 0, IORING_ENTER_REGISTERED_RING, NULL, 0));
	note_result(
		"registered_16",
		uring_enter(16, 1, 0, IORING_ENTER_REGISTERED_RING, NULL, 0));
	note_result(
		"registered_-1",
		uring_enter(-1, 1, 0, IORING_ENTER_REGISTERED_RING, NULL, 0));
}

static void flags(void)
{
	struct uring ring = new_uring(4, 0);
	char key[32];
	int bit;

	for (bit = 0; bit < 32; bit++) {
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_publish(&ring);
		snprintf(key, sizeof(key), "bit_%d", bit);
		note_result(key,
			    uring_enter(ring.fd, 1, 0, 1u << bit, NULL, 0));
		ring.prepared = *ring.sq_head;
		uring_publish(&ring);
		*ring.cq_head = *ring.cq_tail;
	}
}

static void nothing(void)
{
	struct uring ring = new_uring(4, 0);

	note_result("zero", uring_enter(ring.fd, 0, 0, 0, NULL, 0));
	note_result("get", uring_enter(ring.fd, 0, 0, GET, NULL, 0));
	note_result("one", uring_enter(ring.fd, 1, 0, 0, NULL, 0));
	note_result("many", uring_enter(ring.fd, -1u, 0, 0, NULL, 0));
	note_result("min_without_get", uring_enter(ring.fd, 0, 1, 0, NULL, 0));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("zero_of_one", uring_enter(ring.fd, 0, 0, 0, NULL, 0));
	note_rings("rings", &ring);
	note_result("many_of_one", uring_enter(ring.fd, 100, 0, 0, NULL, 0));
	note_rings("rings", &ring);
}

static void some_of_all(void)
{
	struct uring ring = new_uring(8, 0);
	int i;

	for (i = 0; i < 5; i++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("two", uring_enter(ring.fd, 2, 0, 0, NULL, 0));
	note_rings("rings", &ring);
	note_result("one", uring_enter(ring.fd, 1, 3, GET, NULL, 0));
	note_rings("rings", &ring);
	note_result("rest", uring_enter(ring.fd, 5, 0, 0, NULL, 0));
	note_in_order("nop", &ring, 5);
}

/*
 * Submits four requests, of which the second is refused at submission, or fails when it
 * is executed.
 */
static void with_bad_second(const char *key, uint32_t ring_flags, int opcode,
			    uint8_t sqe_flags, uint32_t get)
{
	struct uring ring = new_uring(8, ring_flags);
	struct io_uring_sqe *sqe;
	char name[64];
	int i;

	for (i = 0; i < 4; i++) {
		sqe = sqe_of(&ring, i == 1 ? opcode : IORING_OP_NOP, -1);
		if (i == 1)
			sqe->flags = sqe_flags;
	}
	uring_publish(&ring);
	note_result(key, uring_enter(ring.fd, 4, get ? 1 : 0, get, NULL, 0));
	note_rings("rings", &ring);
	snprintf(name, sizeof(name), "%s.cqe", key);
	note_in_order(name, &ring, uring_settle(&ring));
	note_result("rest", uring_submit(&ring));
	note_in_order(name, &ring, uring_settle(&ring));
	close(ring.fd);
}

static void stop_at_bad(void)
{
	with_bad_second("opcode", 0, 200, 0, 0);
	with_bad_second("opcode_get", 0, 200, 0, GET);
	with_bad_second("flags", 0, IORING_OP_NOP, 0x80, 0);
	with_bad_second("select", 0, IORING_OP_NOP, IOSQE_BUFFER_SELECT, 0);
	/*
	 * If a mistake is found only when its request is executed, the call still
	 * submits the later requests.
	 */
	with_bad_second("executed", 0, IORING_OP_READ, 0, 0);
}

static void go_on_after_bad(void)
{
	const uint32_t all = IORING_SETUP_SUBMIT_ALL;

	with_bad_second("opcode", all, 200, 0, 0);
	with_bad_second("opcode_get", all, 200, 0, GET);
	with_bad_second("flags", all, IORING_OP_NOP, 0x80, 0);
	with_bad_second("executed", all, IORING_OP_READ, 0, 0);
}

static void first_is_bad(void)
{
	struct uring ring = new_uring(8, 0);

	sqe_of(&ring, 200, -1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_rings("rings", &ring);
	note_in_order("cqe", &ring, uring_settle(&ring));
	note_result("rest", uring_submit(&ring));
	note_in_order("cqe", &ring, uring_settle(&ring));
}

static void bad_index(void)
{
	struct uring ring = new_uring(8, 0);
	int i;

	for (i = 0; i < 3; i++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	ring.sq_array[1] = 8;
	note_result("submit", uring_submit(&ring));
	note_rings("rings", &ring);
	note_in_order("cqe", &ring, uring_settle(&ring));
	note_result("rest", uring_submit(&ring));
	note_rings("rings", &ring);
	note_in_order("cqe", &ring, uring_settle(&ring));
	sqe_of(&ring, IORING_OP_NOP, -1);
	ring.sq_array[3] = -1u;
	note_result("first", uring_submit(&ring));
	note_rings("rings", &ring);
}

static void one_index_twice(void)
{
	struct uring ring = new_uring(8, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	ring.sq_array[1] = 0;
	note_result("submit", uring_submit(&ring));
	note_in_order("cqe", &ring, 2);
}

static void tail_beyond(void)
{
	struct uring ring = new_uring(4, 0);
	int i;

	for (i = 0; i < 4; i++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	*ring.sq_tail += 100;
	note_result("submit", uring_enter(ring.fd, 100, 0, 0, NULL, 0));
	note_rings("rings", &ring);
}

static void indices_wrap(void)
{
	struct uring ring = new_uring(2, 0);
	int i;

	for (i = 0; i < 7; i++) {
		sqe_of(&ring, IORING_OP_NOP, -1);
		if (i % 2)
			continue;
		note_result("submit", uring_submit(&ring));
		note_in_order("nop", &ring, uring_settle(&ring));
	}
	note_rings("rings", &ring);
}

/*
 * Waiting for completions
 */

static void wait_for_none(void)
{
	struct uring ring = new_uring(4, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit_wait(&ring, 1));
	note_result("again", uring_enter(ring.fd, 0, 1, GET, NULL, 0));
	note_ready("ready", &ring);
}

static void ext_arg_sizes(void)
{
	struct __kernel_timespec none = { 0 };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&none };
	struct uring ring = new_uring(4, 0);

	note_result("right",
		    uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	note_result("size_0", uring_enter(ring.fd, 0, 1, EXT, &arg, 0));
	note_result("size_8", uring_enter(ring.fd, 0, 1, EXT, &arg, 8));
	note_result("size_larger",
		    uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg) + 8));
	note_result("null", uring_enter(ring.fd, 0, 1, EXT, NULL, sizeof(arg)));
	note_result("kernel", uring_enter(ring.fd, 0, 1, EXT, KERNEL_ADDRESS,
					  sizeof(arg)));
	note_result("without_get",
		    uring_enter(ring.fd, 0, 1, IORING_ENTER_EXT_ARG, &arg, 8));
	note_result("size_8_min_0", uring_enter(ring.fd, 0, 0, EXT, &arg, 8));
}

static void ext_arg_times(void)
{
	struct __kernel_timespec span = { 0 };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&span };
	struct uring ring = new_uring(4, 0);

	note_result("zero", uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	span.tv_nsec = 1000000;
	note_result("ms", uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	span.tv_nsec = 2000000000;
	span.tv_sec = -1;
	note_result("past", uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	span.tv_sec = 0;
	span.tv_nsec = -1;
	note_result("negative",
		    uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	arg.ts = (uintptr_t)KERNEL_ADDRESS;
	note_result("kernel",
		    uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	note_result("kernel_min_0",
		    uring_enter(ring.fd, 0, 0, EXT, &arg, sizeof(arg)));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("kernel_submit",
		    uring_enter(ring.fd, 1, 1, EXT, &arg, sizeof(arg)));
	note_rings("rings", &ring);
}

static void time_is_up_after_submit(void)
{
	struct __kernel_timespec span = SPAN_SOON;
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&span };
	struct uring ring = new_uring(4, 0);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	sqe_of(&ring, IORING_OP_POLL_ADD, fds[0])->poll32_events = 1;
	uring_publish(&ring);
	note_result("submit",
		    uring_enter(ring.fd, 1, 1, EXT, &arg, sizeof(arg)));
	note_result("then", uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("one_of_two",
		    uring_enter(ring.fd, 1, 2, EXT, &arg, sizeof(arg)));
	note_result("one_there",
		    uring_enter(ring.fd, 0, 2, EXT, &arg, sizeof(arg)));
	note_ready("ready", &ring);
}

static void absolute_time(void)
{
	struct timespec now;
	struct __kernel_timespec end;
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&end };
	struct uring ring = new_uring(4, 0);
	const uint32_t how = EXT | IORING_ENTER_ABS_TIMER;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = (struct __kernel_timespec){ now.tv_sec, now.tv_nsec };
	note_result("now", uring_enter(ring.fd, 0, 1, how, &arg, sizeof(arg)));
	end.tv_sec = 0;
	note_result("past", uring_enter(ring.fd, 0, 1, how, &arg, sizeof(arg)));
	note_result(
		"without_ext",
		uring_enter(ring.fd, 0, 0, IORING_ENTER_ABS_TIMER, NULL, 0));
}

static void least_wait(void)
{
	struct __kernel_timespec span = span_of(60000 * MS);
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&span,
					      .min_wait_usec = 2000 };
	struct uring ring = new_uring(4, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("one_of_two",
		    uring_enter(ring.fd, 1, 2, EXT, &arg, sizeof(arg)));
	note_ready("ready", &ring);
	note_result("one_there",
		    uring_enter(ring.fd, 0, 2, EXT, &arg, sizeof(arg)));
	*ring.cq_head = *ring.cq_tail;
	span = SPAN_SOON;
	note_result("none", uring_enter(ring.fd, 0, 2, EXT, &arg, sizeof(arg)));
	arg.ts = 0;
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("for_ever",
		    uring_enter(ring.fd, 1, 2, EXT, &arg, sizeof(arg)));
	*ring.cq_head = *ring.cq_tail;
	note_result("for_ever_none",
		    uring_enter(ring.fd, 0, 2, EXT, &arg, sizeof(arg)));
}

static void wait_for_too_many(void)
{
	struct __kernel_timespec none = { 0 };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&none };
	struct uring ring = new_uring(2, 0);
	int i;

	/* A wait for more completions than the ring can hold ends when the ring is full. */
	for (i = 0; i < 2; i++) {
		sqe_of(&ring, IORING_OP_NOP, -1);
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_submit(&ring);
	}
	note_result("full", uring_enter(ring.fd, 0, 100, GET, NULL, 0));
	note_result("ext",
		    uring_enter(ring.fd, 0, 100, EXT, &arg, sizeof(arg)));
	note_ready("ready", &ring);
}

/*
 * Signals during a wait
 */

static volatile sig_atomic_t nr_caught;

static void count(int signal)
{
	(void)signal;
	nr_caught++;
}

static void catch (int signal)
{
	struct sigaction action = { .sa_handler = count };

	REQUIRE(sigaction(signal, &action, NULL) == 0);
}

static void mask_sizes(void)
{
	uint64_t mask = 0;
	struct uring ring = new_uring(4, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_result("right", uring_enter(ring.fd, 0, 1, GET, &mask, 8));
	note_result("size_0", uring_enter(ring.fd, 0, 1, GET, &mask, 0));
	note_result("size_4", uring_enter(ring.fd, 0, 1, GET, &mask, 4));
	note_result("size_16", uring_enter(ring.fd, 0, 1, GET, &mask, 16));
	note_result("kernel",
		    uring_enter(ring.fd, 0, 1, GET, KERNEL_ADDRESS, 8));
	note_result("null", uring_enter(ring.fd, 0, 1, GET, NULL, 16));
	note_result("without_get", uring_enter(ring.fd, 0, 1, 0, &mask, 4));
}

static void mask_lets_in(void)
{
	uint64_t none = 0;
	struct uring ring = new_uring(4, 0);
	struct io_uring_getevents_arg arg = { .sigmask = (uintptr_t)&none,
					      .sigmask_sz = 8 };
	sigset_t blocked, now;

	catch (SIGUSR1);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	kill(getpid(), SIGUSR1);
	note("before", nr_caught);
	note_result("wait", uring_enter(ring.fd, 0, 1, GET, &none, 8));
	note("caught", nr_caught);
	sigprocmask(SIG_BLOCK, NULL, &now);
	note("blocked_again", sigismember(&now, SIGUSR1));
	kill(getpid(), SIGUSR1);
	note_result("ext", uring_enter(ring.fd, 0, 1, EXT, &arg, sizeof(arg)));
	note("caught", nr_caught);
	kill(getpid(), SIGUSR1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("ready", uring_enter(ring.fd, 1, 1, GET, &none, 8));
	note("caught", nr_caught);
}

static void signal_interrupts(void)
{
	struct uring ring = new_uring(4, 0);
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGUSR1 };
	timer_t timer;
	struct itimerspec soon = { .it_value.tv_nsec = 20 * MS,
				   .it_interval.tv_nsec = 20 * MS };

	catch (SIGUSR1);
	REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	REQUIRE(timer_settime(timer, 0, &soon, NULL) == 0);
	note_result("wait", uring_enter(ring.fd, 0, 1, GET, NULL, 0));
	note("caught", nr_caught > 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("submitted", uring_enter(ring.fd, 1, 2, GET, NULL, 0));
	note_ready("ready", &ring);
}

static void sqpoll(void)
{
	struct uring ring = new_uring(4, IORING_SETUP_SQPOLL);
	int i;

	for (i = 0; i < 3; i++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("wakeup", uring_enter(ring.fd, 3, 0, IORING_ENTER_SQ_WAKEUP,
					  NULL, 0));
	note_in_order("nop", &ring, 3);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("get", uring_enter(ring.fd, 1, 1,
				       GET | IORING_ENTER_SQ_WAKEUP, NULL, 0));
	note_in_order("nop", &ring, 1);
	note_result("sq_wait",
		    uring_enter(ring.fd, 0, 0, IORING_ENTER_SQ_WAIT, NULL, 0));
	note("dropped", *ring.sq_dropped);
}

/*
 * The SQPOLL thread continues after a refused submission, at which io_uring_enter would
 * stop.
 */
static void sqpoll_goes_on(void)
{
	struct uring ring = new_uring(8, IORING_SETUP_SQPOLL);

	for (int i = 0; i < 6; i++)
		sqe_of(&ring, i % 3 == 1 ? 200 : IORING_OP_NOP, -1);
	ring.sq_array[3] = 8;
	uring_publish(&ring);
	note_result("wakeup", uring_enter(ring.fd, 6, 0, IORING_ENTER_SQ_WAKEUP,
					  NULL, 0));
	/*
	 * Read the ring's tail in memory again and again: a call of io_uring_enter that
	 * waits would submit requests as well.
	 */
	for (int i = 0; i < PATIENCE_MS && uring_ready(&ring) < 5; i++)
		usleep(1000);
	note("ready", uring_ready(&ring));
	note_in_order("of", &ring, 5);
	note("dropped", *ring.sq_dropped);
}

const struct row rows_uring_enter[] = {
	ROW("io_uring_enter on a descriptor that is no ring", descriptors),
	ROW("each flag of io_uring_enter", flags),
	ROW("io_uring_enter with nothing to do", nothing),
	ROW("io_uring_enter submits the requested count", some_of_all),
	ROW("a submission stops at the first that is refused", stop_at_bad),
	ROW("IORING_SETUP_SUBMIT_ALL continues after a mistake",
	    go_on_after_bad),
	ROW("a submission whose first is refused", first_is_bad),
	ROW("an index beyond the SQEs is dropped", bad_index),
	ROW("an SQE may be submitted twice", one_index_twice),
	ROW("a tail that is out of bounds", tail_beyond),
	ROW("rings wrap", indices_wrap),
	ROW("a wait for completions that are there consumes none",
	    wait_for_none),
	ROW("EXT_ARG's size and address", ext_arg_sizes),
	ROW("EXT_ARG's timeout", ext_arg_times),
	ROW("a timeout is no error if something was submitted",
	    time_is_up_after_submit),
	ROW("a timeout at a time", absolute_time),
	ROW("a least time to wait", least_wait),
	ROW("waiting for more than the ring holds", wait_for_too_many),
	ROW("a signal mask's size and address", mask_sizes),
	ROW("a signal mask lets a signal in", mask_lets_in),
	ROW("a signal interrupts a wait", signal_interrupts),
	ROW("a ring with a polling thread", sqpoll),
	ROW("the SQPOLL thread continues after a mistake", sqpoll_goes_on),
	NO_ROW,
};

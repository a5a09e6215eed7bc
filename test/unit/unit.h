/* SPDX-License-Identifier: MIT */
/*
 * Functions that the unit tests share
 *
 * The tests link a build of the engine that checks the order of locks and lets a hook
 * answer the engine's system calls. unit_setup() and unit_teardown() run
 * before and after each test. The teardown fails if the test left descriptors, threads
 * or contexts behind. If a test hangs, an alarm ends it. A test waits for events, never
 * for time to pass.
 *
 * The tests do not link the library's close() and dup2(), which tell the engine that a
 * descriptor is closed. So a test calls unit_close() and unit_dup2() instead, if the
 * engine may know the descriptor.
 */
#ifndef UNIT_H
#define UNIT_H

#include <linux/aio_abi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <cmocka.h>

/*
 * cmocka 2 has a macro named stop, but tests have functions of this name. It also has
 * new names for the two assertions below.
 */
#undef stop
#ifdef assert_uint_in_range
#undef assert_in_range
#define assert_in_range assert_uint_in_range
#undef assert_in_set
#define assert_in_set assert_uint_in_set
#endif

#include "base/sys.h"
#include "proc/process.h"
#include "wq/wq.h"
#include "op/op.h"
#include "issue/submit.h"
#include "life/life.h"
#include "uaio.h"

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { UNIT_IS_SANITIZED = 1 };
#else
enum { UNIT_IS_SANITIZED = 0 };
#endif

/* tests */

#define UNIT_TEST(function) \
	cmocka_unit_test_setup_teardown(function, unit_setup, unit_teardown)

/* Group setup for cmocka_run_group_tests(): start the engine. */
int unit_engine(void **state);

int unit_setup(void **state);
int unit_teardown(void **state);

struct unit_footprint {
	unsigned nr_fds;     /* not counting the engine's descriptors */
	unsigned nr_threads; /* not counting the engine's threads */
	uint64_t nr_contexts;
	uint64_t ring_bytes;
};

void unit_footprint(struct unit_footprint *ret_footprint);

/*
 * *ret_nr_sleeps: how often the engine's threads have slept, in total.
 * Return: how many threads the engine has.
 */
unsigned unit_engine_threads(uint64_t *ret_nr_sleeps);

/*
 * An ended thread may take this long to disappear from /proc. A thread that is still
 * there afterwards counts as leaked, however busy the machine is.
 */
enum { UNIT_PATIENCE_MS = 10000 };

/*
 * Return: the name of a leaked resource: a member of the footprint that stays higher
 * than in `before` for patience_ms. NULL: no member does.
 */
const char *unit_find_leak(const struct unit_footprint *before,
			   unsigned patience_ms);

/*
 * Return: how many rounds a test makes: n, or fewer with a sanitizer, which makes the
 * test slow.
 */
static inline unsigned unit_rounds(unsigned n)
{
	return UNIT_IS_SANITIZED ? (n + 9) / 10 : n;
}

/*
 * Run the function in a child process, with a time limit.
 * Return: the child's exit status; if a signal ended the child, the negative signal
 * number.
 */
int unit_in_child(int (*function)(void));

/*
 * A thread that returns a result to the test. The thread itself must not use assertions
 * of cmocka.
 */
struct unit_thread {
	long (*function)(void *arg);
	void *arg;
	long ret;
	unsigned long id;
	uint32_t tid; /* atomic: id of the thread; 0 until it runs */
};

void unit_thread_start(struct unit_thread *thread, long (*function)(void *),
		       void *arg);
long unit_thread_join(struct unit_thread *thread);

/* Return: whether the kernel reports that the thread sleeps or has ended. */
bool unit_is_asleep(uint32_t tid);
/*
 * Return: whether all threads sleep, except for the caller and the thread `held` (if
 * not 0).
 */
bool unit_is_quiet(uint32_t held);
/* Return once the thread sleeps, but not because it waits for a lock. */
void unit_await_sleep(const struct unit_thread *thread);

/* Return: how often the thread has slept. */
uint64_t unit_thread_sleeps(const struct unit_thread *thread);

/*
 * For unit_await().
 * Return: whether the word, which other threads set atomically, is not 0.
 */
bool unit_is_set(void *word);

/* Restart the alarm that ends a test which hangs. For long tests that make progress. */
void unit_restart_alarm(void);

/* Return once condition(arg) is true. If it never is, the alarm ends the test. */
void unit_await(bool (*condition)(void *arg), void *arg);

/* interleavings */

/*
 * Whether a thread can be held at an instruction. If not, unit_step_through() runs the
 * test only once.
 */
#if defined(__x86_64__)
enum { UNIT_CAN_STEP = !UNIT_IS_SANITIZED };
#else
enum { UNIT_CAN_STEP = 0 };
#endif

/*
 * Run victim(arg) on a thread. When it has executed n instructions, or has returned, or
 * sleeps for good, run intruder(arg) on another thread. The victim is held until the
 * intruder has returned, or until all other threads sleep.
 *
 * In the first call n must be 0: then the victim is not held, and its instructions are
 * counted. In that call the victim must start no thread, because starting one blocks
 * signals.
 * Return: how many instructions the victim has.
 */
unsigned unit_interleave(unsigned n, long (*victim)(void *),
			 long (*intruder)(void *), void *arg, long ret_rets[2]);

/* The functions of a test, which unit_step_through() calls in each step */
typedef long unit_step_fn(void *arg);

struct unit_stepping {
	unit_step_fn *victim;
	unit_step_fn *intruder;
	void (*prepare)(void);
	void (*check)(long victims, long intruders);
	/* the test fails if the victim has no more instructions than this */
	unsigned nr_min;
	/* hold the victim at each stride-th instruction; 0: at each one */
	unsigned stride;
};

/* Call unit_interleave() for one instruction of the victim after another. */
void unit_step_through(const struct unit_stepping *stepping);

/*
 * Unblock SIGTRAP in this thread, so that it may run the victim's code and come to the
 * breakpoint.
 */
void unit_let_step(void);

/* system calls */

/* From now on, call `hook` before each system call of the engine; NULL: no hook. */
void unit_hook(uaio_sys_hook_fn *hook);

/* Return: how many system calls the engine's threads make during act(arg). */
unsigned unit_count_calls(void (*act)(void *arg), void *arg);

/*
 * For hooks: make the system call.
 * Return: the kernel's result.
 */
long unit_make_call(long nr, const long args[6]);
/* A hook: makes each system call that allocates memory fail. */
bool unit_refuse_memory(long nr, const long args[6], long *ret_res);

/*
 * For hooks: make the system call take at least us microseconds. If `sleeps`, the
 * thread sleeps for this time; otherwise it uses the processor.
 */
void unit_take_time(uint32_t us, bool sleeps);

/*
 * For a hook of fstatfs(): report what the kernel reports, but the type ext4, so that
 * the engine treats each file as one on ext4.
 */
long unit_say_ext4(const long args[6]);

/*
 * Make the engine's n-th system call, counted from now, fail with an error that the
 * kernel may return. Calls that cannot fail are not counted. of_this_thread: count only
 * the calls of this thread; otherwise those of all threads. n = 0: no further call fails.
 */
void unit_fail_nth(unsigned n, bool of_this_thread);
/* Return: whether a call has failed because of unit_fail_nth(). */
bool unit_has_failed(void);

/*
 * The gate holds reads, writes and syncs that other threads make on fd. Each call has a
 * key: UNIT_KEY_SYNC for a sync, else the call's offset divided by UNIT_KEY_BYTES.
 */
enum { UNIT_KEY_BYTES = 512, UNIT_KEY_SYNC = 63 };

void unit_gate_close(int fd);
/* Return once the gate of unit_gate_close() holds nr calls. */
void unit_gate_await(unsigned nr);
/* Return once the gate of unit_gate_close() holds the call with this key. */
void unit_gate_await_key(unsigned key);
void unit_gate_pass(unsigned key);
void unit_gate_open(void);

struct unit_call {
	unsigned key;
	bool is_end;
};

/*
 * *ret_log: the beginnings and ends of calls on the gate's file, in order.
 * Return: how many elements the log has.
 */
unsigned unit_gate_log(const struct unit_call **ret_log);
/*
 * Return: the index in the log at which the call with this key began (or ended); -1 if
 * it did not.
 */
int unit_gate_began(unsigned key);
int unit_gate_ended(unsigned key);

/* descriptors */

void unit_close(int fd);
void unit_dup2(int from, int to);
/* Return: a file without a name, in memory or in the current directory. */
int unit_file(bool in_memory);
/*
 * Return: a file of nr blocks of UNIT_KEY_BYTES bytes, each filled with its number.
 */
int unit_numbered_file(bool in_memory, unsigned nr);

/* requests through kernel AIO */

struct iocb unit_iocb(unsigned opcode, int fd, void *buf, size_t bytes,
		      int64_t off);
uint64_t unit_context(unsigned nr_events);
void unit_destroy(uint64_t handle);
/*
 * Submit one iocb.
 * Return: the result of io_submit.
 */
long unit_submit(uint64_t handle, struct iocb *iocb);
/* Return: how many requests, of all contexts, were executed inside io_submit. */
uint64_t unit_nr_inline(void);
/*
 * Submit a request to the engine directly, not through kernel AIO.
 * Return: 0, or the error if it was refused.
 */
long unit_submit_sqe(uint64_t handle, const struct uaio_sqe *sqe);
/*
 * Wait until there are nr events.
 * Return: how many were reaped.
 */
long unit_reap(uint64_t handle, long nr, struct io_event *ret_events);
/* Assert that the context has no unread event. */
void unit_assert_no_more(uint64_t handle);
/*
 * Wait for one event.
 * Return: the member res of that event.
 */
int64_t unit_reap_one(uint64_t handle);

#endif /* UNIT_H */

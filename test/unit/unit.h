/* SPDX-License-Identifier: MIT */
/*
 * Functions that unit tests share
 *
 * The tests link the engine compiled for testing: it checks lock ranks, and a
 * hook can answer its system calls. Each test runs between a setup and a
 * teardown. The teardown finds descriptors, threads and contexts that the test
 * left behind. An alarm ends a test that hangs. A test waits for events, never
 * for time to pass.
 *
 * The library's interposed close() and dup2() are not linked. So a test closes
 * descriptors that the engine may know through unit_close() and unit_dup2().
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

/* cmocka 2 defines a macro named stop, and renames these macros. */
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

/* For cmocka_run_group_tests(): starts the engine. */
int unit_engine(void **state);

int unit_setup(void **state);
int unit_teardown(void **state);

struct unit_footprint {
	unsigned nr_fds;     /* without the engine's descriptors */
	unsigned nr_threads; /* without the engine's threads */
	uint64_t nr_contexts;
	uint64_t ring_bytes;
};

void unit_footprint(struct unit_footprint *ret_footprint);

/* Return: how many threads the engine has, and how often they slept. */
unsigned unit_engine_threads(uint64_t *ret_nr_sleeps);

/*
 * How long ended threads may take to disappear. Then they are leaks, however
 * busy the machine is.
 */
enum { UNIT_PATIENCE_MS = 10000 };

/* Return: the name of a count that has grown since before; NULL if none has. */
const char *unit_find_leak(const struct unit_footprint *before,
			   unsigned patience_ms);

/* Return: n, or a tenth of n under a sanitizer, where everything is slower. */
static inline unsigned unit_rounds(unsigned n)
{
	return UNIT_IS_SANITIZED ? (n + 9) / 10 : n;
}

/*
 * Runs function in a child with a time limit. Return: its exit status, or minus
 * the signal that ended it.
 */
int unit_in_child(int (*function)(void));

/* A thread whose result the test awaits. The test asserts, not the thread. */
struct unit_thread {
	long (*function)(void *arg);
	void *arg;
	long ret;
	unsigned long id;
	uint32_t tid; /* atomic: its thread id, once it runs */
};

void unit_thread_start(struct unit_thread *thread, long (*function)(void *),
		       void *arg);
long unit_thread_join(struct unit_thread *thread);

/* Return: whether the kernel shows the thread asleep, or gone. */
bool unit_is_asleep(uint32_t tid);
/* Return: whether all threads but the caller and held (if not 0) sleep. */
bool unit_is_quiet(uint32_t held);
/* Returns once the thread sleeps, and not on a lock. */
void unit_await_sleep(const struct unit_thread *thread);

/* Return: how often the thread has slept. */
uint64_t unit_thread_sleeps(const struct unit_thread *thread);

/* For unit_await(): whether the word, which other threads set atomically, is not 0. */
bool unit_is_set(void *word);

/* Restarts the test's alarm: the test makes progress, so it does not hang. */
void unit_restart_alarm(void);

/* Returns once condition(arg) is true, else the alarm ends the test. */
void unit_await(bool (*condition)(void *arg), void *arg);

/* interleavings */

/* Whether a thread can be held at an instruction. If not, tests run once. */
#if defined(__x86_64__)
enum { UNIT_CAN_STEP = !UNIT_IS_SANITIZED };
#else
enum { UNIT_CAN_STEP = 0 };
#endif

/*
 * Runs victim(arg) on a thread. When the victim has executed n instructions, or
 * has returned, or sleeps for good, runs intruder(arg) on another thread. The
 * victim is held until the intruder has returned, or all threads but the victim
 * sleep.
 *
 * The first call must have 0 for n: then the victim is not held, and its
 * instructions are counted. In that call the victim must start no thread,
 * because that blocks signals. Return: the number of instructions.
 */
unsigned unit_interleave(unsigned n, long (*victim)(void *),
			 long (*intruder)(void *), void *arg, long ret_rets[2]);

/* The parts of a test that all its steps share. */
typedef long unit_step_fn(void *arg);

struct unit_stepping {
	unit_step_fn *victim;
	unit_step_fn *intruder;
	void (*prepare)(void);
	void (*check)(long victims, long intruders);
	unsigned nr_min; /* the fewest instructions that the victim can have */
	/* hold the victim at every stride-th instruction; 0: at every one */
	unsigned stride;
};

/* Calls unit_interleave() for the instructions of the victim. */
void unit_step_through(const struct unit_stepping *stepping);

/*
 * Lets a thread with blocked signals that runs the victim's code meet the
 * breakpoint.
 */
void unit_let_step(void);

/* system calls */

/* Calls hook before each system call of the engine; NULL: no hook. */
void unit_hook(uaio_sys_hook_fn *hook);

/* Return: how many system calls all threads of the engine make in act(arg). */
unsigned unit_count_calls(void (*act)(void *arg), void *arg);

/* For a hook: makes the call. Return: the kernel's result. */
long unit_make_call(long nr, const long args[6]);
/* A hook that fails system calls that allocate memory. */
bool unit_refuse_memory(long nr, const long args[6], long *ret_res);

/* For a hook: makes a call take at least us microseconds. */
void unit_take_time(uint32_t us, bool sleeps);

/* For a hook of fstatfs(): the kernel's answer, but of type ext4. */
long unit_say_ext4(const long args[6]);

/*
 * Fails the n-th system call from now on, of this thread only or of all threads, with an
 * error that the kernel may return. Calls that cannot fail are not counted. n = 0: stop
 * failing calls.
 */
void unit_fail_nth(unsigned n, bool of_this_thread);
/* Return: whether unit_fail_nth() has failed a call. */
bool unit_has_failed(void);

/*
 * A gate that holds the reads, writes and syncs of other threads on fd. Each
 * call has a key: its offset divided by UNIT_KEY_BYTES, or UNIT_KEY_SYNC.
 */
enum { UNIT_KEY_BYTES = 512, UNIT_KEY_SYNC = 63 };

void unit_gate_close(int fd);
/* Returns once the gate holds nr calls. */
void unit_gate_await(unsigned nr);
/* Returns once the gate holds the call with this key. */
void unit_gate_await_key(unsigned key);
void unit_gate_pass(unsigned key);
void unit_gate_open(void);

struct unit_call {
	unsigned key;
	bool is_end;
};

/* Return: how many calls on the gate's file began and ended, in order. */
unsigned unit_gate_log(const struct unit_call **ret_log);
/* Return: the index in the log where the call began (or ended), or -1. */
int unit_gate_began(unsigned key);
int unit_gate_ended(unsigned key);

/* descriptors */

void unit_close(int fd);
void unit_dup2(int from, int to);
/* Return: a file without a name, in memory or in the current directory. */
int unit_file(bool in_memory);
/* Return: a file of nr numbered blocks of UNIT_KEY_BYTES. */
int unit_numbered_file(bool in_memory, unsigned nr);

/* requests, by calls of the front-end */

struct iocb unit_iocb(unsigned opcode, int fd, void *buf, size_t bytes,
		      int64_t off);
uint64_t unit_context(unsigned nr_events);
void unit_destroy(uint64_t handle);
/* Submits one iocb. Return: what io_submit returns. */
long unit_submit(uint64_t handle, struct iocb *iocb);
/* Return: the number of requests executed inside io_submit, in all contexts. */
uint64_t unit_nr_inline(void);
/* Submits without the front-end. Return: 0, or the error of the refusal. */
long unit_submit_sqe(uint64_t handle, const struct uaio_sqe *sqe);
/* Waits for nr events. Return: the number of events. */
long unit_reap(uint64_t handle, long nr, struct io_event *ret_events);
/* Asserts that the context has no event. */
void unit_assert_no_more(uint64_t handle);
/* Waits for one event. Return: its res. */
int64_t unit_reap_one(uint64_t handle);

#endif /* UNIT_H */

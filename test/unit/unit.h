/* SPDX-License-Identifier: MIT */
/*
 * The functions that unit tests share
 *
 * The tests link the engine compiled for testing: lock ranks are checked, and a
 * hook can answer system calls. Each test runs between a setup and a teardown,
 * which finds descriptors, threads and contexts that the test left behind, and
 * with an alarm that ends it if it hangs. A test waits for events, never for time
 * to pass.
 *
 * The library's stand-ins for close() and dup2() are not linked, so a test
 * closes what the engine may know through unit_close() and unit_dup2().
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

/* cmocka 2 has a macro by this name, and new names for these. */
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

/* For cmocka_run_group_tests(): the engine is up after it. */
int unit_engine(void **state);

int unit_setup(void **state);
int unit_teardown(void **state);

struct unit_footprint {
	unsigned nr_fds;     /* without the engine's own */
	unsigned nr_threads; /* without the engine's own */
	uint64_t nr_contexts;
	uint64_t ring_bytes;
};

void unit_footprint(struct unit_footprint *ret_footprint);

/* Return: how many threads the engine has, and how often they have slept. */
unsigned unit_engine_threads(uint64_t *ret_nr_sleeps);

/*
 * How long threads that have ended get to disappear: a thread that is left then is
 * a leak, however busy the machine is.
 */
enum { UNIT_PATIENCE_MS = 10000 };

/* Return: the name of a count that has grown since before; NULL if none has. */
const char *unit_find_leak(const struct unit_footprint *before,
			   unsigned patience_ms);

/* Return: n, or a smaller number where everything is slower. */
static inline unsigned unit_rounds(unsigned n)
{
	return UNIT_IS_SANITIZED ? (n + 9) / 10 : n;
}

/*
 * Run function in a child with a hard limit of time.
 * Return: its exit status, or minus the signal that ended it.
 */
int unit_in_child(int (*function)(void));

/* A thread whose result is awaited; failures are asserted by the test. */
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
/* Return: whether all threads sleep but the caller's, and held, if not 0. */
bool unit_is_quiet(uint32_t held);
/* Return once the thread sleeps, and not on a lock. */
void unit_await_sleep(const struct unit_thread *thread);

/* Return: how often it has slept. */
uint64_t unit_thread_sleeps(const struct unit_thread *thread);

/* For unit_await(): the word, which is set atomically, is not 0. */
bool unit_is_set(void *word);

/* The test makes progress, so it does not hang: restart its alarm. */
void unit_restart_alarm(void);

/* Return once condition(arg) is true; the alarm ends the test if it stays so. */
void unit_await(bool (*condition)(void *arg), void *arg);

/* interleavings */

/* Whether a thread can be held at an instruction; if not, each test runs once. */
#if defined(__x86_64__)
enum { UNIT_CAN_STEP = !UNIT_IS_SANITIZED };
#else
enum { UNIT_CAN_STEP = 0 };
#endif

/*
 * Run victim(arg) on a thread. When it has executed n instructions, or has
 * returned or sleeps for good, run intruder(arg) on another thread. The victim is
 * held until the intruder has returned, or all threads but the victim sleep. The
 * first call has to be with 0 for n: then the victim is not held, and its
 * instructions are counted. It must start no thread in that call, as that blocks
 * signals.
 * Return: the number of instructions.
 */
unsigned unit_interleave(unsigned n, long (*victim)(void *),
			 long (*intruder)(void *), void *arg, long ret_rets[2]);

/* The parts of a test that are the same for all of its steps. */
typedef long unit_step_fn(void *arg);

struct unit_stepping {
	unit_step_fn *victim;
	unit_step_fn *intruder;
	void (*prepare)(void);
	void (*check)(long victims, long intruders);
	unsigned nr_min; /* instructions that the victim has at least */
	unsigned stride; /* it is held at one of so many; 0: at each */
};

/* unit_interleave() at the instructions of the victim. */
void unit_step_through(const struct unit_stepping *stepping);

/* For a thread with signals blocked that executes the victim's code, too. */
void unit_let_step(void);

/* system calls */

/* Call hook before each system call of the engine; NULL: no hook. */
void unit_hook(uaio_sys_hook_fn *hook);

/* Return: how many system calls all threads of the engine make in act(arg). */
unsigned unit_count_calls(void (*act)(void *arg), void *arg);

/* For a hook: make the call. Return: as the kernel. */
long unit_make_call(long nr, const long args[6]);
/* A hook that refuses memory. */
bool unit_refuse_memory(long nr, const long args[6], long *ret_res);

/* For a hook, of a call that is slow: it takes so long at least. */
void unit_take_time(uint32_t us, bool sleeps);

/* For a hook, of fstatfs(): the kernel's answer, but the file is on ext4. */
long unit_say_ext4(const long args[6]);

/*
 * Fail the n-th call (from 1), of this thread only or of all, with an error that
 * the kernel may give. Calls that cannot fail are not counted. 0 ends it.
 */
void unit_fail_nth(unsigned n, bool of_this_thread);
/* Return: whether a call has failed. */
bool unit_has_failed(void);

/*
 * A gate that holds the reads, writes and syncs of other threads on fd. Each call
 * has a key: its offset divided by UNIT_KEY_BYTES, or UNIT_KEY_SYNC.
 */
enum { UNIT_KEY_BYTES = 512, UNIT_KEY_SYNC = 63 };

void unit_gate_close(int fd);
/* Return once nr calls are being held. */
void unit_gate_await(unsigned nr);
/* Return once the call with this key is being held. */
void unit_gate_await_key(unsigned key);
void unit_gate_pass(unsigned key);
void unit_gate_open(void);

struct unit_call {
	unsigned key;
	bool is_end;
};

/* Return: how many calls on the gate's file began and ended, in order. */
unsigned unit_gate_log(const struct unit_call **ret_log);
/* Return: place in the log where the call began (or ended), or -1. */
int unit_gate_began(unsigned key);
int unit_gate_ended(unsigned key);

/* descriptors */

void unit_close(int fd);
void unit_dup2(int from, int to);
/* A file without a name, in memory or in the current folder. */
int unit_file(bool in_memory);
/* A file of nr blocks of UNIT_KEY_BYTES, each filled with its own number. */
int unit_numbered_file(bool in_memory, unsigned nr);

/* requests, by the front-end's calls */

struct iocb unit_iocb(unsigned opcode, int fd, void *buf, size_t bytes,
		      int64_t off);
uint64_t unit_context(unsigned nr_events);
void unit_destroy(uint64_t handle);
/* Submit one iocb. Return: as io_submit. */
long unit_submit(uint64_t handle, struct iocb *iocb);
/* Return: the number of requests executed inside io_submit, in all contexts. */
uint64_t unit_nr_inline(void);
/* Submit past the front-end. Return: 0, or the error of the refusal. */
long unit_submit_sqe(uint64_t handle, const struct uaio_sqe *sqe);
/* Wait for nr events. Return: the number of events. */
long unit_reap(uint64_t handle, long nr, struct io_event *ret_events);
/* The context has no event. */
void unit_assert_no_more(uint64_t handle);
/* Wait for one event. Return: its res. */
int64_t unit_reap_one(uint64_t handle);

#endif /* UNIT_H */

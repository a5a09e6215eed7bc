/* SPDX-License-Identifier: MIT */
/*
 * Holds a thread between any two of its instructions, while another thread runs
 *
 * A test has two functions, the victim and the intruder, which run in two threads. In a
 * first run, the victim's thread traps after each instruction, and the addresses are
 * recorded. That is slow, but needed only once. Each further run sets a breakpoint
 * where the victim will be after n instructions. The victim is held there until the
 * intruder has returned or waits. So a test need not wait for a race to happen: it
 * causes each possible interleaving in turn.
 */
#undef NDEBUG
#include "unit.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"

enum {
	/* how many successive checks must find all threads asleep */
	LOOKS = 2,
	/* nanoseconds between two checks; each check disturbs the threads */
	LOOK_NS = 30000,
};

static struct {
	/* immutable while the threads run */
	long (*victim)(void *arg);
	long (*intruder)(void *arg);
	void *arg;
	unsigned n;

	/* atomic */
	uint32_t intrudes; /* the intruder's thread may begin */
	/* the victim's thread has been held since run_both() last cleared this */
	uint32_t is_held;
	uint32_t goes_on; /* the victim's thread may continue */
	/* the thread for which await_stop() waits has returned */
	uint32_t is_through;
	/* how often is_held and is_through were set; await_stop() sleeps on this */
	uint32_t nr_stops;
} step;

static void report_stop(uint32_t *flag)
{
	store_release(flag, 1);
	add_seq_cst(&step.nr_stops, 1);
	uaio_wake(&step.nr_stops, 1);
}

static void hold_victim(void)
{
	report_stop(&step.is_held);
	while (!load_acquire(&step.goes_on))
		(void)uaio_sleep(&step.goes_on, 0, UAIO_FOREVER);
}

#if defined(__x86_64__)
enum {
	TRAP_FLAG = 1 << 8,
	BREAKPOINT = 0xcc,
	PAGE = 4096,
	MAX_TRACE = 1 << 18
};

/*
 * The address at which the victim is after each of its instructions, in order. Only the
 * victim's thread records the addresses.
 */
static struct {
	uint64_t *at; /* owns */
	unsigned nr;
	uint32_t is_on; /* atomic */
} trace;

static struct {
	uint32_t lock; /* atomic: a spin lock; its holder calls no function */

	/* under lock */
	bool is_set;
	uint8_t *at;
	/* byte of the instruction which the breakpoint replaces */
	uint8_t byte;
	/*
	 * the victim's thread is held when it comes to the breakpoint for the
	 * nr_passes-th time
	 */
	uint32_t nr_passes;
} breakpoint;

static _Thread_local bool is_victim;

static void lock_breakpoint(void)
{
	uint32_t free = 0;

	while (!cas_acquire(&breakpoint.lock, &free, 1))
		free = 0;
}

static void unlock_breakpoint(void)
{
	store_release(&breakpoint.lock, 0);
}

/*
 * Set the breakpoint again, unless the test has removed it. Until the test has removed
 * it, other threads may come to the breakpoint.
 */
static void set_again(void)
{
	lock_breakpoint();
	if (breakpoint.is_set)
		store_relaxed(breakpoint.at, (uint8_t)BREAKPOINT);
	unlock_breakpoint();
}

static void remove_breakpoint(void)
{
	lock_breakpoint();
	if (breakpoint.is_set)
		store_relaxed(breakpoint.at, breakpoint.byte);
	breakpoint.is_set = false;
	unlock_breakpoint();
}

/*
 * A thread has come to the breakpoint and must continue. If the breakpoint has been
 * removed meanwhile, the thread just continues. Otherwise it executes the original
 * instruction (with TRAP_FLAG), and then sets the breakpoint again.
 * Return: whether this is the victim's thread at its n-th instruction.
 */
static bool meet_breakpoint(uint8_t *at, greg_t *flags)
{
	bool is_due;

	lock_breakpoint();
	if (!breakpoint.is_set || at != breakpoint.at) {
		unlock_breakpoint();
		return false;
	}
	is_due = is_victim && --breakpoint.nr_passes == 0;
	store_relaxed(at, breakpoint.byte);
	if (is_due)
		breakpoint.is_set = false;
	else
		*flags |= TRAP_FLAG;
	unlock_breakpoint();
	return is_due;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	greg_t *flags = &regs[REG_EFL];

	(void)signal;
	if (is_victim && load_relaxed(&trace.is_on)) {
		assert(trace.nr < MAX_TRACE);
		trace.at[trace.nr++] = (uint64_t)regs[REG_RIP];
		*flags |= TRAP_FLAG;
	} else if (info->si_code != SI_KERNEL) {
		/* The trap comes from TRAP_FLAG, after the original instruction. */
		*flags &= ~(greg_t)TRAP_FLAG;
		set_again();
	} else if (meet_breakpoint((uint8_t *)--regs[REG_RIP], flags)) {
		hold_victim();
	}
}

static void start_trace(void)
{
	if (!trace.at)
		trace.at = malloc(MAX_TRACE * sizeof(*trace.at));
	assert(trace.at);
	trace.nr = 0;
	store_relaxed(&trace.is_on, 1);
	__asm__ volatile("int3" ::: "memory");
}

static void stop_trace(void)
{
	store_relaxed(&trace.is_on, 0);
}

/*
 * Set the breakpoint at the address that the victim reaches after its n-th instruction.
 * The victim may come to this address several times, so count how often.
 */
static void set_breakpoint(unsigned n)
{
	uint8_t *at = (uint8_t *)trace.at[n - 1];
	uint8_t *page = (uint8_t *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1));
	uint32_t nr_passes = 0;

	/*
	 * In the vDSO (the kernel's code that reads the clock) mprotect() fails: set no
	 * breakpoint there.
	 */
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
		return;
	for (unsigned i = 0; i < n; i++)
		nr_passes += trace.at[i] == trace.at[n - 1];
	lock_breakpoint();
	breakpoint.at = at;
	breakpoint.byte = *at;
	breakpoint.nr_passes = nr_passes;
	breakpoint.is_set = true;
	store_relaxed(at, (uint8_t)BREAKPOINT);
	unlock_breakpoint();
}

static void set_victim(bool is)
{
	is_victim = is;
}

static unsigned nr_traced(void)
{
	return trace.nr;
}
#else
static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	hold_victim();
}

static void start_trace(void)
{
}

static void stop_trace(void)
{
}

static void set_breakpoint(unsigned n)
{
	(void)n;
}

static void remove_breakpoint(void)
{
}

static void set_victim(bool is)
{
	(void)is;
}

static unsigned nr_traced(void)
{
	return 0;
}
#endif

static long run_victim(void *arg)
{
	long ret;

	(void)arg;
	/*
	 * Let this thread trap only from here to set_victim(false). When a thread begins
	 * or ends, the C library blocks signals, and a trap would be fatal.
	 */
	set_victim(true);
	if (step.n)
		set_breakpoint(step.n);
	else if (UNIT_CAN_STEP)
		start_trace();
	ret = step.victim(step.arg);
	stop_trace();
	remove_breakpoint();
	set_victim(false);
	report_stop(&step.is_through);
	return ret;
}

static long run_intruder(void *arg)
{
	long ret;

	(void)arg;
	while (!load_acquire(&step.intrudes))
		(void)uaio_sleep(&step.intrudes, 0, UAIO_FOREVER);
	/*
	 * The victim has returned, or sleeps for good, so its last instruction has been
	 * recorded.
	 */
	stop_trace();
	ret = step.intruder(step.arg);
	report_stop(&step.is_through);
	return ret;
}

/*
 * Return when the running thread has returned or is held, or when all threads sleep.
 */
static void await_stop(uint32_t held)
{
	unsigned nr_quiet = 0;

	while (nr_quiet < LOOKS) {
		uint32_t nr_stops = load_acquire(&step.nr_stops);

		if (load_acquire(&step.is_through) ||
		    load_acquire(&step.is_held))
			return;
		if (uaio_sleep(&step.nr_stops, nr_stops,
			       uaio_now_ns() + LOOK_NS) == -ETIMEDOUT)
			nr_quiet = unit_is_quiet(held) ? nr_quiet + 1 : 0;
	}
}

static void run_both(long ret_rets[2])
{
	struct unit_thread threads[2];

	store_relaxed(&step.intrudes, 0);
	store_relaxed(&step.is_held, 0);
	store_relaxed(&step.goes_on, 0);
	store_relaxed(&step.is_through, 0);
	unit_thread_start(&threads[1], run_intruder, NULL);
	unit_thread_start(&threads[0], run_victim, NULL);
	await_stop(0);
	/* The next await_stop() waits until the thread of run_intruder() stops. */
	store_relaxed(&step.is_through, 0);
	store_relaxed(&step.is_held, 0);
	store_release(&step.intrudes, 1);
	uaio_wake(&step.intrudes, 1);
	await_stop(load_relaxed(&threads[0].tid));
	store_release(&step.goes_on, 1);
	uaio_wake(&step.goes_on, 1);
	for (int i = 0; i < 2; i++)
		ret_rets[i] = unit_thread_join(&threads[i]);
}

unsigned unit_interleave(unsigned n, long (*victim)(void *),
			 long (*intruder)(void *), void *arg, long ret_rets[2])
{
	struct sigaction action = { .sa_sigaction = on_trap,
				    .sa_flags = SA_SIGINFO };
	int ret = sigaction(SIGTRAP, &action, NULL);

	/*
	 * The handler of SIGTRAP stays installed after the test, because a worker may
	 * still come to the breakpoint.
	 */
	assert(ret == 0);
	unit_restart_alarm();
	step.victim = victim;
	step.intruder = intruder;
	step.arg = arg;
	step.n = n;
	run_both(ret_rets);
	return UNIT_CAN_STEP ? nr_traced() : 0;
}

void unit_step_through(const struct unit_stepping *stepping)
{
	const unsigned stride = stepping->stride ? stepping->stride : 1;
	unsigned nr = 0;

	/*
	 * With n = 0, the victim runs without being held, and its instructions are
	 * counted.
	 */
	for (unsigned n = 0; n <= nr; n += n ? stride : 1) {
		long rets[2];

		stepping->prepare();
		nr = unit_interleave(n, stepping->victim, stepping->intruder,
				     NULL, rets);
		stepping->check(rets[0], rets[1]);
	}
	print_message("%u instructions\n", nr);
	if (UNIT_CAN_STEP)
		assert_true(nr > stepping->nr_min);
}

void unit_let_step(void)
{
	sigset_t set;
	int ret;

	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	ret = pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	assert(ret == 0);
}

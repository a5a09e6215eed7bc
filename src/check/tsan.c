/* SPDX-License-Identifier: MIT */
/*
 * Presents each request to ThreadSanitizer as accesses by another thread of the program
 *
 * ThreadSanitizer does not see what the kernel reads and writes. Nor does it see that a
 * request is ordered before the thread that gets its completion. So the library makes
 * the accesses of each request on a fiber, which the sanitizer treats as another
 * thread.
 *
 *   T1  A request is ordered after its submission. The library reads and writes its
 *       memory immediately, on a fiber; these accesses are attributed to the place in the
 *       program that submits. An access of the program is a race unless it is ordered
 *       before the submission, or after the program got the completion.
 *   T2  What a thread does before it submits is ordered before what any thread does after it
 *       got a later completion of the same queue. Programs see completions by reading one
 *       word, the tail of the queue.
 *   T3  What a request does is ordered before what follows its completion: its fiber
 *       releases the tail. The library's thread that completes the request is not ordered
 *       after the request, so no false order hides races.
 *   T4  What requests write is ordered before what later requests read: a file, a pipe or a
 *       socket may transport the bytes. (The sanitizer also treats all sockets as one.)
 *   T5  A thread switches to a fiber only under the fiber's lock, and with all signals blocked:
 *       the sanitizer would deliver a signal to the fiber.
 *   T6  A mapping is ordered after all earlier unmappings. The memory of a new ring may lie
 *       where an old ring was, and the sanitizer sees neither system call.
 *   T7  If the library calls a function of the program for a completion, the function is
 *       ordered after all completed requests.
 *
 * A fiber costs milliseconds and most of a MiB, so there are few fibers. A thread first
 * reuses the fiber that it has created. If no fiber is free, requests share a fiber: the
 * sanitizer may then miss a race, but does not report a false one.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/checker.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/sys.h"
#include "check/check.h"
#include "check/checkint.h"

enum { FIBERS = 64, NO_SYNC = 1 };

static const char REQUEST[] = "uaio: a request in flight";

/*
 * If the library itself is instrumented, it presents no requests to the sanitizer: on a
 * fiber, the sanitizer would also see the library's own accesses.
 */
#ifdef __SANITIZE_THREAD__
enum { IS_INSTRUMENTED = true };
#else
enum { IS_INSTRUMENTED = false };
#endif

struct fiber {
	struct uaio_lock lock; /* rank FIBER */
	/*
	 * the sanitizer's pointer to the fiber; NULL: not created; changes under the
	 * lock
	 */
	void *context;
	/*
	 * Set by the thread that is on the fiber: where to return, and its signal mask.
	 */
	void *from;
	uint64_t signals;

	/* under fibers.lock */
	/* identifies the thread that created the fiber (its uaio_check_me()) */
	uintptr_t owner;
	uint32_t users; /* requests in flight */
};

/*
 * Functions of ThreadSanitizer. In a process without the sanitizer, `acquire` is NULL.
 */
static struct {
	void (*acquire)(void *at);
	void (*release)(void *at);
	void *(*current)(void);
	void *(*create)(unsigned flags);
	void (*name)(void *context, const char *name);
	void (*switch_to)(void *context, unsigned flags);
	void (*read)(void *at, unsigned long bytes, void *pc);
	void (*write)(void *at, unsigned long bytes, void *pc);
	void (*call)(void *pc);
	void (*leave)(void);
	int (*get_report)(void *report, const char **kind, int *nr_reports,
			  int *nr_stacks, int *nr_accesses, int *nr_locations,
			  int *nr_mutexes, int *nr_threads, int *nr_thread_ids,
			  void **sleep_trace, unsigned long trace_len);
	int (*get_access)(void *report, unsigned long i, int *thread, void **at,
			  int *bytes, int *is_written, int *is_atomic,
			  void **trace, unsigned long trace_len);
	/* os_id points to 4 or 8 bytes, depending on the sanitizer's version */
	int (*get_thread)(void *report, unsigned long i, int *thread,
			  uint64_t *os_id, int *is_running, const char **name,
			  int *parent, void **trace, unsigned long trace_len);
} tsan;

static struct {
	struct uaio_lock lock; /* rank FIBERS */
	uint32_t nr;           /* under the lock */
	struct fiber all[FIBERS];
} fibers;

static struct fiber courier;
/*
 * The addresses of these variables stand for all transfers (T4), all mappings (T6) and
 * all completions (T7).
 */
static char transfers, mappings, completions;

static bool look_up(void *function, const char *name)
{
	*(void **)function = dlsym(RTLD_DEFAULT, name);
	return *(void **)function;
}

void uaio_tsan_load(void)
{
	bool has_all = look_up(&tsan.release, "__tsan_release") &&
		       look_up(&tsan.current, "__tsan_get_current_fiber") &&
		       look_up(&tsan.create, "__tsan_create_fiber") &&
		       look_up(&tsan.name, "__tsan_set_fiber_name") &&
		       look_up(&tsan.switch_to, "__tsan_switch_to_fiber") &&
		       look_up(&tsan.read, "__tsan_read_range_pc") &&
		       look_up(&tsan.write, "__tsan_write_range_pc") &&
		       look_up(&tsan.call, "__tsan_func_entry") &&
		       look_up(&tsan.leave, "__tsan_func_exit") &&
		       look_up(&tsan.get_report, "__tsan_get_report_data") &&
		       look_up(&tsan.get_access, "__tsan_get_report_mop") &&
		       look_up(&tsan.get_thread, "__tsan_get_report_thread");

	if (has_all && !IS_INSTRUMENTED)
		(void)look_up(&tsan.acquire, "__tsan_acquire");
}

/*
 * In a child of fork(): mark a fiber as unused, which the parent may have been using.
 */
static void free_fiber(struct fiber *fiber)
{
	/*
	 * The sanitizer believes that the parent's thread is still on this fiber, so
	 * the fiber can be neither used nor freed. Forget the fiber.
	 */
	if (fiber->lock.word)
		fiber->context = NULL;
	fiber->lock = (struct uaio_lock){ 0 };
	fiber->users = 0;
}

void uaio_tsan_init(void)
{
	fibers.lock = (struct uaio_lock){ 0 };
	free_fiber(&courier);
	for (unsigned i = 0; i < FIBERS; i++)
		free_fiber(&fibers.all[i]);
}

bool uaio_tsan_is_here(void)
{
	return tsan.acquire;
}

/*
 * Return: a fiber that no request uses; if there is none, one that requests share.
 * Called with the lock held.
 */
static struct fiber *choose_locked(uintptr_t owner)
{
	struct fiber *least = NULL;

	for (uint32_t i = 0; i < fibers.nr; i++) {
		struct fiber *fiber = &fibers.all[i];

		if (fiber->owner == owner && !fiber->users)
			return fiber;
		if (!least || fiber->users < least->users)
			least = fiber;
	}
	if (fibers.nr == FIBERS)
		return least;
	least = &fibers.all[fibers.nr++];
	least->owner = owner;
	return least;
}

static struct fiber *take_fiber(void)
{
	struct fiber *fiber;

	uaio_lock(&fibers.lock, UAIO_RANK_FIBERS);
	fiber = choose_locked(uaio_check_me());
	fiber->users++;
	uaio_unlock(&fibers.lock, UAIO_RANK_FIBERS);
	return fiber;
}

static void give_back(struct fiber *fiber)
{
	uaio_lock(&fibers.lock, UAIO_RANK_FIBERS);
	fiber->users--;
	uaio_unlock(&fibers.lock, UAIO_RANK_FIBERS);
}

/*
 * Switch to the fiber. If `flags` is 0, what the thread has done is ordered before what
 * the fiber does; with the flag NO_SYNC it is not.
 */
static void enter(struct fiber *fiber, unsigned flags)
{
	const uint64_t all = UINT64_MAX;
	uint64_t signals;

	(void)sys_sigmask(SIG_BLOCK, &all, &signals);
	uaio_lock(&fiber->lock, UAIO_RANK_FIBER);
	fiber->signals = signals;
	if (!fiber->context) {
		fiber->context = tsan.create(0);
		tsan.name(fiber->context, fiber == &courier
						  ? "uaio: what requests carry"
						  : REQUEST);
	}
	fiber->from = tsan.current();
	tsan.switch_to(fiber->context, flags);
}

/*
 * Return from the fiber. If `flags` is 0, what the fiber has done is ordered before what
 * the thread does; with the flag NO_SYNC it is not.
 */
static void leave(struct fiber *fiber, unsigned flags)
{
	const uint64_t signals = fiber->signals;

	tsan.switch_to(fiber->from, flags);
	uaio_unlock(&fiber->lock, UAIO_RANK_FIBER);
	(void)sys_sigmask(SIG_SETMASK, &signals, NULL);
}

struct access {
	const struct uaio_sqe *sqe;
	/* the place in the program that submits the request */
	void *pc;
};

static void access_memory(void *arg, uintptr_t at, size_t bytes,
			  bool is_written)
{
	const struct access *access = arg;

	/*
	 * The program may read an aiocb or a msghdr while the request is in flight, so
	 * make no access to them.
	 */
	if (uaio_check_is_control(access->sqe, at) ||
	    uaio_check_is_header(access->sqe, at))
		return;
	(is_written ? tsan.write : tsan.read)((void *)at, bytes, access->pc);
}

/*
 * Make the accesses of a request. The sanitizer attributes them to the innermost
 * address of this call stack.
 */
static void access_at(const struct uaio_sqe *sqe,
		      const struct uaio_check_stack *stack)
{
	struct access access = { .sqe = sqe, .pc = (void *)stack->pcs[0] };

	for (uint32_t i = stack->nr; i > 1; i--)
		tsan.call((void *)stack->pcs[i - 1]);
	uaio_check_memory_of(sqe, access_memory, &access);
	for (uint32_t i = stack->nr; i > 1; i--)
		tsan.leave();
}

void uaio_tsan_submit(uintptr_t tail, bool writes)
{
	if (!tsan.acquire)
		return;
	tsan.release((void *)tail);
	if (writes)
		tsan.release(&transfers);
}

uint32_t uaio_tsan_begin(const struct uaio_sqe *sqe, uint32_t number)
{
	struct fiber *fiber = take_fiber();
	struct uaio_check_stack stack;

	if (!uaio_check_stack_get(number, &stack) || !stack.nr)
		stack = (struct uaio_check_stack){ .pcs = { 0 } };
	enter(fiber, 0);
	access_at(sqe, &stack);
	leave(fiber, NO_SYNC);
	return (uint32_t)(fiber - fibers.all) + 1;
}

/*
 * Order what was released at the address `from` before what is acquired at the address
 * `to`.
 */
static void carry(void *from, void *to)
{
	enter(&courier, NO_SYNC);
	tsan.acquire(from);
	tsan.release(to);
	leave(&courier, NO_SYNC);
}

void uaio_tsan_pass(uintptr_t from, uintptr_t to)
{
	if (!tsan.acquire)
		return;
	if (from)
		carry((void *)from, (void *)to);
	else
		tsan.release((void *)to);
}

void uaio_tsan_notified(void)
{
	uaio_msan_call(1);
	if (tsan.acquire)
		tsan.acquire(&completions);
}

void uaio_tsan_end(uint32_t number, uintptr_t tail)
{
	struct fiber *fiber = &fibers.all[number - 1];

	enter(fiber, NO_SYNC);
	tsan.release((void *)tail);
	tsan.release(&completions);
	leave(fiber, NO_SYNC);
	give_back(fiber);
}

void uaio_tsan_carry(uintptr_t tail)
{
	carry(&transfers, (void *)tail);
}

void uaio_tsan_refuse(uint32_t number)
{
	struct fiber *fiber = &fibers.all[number - 1];

	enter(fiber, NO_SYNC);
	leave(fiber, 0);
	give_back(fiber);
}

void uaio_check_unmapped(void)
{
	if (tsan.acquire)
		tsan.release(&mappings);
}

void uaio_check_mapped(void)
{
	if (tsan.acquire)
		tsan.acquire(&mappings);
}

/*
 * Return: whether the report's thread with the number `wanted` is the fiber of a
 * request.
 */
static bool is_request(void *report, int nr_threads, int wanted)
{
	for (int i = 0; i < nr_threads; i++) {
		int thread = -1, is_running, parent;
		const char *name = NULL;
		uint64_t os_id;
		void *trace[1];

		if (tsan.get_thread(report, (unsigned long)i, &thread, &os_id,
				    &is_running, &name, &parent, trace, 1) &&
		    thread == wanted)
			return name && !strcmp(name, REQUEST);
	}
	return false;
}

bool uaio_tsan_get_race(void *report, uintptr_t *ret_at)
{
	int unused, nr_accesses = 0, nr_threads = 0;
	bool is_of_request = false;
	const char *kind;
	void *trace[1];

	/*
	 * First query how many accesses the report has: for a missing access, the
	 * sanitizer ends the process.
	 */
	if (!tsan.acquire ||
	    !tsan.get_report(report, &kind, &unused, &unused, &nr_accesses,
			     &unused, &unused, &nr_threads, &unused, trace,
			     1) ||
	    nr_accesses < 2)
		return false;
	*ret_at = 0;
	for (unsigned i = 0; i < 2; i++) {
		void *at = NULL;
		int thread;

		if (!tsan.get_access(report, i, &thread, &at, &unused, &unused,
				     &unused, trace, 1))
			return false;
		/*
		 * The two accesses overlap, so both contain the higher of their two
		 * addresses.
		 */
		if ((uintptr_t)at > *ret_at)
			*ret_at = (uintptr_t)at;
		is_of_request |= is_request(report, nr_threads, thread);
	}
	return is_of_request;
}

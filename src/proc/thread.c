/* SPDX-License-Identifier: MIT */
#include "proc/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/sleepcall.h"
#include "base/sys.h"
#include "base/threads.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/identity.h"
#include "proc/process.h"
#include "proc/table.h"

enum {
	/*
	 * The deepest call chain of the library needs 20 KiB: it executes a segment
	 * (split/) of a request with many vectors. The stack is larger because the
	 * program's thread-local storage is on it, too, and the C library's setuid()
	 * runs a signal handler on it.
	 */
	STACK_BYTES = 256 << 10,
	NR_WORDS = UAIO_CPUS_MAX / (8 * sizeof(unsigned long)),
};

static struct uaio_cpus load_mask; /* immutable after load */
static int load_mask_bytes;
static bool are_many;

/*
 * The processors that the program had when the library was loaded; immutable after
 * load.
 */
static struct uaio_cpus load_cpus;
static int load_cpus_bytes;

/* The processors to which uaio_threads_bind() has bound the workers. */
static struct {
	struct uaio_lock lock; /* rank BOUND */
	struct uaio_cpus cpus; /* under lock */
} bound;
uint32_t uaio_threads_nr_binds; /* written under bound.lock */

/*
 * The C library's own count of threads, by which it detects that the last thread ends;
 * NULL if the C library has no such symbol. The count does not include a main thread
 * that has ended. Debuggers use the symbol, too, so it is not likely to change. Reading
 * the count takes no system call and no descriptor.
 */
static const unsigned *nr_threads; /* immutable after load */

/*
 * Counts of the library's threads. Atomic, relaxed unless a comment says otherwise. The
 * creator counts a thread once it exists, and the thread uncounts itself before it
 * ends. So the count never exceeds the number of threads. If the count equals the
 * number of threads in the process, no thread is the program's.
 */
static struct uaio_thread_counts counts;
/*
 * A second copy of the counts, which other processes read and may write; or NULL.
 */
static struct uaio_thread_counts *told;

void uaio_threads_forget(void)
{
	/*
	 * [MB:ended] acquire: this child of fork() sees all that the parent's threads
	 * did until they were counted out. Pairs with count_out().
	 */
	(void)load_acquire(&counts.nr);
	counts = (struct uaio_thread_counts){ 0 };
	told = NULL;
	/*
	 * Reset the lock: a thread of the parent that held the lock does not exist in
	 * the child.
	 */
	bound.lock = (struct uaio_lock){ 0 };
	store_relaxed(&uaio_threads_nr_binds, 0);
}

void uaio_threads_count(struct uaio_thread_counts *ret_counts)
{
	ret_counts->nr = load_relaxed(&counts.nr);
	ret_counts->nr_ever = load_relaxed(&counts.nr_ever);
	ret_counts->peak = load_relaxed(&counts.peak);
}

void uaio_threads_tell(struct uaio_thread_counts *where)
{
	told = where;
}

static void count_in_at(struct uaio_thread_counts *where)
{
	uint32_t nr = add_relaxed(&where->nr, 1) + 1;
	uint32_t peak = load_relaxed(&where->peak);

	add_relaxed(&where->nr_ever, 1);
	/*
	 * Compare signed: if the thread ends before its creator counts it, the count is
	 * -1 for a moment.
	 */
	while ((int32_t)nr > (int32_t)peak &&
	       !cas_relaxed(&where->peak, &peak, nr))
		;
}

static void count_in(void)
{
	count_in_at(&counts);
	if (told)
		count_in_at(told);
}

static void count_out(void)
{
	if (told)
		sub_relaxed(&told->nr, 1);
	/*
	 * [MB:ended] release: publishes all that this thread did. Pairs with
	 * uaio_threads_forget().
	 */
	sub_release(&counts.nr, 1);
}

void uaio_threads_init(void)
{
	struct uaio_cpus asked = uaio_config.cpus;
	unsigned nr = 0;

	nr_threads = dlsym(RTLD_DEFAULT, "__nptl_nthreads");
	load_mask_bytes =
		sys_sched_getaffinity(0, sizeof(load_mask), &load_mask);
	load_cpus = load_mask;
	load_cpus_bytes = load_mask_bytes;
	/*
	 * Of the requested processors, use those that the program may use. If it may
	 * use none of them, use all that it may use.
	 */
	if (load_mask_bytes > 0 && uaio_config.has_cpus &&
	    uaio_cpus_cut(&asked, &load_mask))
		load_mask = asked;
	for (size_t i = 0; i < NR_WORDS; i++)
		nr += (unsigned)__builtin_popcountl(load_mask.words[i]);
	/* If the number of processors is unknown (0), there are most likely several. */
	are_many = nr != 1;
}

bool uaio_cpus_are_many(void)
{
	return are_many;
}

size_t uaio_cpus_bytes(void)
{
	return load_mask_bytes > 0 ? (size_t)load_mask_bytes
				   : sizeof(load_mask);
}

int uaio_threads_bind(const struct uaio_cpus *cpus)
{
	bool is_known = load_mask_bytes > 0, is_any = false;

	for (size_t i = 0; i < NR_WORDS; i++) {
		if (is_known && cpus->words[i] & ~load_mask.words[i])
			return -EINVAL;
		is_any |= cpus->words[i] != 0;
	}
	uaio_lock(&bound.lock, UAIO_RANK_BOUND);
	bound.cpus = is_any ? *cpus : load_mask;
	/*
	 * relaxed: other threads only compare this number with an old one; they read
	 * the set of processors under the lock
	 */
	store_relaxed(&uaio_threads_nr_binds, uaio_threads_nr_binds + 1);
	uaio_unlock(&bound.lock, UAIO_RANK_BOUND);
	return 0;
}

void uaio_thread_follow_slowly(uint32_t *seen)
{
	struct uaio_cpus cpus;

	uaio_lock(&bound.lock, UAIO_RANK_BOUND);
	cpus = bound.cpus;
	*seen = load_relaxed(&uaio_threads_nr_binds);
	uaio_unlock(&bound.lock, UAIO_RANK_BOUND);
	/*
	 * If this fails (EPERM, or a smaller cpuset), the thread keeps its processors.
	 */
	(void)sys_sched_setaffinity(0, uaio_cpus_bytes(), &cpus);
}

static int start(void *(*main)(void *), void *arg, int detach_state)
{
	int old_errno = errno;
	size_t stack = STACK_BYTES + (size_t)sysconf(_SC_THREAD_STACK_MIN);
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (!uaio_engine_is_of_process() || uaio_table_is_other() ||
	    !(main = uaio_identity_inherit(main, &arg)))
		return -EAGAIN;
	if (pthread_attr_init(&attr)) {
		uaio_identity_disinherit(main, arg);
		return -EAGAIN;
	}
	(void)pthread_attr_setdetachstate(&attr, detach_state);
	(void)pthread_attr_setstacksize(&attr, stack);

	/*
	 * Use the C library's function, not the system call: the function does not
	 * block the signals that the C library reserves for itself. If these were
	 * blocked, setuid() would hang.
	 */
	sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, &attr, main, arg);
	if (ret == EINVAL) {
		/*
		 * The program's thread-local storage does not fit on a stack of this
		 * size: use the default size.
		 */
		(void)pthread_attr_destroy(&attr);
		(void)pthread_attr_init(&attr);
		(void)pthread_attr_setdetachstate(&attr, detach_state);
		ret = pthread_create(&thread, &attr, main, arg);
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (ret)
		uaio_identity_disinherit(main, arg);
	errno = old_errno;
	if (ret)
		return -EAGAIN;
	count_in();
	return 0;
}

int uaio_thread_start(void *(*main)(void *), void *arg)
{
	return start(main, arg, PTHREAD_CREATE_DETACHED);
}

int uaio_thread_start_joinable(void *(*main)(void *), void *arg)
{
	return start(main, arg, PTHREAD_CREATE_JOINABLE);
}

void uaio_thread_become_clients(bool keeps_cpus)
{
	/*
	 * If this fails (EPERM, or a smaller cpuset), the thread keeps its creator's
	 * processors.
	 */
	if (!keeps_cpus && load_cpus_bytes > 0)
		(void)sys_sched_setaffinity(0, (size_t)load_cpus_bytes,
					    &load_cpus);
	(void)sys_set_name(program_invocation_short_name);
}

int uaio_thread_start_for_client(void *(*main)(void *), void *arg,
				 const pthread_attr_t *attr)
{
	int old_errno = errno;
	pthread_attr_t usual;
	sigset_t all, old;
	pthread_t thread;
	int ret;

	if (!uaio_engine_is_of_process() ||
	    !(main = uaio_identity_inherit(main, &arg)))
		return -EAGAIN;
	if (pthread_attr_init(&usual)) {
		uaio_identity_disinherit(main, arg);
		return -EAGAIN;
	}
	(void)pthread_attr_setdetachstate(&usual, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, attr ? attr : &usual, main, arg);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&usual);
	if (ret)
		uaio_identity_disinherit(main, arg);
	errno = old_errno;
	return ret ? -EAGAIN : 0;
}

/*
 * Leave the real-time class that the thread inherited from its creator. Thread
 * attributes could set another class at creation, but pthread_create() would fail where
 * setting a class is forbidden.
 */
static void become_ordinary(void)
{
	int class = sys_sched_getscheduler() & ~SCHED_RESET_ON_FORK;

	if (class != SCHED_OTHER && class != SCHED_BATCH && class != SCHED_IDLE)
		(void)sys_sched_set_other();
}

int uaio_thread_take_ioprio(int ioprio)
{
	enum { CLASS_SHIFT = 13 };
	int old = sys_ioprio_get();

	/* Change the priority only if it can be restored later. */
	if (old < 0 || sys_ioprio_set(ioprio) < 0)
		return -1;
	/*
	 * For a thread with the default priority, old kernels return a level without a
	 * class, but refuse to set a level without a class. In this case 0 restores the
	 * default.
	 */
	return old >> CLASS_SHIFT ? old : 0;
}

void uaio_thread_give_ioprio(int old)
{
	if (old >= 0)
		(void)sys_ioprio_set(old);
}

uint64_t uaio_thread_nr_sleeps(void)
{
	struct rusage usage;

	if (sys_getrusage(&usage) < 0)
		return 0;
	return (uint64_t)usage.ru_nvcsw;
}

void uaio_thread_begin(const char *name)
{
	uaio_sleep_own();
	uaio_entry.depth = UAIO_DEPTH_OWN;
	/*
	 * The identity inherited from the creator stays right, even if setuid() changes
	 * all threads meanwhile. So the thread need not query its ids.
	 */
	uaio_entry.is_sure = 1;
	uaio_table_is_mine();
	become_ordinary();
	/*
	 * If this fails (EPERM, or a smaller cpuset), the thread keeps its creator's
	 * processors.
	 */
	if (load_mask_bytes > 0)
		(void)sys_sched_setaffinity(0, (size_t)load_mask_bytes,
					    &load_mask);
	/* If this fails (EACCES), the thread keeps its creator's nice value. */
	if (uaio_config.has_nice)
		(void)sys_setpriority(uaio_config.nice);
	/*
	 * Set the name last, since observers take the name as a sign that the thread is
	 * ready.
	 */
	(void)sys_set_name(name);
}

void uaio_thread_end(void)
{
	count_out();
	uaio_leave();
}

/*
 * Return: whether the main thread has ended. Then it has no memory, and /proc shows no
 * executable.
 */
static bool has_main_ended(void)
{
	char path[1];

	return sys_readlinkat(AT_FDCWD, "/proc/self/exe", path, sizeof(path)) ==
	       -ENOENT;
}

bool uaio_threads_are_last(void)
{
	uint32_t nr_own = load_relaxed(&counts.nr);

	/*
	 * relaxed, both: if an old count hides that the program's threads have ended, a
	 * later call finds it out
	 */
	if (nr_threads)
		return load_relaxed(nr_threads) == nr_own;
	/* /proc lists the main thread even after it has ended, hence + 1. */
	return has_main_ended() && uaio_has_threads(nr_own + 1);
}

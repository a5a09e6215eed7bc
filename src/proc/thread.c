/* SPDX-License-Identifier: MIT */
#include "proc/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"

enum {
	/*
	 * Our deepest path, a segment of many vectors, needs 20 KiB; but the
	 * host's thread-local storage is part of the stack, and the C library's
	 * setuid() runs a handler on it.
	 */
	STACK_BYTES = 256 << 10,
	NR_WORDS = UAIO_CPUS_MAX / (8 * sizeof(unsigned long)),
};

static struct uaio_cpus load_mask; /* immutable after load */
static int load_mask_bytes;
static bool are_many;

/*
 * The C library's own count of threads, by which it ends the process with the
 * last one (NULL: it has none of this name). A main thread that has ended is not
 * in it. Debuggers go by it, too; reading it takes no call and no descriptor.
 */
static const unsigned *nr_threads; /* immutable after load */

/*
 * Atomic, relaxed throughout. A thread is counted by its creator once it is
 * there, and stops being counted before it is gone: so no more are counted than
 * there are, and who finds as many in the process as are counted has found no
 * thread of the host's.
 */
static struct uaio_thread_counts counts;

void uaio_threads_forget(void)
{
	counts = (struct uaio_thread_counts){ 0 };
}

void uaio_threads_count(struct uaio_thread_counts *ret_counts)
{
	ret_counts->nr = load_relaxed(&counts.nr);
	ret_counts->nr_ever = load_relaxed(&counts.nr_ever);
	ret_counts->peak = load_relaxed(&counts.peak);
}

static void count_in(void)
{
	uint32_t nr = add_relaxed(&counts.nr, 1) + 1;
	uint32_t peak = load_relaxed(&counts.peak);

	add_relaxed(&counts.nr_ever, 1);
	/* It may have ended before it is counted, which makes -1 for a moment. */
	while ((int32_t)nr > (int32_t)peak &&
	       !cas_relaxed(&counts.peak, &peak, nr))
		;
}

static void count_out(void)
{
	sub_relaxed(&counts.nr, 1);
}

void uaio_threads_init(void)
{
	struct uaio_cpus asked = uaio_config.cpus;
	unsigned nr = 0;

	nr_threads = dlsym(RTLD_DEFAULT, "__nptl_nthreads");
	load_mask_bytes =
		sys_sched_getaffinity(0, sizeof(load_mask), &load_mask);
	/* Those only that may be used; if there are none, all of these. */
	if (load_mask_bytes > 0 && uaio_config.has_cpus &&
	    uaio_cpus_cut(&asked, &load_mask))
		load_mask = asked;
	for (size_t i = 0; i < NR_WORDS; i++)
		nr += (unsigned)__builtin_popcountl(load_mask.words[i]);
	/* Not known: on most machines. */
	are_many = nr != 1;
}

bool uaio_cpus_are_many(void)
{
	return are_many;
}

int uaio_thread_start(void *(*main)(void *), void *arg)
{
	int old_errno = errno;
	size_t stack = STACK_BYTES + (size_t)sysconf(_SC_THREAD_STACK_MIN);
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (!uaio_engine_is_of_process() || uaio_table_is_other() ||
	    pthread_attr_init(&attr))
		return -EAGAIN;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, stack);

	/*
	 * The C library's way, not the system call: it leaves its own signals
	 * open, without which setuid() would hang.
	 */
	sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, &attr, main, arg);
	if (ret == EINVAL) {
		/* A host whose TLS does not fit the stack: the default. */
		(void)pthread_attr_destroy(&attr);
		(void)pthread_attr_init(&attr);
		(void)pthread_attr_setdetachstate(&attr,
						  PTHREAD_CREATE_DETACHED);
		ret = pthread_create(&thread, &attr, main, arg);
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	errno = old_errno;
	if (ret)
		return -EAGAIN;
	count_in();
	return 0;
}

/*
 * A real-time creator has handed its class to us: not by the C library's
 * attributes, which make no thread at all where they cannot be set.
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

	/* Where it could not be given back it is not taken. */
	if (old < 0 || sys_ioprio_set(ioprio) < 0)
		return -1;
	/* Old kernels tell a level for no class, and refuse that. */
	return old >> CLASS_SHIFT ? old : 0;
}

void uaio_thread_give_ioprio(int old)
{
	if (old >= 0)
		(void)sys_ioprio_set(old);
}

void uaio_thread_begin(const char *name)
{
	uaio_entry.depth = 1;
	uaio_table_is_mine();
	become_ordinary();
	/* EPERM or a shrunk cpuset: then where the creator may run. */
	if (load_mask_bytes > 0)
		(void)sys_sched_setaffinity(0, (size_t)load_mask_bytes,
					    &load_mask);
	/* EACCES: then as its creator is. */
	if (uaio_config.has_nice)
		(void)sys_setpriority(uaio_config.nice);
	/* Last: who goes by the name finds the rest in place. */
	(void)sys_set_name(name);
}

void uaio_thread_end(void)
{
	count_out();
	uaio_leave();
}

/* The main thread has ended: it has no memory any more, and no program. */
static bool has_main_ended(void)
{
	char path[1];

	return sys_readlinkat(AT_FDCWD, "/proc/self/exe", path, sizeof(path)) ==
	       -ENOENT;
}

/* A folder has two links, and one for each folder in it. */
static bool are_threads(unsigned nr)
{
	struct stat st;

	return sys_fstatat(AT_FDCWD, "/proc/self/task", &st) == 0 &&
	       st.st_nlink == (nlink_t)2 + nr;
}

bool uaio_threads_are_last(void)
{
	uint32_t nr_own = load_relaxed(&counts.nr);

	/* relaxed, both: who is still there the next time is seen then */
	if (nr_threads)
		return load_relaxed(nr_threads) == nr_own;
	/* The main thread, though it has ended, is counted. */
	return has_main_ended() && are_threads(nr_own + 1);
}

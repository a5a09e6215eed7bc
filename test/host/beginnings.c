/* SPDX-License-Identifier: MIT */
/*
 * In builds with AddressSanitizer, makes fork() wait while a thread begins or ends,
 * because threads could hang in the child
 *
 * AddressSanitizer's runtime holds locks while a thread begins or ends. If another
 * thread forks meanwhile, the child inherits the locks in locked state, and its next
 * pthread_create() hangs. This file is linked with --wrap=pthread_create, so that it
 * also covers the threads of the library.
 */
#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NR_ENDING = 64 };

typedef int create_fn(pthread_t *ret_thread, const pthread_attr_t *attr,
		      void *(*main)(void *), void *arg);

create_fn __real_pthread_create;
create_fn __wrap_pthread_create;

/* atomic: how many threads are beginning, or about to end */
static uint32_t nr_changing;
static uint32_t nr_forking; /* atomic */
/* atomic: ids of threads that are ending or have ended; 0: a free element */
static pid_t ending[NR_ENDING];

struct beginning {
	void *(*main)(void *arg);
	void *arg;
};

static void change_begins(void)
{
	while (__atomic_add_fetch(&nr_changing, 1, __ATOMIC_SEQ_CST),
	       __atomic_load_n(&nr_forking, __ATOMIC_SEQ_CST)) {
		__atomic_sub_fetch(&nr_changing, 1, __ATOMIC_SEQ_CST);
		sched_yield();
	}
}

static void change_ends(void)
{
	__atomic_sub_fetch(&nr_changing, 1, __ATOMIC_SEQ_CST);
}

static bool is_gone(pid_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) == -1 && errno == ESRCH;
}

static void note_ending(void)
{
	for (size_t i = 0;; i = (i + 1) % NR_ENDING) {
		pid_t tid = __atomic_load_n(&ending[i], __ATOMIC_SEQ_CST);

		if ((!tid || is_gone(tid)) &&
		    __atomic_compare_exchange_n(&ending[i], &tid, gettid(),
						false, __ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			return;
	}
}

static void *begin(void *arg)
{
	struct beginning beginning = *(struct beginning *)arg;
	void *ret;

	free(arg);
	change_ends();
	ret = beginning.main(beginning.arg);
	change_begins();
	note_ending();
	change_ends();
	return ret;
}

int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg)
{
	struct beginning *beginning;
	int ret;

	change_begins();
	beginning = malloc(sizeof(*beginning));
	REQUIRE(beginning);
	*beginning = (struct beginning){ main, arg };
	ret = __real_pthread_create(ret_thread, attr, begin, beginning);
	if (ret) {
		free(beginning);
		change_ends();
	}
	return ret;
}

static void before_fork(void)
{
	int old_errno = errno;

	__atomic_add_fetch(&nr_forking, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&nr_changing, __ATOMIC_SEQ_CST))
		sched_yield();
	for (size_t i = 0; i < NR_ENDING; i++) {
		pid_t tid = __atomic_load_n(&ending[i], __ATOMIC_SEQ_CST);

		while (tid && !is_gone(tid))
			sched_yield();
		__atomic_store_n(&ending[i], 0, __ATOMIC_SEQ_CST);
	}
	errno = old_errno;
}

static void after_fork(void)
{
	__atomic_sub_fetch(&nr_forking, 1, __ATOMIC_SEQ_CST);
}

/*
 * If another thread of the parent was in fork() at the same time, nr_forking counts
 * that thread, too. The child has only one thread, so reset the counts.
 */
static void in_child(void)
{
	__atomic_store_n(&nr_forking, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&nr_changing, 0, __ATOMIC_SEQ_CST);
}

__attribute__((constructor)) static void load(void)
{
	REQUIRE(!pthread_atfork(before_fork, after_fork, in_child));
}

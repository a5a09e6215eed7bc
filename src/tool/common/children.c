/* SPDX-License-Identifier: MIT */
#include "tool/common/children.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"

void *uaio_shared_new(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void uaio_shared_free(void *memory, size_t bytes)
{
	if (memory)
		(void)munmap(memory, bytes);
}

/*
 * Make the remaining attempts. The first attempt sets the core limit, so that a killed
 * child leaves no core file; this system call may itself kill the child. next: atomic,
 * the index of the next attempt; -1: setting the core limit. relaxed, throughout: a
 * reader has waited for the end of the process that wrote
 */
static void go_on(const struct uaio_tries *tries, void *memory, int *next)
{
	static const struct rlimit none;

	if (load_relaxed(next) < 0) {
		store_relaxed(next, 0);
		(void)setrlimit(RLIMIT_CORE, &none);
	}
	if (tries->seconds)
		(void)alarm(tries->seconds);
	while (load_relaxed(next) < (int)tries->nr) {
		int i = add_relaxed(next, 1);

		tries->make(memory, (unsigned)i);
	}
}

static int make_all(const struct uaio_tries *tries, void *memory, int *next)
{
	store_relaxed(next, -1);
	while (load_relaxed(next) < (int)tries->nr) {
		int seen = load_relaxed(next), status;
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0) {
			go_on(tries, memory, next);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) < 0)
			return -errno;
		if (load_relaxed(next) == seen)
			return -EIO;
		if (WIFSIGNALED(status) && tries->died &&
		    load_relaxed(next) > 0)
			tries->died(memory, (unsigned)load_relaxed(next) - 1,
				    WTERMSIG(status));
	}
	return 0;
}

int uaio_tries_make(const struct uaio_tries *tries, void *memory)
{
	int *next = uaio_shared_new(sizeof(*next));
	int ret = next ? make_all(tries, memory, next) : -ENOMEM;

	uaio_shared_free(next, sizeof(*next));
	return ret;
}

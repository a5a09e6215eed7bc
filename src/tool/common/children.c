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
 * Memory shared with the children. All accesses are atomic and relaxed, because a
 * process reads a member only after the process that wrote the member has ended.
 */
struct progress {
	int next; /* index of the next attempt; -1: no child has begun */
	/*
	 * 1 while a child calls setrlimit(). It stays 1 if this call kills the child;
	 * then later children do not make the call.
	 */
	int kills_to_limit;
};

/*
 * Make the remaining attempts, in a child. The child first sets its core limit to 0, so
 * that it leaves no core file if an attempt kills it. If setrlimit() kills the child,
 * later children do not call setrlimit().
 */
static void go_on(const struct uaio_tries *tries, void *memory,
		  struct progress *progress)
{
	static const struct rlimit none;

	if (load_relaxed(&progress->next) < 0)
		store_relaxed(&progress->next, 0);
	if (!load_relaxed(&progress->kills_to_limit)) {
		store_relaxed(&progress->kills_to_limit, 1);
		(void)setrlimit(RLIMIT_CORE, &none);
		store_relaxed(&progress->kills_to_limit, 0);
	}
	if (tries->seconds)
		(void)alarm(tries->seconds);
	while (load_relaxed(&progress->next) < (int)tries->nr) {
		int i = add_relaxed(&progress->next, 1);

		tries->make(memory, (unsigned)i);
	}
}

static int make_all(const struct uaio_tries *tries, void *memory,
		    struct progress *progress)
{
	store_relaxed(&progress->next, -1);
	while (load_relaxed(&progress->next) < (int)tries->nr) {
		int seen = load_relaxed(&progress->next), next, status;
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0) {
			go_on(tries, memory, progress);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) < 0)
			return -errno;
		next = load_relaxed(&progress->next);
		if (next == seen)
			return -EIO;
		if (WIFSIGNALED(status) && tries->died && next > 0)
			tries->died(memory, (unsigned)next - 1,
				    WTERMSIG(status));
	}
	return 0;
}

int uaio_tries_make(const struct uaio_tries *tries, void *memory)
{
	struct progress *progress = uaio_shared_new(sizeof(*progress));
	int ret = progress ? make_all(tries, memory, progress) : -ENOMEM;

	uaio_shared_free(progress, sizeof(*progress));
	return ret;
}

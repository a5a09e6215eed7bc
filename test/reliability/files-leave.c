/* SPDX-License-Identifier: MIT */
/*
 * Ways to end a process, or to replace its program, right after it has submitted
 * writes.
 */
#include "files.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS = 42 };

static void by_exit(void)
{
	exit(STATUS);
}

static void by_underscore_exit(void)
{
	_exit(STATUS);
}

static void by_quick_exit(void)
{
	quick_exit(STATUS);
}

static void by_return(void)
{
	return_from_main(STATUS);
}

static void by_exec(void)
{
	execl("/bin/true", "true", (char *)NULL);
}

static void by_pthread_exit(void)
{
	pthread_exit(NULL);
}

static void by_signal(void)
{
	raise(SIGTERM);
}

static const struct way {
	const char *name;
	void (*leave)(void);
	int status; /* in the format of waitpid() */
} ways[] = {
	{ "exit", by_exit, STATUS << 8 },
	{ "_exit", by_underscore_exit, STATUS << 8 },
	{ "quick_exit", by_quick_exit, STATUS << 8 },
	{ "a return from main", by_return, STATUS << 8 },
	{ "exec", by_exec, 0 },
	{ "pthread_exit", by_pthread_exit, 0 },
	{ "SIGTERM", by_signal, SIGTERM },
};

enum { NR_WAYS = sizeof(ways) / sizeof(ways[0]) };

struct leaving leaving_draw(uint64_t *random)
{
	static bool has_ended_main;
	struct leaving leaving;

	leaving.way = draw(random, NR_WAYS);
	leaving.door = draw(random, NR_DOORS);
	leaving.random = *random * 0x5851f42d4c957f2du;
	/*
	 * After pthread_exit() in main(), the process lives until its other threads
	 * have ended. Idle threads of uaio end after five seconds or more. Those of
	 * glibc's POSIX AIO end after one second. So let at most one process end in
	 * this way, and only in long runs.
	 */
	if (ways[leaving.way].leave == by_pthread_exit) {
		if (!run.is_long || has_ended_main)
			leaving.way = 0;
		has_ended_main = true;
	}
	return leaving;
}

void leave(const struct leaving *leaving)
{
	static struct client client; /* used until the process ends */
	static struct descriptors descriptors;
	const struct way *way = &ways[leaving->way];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	descriptors_open(&descriptors);
	client_begin(&client, LEAVER, leaving->door, &descriptors);
	client.random = leaving->random;
	client_write_some(&client);
	way->leave();
	fail("%s returns", way->name);
}

static bool has_executed_all(const struct leaving *leaving)
{
	if (ways[leaving->way].leave == by_signal)
		return false;
	return run.is_uaio || leaving->door == KERNEL_AIO;
}

void leaving_settle(const struct leaving *leaving, int status)
{
	const struct way *way = &ways[leaving->way];

	if (status != way->status)
		fail("a process that ends by %s has the status %#x, not %#x",
		     way->name, (unsigned)status, (unsigned)way->status);
	for (unsigned cell = 0; cell < NR_CELLS; cell++) {
		if (run.owners[cell] != LEAVER)
			continue;
		if (has_executed_all(leaving))
			raise_to(&shared->done[cell],
				 load(&shared->accepted[cell]));
		else
			/*
			 * The ended process may have lost writes that it had submitted.
			 * Do not count these writes as completed: no later check may
			 * expect them.
			 */
			shared->accepted[cell] = shared->done[cell];
	}
}

const char *leaving_name(const struct leaving *leaving)
{
	return ways[leaving->way].name;
}

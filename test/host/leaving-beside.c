/* SPDX-License-Identifier: MIT */
/*
 * Case: threads submit while another thread ends the process or replaces its program.
 * No io_submit may fail because of that.
 */
#include "host.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { NR_BESIDE = 3, NR = 1000, STATUS = 42 };

static void *submit_until_over(void *arg)
{
	aio_context_t ctx = host_context(1);
	int fd = host_file(arg, 1);

	while (!__atomic_load_n(&shared->is_over, __ATOMIC_SEQ_CST)) {
		host_write_blocks(ctx, fd, 0, 1);
		host_reap_blocks(ctx, 1);
		__atomic_fetch_add(&shared->accepted, 1, __ATOMIC_SEQ_CST);
	}
	REQUIRE(host_destroy(ctx) == 0);
	return NULL;
}

static void submit_beside(pthread_t threads[NR_BESIDE])
{
	static char *paths[NR_BESIDE] = { "a", "b", "c" };

	for (size_t i = 0; i < NR_BESIDE; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, submit_until_over,
					paths[i]));
}

void exec_fails_often(void)
{
	char *const none[] = { "none", NULL };
	pthread_t threads[NR_BESIDE];

	submit_beside(threads);
	for (unsigned i = 0;
	     i < host_rounds(2000) ||
	     __atomic_load_n(&shared->accepted, __ATOMIC_SEQ_CST) <
		     host_rounds(2000);
	     i++)
		REQUIRE(execve("/nonexistent", none, none) < 0);
	__atomic_store_n(&shared->is_over, 1, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < NR_BESIDE; i++)
		REQUIRE(!pthread_join(threads[i], NULL));
}

/*
 * The threads submit until the kernel ends them with the process, or replaces the
 * program.
 */
static int leave_beside_others(void *arg)
{
	void (*const *leave)(int status) = arg;
	aio_context_t ctx = host_context(NR);
	pthread_t threads[NR_BESIDE];

	__atomic_store_n(&shared->accepted, 0, __ATOMIC_SEQ_CST);
	submit_beside(threads);
	while (__atomic_load_n(&shared->accepted, __ATOMIC_SEQ_CST) < NR_BESIDE)
		sched_yield();
	host_write_blocks(ctx, host_file("left", NR), 0, NR);
	(*leave)(STATUS);
	return 1;
}

void exit_refuses_nobody(void)
{
	static void (*ways[])(int status) = { exit, _exit };

	for (unsigned round = 0; round < host_rounds(100); round++) {
		REQUIRE(host_in_child(leave_beside_others,
				      &ways[round % NR_ELEMENTS(ways)]) ==
			STATUS);
		host_check_blocks("left", NR);
		REQUIRE(unlink("left") == 0);
	}
}

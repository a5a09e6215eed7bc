/* SPDX-License-Identifier: MIT */
/*
 * realtime: a client with real-time priority that polls for events without waiting
 *
 * The client has real-time priority on one processor and never sleeps. Other threads on
 * this processor, such as the library's workers, run only when the kernel throttles the
 * client, after nearly a second (sched_rt_runtime_us). Each read must complete before
 * that. (With kernel AIO, a read of a loop device would not, because a kernel thread
 * serves the device. Here the file is in memory.) A stall of the machine may make one
 * client late. So up to three clients run, and one of them must succeed.
 */
#undef NDEBUG
#include <assert.h>
#include <libaio.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum {
	NR = 40,
	BYTES = 4096,
	/*
	 * A read takes about 12 ms. A read that waits until the kernel lets other
	 * threads run takes 950 ms. PATIENCE_MS lies between these times.
	 */
	PATIENCE_MS = 500,
	HANG_S = 100,
	NR_CLIENTS = 3,
};

static void become_real_time(void)
{
	const struct sched_param param = { .sched_priority = 1 };
	const struct rlimit most = { HANG_S * 1000000, HANG_S * 1000000 };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert(sched_setaffinity(0, sizeof(one), &one) == 0);
	/*
	 * If the process uses the processor for HANG_S seconds without a sleep, the
	 * kernel kills it. So a bug does not block the machine.
	 */
	assert(setrlimit(RLIMIT_RTTIME, &most) == 0);
	alarm(HANG_S);
	assert(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
}

/* Return: how many milliseconds the read took. */
static int64_t read_one(io_context_t ctx, struct iocb *read)
{
	struct timespec zero = { 0 };
	int64_t since = now_ms();
	struct io_event event;
	int got;

	assert(io_submit(ctx, 1, &read) == 1);
	do
		got = io_getevents(ctx, 0, 1, &event, &zero);
	while (got == 0);
	assert(got == 1 && event.obj == read && event.res == BYTES);
	return now_ms() - since;
}

/* Return: whether each read took less than PATIENCE_MS. */
static bool be_a_client(void)
{
	char name[] = "realtime.XXXXXX", *buffer = aligned_alloc(BYTES, BYTES);
	int fd = mkstemp(name);
	io_context_t ctx = NULL;
	struct iocb read;
	int64_t longest = 0;

	assert(buffer && fd >= 0);
	assert(pwrite(fd, buffer, BYTES, 0) == BYTES && unlink(name) == 0);
	assert(io_setup(1, &ctx) == 0);
	become_real_time();
	for (int i = 0; i < NR && longest < PATIENCE_MS; i++) {
		int64_t took;

		io_prep_pread(&read, fd, buffer, BYTES, 0);
		took = read_one(ctx, &read);
		longest = took > longest ? took : longest;
	}
	printf("of up to %d reads the longest took %ld ms\n", NR,
	       (long)longest);
	fflush(stdout);
	assert(io_destroy(ctx) == 0);
	return longest < PATIENCE_MS;
}

int main(void)
{
	/*
	 * Each client is a child process, in which the library starts again.
	 */
	for (int i = 0; i < NR_CLIENTS; i++) {
		pid_t pid = fork();
		int status;

		assert(pid >= 0);
		if (pid == 0)
			_exit(!be_a_client());
		assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		if (status == 0)
			return 0;
	}
	assert(!"each client had to wait");
}

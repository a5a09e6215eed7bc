/* SPDX-License-Identifier: MIT */
/*
 * clock: a client whose C library reports another time than the kernel
 *
 * Like libfaketime, the program replaces the C library's clock functions: its clocks
 * are a year ahead and run ten times as fast. io_getevents must still use the kernel's
 * time. If a call hangs, an alarm ends the process.
 */
#undef NDEBUG
#include <assert.h>
#include <libaio.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { HANG_S = 60, AHEAD_S = 365 * 24 * 3600, FASTER = 10 };

static int64_t true_ns(int clock)
{
	struct timespec ts;

	assert(syscall(SYS_clock_gettime, clock, &ts) == 0);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct timespec shown(int clock)
{
	int64_t ns = true_ns(clock) * FASTER;

	return (struct timespec){ .tv_sec = ns / 1000000000 + AHEAD_S,
				  .tv_nsec = ns % 1000000000 };
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	*ret_time = shown(clock);
	return 0;
}

time_t time(time_t *ret_time)
{
	time_t now = shown(CLOCK_REALTIME).tv_sec;

	if (ret_time)
		*ret_time = now;
	return now;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
	struct timespec now = shown(CLOCK_REALTIME);

	(void)zone;
	ret_time->tv_sec = now.tv_sec;
	ret_time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

/*
 * Wait, with a timeout, for an event that does not come: there is no request, or only a
 * poll of an empty pipe.
 */
static void wait_in_vain(io_context_t ctx, long ms)
{
	struct timespec timeout = { .tv_sec = ms / 1000,
				    .tv_nsec = ms % 1000 * 1000000 };
	int64_t since = true_ns(CLOCK_MONOTONIC);
	struct io_event event;
	int got = io_getevents(ctx, 1, 1, &event, &timeout);
	int64_t took_ms = (true_ns(CLOCK_MONOTONIC) - since) / 1000000;

	printf("%ld ms: %d events, %s\n", ms, got,
	       took_ms >= ms ? "not too soon" : "too soon");
}

int main(void)
{
	static char byte;
	struct iocb read, *list = &read;
	io_context_t ctx = NULL;
	int ends[2];

	alarm(HANG_S);
	assert(io_setup(1, &ctx) == 0);
	wait_in_vain(ctx, 100);
	wait_in_vain(ctx, 1);
	/*
	 * Use a poll: kernel AIO would execute a read of a pipe inside io_submit, which
	 * would block.
	 */
	assert(pipe(ends) == 0);
	io_prep_poll(&read, ends[0], 1 /* POLLIN */);
	read.data = &byte;
	assert(io_submit(ctx, 1, &list) == 1);
	wait_in_vain(ctx, 100);
	assert(io_destroy(ctx) == 0);
	return 0;
}

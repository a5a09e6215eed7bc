/* SPDX-License-Identifier: MIT */
/*
 * Load: each waiting thread must get its event, whichever other threads stop waiting
 *
 * Reads wait on pipes. Threads wait for the events of these reads in shared contexts,
 * some with a timeout or a signal mask. Signals sometimes interrupt them. One pipe
 * after another gets a byte.
 *
 * This must hold: each byte leads to one event. The library's fallback thread tries the
 * reads only while no thread waits. Here some thread always waits, so the event must
 * come sooner than the fallback thread would try the read. 19 of 20 events must do so, a
 * bound that also holds on a busy machine.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_CONTEXTS = 2,
	NR_PIPES = 8,   /* of each context */
	NR_WAITERS = 3, /* of each context */
	NR_TIMES = 100000,
	/*
	 * Longer than a wake-up takes, and shorter than the delay of the fallback
	 * thread, which polls only while no thread waits.
	 */
	LATE_US = 50000,
};

static struct source {
	int ends[2];
	struct iocb iocb;
	char byte;
	int64_t since; /* when a byte was written to the pipe */
	/* atomic: the pipe has a byte that no event has reported yet */
	uint32_t is_ready;
} sources[NR_CONTEXTS][NR_PIPES];

static struct waiter {
	struct unit_thread thread;
	struct random random;
	unsigned context;
	unsigned long nr_events, nr_interrupted;
} waiters[NR_CONTEXTS * NR_WAITERS];

static uint64_t handles[NR_CONTEXTS];
static uint32_t shall_end;       /* atomic */
static uint32_t times[NR_TIMES]; /* microseconds; atomic */
static uint32_t nr_times;        /* atomic */

static void note_time(int64_t since)
{
	uint32_t nr = add_relaxed(&nr_times, 1);

	if (nr < NR_TIMES)
		store_relaxed(&times[nr],
			      (uint32_t)((uaio_now_ns() - since) / 1000));
}

static void serve(struct waiter *waiter, const struct uaio_event *event)
{
	struct source *source = (struct source *)(uintptr_t)event->data;

	REQUIRE(event->res == 1);
	REQUIRE(load_acquire(&source->is_ready));
	note_time(source->since);
	waiter->nr_events++;
	/*
	 * Submit the next read first: when is_ready is 0, the next byte may come.
	 */
	REQUIRE(unit_submit(handles[waiter->context], &source->iocb) == 1);
	store_release(&source->is_ready, 0);
}

static long wait_on(void *arg)
{
	struct waiter *waiter = arg;
	sigset_t none;

	sigemptyset(&none);
	while (!load_acquire(&shall_end)) {
		struct timespec timeout = {
			.tv_nsec = random_below(&waiter->random, 3000000),
		};
		struct uaio_aio_sigset set = { &none, 8 };
		bool is_masked = random_below(&waiter->random, 3) == 0;
		bool is_patient = random_below(&waiter->random, 2);
		struct uaio_event event;
		long ret = uaio_aio_pgetevents(
			handles[waiter->context], 1, 1, &event,
			is_patient ? NULL : &timeout, is_masked ? &set : NULL);

		REQUIRE(ret == 1 || ret == -EINTR || (ret == 0 && !is_patient));
		if (ret == 1)
			serve(waiter, &event);
		waiter->nr_interrupted += ret == -EINTR;
	}
	return 0;
}

static void ignore(int signal)
{
	(void)signal;
}

static void begin(void)
{
	struct sigaction action = { .sa_handler = ignore,
				    .sa_flags = SA_RESTART };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	for (unsigned i = 0; i < NR_CONTEXTS; i++) {
		handles[i] = unit_context(NR_PIPES);
		for (unsigned k = 0; k < NR_PIPES; k++) {
			struct source *source = &sources[i][k];

			REQUIRE(pipe2(source->ends, O_CLOEXEC) == 0);
			source->iocb =
				unit_iocb(IOCB_CMD_PREAD, source->ends[0],
					  &source->byte, 1, 0);
			source->iocb.aio_data = (uintptr_t)source;
			REQUIRE(unit_submit(handles[i], &source->iocb) == 1);
		}
	}
	for (unsigned i = 0; i < NR_ELEMENTS(waiters); i++) {
		waiters[i].random = random_start(i + 1);
		waiters[i].context = i % NR_CONTEXTS;
		unit_thread_start(&waiters[i].thread, wait_on, &waiters[i]);
	}
}

static bool is_idle(void *arg)
{
	return !load_acquire(&((struct source *)arg)->is_ready);
}

static void feed(struct random *random)
{
	struct source *source = &sources[random_below(random, NR_CONTEXTS)]
					[random_below(random, NR_PIPES)];

	if (!is_idle(source))
		return;
	source->since = uaio_now_ns();
	store_release(&source->is_ready, 1);
	REQUIRE(write(source->ends[1], "x", 1) == 1);
	/*
	 * Often wait until the event was reaped. Otherwise the next byte comes while
	 * only some threads sleep, or none.
	 */
	if (random_below(random, 3))
		unit_await(is_idle, source);
	if (random_below(random, 8) == 0)
		usleep(random_below(random, 1000));
	if (random_below(random, 4) == 0)
		(void)pthread_kill(
			waiters[random_below(random, NR_ELEMENTS(waiters))]
				.thread.id,
			SIGUSR1);
}

static uint64_t end(void)
{
	uint64_t nr_events = 0, nr_interrupted = 0;

	for (unsigned i = 0; i < NR_CONTEXTS; i++)
		for (unsigned k = 0; k < NR_PIPES; k++)
			unit_await(is_idle, &sources[i][k]);
	store_release(&shall_end, 1);
	for (unsigned i = 0; i < NR_ELEMENTS(waiters); i++) {
		/*
		 * The thread may be about to sleep, so repeat the signal until the
		 * thread ends.
		 */
		while (pthread_tryjoin_np(waiters[i].thread.id, NULL)) {
			(void)pthread_kill(waiters[i].thread.id, SIGUSR1);
			usleep(100);
		}
		nr_events += waiters[i].nr_events;
		nr_interrupted += waiters[i].nr_interrupted;
	}
	for (unsigned i = 0; i < NR_CONTEXTS; i++) {
		unit_destroy(handles[i]);
		for (unsigned k = 0; k < NR_PIPES; k++) {
			unit_close(sources[i][k].ends[0]);
			unit_close(sources[i][k].ends[1]);
		}
	}
	printf("%lu times interrupted\n", (unsigned long)nr_interrupted);
	note_count(nr_events, "events");
	return nr_events;
}

static int compare_times(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int torture_waiters(void)
{
	struct random random = random_start(0);
	uint32_t nr, nr_late = 0;

	begin();
	while (!is_over())
		feed(&random);
	REQUIRE(end() == load_relaxed(&nr_times));
	nr = load_relaxed(&nr_times);
	if (nr > NR_TIMES)
		nr = NR_TIMES;
	qsort(times, nr, sizeof(times[0]), compare_times);
	for (uint32_t i = 0; i < nr; i++)
		nr_late += times[i] > LATE_US;
	printf("median %u us, 99 of 100 in %u us, longest %u us, %u late\n",
	       times[nr / 2], times[nr - 1 - nr / 100], times[nr - 1], nr_late);
	REQUIRE(nr && nr_late <= 1 + nr / 20);
	return 0;
}

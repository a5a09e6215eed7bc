/* SPDX-License-Identifier: MIT */
/*
 * Load: contexts are created and destroyed while requests are in flight
 *
 * Threads share a table of contexts. They submit requests to the contexts, reap events,
 * cancel requests, and destroy and create contexts. A thread may use the handle of a
 * context that no longer exists.
 *
 * At the end of each round all contexts are destroyed, so nothing is in flight. Then
 * this must hold: each accepted request has had one event, or none if its context was
 * destroyed. No request has two events, and a refused request has none.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_THREADS = 8,
	NR_PLACES = 6,
	NR_FILES = 6,
	BLOCK = 512,
	NR_BLOCKS = 64,
	BATCH = 12,
	NR_SLOTS = 4096, /* most requests of one thread in one round */
	ROUND_NS = 50000000,
};

static uint64_t places[NR_PLACES]; /* atomic: a handle; 0: no context */
/* the last file of the array is a pipe that never gets data */
static int files[NR_FILES];
static uint32_t is_round_over; /* atomic */
static uint32_t is_run_over;   /* atomic */
static pthread_barrier_t barrier;

struct slot {
	struct iocb iocb;
	/* atomic: submitted, and its event not yet reaped */
	uint32_t is_pending;
	char buffer[BLOCK];
};

static struct worker {
	struct unit_thread thread;
	unsigned nr;
	struct slot *slots;
	unsigned nr_used; /* how many slots this round has used */
	struct random random;
	unsigned long nr_accepted, nr_reaped, nr_refused, nr_cancelled;
	unsigned long nr_setups;
} workers[NR_THREADS];

static void draw_request(struct worker *worker, struct slot *slot)
{
	static const uint16_t opcodes[] = {
		IOCB_CMD_PREAD,  IOCB_CMD_PREAD,  IOCB_CMD_PREAD,
		IOCB_CMD_PWRITE, IOCB_CMD_PWRITE, IOCB_CMD_FDSYNC,
		IOCB_CMD_POLL,
	};
	unsigned which = random_below(&worker->random, NR_ELEMENTS(opcodes));
	unsigned file = random_below(&worker->random, NR_FILES);
	int64_t off = random_below(&worker->random, NR_BLOCKS) * BLOCK;
	unsigned opcode = opcodes[which];

	/* a sync uses a file in memory, because a disk would be slow */
	if (opcode == IOCB_CMD_FDSYNC)
		slot->iocb = unit_iocb(opcode, files[0], NULL, 0, 0);
	else if (opcode == IOCB_CMD_POLL)
		slot->iocb = unit_iocb(opcode, files[NR_FILES - 1],
				       (void *)POLLIN, 0, 0);
	else if (file == NR_FILES - 1)
		slot->iocb = unit_iocb(IOCB_CMD_PREAD, files[file],
				       slot->buffer, 8, 0);
	else
		slot->iocb = unit_iocb(opcode, files[file], slot->buffer, BLOCK,
				       off);
	slot->iocb.aio_data =
		(uint64_t)worker->nr << 32 | (uint64_t)(slot - worker->slots);
}

static void submit(struct worker *worker, uint64_t handle)
{
	unsigned nr = 1 + random_below(&worker->random, BATCH);
	struct slot *slots = &worker->slots[worker->nr_used];
	struct iocb *list[BATCH];
	long ret;

	if (nr > NR_SLOTS - worker->nr_used)
		return;
	for (unsigned i = 0; i < nr; i++) {
		draw_request(worker, &slots[i]);
		/*
		 * Set is_pending before io_submit, because another thread may reap the
		 * event before io_submit returns.
		 */
		store_release(&slots[i].is_pending, 1);
		list[i] = &slots[i].iocb;
	}
	ret = uaio_aio_submit(handle, nr, list);
	REQUIRE(ret > 0 || ret == -EAGAIN || ret == -EINVAL);
	if (ret < 0)
		ret = 0;
	for (unsigned i = (unsigned)ret; i < nr; i++)
		REQUIRE(xchg_acquire(&slots[i].is_pending, 0) == 1);
	worker->nr_used += (unsigned)ret;
	worker->nr_accepted += (unsigned long)ret;
	worker->nr_refused += nr - (unsigned long)ret;
}

static void account(struct worker *worker, const struct uaio_event *event)
{
	struct slot *slot;

	REQUIRE(event->data >> 32 < NR_THREADS);
	REQUIRE((uint32_t)event->data < NR_SLOTS);
	slot = &workers[event->data >> 32].slots[(uint32_t)event->data];
	REQUIRE(event->obj == (uintptr_t)&slot->iocb);
	REQUIRE(event->res == BLOCK || event->res == 0 ||
		event->res == -ECANCELED);
	REQUIRE(xchg_release(&slot->is_pending, 0) == 1);
	worker->nr_reaped++;
}

static void reap(struct worker *worker, uint64_t handle)
{
	struct timespec timeout = { 0, random_below(&worker->random, 200000) };
	struct uaio_event events[32];
	long min_nr = random_below(&worker->random, 4);
	long ret = uaio_aio_getevents(handle, min_nr, 32, events, &timeout);

	REQUIRE(ret >= 0 || ret == -EINVAL);
	for (long i = 0; i < ret; i++)
		account(worker, &events[i]);
}

static void cancel(struct worker *worker, uint64_t handle)
{
	struct slot *slot;
	long ret;

	if (!worker->nr_used)
		return;
	slot = &worker->slots[random_below(&worker->random, worker->nr_used)];
	ret = uaio_aio_cancel(handle, &slot->iocb);
	REQUIRE(ret == -EINPROGRESS || ret == -EINVAL);
	worker->nr_cancelled += ret == -EINPROGRESS;
}

/*
 * If several threads destroy the same context, only one of these calls succeeds. The
 * thread that made this call creates the next context.
 */
static void renew(struct worker *worker, uint64_t *place, uint64_t handle)
{
	static const uint32_t sizes[] = { 1, 8, 100, 1000, 5000 };
	uint64_t fresh = 0;
	long ret = handle ? uaio_aio_destroy(handle) : 0;

	REQUIRE(ret == 0 || ret == -EINVAL);
	if (ret < 0)
		return;
	ret = uaio_aio_setup(
		sizes[random_below(&worker->random, NR_ELEMENTS(sizes))],
		&fresh);
	REQUIRE(ret == 0);
	worker->nr_setups++;
	/*
	 * If another thread has put a context into this element of places[] meanwhile,
	 * destroy that context.
	 */
	while (!__atomic_compare_exchange_n(place, &handle, fresh, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		(void)uaio_aio_destroy(handle);
}

static void torment_until_round_is_over(struct worker *worker)
{
	while (!load_acquire(&is_round_over)) {
		uint64_t *place =
			&places[random_below(&worker->random, NR_PLACES)];
		uint64_t handle = load_acquire(place);
		unsigned what = random_below(&worker->random, 1000);

		if (what < 500)
			submit(worker, handle);
		else if (what < 930)
			reap(worker, handle);
		else if (what < 990)
			cancel(worker, handle);
		else
			renew(worker, place, handle);
	}
}

static long torment(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (load_relaxed(&is_run_over))
			return 0;
		torment_until_round_is_over(arg);
		pthread_barrier_wait(&barrier);
	}
}

/*
 * Reset the slots for the next round.
 * Return: how many requests had no event.
 */
static unsigned long clear_slots(struct worker *worker)
{
	unsigned long nr = 0;

	for (unsigned i = 0; i < worker->nr_used; i++)
		nr += xchg_acquire(&worker->slots[i].is_pending, 0);
	worker->nr_used = 0;
	return nr;
}

static unsigned long one_round(void)
{
	int64_t end = uaio_now_ns() + ROUND_NS;
	struct uaio_counters counters;
	unsigned long nr_gone = 0;

	for (unsigned i = 0; i < NR_PLACES; i++)
		places[i] = unit_context(100);
	store_relaxed(&is_round_over, 0);
	pthread_barrier_wait(&barrier);
	while (uaio_now_ns() < end)
		sched_yield();
	store_release(&is_round_over, 1);
	pthread_barrier_wait(&barrier);

	/*
	 * A new context may get the handle of a destroyed one. A thread that is about
	 * to destroy the old context then destroys the new one. An element of places[]
	 * then keeps a handle without a context, and EINVAL is right. So only check
	 * that no context is left.
	 */
	for (unsigned i = 0; i < NR_PLACES; i++) {
		long ret = uaio_aio_destroy(places[i]);

		REQUIRE(ret == 0 || ret == -EINVAL);
	}
	uaio_counters_read(&counters);
	REQUIRE(counters.nr_contexts == 0);
	REQUIRE(counters.ring_bytes == 0);
	for (unsigned i = 0; i < NR_THREADS; i++)
		nr_gone += clear_slots(&workers[i]);
	return nr_gone;
}

static void open_files(void)
{
	for (unsigned i = 0; i < NR_FILES - 1; i++) {
		files[i] = unit_file(i % 2 == 0);
		REQUIRE(ftruncate(files[i], NR_BLOCKS * BLOCK) == 0);
	}
	files[NR_FILES - 1] = eventfd(0, EFD_CLOEXEC);
	REQUIRE(files[NR_FILES - 1] >= 0);
}

int torture_contexts(void)
{
	unsigned long accepted = 0, reaped = 0, gone = 0, setups = 0;
	unsigned long cancelled = 0, refused = 0;

	open_files();
	pthread_barrier_init(&barrier, NULL, NR_THREADS + 1);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		workers[i].nr = i;
		workers[i].random = random_start(i);
		workers[i].slots = calloc(NR_SLOTS, sizeof(struct slot));
		REQUIRE(workers[i].slots);
		unit_thread_start(&workers[i].thread, torment, &workers[i]);
	}
	for (unsigned round = 0; !is_over(); round++) {
		uaio_config.force_worker = round & 1;
		gone += one_round();
	}
	store_relaxed(&is_run_over, 1);
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		REQUIRE(unit_thread_join(&workers[i].thread) == 0);
		accepted += workers[i].nr_accepted;
		reaped += workers[i].nr_reaped;
		setups += workers[i].nr_setups;
		cancelled += workers[i].nr_cancelled;
		refused += workers[i].nr_refused;
		free(workers[i].slots);
	}
	note_count(accepted, "requests");
	printf("%lu contexts, %lu accepted, %lu refused, %lu cancelled, "
	       "%lu events, %lu gone with their contexts\n",
	       setups, accepted, refused, cancelled, reaped, gone);
	REQUIRE(accepted == reaped + gone);
	for (unsigned i = 0; i < NR_FILES; i++)
		unit_close(files[i]);
	pthread_barrier_destroy(&barrier);
	return 0;
}

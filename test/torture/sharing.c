/* SPDX-License-Identifier: MIT */
/*
 * Load: many requests in many contexts read one stream, and each byte must be read once
 *
 * Threads write numbered records to pipes. Reading threads have several requests in
 * flight on each pipe, in contexts that they share. Any of these threads may reap the
 * events, with or without waiting. Some requests are cancelled.
 *
 * This must hold: each record is read once, each request has one event, and the
 * requests of one thread on one pipe get their records in the order of submission.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "aio/aio.h"
#include "aio/handle.h"
#include "unit.h"

enum {
	NR_PIPES = 3,
	NR_CONTEXTS = 3,
	NR_THREADS = 4,
	NR_SLOTS = 8, /* of each thread and pipe */
	RECORD = sizeof(uint64_t),
	/* most records in a write: a pipe never splits a write of PIPE_BUF bytes */
	RECORDS_MAX = 64,
};

enum state { FREE, PENDING, DONE };

struct slot {
	struct iocb iocb;
	uint64_t handle;
	uint64_t record;
	int64_t res;
	uint32_t state; /* atomic: enum state */
};

/* The requests of one thread on one pipe, in the order of submission */
struct queue {
	struct slot slots[NR_SLOTS];
	/*
	 * Numbers of requests: those from `oldest` to next - 1 are in flight. Request n
	 * uses slot n modulo NR_SLOTS.
	 */
	unsigned oldest, next;
	uint64_t last; /* number of the record that was read last, plus 1 */
	bool has_ended;
};

static struct pipe {
	struct unit_thread writer;
	struct random random;
	int ends[2];
	uint64_t nr_written;
	/*
	 * Atomic. nr_read counts the records that were read. sum is the sum of their
	 * numbers, and squares the sum of the squares of their numbers.
	 */
	uint64_t nr_read, sum, squares;
} pipes[NR_PIPES];

static struct reader {
	struct unit_thread thread;
	struct random random;
	struct queue queues[NR_PIPES];
	unsigned long nr_cancelled;
} readers[NR_THREADS];

static uint64_t handles[NR_CONTEXTS];

static long write_records(void *arg)
{
	struct pipe *pipe = arg;
	uint64_t records[RECORDS_MAX];

	while (!is_over()) {
		uint32_t max = random_below(&pipe->random, 8) ? 4 : RECORDS_MAX;
		uint32_t nr = 1 + random_below(&pipe->random, max);

		for (uint32_t i = 0; i < nr; i++)
			records[i] = pipe->nr_written + i;
		REQUIRE(write(pipe->ends[1], records, nr * RECORD) ==
			nr * RECORD);
		pipe->nr_written += nr;
		/*
		 * Sometimes pause: then all requests wait, and usually threads wait for
		 * their events.
		 */
		if (random_below(&pipe->random, 2))
			usleep(random_below(&pipe->random, 400));
	}
	unit_close(pipe->ends[1]);
	return 0;
}

static void submit_one(struct reader *reader, unsigned nr)
{
	struct queue *queue = &reader->queues[nr];
	struct slot *slot = &queue->slots[queue->next++ % NR_SLOTS];

	REQUIRE(load_relaxed(&slot->state) == FREE);
	slot->handle = handles[random_below(&reader->random, NR_CONTEXTS)];
	slot->iocb = unit_iocb(IOCB_CMD_PREAD, pipes[nr].ends[0], &slot->record,
			       RECORD, 0);
	slot->iocb.aio_data = (uintptr_t)slot;
	store_relaxed(&slot->state, PENDING);
	REQUIRE(unit_submit(slot->handle, &slot->iocb) == 1);
}

/* Reap events of one context; any thread may have submitted their requests. */
static void take_events(struct reader *reader, bool may_sleep)
{
	struct timespec moment = {
		.tv_nsec =
			may_sleep ? random_below(&reader->random, 2000000) : 0,
	};
	struct uaio_event events[4];
	uint64_t handle = handles[random_below(&reader->random, NR_CONTEXTS)];
	long nr = 1 + random_below(&reader->random, 4);
	long ret = uaio_aio_getevents(handle, random_below(&reader->random, 2),
				      nr, events, &moment);

	REQUIRE(ret >= 0 && ret <= nr);
	for (long i = 0; i < ret; i++) {
		struct slot *slot = (struct slot *)(uintptr_t)events[i].data;
		uint32_t pending = PENDING;

		slot->res = events[i].res;
		REQUIRE(slot->handle == handle);
		REQUIRE(__atomic_compare_exchange_n(
			&slot->state, &pending, DONE, false, __ATOMIC_RELEASE,
			__ATOMIC_RELAXED));
	}
}

static void account(struct pipe *pipe, struct queue *queue,
		    const struct slot *slot)
{
	REQUIRE(slot->res == RECORD || slot->res == 0 ||
		slot->res == -ECANCELED);
	if (slot->res == 0)
		queue->has_ended = true;
	if (slot->res != RECORD)
		return;
	REQUIRE(!queue->has_ended);
	REQUIRE(slot->record >= queue->last);
	queue->last = slot->record + 1;
	add_relaxed(&pipe->nr_read, 1);
	add_relaxed(&pipe->sum, slot->record);
	add_relaxed(&pipe->squares, slot->record * slot->record);
}

/* Check the completed requests in the order of submission, then submit new ones. */
static bool go_on(struct reader *reader, unsigned nr)
{
	struct queue *queue = &reader->queues[nr];

	for (; queue->oldest != queue->next; queue->oldest++) {
		struct slot *slot = &queue->slots[queue->oldest % NR_SLOTS];

		if (load_acquire(&slot->state) != DONE)
			break;
		account(&pipes[nr], queue, slot);
		store_relaxed(&slot->state, FREE);
	}
	while (!queue->has_ended && queue->next - queue->oldest < NR_SLOTS)
		submit_one(reader, nr);
	return queue->oldest != queue->next;
}

/* Cancel a request of this thread. It may already have completed. */
static void cancel_one(struct reader *reader)
{
	unsigned nr = random_below(&reader->random, NR_PIPES);
	struct slot *slot =
		&reader->queues[nr]
			 .slots[random_below(&reader->random, NR_SLOTS)];
	int ret;

	if (load_relaxed(&slot->state) != PENDING)
		return;
	if (random_below(&reader->random, 2)) {
		ret = (int)uaio_aio_cancel(slot->handle, &slot->iocb);
		REQUIRE(ret == -EINPROGRESS || ret == -EINVAL);
	} else {
		ret = uaio_ctx_cancel_one(slot->handle, (uintptr_t)&slot->iocb);
		REQUIRE(ret == 0 || ret == -ENOENT || ret == -EALREADY);
	}
	reader->nr_cancelled += ret == -EINPROGRESS || ret == 0;
}

static long read_records(void *arg)
{
	struct reader *reader = arg;
	bool is_at_it = true;

	while (is_at_it) {
		is_at_it = false;
		for (unsigned i = 0; i < NR_PIPES; i++)
			is_at_it |= go_on(reader, i);
		if (random_below(&reader->random, 16) == 0)
			cancel_one(reader);
		take_events(reader, random_below(&reader->random, 4));
	}
	return 0;
}

/*
 * Compare the sums with those of all numbers below nr_written: no record may be missing
 * or doubled.
 */
static void check(const struct pipe *pipe)
{
	uint64_t sum = 0, squares = 0;

	for (uint64_t i = 0; i < pipe->nr_written; i++) {
		sum += i;
		squares += i * i;
	}
	note_count(pipe->nr_read, "records");
	REQUIRE(pipe->nr_read == pipe->nr_written);
	REQUIRE(pipe->sum == sum && pipe->squares == squares);
}

int torture_sharing(void)
{
	unsigned long nr_cancelled = 0;

	for (unsigned i = 0; i < NR_CONTEXTS; i++)
		handles[i] = unit_context(NR_PIPES * NR_THREADS * NR_SLOTS);
	for (unsigned i = 0; i < NR_PIPES; i++) {
		REQUIRE(pipe2(pipes[i].ends, O_CLOEXEC) == 0);
		pipes[i].random = random_start(i);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		readers[i].random = random_start(NR_PIPES + i);
		unit_thread_start(&readers[i].thread, read_records,
				  &readers[i]);
	}
	for (unsigned i = 0; i < NR_PIPES; i++)
		unit_thread_start(&pipes[i].writer, write_records, &pipes[i]);
	for (unsigned i = 0; i < NR_PIPES; i++)
		REQUIRE(unit_thread_join(&pipes[i].writer) == 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		REQUIRE(unit_thread_join(&readers[i].thread) == 0);
		nr_cancelled += readers[i].nr_cancelled;
	}
	for (unsigned i = 0; i < NR_PIPES; i++) {
		check(&pipes[i]);
		unit_close(pipes[i].ends[0]);
	}
	for (unsigned i = 0; i < NR_CONTEXTS; i++)
		unit_destroy(handles[i]);
	printf("%lu cancelled\n", nr_cancelled);
	return 0;
}

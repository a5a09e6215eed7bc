/* SPDX-License-Identifier: MIT */
/*
 * reaper: a client that uses all slots of a context's ring, and reaps from the ring
 * without system calls
 *
 * QEMU, fio and others read events from the ring of a context and advance its head
 * without a system call, so the ring is ABI. A request occupies a slot of the ring from
 * its submission until its event is reaped. When no slot is free, io_submit fails with
 * EAGAIN. The program prints how many requests were accepted, the fields of the ring,
 * and how many events it reaped. With the kernel and with uaio, it must print the same.
 * It stays on one CPU: the kernel hands out slots to CPUs in batches, so with several
 * CPUs the number of accepted requests would vary.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <libaio.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	PATIENCE_S = 30,
	FILE_SIZE = 1 << 20,
};

struct ring {
	uint32_t id, nr, head, tail;
	uint32_t magic, compat, incompat, header_length;
	struct io_event events[];
};

/*
 * Reap at least min_nr and at most nr events.
 * Return: how many.
 */
typedef int reap_fn(io_context_t ctx, int min_nr, int nr,
		    struct io_event *events);

static int reap_by_call(io_context_t ctx, int min_nr, int nr,
			struct io_event *events)
{
	struct timespec patience = { .tv_sec = PATIENCE_S };
	int ret = io_getevents(ctx, min_nr, nr, events, &patience);

	assert(ret >= min_nr);
	return ret;
}

static int reap_by_hand(io_context_t ctx, int min_nr, int nr,
			struct io_event *events)
{
	struct ring *ring = (struct ring *)ctx;
	time_t give_up = time(NULL) + PATIENCE_S;
	int got = 0;

	while (got < nr) {
		uint32_t head = ring->head;
		/*
		 * Acquire: pairs with the producer's store of the tail, which comes
		 * after its store of the event.
		 */
		uint32_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);

		if (head == tail) {
			if (got >= min_nr)
				break;
			assert(time(NULL) < give_up);
			sched_yield();
			continue;
		}
		events[got++] = ring->events[head];
		/* The event is copied, so give its slot back to the producer. */
		__atomic_store_n(&ring->head, (head + 1) % ring->nr,
				 __ATOMIC_RELEASE);
	}
	return got;
}

/*
 * The task: `total` reads of one length, with as many in flight as the ring accepts
 */
struct job {
	io_context_t ctx;
	struct iocb *cbs;
	struct iocb **list;
	bool *seen;
	int total, submitted, completed;
};

static void job_init(struct job *job, int total, size_t len)
{
	char name[] = "reaper.XXXXXX", *buf = aligned_alloc(4096, len);
	int fd = mkstemp(name), i;

	*job = (struct job){ .total = total };
	job->cbs = calloc((size_t)total, sizeof(*job->cbs));
	job->list = calloc((size_t)total, sizeof(struct iocb *));
	job->seen = calloc((size_t)total, sizeof(*job->seen));
	assert(buf && job->cbs && job->list && job->seen);
	assert(fd >= 0 && unlink(name) == 0 && ftruncate(fd, FILE_SIZE) == 0);
	for (i = 0; i < total; i++) {
		job->list[i] = &job->cbs[i];
		io_prep_pread(&job->cbs[i], fd, buf, len,
			      (long long)len * (i % (FILE_SIZE / (int)len)));
		job->cbs[i].data = &job->seen[i];
	}
}

/*
 * Submit requests until the context accepts no more.
 * Return: how many it accepted.
 */
static int fill(struct job *job, int at_once)
{
	int before = job->submitted, ret = 0;

	while (job->submitted < job->total) {
		int nr = job->total - job->submitted;

		ret = io_submit(job->ctx, nr < at_once ? nr : at_once,
				job->list + job->submitted);
		if (ret <= 0)
			break;
		job->submitted += ret;
	}
	if (job->submitted < job->total)
		assert(ret == -EAGAIN);
	return job->submitted - before;
}

/*
 * Reap nr events. Check that each one belongs to a request that has had no event yet.
 */
static void drain(struct job *job, reap_fn *reap, int nr)
{
	struct io_event *events = calloc((size_t)nr, sizeof(*events));
	int got = reap(job->ctx, nr, nr, events), i;

	for (i = 0; i < got; i++) {
		struct iocb *cb = events[i].obj;
		bool *seen = events[i].data;

		assert(cb >= job->cbs && cb < job->cbs + job->total);
		assert(seen == &job->seen[cb - job->cbs] && !*seen);
		assert(events[i].res == cb->u.c.nbytes && events[i].res2 == 0);
		*seen = true;
	}
	job->completed += got;
	free(events);
}

/* Print the fields of a new context's ring. */
static void describe(int max_events)
{
	io_context_t ctx = NULL;
	struct ring *ring;

	assert(io_setup(max_events, &ctx) == 0);
	ring = (struct ring *)ctx;
	printf("io_setup(%d): nr %u head %u tail %u magic %x compat %u "
	       "incompat %u header %u\n",
	       max_events, ring->nr, ring->head, ring->tail, ring->magic,
	       ring->compat, ring->incompat, ring->header_length);
	assert(io_destroy(ctx) == 0);
}

/*
 * Fill the ring, then reap `step` events and fill it again, until `total` requests have
 * completed.
 */
static void overflow(int max_events, int total, int at_once, int step,
		     const char *name, reap_fn *reap)
{
	struct io_event none;
	struct job job;
	int capacity;

	job_init(&job, total, 512);
	assert(io_setup(max_events, &job.ctx) == 0);
	capacity = fill(&job, at_once);
	assert(capacity >= max_events && capacity < total);
	assert(capacity < (int)((struct ring *)job.ctx)->nr);
	while (job.completed < job.total) {
		int pending = job.submitted - job.completed;

		drain(&job, reap, pending < step ? pending : step);
		fill(&job, at_once);
	}
	assert(job.completed == job.submitted);
	assert(reap(job.ctx, 0, 1, &none) == 0);
	assert(io_destroy(job.ctx) == 0);
	printf("max_events %d, %d at once, %s by %d: %d fit, %d of %d done\n",
	       max_events, at_once, name, step, capacity, job.completed,
	       job.submitted);
}

int main(void)
{
	static const struct {
		const char *name;
		reap_fn *reap;
	} ways[] = {
		{ "io_getevents", reap_by_call },
		{ "own reaping", reap_by_hand },
	};
	cpu_set_t one;
	int sizes[] = { 1, 2, 32, 127, 128, 1000 };
	size_t i;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert(sched_setaffinity(0, sizeof(one), &one) == 0);
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		describe(sizes[i]);
	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		reap_fn *reap = ways[i].reap;
		const char *name = ways[i].name;

		overflow(32, 128, 128, 128, name, reap);
		overflow(32, 1270, 1270, 1270, name, reap);
		overflow(32, 1270, 1, 1270, name, reap);
		overflow(32, 1270, 7, 1270, name, reap);
		overflow(1, 1270, 1270, 1270, name, reap);
		overflow(1000, 8192, 8192, 8192, name, reap);
		/*
		 * Reap few events at a time, so that the ring wraps around at each
		 * position.
		 */
		overflow(32, 1270, 1, 1, name, reap);
		overflow(32, 1270, 1270, 50, name, reap);
	}
	return 0;
}

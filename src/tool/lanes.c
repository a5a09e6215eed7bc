/* SPDX-License-Identifier: MIT */
/* Tested by src/trace/test-trace.c and test/run/trace.py. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/cycles.h"
#include "base/sys.h"
#include "tool/tracing.h"

const char *const uaio_door_names[UAIO_NR_DOORS] = {
	[UAIO_DOOR_OTHER] = "other",
	[UAIO_DOOR_AIO] = "aio",
	[UAIO_DOOR_URING] = "io_uring",
	[UAIO_DOOR_POSIX] = "posix",
};

const char *const uaio_by_names[UAIO_NR_BYS] = {
	[UAIO_BY_SUBMITTER] = "inline", [UAIO_BY_WAITER] = "waiter",
	[UAIO_BY_WORKER] = "worker",    [UAIO_BY_READY] = "ready",
	[UAIO_BY_KERNEL] = "kernel",
};

/* Of the cheap clock, by which records are dated. */
static struct {
	uint64_t begin; /* when the trace began */
	double ns_per_cycle;
} clocks;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The rate is measured once, so that what came later is never dated earlier. */
static void start_clocks(void)
{
	static bool is_done;
	const struct timespec while_measured = { .tv_nsec = 20000000 };
	int64_t ns = now_ns();

	if (is_done)
		return;
	is_done = true;
	clocks.begin = uaio_cycles();
	(void)nanosleep(&while_measured, NULL);
	ns = now_ns() - ns;
	clocks.ns_per_cycle =
		(double)ns / (double)(uaio_cycles() - clocks.begin);
}

/* Return: in ns since the trace began. */
static int64_t date(uint64_t cycles)
{
	return (int64_t)((double)(int64_t)(cycles - clocks.begin) *
			 clocks.ns_per_cycle);
}

int uaio_lanes_open(struct uaio_trace_ring **ret_ring)
{
	int fd = memfd_create("uaio-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct uaio_trace_ring *ring;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)sizeof(*ring)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 ||
	    stat("/proc/self/ns/pid", &st) < 0)
		goto err;
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	if (ring == MAP_FAILED)
		goto err;
	ring->version = UAIO_TRACE_VERSION;
	ring->tracer = (uint32_t)getpid();
	ring->pid_namespace = st.st_ino;
	memcpy(ring->magic, UAIO_TRACE_MAGIC, sizeof(ring->magic));
	start_clocks();
	*ret_ring = ring;
	return fd;

err:
	close(fd);
	return -errno;
}

static bool is_gone(uint32_t pid, uint32_t tid)
{
	return sys_tgkill((int)pid, (int)tid, 0) == -ESRCH;
}

/* All of its records are taken. */
static void release_lane(struct uaio_trace_lane *lane)
{
	store_relaxed(&lane->pid, 0);
	/* [MB:trace-lane] release: all of it. Pairs with take_lane(). */
	store_release(&lane->owner, 0);
}

static uint64_t take(struct uaio_trace_ring *ring, unsigned place,
		     uaio_traced_fn *each, void *arg)
{
	struct uaio_trace_lane *lane = &ring->lanes[place];
	uint64_t tail = load_relaxed(&lane->tail);
	/* [MB:trace-head] acquire: the records. Pairs with uaio_trace_put(). */
	uint64_t head = load_acquire(&lane->head), nr = head - tail;

	/* A program may write anything there. */
	if (nr > UAIO_TRACE_RECORDS)
		tail = head - UAIO_TRACE_RECORDS;
	for (; tail != head; tail++) {
		const struct uaio_trace_record record =
			*uaio_trace_at(ring, place, tail);
		struct uaio_traced traced = {
			.record = &record,
			.pid = load_relaxed(&lane->pid),
			.tid = record.tid ? record.tid
					  : load_relaxed(&lane->owner),
			.submitted_ns = date(record.submitted),
			.started_ns = date(record.started),
			.ended_ns = date(record.ended),
		};

		traced.file = record.fd < 0
				      ? ""
				      : uaio_filename(traced.pid, record.fd,
						      traced.ended_ns);
		each(&traced, arg);
	}
	/* [MB:trace-tail] release: was read. Pairs with uaio_trace_next(). */
	store_release(&lane->tail, head);
	return nr;
}

uint64_t uaio_lanes_take(struct uaio_trace_ring *ring, uaio_traced_fn *each,
			 void *arg)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++) {
		struct uaio_trace_lane *lane = &ring->lanes[i];
		uint32_t owner = load_relaxed(&lane->owner);
		uint32_t pid = load_relaxed(&lane->pid);
		/* If it is, it has written nothing since. */
		bool was_gone = owner && pid && is_gone(pid, owner);

		if (load_relaxed(&lane->head) != load_relaxed(&lane->tail))
			nr += take(ring, i, each, arg);
		if (was_gone)
			release_lane(lane);
	}
	return nr;
}

uint64_t uaio_lanes_lost(struct uaio_trace_ring *ring)
{
	uint64_t nr = load_relaxed(&ring->nr_homeless);

	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++)
		nr += load_relaxed(&ring->lanes[i].nr_lost);
	return nr;
}

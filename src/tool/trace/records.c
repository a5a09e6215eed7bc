/* SPDX-License-Identifier: MIT */
/* Tested by src/trace/test-trace.c and test/run/trace.py. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/cycles.h"
#include "base/sys.h"
#include "tool/trace/tracing.h"

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

/*
 * The processor's cycle counter: processes write its value to their records as the
 * time.
 */
static struct {
	uint64_t begin; /* the counter when the trace began */
	double ns_per_cycle;
} clocks;

int64_t uaio_trace_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * Measure how fast the counter runs, only once: with a second result, later times might
 * be smaller than earlier ones.
 */
static void start_clocks(void)
{
	static bool is_done;
	const struct timespec while_measured = { .tv_nsec = 20000000 };
	int64_t ns = uaio_trace_now_ns();

	if (is_done)
		return;
	is_done = true;
	clocks.begin = uaio_cycles();
	(void)nanosleep(&while_measured, NULL);
	ns = uaio_trace_now_ns() - ns;
	clocks.ns_per_cycle =
		(double)ns / (double)(uaio_cycles() - clocks.begin);
}

/*
 * Return: nanoseconds from the beginning of the trace to this value of the counter.
 */
static int64_t date(uint64_t cycles)
{
	return (int64_t)((double)(int64_t)(cycles - clocks.begin) *
			 clocks.ns_per_cycle);
}

int uaio_records_open(struct uaio_trace_ring **ret_ring)
{
	int fd = (int)uaio_sys6(SYS_memfd_create, (long)"uaio-trace",
				MFD_CLOEXEC | MFD_ALLOW_SEALING, 0, 0, 0, 0);
	struct uaio_trace_ring *ring;
	struct stat st;

	if (fd < 0)
		return fd;
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

/*
 * Let another thread use a lane (a thread's part of the ring) whose records are all
 * read.
 */
static void release_lane(struct uaio_trace_lane *lane)
{
	store_relaxed(&lane->pid, 0);
	/*
	 * [MB:trace-lane] release: write the lane's members before `owner`. Pairs with
	 * take_lane().
	 */
	store_release(&lane->owner, 0);
}

/*
 * Return: the number of the first record in the lane to read. A program may write
 * anything to the ring, so more records may be between `tail` and `head` than fit into
 * the lane. Then begin with the oldest record that can still be there.
 */
static uint64_t begin_of(const struct uaio_trace_lane *lane, uint64_t head)
{
	uint64_t tail = load_relaxed(&lane->tail);

	return head - tail > UAIO_TRACE_RECORDS ? head - UAIO_TRACE_RECORDS
						: tail;
}

/*
 * Return: how many records, at most nr, belong to the entry that begins with this
 * record. The name of a file fills several records.
 */
static uint64_t extent_of(const struct uaio_trace_record *record, uint64_t nr)
{
	uint64_t is = record->op != UAIO_TRACE_NAME ||
				      record->len > UAIO_TRACE_NAME_BYTES
			      ? 1
			      : uaio_trace_name_records(record->len);

	return is < nr ? is : nr;
}

static void keep_name(struct uaio_trace_ring *ring, unsigned place,
		      uint64_t number, const struct uaio_trace_record *record,
		      uint64_t nr)
{
	char text[UAIO_TRACE_NAME_BYTES + 1];
	uint64_t len = record->len;

	if (record->op != UAIO_TRACE_NAME || nr < 2)
		return;
	for (uint64_t i = 1; i < nr; i++)
		memcpy(text + (i - 1) * sizeof(*record),
		       uaio_trace_at(ring, place, number + i), sizeof(*record));
	text[len < (nr - 1) * sizeof(*record) ? len
					      : (nr - 1) * sizeof(*record)] =
		'\0';
	uaio_filename_is(load_relaxed(&ring->lanes[place].pid), record->file,
			 text);
}

/* Keep the file names that were written to a lane since the last call. */
static void learn(struct uaio_trace_ring *ring, unsigned place)
{
	struct uaio_trace_lane *lane = &ring->lanes[place];
	/*
	 * [MB:trace-head] acquire: load the head before the names. Pairs with the writing
	 * thread.
	 */
	uint64_t head = load_acquire(&lane->head), nr;
	uint64_t nr_names = load_relaxed(&lane->nr_names);

	if (nr_names == lane->nr_names_taken)
		return;
	lane->nr_names_taken = nr_names;
	for (uint64_t at = begin_of(lane, head); at != head; at += nr) {
		const struct uaio_trace_record record =
			*uaio_trace_at(ring, place, at);

		nr = extent_of(&record, head - at);
		keep_name(ring, place, at, &record, nr);
	}
}

static const char *name_of(const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;
	const char *name;

	if (record->fd < 0)
		return "";
	name = uaio_filename_of(traced->pid, record->file);
	return name ? name
		    : uaio_filename(traced->pid, record->fd, traced->ended_ns);
}

static uint64_t take(struct uaio_trace_ring *ring, unsigned place,
		     uint64_t head, uaio_traced_fn *each, void *arg)
{
	struct uaio_trace_lane *lane = &ring->lanes[place];
	uint64_t nr_taken = 0, nr;

	for (uint64_t at = begin_of(lane, head); at != head; at += nr) {
		const struct uaio_trace_record record =
			*uaio_trace_at(ring, place, at);
		struct uaio_traced traced = {
			.record = &record,
			.pid = load_relaxed(&lane->pid),
			.tid = record.tid ? record.tid
					  : load_relaxed(&lane->owner),
			.submitted_ns = date(record.submitted ? record.submitted
							      : record.ended),
			.started_ns = date(record.started),
			.ended_ns = date(record.ended),
		};

		nr = extent_of(&record, head - at);
		if (record.op == UAIO_TRACE_NAME)
			continue;
		traced.file = name_of(&traced);
		each(&traced, arg);
		nr_taken++;
	}
	/*
	 * [MB:trace-tail] release: the records were read. Pairs with uaio_trace_next().
	 */
	store_release(&lane->tail, head);
	return nr_taken;
}

/*
 * A file's name is written before the records that use the file, but may be in another
 * thread's lane. So first read the heads (write positions) of all lanes; then the
 * names, even beyond these heads; then the records up to these heads.
 */
uint64_t uaio_records_take(struct uaio_trace_ring *ring, uaio_traced_fn *each,
			   void *arg)
{
	bool was_gone[UAIO_TRACE_LANES];
	uint64_t heads[UAIO_TRACE_LANES], nr = 0;

	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++) {
		struct uaio_trace_lane *lane = &ring->lanes[i];
		uint32_t owner = load_relaxed(&lane->owner);
		uint32_t pid = load_relaxed(&lane->pid);

		/*
		 * If the thread has ended before this check, it writes no record after
		 * the head that is read below. So another thread may have the lane once
		 * the records up to this head are read.
		 */
		was_gone[i] = owner && pid && is_gone(pid, owner);
		/*
		 * [MB:trace-head] acquire: load the head before the records. Pairs
		 * with the writing thread.
		 */
		heads[i] = load_acquire(&lane->head);
	}
	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++)
		learn(ring, i);
	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++) {
		if (heads[i] != load_relaxed(&ring->lanes[i].tail))
			nr += take(ring, i, heads[i], each, arg);
		if (was_gone[i])
			release_lane(&ring->lanes[i]);
	}
	return nr;
}

uint64_t uaio_records_lost(struct uaio_trace_ring *ring)
{
	uint64_t nr = load_relaxed(&ring->nr_homeless);

	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++)
		nr += load_relaxed(&ring->lanes[i].nr_lost);
	return nr;
}

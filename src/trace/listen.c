/* SPDX-License-Identifier: MIT */
#include "trace/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/cycles.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "trace/trace.h"

enum {
	PATH_BYTES = 48,
	LOOK_EACH_US = 1000000,
	NR_WRITERS = UAIO_TRACE_OWN_LANES + UAIO_TRACE_SHARED_LANES,
};

static_assert((int)NR_WRITERS <= (int)UAIO_TRACE_LANES, "a lane for each");

struct tracer {
	struct uaio_trace_ring *ring; /* atomic; NULL: none */

	/* only the thread that has set is_looking uses these members */
	/* owned: a withdrawn ring, to be unmapped; or NULL */
	struct uaio_trace_ring *withdrawn;
	/*
	 * id of the process that holds the tool's ring open, and the ring's descriptor
	 * in that process
	 */
	uint32_t pid, fd;
	/*
	 * value of `number` of the asker (the tool's slot, ask.h) when the process last
	 * answered
	 */
	uint32_t number;
	uint64_t dev, ino;
};

struct uaio_listening uaio_listening;

static struct {
	/* id of this process; does not change while the library runs */
	uint32_t pid;

	/* atomic */
	uint32_t is_looking;
	/* when this process last checked the askers (slots of tools, ask.h), in cycles */
	uint64_t looked;
	/* how many records were dropped, as no shared lane (ask.h) was free */
	uint64_t nr_unwritten;

	struct tracer tracers[UAIO_TRACE_ASKERS];
} listening;

/*
 * For each lane (ring buffer of records, ring.h): whether a thread writes to the lane.
 * Each word has its own cache line, so that writers do not delay each other.
 */
static struct {
	alignas(64) uint32_t is_writing; /* atomic */
} writers[NR_WRITERS];

static void unmap(struct uaio_trace_ring *ring)
{
	if (ring)
		(void)sys_munmap(ring, sizeof(*ring));
}

void uaio_listen_init(void)
{
	uint32_t pid = (uint32_t)sys_getpid();

	/*
	 * In a child of fork() the rings are not mapped (I4), so do not unmap them.
	 */
	for (unsigned i = 0; pid == listening.pid && i < UAIO_TRACE_ASKERS;
	     i++) {
		unmap(listening.tracers[i].ring);
		unmap(listening.tracers[i].withdrawn);
	}
	memset(&uaio_listening, 0, sizeof(uaio_listening));
	memset(&listening, 0, sizeof(listening));
	memset(&writers, 0, sizeof(writers));
	listening.pid = pid;
}

void uaio_listen_to(struct uaio_trace_ask *ask)
{
	uaio_listening.ask = ask;
}

bool uaio_listen_is_asked(void)
{
	for (unsigned i = 0; uaio_listening.ask && i < UAIO_TRACE_ASKERS; i++)
		/*
		 * relaxed: if this load misses a tool that has just asked, the tool
		 * sets is_traced itself, and repeats this every few milliseconds
		 */
		if (load_relaxed(&uaio_listening.ask->askers[i].pid))
			return true;
	return false;
}

/*
 * Tools that ask for a trace are attached. Tools that have ended, or no longer ask, are
 * detached.
 */

static void path_of(char path[PATH_BYTES], uint32_t pid, uint32_t fd)
{
	(void)snprintf(path, PATH_BYTES, "/proc/%u/fd/%u", pid, fd);
}

/* Return: whether the tool has ended, or its descriptor is no longer the ring. */
static bool is_gone(const struct tracer *tracer)
{
	char path[PATH_BYTES];
	struct stat st;
	int ret;

	path_of(path, tracer->pid, tracer->fd);
	ret = sys_fstatat(AT_FDCWD, path, &st);
	if (ret < 0)
		/* After any other error of fstatat() the tool may still run. */
		return ret == -ENOENT || ret == -ESRCH;
	return st.st_dev != tracer->dev || st.st_ino != tracer->ino;
}

/*
 * Map the tool's ring.
 * Return: 0; or a negative errno: why the ring cannot be used.
 */
static int attach(struct tracer *tracer, uint32_t pid, uint32_t fd)
{
	struct uaio_trace_ring *ring;
	char path[PATH_BYTES];
	struct stat st;
	int own, ret;

	path_of(path, pid, fd);
	own = uaio_ownfd_open_briefly(path, O_RDWR | O_NONBLOCK | O_NOCTTY);
	if (own < 0)
		return own;
	ret = sys_fstat(own, &st);
	if (ret == 0)
		ret = uaio_trace_map(own, &ring);
	uaio_ownfd_close(own);
	if (ret < 0)
		return ret;
	(void)sys_madvise(ring, sizeof(*ring), MADV_DONTFORK);
	tracer->pid = pid;
	tracer->fd = fd;
	tracer->dev = st.st_dev;
	tracer->ino = st.st_ino;
	/*
	 * [MB:trace-writer] seq_cst: the ring is mapped before writers find it. Pairs
	 * with uaio_listen_write().
	 */
	store_seq_cst(&tracer->ring, ring);
	uaio_trace_name_again();
	return 0;
}

static void withdraw(struct tracer *tracer)
{
	tracer->withdrawn = tracer->ring;
	/*
	 * [MB:trace-writer] seq_cst: later writers do not find the ring. Pairs with
	 * uaio_listen_write().
	 */
	store_seq_cst(&tracer->ring, NULL);
}

/*
 * Unmap a withdrawn ring, unless a thread is just writing to rings.
 * Return: false if a withdrawn ring still has to be unmapped.
 */
static bool forget(struct tracer *tracer)
{
	if (!tracer->withdrawn)
		return true;
	for (unsigned i = 0; i < NR_WRITERS; i++)
		/*
		 * [MB:trace-writer] seq_cst: a thread that begins to write after this
		 * load finds that the ring is withdrawn. Pairs with
		 * uaio_listen_write().
		 */
		if (load_seq_cst(&writers[i].is_writing))
			return false;
	unmap(tracer->withdrawn);
	tracer->withdrawn = NULL;
	return true;
}

/*
 * Process the changes that a tool has made to its asker (its slot in the page).
 * Return: whether the process need not check the asker until the tool changes it again.
 */
static bool look_at(struct tracer *tracer, struct uaio_trace_asker *asker)
{
	/*
	 * [MB:trace-ask] acquire: pid and fd are visible. Pairs with the tool's ask().
	 */
	uint32_t number = load_acquire(&asker->number);
	uint32_t pid = load_relaxed(&asker->pid);

	if (tracer->ring && (pid != tracer->pid || number != tracer->number))
		withdraw(tracer);
	if (tracer->ring && is_gone(tracer)) {
		withdraw(tracer);
		store_relaxed(&asker->error, -ESRCH);
	}
	if (!forget(tracer))
		return false;
	if (!pid || number == tracer->number)
		return true;
	tracer->number = number;
	store_relaxed(&asker->error,
		      attach(tracer, pid, load_relaxed(&asker->fd)));
	/*
	 * [MB:trace-ask] release: publishes the error. Pairs with the tool's ask().
	 */
	store_release(&asker->answered, number);
	return true;
}

/*
 * Check all askers: the slots in which tools ask for a trace (ask.h).
 * Return: as for uaio_listen().
 */
static __attribute__((noinline)) bool look(uint64_t now)
{
	uint32_t nr_seen, nr = 0;

	/*
	 * [MB:trace-look] acquire: sees the changes of the thread that last had
	 * is_looking set. Pairs with the release below.
	 */
	if (xchg_acquire(&listening.is_looking, 1))
		return true;
	/*
	 * [MB:trace-ask] acquire: changes of askers (ask.h) are visible. Pairs with the
	 * tool's ask().
	 */
	nr_seen = load_acquire(&uaio_listening.ask->nr_changes);
	for (unsigned i = 0; i < UAIO_TRACE_ASKERS; i++) {
		struct tracer *tracer = &listening.tracers[i];

		if (!look_at(tracer, &uaio_listening.ask->askers[i]))
			nr++;
		else if (tracer->ring)
			nr++;
	}
	/*
	 * all relaxed: a thread that does not see these stores either checks the askers
	 * again, or does not write its current record
	 */
	store_relaxed(&uaio_listening.nr_rings, nr);
	store_relaxed(&listening.looked, now);
	store_relaxed(&uaio_listening.nr_seen, nr_seen);
	/*
	 * [MB:trace-look] release: publishes the tracers. Pairs with the acquire above.
	 */
	store_release(&listening.is_looking, 0);
	return nr;
}

bool uaio_listen_look(uint64_t now)
{
	uint64_t rate = uaio_cycles_per_us();

	/*
	 * all relaxed: if this call misses a change, the next call of this function
	 * finds it
	 */
	if (load_relaxed(&uaio_listening.ask->nr_changes) !=
		    load_relaxed(&uaio_listening.nr_seen) ||
	    now - load_relaxed(&listening.looked) > rate * LOOK_EACH_US)
		return look(now);
	return load_relaxed(&uaio_listening.nr_rings);
}

/* writing records to the rings */

/*
 * Announce that this thread writes to rings.
 * Return: the index of the thread's lane (ring.h); NR_WRITERS if all shared lanes are
 * in use.
 */
static unsigned begin(unsigned writer)
{
	uint32_t tid;

	if (likely(writer < UAIO_TRACE_OWN_LANES)) {
		/*
		 * [MB:trace-writer] seq_cst: announces this thread before it looks for
		 * rings. Pairs with forget().
		 */
		store_seq_cst(&writers[writer].is_writing, 1);
		return writer;
	}
	tid = (uint32_t)sys_gettid();
	for (unsigned i = 0; i < UAIO_TRACE_SHARED_LANES; i++) {
		unsigned place = UAIO_TRACE_OWN_LANES +
				 (tid + i) % UAIO_TRACE_SHARED_LANES;
		uint32_t nobody = 0;

		/*
		 * [MB:trace-writer] seq_cst: this thread sees what the lane's last user
		 * wrote (pairs with end()), and is announced before it looks for rings
		 * (pairs with forget()).
		 */
		if (cas_seq_cst(&writers[place].is_writing, &nobody, 1))
			return place;
	}
	return NR_WRITERS;
}

static void end(unsigned place)
{
	/*
	 * [MB:trace-writer] release: publishes the record that this thread has written.
	 * Pairs with forget(); for a shared lane also with begin().
	 */
	store_release(&writers[place].is_writing, 0);
}

static void write_to(struct uaio_trace_ring *ring, unsigned place,
		     const struct uaio_trace_record *record)
{
	struct uaio_trace_lane *lane = &ring->lanes[place];
	uint64_t head = load_relaxed(&lane->head);

	if (load_relaxed(&lane->pid) != listening.pid)
		store_relaxed(&lane->pid, listening.pid);
	/*
	 * [MB:trace-tail] acquire: the tracer has read the old record. Pairs with the
	 * tracer's take().
	 */
	if (unlikely(head - load_acquire(&lane->tail) >= UAIO_TRACE_RECORDS)) {
		store_relaxed(&lane->nr_lost, load_relaxed(&lane->nr_lost) + 1);
		return;
	}
	*uaio_trace_at(ring, place, head) = *record;
	/*
	 * [MB:trace-head] release: publishes the record. Pairs with the tracer's
	 * take().
	 */
	store_release(&lane->head, head + 1);
}

void uaio_listen_write(struct uaio_trace_record *record, unsigned writer)
{
	unsigned place = begin(writer);
	uint64_t nr_unwritten = 0;

	if (unlikely(place == NR_WRITERS)) {
		add_relaxed(&listening.nr_unwritten, 1);
		return;
	}
	if (unlikely(load_relaxed(&listening.nr_unwritten)))
		nr_unwritten = and_relaxed(&listening.nr_unwritten, 0);
	for (unsigned i = 0; i < UAIO_TRACE_ASKERS; i++) {
		struct uaio_trace_ring *ring;

		/*
		 * [MB:trace-writer] seq_cst: this thread looks for the ring after it
		 * has set is_writing. Pairs with withdraw().
		 */
		ring = load_seq_cst(&listening.tracers[i].ring);
		if (!ring)
			continue;
		if (unlikely(nr_unwritten))
			add_relaxed(&ring->nr_homeless, nr_unwritten);
		write_to(ring, place, record);
	}
	end(place);
}

bool uaio_listen_write_name(const struct uaio_trace_name *name, unsigned writer)
{
	unsigned place = begin(writer);
	bool is_told = place != NR_WRITERS;

	for (unsigned i = 0; is_told && i < UAIO_TRACE_ASKERS; i++) {
		/*
		 * [MB:trace-writer] seq_cst: this thread looks for the ring after it
		 * has set is_writing. Pairs with withdraw().
		 */
		struct uaio_trace_ring *ring =
			load_seq_cst(&listening.tracers[i].ring);

		if (ring)
			is_told = uaio_trace_put_name_in(ring, place, name);
	}
	if (place != NR_WRITERS)
		end(place);
	return is_told;
}

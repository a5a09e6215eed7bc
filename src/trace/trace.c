/* SPDX-License-Identifier: MIT */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "proc/entry.h"
#include "trace/listen.h"

uint32_t uaio_trace_on;

/* All members are immutable while tracing is on. */
static struct {
	struct uaio_trace_ring *ring;
	/* id of the process in which the library started */
	uint32_t pid;
} trace;

static uint64_t pid_namespace(void)
{
	struct stat st;

	return sys_fstatat(AT_FDCWD, "/proc/self/ns/pid", &st) == 0 ? st.st_ino
								    : 0;
}

/* Return: whether fd is a file of a ring, and sealed against shrinking. */
static bool is_ring(int fd)
{
	struct stat st;

	return sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == (off_t)sizeof(struct uaio_trace_ring) &&
	       sys_fcntl(fd, F_GET_SEALS, 0) > 0 &&
	       (sys_fcntl(fd, F_GET_SEALS, 0) & F_SEAL_SHRINK);
}

int uaio_trace_map(int fd, struct uaio_trace_ring **ret_ring)
{
	struct uaio_trace_ring *ring;
	void *memory;

	if (!is_ring(fd))
		return -ENOENT;
	memory = sys_mmap_file(sizeof(*ring), PROT_READ | PROT_WRITE,
			       MAP_SHARED, fd, 0);
	if (sys_is_map_error(memory))
		return -ENOMEM;
	ring = memory;
	if (memcmp(ring->magic, UAIO_TRACE_MAGIC, sizeof(ring->magic)) != 0 ||
	    ring->version != UAIO_TRACE_VERSION) {
		(void)sys_munmap(memory, sizeof(*ring));
		return -ENOENT;
	}
	if (ring->pid_namespace != pid_namespace()) {
		(void)sys_munmap(memory, sizeof(*ring));
		return -EXDEV;
	}
	*ret_ring = ring;
	return 0;
}

int uaio_trace_load(void)
{
	const char *path = secure_getenv(UAIO_TRACE_VARIABLE);
	struct uaio_trace_ring *ring;
	int fd, ret;

	if (!path)
		return -ENOENT;
	/*
	 * O_NONBLOCK: if the tracer is gone, the path may lead to any file, and opening
	 * it must not block.
	 */
	fd = sys_openat(AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	ret = uaio_trace_map(fd, &ring);
	(void)sys_close(fd);
	if (ret < 0)
		return ret;
	trace.ring = ring;
	trace.pid = (uint32_t)sys_getpid();
	store_relaxed(&uaio_trace_on, 1);
	return 0;
}

void uaio_trace_init(void)
{
	trace.pid = (uint32_t)sys_getpid();
	uaio_listen_init();
}

/* Return: the lane (ring.h) that this thread has claimed since its last exec; or NULL. */
static struct uaio_trace_lane *lane_of_thread(void)
{
	return uaio_entry.lane ? &trace.ring->lanes[uaio_entry.lane - 1] : NULL;
}

static unsigned place_of(const struct uaio_trace_lane *lane)
{
	return (unsigned)(lane - trace.ring->lanes);
}

/* Return: the lane (ring.h) that this thread claimed before its last exec; or NULL. */
static struct uaio_trace_lane *find_own(uint32_t me)
{
	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++) {
		struct uaio_trace_lane *lane = &trace.ring->lanes[i];

		/*
		 * both relaxed: if a lane has this thread's id and process, this thread
		 * itself has written the two values
		 */
		if (load_relaxed(&lane->owner) == me &&
		    load_relaxed(&lane->pid) == trace.pid)
			return lane;
	}
	return NULL;
}

static __attribute__((noinline)) struct uaio_trace_lane *take_lane(void)
{
	uint32_t me = (uint32_t)sys_gettid(), nobody;
	struct uaio_trace_lane *lane = find_own(me);

	for (unsigned i = 0; i < UAIO_TRACE_LANES && !lane; i++) {
		nobody = 0;
		/*
		 * [MB:trace-lane] acquire: the tracer has read the records of the
		 * lane's former owner. Pairs with the tracer's release_lane().
		 */
		if (!load_relaxed(&trace.ring->lanes[i].owner) &&
		    cas_acquire(&trace.ring->lanes[i].owner, &nobody, me))
			lane = &trace.ring->lanes[i];
	}
	uaio_entry.lane = lane ? (uint16_t)(place_of(lane) + 1) : 0;
	if (lane)
		store_relaxed(&lane->pid, trace.pid);
	return lane;
}

/*
 * Return: the thread's lane (ring.h). If the tracer has freed this lane, wrongly
 * believing that the thread is gone, claim a new lane.
 */
static struct uaio_trace_lane *my_lane(void)
{
	struct uaio_trace_lane *lane = lane_of_thread();

	/*
	 * relaxed: lane->pid is written only by this thread, or by a tracer that
	 * believes that this thread is gone
	 */
	if (likely(lane && load_relaxed(&lane->pid) == trace.pid))
		return lane;
	return take_lane();
}

struct uaio_trace_record *uaio_trace_next(void)
{
	struct uaio_trace_lane *lane = my_lane();
	uint64_t head;

	if (unlikely(!lane)) {
		add_relaxed(&trace.ring->nr_homeless, 1);
		return NULL;
	}
	head = load_relaxed(&lane->head);
	/*
	 * [MB:trace-tail] acquire: the tracer has read the record that was in the slot
	 * before. Pairs with the tracer's take().
	 */
	if (unlikely(head - load_acquire(&lane->tail) >= UAIO_TRACE_RECORDS)) {
		store_relaxed(&lane->nr_lost, load_relaxed(&lane->nr_lost) + 1);
		return NULL;
	}
	return uaio_trace_at(trace.ring, uaio_entry.lane - 1u, head);
}

void uaio_trace_put(void)
{
	struct uaio_trace_lane *lane = lane_of_thread();

	/*
	 * [MB:trace-head] release: publishes the record. Pairs with the tracer's
	 * take().
	 */
	store_release(&lane->head, load_relaxed(&lane->head) + 1);
}

bool uaio_trace_put_name(const struct uaio_trace_name *name)
{
	struct uaio_trace_lane *lane = my_lane();

	return lane && uaio_trace_put_name_in(trace.ring, place_of(lane), name);
}

#ifdef UAIO_TESTING
void uaio_trace_to(struct uaio_trace_ring *ring)
{
	store_relaxed(&uaio_trace_on, 0);
	uaio_entry.lane = 0;
	trace.ring = ring;
	trace.pid = (uint32_t)sys_getpid();
	store_relaxed(&uaio_trace_on, ring != NULL);
}
#endif

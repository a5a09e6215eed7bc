/* SPDX-License-Identifier: MIT */
/* Opens and resizes rings, and runs the threads that submit to them. */
#include "rings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
	ROUNDS = 500,
	ENTRIES_MIN = 16, /* fewest entries that a resized ring gets */
	NS_PER_US = 1000,
};

pthread_barrier_t barrier;

/*
 * Rings
 */

static void register_all(struct ring *ring, struct thread *thread)
{
	const struct iovec iov = { ring->slots, sizeof(ring->slots) };
	const struct io_uring_buf_reg array = {
		.ring_addr = (uintptr_t)ring->array,
		.ring_entries = NR_BUFFERS,
		.bgid = GROUP,
	};
	int fds[NR_REGISTERED];

	for (unsigned i = 0; i < NR_STABLE; i++)
		fds[i] = world.files[i];
	for (unsigned i = 0; i < NR_PAIRS; i++)
		fds[PAIR_INDEX + i] = world.files[pair_files[i][0]];
	for (unsigned i = 0; i < NR_THREADS_MAX; i++) {
		fds[OWN_INDEX + i] = world.files[0];
		if (!thread)
			world.threads[i].own_registered[ring->index] = 0;
	}
	if (thread)
		thread->own_registered[ring->index] = 0;
	require(uring_register(ring->uring.fd, IORING_REGISTER_FILES, fds,
			       NR_REGISTERED) == 0,
		"IORING_REGISTER_FILES");
	require(uring_register(ring->uring.fd, IORING_REGISTER_BUFFERS, &iov,
			       1) == 0,
		"IORING_REGISTER_BUFFERS");
	require(uring_register(ring->uring.fd, IORING_REGISTER_PBUF_RING,
			       &array, 1) == 0,
		"IORING_REGISTER_PBUF_RING");
	lock(&ring->cq_lock);
	give_buffers(ring);
	unlock(&ring->cq_lock);
}

void open_ring(struct ring *ring, struct thread *thread, uint32_t flags,
	       uint32_t entries, uint32_t cq_entries)
{
	const struct io_uring_params params = {
		.flags = flags | IORING_SETUP_CQSIZE,
		.cq_entries = cq_entries,
		.sq_thread_idle = 1,
	};
	long ret;

	open_slots(ring);
	ret = uring_open(&ring->uring, entries, &params);
	if (ret < 0)
		failed("io_uring_setup() with the flags %#x: %s", params.flags,
		       strerror((int)-ret));
	ring->fd = ring->uring.fd;
	ring->has_thread = thread;
	register_all(ring, thread);
	ring->is_open = true;
}

/*
 * Resize the thread's own ring. This is safe because only this thread submits to the
 * ring and consumes its completions.
 */
static void resize(struct thread *thread, struct ring *ring)
{
	const uint32_t entries = ENTRIES_MIN << any(thread, 3);
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE,
		.sq_entries = entries,
		.cq_entries = entries << any(thread, 4),
	};
	const struct uring old = ring->uring;
	long ret = uring_register(old.fd, IORING_REGISTER_RESIZE_RINGS, &params,
				  1);

	/*
	 * The unread completions may not fit into the new ring. Then the old ring
	 * remains.
	 */
	if (ret == -EOVERFLOW || ret == -EINVAL)
		return;
	if (ret < 0)
		failed("IORING_REGISTER_RESIZE_RINGS: %s", strerror((int)-ret));
	__atomic_add_fetch(&record->nr_resized, 1, __ATOMIC_RELAXED);
	uring_unmap(&old);
	params.features = old.params.features;
	params.flags |= old.params.flags;
	require(uring_map(&ring->uring, old.fd, &params) == 0,
		"the map of a ring that was resized");
}

struct ring *any_plain_ring(struct thread *thread)
{
	struct ring *ring = &rings[any(thread, NR_SHARED)];

	return is_polled(ring) ? &rings[0] : ring;
}

/*
 * Batches
 */

void begin_batch(struct batch *batch, struct thread *thread, struct ring *ring,
		 bool is_nops, unsigned nr)
{
	unsigned room;

	*batch = (struct batch){
		.thread = thread,
		.ring = ring,
		.before = load(ring->uring.sq_head),
	};
	room = ring->uring.params.sq_entries -
	       (ring->uring.prepared - batch->before);
	if (nr + 1 > room)
		nr = room ? room - 1 : 0;
	if (is_nops)
		draw_nops(batch, nr);
	else
		draw_requests(batch, nr);
	(void)uring_publish(&ring->uring);
}

unsigned settle(struct batch *batch)
{
	struct uring *uring = &batch->ring->uring;
	const uint32_t nr = load(uring->sq_head) - batch->before;

	if (is_polled(batch->ring))
		return batch->nr;
	if (nr > batch->nr)
		failed("ring %u has accepted %u of %u submissions",
		       batch->ring->index, nr, batch->nr);
	for (unsigned i = nr; i < batch->nr; i++)
		take_back(batch->ring, batch->slots[i]);
	uring->prepared = batch->before + nr;
	(void)uring_publish(uring);
	return nr;
}

/*
 * Call io_uring_enter() with the ring's descriptor, or with its registered index.
 */
static long enter(const struct thread *thread, const struct ring *ring,
		  uint32_t nr, uint32_t min, uint32_t flags,
		  const struct io_uring_getevents_arg *arg)
{
	const int registered = thread->registered[ring->index];
	int fd = ring->uring.fd;

	if (registered >= 0) {
		fd = registered;
		flags |= IORING_ENTER_REGISTERED_RING;
	}
	if (arg)
		flags |= IORING_ENTER_EXT_ARG;
	return uring_enter(fd, nr, min, flags, arg, arg ? sizeof(*arg) : 0);
}

static void check_enter(long ret)
{
	if (ret < 0 && ret != -EINTR && ret != -EAGAIN && ret != -EBUSY &&
	    ret != -ETIME)
		failed("io_uring_enter(): %s", strerror((int)-ret));
}

static void submit_polled(struct thread *thread, struct ring *ring)
{
	/*
	 * The kernel thread of the ring sets NEED_WAKEUP before it reads the tail. So
	 * this thread must publish its new tail before it reads NEED_WAKEUP.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (load(ring->uring.sq_flags) & IORING_SQ_NEED_WAKEUP)
		check_enter(enter(thread, ring, ring->uring.params.sq_entries,
				  0, IORING_ENTER_SQ_WAKEUP, NULL));
}

/* Put other files at the thread's own descriptors that the batch has used. */
static void replace_own(struct batch *batch)
{
	struct thread *thread = batch->thread;
	const uint8_t file = (uint8_t)any(thread, NR_STABLE);
	const int own = OWN_FD + (int)thread->index;
	int fd = world.files[file];

	if (batch->uses_own && one_in(batch, 2)) {
		if (one_in(batch, 3))
			require(close(own) == 0,
				"close() of an own descriptor");
		require((one_in(batch, 2) ? dup2(fd, own)
					  : dup3(fd, own, O_CLOEXEC)) == own,
			"dup2() onto an own descriptor");
		thread->own_file = file;
	}
	if (batch->uses_own_registered && one_in(batch, 2)) {
		const struct io_uring_rsrc_update update = {
			.offset = OWN_INDEX + thread->index,
			.data = (uintptr_t)&fd,
		};

		require(uring_register(batch->ring->uring.fd,
				       IORING_REGISTER_FILES_UPDATE, &update,
				       1) == 1,
			"IORING_REGISTER_FILES_UPDATE");
		thread->own_registered[batch->ring->index] = file;
	}
}

static void enter_batch(struct batch *batch)
{
	struct ring *ring = batch->ring;
	/*
	 * Only this thread consumes the ring's completions, so it can wait for one
	 * without a timeout.
	 */
	const bool waits = ring->has_thread && batch->is_sure;
	uint32_t flags = one_in(batch, 2) ? 0 : IORING_ENTER_GETEVENTS;
	unsigned nr;
	long ret;

	if (ring->has_thread)
		flags = IORING_ENTER_GETEVENTS;
	if (is_polled(ring)) {
		submit_polled(batch->thread, ring);
		return;
	}
	ret = enter(batch->thread, ring, batch->nr, waits, flags, NULL);
	check_enter(ret);
	nr = settle(batch);
	if (nr != (ret < 0 ? 0 : (unsigned long)ret))
		failed("io_uring_enter() is %ld where ring %u has accepted %u",
		       ret, ring->index, nr);
}

static void submit(struct thread *thread, struct ring *ring)
{
	struct batch batch;

	lock(&ring->sq_lock);
	begin_batch(&batch, thread, ring, false,
		    1 + any(thread, BATCH_MAX - 1));
	enter_batch(&batch);
	replace_own(&batch);
	unlock(&ring->sq_lock);
}

/*
 * If completions have overflowed, make a system call, which moves them into the ring.
 */
static void flush(const struct thread *thread, const struct ring *ring)
{
	if (load(ring->uring.sq_flags) &
	    (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN))
		check_enter(enter(thread, ring, 0, 0, IORING_ENTER_GETEVENTS,
				  NULL));
}

/*
 * Wait only for a short time: other threads may consume the completions of a shared
 * ring.
 */
static void wait_for_some(struct thread *thread, const struct ring *ring)
{
	struct __kernel_timespec time = {
		.tv_nsec = (10 + any(thread, 200)) * NS_PER_US,
	};
	const struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&time };

	check_enter(enter(thread, ring, 0, 1 + any(thread, 4),
			  IORING_ENTER_GETEVENTS, &arg));
}

static void cancel_all(const struct ring *ring)
{
	struct io_uring_sync_cancel_reg what = {
		.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL,
		.timeout = { 0, 100 * NS_PER_US },
	};
	long ret = uring_register(ring->uring.fd, IORING_REGISTER_SYNC_CANCEL,
				  &what, 1);

	if (ret < 0 && ret != -ENOENT && ret != -EALREADY && ret != -ETIME &&
	    ret != -EINTR)
		failed("IORING_REGISTER_SYNC_CANCEL: %s", strerror((int)-ret));
}

static void live(struct thread *thread)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		const bool is_own = any(thread, 3) == 0;
		struct ring *ring =
			is_own ? thread->own : &rings[any(thread, NR_SHARED)];

		submit(thread, ring);
		if (!is_own && any(thread, 16) == 0)
			wait_for_some(thread, ring);
		if (any(thread, 4)) {
			flush(thread, ring);
			reap(ring);
		}
		if (is_own && any(thread, 16) == 0)
			resize(thread, ring);
		if (load(&ring->nr_pending) > NR_SLOTS * 3 / 4)
			cancel_all(ring);
	}
}

static void open_own(struct thread *thread)
{
	struct ring *own = &rings[NR_SHARED + thread->index];
	const int fd = OWN_FD + (int)thread->index;

	open_ring(own, thread,
		  IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			  IORING_SETUP_NO_SQARRAY | IORING_SETUP_SUBMIT_ALL,
		  ENTRIES_MIN, ENTRIES_MIN << any(thread, 3));
	thread->own = own;
	require(dup2(world.files[0], fd) == fd, "an own descriptor");
	thread->own_file = 0;
	for (unsigned i = 0; i < NR_RINGS; i++) {
		struct io_uring_rsrc_update update = { .offset = UINT32_MAX };

		thread->registered[i] = -1;
		if (i >= NR_SHARED || any(thread, 3))
			continue;
		update.data = (uint64_t)rings[i].uring.fd;
		require(uring_register(rings[i].uring.fd,
				       IORING_REGISTER_RING_FDS, &update,
				       1) == 1,
			"IORING_REGISTER_RING_FDS");
		thread->registered[i] = (int)update.offset;
	}
}

/*
 * Connect to the listener, so that an accept that blocks a worker of the library
 * completes. An accept blocks if another request took its connection first. A
 * connection ends such an accept, and a cancellation does not (doc/differences.md).
 */
static void end_accept(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	require(fd >= 0, "socket()");
	/* connect() may fail because the backlog is full; then no accept blocks. */
	(void)connect(fd, (void *)&world.address, world.address_bytes);
	require(close(fd) == 0, "close() of a socket");
}

/* Reap until the requests of all rings are complete. */
static void finish(struct thread *thread)
{
	for (unsigned i = 0; nr_pending_of_all(); i++) {
		if (i % 1024 == 1023)
			end_accept();
		for (unsigned k = 0; k <= NR_SHARED; k++) {
			struct ring *ring =
				k == NR_SHARED ? thread->own : &rings[k];

			if (i % 8 == 0)
				cancel_all(ring);
			if (is_polled(ring))
				submit_polled(thread, ring);
			check_enter(enter(thread, ring, 0, 0,
					  IORING_ENTER_GETEVENTS, NULL));
			reap(ring);
		}
		if (i > 16)
			pause_us(200);
	}
}

void *submit_and_finish(void *arg)
{
	struct thread *thread = arg;

	open_own(thread);
	pthread_barrier_wait(&barrier);
	/* Wait until all rings exist. */
	pthread_barrier_wait(&barrier);
	live(thread);
	pthread_barrier_wait(&barrier);
	/* Wait until all disturbing threads have stopped. */
	pthread_barrier_wait(&barrier);
	finish(thread);
	pthread_barrier_wait(&barrier);
	check_enter(
		enter(thread, thread->own, 0, 0, IORING_ENTER_GETEVENTS, NULL));
	require(uring_ready(&thread->own->uring) == 0,
		"a ring has completions after the last");
	require(close(OWN_FD + (int)thread->index) == 0,
		"close() of an own descriptor");
	return NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * For tests of native requests (executed by the kernel itself). A hook simulates kernel
 * AIO: it accepts or refuses requests, and completes them when the test says so.
 */
#ifndef UAIO_NATIVE_TEST_KERNEL_H
#define UAIO_NATIVE_TEST_KERNEL_H

#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "proc/entry.h"
#include "native/krings.h"
#include "native/native.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_BLOCKS = 16,
	SIZE = UNIT_KEY_BYTES,
	NR_EVENTS = 512,
	NR_RINGS = 72,
	EAGAIN_RESULT = -EAGAIN,
};

/* The simulated kernel */
static struct {
	pthread_mutex_t lock;
	union ring {
		/* magic is 0 if this ring is not in use */
		struct uaio_kaio_ring ring;
		char bytes[sizeof(struct uaio_kaio_ring) +
			   NR_EVENTS * sizeof(struct io_event)];
	} rings[NR_RINGS];
	struct taken {
		struct iocb iocb;
		struct uaio_kaio_ring *ring;
		/* requests accepted, and not complete */
	} taken[128];
	unsigned nr_taken; /* atomic */

	/* error of io_setup, or 0 */
	int setup_error;
	/* descriptor that epoll_ctl() refuses to add (ENOSPC), or 0 */
	int unwatchable;
	/* error of io_submit, or 0 */
	int submit_error;
	/* how many more requests io_submit accepts before it returns submit_error */
	unsigned nr_more;
	/* requests with RWF_NOWAIT end with EAGAIN */
	bool gives_back;
	/* writes with RWF_NOWAIT end with EAGAIN */
	bool gives_writes_back;
	/*
	 * requests with RWF_NOWAIT that are larger than this end with EAGAIN; 0: no
	 * request does
	 */
	uint64_t whole_max;
	/* do not signal the eventfd, as if it were closed */
	bool tells_nobody;
	/*
	 * atomic: stop an io_submit call without RWF_NOWAIT; with is_held, before it
	 * submits the requests; with is_held_after, when it has submitted them
	 */
	uint32_t is_held, is_held_after;
	/* atomic: io_submit calls without RWF_NOWAIT */
	uint32_t nr_waits;
	/* client threads, like workers, may call io_submit without RWF_NOWAIT */
	bool clients_wait;
	/* atomic: type that fstatfs() reports; 0: ext4 */
	uint32_t fs_type;
	/* how long io_submit without RWF_NOWAIT sleeps in a client thread */
	uint32_t slow_us;
	/*
	 * atomic: how many of the calls counted in nr_waits were made by client threads
	 */
	uint32_t nr_waits_of_clients;
	/* error of io_submit without RWF_NOWAIT, or 0 */
	int waits_error;
	unsigned nr_setups, nr_submits, nr_destroys;
	/* atomic: statx() calls on the file, for its size */
	unsigned nr_sizes;
	/* atomic: fstat() calls on the file, for its times */
	unsigned nr_times;
	/* atomic: eventfd reads that failed with EAGAIN */
	unsigned nr_vain;
} kernel;

static struct {
	/*
	 * two descriptors of one file. The library sees `direct` as opened with
	 * O_DIRECT.
	 */
	int fd, direct;
	uint64_t handle;
	struct iocb iocbs[32];
	char buffers[32][SIZE];
	unsigned nr;
} test;

static inline void complete_locked(const struct taken *taken, int64_t res)
{
	uint32_t tail = taken->ring->tail;
	uint64_t one = 1;

	taken->ring->events[tail] = (struct io_event){
		.data = taken->iocb.aio_data,
		.obj = (uintptr_t)taken,
		.res = res,
	};
	store_release(&taken->ring->tail, (tail + 1) % NR_EVENTS);
	if (!kernel.tells_nobody)
		assert_int_equal(
			write((int)taken->iocb.aio_resfd, &one, sizeof(one)),
			sizeof(one));
}

static inline long setup(uint64_t *ret_ctx)
{
	union ring *ring = kernel.rings;

	kernel.nr_setups++;
	if (kernel.setup_error)
		return kernel.setup_error;
	while (ring->ring.magic)
		assert_true(++ring < kernel.rings + NR_RINGS);
	memset(ring->bytes, 0, sizeof(ring->bytes));
	ring->ring.nr = NR_EVENTS;
	ring->ring.magic = 0xa10a10a1;
	ring->ring.compat = 1;
	ring->ring.header_bytes = sizeof(ring->ring);
	*ret_ctx = (uintptr_t)&ring->ring;
	return 0;
}

static inline bool gives_back(const struct iocb *iocb)
{
	return kernel.gives_back ||
	       (kernel.gives_writes_back &&
		iocb->aio_lio_opcode == IOCB_CMD_PWRITE) ||
	       (kernel.whole_max && iocb->aio_nbytes > kernel.whole_max);
}

static inline void take(struct uaio_kaio_ring *ring, const struct iocb *iocb)
{
	const struct taken taken = { *iocb, ring };

	assert_true(iocb->aio_flags & IOCB_FLAG_RESFD);
	assert_true(fcntl((int)iocb->aio_fildes, F_GETFD) >= 0);
	if ((iocb->aio_rw_flags & RWF_NOWAIT) && gives_back(iocb)) {
		complete_locked(&taken, EAGAIN_RESULT);
		return;
	}
	kernel.taken[kernel.nr_taken] = taken;
	/* release: the test reads nr_taken without the lock */
	store_release(&kernel.nr_taken, kernel.nr_taken + 1);
}

static inline long submit_some(struct uaio_kaio_ring *ring, long nr,
			       struct iocb **list)
{
	kernel.nr_submits++;
	for (long i = 0; i < nr; i++) {
		if (kernel.submit_error && !kernel.nr_more)
			return i ? i : kernel.submit_error;
		kernel.nr_more -= kernel.nr_more > 0;
		take(ring, list[i]);
	}
	return nr;
}

static inline long destroy_ring(struct uaio_kaio_ring *ring)
{
	kernel.nr_destroys++;
	ring->magic = 0;
	return 0;
}

static inline bool may_wait(const struct iocb *iocb)
{
	return !(iocb->aio_rw_flags & RWF_NOWAIT);
}

static inline bool is_let_go(void *is_held)
{
	return !load_acquire((uint32_t *)is_held);
}

static inline void let_go(uint32_t *is_held)
{
	store_release(is_held, 0);
}

/*
 * Simulate io_submit without RWF_NOWAIT. Only workers may call it without that flag,
 * unless clients_wait is set.
 */
static inline long wait_and_submit(struct uaio_kaio_ring *ring, long nr,
				   struct iocb **list)
{
	long ret;

	assert_true(uaio_is_own_thread() || kernel.clients_wait);
	add_relaxed(&kernel.nr_waits, 1);
	if (!uaio_is_own_thread()) {
		add_relaxed(&kernel.nr_waits_of_clients, 1);
		if (kernel.slow_us)
			unit_take_time(kernel.slow_us, true);
	}
	unit_await(is_let_go, &kernel.is_held);
	if (kernel.waits_error)
		return kernel.waits_error;
	pthread_mutex_lock(&kernel.lock);
	ret = submit_some(ring, nr, list);
	pthread_mutex_unlock(&kernel.lock);
	unit_await(is_let_go, &kernel.is_held_after);
	return ret;
}

static inline bool play(long nr, const long args[6], long *ret_res)
{
	if (nr == SYS_fcntl && args[1] == F_GETFL && args[0] == test.direct) {
		*ret_res = O_RDWR | O_DIRECT;
		return true;
	}
	if (nr == SYS_statx && args[0] == test.direct)
		add_relaxed(&kernel.nr_sizes, 1);
	if (nr == SYS_read && args[2] == sizeof(uint64_t)) {
		*ret_res = syscall(SYS_read, args[0], args[1], args[2]);
		if (*ret_res < 0)
			*ret_res = -errno;
		if (*ret_res == -EAGAIN)
			add_relaxed(&kernel.nr_vain, 1);
		return true;
	}
	if (nr == SYS_fstat && args[0] == test.direct)
		add_relaxed(&kernel.nr_times, 1);
	if (nr == SYS_epoll_ctl && kernel.unwatchable &&
	    args[2] == kernel.unwatchable) {
		*ret_res = -ENOSPC;
		return true;
	}
	if (nr == SYS_fstatfs) {
		*ret_res = unit_say_ext4(args);
		if (load_relaxed(&kernel.fs_type))
			((struct statfs *)args[1])->f_type =
				load_relaxed(&kernel.fs_type);
		return true;
	}
	if (nr != SYS_io_setup && nr != SYS_io_submit && nr != SYS_io_destroy)
		return false;
	if (nr == SYS_io_submit && may_wait(*(struct iocb **)args[2])) {
		*ret_res = wait_and_submit((struct uaio_kaio_ring *)args[0],
					   args[1], (struct iocb **)args[2]);
		return true;
	}
	pthread_mutex_lock(&kernel.lock);
	if (nr == SYS_io_setup)
		*ret_res = setup((uint64_t *)args[1]);
	else if (nr == SYS_io_submit)
		*ret_res = submit_some((struct uaio_kaio_ring *)args[0],
				       args[1], (struct iocb **)args[2]);
	else
		*ret_res = destroy_ring((struct uaio_kaio_ring *)args[0]);
	pthread_mutex_unlock(&kernel.lock);
	return true;
}

/* Execute and complete the oldest request that the simulated kernel has. */
static inline void execute(void)
{
	const struct iocb *iocb;
	struct taken taken;
	int64_t res;

	pthread_mutex_lock(&kernel.lock);
	assert_true(kernel.nr_taken);
	taken = kernel.taken[0];
	iocb = &taken.iocb;
	memmove(kernel.taken, kernel.taken + 1,
		--kernel.nr_taken * sizeof(taken));
	res = iocb->aio_lio_opcode == IOCB_CMD_PREAD
		      ? pread(test.fd, (void *)(uintptr_t)iocb->aio_buf,
			      iocb->aio_nbytes, iocb->aio_offset)
		      : pwrite(test.fd, (void *)(uintptr_t)iocb->aio_buf,
			       iocb->aio_nbytes, iocb->aio_offset);
	complete_locked(&taken, res);
	pthread_mutex_unlock(&kernel.lock);
}

static inline bool has_taken(void *nr)
{
	return load_acquire(&kernel.nr_taken) == (uintptr_t)nr;
}

/* Wait until the simulated kernel has nr requests. */
static inline void await_taken(unsigned nr)
{
	unit_await(has_taken, (void *)(uintptr_t)nr);
}

/* Complete the only request with the result res, without executing it. */
static inline void end_with(int64_t res)
{
	pthread_mutex_lock(&kernel.lock);
	assert_int_equal(kernel.nr_taken, 1);
	kernel.nr_taken = 0;
	complete_locked(&kernel.taken[0], res);
	pthread_mutex_unlock(&kernel.lock);
}

static inline void open_direct(void)
{
	char path[32];

	test.fd = unit_numbered_file(false, NR_BLOCKS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", test.fd);
	test.direct = open(path, O_RDWR | O_CLOEXEC);
	assert_true(test.direct >= 0);
}

static inline int start(void **state)
{
	int ret = unit_setup(state);

	/*
	 * Make the library forget the rings of the previous test, and that the
	 * simulated kernel refused calls. The fallback thread may be looking for rings
	 * at the same time.
	 */
	uaio_natives_reset();
	uaio_config.backend = UAIO_BACKEND_AIO;
	test.nr = 0;
	kernel.setup_error = kernel.submit_error = kernel.unwatchable = 0;
	kernel.nr_more = 0;
	kernel.gives_back = kernel.gives_writes_back = false;
	kernel.whole_max = 0;
	kernel.tells_nobody = false;
	kernel.is_held = kernel.is_held_after = kernel.nr_waits = 0;
	kernel.waits_error = 0;
	kernel.clients_wait = false;
	kernel.slow_us = kernel.nr_waits_of_clients = 0;
	memset(kernel.rings, 0, sizeof(kernel.rings));
	kernel.nr_taken = 0;
	kernel.nr_setups = kernel.nr_submits = kernel.nr_destroys = 0;
	pthread_mutex_init(&kernel.lock, NULL);
	open_direct();
	unit_hook(play);
	test.handle = unit_context(32);
	return ret;
}

static inline int stop(void **state)
{
	unit_destroy(test.handle);
	unit_hook(NULL);
	unit_close(test.fd);
	if (test.direct >= 0)
		unit_close(test.direct);
	uaio_config.backend = UAIO_BACKEND_THREADS;
	return unit_teardown(state);
}

static inline struct iocb *prepared(unsigned opcode, unsigned block)
{
	struct iocb *iocb = &test.iocbs[test.nr];
	char *buffer = test.buffers[test.nr++];

	memset(buffer, opcode == IOCB_CMD_PWRITE ? 'w' : '.', SIZE);
	*iocb = unit_iocb(opcode, test.direct, buffer, SIZE,
			  (int64_t)block * SIZE);
	return iocb;
}

static inline void submit(unsigned opcode, unsigned block)
{
	assert_int_equal(unit_submit(test.handle, prepared(opcode, block)), 1);
}

static inline void assert_block(const char *bytes, unsigned block)
{
	char expected[SIZE];

	memset(expected, (int)block, SIZE);
	assert_memory_equal(bytes, expected, SIZE);
}

static inline void reap(unsigned nr)
{
	struct io_event events[32];

	assert_int_equal(unit_reap(test.handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(events[i].res, SIZE);
}

static inline long reap_in_thread(void *nr)
{
	reap((unsigned)(uintptr_t)nr);
	return 0;
}

static inline void start_reaping(struct unit_thread *thread, unsigned nr)
{
	unit_thread_start(thread, reap_in_thread, (void *)(uintptr_t)nr);
}

#define NATIVE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

#endif /* UAIO_NATIVE_TEST_KERNEL_H */

/* SPDX-License-Identifier: MIT */
/*
 * Tests what happens if one thread relies on a second thread to execute a request. The
 * second thread has just found nothing to do, or stops waiting as well. The test stops
 * each thread at the point where the other thread must run.
 */
#undef NDEBUG
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/resource.h>

#include "ready/ready.h"
#include "aio/ctx.h"
#include "ready/test-ready.h"

enum { NR_EPOLL_PWAIT2 = 441 };

/*
 * The role of the current thread. OF_ENGINE: a thread of the library. Among the
 * library's threads only the fallback thread sleeps in an epoll.
 */
enum role { OF_ENGINE, OF_TEST, OF_WAITER, OF_LOOKER };

static _Thread_local enum role role;

/*
 * A stop point: the first thread that comes there after arm() is stopped until
 * release().
 */
struct place {
	uint32_t is_armed; /* atomic */
	uint32_t is_held;  /* atomic */
	uint32_t goes_on;  /* atomic */
};

/*
 * Stop points of the fallback thread: `idle`, before it sleeps; `telling`, while it
 * wakes the leader (the waiter that sleeps in the epoll), with the queue's lock held;
 * `told`, after it has released that lock. Stop points of the test's threads: `waiting`
 * and `looking`.
 */
static struct place idle, telling, told, waiting, looking;

/* atomic: reads fail with EAGAIN */
static uint32_t refuses;
static uint32_t nr_reads; /* atomic: number of reads that failed with EAGAIN */
/* atomic: how often the waiter has slept in an epoll */
static uint32_t nr_sleeps;
/* a context without parked requests */
static uint64_t other;
static int other_ends[2];

static void arm(struct place *place)
{
	store_relaxed(&place->is_held, 0);
	store_relaxed(&place->goes_on, 0);
	store_release(&place->is_armed, 1);
}

static bool hold(struct place *place)
{
	static const struct timespec moment = { 0, 100000 };
	uint32_t is_due = 1;

	if (!cas_acquire(&place->is_armed, &is_due, 0))
		return false;
	store_release(&place->is_held, 1);
	while (!load_acquire(&place->goes_on))
		(void)uaio_sys_raw(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
	return true;
}

static void await_held(struct place *place)
{
	unit_await(unit_is_set, &place->is_held);
}

static void release(struct place *place)
{
	store_release(&place->goes_on, 1);
}

static struct uaio_queue *queue_of(uint64_t context)
{
	return &uaio_ctx_find(context)->queue;
}

/* Make a read fail with EAGAIN, although the file polls ready. */
static bool refuse_read(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_preadv2 || !is_end(0, args[0]) || !load_acquire(&refuses))
		return false;
	add_relaxed(&nr_reads, 1);
	*ret_res = -EAGAIN;
	return true;
}

static bool hold_idle(long nr, const long args[6], long *ret_res)
{
	if (role == OF_ENGINE && nr == NR_EPOLL_PWAIT2)
		(void)hold(&idle);
	return refuse_read(nr, args, ret_res);
}

static struct uaio_ready *home_of(uint64_t context)
{
	return &uaio_ready_home(&queue_of(context)->group.ready)->ready;
}

static bool is_common(uint64_t context)
{
	return home_of(context) != &queue_of(context)->group.ready;
}

static bool is_left_to_epoll(void *arg)
{
	struct uaio_ready *ready = arg;

	return uaio_ready_has(ready, UAIO_ADOPTER) &&
	       !uaio_ready_has(ready, UAIO_LIST);
}

static bool is_unlisted(void *arg)
{
	return !uaio_ready_has(arg, UAIO_LIST);
}

static void begin(void)
{
	role = OF_TEST;
	store_relaxed(&refuses, 0);
	store_relaxed(&nr_reads, 0);
	assert_int_equal(pipe2(other_ends, O_CLOEXEC), 0);
	open_pipe(4);
	other = unit_context(4);
}

static void end(void)
{
	unit_hook(NULL);
	unit_destroy(other);
	unit_close(other_ends[0]);
	unit_close(other_ends[1]);
	close_pipe();
}

/*
 * Stop the fallback thread before its next sleep. To wake it first, let it look at
 * another context, which has no requests.
 */
static void hold_fallback(uaio_sys_hook_fn *hook)
{
	arm(&idle);
	unit_hook(hook);
	uaio_fallback_nudge(&queue_of(other)->group);
	await_held(&idle);
}

static long wait_for(long nr)
{
	struct io_event events[4];

	role = OF_WAITER;
	return unit_reap(handle, nr, events);
}

static long wait_for_one(void *arg)
{
	(void)arg;
	return wait_for(1);
}

static long wait_for_two(void *arg)
{
	(void)arg;
	return wait_for(2);
}

static long look_once(void *arg)
{
	static const struct timespec zero;
	struct uaio_event event;

	(void)arg;
	role = OF_LOOKER;
	return uaio_aio_getevents(handle, 1, 1, &event, &zero);
}

static void look_in_vain(void)
{
	struct unit_thread looker;

	unit_thread_start(&looker, look_once, NULL);
	assert_int_equal(unit_thread_join(&looker), 0);
}

/*
 * Let reads succeed from here on, and wait for the event. Only the fallback thread can
 * find out that the read now succeeds.
 */
static void expect_read(void)
{
	store_release(&refuses, 0);
	assert_int_equal(take_from_ring(handle), 1);
}

/*
 * The fallback thread watches the context's epoll and finds a leader, so it removes the
 * context from its list. Meanwhile the leader stops waiting, but a file is in doubt: it
 * polls ready, while a read fails with EAGAIN. So the fallback thread must try the read
 * again.
 */
static bool hold_teller(long nr, const long args[6], long *ret_res)
{
	if (role == OF_WAITER && nr == NR_EPOLL_PWAIT2)
		add_relaxed(&nr_sleeps, 1);
	if (role == OF_ENGINE && nr == SYS_write && hold(&telling))
		arm(&told);
	/*
	 * The fallback thread has released the lock, and now wakes the thread that
	 * waits for the lock (FUTEX_WAKE). Stop the fallback thread after that call.
	 */
	if (role == OF_ENGINE && nr == SYS_futex &&
	    (uint32_t *)args[0] == &queue_of(handle)->group.lock.word &&
	    load_acquire(&told.is_armed)) {
		*ret_res = unit_make_call(nr, args);
		(void)hold(&told);
		return true;
	}
	return refuse_read(nr, args, ret_res);
}

static bool are_two(void *arg)
{
	return load_acquire((uint32_t *)arg) >= 2;
}

/*
 * If the fallback thread has found that it need not wake the leader, it has removed the
 * queue from its list. Then put the queue back, so that the fallback thread decides
 * anew.
 * Return: whether the fallback thread is stopped while it wakes the leader.
 */
static bool is_leader_told(void *arg)
{
	struct uaio_group *group = arg;

	if (!uaio_ready_has(&group->ready, UAIO_LIST))
		(void)uaio_fallback_list(group);
	return load_acquire(&telling.is_held);
}

static bool is_lock_awaited(void *arg)
{
	return load_relaxed(&((struct uaio_group *)arg)->lock.word) == 2;
}

static long wait_for_lock(void *arg)
{
	role = OF_LOOKER;
	uaio_queue_lock(arg);
	uaio_queue_unlock(arg);
	return 0;
}

static void what_a_leader_leaves_in_doubt_is_tried_again(void **state)
{
	struct unit_thread leader, looker;
	struct uaio_queue *queue;
	struct iocb iocb;
	char byte = 'x';

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		begin();
		queue = queue_of(handle);
		submit_read_of_byte(&byte);
		unit_await(is_left_to_epoll, home_of(handle));
		store_release(&refuses, 1);
		arm(&telling);
		unit_hook(hold_teller);
		put_text("x");
		unit_await(are_two, &nr_reads);
		unit_thread_start(&leader, wait_for_one, NULL);
		unit_await(is_leader_told, &queue->group);
		unit_thread_start(&looker, wait_for_lock, queue);
		unit_await(is_lock_awaited, &queue->group);
		release(&telling);
		await_held(&told);
		assert_int_equal(unit_thread_join(&looker), 0);
		store_relaxed(&nr_sleeps, 0);
		/* If the leader sleeps again, it has acted on the wake-up. */
		unit_await(are_two, &nr_sleeps);
		iocb = unit_iocb(IOCB_CMD_PWRITE, other_ends[1], &byte, 1, 0);
		assert_int_equal(unit_submit(handle, &iocb), 1);
		assert_int_equal(unit_thread_join(&leader), 1);
		release(&told);
		expect_read();
		end();
	}
}

/*
 * A thread wakes a waiter, which has just timed out. So the fallback thread must try
 * the request.
 */
static bool hold_waiter(long nr, const long args[6], long *ret_res)
{
	if (role != OF_WAITER || nr != SYS_futex || !hold(&waiting))
		return hold_idle(nr, args, ret_res);
	*ret_res = -ETIMEDOUT;
	return true;
}

static long wait_a_moment(void *arg)
{
	struct timespec moment = { 0, 1000000 };
	struct uaio_event event;

	(void)arg;
	role = OF_WAITER;
	return uaio_aio_getevents(handle, 1, 1, &event, &moment);
}

static void what_is_told_to_a_waiter_that_leaves_is_tried_again(void **state)
{
	struct unit_thread waiter;
	char byte = 0;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		begin();
		submit_read_of_byte(&byte);
		unit_await(is_left_to_epoll, home_of(handle));
		put_text("x");
		assert_int_equal(take_from_ring(handle), 1);
		arm(&waiting);
		unit_hook(hold_waiter);
		/*
		 * No request is parked, so the waiter does not become the leader.
		 */
		unit_thread_start(&waiter, wait_a_moment, NULL);
		await_held(&waiting);
		submit_read_of_byte(&byte);
		unit_await(is_left_to_epoll, home_of(handle));
		hold_fallback(hold_waiter);
		store_release(&refuses, 1);
		put_text("x");
		look_in_vain();
		release(&waiting);
		assert_int_equal(unit_thread_join(&waiter), 0);
		release(&idle);
		expect_read();
		end();
	}
}

/*
 * A thread that checks for events without waiting tries the requests of kicked files
 * (ready.h). Meanwhile the leader goes to sleep, and leaves these files out of the
 * epoll. The first thread must then add them.
 */
static bool hold_looker(long nr, const long args[6], long *ret_res)
{
	if (role == OF_LOOKER && nr == SYS_preadv2 && is_end(0, args[0]))
		(void)hold(&looking);
	return hold_idle(nr, args, ret_res);
}

static void what_another_thread_tries_in_vain_is_watched(void **state)
{
	struct unit_thread looker, leader;
	struct iocb reads[2];
	char bytes[3];
	int fds[2];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		begin();
		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		hold_fallback(hold_looker);
		for (unsigned k = 0; k < 2; k++) {
			reads[k] = unit_iocb(IOCB_CMD_PREAD, fds[0], &bytes[k],
					     1, 0);
			assert_int_equal(unit_submit(handle, &reads[k]), 1);
		}
		submit_read_of_byte(&bytes[2]);
		/*
		 * The thread `looker` tries the requests on the newest file first.
		 */
		arm(&looking);
		unit_thread_start(&looker, look_once, NULL);
		await_held(&looking);
		/*
		 * When the older read of fds[0] is cancelled, the library kicks this
		 * pipe: it notes that the younger read must be tried now.
		 */
		assert_int_equal(uaio_aio_cancel(handle, &reads[0]),
				 -EINPROGRESS);
		unit_thread_start(&leader, wait_for_two, NULL);
		unit_await_sleep(&leader);
		release(&idle);
		unit_await(is_unlisted, home_of(handle));
		release(&looking);
		assert_int_equal(unit_thread_join(&looker), 0);
		assert_int_equal(write(fds[1], "x", 1), 1);
		assert_int_equal(unit_thread_join(&leader), 2);
		unit_close(fds[0]);
		unit_close(fds[1]);
		end();
	}
}

/*
 * The thread `looker` tries to add the file to the epoll, which fails with ENOMEM. The
 * request must still complete.
 */
static bool refuse_looker(long nr, const long args[6], long *ret_res)
{
	if (role != OF_LOOKER || nr != SYS_epoll_ctl || !is_end(0, args[2]) ||
	    !hold(&looking))
		return hold_idle(nr, args, ret_res);
	*ret_res = -ENOMEM;
	return true;
}

static void what_another_thread_cannot_watch_is_tried_again(void **state)
{
	struct unit_thread looker, leader;
	char byte;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		begin();
		hold_fallback(refuse_looker);
		submit_read_of_byte(&byte);
		arm(&looking);
		unit_thread_start(&looker, look_once, NULL);
		await_held(&looking);
		unit_thread_start(&leader, wait_for_one, NULL);
		unit_await_sleep(&leader);
		release(&idle);
		unit_await(is_unlisted, home_of(handle));
		release(&looking);
		assert_int_equal(unit_thread_join(&looker), 0);
		put_text("x");
		assert_int_equal(unit_thread_join(&leader), 1);
		end();
	}
}

/*
 * When the library's share of descriptors is used up, further contexts get no epoll of
 * their own. They have one epoll in common.
 */
static void what_is_in_doubt_in_the_common_epoll_is_tried_again(void **state)
{
	enum { NR_MAX = 8 };
	struct rlimit limit, old;
	uint64_t contexts[NR_MAX];
	unsigned nr = 0;
	char byte = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	limit.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	begin();
	do {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, other_ends[0], &byte, 1, 0);

		assert_true(nr < NR_MAX);
		contexts[nr] = unit_context(4);
		assert_int_equal(unit_submit(contexts[nr], &iocb), 1);
	} while (!is_common(contexts[nr++]));
	submit_read_of_byte(&byte);
	assert_true(is_common(handle));
	unit_await(is_left_to_epoll, home_of(handle));
	hold_fallback(hold_idle);
	store_release(&refuses, 1);
	put_text("x");
	look_in_vain();
	release(&idle);
	expect_read();
	while (nr)
		unit_destroy(contexts[--nr]);
	end();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(what_a_leader_leaves_in_doubt_is_tried_again),
		UNIT_TEST(what_is_told_to_a_waiter_that_leaves_is_tried_again),
		UNIT_TEST(what_another_thread_tries_in_vain_is_watched),
		UNIT_TEST(what_another_thread_cannot_watch_is_tried_again),
		UNIT_TEST(what_is_in_doubt_in_the_common_epoll_is_tried_again),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

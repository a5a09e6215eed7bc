/* SPDX-License-Identifier: MIT */
/*
 * How long a queue stays on the fallback thread's list, and when that thread first
 * checks the queue. A queue with a request now and then stays on the list. Otherwise
 * each request would wake the thread twice: to remove the queue, and to add it again.
 */
#include "ready/readyint.h"
#include "ready/test-ready.h"

/*
 * If this number of calls of uaio_care_for() in a row finds no newly parked and no
 * completed request of the queue, the queue leaves the fallback thread's list.
 */
enum { IDLE_LOOKS = 3 };

/*
 * This queue is not on the fallback thread's list; the test calls uaio_care_for()
 * itself.
 */
static struct uaio_queue queue;

static struct uaio_ready *start_queue(uint32_t keepers)
{
	struct uaio_ready *ready = &queue.group.ready;

	memset(&queue, 0, sizeof(queue));
	uaio_ready_init_group(&queue.group);
	store_relaxed(&ready->keepers, keepers);
	return ready;
}

static bool refuse_to_adopt(struct uaio_ready *ready)
{
	(void)ready;
	fail_msg("a queue is adopted that others look after");
	return false;
}

static enum uaio_care look(struct uaio_ready *ready)
{
	return uaio_care_for(ready, false, refuse_to_adopt);
}

static void assert_stays(struct uaio_ready *ready, unsigned nr_looks)
{
	for (unsigned i = 0; i < nr_looks; i++)
		assert_int_equal(look(ready), UAIO_CARE_OTHERS);
}

static void assert_leaves_when_idle(struct uaio_ready *ready)
{
	assert_stays(ready, IDLE_LOOKS - 1);
	assert_int_equal(look(ready), UAIO_CARE_LEAVE);
}

/*
 * Precondition: requests complete, but none is parked again, as if the kernel executed
 * them.
 */
static void a_led_queue_stays_while_its_leader_completes_requests(void **state)
{
	struct uaio_ready *ready = start_queue(UAIO_LEADER);

	(void)state;
	store_relaxed(&ready->nr_parked, 1);
	for (unsigned i = 0; i < 10; i++) {
		uaio_ready_note_attended(ready);
		assert_stays(ready, IDLE_LOOKS);
	}
	assert_int_equal(look(ready), UAIO_CARE_LEAVE);
}

static void a_led_queue_stays_while_requests_are_parked(void **state)
{
	struct uaio_ready *ready = start_queue(UAIO_LEADER);

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		store_relaxed(&ready->nr_parked, i + 1);
		store_relaxed(&ready->nr_parks, i + 1);
		assert_stays(ready, IDLE_LOOKS);
	}
	assert_int_equal(look(ready), UAIO_CARE_LEAVE);
}

static void a_queue_with_nothing_parked_stays_a_while(void **state)
{
	(void)state;
	assert_leaves_when_idle(start_queue(0));
}

static void a_queue_that_is_listed_again_stays_as_long(void **state)
{
	struct uaio_ready *ready = start_queue(UAIO_LEADER);

	(void)state;
	store_relaxed(&ready->nr_parked, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_leaves_when_idle(ready);
}

/*
 * The fallback thread checks a busy queue less and less often, so its sleeps grow long.
 * During such a sleep the test puts another queue on the list. The thread must check
 * that queue soon.
 */
static struct uaio_queue other;
static uint32_t
	/*
	 * atomic: how often the fallback thread has waited since `other` was put on
	 * its list
	 */
	nr_waits;
static uint32_t is_listed; /* atomic */
/* timeout of the thread's first wait after `other` was put on its list */
static int64_t next_wait_ns;

static bool list_other_in_a_long_wait(long nr, const long args[6],
				      long *ret_res)
{
	const struct timespec *timeout = (const struct timespec *)args[3];
	int64_t wait_ns;

	(void)ret_res;
	if (nr != SYS_epoll_pwait2 || gettid() == getpid() || !timeout)
		return false;
	wait_ns = timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec;
	add_relaxed(&queue.group.ready.nr_parks, 1);
	if (load_relaxed(&is_listed)) {
		if (add_relaxed(&nr_waits, 1) == 0)
			next_wait_ns = wait_ns;
		store_release(&is_listed, 2);
	} else if (wait_ns > 8000000 && wait_ns <= 16000000) {
		store_relaxed(&is_listed, 1);
		assert_int_equal(uaio_fallback_list(&other.group), 0);
	}
	return false;
}

static bool has_waited_again(void *arg)
{
	return load_acquire((uint32_t *)arg) == 2;
}

static void a_queue_put_on_the_list_is_looked_at_soon(void **state)
{
	(void)state;
	(void)start_queue(UAIO_LEADER);
	store_relaxed(&queue.group.ready.nr_parked, 1);
	memset(&other, 0, sizeof(other));
	uaio_ready_init_group(&other.group);
	store_relaxed(&other.group.ready.keepers, UAIO_LEADER);
	unit_hook(list_other_in_a_long_wait);
	assert_int_equal(uaio_fallback_list(&queue.group), 0);
	unit_await(has_waited_again, &is_listed);
	unit_hook(NULL);
	uaio_fallback_forget(&queue.group);
	uaio_fallback_forget(&other.group);
	assert_in_range(next_wait_ns, 0, 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			a_led_queue_stays_while_its_leader_completes_requests),
		UNIT_TEST(a_led_queue_stays_while_requests_are_parked),
		UNIT_TEST(a_queue_with_nothing_parked_stays_a_while),
		UNIT_TEST(a_queue_that_is_listed_again_stays_as_long),
		UNIT_TEST(a_queue_put_on_the_list_is_looked_at_soon),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * How long a queue stays on the fallback thread's list: as long as it has requests now
 * and then. To take it off and list it again wakes that thread twice for a request.
 */
#include "ready/readyint.h"
#include "ready/test-ready.h"

/* Looks in a row that find nothing, before a queue leaves the list. */
enum { IDLE_LOOKS = 3 };

/* The fallback thread does not know it: the test looks instead. */
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

/* Requests with the kernel count as completed, and never as parked. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			a_led_queue_stays_while_its_leader_completes_requests),
		UNIT_TEST(a_led_queue_stays_while_requests_are_parked),
		UNIT_TEST(a_queue_with_nothing_parked_stays_a_while),
		UNIT_TEST(a_queue_that_is_listed_again_stays_as_long),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

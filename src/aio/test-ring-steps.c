/* SPDX-License-Identifier: MIT */
/*
 * A client looks for events both by io_getevents and in its ring, while another thread
 * posts events. The posting thread is stopped after each of its instructions in turn.
 */
#undef NDEBUG
#include "base/atomic.h"
#include "aio/aio.h"
#include "aio/ring.h"
#include "unit.h"

/*
 * Some clients alternate between io_getevents and reading the ring in memory. If an event
 * was consumed in one way, the client must not find it in the other way, nor find more
 * events than were posted.
 */
enum { POSTED = 3, FEW = 8, SIZE = UNIT_KEY_BYTES };

static struct {
	uint64_t handle;
	int fd;
	/* value of head and tail before the events are posted */
	uint32_t first_slot;
	/* how many events the client consumed, in both ways together */
	long taken;
	/* the result of one more io_submit: 1 if the ring has room */
	long room;
} looking;

static struct uaio_ring_map *looked_at(void)
{
	return (struct uaio_ring_map *)(uintptr_t)looking.handle;
}

static long submit_reads(long nr)
{
	static char buffers[FEW][SIZE];
	struct iocb iocbs[FEW], *list[FEW];

	for (long i = 0; i < nr; i++) {
		iocbs[i] = unit_iocb(IOCB_CMD_PREAD, looking.fd, buffers[i],
				     SIZE, 0);
		list[i] = &iocbs[i];
	}
	return uaio_aio_submit(looking.handle, nr, list);
}

static long take_by_call(void)
{
	const struct timespec zero = { 0, 0 };
	struct uaio_event events[FEW];

	return uaio_aio_getevents(looking.handle, 0, FEW, events, &zero);
}

/*
 * Consume all events that the ring shows.
 * Return: their number.
 */
static long take_from_ring(void)
{
	struct uaio_ring_map *ring = looked_at();
	uint32_t tail = load_acquire(&ring->tail);
	uint32_t head = load_relaxed(&ring->head);

	store_release(&ring->head, tail);
	return (tail + ring->nr - head) % ring->nr;
}

static long post_some(void *arg)
{
	(void)arg;
	return submit_reads(POSTED);
}

static long call_then_look(void *arg)
{
	(void)arg;
	looking.taken = take_by_call();
	looking.taken += take_from_ring();
	looking.room = submit_reads(1);
	return 0;
}

static long look_then_call(void *arg)
{
	(void)arg;
	looking.taken = take_from_ring();
	looking.taken += take_by_call();
	looking.room = submit_reads(1);
	return 0;
}

static void prepare_to_look(void)
{
	looking.handle = unit_context(1);
	for (uint32_t i = 0; i < looking.first_slot; i++) {
		assert_int_equal(submit_reads(1), 1);
		assert_int_equal(take_by_call(), 1);
	}
}

static void check_taken(long victims, long intruders)
{
	assert_int_equal(victims, POSTED);
	assert_int_equal(intruders, 0);
	assert_in_range(looking.taken, 0, POSTED);
	/* io_submit found room, as it does not count consumed events as unread. */
	assert_int_equal(looking.room, 1);
	looking.taken += take_by_call();
	assert_int_equal(looking.taken, POSTED + 1);
	assert_int_equal(take_from_ring(), 0);
	unit_destroy(looking.handle);
}

static void look_at_ring_during(unit_step_fn *intruder, uint32_t first_slot)
{
	const struct unit_stepping stepping = {
		.victim = post_some,
		.intruder = intruder,
		.prepare = prepare_to_look,
		.check = check_taken,
		.nr_min = 100,
	};

	looking.first_slot = first_slot;
	unit_step_through(&stepping);
}

static void an_event_is_found_once_by_call_or_in_the_ring(void **state)
{
	uint32_t nr;

	(void)state;
	looking.fd = unit_numbered_file(true, 1);
	looking.handle = unit_context(1);
	nr = looked_at()->nr;
	unit_destroy(looking.handle);
	/*
	 * Begin at slot 0, then near the end of the ring, where the slots of the posted
	 * events wrap around.
	 */
	for (uint32_t at = 0; at < nr; at += nr - 2) {
		look_at_ring_during(call_then_look, at);
		look_at_ring_during(look_then_call, at);
	}
	unit_close(looking.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(an_event_is_found_once_by_call_or_in_the_ring),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

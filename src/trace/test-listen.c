/* SPDX-License-Identifier: MIT */
/*
 * A tool asks for a trace while the process runs. In this test the process itself is
 * the tool; test/run/attach.py tests the real tool, src/tool/trace/attach.c.
 */
#undef NDEBUG
#include "trace/listen.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/cycles.h"
#include "tool/trace/tracing.h"
#include "unit.h"

enum { NR_THREADS = 4, NR_OWN = 2, NR_ROUNDS = 40, NR_AWAITED = 50 };

static struct uaio_trace_ask ask;

struct tool {
	struct uaio_trace_ring *ring;
	int fd;
	uint32_t place;
};

static int setup(void **state)
{
	int ret = unit_setup(state);

	memset(&ask, 0, sizeof(ask));
	uaio_listen_init();
	uaio_listen_to(&ask);
	return ret;
}

static int teardown(void **state)
{
	uaio_listen_init();
	return unit_teardown(state);
}

static void tell(const struct tool *tool, uint32_t pid)
{
	struct uaio_trace_asker *asker = &ask.askers[tool->place];

	store_relaxed(&asker->pid, pid);
	store_relaxed(&asker->fd, (uint32_t)tool->fd);
	if (pid)
		/*
		 * [MB:trace-ask] release, as in a real tool: publishes pid and fd.
		 * Pairs with the process's look_at() and look()
		 */
		store_release(&asker->number, load_relaxed(&asker->number) + 1);
	/*
	 * [MB:trace-ask] release, as in a real tool: publishes the slot's changes.
	 * Pairs with the process's look_at() and look()
	 */
	add_release(&ask.nr_changes, 1);
}

static struct tool begin(uint32_t place)
{
	struct tool tool = { .place = place };

	tool.fd = uaio_records_open(&tool.ring);
	assert_true(tool.fd >= 0);
	tell(&tool, (uint32_t)getpid());
	return tool;
}

static bool is_answered(uint32_t place)
{
	/*
	 * [MB:trace-ask] acquire, as in a real tool: sees the error. Pairs with the
	 * process's look_at()
	 */
	return load_acquire(&ask.askers[place].answered) ==
	       load_relaxed(&ask.askers[place].number);
}

static void end(struct tool *tool)
{
	munmap(tool->ring, sizeof(*tool->ring));
	close(tool->fd);
}

static void put(uint64_t data, unsigned writer)
{
	struct uaio_trace_record record = {
		.file = data,
		.fd = -1,
		.tid = (uint32_t)gettid(),
	};

	if (uaio_listen(uaio_cycles()))
		uaio_listen_write(&record, writer);
}

/*
 * What the test, as the tool, has read: how many records, the last record, and the last
 * record of each lane that only one thread uses. A lane (ring.h) is a part of the ring.
 */
static struct {
	uint64_t nr;
	struct uaio_trace_record last;
	uint32_t pid, tid;
	uint64_t data[NR_OWN];
} got;

static void keep(const struct uaio_traced *traced, void *arg)
{
	uint64_t writer = (uint64_t)traced->record->off;

	(void)arg;
	got.nr++;
	got.last = *traced->record;
	got.pid = traced->pid;
	got.tid = traced->tid;
	/*
	 * In a lane that only one thread uses, records are in order, and none occurs
	 * twice.
	 */
	if (!got.last.len || writer >= NR_OWN)
		return;
	assert_true(got.last.file > got.data[writer]);
	got.data[writer] = got.last.file;
}

static uint64_t take(const struct tool *tool)
{
	memset(&got, 0, sizeof(got));
	return uaio_records_take(tool->ring, keep, NULL);
}

static void each_tool_that_asks_gets_each_record(void **state)
{
	struct tool tools[UAIO_TRACE_ASKERS];

	(void)state;
	assert_false(uaio_listen(uaio_cycles()));
	for (uint32_t i = 0; i < UAIO_TRACE_ASKERS; i++)
		tools[i] = begin(i);
	assert_true(uaio_listen_is_asked());
	put(7, 3);
	put(8, UAIO_TRACE_OWN_LANES);
	for (uint32_t i = 0; i < UAIO_TRACE_ASKERS; i++) {
		assert_true(is_answered(i));
		assert_int_equal(ask.askers[i].error, 0);
		assert_int_equal(take(&tools[i]), 2);
		assert_int_equal(got.last.file, 8);
		assert_int_equal(got.pid, getpid());
		assert_int_equal(got.tid, gettid());
	}
	for (uint32_t i = 0; i < UAIO_TRACE_ASKERS; i++) {
		tell(&tools[i], 0);
		put(9, 3);
		assert_int_equal(take(&tools[i]), i);
	}
	assert_false(uaio_listen_is_asked());
	assert_false(uaio_listen(uaio_cycles()));
	for (uint32_t i = 0; i < UAIO_TRACE_ASKERS; i++)
		end(&tools[i]);
}

static void a_tool_that_cannot_be_served_is_told_why(void **state)
{
	struct tool closed = begin(0),
		    other = { .fd = unit_numbered_file(true, 1), .place = 1 };

	(void)state;
	end(&closed);
	tell(&other, (uint32_t)getpid());
	assert_false(uaio_listen(uaio_cycles()));
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(is_answered(i));
		assert_int_equal(ask.askers[i].error, -ENOENT);
	}
	close(other.fd);
}

static void a_tool_that_is_gone_is_found_so(void **state)
{
	struct tool tool = begin(2);
	uint64_t rate;

	(void)state;
	put(1, 0);
	end(&tool);
	while (!(rate = uaio_cycles_per_us()))
		;
	/*
	 * Let the time be more than a second later, so that the process checks again
	 * which tools ask for a trace.
	 */
	assert_false(uaio_listen(uaio_cycles() + 1100000 * rate));
	assert_int_equal(ask.askers[2].error, -ESRCH);
	assert_false(uaio_listen(uaio_cycles()));
}

static void a_full_ring_drops_and_counts(void **state)
{
	struct tool tool = begin(0);

	(void)state;
	for (uint64_t i = 0; i < UAIO_TRACE_RECORDS + 3; i++)
		put(i, 1);
	assert_int_equal(uaio_records_lost(tool.ring), 3);
	assert_int_equal(take(&tool), UAIO_TRACE_RECORDS);
	put(7, 1);
	assert_int_equal(take(&tool), 1);
	end(&tool);
}

static int listen_in_child(void)
{
	uaio_listen_init();
	return uaio_listen(uaio_cycles()) || uaio_listen_is_asked();
}

static void a_child_is_not_traced(void **state)
{
	struct tool tool = begin(0);

	(void)state;
	put(1, 0);
	assert_int_equal(unit_in_child(listen_in_child), 0);
	put(2, 0);
	assert_int_equal(take(&tool), 2);
	end(&tool);
}

static void whatever_is_written_there_is_harmless(void **state)
{
	uint32_t word = 12345;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		uint32_t *words = (uint32_t *)(void *)&ask;

		word = word * 1664525 + 1013904223;
		words[(word >> 8) % (sizeof(ask) / sizeof(*words))] = word;
		put(1, 0);
	}
}

/* Threads write records while rings are attached and withdrawn */

static uint32_t is_over;

static long put_on(void *arg)
{
	unsigned writer = *(const unsigned *)arg;
	unsigned as = writer < NR_OWN ? writer : UAIO_TRACE_OWN_LANES;
	struct uaio_trace_record record = {
		.fd = -1,
		.len = 1,
		.off = writer,
		.tid = (uint32_t)gettid(),
	};

	while (!load_relaxed(&is_over)) {
		record.file++;
		if (uaio_listen(uaio_cycles()))
			uaio_listen_write(&record, as);
		else
			sched_yield();
	}
	return 0;
}

static void rings_come_and_go_while_threads_write(void **state)
{
	unsigned numbers[NR_THREADS];
	struct unit_thread threads[NR_THREADS];

	(void)state;
	store_relaxed(&is_over, 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		numbers[i] = i;
		unit_thread_start(&threads[i], put_on, &numbers[i]);
	}
	for (uint32_t round = 0; round < NR_ROUNDS; round++) {
		struct tool tool = begin(round % UAIO_TRACE_ASKERS);
		uint64_t nr = 0;

		while (nr < NR_AWAITED) {
			nr += take(&tool);
			sched_yield();
		}
		assert_true(is_answered(tool.place));
		/*
		 * In every second round the tool ends properly. In the other rounds it
		 * ends as if it were killed.
		 */
		if (round % 2)
			tell(&tool, 0);
		end(&tool);
	}
	store_relaxed(&is_over, 1);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_join(&threads[i]);
}

#define LISTEN_TEST(function) \
	cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LISTEN_TEST(each_tool_that_asks_gets_each_record),
		LISTEN_TEST(a_tool_that_cannot_be_served_is_told_why),
		LISTEN_TEST(a_tool_that_is_gone_is_found_so),
		LISTEN_TEST(a_full_ring_drops_and_counts),
		LISTEN_TEST(a_child_is_not_traced),
		LISTEN_TEST(whatever_is_written_there_is_harmless),
		LISTEN_TEST(rings_come_and_go_while_threads_write),
	};

	return cmocka_run_group_tests_name("listen", tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Traces a process as if `uaio trace` had started it. The tracer's code,
 * src/tool/trace/records.c, is linked into this test, too.
 */
#undef NDEBUG
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "options/config.h"
#include "base/sys.h"
#include "issue/fault.h"
#include "tool/trace/tracing.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES };

static struct uaio_trace_ring *ring;
static int ring_fd;

static int setup(void **state)
{
	int ret = unit_setup(state);

	ring_fd = uaio_records_open(&ring);
	assert_true(ring_fd >= 0);
	uaio_config.has_stats = true;
	uaio_trace_to(ring);
	return ret;
}

static int teardown(void **state)
{
	uaio_trace_to(NULL);
	uaio_config.has_stats = false;
	munmap(ring, sizeof(*ring));
	close(ring_fd);
	return unit_teardown(state);
}

/* What the test, as the tracer, has read. */
static struct {
	uint64_t nr;
	struct uaio_trace_record last;
	uint32_t pid, tid;
	char name[UAIO_TRACE_NAME_BYTES + 1];
} got;

static void keep(const struct uaio_traced *traced, void *arg)
{
	(void)arg;
	got.nr++;
	got.last = *traced->record;
	got.pid = traced->pid;
	got.tid = traced->tid;
	snprintf(got.name, sizeof(got.name), "%s", traced->file);
}

static bool put(uint64_t data)
{
	struct uaio_trace_record *record = uaio_trace_next();

	if (!record)
		return false;
	*record = (struct uaio_trace_record){ .file = data, .fd = -1 };
	uaio_trace_put();
	return true;
}

static uint64_t take(void)
{
	got.nr = 0;
	return uaio_records_take(ring, keep, NULL);
}

static void a_full_lane_drops_and_counts(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < UAIO_TRACE_RECORDS; i++)
		assert_true(put(i));
	for (int i = 0; i < 3; i++)
		assert_false(put(0));
	assert_int_equal(uaio_records_lost(ring), 3);
	assert_int_equal(take(), UAIO_TRACE_RECORDS);
	assert_int_equal(got.last.file, UAIO_TRACE_RECORDS - 1);
	assert_int_equal(got.tid, gettid());
	assert_int_equal(got.pid, getpid());
	assert_true(put(7));
	assert_int_equal(take(), 1);
	assert_int_equal(got.last.file, 7);
	assert_int_equal(uaio_records_lost(ring), 3);
}

static long put_once(void *arg)
{
	(void)arg;
	return put(1);
}

static unsigned nr_lanes_taken(void)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++)
		nr += load_relaxed(&ring->lanes[i].owner) != 0;
	return nr;
}

static bool is_free(void *arg)
{
	(void)arg;
	(void)take();
	return nr_lanes_taken() == 0;
}

static void the_lane_of_a_thread_that_is_gone_is_free_again(void **state)
{
	struct unit_thread thread;

	(void)state;
	unit_thread_start(&thread, put_once, NULL);
	assert_true(unit_thread_join(&thread));
	assert_int_equal(nr_lanes_taken(), 1);
	/*
	 * The kernel may forget a thread's id a moment after pthread_join() has
	 * returned.
	 */
	unit_await(is_free, NULL);
}

static void a_thread_without_a_lane_counts_what_it_drops(void **state)
{
	(void)state;
	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++) {
		store_relaxed(&ring->lanes[i].owner, 1);
		store_relaxed(&ring->lanes[i].pid, 1);
	}
	assert_false(put(0));
	assert_false(put(0));
	assert_int_equal(uaio_records_lost(ring), 2);
	store_relaxed(&ring->lanes[5].owner, 0);
	assert_true(put(0));
	assert_int_equal(ring->lanes[5].owner, gettid());
}

static int put_in_child(void)
{
	uaio_trace_init();
	return put(1) && put(2) && nr_lanes_taken() == 2 ? 0 : 1;
}

static void a_child_has_a_lane_of_its_own(void **state)
{
	(void)state;
	assert_true(put(0));
	assert_int_equal(unit_in_child(put_in_child), 0);
	/* The child has ended; its records must still be readable. */
	assert_int_equal(take(), 3);
	assert_int_equal(nr_lanes_taken(), 1);
}

static void a_program_takes_the_lane_again_that_its_thread_had(void **state)
{
	(void)state;
	assert_true(put(0));
	/*
	 * Act as after an exec: the new program does not know which lane (part of the
	 * ring) its thread has.
	 */
	uaio_trace_to(ring);
	assert_true(put(1));
	assert_int_equal(nr_lanes_taken(), 1);
	assert_int_equal(take(), 2);
}

static void whatever_a_program_writes_there_is_harmless(void **state)
{
	(void)state;
	assert_true(put(0));
	for (unsigned i = 0; i < UAIO_TRACE_LANES; i++) {
		memset(&ring->lanes[i], (int)i | 1, sizeof(ring->lanes[i]));
		ring->lanes[i].head += (uint64_t)i << 13;
	}
	memset(ring->records[3], 0xff, sizeof(ring->records[3]));
	assert_true(take() > 0);
	assert_true(put(0) || uaio_records_lost(ring) > 0);
	memset(ring->lanes, 0, sizeof(ring->lanes));
}

static void only_a_ring_that_cannot_shrink_is_used(void **state)
{
	char path[64];
	int fd = memfd_create("ring", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	(void)state;
	uaio_trace_to(NULL);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	setenv(UAIO_TRACE_VARIABLE, path, 1);
	assert_int_equal(ftruncate(fd, sizeof(*ring)), 0);
	assert_int_equal(pwrite(fd, ring, 4096, 0), 4096);
	assert_int_equal(uaio_trace_load(), -ENOENT);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	ring->version++;
	assert_int_equal(pwrite(fd, ring, 4096, 0), 4096);
	assert_int_equal(uaio_trace_load(), -ENOENT);
	ring->version--;
	ring->pid_namespace++;
	assert_int_equal(pwrite(fd, ring, 4096, 0), 4096);
	assert_int_equal(uaio_trace_load(), -EXDEV);
	ring->pid_namespace--;
	assert_int_equal(pwrite(fd, ring, 4096, 0), 4096);
	assert_int_equal(uaio_trace_load(), 0);
	assert_true(uaio_trace_is_on());
	setenv(UAIO_TRACE_VARIABLE, "/proc/self/fd/9999", 1);
	assert_int_equal(uaio_trace_load(), -ENOENT);
	unsetenv(UAIO_TRACE_VARIABLE);
	assert_int_equal(uaio_trace_load(), -ENOENT);
	close(fd);
}

/* requests */

static const struct uaio_trace_record *record_of(struct uaio_sqe sqe)
{
	uint64_t handle = unit_context(1);

	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	(void)unit_reap_one(handle);
	unit_destroy(handle);
	/* The library writes the record before it posts the event. */
	assert_int_equal(take(), 1);
	assert_int_equal(got.last.door, UAIO_DOOR_AIO);
	assert_true(got.last.submitted <= got.last.ended);
	return &got.last;
}

static void a_request_leaves_one_record(void **state)
{
	static char buffer[2 * SIZE];
	const struct iovec iov[2] = { { buffer, SIZE }, { buffer, SIZE / 2 } };
	int fd = unit_numbered_file(true, 4);
	const struct uaio_trace_record *record;
	struct uaio_sqe sqe = {
		.op = UAIO_OP_READV, .fd = fd, .iov = iov, .len = 2, .off = SIZE
	};

	(void)state;
	for (int is_async = 0; is_async < 2; is_async++) {
		sqe.is_async = is_async;
		record = record_of(sqe);
		assert_int_equal(record->op, UAIO_OP_READV);
		assert_int_equal(record->fd, fd);
		assert_int_equal(record->off, SIZE);
		assert_int_equal(record->len, SIZE * 3 / 2);
		assert_int_equal(record->res, SIZE * 3 / 2);
		assert_int_equal(record->by,
				 is_async ? UAIO_BY_WORKER : UAIO_BY_SUBMITTER);
		assert_true(record->started &&
			    record->started <= record->ended);
	}
	sqe = (struct uaio_sqe){ .op = UAIO_OP_NOP, .fd = -1 };
	record = record_of(sqe);
	assert_int_equal(record->fd, -1);
	assert_int_equal(record->off, -1);
	unit_close(fd);
}

static void a_late_request_is_still_what_it_was(void **state)
{
	int fd = unit_numbered_file(true, 4);
	const struct uaio_trace_record *record;
	static char buffer[SIZE];
	struct uaio_sqe sqe = { .op = UAIO_OP_READ,
				.fd = fd,
				.buf = buffer,
				.len = SIZE,
				.off = SIZE };

	(void)state;
	uaio_faults = (struct uaio_faults){ .nr = 0 };
	assert_int_equal(
		uaio_faults_parse("read:delay=1ms", &uaio_faults, NULL, 0), 0);
	uaio_config.is_examined = true;
	for (int is_async = 0; is_async < 2; is_async++) {
		sqe.is_async = is_async;
		record = record_of(sqe);
		assert_true(record->is_late);
		assert_int_equal(record->op, UAIO_OP_READ);
		assert_int_equal(record->fd, fd);
		assert_int_equal(record->off, SIZE);
		assert_int_equal(record->len, SIZE);
		assert_int_equal(record->res, SIZE);
		assert_int_equal(record->by,
				 is_async ? UAIO_BY_WORKER : UAIO_BY_SUBMITTER);
	}
	uaio_config.is_examined = false;
	unit_close(fd);
}

static void name_of(int fd, char name[PATH_MAX])
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, name, PATH_MAX - 1);
	assert_true(len > 0);
	name[len] = '\0';
}

static void a_file_has_a_name_though_it_was_closed(void **state)
{
	static char buffer[SIZE], names[2][PATH_MAX];
	struct uaio_sqe sqe = { .op = UAIO_OP_READ,
				.buf = buffer,
				.len = SIZE };
	uint64_t handle = unit_context(1), numbers[2];
	int fd = -1;

	(void)state;
	for (int is_async = 0; is_async < 2; is_async++) {
		for (int i = 0; i < 2; i++) {
			sqe.fd = unit_numbered_file(true, 4);
			/*
			 * The second file must get the descriptor that the first file
			 * had.
			 */
			assert_true(!i || sqe.fd == fd);
			fd = sqe.fd;
			name_of(fd, names[i]);
			sqe.is_async = is_async;
			assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
			(void)unit_reap_one(handle);
			unit_close(fd);
			if (i)
				continue;
			assert_int_equal(take(), 1);
			assert_string_equal(got.name, names[0]);
			numbers[0] = got.last.file;
		}
		assert_int_equal(take(), 1);
		assert_string_equal(got.name, names[1]);
		numbers[1] = got.last.file;
		assert_true(numbers[0] && numbers[1] > numbers[0]);
	}
	unit_destroy(handle);
}

static void a_file_is_named_once(void **state)
{
	static char buffer[SIZE];
	struct uaio_sqe sqe = { .op = UAIO_OP_READ,
				.buf = buffer,
				.len = SIZE };
	uint64_t handle = unit_context(1), number = 0;

	(void)state;
	sqe.fd = unit_numbered_file(true, 4);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		(void)unit_reap_one(handle);
		assert_int_equal(take(), 1);
		assert_true(!i || got.last.file == number);
		number = got.last.file;
	}
	assert_int_equal(ring->lanes[0].nr_names, 1);
	/* Act as if another tracer had attached: names must be written again. */
	uaio_trace_name_again();
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	(void)unit_reap_one(handle);
	assert_int_equal(take(), 1);
	assert_true(got.last.file > number);
	assert_int_equal(ring->lanes[0].nr_names, 2);
	unit_destroy(handle);
	unit_close(sqe.fd);
}

static void a_name_is_told_when_there_is_room(void **state)
{
	const struct uaio_trace_name name = {
		.number = 7, .fd = 1, .len = UAIO_TRACE_NAME_BYTES, .text = "x"
	};
	uint64_t nr = uaio_trace_name_records(name.len);

	(void)state;
	for (uint64_t i = nr; i <= UAIO_TRACE_RECORDS; i++)
		assert_true(put(i));
	assert_false(uaio_trace_put_name(&name));
	assert_int_equal(uaio_records_lost(ring), 0);
	assert_int_equal(take(), UAIO_TRACE_RECORDS - nr + 1);
	for (uint64_t i = nr; i < UAIO_TRACE_RECORDS; i++)
		assert_true(put(i));
	assert_true(uaio_trace_put_name(&name));
	assert_int_equal(take(), UAIO_TRACE_RECORDS - nr);
	assert_string_equal(uaio_filename_of((uint32_t)getpid(), 7), "x");
	assert_null(uaio_filename_of((uint32_t)getpid(), 8));
}

/* Several threads write records while the tracer reads */

enum { NR_THREADS = 3, NR_PUT = 200000 };

static uint32_t nr_done;

static long put_many(void *arg)
{
	unsigned nr = unit_rounds(NR_PUT);
	long nr_put = 0;

	(void)arg;
	for (unsigned i = 1; i <= nr; i++) {
		struct uaio_trace_record *record = uaio_trace_next();

		if (!record)
			continue;
		/*
		 * Make the members depend on each other, so that the test notices a
		 * torn record.
		 */
		*record = (struct uaio_trace_record){
			.file = i, .len = ~(uint64_t)i, .fd = -1, .res = (int)i
		};
		uaio_trace_put();
		nr_put++;
	}
	add_relaxed(&nr_done, 1);
	return nr_put;
}

/*
 * For each thread, the number in its last record that was read. The numbers in a
 * thread's records must increase.
 */
struct seen {
	uint32_t tids[NR_THREADS + 1];
	uint64_t last[NR_THREADS + 1];
	unsigned nr_threads, nr_bad;
	uint64_t nr;
};

static void look(const struct uaio_traced *traced, void *arg)
{
	const struct uaio_trace_record *record = traced->record;
	struct seen *seen = arg;
	unsigned i = 0;

	while (i < seen->nr_threads && seen->tids[i] != traced->tid)
		i++;
	if (i == seen->nr_threads && i < NR_THREADS)
		seen->tids[seen->nr_threads++] = traced->tid;
	seen->nr_bad += record->file <= seen->last[i] ||
			record->len != ~record->file ||
			record->res != (int)record->file;
	seen->last[i] = record->file;
	seen->nr++;
}

static void each_record_is_taken_once_or_counted(void **state)
{
	struct unit_thread threads[NR_THREADS];
	static struct seen seen;
	uint64_t nr_put = 0, nr_taken = 0;

	(void)state;
	memset(&seen, 0, sizeof(seen));
	store_relaxed(&nr_done, 0);
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_start(&threads[i], put_many, NULL);
	while (load_relaxed(&nr_done) < NR_THREADS)
		nr_taken += uaio_records_take(ring, look, &seen);
	for (unsigned i = 0; i < NR_THREADS; i++)
		nr_put += (uint64_t)unit_thread_join(&threads[i]);
	nr_taken += uaio_records_take(ring, look, &seen);
	assert_int_equal(seen.nr_bad, 0);
	assert_int_equal(nr_taken, nr_put);
	assert_int_equal(seen.nr, nr_put);
	assert_int_equal(nr_put + uaio_records_lost(ring),
			 NR_THREADS * unit_rounds(NR_PUT));
}

#define TRACE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TRACE_TEST(a_full_lane_drops_and_counts),
		TRACE_TEST(the_lane_of_a_thread_that_is_gone_is_free_again),
		TRACE_TEST(a_thread_without_a_lane_counts_what_it_drops),
		TRACE_TEST(a_child_has_a_lane_of_its_own),
		TRACE_TEST(a_program_takes_the_lane_again_that_its_thread_had),
		TRACE_TEST(whatever_a_program_writes_there_is_harmless),
		TRACE_TEST(only_a_ring_that_cannot_shrink_is_used),
		TRACE_TEST(a_request_leaves_one_record),
		TRACE_TEST(a_late_request_is_still_what_it_was),
		TRACE_TEST(a_file_has_a_name_though_it_was_closed),
		TRACE_TEST(a_file_is_named_once),
		TRACE_TEST(a_name_is_told_when_there_is_room),
		TRACE_TEST(each_record_is_taken_once_or_counted),
	};

	return cmocka_run_group_tests_name("trace", tests, unit_engine, NULL);
}

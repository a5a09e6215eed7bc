/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "options/config.h"
#include "aio/aio.h"

enum {
	FILE_BYTES = OFF + BYTES + SEGMENT,
	WORDS = FILE_BYTES / 8,
	IOVS_MAX = 64,
	/*
	 * After each buffer of a vectored request there is a page that must stay
	 * untouched.
	 */
	AREA_BYTES = BYTES + IOVS_MAX * PAGE,
	UNTOUCHED = 0xEE,
	OLD = 1,
	NEW = 2,
	SKIPPED = 77,
};

const struct shape shapes[NR_SHAPES] = {
	{ IOCB_CMD_PREAD, SLOWFS_READ, false },
	{ IOCB_CMD_PREADV, SLOWFS_READ, true },
	{ IOCB_CMD_PWRITE, SLOWFS_WRITE, false },
	{ IOCB_CMD_PWRITEV, SLOWFS_WRITE, true },
};

const struct slowfs_fault faults[NR_FAULTS] = {
	{ .error = EIO },      { .bytes = 0 },      { .bytes = 1000 },
	{ .bytes = 2 * PAGE }, { .error = ENOSPC },
};

struct slowfs *fs, *other_fs;
uint64_t handle;
int fd;
struct iocb iocb;

static const struct shape *shape; /* that of the prepared request */
static bool is_whole;
static struct iovec iovs[IOVS_MAX];
static unsigned nr_iovs;
static uint64_t content[WORDS], seen[WORDS];
static char area[AREA_BYTES] __attribute__((aligned(PAGE)));

int64_t border(unsigned segment)
{
	return segment ? FIRST + (int64_t)(segment - 1) * SEGMENT : 0;
}

static uint64_t word_of(uint64_t place, unsigned version)
{
	return (place + 1) * 0x9E3779B97F4A7C15u ^ version;
}

void fill_file(void)
{
	for (uint64_t i = 0; i < WORDS; i++)
		content[i] = word_of(i, OLD);
	assert_int_equal(pwrite(fd, content, FILE_BYTES, 0), FILE_BYTES);
}

/* Make vectors of many lengths, most of which cross a border between segments. */
static void place_parts(void)
{
	static const unsigned pages[] = { 1, 63, 100, 2, 64, 129, 5, 1, 61 };
	char *at = area;
	size_t left = BYTES;

	for (nr_iovs = 0; left; nr_iovs++) {
		size_t bytes = shape->is_vectored
				       ? pages[nr_iovs % NR_ELEMENTS(pages)] *
						 (size_t)PAGE
				       : BYTES;

		assert_true(nr_iovs < IOVS_MAX);
		bytes = bytes < left ? bytes : left;
		iovs[nr_iovs] = (struct iovec){ at, bytes };
		at += bytes + PAGE;
		left -= bytes;
	}
}

void prepare(const struct shape *of)
{
	uint64_t place = OFF / 8;

	shape = of;
	place_parts();
	memset(area, UNTOUCHED, AREA_BYTES);
	if (shape->op == SLOWFS_WRITE)
		for (unsigned i = 0; i < nr_iovs; i++)
			for (size_t j = 0; j < iovs[i].iov_len / 8; j++)
				((uint64_t *)iovs[i].iov_base)[j] =
					word_of(place++, NEW);
	iocb = unit_iocb(shape->opcode, fd,
			 shape->is_vectored ? (void *)iovs : area,
			 shape->is_vectored ? nr_iovs : BYTES, OFF);
	iocb.aio_data = 42;
}

void submit(const struct shape *of)
{
	prepare(of);
	assert_int_equal(unit_submit(handle, &iocb), 1);
}

void assert_no_more(void)
{
	struct timespec zero = { 0, 0 };
	struct uaio_event event;

	assert_int_equal(uaio_aio_getevents(handle, 0, 1, &event, &zero), 0);
}

static void assert_file(int64_t res)
{
	uint64_t begin = OFF / 8, end = (OFF + BYTES) / 8;
	uint64_t written = begin + (res > 0 ? (uint64_t)res / 8 : 0);

	assert_int_equal(pread(fd, seen, FILE_BYTES, 0), FILE_BYTES);
	for (uint64_t i = 0; i < WORDS; i++) {
		uint64_t old = word_of(i, OLD), new = word_of(i, NEW);

		if (shape->op == SLOWFS_READ || i < begin || i >= end)
			assert_true(seen[i] == old);
		else if (i < written)
			assert_true(seen[i] == new);
		else
			assert_true(seen[i] == old || seen[i] == new);
	}
}

void assert_memory(int64_t res)
{
	uint64_t place = OFF / 8, end = place;
	const char *free_page;

	if (shape->op == SLOWFS_READ && res > 0)
		end += (uint64_t)res / 8;
	for (unsigned i = 0; i < nr_iovs; i++) {
		const uint64_t *words = iovs[i].iov_base;

		for (size_t j = 0; j < iovs[i].iov_len / 8; j++, place++)
			if (shape->op == SLOWFS_WRITE)
				assert_true(words[j] == word_of(place, NEW));
			else if (place < end)
				assert_true(words[j] == word_of(place, OLD));
		free_page = (const char *)iovs[i].iov_base + iovs[i].iov_len;
		for (size_t j = 0; j < PAGE; j++)
			assert_int_equal((unsigned char)free_page[j],
					 UNTOUCHED);
	}
}

void assert_data(int64_t res)
{
	assert_memory(res);
	assert_file(res);
}

void assert_executed(int64_t expected)
{
	struct io_event event = { 0 };

	assert_int_equal(unit_reap(handle, 1, &event), 1);
	/* The request is complete, so remove the fault from the file system. */
	slowfs_mend(fs);
	assert_int_equal(event.res, expected);
	assert_int_equal(event.data, 42);
	assert_int_equal(event.obj, (uintptr_t)&iocb);
	assert_no_more();
	assert_data(expected);
}

void set_at_once(unsigned at_once)
{
	uaio_config.segments = at_once;
}

void expect_whole(bool whole)
{
	is_whole = whole;
}

void fault_segment(unsigned segment, const struct slowfs_fault *fault)
{
	slowfs_fault_at(fs, shape->op, (uint64_t)(OFF + border(segment)),
			*fault);
}

int64_t result_of(unsigned segment, const struct slowfs_fault *fault)
{
	int64_t begin = border(segment);

	if (is_whole)
		begin -= begin % CALL;
	if (fault->error)
		return begin ? begin : -fault->error;
	return begin + fault->bytes;
}

void make_with_fault(const struct shape *of, unsigned segment,
		     const struct slowfs_fault *fault)
{
	prepare(of);
	fault_segment(segment, fault);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_executed(result_of(segment, fault));
	if (shape->op == SLOWFS_WRITE)
		fill_file();
}

void make_all_shapes(void)
{
	for (unsigned i = 0; i < NR_ELEMENTS(shapes); i++) {
		submit(&shapes[i]);
		assert_executed(BYTES);
		make_with_fault(&shapes[i], 1 + i * 5, &faults[1]);
		fill_file();
	}
}

/* Return: whether exactly *arg workers are busy and nothing is queued. */
static bool are_busy(void *arg)
{
	struct uaio_wq_counters counters = items_count(UAIO_BOUNDED);

	return counters.nr_workers - counters.nr_idle == *(unsigned *)arg &&
	       !counters.nr_queued;
}

void await_busy(unsigned nr)
{
	unit_await(are_busy, &nr);
}

/* FUSE executes direct writes of one file in parallel since Linux 6.2. */
bool are_writes_parallel(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 &&
	       sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       major * 100 + minor >= 602;
}

/*
 * Setup and teardown
 */

void open_file(void)
{
	fd = open("slow/file", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
}

int segments_start(void **state)
{
	int ret = unit_setup(state);

	open_file();
	fill_file();
	uaio_config.force_worker = true;
	handle = unit_context(4);
	return ret;
}

int segments_stop(void **state)
{
	unit_destroy(handle);
	unit_close(fd);
	uaio_config.force_worker = false;
	return unit_teardown(state);
}

int segments_main(int (*run)(void))
{
	int ret;

	fs = slowfs_start("slow");
	other_fs = fs ? slowfs_start("other") : NULL;
	if (!other_fs) {
		print_message("skipped: no file system can be mounted\n");
		return SKIPPED;
	}
	ret = run();
	slowfs_stop(other_fs);
	slowfs_stop(fs);
	return ret;
}

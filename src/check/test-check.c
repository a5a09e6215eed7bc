/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "check/check.h"

#include <aio.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "options/config.h"
#include "op/op.h"
#include "check/checkint.h"
#include "unit.h"

static char dir[] = "/tmp/uaio-test-check-XXXXXX";
/* text of the reports since the current test began */
static char report[65536];

static const char *path(void)
{
	static char text[sizeof(dir) + 16];

	(void)snprintf(text, sizeof(text), "%s/%d", dir, getpid());
	return text;
}

/* Return: the reports without the line "begun", which the first request adds. */
static const char *reported(void)
{
	static const char begun[] = "begun\n";

	int fd = open(path(), O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, report, sizeof(report) - 1);

	assert_true(got >= 0);
	report[got] = '\0';
	if ((size_t)got >= sizeof(begun) - 1 &&
	    !memcmp(report, begun, sizeof(begun) - 1))
		memmove(report, report + sizeof(begun) - 1,
			(size_t)got - sizeof(begun) + 2);
	if (fd >= 0)
		close(fd);
	return report;
}

static int group_setup(void **state)
{
	(void)strcpy(uaio_check_directory, mkdtemp(dir) ? dir : "");
	uaio_check_load();
	return !*uaio_check_directory || unit_engine(state);
}

static int group_teardown(void **state)
{
	(void)state;
	uaio_check_directory[0] = '\0';
	return rmdir(dir);
}

static int setup(void **state)
{
	(void)state;
	(void)unlink(path());
	uaio_check_init();
	return !uaio_check_is_on();
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path());
	return 0;
}

static uint32_t submit(enum uaio_op op, void *at, uint64_t bytes)
{
	const struct uaio_sqe sqe = {
		.op = (uint8_t)op, .fd = 7, .buf = at, .len = bytes, .data = 9
	};

	return uaio_check_submit(&sqe, 0, false);
}

/*
 * If the program frees memory, the module reports this only if a request in flight uses
 * the memory.
 */
static void test_freed(void **state)
{
	static char memory[8192];
	uint32_t record;

	(void)state;
	record = submit(UAIO_OP_READ, memory + 100, 50);
	assert_false(uaio_check_may_have((uintptr_t)memory + 16384, 8));
	assert_false(uaio_check_memory_ends(UAIO_CHECK_FREED, (uintptr_t)memory,
					    100));
	assert_false(uaio_check_memory_ends(UAIO_CHECK_FREED,
					    (uintptr_t)memory + 150, 100));
	assert_string_equal(reported(), "");
	assert_true(uaio_check_memory_ends(UAIO_CHECK_FREED, (uintptr_t)memory,
					   8192));
	assert_non_null(strstr(reported(), "report\tfreed-in-flight\n"));
	assert_non_null(strstr(report, "bytes=50 fd=7 offset=0 user_data=0x9"));
	assert_non_null(strstr(report, "\nend\n"));
	uaio_check_complete(record, 50);
	assert_false(uaio_check_may_have((uintptr_t)memory, 8192));
	assert_false(uaio_check_memory_ends(UAIO_CHECK_FREED, (uintptr_t)memory,
					    8192));
}

static void test_once(void **state)
{
	static char memory[64];
	uint32_t record;
	size_t len;

	(void)state;
	record = submit(UAIO_OP_READ, memory, 64);
	assert_true(uaio_check_memory_ends(UAIO_CHECK_UNMAPPED,
					   (uintptr_t)memory, 64));
	len = strlen(reported());
	assert_non_null(strstr(report, "report\tunmapped-in-flight\n"));
	/*
	 * The program has unmapped the memory of the request. Memory that is mapped at
	 * this address later does not belong to the request, so the module reports
	 * nothing more.
	 */
	assert_false(uaio_check_memory_ends(UAIO_CHECK_UNMAPPED,
					    (uintptr_t)memory, 64));
	assert_int_equal(strlen(reported()), len);
	uaio_check_drop(record);
}

static void test_overlap(void **state)
{
	static char memory[4096];
	const struct uaio_sqe linked = {
		.op = UAIO_OP_READ, .fd = 1, .buf = memory, .len = 8
	};
	uint32_t first, second, third;

	(void)state;
	/*
	 * A linked request waits for the request before it. So no error is reported if
	 * its memory overlaps that of another request.
	 */
	first = uaio_check_submit(&linked, 0, true);
	uaio_check_drop(submit(UAIO_OP_WRITE, memory, 8));
	uaio_check_drop(first);
	first = submit(UAIO_OP_WRITE, memory, 4096);
	second = submit(UAIO_OP_WRITE, memory + 10, 10);
	third = uaio_check_submit(&linked, 0, true);
	assert_string_equal(reported(), "");
	uaio_check_drop(third);
	third = submit(UAIO_OP_READ, memory + 19, 1);
	assert_non_null(strstr(reported(), "report\toverlap-in-flight\n"));
	assert_non_null(strstr(report, "\nother\t"));
	uaio_check_drop(first);
	uaio_check_drop(second);
	uaio_check_drop(third);
}

static void test_changed(void **state)
{
	static char memory[5000];
	struct iovec iov[2] = { { memory, 1000 }, { memory + 3000, 1001 } };
	struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITEV, .fd = 1, .iov = iov, .len = 2
	};
	uint32_t record;

	(void)state;
	record = uaio_check_submit(&sqe, 0, false);
	memory[2000]++;
	uaio_check_complete(record, 2001);
	assert_string_equal(reported(), "");
	record = uaio_check_submit(&sqe, 0, false);
	memory[4000]++;
	uaio_check_complete(record, 2001);
	assert_non_null(strstr(reported(), "report\tchanged-in-flight\n"));
}

/*
 * The module also reports changed data of a POSIX AIO request, although the first piece
 * of memory of such a request is the aiocb.
 */
static void test_changed_of_aiocb(void **state)
{
	static struct aiocb aiocb;
	static char memory[64];
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITE,
		.fd = 1,
		.door = UAIO_RULES_OF_POSIX,
		.buf = memory,
		.len = 63,
		.data = (uintptr_t)&aiocb,
	};
	uint32_t record;

	(void)state;
	record = uaio_check_submit(&sqe, 0, false);
	memory[5]++;
	uaio_check_complete(record, 63);
	assert_non_null(strstr(reported(), "what\t63 bytes at "));
	assert_non_null(strstr(report, " bytes=63 fd=1 "));
	(void)unlink(path());
	record = uaio_check_submit(&sqe, 0, false);
	assert_true(uaio_check_memory_ends(UAIO_CHECK_FREED, (uintptr_t)&aiocb,
					   sizeof(aiocb)));
	assert_non_null(strstr(reported(), " in flight has its aiocb at 0x"));
	uaio_check_complete(record, 63);
}

static uint32_t begin(const struct uaio_sqe *sqe)
{
	uaio_check_aiocb(sqe->data);
	return uaio_check_submit(sqe, 0, false);
}

static void test_aiocb(void **state)
{
	static struct aiocb aiocb;
	static char memory[64];
	struct uaio_sqe sqe = {
		.op = UAIO_OP_READ,
		.fd = 1,
		.door = UAIO_RULES_OF_POSIX,
		.buf = memory,
		.len = 64,
		.data = (uintptr_t)&aiocb,
	};
	uint32_t record, again;

	(void)state;
	record = begin(&sqe);
	uaio_check_complete(record, 64);
	uaio_check_returned((uintptr_t)&aiocb);
	assert_string_equal(reported(), "");
	uaio_check_returned((uintptr_t)&aiocb);
	assert_non_null(strstr(reported(), "report\taio-return-twice\n"));
	record = begin(&sqe);
	assert_null(strstr(reported(), "report\taio-return-missing\n"));
	sqe.buf = NULL;
	again = begin(&sqe);
	assert_non_null(strstr(reported(), "report\taiocb-in-flight\n"));
	uaio_check_complete(record, 64);
	uaio_check_complete(again, 64);
	record = begin(&sqe);
	assert_non_null(strstr(reported(), "report\taio-return-missing\n"));
	uaio_check_drop(record);
	/*
	 * A refused request has no result, so the program need not call aio_return().
	 */
	uaio_check_aiocb_refused((uintptr_t)&aiocb);
	(void)unlink(path());
	uaio_check_drop(begin(&sqe));
	assert_string_equal(reported(), "");
	/*
	 * A child of fork() need not call aio_return() for the parent's requests.
	 */
	uaio_check_init();
	uaio_check_drop(begin(&sqe));
	assert_string_equal(reported(), "");
}

/*
 * The module knows whether the submitting call has returned, so that the library can
 * delay a completion until then.
 */
static void test_over(void **state)
{
	static char memory[64];
	uint32_t record;

	(void)state;
	record = submit(UAIO_OP_READ, memory, 64);
	assert_false(uaio_check_is_over(record));
	uaio_check_call_is_over();
	assert_true(uaio_check_is_over(record));
	uaio_check_drop(record);
	assert_int_equal(submit(UAIO_OP_NOP, memory, 64), 0);
	assert_int_equal(submit(UAIO_OP_READ, memory, 0), 0);
}

static bool is_any(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	(void)part;
	return true;
}

/*
 * The address index must find the same overlapping pieces of memory as a search through
 * all pieces.
 */
static void test_index(void **state)
{
	enum { PARTS = 200, LOOKS = 20000, ROOM = 1 << 22 };
	static struct uaio_check_part parts[PARTS];
	unsigned seed = 1;

	(void)state;
	for (unsigned i = 0; i < PARTS; i++) {
		parts[i].at = 4096 + (unsigned)rand_r(&seed) % ROOM;
		parts[i].bytes =
			1 + (unsigned)rand_r(&seed) % (i % 8 ? 9000u : 300000u);
		uaio_check_index_add(&parts[i]);
	}
	for (unsigned i = 0; i < LOOKS; i++) {
		uintptr_t at = 4096 + (unsigned)rand_r(&seed) % ROOM;
		size_t bytes =
			1 + (unsigned)rand_r(&seed) % (i % 8 ? 100u : 2000000u);
		bool has = false;

		if (i == LOOKS / 2)
			for (unsigned j = 0; j < PARTS; j += 2) {
				uaio_check_index_remove(&parts[j]);
				parts[j].bytes = 0;
			}
		for (unsigned j = 0; j < PARTS; j++)
			has |= parts[j].bytes && parts[j].at < at + bytes &&
			       at < parts[j].at + parts[j].bytes;
		assert_int_equal(
			uaio_check_index_find(at, bytes, is_any, NULL) != NULL,
			has);
		assert_true(!has || uaio_check_index_may_have(at, bytes));
	}
}

static struct uaio_check_buffer piece(const void *arg, unsigned i)
{
	return (struct uaio_check_buffer){ (uintptr_t)arg + 100 * i, 100 };
}

/*
 * The program frees a buffer's memory: this is reported when a request chooses the
 * buffer.
 */
static void test_provided(void **state)
{
	static char memory[1000];
	struct uaio_check_provided group = { .nr = 0 };
	struct uaio_check_ended ended = { .bytes = 0 };
	const struct uaio_sqe sqe = { .op = UAIO_OP_RECV, .data = 9 };
	const uintptr_t at = (uintptr_t)memory;

	(void)state;
	uaio_check_provide(&group, 6, piece, memory);
	assert_int_equal(group.nr, 6);
	/*
	 * No request has chosen any of these buffers. The program frees the second and
	 * the fourth, and remaps the third.
	 */
	assert_false(uaio_check_memory_ends(UAIO_CHECK_FREED, at + 199, 1));
	assert_true(uaio_check_may_have(at + 399, 1));
	assert_false(
		uaio_check_memory_ends(UAIO_CHECK_UNMAPPED, at + 200, 200));
	uaio_check_provided_used(&group, 1, &ended);
	assert_int_equal(ended.bytes, 0);
	uaio_check_provided_used(&group, 1, &ended);
	assert_int_equal(ended.at, at + 100);
	assert_int_equal(ended.bytes, 100);
	assert_int_equal(ended.end, UAIO_CHECK_FREED);
	assert_string_equal(reported(), "");
	uaio_check_say_chosen(&ended, &sqe);
	assert_non_null(strstr(reported(), "report\tprovided-freed\n"));
	assert_non_null(strstr(report, "has selected a provided buffer of 100 "
				       "bytes"));
	/*
	 * A request chooses a part of the third buffer. Its memory exists: no report.
	 */
	ended.bytes = 0;
	uaio_check_provided_begun(&group, at + 250, &ended);
	assert_int_equal(ended.bytes, 100);
	assert_int_equal(ended.end, UAIO_CHECK_UNMAPPED);
	(void)unlink(path());
	uaio_check_say_chosen(&ended, &sqe);
	assert_string_equal(reported(), "");
	/*
	 * The unused part of the third buffer is still provided; its used part belongs
	 * to the program again.
	 */
	ended.bytes = 0;
	uaio_check_provided_used(&group, 2, &ended);
	ended.bytes = 0;
	uaio_check_provided_begun(&group, at + 460, &ended);
	assert_false(uaio_check_memory_ends(UAIO_CHECK_FREED, at + 400, 60));
	uaio_check_provided_failed(&group, &ended);
	assert_int_equal(ended.bytes, 0);
	assert_false(uaio_check_memory_ends(UAIO_CHECK_FREED, at + 460, 1));
	uaio_check_provided_failed(&group, &ended);
	assert_int_equal(ended.bytes, 40);
	assert_int_equal(group.nr, 2);
	/*
	 * A request may also name the memory of a provided buffer directly; this is no
	 * error.
	 */
	uaio_check_complete(submit(UAIO_OP_READ, memory + 500, 100), 100);
	assert_string_equal(reported(), "");
	uaio_check_provided_end(&group);
	assert_int_equal(group.nr, 0);
	assert_false(uaio_check_may_have(at, sizeof(memory)));
}

/* If a group has more buffers than can be recorded, none of them is checked. */
static void test_many_provided(void **state)
{
	enum { MANY = 66000 };
	static char memory[8];
	struct uaio_check_provided few = { .nr = 0 }, many = { .nr = 0 };

	(void)state;
	uaio_check_provide(&few, 1, piece, memory);
	uaio_check_provide(&many, MANY, piece, memory);
	assert_true(many.has_too_many);
	assert_int_equal(many.nr, 0);
	uaio_check_provide(&many, 1, piece, memory);
	assert_int_equal(many.nr, 0);
	assert_int_equal(few.nr, 1);
	/* In a child of fork(), the module does not know the parent's buffers. */
	uaio_check_init();
	uaio_check_provide(&few, 1, piece, memory);
	assert_int_equal(few.nr, 1);
	uaio_check_provided_end(&few);
	assert_false(uaio_check_may_have((uintptr_t)memory, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_freed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_of_aiocb, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_aiocb, setup, teardown),
		cmocka_unit_test_setup_teardown(test_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index, setup, teardown),
		cmocka_unit_test_setup_teardown(test_provided, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_provided, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}

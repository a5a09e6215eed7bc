/* SPDX-License-Identifier: MIT */
/*
 * Tests which system calls the library makes if at first it could not read the number
 * of seccomp filters, because the kernel lacked memory or descriptors.
 */
#undef NDEBUG
#include "base/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/sys.h"
#include "unit.h"

enum { STATUS_FD = 12345 };

/*
 * Simulates /proc/thread-self/status of this process: what the kernel returns, and the
 * contents of the file.
 */
static struct {
	/* errors that the next open and read return; 0: they succeed */
	int open_error, read_error;
	/* all later opens and reads fail with the same error */
	bool stays;
	const char *text;
	bool is_read;
} status;

static long take(int *error)
{
	long res = *error;

	if (!status.stays)
		*error = 0;
	return res;
}

static bool answer(long nr, const long args[6], long *ret_res)
{
	const bool is_status = (int)args[0] == STATUS_FD;

	if (nr == SYS_openat) {
		*ret_res = take(&status.open_error);
		if (!*ret_res)
			*ret_res = STATUS_FD;
		status.is_read = false;
		return true;
	}
	*ret_res = 0;
	if (nr == SYS_close)
		return is_status;
	if (nr != SYS_read || !is_status)
		return false;
	*ret_res = take(&status.read_error);
	if (!*ret_res && !status.is_read) {
		*ret_res = (long)strlen(status.text);
		memcpy((void *)args[1], status.text, (size_t)*ret_res);
		status.is_read = true;
	}
	return true;
}

/*
 * Load the set of allowed calls.
 * Return: whether the library may make all calls.
 */
static bool load(void)
{
	uaio_calls_load(NULL);
	assert_true(uaio_may_call(UAIO_CALL_EPOLL_CTL));
	return uaio_may_call(UAIO_CALL_MEMFD) &&
	       uaio_may_call(UAIO_CALL_MPROTECT_EXEC);
}

static void begin(const char *text)
{
	status.text = text;
	unit_hook(answer);
}

#define NO_FILTER "Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n"
#define A_FILTER "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"

static int an_interrupted_call_is_made_again(void)
{
	begin(NO_FILTER);
	status.open_error = -EINTR;
	status.read_error = -EINTR;
	assert_true(load());
	return 0;
}

static int want_of_descriptors_ends(void)
{
	begin(NO_FILTER);
	status.open_error = -EMFILE;
	status.stays = true;
	assert_false(load());
	assert_false(load());
	status.open_error = 0;
	assert_true(load());
	/*
	 * Once the library knows the number of seccomp filters, it does not read the
	 * number again: a forbidden call stays forbidden.
	 */
	uaio_call_forbid(UAIO_CALL_MEMFD);
	assert_false(load());
	return 0;
}

static int want_of_memory_ends(void)
{
	begin(NO_FILTER);
	status.read_error = -ENOMEM;
	assert_false(load());
	assert_true(load());
	return 0;
}

static int a_filter_that_is_seen_late_counts(void)
{
	begin(A_FILTER);
	status.open_error = -ENFILE;
	assert_false(load());
	assert_false(load());
	assert_false(load());
	return 0;
}

static int a_filter_of_the_host_ends_the_doubt(void)
{
	begin(NO_FILTER);
	status.open_error = -EMFILE;
	assert_false(load());
	uaio_calls_filter(NULL);
	uaio_calls_load(NULL);
	for (unsigned i = 0; i < UAIO_NR_CALLS; i++)
		assert_false(uaio_may_call(i));
	return 0;
}

static int another_error_is_an_answer(void)
{
	begin(NO_FILTER);
	status.open_error = -EACCES;
	assert_false(load());
	assert_false(load());
	return 0;
}

#define CHILD_TEST(function)                                  \
	static void test_##function(void **state)             \
	{                                                     \
		(void)state;                                  \
		assert_int_equal(unit_in_child(function), 0); \
	}

CHILD_TEST(an_interrupted_call_is_made_again)
CHILD_TEST(want_of_descriptors_ends)
CHILD_TEST(want_of_memory_ends)
CHILD_TEST(a_filter_that_is_seen_late_counts)
CHILD_TEST(a_filter_of_the_host_ends_the_doubt)
CHILD_TEST(another_error_is_an_answer)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_interrupted_call_is_made_again),
		cmocka_unit_test(test_want_of_descriptors_ends),
		cmocka_unit_test(test_want_of_memory_ends),
		cmocka_unit_test(test_a_filter_that_is_seen_late_counts),
		cmocka_unit_test(test_a_filter_of_the_host_ends_the_doubt),
		cmocka_unit_test(test_another_error_is_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Tests children of fork() on a system that claims to wipe memory in a child, but does
 * not.
 */
#undef NDEBUG
#include <sys/mman.h>

#include "unit.h"

static unsigned nr_promised;

/* Let MADV_WIPEONFORK succeed without effect, as some emulators do. */
static bool promise(long nr, const long args[6], long *ret_res)
{
	if (nr != SYS_madvise || args[2] != MADV_WIPEONFORK)
		return false;
	nr_promised++;
	*ret_res = 0;
	return true;
}

static int load(void **state)
{
	int ret;

	unit_hook(promise);
	ret = unit_engine(state);
	unit_hook(NULL);
	return ret;
}

/* Return: 0, or the number of the failed step. */
static int start_again(void)
{
	if (uaio_engine_is_up())
		return 1;
	if (uaio_engine_start() < 0)
		return 2;
	return uaio_engine_is_ours() ? 0 : 3;
}

static void a_child_of_fork_has_a_library_of_its_own(void **state)
{
	(void)state;
	assert_true(nr_promised > 0);
	assert_true(uaio_engine_is_ours());
	assert_int_equal(unit_in_child(start_again), 0);
	assert_true(uaio_engine_is_ours());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_child_of_fork_has_a_library_of_its_own),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}

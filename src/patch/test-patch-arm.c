/* SPDX-License-Identifier: MIT */
/*
 * Tests which code of aarch64 the library patches: call sites of io_uring, but not code
 * that only looks like one.
 */
#undef NDEBUG
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "patch/decode.h"
#include "patch/find.h"
#include "patch/patch.h"
#include "unit.h"

/* A function with the arguments of a system call. */
typedef long place_fn(long, long, long, long, long, long);

place_fn adjacent_setup, adjacent_enter, adjacent_register, moved, kept, either,
	either_adjacent, by_table, without_table, without_table_called,
	general_registers, vector_registers, flags, float_flags, miss_below,
	miss_above, miss_register, miss_overwritten, miss_shifted, miss_no_call,
	get_data;

static const struct {
	place_fn *function;
	const char *name;
} misses[] = {
#define ROW(name)           \
	{                   \
		name, #name \
	}
	ROW(miss_below),       ROW(miss_above),   ROW(miss_register),
	ROW(miss_overwritten), ROW(miss_shifted), ROW(miss_no_call),
};

enum {
	NR_SITES = 13,
	CODE_BYTES = 16,
	ANSWER = 70000000,
	GETPID = 172,
};

static struct {
	unsigned nr; /* atomic */
	long call;
	long args[6];
	long ret;
} called;

static struct {
	/* how many call sites of test-places-arm.c were patched, and how many were not */
	size_t nr, nr_left;
	char last[256];
} reported;

/* Change all caller-saved registers, as the library's code may do. */
static void use_registers(void)
{
	__asm__ volatile(
		".irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
		"16, 17\n mov x\\n, #-1\n .endr\n"
		".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, "
		"23, 24, 25, 26, 27, 28, 29, 30, 31\n"
		"movi v\\n\\().16b, #255\n .endr\n"
		/*
		 * A function must preserve the lower half of v8 to v15, so change only
		 * the upper half.
		 */
		".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n"
		"ins v\\n\\().d[1], x1\n .endr\n"
		"msr nzcv, xzr\n msr fpsr, xzr\n" ::
			: "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9",
			  "x10", "x11", "x12", "x13", "x14", "x15", "x16",
			  "x17", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
			  "v16", "v17", "v18", "v19", "v20", "v21", "v22",
			  "v23", "v24", "v25", "v26", "v27", "v28", "v29",
			  "v30", "v31", "cc");
}

static long call(long nr, const long args[6])
{
	called.call = nr;
	memcpy(called.args, args, sizeof(called.args));
	use_registers();
	add_relaxed(&called.nr, 1);
	return called.ret;
}

static void report(const char *name, size_t nr, size_t nr_left)
{
	if (strstr(name, "patch-places")) {
		reported.nr = nr;
		reported.nr_left = nr_left;
	}
	snprintf(reported.last, sizeof(reported.last), "%s", name);
}

static const struct uaio_patch_ops ops = { .call = call, .report = report };

/* Tests that run before the library patches the code */

static uint8_t before[NR_ELEMENTS(misses)][CODE_BYTES];
static bool had_left, had_left_here;

/*
 * State of a thread that makes the call of adjacent_enter again and again. Until the
 * library patches that call site, the kernel executes the call; then call() does.
 */
static struct {
	pthread_t id;
	/* atomic: how many calls the kernel has executed */
	unsigned nr;
	/* a result that came neither from the kernel nor from call(); or 0 */
	long other;
} caller;

static void *call_until_ours(void *arg)
{
	long ret;

	while ((ret = adjacent_enter(-1, 0, 0, 0, 0, 0)) != ANSWER) {
		if (ret != -EBADF && ret != -ENOSYS && ret != -EPERM)
			caller.other = ret;
		add_relaxed(&caller.nr, 1);
	}
	return arg;
}

static int load(void **state)
{
	int ret = unit_engine(state);

	had_left = uaio_patch_has_left((const void *)adjacent_enter);
	had_left_here = uaio_patch_has_left(
		dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
	for (size_t i = 0; i < NR_ELEMENTS(misses); i++)
		memcpy(before[i], (const void *)misses[i].function, CODE_BYTES);
	uaio_patch_load(&ops);
	return ret;
}

static int load_beside_a_thread(void **state)
{
	int ret;

	called.ret = ANSWER;
	assert_int_equal(
		pthread_create(&caller.id, NULL, call_until_ours, NULL), 0);
	while (!load_relaxed(&caller.nr))
		sched_yield();
	ret = load(state);
	assert_int_equal(pthread_join(caller.id, NULL), 0);
	return ret;
}

static long make(place_fn *function, long ret)
{
	memset(&called, 0, sizeof(called));
	called.ret = ret;
	return function(1, 2, 3, 4, 5, 6);
}

static void each_place_calls_us_with_its_number(void **state)
{
	static const struct {
		place_fn *function;
		const char *name;
		long nr;
	} sites[] = {
#define SITE(name, nr) { name, #name, nr }
		SITE(adjacent_setup, 425),       SITE(adjacent_enter, 426),
		SITE(adjacent_register, 427),    SITE(kept, 426),
		SITE(either_adjacent, 426),      SITE(without_table, 426),
		SITE(without_table_called, 426),
	};
	const long args[6] = { 1, 2, 3, 4, 5, 6 };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(sites); i++) {
		if (make(sites[i].function, -EBADF) != -EBADF || !called.nr)
			fail_msg("%s was not changed", sites[i].name);
		assert_int_equal(make(sites[i].function, ANSWER), ANSWER);
		assert_int_equal(called.nr, 1);
		assert_int_equal(called.call, sites[i].nr);
		assert_memory_equal(called.args, args, sizeof(args));
	}
	memset(&called, 0, sizeof(called));
	assert_int_equal(by_table(0, 2, 3, 4, 5, 6), 0);
	assert_int_equal(called.nr, 1);
	assert_int_equal(reported.nr, NR_SITES);
}

static void what_is_between_is_executed_once(void **state)
{
	const long args[6] = { 2, 2, 0, 4, 5, 6 };

	(void)state;
	assert_int_equal(make(moved, ANSWER), ANSWER);
	assert_int_equal(called.nr, 1);
	assert_memory_equal(called.args, args, sizeof(args));
}

static void a_changed_place_makes_other_calls_of_the_kernel(void **state)
{
	(void)state;
	memset(&called, 0, sizeof(called));
	assert_int_equal(either_adjacent(0, 0, 0, 0, 0, 0), getpid());
	assert_int_equal(either(0, 0, 0, 0, 0, 0), getpid());
	assert_int_equal(called.nr, 0);
}

static void registers_and_flags_are_kept(void **state)
{
	(void)state;
	assert_int_equal(make(general_registers, ANSWER), 0);
	assert_int_equal(called.nr, 1);
	assert_int_equal(make(vector_registers, ANSWER), 0);
	assert_int_equal(called.nr, 1);
	for (long bits = 0; bits < 16; bits++)
		assert_int_equal(flags(bits << 28, 0, 0, 0, 0, 0), bits << 28);
	assert_int_equal(float_flags(0x9f, 0, 0, 0, 0, 0), 0x9f);
	assert_int_equal(called.nr, 18);
}

static void what_only_looks_like_it_stays(void **state)
{
	static const uint32_t data[] = { 0x52803548, 0xd4000001 };

	(void)state;
	for (size_t i = 0; i < NR_ELEMENTS(misses); i++)
		if (memcmp(before[i], (const void *)misses[i].function,
			   CODE_BYTES))
			fail_msg("%s was changed", misses[i].name);
	assert_int_equal(make(miss_register, 0), getpid());
	assert_int_equal(called.nr, 0);
	assert_memory_equal((const void *)get_data(0, 0, 0, 0, 0, 0), data,
			    sizeof(data));
	assert_int_equal(reported.nr_left, 1);
}

static void what_is_left_is_known(void **state)
{
	(void)state;
	assert_true(had_left);
	assert_false(had_left_here);
	assert_false(uaio_patch_has_left(
		dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
	/*
	 * The object that contains adjacent_enter also contains bytes that may be a
	 * call site or data.
	 */
	assert_true(uaio_patch_has_left((const void *)adjacent_enter));
}

static void a_thread_sees_the_old_call_or_the_new(void **state)
{
	(void)state;
	assert_true(caller.nr > 0);
	assert_int_equal(caller.other, 0);
}

/*
 * To find objects that are loaded later, the library patches a function of the loader
 * (patch.h, I1), but only if the process has one thread. Here the process has two, so
 * the object stays unpatched, and the library must know that.
 */
static void an_object_loaded_beside_a_thread_is_left_and_known(void **state)
{
	const long *at_start;
	void *module;

	(void)state;
	memset(&called, 0, sizeof(called));
	module = dlopen(PATCH_MODULE, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		fail_msg("%s", dlerror());
	at_start = dlsym(module, "module_at_start");
	assert_true(*at_start < 0);
	assert_int_equal(called.nr, 0);
	assert_true(uaio_patch_has_left(at_start));
	assert_int_equal(dlclose(module), 0);
}

static void an_object_is_changed_before_its_constructors_run(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		const long *at_start;
		void *module;

		memset(&called, 0, sizeof(called));
		called.ret = ANSWER;
		module = dlopen(PATCH_MODULE, RTLD_NOW | RTLD_LOCAL);
		if (!module)
			fail_msg("%s", dlerror());
		at_start = dlsym(module, "module_at_start");
		assert_int_equal(*at_start, ANSWER);
		assert_int_equal(called.call, 425);
		assert_int_equal(called.args[1], (long)at_start);
		assert_non_null(strstr(reported.last, "patch-module"));
		assert_false(uaio_patch_has_left(at_start));
		assert_int_equal(dlclose(module), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest beside_a_thread[] = {
		UNIT_TEST(each_place_calls_us_with_its_number),
		UNIT_TEST(a_thread_sees_the_old_call_or_the_new),
		UNIT_TEST(an_object_loaded_beside_a_thread_is_left_and_known),
	};
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_place_calls_us_with_its_number),
		UNIT_TEST(what_is_between_is_executed_once),
		UNIT_TEST(a_changed_place_makes_other_calls_of_the_kernel),
		UNIT_TEST(registers_and_flags_are_kept),
		UNIT_TEST(what_only_looks_like_it_stays),
		UNIT_TEST(what_is_left_is_known),
		UNIT_TEST(an_object_is_changed_before_its_constructors_run),
	};

	(void)argv;
	if (argc > 1)
		return cmocka_run_group_tests(beside_a_thread,
					      load_beside_a_thread, NULL);
	return cmocka_run_group_tests(tests, load, NULL);
}

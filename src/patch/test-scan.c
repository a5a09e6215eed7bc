/* SPDX-License-Identifier: MIT */
/*
 * Tests which system calls the scan finds in objects. The test loads and scans each
 * object, and compares the result with the calls that the object is known to contain.
 */
#undef NDEBUG
#include "patch/scan.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { NONE = -1, ANY = -2, NR_CALLS = 3 };

static const struct {
	/* a part of the name of the object's file */
	const char *name;
	int calls[NR_CALLS];
} objects[] = {
	{ "none", { NONE } },          { "inside", { NONE } },
	{ "adjacent", { 105, NONE } }, { "signed", { 105, NONE } },
	{ "zero", { 0, NONE } },       { "copied", { 39, 105, NONE } },
	{ "either", { ANY } },         { "lost", { ANY } },
	{ "argument", { ANY } },       { "behind-call", { ANY } },
	{ "by-table", { ANY } },       { "from-outside", { ANY } },
	{ "high", { ANY } },           { "32-bits", { ANY } },
	{ "sysenter", { ANY } },       { "unknown", { ANY } },
	{ "without-table", { ANY } },  { "bare-called", { ANY } },
	{ "bare-computed", { ANY } },  { "bare-pointed", { ANY } },
	{ "data", { NONE } },
};

static void path_of(const char *name, char ret_path[512])
{
	(void)snprintf(ret_path, 512, "%s/scan-%s.so", SCAN_MODULES, name);
}

static void *load(const char *name)
{
	char path[512];
	void *module;

	path_of(name, path);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		fail_msg("%s", dlerror());
	return module;
}

struct search {
	const char *path;
	struct uaio_own_calls calls;
	bool is_found;
};

static int scan(struct dl_phdr_info *object, size_t bytes, void *data)
{
	struct search *search = data;

	(void)bytes;
	if (strcmp(object->dlpi_name, search->path))
		return 0;
	uaio_scan_object(object, &search->calls);
	search->is_found = true;
	return 1;
}

static void expect(size_t row, const struct uaio_own_calls *calls)
{
	const int *expected = objects[row].calls;
	uint64_t words[UAIO_OWN_CALLS_MAX / 64] = { 0 };

	if (calls->has_any != (expected[0] == ANY))
		fail_msg("%s: any %d", objects[row].name, calls->has_any);
	if (expected[0] == ANY)
		return;
	for (; *expected != NONE; expected++)
		words[*expected / 64] |= 1ul << *expected % 64;
	if (memcmp(words, calls->words, sizeof(words)))
		fail_msg("%s: other calls", objects[row].name);
}

static void the_calls_of_an_object_are_those_of_its_instructions(void **state)
{
	(void)state;
	for (size_t row = 0; row < NR_ELEMENTS(objects); row++) {
		struct search search = { 0 };
		char path[512];
		void *module;

		path_of(objects[row].name, path);
		search.path = path;
		module = load(objects[row].name);
		(void)dl_iterate_phdr(scan, &search);
		assert_true(search.is_found);
		expect(row, &search.calls);
		assert_int_equal(dlclose(module), 0);
	}
}

static bool may_call(uint32_t nr)
{
	const struct uaio_numbers numbers[] = { { 600, 601 }, { nr, nr } };

	return uaio_patch_may_call(numbers, NR_ELEMENTS(numbers));
}

/*
 * At first only this test program is loaded. Apart from the C library, its only syscall
 * instructions are those of the library under test, which is linked into it.
 */
static void objects_that_are_loaded_later_are_scanned(void **state)
{
	void *module;

	(void)state;
	assert_false(may_call(105));
	assert_false(may_call(106));
	module = load("inside");
	assert_false(may_call(105));
	assert_int_equal(dlclose(module), 0);

	module = load("adjacent");
	assert_true(may_call(105));
	assert_false(may_call(106));
	/*
	 * The result must stay after dlclose(): before that, a thread may have made
	 * system call 105 in the object.
	 */
	assert_int_equal(dlclose(module), 0);
	assert_true(may_call(105));

	/*
	 * The loader may map this object at the address of the object that was
	 * unloaded.
	 */
	module = load("argument");
	assert_true(may_call(106));
	assert_int_equal(dlclose(module), 0);
	assert_true(may_call(106));
}

static bool may_call_alone(uint32_t nr)
{
	const struct uaio_numbers numbers[] = { { nr, nr } };

	return uaio_patch_may_call_alone(dlsym(RTLD_DEFAULT, "_r_debug"),
					 numbers, NR_ELEMENTS(numbers));
}

static int ask_alone(void)
{
	struct r_debug changing =
		*(struct r_debug *)dlsym(RTLD_DEFAULT, "_r_debug");
	const struct uaio_numbers numbers[] = { { 107, 107 } };

	assert_false(may_call_alone(105));
	(void)load("inside");
	assert_false(may_call_alone(105));
	(void)load("adjacent");
	assert_true(may_call_alone(105));
	assert_false(may_call_alone(107));

	changing.r_state = RT_ADD;
	assert_true(uaio_patch_may_call_alone(&changing, numbers, 1));
	assert_true(uaio_patch_may_call_alone(NULL, numbers, 1));
	(void)load("argument");
	assert_true(may_call_alone(107));
	return 0;
}

/* This test runs first, so that no scan has been made before. */
static void a_child_reads_the_list_of_objects_without_the_lock(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(ask_alone), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_child_reads_the_list_of_objects_without_the_lock),
		UNIT_TEST(objects_that_are_loaded_later_are_scanned),
		UNIT_TEST(the_calls_of_an_object_are_those_of_its_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

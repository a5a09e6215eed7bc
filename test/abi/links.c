/* SPDX-License-Identifier: MIT */
/*
 * links: opens libaio.so.1, libaio.so.1t64 and libuaio.so.0. All three names lead to
 * uaio's library, so the dynamic linker must load one library with one state.
 */
#undef NDEBUG
#include <assert.h>
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <stdio.h>

#include "uaio.h"

static void *open_library(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	assert(handle);
	return handle;
}

static uint64_t nr_contexts(void *handle)
{
	int (*get)(struct uaio_counters *) = dlsym(handle, "uaio_get_counters");
	struct uaio_counters counters;

	assert(get && get(&counters) == 0);
	return counters.nr_contexts;
}

/*
 * Look up functions by name and symbol version, as programs that are linked with libaio
 * do.
 */
static void check_versions(void *handle)
{
	static const char *const names[][2] = {
		{ "io_submit", "LIBAIO_0.1" },
		{ "io_queue_init", "LIBAIO_0.1" },
		{ "io_queue_run", "LIBAIO_0.1" },
		{ "io_queue_release", "LIBAIO_0.1" },
		{ "io_setup", "LIBAIO_0.4" },
		{ "io_destroy", "LIBAIO_0.4" },
		{ "io_pgetevents", "LIBAIO_0.5" },
	};
	static const char *const twice[] = {
		"io_cancel",
		"io_getevents",
		"io_queue_wait",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert(dlvsym(handle, names[i][0], names[i][1]));
	for (size_t i = 0; i < sizeof(twice) / sizeof(twice[0]); i++) {
		void *old = dlvsym(handle, twice[i], "LIBAIO_0.1");
		void *new = dlvsym(handle, twice[i], "LIBAIO_0.4");

		assert(old && new &&old != new);
		assert(dlsym(handle, twice[i]) == new);
	}
}

int main(void)
{
	void *first = open_library("libaio.so.1");
	void *second = open_library("libaio.so.1t64");
	void *third = open_library("libuaio.so.0");
	int (*setup)(int, aio_context_t *) = dlsym(first, "io_setup");
	int (*destroy)(aio_context_t) = dlsym(second, "io_destroy");
	aio_context_t ctx = 0;

	assert(first == second && second == third);
	assert(nr_contexts(first) == 0);
	assert(setup(4, &ctx) == 0);
	assert(nr_contexts(first) == 1 && nr_contexts(second) == 1);
	assert(nr_contexts(third) == 1);
	/*
	 * After every dlclose() the library must still be loaded, because its threads
	 * may be running.
	 */
	check_versions(first);
	assert(dlclose(third) == 0 && dlclose(second) == 0);
	assert(dlclose(first) == 0);
	assert(destroy(ctx) == 0);
	printf("one engine\n");
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * What glibc's tests of POSIX AIO need (tools/fetch-glibc): a main function, which
 * calls the test's own, and a directory for files. The tests include this file.
 */
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static const char *test_dir __attribute__((unused)) = ".";
static const char *temp_file;

__attribute__((unused)) static void *xmalloc(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory)
		abort();
	return memory;
}

static void remove_temp_file(void)
{
	unlink(temp_file);
}

__attribute__((unused)) static void add_temp_file(const char *name)
{
	temp_file = name;
	atexit(remove_temp_file);
}

int main(int argc, char **argv)
{
#ifdef PREPARE
	PREPARE(argc, argv);
#endif
#ifdef TEST_FUNCTION
	return TEST_FUNCTION;
#else
	return do_test(argc, argv);
#endif
}

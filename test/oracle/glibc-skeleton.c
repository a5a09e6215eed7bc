/* SPDX-License-Identifier: MIT */
/*
 * The tests of POSIX AIO from glibc (tools/fetch-glibc) include this file. It defines
 * what they need: a main function, which calls the test's own main function, and a
 * directory for their files.
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

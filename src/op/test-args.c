/* SPDX-License-Identifier: MIT */
/*
 * Tests that the library measures strings as the kernel does, and that a copy of the
 * arguments stays valid when the client changes its memory after the submission.
 */
#undef NDEBUG
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/uaddr.h"
#include "test-call.h"

#define PAGE uaio_page_bytes()

/*
 * Return: the address at which readable memory ends. The page at this address cannot be
 * read.
 */
static char *edge(void)
{
	char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	assert_int_equal(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE), 0);
	memset(memory, 'a', 2 * PAGE);
	return memory + 2 * PAGE;
}

static void drop_edge(char *end)
{
	assert_int_equal(munmap(end - 2 * PAGE, 3 * PAGE), 0);
}

static void no_byte_after_the_end_of_a_string_is_read(void **state)
{
	char *end = edge();
	uint32_t bytes;

	(void)state;
	end[-1] = '\0';
	for (uint32_t i = 2; i < PATH_MAX; i += 7) {
		assert_int_equal(uaio_path_measure(end - i, false, &bytes), 0);
		assert_int_equal(bytes, i);
	}
	assert_int_equal(uaio_path_measure(end - PATH_MAX, false, &bytes), 0);
	assert_int_equal(uaio_path_measure(end - PATH_MAX - 1, false, &bytes),
			 -ENAMETOOLONG);
	assert_int_equal(uaio_path_measure(end - 1, false, &bytes), -ENOENT);
	assert_int_equal(uaio_path_measure(end - 1, true, &bytes), 0);
	assert_int_equal(bytes, 1);
	assert_int_equal(uaio_name_measure(end - 256, &bytes), 0);
	assert_int_equal(bytes, 256);
	assert_int_equal(uaio_name_measure(end - 257, &bytes), -ERANGE);
	assert_int_equal(uaio_name_measure(end - 1, &bytes), -ERANGE);
	drop_edge(end);
}

static void unreadable_memory_is_refused(void **state)
{
	const char *const kernels = (const char *)(UINTPTR_MAX / 4 * 3);
	char *end = edge();
	uint32_t bytes;

	(void)state;
	assert_int_equal(uaio_path_measure(NULL, false, &bytes), -EFAULT);
	assert_int_equal(uaio_path_measure(kernels, false, &bytes), -EFAULT);
	assert_int_equal(uaio_name_measure(NULL, &bytes), -EFAULT);
	assert_true(uaio_args_can_read(NULL, 0));
	assert_false(uaio_args_can_read(NULL, 1));
	assert_int_equal(uaio_path_measure(end - 9, false, &bytes), -EFAULT);
	assert_int_equal(uaio_path_measure(end, false, &bytes), -EFAULT);
	assert_false(uaio_args_can_read(end - 1, 2));
	drop_edge(end);
}

/*
 * The client overwrites the terminating 0 of a string, after the library has measured
 * the string and before it copies the string.
 */
static void a_copied_string_ends_even_if_its_client_changes_it(void **state)
{
	char path[] = "path", name[] = "name";
	struct uaio_args args = { .path = path,
				  .name = name,
				  .in = "in",
				  .in_bytes = 2 },
			 *copy;
	const struct uaio_sqe sqe = { .op = UAIO_OP_RENAMEAT, .args = &args };
	size_t bytes;

	(void)state;
	assert_int_equal(uaio_optab[sqe.op].prep(&sqe, NULL), 0);
	path[4] = name[4] = '!';
	bytes = uaio_sqe_copied_bytes(&sqe);
	assert_int_equal(bytes, sizeof(args) + 2 + 5 + 5);
	copy = malloc(bytes);
	uaio_args_copy(&args, copy);
	assert_string_equal(copy->path, "path");
	assert_string_equal(copy->name, "name");
	assert_memory_equal(copy->in, "in", 2);
	assert_ptr_equal((char *)copy + bytes, copy->name + 5);
	free(copy);
}

/*
 * Return: a path of `length` bytes: "./" repeated, then the file's name. The name has two
 * letters, and the length is even.
 */
static char *path_to(const char *name, unsigned length)
{
	char *path = malloc(length + 1);

	assert_non_null(path);
	for (unsigned i = 0; i < length; i += 2)
		memcpy(path + i, i + 2 < length ? "./" : name, 2);
	path[length] = '\0';
	return path;
}

/*
 * With these lengths, the copies of both paths need small and large memory
 * (flow/copy.c).
 */
static void paths_outlive_the_submitting_call(void **state)
{
	static const unsigned lengths[] = { 2, 400, 1000, 4094 };
	uint64_t handle = unit_context(NR_ELEMENTS(lengths));

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(lengths); i++) {
		char names[2][8], *from, *to;
		struct uaio_args args;
		const struct uaio_sqe sqe = { .op = UAIO_OP_RENAMEAT,
					      .is_async = true,
					      .fd = dir,
					      .args = &args };

		snprintf(names[0], sizeof(names[0]), "f%u", i);
		snprintf(names[1], sizeof(names[1]), "t%u", i);
		unit_close(named_file(names[0]));
		from = path_to(names[0], lengths[i]);
		to = path_to(names[1], lengths[i]);
		args = (struct uaio_args){ .path = from,
					   .name = to,
					   .fd = dir };
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		memset(&args, 0xff, sizeof(args));
		memset(from, '?', strlen(from));
		memset(to, '?', strlen(to));
		free(from);
		free(to);
	}
	for (unsigned i = 0; i < NR_ELEMENTS(lengths); i++)
		assert_int_equal(unit_reap_one(handle), 0);
	for (unsigned i = 0; i < NR_ELEMENTS(lengths); i++) {
		char name[8];

		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(unlinkat(dir, name, 0), 0);
	}
	unit_destroy(handle);
}

/*
 * The file system may refuse an attribute's value of the largest size. So compare with
 * the result of fsetxattr().
 */
static void a_value_outlives_the_submitting_call(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 900, 2000, 65536, 65537 };
	static char value[65537], got[65537];
	int fd = named_file("name");

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++) {
		struct uaio_args args = { .name = "user.a",
					  .in = value,
					  .in_bytes = sizes[i] };
		const struct uaio_sqe sqe = { .op = UAIO_OP_FSETXATTR,
					      .is_async = true,
					      .fd = fd,
					      .args = &args };
		uint64_t handle = unit_context(1);
		int64_t expected, res;

		memset(value, 'a' + (int)i, sizeof(value));
		expected = fsetxattr(fd, "user.b", value, sizes[i], 0) ? -errno
								       : 0;
		(void)fremovexattr(fd, "user.b");
		res = unit_submit_sqe(handle, &sqe);
		memset(value, 0, sizeof(value));
		if (res == 0)
			res = unit_reap_one(handle);
		assert_int_equal(res, expected);
		if (res == 0) {
			assert_int_equal(
				fgetxattr(fd, "user.a", got, sizeof(got)),
				sizes[i]);
			for (unsigned j = 0; j < sizes[i]; j++)
				assert_int_equal(got[j], 'a' + i);
		}
		unit_destroy(handle);
	}
	assert_int_equal(unlinkat(dir, "name", 0), 0);
	unit_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(no_byte_after_the_end_of_a_string_is_read),
		UNIT_TEST(unreadable_memory_is_refused),
		UNIT_TEST(a_copied_string_ends_even_if_its_client_changes_it),
		UNIT_TEST(paths_outlive_the_submitting_call),
		UNIT_TEST(a_value_outlives_the_submitting_call),
	};

	return cmocka_run_group_tests_name("args", tests, make_directory,
					   remove_directory);
}

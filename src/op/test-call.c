/* SPDX-License-Identifier: MIT */
/*
 * Tests that requests on files, paths, attributes and descriptors have the same effects as
 * the corresponding system calls.
 */
#undef NDEBUG
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "test-call.h"

enum { PAGE = 4096 };

static int64_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

/* Open files */

static struct uaio_sqe on_file(enum uaio_op op, int fd, int64_t off,
			       uint64_t len, uint32_t flags)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = fd,
		.call_flags = flags,
		.off = off,
		.len = len,
	};
}

static int64_t make_on_file(enum uaio_op op, int fd, int64_t off, uint64_t len,
			    uint32_t flags, enum way way)
{
	return make(on_file(op, fd, off, len, flags), NO_ARGS, way);
}

static void a_file_gets_space_and_another_size(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * NR_WAYS; i++) {
		enum way way = i % NR_WAYS;
		int fd = unit_file(i / NR_WAYS), read_only;
		char path[64];

		assert_int_equal(
			make_on_file(UAIO_OP_FALLOCATE, fd, PAGE, PAGE, 0, way),
			0);
		assert_int_equal(size_of(fd), 2 * PAGE);
		assert_int_equal(make_on_file(UAIO_OP_FALLOCATE, fd, 0,
					      4 * PAGE, FALLOC_FL_KEEP_SIZE,
					      way),
				 0);
		assert_int_equal(size_of(fd), 2 * PAGE);
		assert_int_equal(
			make_on_file(UAIO_OP_FTRUNCATE, fd, 7, 0, 0, way), 0);
		assert_int_equal(size_of(fd), 7);
		assert_int_equal(
			make_on_file(UAIO_OP_FTRUNCATE, fd, -5, 0, 0, way),
			-EINVAL);
		assert_int_equal(
			make_on_file(UAIO_OP_FALLOCATE, fd, 0, 0, 0, way),
			-EINVAL);
		assert_int_equal(make_on_file(UAIO_OP_FALLOCATE, fd, 0, PAGE,
					      0x4000, way),
				 -EOPNOTSUPP);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		read_only = open(path, O_RDONLY | O_CLOEXEC);
		assert_int_equal(make_on_file(UAIO_OP_FALLOCATE, read_only, 0,
					      PAGE, 0, way),
				 -EBADF);
		assert_int_equal(make_on_file(UAIO_OP_FTRUNCATE, read_only, 0,
					      0, 0, way),
				 -EINVAL);
		unit_close(read_only);
		unit_close(fd);
	}
}

static void part_of_a_file_is_synced_and_advised_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * NR_WAYS; i++) {
		enum way way = i % NR_WAYS;
		int fd = unit_numbered_file(i / NR_WAYS, 4);

		assert_int_equal(make_on_file(UAIO_OP_SYNC_FILE_RANGE, fd, 0,
					      UNIT_KEY_BYTES, 7, way),
				 0);
		assert_int_equal(make_on_file(UAIO_OP_SYNC_FILE_RANGE, fd, 0,
					      UNIT_KEY_BYTES, 8, way),
				 -EINVAL);
		for (unsigned advice = 0; advice < 6; advice++)
			assert_int_equal(make_on_file(UAIO_OP_FADVISE, fd, 0, 0,
						      advice, way),
					 0);
		assert_int_equal(
			make_on_file(UAIO_OP_FADVISE, fd, 0, 0, 33, way),
			-EINVAL);
		unit_close(fd);
	}
}

static void a_pipe_has_neither_size_nor_ranges(void **state)
{
	static const struct {
		enum uaio_op op;
		int error;
	} rows[] = {
		{ UAIO_OP_FALLOCATE, -ESPIPE },
		{ UAIO_OP_FTRUNCATE, -EINVAL },
		{ UAIO_OP_SYNC_FILE_RANGE, -ESPIPE },
		{ UAIO_OP_FADVISE, -ESPIPE },
	};
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; i < NR_WAYS * NR_ELEMENTS(rows); i++)
		assert_int_equal(make_on_file(rows[i / NR_WAYS].op, ends[1], 0,
					      PAGE, 0, i % NR_WAYS),
				 rows[i / NR_WAYS].error);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void memory_is_advised_on(void **state)
{
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uaio_sqe sqe = { .op = UAIO_OP_MADVISE,
				.buf = memory,
				.len = PAGE,
				.call_flags = MADV_DONTNEED };

	(void)state;
	assert_true(memory != MAP_FAILED);
	for (enum way way = 0; way < NR_WAYS; way++) {
		*memory = 'x';
		assert_int_equal(make(sqe, NO_ARGS, way), 0);
		assert_int_equal(*memory, 0);
	}
	sqe.call_flags = 77;
	assert_int_equal(make(sqe, NO_ARGS, AS_IT_LIKES), -EINVAL);
	assert_int_equal(munmap(memory, PAGE), 0);
	sqe.call_flags = MADV_NORMAL;
	assert_int_equal(make(sqe, NO_ARGS, AS_IT_LIKES), -ENOMEM);
}

/* Paths */

static struct uaio_sqe on_dir(enum uaio_op op, uint32_t flags)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = dir,
		.call_flags = flags,
	};
}

static int64_t make_on_paths(enum uaio_op op, const char *from, const char *to,
			     uint32_t flags, enum way way)
{
	const struct uaio_args args = { .path = from, .name = to, .fd = dir };

	return make(on_dir(op, flags), args, way);
}

static bool exists(const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void names_are_made_and_removed(void **state)
{
	(void)state;
	for (enum way way = 0; way < NR_WAYS; way++) {
		struct uaio_sqe sqe = on_path(UAIO_OP_MKDIRAT, "folder", 0);
		struct stat st;

		sqe.mode = 0700;
		assert_int_equal(make(sqe, NO_ARGS, way), 0);
		assert_int_equal(make(sqe, NO_ARGS, way), -EEXIST);
		assert_int_equal(fstatat(dir, "folder", &st, 0), 0);
		assert_int_equal(st.st_mode & 0777, 0700);
		assert_int_equal(make_on_paths(UAIO_OP_SYMLINKAT, "folder",
					       "link", 0, way),
				 0);
		assert_int_equal(make_on_paths(UAIO_OP_SYMLINKAT, "folder",
					       "link", 0, way),
				 -EEXIST);
		assert_int_equal(
			make_on_paths(UAIO_OP_LINKAT, "link", "other", 0, way),
			0);
		assert_int_equal(
			make_on_paths(UAIO_OP_LINKAT, "none", "more", 0, way),
			-ENOENT);
		assert_int_equal(
			make_on_paths(UAIO_OP_RENAMEAT, "link", "new", 0, way),
			0);
		assert_int_equal(make_on_paths(UAIO_OP_RENAMEAT, "new", "other",
					       1 /* NOREPLACE */, way),
				 -EEXIST);
		assert_false(exists("link"));
		assert_true(exists("new") && exists("other"));
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(make(on_path(UAIO_OP_UNLINKAT,
						      i ? "new" : "other", 0),
					      NO_ARGS, way),
					 0);
		assert_int_equal(make(on_path(UAIO_OP_UNLINKAT, "folder", 0),
				      NO_ARGS, way),
				 -EISDIR);
		assert_int_equal(
			make(on_path(UAIO_OP_UNLINKAT, "folder", AT_REMOVEDIR),
			     NO_ARGS, way),
			0);
		assert_false(exists("folder"));
	}
}

static void statx_reports_the_file_of_a_path(void **state)
{
	int fd = named_file("name");

	(void)state;
	assert_int_equal(ftruncate(fd, 1234), 0);
	for (enum way way = 0; way < NR_WAYS; way++) {
		struct statx st = { 0 };
		struct uaio_args args = { .path = "name",
					  .what = STATX_SIZE,
					  .out = &st };
		struct uaio_sqe sqe = on_dir(UAIO_OP_STATX, 0);

		assert_int_equal(make(sqe, args, way), 0);
		assert_int_equal(st.stx_size, 1234);
		args.path = "none";
		assert_int_equal(make(sqe, args, way), -ENOENT);
		args.path = "";
		assert_int_equal(make(sqe, args, way), -ENOENT);
		sqe.fd = fd;
		sqe.call_flags = AT_EMPTY_PATH;
		st.stx_size = 0;
		assert_int_equal(make(sqe, args, way), 0);
		assert_int_equal(st.stx_size, 1234);
		sqe.call_flags = 1;
		args.path = "name";
		assert_int_equal(make(sqe, args, way), -EINVAL);
		sqe.call_flags = 0;
		args.out = (void *)8;
		sqe.fd = dir;
		assert_int_equal(make(sqe, args, way), -EFAULT);
	}
	assert_int_equal(unlinkat(dir, "name", 0), 0);
	unit_close(fd);
}

static void a_file_is_opened_as_requested(void **state)
{
	(void)state;
	for (enum way way = 0; way < NR_WAYS; way++) {
		struct open_how how = { .flags = O_CREAT | O_RDWR | O_CLOEXEC,
					.mode = 0600 };
		struct uaio_args args = { .path = "name",
					  .in = &how,
					  .in_bytes = sizeof(how) };
		const struct uaio_sqe sqe = on_dir(UAIO_OP_OPENAT2, 0);
		int64_t fd = make(sqe, args, way);

		assert_true(fd >= 0);
		unit_close((int)fd);
		how = (struct open_how){ .flags = O_RDONLY | O_CLOEXEC };
		fd = make(sqe, args, way);
		assert_true(fd >= 0);
		unit_close((int)fd);
		/* If the client itself sets RESOLVE_CACHED, it gets EAGAIN. */
		how.flags = O_RDWR | O_CREAT;
		how.resolve = RESOLVE_CACHED;
		assert_int_equal(make(sqe, args, way), -EAGAIN);
		how = (struct open_how){ .flags = O_RDONLY,
					 .resolve = RESOLVE_BENEATH };
		args.path = "../name";
		assert_int_equal(make(sqe, args, way), -EXDEV);
		args.path = "name";
		how.mode = 0600;
		assert_int_equal(make(sqe, args, way), -EINVAL);
		how = (struct open_how){ .flags = UINT64_C(1) << 40 };
		assert_int_equal(make(sqe, args, way), -EINVAL);
		assert_int_equal(unlinkat(dir, "name", 0), 0);
	}
}

/* Attributes */

static struct uaio_args attribute(const char *name, const char *value)
{
	return (struct uaio_args){
		.path = name ? NULL : "",
		.name = name,
		.in = value,
		.in_bytes = value ? (uint32_t)strlen(value) : 0,
	};
}

static void a_file_has_attributes(void **state)
{
	int fd = named_file("name");
	char path[PATH_MAX], got[16];

	(void)state;
	snprintf(path, sizeof(path), "%s/name", directory);
	for (unsigned i = 0; i < 2 * NR_WAYS; i++) {
		enum way way = i % NR_WAYS;
		bool by_path = i / NR_WAYS;
		struct uaio_sqe set = { .op = by_path ? UAIO_OP_SETXATTR
						      : UAIO_OP_FSETXATTR,
					.fd = fd };
		struct uaio_sqe get = { .op = by_path ? UAIO_OP_GETXATTR
						      : UAIO_OP_FGETXATTR,
					.fd = fd };
		struct uaio_args args = attribute("user.a", "value");

		args.path = by_path ? path : NULL;
		assert_int_equal(make(set, args, way), 0);
		set.call_flags = XATTR_CREATE;
		assert_int_equal(make(set, args, way), -EEXIST);
		args.out = got;
		args.out_bytes = sizeof(got);
		args.in_bytes = 0;
		assert_int_equal(make(get, args, way), 5);
		assert_memory_equal(got, "value", 5);
		args.out_bytes = 0;
		assert_int_equal(make(get, args, way), 5);
		args.out_bytes = 1;
		assert_int_equal(make(get, args, way), -ERANGE);
		args.name = "user.none";
		args.out_bytes = sizeof(got);
		assert_int_equal(make(get, args, way), -ENODATA);
		args.out = (void *)8;
		args.name = "user.a";
		assert_int_equal(make(get, args, way), -EFAULT);
		if (by_path) {
			args.path = "none";
			assert_int_equal(make(get, args, way), -ENOENT);
		}
		assert_int_equal(fremovexattr(fd, "user.a"), 0);
	}
	assert_int_equal(unlinkat(dir, "name", 0), 0);
	unit_close(fd);
}

/* Descriptors */

static void a_file_is_added_to_an_epoll_at_once(void **state)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 }, got;
	struct uaio_sqe sqe = { .op = UAIO_OP_EPOLL_CTL };
	struct uaio_args args = { .in = &event, .what = EPOLL_CTL_ADD };
	uint64_t nr_inline = unit_nr_inline();
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	sqe.fd = epoll_create1(EPOLL_CLOEXEC);
	args.fd = ends[0];
	assert_int_equal(write(ends[1], "a", 1), 1);
	for (enum way way = 0; way < NR_WAYS; way++) {
		args.what = EPOLL_CTL_ADD;
		assert_int_equal(make(sqe, args, way), 0);
		assert_int_equal(make(sqe, args, way), -EEXIST);
		assert_int_equal(epoll_wait(sqe.fd, &got, 1, 0), 1);
		assert_int_equal(got.data.u32, 7);
		args.in = (void *)8;
		assert_int_equal(make(sqe, args, way), -EFAULT);
		args.what = EPOLL_CTL_DEL;
		assert_int_equal(make(sqe, args, way), 0);
		assert_int_equal(epoll_wait(sqe.fd, &got, 1, 0), 0);
		args.in = &event;
	}
	assert_int_equal(unit_nr_inline() - nr_inline, 3);
	unit_close(sqe.fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_file_gets_space_and_another_size),
		UNIT_TEST(part_of_a_file_is_synced_and_advised_on),
		UNIT_TEST(a_pipe_has_neither_size_nor_ranges),
		UNIT_TEST(memory_is_advised_on),
		UNIT_TEST(names_are_made_and_removed),
		UNIT_TEST(statx_reports_the_file_of_a_path),
		UNIT_TEST(a_file_is_opened_as_requested),
		UNIT_TEST(a_file_has_attributes),
		UNIT_TEST(a_file_is_added_to_an_epoll_at_once),
	};

	return cmocka_run_group_tests_name("call", tests, make_directory,
					   remove_directory);
}

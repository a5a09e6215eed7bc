/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options/config.h"
#include "req/stats.h"
#include "unit.h"

/*
 * If the condition is false, return this line's number. Each process has only one page
 * of counts, so the functions that use this macro run in a child of their own.
 */
#define CHECK(condition)                 \
	do                               \
		if (!(condition))        \
			return __LINE__; \
	while (0)

/* Skip the test unless the user is root, as mounting needs root. */
static void need_root(void)
{
	if (geteuid())
		skip();
}

/* Mount a tmpfs at /dev/shm that only this test sees. */
static int enter_own_memory(const char *options)
{
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("none", "/dev/shm", "tmpfs", 0, options) == 0);
	CHECK(uaio_engine_start() == 0);
	return 0;
}

static const char *path_of(unsigned number)
{
	static char path[64];

	(void)snprintf(path, sizeof(path), UAIO_LIVE_DIRECTORY "%u/%u",
		       getuid(), number % UAIO_LIVE_SLOTS);
	return path;
}

static const char *own_path(void)
{
	return path_of((unsigned)getpid());
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

/*
 * Return: the page of counts in the file `path`, mapped as another process would map
 * it; NULL: there is none.
 */
static const struct uaio_live_page *look(const char *path)
{
	int fd = open(path, O_RDONLY);
	void *page;

	if (fd < 0)
		return NULL;
	page = mmap(NULL, UAIO_LIVE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return page == MAP_FAILED ? NULL : page;
}

static int shows_what_is_counted(void)
{
	const struct uaio_live_page *seen;
	const struct uaio_live_block *block;
	struct uaio_live_block *mine;
	struct stat st;

	uaio_config.has_live = true;
	CHECK(enter_own_memory("") == 0);
	seen = look(own_path());
	CHECK(seen && uaio_live_is_ready(seen));
	CHECK(!memcmp(seen->identity.magic, UAIO_LIVE_MAGIC, 8));
	CHECK(seen->identity.pid == getpid());
	CHECK(!strcmp(seen->names.ops[UAIO_OP_READV], "preadv"));
	CHECK(seen->identity.nr_ops == UAIO_NR_OPS);
	CHECK(stat(own_path(), &st) == 0 && (st.st_mode & 07777) == 0600);
	mine = uaio_stats_mine();
	uaio_stats_add(mine, &mine->nr_accepted[UAIO_OP_NOP][0], 7);
	block = (const void *)((const char *)seen + UAIO_LIVE_BLOCKS_AT);
	CHECK(block->pid == getpid() && block->owner == gettid());
	CHECK(block->nr_accepted[UAIO_OP_NOP][0] == 7);
	uaio_live_set_state(UAIO_LIVE_LEAVING);
	CHECK(seen->identity.state == UAIO_LIVE_LEAVING);
	uaio_live_remove();
	CHECK(!is_there(own_path()));
	return 0;
}

static void a_page_shows_what_is_counted(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(shows_what_is_counted), 0);
}

/* Fork a child that creates its page and is then killed. The page's file remains. */
static int leave_a_page(pid_t *ret_pid)
{
	int status;

	*ret_pid = fork();
	if (*ret_pid == 0) {
		if (uaio_engine_start() == 0 && uaio_live_open())
			uaio_live_publish(uaio_live_page());
		raise(SIGKILL);
	}
	CHECK(waitpid(*ret_pid, &status, 0) == *ret_pid);
	CHECK(WIFSIGNALED(status));
	return 0;
}

static int survives_its_process(void)
{
	const struct uaio_live_page *seen;
	pid_t pid;

	CHECK(enter_own_memory("") == 0);
	CHECK(leave_a_page(&pid) == 0);
	seen = look(path_of((unsigned)pid));
	CHECK(seen && seen->identity.pid == pid);
	/*
	 * Rename the file to the name that this process will use. uaio_live_open() must
	 * then replace it, since its creator is gone.
	 */
	CHECK(rename(path_of((unsigned)pid), "/dev/shm/left") == 0);
	CHECK(rename("/dev/shm/left", own_path()) == 0);
	CHECK(uaio_live_open());
	seen = look(own_path());
	CHECK(seen && seen->identity.pid == getpid());
	return 0;
}

static void a_page_outlives_a_process_until_its_place_is_needed(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(survives_its_process), 0);
}

/*
 * A living child has the file name that its parent would use. So the parent must use
 * the next name.
 */
static int respects_the_living(void)
{
	const struct uaio_live_page *parents, *childs;
	int to_child[2], to_parent[2];
	char byte;
	pid_t pid;

	CHECK(enter_own_memory("") == 0);
	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
	pid = fork();
	if (pid == 0) {
		if (uaio_engine_start() || !uaio_live_open())
			_exit(1);
		(void)!write(to_parent[1], "", 1);
		(void)!read(to_child[0], &byte, 1);
		_exit(0);
	}
	CHECK(read(to_parent[0], &byte, 1) == 1);
	CHECK(rename(path_of((unsigned)pid), "/dev/shm/child") == 0);
	CHECK(rename("/dev/shm/child", own_path()) == 0);
	CHECK(uaio_live_open());
	childs = look(own_path());
	parents = look(path_of((unsigned)getpid() + 1));
	CHECK(childs && childs->identity.pid == pid);
	CHECK(parents && parents->identity.pid == getpid());
	CHECK(write(to_child[1], "", 1) == 1);
	CHECK(waitpid(pid, NULL, 0) == pid);
	return 0;
}

static void a_page_of_a_living_process_is_left_alone(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(respects_the_living), 0);
}

/*
 * In the file of a page of counts, change bytes of the identity of the process that
 * owns the page.
 */
static int change(const char *path, size_t at, const void *value, size_t bytes)
{
	int fd = open(path, O_WRONLY);

	CHECK(fd >= 0);
	CHECK(pwrite(fd, value, bytes, (off_t)at) == (ssize_t)bytes);
	close(fd);
	return 0;
}

#define CHANGE(path, member, value)                                     \
	CHECK(change(path, offsetof(struct uaio_live_identity, member), \
		     &(value), sizeof(value)) == 0)

/*
 * Create files under all names that this process tries. Their creators are processes
 * that this process cannot see.
 */
static int fill_places(unsigned nr)
{
	const uint64_t elsewhere = 1;
	pid_t pid;

	for (unsigned i = 0; i < nr; i++) {
		const struct timespec times[2] = { { .tv_sec = 1000 },
						   { .tv_sec = 1000 } };
		char from[64];

		CHECK(leave_a_page(&pid) == 0);
		(void)snprintf(from, sizeof(from), "%s",
			       path_of((unsigned)pid));
		CHANGE(from, pid_namespace, elsewhere);
		CHECK(utimensat(AT_FDCWD, from, times, 0) == 0);
		CHECK(rename(from, "/dev/shm/left") == 0);
		CHECK(rename("/dev/shm/left",
			     path_of((unsigned)getpid() + i)) == 0);
	}
	return 0;
}

static int replaces_the_oldest(void)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	const struct uaio_live_page *seen;

	CHECK(enter_own_memory("") == 0);
	CHECK(fill_places(8) == 0);
	/* Make one file empty, as if its creator had died while creating it. */
	CHECK(truncate(path_of((unsigned)getpid() + 3), 0) == 0);
	CHECK(utimensat(AT_FDCWD, path_of((unsigned)getpid() + 3), times, 0) ==
	      0);
	CHECK(uaio_live_open());
	for (unsigned i = 0; i < 8; i++) {
		seen = look(path_of((unsigned)getpid() + i));
		CHECK(seen && (seen->identity.pid == getpid()) == (i == 3));
	}
	return 0;
}

static void files_of_processes_out_of_sight_are_not_in_the_way(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(replaces_the_oldest), 0);
}

/*
 * While another name is free, this process does not replace files of processes that it
 * cannot see, as they are in another pid namespace.
 */
static int passes_over(void)
{
	const struct uaio_live_page *seen;
	const uint32_t leaving = UAIO_LIVE_LEAVING;

	CHECK(enter_own_memory("") == 0);
	CHECK(fill_places(7) == 0);
	CHECK(uaio_live_open());
	seen = look(path_of((unsigned)getpid() + 7));
	CHECK(seen && seen->identity.pid == getpid());
	uaio_live_remove();
	/*
	 * Another process was about to end or to exec when it last wrote its state.
	 * This process cannot see the other process now, so it takes that process as
	 * gone, and replaces its file.
	 */
	CHANGE(path_of((unsigned)getpid() + 5), state, leaving);
	CHECK(uaio_live_open());
	seen = look(path_of((unsigned)getpid() + 5));
	CHECK(seen && seen->identity.pid == getpid());
	return 0;
}

static void files_of_processes_that_leave_are_replaced(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(passes_over), 0);
}

/*
 * A child of fork() counts its requests in its own page, not in its parent's page.
 */
static int is_not_inherited(void)
{
	const struct uaio_live_page *parents;
	const struct uaio_live_block *block;
	struct uaio_live_block *mine;
	int status;
	pid_t pid;

	uaio_config.has_live = true;
	CHECK(enter_own_memory("") == 0);
	mine = uaio_stats_mine();
	uaio_stats_add(mine, &mine->nr_completed, 1);
	parents = look(own_path());
	pid = fork();
	if (pid == 0) {
		if (uaio_engine_start())
			_exit(1);
		mine = uaio_stats_mine();
		uaio_stats_add(mine, &mine->nr_completed, 5);
		_exit(is_there(own_path()) ? 0 : 2);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	block = (const void *)((const char *)parents + UAIO_LIVE_BLOCKS_AT);
	CHECK(block->nr_completed == 1);
	parents = look(path_of((unsigned)pid));
	block = (const void *)((const char *)parents + UAIO_LIVE_BLOCKS_AT);
	CHECK(block->pid == pid && block->nr_completed == 5);
	return 0;
}

static void a_child_has_a_page_of_its_own(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(is_not_inherited), 0);
}

/* Failures */

/* number of the system call that shall fail */
static long refused;
/* the error with which this system call fails */
static long refused_error;

static bool refuse(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = refused_error;
	return nr == refused;
}

static int makes_none(void)
{
	static const struct {
		long nr, error;
	} rows[] = {
		{ SYS_getresuid, -ENOSYS }, { SYS_mkdirat, -EROFS },
		{ SYS_openat, -EACCES },    { SYS_fstatfs, -ENOSYS },
		{ SYS_prlimit64, -ENOSYS }, { SYS_fallocate, -ENOSPC },
		{ SYS_mmap, -ENOMEM },
	};

	CHECK(enter_own_memory("") == 0);
	for (unsigned i = 0; i < NR_ELEMENTS(rows); i++) {
		refused = rows[i].nr;
		refused_error = rows[i].error;
		unit_hook(refuse);
		if (uaio_live_open())
			return (int)i + 1;
		unit_hook(NULL);
		CHECK(!is_there(own_path()));
	}
	CHECK(uaio_live_open());
	return 0;
}

static void no_page_is_made_where_a_call_is_refused(void **state)
{
	struct unit_footprint before;

	(void)state;
	need_root();
	unit_footprint(&before);
	assert_int_equal(unit_in_child(makes_none), 0);
	assert_null(unit_find_leak(&before, UNIT_PATIENCE_MS));
}

static int leaves_half_free(void)
{
	struct statfs st;
	pid_t pid;
	unsigned nr = 0;

	CHECK(enter_own_memory("size=640k") == 0);
	/*
	 * The pages of killed processes remain, but together use less than half of the
	 * tmpfs.
	 */
	while (nr < 100 && leave_a_page(&pid) == 0 &&
	       is_there(path_of((unsigned)pid)))
		nr++;
	CHECK(nr == 4);
	CHECK(statfs("/dev/shm", &st) == 0 && st.f_bavail >= st.f_blocks / 2);
	CHECK(!uaio_live_open() && !is_there(own_path()));
	return 0;
}

static void pages_leave_half_of_the_memory_free(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(leaves_half_free), 0);
}

static int raises_no_signal(void)
{
	const struct rlimit small = { 4096, 4096 };

	CHECK(enter_own_memory("") == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	CHECK(!uaio_live_open() && !is_there(own_path()));
	return 0;
}

static void a_limit_of_files_sizes_raises_no_signal(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(raises_no_signal), 0);
}

/*
 * Another user may have created the directory, or a symbolic link with its name, before
 * this process starts.
 */
static int trusts_nobody(void)
{
	char directory[64];

	(void)snprintf(directory, sizeof(directory), UAIO_LIVE_DIRECTORY "%u",
		       getuid());
	CHECK(enter_own_memory("") == 0);
	CHECK(mkdir(directory, 0700) == 0 &&
	      chown(directory, 65534, 65534) == 0);
	CHECK(!uaio_live_open());
	CHECK(chown(directory, getuid(), getgid()) == 0 &&
	      chmod(directory, 0755) == 0);
	CHECK(!uaio_live_open());
	CHECK(rmdir(directory) == 0 && mkdir("/dev/shm/other", 0700) == 0);
	CHECK(symlink("/dev/shm/other", directory) == 0);
	CHECK(!uaio_live_open());
	CHECK(unlink(directory) == 0 && mkdir(directory, 0700) == 0);
	CHECK(symlink("/dev/shm/target", own_path()) == 0);
	CHECK(uaio_live_open() && !is_there("/dev/shm/target"));
	return 0;
}

static void a_directory_of_others_is_not_used(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(trusts_nobody), 0);
}

/*
 * Each further thread gets its own block of counts, for which the page's file must
 * grow.
 */
static int grows(void)
{
	const char *seen;
	struct stat st;

	uaio_config.has_live = true;
	CHECK(enter_own_memory("") == 0);
	seen = (const char *)look(own_path());
	for (unsigned place = 1; place < 4; place++) {
		struct uaio_live_block *block = uaio_live_block(place);

		CHECK(block && !block->pid);
		block->nr_completed = place;
		block = (void *)(uintptr_t)(seen + UAIO_LIVE_BLOCKS_AT +
					    place * UAIO_LIVE_BLOCK_BYTES);
		CHECK(block->nr_completed == place);
	}
	CHECK(stat(own_path(), &st) == 0 &&
	      st.st_size == UAIO_LIVE_BLOCKS_AT + 4 * UAIO_LIVE_BLOCK_BYTES);
	/* If the file cannot grow, the next thread gets no block of counts. */
	refused = SYS_fallocate;
	refused_error = -ENOSPC;
	unit_hook(refuse);
	CHECK(!uaio_live_block(4));
	unit_hook(NULL);
	CHECK(unlink(own_path()) == 0);
	CHECK(!uaio_live_block(4));
	return 0;
}

static void a_page_grows_by_blocks(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(unit_in_child(grows), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_page_shows_what_is_counted),
		UNIT_TEST(a_page_outlives_a_process_until_its_place_is_needed),
		UNIT_TEST(a_page_of_a_living_process_is_left_alone),
		UNIT_TEST(files_of_processes_out_of_sight_are_not_in_the_way),
		UNIT_TEST(files_of_processes_that_leave_are_replaced),
		UNIT_TEST(a_child_has_a_page_of_its_own),
		UNIT_TEST(no_page_is_made_where_a_call_is_refused),
		UNIT_TEST(pages_leave_half_of_the_memory_free),
		UNIT_TEST(a_limit_of_files_sizes_raises_no_signal),
		UNIT_TEST(a_directory_of_others_is_not_used),
		UNIT_TEST(a_page_grows_by_blocks),
	};

	return cmocka_run_group_tests_name("live", tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Threads and processes: which of them may use a context, and how long contexts
 * and requests live when threads and processes end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "ring.h"
#include "older.h"

static char buf[4096];
static aio_context_t shared_ctx;
static int shared_fd;
static struct iocb shared_cb;

static int child_uses_parents(void)
{
	struct timespec now = { 0 };
	struct io_event ev;
	struct iocb cb = PREAD_OF(shared_fd, buf, 16, 0);

	note_result("child_submit", submit_one(shared_ctx, &cb));
	note_result("child_getevents",
		    raw_getevents(shared_ctx, 0, 1, &ev, &now));
	note_result("child_cancel", call_cancel(shared_ctx, &shared_cb, &ev));
	note_result("child_destroy", call_destroy(shared_ctx));
	return 0;
}

static void forked(void)
{
	struct io_event ev;
	int fds[2];

	shared_ctx = new_context(8);
	shared_fd = file_of("f", 16, O_RDONLY);
	REQUIRE(pipe(fds) == 0);
	shared_cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(shared_ctx, &shared_cb) == 1);
	note("child", in_child(child_uses_parents));
	note_pending("parent_before", shared_ctx);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("parent_reap", reap(shared_ctx, 1, &ev));
	note_result("parent_destroy", call_destroy(shared_ctx));
}

static int child_has_its_own(void)
{
	aio_context_t ctx = 0;
	struct iocb cb = PREAD_OF(shared_fd, buf, 16, 0);

	note_result("child_setup", call_setup(8, &ctx));
	try_one("child_read", ctx, &cb);
	note("child_good", is_pattern(buf, 16, 0));
	note("child_other_place", ctx != shared_ctx);
	note_result("child_destroy", call_destroy(ctx));
	return 0;
}

static int grandchild(void)
{
	return in_child(child_has_its_own);
}

static void forked_own_context(void)
{
	struct iocb cb;

	shared_ctx = new_context(8);
	shared_fd = file_of("f", 16, O_RDONLY);
	note("child", in_child(child_has_its_own));
	note("grandchild", in_child(grandchild));
	cb = PREAD_OF(shared_fd, buf, 16, 0);
	try_one("parent_read", shared_ctx, &cb);
}

static int child_reads_ring(void)
{
	const struct ring *ring = (void *)shared_ctx;

	note("child_magic", ring->magic == 0xa10a10a1);
	note("child_tail", ring->tail);
	return 0;
}

static void forked_ring_memory(void)
{
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);

	shared_ctx = new_context(8);
	REQUIRE(submit_one(shared_ctx, &cb) == 1);
	note("child", in_child(child_reads_ring));
}

static int child_leaves_work(void)
{
	aio_context_t ctx = new_context(64);
	int fd = open("left", O_CREAT | O_RDWR, 0644), i;
	struct iocb cb;

	memset(buf, 'w', sizeof(buf));
	for (i = 0; i < 32; i++) {
		cb = PWRITE_OF(fd, buf, 4096, 4096 * i);
		REQUIRE(submit_one(ctx, &cb) == 1);
	}
	cb = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);
	REQUIRE(submit_one(ctx, &cb) == 1);
	ring_forget(ctx);
	return 7;
}

static void exit_finishes_writes(void)
{
	int fd;

	note("child", in_child(child_leaves_work));
	fd = open("left", O_RDONLY);
	note("size", lseek(fd, 0, SEEK_END));
	REQUIRE(pread(fd, buf, 16, 4096 * 31) == 16);
	note("good", buf[0] == 'w' && buf[15] == 'w');
}

static int child_leaves_direct_work(void)
{
	aio_context_t ctx = new_context(64);
	char *pages = pages_of(65536, PROT_READ | PROT_WRITE);
	struct iocb cb;
	int i;

	memset(pages, 'd', 65536);
	for (i = 0; i < 16; i++) {
		cb = PWRITE_OF(shared_fd, pages, 65536, 65536 * i);
		REQUIRE(submit_one(ctx, &cb) == 1);
	}
	ring_forget(ctx);
	return 7;
}

static void exit_finishes_direct_writes(void)
{
	long i, wrong = 0;

	shared_fd = file_of("f", 1 << 20, O_RDWR | O_DIRECT);
	note("child", in_child(child_leaves_direct_work));
	close(shared_fd);
	shared_fd = open("f", O_RDONLY);
	for (i = 0; i < 256; i++) {
		REQUIRE(pread(shared_fd, buf, 4096, 4096 * i) == 4096);
		wrong += buf[0] != 'd' || buf[4095] != 'd';
	}
	note("wrong", wrong);
}

enum { NR_KILLED = 20 };

/*
 * Submits writes to a file with O_DSYNC, so that each write waits for the disk. Then the
 * process kills itself.
 */
static int child_is_killed(void)
{
	aio_context_t ctx = new_context(64);
	int fd = open("left", O_CREAT | O_TRUNC | O_RDWR | O_DSYNC, 0644), i;
	struct iocb cb;

	for (i = 0; i < NR_KILLED; i++) {
		cb = PWRITE_OF(fd, buf, 4096, 4096 * i);
		REQUIRE(submit_one(ctx, &cb) == 1);
	}
	kill(getpid(), SIGKILL);
	return 0;
}

static bool all_are_written(void)
{
	int fd = open("left", O_RDONLY);
	off_t size = lseek(fd, 0, SEEK_END);

	close(fd);
	return size == 4096 * NR_KILLED;
}

/*
 * On a busy machine the child may kill itself only after all its writes are executed. So
 * the test case prints all_written=1 only if that happens in each of several tries.
 */
static void killed_with_writes(void)
{
	enum { TIMES = 4 };
	bool are_written = true;
	struct statfs fs;
	int i, ret = 0;

	REQUIRE(statfs(".", &fs) == 0);
	if (fs.f_type == TMPFS_MAGIC)
		skip("no-disk");
	for (i = 0; i < TIMES && are_written; i++) {
		ret = in_child(child_is_killed);
		are_written = all_are_written();
	}
	note("child", ret);
	note("all_written", are_written);
}

/* Return: how many descriptors from `first` on are open. */
static long nr_open(int first)
{
	long nr = 0;
	int fd;

	for (fd = first; fd < 1024; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

static long nr_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	long nr = 0;

	REQUIRE(tasks);
	while (readdir(tasks))
		nr++;
	closedir(tasks);
	return nr - 2; /* "." and ".." */
}

/*
 * Prints which threads and descriptors a waiting poll needs. Then closes the poll's
 * descriptor and all descriptors from 512 on; the poll must still complete.
 */
static void threads_and_descriptors(void)
{
	aio_context_t ctx = new_context(8);
	long low, refused = 0, inherited = 0;
	struct io_event ev;
	struct iocb cb;
	int fds[2], fd;

	REQUIRE(pipe(fds) == 0);
	low = nr_open(0);
	note("threads_before", nr_threads());
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	note("threads_more", nr_threads() > 1);
	close(fds[0]);
	note("low_numbers", low - nr_open(0) + nr_open(512));
	note("high_numbers", nr_open(512) > 0);
	for (fd = 512; fd < 1024; fd++) {
		inherited += fcntl(fd, F_GETFD) == 0;
		refused += fcntl(fd, F_GETFD) >= 0 && close(fd) < 0;
	}
	note("inherited", inherited);
	note("close_refused", refused > 0);
	REQUIRE(close_range(512, ~0u, 0) == 0);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("reap", reap(ctx, 1, &ev));
}

static void descriptors_all_taken(void)
{
	struct rlimit limit = { 64, 64 };
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	struct io_event ev;
	int fds[2], copy;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	while ((copy = dup(fds[1])) >= 0)
		;
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	/*
	 * Only the poll can still keep the pipe's read end open. If it does not,
	 * write() fails with EPIPE, so the result of write() is not printed.
	 */
	(void)!write(fds[1], "x", 1);
	note_result("reap", reap(ctx, 1, &ev));
	ev.res = result_as_asked(&ev);
	note_event("event", &ev, &cb);
}

static int child_leaves_poll(void)
{
	return submit_one(new_context(8), &shared_cb) == 1 ? 3 : 4;
}

static void exit_with_poll(void)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	shared_cb = POLL_OF(fds[0], POLLIN);
	note("child", in_child(child_leaves_poll));
}

static void *submit_and_leave(void *arg)
{
	(void)arg;
	REQUIRE(submit_one(shared_ctx, &shared_cb) == 1);
	return NULL;
}

static void thread_leaves_poll(void)
{
	pthread_t thread;
	struct io_event ev;
	int fds[2];

	shared_ctx = new_context(8);
	REQUIRE(pipe(fds) == 0);
	shared_cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(!pthread_create(&thread, NULL, submit_and_leave, NULL));
	REQUIRE(!pthread_join(thread, NULL));
	note_pending("before", shared_ctx);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("reap", reap(shared_ctx, 1, &ev));
}

static void *submit_later(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 3; i++) {
		wait_asleep(getpid());
		REQUIRE(submit_one(shared_ctx, &shared_cb) == 1);
	}
	return NULL;
}

static void thread_wakes_waiter(void)
{
	pthread_t thread;
	struct io_event ev[4];

	shared_ctx = new_context(8);
	shared_cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	REQUIRE(!pthread_create(&thread, NULL, submit_later, NULL));
	note_result("three", reap(shared_ctx, 3, ev));
	REQUIRE(!pthread_join(thread, NULL));
	note_pending("left", shared_ctx);
}

static void *destroy_later(void *arg)
{
	(void)arg;
	wait_asleep(getpid());
	note_result("destroy", call_destroy(shared_ctx));
	return NULL;
}

static void destroyed_under_waiter(void)
{
	pthread_t thread;
	struct io_event ev;
	long ret;

	shared_ctx = new_context(8);
	REQUIRE(!pthread_create(&thread, NULL, destroy_later, NULL));
	ret = raw_getevents(shared_ctx, 1, 1, &ev, NULL);
	REQUIRE(!pthread_join(thread, NULL));
	note_result("getevents", ret);
}

static int terminal;

static int is_terminal_locked(void)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(terminal, F_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

static void terminal_locked(void)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	aio_context_t ctx = new_context(4);
	int master;

	REQUIRE(openpty(&master, &terminal, NULL, NULL, NULL) == 0);
	REQUIRE(fcntl(terminal, F_SETLK, &all) == 0);
	REQUIRE(write(master, "line\n", 5) == 5);
	TRY_EACH(ctx, terminal, { "read", PREAD, buf, 16, 0 });
	note("locked", in_child(is_terminal_locked));
	note_result("destroy", call_destroy(ctx));
	note("still_locked", in_child(is_terminal_locked));
}

const struct row rows_process[] = {
	ROW("a child cannot use its parent's context", forked),
	ROW("a child has contexts of its own", forked_own_context),
	ROW("a child may read its parent's ring", forked_ring_memory),
	ROW("writes accepted are finished although the process exits",
	    exit_finishes_writes),
	ROW("direct writes accepted are finished although the process exits",
	    exit_finishes_direct_writes),
	ROW_DIFFERS("writes accepted are finished although a signal kills",
		    killed_with_writes, differs_killed,
		    { "all_written=1", "all_written=0" }),
	ROW("a terminal that is read keeps its record locks", terminal_locked),
	ROW("a poll in flight does not keep a process", exit_with_poll),
	ROW("a poll outlives the thread that made it", thread_leaves_poll),
	ROW("a waiter is woken by another thread's requests",
	    thread_wakes_waiter),
	ROW("io_destroy ends another thread's wait", destroyed_under_waiter),
	ROW_DIFFERS("there are no threads and descriptors of AIO's own",
		    threads_and_descriptors, differs_threads,
		    { "threads_more=0", "threads_more=1" },
		    { "high_numbers=0", "high_numbers=1" },
		    { "close_refused=0", "close_refused=1" }),
	ROW_DIFFERS("a poll outlives its descriptor, all others taken",
		    descriptors_all_taken, differs_table_full,
		    { "event=event:1", "event=event:EBADF" },
		    { "ring_0.events=*", "ring_0.events=*" }),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "unit.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "proc/entry.h"
#include "req/stats.h"
#include "aio/aio.h"
#include "aio/ctx.h"

enum { HANG_S = 400 };

/*
 * Without atexit_sleep_ms=0, a child of fork() with threads would wait a second for
 * reports before it exits.
 */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "die_after_fork=0:atexit_sleep_ms=0";
}

/* tests */

int unit_engine(void **state)
{
	static const struct uaio_call_set all = { { UINT64_MAX, UINT64_MAX } };
	char word[UAIO_CALLS_WORD_MAX];

	(void)state;
	/*
	 * In a sandbox the library avoids system calls that the sandbox may refuse. Let
	 * it make all calls, so that the tests test the whole engine.
	 */
	uaio_calls_word(uaio_calls_nr_filters(), &all, word);
	setenv(UAIO_CALLS_VARIABLE, word, 1);
	uaio_engine_load();
	/*
	 * Tests kill children, whose statistics pages (live/live.h) would stay behind.
	 */
	uaio_config.has_live = false;
	/*
	 * By default the tests do not use the io_uring back-end, because the hooks
	 * replace system calls that workers make. Tests of that back-end select it
	 * themselves.
	 */
	if (uaio_config.backend == UAIO_BACKEND_URING)
		uaio_config.backend = UAIO_BACKEND_THREADS;
	return uaio_engine_start();
}

static bool is_own_fd(unsigned fd)
{
	unsigned own;

	return uaio_own_fd(fd, fd, &own);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned nr = 0;

	assert(dir);
	while ((entry = readdir(dir)))
		nr += entry->d_name[0] != '.' &&
		      atoi(entry->d_name) != dirfd(dir) &&
		      !is_own_fd((unsigned)atoi(entry->d_name));
	closedir(dir);
	return nr;
}

/*
 * Read a file of /proc/self/task/TID to `text`, which becomes "" on failure.
 * Return: false if the thread has ended.
 */
static bool read_of_task(const char *tid, const char *name, char *text,
			 size_t size)
{
	char path[300];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	text[0] = '\0';
	if (fd < 0)
		return false;
	got = read(fd, text, size - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return true;
}

static bool read_of_thread(uint32_t tid, const char *name, char *text,
			   size_t size)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", tid);
	return read_of_task(number, name, text, size);
}

static bool is_engine_thread(const char *tid)
{
	char name[17];

	return !read_of_task(tid, "comm", name, sizeof(name)) || !name[0] ||
	       !strncmp(name, "uaio-", 5);
}

/*
 * Return: the value of a field of /proc/self/task/TID/status; 0 if the thread has
 * ended.
 */
static uint64_t status_of(const char *tid, const char *field)
{
	char text[4096];
	const char *at;

	(void)read_of_task(tid, "status", text, sizeof(text));
	at = strstr(text, field);
	return at ? strtoull(at + strlen(field), NULL, 10) : 0;
}

unsigned unit_engine_threads(uint64_t *ret_nr_sleeps)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	uint64_t nr_sleeps = 0;
	unsigned nr = 0;

	assert(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !is_engine_thread(entry->d_name))
			continue;
		nr++;
		nr_sleeps +=
			status_of(entry->d_name, "\nvoluntary_ctxt_switches:");
	}
	closedir(dir);
	if (ret_nr_sleeps)
		*ret_nr_sleeps = nr_sleeps;
	return nr;
}

static unsigned count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned nr = 0;

	assert(dir);
	while ((entry = readdir(dir)))
		nr += entry->d_name[0] != '.' &&
		      !is_engine_thread(entry->d_name);
	closedir(dir);
	return nr;
}

void unit_footprint(struct unit_footprint *ret_footprint)
{
	struct uaio_counters counters = { 0 };

	if (uaio_engine_is_up())
		uaio_counters_read(&counters);
	*ret_footprint = (struct unit_footprint){
		.nr_fds = count_fds(),
		.nr_threads = count_threads(),
		.nr_contexts = counters.nr_contexts,
		.ring_bytes = counters.ring_bytes,
	};
}

static const char *compare(const struct unit_footprint *before)
{
	struct unit_footprint now;

	unit_footprint(&now);
	return now.nr_fds > before->nr_fds             ? "descriptors"
	       : now.nr_threads > before->nr_threads   ? "threads"
	       : now.nr_contexts > before->nr_contexts ? "contexts"
	       : now.ring_bytes > before->ring_bytes   ? "ring memory"
						       : NULL;
}

const char *unit_find_leak(const struct unit_footprint *before,
			   unsigned patience_ms)
{
	int64_t deadline = uaio_now_ns() + patience_ms * INT64_C(1000000);
	const char *leak;

	/*
	 * Wait a moment: a thread may be ending or have no name yet, or a worker may be
	 * about to close a descriptor.
	 */
	while ((leak = compare(before)) && uaio_now_ns() < deadline)
		sched_yield();
	return leak;
}

static struct unit_footprint footprint;

static long do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

void unit_restart_alarm(void)
{
	alarm(HANG_S);
}

int unit_setup(void **state)
{
	struct unit_thread thread;

	(void)state;
	unit_restart_alarm();
	/*
	 * Start a thread before counting: with the first thread, a sanitizer starts a
	 * thread of its own.
	 */
	unit_thread_start(&thread, do_nothing, NULL);
	unit_thread_join(&thread);
	unit_footprint(&footprint);
	/*
	 * With has_stats, the library counts the requests in each state, for
	 * is_conserved().
	 */
	uaio_config.has_stats = true;
	return 0;
}

/*
 * Return: whether the number of requests is 0 in each state, so that each request has
 * left the states that it entered.
 */
static bool is_conserved(void)
{
	struct uaio_stats_sum sum;
	bool ret = true;

	uaio_stats_sum(&sum);
	for (unsigned i = 0; i < UAIO_NR_STAYS; i++) {
		if (!sum.nr_there[i])
			continue;
		print_error("requests %s: %lld\n", uaio_stay_names[i],
			    (long long)sum.nr_there[i]);
		ret = false;
	}
	return ret;
}

int unit_teardown(void **state)
{
	const char *leak;

	(void)state;
	unit_hook(NULL);
	unit_fail_nth(0, false);
	leak = unit_find_leak(&footprint, UNIT_PATIENCE_MS);
	if (leak)
		print_error("left behind: %s\n", leak);
	alarm(0);
	return leak || !is_conserved() ? -1 : 0;
}

/*
 * A failing check must end the child; else cmocka would run the next test in the child.
 */
static void become_child(void)
{
	static const int signals[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL,
				       SIGSEGV, SIGSYS, SIGTRAP };
	const struct rlimit no_core = { 0, 0 };

	for (size_t i = 0; i < NR_ELEMENTS(signals); i++)
		signal(signals[i], SIG_DFL);
	setrlimit(RLIMIT_CORE, &no_core);
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	alarm(HANG_S / 2);
}

int unit_in_child(int (*function)(void))
{
	pid_t pid = fork();
	int status;

	assert(pid >= 0);
	if (pid == 0) {
		become_child();
		_exit(function());
	}
	while (waitpid(pid, &status, 0) < 0)
		assert(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void *thread_main(void *arg)
{
	struct unit_thread *thread = arg;

	store_release(&thread->tid, (uint32_t)gettid());
	thread->ret = thread->function(thread->arg);
	return NULL;
}

void unit_thread_start(struct unit_thread *thread, long (*function)(void *),
		       void *arg)
{
	pthread_t id;
	int ret;

	*thread = (struct unit_thread){ .function = function, .arg = arg };
	ret = pthread_create(&id, NULL, thread_main, thread);
	assert(ret == 0);
	thread->id = id;
}

/*
 * Wait until the joined thread has disappeared from /proc; until then it would look
 * like a leaked one.
 */
static void await_gone(uint32_t tid)
{
	int64_t deadline = uaio_now_ns() + UNIT_PATIENCE_MS * INT64_C(1000000);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%u", tid);
	while (access(path, F_OK) == 0 && uaio_now_ns() < deadline)
		sched_yield();
}

long unit_thread_join(struct unit_thread *thread)
{
	int ret = pthread_join(thread->id, NULL);

	assert(ret == 0);
	await_gone(load_acquire(&thread->tid));
	return thread->ret;
}

/* Return: the thread's state letter in /proc; 'X' if the thread has ended. */
static char state_of(uint32_t tid)
{
	char line[256];
	const char *state;

	if (!read_of_thread(tid, "stat", line, sizeof(line)))
		return 'X';
	/*
	 * The state follows the last bracket: the thread's name, in brackets, may
	 * contain any character.
	 */
	state = strrchr(line, ')');
	return state ? state[2] : 'R';
}

bool unit_is_asleep(uint32_t tid)
{
	char state = state_of(tid);

	return state == 'S' || state == 'X';
}

bool unit_is_quiet(uint32_t held)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	bool is_quiet = true;

	/* In some tests no descriptor is free for opendir(). */
	if (!dir)
		return false;
	while (is_quiet && (entry = readdir(dir))) {
		uint32_t tid = (uint32_t)atoi(entry->d_name);

		is_quiet = !tid || tid == held || tid == (uint32_t)gettid() ||
			   unit_is_asleep(tid);
	}
	closedir(dir);
	return is_quiet;
}

uint64_t unit_thread_sleeps(const struct unit_thread *thread)
{
	char tid[16];

	snprintf(tid, sizeof(tid), "%u", load_acquire(&thread->tid));
	return status_of(tid, "\nvoluntary_ctxt_switches:");
}

/*
 * Threads that were found awake, with their processor time and number of sleeps at that
 * moment
 */
struct awake {
	bool is_taken;
	unsigned nr;
	struct {
		uint32_t tid;
		uint64_t ran_ns, nr_sleeps;
	} threads[256];
};

/* Return: the thread's processor time in nanoseconds; 0 if it is unknown. */
static uint64_t ran_ns_of(uint32_t tid)
{
	char text[64];

	(void)read_of_thread(tid, "schedstat", text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static bool is_awake(uint32_t tid)
{
	char state = state_of(tid);

	return state == 'R' || state == 'D';
}

static uint64_t sleeps_of(uint32_t tid)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", tid);
	return status_of(name, "\nvoluntary_ctxt_switches:");
}

static void take_awake(struct awake *ret_awake)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;

	ret_awake->is_taken = true;
	ret_awake->nr = 0;
	while (dir && (entry = readdir(dir)) &&
	       ret_awake->nr < NR_ELEMENTS(ret_awake->threads)) {
		uint32_t tid = (uint32_t)atoi(entry->d_name);
		unsigned i = ret_awake->nr;

		if (!tid || tid == (uint32_t)gettid() || !is_awake(tid))
			continue;
		ret_awake->threads[i].tid = tid;
		ret_awake->threads[i].ran_ns = ran_ns_of(tid);
		ret_awake->threads[i].nr_sleeps = sleeps_of(tid);
		ret_awake->nr++;
	}
	if (dir)
		closedir(dir);
}

/*
 * Return: whether each of the threads has slept since take_awake(), or has run for
 * longer than any lock is held.
 */
static bool have_got_on(const struct awake *awake)
{
	enum { HELD_NS = 2000000 };

	for (unsigned i = 0; i < awake->nr; i++) {
		uint32_t tid = awake->threads[i].tid;
		uint64_t ran_ns = awake->threads[i].ran_ns;

		if (is_awake(tid) && ran_ns &&
		    ran_ns_of(tid) - ran_ns < HELD_NS &&
		    sleeps_of(tid) == awake->threads[i].nr_sleeps)
			return false;
	}
	return true;
}

/*
 * is_time_over: the awaited thread has slept for long enough.
 * Return: whether is_time_over is true, and each thread that was awake when is_time_over
 * became true has since run for long enough (have_got_on()).
 */
static bool is_long(bool is_time_over, struct awake *awake)
{
	if (!is_time_over)
		return false;
	if (!awake->is_taken)
		take_awake(awake);
	return have_got_on(awake);
}

/*
 * A sleeping thread may be waiting for a lock. Then the lock's owner is awake, perhaps
 * without a processor. So if no thread is awake, `thread` is in the sleep that the test
 * awaits.
 *
 * In some tests, some threads are always awake. There the function waits until `thread`
 * has slept for longer than any lock is held, in one sleep or in several short ones. In
 * that time, the awake threads must have had a processor.
 */
void unit_await_sleep(const struct unit_thread *thread)
{
	enum { LONG_NS = 50000000, SEVERAL = 2 };
	struct awake in_this = { 0 }, in_all = { 0 };
	uint64_t nr_sleeps = 0;
	int64_t since = 0, first = 0;

	for (;; sched_yield()) {
		uint64_t nr;
		int64_t now;

		if (!load_acquire(&thread->tid) || !unit_is_asleep(thread->tid))
			continue;
		if (unit_is_quiet(0) && unit_is_quiet(0))
			return;
		nr = unit_thread_sleeps(thread);
		now = uaio_now_ns();
		if (!first)
			first = now;
		if (!since || nr != nr_sleeps) {
			since = now;
			in_this.is_taken = false;
		}
		nr_sleeps = nr;
		if (is_long(now - since > LONG_NS, &in_this) ||
		    is_long(now - first > (int64_t)SEVERAL * LONG_NS, &in_all))
			return;
	}
}

void unit_await(bool (*condition)(void *arg), void *arg)
{
	while (!condition(arg))
		sched_yield();
}

/* descriptors */

static void tell(int fd, void (*closes)(unsigned first, unsigned last))
{
	if (!uaio_engine_is_up() || !uaio_enter())
		return;
	closes((unsigned)fd, (unsigned)fd);
	uaio_leave();
}

void unit_close(int fd)
{
	int ret;

	tell(fd, uaio_fds_closing);
	ret = close(fd);
	tell(fd, uaio_fds_closed);
	assert(ret == 0);
}

void unit_dup2(int from, int to)
{
	int ret;

	tell(to, uaio_fds_closing);
	ret = dup2(from, to);
	tell(to, uaio_fds_closed);
	assert(ret == to);
}

int unit_file(bool in_memory)
{
	int fd = open(in_memory ? "/dev/shm" : ".",
		      O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	assert(fd >= 0);
	return fd;
}

int unit_numbered_file(bool in_memory, unsigned nr)
{
	int fd = unit_file(in_memory);
	char block[UNIT_KEY_BYTES];

	for (unsigned i = 0; i < nr; i++) {
		ssize_t put;

		memset(block, (int)i, sizeof(block));
		put = write(fd, block, sizeof(block));
		assert(put == sizeof(block));
	}
	return fd;
}

/* requests */

struct iocb unit_iocb(unsigned opcode, int fd, void *buf, size_t bytes,
		      int64_t off)
{
	return (struct iocb){
		.aio_lio_opcode = (uint16_t)opcode,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = bytes,
		.aio_offset = off,
	};
}

uint64_t unit_context(unsigned nr_events)
{
	uint64_t handle = 0;
	long ret = uaio_aio_setup(nr_events, &handle);

	assert(ret == 0);
	return handle;
}

void unit_destroy(uint64_t handle)
{
	long ret = uaio_aio_destroy(handle);

	assert(ret == 0);
}

uint64_t unit_nr_inline(void)
{
	struct uaio_counters counters;

	uaio_counters_read(&counters);
	return counters.nr_inline;
}

long unit_submit(uint64_t handle, struct iocb *iocb)
{
	return uaio_aio_submit(handle, 1, &iocb);
}

long unit_submit_sqe(uint64_t handle, const struct uaio_sqe *sqe)
{
	struct uaio_file *file = NULL;
	struct uaio_submission submission;
	long ret;

	assert(uaio_enter());
	ret = uaio_submission_begin(&submission, handle, 1);
	if (ret == 1) {
		ret = uaio_optab[sqe->op].has_no_file
			      ? 0
			      : uaio_look_up(sqe->fd, &file);
		if (ret == 0)
			ret = uaio_batch_add(&submission.batch, file, sqe);
		uaio_submission_end(&submission, ret == 0);
	}
	uaio_leave();
	return ret;
}

long unit_reap(uint64_t handle, long nr, struct io_event *ret_events)
{
	return uaio_aio_getevents(
		handle, nr, nr, (struct uaio_event *)(void *)ret_events, NULL);
}

int64_t unit_reap_one(uint64_t handle)
{
	struct io_event event = { 0 };
	long ret = unit_reap(handle, 1, &event);

	assert(ret == 1);
	return event.res;
}

void unit_assert_no_more(uint64_t handle)
{
	struct timespec zero = { 0, 0 };
	struct uaio_event event;

	assert_int_equal(uaio_aio_getevents(handle, 0, 1, &event, &zero), 0);
}

bool unit_is_set(void *word)
{
	return load_acquire((uint32_t *)word);
}

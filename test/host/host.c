/* SPDX-License-Identifier: MIT */
#include "host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "posix.h"
#include "clock.h"

enum { HANG_S = 200, SKIPPED = 77, FAILED = 99 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

/*
 * Options of ThreadSanitizer. ThreadSanitizer must accept that children of fork() start
 * threads. It must also accept that a request submitted in a signal handler may start a
 * thread (doc/differences.md).
 */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "die_after_fork=0:atexit_sleep_ms=0:report_signal_unsafe=0";
}

struct host_shared *shared;
static sigjmp_buf to_main;
static int main_status;

void host_fail(const char *file, int line, const char *condition)
{
	char text[300];
	int nr = snprintf(text, sizeof(text), "%s:%d: not so: %s (errno %d)\n",
			  file, line, condition, errno);

	(void)!write(2, text, (size_t)nr);
	/* Do not call exit(), which would wait for requests in flight. */
	raise(SIGKILL);
	abort();
}

void host_skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(SKIPPED);
}

bool host_is_uaio(void)
{
	return dlsym(RTLD_DEFAULT, "uaio_get_counters") ||
	       getenv("HOST_HAS_UAIO");
}

bool host_is_sanitized(void)
{
	return IS_SANITIZED;
}

unsigned host_rounds(unsigned n)
{
	if (IS_SANITIZED || getenv("HOST_FEW_ROUNDS"))
		return (n + 9) / 10;
	/*
	 * With HOST_DIRECT, writes go to the disk and take longer, so run fewer rounds.
	 */
	return getenv("HOST_DIRECT") ? (n + 3) / 4 : n;
}

/*
 * The six system calls of kernel AIO
 */

static long result(long ret)
{
	return ret < 0 ? -errno : ret;
}

bool host_is_posix(void)
{
	return getenv("HOST_DOOR");
}

long host_setup(unsigned nr, aio_context_t *ret_ctx)
{
	return host_is_posix() ? posix_setup(nr, ret_ctx)
			       : result(syscall(SYS_io_setup, nr, ret_ctx));
}

aio_context_t host_context(unsigned nr)
{
	aio_context_t ctx = 0;

	REQUIRE(host_setup(nr, &ctx) == 0);
	return ctx;
}

long host_submit(aio_context_t ctx, struct iocb *iocb)
{
	return host_is_posix() ? posix_submit(ctx, iocb)
			       : result(syscall(SYS_io_submit, ctx, 1l, &iocb));
}

void host_submit_all(aio_context_t ctx, long nr, struct iocb **list)
{
	if (!host_is_posix()) {
		REQUIRE(syscall(SYS_io_submit, ctx, nr, list) == nr);
		return;
	}
	for (long i = 0; i < nr; i++)
		REQUIRE(posix_submit(ctx, list[i]) == 1);
}

long host_reap(aio_context_t ctx, long nr, struct io_event *events)
{
	return host_is_posix() ? posix_reap(ctx, nr, events)
			       : result(syscall(SYS_io_getevents, ctx, nr, nr,
						events, NULL));
}

long host_destroy(aio_context_t ctx)
{
	return host_is_posix() ? posix_destroy(ctx)
			       : result(syscall(SYS_io_destroy, ctx));
}

struct iocb host_iocb(int opcode, int fd, const void *buf, size_t bytes,
		      long long offset)
{
	return (struct iocb){
		.aio_lio_opcode = (uint16_t)opcode,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = bytes,
		.aio_offset = offset,
	};
}

void host_take_polled(int fd)
{
	char byte;

	if (!host_is_posix())
		REQUIRE(read(fd, &byte, 1) == 1);
}

struct iocb host_poll(int fd)
{
	return host_iocb(IOCB_CMD_POLL, fd, (void *)(uintptr_t)POLLIN, 0, 0);
}

/*
 * Writes of numbered blocks
 */

enum { BLOCKS_MAX = 2048 };

/* The memory of the writes, aligned for O_DIRECT */
static uint32_t blocks[BLOCKS_MAX][BLOCK / sizeof(uint32_t)]
	__attribute__((aligned(4096)));

static void number_blocks(void)
{
	for (unsigned nr = 0; nr < BLOCKS_MAX; nr++)
		for (unsigned i = 0; i < BLOCK / sizeof(uint32_t); i++)
			blocks[nr][i] = nr ^ i << 16;
}

/*
 * Write zeros with O_DIRECT. This allocates the file's blocks and caches no pages, so
 * that the kernel's own AIO can execute the later writes.
 */
static void make_blank(int fd, unsigned nr)
{
	static const char blank[BLOCKS_MAX][BLOCK]
		__attribute__((aligned(4096)));
	ssize_t bytes = (ssize_t)nr * BLOCK;

	REQUIRE(nr <= BLOCKS_MAX);
	REQUIRE(ftruncate(fd, 0) == 0);
	REQUIRE(pwrite(fd, blank, (size_t)bytes, 0) == bytes);
}

int host_file(const char *path, unsigned nr)
{
	bool is_direct = getenv("HOST_DIRECT");
	int flags = O_RDWR | O_CLOEXEC | (is_direct ? O_DIRECT : 0);
	int fd = path ? open(path, O_CREAT | flags, 0644)
		      : open(".", O_TMPFILE | flags, 0600);

	REQUIRE(fd >= 0);
	if (is_direct)
		make_blank(fd, nr);
	return fd;
}

void host_write_blocks(aio_context_t ctx, int fd, unsigned first, unsigned nr)
{
	for (unsigned i = first; i < first + nr; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PWRITE, fd, blocks[i],
					     BLOCK, (long long)i * BLOCK);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
}

void host_check_start(int fd, unsigned nr)
{
	char seen[BLOCK];

	for (unsigned i = 0; i < nr; i++) {
		REQUIRE(pread(fd, seen, BLOCK, (off_t)i * BLOCK) == BLOCK);
		REQUIRE(!memcmp(seen, blocks[i], BLOCK));
	}
}

void host_check_blocks(const char *path, unsigned nr)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(lseek(fd, 0, SEEK_END) == (off_t)nr * BLOCK);
	host_check_start(fd, nr);
	REQUIRE(close(fd) == 0);
}

void host_reap_blocks(aio_context_t ctx, unsigned nr)
{
	struct io_event event;

	for (; nr; nr--) {
		REQUIRE(host_reap(ctx, 1, &event) == 1);
		REQUIRE(event.res == BLOCK);
	}
}

/*
 * Starting processes, and waiting for them
 */

pid_t host_start(int (*act)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(FAILED);
		alarm(HANG_S / 2);
		_exit(act(arg));
	}
	return pid;
}

int host_finish(pid_t pid)
{
	int status;

	REQUIRE(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int host_in_child(int (*act)(void *arg), void *arg)
{
	return host_finish(host_start(act, arg));
}

void host_step(unsigned step)
{
	__atomic_store_n(&shared->step, step, __ATOMIC_SEQ_CST);
}

void host_await_step(unsigned step)
{
	int64_t deadline = now_ms() + HANG_S * 1000 / 2;

	while (__atomic_load_n(&shared->step, __ATOMIC_SEQ_CST) < step) {
		REQUIRE(now_ms() < deadline);
		sched_yield();
	}
}

char host_state_of(pid_t pid)
{
	char path[64], text[512] = "", *end;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 'X';
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	end = strrchr(text, ')');
	return end ? end[2] : 'X';
}

void host_await_sleep(pid_t pid)
{
	int64_t deadline = now_ms() + HANG_S * 1000 / 2;

	while (!strchr("SDZX", host_state_of(pid))) {
		REQUIRE(now_ms() < deadline);
		sched_yield();
	}
}

void host_return(int status)
{
	main_status = status;
	siglongjmp(to_main, 1);
}

/*
 * Functions that examine the library and the machine
 */

struct slowfs *host_slow(void)
{
	struct slowfs *fs;

	if (!host_is_uaio()) {
		REQUIRE(mkdir("slow", 0755) == 0 || errno == EEXIST);
		return NULL;
	}
	fs = slowfs_start("slow");
	if (!fs)
		host_skip("no file system can be mounted");
	return fs;
}

struct slowfs *host_slow_to_close(void)
{
	struct slowfs *fs = host_slow();

	if (fs && !slowfs_closes_at_once(fs))
		host_skip(
			"before Linux 5.16 close(2) waits for writes on FUSE");
	return fs;
}

void host_need_sleeps(void)
{
	if (access("/proc/self/syscall", R_OK) < 0)
		host_skip("the kernel does not say what a thread sleeps in");
}

int host_find_fd(int first, const char *word)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;

	REQUIRE(dir);
	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name);
		char link[256];
		ssize_t nr = readlinkat(dirfd(dir), entry->d_name, link,
					sizeof(link) - 1);

		if (nr < 0 || fd < first || fd == dirfd(dir))
			continue;
		link[nr] = '\0';
		if (strstr(link, word) && (found < 0 || fd < found))
			found = fd;
	}
	closedir(dir);
	return found;
}

static bool is_of_engine(const char *tid)
{
	char path[300], name[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	close(fd);
	return !strncmp(name, "uaio-", 5);
}

unsigned host_for_engine_threads(void (*act)(pid_t tid))
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned nr = 0;

	REQUIRE(dir);
	while ((entry = readdir(dir))) {
		if (!is_of_engine(entry->d_name))
			continue;
		if (act)
			act(atoi(entry->d_name));
		nr++;
	}
	closedir(dir);
	return nr;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "leaving-slow", leaving_slow },
	{ "leaving-behind-reads", leaving_behind_reads },
	{ "leaving-in-segments", leaving_in_segments },
	{ "leaving-fast", leaving_fast },
	{ "leaving-terminals", leaving_terminals },
	{ "leaving-late", leaving_late },
	{ "leaving-by-pthread-exit", leaving_by_pthread_exit },
	{ "without-proc", without_proc },
	{ "exit-refuses-nobody", exit_refuses_nobody },
	{ "exec-fails", exec_fails },
	{ "exec-fails-often", exec_fails_often },
	{ "exec-loses-nothing", exec_loses_nothing },
	{ "handler-exits", handler_exits },
	{ "numbers-regular", numbers_regular },
	{ "numbers-polled", numbers_polled },
	{ "numbers-directory", numbers_directory },
	{ "numbers-login", numbers_login },
	{ "numbers-of-threads", numbers_of_threads },
	{ "numbers-of-engine", numbers_of_engine },
	{ "numbers-of-engine-storm", numbers_of_engine_storm },
	{ "numbers-being-opened", numbers_being_opened },
	{ "close-all-first", close_all_first },
	{ "close-behind-reads", close_behind_reads },
	{ "lingering-close", lingering_close },
	{ "lingering-range", lingering_range },
	{ "tables-of-threads", tables_of_threads },
	{ "table-of-cloned", table_of_cloned },
	{ "table-of-signalled", table_of_signalled },
	{ "close-while-held", close_while_held },
	{ "fork-storm", fork_storm },
	{ "vfork-starts-at-once", vfork_starts_at_once },
	{ "vfork-numbers", vfork_numbers },
	{ "vfork-makes-calls", vfork_makes_calls },
	{ "spawn-starts-at-once", spawn_starts_at_once },
	{ "daemon-finishes", daemon_finishes },
	{ "signal-storm", signal_storm },
	{ "handler-jumps", handler_jumps },
	{ "jumps-anywhere", jumps_anywhere },
	{ "jumps-out-of-waits", jumps_out_of_waits },
	{ "jumps-out-of-first-calls", jumps_out_of_first_calls },
	{ "jumps-out-of-suspend", jumps_out_of_suspend },
	{ "jumps-by-completions", jumps_by_completions },
	{ "jumps-out-of-setuid", jumps_out_of_setuid },
	{ "cancelled-anywhere", cancelled_anywhere },
	{ "handlers-as-set", handlers_as_set },
	{ "handlers-together", handlers_together },
	{ "sleeps-by-any-call", sleeps_by_any_call },
	{ "sleeps-for-a-time", sleeps_for_a_time },
	{ "sleeps-as-it-was", sleeps_as_it_was },
	{ "sleeps-once", sleeps_once },
	{ "sleeps-interrupted", sleeps_interrupted },
	{ "sleeps-left", sleeps_left },
	{ "sleeps-left-for-good", sleeps_left_for_good },
	{ "sleeps-cancelled", sleeps_cancelled },
	{ "sleeps-together", sleeps_together },
	{ "sleeps-without-memory", sleeps_without_memory },
	{ "sleeps-destroyed", sleeps_destroyed },
	{ "sleeps-in-children", sleeps_in_children },
	{ "bells-by-any-call", bells_by_any_call },
	{ "bells-replaced", bells_replaced },
	{ "bells-in-epolls", bells_in_epolls },
	{ "bells-together", bells_together },
	{ "errno-stays", errno_stays },
	{ "dispositions-stay", dispositions_stay },
	{ "threads-behave", threads_behave },
	{ "ioprio-stays", ioprio_stays },
	{ "ids-change", ids_change },
	{ "control-numbers", control_numbers },
	{ "control-cancel", control_cancel },
	{ "control-threads", control_threads },
	{ "limit-descriptors", limit_descriptors },
	{ "share-of-descriptors", share_of_descriptors },
	{ "share-is-used-up", share_is_used_up },
	{ "limit-threads", limit_threads },
	{ "limit-memory", limit_memory },
	{ "memory-locked", memory_locked },
	{ "native-leaving", native_leaving },
	{ "native-forking", native_forking },
	{ "native-numbers", native_numbers },
	{ "native-numbers-of-engine", native_numbers_of_engine },
	{ "native-jumps", native_jumps },
	{ "native-ring-alone", native_ring_alone },
	{ "native-told", native_told },
	{ "native-destroying", native_destroying },
	{ "native-cancelling", native_cancelling },
	{ "native-order", native_order },
	{ "native-edges", native_edges },
	{ "native-holes", native_holes },
	{ "native-closing", native_closing },
	{ "native-failing", native_failing },
	{ "native-vfork", native_vfork },
	{ "native-daemon", native_daemon },
	{ "native-without-descriptors", native_without_descriptors },
	{ "native-without-quota", native_without_quota },
	{ "native-refused-later", native_refused_later },
	{ "native-killed-later", native_killed_later },
	{ "native-ids-in-children", native_ids_in_children },
	{ "native-slow", native_slow },
};

int main(int argc, char **argv)
{
	if (sigsetjmp(to_main, 1))
		return main_status;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(shared != MAP_FAILED);
	number_blocks();
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(HANG_S);
	for (size_t i = 0; i < NR_ELEMENTS(cases); i++) {
		if (argc != 2 || strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "usage: host CASE\n");
	return 2;
}

/* SPDX-License-Identifier: MIT */
/*
 * faults CASE WHERE: tests for faults of glibc's POSIX AIO, one fault in each case
 *
 * WHERE is `uaio` or `glibc`: the library that executes the requests. With uaio, a case
 * fails if the fault occurs. With glibc, a case prints the outcome, and fails if the
 * fault does not occur. But it does not fail if the fault depends on timing, or if this
 * is another release of glibc than the examined one. Some cases wait for an event that
 * never happens with glibc. With glibc they wait only for a moment, with uaio until a
 * deadline.
 *
 * posix.py runs each case in a directory of its own. With uaio, workers execute all
 * requests on files (UAIO_FORCE_WORKER). Some cases use files of a file system that
 * answers requests when the case lets it (slowfs.h).
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "slowfs.h"
#include "clock.h"

enum {
	BLOCK = 4096,
	DEADLINE_MS = 60000,
	MOMENT_MS = 300,
	HANGS_MS = 10000,
	HANG_S = 200,
	SKIPPED = 77,
};

#define EXAMINED "2.36"

static bool is_uaio;

#define REQUIRE(condition)                                              \
	do {                                                            \
		if (!(condition))                                       \
			give_up(__FILE__, __LINE__, #condition, errno); \
	} while (0)

static _Noreturn void give_up(const char *file, int line, const char *text,
			      int error)
{
	fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", file, line, text,
		error);
	_exit(1);
}

/* Return: how long to wait for an event that never happens with glibc. */
static int patience_ms(void)
{
	return is_uaio ? DEADLINE_MS : MOMENT_MS;
}

static struct aiocb aiocb_of(int fd, void *buf, size_t nbytes, off_t offset)
{
	struct aiocb aiocb;

	memset(&aiocb, 0, sizeof(aiocb));
	aiocb.aio_fildes = fd;
	aiocb.aio_buf = buf;
	aiocb.aio_nbytes = nbytes;
	aiocb.aio_offset = offset;
	aiocb.aio_sigevent.sigev_notify = SIGEV_NONE;
	return aiocb;
}

/*
 * Wait for at most `ms` milliseconds.
 * Return: whether the request is complete.
 */
static bool await(const struct aiocb *aiocb, int ms)
{
	struct timespec timeout = { .tv_sec = ms / 1000,
				    .tv_nsec = ms % 1000 * 1000000l };

	(void)aio_suspend(&aiocb, 1, &timeout);
	return aio_error(aiocb) != EINPROGRESS;
}

static int new_file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	REQUIRE(fd >= 0);
	return fd;
}

static off_t size_of(int fd)
{
	struct stat st;

	REQUIRE(fstat(fd, &st) == 0);
	return st.st_size;
}

static struct slowfs *slow(void)
{
	struct slowfs *fs = slowfs_start("slow");

	if (!fs) {
		printf("skipped: no file system can be mounted\n");
		exit(SKIPPED);
	}
	return fs;
}

/* The cases. Each returns true if the fault did not occur. */

/*
 * One write fills a pipe, so a second write to the pipe waits. Then the program closes
 * the pipe's descriptor, and another file gets this descriptor. The bytes of both writes
 * must go to the pipe.
 */
static bool closed_and_reused(void)
{
	static char bytes[256 * 1024], taken[sizeof(bytes)];
	int fds[2], other = new_file("other"), number, nr_there = 0;
	struct aiocb first, second;
	size_t nr_taken = 0;
	int64_t deadline;

	REQUIRE(pipe(fds) == 0);
	number = fds[1];
	first = aiocb_of(number, bytes, sizeof(bytes), 0);
	second = aiocb_of(number, bytes, BLOCK, 0);
	REQUIRE(aio_write(&first) == 0);
	deadline = now_ms() + DEADLINE_MS;
	while (nr_there < fcntl(fds[0], F_GETPIPE_SZ)) {
		REQUIRE(ioctl(fds[0], FIONREAD, &nr_there) == 0);
		REQUIRE(now_ms() < deadline);
		sched_yield();
	}
	REQUIRE(aio_write(&second) == 0);
	REQUIRE(close(number) == 0);
	REQUIRE(fcntl(other, F_DUPFD, number) == number);

	while (aio_error(&first) == EINPROGRESS ||
	       aio_error(&second) == EINPROGRESS || nr_there) {
		struct pollfd readable = { .fd = fds[0], .events = POLLIN };

		REQUIRE(now_ms() < deadline);
		if (poll(&readable, 1, 1) == 1 && readable.revents & POLLIN)
			nr_taken += (size_t)read(fds[0], taken, sizeof(taken));
		REQUIRE(ioctl(fds[0], FIONREAD, &nr_there) == 0);
	}
	REQUIRE(aio_return(&first) == sizeof(bytes));
	printf("of %zu bytes the pipe has %zu, another file %ld\n",
	       sizeof(bytes) + BLOCK, nr_taken, (long)size_of(other));
	return nr_taken == sizeof(bytes) + BLOCK && size_of(other) == 0;
}

static void read_once(int fd)
{
	char byte;
	struct aiocb aiocb = aiocb_of(fd, &byte, 1, 0);

	REQUIRE(aio_read(&aiocb) == 0);
	REQUIRE(await(&aiocb, DEADLINE_MS));
	REQUIRE(aio_return(&aiocb) == 1);
}

/*
 * Wait for at most `ms` milliseconds.
 * Return: whether the process ends with status 0.
 */
static bool ends_well(pid_t pid, int ms)
{
	int64_t deadline = now_ms() + ms;
	int status;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
		if (now_ms() >= deadline) {
			REQUIRE(kill(pid, SIGKILL) == 0);
			REQUIRE(waitpid(pid, NULL, 0) == pid);
			return false;
		}
		poll(NULL, 0, 1);
	}
	REQUIRE(ended == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool forked(void)
{
	int fd = new_file("file"), nr_right = 0;

	REQUIRE(write(fd, "x", 1) == 1);
	for (int i = 0; i < 5; i++) {
		pid_t pid;

		read_once(fd);
		pid = fork();
		REQUIRE(pid >= 0);
		if (pid == 0) {
			read_once(fd);
			_exit(0);
		}
		nr_right += ends_well(pid, patience_ms());
	}
	printf("%d of 5 children read\n", nr_right);
	return nr_right == 5;
}

/*
 * The peer sends nothing before it has received something, so the write must not wait
 * for the read that was submitted first.
 */
static bool both_directions(void)
{
	char question[] = "?", answer[2] = "";
	struct aiocb reading, writing;
	struct pollfd asked;
	int fds[2];
	bool is_asked;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	reading = aiocb_of(fds[0], answer, 1, 0);
	writing = aiocb_of(fds[0], question, 1, 0);
	REQUIRE(aio_read(&reading) == 0);
	REQUIRE(aio_write(&writing) == 0);
	asked = (struct pollfd){ .fd = fds[1], .events = POLLIN };
	is_asked = poll(&asked, 1, patience_ms()) == 1;
	printf("the write behind a read is %s\n",
	       is_asked ? "carried out" : "not carried out");
	REQUIRE(write(fds[1], "!", 1) == 1);
	REQUIRE(await(&reading, DEADLINE_MS) && await(&writing, DEADLINE_MS));
	REQUIRE(answer[0] == '!' && aio_return(&writing) == 1);
	return is_asked;
}

static bool crowded(void)
{
	enum { NR = 20 };
	static struct aiocb waiting[NR];
	static char bytes[NR];
	int fds[NR][2], fd = new_file("file");
	char block[BLOCK];
	struct aiocb aiocb = aiocb_of(fd, block, BLOCK, 0);
	bool is_done;

	REQUIRE(write(fd, block, BLOCK) == BLOCK);
	for (int i = 0; i < NR; i++) {
		REQUIRE(pipe(fds[i]) == 0);
		waiting[i] = aiocb_of(fds[i][0], &bytes[i], 1, 0);
		REQUIRE(aio_read(&waiting[i]) == 0);
	}
	REQUIRE(aio_read(&aiocb) == 0);
	is_done = await(&aiocb, patience_ms());
	printf("the read of a file beside %d of empty pipes is %s\n", NR,
	       is_done ? "complete" : "not complete");
	for (int i = 0; i < NR; i++)
		REQUIRE(write(fds[i][1], "x", 1) == 1);
	for (int i = 0; i < NR; i++)
		REQUIRE(await(&waiting[i], DEADLINE_MS));
	REQUIRE(await(&aiocb, DEADLINE_MS) && aio_return(&aiocb) == BLOCK);
	return is_done;
}

/*
 * The file's FUSE server answers the first write and holds the other writes. The sync
 * must not complete before the other writes.
 */
static bool synced(void)
{
	enum { NR = 4 };
	static char block[BLOCK];
	struct slowfs *fs = slow();
	int fd = new_file("slow/file"), nr_left = 0;
	struct aiocb writes[NR], sync = aiocb_of(fd, NULL, 0, 0);

	for (int i = 0; i < NR; i++)
		REQUIRE(write(fd, block, BLOCK) == BLOCK);
	slowfs_hold(fs, SLOWFS_WRITE);
	for (int i = 0; i < NR; i++) {
		writes[i] = aiocb_of(fd, block, BLOCK, (off_t)i * BLOCK);
		writes[i].aio_reqprio = 5;
		REQUIRE(aio_write(&writes[i]) == 0);
	}
	slowfs_await(fs, SLOWFS_WRITE, 1);
	REQUIRE(aio_fsync(O_SYNC, &sync) == 0);
	slowfs_release_at(fs, SLOWFS_WRITE, 0);
	REQUIRE(await(&writes[0], DEADLINE_MS));
	/*
	 * With uaio the sync must not complete while writes are held; with glibc it
	 * does.
	 */
	await(&sync, is_uaio ? MOMENT_MS : DEADLINE_MS);
	for (int i = 0; i < NR; i++)
		nr_left += aio_error(&writes[i]) == EINPROGRESS;
	if (aio_error(&sync) == EINPROGRESS)
		nr_left = 0;
	slowfs_release(fs, SLOWFS_WRITE);
	REQUIRE(await(&sync, DEADLINE_MS) && aio_return(&sync) == 0);
	if (is_uaio)
		for (int i = 0; i < NR; i++)
			REQUIRE(aio_error(&writes[i]) == 0);
	for (int i = 0; i < NR; i++)
		REQUIRE(await(&writes[i], DEADLINE_MS));
	printf("aio_fsync is complete before %d of %d writes\n", nr_left, NR);
	return nr_left == 0;
}

/* Submit nr writes to a file, set *is_leaving, and exit. */
static void write_and_exit(int fd, int nr, size_t nbytes, uint32_t *is_leaving)
{
	struct aiocb *aiocbs = calloc((size_t)nr, sizeof(*aiocbs));
	char *bytes = malloc(nbytes);

	REQUIRE(aiocbs && bytes);
	memset(bytes, 'x', nbytes);
	for (int i = 0; i < nr; i++) {
		aiocbs[i] = aiocb_of(fd, bytes, nbytes, (off_t)(nbytes * i));
		REQUIRE(aio_write(&aiocbs[i]) == 0);
	}
	__atomic_store_n(is_leaving, 1, __ATOMIC_SEQ_CST);
	exit(0);
}

static bool exited(void)
{
	enum { NR = 16, MIB = 1 << 20, NR_MIB = 64 };
	uint32_t *is_leaving = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct slowfs *fs = slow();
	int fd = new_file("slow/file"), big = new_file("big");
	pid_t pid;
	bool is_right;

	REQUIRE(is_leaving != MAP_FAILED);
	slowfs_hold(fs, SLOWFS_WRITE);
	fflush(NULL);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		write_and_exit(fd, NR, BLOCK, is_leaving);
	/*
	 * With uaio, the process waits for its writes when it exits, so release the
	 * held writes. With glibc it does not wait, so the server can still hold them.
	 */
	if (is_uaio) {
		while (!__atomic_load_n(is_leaving, __ATOMIC_SEQ_CST))
			sched_yield();
		slowfs_release(fs, SLOWFS_WRITE);
	}
	REQUIRE(ends_well(pid, DEADLINE_MS));
	slowfs_release(fs, SLOWFS_WRITE);
	is_right = size_of(fd) == NR * BLOCK;
	printf("of %d held writes %ld are made\n", NR,
	       (long)size_of(fd) / BLOCK);

	fflush(NULL);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		write_and_exit(big, NR_MIB, MIB, is_leaving);
	REQUIRE(ends_well(pid, DEADLINE_MS));
	printf("of %d MiB %ld are written\n", NR_MIB,
	       (long)(size_of(big) / MIB));
	return is_right && size_of(big) == (off_t)NR_MIB * MIB;
}

static const struct {
	struct timespec timeout;
	int error;
} timeouts[] = {
	{ { 0, 2000000000 }, EINVAL }, { { 0, 1000000000 }, EINVAL },
	{ { 0, -1 }, EINVAL },         { { -1, 0 }, EAGAIN },
	{ { 0, 0 }, EAGAIN },          { { 0, 1 }, EAGAIN },
};

static bool oddly_timed(void)
{
	unsigned nr = sizeof(timeouts) / sizeof(timeouts[0]), nr_right = 0;

	for (unsigned i = 0; i < nr; i++) {
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (pid == 0) {
			const struct rlimit no_core = { 0, 0 };
			struct aiocb aiocb;
			const struct aiocb *list[] = { &aiocb };
			int fds[2];
			char byte;

			setrlimit(RLIMIT_CORE, &no_core);
			REQUIRE(pipe(fds) == 0);
			aiocb = aiocb_of(fds[0], &byte, 1, 0);
			REQUIRE(aio_read(&aiocb) == 0);
			_exit(aio_suspend(list, 1, &timeouts[i].timeout) !=
				      -1 ||
			      errno != timeouts[i].error);
		}
		nr_right += ends_well(pid, DEADLINE_MS);
	}
	printf("%u of %u timeouts are answered\n", nr_right, nr);
	return nr_right == nr;
}

/*
 * Reads of an empty pipe, which do not complete. A thread queries them by aio_error().
 */
enum { DEPTH = 32, LOOKS = 100000 };
static struct aiocb asked[DEPTH];
static uint32_t has_looked, is_over;

/*
 * A thread that calls aio_error(). In strict seccomp mode, a system call other than
 * exit, read and write kills the thread.
 */
static void *look(void *arg)
{
	int nr_waiting = 0;

	REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
	for (int i = 0; i < LOOKS; i++)
		nr_waiting += aio_error(&asked[i % DEPTH]) == EINPROGRESS;
	if (nr_waiting == LOOKS)
		__atomic_store_n(&has_looked, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_exit, 0);
	return arg;
}

static double cpu_s(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/*
 * Keep 32 reads in flight until is_over is set. The thread learns only by aio_error()
 * that a read has completed.
 */
static void *read_by_polling(void *arg)
{
	static char blocks[DEPTH][BLOCK];
	static struct aiocb aiocbs[DEPTH];
	int fd = *(int *)arg;
	int64_t from = now_ms();
	double cpu = cpu_s();
	unsigned long nr = 0;

	for (int i = 0; i < DEPTH; i++) {
		aiocbs[i] = aiocb_of(fd, blocks[i], BLOCK, 0);
		REQUIRE(aio_read(&aiocbs[i]) == 0);
	}
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST) ||
	       now_ms() - from < MOMENT_MS) {
		for (int i = 0; i < DEPTH; i++) {
			if (aio_error(&aiocbs[i]) == EINPROGRESS)
				continue;
			REQUIRE(aio_return(&aiocbs[i]) == BLOCK);
			REQUIRE(aio_read(&aiocbs[i]) == 0);
			nr++;
		}
	}
	printf("%.0f reads a second, %.1f us of processor time each\n",
	       (double)nr * 1e3 / (double)(now_ms() - from),
	       nr ? (cpu_s() - cpu) * 1e6 / (double)nr : 0);
	for (int i = 0; i < DEPTH; i++)
		REQUIRE(await(&aiocbs[i], DEADLINE_MS));
	return NULL;
}

static bool polled_here(void)
{
	static char block[BLOCK], byte;
	int fd = new_file("file"), fds[2];
	pthread_t reader, looker;

	REQUIRE(write(fd, block, BLOCK) == BLOCK);
	REQUIRE(pipe(fds) == 0);
	for (int i = 0; i < DEPTH; i++) {
		asked[i] = aiocb_of(fds[0], &byte, 1, 0);
		REQUIRE(aio_read(&asked[i]) == 0);
	}
	REQUIRE(!pthread_create(&reader, NULL, read_by_polling, &fd));
	REQUIRE(!pthread_create(&looker, NULL, look, NULL));
	REQUIRE(!pthread_join(looker, NULL));
	__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	REQUIRE(!pthread_join(reader, NULL));
	printf("aio_error makes %s system call\n", has_looked ? "no" : "a");
	return has_looked;
}

/*
 * With glibc, run the case in a child. There, aio_error() makes a system call, for which
 * seccomp kills the thread while it holds glibc's lock. The other threads then hang.
 */
static bool polled(void)
{
	pid_t pid;

	if (is_uaio)
		return polled_here();
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(!polled_here());
	return ends_well(pid, HANGS_MS);
}

static const struct {
	const char *name;
	bool (*run)(void);
	bool is_certain; /* on glibc, the fault shows in every run; false: in some */
} cases[] = {
	{ "closed", closed_and_reused, true },
	{ "forked", forked, false },
	{ "duplex", both_directions, true },
	{ "crowded", crowded, true },
	{ "synced", synced, true },
	{ "exited", exited, true },
	{ "timeouts", oddly_timed, true },
	{ "polled", polled, false },
};

/* Return: the exit status of the program. */
static int judge(bool is_right, bool is_certain)
{
	if (is_uaio)
		return !is_right;
	printf("glibc %s: %s\n", gnu_get_libc_version(),
	       is_right ? "right" : "wrong");
	return is_right && is_certain &&
	       !strcmp(gnu_get_libc_version(), EXAMINED);
}

int main(int argc, char **argv)
{
	alarm(HANG_S);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc != 3 || strcmp(argv[1], cases[i].name) != 0)
			continue;
		is_uaio = !strcmp(argv[2], "uaio");
		/*
		 * Do not call exit(). With glibc, a case may leave requests that never
		 * end, and exit() could wait for them.
		 */
		int status = judge(cases[i].run(), cases[i].is_certain);
		fflush(stdout);
		_exit(status);
	}
	fprintf(stderr, "usage: faults CASE uaio|glibc\n");
	return 2;
}

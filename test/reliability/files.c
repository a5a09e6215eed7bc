/* SPDX-License-Identifier: MIT */
/*
 * files --seed S --seconds N [--fuse plain|cached|async] [--keeps-apart]
 *
 * The coordinator runs rounds, starts processes, and checks the final contents of the
 * file. files.h says what the program checks. With --fuse, the coordinator mounts a
 * FUSE file system on ./slow and works there; the argument is the kind of file system.
 * With --keeps-apart, the file system never mixes a buffered write with a buffered
 * read.
 */
#include "files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "slowfs.h"

enum {
	/* in seconds: how much longer than --seconds a run may take */
	PATIENCE_S = 120,
	ROUND_NS = 1000000000,
	/*
	 * Most rounds on a FUSE file system: each round uses another file, and slowfs
	 * (the tests' FUSE server) can have only 16 files.
	 */
	FUSE_ROUNDS_MAX = 12,
	FILE_BYTES = NR_CELLS * CELL,
	MAPPED_BYTES = NR_OWNERS * NR_SLOTS * AREA,
};

struct run run = { .folder = "." };
struct shared *shared;

static struct {
	pid_t pid;
	char **argv;
	double seconds;
	const char *fuse;              /* argument of --fuse; or NULL */
	pid_t processes[NR_PROCESSES]; /* 0: has ended */
	int direct;                    /* the round's file, with O_DIRECT */
	uint64_t random;
	unsigned nr_left; /* how many processes ended with writes in flight */
} coordinator;

static sigjmp_buf to_main;
static int main_status;

void return_from_main(int status)
{
	main_status = status;
	siglongjmp(to_main, 1);
}

/*
 * Failures
 */

static _Noreturn void give_up(void)
{
	fprintf(stderr, "replay: %s --seed %" PRIu64 " --seconds %g",
		coordinator.argv[0], run.seed, coordinator.seconds);
	for (char **word = coordinator.argv + 1; *word; word++) {
		if (!strcmp(*word, "--fuse"))
			fprintf(stderr, " --fuse %s", word[1]);
		if (!strcmp(*word, "--keeps-apart"))
			fprintf(stderr, " --keeps-apart");
	}
	fprintf(stderr, "\n");
	for (unsigned i = 0; i < NR_PROCESSES; i++)
		if (coordinator.processes[i])
			kill(coordinator.processes[i], SIGKILL);
	_exit(1);
}

void fail(const char *format, ...)
{
	char what[512];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (!__atomic_exchange_n(&shared->has_failed, 1, __ATOMIC_SEQ_CST))
		fprintf(stderr, "failed: %s\n", what);
	if (getpid() == coordinator.pid)
		give_up();
	/* SIGKILL, because a normal exit would wait for requests in flight. */
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static void on_alarm(int sig)
{
	(void)sig;
	fail("a request or a process does not end");
}

/*
 * Processes
 */

static void *run_thread(void *arg)
{
	client_run(arg);
	return NULL;
}

static _Noreturn void run_process(unsigned index)
{
	static const enum door doors[NR_THREADS] = { KERNEL_AIO, POSIX_AIO,
						     IO_URING, KERNEL_AIO };
	static struct client clients[NR_THREADS];
	static struct descriptors descriptors;
	pthread_t threads[NR_THREADS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	descriptors_open(&descriptors);
	for (unsigned i = 0; i < NR_THREADS; i++)
		client_begin(&clients[i], index * NR_THREADS + i, doors[i],
			     &descriptors);
	for (unsigned i = 0; i < NR_THREADS; i++)
		if (pthread_create(&threads[i], NULL, run_thread, &clients[i]))
			fail("no thread");
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	return pid;
}

/*
 * Wait until this child ends. Other children may end meanwhile, but must not fail.
 * Return: its status.
 */
static int await(pid_t wanted)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		if (pid < 0)
			fail("waitpid: %s", strerror(errno));
		for (unsigned i = 0; i < NR_PROCESSES; i++)
			if (coordinator.processes[i] == pid)
				coordinator.processes[i] = 0;
		if (pid == wanted)
			return status;
		if (status)
			fail("a process ends with the status %#x",
			     (unsigned)status);
	}
}

/* What the file contains */

/* Check cells to which no thread writes meanwhile. */
static void check_cells(int fd, unsigned first, unsigned nr, const char *reader)
{
	static char bytes[BYTES_MAX] __attribute__((aligned(PAGE)));

	memset(bytes, 0, sizeof(bytes));
	if (pread(fd, bytes, (size_t)nr * CELL, (off_t)first * CELL) < 0)
		fail("pread: %s", strerror(errno));
	for (unsigned i = 0; i < nr; i++) {
		unsigned cell = first + i;
		uint32_t started = load(&shared->started[cell]);
		uint32_t done = load(&shared->done[cell]);

		/*
		 * The owner LEAVER is a process that ends soon after it has submitted
		 * writes. It may have ended before its last writes were executed, so
		 * its cells may contain an older version.
		 */
		cell_check(bytes + (size_t)i * CELL, cell,
			   run.owners[cell] == LEAVER ? done : started, started,
			   true, reader);
	}
	__atomic_fetch_add(&shared->nr_checked, nr, __ATOMIC_SEQ_CST);
}

static void check_stripes_of_leaver(const char *way, enum door door)
{
	char reader[64];

	snprintf(reader, sizeof(reader), "after %s and %s a read", way,
		 door_names[door]);
	for (unsigned i = 0; i < NR_STRIPES; i++) {
		const struct stripe *stripe = &run.stripes[i];

		if (stripe->owner != LEAVER)
			continue;
		check_cells(run.inherited, stripe->first, stripe->nr, reader);
		if (is_direct_cell(stripe->first))
			check_cells(coordinator.direct, stripe->first,
				    stripe->nr, reader);
	}
}

static void check_file(void)
{
	for (unsigned cell = 0; cell < NR_CELLS; cell += CELLS_MAX) {
		check_cells(run.inherited, cell, CELLS_MAX,
			    "a buffered read at the end");
		check_cells(coordinator.direct, cell, CELLS_MAX,
			    "a direct read at the end");
	}
}

/*
 * Rounds
 */

static int open_or_fail(const char *path, int flags)
{
	int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("open of %s: %s", path, strerror(errno));
	return fd;
}

/* Make an empty file, a file with one hole, or a file of unwritten blocks. */
static void make_file(void)
{
	unsigned kind = draw(&coordinator.random, 3);
	int fd;

	/*
	 * On FUSE, io_uring of Linux 6.18 has a bug. If a direct read goes beyond the
	 * end of the file, its buffer gets the beginning of the data twice. So give the
	 * file its full length now.
	 */
	if (coordinator.fuse && !run.is_uaio)
		kind = 1;
	snprintf(run.file, sizeof(run.file), "%s/file%u", run.folder,
		 run.round);
	snprintf(run.link, sizeof(run.link), "%s/link%u", run.folder,
		 run.round);
	fd = open_or_fail(run.file, O_CREAT | O_EXCL);
	if (kind == 2 && fallocate(fd, 0, 0, FILE_BYTES))
		kind = 1; /* this file system has no fallocate() */
	if (kind == 1 && ftruncate(fd, FILE_BYTES))
		fail("ftruncate: %s", strerror(errno));
	if (link(run.file, run.link))
		snprintf(run.link, sizeof(run.link), "%s", run.file);
	run.inherited = fd;
	coordinator.direct = open_or_fail(run.file, O_DIRECT);
}

static void remove_file(void)
{
	close(run.inherited);
	close(coordinator.direct);
	/*
	 * Do not delete the file: the FUSE server would reuse the inode's number while
	 * the kernel still has its pages.
	 */
	if (coordinator.fuse)
		return;
	if (unlink(run.file) ||
	    (strcmp(run.file, run.link) && unlink(run.link)))
		fail("unlink: %s", strerror(errno));
}

static void let_one_leave(void)
{
	struct leaving leaving = leaving_draw(&coordinator.random);
	pid_t pid = fork_child();

	if (pid == 0)
		leave(&leaving);
	leaving_settle(&leaving, await(pid));
	coordinator.nr_left++;
	check_stripes_of_leaver(leaving_name(&leaving), leaving.door);
}

static void run_round(int64_t round_ns)
{
	int64_t end_ns = now_ns() + round_ns;

	memset(shared, 0, offsetof(struct shared, nr_checked));
	shared->is_over = 0;
	cells_assign();
	make_file();
	for (unsigned i = 0; i < NR_PROCESSES; i++) {
		pid_t pid = fork_child();

		if (pid == 0)
			run_process(i);
		coordinator.processes[i] = pid;
	}
	do
		let_one_leave();
	while (now_ns() < end_ns);
	raise_to(&shared->is_over, 1);
	for (unsigned i = 0; i < NR_PROCESSES; i++)
		if (coordinator.processes[i] &&
		    await(coordinator.processes[i]) != 0)
			fail("a process ends before its time");
	check_file();
	remove_file();
}

static struct slowfs *start_fuse(const char *kind)
{
	struct slowfs *fs = !strcmp(kind, "plain") ? slowfs_start("slow")
			    : !strcmp(kind, "cached")
				    ? slowfs_start_cached("slow")
				    : slowfs_start_async("slow");

	if (!fs)
		fail("a file system of FUSE: %s", strerror(errno));
	run.folder = "slow";
	return fs;
}

static void run_rounds(void)
{
	struct slowfs *fs =
		coordinator.fuse ? start_fuse(coordinator.fuse) : NULL;
	int64_t run_ns = (int64_t)(coordinator.seconds * 1e9);
	int64_t end_ns = now_ns() + run_ns, round_ns = ROUND_NS;
	int fd;

	if (fs && round_ns < run_ns / FUSE_ROUNDS_MAX)
		round_ns = run_ns / FUSE_ROUNDS_MAX;
	snprintf(run.mapped, sizeof(run.mapped), "%s/mapped", run.folder);
	fd = open_or_fail(run.mapped, O_CREAT);
	if (ftruncate(fd, MAPPED_BYTES))
		fail("ftruncate: %s", strerror(errno));
	close(fd);
	do {
		int64_t left_ns = end_ns - now_ns();

		run_round(left_ns < round_ns ? left_ns : round_ns);
		run.round++;
	} while (end_ns - now_ns() > round_ns / 4);
	if (fs)
		slowfs_stop(fs);
	else if (unlink(run.mapped))
		fail("unlink: %s", strerror(errno));
}

/*
 * Begin and end
 */

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'n' },
		{ "fuse", required_argument, NULL, 'f' },
		{ "keeps-apart", no_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};

	run.seed = (uint64_t)time(NULL);
	coordinator.seconds = 2;
	for (int option;
	     (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (option) {
		case 's': run.seed = strtoull(optarg, NULL, 0); break;
		case 'n': coordinator.seconds = strtod(optarg, NULL); break;
		case 'f': coordinator.fuse = optarg; break;
		case 'a': run.keeps_apart = true; break;
		default: exit(2);
		}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	if (sigsetjmp(to_main, 0))
		return main_status;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	coordinator.pid = getpid();
	coordinator.argv = argv;
	coordinator.random = run.seed;
	run.is_long = coordinator.seconds >= 10;
	run.is_uaio = dlsym(RTLD_DEFAULT, "uaio_get_counters");
	printf("seed %" PRIu64 "\n", run.seed);
	fflush(stdout);
	signal(SIGALRM, on_alarm);
	alarm((unsigned)coordinator.seconds + PATIENCE_S);
	run_rounds();
	printf("%u processes ended with writes in flight\n",
	       coordinator.nr_left);
	printf("counted %" PRIu64 " cells: 0 lost\n", shared->nr_checked);
	return shared->nr_checked ? 0 : 1;
}

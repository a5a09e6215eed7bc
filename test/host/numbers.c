/* SPDX-License-Identifier: MIT */
/*
 * Cases: programs close, replace and reuse descriptors on which requests wait, in every
 * possible way.
 */
#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utmp.h>

#include "ways.h"
#include "older.h"

enum { NR_WRITES = 4, FIRST_OF_ENGINE = 512 };

static void replace_once(aio_context_t ctx, const struct host_way *way)
{
	static const char *const old[NR_WRITES] = { "a", "b", "c", "d" };
	int file = host_nameless(), copy = dup(file), other = host_nameless();
	struct iocb iocbs[NR_WRITES], *list[NR_WRITES], iocb;
	struct io_event events[NR_WRITES];

	host_move(file, FAR);
	for (unsigned i = 0; i < NR_WRITES; i++) {
		iocbs[i] = host_iocb(IOCB_CMD_PWRITE, FAR, old[i], 1, i);
		list[i] = &iocbs[i];
	}
	host_submit_all(ctx, NR_WRITES, list);
	way->replace(FAR, other);
	iocb = host_iocb(IOCB_CMD_PWRITE, FAR, "new", 3, 0);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(host_reap(ctx, NR_WRITES, events) == NR_WRITES);
	REQUIRE(host_reap(ctx, 1, events) == 1);
	host_check_text(copy, "abcd");
	host_check_text(other, "new");
	REQUIRE(close(FAR) == 0 && close(copy) == 0 && close(other) == 0);
}

void numbers_regular(void)
{
	aio_context_t ctx = host_context(16);

	for (const struct host_way *way = host_ways; way->name; way++)
		for (unsigned round = 0; round < host_rounds(500); round++)
			replace_once(ctx, way);
	REQUIRE(host_destroy(ctx) == 0);
}

/*
 * A poll must stay with the pipe on which it was submitted, whatever file its
 * descriptor refers to later. Replacing the descriptor must not wait for the poll.
 */
static void replace_polled(aio_context_t ctx, const struct host_way *way)
{
	int ends[2], copy, other = host_nameless();
	struct io_event event;
	struct iocb iocb;

	REQUIRE(pipe(ends) == 0);
	copy = dup(ends[0]);
	host_move(ends[0], FAR);
	iocb = host_poll(FAR);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	way->replace(FAR, other);
	REQUIRE(write(ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(event.res & 1 /* POLLIN */);
	REQUIRE(lseek(other, 0, SEEK_END) == 0);
	REQUIRE(close(FAR) == 0 && close(copy) == 0 && close(other) == 0);
	REQUIRE(close(ends[1]) == 0);
}

void numbers_polled(void)
{
	aio_context_t ctx = host_context(16);

	for (const struct host_way *way = host_ways; way->name; way++)
		for (unsigned round = 0; round < host_rounds(100); round++)
			replace_polled(ctx, way);
	REQUIRE(host_destroy(ctx) == 0);
}

static void sync_directory(aio_context_t ctx)
{
	DIR *dir = opendir(".");
	struct io_event event;
	struct iocb iocb;

	REQUIRE(dir);
	iocb = host_iocb(IOCB_CMD_FSYNC, dirfd(dir), NULL, 0, 0);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(closedir(dir) == 0);
	REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res == 0);
}

void numbers_directory(void)
{
	aio_context_t ctx = host_context(16);

	for (unsigned round = 0; round < host_rounds(500); round++)
		sync_directory(ctx);
	REQUIRE(host_destroy(ctx) == 0);
}

/* The poll holds the last reference to its end of the pipe. */
static int log_in(void *arg)
{
	aio_context_t ctx = host_context(4);
	struct io_event event;
	struct iocb iocb;
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	host_move(ends[0], STDIN_FILENO);
	iocb = host_poll(STDIN_FILENO);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(login_tty(*(int *)arg) == 0);
	REQUIRE(isatty(STDIN_FILENO) && fcntl(*(int *)arg, F_GETFD) < 0);
	REQUIRE(write(ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(event.res & 1 /* POLLIN */);
	return 0;
}

void numbers_login(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), terminal;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		host_skip("there are no terminals");
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
	REQUIRE(terminal >= 0);
	REQUIRE(host_in_child(log_in, &terminal) == 0);
	REQUIRE(close(terminal) == 0 && close(master) == 0);
}

/*
 * Each thread opens files, which get descriptors that other threads have just closed.
 */
static void use_numbers_once(aio_context_t ctx)
{
	struct timespec now = { 0 };
	struct io_event event;
	struct iocb iocb;
	int ends[2], fd;

	REQUIRE(pipe(ends) == 0);
	iocb = host_poll(ends[0]);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	fd = host_nameless();
	host_write_blocks(ctx, fd, 0, 2);
	REQUIRE(close(fd) == 0);
	host_reap_blocks(ctx, 2);
	REQUIRE(close(ends[0]) == 0);
	/* The pipe is empty, so the poll has not completed. */
	REQUIRE(syscall(SYS_io_getevents, ctx, 0l, 1l, &event, &now) == 0);
	REQUIRE(close(ends[1]) == 0);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(event.res == 0x10 /* POLLHUP */);
	fd = host_nameless();
	host_write_blocks(ctx, fd, 0, 1);
	host_reap_blocks(ctx, 1);
	REQUIRE(close(fd) == 0);
}

static void *use_numbers(void *arg)
{
	aio_context_t ctx = host_context(16);

	(void)arg;
	for (unsigned round = 0; round < host_rounds(8000); round++)
		use_numbers_once(ctx);
	REQUIRE(host_destroy(ctx) == 0);
	return NULL;
}

void numbers_of_threads(void)
{
	pthread_t threads[6];

	for (size_t i = 0; i < NR_ELEMENTS(threads); i++)
		REQUIRE(!pthread_create(&threads[i], NULL, use_numbers, NULL));
	for (size_t i = 0; i < NR_ELEMENTS(threads); i++)
		REQUIRE(!pthread_join(threads[i], NULL));
}

/*
 * Programs that close or replace the library's own descriptors (512 and higher). These
 * cases run only with the library.
 */

struct parked {
	aio_context_t ctx;
	int ends[2];
	struct iocb iocb;
};

static void park(struct parked *parked)
{
	parked->ctx = host_context(4);
	REQUIRE(pipe(parked->ends) == 0);
	parked->iocb = host_poll(parked->ends[0]);
	REQUIRE(host_submit(parked->ctx, &parked->iocb) == 1);
}

static void unpark(struct parked *parked)
{
	struct io_event event;

	REQUIRE(write(parked->ends[1], "x", 1) == 1);
	REQUIRE(host_reap(parked->ctx, 1, &event) == 1);
	REQUIRE(event.res & 1);
	REQUIRE(host_destroy(parked->ctx) == 0);
	(void)close(parked->ends[0]);
	REQUIRE(close(parked->ends[1]) == 0);
}

static bool is_same_file(int one, int other)
{
	struct stat a, b;

	REQUIRE(fstat(one, &a) == 0 && fstat(other, &b) == 0);
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* close() of a descriptor of the library fails with EBADF. dup2() onto it works. */
static void take_from_engine(int number, int (*put)(int other, int number))
{
	int other = host_nameless();

	errno = 0;
	REQUIRE(close(number) == -1 && errno == EBADF);
	errno = 0;
	REQUIRE(syscall(SYS_close, number) == -1 && errno == EBADF);
	REQUIRE(close_range((unsigned)number, (unsigned)number, 0) == 0);
	REQUIRE(syscall(SYS_close_range, number, ~0u, 0) == 0);
	closefrom(number);
	REQUIRE(!is_same_file(number, other));
	/*
	 * A dup2() that fails, because its source is not open, must not move the
	 * library's file.
	 */
	errno = 0;
	REQUIRE(put(FAR, number) == -1 && errno == EBADF);
	REQUIRE(!is_same_file(number, other));

	REQUIRE(put(other, number) == number);
	REQUIRE(is_same_file(number, other));
	REQUIRE(lseek(other, 0, SEEK_END) == 0);
	REQUIRE(close(other) == 0);
}

static int put_by_dup2(int other, int number)
{
	return dup2(other, number);
}

static int put_by_dup3(int other, int number)
{
	return dup3(other, number, O_CLOEXEC);
}

static int put_by_dup3_number(int other, int number)
{
	return (int)syscall(SYS_dup3, other, number, 0);
}

void numbers_of_engine(void)
{
	static int (*const puts[])(int, int) = {
		put_by_dup2,
		put_by_dup3,
		put_by_dup3_number,
	};

	for (size_t i = 0; i < NR_ELEMENTS(puts); i++) {
		struct parked first, second;
		int number, private;

		/*
		 * Replace the eventfd by which the program wakes a thread of the
		 * library.
		 */
		park(&first);
		number = host_find_fd(FIRST_OF_ENGINE, "[eventfd]");
		REQUIRE(number >= 0);
		take_from_engine(number, puts[i]);
		park(&second);
		unpark(&second);
		unpark(&first);
		REQUIRE(lseek(number, 0, SEEK_END) == 0);
		REQUIRE(close(number) == 0);

		/*
		 * Replace the library's duplicate of a closed descriptor, which keeps a
		 * request's file open.
		 */
		park(&first);
		REQUIRE(close(first.ends[0]) == 0);
		private = host_find_fd(FIRST_OF_ENGINE, "pipe:");
		REQUIRE(private >= 0);
		take_from_engine(private, puts[i]);
		unpark(&first);
		REQUIRE(host_find_fd(FIRST_OF_ENGINE, "pipe:") < 0);
		REQUIRE(lseek(private, 0, SEEK_END) == 0);
		REQUIRE(close(private) == 0);
	}
}

/*
 * Threads make the library use its descriptors, while the program replaces these by
 * files. The library must not write to any of these files.
 */
static void *park_until_over(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&shared->is_over, __ATOMIC_SEQ_CST)) {
		struct parked parked;

		park(&parked);
		unpark(&parked);
	}
	return NULL;
}

void numbers_of_engine_storm(void)
{
	pthread_t threads[3];
	struct parked parked;

	park(&parked);
	for (size_t i = 0; i < NR_ELEMENTS(threads); i++)
		REQUIRE(!pthread_create(&threads[i], NULL, park_until_over,
					NULL));
	for (unsigned round = 0; round < host_rounds(2000); round++) {
		int number = host_find_fd(FIRST_OF_ENGINE, "[eventfd]");
		int other = host_nameless();

		REQUIRE(number >= 0 && dup2(other, number) == number);
		REQUIRE(lseek(other, 0, SEEK_END) == 0);
		REQUIRE(close(number) == 0);
		REQUIRE(close(other) == 0);
	}
	__atomic_store_n(&shared->is_over, 1, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < NR_ELEMENTS(threads); i++)
		REQUIRE(!pthread_join(threads[i], NULL));
	unpark(&parked);
}

/*
 * While open() of a FIFO waits, the kernel has already reserved its descriptor: dup2()
 * onto that descriptor fails with EBUSY until open() returns.
 */
static void *open_to_read(void *arg)
{
	int *fd = arg;

	do
		*fd = open("fifo", O_RDONLY);
	while (*fd < 0 && errno == EMFILE);
	return NULL;
}

static void limit_numbers(rlim_t nr)
{
	struct rlimit limit;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = nr;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

void numbers_being_opened(void)
{
	int other = host_nameless(), number = host_nameless(), opened, writer;
	pthread_t thread;

	REQUIRE(mkfifo("fifo", 0600) == 0 && close(number) == 0);
	/* All lower descriptors are in use, so open() must get `number`. */
	limit_numbers((rlim_t)number + 1);
	REQUIRE(!pthread_create(&thread, NULL, open_to_read, &opened));
	while (dup2(other, number) == number)
		REQUIRE(close(number) == 0);
	REQUIRE(errno == EBUSY);
	for (size_t i = 0; i < 3; i++)
		REQUIRE(dup3(other, number, O_CLOEXEC) == -1 && errno == EBUSY);
	limit_numbers((rlim_t)number + 2);
	writer = open("fifo", O_WRONLY);
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(opened == number && dup2(other, number) == number);
	REQUIRE(is_same_file(number, other));
	REQUIRE(close(number) == 0 && close(other) == 0 && close(writer) == 0);
}

/*
 * Programs that close all descriptors, in each way, before their work or during it.
 */

static void close_each(void)
{
	for (int fd = 3; fd < 2048; fd++)
		(void)close(fd);
}

static void close_each_by_number(void)
{
	for (int fd = 3; fd < 2048; fd++)
		(void)syscall(SYS_close, fd);
}

static void close_from(void)
{
	closefrom(3);
}

static void close_range_to_end(void)
{
	REQUIRE(close_range(3, ~0u, 0) == 0);
}

static void close_on_exec(void)
{
	/*
	 * Before Linux 5.11, close_range does not know CLOSE_RANGE_CLOEXEC, and fails
	 * without effect.
	 */
	REQUIRE(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0 ||
		errno == EINVAL);
}

static int close_all(void *arg)
{
	void (*close_all_fds)(void) = *(void (**)(void))arg;
	struct parked parked;
	int number;

	close_all_fds();
	park(&parked);
	number = host_find_fd(FIRST_OF_ENGINE, "[eventfd]");
	close_all_fds();
	REQUIRE(host_find_fd(FIRST_OF_ENGINE, "[eventfd]") == number);
	/*
	 * By now both ends of the pipe are closed or have close-on-exec. New files must
	 * still work.
	 */
	park(&parked);
	unpark(&parked);
	close_all_fds();
	{
		aio_context_t ctx = host_context(16);
		int fd = open("f", O_CREAT | O_RDWR, 0644);

		host_write_blocks(ctx, fd, 0, 16);
		close_all_fds();
		host_reap_blocks(ctx, 16);
	}
	park(&parked);
	unpark(&parked);
	return 0;
}

void close_all_first(void)
{
	static void (*const alls[])(void) = {
		close_each,         close_each_by_number, close_from,
		close_range_to_end, close_on_exec,
	};

	for (size_t i = 0; i < NR_ELEMENTS(alls); i++) {
		REQUIRE(host_in_child(close_all, (void *)&alls[i]) == 0);
		host_check_blocks("f", 16);
	}
}

/*
 * If no worker is free, close() executes the requests that are queued on its file.
 */

enum behind {
	/* reads occupy all workers; the file system does not answer them */
	BEHIND_READS,
	/*
	 * like BEHIND_READS, but the file system holds the write that the closing
	 * thread executes; if signals interrupt this write, the thread must repeat it
	 */
	BEHIND_READS_SLOW,
	/*
	 * one worker executes the first write, reads occupy all other workers; further
	 * reads are queued, and after them the other writes
	 */
	BEHIND_FIRST_WRITE,
};

struct closer {
	int fd;
	uint32_t tid; /* atomic */
};

static uint32_t nr_handled; /* atomic */

static void on_signal(int sig)
{
	(void)sig;
	__atomic_fetch_add(&nr_handled, 1, __ATOMIC_SEQ_CST);
}

static void *close_it(void *arg)
{
	struct closer *closer = arg;

	__atomic_store_n(&closer->tid, (uint32_t)gettid(), __ATOMIC_SEQ_CST);
	REQUIRE(close(closer->fd) == 0);
	return NULL;
}

static void await_closing(struct closer *closer)
{
	pid_t tid;

	while (!(tid = (pid_t)__atomic_load_n(&closer->tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	host_await_sleep(tid);
}

/*
 * Send signals to the closing thread. Each signal interrupts the thread's write, and the
 * thread must repeat the write. The signal handler runs at once or, if the library
 * defers the signal, when close() returns.
 */
static void interrupt(struct slowfs *fs, pthread_t thread)
{
	const struct sigaction action = { .sa_handler = on_signal };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	for (uint32_t nr = 1; nr <= 5; nr++) {
		slowfs_await(fs, SLOWFS_WRITE, 1);
		REQUIRE(!pthread_kill(thread, SIGUSR1));
	}
	slowfs_await(fs, SLOWFS_WRITE, 1);
}

static void read_behind(aio_context_t ctx, int fd, unsigned nr)
{
	static char buf[BLOCK];

	for (unsigned i = 0; i < nr; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PREAD, fd, buf, BLOCK, 0);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
}

static void close_behind(const char *path, enum behind behind)
{
	/* WORKERS: how many workers one device may occupy */
	enum { WORKERS = 256, NR_READS = WORKERS + 8, NR = 100 };
	unsigned nr_early = behind == BEHIND_FIRST_WRITE;
	struct slowfs *fs = host_slow();
	aio_context_t ctx = host_context(1000);
	int reads = open("slow/reads", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	struct closer closer = {
		.fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644),
	};
	struct io_event event;
	pthread_t thread;

	slowfs_hold(fs, SLOWFS_READ);
	if (behind != BEHIND_READS)
		slowfs_hold(fs, SLOWFS_WRITE);
	host_write_blocks(ctx, closer.fd, 0, nr_early);
	read_behind(ctx, reads, NR_READS);
	slowfs_await(fs, SLOWFS_READ, WORKERS - nr_early);
	host_write_blocks(ctx, closer.fd, nr_early, NR - nr_early);
	REQUIRE(!pthread_create(&thread, NULL, close_it, &closer));
	if (behind != BEHIND_READS) {
		slowfs_await(fs, SLOWFS_WRITE, 1);
		await_closing(&closer);
		/*
		 * Do not send the signals if there is a sanitizer: its runtime defers
		 * signals until the call returns.
		 */
		if (behind == BEHIND_READS_SLOW && !host_is_sanitized())
			interrupt(fs, thread);
		slowfs_release(fs, SLOWFS_WRITE);
	}
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(behind != BEHIND_READS_SLOW || host_is_sanitized() ||
		__atomic_load_n(&nr_handled, __ATOMIC_SEQ_CST));
	host_reap_blocks(ctx, NR);
	slowfs_release(fs, SLOWFS_READ);
	host_check_blocks(path, NR);
	for (unsigned i = 0; i < NR_READS; i++)
		REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res == 0);
	REQUIRE(host_destroy(ctx) == 0 && close(reads) == 0);
	slowfs_stop(fs);
}

void close_behind_reads(void)
{
	close_behind("f", BEHIND_READS);
	close_behind("slow/f", BEHIND_READS_SLOW);
	close_behind("slow/f", BEHIND_FIRST_WRITE);
}

/* SPDX-License-Identifier: MIT */
/*
 * Cases: resource limits down to 0. Each call must fail as on the kernel, or the
 * library must do the work in another way. Nothing may hang, and no request may be
 * lost.
 */
/* Include this header before <linux/…> headers, which define some of its constants. */
#include <sys/mount.h>

#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static void limit(int resource, rlim_t soft)
{
	struct rlimit now;

	REQUIRE(getrlimit(resource, &now) == 0);
	now.rlim_cur = soft;
	REQUIRE(setrlimit(resource, &now) == 0);
}

/*
 * Return: whether this is an error that the kernel, too, returns for lack of resources.
 */
static bool is_refusal(long ret)
{
	return ret == -EAGAIN || ret == -ENOMEM;
}

struct files {
	int regular;
	int ends[2];
	int event;
};

static struct files open_files(void)
{
	struct files files;

	files.regular = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	files.event = eventfd(0, EFD_CLOEXEC);
	REQUIRE(files.regular >= 0 && files.event >= 0);
	REQUIRE(pipe2(files.ends, O_CLOEXEC) == 0);
	return files;
}

/*
 * Read the only byte from the pipe, so that the pipe is empty. Then try to read without
 * blocking.
 * Return: whether the pipe refuses RWF_NOWAIT, as before Linux 6.4. If so, an aio_read
 * of the empty pipe blocks, and therefore occupies a thread.
 */
static bool pipe_takes_thread(int end)
{
	char byte;
	struct iovec piece = { &byte, 1 };

	REQUIRE(read(end, &byte, 1) == 1);
	return preadv2(end, &piece, 1, -1, RWF_NOWAIT) < 0 &&
	       errno == EOPNOTSUPP;
}

/*
 * Only the aio_read of the empty pipe may fail: it may need a thread, which cannot be
 * created. The byte must then still be in the pipe.
 */
static void check_event(const struct io_event *event,
			const struct iocb *of_pipe, int end)
{
	if ((int64_t)event->res < 0)
		REQUIRE(host_is_posix() && event->obj == (uintptr_t)of_pipe &&
			(int64_t)event->res == -EAGAIN &&
			pipe_takes_thread(end));
}

/*
 * Submit requests of several kinds and reap them.
 * Return: how many requests io_submit accepted.
 */
static unsigned try_everything(aio_context_t ctx, const struct files *files)
{
	static char in[BLOCK];
	struct iocb iocbs[] = {
		host_iocb(IOCB_CMD_PWRITE, files->regular, in, BLOCK, 0),
		host_iocb(IOCB_CMD_PREAD, files->regular, in, BLOCK, 0),
		host_iocb(IOCB_CMD_FSYNC, files->regular, NULL, 0, 0),
		host_poll(files->ends[0]),
		host_iocb(IOCB_CMD_PWRITE, files->regular, in, BLOCK, BLOCK),
	};
	struct io_event events[NR_ELEMENTS(iocbs)];
	unsigned nr = 0;

	iocbs[4].aio_flags = IOCB_FLAG_RESFD;
	iocbs[4].aio_resfd = (uint32_t)files->event;
	for (size_t i = 0; i < NR_ELEMENTS(iocbs); i++) {
		long ret = host_submit(ctx, &iocbs[i]);

		REQUIRE(ret == 1 || is_refusal(ret));
		nr += ret == 1;
	}
	REQUIRE(write(files->ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, nr, events) == (long)nr);
	for (unsigned i = 0; i < nr; i++)
		check_event(&events[i], &iocbs[3], files->ends[0]);
	host_take_polled(files->ends[0]);
	return nr;
}

/*
 * Files that a child of fork() inherits. The child makes them ready while its parent
 * sleeps in io_getevents. The library must notice this and end the sleep, although the
 * parent makes no other call.
 */
static struct files handed_over;

static int write_while_parent_sleeps(void *arg)
{
	unsigned nr = *(unsigned *)arg;

	for (unsigned i = 1; i <= nr; i++) {
		host_await_step(i);
		host_await_sleep(getppid());
		REQUIRE(write(handed_over.ends[1], "x", 1) == 1);
	}
	return 0;
}

static void be_woken(aio_context_t ctx, const struct files *files,
		     unsigned step)
{
	struct iocb iocb = host_poll(files->ends[0]);
	struct io_event event;

	REQUIRE(host_submit(ctx, &iocb) == 1);
	host_step(step);
	REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res & 1);
	host_take_polled(files->ends[0]);
}

static int live_without_descriptors(void *arg)
{
	struct files files = open_files();
	aio_context_t ctx, early = *(bool *)arg ? host_context(16) : 0;
	struct timespec soon = { .tv_nsec = 1000000 };
	/*
	 * how many of the five requests are accepted; without a descriptor, the library
	 * refuses the poll
	 */
	unsigned all = host_is_uaio() ? 4 : 5;
	struct io_event event;
	struct {
		const uint64_t *mask;
		size_t bytes;
	} no_signals;
	uint64_t mask = 0;
	unsigned step = 0, nr_steps = early ? 3 : 1;
	pid_t child;

	if (early)
		REQUIRE(try_everything(early, &files) == 5);
	handed_over = files;
	host_step(0);
	child = host_start(write_while_parent_sleeps, &nr_steps);
	for (rlim_t nr = (rlim_t)files.ends[1] + 1;; nr = 0) {
		limit(RLIMIT_NOFILE, nr);
		ctx = host_context(16);
		REQUIRE(try_everything(ctx, &files) >= (early ? 5 : all));
		no_signals.mask = &mask;
		no_signals.bytes = sizeof(mask);
		REQUIRE(host_is_posix() ||
			syscall(SYS_io_pgetevents, ctx, 1l, 1l, &event, &soon,
				&no_signals) == 0);
		if (early)
			be_woken(ctx, &files, ++step);
		REQUIRE(host_destroy(ctx) == 0);
		if (nr == 0)
			break;
	}
	limit(RLIMIT_NOFILE, 1024);
	ctx = host_context(16);
	REQUIRE(try_everything(ctx, &files) == 5);
	be_woken(ctx, &files, ++step);
	REQUIRE(host_finish(child) == 0);
	REQUIRE(host_destroy(ctx) == 0);
	return 0;
}

void limit_descriptors(void)
{
	bool early = false;

	REQUIRE(host_in_child(live_without_descriptors, &early) == 0);
	early = true;
	REQUIRE(host_in_child(live_without_descriptors, &early) == 0);
}

/*
 * No thread can be created. The existing threads execute all requests but those that
 * would need a thread of their own.
 */
static int live_without_threads(void *arg)
{
	struct files files = open_files();
	aio_context_t ctx = host_context(64);
	/*
	 * how many of the five requests are accepted; without a thread, the library
	 * refuses the poll
	 */
	unsigned all = host_is_uaio() ? 4 : 5;

	(void)arg;
	REQUIRE(setresuid(NOBODY, NOBODY, NOBODY) == 0);
	limit(RLIMIT_NPROC, 0);
	for (unsigned i = 0; i < 20; i++)
		REQUIRE(try_everything(ctx, &files) == all);
	host_write_blocks(ctx, files.regular, 0, 32);
	host_reap_blocks(ctx, 32);
	REQUIRE(host_for_engine_threads(NULL) == 0);
	REQUIRE(ftruncate(files.regular, 0) == 0);
	host_write_blocks(ctx, files.regular, 0, 64);
	return 0;
}

void limit_threads(void)
{
	int fd;

	if (getuid() != 0)
		host_skip("not root");
	fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0666);
	REQUIRE(fchmod(fd, 0666) == 0 && close(fd) == 0);
	REQUIRE(host_in_child(live_without_threads, NULL) == 0);
	host_check_blocks("f", 64);
}

/*
 * Return: how many bytes of memory the process has mapped; with is_in_memory, how many
 * of them are resident.
 */
static rlim_t bytes_of(bool is_in_memory)
{
	char text[64] = "", *end;
	rlim_t bytes = 0;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	REQUIRE(read(fd, text, sizeof(text) - 1) > 0 && close(fd) == 0);
	end = text;
	for (int i = 0; i <= is_in_memory; i++)
		bytes = strtoul(end, &end, 10) * 4096;
	return bytes;
}

/*
 * Run requests with the address space limited to what is in use now, and *arg bytes
 * more. limit_memory() raises *arg step by step, so that each allocation of the library
 * fails once.
 */
static int live_without_memory(void *arg)
{
	struct files files = open_files();
	aio_context_t ctx = 0;
	long ret;

	limit(RLIMIT_AS, bytes_of(false) + *(rlim_t *)arg);
	for (unsigned i = 0; i < 3; i++) {
		ret = host_setup(16, &ctx);
		if (ret == 0) {
			(void)try_everything(ctx, &files);
			REQUIRE(host_destroy(ctx) == 0);
			ctx = 0;
		} else {
			REQUIRE(is_refusal(ret));
		}
	}
	limit(RLIMIT_AS, RLIM_INFINITY);
	ctx = host_context(16);
	REQUIRE(try_everything(ctx, &files) == 5);
	REQUIRE(host_destroy(ctx) == 0);
	return 0;
}

void limit_memory(void)
{
	/*
	 * Without the library, take larger steps: the kernel's io_destroy is slow.
	 */
	rlim_t step = host_is_uaio() ? 1 : 10;

	for (rlim_t pages = 0; pages < 1200;
	     pages = pages < 40 ? pages + step : pages * (20 + step) / 20) {
		rlim_t bytes = pages * 4096;

		REQUIRE(host_in_child(live_without_memory, &bytes) == 0);
	}
}

/*
 * mlockall() locks all present and later memory, so everything that the library maps
 * becomes resident.
 */
void memory_locked(void)
{
	struct files files = open_files();
	rlim_t before;
	aio_context_t ctx;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		host_skip("memory cannot be locked");
	before = bytes_of(true);
	ctx = host_context(256);
	REQUIRE(try_everything(ctx, &files) == 5);
	host_write_blocks(ctx, files.regular, 0, 256);
	host_reap_blocks(ctx, 256);
	REQUIRE(host_destroy(ctx) == 0);
	/* Most of these bytes are the stacks of 32 workers. */
	REQUIRE(bytes_of(true) - before < 20 << 20);
}

enum { NOT_HERE = 43, NR_HERE = 100 };

/*
 * main() ends by pthread_exit() while a poll waits for ever. The process must end, even
 * if the library finds no /proc.
 */
static int end_main_without_proc(void *arg)
{
	aio_context_t ctx;
	struct iocb iocb;
	int ends[2];

	(void)arg;
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL))
		return NOT_HERE;
	REQUIRE(access("/proc/self", F_OK) < 0 && pipe(ends) == 0);
	ctx = host_context(NR_HERE + 1);
	iocb = host_poll(ends[0]);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	host_write_blocks(ctx, open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600), 0,
			  NR_HERE);
	pthread_exit(NULL);
}

void without_proc(void)
{
	int status = host_in_child(end_main_without_proc, NULL);

	if (status == NOT_HERE)
		host_skip("nothing can be mounted");
	REQUIRE(status == 0);
	host_check_blocks("f", NR_HERE);
}

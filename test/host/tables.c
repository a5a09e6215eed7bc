/* SPDX-License-Identifier: MIT */
/*
 * Cases: threads with their own descriptor table, in which the same descriptor refers
 * to another file.
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "older.h"
#include "ways.h"

enum { NUMBER = 300, PIPE_NUMBER = 310, UNUSED = 2000, BYTES = 4096 };

/* Ways to give a thread its own descriptor table */

static void by_unshare(void)
{
	REQUIRE(unshare(CLONE_FILES) == 0);
}

static void by_unshare_number(void)
{
	REQUIRE(syscall(SYS_unshare, CLONE_FILES) == 0);
}

static void by_close_range(void)
{
	REQUIRE(close_range(UNUSED, UNUSED, CLOSE_RANGE_UNSHARE) == 0);
}

static void by_close_range_number(void)
{
	const unsigned flags = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;
	long ret = syscall(SYS_close_range, UNUSED, UNUSED, flags);

	/* Kernels before Linux 5.11 lack CLOSE_RANGE_CLOEXEC. */
	if (ret < 0 && errno == EINVAL)
		ret = syscall(SYS_close_range, UNUSED, UNUSED,
			      CLOSE_RANGE_UNSHARE);
	REQUIRE(ret == 0);
}

static void (*const ways[])(void) = {
	by_unshare,
	by_unshare_number,
	by_close_range,
	by_close_range_number,
};

/* Shared by the main thread and the thread that gets its own descriptor table */
struct common {
	void (*part)(void);
	/* the main thread's context; the thread with its own table uses it, too */
	aio_context_t ctx;
	int shared_fd; /* a duplicate of NUMBER */
	int ends[2];   /* a pipe, on whose read end the main thread waits */
	pthread_barrier_t barrier;
	struct iocb polled; /* a poll of the pipe */
	/* atomic: id of the thread that waits for the event of `polled` */
	pid_t reaper;
};

static void meet(struct common *common)
{
	int ret = pthread_barrier_wait(&common->barrier);

	REQUIRE(ret == 0 || ret == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void make(aio_context_t ctx, int opcode, int fd, void *buf,
		 long long expected)
{
	struct iocb iocb = host_iocb(opcode, fd, buf, BYTES, 0);
	struct io_event event;

	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(event.obj == (uint64_t)(uintptr_t)&iocb);
	REQUIRE(event.res == expected);
}

static void check_all(int fd, char byte)
{
	char seen[BYTES];

	REQUIRE(pread(fd, seen, sizeof(seen), 0) == BYTES);
	for (unsigned i = 0; i < BYTES; i++)
		REQUIRE(seen[i] == byte);
}

static void fill(int fd, char byte)
{
	char bytes[BYTES];

	memset(bytes, byte, sizeof(bytes));
	REQUIRE(pwrite(fd, bytes, sizeof(bytes), 0) == BYTES);
}

/*
 * The library must look up a request's eventfd in the descriptor table of the
 * submitting thread.
 */
static void make_with_eventfd(aio_context_t ctx, int fd, void *buf)
{
	struct iocb iocb = host_iocb(IOCB_CMD_PREAD, fd, buf, BYTES, 0);
	int event_fd = eventfd(0, EFD_CLOEXEC);
	struct io_event event;
	uint64_t count = 0;

	REQUIRE(event_fd >= 0);
	iocb.aio_flags = IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)event_fd;
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(read(event_fd, &count, sizeof(count)) == sizeof(count));
	REQUIRE(count == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1 && event.res == BYTES);
	iocb.aio_resfd = (uint32_t)fd;
	REQUIRE(host_submit(ctx, &iocb) == -EINVAL);
	iocb.aio_resfd = UNUSED;
	REQUIRE(host_submit(ctx, &iocb) == -EBADF);
	REQUIRE(close(event_fd) == 0);
}

/*
 * Make requests on the descriptor NUMBER. In the table of this thread it refers to the
 * file `own`, which the requests must use.
 */
static void use_own(int own)
{
	aio_context_t ctx = host_context(8);
	char buf[BYTES];

	memset(buf, 'o', sizeof(buf));
	make(ctx, IOCB_CMD_PWRITE, NUMBER, buf, BYTES);
	check_all(own, 'o');
	memset(buf, 0, sizeof(buf));
	make(ctx, IOCB_CMD_PREAD, NUMBER, buf, BYTES);
	REQUIRE(buf[0] == 'o' && buf[BYTES - 1] == 'o');
	if (!host_is_posix())
		make_with_eventfd(ctx, NUMBER, buf);
	REQUIRE(host_destroy(ctx) == 0);
}

static void *use_own_of_parent(void *arg)
{
	use_own(*(int *)arg);
	return NULL;
}

/*
 * Runs in a thread that shares its creator's descriptor table, which is not the main
 * thread's table. The thread's first call of the library waits for a request that the
 * main thread submitted, and that other threads execute.
 */
static void *reap_of_parent(void *arg)
{
	struct common *common = arg;
	struct io_event event;

	__atomic_store_n(&common->reaper, gettid(), __ATOMIC_SEQ_CST);
	REQUIRE(host_reap(common->ctx, 1, &event) == 1);
	REQUIRE(event.obj == (uint64_t)(uintptr_t)&common->polled);
	REQUIRE(event.res & POLLIN);
	return NULL;
}

static void reap_in_child(struct common *common)
{
	pthread_t thread;

	meet(common);
	REQUIRE(!pthread_create(&thread, NULL, reap_of_parent, common));
	REQUIRE(!pthread_join(thread, NULL));
	meet(common);
}

static void *part_and_use(void *arg)
{
	struct common *common = arg;
	int own = host_nameless();
	pthread_t thread;
	char buf[BYTES];

	common->part();
	/* From here on, only the main thread's table has the pipe. */
	REQUIRE(dup2(own, NUMBER) == NUMBER);
	REQUIRE(dup2(own, PIPE_NUMBER) == PIPE_NUMBER);
	closefrom(UNUSED);
	use_own(own);
	fill(own, '.');
	REQUIRE(!pthread_create(&thread, NULL, use_own_of_parent, &own));
	REQUIRE(!pthread_join(thread, NULL));
	reap_in_child(common);

	/* Submit a request. The main thread waits for the event of this request. */
	meet(common);
	memset(buf, 'p', sizeof(buf));
	{
		struct iocb iocb =
			host_iocb(IOCB_CMD_PWRITE, NUMBER, buf, BYTES, 0);

		REQUIRE(host_submit(common->ctx, &iocb) == 1);
	}
	meet(common);
	check_all(own, 'p');
	REQUIRE(close(NUMBER) == 0 && close(PIPE_NUMBER) == 0);
	REQUIRE(close(own) == 0);
	meet(common);
	meet(common);
	return NULL;
}

/*
 * Submit a poll of the pipe. A thread with another descriptor table waits for the event
 * of this poll.
 */
static void poll_for_other(struct common *common)
{
	pid_t reaper;

	common->polled = host_poll(PIPE_NUMBER);
	REQUIRE(host_submit(common->ctx, &common->polled) == 1);
	meet(common);
	while (!(reaper = __atomic_load_n(&common->reaper, __ATOMIC_SEQ_CST)))
		syscall(SYS_sched_yield);
	/*
	 * Once the reaper sleeps, make the pipe ready: the reaper must get the event.
	 */
	host_await_sleep(reaper);
	REQUIRE(write(common->ends[1], "x", 1) == 1);
	meet(common);
	host_take_polled(PIPE_NUMBER);
}

static void check_own_side(struct common *common)
{
	struct iocb read_iocb, write_iocb;
	char buf[BYTES];
	struct io_event events[2];

	poll_for_other(common);
	/*
	 * Poll a pipe. In the other thread's table, the number of the polled descriptor
	 * refers to another file.
	 */
	read_iocb = host_poll(PIPE_NUMBER);
	REQUIRE(host_submit(common->ctx, &read_iocb) == 1);
	meet(common);
	REQUIRE(host_reap(common->ctx, 1, events) == 1);
	REQUIRE(events[0].res == BYTES);
	meet(common);
	/*
	 * The other thread has closed NUMBER and PIPE_NUMBER in its own table. In this
	 * thread's table they must still work.
	 */
	meet(common);
	check_all(common->shared_fd, 's');
	memset(buf, 't', sizeof(buf));
	write_iocb = host_iocb(IOCB_CMD_PWRITE, NUMBER, buf, BYTES, 0);
	REQUIRE(host_submit(common->ctx, &write_iocb) == 1);
	REQUIRE(host_reap(common->ctx, 1, events) == 1);
	REQUIRE(events[0].obj == (uint64_t)(uintptr_t)&write_iocb);
	REQUIRE(events[0].res == BYTES);
	check_all(common->shared_fd, 't');
	REQUIRE(write(common->ends[1], "x", 1) == 1);
	REQUIRE(host_reap(common->ctx, 1, events) == 1);
	REQUIRE(events[0].obj == (uint64_t)(uintptr_t)&read_iocb);
	REQUIRE(events[0].res & POLLIN);
	host_take_polled(PIPE_NUMBER);
}

static void part_once(void (*part)(void))
{
	struct common common = { .part = part };
	int file = host_nameless();
	char buf[BYTES];
	pthread_t thread;

	memset(buf, 's', sizeof(buf));
	common.shared_fd = dup(file);
	host_move(file, NUMBER);
	REQUIRE(pipe(common.ends) == 0);
	host_move(common.ends[0], PIPE_NUMBER);
	common.ctx = host_context(8);
	/* This request makes the library cache the file to which NUMBER refers. */
	make(common.ctx, IOCB_CMD_PWRITE, NUMBER, buf, BYTES);
	REQUIRE(!pthread_barrier_init(&common.barrier, NULL, 2));
	REQUIRE(!pthread_create(&thread, NULL, part_and_use, &common));
	check_own_side(&common);
	meet(&common);
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(!pthread_barrier_destroy(&common.barrier));
	REQUIRE(host_destroy(common.ctx) == 0);
	REQUIRE(close(NUMBER) == 0 && close(PIPE_NUMBER) == 0);
	REQUIRE(close(common.ends[1]) == 0 && close(common.shared_fd) == 0);
}

/*
 * A thread made by clone(), with a copy of the descriptor table. It shares the
 * thread-local storage of its creator. So the creator only yields until the thread has
 * finished.
 */
static int own_of_cloned;

static int use_own_cloned(void *arg)
{
	uint32_t *is_over = arg;

	REQUIRE(dup2(own_of_cloned, NUMBER) == NUMBER);
	use_own(own_of_cloned);
	__atomic_store_n(is_over, 1, __ATOMIC_SEQ_CST);
	for (;;)
		syscall(SYS_exit, 0);
}

void table_of_cloned(void)
{
	enum { STACK_BYTES = 1 << 18 };
	static _Alignas(64) char stack[STACK_BYTES];
	aio_context_t ctx = host_context(8);
	int file = host_nameless(), shared_fd = dup(file);
	uint32_t is_over = 0;
	char buf[BYTES];

	own_of_cloned = host_nameless();
	host_move(file, NUMBER);
	memset(buf, 's', sizeof(buf));
	make(ctx, IOCB_CMD_PWRITE, NUMBER, buf, BYTES);
	REQUIRE(clone(use_own_cloned, stack + STACK_BYTES,
		      CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD |
			      CLONE_SYSVSEM,
		      &is_over) > 0);
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
		syscall(SYS_sched_yield);
	check_all(shared_fd, 's');
	memset(buf, 't', sizeof(buf));
	make(ctx, IOCB_CMD_PWRITE, NUMBER, buf, BYTES);
	check_all(shared_fd, 't');
	check_all(own_of_cloned, 'o');
	REQUIRE(host_destroy(ctx) == 0);
	REQUIRE(close(NUMBER) == 0 && close(shared_fd) == 0);
	REQUIRE(close(own_of_cloned) == 0);
}

/*
 * A signal arrives while a thread with its own descriptor table waits in io_submit. The
 * thread's handler must run, and the request must end.
 */

struct signalled {
	aio_context_t ctx;
	struct iocb iocb;
	pid_t tid;        /* atomic: id of the submitting thread */
	uint32_t is_back; /* atomic: io_submit has returned */
	long ret;         /* what io_submit has returned */
};

static uint32_t nr_handled; /* atomic */

static void count(int sig)
{
	(void)sig;
	__atomic_add_fetch(&nr_handled, 1, __ATOMIC_SEQ_CST);
}

static void *part_and_submit(void *arg)
{
	struct signalled *signalled = arg;

	by_unshare();
	__atomic_store_n(&signalled->tid, gettid(), __ATOMIC_SEQ_CST);
	signalled->ret = host_submit(signalled->ctx, &signalled->iocb);
	__atomic_store_n(&signalled->is_back, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * Return: what io_submit returns. The thread may also sleep before it waits for its file,
 * so send signals until the call returns.
 */
static long submit_and_signal(aio_context_t ctx, struct iocb iocb, int flags)
{
	struct sigaction action = { .sa_handler = count, .sa_flags = flags };
	struct signalled signalled = { .ctx = ctx, .iocb = iocb };
	pthread_t thread;
	pid_t tid;

	__atomic_store_n(&nr_handled, 0, __ATOMIC_SEQ_CST);
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	REQUIRE(!pthread_create(&thread, NULL, part_and_submit, &signalled));
	while (!(tid = __atomic_load_n(&signalled.tid, __ATOMIC_SEQ_CST)))
		syscall(SYS_sched_yield);
	while (!__atomic_load_n(&signalled.is_back, __ATOMIC_SEQ_CST)) {
		host_await_sleep(tid);
		(void)pthread_kill(thread, SIGUSR1);
	}
	REQUIRE(!pthread_join(thread, NULL));
	REQUIRE(__atomic_load_n(&nr_handled, __ATOMIC_SEQ_CST));
	return signalled.ret;
}

static void end_by_signal(aio_context_t ctx, struct iocb iocb, int flags,
			  long long expected)
{
	struct io_event event;

	REQUIRE(submit_and_signal(ctx, iocb, flags) == 1);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(event.res == expected);
}

void table_of_signalled(void)
{
	static const int flags[] = {
		0,
#if defined(__x86_64__)
		/* On other processors the library defers no handler. */
		SA_RESTART,
#endif
	};
	static char buf[3 * BYTES];
	const struct iovec iov = { buf, BYTES };
	aio_context_t ctx = host_context(8);
	int ends[2], room;

	for (size_t i = 0; i < NR_ELEMENTS(flags); i++) {
		REQUIRE(pipe(ends) == 0);
		end_by_signal(ctx,
			      host_iocb(IOCB_CMD_PREAD, ends[0], buf, BYTES, 0),
			      flags[i], -EINTR);
		end_by_signal(ctx,
			      host_iocb(IOCB_CMD_PREADV, ends[0], &iov, 1, 0),
			      flags[i], -EINTR);
		/* The kernel's io_submit does not wait for a poll. */
		if (host_is_uaio())
			REQUIRE(submit_and_signal(ctx, host_poll(ends[0]),
						  flags[i]) == -EAGAIN);
		room = fcntl(ends[1], F_SETPIPE_SZ, 2 * BYTES);
		REQUIRE(room > 0 && room < (int)sizeof(buf));
		/* The first write fills the pipe. */
		end_by_signal(ctx,
			      host_iocb(IOCB_CMD_PWRITE, ends[1], buf,
					sizeof(buf), 0),
			      flags[i], room);
		end_by_signal(
			ctx, host_iocb(IOCB_CMD_PWRITE, ends[1], buf, BYTES, 0),
			flags[i], -EINTR);
		REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0);
	}
	REQUIRE(host_destroy(ctx) == 0);
}

void tables_of_threads(void)
{
	for (size_t i = 0; i < NR_ELEMENTS(ways); i++)
		part_once(ways[i]);
}

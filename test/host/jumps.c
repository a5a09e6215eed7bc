/* SPDX-License-Identifier: MIT */
/*
 * Cases: a signal handler leaves a call by siglongjmp or interrupts it; a thread is
 * cancelled in a call
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"
#include "uring-client.h"

enum { ENTRIES = 64, WAITED_FOR = 10 };

static void set_up_ring(struct uring *ring)
{
	const struct io_uring_params params = { .flags = 0 };
	long ret = uring_open(ring, ENTRIES, &params);

	if (ret < 0)
		host_skip("there is no io_uring here");
}

/* Return: how many published submissions the library has not consumed yet. */
static uint32_t left_of(const struct uring *ring)
{
	return *ring->sq_tail -
	       __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
}

/* Publish one submission: a NOP, or a read of `fd`. */
static void add(struct uring *ring, uint8_t opcode, int fd, void *buf,
		uint8_t flags)
{
	const size_t len = opcode == IORING_OP_NOP ? 0 : WAITED_FOR;

	/*
	 * Drop a submission that a cancelled thread prepared but did not publish.
	 */
	ring->prepared = *ring->sq_tail;
	uring_put_rw(ring, opcode, fd, (uintptr_t)buf, len, 0, 0)->flags =
		flags;
	uring_publish(ring);
}

static long enter(const struct uring *ring, uint32_t nr, uint32_t min)
{
	return uring_enter(ring->fd, nr, min, min ? IORING_ENTER_GETEVENTS : 0,
			   NULL, 0);
}

/*
 * Handlers that leave a call by siglongjmp
 */

static sigjmp_buf out;
static volatile sig_atomic_t is_armed;
static volatile sig_atomic_t nr_jumps;

static void jump(int sig)
{
	(void)sig;
	if (!is_armed)
		return;
	is_armed = 0;
	nr_jumps++;
	siglongjmp(out, 1);
}

static void handle(int sig, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	REQUIRE(sigaction(sig, &action, NULL) == 0);
}

static timer_t make_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGUSR1 };
	timer_t timer;

	REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	return timer;
}

static void set_timer(timer_t timer, long ns)
{
	struct itimerspec spec = { .it_value = { 0, ns } };

	REQUIRE(timer_settime(timer, 0, &spec, NULL) == 0);
}

/*
 * A timer's handler leaves io_uring_enter by siglongjmp at random points. Still each
 * submission must get exactly one completion.
 */
void jumps_anywhere(void)
{
	volatile unsigned nr_added = 0, nr_taken = 0, round = 0;
	char buf[WAITED_FOR];
	struct uring ring;
	int fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	timer_t timer;

	REQUIRE(fd >= 0 && pwrite(fd, buf, sizeof(buf), 0) == sizeof(buf));
	set_up_ring(&ring);
	handle(SIGUSR1, jump);
	timer = make_timer();
	while (nr_jumps < (int)host_rounds(1000)) {
		round++;
		while (left_of(&ring) < 4) {
			add(&ring, IORING_OP_READ, fd, buf, 0);
			add(&ring, IORING_OP_NOP, -1, NULL,
			    round % 8 ? 0 : IOSQE_ASYNC);
			nr_added += 2;
		}
		set_timer(timer, 1000 + round * 7919 % 60000);
		if (sigsetjmp(out, 1) == 0) {
			is_armed = 1;
			(void)enter(&ring, left_of(&ring), nr_taken < nr_added);
		}
		is_armed = 0;
		nr_taken += uring_take_all(&ring);
	}
	set_timer(timer, 0);
	while (left_of(&ring))
		REQUIRE(enter(&ring, left_of(&ring), 0) >= 0);
	while (nr_taken < nr_added) {
		REQUIRE(enter(&ring, 0, 1) == 0);
		nr_taken += uring_take_all(&ring);
	}
	REQUIRE(nr_taken == nr_added);
}

/*
 * Fork a child that sends the signal once this process's main thread sleeps in a system
 * call.
 * Return: the child's process ID.
 */
static pid_t send_when_asleep(int sig, int value)
{
	pid_t parent = getpid(), pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		while (host_state_of(parent) != 'S')
			sched_yield();
		REQUIRE(sigqueue(parent, sig,
				 (union sigval){ .sival_int = value }) == 0);
		_exit(0);
	}
	return pid;
}

/* Call a function that sleeps without end. A handler leaves it by siglongjmp. */
static void leave_a_sleep(void (*sleep_for_ever)(void *arg), void *arg)
{
	int before = nr_jumps, status;

	handle(SIGUSR1, jump);
	while (nr_jumps == before) {
		volatile pid_t pid = 0;

		is_armed = 1;
		if (sigsetjmp(out, 1) == 0) {
			pid = send_when_asleep(SIGUSR1, 0);
			sleep_for_ever(arg);
		}
		is_armed = 0;
		while (waitpid(pid ? pid : -1, &status, 0) < 0)
			REQUIRE(errno == EINTR);
		REQUIRE(status == 0);
	}
}

static void await_told(int event)
{
	uint64_t count;

	REQUIRE(read(event, &count, sizeof(count)) == sizeof(count));
}

static void sleep_in_ring(void *arg)
{
	(void)enter(arg, 0, 1);
}

static void sleep_in_context(void *arg)
{
	struct io_event event;

	(void)syscall(SYS_io_getevents, *(aio_context_t *)arg, 1l, 1l, &event,
		      NULL);
}

static void sleep_in_suspend(void *arg)
{
	const struct aiocb *const list[] = { arg };

	(void)aio_suspend(list, 1, NULL);
}

/*
 * A handler leaves a wait by siglongjmp, and the thread does not wait again. Still the
 * request in flight must complete and signal its eventfd.
 */
void jumps_out_of_waits(void)
{
	int event = eventfd(0, EFD_CLOEXEC), ends[2];
	aio_context_t ctx = host_context(4);
	struct iocb iocb;
	struct uring ring;
	char buf[WAITED_FOR];

	REQUIRE(event >= 0 && pipe(ends) == 0);
	iocb = host_poll(ends[0]);
	iocb.aio_flags = IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)event;
	REQUIRE(host_submit(ctx, &iocb) == 1);
	leave_a_sleep(sleep_in_context, &ctx);
	REQUIRE(write(ends[1], "0123456789", WAITED_FOR) == WAITED_FOR);
	await_told(event);
	REQUIRE(read(ends[0], buf, WAITED_FOR) == WAITED_FOR);

	set_up_ring(&ring);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_EVENTFD, &event, 1) ==
		0);
	add(&ring, IORING_OP_READ, ends[0], buf, 0);
	REQUIRE(enter(&ring, 1, 0) == 1);
	leave_a_sleep(sleep_in_ring, &ring);
	REQUIRE(write(ends[1], "0123456789", WAITED_FOR) == WAITED_FOR);
	await_told(event);
	REQUIRE(uring_take_all(&ring) == 1 &&
		!memcmp(buf, "0123456789", WAITED_FOR));
	REQUIRE(close(ring.fd) == 0 && host_destroy(ctx) == 0);
}

/*
 * A handler leaves aio_suspend by siglongjmp. Still the request must complete, with
 * SIGEV_SIGNAL and without it.
 */
void jumps_out_of_suspend(void)
{
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	for (int is_signalled = 0; is_signalled < 2; is_signalled++) {
		char buf[WAITED_FOR];
		struct aiocb aiocb = {
			.aio_fildes = ends[0],
			.aio_buf = buf,
			.aio_nbytes = sizeof(buf),
		};
		sigset_t set;

		(void)sigemptyset(&set);
		(void)sigaddset(&set, SIGRTMIN);
		REQUIRE(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
		aiocb.aio_sigevent.sigev_notify =
			is_signalled ? SIGEV_SIGNAL : SIGEV_NONE;
		aiocb.aio_sigevent.sigev_signo = SIGRTMIN;
		REQUIRE(aio_read(&aiocb) == 0);
		leave_a_sleep(sleep_in_suspend, &aiocb);
		REQUIRE(write(ends[1], buf, WAITED_FOR) == WAITED_FOR);
		if (is_signalled)
			REQUIRE(sigwaitinfo(&set, NULL) == SIGRTMIN);
		while (aio_error(&aiocb) == EINPROGRESS)
			sched_yield();
		REQUIRE(aio_error(&aiocb) == 0);
		REQUIRE(aio_return(&aiocb) == WAITED_FOR);
	}
}

/* how often the main thread has begun to suspend; atomic */
static uint32_t nr_suspends;
static struct aiocb *resubmitted;

static void submit_and_jump(int sig)
{
	REQUIRE(aio_read(resubmitted) == 0);
	jump(sig);
}

static void *write_when_asleep(void *arg)
{
	sigset_t all;

	(void)sigfillset(&all);
	REQUIRE(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	for (unsigned i = 0; i < host_rounds(1000); i++) {
		while (__atomic_load_n(&nr_suspends, __ATOMIC_ACQUIRE) == i)
			sched_yield();
		if (i % 2)
			while (host_state_of(getpid()) != 'S')
				sched_yield();
		REQUIRE(write(*(int *)arg, "x", 1) == 1);
	}
	return NULL;
}

/*
 * In aio_suspend the thread completes another request. The handler of that request's
 * signal submits the request again, and leaves aio_suspend by siglongjmp.
 */
void jumps_by_completions(void)
{
	static char bytes[2];
	static struct aiocb aiocbs[2];
	int ends[2], others[2];
	pthread_t writer;

	REQUIRE(pipe(ends) == 0 && pipe(others) == 0);
	for (int i = 0; i < 2; i++) {
		aiocbs[i].aio_fildes = i ? others[0] : ends[0];
		aiocbs[i].aio_buf = &bytes[i];
		aiocbs[i].aio_nbytes = 1;
		aiocbs[i].aio_sigevent.sigev_notify =
			i ? SIGEV_NONE : SIGEV_SIGNAL;
		aiocbs[i].aio_sigevent.sigev_signo = SIGUSR1;
		REQUIRE(aio_read(&aiocbs[i]) == 0);
	}
	resubmitted = &aiocbs[0];
	handle(SIGUSR1, submit_and_jump);
	REQUIRE(!pthread_create(&writer, NULL, write_when_asleep, &ends[1]));
	while (nr_jumps < (int)host_rounds(1000)) {
		is_armed = 1;
		if (sigsetjmp(out, 1) == 0) {
			__atomic_add_fetch(&nr_suspends, 1, __ATOMIC_RELEASE);
			sleep_in_suspend(&aiocbs[1]);
		}
	}
	REQUIRE(pthread_join(writer, NULL) == 0);
	REQUIRE(aio_error(&aiocbs[0]) == EINPROGRESS);
	REQUIRE(write(others[1], "x", 1) == 1);
	sleep_in_suspend(&aiocbs[1]);
	REQUIRE(aio_error(&aiocbs[1]) == 0 && aio_return(&aiocbs[1]) == 1);
}

static uint32_t nr_late; /* atomic */

/*
 * Interrupt the thread that waits in glibc's seteuid(). seteuid() sends each thread a
 * signal, and waits until all have handled it. So this thread blocks that signal until
 * it has sent SIGUSR1 to the waiting thread.
 */
static void *answer_late(void *arg)
{
	enum { SIG_SETXID = 33 };
	const uint64_t setxid = 1ull << (SIG_SETXID - 1);
	const pid_t *waiting = arg;
	uint64_t pending = 0;

	REQUIRE(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &setxid, NULL, 8l) == 0);
	__atomic_store_n(&nr_late, 1, __ATOMIC_RELEASE);
	while (!(pending & setxid))
		REQUIRE(syscall(SYS_rt_sigpending, &pending, 8l) == 0);
	REQUIRE(syscall(SYS_tgkill, getpid(), *waiting, SIGUSR1) == 0);
	REQUIRE(syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &setxid, NULL, 8l) ==
		0);
	return NULL;
}

/*
 * A handler leaves seteuid() by siglongjmp. Afterwards the library must still execute
 * requests.
 */
void jumps_out_of_setuid(void)
{
	volatile pid_t self = (pid_t)syscall(SYS_gettid);
	struct uring ring;
	pthread_t thread;
	char buf[WAITED_FOR];
	int fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	REQUIRE(fd >= 0 &&
		pwrite(fd, "0123456789", WAITED_FOR, 0) == WAITED_FOR);
	set_up_ring(&ring);
	add(&ring, IORING_OP_NOP, -1, NULL, 0);
	REQUIRE(enter(&ring, 1, 1) == 1 && uring_take_all(&ring) == 1);
	handle(SIGUSR1, jump);
	REQUIRE(pthread_create(&thread, NULL, answer_late, (void *)&self) == 0);
	while (!__atomic_load_n(&nr_late, __ATOMIC_ACQUIRE))
		sched_yield();
	if (sigsetjmp(out, 1) == 0) {
		is_armed = 1;
		(void)seteuid(geteuid());
	}
	REQUIRE(nr_jumps == 1);
	REQUIRE(pthread_join(thread, NULL) == 0);
	add(&ring, IORING_OP_READ, fd, buf, IOSQE_ASYNC);
	REQUIRE(enter(&ring, 1, 1) == 1 && uring_take_all(&ring) == 1);
	REQUIRE(memcmp(buf, "0123456789", WAITED_FOR) == 0);
	REQUIRE(seteuid(geteuid()) == 0 && close(ring.fd) == 0);
}

/*
 * Threads that are cancelled asynchronously
 */

/* atomic: how often the thread to be cancelled has returned from io_uring_enter */
static uint32_t nr_entered;

static void *enter_until_cancelled(void *arg)
{
	struct uring *ring = arg;

	REQUIRE(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
	for (;;) {
		(void)enter(ring, left_of(ring), 1);
		__atomic_add_fetch(&nr_entered, 1, __ATOMIC_RELAXED);
		(void)uring_take_all(ring);
		if (!left_of(ring))
			add(ring, IORING_OP_NOP, -1, NULL, 0);
	}
	return NULL;
}

/*
 * Cancel a thread at any point of io_uring_enter. Afterwards other threads must be able
 * to use the same ring.
 */
void cancelled_anywhere(void)
{
	struct uring ring;

	set_up_ring(&ring);
	for (unsigned i = 0; i < host_rounds(300); i++) {
		uint32_t seen = __atomic_load_n(&nr_entered, __ATOMIC_RELAXED);
		pthread_t thread;
		void *result;

		add(&ring, IORING_OP_NOP, -1, NULL, 0);
		REQUIRE(pthread_create(&thread, NULL, enter_until_cancelled,
				       &ring) == 0);
		while (__atomic_load_n(&nr_entered, __ATOMIC_RELAXED) - seen <
		       1 + i % 50)
			;
		REQUIRE(pthread_cancel(thread) == 0);
		REQUIRE(pthread_join(thread, &result) == 0);
		REQUIRE(result == PTHREAD_CANCELED);
		while (left_of(&ring))
			REQUIRE(enter(&ring, left_of(&ring), 0) > 0);
		(void)uring_take_all(&ring);
		add(&ring, IORING_OP_NOP, -1, NULL, 0);
		REQUIRE(enter(&ring, 1, 1) == 1);
		REQUIRE(uring_take_all(&ring) == 1);
	}
	REQUIRE(close(ring.fd) == 0);
}

/*
 * What handlers see
 */

static struct {
	volatile sig_atomic_t nr, value, code, is_other_blocked, res;
	aio_context_t ctx;
} seen;

/*
 * A signal handler that checks its siginfo and signal mask, and calls the library.
 */
static void look(int sig, siginfo_t *info, void *context)
{
	struct timespec now = { 0 };
	struct io_event event;
	sigset_t mask;

	(void)context;
	REQUIRE(sig == SIGRTMIN);
	REQUIRE(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
	seen.nr++;
	seen.value = info->si_value.sival_int;
	seen.code = info->si_code;
	seen.is_other_blocked = sigismember(&mask, SIGUSR2);
	seen.res = (sig_atomic_t)syscall(SYS_io_getevents, seen.ctx, 0l, 1l,
					 &event, &now);
}

enum {
	FLAGS = SA_SIGINFO | SA_RESTART | SA_NODEFER | SA_ONSTACK |
		(int)SA_RESETHAND
};

static void check_mask(void)
{
	sigset_t mask;

	REQUIRE(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
	for (int sig = 1; sig < NSIG; sig++)
		REQUIRE(sigismember(&mask, sig) <= 0);
}

/*
 * Once any thread has its own descriptor table, by unshare(CLONE_FILES), the library
 * must know the table of each thread. It examines the table when the thread calls the
 * library for the first time. A handler may leave this first call by siglongjmp.
 */

static timer_t first_call_timer;

static void *part(void *arg)
{
	(void)arg;
	REQUIRE(unshare(CLONE_FILES) == 0);
	return NULL;
}

static void mask_jumps(int how)
{
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGUSR1);
	REQUIRE(pthread_sigmask(how, &mask, NULL) == 0);
}

struct first_call {
	long ns; /* time from the start of the first call to SIGUSR1 */
	int fd;
};

static void *leave_first_call(void *arg)
{
	const struct first_call *first = arg;
	struct timespec now = { 0 };
	struct io_event event;

	mask_jumps(SIG_UNBLOCK);
	if (sigsetjmp(out, 1) == 0) {
		is_armed = 1;
		set_timer(first_call_timer, first->ns);
		(void)syscall(SYS_io_getevents, seen.ctx, 0l, 1l, &event, &now);
	}
	is_armed = 0;
	set_timer(first_call_timer, 0);
	mask_jumps(SIG_BLOCK);
	host_write_blocks(seen.ctx, first->fd, 0, 1);
	host_reap_blocks(seen.ctx, 1);
	return NULL;
}

void jumps_out_of_first_calls(void)
{
	int fd = host_file("mine", 1);
	pthread_t thread;

	seen.ctx = host_context(8);
	host_write_blocks(seen.ctx, fd, 0, 1);
	host_reap_blocks(seen.ctx, 1);
	REQUIRE(!pthread_create(&thread, NULL, part, NULL));
	REQUIRE(!pthread_join(thread, NULL));
	mask_jumps(SIG_BLOCK);
	handle(SIGUSR1, jump);
	first_call_timer = make_timer();
	for (long round = 0; round < host_rounds(1000); round++) {
		struct first_call first = { 1000 + round * 7919 % 100000, fd };

		REQUIRE(!pthread_create(&thread, NULL, leave_first_call,
					&first));
		REQUIRE(!pthread_join(thread, NULL));
	}
	REQUIRE(timer_delete(first_call_timer) == 0);
	REQUIRE(host_destroy(seen.ctx) == 0 && close(fd) == 0);
}

/*
 * The handler of a signal that ends a wait must get the siginfo, and run with the signal
 * mask that sigaction() set. It may call the library. sigaction() and signal() must
 * report the handler that the program set.
 */
void handlers_as_set(void)
{
	struct sigaction action = { .sa_sigaction = look,
				    .sa_flags = SA_SIGINFO | SA_RESTART },
			 old;
	struct io_event event;
	int status;

	seen.ctx = host_context(4);
	(void)sigaddset(&action.sa_mask, SIGUSR2);
	action.sa_flags |= (int)SA_RESETHAND;
	for (int value = 1; value < 20; value++) {
		int before = seen.nr;
		pid_t pid;

		REQUIRE(sigaction(SIGRTMIN, &action, NULL) == 0);
		REQUIRE(sigaction(SIGRTMIN, NULL, &old) == 0);
		/*
		 * glibc adds SA_RESTORER, so compare only the flags that the program
		 * set.
		 */
		REQUIRE(old.sa_sigaction == look &&
			(old.sa_flags & FLAGS) == action.sa_flags);
		pid = send_when_asleep(SIGRTMIN, value);
		while (seen.nr == before)
			REQUIRE(syscall(SYS_io_getevents, seen.ctx, 1l, 1l,
					&event, NULL) == -1 &&
				errno == EINTR);
		REQUIRE(seen.nr == before + 1 && seen.value == value);
		REQUIRE(seen.code == SI_QUEUE && seen.is_other_blocked == 1);
		REQUIRE(seen.res == 0);
		check_mask();
		REQUIRE(sigaction(SIGRTMIN, NULL, &old) == 0);
		REQUIRE(old.sa_handler == SIG_DFL);
		REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	}
	REQUIRE(sysv_signal(SIGUSR1, jump) == SIG_DFL);
	REQUIRE(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == jump);
	REQUIRE((old.sa_flags & FLAGS) == ((int)SA_RESETHAND | SA_NODEFER));
	REQUIRE(signal(SIGUSR1, jump) == jump);
	REQUIRE(raise(SIGUSR1) == 0);
	REQUIRE(signal(SIGUSR1, SIG_IGN) == jump);
	REQUIRE(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	REQUIRE(host_destroy(seen.ctx) == 0);
}

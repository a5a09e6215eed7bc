/* SPDX-License-Identifier: MIT */
/*
 * Cases: signal handlers that call the library, and state of the process that the
 * library must not change
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "older.h"

static timer_t make_timer(int sig)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = sig };
	timer_t timer;

	REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	return timer;
}

/* Let the timer send one signal, after ns nanoseconds. */
static void set_timer(timer_t timer, long ns)
{
	struct itimerspec spec = { .it_value = { 0, ns } };

	REQUIRE(timer_settime(timer, 0, &spec, NULL) == 0);
}

static void handle(int sig, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	REQUIRE(sigaction(sig, &action, NULL) == 0);
}

/*
 * The storm: a timer keeps sending signals. The signal handler makes all kinds of
 * calls, and writes through a context of its own.
 */

enum { STORM_FD = 400, NR_HANDLED = 4000, NR_MINE = 64, CALM_NS = 100000 };

static struct {
	timer_t timer;
	int nr_to_handle;
	aio_context_t ctx;
	int file, null;
	volatile sig_atomic_t nr_handled;
	volatile sig_atomic_t nr_submitted;
	volatile sig_atomic_t nr_busy;
	volatile sig_atomic_t nr_children;
} storm;

static void fork_in_handler(void)
{
	/*
	 * fork() is not async-signal-safe, so use _Fork(). But sanitizers support only
	 * fork().
	 */
	pid_t pid = host_is_sanitized() ? fork() : _Fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		aio_context_t ctx = 0;

		(void)close(storm.file);
		if (syscall(SYS_io_setup, 4, &ctx) == 0)
			(void)syscall(SYS_io_destroy, ctx);
		_exit(0);
	}
	storm.nr_children++;
}

static void on_storm(int sig)
{
	static struct iocb iocb, *list[] = { &iocb };
	static uint64_t tag;
	int saved = errno;
	struct io_event events[8];
	struct timespec now = { 0 };
	long ret;

	(void)sig;
	storm.nr_handled++;
	REQUIRE(dup2(storm.null, STORM_FD) == STORM_FD);
	if (storm.nr_handled % 2)
		REQUIRE(close(STORM_FD) == 0);
	else
		REQUIRE(close_range(STORM_FD, STORM_FD, 0) == 0);
	if (storm.nr_handled % 100 == 0)
		fork_in_handler();

	tag = (uint64_t)storm.nr_submitted;
	iocb = host_iocb(IOCB_CMD_PWRITE, storm.file, &tag, sizeof(tag), 0);
	ret = syscall(SYS_io_submit, storm.ctx, 1l, list);
	if (ret == 1)
		storm.nr_submitted++;
	else {
		REQUIRE(ret == -1 && errno == EAGAIN);
		storm.nr_busy++;
	}
	ret = syscall(SYS_io_getevents, storm.ctx, 0l, 8l, events, &now);
	REQUIRE(ret >= 0 || errno == EAGAIN);
	if (ret > 0)
		storm.nr_submitted -= (sig_atomic_t)ret;
	/*
	 * The handler starts the timer again. If the handler is slow, a periodic timer
	 * would leave the thread no time.
	 */
	if (storm.nr_handled < storm.nr_to_handle)
		set_timer(storm.timer, CALM_NS);
	errno = saved;
}

/*
 * While the signals arrive, the requests of the interrupted thread must complete, as
 * they do without signals.
 */
static void weather(aio_context_t ctx, int fd)
{
	struct io_event events[NR_MINE];

	host_write_blocks(ctx, fd, 0, NR_MINE);
	for (long left = NR_MINE; left;) {
		long got = host_reap(ctx, left, events);

		REQUIRE(got >= 0 || got == -EINTR);
		left -= got > 0 ? got : 0;
	}
	REQUIRE(fcntl(STORM_FD, F_GETFD) == -1 && errno == EBADF);
}

void signal_storm(void)
{
	aio_context_t ctx = host_context(NR_MINE);
	int fd = host_file("mine", NR_MINE);
	struct timespec now = { 0 };
	struct io_event event;

	storm.ctx = host_context(NR_HANDLED);
	storm.file = open("storm", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	storm.null = open("/dev/null", O_RDWR | O_CLOEXEC);
	handle(SIGUSR1, on_storm);
	storm.nr_to_handle = (int)host_rounds(NR_HANDLED);
	storm.timer = make_timer(SIGUSR1);
	set_timer(storm.timer, CALM_NS);
	while (storm.nr_handled < storm.nr_to_handle) {
		weather(ctx, fd);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			storm.nr_children--;
	}
	REQUIRE(timer_delete(storm.timer) == 0);
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	/*
	 * On x86-64, the library defers a signal that arrives during its call until the
	 * call returns. So the handler never interrupts a call of the library, and no
	 * call in the handler may have failed with EAGAIN for that reason.
	 */
	REQUIRE(!storm.nr_busy);
#endif
	while (storm.nr_children) {
		REQUIRE(waitpid(-1, NULL, 0) > 0);
		storm.nr_children--;
	}
	/*
	 * Reap the requests that the handler submitted but did not reap. None may be
	 * missing.
	 */
	for (; storm.nr_submitted; storm.nr_submitted--)
		REQUIRE(host_reap(storm.ctx, 1, &event) == 1);
	REQUIRE(syscall(SYS_io_getevents, storm.ctx, 0l, 1l, &event, &now) ==
		0);
	REQUIRE(host_destroy(storm.ctx) == 0 && host_destroy(ctx) == 0);
	host_check_blocks("mine", NR_MINE);
}

/* Handlers that leave a sleeping io_getevents by siglongjmp */

static sigjmp_buf out;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

void handler_jumps(void)
{
	aio_context_t ctx = host_context(32);
	int fd = host_file("mine", 16);
	volatile unsigned nr = 0;
	struct io_event event;
	timer_t timer = make_timer(SIGUSR1);

	handle(SIGUSR1, jump);
	(void)sigsetjmp(out, 1);
	/* Each handler returns here by siglongjmp. */
	if (nr++ < 20) {
		set_timer(timer, 2000000);
		(void)host_reap(ctx, 1, &event);
		REQUIRE(!"nothing is there to reap");
	}
	REQUIRE(timer_delete(timer) == 0);
	host_write_blocks(ctx, fd, 0, 16);
	host_reap_blocks(ctx, 16);
	REQUIRE(close(fd) == 0);
	REQUIRE(host_destroy(ctx) == 0);
}

/* State of the process that the library must not change */

#define KEEPS(call)                     \
	do {                            \
		errno = 4242;           \
		(void)(call);           \
		REQUIRE(errno == 4242); \
	} while (0)

static void *find(const char *name)
{
	void *handle_of = dlopen("libaio.so.1", RTLD_NOW);

	if (!handle_of)
		host_skip("there is no libaio.so.1");
	REQUIRE(dlsym(handle_of, name));
	return dlsym(handle_of, name);
}

void errno_stays(void)
{
	int (*setup)(int, aio_context_t *) = find("io_setup");
	int (*destroy)(aio_context_t) = find("io_destroy");
	int (*submit)(aio_context_t, long, struct iocb **) = find("io_submit");
	int (*cancel)(aio_context_t, struct iocb *, struct io_event *) =
		find("io_cancel");
	int (*getevents)(aio_context_t, long, long, struct io_event *,
			 struct timespec *) = find("io_getevents");
	int fd = open("mine", O_CREAT | O_RDWR | O_CLOEXEC, 0644), ends[2];
	struct timespec now = { 0 };
	struct io_event event;
	aio_context_t ctx = 0;
	struct iocb good = host_iocb(IOCB_CMD_PWRITE, fd, "x", 1, 0), poll;
	struct iocb bad = host_iocb(IOCB_CMD_PREAD, -1, NULL, 0, 0);
	struct iocb *list[] = { &good, &bad };

	REQUIRE(pipe(ends) == 0);
	poll = host_poll(ends[0]);
	KEEPS(setup(0, &ctx));
	KEEPS(setup(8, NULL));
	KEEPS(setup(8, &ctx));
	REQUIRE(ctx);
	KEEPS(submit(ctx, 2, list));
	KEEPS(submit(ctx, 1, list + 1));
	KEEPS(submit(ctx, -1, list));
	KEEPS(getevents(ctx, 1, 1, &event, NULL));
	KEEPS(getevents(ctx, 1, 1, &event, &now));
	list[0] = &poll;
	KEEPS(submit(ctx, 1, list));
	KEEPS(cancel(ctx, &good, &event));
	KEEPS(cancel(ctx, &poll, &event));
	KEEPS(close(ends[0]));
	KEEPS(dup2(fd, ends[0]));
	KEEPS(close(ends[0]));
	KEEPS(closefrom(1000));
	KEEPS(destroy(ctx));
	KEEPS(destroy(ctx));
}

static void use_everything(void)
{
	aio_context_t ctx = host_context(64);
	int fd = open("mine", O_CREAT | O_RDWR | O_CLOEXEC, 0644), ends[2];
	struct io_event event;
	struct iocb iocb;

	REQUIRE(fd >= 0 && pipe(ends) == 0);
	host_write_blocks(ctx, fd, 0, 63);
	host_reap_blocks(ctx, 63);
	iocb = host_poll(ends[0]);
	REQUIRE(host_submit(ctx, &iocb) == 1);
	REQUIRE(close(ends[0]) == 0 && write(ends[1], "x", 1) < 2);
	REQUIRE(host_reap(ctx, 1, &event) == 1);
	REQUIRE(close(ends[1]) == 0 && close(fd) == 0);
	REQUIRE(host_destroy(ctx) == 0);
}

struct manners {
	struct sigaction actions[NSIG];
	sigset_t mask;
	char folder[4096];
	mode_t umask;
	int scheduler, nice;
	cpu_set_t cpus;
	char **environ;
};

extern char **environ;

static void look(struct manners *manners)
{
	memset(manners, 0, sizeof(*manners));
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, NULL, &manners->actions[sig]);
	REQUIRE(pthread_sigmask(SIG_SETMASK, NULL, &manners->mask) == 0);
	REQUIRE(getcwd(manners->folder, sizeof(manners->folder)));
	manners->umask = umask(022);
	(void)umask(manners->umask);
	manners->scheduler = sched_getscheduler(0);
	manners->nice = getpriority(PRIO_PROCESS, 0);
	REQUIRE(sched_getaffinity(0, sizeof(manners->cpus), &manners->cpus) ==
		0);
	manners->environ = environ;
}

void dispositions_stay(void)
{
	static struct manners before, after;

	handle(SIGPIPE, SIG_IGN);
	look(&before);
	use_everything();
	look(&after);
	for (int sig = 1; sig < NSIG; sig++) {
		const struct sigaction *was = &before.actions[sig];
		const struct sigaction *is = &after.actions[sig];

		REQUIRE(was->sa_handler == is->sa_handler);
		REQUIRE(was->sa_flags == is->sa_flags);
	}
	REQUIRE(!memcmp(&before.mask, &after.mask, sizeof(before.mask)));
	REQUIRE(!strcmp(before.folder, after.folder));
	REQUIRE(before.umask == after.umask && before.nice == after.nice);
	REQUIRE(before.scheduler == after.scheduler);
	REQUIRE(CPU_EQUAL(&before.cpus, &after.cpus));
	REQUIRE(before.environ == after.environ);
}

/* The library's threads. These cases run only with the library. */

static cpu_set_t all_cpus;

/*
 * Read /proc/self/task/TID/status.
 * Return: false if the thread has ended; idle threads of the library end.
 */
static bool read_status(pid_t tid, char *text, size_t bytes)
{
	char path[64];
	ssize_t nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	nr = read(fd, text, bytes - 1);
	REQUIRE(close(fd) == 0);
	if (nr <= 0)
		return false;
	text[nr] = '\0';
	return true;
}

static void check_thread(pid_t tid)
{
	unsigned long long blocked = 0;
	struct sched_param param;
	char status[8192], *line;
	cpu_set_t cpus;

	if (!read_status(tid, status, sizeof(status)))
		return;
	line = strstr(status, "SigBlk:");
	REQUIRE(line && sscanf(line, "SigBlk: %llx", &blocked) == 1);
	for (int sig = 1; sig < NSIG; sig++)
		/*
		 * SIGKILL and SIGSTOP cannot be blocked; 32 and 33 belong to the C
		 * library.
		 */
		if (sig != SIGKILL && sig != SIGSTOP && sig != 32 && sig != 33)
			REQUIRE(blocked & 1ull << (sig - 1));
	if (sched_getparam(tid, &param) < 0 ||
	    sched_getaffinity(tid, sizeof(cpus), &cpus) < 0) {
		REQUIRE(errno == ESRCH);
		return;
	}
	REQUIRE(sched_getscheduler(tid) == SCHED_OTHER || errno == ESRCH);
	REQUIRE(CPU_EQUAL(&cpus, &all_cpus));
}

void threads_behave(void)
{
	struct sched_param param = { .sched_priority = 1 };
	cpu_set_t one;

	REQUIRE(host_for_engine_threads(NULL) == 0);
	REQUIRE(host_destroy(host_context(4)) == 0);
	REQUIRE(host_for_engine_threads(NULL) == 0);
	REQUIRE(sched_getaffinity(0, sizeof(all_cpus), &all_cpus) == 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
	/*
	 * sched_setscheduler() fails without the privilege. The scheduling class is
	 * then as before.
	 */
	(void)sched_setscheduler(0, SCHED_FIFO, &param);
	use_everything();
	/*
	 * host_for_engine_threads() finds threads by their names, but a new thread may
	 * not have its name yet. So wait until two threads have their names.
	 */
	while (host_for_engine_threads(NULL) < 2)
		sched_yield();
	REQUIRE(host_for_engine_threads(check_thread) >= 2);
}

static long own_ioprio, former_ioprio;

/*
 * A worker starts with the I/O priority of the thread that created it. The creator may
 * have changed its priority since, so its former priority is right, too.
 */
static void check_ioprio(pid_t tid)
{
	long ioprio = syscall(SYS_ioprio_get, 1, tid);

	REQUIRE(ioprio == own_ioprio || ioprio == former_ioprio ||
		(ioprio < 0 && errno == ESRCH));
}

/*
 * A request with an I/O priority of its own must not change the I/O priority of its
 * worker.
 */
void ioprio_stays(void)
{
	enum { IDLE = 3 << 13, BEST_EFFORT = 2 << 13 };
	aio_context_t ctx = host_context(1);
	char buf[BLOCK] = "";
	struct iocb iocb;

	former_ioprio = syscall(SYS_ioprio_get, 1, 0);
	own_ioprio = IDLE;
	REQUIRE(syscall(SYS_ioprio_set, 1, 0, IDLE) == 0);
	iocb = host_iocb(IOCB_CMD_PWRITE,
			 open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600), buf,
			 BLOCK, 0);
	iocb.aio_flags = IOCB_FLAG_IOPRIO;
	iocb.aio_reqprio = BEST_EFFORT | 1;
	REQUIRE(host_submit(ctx, &iocb) == 1);
	host_reap_blocks(ctx, 1);
	REQUIRE(host_for_engine_threads(check_ioprio) >= 1);
	REQUIRE(host_destroy(ctx) == 0);
}

/*
 * Signals that arrive together, and handlers that do not block their own signal
 */

static volatile sig_atomic_t nr_together, is_timed;
static timer_t together_timers[2];

static void count_together(int sig)
{
	nr_together++;
	/* As in on_storm(), the handler starts the timer again. */
	if (is_timed)
		set_timer(together_timers[sig == SIGUSR2], 60000);
}

static void handle_both(int flags)
{
	struct sigaction action = { .sa_handler = count_together,
				    .sa_flags = flags };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	REQUIRE(sigaction(SIGUSR2, &action, NULL) == 0);
}

/* Block or unblock both signals. Return: whether the thread blocked them before. */
static bool mask_both(int how)
{
	sigset_t both, old;

	(void)sigemptyset(&both);
	(void)sigaddset(&both, SIGUSR1);
	(void)sigaddset(&both, SIGUSR2);
	REQUIRE(sigprocmask(how, &both, &old) == 0);
	REQUIRE(sigismember(&old, SIGUSR1) == sigismember(&old, SIGUSR2));
	return sigismember(&old, SIGUSR1);
}

/* The thread blocks both signals, and a wait with its own mask lets them in at once. */
static void let_in_together(aio_context_t ctx)
{
	static const uint64_t none;
	const struct {
		const uint64_t *mask;
		size_t bytes;
	} masked = { &none, sizeof(none) };
	struct io_event event;

	REQUIRE(!mask_both(SIG_BLOCK));
	nr_together = 0;
	REQUIRE(raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0);
	REQUIRE(syscall(SYS_io_pgetevents, ctx, 1l, 1l, &event, NULL,
			&masked) == -1 &&
		errno == EINTR);
	REQUIRE(nr_together == 2);
	REQUIRE(mask_both(SIG_UNBLOCK));
}

/* Two timers send the signals at any point of the calls. */
static void write_under_timers(aio_context_t ctx, int fd)
{
	together_timers[0] = make_timer(SIGUSR1);
	together_timers[1] = make_timer(SIGUSR2);
	nr_together = 0;
	is_timed = 1;
	for (int i = 0; i < 2; i++)
		set_timer(together_timers[i], 60000 + i * 1000);
	while (nr_together < (int)host_rounds(2000))
		weather(ctx, fd);
	is_timed = 0;
	for (int i = 0; i < 2; i++)
		REQUIRE(timer_delete(together_timers[i]) == 0);
	REQUIRE(!mask_both(SIG_UNBLOCK));
}

void handlers_together(void)
{
	static const int flags[] = { 0, SA_NODEFER, SA_RESTART };
	aio_context_t ctx = host_context(NR_MINE);
	int fd = host_file("mine", NR_MINE);

	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		handle_both(flags[i]);
		/* ThreadSanitizer itself decides when it calls handlers. */
		if (!host_is_sanitized())
			let_in_together(ctx);
		write_under_timers(ctx, fd);
	}
	REQUIRE(host_destroy(ctx) == 0 && close(fd) == 0);
}

/*
 * glibc's setuid() signals all threads, the library's included, to change their user
 * ids.
 */

enum { NOBODY = 65534 };

/*
 * glibc skips a thread that is about to exit. So wait until the thread has the new user
 * ids or has ended.
 */
static void check_ids(pid_t tid)
{
	unsigned uid = 0;

	while (uid != NOBODY) {
		char status[8192], *line;

		if (!read_status(tid, status, sizeof(status)))
			return;
		line = strstr(status, "\nUid:");
		REQUIRE(line && sscanf(line, " Uid: %u", &uid) == 1);
	}
}

void ids_change(void)
{
	if (getuid() != 0)
		host_skip("not root");
	use_everything();
	/*
	 * host_for_engine_threads() finds threads by their names, but a new thread may
	 * not have its name yet. So wait until two threads have their names.
	 */
	while (host_for_engine_threads(NULL) < 2)
		sched_yield();
	REQUIRE(setresgid(NOBODY, NOBODY, NOBODY) == 0);
	REQUIRE(setresuid(NOBODY, NOBODY, NOBODY) == 0);
	REQUIRE(host_for_engine_threads(check_ids) >= 2);
}

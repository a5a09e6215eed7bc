/* SPDX-License-Identifier: MIT */
/*
 * How a program is notified of a completion: by a signal, or by a function that a
 * thread calls. This file calls the functions by their names without 64 (aio_read), and
 * the other files by their names with 64 (aio_read64).
 */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "differences.h"
#include "posix.h"

static struct aiocb *a_read(void)
{
	return request(file_of("file", 100, O_RDWR),
		       pages_of(4096, PROT_READ | PROT_WRITE), 10, 0);
}

static struct aiocb *with_signal(struct aiocb *cb, int signo, int value)
{
	cb->aio_sigevent.sigev_notify = SIGEV_SIGNAL;
	cb->aio_sigevent.sigev_signo = signo;
	cb->aio_sigevent.sigev_value.sival_int = value;
	return cb;
}

static sigset_t set;

static void note_signal(const char *key, time_t seconds)
{
	const struct timespec timeout = { .tv_sec = seconds,
					  .tv_nsec = seconds ? 0 : 50 * MS };
	siginfo_t info = { 0 };
	int signo = sigtimedwait(&set, &info, &timeout);

	note_call(key, signo);
	if (signo < 0)
		return;
	note("code", info.si_code);
	note("value", info.si_value.sival_int);
	note("errno", info.si_errno);
	note("pid", info.si_pid == getpid());
	note("uid", info.si_uid == getuid());
}

static void signal_waited_for(void)
{
	static const int signos[] = { SIGUSR1, SIGCHLD, 34, 64 };

	for (int i = 0; i < 4; i++) {
		struct aiocb *cb = with_signal(a_read(), signos[i], -7);

		set = block_signal(signos[i]);
		note_call("read", aio_read(cb));
		note_signal("signal", PATIENCE_MS / 1000);
		note_state("state", cb);
	}
}

static pid_t suspended; /* atomic */

static void *suspend(void *cb)
{
	const struct aiocb *list[] = { cb };

	__atomic_store_n(&suspended, (pid_t)syscall(SYS_gettid),
			 __ATOMIC_SEQ_CST);
	aio_suspend(list, 1, NULL);
	return NULL;
}

/*
 * Submits two reads, and completes the first one while a thread waits for the second
 * one. Meanwhile no thread can be created, because there is no memory for its stack.
 */
static void signal_without_threads(void)
{
	const struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };
	struct rlimit usual, none;
	int fds[2], writer, signo;
	struct aiocb *cb;

	REQUIRE(pipe(fds) == 0);
	cb = request(fds[0], pages_of(1, PROT_READ | PROT_WRITE), 1, 0);
	set = block_signal(SIGUSR1);
	REQUIRE(aio_read(with_signal(cb, SIGUSR1, 7)) == 0);
	in_thread(suspend, waiting_read(&writer));
	while (!__atomic_load_n(&suspended, __ATOMIC_SEQ_CST))
		sched_yield();
	wait_asleep(suspended);
	REQUIRE(getrlimit(RLIMIT_AS, &usual) == 0);
	none = usual;
	none.rlim_cur = 4096;
	REQUIRE(setrlimit(RLIMIT_AS, &none) == 0);
	end_read(fds[1]);
	signo = sigtimedwait(&set, NULL, &timeout);
	REQUIRE(setrlimit(RLIMIT_AS, &usual) == 0);
	note_call("signal", signo);
	note_state("state", cb);
	end_read(writer);
}

static volatile sig_atomic_t handled, code, value, failure, same_pid, signos;
static struct aiocb *in_handler;

static void handler(int signo, siginfo_t *info, void *context)
{
	(void)context;
	signos = signo;
	code = info->si_code;
	value = info->si_value.sival_int;
	same_pid = info->si_pid == getpid();
	failure = aio_error(in_handler);
	handled++;
}

static void handle(int signo)
{
	struct sigaction action = { .sa_sigaction = handler,
				    .sa_flags = SA_SIGINFO };

	REQUIRE(sigaction(signo, &action, NULL) == 0);
}

static void await_handled(int nr)
{
	for (int i = 0; i < PATIENCE_MS && handled < nr; i++)
		usleep(1000);
}

static void signal_handled(void)
{
	in_handler = with_signal(a_read(), SIGUSR1, 99);
	handle(SIGUSR1);
	note_call("read", aio_read(in_handler));
	await_handled(1);
	note("handled", handled);
	note("signo", signos == SIGUSR1);
	note("code", code == SI_ASYNCIO);
	note("value", value);
	note("pid", same_pid);
	note("error", failure);
}

static void handler_submits(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	(void)context;
	if (++handled < 50)
		note("read", aio_read(in_handler));
}

static void handler_goes_on(void)
{
	struct sigaction action = { .sa_sigaction = handler_submits,
				    .sa_flags = SA_SIGINFO };

	in_handler = with_signal(a_read(), SIGUSR1, 1);
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	note("read", aio_read(in_handler));
	await_handled(50);
	note("handled", handled);
	note_end("state", in_handler);
}

static void signals_queue(void)
{
	enum { NR = 100 };
	int nr = 0, sum = 0;

	set = block_signal(SIGRTMIN + 1);
	for (int i = 0; i < NR; i++)
		REQUIRE(!aio_read(with_signal(a_read(), SIGRTMIN + 1, i)));
	for (int i = 0; i < NR; i++) {
		const struct timespec timeout = { .tv_sec =
							  PATIENCE_MS / 1000 };
		siginfo_t info;

		nr += sigtimedwait(&set, &info, &timeout) == SIGRTMIN + 1;
		sum += info.si_value.sival_int;
	}
	note("signals", nr);
	note("values", sum);
	note_signal("more", 0);
}

static void no_room(void)
{
	const struct rlimit none = { 0, 0 };
	struct aiocb *cb = with_signal(a_read(), SIGRTMIN + 1, 5);

	set = block_signal(SIGRTMIN + 1);
	REQUIRE(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
	note_call("read", aio_read(cb));
	note_end("state", cb);
	note_signal("signal", 0);
}

static void odd_signals(void)
{
	static const int odd[] = { 0, -1, 65, 9999, INT_MIN };

	for (int i = 0; i < 5; i++) {
		struct aiocb *cb = with_signal(a_read(), odd[i], 1);

		read_and_note("read", cb);
		cb = with_signal(request(-1, NULL, 1, 0), odd[i], 1);
		read_and_note("failed", cb);
	}
}

static void ignored_signal(void)
{
	struct aiocb *cb = with_signal(a_read(), SIGUSR1, 1);

	signal(SIGUSR1, SIG_IGN);
	read_and_note("read", cb);
}

static void failed_and_refused(void)
{
	struct aiocb *cb = with_signal(request(-1, NULL, 1, 0), SIGUSR1, 3);

	set = block_signal(SIGUSR1);
	note_call("failed", aio_read(cb));
	note_signal("failed", PATIENCE_MS / 1000);
	cb->aio_reqprio = -1;
	note_call("refused", aio_read(cb));
	note_signal("refused", 0);
}

static void unknown_kinds(void)
{
	static const int kinds[] = { -1, 3, 4, 99 };

	for (int i = 0; i < 4; i++) {
		struct aiocb *cb = a_read();

		cb->aio_sigevent.sigev_notify = kinds[i];
		cb->aio_sigevent.sigev_signo = SIGUSR1;
		read_and_note("read", cb);
	}
}

/*
 * Notification functions, which a thread calls (SIGEV_THREAD)
 */

static struct {
	sem_t called;
	struct aiocb *cb;
	int value, error, detached, nr_blocked, nr_calls;
	void *pointer;
	size_t stack_bytes, guard_bytes;
	cpu_set_t cpus;
	bool is_other, leaves;
} seen;

static void look(union sigval arg)
{
	pthread_attr_t attr;
	sigset_t mask;
	void *stack;

	seen.pointer = arg.sival_ptr;
	seen.value = arg.sival_int;
	seen.error = seen.cb ? aio_error(seen.cb) : 0;
	seen.is_other = syscall(SYS_gettid) != getpid();
	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getdetachstate(&attr, &seen.detached);
	pthread_attr_getstack(&attr, &stack, &seen.stack_bytes);
	pthread_attr_getguardsize(&attr, &seen.guard_bytes);
	sched_getaffinity(0, sizeof(seen.cpus), &seen.cpus);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	seen.nr_blocked = 0;
	for (int signo = 1; signo < 65; signo++)
		seen.nr_blocked += sigismember(&mask, signo) == 1;
	seen.nr_calls++;
	sem_post(&seen.called);
	if (seen.leaves)
		pthread_exit(NULL);
}

static struct aiocb *with_call(struct aiocb *cb, pthread_attr_t *attr)
{
	seen.cb = cb;
	cb->aio_sigevent.sigev_notify = SIGEV_THREAD;
	cb->aio_sigevent.sigev_notify_function = look;
	cb->aio_sigevent.sigev_notify_attributes = attr;
	return cb;
}

/* Return: whether the notification function is called within PATIENCE_MS. */
static bool is_called(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	return sem_timedwait(&seen.called, &until) == 0;
}

static void a_call(void)
{
	struct aiocb *cb = with_call(a_read(), NULL);

	sem_init(&seen.called, 0, 0);
	cb->aio_sigevent.sigev_value.sival_int = 1234;
	note_call("read", aio_read(cb));
	note("called", is_called());
	note("value", seen.value);
	note("error", seen.error);
	note("other_thread", seen.is_other);
	cb->aio_sigevent.sigev_value.sival_ptr = &seen;
	note_call("read", aio_read(cb));
	note("called", is_called());
	note("pointer", seen.pointer == &seen);
}

static void its_thread(void)
{
	sem_init(&seen.called, 0, 0);
	note_call("read", aio_read(with_call(a_read(), NULL)));
	note("called", is_called());
	note("detached", seen.detached == PTHREAD_CREATE_DETACHED);
	note("blocked", seen.nr_blocked);
	note("stack", (long)seen.stack_bytes);
	note("guard", (long)seen.guard_bytes);
}

static void its_attributes(void)
{
	pthread_attr_t attr;

	sem_init(&seen.called, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	pthread_attr_setguardsize(&attr, 16384);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	note_call("read", aio_read(with_call(a_read(), &attr)));
	note("called", is_called());
	note("detached", seen.detached == PTHREAD_CREATE_DETACHED);
	note("stack", (long)seen.stack_bytes);
	note("guard", (long)seen.guard_bytes);
	note("blocked", seen.nr_blocked);
}

/* Prints whether the function is called on the wanted processors. */
static void note_cpus(const char *key, pthread_attr_t *attr,
		      const cpu_set_t *wanted)
{
	note_call("read", aio_read(with_call(a_read(), attr)));
	note("called", is_called());
	note(key, CPU_EQUAL(&seen.cpus, wanted));
}

/*
 * The attributes set no processors, then one processor, then all bits of a set. The
 * calling thread runs on one processor, if there are several, on another one.
 */
static void its_processors(void)
{
	cpu_set_t allowed, one, every;
	pthread_attr_t attr;
	int first = 0, last = CPU_SETSIZE - 1;

	sem_init(&seen.called, 0, 0);
	REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	while (!CPU_ISSET(first, &allowed))
		first++;
	while (!CPU_ISSET(last, &allowed))
		last--;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	note_cpus("inherited", &attr, &one);
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
	note_cpus("set", &attr, &one);
	memset(&every, 0xff, sizeof(every));
	pthread_attr_setaffinity_np(&attr, sizeof(every), &every);
	note_cpus("every", &attr, &allowed);
}

/* pthread_attr_setsigmask_np() needs glibc 2.32. */
#if !defined(__GLIBC__) || __GLIBC_PREREQ(2, 32)
#define HAS_MASK 1
static void its_mask(void)
{
	pthread_attr_t attr;
	sigset_t mask;

	sem_init(&seen.called, 0, 0);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	pthread_attr_init(&attr);
	pthread_attr_setsigmask_np(&attr, &mask);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	note_call("read", aio_read(with_call(a_read(), &attr)));
	note("called", is_called());
	note("blocked", seen.nr_blocked);
}
#endif

static void joinable(void)
{
	pthread_attr_t attr;

	sem_init(&seen.called, 0, 0);
	pthread_attr_init(&attr);
	note_call("read", aio_read(with_call(a_read(), &attr)));
	note("called", is_called());
	note("detached", seen.detached == PTHREAD_CREATE_DETACHED);
}

static void leaves(void)
{
	int nr = 0;

	sem_init(&seen.called, 0, 0);
	seen.leaves = true;
	for (int i = 0; i < 20; i++) {
		REQUIRE(!aio_read(with_call(a_read(), NULL)));
		nr += is_called();
	}
	note("calls", nr);
}

static void many_calls(void)
{
	enum { NR = 200 };
	int nr = 0;

	sem_init(&seen.called, 0, 0);
	for (int i = 0; i < NR; i++) {
		struct aiocb *cb = with_call(a_read(), NULL);

		seen.cb = NULL;
		REQUIRE(!aio_read(cb));
	}
	for (int i = 0; i < NR; i++)
		nr += is_called();
	note("calls", nr);
}

static void fails_and_calls(void)
{
	sem_init(&seen.called, 0, 0);
	note_call("read", aio_read(with_call(request(-1, NULL, 1, 0), NULL)));
	note("called", is_called());
	note("error", seen.error == EBADF);
}

/* The notification function: each of its calls submits the next request. */
static void go_on(union sigval arg)
{
	(void)arg;
	if (++seen.nr_calls < 100)
		REQUIRE(!aio_read(seen.cb));
	else
		sem_post(&seen.called);
}

static void chain_of_calls(void)
{
	struct aiocb *cb = with_call(a_read(), NULL);

	sem_init(&seen.called, 0, 0);
	cb->aio_sigevent.sigev_notify_function = go_on;
	REQUIRE(!aio_read(cb));
	note("called", is_called());
	note("calls", seen.nr_calls);
}

/*
 * Each call of the notification function waits until all calls have begun, so each call
 * needs its own thread.
 */
static pthread_barrier_t all;

static void meet(union sigval arg)
{
	(void)arg;
	pthread_barrier_wait(&all);
	sem_post(&seen.called);
}

static void calls_that_wait(void)
{
	enum { NR = 12 };
	int nr = 0;

	sem_init(&seen.called, 0, 0);
	pthread_barrier_init(&all, NULL, NR);
	for (int i = 0; i < NR; i++) {
		struct aiocb *cb = with_call(a_read(), NULL);

		cb->aio_sigevent.sigev_notify_function = meet;
		REQUIRE(!aio_read(cb));
	}
	for (int i = 0; i < NR; i++)
		nr += is_called();
	note("calls", nr);
}

static struct aiocb *from_call;

static void use_all(union sigval arg)
{
	const struct aiocb *list[] = { from_call };

	(void)arg;
	note_call("read", aio_read(from_call));
	note_call("suspend", aio_suspend(list, 1, NULL));
	note_state("state", from_call);
	note_call("cancel", aio_cancel(from_call->aio_fildes, NULL));
	note_call("list", lio_listio(LIO_WAIT, (struct aiocb **)list, 1, NULL));
	sem_post(&seen.called);
}

static void calls_make_calls(void)
{
	struct aiocb *cb = with_call(a_read(), NULL);

	from_call = a_read();
	sem_init(&seen.called, 0, 0);
	cb->aio_sigevent.sigev_notify_function = use_all;
	REQUIRE(aio_read(cb) == 0);
	note("called", is_called());
}

static void attributes_gone(void)
{
	pthread_attr_t *attr = malloc(sizeof(*attr));
	int writer;
	struct aiocb *cb;
	int fds[2];

	sem_init(&seen.called, 0, 0);
	REQUIRE(pipe(fds) == 0);
	writer = fds[1];
	cb = with_call(
		request(fds[0], pages_of(1, PROT_READ | PROT_WRITE), 1, 0),
		attr);
	pthread_attr_init(attr);
	pthread_attr_setdetachstate(attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(attr, 1 << 20);
	note_call("read", aio_read(cb));
	end_read(writer);
	note("called", is_called());
	note("stack", (long)seen.stack_bytes);
}

/*
 * The names (with and without 64) and the symbol versions of POSIX AIO's functions
 */

static void names_64(void)
{
	char *buf = pages_of(4096, PROT_READ | PROT_WRITE);
	int fd = file_of("file", 100, O_RDWR);
	struct aiocb64 cb = { .aio_fildes = fd,
			      .aio_buf = buf,
			      .aio_nbytes = 10 };
	struct aiocb64 *list[] = { &cb };

	cb.aio_sigevent.sigev_notify = SIGEV_NONE;
	note_call("read", aio_read64(&cb));
	note_call("suspend",
		  aio_suspend64((const struct aiocb64 **)list, 1, NULL));
	note_call("error", aio_error64(&cb));
	note_call("return", aio_return64(&cb));
	note_call("write", aio_write64(&cb));
	note_call("suspend",
		  aio_suspend64((const struct aiocb64 **)list, 1, NULL));
	note_call("return", aio_return64(&cb));
	note_call("fsync", aio_fsync64(O_SYNC, &cb));
	note_call("suspend",
		  aio_suspend64((const struct aiocb64 **)list, 1, NULL));
	note_call("cancel", aio_cancel64(fd, &cb));
	cb.aio_lio_opcode = LIO_READ;
	note_call("list", lio_listio64(LIO_WAIT, list, 1, NULL));
	note_call("return", aio_return64(&cb));
}

static const char *const names[] = {
	"aio_read",     "aio_write",     "aio_fsync",    "aio_error",
	"aio_return",   "aio_suspend",   "aio_cancel",   "lio_listio",
	"aio_read64",   "aio_write64",   "aio_fsync64",  "aio_error64",
	"aio_return64", "aio_suspend64", "aio_cancel64", "lio_listio64",
	"aio_init",
};

static void names_found(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		note(names[i], dlsym(RTLD_DEFAULT, names[i]) != NULL);
	note("linked", dlsym(RTLD_DEFAULT, "aio_read") == (void *)aio_read);
	note("linked", dlsym(RTLD_DEFAULT, "lio_listio") == (void *)lio_listio);
}

static void functions_found(void)
{
	int (*read)(struct aiocb *) = dlsym(RTLD_DEFAULT, "aio_read");
	int (*error)(const struct aiocb *) = dlsym(RTLD_DEFAULT, "aio_error");
	ssize_t (*result)(struct aiocb *) = dlsym(RTLD_DEFAULT, "aio_return");
	int (*suspend)(const struct aiocb *const[], int,
		       const struct timespec *) =
		dlsym(RTLD_DEFAULT, "aio_suspend");
	struct aiocb *cb = a_read();
	const struct aiocb *list[] = { cb };

	note_call("read", read(cb));
	note_call("suspend", suspend(list, 1, NULL));
	note_call("error", error(cb));
	note_call("return", result(cb));
}

#ifdef __x86_64__
int old_read(struct aiocb *cb);
int old_error(const struct aiocb *cb);
ssize_t old_return(struct aiocb *cb);
int old_suspend(const struct aiocb *const list[], int nr,
		const struct timespec *timeout);
int old_cancel(int fd, struct aiocb *cb);
int old_listio(int mode, struct aiocb *const list[], int nr,
	       struct sigevent *event);
int first_listio(int mode, struct aiocb *const list[], int nr,
		 struct sigevent *event);
__asm__(".symver old_read,aio_read@GLIBC_2.2.5");
__asm__(".symver old_error,aio_error@GLIBC_2.2.5");
__asm__(".symver old_return,aio_return@GLIBC_2.2.5");
__asm__(".symver old_suspend,aio_suspend@GLIBC_2.2.5");
__asm__(".symver old_cancel,aio_cancel@GLIBC_2.2.5");
__asm__(".symver old_listio,lio_listio@GLIBC_2.4");
__asm__(".symver first_listio,lio_listio@GLIBC_2.2.5");

static void old_versions(void)
{
	struct aiocb *cb = a_read();
	struct aiocb *list[] = { cb };

	note_call("read", old_read(cb));
	note_call("suspend", old_suspend((const struct aiocb **)list, 1, NULL));
	note_call("error", old_error(cb));
	note_call("return", old_return(cb));
	note_call("cancel", old_cancel(cb->aio_fildes, cb));
	cb->aio_lio_opcode = LIO_READ;
	note_call("list", old_listio(LIO_WAIT, list, 1, NULL));
	note_call("again", first_listio(LIO_WAIT, list, 1, NULL));
	note("same", old_read == aio_read);
}

/*
 * The version of lio_listio before GLIBC_2.4 sends no notifications for single members
 * of the list.
 */
static void first_version_of_lists(void)
{
	struct aiocb *list[] = { with_signal(a_read(), SIGUSR1, 1) };

	set = block_signal(SIGUSR1);
	list[0]->aio_lio_opcode = LIO_READ;
	note_call("list", first_listio(LIO_WAIT, list, 1, NULL));
	note_signal("member", 0);
}
#else
static void old_versions(void)
{
	skip("no-old-versions");
}

static void first_version_of_lists(void)
{
	skip("no-old-versions");
}
#endif

static void init_any_time(void)
{
	struct aioinit init = { .aio_threads = 3, .aio_num = 10 };

	aio_init(&init);
	read_and_note("read", a_read());
	init.aio_threads = -1;
	init.aio_num = -1;
	aio_init(&init);
	read_and_note("read", a_read());
}

const struct row rows_posix_notice[] = {
	ROW("a signal says that a read is complete", signal_waited_for),
	ROW("a signal comes though no thread can be created",
	    signal_without_threads),
	ROW("a signal is handled when a read is complete", signal_handled),
	ROW("a signal handler makes the next read", handler_goes_on),
	ROW("a hundred signals say that a hundred reads are complete",
	    signals_queue),
	ROW_DIFFERS("a signal that cannot be queued", no_room,
		    differs_posix_signal, { "state=EAGAIN,-1", "state=0,10" },
		    { "signal=EAGAIN", "signal=35" },
		    { "(nothing)", "code=0" }),
	ROW("signals that there are not", odd_signals),
	ROW("a signal that is ignored", ignored_signal),
	ROW("a request that fails sends its signal, one that is refused none",
	    failed_and_refused),
	ROW("notifications that there are not", unknown_kinds),
	ROW("a function is called when a read is complete", a_call),
	ROW("a function is called in a thread of its own kind", its_thread),
	ROW("a function is called in a thread with attributes", its_attributes),
	ROW("a function is called on the processors of its attributes",
	    its_processors),
#ifdef HAS_MASK
	ROW("a function is called with the mask of the attributes", its_mask),
#endif
	ROW_DIFFERS("a function is called in a thread that could be joined",
		    joinable, differs_posix_joinable,
		    { "detached=0", "detached=1" }),
	ROW("a function may end its thread", leaves),
	ROW("functions are called for two hundred reads", many_calls),
	ROW("a function is called for a read that fails", fails_and_calls),
	ROW("a function makes the next read", chain_of_calls),
	ROW("functions that wait for each other are all called",
	    calls_that_wait),
	ROW("a function may make any call", calls_make_calls),
	ROW("a function of a read that waits is called with attributes",
	    attributes_gone),
	ROW("the names with 64", names_64),
	ROW("names are found by dlsym", names_found),
	ROW("functions are found by dlsym", functions_found),
	ROW("the versions of old programs", old_versions),
	ROW("lio_listio as it was before glibc 2.4", first_version_of_lists),
	ROW("aio_init at any time", init_any_time),
	NO_ROW,
};

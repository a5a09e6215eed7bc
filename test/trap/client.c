/* SPDX-License-Identifier: MIT */
/*
 * client WHAT FILE [...]: a program that runs under the trap (`uaio run --trap`)
 *
 * The program is built in three ways: static, static with another C library, and
 * dynamic. It makes the calls of io_uring and kernel AIO by syscall(2); the static
 * builds contain that function. It prints a line for each action, which is the same in
 * every run. FILE is larger than FILE_BYTES.
 */
#include "client.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	FILE_BYTES = 8 << 10,
	PART = 512,
	THREADS = 6,
	ROUNDS = 3,
	READS = 200,
};

extern char **environ;

static const char *file;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/*
 * Requests through a ring
 */

static void open_ring(struct uring *ring)
{
	if (ring_open(ring) < 0)
		die("io_uring_setup");
}

/*
 * Read nr parts of the file through the ring.
 * Return: how many parts differ from what pread() returns.
 */
static int read_parts(struct uring *ring, int nr)
{
	char mine[PART], theirs[PART];
	int fd = open(file, O_RDONLY), nr_wrong = 0;

	if (fd < 0)
		die(file);
	for (int i = 0; i < nr; i++) {
		off_t at = i * 37 % (FILE_BYTES - PART);
		int ret = ring_read(ring, fd, mine, PART, (unsigned long)at);

		nr_wrong += pread(fd, theirs, PART, at) != PART ||
			    ret != PART || memcmp(mine, theirs, PART) != 0;
	}
	(void)close(fd);
	return nr_wrong;
}

static void say_parts(const char *who, int nr)
{
	struct uring ring;

	open_ring(&ring);
	printf("%s: %d of %d parts are wrong\n", who, read_parts(&ring, nr),
	       nr);
	(void)close(ring.fd);
}

static int do_read(void)
{
	say_parts("read", READS);
	return 0;
}

/*
 * Requests through kernel AIO
 */

static int do_aio(void)
{
	char mine[PART], theirs[PART];
	int fd = open(file, O_RDONLY);
	struct iocb cb = {
		.aio_fildes = (uint32_t)fd,
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_buf = (uintptr_t)mine,
		.aio_nbytes = PART,
		.aio_offset = 100,
		.aio_data = 7,
	}, *cbs[] = { &cb };
	struct io_event event;
	aio_context_t ctx = 0;

	if (syscall(SYS_io_setup, 4, &ctx) < 0)
		die("io_setup");
	if (syscall(SYS_io_submit, ctx, 1, cbs) != 1)
		die("io_submit");
	if (syscall(SYS_io_getevents, ctx, 1, 1, &event, NULL) != 1)
		die("io_getevents");
	if (pread(fd, theirs, PART, 100) != PART)
		die("pread");
	printf("aio: %d bytes, data %d, %s\n", (int)event.res, (int)event.data,
	       memcmp(mine, theirs, PART) ? "wrong" : "right");
	if (syscall(SYS_io_destroy, ctx) < 0)
		die("io_destroy");
	return 0;
}

/*
 * Threads, and signals
 */

static __thread int
	*own; /* each thread sets its `own` to the address of its `anchor` */
static __thread int anchor;
static volatile sig_atomic_t nr_handled, nr_foreign;

/*
 * A signal handler that counts its calls. nr_foreign counts calls with the thread-local
 * storage of another thread, in which `own` is not the address of `anchor`.
 */
static void count(int sig)
{
	int saved = errno;

	(void)sig;
	if (own && own != &anchor)
		nr_foreign++;
	nr_handled++;
	errno = saved;
}

static timer_t tick(long ns)
{
	struct sigaction action = { .sa_handler = count };
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGALRM,
	};
	struct itimerspec every = { { 0, ns }, { 0, ns } };
	timer_t timer;

	/*
	 * Let the handler run with all signals blocked, even SIGSYS, by which the trap
	 * gets system calls.
	 */
	(void)sigfillset(&action.sa_mask);
	if (sigaction(SIGALRM, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &every, NULL) < 0)
		die("timer");
	return timer;
}

static void *read_on_thread(void *arg)
{
	struct uring ring;

	own = &anchor;
	open_ring(&ring);
	*(int *)arg += read_parts(&ring, READS);
	(void)close(ring.fd);
	return NULL;
}

static int do_threads(void)
{
	pthread_t threads[THREADS];
	int nr_wrong[THREADS] = { 0 }, all = 0;
	timer_t timer = tick(1000000);

	own = &anchor;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&threads[i], NULL, read_on_thread,
					   &nr_wrong[i]))
				die("pthread_create");
		for (int i = 0; i < THREADS; i++)
			(void)pthread_join(threads[i], NULL);
	}
	/* This loop ends, because the timer keeps sending signals. */
	while (nr_handled < 10)
		;
	(void)timer_delete(timer);
	for (int i = 0; i < THREADS; i++)
		all += nr_wrong[i];
	printf("threads: %d parts are wrong, %d handlers with another's "
	       "variables\n",
	       all, (int)nr_foreign);
	return 0;
}

/*
 * A timer's signals interrupt the wait for a completion, with EINTR. The request is a
 * read of a pipe, which stays empty until the end of the test.
 */
static int do_interrupt(void)
{
	struct uring ring;
	int ends[2], ret, before;
	timer_t timer;
	char byte;

	own = &anchor;
	open_ring(&ring);
	if (pipe(ends) < 0)
		die("pipe");
	ring_prepare_read(&ring, ends[0], &byte, 1, -1ul);
	(void)ring_enter(&ring, 1, 0);
	timer = tick(3000000);
	for (int i = 0; i < 20; i++) {
		before = nr_handled;
		ret = (int)ring_enter(&ring, 0, 1);
		if (ret != -EINTR || nr_handled == before)
			printf("interrupt: %d\n", ret);
	}
	(void)timer_delete(timer);
	printf("interrupt: %d handlers with another's variables\n",
	       (int)nr_foreign);
	if (write(ends[1], "x", 1) != 1)
		die("write");
	while (ring_enter(&ring, 0, 1) < 0)
		;
	ret = ring_result(&ring);
	printf("interrupt: then %d byte: %c\n", ret, byte);
	return 0;
}

static struct uring handlers_ring;
static volatile int handlers_wrong = -1;

static void read_in_handler(int sig)
{
	(void)sig;
	handlers_wrong = read_parts(&handlers_ring, 3);
}

static void *read_blocked(void *arg)
{
	sigset_t now;

	say_parts("thread", 3);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &now);
	printf("thread: SIGUSR1 %s\n",
	       sigismember(&now, SIGUSR1) ? "blocked" : "open");
	return arg;
}

/*
 * Make calls while all signals are blocked: in this thread, in another thread, and in a
 * handler.
 */
static int do_blocked(void)
{
	pthread_t thread;
	struct sigaction action = { .sa_handler = read_in_handler };
	sigset_t all, now;

	(void)sigfillset(&all);
	(void)sigfillset(&action.sa_mask);
	open_ring(&handlers_ring);
	if (sigaction(SIGUSR1, &action, NULL) < 0 ||
	    sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		die("signals");
	say_parts("blocked", 3);
	if (pthread_create(&thread, NULL, read_blocked, NULL))
		die("pthread_create");
	(void)pthread_join(thread, NULL);
	(void)raise(SIGUSR1);
	printf("blocked: handler %s\n", handlers_wrong < 0 ? "waits" : "ran");
	(void)sigemptyset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0 ||
	    sigprocmask(SIG_BLOCK, NULL, &now) < 0)
		die("signals");
	printf("blocked: in the handler %d of 3 parts are wrong; now %s\n",
	       handlers_wrong, sigismember(&now, SIGUSR1) ? "blocked" : "open");
	return 0;
}

static volatile int nr_called;

/*
 * A signal handler that makes a system call, each time by an instruction that has not
 * been executed before.
 */
static void call_in_handler(int sig)
{
	(void)sig;
	switch (nr_called) {
	case 0: nr_called += getpriority(PRIO_PROCESS, 0) != -100; break;
	case 1: nr_called += sched_get_priority_max(SCHED_FIFO) > 0; break;
	case 2: nr_called += getpgid(0) > 0; break;
	default: nr_called += getsid(0) >= 0; break;
	}
}

/*
 * Wait by calls whose signal mask blocks SIGSYS, but not SIGUSR1, until a handler runs.
 */
static void wait_masked(int epoll, const sigset_t *most)
{
	nr_called = 0;
	(void)raise(SIGUSR1);
	printf("masked: ppoll %d", ppoll(NULL, 0, NULL, most));
	(void)raise(SIGUSR1);
	printf(" pselect %d", pselect(0, NULL, NULL, NULL, NULL, most));
	(void)raise(SIGUSR1);
	printf(" epoll_pwait %d",
	       epoll_pwait(epoll, &(struct epoll_event){ 0 }, 1, -1, most));
	(void)raise(SIGUSR1);
	printf(" sigsuspend %d", sigsuspend(most));
	printf(", %d handlers\n", nr_called);
}

/*
 * Both signals are blocked, and io_uring_enter lets them in at once. flags: for
 * sigaction()
 */
static void wait_for_two(const struct uring *ring, int flags)
{
	struct sigaction action = { .sa_handler = call_in_handler,
				    .sa_flags = flags };
	uint64_t none = 0;
	sigset_t mask;
	long ret;

	if (sigaction(SIGUSR1, &action, NULL) < 0 ||
	    sigaction(SIGUSR2, &action, NULL) < 0)
		die("signals");
	nr_called = 0;
	(void)raise(SIGUSR1);
	(void)raise(SIGUSR2);
	ret = uring_enter(ring->fd, 0, 1, IORING_ENTER_GETEVENTS, &none,
			  sizeof(none));
	(void)sigprocmask(SIG_BLOCK, NULL, &mask);
	printf("masked: enter %s, %d handlers, blocked %d %d\n",
	       ret < 0 ? "fails" : "succeeds", nr_called,
	       sigismember(&mask, SIGUSR1), sigismember(&mask, SIGUSR2));
}

static int do_masked(void)
{
	struct sigaction action = { .sa_handler = call_in_handler };
	sigset_t all, most;
	struct uring ring;
	int epoll = epoll_create1(0);

	(void)sigfillset(&all);
	most = all;
	(void)sigdelset(&most, SIGUSR1);
	if (sigaction(SIGUSR1, &action, NULL) < 0 ||
	    sigprocmask(SIG_SETMASK, &all, NULL) < 0 || epoll < 0)
		die("signals");
	wait_masked(epoll, &most);
	open_ring(&ring);
	wait_masked(epoll, &most);
	wait_for_two(&ring, 0);
	wait_for_two(&ring, SA_NODEFER);
	return 0;
}

/* Handlers that run on an alternate stack (sigaltstack) and make calls */

enum { ALTERNATE_BYTES = 256 << 10, FILLED = 2000, NR_TICKS = 300 };

/* This thread's alternate stack, and what its handlers share */
static __thread struct alternate {
	char *stack;
	struct uring ring;
	/*
	 * address of a variable in the frame of the handler that makes the calls; the
	 * handlers that interrupt this handler must have their frames below it
	 */
	const volatile char *outer;
	aio_context_t ctx;
	sigjmp_buf unmapped;
} own_alternate;

static volatile int nr_below, nr_changed;

static void come_below(int sig)
{
	struct alternate *alternate = &own_alternate;
	const volatile char here[FILLED] = { (char)sig };

	nr_below += here > alternate->stack && here + FILLED < alternate->outer;
}

/*
 * Handler of the fault on unmapped memory, which occurs inside the library. It leaves
 * the library's call by siglongjmp.
 */
static void leave_below(int sig)
{
	sigset_t usr2;

	come_below(sig);
	(void)sigemptyset(&usr2);
	(void)sigaddset(&usr2, SIGUSR2);
	(void)raise(SIGUSR2);
	(void)sigprocmask(SIG_UNBLOCK, &usr2, NULL);
	siglongjmp(own_alternate.unmapped, 1);
}

static void use_unmapped(struct alternate *alternate)
{
	void *hole =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (hole == MAP_FAILED)
		die("mmap");
	if (!sigsetjmp(alternate->unmapped, 1))
		printf("alternate: io_submit %ld\n",
		       syscall(SYS_io_submit, alternate->ctx, 1,
			       (struct iocb *[]){ hole }));
	(void)munmap(hole, 4096);
}

/*
 * Make three calls that have a signal mask. Before each call, SIGUSR2 is blocked and
 * pending; the call's mask unblocks it.
 */
static void make_calls(struct alternate *alternate)
{
	sigset_t none, all;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)raise(SIGUSR2);
	printf("alternate: %d came too early", nr_below);
	printf(", ppoll %d", ppoll(NULL, 0, NULL, &none));
	(void)raise(SIGUSR2);
	printf(" enter %ld", syscall(SYS_io_uring_enter, alternate->ring.fd, 0,
				     1, IORING_ENTER_GETEVENTS, &none, 8));
	(void)raise(SIGUSR2);
	printf(" sigsuspend %d", sigsuspend(&none));
	(void)raise(SIGUSR2);
	(void)sigprocmask(SIG_UNBLOCK, &all, NULL);
	printf(", then %d of 3 parts are wrong\n",
	       read_parts(&alternate->ring, 3));
}

static void call_on_alternate(int sig, siginfo_t *info, void *context)
{
	struct alternate *alternate = &own_alternate;
	volatile char filled[FILLED];
	stack_t now;

	(void)context;
	for (int i = 0; i < FILLED; i++)
		filled[i] = (char)i;
	alternate->outer = filled;
	if (sig == SIGUSR1)
		make_calls(alternate);
	else
		use_unmapped(alternate);
	for (int i = 0; i < FILLED; i++)
		nr_changed += filled[i] != (char)i;
	nr_changed += info->si_signo != sig;
	if (sigaltstack(NULL, &now) < 0)
		die("sigaltstack");
	printf("alternate: %s, %d came below, %d bytes changed\n",
	       now.ss_flags == SS_ONSTACK ? "on it" : "not on it", nr_below,
	       nr_changed);
	nr_below = 0;
}

/*
 * Read through a ring, while a timer sends signals that may interrupt any instruction.
 */
static void call_while_it_ticks(int sig)
{
	struct alternate *alternate = &own_alternate;
	volatile char filled[FILLED];
	int before = nr_handled, nr_wrong = 0;

	for (int i = 0; i < FILLED; i++)
		filled[i] = (char)(i + sig);
	while (nr_handled - before < NR_TICKS)
		nr_wrong += read_parts(&alternate->ring, 1);
	for (int i = 0; i < FILLED; i++)
		nr_changed += filled[i] != (char)(i + sig);
	printf("alternate: while it ticks %d parts are wrong, %d bytes "
	       "changed\n",
	       nr_wrong, nr_changed);
}

static void handle(int sig, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler,
				    .sa_flags = SA_ONSTACK };

	if (sigaction(sig, &action, NULL) < 0)
		die("sigaction");
}

static void *use_alternate(void *arg)
{
	struct alternate *alternate = &own_alternate;
	stack_t stack = { .ss_size = ALTERNATE_BYTES }, now;
	timer_t timer;

	alternate->stack = malloc(ALTERNATE_BYTES);
	stack.ss_sp = alternate->stack;
	if (!alternate->stack || sigaltstack(&stack, NULL) < 0)
		die("sigaltstack");
	own = &anchor;
	open_ring(&alternate->ring);
	if (syscall(SYS_io_setup, 1, &alternate->ctx) < 0)
		die("io_setup");
	(void)raise(SIGUSR1);
	timer = tick(100000);
	handle(SIGALRM, count);
	(void)raise(SIGHUP);
	(void)timer_delete(timer);
	if (sigaltstack(NULL, &now) < 0)
		die("sigaltstack");
	printf("alternate: then %s, %d of 3 parts are wrong\n",
	       now.ss_sp == stack.ss_sp && !now.ss_flags ? "as it was" : "not",
	       read_parts(&alternate->ring, 3));
	/*
	 * This last test leaves the library in the middle of a call, by siglongjmp, so
	 * no later call would work.
	 */
	(void)raise(SIGQUIT);
	return arg;
}

static int do_alternate(void)
{
	struct sigaction action = { .sa_sigaction = call_on_alternate,
				    .sa_flags = SA_ONSTACK | SA_SIGINFO };
	pthread_t thread;

	(void)sigaddset(&action.sa_mask, SIGUSR2);
	if (sigaction(SIGUSR1, &action, NULL) < 0 ||
	    sigaction(SIGQUIT, &action, NULL) < 0)
		die("sigaction");
	handle(SIGUSR2, come_below);
	handle(SIGSEGV, leave_below);
	handle(SIGHUP, call_while_it_ticks);
	(void)use_alternate(NULL);
	if (pthread_create(&thread, NULL, use_alternate, NULL))
		die("pthread_create");
	(void)pthread_join(thread, NULL);
	printf("alternate: %d handlers with another's variables\n",
	       (int)nr_foreign);
	return 0;
}

/*
 * Children, threads and programs that the program starts
 */

static int status_of(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("child");
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

static int do_fork(void)
{
	pid_t pid;

	say_parts("parent", 10);
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		say_parts("child", 10);
		(void)fflush(stdout);
		_exit(5);
	}
	printf("fork: status %d\n", status_of(pid));
	say_parts("parent", 10);
	return 0;
}

/*
 * Make the system call clone() by an instruction of this program. The child gets
 * another stack, but has its parent's thread-local variables. It exits with the
 * function's result.
 */
long raw_clone(unsigned long flags, char *stack_end, int *child_tid,
	       int (*function)(void));
__asm__(".text\n"
	"raw_clone:\n\t"
	"movq %rdx, %r10\n\t"
	"movq %rcx, %r9\n\t"
	"xorl %edx, %edx\n\t"
	"xorl %r8d, %r8d\n\t"
	"movl $56, %eax\n\t"
	"syscall\n\t"
	"testq %rax, %rax\n\t"
	"jnz 1f\n\t"
	"xorl %ebp, %ebp\n\t"
	"call *%r9\n\t"
	"movl %eax, %edi\n\t"
	"movl $60, %eax\n\t"
	"syscall\n"
	"1:	ret\n\t"
	".balign 16\n");

static int read_in_clone(void)
{
	struct uring ring;

	if (ring_open(&ring) < 0)
		return 100;
	return read_parts(&ring, 10);
}

static int clone_wrong = -1;

static int read_in_raw_thread(void)
{
	clone_wrong = read_in_clone();
	return 0;
}

static const unsigned long RAW_THREAD = CLONE_VM | CLONE_FS | CLONE_FILES |
					CLONE_SIGHAND | CLONE_THREAD |
					CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;

/*
 * Run a thread on the given stack. Wait until the kernel clears `tid`, which it does
 * when the thread has ended.
 */
static void run_raw_thread(char *stack, int (*function)(void))
{
	static int tid;

	tid = -1;
	if (raw_clone(RAW_THREAD, stack, &tid, function) < 0)
		die("clone");
	while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
		(void)syscall(SYS_futex, &tid, 0 /* FUTEX_WAIT */, -1, NULL,
			      NULL, 0);
}

static int is_refused(void)
{
	struct uring ring;

	return ring_open(&ring) == -EAGAIN;
}

/*
 * In a process that shares its parent's memory, io_uring_setup must fail with EAGAIN.
 * In a child with a copy of that memory, rings must work.
 */
static int be_refused(void)
{
	static char memory[128 << 10] __attribute__((aligned(64)));
	char *stack = memory + sizeof(memory);
	int wrong = !is_refused();

	if (raw_clone(RAW_THREAD, stack, NULL, is_refused) != -EAGAIN)
		wrong |= 2;
	for (int i = 0; i < 2; i++)
		wrong |= status_of((pid_t)raw_clone(SIGCHLD, stack, NULL,
						    read_in_clone))
				 ? 4
				 : 0;
	return wrong;
}

/* Make a thread and processes by raw_clone(), all of them twice. */
static int do_clone(void)
{
	enum { BYTES = 256 << 10 };
	char *stack = malloc(BYTES);

	if (!stack)
		die("malloc");
	stack = (char *)(((uintptr_t)stack + BYTES - 64) & ~63ul);
	for (int i = 0; i < 2; i++) {
		clone_wrong = -1;
		run_raw_thread(stack, read_in_raw_thread);
		printf("clone: in the thread %d of 10 parts are wrong\n",
		       clone_wrong);
		printf("clone: in the process, status %d\n",
		       status_of((pid_t)raw_clone(SIGCHLD, stack, NULL,
						  read_in_clone)));
		printf("clone: in the process with this memory, status %d\n",
		       status_of((pid_t)raw_clone(CLONE_VM | SIGCHLD, stack,
						  NULL, be_refused)));
	}
	say_parts("clone", 3);
	return 0;
}

/*
 * A thread makes its last system call without a stack, by an instruction not used
 * before. In one case the thread itself has unmapped the stack. In the other case the
 * main thread has unmapped it.
 */

void end_unmapping(char *stack, unsigned long bytes);
void end_unmapped(int *ready, const int *is_gone);
__asm__(".text\n"
	"end_unmapping:\n\t"
	"movl $11, %eax\n\t"
	"syscall\n\t"
	"xorl %edi, %edi\n\t"
	"movl $60, %eax\n\t"
	"syscall\n\t"
	"hlt\n\t"
	".balign 16\n"
	"end_unmapped:\n\t"
	"movl $1, (%rdi)\n"
	"1:	pause\n\t"
	"cmpl $0, (%rsi)\n\t"
	"je 1b\n\t"
	"xorl %edi, %edi\n\t"
	"movl $60, %eax\n\t"
	"syscall\n\t"
	"hlt\n\t"
	".balign 16\n");

enum { ENDING_BYTES = 128 << 10 };

static char *ending_stack;
static int ending_tid, ending_ready, ending_is_gone;

static int unmap_own_stack(void)
{
	end_unmapping(ending_stack, ENDING_BYTES);
	return 0;
}

/*
 * Before they end, threads of Go block all signals and disable the alternate stack. Do
 * the same.
 */
static int leave_stack(void)
{
	static char memory[ENDING_BYTES];
	stack_t stack = { .ss_sp = memory, .ss_size = ENDING_BYTES };
	const stack_t none = { .ss_flags = SS_DISABLE };
	const unsigned long all = -1ul;

	if (sigaltstack(&stack, NULL) == 0 &&
	    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8) == 0 &&
	    sigaltstack(&none, NULL) == 0)
		end_unmapped(&ending_ready, &ending_is_gone);
	return 0;
}

static void start_ending(int (*function)(void))
{
	ending_stack = mmap(NULL, ENDING_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ending_stack == MAP_FAILED)
		die("mmap");
	ending_tid = -1;
	if (raw_clone(RAW_THREAD, ending_stack + ENDING_BYTES - 64, &ending_tid,
		      function) < 0)
		die("clone");
}

static void wait_for_end(const char *who)
{
	while (__atomic_load_n(&ending_tid, __ATOMIC_ACQUIRE))
		(void)syscall(SYS_futex, &ending_tid, 0 /* FUTEX_WAIT */, -1,
			      NULL, NULL, 0);
	printf("unmapped: %s has ended\n", who);
}

static int detached_tid;

static void *be_detached(void *arg)
{
	__atomic_store_n(&detached_tid, (int)syscall(SYS_gettid),
			 __ATOMIC_RELEASE);
	return arg;
}

static void run_detached(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int tid;

	__atomic_store_n(&detached_tid, 0, __ATOMIC_RELAXED);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, be_detached, NULL))
		die("pthread_create");
	while (!(tid = __atomic_load_n(&detached_tid, __ATOMIC_ACQUIRE)))
		(void)sched_yield();
	while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
		(void)sched_yield();
	printf("unmapped: a detached thread has ended\n");
}

static volatile uintptr_t handlers_stack;

static void note_stack(int sig)
{
	handlers_stack = (uintptr_t)&sig;
}

/*
 * With all signals blocked, the program disables its alternate stack. The printed
 * results must be the same as without the library.
 */
static void give_up_alternate(void)
{
	struct sigaction action = { .sa_handler = note_stack,
				    .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = malloc(ENDING_BYTES),
			  .ss_size = ENDING_BYTES };
	stack_t now, none = { .ss_flags = SS_DISABLE };
	unsigned long all = -1ul, old;

	if (!stack.ss_sp || sigaction(SIGUSR1, &action, NULL) < 0 ||
	    sigaltstack(&stack, NULL) < 0 ||
	    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8) < 0 ||
	    sigaltstack(&none, &now) < 0)
		die("signals");
	printf("unmapped: it was %s", now.ss_sp == stack.ss_sp ? "it" : "not");
	(void)sigaltstack(NULL, &now);
	printf(", and then %s", now.ss_flags == SS_DISABLE ? "none" : "one");
	(void)raise(SIGUSR1);
	if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8) < 0)
		die("signals");
	(void)sigaltstack(NULL, &now);
	printf(", %s; the handler is on %s\n",
	       now.ss_flags == SS_DISABLE ? "none" : "one",
	       handlers_stack - (uintptr_t)&now + (64 << 10) < 128 << 10
		       ? "the stack"
		       : "another");
	free(stack.ss_sp);
}

static int do_unmapped(void)
{
	for (int i = 0; i < 2; i++) {
		run_detached();
		start_ending(unmap_own_stack);
		wait_for_end("a thread that unmaps its stack");
		ending_ready = ending_is_gone = 0;
		start_ending(leave_stack);
		while (!__atomic_load_n(&ending_ready, __ATOMIC_ACQUIRE))
			(void)sched_yield();
		(void)munmap(ending_stack, ENDING_BYTES);
		__atomic_store_n(&ending_is_gone, 1, __ATOMIC_RELEASE);
		wait_for_end("a thread without its stack");
		give_up_alternate();
	}
	say_parts("unmapped", 3);
	return 0;
}

/*
 * The library faults on memory of the program, because the program has made this memory
 * inaccessible. The program's handler makes the memory accessible again, makes calls of
 * its own to the library, and returns.
 */

static struct uring faulty;
static char *faulty_rings;
static volatile sig_atomic_t nr_faults, nr_call_errors;

enum { RING_BYTES = 16 << 10 };

static void mend(int sig)
{
	int saved = errno;
	sigset_t all, old;
	void *memory;

	(void)sig;
	nr_faults++;
	if (mprotect(faulty_rings, RING_BYTES, PROT_READ | PROT_WRITE) < 0)
		_exit(9);
	(void)sigfillset(&all);
	for (int i = 0; i < 3; i++) {
		memory = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		nr_call_errors += memory == MAP_FAILED ||
				  munmap(memory, RING_BYTES) < 0 ||
				  sigprocmask(SIG_BLOCK, &all, &old) < 0 ||
				  sigprocmask(SIG_SETMASK, &old, NULL) < 0 ||
				  close(dup(0)) < 0;
	}
	errno = saved;
}

static void open_faulty(struct uring *ring)
{
	char *memory = mmap(NULL, 2 * RING_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct io_uring_params params = { .flags = IORING_SETUP_NO_MMAP };
	long fd;

	if (memory == MAP_FAILED)
		die("mmap");
	faulty_rings = memory;
	params.cq_off.user_addr = (uintptr_t)memory;
	params.sq_off.user_addr = (uintptr_t)memory + RING_BYTES;
	fd = uring_setup(8, &params);
	if (fd < 0)
		die("io_uring_setup");
	uring_at(ring, (int)fd, &params, memory, memory + RING_BYTES);
}

static void fault_on(const char *what, int flags)
{
	struct sigaction action = { .sa_handler = mend, .sa_flags = flags };
	int nr_wrong = 0;

	if (sigaction(SIGSEGV, &action, NULL) < 0)
		die("sigaction");
	for (int i = 0; i < ROUNDS; i++) {
		ring_prepare(&faulty, IORING_OP_NOP);
		if (mprotect(faulty_rings, RING_BYTES, PROT_NONE) < 0)
			die("mprotect");
		nr_wrong += ring_enter(&faulty, 1, 1) != 1 ||
			    !uring_ready(&faulty) || ring_result(&faulty) != 0;
	}
	printf("fault: on %s %d faults, %d calls failed, %d parts are wrong\n",
	       what, (int)nr_faults, (int)nr_call_errors, nr_wrong);
	nr_faults = nr_call_errors = 0;
}

static int do_fault(void)
{
	enum { BYTES = 128 << 10 };
	stack_t stack = { .ss_sp = malloc(BYTES), .ss_size = BYTES };

	open_faulty(&faulty);
	fault_on("the stack", 0);
	if (!stack.ss_sp || sigaltstack(&stack, NULL) < 0)
		die("sigaltstack");
	fault_on("another", SA_ONSTACK);
	say_parts("then", 3);
	return 0;
}

/*
 * The vector registers, in the format of the xsave instruction. They must be zero when
 * the program starts (client_start), and a system call must not change them.
 */

enum { VECTORS_BYTES = 16 << 10, VECTORS = 0xe6 };

static char vectors_at_start[VECTORS_BYTES] __attribute__((aligned(64), used));
static char vectors_before[VECTORS_BYTES] __attribute__((aligned(64)));
static char vectors_after[VECTORS_BYTES] __attribute__((aligned(64)));

long vectors_call(const long args[4], const void *before, void *after);
__asm__(".text\n"
	".globl client_start\n"
	"client_start:\n\t"
	"movq %rdx, %r8\n\t"
	"movl $0xe6, %eax\n\t"
	"xorl %edx, %edx\n\t"
	"xsave vectors_at_start(%rip)\n\t"
	"movq %r8, %rdx\n\t"
	"xorl %eax, %eax\n\t"
	"xorl %r8d, %r8d\n\t"
	"jmp _start\n\t"
	".balign 16\n"
	"vectors_call:\n\t"
	"pushq %r12\n\t"
	"pushq %r13\n\t"
	"movq %rdx, %r12\n\t"
	"movq %rdi, %r13\n\t"
	"movl $0xe6, %eax\n\t"
	"xorl %edx, %edx\n\t"
	"xrstor (%rsi)\n\t"
	"movq (%r13), %rax\n\t"
	"movq 8(%r13), %rdi\n\t"
	"movq 16(%r13), %rsi\n\t"
	"movq 24(%r13), %rdx\n\t"
	"movl $1, %r10d\n\t" /* IORING_ENTER_GETEVENTS */
	"xorl %r8d, %r8d\n\t"
	"xorl %r9d, %r9d\n\t"
	"syscall\n\t"
	"movq %rax, %r13\n\t"
	"movl $0xe6, %eax\n\t"
	"xorl %edx, %edx\n\t"
	"xsave (%r12)\n\t"
	"movq %r13, %rax\n\t"
	"popq %r13\n\t"
	"popq %r12\n\t"
	"ret\n\t"
	".balign 64\n");

/*
 * Return: the offset, in the memory of xsave, of component `nr` of the registers.
 */
static unsigned vectors_part(unsigned nr, unsigned *ret_bytes)
{
	unsigned a, b, c, d;

	if (nr == 1) {
		*ret_bytes = 256;
		return 160;
	}
	__cpuid_count(0xd, nr, a, b, c, d);
	*ret_bytes = a;
	return b;
}

static uint64_t *vectors_in_use(char *vectors)
{
	return (uint64_t *)(void *)(vectors + 512);
}

static int count_at_start(void)
{
	int nr = 0;

	for (unsigned i = 1; i < 8; i++) {
		unsigned bytes, at;

		if (!(*vectors_in_use(vectors_at_start) & VECTORS & 1u << i))
			continue;
		at = vectors_part(i, &bytes);
		for (unsigned k = 0; k < bytes; k++)
			nr += vectors_at_start[at + k] != 0;
	}
	return nr;
}

/* Fill all vector registers that this processor has with a pattern. */
static uint64_t fill_vectors(unsigned seed)
{
	uint32_t low, high;
	uint64_t have;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	have = low & VECTORS;
	memset(vectors_before, 0, VECTORS_BYTES);
	*vectors_in_use(vectors_before) = have;
	vectors_before[24] = (char)0x80; /* MXCSR's default value */
	vectors_before[25] = 0x1f;
	for (unsigned i = 1; i < 8; i++) {
		unsigned bytes, at;

		if (!(have & 1u << i))
			continue;
		at = vectors_part(i, &bytes);
		for (unsigned k = 0; k < bytes; k++)
			vectors_before[at + k] = (char)(k * 7 + i + seed);
	}
	return have;
}

static int count_changed(uint64_t have)
{
	int nr = 0;

	for (unsigned i = 1; i < 8; i++) {
		unsigned bytes, at;

		if (!(have & 1u << i))
			continue;
		at = vectors_part(i, &bytes);
		for (unsigned k = 0; k < bytes; k++)
			nr += vectors_before[at + k] != vectors_after[at + k];
	}
	return nr;
}

static int do_vectors(void)
{
	int fd = open(file, O_RDONLY), nr_bytes = 0, nr_wrong = 0;
	char buf[PART];
	struct uring ring;

	open_ring(&ring);
	/*
	 * The first call raises SIGSYS. By then the trap has replaced the instruction
	 * by a jump, which later calls take.
	 */
	for (unsigned i = 0; i < ROUNDS; i++) {
		const long args[4] = { SYS_io_uring_enter, ring.fd, 1, 1 };
		uint64_t have = fill_vectors(i);

		ring_prepare_read(&ring, fd, buf, PART, i * PART);
		nr_wrong += vectors_call(args, vectors_before, vectors_after) !=
				    1 ||
			    ring_result(&ring) != PART;
		nr_bytes += count_changed(have);
	}
	printf("vectors: in %d calls, %d wrong, %d bytes changed\n", ROUNDS,
	       nr_wrong, nr_bytes);
	printf("vectors: at the start %d bytes are not zero\n",
	       count_at_start());
	return 0;
}

/* Execute a program by posix_spawn, after fork, and after vfork. */
static int do_exec(char **argv)
{
	pid_t pid;
	int ret;

	(void)fflush(stdout);
	ret = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
	printf("spawn: status %d\n", ret ? -ret : status_of(pid));
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		(void)execv(argv[0], argv);
		_exit(127);
	}
	printf("fork: status %d\n", status_of(pid));
	(void)fflush(stdout);
	pid = vfork();
	if (pid == 0) {
		(void)execv(argv[0], argv);
		_exit(127);
	}
	printf("vfork: status %d\n", status_of(pid));
	say_parts("after", 3);
	return 0;
}

static void *end_later(void *arg)
{
	(void)pthread_join(*(pthread_t *)arg, NULL);
	say_parts("last thread", 10);
	(void)fflush(stdout);
	return NULL;
}

/*
 * The main thread ends by pthread_exit(). A second thread ends later, and then the
 * process ends.
 */
static int do_end(void)
{
	static pthread_t self;
	pthread_t thread;

	self = pthread_self();
	if (pthread_create(&thread, NULL, end_later, &self))
		die("pthread_create");
	pthread_exit(NULL);
}

/*
 * Tests at which instructions the trap replaces a system call by a jump, so that later
 * calls raise no signal
 */

enum { CODE_BYTES = 2 * 4096, CALL_AT = 5 };

/*
 * mov $39, %eax (the number of getpid); syscall; ret; padding, as up to the next
 * function
 */
static const unsigned char code[16] = { 0xb8, 39,   0,    0,    0,   0x0f,
					0x05, 0xc3, 0x0f, 0x1f, 0x84 };

static int code_file(void)
{
	int fd = (int)syscall(SYS_memfd_create, "code", 0u);

	if (fd < 0 || ftruncate(fd, CODE_BYTES) < 0 ||
	    pwrite(fd, code, sizeof(code), 0) != sizeof(code))
		die("memfd_create");
	return fd;
}

static void call_code(const char *what, unsigned char *memory)
{
	long (*call)(void);
	int nr_wrong = 0;

	if (memory == MAP_FAILED)
		die("mmap");
	memcpy(&call, &memory, sizeof(call));
	for (int i = 0; i < ROUNDS; i++)
		nr_wrong += call() != getpid();
	printf("code: %s: %d wrong, %s\n", what, nr_wrong,
	       memory[CALL_AT] == 0x0f   ? "as it was"
	       : memory[CALL_AT] == 0xeb ? "changed"
					 : "neither");
}

static int do_code(void)
{
	const int code_only = PROT_READ | PROT_EXEC, fd = code_file();
	unsigned char *memory;

	memory = mmap(NULL, CODE_BYTES, code_only, MAP_PRIVATE, fd, 0);
	call_code("of a file", memory);
	memory = mmap(NULL, CODE_BYTES, code_only, MAP_SHARED, fd, 0);
	call_code("shared", memory);
	memory = mmap(NULL, CODE_BYTES, code_only | PROT_WRITE, MAP_PRIVATE, fd,
		      0);
	call_code("that may be written", memory);
	memory = mmap(NULL, CODE_BYTES, code_only, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED ||
	    mprotect(memory, CODE_BYTES, code_only | PROT_WRITE) < 0)
		die("mprotect");
	call_code("that was made writable", memory);
	memory = mmap(NULL, CODE_BYTES, code_only, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED || munmap(memory, CODE_BYTES) < 0 ||
	    mmap(memory, CODE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != memory)
		die("munmap");
	memcpy(memory, code, sizeof(code));
	if (mprotect(memory, CODE_BYTES, code_only) < 0)
		die("mprotect");
	call_code("where a file was", memory);
	if (ftruncate(fd, sizeof(code)) < 0)
		die("ftruncate");
	memory = mmap(NULL, CODE_BYTES, code_only, MAP_PRIVATE, fd, 0);
	call_code("at the end of a file", memory);
	return 0;
}

/*
 * Let malloc() grow the heap by brk while the library allocates memory. The library must
 * not overwrite the program's blocks.
 */
static int do_heap(void)
{
	enum { BLOCKS = 400, BYTES = 30000 };
	static char *blocks[BLOCKS];
	struct uring ring;
	int nr_wrong = 0;

	open_ring(&ring);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		memset(blocks[i], i & 0xff, BYTES);
		if (i % 20 == 0)
			nr_wrong += read_parts(&ring, 2);
	}
	for (int i = 0; i < BLOCKS; i++) {
		for (int at = 0; at < BYTES; at += 1000)
			nr_wrong += blocks[i][at] != (char)(i & 0xff);
		free(blocks[i]);
	}
	printf("heap: %d are wrong\n", nr_wrong);
	return 0;
}

static int do_show(char **argv)
{
	char exe[4096], name[64] = "";
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	FILE *comm = fopen("/proc/self/comm", "r");

	exe[len < 0 ? 0 : len] = '\0';
	if (!comm || !fgets(name, sizeof(name), comm))
		die("comm");
	printf("exe %s\nname %s", exe, name);
	for (; *argv; argv++)
		printf("argument %s\n", *argv);
	for (char **env = environ; *env; env++)
		if (!strncmp(*env, "UAIO_TRAP_PROGRAM", 17) ||
		    !strncmp(*env, "SHOWN", 5))
			printf("variable %s\n", *env);
	return 0;
}

/* Wait for ever for a read of an empty pipe. */
static __attribute__((noreturn)) int do_forever(void)
{
	struct uring ring;
	int ends[2];
	char byte;

	open_ring(&ring);
	if (pipe(ends) < 0)
		die("pipe");
	ring_prepare_read(&ring, ends[0], &byte, 1, -1ul);
	(void)ring_enter(&ring, 1, 0);
	(void)puts("ready");
	(void)fflush(stdout);
	for (;;)
		(void)ring_enter(&ring, 0, 1);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (argc < 3)
		return 2;
	file = argv[2];
	if (!strcmp(what, "read"))
		return do_read();
	if (!strcmp(what, "aio"))
		return do_aio();
	if (!strcmp(what, "threads"))
		return do_threads();
	if (!strcmp(what, "interrupt"))
		return do_interrupt();
	if (!strcmp(what, "blocked"))
		return do_blocked();
	if (!strcmp(what, "masked"))
		return do_masked();
	if (!strcmp(what, "alternate"))
		return do_alternate();
	if (!strcmp(what, "fault"))
		return do_fault();
	if (!strcmp(what, "vectors"))
		return do_vectors();
	if (!strcmp(what, "clone"))
		return do_clone();
	if (!strcmp(what, "unmapped"))
		return do_unmapped();
	if (!strcmp(what, "fork"))
		return do_fork();
	if (!strcmp(what, "exec"))
		return do_exec(argv + 3);
	if (!strcmp(what, "end"))
		return do_end();
	if (!strcmp(what, "heap"))
		return do_heap();
	if (!strcmp(what, "code"))
		return do_code();
	if (!strcmp(what, "forever"))
		return do_forever();
	if (!strcmp(what, "show"))
		return do_show(argv);
	return 2;
}

/* SPDX-License-Identifier: MIT */
/*
 * Cases: the kernel refuses a call that the library needs to use the kernel's own AIO,
 * from the start or later. The library must then execute the requests itself, and lose
 * none.
 */
#include "native.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"
#include "uring-client.h"

enum { NR = 64, STATUS = 42 };

/*
 * Direct system calls, by which a case finds out whether it may use the kernel's own
 * AIO
 */

/*
 * Make a system call that bypasses the library. The function must be inlined with a
 * constant `nr`, because the library looks for the number at each system call
 * instruction. If it finds none, it assumes that the instruction may change user or
 * group ids, and then queries the ids of threads (proc/identity.h).
 */
static inline __attribute__((always_inline)) long
native_call(long nr, long a, long b, long c, long d, long e)
{
	long ret;
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	ret = x0;
#else
#error "how does a program make a system call here?"
#endif
	return ret;
}

bool native_is_possible(void)
{
	uint64_t ctx = 0;

	if (native_call(SYS_io_setup, 1, (long)&ctx, 0, 0, 0))
		return false;
	REQUIRE(!native_call(SYS_io_destroy, (long)ctx, 0, 0, 0, 0));
	return true;
}

/*
 * Requests that the library passes on to the kernel's AIO
 */

/* Create a file of NR allocated blocks, opened with O_DIRECT. */
static int create_direct(void)
{
	static char blank[NR * BLOCK] __attribute__((aligned(4096)));
	int fd = open("direct", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0);
	REQUIRE(pwrite(fd, blank, sizeof(blank), 0) == sizeof(blank));
	return fd;
}

static void check_file(void)
{
	int fd = open("direct", O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	host_check_start(fd, NR);
	REQUIRE(close(fd) == 0);
}

static void work(aio_context_t ctx, int fd)
{
	static char in[NR][BLOCK] __attribute__((aligned(4096)));

	host_write_blocks(ctx, fd, 0, NR);
	host_reap_blocks(ctx, NR);
	check_file();
	for (unsigned i = 0; i < NR; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PREAD, fd, in[i], BLOCK,
					     (long long)i * BLOCK);

		REQUIRE(host_submit(ctx, &iocb) == 1);
	}
	host_reap_blocks(ctx, NR);
	for (unsigned i = 0; i < NR; i++) {
		uint32_t word;

		memcpy(&word, in[i], sizeof(word));
		REQUIRE(word == i);
	}
}

/*
 * No free descriptor, or no quota of kernel AIO left
 */

static int live_without_descriptors(void *arg)
{
	bool is_late = *(bool *)arg;
	aio_context_t ctx = host_context(NR);
	struct rlimit limit;
	int fd = create_direct();

	if (is_late)
		work(ctx, fd);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	/*
	 * Leave two free descriptors, which the case itself needs, and none for the
	 * library.
	 */
	limit.rlim_cur = (rlim_t)fd + 2;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	work(ctx, fd);
	limit.rlim_cur = limit.rlim_max;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	work(ctx, fd);
	REQUIRE(host_destroy(ctx) == 0);
	return STATUS;
}

void native_without_descriptors(void)
{
	static bool is_late[] = { false, true };

	for (size_t i = 0; i < NR_ELEMENTS(is_late); i++)
		REQUIRE(host_in_child(live_without_descriptors, &is_late[i]) ==
			STATUS);
}

/*
 * In another process: take all of the system's quota of kernel AIO (fs.aio-max-nr),
 * until the process is killed.
 */
static _Noreturn int use_up_quota(void *arg)
{
	(void)arg;
	for (long nr = 1 << 16; nr;) {
		uint64_t ctx = 0;
		long ret = native_call(SYS_io_setup, nr, (long)&ctx, 0, 0, 0);

		if (ret)
			nr /= 2;
	}
	host_step(1);
	for (;;)
		pause();
}

static int work_once(void *arg)
{
	aio_context_t ctx = host_context(NR);
	int fd = create_direct();

	(void)arg;
	work(ctx, fd);
	REQUIRE(host_destroy(ctx) == 0);
	return STATUS;
}

void native_without_quota(void)
{
	pid_t pid;

	if (!native_is_possible())
		host_skip("the kernel has no AIO for this process");
	host_step(0);
	pid = host_start(use_up_quota, NULL);
	host_await_step(1);
	REQUIRE(host_in_child(work_once, NULL) == STATUS);
	REQUIRE(kill(pid, SIGKILL) == 0 && host_finish(pid) == -SIGKILL);
	REQUIRE(host_in_child(work_once, NULL) == STATUS);
}

/* seccomp filters that are installed after the library has started */

enum installer { BY_PRCTL, BY_SECCOMP, INLINE };

/*
 * Install a seccomp filter that answers one system call of kernel AIO with `answer`.
 */
static void install(enum installer by, long call, uint32_t answer)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { NR_ELEMENTS(rows), rows };

	REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (by == BY_PRCTL)
		REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ==
			0);
	else if (by == BY_SECCOMP)
		REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
	else
		REQUIRE(native_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				    SECCOMP_FILTER_FLAG_TSYNC, (long)&program,
				    0, 0) == 0);
}

static struct refusal {
	enum installer by;
	long call;
	uint32_t answer;
	/*
	 * the filter is installed before the library makes the refused call for the
	 * first time; false: after that
	 */
	bool is_first;
} refusal;

static int work_until_refused(void *arg)
{
	const struct refusal *this = arg;
	aio_context_t ctx = host_context(NR), other;
	int fd = create_direct();

	if (!this->is_first)
		work(ctx, fd);
	install(this->by, this->call, this->answer);
	for (unsigned i = 0; i < 3; i++)
		work(ctx, fd);
	/* For a second context the library needs another ring in the kernel. */
	other = host_context(NR);
	work(other, fd);
	REQUIRE(host_destroy(other) == 0 && host_destroy(ctx) == 0);
	return STATUS;
}

static const long calls[] = { SYS_io_setup, SYS_io_submit };

static int refuse(enum installer by, long call, uint32_t answer, bool is_first)
{
	refusal = (struct refusal){ by, call, answer, is_first };
	return host_in_child(work_until_refused, &refusal);
}

void native_refused_later(void)
{
	static const uint32_t errors[] = { EPERM, ENOSYS };

	for (enum installer by = BY_PRCTL; by <= INLINE; by++)
		for (size_t i = 0; i < NR_ELEMENTS(calls); i++)
			for (size_t j = 0; j < NR_ELEMENTS(errors); j++)
				for (unsigned first = 0; first < 2; first++)
					REQUIRE(refuse(by, calls[i],
						       SECCOMP_RET_ERRNO |
							       errors[j],
						       first) == STATUS);
}

/*
 * A filter kills the process at a system call of kernel AIO. If a function of the C
 * library installs the filter, the library notices that, and makes no system call of
 * kernel AIO. If an inline instruction installs the filter, the library does not notice
 * it, and the first direct request ends the process.
 */
void native_killed_later(void)
{
	for (enum installer by = BY_PRCTL; by <= BY_SECCOMP; by++)
		for (size_t i = 0; i < NR_ELEMENTS(calls); i++)
			for (unsigned first = 0; first < 2; first++)
				REQUIRE(refuse(by, calls[i],
					       SECCOMP_RET_KILL_PROCESS,
					       first) == STATUS);
	if (native_is_possible())
		REQUIRE(refuse(INLINE, SYS_io_submit, SECCOMP_RET_KILL_PROCESS,
			       false) == -SIGSYS);
}

/*
 * If an instruction of the program could change user or group ids unnoticed, the library
 * queries the ids at each request by capget. This program has no such instruction, so
 * the library must not query: a filter kills the process at capget. This holds only on
 * x86-64; elsewhere the library assumes such an instruction in every program.
 */

static int work_without_queries(void *arg)
{
	aio_context_t ctx = host_context(NR);
	int fd = create_direct();

	(void)arg;
	work(ctx, fd);
#if defined(__x86_64__)
	install(INLINE, SYS_capget, SECCOMP_RET_KILL_PROCESS);
#endif
	work(ctx, fd);
	REQUIRE(host_destroy(ctx) == 0);
	return STATUS;
}

#if defined(__x86_64__)
/*
 * The program loads an object that changes user or group ids by an inline instruction.
 * The library finds that out when the program creates its next ring. From then on it
 * queries the ids by capget, so the filter kills the process.
 */
static int work_after_loading(void *arg)
{
	struct io_uring_params params = { 0 };
	aio_context_t ctx = host_context(NR);
	int fd = create_direct();

	(void)arg;
	work(ctx, fd);
	REQUIRE(dlopen(CHANGES_IDS, RTLD_NOW));
	REQUIRE(uring_setup(1, &params) >= 0);
	install(INLINE, SYS_capget, SECCOMP_RET_KILL_PROCESS);
	work(ctx, fd);
	return STATUS;
}
#endif

static void *pause_until_cancelled(void *arg)
{
	for (;;)
		pause();
	return arg;
}

void native_ids_in_children(void)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, pause_until_cancelled, NULL));
	REQUIRE(host_in_child(work_without_queries, NULL) == STATUS);
#if defined(__x86_64__)
	REQUIRE(host_in_child(work_after_loading, NULL) == -SIGSYS);
#endif
	REQUIRE(!pthread_cancel(thread) && !pthread_join(thread, NULL));
}

/*
 * Files for which kernel AIO is not asynchronous
 */

void native_slow(void)
{
	struct slowfs *fs = host_slow();
	aio_context_t ctx = host_context(NR);
	int fd = create_direct();

	/*
	 * First use a file on which kernel AIO is asynchronous, so that the library uses
	 * the kernel's AIO for this context.
	 */
	work(ctx, fd);
	REQUIRE(close(fd) == 0 && chdir("slow") == 0);
	fd = create_direct();
	work(ctx, fd);
	/*
	 * io_submit must not block, although the kernel's own io_submit would block on
	 * this file.
	 */
	slowfs_hold(fs, SLOWFS_WRITE);
	host_write_blocks(ctx, fd, 0, NR);
	slowfs_release(fs, SLOWFS_WRITE);
	host_reap_blocks(ctx, NR);
	REQUIRE(close(fd) == 0 && host_destroy(ctx) == 0);
	REQUIRE(chdir("..") == 0);
	slowfs_stop(fs);
}

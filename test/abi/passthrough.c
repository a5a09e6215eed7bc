/* SPDX-License-Identifier: MIT */
/*
 * passthrough TEST: checks that the preloaded library's syscall(2) behaves like the C
 * library's. Without the library, both are the same function, and the test passes as
 * well.
 */
#undef NDEBUG
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "older.h"

typedef long syscall_fn(long nr, ...);

static syscall_fn *libc_syscall;

static void find_libc(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	assert(libc);
	libc_syscall = (syscall_fn *)dlsym(libc, "syscall");
	assert(libc_syscall);
	/*
	 * With the library preloaded, the syscall() that the program finds must not be
	 * the C library's.
	 */
	if (getenv("LD_PRELOAD"))
		assert((void *)libc_syscall != dlsym(RTLD_DEFAULT, "syscall"));
}

struct outcome {
	long ret;
	int error;
};

static struct outcome call(syscall_fn *function, long nr, const long a[6])
{
	struct outcome outcome;

	/* No call of this test fails with ENOTTY, so any change of errno is seen. */
	errno = ENOTTY;
	outcome.ret = function(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	outcome.error = errno;
	return outcome;
}

/*
 * The C library's syscall() and the program's must both return ret and set errno to
 * error.
 */
static void expect(long nr, const long a[6], long ret, int error)
{
	struct outcome ours = call(syscall, nr, a);
	struct outcome libc = call(libc_syscall, nr, a);

	if (ours.ret != libc.ret || ours.error != libc.error ||
	    ours.ret != ret || ours.error != error) {
		fprintf(stderr,
			"%ld: ours %ld, %d; libc %ld, %d; not %ld, %d\n", nr,
			ours.ret, ours.error, libc.ret, libc.error, ret, error);
		abort();
	}
}

#define ARGS(...) ((const long[6]){ __VA_ARGS__ })

static void test_errno(void)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	long bad = 1 << 20; /* no descriptor */

	assert(fd >= 0);
	/* A call that succeeds must leave errno as call() has set it: ENOTTY. */
	expect(SYS_getpid, ARGS(0), getpid(), ENOTTY);
	expect(SYS_lseek, ARGS(fd, 4096, SEEK_SET), 4096, ENOTTY);
	/*
	 * /proc/self/mem accepts any offset. syscall(2) takes results from -4095 to -1
	 * for errors; other negative results are offsets.
	 */
	expect(SYS_lseek, ARGS(fd, -4096, SEEK_SET), -4096, ENOTTY);
	expect(SYS_lseek, ARGS(fd, -4095, SEEK_SET), -1, 4095);
	expect(SYS_lseek, ARGS(fd, -1, SEEK_SET), -1, 1);
	expect(SYS_lseek, ARGS(fd, INT64_MIN, SEEK_SET), INT64_MIN, ENOTTY);
	/* Errors. */
	expect(SYS_read, ARGS(bad, 0, 0), -1, EBADF);
	expect(SYS_openat, ARGS(AT_FDCWD, 8, O_RDONLY), -1, EFAULT);
	expect(SYS_openat, ARGS(AT_FDCWD, (long)"/nonexistent", O_RDONLY), -1,
	       ENOENT);
	close(fd);
}

static void test_own_errno(void)
{
	long page = (long)mmap(NULL, 8192, PROT_READ,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long bad = 1 << 20;

	assert(page != -1);
	expect(SYS_close, ARGS(bad), -1, EBADF);
	expect(SYS_close, ARGS(-1), -1, EBADF);
#ifdef SYS_dup2
	expect(SYS_dup2, ARGS(bad, bad + 1), -1, EBADF);
	expect(SYS_dup2, ARGS(bad, bad), -1, EBADF);
	expect(SYS_dup2, ARGS(1, 1), 1, ENOTTY);
#endif
	/*
	 * The library also interposes dup2(), dup3() and close(). They must behave like
	 * the C library's functions.
	 */
	errno = ENOTTY;
	assert(dup2(1, 1) == 1 && errno == ENOTTY);
	assert(dup2((int)bad, (int)bad) == -1 && errno == EBADF);
	assert(dup3(1, 1, 0) == -1 && errno == EINVAL);
	assert(close((int)bad) == -1 && errno == EBADF);
	expect(SYS_dup3, ARGS(1, 1, 0), -1, EINVAL);
	expect(SYS_dup3, ARGS(1, 100, ~0), -1, EINVAL);
	expect(SYS_dup3, ARGS(1, -1, 0), -1, EBADF);
	expect(SYS_fcntl, ARGS(bad, F_SETFL, 0), -1, EBADF);
	expect(SYS_fcntl, ARGS(1, F_DUPFD, -1), -1, EINVAL);
	expect(SYS_close_range, ARGS(2, 1, 0), -1, EINVAL);
	expect(SYS_close_range, ARGS(1000, 1001, 0), 0, ENOTTY);
	expect(SYS_close_range, ARGS(1000, 1001, ~0), -1, EINVAL);
	expect(SYS_mremap, ARGS(page, 8192, 4096, 0), page, ENOTTY);
	expect(SYS_mremap, ARGS(page + 1, 4096, 4096, 0), -1, EINVAL);

	/*
	 * io_uring_setup() must have the same outcome, success or error, through the C
	 * library's syscall() and through the library's.
	 */
	struct outcome refused =
		call(libc_syscall, SYS_io_uring_setup, ARGS(1, 8));
	assert(refused.ret == -1);
	if (refused.error == EFAULT) {
		expect(SYS_io_uring_setup, ARGS(1, 8), -1, EFAULT);
		expect(SYS_io_uring_enter, ARGS(bad), -1, EBADF);
		expect(SYS_io_uring_enter, ARGS(bad, 0, 0, 1 << 30), -1,
		       EINVAL);
		expect(SYS_io_uring_register, ARGS(bad, 8), -1, EBADF);
	}
	expect(SYS_mmap, ARGS(0, 0, PROT_READ, MAP_SHARED, bad, 0), -1, EBADF);
	expect(SYS_mmap, ARGS(0, 0, PROT_READ, MAP_SHARED, bad, 0x8000000), -1,
	       EBADF);
	expect(SYS_mmap, ARGS(0, 4096, PROT_READ, MAP_PRIVATE, 0, 1), -1,
	       EINVAL);

	/*
	 * The kernel may lack the six system calls of AIO, so only the library's
	 * results are checked.
	 */
	errno = 0;
	assert(syscall(SYS_io_destroy, 0) == -1 && errno == EINVAL);
	assert(syscall(SYS_io_setup, 1, NULL) == -1 && errno == EFAULT);
	assert(syscall(SYS_io_submit, 0, 1, NULL) == -1 && errno == EINVAL);
	errno = ENOTTY;
	aio_context_t ctx = 0;
	assert(syscall(SYS_io_setup, 1, &ctx) == 0 && errno == ENOTTY);
	assert(syscall(SYS_io_destroy, ctx) == 0 && errno == ENOTTY);
}

/* The library's syscall() must pass on all six arguments, with all their bits. */
static void test_arguments(void)
{
	char path[] = "/tmp/uaio-abi.XXXXXX";
	static const struct timespec no_time;
	int fd = mkstemp(path), epoll = epoll_create1(EPOLL_CLOEXEC);
	uint32_t word = 7, other = 9;
	struct epoll_event event;
	struct {
		const sigset_t *mask;
		size_t bytes;
	} masks = { NULL, 8 };
	sigset_t mask;
	char *map;

	assert(fd >= 0 && epoll >= 0 && unlink(path) == 0);
	/* mmap: the sixth argument is an offset, here of more than 32 bits. */
	assert(ftruncate(fd, (5ll << 32) + 8192) == 0);
	assert(pwrite(fd, "six", 4, (5ll << 32) + 4096) == 4);
	map = (char *)syscall(SYS_mmap, 0l, 4096l, (long)PROT_READ,
			      (long)MAP_SHARED, (long)fd, (5l << 32) + 4096);
	assert(map != MAP_FAILED && !strcmp(map, "six"));
	assert(munmap(map, 4096) == 0);

	/* futex: the sixth argument is a bit mask, which must not be 0. */
	expect(SYS_futex, ARGS((long)&word, FUTEX_WAIT_BITSET, 7, 0, 0, 0), -1,
	       EINVAL);
	expect(SYS_futex, ARGS((long)&word, FUTEX_WAIT_BITSET, 8, 0, 0, 1), -1,
	       EAGAIN);
	/* FUTEX_CMP_REQUEUE compares the futex word with the sixth argument. */
	expect(SYS_futex,
	       ARGS((long)&word, FUTEX_CMP_REQUEUE, 1, 1, (long)&other, 8), -1,
	       EAGAIN);
	expect(SYS_futex,
	       ARGS((long)&word, FUTEX_CMP_REQUEUE, 1, 1, (long)&other, 7), 0,
	       ENOTTY);

	/* epoll_pwait: the sixth argument is the size of a signal mask, 8 bytes. */
	sigemptyset(&mask);
	expect(SYS_epoll_pwait, ARGS(epoll, (long)&event, 1, 0, (long)&mask, 7),
	       -1, EINVAL);
	expect(SYS_epoll_pwait, ARGS(epoll, (long)&event, 1, 0, (long)&mask, 8),
	       0, ENOTTY);

	/* pselect6: the sixth argument points to a pointer and a size. */
	masks.mask = &mask;
	expect(SYS_pselect6, ARGS(0, 0, 0, 0, (long)&no_time, (long)&masks), 0,
	       ENOTTY);
	masks.bytes = 7;
	expect(SYS_pselect6, ARGS(0, 0, 0, 0, (long)&no_time, (long)&masks), -1,
	       EINVAL);
	close(fd);
	close(epoll);
}

static void test_unknown(void)
{
	static const long numbers[] = { -1,    -2,        100000,
					65535, INT32_MAX, INT32_MIN };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		expect(numbers[i], ARGS(1, 2, 3, 4, 5, 6), -1, ENOSYS);
}

static void expect_child(long pid, int status)
{
	int actual;

	assert(pid > 0);
	assert(waitpid((pid_t)pid, &actual, 0) == pid);
	assert(WIFEXITED(actual) && WEXITSTATUS(actual) == status);
}

static void test_fork(void)
{
	long pid = syscall(SYS_clone, (long)SIGCHLD, 0l, 0l, 0l, 0l);

	if (pid == 0)
		_exit(syscall(SYS_getppid) == getppid() ? 5 : 6);
	expect_child(pid, 5);
}

/*
 * End the child by an inline instruction. A function call would write to the stack that
 * the child shares with its parent.
 */
__attribute__((always_inline, noreturn)) static inline void leave(long status)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall" : : "a"((long)SYS_exit), "D"(status));
#else
	register long x8 __asm__("x8") = SYS_exit;
	register long x0 __asm__("x0") = status;

	__asm__ volatile("svc 0" : : "r"(x8), "r"(x0));
#endif
	__builtin_unreachable();
}

static void test_vfork(void)
{
	long pid = syscall(SYS_clone, (long)(CLONE_VM | CLONE_VFORK | SIGCHLD),
			   0l, 0l, 0l, 0l);

	if (pid == 0)
		leave(7);
	expect_child(pid, 7);
#ifdef SYS_vfork
	pid = syscall(SYS_vfork);
	if (pid == 0)
		leave(8);
	expect_child(pid, 8);
#endif
}

/* Install a seccomp filter that kills the process at this system call. */
static bool forbid(bool is_by_prctl, uint32_t nr)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	return is_by_prctl
		       ? !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
		       : !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0l,
				  &filter);
}

/*
 * The library must not make a forbidden call when another filter is installed. uses_aio:
 * the program has used AIO before.
 */
static void install_two(bool is_by_prctl, bool uses_aio)
{
	aio_context_t ctx = 0;
	pid_t pid = fork();

	if (pid == 0) {
		assert(!uses_aio || !syscall(SYS_io_setup, 1l, &ctx));
		assert(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		assert(forbid(is_by_prctl, SYS_newfstatat));
		assert(forbid(is_by_prctl, SYS_mount));
		leave(9);
	}
	expect_child(pid, 9);
}

static void test_filters(void)
{
	for (unsigned i = 0; i < 4; i++)
		install_two(i & 1, i & 2);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "errno", test_errno },         { "own-errno", test_own_errno },
	{ "arguments", test_arguments }, { "unknown", test_unknown },
	{ "fork", test_fork },           { "vfork", test_vfork },
	{ "filters", test_filters },
};

int main(int argc, char **argv)
{
	assert(argc == 2);
	find_libc();
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (!strcmp(argv[1], tests[i].name)) {
			tests[i].run();
			return 0;
		}
	}
	fprintf(stderr, "no test is named %s\n", argv[1]);
	return 1;
}

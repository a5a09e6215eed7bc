/* SPDX-License-Identifier: MIT */
/*
 * client WHEN FILTER: uses all functions of kernel AIO in a sandbox (seccomp filter)
 *
 * WHEN says when and how the program installs the filter:
 *
 * none     never
 * prctl    when it has opened its files, by prctl(2), for its only thread
 * seccomp  when it has opened its files, by seccomp(2), for all threads
 * late     after its first requests, by prctl(2)
 * before   by prctl(2), before it executes the command that follows FILTER
 *
 * FILTER is ACTION:CALL,... to refuse these system calls and allow all others, or
 * ACTION!CALL,... to allow only these. ACTION is `kill`, `trap` or the name of an
 * error.
 *
 * The program prints the result of each step on a line. It ends when it gets wrong
 * data. After the filter is installed, it makes only reads, writes, and the calls that
 * any program with several threads needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "older.h"

enum {
	BLOCK = 4096,
	NR_BLOCKS = 32,
	LARGE = 1 << 20,
	NR_THREADS = 4,
	SPEC_CALLS = 200,
	DSYNC = 2,       /* RWF_DSYNC */
	FLAG_IOPRIO = 2, /* IOCB_FLAG_IOPRIO */
	BEST_EFFORT = 2 << 13 | 3,
};

enum { WRONG = 2, BROKEN = 3 };

static _Noreturn void leave(int status, const char *why, const char *what,
			    long got)
{
	char text[160];
	int nr = snprintf(text, sizeof(text), "%s %s: %ld\n", why, what, got);

	(void)!write(STDOUT_FILENO, text, (size_t)nr);
	_exit(status);
}

/* End the test: a request returned wrong data or a wrong count. */
static void fail(const char *what, long got)
{
	leave(WRONG, "WRONG", what, got);
}

/* End the test: a system call that the test itself needs has failed. */
static void give_up(const char *what, int error)
{
	leave(BROKEN, "broken", what, error);
}

static void say(const char *what, long res)
{
	char text[160];
	int nr = snprintf(text, sizeof(text), "%s: %s\n", what,
			  res < 0 ? strerrorname_np((int)-res) : "ok");

	(void)!write(STDOUT_FILENO, text, (size_t)nr);
}

/*
 * The seccomp filter
 */

struct spec {
	uint32_t action;
	/* the action is for all system calls except calls[]; false: only for calls[] */
	bool is_rest;
	int calls[SPEC_CALLS];
	unsigned nr;
};

static struct spec parse(char *text)
{
	struct spec spec = { 0 };
	char *calls = strpbrk(text, ":!"), *name;
	int error = 0;

	if (!calls)
		exit(BROKEN);
	spec.is_rest = *calls == '!';
	*calls++ = '\0';
	for (int i = 1; i < 200; i++)
		if (strerrorname_np(i) && !strcmp(text, strerrorname_np(i)))
			error = i;
	spec.action = error ? SECCOMP_RET_ERRNO | (unsigned)error
		      : strcmp(text, "trap") ? SECCOMP_RET_KILL_PROCESS
					     : SECCOMP_RET_TRAP;
	while ((name = strsep(&calls, ","))) {
		int nr = seccomp_syscall_resolve_name(name);

		if (!strcmp(name, "cachestat"))
			nr = 451;
		if (nr == __NR_SCMP_ERROR || spec.nr == SPEC_CALLS) {
			fprintf(stderr, "no call %s\n", name);
			exit(BROKEN);
		}
		/*
		 * A negative number: only other processors have this system call.
		 */
		if (nr >= 0)
			spec.calls[spec.nr++] = nr;
	}
	return spec;
}

static struct sock_fprog assemble(const struct spec *spec)
{
	static struct sock_filter insns[2 * SPEC_CALLS + 2];
	uint32_t listed = spec->is_rest ? SECCOMP_RET_ALLOW : spec->action;
	uint32_t rest = spec->is_rest ? spec->action : SECCOMP_RET_ALLOW;
	unsigned short at = 0;

	insns[at++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < spec->nr; i++) {
		insns[at++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)spec->calls[i], 0,
			1);
		insns[at++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
	}
	insns[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rest);
	return (struct sock_fprog){ at, insns };
}

static void install(const char *when, char *text)
{
	struct spec spec = parse(text);
	struct sock_fprog program = assemble(&spec);
	long ret;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		give_up("no_new_privs", errno);
	/*
	 * Probe for seccomp as libseccomp does: with wrong arguments, so the calls must
	 * fail and change nothing.
	 */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) != -1 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1)
		give_up("a probe", 0);
	ret = strcmp(when, "seccomp")
		      ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
		      : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_TSYNC, &program);
	if (ret)
		give_up("seccomp", errno);
}

/*
 * The six system calls of kernel AIO
 */

static long result(long ret)
{
	return ret < 0 ? -errno : ret;
}

static long submit(aio_context_t ctx, struct iocb *iocb)
{
	return result(syscall(SYS_io_submit, ctx, 1l, &iocb));
}

/*
 * Wait for the next event.
 * Return: its result, or the error of io_getevents.
 */
static long reap(aio_context_t ctx)
{
	struct io_event event;
	long ret = result(syscall(SYS_io_getevents, ctx, 1l, 1l, &event, NULL));

	return ret < 0 ? ret : event.res;
}

static struct iocb iocb_of(int opcode, int fd, const void *buf, size_t bytes,
			   long long offset)
{
	return (struct iocb){
		.aio_lio_opcode = (uint16_t)opcode,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = bytes,
		.aio_offset = offset,
	};
}

static long make(aio_context_t ctx, struct iocb iocb)
{
	long ret = submit(ctx, &iocb);

	return ret < 0 ? ret : reap(ctx);
}

/* Files to work on, opened before the filter is installed */

static struct {
	int cached, cold, direct, pipe[2], fifo[2], sockets[2], event, zero;
	int pending, terminal[2], sealed;
} files;

static char block[BLOCK], large[LARGE] __attribute__((aligned(BLOCK))),
	seen[LARGE] __attribute__((aligned(BLOCK)));

static int new_file(const char *name, int flags)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | flags, 0600);

	if (fd < 0)
		give_up(name, errno);
	return fd;
}

static void open_terminal(void)
{
	char name[64];

	files.terminal[0] = posix_openpt(O_RDWR | O_NOCTTY);
	if (files.terminal[0] < 0 || grantpt(files.terminal[0]) ||
	    unlockpt(files.terminal[0]) ||
	    ptsname_r(files.terminal[0], name, sizeof(name)))
		give_up("terminal", errno);
	files.terminal[1] = open(name, O_RDWR | O_NOCTTY);
}

static void open_files(void)
{
	files.cached = new_file("cached", 0);
	files.cold = new_file("cold", 0);
	if (write(files.cold, large, LARGE) != LARGE || fsync(files.cold) ||
	    posix_fadvise(files.cold, 0, 0, POSIX_FADV_DONTNEED))
		give_up("cold", errno);
	files.direct = new_file("direct", O_DIRECT);
	files.pending = new_file("pending", 0);
	files.zero = open("/dev/zero", O_RDONLY);
	files.sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	if (fcntl(files.sealed, F_ADD_SEALS, F_SEAL_WRITE))
		give_up("sealed", errno);
	unlink("fifo");
	if (mkfifo("fifo", 0600))
		give_up("fifo", errno);
	files.fifo[0] = open("fifo", O_RDONLY | O_NONBLOCK);
	files.fifo[1] = open("fifo", O_WRONLY);
	if (fcntl(files.fifo[0], F_SETFL, 0))
		give_up("fifo", errno);
	files.event = eventfd(0, 0);
	if (pipe(files.pipe) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, files.sockets))
		give_up("pipe", errno);
	open_terminal();
}

/*
 * With `before`, the program may not open files: it inherits the descriptors, whose
 * numbers are in the environment.
 */

#define HANDED_ON "CLIENT_FILES"

static void hand_on(void)
{
	const int *fds = (const int *)&files;
	char text[256];
	int at = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(int); i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%d ",
			       fds[i]);
	setenv(HANDED_ON, text, 1);
}

static bool take_over(void)
{
	char *text = getenv(HANDED_ON);
	int *fds = (int *)&files;

	for (size_t i = 0; text && i < sizeof(files) / sizeof(int); i++)
		fds[i] = (int)strtol(text, &text, 10);
	return text;
}

/*
 * The steps of the program
 */

/*
 * Write a file and read it back. End the program if the data that was read differs.
 * Return: 0, or the first error.
 */
static long write_and_read(aio_context_t ctx, int fd, size_t bytes, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		long ret = make(ctx, iocb_of(IOCB_CMD_PWRITE, fd, large, bytes,
					     (long long)(i * bytes)));

		if (ret < 0)
			return ret;
		if (ret != (long)bytes)
			fail("written", ret);
	}
	for (size_t i = 0; i < nr; i++) {
		long ret;

		memset(seen, 0, bytes);
		ret = make(ctx, iocb_of(IOCB_CMD_PREAD, fd, seen, bytes,
					(long long)(i * bytes)));
		if (ret < 0)
			return ret;
		if (ret != (long)bytes || memcmp(seen, large, bytes))
			fail("read", ret);
	}
	return 0;
}

/*
 * The file is sealed, so each call that writes to it fails with EPERM. The library must
 * not conclude that the filter has refused the call.
 */
static void use_sealed(aio_context_t ctx)
{
	struct iocb iocb = iocb_of(IOCB_CMD_PWRITE, files.sealed, block, 1, 0);
	long ret = make(ctx, iocb);

	say("sealed", ret == -EPERM ? 0 : ret);
	iocb.aio_rw_flags = DSYNC;
	ret = make(ctx, iocb);
	say("sealed, flag", ret == -EPERM ? 0 : ret);
}

static void use_cached(aio_context_t ctx)
{
	struct iovec iov[2] = { { block, 100 }, { block, 412 } };
	struct iocb iocb;

	/*
	 * After 64 reads that found their pages in the page cache, the library reads
	 * without querying the page cache (RWF_NOWAIT). So make more than 64 reads.
	 */
	say("cached", write_and_read(ctx, files.cached, BLOCK, 3 * NR_BLOCKS));
	say("writev",
	    make(ctx, iocb_of(IOCB_CMD_PWRITEV, files.cached, iov, 2, 0)));
	say("readv",
	    make(ctx, iocb_of(IOCB_CMD_PREADV, files.cached, iov, 2, 0)));
	say("sync",
	    make(ctx, iocb_of(IOCB_CMD_FSYNC, files.cached, NULL, 0, 0)));
	say("datasync",
	    make(ctx, iocb_of(IOCB_CMD_FDSYNC, files.cached, NULL, 0, 0)));
	iocb = iocb_of(IOCB_CMD_PWRITE, files.cached, block, BLOCK, 0);
	iocb.aio_rw_flags = DSYNC;
	say("flag", make(ctx, iocb));
	iocb = iocb_of(IOCB_CMD_PREAD, files.direct, seen, BLOCK, 0);
	iocb.aio_flags = FLAG_IOPRIO;
	iocb.aio_reqprio = BEST_EFFORT;
	say("priority", make(ctx, iocb));
}

/* Even after an error, reap all events: a later reap must not find them. */
static void use_cold(aio_context_t ctx)
{
	long ret = 0, got;
	int taken = 0;

	for (int i = 0; i < NR_BLOCKS; i++) {
		struct iocb iocb = iocb_of(IOCB_CMD_PREAD, files.cold,
					   seen + i * BLOCK, BLOCK, i * BLOCK);

		got = submit(ctx, &iocb);
		ret = got < 0 ? got : ret;
		taken += got == 1;
	}
	while (taken--)
		if ((got = reap(ctx)) != BLOCK)
			ret = got < 0 ? got : -EIO;
	if (ret == 0 && memcmp(seen, large, NR_BLOCKS * BLOCK))
		fail("cold", 0);
	say("cold", ret);
}

/* Submit a read of an empty stream, then the write that the read waits for. */
static void use_stream(aio_context_t ctx, const char *name, int from, int to)
{
	struct iocb get = iocb_of(IOCB_CMD_PREAD, from, seen, 6, 0);
	struct iocb put = iocb_of(IOCB_CMD_PWRITE, to, "hello\n", 6, 0);
	long got, gave;

	memset(seen, 0, 6);
	got = submit(ctx, &get);
	gave = submit(ctx, &put);
	if (got < 0 || gave < 0) {
		say(name, got < 0 ? got : gave);
		/*
		 * Only one of the two requests was accepted. If it was the write, reap
		 * it and read its data from the stream. If it was the read, write to
		 * the stream and reap the read.
		 */
		if (gave == 1 && (gave = reap(ctx)) == 6 &&
		    read(from, seen, 6) != 6)
			give_up(name, errno);
		if (got == 1 && write(to, "hello\n", 6) == 6)
			reap(ctx);
		return;
	}
	got = reap(ctx);
	/*
	 * The submitted write has failed, so write here; else the read would wait for
	 * ever.
	 */
	if (got < 0 && write(to, "hello\n", 6) != 6)
		give_up(name, errno);
	gave = reap(ctx);
	say(name, got < 0 ? got : gave);
	if ((got >= 0 && got != 6) || (gave >= 0 && gave != 6))
		fail(name, got);
	if (got == 6 && gave == 6 && memcmp(seen, "hello\n", 6))
		fail(name, 0);
}

static void use_poll(aio_context_t ctx)
{
	struct iocb iocb = iocb_of(IOCB_CMD_POLL, files.pipe[0],
				   (void *)(uintptr_t)POLLIN, 0, 0);
	long ret = submit(ctx, &iocb);

	if (write(files.pipe[1], "x", 1) != 1)
		give_up("pipe", errno);
	say("poll", ret < 0 ? ret : reap(ctx));
	if (read(files.pipe[0], seen, 1) != 1)
		give_up("pipe", errno);
}

/*
 * The client waits in no call of AIO: it reads an eventfd, which the request signals.
 */
static void use_resfd(aio_context_t ctx)
{
	struct iocb iocb = iocb_of(IOCB_CMD_PREAD, files.pipe[0], seen, 1, 0);
	uint64_t count = 0;
	long ret;

	iocb.aio_flags = IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)files.event;
	ret = submit(ctx, &iocb);
	if (write(files.pipe[1], "x", 1) != 1)
		give_up("pipe", errno);
	say("resfd", ret);
	if (ret < 0) {
		if (read(files.pipe[0], seen, 1) != 1)
			give_up("pipe", errno);
		return;
	}
	if (read(files.event, &count, sizeof(count)) != sizeof(count) ||
	    count != 1)
		fail("resfd", (long)count);
	if ((ret = reap(ctx)) >= 0 && ret != 1)
		fail("resfd", ret);
}

static void use_cancel(aio_context_t ctx)
{
	struct iocb iocb = iocb_of(IOCB_CMD_POLL, files.pipe[0],
				   (void *)(uintptr_t)POLLIN, 0, 0);
	struct io_event event;
	long ret = submit(ctx, &iocb);

	if (ret < 0) {
		say("cancel", ret);
		return;
	}
	ret = result(syscall(SYS_io_cancel, ctx, &iocb, &event));
	say("cancel", ret == -EINPROGRESS ? 0 : ret);
	reap(ctx);
}

/*
 * Close a socket while a read waits on it. The read still waits when the process ends.
 */
static void use_close(aio_context_t ctx)
{
	struct iocb iocb =
		iocb_of(IOCB_CMD_PREAD, files.sockets[0], seen, 1, 0);

	say("parked", submit(ctx, &iocb));
	close(files.sockets[0]);
}

static void *work(void *arg)
{
	static __thread char buf[BLOCK];
	aio_context_t ctx = 0;
	long ret = result(syscall(SYS_io_setup, 8, &ctx));

	for (int i = 0; i < NR_BLOCKS && ret >= 0; i++) {
		ret = make(ctx, iocb_of(IOCB_CMD_PREAD, files.cold, buf, BLOCK,
					(LARGE / 2) + i * BLOCK));
		if (ret == BLOCK && memcmp(buf, large, BLOCK))
			fail("thread", i);
	}
	if (ctx)
		syscall(SYS_io_destroy, ctx);
	*(long *)arg = ret;
	return NULL;
}

static void use_threads(void)
{
	pthread_t threads[NR_THREADS];
	long rets[NR_THREADS] = { 0 }, ret = 0;

	for (int i = 0; i < NR_THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &rets[i]))
			work(&rets[i]), threads[i] = 0;
	for (int i = 0; i < NR_THREADS; i++) {
		if (threads[i])
			pthread_join(threads[i], NULL);
		ret = rets[i] < 0 ? rets[i] : ret;
	}
	say("threads", ret);
}

static void use_fork(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0) {
		say("fork", -EAGAIN); /* the filter may refuse fork() */
		return;
	}
	if (pid == 0) {
		aio_context_t ctx = 0;
		long ret = result(syscall(SYS_io_setup, 8, &ctx));

		if (ret == 0)
			ret = write_and_read(ctx, files.cached, BLOCK, 4);
		_exit(ret < 0 ? 1 : 0);
	}
	if (waitpid(pid, &status, 0) != pid)
		give_up("wait", errno);
	if (WIFSIGNALED(status))
		fail("child", WTERMSIG(status));
	say("fork", WEXITSTATUS(status) ? -EIO : 0);
}

static void use_all(void)
{
	aio_context_t ctx = 0;

	say("setup", result(syscall(SYS_io_setup, 128, &ctx)));
	if (!ctx)
		exit(1);
	use_sealed(ctx);
	use_cached(ctx);
	use_cold(ctx);
	say("direct", write_and_read(ctx, files.direct, BLOCK, NR_BLOCKS));
	say("large", write_and_read(ctx, files.direct, LARGE, 4));
	say("device",
	    make(ctx, iocb_of(IOCB_CMD_PREAD, files.zero, seen, BLOCK, 0)));
	use_stream(ctx, "pipe", files.pipe[0], files.pipe[1]);
	use_stream(ctx, "fifo", files.fifo[0], files.fifo[1]);
	use_stream(ctx, "socket", files.sockets[0], files.sockets[1]);
	use_stream(ctx, "terminal", files.terminal[1], files.terminal[0]);
	use_poll(ctx);
	use_resfd(ctx);
	use_cancel(ctx);
	use_threads();
	use_fork();
	use_close(ctx);
	/* The process ends while these requests are in flight. */
	for (int i = 0; i < NR_BLOCKS; i++) {
		struct iocb iocb = iocb_of(IOCB_CMD_PWRITE, files.pending,
					   block, BLOCK, i * BLOCK);
		long ret = submit(ctx, &iocb);

		if (ret < 0)
			say("pending", ret);
	}
}

int main(int argc, char **argv)
{
	const char *when = argc > 1 ? argv[1] : "none";

	memset(block, 'b', sizeof(block));
	memset(large, 'l', sizeof(large));
	alarm(30);
	if (!take_over())
		open_files();
	if (!strcmp(when, "before") && argc > 3) {
		hand_on();
		install(when, argv[2]);
		execvp(argv[3], argv + 3);
		return BROKEN;
	}
	if (!strcmp(when, "late"))
		use_threads();
	if (argc > 2)
		install(when, argv[2]);
	use_all();
	return 0;
}

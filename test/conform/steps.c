/* SPDX-License-Identifier: MIT */
/*
 * Helpers that the test cases share: functions that print what a test case observes,
 * and functions for preparatory steps.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "ring.h"
#include "older.h"

static void put(const char *format, ...)
{
	char text[2048];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/*
	 * One write() for each field, so that the fields survive a crash of the test
	 * case.
	 */
	if (len < 0 || write(STDOUT_FILENO, text, (size_t)len) != len)
		abort();
}

void note(const char *key, long value)
{
	put("\t%s=%ld", key, value);
}

void note_text(const char *key, const char *text)
{
	put("\t%s=%s", key, text);
}

static const char *result_name(long result, char *text, size_t size)
{
	const char *name = NULL;

	if (result < 0 && result > -4096)
		name = strerrorname_np((int)-result);
	if (name)
		return name;
	snprintf(text, size, "%ld", result);
	return text;
}

void note_result(const char *key, long result)
{
	char text[32];

	note_text(key, result_name(result, text, sizeof(text)));
}

void note_event(const char *key, const struct io_event *event,
		const struct iocb *cb)
{
	bool is_open = result_as_asked(event) == RESULT_OPEN;
	char text[32];

	put("\t%s=event:%s%s%s%s", key,
	    is_open ? "tried" : result_name(event->res, text, sizeof(text)),
	    event->res2 ? ",res2" : "",
	    event->data == cb->aio_data ? "" : ",data",
	    event->obj == (uintptr_t)cb ? "" : ",obj");
}

void skip(const char *why)
{
	put("\tskip=%s", why);
	_exit(0);
}

void broken(const char *step)
{
	put("\tbroken=%s(%s)", step, strerrorname_np(errno));
	_exit(1);
}

aio_context_t new_context(unsigned int nr)
{
	aio_context_t ctx = 0;
	long ret = call_setup(nr, &ctx);

	if (ret) {
		note_result("setup", ret);
		broken("new_context");
	}
	return ctx;
}

/*
 * The aio_data of the first request. The next requests have the next numbers. No
 * pointer has such a value.
 */
static const uint64_t SERIALS = 0xda7a000000000000;

bool is_serial(uint64_t data)
{
	return data >> 48 == SERIALS >> 48;
}

/*
 * For each request: which parts of its result may differ from run to run. The index is
 * the request's serial number modulo NR_ASKED.
 */
static struct {
	uint16_t poll_mask;
	uint16_t open_bits;
	bool is_open;
} asked[4096];
enum { NR_ASKED = sizeof(asked) / sizeof(asked[0]) };

void result_is_open(const struct iocb *cb)
{
	asked[cb->aio_data % NR_ASKED].is_open = true;
}

void poll_bits_are_open(const struct iocb *cb, uint16_t bits)
{
	asked[cb->aio_data % NR_ASKED].open_bits = bits;
}

long long result_as_asked(const struct io_event *event)
{
	size_t at = event->data % NR_ASKED;

	if (!is_serial(event->data))
		return event->res;
	if (asked[at].is_open && (event->res >= 0 || event->res == -EAGAIN))
		return RESULT_OPEN;
	if (!asked[at].poll_mask || event->res < 0)
		return event->res;
	return event->res & (asked[at].poll_mask | POLLERR | POLLHUP) &
	       ~asked[at].open_bits;
}

struct iocb iocb_of(int opcode, int fd, const void *buf, size_t nbytes,
		    long long offset)
{
	static unsigned int serial;

	serial++;
	asked[serial % NR_ASKED].is_open = false;
	asked[serial % NR_ASKED].open_bits = 0;
	asked[serial % NR_ASKED].poll_mask =
		opcode == IOCB_CMD_POLL ? (uint16_t)(uintptr_t)buf : 0;
	return (struct iocb){
		.aio_data = SERIALS + serial,
		.aio_lio_opcode = (uint16_t)opcode,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = nbytes,
		.aio_offset = offset,
	};
}

long submit_one(aio_context_t ctx, struct iocb *cb)
{
	return call_submit(ctx, 1, &cb);
}

long reap(aio_context_t ctx, long nr, struct io_event *events)
{
	struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };

	return call_getevents(ctx, nr, nr, events, &timeout);
}

long try_one(const char *key, aio_context_t ctx, struct iocb *cb)
{
	struct io_event event;
	long ret = submit_one(ctx, cb);

	if (ret != 1) {
		note_result(key, ret);
		return ret;
	}
	ret = reap(ctx, 1, &event);
	if (ret == 1) {
		note_event(key, &event, cb);
		return event.res;
	}
	note_text(key, ret ? "accepted,error" : "accepted,no-event");
	return -EIO;
}

void try_each(aio_context_t ctx, int fd, const struct request *requests)
{
	struct iocb cb;

	for (; requests->key; requests++) {
		cb = iocb_of(requests->opcode, fd, requests->buf,
			     requests->nbytes, requests->offset);
		try_one(requests->key, ctx, &cb);
	}
}

void note_pending(const char *key, aio_context_t ctx)
{
	struct io_event events[64];
	struct timespec now = { 0 };

	note_result(key, call_getevents(ctx, 0, 64, events, &now));
}

unsigned char pattern_at(size_t offset)
{
	return (unsigned char)(offset * 7 + (offset >> 8) * 13 + 1);
}

bool is_pattern(const void *buf, size_t nbytes, size_t offset)
{
	const unsigned char *bytes = buf;
	size_t i;

	for (i = 0; i < nbytes; i++)
		if (bytes[i] != pattern_at(offset + i))
			return false;
	return true;
}

int file_of(const char *name, size_t size, int flags)
{
	unsigned char *bytes = malloc(size + 1);
	int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
	size_t i;

	REQUIRE(bytes && fd >= 0);
	for (i = 0; i < size; i++)
		bytes[i] = pattern_at(i);
	REQUIRE(write(fd, bytes, size) == (ssize_t)size);
	/*
	 * Write the data to the disk, so that a test case with O_DIRECT meets no dirty
	 * pages.
	 */
	if (flags & O_DIRECT)
		REQUIRE(fsync(fd) == 0);
	REQUIRE(close(fd) == 0);
	free(bytes);
	fd = open(name, flags);
	if (fd < 0 && (flags & O_DIRECT) && errno == EINVAL)
		skip("no-direct-io");
	REQUIRE(fd >= 0);
	return fd;
}

int loop_device_of(int backing)
{
	struct loop_config config = {
		.fd = (uint32_t)backing,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};
	int tries, nr, fd, control = open("/dev/loop-control", O_RDWR);
	char name[32];

	need_root();
	/* If another process takes the free loop device first, try again. */
	for (tries = 0; control >= 0 && tries < 1000; tries++) {
		nr = ioctl(control, LOOP_CTL_GET_FREE);
		snprintf(name, sizeof(name), "/dev/loop%d", nr);
		fd = open(name, O_RDWR);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			close(control);
			return fd;
		}
		close(fd);
	}
	skip("no-loop-device");
}

void *pages_of(size_t nbytes, int prot)
{
	size_t size = (nbytes + 4095) / 4096 * 4096;
	char *mem = mmap(NULL, size + 4096, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(mem != MAP_FAILED);
	REQUIRE(mprotect(mem, size, prot) == 0);
	return mem;
}

/* Waits until the task is in this state of proc_pid_stat(5). */
static void wait_state(pid_t task, char wanted)
{
	char path[64], text[512], *state;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", task);
	do {
		sched_yield();
		fd = open(path, O_RDONLY);
		len = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[len > 0 ? len : 0] = '\0';
		/*
		 * The thread's state comes after its name, which is in brackets and may
		 * hold any character.
		 */
		state = strrchr(text, ')');
		if (!state)
			_exit(1);
	} while (state[2] != wanted);
}

void wait_asleep(pid_t task)
{
	wait_state(task, 'S');
}

void stop_and_continue(pid_t pid)
{
	wait_asleep(pid);
	kill(pid, SIGSTOP);
	wait_state(pid, 'T');
	kill(pid, SIGCONT);
}

static bool is_asleep(const char *tid)
{
	char path[300], text[512], *state;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true; /* the thread has just ended */
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	state = strrchr(text, ')');
	return !state || !strncmp(state, ") S", 3);
}

static bool seem_asleep(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	bool all = true;

	REQUIRE(dir);
	while (all && (entry = readdir(dir)))
		all = entry->d_name[0] == '.' ||
		      atoi(entry->d_name) == gettid() ||
		      is_asleep(entry->d_name);
	closedir(dir);
	return all;
}

/*
 * Look at all threads several times: a thread that was still awake may have woken a
 * thread that had already been seen asleep.
 */
bool others_sleep(void)
{
	for (int i = 0; i < 5; i++)
		if (!seem_asleep())
			return false;
	return true;
}

pid_t fork_helper(void)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(STDOUT_FILENO);
	}
	return pid;
}

volatile sig_atomic_t nr_sigpipe;

static void on_sigpipe(int sig)
{
	(void)sig;
	nr_sigpipe++;
}

void count_sigpipe(void)
{
	signal(SIGPIPE, on_sigpipe);
}

int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	REQUIRE(pid >= 0);
	if (pid == 0) {
		status = fn();
		rings_note();
		_exit(status);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

void stay_on_this_cpu(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	REQUIRE(sched_setaffinity(0, sizeof(here), &here) == 0);
}

/*
 * Reads from fd with these RWF_* flags, and closes fd.
 * Return: the errno, or 0.
 */
static int error_of_read(int fd, int flags)
{
	char byte;
	const struct iovec iov = { &byte, 1 };
	int error = preadv2(fd, &iov, 1, -1, flags) < 0 ? errno : 0;

	close(fd);
	return error;
}

bool is_kernel_of_6_9(void)
{
	enum { APPEND = 0x10, NOAPPEND = 0x20 };

	return error_of_read(open("/dev/null", O_RDONLY), APPEND | NOAPPEND) ==
	       EINVAL;
}

bool is_kernel_of_6_10(void)
{
	enum { NOWAIT = 0x8 };

	return error_of_read(timerfd_create(CLOCK_MONOTONIC, 0), NOWAIT) !=
	       EOPNOTSUPP;
}

bool is_kernel_of_6_18(void)
{
	enum { NOSIGNAL = 0x100 };

	return error_of_read(open("/dev/null", O_RDONLY), NOSIGNAL) !=
	       EOPNOTSUPP;
}

void need_kernel_of(bool is_kernel, const char *version)
{
	char why[32];

	if (is_kernel)
		return;
	snprintf(why, sizeof(why), "needs-Linux-%s", version);
	skip(why);
}

void need_root(void)
{
	if (geteuid() != 0)
		skip("needs-root");
}

void need_private_mounts(void)
{
	need_root();
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip("no-mount-namespace");
}

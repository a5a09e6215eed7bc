/* SPDX-License-Identifier: MIT */
/*
 * Which files accept requests, and the results of requests on unusual kinds of file
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "streams.h"

static char buf[8192];

/* Makes one request of each opcode on the descriptor. */
static void try_all(const char *name, aio_context_t ctx, int fd)
{
	static const struct {
		const char *name;
		int opcode;
		const void *buf;
		size_t nbytes;
	} kinds[] = {
		{ "read", IOCB_CMD_PREAD, buf, 64 },
		{ "write", IOCB_CMD_PWRITE, buf, 64 },
		{ "read_0", IOCB_CMD_PREAD, buf, 0 },
		{ "write_0", IOCB_CMD_PWRITE, buf, 0 },
		{ "fsync", IOCB_CMD_FSYNC, NULL, 0 },
		{ "fdsync", IOCB_CMD_FDSYNC, NULL, 0 },
		{ "poll", IOCB_CMD_POLL, (void *)(POLLIN | POLLOUT), 0 },
	};
	struct iocb cb;
	char key[64];
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		cb = iocb_of(kinds[i].opcode, fd, kinds[i].buf, kinds[i].nbytes,
			     0);
		snprintf(key, sizeof(key), "%s.%s", name, kinds[i].name);
		try_one(key, ctx, &cb);
	}
}

static void bad_numbers(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 4096, O_RDWR);

	close(fd);
	try_all("closed", ctx, fd);
	try_all("minus_1", ctx, -1);
	try_all("int_max", ctx, 0x7fffffff);
	try_all("int_min", ctx, -0x7fffffff - 1);
	try_all("at_fdcwd", ctx, AT_FDCWD);
}

static void zeroes(void)
{
	aio_context_t ctx = new_context(8);

	memset(buf, 1, sizeof(buf));
	TRY_EACH(ctx, open("/dev/zero", O_RDWR), { "read", PREAD, buf, 64, 0 });
	note("zeroes", buf[0] == 0 && buf[63] == 0 && buf[64] == 1);
}

/*
 * Files without read_iter and write_iter: kernel AIO refuses them, but read(2) and write(2)
 * work.
 */
static void old_fashioned(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(5, EFD_NONBLOCK);
	uint64_t add = 7;
	struct iocb cb;

	need_kernel_of(is_kernel_of_6_9(), "6.9");
	cb = PWRITE_OF(open("/dev/full", O_RDWR), buf, 64, 0);
	try_one("dev_full_write", ctx, &cb);
	TRY_EACH(ctx, efd, { "eventfd_write", PWRITE, &add, 8, 0 });
	cb = PREAD_OF(open("/proc/self/status", O_RDONLY), buf, 5, 0);
	try_one("proc_status_read", ctx, &cb);
	cb = PREAD_OF(open("/proc/self/mem", O_RDONLY), buf, 8,
		      (long long)(uintptr_t)buf + 4096);
	try_one("proc_mem_read", ctx, &cb);
}

static void dev_full(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(open("/dev/full", O_RDWR), buf, 64, 0);

	try_one("read", ctx, &cb);
}

static void pipe_offset(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	cb = PWRITE_OF(fds[1], "0123456789", 10, 1 << 20);
	try_one("write_at", ctx, &cb);
	cb = PREAD_OF(fds[0], buf, 64, 1 << 20);
	try_one("read_at", ctx, &cb);
	cb = PWRITE_OF(fds[1], "0123456789", 10, -1);
	try_one("write_negative", ctx, &cb);
	cb = PREAD_OF(fds[0], buf, 64, -5);
	try_one("read_negative", ctx, &cb);
}

/* Submits a read of an empty pipe, which a later write completes. */
static void pipe_waits(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	if (fork_helper() == 0) {
		wait_asleep(getppid());
		_exit(write(fds[1], "0123456789", 10) != 10);
	}
	cb = PREAD_OF(fds[0], buf, 64, 0);
	try_one("read", ctx, &cb);
	note("good", !memcmp(buf, "0123456789", 10));
}

/*
 * The writer sets O_DIRECT, so its two writes become two packets. In the kernel a read
 * returns one packet. The library cannot find out whether a FIFO's writer has set
 * O_DIRECT. So under uaio the read returns both packets.
 */
static void fifo_packets(void)
{
	aio_context_t ctx = new_context(8);
	int reader, writer;

	REQUIRE(mkfifo("fifo", 0600) == 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	writer = open("fifo", O_WRONLY);
	REQUIRE(fcntl(reader, F_SETFL, 0) == 0);
	REQUIRE(fcntl(writer, F_SETFL, O_DIRECT) == 0);
	REQUIRE(write(writer, "01234", 5) == 5 && write(writer, "56", 2) == 2);
	TRY_EACH(ctx, reader, { "read", PREAD, buf, 64, 0 });
}

/*
 * Reads of the kernel's log and trace (/proc/kmsg, trace_pipe) may wait for ever. On
 * Linux 6.9 or later the library refuses such reads, as kernel AIO does. Otherwise a
 * worker would block in the read, and close() would wait for the worker.
 */
static void endless_files(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int kmsg, trace;

	need_kernel_of(is_kernel_of_6_9(), "6.9");
	need_private_mounts();
	REQUIRE(mkdir("tracing", 0755) == 0);
	if (mount("none", "tracing", "tracefs", 0, NULL) < 0) {
		REQUIRE(errno == ENODEV);
		skip("no-tracefs");
	}
	kmsg = open("/proc/kmsg", O_RDONLY);
	/* Only one process at a time may open this file, so repeat after EBUSY. */
	do {
		trace = open("tracing/trace_pipe", O_RDONLY);
	} while (trace < 0 && errno == EBUSY && sched_yield() == 0);
	REQUIRE(kmsg >= 0 && trace >= 0);
	cb = PREAD_OF(kmsg, buf, 64, 0);
	note_result("kmsg", submit_one(ctx, &cb));
	cb = PREAD_OF(trace, buf, 64, 0);
	note_result("trace_pipe", submit_one(ctx, &cb));
	note_result("close", close(kmsg) | close(trace));
	note_result("destroy", call_destroy(ctx));
	umount2("tracing", MNT_DETACH);
}

/*
 * The memfd is sealed, so writes to it fail with EPERM. The library must not conclude
 * that a sandbox refuses the system call for all files.
 */
static void sealed_memfd(void)
{
	aio_context_t ctx = new_context(8);
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	int open_one = memfd_create("open", 0);
	struct iocb cb;

	REQUIRE(sealed >= 0 && ftruncate(sealed, 64) == 0);
	REQUIRE(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	TRY_EACH(ctx, sealed, { "write", PWRITE, buf, 64, 0 },
		 { "read", PREAD, buf, 64, 0 });
	cb = PWRITE_OF(sealed, buf, 64, 0);
	cb.aio_rw_flags = RWF_DSYNC;
	try_one("flagged_write", ctx, &cb);
	cb = PWRITE_OF(open_one, buf, 64, 0);
	cb.aio_rw_flags = RWF_DSYNC;
	try_one("flagged_write_after", ctx, &cb);
	TRY_EACH(ctx, open_one, { "write_after", PWRITE, buf, 64, 0 },
		 { "read_after", PREAD, buf, 64, 0 });
}

static void pipe_nonblock(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe2(fds, O_NONBLOCK) == 0);
	cb = PREAD_OF(fds[0], buf, 64, 0);
	try_one("empty", ctx, &cb);
	fill_stream(fds[1], sizeof(buf));
	cb = PWRITE_OF(fds[1], buf, 64, 0);
	try_one("full", ctx, &cb);
}

/*
 * Ways to set O_NONBLOCK on a file. The library notices only fcntl() on the descriptor
 * of the request.
 */
enum way { BY_FCNTL, BY_DUPLICATE, BY_IOCTL, BY_ANOTHER_PROCESS };

static void set_nonblock(int fd, enum way way)
{
	int on = 1, status;
	pid_t pid;

	switch (way) {
	case BY_FCNTL: REQUIRE(!fcntl(fd, F_SETFL, O_NONBLOCK)); break;
	case BY_DUPLICATE: REQUIRE(!fcntl(dup(fd), F_SETFL, O_NONBLOCK)); break;
	case BY_IOCTL: REQUIRE(!ioctl(fd, FIONBIO, &on)); break;
	case BY_ANOTHER_PROCESS:
		pid = fork_helper();
		if (pid == 0)
			_exit(fcntl(fd, F_SETFL, O_NONBLOCK) != 0);
		REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

static void pipe_nonblock_later(enum way way)
{
	aio_context_t ctx = new_context(8);
	struct timespec some = { .tv_nsec = 50 * MS };
	struct io_event ev;
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0 && write(fds[1], "x", 1) == 1);
	cb = PREAD_OF(fds[0], buf, 1, 0);
	try_one("first", ctx, &cb);
	set_nonblock(fds[0], way);
	cb = PREAD_OF(fds[0], buf, 1, 0);
	note_result("submit", submit_one(ctx, &cb));
	note_result("reap", call_getevents(ctx, 1, 1, &ev, &some));
}

static void pipe_nonblock_by_itself(void)
{
	pipe_nonblock_later(BY_FCNTL);
}

static void pipe_nonblock_by_duplicate(void)
{
	pipe_nonblock_later(BY_DUPLICATE);
}

static void pipe_nonblock_by_ioctl(void)
{
	pipe_nonblock_later(BY_IOCTL);
}

static void pipe_nonblock_by_another_process(void)
{
	pipe_nonblock_later(BY_ANOTHER_PROCESS);
}

static void pipe_broken(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	REQUIRE(pipe(fds) == 0);
	close(fds[1]);
	cb = PREAD_OF(fds[0], buf, 64, 0);
	try_one("no_writer", ctx, &cb);
	REQUIRE(pipe(fds) == 0);
	close(fds[0]);
	cb = PWRITE_OF(fds[1], buf, 64, 0);
	try_one("no_reader", ctx, &cb);
}

static void pipe_broken_signal(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	count_sigpipe();
	REQUIRE(pipe(fds) == 0);
	close(fds[0]);
	cb = PWRITE_OF(fds[1], buf, 64, 0);
	try_one("no_reader", ctx, &cb);
	note("sigpipe", nr_sigpipe);
}

/*
 * Closes the pipe's last reader while a write waits for room. The test case polls the
 * eventfd, because a thread that waits for the event might execute the write itself.
 */
static void pipe_breaks_later(void)
{
	aio_context_t ctx = new_context(8);
	struct pollfd done = { .fd = eventfd(0, 0), .events = POLLIN };
	struct io_event ev;
	struct iocb cb;
	int fds[2];

	count_sigpipe();
	REQUIRE(pipe(fds) == 0 && fcntl(fds[1], F_SETPIPE_SZ, 4096) == 4096);
	REQUIRE(write(fds[1], buf, 4096) == 4096);
	if (fork_helper() == 0) {
		wait_asleep(getppid());
		_exit(0);
	}
	close(fds[0]);
	cb = PWRITE_OF(fds[1], buf, 64, 0);
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (uint32_t)done.fd;
	note_result("submit", submit_one(ctx, &cb));
	note("done", poll(&done, 1, PATIENCE_MS));
	note_result("reap", reap(ctx, 1, &ev));
	note_event("write", &ev, &cb);
	note("sigpipe", nr_sigpipe);
}

static void empty_datagram(void)
{
	aio_context_t ctx = new_context(8);
	struct iovec none = { buf, 0 };
	struct iocb cb;
	int fds[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
	cb = PWRITE_OF(fds[0], buf, 0, 0);
	try_one("write", ctx, &cb);
	note("came", recv(fds[1], buf, sizeof(buf), MSG_DONTWAIT));
	cb = iocb_of(IOCB_CMD_PWRITEV, fds[0], &none, 1, 0);
	try_one("write_pieces", ctx, &cb);
	note("came", recv(fds[1], buf, sizeof(buf), MSG_DONTWAIT));
}

static void sockets(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fds[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	REQUIRE(write(fds[1], "0123456789", 10) == 10);
	REQUIRE(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	try_all("stream", ctx, fds[0]);
	cb = PREAD_OF(fds[0], buf, 64, 0);
	try_one("stream_empty", ctx, &cb);
	REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
	REQUIRE(write(fds[1], "0123456789", 10) == 10);
	REQUIRE(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	try_all("datagram", ctx, fds[0]);
}

static void eventfds(void)
{
	aio_context_t ctx = new_context(8);
	int efd = eventfd(5, EFD_NONBLOCK);
	struct iocb cb = PREAD_OF(efd, buf, 4, 0);

	try_one("read_4", ctx, &cb);
	TRY_EACH(ctx, efd, { "read_64", PREAD, buf, 64, 0 });
	note("value", buf[0]);
	TRY_EACH(ctx, efd, { "read_empty", PREAD, buf, 8, 0 });
}

static void proc_files(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;

	cb = PREAD_OF(open("/proc/sys/kernel/ostype", O_RDONLY), buf, 64, 0);
	try_one("sysctl", ctx, &cb);
	note("linux", !memcmp(buf, "Linux\n", 6));
	cb = PREAD_OF(
		open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY),
		buf, 6, 0);
	try_one("sysfs", ctx, &cb);
}

static void block_device(void)
{
	aio_context_t ctx = new_context(8);
	int fd = loop_device_of(file_of("disk", 65536, O_RDWR));

	TRY_EACH(ctx, fd, { "last_page", PREAD, buf, 4096, 61440 });
	note("good", is_pattern(buf, 4096, 61440));
	TRY_EACH(ctx, fd, { "across_end", PREAD, buf, 4096, 63488 },
		 { "at_end", PREAD, buf, 4096, 65536 },
		 { "write_across_end", PWRITE, buf, 4096, 63488 },
		 { "write_at_end", PWRITE, buf, 4096, 65536 });
}

static void full_file_system(void)
{
	aio_context_t ctx = new_context(8);
	int fd;

	need_private_mounts();
	REQUIRE(mkdir("small", 0755) == 0);
	REQUIRE(mount("none", "small", "tmpfs", 0, "size=16k") == 0);
	fd = open("small/f", O_CREAT | O_RDWR, 0644);
	TRY_EACH(ctx, fd, { "fits", PWRITE, buf, 8192, 0 },
		 { "fits_too", PWRITE, buf, 4096, 12288 },
		 { "half_fits", PWRITE, buf, 8192, 20480 },
		 { "full", PWRITE, buf, 8192, 40960 });
	close(fd);
	umount2("small", MNT_DETACH);
}

static void read_only_file_system(void)
{
	aio_context_t ctx = new_context(8);
	struct iocb cb;
	int fd;

	need_private_mounts();
	REQUIRE(mkdir("m", 0755) == 0);
	REQUIRE(mount("none", "m", "tmpfs", 0, NULL) == 0);
	fd = open("m/f", O_CREAT | O_RDWR, 0644);
	close(fd);
	REQUIRE(mount("none", "m", NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	fd = open("m/f", O_RDONLY);
	TRY_EACH(ctx, fd, { "read", PREAD, buf, 64, 0 },
		 { "write", PWRITE, buf, 64, 0 });
	cb = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);
	try_one("fsync", ctx, &cb);
	close(fd);
	umount2("m", MNT_DETACH);
}

const struct row rows_file[] = {
	ROW("a descriptor that is none is EBADF", bad_numbers),
	ROW("/dev/zero gives zeroes", zeroes),
	ROW("files whose read or write is of the old fashion", old_fashioned),
	ROW("files whose read never ends", endless_files),
	ROW("/dev/full can be read", dev_full),
	ROW("only a sealed memfd fails with EPERM", sealed_memfd),
	ROW("pipes and offsets", pipe_offset),
	ROW("a read of an empty pipe waits for a writer", pipe_waits),
	ROW_DIFFERS("packets in a FIFO", fifo_packets, differs_fifo_packets,
		    { "read=event:5", "read=event:7" },
		    { "ring_0.*", "ring_0.*" }),
	ROW("non-blocking pipes give EAGAIN", pipe_nonblock),
	ROW("O_NONBLOCK set after the first request", pipe_nonblock_by_itself),
	ROW("O_NONBLOCK set through a duplicate", pipe_nonblock_by_duplicate),
	ROW("O_NONBLOCK set by ioctl", pipe_nonblock_by_ioctl),
	ROW("O_NONBLOCK set by another process",
	    pipe_nonblock_by_another_process),
	ROW("pipes without the other end", pipe_broken),
	ROW("a broken pipe raises SIGPIPE", pipe_broken_signal),
	ROW_DIFFERS("a pipe that breaks while a write waits raises SIGPIPE",
		    pipe_breaks_later, differs_signals,
		    { "sigpipe=1", "sigpipe=0" }),
	ROW("sockets", sockets),
	ROW("an empty datagram is sent", empty_datagram),
	ROW("eventfds", eventfds),
	ROW("files of proc and sysfs", proc_files),
	ROW("a block device", block_device),
	ROW("a full file system", full_file_system),
	ROW("a read-only file system", read_only_file_system),
	NO_ROW,
};

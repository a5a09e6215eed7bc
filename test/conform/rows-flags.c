/* SPDX-License-Identifier: MIT */
/* aio_rw_flags, I/O priorities, and completions that signal an eventfd */
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conform.h"

static char buf[8192] __attribute__((aligned(4096)));

static void try_flags(const char *name, aio_context_t ctx, struct iocb cb,
		      unsigned int flags)
{
	cb.aio_rw_flags = (__kernel_rwf_t)flags;
	try_one(name, ctx, &cb);
}

static void flags_unknown(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 8192, O_RDWR);
	struct iocb rd = PREAD_OF(fd, buf, 4096, 0);
	char key[64];
	int bit;

	for (bit = 9; bit < 32; bit++) {
		snprintf(key, sizeof(key), "bit_%d", bit);
		try_flags(key, ctx, rd, 1u << bit);
	}
	try_flags("all", ctx, rd, ~0u);
}

/*
 * Flags that some kernels lack. The library must answer as the kernel under it does.
 */
static void flags_recent(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 8192, O_RDWR);
	int append = file_of("g", 8192, O_RDWR | O_APPEND);
	struct iocb rd = PREAD_OF(fd, buf, 4096, 0);
	struct iocb wr = PWRITE_OF(fd, buf, 4096, 0);
	struct iocb wa = PWRITE_OF(append, buf, 4096, 0);

	try_flags("noappend", ctx, wa, 0x20);
	note("size", lseek(append, 0, SEEK_END));
	if (is_kernel_of_6_9())
		try_flags("append_noappend", ctx, wa, 0x30);
	try_flags("read_noappend", ctx, rd, 0x20);
	try_flags("atomic_read", ctx, rd, 0x40);
	try_flags("dontcache_read", ctx, rd, 0x80);
	try_flags("dontcache_write", ctx, wr, 0x80);
	try_flags("nosignal_read", ctx, rd, 0x100);
}

static void flags_nowait(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 8192, O_RDWR);
	struct iocb rd = PREAD_OF(fd, buf, 4096, 0);

	REQUIRE(pread(fd, buf, 8192, 0) == 8192);
	try_flags("hot", ctx, rd, 0x8);
	rd.aio_offset = 8192;
	try_flags("at_end", ctx, rd, 0x8);
	REQUIRE(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	rd.aio_offset = 0;
	/*
	 * No test case reads data outside the page cache with RWF_NOWAIT: read-ahead
	 * decides whether such a read succeeds or fails with EAGAIN.
	 */
}

/*
 * The file system supports RWF_NOWAIT, but may refuse it for this write. The state of
 * the page decides whether the write succeeds.
 */
static void flags_refused_later(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 8192, O_RDWR);
	struct iocb cb = PWRITE_OF(fd, buf, 4096, 0);

	result_is_open(&cb);
	try_flags("nowait_write", ctx, cb, 0x8);
}

static void flags_nowait_pipe(void)
{
	aio_context_t ctx = new_context(8);
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	try_flags("empty", ctx, PREAD_OF(fds[0], buf, 64, 0), 0x8);
	try_flags("room", ctx, PWRITE_OF(fds[1], buf, 64, 0), 0x8);
	try_flags("some", ctx, PREAD_OF(fds[0], buf, 64, 0), 0x8);
	REQUIRE(fcntl(fds[1], F_SETPIPE_SZ, 4096) == 4096);
	REQUIRE(write(fds[1], buf, 4096) == 4096);
	try_flags("full", ctx, PWRITE_OF(fds[1], buf, 64, 0), 0x8);
	note("still_blocking", !(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
}

static void flags_on_others(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 64, O_RDWR);
	struct iocb cb = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);

	try_flags("fsync_hipri", ctx, cb, 0x1);
	try_flags("fsync_unknown", ctx, cb, 1u << 30);
	try_flags("poll_unknown", ctx, POLL_OF(fd, POLLIN), 1u << 30);
	try_flags("null_dsync", ctx,
		  PWRITE_OF(open("/dev/null", O_RDWR), buf, 4, 0), 0x2);
}

static void flags_append(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 100, O_RDWR);
	struct iocb cb = PWRITE_OF(fd, "hello", 5, 3);

	try_flags("append", ctx, cb, 0x10);
	note("size", lseek(fd, 0, SEEK_END));
	cb.aio_offset = -1;
	try_flags("append_-1", ctx, cb, 0x10);
	cb.aio_offset = 0x7fffffffffffffff;
	try_flags("append_max", ctx, cb, 0x10);
}

static void try_priority(const char *name, aio_context_t ctx, int fd,
			 unsigned int flags, int prio)
{
	struct iocb cb = PREAD_OF(fd, buf, 64, 0);

	cb.aio_flags = flags;
	cb.aio_reqprio = (int16_t)prio;
	try_one(name, ctx, &cb);
}

static void note_priorities(aio_context_t ctx, int fd)
{
	static const struct {
		const char *name;
		int prio;
	} rows[] = {
		{ "none_0", 0 },         { "none_1", 1 },
		{ "none_7", 7 },         { "none_8", 8 },
		{ "rt_0", 1 << 13 },     { "rt_7", 1 << 13 | 7 },
		{ "be_0", 2 << 13 },     { "be_7", 2 << 13 | 7 },
		{ "be_8", 2 << 13 | 8 }, { "be_1000", 2 << 13 | 1000 },
		{ "idle_0", 3 << 13 },   { "idle_5", 3 << 13 | 5 },
		{ "class_4", 4 << 13 },  { "class_7", 7 << 13 },
	};
	/*
	 * Before Linux 6.5, ioprio_set() refuses the hint bits, which are above the
	 * level in an I/O priority.
	 */
	bool has_hints =
		!syscall(SYS_ioprio_set, 1 /* process */, 0, 2 << 13 | 8);
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (has_hints || !(rows[i].prio & 0x1ff8))
			try_priority(rows[i].name, ctx, fd, IOCB_FLAG_IOPRIO,
				     rows[i].prio);
}

static void priorities_root(void)
{
	aio_context_t ctx = new_context(8);

	need_root();
	note_priorities(ctx, file_of("f", 64, O_RDONLY));
}

static void priorities_user(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 64, O_RDONLY);

	if (geteuid() == 0)
		REQUIRE(setgid(65534) == 0 && setuid(65534) == 0);
	note_priorities(ctx, fd);
}

static void priority_without_flag(void)
{
	aio_context_t ctx = new_context(8);
	int fd = file_of("f", 64, O_RDWR);
	struct iocb cb;

	try_priority("bad_class", ctx, fd, 0, 7 << 13);
	try_priority("negative", ctx, fd, 0, -1);
	cb = iocb_of(IOCB_CMD_FSYNC, fd, NULL, 0, 0);
	cb.aio_flags = IOCB_FLAG_IOPRIO;
	cb.aio_reqprio = 7 << 13 >> 1;
	try_one("fsync", ctx, &cb);
	cb.aio_reqprio = (int16_t)(7 << 13);
	try_one("fsync_class_7", ctx, &cb);
	try_priority("bad_fd", ctx, -1, IOCB_FLAG_IOPRIO, 7 << 13);
	try_priority("bad_direction", ctx, file_of("w", 64, O_WRONLY),
		     IOCB_FLAG_IOPRIO, 7 << 13);
}

const struct row rows_flags[] = {
	ROW("unknown RWF bits are EOPNOTSUPP", flags_unknown),
	ROW("RWF flags of recent kernels", flags_recent),
	ROW("RWF_NOWAIT on a regular file", flags_nowait),
	ROW("RWF flags that a file system refuses", flags_refused_later),
	ROW("RWF_NOWAIT on a pipe", flags_nowait_pipe),
	ROW("RWF flags where they have no meaning", flags_on_others),
	ROW("RWF_APPEND wins over the offset", flags_append),
	ROW("priorities asked for by root", priorities_root),
	ROW("priorities asked for by a user", priorities_user),
	ROW("a priority without its flag is not looked at",
	    priority_without_flag),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/*
 * Every operation on every kind of file, with every flag and every mistake
 *
 * There is a test case for each operation and kind of file. The test case makes a valid
 * request, and then the same request with one member changed at a time. It makes each
 * request without and with an eventfd, and prints the results. Files whose data a read
 * consumes, such as pipes, are reopened for each request. No request can wait: there is
 * data to read and room to write.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "descriptors.h"
#include "conform.h"
#include "differences.h"

enum { NR_BYTES = 64, NR_BYTES_DISK = 4096, FILE_BYTES = 65536 };

static char buf[FILE_BYTES] __attribute__((aligned(4096)));

/*
 * The kinds of files
 */

static int open_regular(void)
{
	return file_of("f", FILE_BYTES, O_RDWR);
}

static int open_direct(void)
{
	return file_of("f", FILE_BYTES, O_RDWR | O_DIRECT);
}

static int open_append(void)
{
	return file_of("f", FILE_BYTES, O_RDWR | O_APPEND);
}

static int open_dsync(void)
{
	return file_of("f", FILE_BYTES, O_RDWR | O_DSYNC);
}

static int open_read_only(void)
{
	return file_of("f", FILE_BYTES, O_RDONLY);
}

static int open_write_only(void)
{
	return file_of("f", FILE_BYTES, O_WRONLY);
}

/* Opens a file with access mode 3 (O_ACCMODE), which permits only ioctl(2). */
static int open_neither(void)
{
	return file_of("f", FILE_BYTES, O_ACCMODE);
}

static int open_path(void)
{
	return open(".", O_PATH);
}

static int open_memfd(void)
{
	int fd = memfd_create("conform", 0);

	REQUIRE(write(fd, buf, FILE_BYTES) == FILE_BYTES);
	return fd;
}

static int open_block_device(void)
{
	return loop_device_of(file_of("disk", FILE_BYTES, O_RDWR));
}

static int open_pipe_reader(void)
{
	return open_pipe_reader_of(buf, 100);
}

static int open_socket_of(int type)
{
	return open_socket_with(type, buf, 100);
}

static int open_stream_socket(void)
{
	return open_socket_of(SOCK_STREAM);
}

static int open_datagram_socket(void)
{
	return open_socket_of(SOCK_DGRAM);
}

static int open_unconnected_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
}

static int open_eventfd(void)
{
	return eventfd(5, 0);
}

static int open_timerfd(void)
{
	const struct itimerspec soon = { .it_value.tv_nsec = 1 };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct pollfd expired = { .fd = fd, .events = POLLIN };

	REQUIRE(timerfd_settime(fd, 0, &soon, NULL) == 0);
	REQUIRE(poll(&expired, 1, -1) == 1);
	return fd;
}

static int open_epoll(void)
{
	struct epoll_event want = { .events = EPOLLOUT };
	int fd = epoll_create1(0);

	REQUIRE(!epoll_ctl(fd, EPOLL_CTL_ADD, open_pipe_writer(), &want));
	return fd;
}

static int open_terminal(void)
{
	static const char line[] = "a line of a terminal, read as a whole\n";
	struct pollfd ready = { .events = POLLIN };
	int master;

	REQUIRE(openpty(&master, &ready.fd, NULL, NULL, NULL) == 0);
	REQUIRE(write(master, line, strlen(line)) == (ssize_t)strlen(line));
	REQUIRE(poll(&ready, 1, -1) == 1);
	return ready.fd;
}

static int open_urandom(void)
{
	return open("/dev/urandom", O_RDWR);
}

static int open_closed(void)
{
	int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

struct kind {
	const char *name;
	int (*open)(void);
};

/* Files on a file system, which affects the results. `others` has the other files. */
static const struct kind files[] = {
	{ "a regular file", open_regular },
	{ "an O_DIRECT file", open_direct },
	{ "an O_APPEND file", open_append },
	{ "an O_DSYNC file", open_dsync },
	{ "an O_RDONLY file", open_read_only },
	{ "an O_WRONLY file", open_write_only },
	{ "an O_ACCMODE file", open_neither },
	{ "an O_PATH descriptor", open_path },
	{ "a directory", open_directory },
};

static const struct kind others[] = {
	{ "a memfd", open_memfd },
	{ "a block device", open_block_device },
	{ "the reader of a pipe", open_pipe_reader },
	{ "the writer of a pipe", open_pipe_writer },
	{ "the reader of an empty pipe, O_NONBLOCK", open_pipe_empty },
	{ "the writer of a full pipe, O_NONBLOCK", open_pipe_full },
	{ "a stream socket", open_stream_socket },
	{ "a datagram socket", open_datagram_socket },
	{ "a socket not connected", open_unconnected_socket },
	{ "an eventfd", open_eventfd },
	{ "a timerfd", open_timerfd },
	{ "an epoll", open_epoll },
	{ "a terminal", open_terminal },
	{ "/dev/null", open_null },
	{ "/dev/zero", open_zero },
	{ "/dev/urandom", open_urandom },
	{ "a number that is closed", open_closed },
};

/*
 * The operations, and the requests of each
 */

static const struct op {
	const char *name;
	int opcode;
} ops[] = {
	{ "PREAD", IOCB_CMD_PREAD },   { "PWRITE", IOCB_CMD_PWRITE },
	{ "PREADV", IOCB_CMD_PREADV }, { "PWRITEV", IOCB_CMD_PWRITEV },
	{ "FSYNC", IOCB_CMD_FSYNC },   { "FDSYNC", IOCB_CMD_FDSYNC },
	{ "POLL", IOCB_CMD_POLL },     { "an unknown opcode", 99 },
};

enum member { NONE, RW_FLAGS, FLAGS, PRIORITY, RESERVED, BUF, NBYTES, OFFSET };

enum { NOWAIT = 0x8 };

/*
 * The changes that make a request unusual. Flags are numbers here, because older
 * headers lack some names.
 */
static const struct change {
	const char *name;
	enum member member;
	uint64_t value;
} changes[] = {
	{ "as_it_should_be", NONE, 0 },
	{ "hipri", RW_FLAGS, 0x1 },
	{ "dsync", RW_FLAGS, 0x2 },
	{ "sync", RW_FLAGS, 0x4 },
	{ "nowait", RW_FLAGS, NOWAIT },
	{ "append", RW_FLAGS, 0x10 },
	{ "noappend", RW_FLAGS, 0x20 },
	{ "atomic", RW_FLAGS, 0x40 },
	{ "dontcache", RW_FLAGS, 0x80 },
	{ "nosignal", RW_FLAGS, 0x100 },
	{ "rw_flags_bit_12", RW_FLAGS, 1 << 12 },
	{ "rw_flags_bit_31", RW_FLAGS, 1u << 31 },
	{ "flags_bit_5", FLAGS, 1 << 5 },
	{ "priority_without_flag", PRIORITY, 7 << 13 },
	{ "priority_best_effort", FLAGS, IOCB_FLAG_IOPRIO },
	{ "reserved2", RESERVED, 1 },
	{ "buf_0", BUF, 0 },
	{ "buf_in_the_kernel", BUF, 0xffff888000001000 },
	{ "nbytes_0", NBYTES, 0 },
	{ "nbytes_1", NBYTES, 1 },
	{ "nbytes_-1", NBYTES, -1ull },
	{ "offset_-1", OFFSET, -1ull },
	{ "offset_1", OFFSET, 1 },
	{ "offset_at_the_end", OFFSET, FILE_BYTES },
};

enum {
	NR_FILES = sizeof(files) / sizeof(files[0]),
	NR_OTHERS = sizeof(others) / sizeof(others[0]),
	NR_OPS = sizeof(ops) / sizeof(ops[0]),
	NR_CHANGES = sizeof(changes) / sizeof(changes[0]),
};

struct row rows_files[NR_OPS * NR_FILES + 1];
struct row rows_others[NR_OPS * NR_OTHERS + 1];

static struct iocb request_of(int opcode, int fd, size_t nbytes)
{
	static struct iovec iov[2];

	iov[0] = (struct iovec){ buf, nbytes / 2 };
	iov[1] = (struct iovec){ buf + NR_BYTES_DISK, nbytes / 2 };
	switch (opcode) {
	case IOCB_CMD_PREADV:
	case IOCB_CMD_PWRITEV: return iocb_of(opcode, fd, iov, 2, 0);
	case IOCB_CMD_POLL: return POLL_OF(fd, POLLIN | POLLOUT);
	case IOCB_CMD_PREAD:
	case IOCB_CMD_PWRITE: return iocb_of(opcode, fd, buf, nbytes, 0);
	default: return iocb_of(opcode, fd, NULL, 0, 0);
	}
}

static void apply(const struct change *change, struct iocb *cb)
{
	switch (change->member) {
	case NONE: break;
	case RW_FLAGS: cb->aio_rw_flags = (__kernel_rwf_t)change->value; break;
	case FLAGS:
		cb->aio_flags |= (uint32_t)change->value;
		cb->aio_reqprio = 2 << 13 | 4;
		break;
	case PRIORITY: cb->aio_reqprio = (int16_t)change->value; break;
	case RESERVED: cb->aio_reserved2 = change->value; break;
	case BUF: cb->aio_buf = change->value; break;
	case NBYTES: cb->aio_nbytes = change->value; break;
	case OFFSET: cb->aio_offset = (int64_t)change->value; break;
	}
}

/*
 * Makes a request and prints its result. Waits for the event, unless the request is a
 * poll that does not complete at once.
 * Return: whether there was an event.
 */
static bool try_request(const char *key, aio_context_t ctx, struct iocb *cb)
{
	struct timespec at_once = { 0 },
			some = { .tv_sec = PATIENCE_MS / 1000 };
	bool is_poll = cb->aio_lio_opcode == IOCB_CMD_POLL;
	struct io_event ev;
	long ret = submit_one(ctx, cb);

	if (ret != 1) {
		note_result(key, ret);
		return false;
	}
	if (call_getevents(ctx, !is_poll, 1, &ev, is_poll ? &at_once : &some) !=
	    1) {
		note_text(key, "accepted,no-event");
		return false;
	}
	note_event(key, &ev, cb);
	return true;
}

/*
 * Waits for the eventfd: even in the kernel, a thread may see an event before the
 * eventfd counts it.
 */
static void note_signals(int efd, bool has_event)
{
	struct pollfd counted = { .fd = efd, .events = POLLIN };
	eventfd_t count;

	(void)poll(&counted, 1, has_event ? PATIENCE_MS : 0);
	note("signalled", eventfd_read(efd, &count) ? 0 : (long)count);
}

/*
 * Return: whether all requests of a test case can share this descriptor, because its
 * data stays readable.
 */
static bool is_lasting(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) ||
		S_ISDIR(st.st_mode));
}

/*
 * Return: whether the change uses a flag that this kernel lacks, or supports for fewer
 * files than newer kernels do.
 */
static bool is_too_new(const struct change *change)
{
	enum { FIRST_RECENT = 0x20, LAST_RECENT = 0x100 };

	if (change->member != RW_FLAGS)
		return false;
	if (change->value == NOWAIT)
		return !is_kernel_of_6_10();
	return change->value >= FIRST_RECENT && change->value <= LAST_RECENT &&
	       !is_kernel_of_6_18();
}

/*
 * Makes one request. A write with RWF_NOWAIT may succeed and extend the file, or may
 * fail. So the test case then restores the file's size for the next request.
 */
static void run_change(const struct change *change, struct iocb cb,
		       aio_context_t ctx, int efd)
{
	bool is_open = change->member == RW_FLAGS && change->value == NOWAIT &&
		       cb.aio_nbytes && is_lasting((int)cb.aio_fildes);
	bool has_event;
	char key[64];

	if (efd >= 0) {
		cb.aio_flags = IOCB_FLAG_RESFD;
		cb.aio_resfd = (uint32_t)efd;
	}
	apply(change, &cb);
	if (is_open)
		result_is_open(&cb);
	snprintf(key, sizeof(key), "%s%s", change->name,
		 efd >= 0 ? ",resfd" : "");
	has_event = try_request(key, ctx, &cb);
	if (efd >= 0)
		note_signals(efd, has_event);
	if (is_open)
		(void)!ftruncate((int)cb.aio_fildes, FILE_BYTES);
}

static void run_row(void)
{
	const struct op *op = this_row->about;
	const struct kind *kind = this_row->on;
	int efd = eventfd(0, EFD_NONBLOCK), fd = kind->open(), i;
	bool is_file = is_lasting(fd);
	aio_context_t ctx = new_context(8);
	struct iocb cb;

	/*
	 * Before Linux 6.10, kernel AIO cannot read these files, because they have no
	 * read_iter.
	 */
	if (kind->open == open_timerfd || kind->open == open_urandom)
		need_kernel_of(is_kernel_of_6_10(), "6.10");
	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 2 * NR_CHANGES; i++) {
		if (is_too_new(&changes[i / 2]))
			continue;
		cb = request_of(op->opcode, fd,
				is_file ? NR_BYTES_DISK : NR_BYTES);
		run_change(&changes[i / 2], cb, ctx, i % 2 ? efd : -1);
		if (!is_file) {
			close(fd);
			fd = kind->open();
		}
	}
	if (is_file)
		note("size", lseek(fd, 0, SEEK_END));
}

#define REFUSED(fs, ...)                                      \
	{                                                     \
		&differs_flag_refused, fs, PAIRS(__VA_ARGS__) \
	}
#define BTRFS_DONTCACHE \
	REFUSED("btrfs", { "dontcache*=EOPNOTSUPP", "dontcache*=EBADF" })
#define XFS_ATOMIC REFUSED("xfs", { "atomic*=EBADF", "atomic*=EOPNOTSUPP" })
#define XFS_ATOMIC_EVENT                                                     \
	REFUSED("xfs", { "atomic*=event:EOPNOTSUPP", "atomic*=EOPNOTSUPP" }, \
		{ "signalled=1", "signalled=0" }, { "ring_0.*", "ring_0.*" })

/* The test cases with differences, by name (a pattern of fnmatch(3)) */
static const struct {
	const char *name;
	const struct showing *differs;
} meant[] = {
	{ "PREAD* on an O_WRONLY file", SHOWINGS(BTRFS_DONTCACHE) },
	{ "PREAD* on an O_ACCMODE file", SHOWINGS(BTRFS_DONTCACHE) },
	{ "PWRITE* on an O_RDONLY file",
	  SHOWINGS(BTRFS_DONTCACHE, XFS_ATOMIC) },
	{ "PWRITE* on an O_ACCMODE file",
	  SHOWINGS(BTRFS_DONTCACHE, XFS_ATOMIC) },
	{ "PWRITE on a regular file", SHOWINGS(XFS_ATOMIC_EVENT) },
	{ "PWRITE on an O_APPEND file", SHOWINGS(XFS_ATOMIC_EVENT) },
	{ "PWRITE on an O_DSYNC file", SHOWINGS(XFS_ATOMIC_EVENT) },
	{ "PWRITE on an O_WRONLY file", SHOWINGS(XFS_ATOMIC_EVENT) },
	{ "POLL on a terminal",
	  SHOWINGS(
		  { &differs_terminal_poll, NULL,
		    PAIRS({ "buf_0*=EINVAL", "buf_0*=accepted,no-event" }) }) },
};

static const struct showing *meant_of(const char *name)
{
	for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++)
		if (!fnmatch(meant[i].name, name, 0))
			return meant[i].differs;
	return NULL;
}

static void make_rows(struct row rows[], const struct kind kinds[],
		      size_t nr_kinds)
{
	struct row *row;

	for (size_t i = 0; i < NR_OPS * nr_kinds; i++) {
		const struct op *op = &ops[i / nr_kinds];
		const struct kind *kind = &kinds[i % nr_kinds];

		add_row(rows, NR_OPS * nr_kinds,
			&(struct row){
				.run = run_row, .about = op, .on = kind },
			"%s on %s", op->name, kind->name);
	}
	for (row = rows; row->name; row++)
		row->differs = meant_of(row->name);
}

void make_matrix(void)
{
	make_rows(rows_files, files, NR_FILES);
	make_rows(rows_others, others, NR_OTHERS);
}

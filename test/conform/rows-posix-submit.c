/* SPDX-License-Identifier: MIT */
/*
 * aio_read, aio_write and aio_fsync on each kind of file, with all arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include "descriptors.h"
#include "differences.h"
#include "posix.h"

enum { FILE_BYTES = 8192, READY_BYTES = 256, NR_ROWS = 128 };

/*
 * The kinds of files. For each request a function opens a new file, which is ready for
 * any request.
 */

static int none(void)
{
	return -1;
}

static int beyond(void)
{
	return 77777;
}

static int closed(void)
{
	int fd = file_of("closed", FILE_BYTES, O_RDWR);

	REQUIRE(close(fd) == 0);
	return fd;
}

static int file_rw(void)
{
	return file_of("file", FILE_BYTES, O_RDWR);
}

static int file_read_only(void)
{
	return file_of("file", FILE_BYTES, O_RDONLY);
}

static int file_write_only(void)
{
	return file_of("file", FILE_BYTES, O_WRONLY);
}

static int file_path(void)
{
	return file_of("file", FILE_BYTES, O_PATH);
}

static int file_append(void)
{
	return file_of("file", FILE_BYTES, O_RDWR | O_APPEND);
}

static int file_nonblock(void)
{
	return file_of("file", FILE_BYTES, O_RDWR | O_NONBLOCK);
}

static int file_dsync(void)
{
	return file_of("file", FILE_BYTES, O_RDWR | O_DSYNC);
}

static int file_empty(void)
{
	return file_of("file", 0, O_RDWR);
}

static int memory(void)
{
	return open_memfd_of(FILE_BYTES);
}

static int sealed(void)
{
	int fd = memfd_create("conform", MFD_ALLOW_SEALING);

	REQUIRE(ftruncate(fd, FILE_BYTES) == 0);
	REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	return fd;
}

static int device_full(void)
{
	return open("/dev/full", O_RDWR);
}

static int in_proc(void)
{
	return open("/proc/sys/kernel/ostype", O_RDONLY);
}

static int pipe_reader(void)
{
	static char bytes[READY_BYTES];

	return open_pipe_reader_of(bytes, READY_BYTES);
}

static int pipe_ended(void)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(close(fds[1]) == 0);
	return fds[0];
}

static int pipe_broken(void)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(close(fds[0]) == 0);
	return fds[1];
}

static int socket_of(int type)
{
	static char bytes[READY_BYTES];

	return open_socket_with(type, bytes, READY_BYTES);
}

static int socket_stream(void)
{
	return socket_of(SOCK_STREAM);
}

static int socket_datagram(void)
{
	return socket_of(SOCK_DGRAM);
}

static int socket_packets(void)
{
	return socket_of(SOCK_SEQPACKET);
}

static int socket_alone(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int socket_broken(void)
{
	int fds[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	REQUIRE(close(fds[1]) == 0);
	return fds[0];
}

static int event(void)
{
	return eventfd(7, 0);
}

static int timer_over(void)
{
	struct itimerspec soon = { .it_value.tv_nsec = 1 };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);

	REQUIRE(timerfd_settime(fd, 0, &soon, NULL) == 0);
	return fd;
}

static int an_epoll(void)
{
	return epoll_create1(0);
}

static int terminal(void)
{
	struct termios raw;
	int master, slave;

	cfmakeraw(&raw);
	REQUIRE(openpty(&master, &slave, NULL, NULL, NULL) == 0);
	REQUIRE(tcgetattr(slave, &raw) == 0);
	cfmakeraw(&raw);
	REQUIRE(tcsetattr(slave, TCSANOW, &raw) == 0);
	REQUIRE(write(master, "terminal", 8) == 8);
	return slave;
}

static const struct kind {
	const char *name;
	int (*open)(void);
} kinds[] = {
	{ "no descriptor", none },
	{ "a descriptor that is too high", beyond },
	{ "a closed descriptor", closed },
	{ "a file", file_rw },
	{ "a file that is read only", file_read_only },
	{ "a file that is written only", file_write_only },
	{ "an O_PATH descriptor", file_path },
	{ "an O_APPEND file", file_append },
	{ "an O_NONBLOCK file", file_nonblock },
	{ "an O_DSYNC file", file_dsync },
	{ "an empty file", file_empty },
	{ "a directory", open_directory },
	{ "a memfd", memory },
	{ "a sealed memfd", sealed },
	{ "/dev/null", open_null },
	{ "/dev/zero", open_zero },
	{ "/dev/full", device_full },
	{ "a file in /proc", in_proc },
	{ "a pipe's read end", pipe_reader },
	{ "a pipe's write end", open_pipe_writer },
	{ "a pipe at its end", pipe_ended },
	{ "a pipe without a reader", pipe_broken },
	{ "an empty O_NONBLOCK pipe", open_pipe_empty },
	{ "a full O_NONBLOCK pipe", open_pipe_full },
	{ "a stream socket", socket_stream },
	{ "a datagram socket", socket_datagram },
	{ "a seqpacket socket", socket_packets },
	{ "a socket without a peer", socket_alone },
	{ "a socket whose peer is gone", socket_broken },
	{ "an eventfd", event },
	{ "a timerfd", timer_over },
	{ "an epoll", an_epoll },
	{ "a terminal", terminal },
};

static const struct kind *this_kind(void)
{
	return this_row->about;
}

/* The requests to try, each on a descriptor of its own. */
static const struct attempt {
	const char *key;
	size_t nbytes;
	off_t offset;
	int reqprio;
	enum { GOOD, NO_BUFFER, KERNEL_BUFFER, HALF } buffer;
} attempts[] = {
	{ "plain", 64, 0, 0, GOOD },
	{ "later", 64, 4000, 0, GOOD },
	{ "nothing", 0, 0, 0, GOOD },
	{ "nothing_nowhere", 0, 0, 0, NO_BUFFER },
	{ "nowhere", 64, 0, 0, NO_BUFFER },
	{ "kernel", 64, 0, 0, KERNEL_BUFFER },
	{ "half", 8192, 0, 0, HALF },
	{ "negative", 64, -1, 0, GOOD },
	{ "most_negative", 64, INT64_MIN, 0, GOOD },
	{ "beyond_end", 64, 1 << 20, 0, GOOD },
	{ "far", 64, INT64_MAX - 8, 0, GOOD },
	{ "huge", SIZE_MAX, 0, 0, GOOD },
	{ "prio_-1", 64, 0, -1, GOOD },
	{ "prio_20", 64, 0, 20, GOOD },
	{ "prio_21", 64, 0, 21, GOOD },
};

static void *buffer_of(const struct attempt *attempt)
{
	switch (attempt->buffer) {
	case NO_BUFFER: return NULL;
	case KERNEL_BUFFER: return KERNEL_ADDRESS;
	case HALF: return pages_of(4096, PROT_READ | PROT_WRITE);
	default: return pages_of(8192, PROT_READ | PROT_WRITE);
	}
}

static void try_all(int (*submit)(struct aiocb *))
{
	char key[64];

	signal(SIGPIPE, SIG_DFL);
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		const struct attempt *attempt = &attempts[i];
		int fd = this_kind()->open();
		struct aiocb *cb = request(fd, buffer_of(attempt),
					   attempt->nbytes, attempt->offset);

		cb->aio_reqprio = attempt->reqprio;
		note_try(attempt->key, submit(cb), cb);
		snprintf(key, sizeof(key), "%s.position", attempt->key);
		if (lseek(fd, 0, SEEK_CUR) > 0)
			note(key, lseek(fd, 0, SEEK_CUR));
		close(fd);
	}
}

static void try_reads(void)
{
	try_all(aio_read);
}

static void try_writes(void)
{
	try_all(aio_write);
}

static const struct {
	const char *key;
	int op;
} sync_ops[] = {
	{ "sync", O_SYNC },
	{ "dsync", O_DSYNC },
	{ "zero", 0 },
	{ "minus_1", -1 },
	{ "write_only", O_WRONLY },
	{ "fsync", O_FSYNC },
	{ "more", O_SYNC | 1 },
};

static void try_syncs(void)
{
	int fd = this_kind()->open();

	for (size_t i = 0; i < sizeof(sync_ops) / sizeof(sync_ops[0]); i++) {
		struct aiocb *cb = request(fd, NULL, SIZE_MAX, -1);

		note_try(sync_ops[i].key, aio_fsync(sync_ops[i].op, cb), cb);
	}
	for (int prio = -1; prio < 22; prio += 11) {
		struct aiocb *cb = request(fd, NULL, 0, 0);
		char key[32];

		cb->aio_reqprio = prio == 21 ? 20 : prio;
		snprintf(key, sizeof(key), "prio_%d", cb->aio_reqprio);
		note_try(key, aio_fsync(O_SYNC, cb), cb);
	}
}

/*
 * Effects of requests on files, limits and members of the aiocb
 */

static void appended(void)
{
	int fd = file_append();
	char seen[8] = "";

	write_and_note("first", request(fd, "first", 5, 0));
	write_and_note("second", request(fd, "second", 6, 3));
	note("size", lseek(fd, 0, SEEK_END));
	REQUIRE(pread(fd, seen, 5, FILE_BYTES) == 5);
	note_text("seen", seen);
}

static void extended(void)
{
	int fd = file_empty();

	write_and_note("beyond", request(fd, "x", 1, 99999));
	note("size", lseek(fd, 0, SEEK_END));
	write_and_note("limit", request(fd, "x", 1, INT64_MAX));
	note("size", lseek(fd, 0, SEEK_END));
}

static void direct(void)
{
	int fd = file_of("direct", FILE_BYTES, O_RDWR | O_DIRECT);
	char *buf = pages_of(8192, PROT_READ | PROT_WRITE);

	read_and_note("aligned", request(fd, buf, 4096, 0));
	read_and_note("misaligned_buffer", request(fd, buf + 1, 4096, 0));
	read_and_note("misaligned_offset", request(fd, buf, 4096, 1));
	read_and_note("misaligned_length", request(fd, buf, 100, 0));
	write_and_note("write", request(fd, buf, 4096, 4096));
	write_and_note("misaligned_write", request(fd, buf, 4096, 1));
	read_and_note("at_end", request(fd, buf, 4096, FILE_BYTES));
}

static void file_size_limit(void)
{
	const struct rlimit limit = { 4096, 4096 };
	char *buf = pages_of(8192, PROT_READ);
	int fd = file_empty();

	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	write_and_note("across", request(fd, buf, 8192, 0));
	write_and_note("beyond", request(fd, buf, 1, 4096));
	note("size", lseek(fd, 0, SEEK_END));
}

static void late_size_limit(void)
{
	const struct rlimit limit = { 4096, 4096 };
	int fd = file_empty();

	write_and_note("before", request(fd, "x", 1, 0));
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	write_and_note("beyond", request(fd, "x", 1, 4096));
	note("size", lseek(fd, 0, SEEK_END));
}

static void not_notified_by_pipes(void)
{
	sigset_t pending;

	signal(SIGPIPE, SIG_DFL);
	write_and_note("pipe", request(pipe_broken(), "x", 1, 0));
	write_and_note("socket", request(socket_broken(), "x", 1, 0));
	REQUIRE(sigpending(&pending) == 0);
	note("pending", sigismember(&pending, SIGPIPE));
}

static void fields_stay(void)
{
	int fd = file_rw();
	char *buf = pages_of(4096, PROT_READ | PROT_WRITE);
	struct aiocb *cb = request(fd, buf, 100, 50), before;

	cb->aio_reqprio = 3;
	cb->aio_sigevent.sigev_value.sival_int = 9;
	before = *cb;
	read_and_note("read", cb);
	note("fildes", cb->aio_fildes == before.aio_fildes);
	note("reqprio", cb->aio_reqprio == before.aio_reqprio);
	note("buf", cb->aio_buf == before.aio_buf);
	note("nbytes", cb->aio_nbytes == before.aio_nbytes);
	note("offset", cb->aio_offset == before.aio_offset);
	note("event", !memcmp(&cb->aio_sigevent, &before.aio_sigevent,
			      sizeof(cb->aio_sigevent)));
	note("data", is_pattern(buf, 100, 50) && buf[100] == 0);
}

static void used_again(void)
{
	char *buf = pages_of(4096, PROT_READ | PROT_WRITE);
	struct aiocb *cb = request(file_rw(), buf, 10, 0);

	read_and_note("first", cb);
	cb->aio_nbytes = 20;
	read_and_note("again", cb);
	cb->aio_fildes = -1;
	read_and_note("bad", cb);
	cb->aio_fildes = file_rw();
	write_and_note("write", cb);
}

static void in_order(void)
{
	struct aiocb *reads[5];
	char bytes[5], text[6] = "";
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	for (int i = 0; i < 5; i++) {
		reads[i] = request(fds[0], &bytes[i], 1, 0);
		REQUIRE(aio_read(reads[i]) == 0);
	}
	REQUIRE(write(fds[1], "abcde", 5) == 5);
	for (int i = 0; i < 5; i++) {
		REQUIRE(is_over(reads[i]));
		text[i] = bytes[i];
	}
	note_text("bytes", text);
}

static void errno_stays(void)
{
	struct aiocb *cb = request(file_rw(), pages_of(4096, PROT_READ), 0, 0);

	errno = 77;
	note("read", aio_read(cb) == 0);
	note("errno", errno);
	REQUIRE(is_over(cb));
	errno = 78;
	note("error", aio_error(cb));
	note("return", aio_return(cb));
	note("errno", errno);
	note("sync", aio_fsync(O_SYNC, cb));
	REQUIRE(is_over(cb));
	note("errno", errno);
}

/* pwrite() to this file of /proc fails with ESPIPE; write() changes the thread's name. */
static void without_offsets(void)
{
	char name[32] = "";
	int fd = open("/proc/self/comm", O_RDWR), only_write;
	static const char *names[] = { "one", "two" };
	struct aiocb *cbs[2];

	REQUIRE(fd >= 0);
	write_and_note("write", request(fd, "zero", 4, 0));
	write_and_note("write_of_none", request(fd, "", 0, 0));
	write_and_note("write", request(fd, "first", 5, 3));
	close(fd);
	only_write = open("/proc/self/comm", O_WRONLY);
	for (int i = 0; i < 2; i++) {
		cbs[i] = request(only_write, names[i], 3, 7);
		REQUIRE(aio_write(cbs[i]) == 0);
	}
	for (int i = 0; i < 2; i++)
		note_end("one_of_two", cbs[i]);
	read_and_note("read_of_none", request(only_write, name, 0, 0));
	fd = open("/proc/self/comm", O_RDONLY);
	read_and_note("read", request(fd, name, sizeof(name) - 1, 0));
	note_text("name", strtok(name, "\n") ?: "");
	read_and_note("at_an_offset", request(fd, name, 1, 2));
	write_and_note("write_of_reader", request(fd, "none", 4, 0));
}

static void duplicates(void)
{
	char *buf = pages_of(8192, PROT_READ | PROT_WRITE);
	int fd = file_rw(), copy = dup(fd);

	write_and_note("write", request(copy, "copy", 4, 0));
	read_and_note("read", request(fd, buf, 4, 0));
	note("same", !memcmp(buf, "copy", 4));
	close(fd);
	read_and_note("closed", request(fd, buf, 4, 0));
	read_and_note("copy", request(copy, buf, 4, 0));
}

static const struct row others[] = {
	ROW("aio_write appends to an O_APPEND file", appended),
	ROW("aio_write beyond the end extends a file", extended),
	ROW("aio_read and aio_write with O_DIRECT want alignment", direct),
	ROW("aio_write ends at RLIMIT_FSIZE", file_size_limit),
	ROW_DIFFERS("aio_write ends at a RLIMIT_FSIZE that comes later",
		    late_size_limit, differs_posix_limit,
		    { "beyond=EFBIG,-1", "ended=SIGXFSZ" }),
	ROW("aio_write where nobody reads raises no signal",
	    not_notified_by_pipes),
	ROW("a request leaves the fields of its aiocb", fields_stay),
	ROW("an aiocb can be used again when it is complete", used_again),
	ROW("aio_reads of a pipe take it in their order", in_order),
	ROW("requests that succeed leave errno", errno_stays),
	ROW("requests by a duplicate are on the same file", duplicates),
	ROW("aio_write to a file that takes no offset", without_offsets),
	NO_ROW,
};

/*
 * What differs for a request with two mistakes: the file cannot be read or written, and
 * the buffer is bad
 */
static const struct pair both_bad[] = {
	{ "kernel=EINVAL,-1", "kernel=EFAULT,-1" },
	{ "huge=EINVAL,-1", "huge=EFAULT,-1" },
	{ NULL, NULL },
};
static const struct showing two_mistakes[] = {
	{ &differs_posix_mistakes, NULL, both_bad },
	{ NULL, NULL, NULL },
};

static const struct showing *differ(const struct kind *kind, void (*run)(void))
{
	bool is_epoll = kind->open == an_epoll && run != try_syncs;
	bool is_timer = kind->open == timer_over && run == try_writes;

	return is_epoll || is_timer ? two_mistakes : NULL;
}

struct row rows_posix_submit[NR_ROWS + 1];

void make_posix(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} calls[] = {
		{ "aio_read", try_reads },
		{ "aio_write", try_writes },
		{ "aio_fsync", try_syncs },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++)
			add_row(rows_posix_submit, NR_ROWS,
				&(struct row){ .run = calls[j].run,
					       .about = &kinds[i],
					       .differs =
						       differ(&kinds[i],
							      calls[j].run) },
				"%s of %s", calls[j].name, kinds[i].name);
	for (const struct row *row = others; row->name; row++)
		add_row(rows_posix_submit, NR_ROWS, row, "%s", row->name);
}

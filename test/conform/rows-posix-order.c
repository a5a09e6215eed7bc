/* SPDX-License-Identifier: MIT */
/*
 * Which requests wait for which: requests of one descriptor, of many descriptors, and
 * of a closed one. glibc executes the requests of a descriptor one after another, and
 * has a thread for each of up to twenty descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "differences.h"
#include "posix.h"

enum { MOMENT_MS = 1000 };

/*
 * Prints the request's state once the request is complete, or after a second in which
 * all other threads sleep. This function is for requests that complete at once in glibc
 * but never in the library, or the reverse.
 */
static void note_soon(const char *key, const struct aiocb *cb)
{
	for (int i = 0; aio_error(cb) == EINPROGRESS; i++) {
		if (i >= 50 && others_sleep())
			break;
		poll(NULL, 0, MOMENT_MS / 50);
	}
	note_state(key, cb);
}

static void both_directions(void)
{
	int fds[2];
	struct aiocb *reading, *writing;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	reading = waiting_read_of(fds[0]);
	writing = request(fds[0], "?", 1, 0);
	REQUIRE(aio_write(writing) == 0);
	note_soon("write", writing);
	end_read(fds[1]);
	note_end("read", reading);
	note_end("write", writing);
}

static void crowd(void)
{
	enum { NR = 20 };
	struct aiocb *waiting[NR], *cb;
	int writers[NR];

	for (int i = 0; i < NR; i++)
		waiting[i] = waiting_read(&writers[i]);
	cb = request(file_of("file", 100, O_RDONLY),
		     pages_of(4096, PROT_READ | PROT_WRITE), 10, 0);
	REQUIRE(aio_read(cb) == 0);
	note_soon("file", cb);
	for (int i = 0; i < NR; i++) {
		end_read(writers[i]);
		REQUIRE(is_over(waiting[i]));
	}
	note_end("file", cb);
}

/*
 * One write fills the pipe, and a second write is queued after the first. Then dup2()
 * puts another file at their descriptor.
 */
static void reused(void)
{
	enum { FILLS = 256 * 1024 };
	static char bytes[FILLS], taken[FILLS];
	int fds[2], other = file_of("other", 0, O_RDWR), nr = 0;
	struct aiocb *first, *second;

	REQUIRE(pipe(fds) == 0);
	first = request(fds[1], bytes, FILLS, 0);
	second = request(fds[1], bytes, 4096, 0);
	REQUIRE(aio_write(first) == 0);
	while (nr < 65536) {
		REQUIRE(ioctl(fds[0], FIONREAD, &nr) == 0);
		sched_yield();
	}
	REQUIRE(aio_write(second) == 0);
	REQUIRE(dup2(other, fds[1]) == fds[1]);
	while (aio_error(first) == EINPROGRESS ||
	       aio_error(second) == EINPROGRESS) {
		REQUIRE(ioctl(fds[0], FIONREAD, &nr) == 0);
		if (nr)
			REQUIRE(read(fds[0], taken, FILLS) > 0);
		else
			sched_yield();
	}
	note_state("write", second);
	note("other_file", lseek(other, 0, SEEK_END));
}

static void of_one_pipe(void)
{
	struct aiocb *reads[8];
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	for (int i = 0; i < 8; i++)
		reads[i] = waiting_read_of(fds[0]);
	for (int i = 0; i < 8; i++) {
		end_read(fds[1]);
		note_end("first", reads[i]);
		if (i < 7)
			note_state("next", reads[i + 1]);
	}
}

static void writes_of_a_file(void)
{
	enum { NR = 64 };
	int fd = file_of("file", 0, O_RDWR), nr_good = 0;
	struct aiocb *writes[NR];
	char seen = 0;

	/* All writes have the same offset, so the data of the last one must remain. */
	for (int i = 0; i < NR; i++) {
		char *byte = malloc(1);

		REQUIRE(byte);
		*byte = (char)i;
		writes[i] = request(fd, byte, 1, 0);
		REQUIRE(aio_write(writes[i]) == 0);
	}
	for (int i = 0; i < NR; i++)
		nr_good += is_over(writes[i]) && aio_return(writes[i]) == 1;
	note("good", nr_good);
	REQUIRE(pread(fd, &seen, 1, 0) == 1);
	note("last", seen);
}

static void read_behind_write(void)
{
	int fd = file_of("file", 0, O_RDWR);
	char *buf = pages_of(8192, PROT_READ | PROT_WRITE);
	struct aiocb *writing = request(fd, "written", 7, 0);
	struct aiocb *reading = request(fd, buf, 7, 0);

	REQUIRE(aio_write(writing) == 0);
	REQUIRE(aio_read(reading) == 0);
	note_end("read", reading);
	note_text("data", buf);
	note_end("write", writing);
}

static void appends(void)
{
	enum { NR = 26 };
	int fd = file_of("file", 0, O_RDWR | O_APPEND);
	char letters[NR], text[NR + 1] = "";
	struct aiocb *writes[NR];

	for (int i = 0; i < NR; i++) {
		letters[i] = (char)('a' + i);
		writes[i] = request(fd, &letters[i], 1, 0);
		REQUIRE(aio_write(writes[i]) == 0);
	}
	for (int i = 0; i < NR; i++)
		REQUIRE(is_over(writes[i]));
	REQUIRE(pread(fd, text, NR, 0) == NR);
	note_text("text", text);
}

/*
 * One write fills a socket. Then a call is made that must not affect requests of the
 * socket, a little is received, and a second write is submitted. The socket has room for
 * the second write, but poll() does not yet report it writable.
 */
static void behind_a_part(void (*call)(int fd))
{
	enum { BIG = 1 << 20, LITTLE = 100 << 10 };
	static char zeros[BIG], taken[BIG + 1];
	struct aiocb *first, *second;
	ssize_t got, part;
	int fds[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	first = request(fds[0], zeros, BIG, 0);
	second = request(fds[0], "2", 1, 0);
	REQUIRE(aio_write(first) == 0);
	call(fds[0]);
	REQUIRE(recv(fds[1], taken, LITTLE, MSG_WAITALL) == LITTLE);
	REQUIRE(aio_write(second) == 0);
	for (got = LITTLE; got < BIG + 1; got += part) {
		part = recv(fds[1], taken + got, (size_t)(BIG + 1 - got), 0);
		REQUIRE(part > 0);
	}
	note("second_at", (char *)memchr(taken, '2', BIG + 1) - taken);
	note_end("first", first);
	note_end("second", second);
}

static void set_same_flags(int fd)
{
	REQUIRE(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL)) == 0);
}

static void set_append(int fd)
{
	REQUIRE(fcntl(fd, F_SETFL, O_APPEND) == 0);
}

static void dup2_nothing(int fd)
{
	note_call("dup2", dup2(-1, fd));
}

static void dup3_badly(int fd)
{
	note_call("dup3", dup3(0, fd, ~O_CLOEXEC));
}

static void dup2_beyond_limit(int fd)
{
	struct rlimit limit, none;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = limit;
	none.rlim_cur = 0;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	note_call("dup2", dup2(0, fd));
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void after_fcntl(void)
{
	behind_a_part(set_same_flags);
}

static void after_fcntl_of_append(void)
{
	behind_a_part(set_append);
}

static void after_dup2(void)
{
	behind_a_part(dup2_nothing);
}

static void after_dup3(void)
{
	behind_a_part(dup3_badly);
}

static void after_dup2_beyond_limit(void)
{
	behind_a_part(dup2_beyond_limit);
}

const struct row rows_posix_order[] = {
	ROW_DIFFERS("a write of a socket behind a read that waits",
		    both_directions, differs_posix_duplex,
		    { "write=EINPROGRESS", "write=0,1" }),
	ROW_DIFFERS("a read of a file beside twenty of empty pipes", crowd,
		    differs_posix_crowd, { "file=EINPROGRESS", "file=0,10" }),
	ROW_DIFFERS("a write in a queue whose descriptor is replaced", reused,
		    differs_posix_reused,
		    { "other_file=4096", "other_file=0" }),
	ROW("reads of one pipe take their turn", of_one_pipe),
	ROW("writes to one offset keep their order", writes_of_a_file),
	ROW("a read sees the write before it", read_behind_write),
	ROW("writes that append keep their order", appends),
	ROW("writes of a socket keep their order after fcntl(F_SETFL)",
	    after_fcntl),
	ROW("writes of a socket keep their order after O_APPEND is set",
	    after_fcntl_of_append),
	ROW("writes of a socket keep their order after a dup2 that fails",
	    after_dup2),
	ROW("writes of a socket keep their order after a dup3 that fails",
	    after_dup3),
	ROW("writes of a socket keep their order after a dup2 beyond the limit",
	    after_dup2_beyond_limit),
	NO_ROW,
};

/* SPDX-License-Identifier: MIT */
/* The functions and calls that make a descriptor refer to another file */
#include "ways.h"

#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"
#include "older.h"

/*
 * Each function replaces the file of `fd`, which is open, by the file of `other`.
 * Functions that only close fd then put the file of `other` there by fcntl(F_DUPFD).
 */

static void take_over(int other, int fd)
{
	REQUIRE(fcntl(other, F_DUPFD, fd) == fd);
}

static void by_close(int fd, int other)
{
	REQUIRE(close(fd) == 0);
	take_over(other, fd);
}

static void by_close_number(int fd, int other)
{
	REQUIRE(syscall(SYS_close, fd) == 0);
	take_over(other, fd);
}

static void by_mq_close(int fd, int other)
{
	REQUIRE(mq_close(fd) == 0);
	take_over(other, fd);
}

static void by_dup2(int fd, int other)
{
	REQUIRE(dup2(other, fd) == fd);
}

static void by_dup3(int fd, int other)
{
	REQUIRE(dup3(other, fd, O_CLOEXEC) == fd);
}

#ifdef SYS_dup2
static void by_dup2_number(int fd, int other)
{
	REQUIRE(syscall(SYS_dup2, other, fd) == fd);
}
#endif

static void by_dup3_number(int fd, int other)
{
	REQUIRE(syscall(SYS_dup3, other, fd, 0) == fd);
}

static void by_close_range(int fd, int other)
{
	REQUIRE(close_range((unsigned)fd, (unsigned)fd, 0) == 0);
	take_over(other, fd);
}

static void by_close_range_number(int fd, int other)
{
	REQUIRE(syscall(SYS_close_range, fd, ~0u, 0) == 0);
	take_over(other, fd);
}

static void by_closefrom(int fd, int other)
{
	closefrom(fd);
	take_over(other, fd);
}

static void by_fclose(int fd, int other)
{
	FILE *stream = fdopen(fd, "r");

	REQUIRE(stream && fclose(stream) == 0);
	take_over(other, fd);
}

static void by_freopen(int fd, int other)
{
	FILE *stream = fdopen(fd, "r");

	stream = freopen("/dev/null", "r", stream);
	REQUIRE(stream && fileno(stream) == fd);
	REQUIRE(dup2(other, fd) == fd);
	/*
	 * First occupy fd + 1, so that it is not the lowest free descriptor while
	 * fclose() closes fd.
	 */
	take_over(other, fd + 1);
	REQUIRE(fclose(stream) == 0);
	take_over(other, fd);
	REQUIRE(close(fd + 1) == 0);
}

const struct host_way host_ways[] = {
	{ "close", by_close },
	{ "SYS_close", by_close_number },
	{ "mq_close", by_mq_close },
	{ "dup2", by_dup2 },
	{ "dup3", by_dup3 },
#ifdef SYS_dup2
	{ "SYS_dup2", by_dup2_number },
#endif
	{ "SYS_dup3", by_dup3_number },
	{ "close_range", by_close_range },
	{ "SYS_close_range", by_close_range_number },
	{ "closefrom", by_closefrom },
	{ "fclose", by_fclose },
	{ "freopen", by_freopen },
	{ NULL, NULL },
};

int host_nameless(void)
{
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	REQUIRE(fd >= 0);
	return fd;
}

void host_move(int fd, int number)
{
	REQUIRE(dup2(fd, number) == number);
	REQUIRE(close(fd) == 0);
}

void host_check_text(int fd, const char *text)
{
	char seen[64] = "";

	REQUIRE(pread(fd, seen, sizeof(seen), 0) == (ssize_t)strlen(text));
	REQUIRE(!memcmp(seen, text, strlen(text)));
}

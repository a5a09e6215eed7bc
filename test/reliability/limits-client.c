/* SPDX-License-Identifier: MIT */
/*
 * limits-client INTERFACE ROUNDS [PROCESSES]: read and write under limits
 *
 * An ordinary client of one interface (aio, posix or uring). In each round it writes and
 * reads a file, reads a pipe that is filled only after the submission, and compares each
 * byte. With PROCESSES the client first becomes a user of its own, with PROCESSES as the
 * limit of threads (RLIMIT_NPROC). The last line is "counted N requests", or "failed: "
 * and why.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "files.h"

enum { LONE_USER = 60321, REQUEST_CELLS = 16, NR_RANGES = NR_SLOTS - 1 };

struct run run = { .folder = "." };
static struct shared all;
struct shared *shared = &all;

static struct client client;
static char bytes[NR_SLOTS][REQUEST_CELLS * CELL]
	__attribute__((aligned(PAGE)));
static unsigned nr_requests;

uint32_t draw(uint64_t *random, uint32_t limit)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*random >> 33) % limit;
}

_Noreturn void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("failed: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	_exit(1);
}

static void must(bool ok, const char *call)
{
	if (!ok)
		fail("%s: %s", call, strerror(errno));
}

static void use_slot(unsigned index, enum what what, int fd, unsigned nr_bytes)
{
	struct slot *slot = &client.slots[index];

	slot->what = what;
	slot->fd = fd;
	slot->first = index * REQUEST_CELLS;
	slot->iov[0] = (struct iovec){ bytes[index], nr_bytes };
	slot->nr_iov = 1;
}

static void submit(unsigned first, unsigned nr)
{
	struct slot *list[NR_SLOTS];

	for (unsigned i = 0; i < nr; i++)
		list[i] = &client.slots[first + i];
	door_submit(&client, list, nr);
	client.nr_pending += nr;
}

static void reap_all(void)
{
	struct result results[NR_SLOTS];

	while (client.nr_pending) {
		unsigned nr = door_reap(&client, true, results);

		for (unsigned i = 0; i < nr; i++) {
			struct slot *slot = results[i].slot;

			if (results[i].res < 0)
				fail("a %s of the %s: %s",
				     slot->what == READ ? "read" : "write",
				     slot - client.slots == NR_RANGES ? "pipe"
								      : "file",
				     strerror((int)-results[i].res));
			if ((size_t)results[i].res != slot->iov[0].iov_len)
				fail("a request of %zu bytes has the result "
				     "%lld",
				     slot->iov[0].iov_len,
				     (long long)results[i].res);
			slot->what = FREE;
		}
		client.nr_pending -= nr;
		nr_requests += nr;
	}
}

static void each_cell(uint32_t version, bool is_check)
{
	for (unsigned i = 0; i < NR_RANGES * REQUEST_CELLS; i++) {
		char *at = bytes[i / REQUEST_CELLS] + i % REQUEST_CELLS * CELL;

		if (is_check)
			cell_check(at, i, version, version, false, "a read");
		else
			cell_fill(at, i, version);
	}
}

static void make_round(int fd, const int ends[2], uint32_t version)
{
	each_cell(version, false);
	for (unsigned i = 0; i < NR_RANGES; i++)
		use_slot(i, WRITE, fd, sizeof(bytes[i]));
	submit(0, NR_RANGES);
	reap_all();
	memset(bytes, 0, sizeof(bytes));
	for (unsigned i = 0; i < NR_RANGES; i++)
		use_slot(i, READ, fd, sizeof(bytes[i]));
	use_slot(NR_RANGES, READ, ends[0], 1);
	client.slots[NR_RANGES].first = 0;
	submit(0, NR_SLOTS);
	must(write(ends[1], "p", 1) == 1, "write");
	reap_all();
	each_cell(version, true);
	if (bytes[NR_RANGES][0] != 'p')
		fail("a read of the pipe finds another byte");
}

static void become_user_with(const char *processes)
{
	rlim_t nr = strtoul(processes, NULL, 10);
	const struct rlimit limit = { nr, nr };

	must(setresgid(LONE_USER, LONE_USER, LONE_USER) == 0, "setresgid");
	must(setresuid(LONE_USER, LONE_USER, LONE_USER) == 0, "setresuid");
	must(setrlimit(RLIMIT_NPROC, &limit) == 0, "setrlimit");
}

int main(int argc, char **argv)
{
	static const char *const names[NR_DOORS] = { "aio", "posix", "uring" };
	long nr_rounds = argc > 2 ? atol(argv[2]) : 0;
	int fd, ends[2];

	while (client.door < NR_DOORS && argc > 1 &&
	       strcmp(argv[1], names[client.door]) != 0)
		client.door++;
	if (nr_rounds < 1 || client.door == NR_DOORS) {
		fprintf(stderr, "usage: limits-client aio|posix|uring ROUNDS "
				"[PROCESSES]\n");
		return 2;
	}
	fd = open("file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0, "open");
	must(pipe(ends) == 0, "pipe");
	if (argc > 3)
		become_user_with(argv[3]);
	/*
	 * Use the interface twice, because the first use leaves threads and memory in
	 * the library, with which the second use must work.
	 */
	for (int i = 0; i < 2; i++) {
		door_open(&client);
		for (long round = 1; round <= nr_rounds; round++)
			make_round(fd, ends, (uint32_t)round);
		door_close(&client);
	}
	printf("counted %u requests\n", nr_requests);
	return 0;
}

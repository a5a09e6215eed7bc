/* SPDX-License-Identifier: MIT */
/*
 * Finds the names of the files in a trace
 *
 * A process writes the name of a file to the trace before the file's first request
 * (trace/ring.h I6). The process cannot write the name if it has no /proc, or if the
 * thread's lane (its part of the ring) is full. In these cases the tool looks up the
 * descriptor in /proc: at the descriptor's first request, and again if the last result
 * is old. If the descriptor has been closed by then, the tool has no name. If the
 * descriptor has been reused, the tool shows the name of the later file.
 *
 * Tested by test/run/trace.py.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/trace/tracing.h"

enum {
	NR_SLOTS = 4096,
	SHOWN_MAX =
		256, /* longest name; of a longer path only the end is shown */
	/*
	 * Size of the hash table of names. With more files, some have no entry, and
	 * their descriptor is looked up.
	 */
	NR_TOLD = 1 << 16,
};

static const int64_t OLD_NS = 100000000;

static struct {
	uint32_t pid;
	int fd;
	int64_t asked_ns;
	char name[SHOWN_MAX];
} slots[NR_SLOTS];

/*
 * Names that processes have written to traces, in a hash table. If two names have the
 * same hash, the table keeps the name that was written later.
 */
static struct {
	/* the file's number, given by the process; 0: empty entry */
	uint64_t number;
	uint32_t pid;
	char *name; /* owns */
} told[NR_TOLD];

static unsigned place_of(uint32_t pid, uint64_t number)
{
	/*
	 * The number of a file is a time in cycles, whose low bits alone are no good
	 * hash.
	 */
	return (unsigned)((number ^ number >> 16 ^ pid * 31) % NR_TOLD);
}

static void make_printable(char *name)
{
	for (char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

void uaio_filename_is(uint32_t pid, uint64_t number, const char *name)
{
	unsigned place = place_of(pid, number);
	char *copy = strdup(name);

	if (!copy)
		return;
	make_printable(copy);
	free(told[place].name);
	told[place].number = number;
	told[place].pid = pid;
	told[place].name = copy;
}

const char *uaio_filename_of(uint32_t pid, uint64_t number)
{
	unsigned place = place_of(pid, number);

	return number && told[place].number == number && told[place].pid == pid
		       ? told[place].name
		       : NULL;
}

static void ask(uint32_t pid, int fd, char *name)
{
	char link[64], path[PATH_MAX];
	const char *shown = path;
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%u/fd/%d", pid, fd);
	len = readlink(link, path, sizeof(path) - 1);
	/* The descriptor was closed: keep the name that it had. */
	if (len < 0)
		return;
	path[len] = '\0';
	if (len >= SHOWN_MAX)
		shown = path + len - (SHOWN_MAX - 1);
	strcpy(name, shown);
	make_printable(name);
}

const char *uaio_filename(uint32_t pid, int fd, int64_t now_ns)
{
	unsigned slot = (pid * 31 + (unsigned)fd) % NR_SLOTS;
	bool is_other = slots[slot].pid != pid || slots[slot].fd != fd;

	if (!is_other && now_ns - slots[slot].asked_ns < OLD_NS)
		return slots[slot].name;
	if (is_other)
		slots[slot].name[0] = '\0';
	slots[slot].pid = pid;
	slots[slot].fd = fd;
	slots[slot].asked_ns = now_ns;
	ask(pid, fd, slots[slot].name);
	return slots[slot].name;
}

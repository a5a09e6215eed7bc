/* SPDX-License-Identifier: MIT */
/*
 * A name is asked for when a descriptor is first seen, and again when the last answer
 * is old. A descriptor that was closed by then has none, and one that was closed and
 * used again in between has the name of what it is now.
 *
 * Tested by test/run/trace.py.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "tool/tracing.h"

enum {
	NR_SLOTS = 4096,
	SHOWN_MAX = 256, /* of a longer path the end is shown */
};

static const int64_t OLD_NS = 100000000;

static struct {
	uint32_t pid;
	int fd;
	int64_t asked_ns;
	char name[SHOWN_MAX];
} slots[NR_SLOTS];

static void ask(uint32_t pid, int fd, char *name)
{
	char link[64], path[PATH_MAX];
	const char *shown = path;
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%u/fd/%d", pid, fd);
	len = readlink(link, path, sizeof(path) - 1);
	/* What is closed keeps the name that it had. */
	if (len < 0)
		return;
	path[len] = '\0';
	if (len >= SHOWN_MAX)
		shown = path + len - (SHOWN_MAX - 1);
	strcpy(name, shown);
	for (char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
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

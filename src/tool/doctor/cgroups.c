/* SPDX-License-Identifier: MIT */
/*
 * Reads the limits of this process's control groups
 *
 * The limits of a group also hold for all groups below it. The files of both versions
 * of control groups are read at their usual mount point, /sys/fs/cgroup.
 *
 * Tested by test/run/doctor.py.
 */
#include "tool/doctor/machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOUNTED "/sys/fs/cgroup"

/*
 * In version 1 of control groups, a number above this means that there is no limit.
 */
static const long long UNLIMITED = LLONG_MAX / 2;

/* Return: whether the word is an item of the comma-separated list. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, word, len) && (at[len] == ',' || !at[len]))
			return true;
	}
	return false;
}

/*
 * Return: the number in the file dir/name; -1 if it cannot be read; UNLIMITED or more
 * if the file says that there is no limit.
 */
static long long read_file(const char *dir, const char *name)
{
	char path[3 * PATH_MAX], word[32];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%31s", word) != 1)
		word[0] = '\0';
	(void)fclose(file);
	return strcmp(word, "max") ? strtoll(word, NULL, 10) : LLONG_MAX;
}

struct least {
	const char *max_name, *current_name;
	long long max, current;
	bool is_found;
};

static void look_at(struct least *least, const char *dir)
{
	long long max = read_file(dir, least->max_name);
	long long current = read_file(dir, least->current_name);

	if (max < 0)
		return;
	least->is_found = true;
	if (max >= UNLIMITED || current < 0)
		return;
	if (max - current < least->max - least->current) {
		least->max = max;
		least->current = current;
	}
}

/*
 * Look at the group at `path` below `root`, and at all groups above it. Of their
 * limits, find the one that leaves the least room.
 */
static void climb(struct least *least, const char *root, char *path)
{
	char dir[2 * PATH_MAX];
	char *slash;

	do {
		(void)snprintf(dir, sizeof(dir), "%s%s", root, path);
		look_at(least, dir);
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
}

/*
 * A line of /proc/self/cgroup consists of a number, a list of controllers, and the
 * group's path. In version 2 the list is empty.
 */
static void read_line(struct least *least, const char *controller, char *line)
{
	char *list = strchr(line, ':');
	char *path = list ? strchr(list + 1, ':') : NULL;
	char root[PATH_MAX];

	if (!path)
		return;
	list++;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (*list && !has_word(list, controller))
		return;
	(void)snprintf(root, sizeof(root), MOUNTED "%s%s", *list ? "/" : "",
		       *list ? controller : "");
	climb(least, root, path);
}

bool uaio_cgroups_least(const char *controller, const char *max_name,
			const char *current_name, long long *ret_max,
			long long *ret_current)
{
	struct least least = { max_name, current_name, LLONG_MAX, 0, false };
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];

	while (file && fgets(line, sizeof(line), file))
		read_line(&least, controller, line);
	if (file)
		(void)fclose(file);
	*ret_max = least.max;
	*ret_current = least.current;
	return least.is_found;
}

/* SPDX-License-Identifier: MIT */
/*
 * Finds files by their path relative to the running command. The command is in a build
 * tree, or in an installed tree that may have been moved.
 *
 * Tested by test/run/environment.py and installed.py.
 */
#include "tool/common/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

bool uaio_own_directory(char ret_dir[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", ret_dir, PATH_MAX - 1);

	if (len <= 0) {
		/*
		 * There is no /proc: use the path by which this process was executed.
		 */
		const char *path = (const char *)getauxval(AT_EXECFN);

		if (!path || !realpath(path, ret_dir))
			return false;
	} else {
		ret_dir[len] = '\0';
	}
	*strrchr(ret_dir, '/') = '\0';
	return true;
}

bool uaio_locate(const char *dir, const char *relative, char ret_path[PATH_MAX])
{
	size_t len = strlen(dir);

	for (; !strncmp(relative, "../", 3); relative += 3) {
		while (len > 0 && dir[--len] != '/')
			;
	}
	return snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)len, dir,
			relative) < PATH_MAX;
}

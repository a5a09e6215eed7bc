/* SPDX-License-Identifier: MIT */
/* Finds a command's file. Tested by test/run/status.py. */
#include "tool/common/target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/tool.h"

int uaio_search_probe(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		/* execve() would return EACCES, which tells users less */
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return eaccess(path, X_OK) < 0 ? -errno : 0;
}

int uaio_search_diag(const char *who, int error)
{
	return uaio_diag(error == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN,
			 "%s: %s", who, strerror(-error));
}

/*
 * Return: whether execvp() would try the next directory of PATH after this error.
 */
static bool is_passed_over(int error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ESTALE ||
	       error == -ENODEV || error == -ETIMEDOUT;
}

static int search(const char *dirs, const char *name, char path[PATH_MAX])
{
	int found = -ENOENT;

	for (const char *dir = dirs; dir;) {
		size_t len = strcspn(dir, ":");
		int r = -ENOENT;

		/* An empty item of PATH means the working directory. */
		if (snprintf(path, PATH_MAX, "%.*s/%s", len ? (int)len : 1,
			     len ? dir : ".", name) < PATH_MAX)
			r = uaio_search_probe(path);
		if (r == -EACCES || r == -EISDIR)
			found = -EACCES;
		else if (!is_passed_over(r))
			return r;
		dir = dir[len] ? dir + len + 1 : NULL;
	}
	return found;
}

int uaio_search(const char *name, char ret_path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	char standard[PATH_MAX];

	if (strchr(name, '/') || !*name)
		return snprintf(ret_path, PATH_MAX, "%s", name) < PATH_MAX
			       ? uaio_search_probe(name)
			       : -ENAMETOOLONG;
	if (!dirs) {
		confstr(_CS_PATH, standard, sizeof(standard));
		dirs = standard;
	}
	return search(dirs, name, ret_path);
}

int uaio_search_hinted(const char *name, const char *hint,
		       char ret_path[PATH_MAX])
{
	int r = uaio_search(name, ret_path);
	bool is_word = *name && !strchr(name, '/');

	if (!r)
		return 0;
	return uaio_diag(r == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN,
			 "%s: %s%s", name,
			 r == -ENOENT && is_word ? "command not found"
						 : strerror(-r),
			 hint);
}

int uaio_search_command(const char *name, char ret_path[PATH_MAX])
{
	return uaio_search_hinted(name, "", ret_path);
}

/* SPDX-License-Identifier: MIT */
#include "tool/common/library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool/common/image.h"
#include "tool/tool.h"

enum { MAX_PLACES = 3 };

struct places {
	int nr;
	char dirs[MAX_PLACES][PATH_MAX];
};

static void add_place(struct places *places, const char *dir)
{
	for (int i = 0; i < places->nr; i++) {
		if (!strcmp(places->dirs[i], dir))
			return;
	}
	snprintf(places->dirs[places->nr++], PATH_MAX, "%s", dir);
}

static bool has_library(const char *dir)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" UAIO_LIBRARY, dir) <
		       PATH_MAX &&
	       !access(path, R_OK);
}

static int diag_not_found(const struct places *places)
{
	char list[MAX_PLACES * (PATH_MAX + 4)] = "", *end = list;

	for (int i = 0; i < places->nr; i++)
		if (!has_library(places->dirs[i]) && errno == EACCES)
			return uaio_diag(EXIT_REFUSED,
					 "%s/" UAIO_LIBRARY
					 ": %s: let this user read it",
					 places->dirs[i], strerror(EACCES));
	for (int i = 0; i < places->nr; i++)
		end += sprintf(end, "%s%s", i ? ", " : "", places->dirs[i]);
	return uaio_diag(EXIT_REFUSED, UAIO_LIBRARY " is not in %s: run make",
			 list);
}

static void add_places(struct places *places)
{
	char own[PATH_MAX], moved[PATH_MAX];

	if (uaio_own_directory(own)) {
		add_place(places, own);
		if (uaio_locate(own, UAIO_LIBDIR_FROM_BINDIR, moved))
			add_place(places, moved);
	}
	add_place(places, UAIO_LIBDIR);
}

bool uaio_library_find_program(const char *name, char ret_path[PATH_MAX])
{
	struct places places = { 0 };

	add_places(&places);
	for (int i = 0; i < places.nr; i++)
		if (snprintf(ret_path, PATH_MAX, "%s/%s", places.dirs[i],
			     name) < PATH_MAX &&
		    !access(ret_path, X_OK))
			return true;
	return false;
}

bool uaio_library_is_for_musl(void)
{
#ifdef __GLIBC__
	return false;
#else
	struct places places = { 0 };
	struct uaio_image image;
	char path[PATH_MAX];
	bool is_it = false;

	add_places(&places);
	for (int i = 0; i < places.nr; i++) {
		if (!has_library(places.dirs[i]))
			continue;
		snprintf(path, sizeof(path), "%s/" UAIO_LIBRARY,
			 places.dirs[i]);
		if (uaio_image_open(path, &image))
			return false;
		is_it = !uaio_image_needs(&image, "libc.so.6");
		uaio_image_close(&image);
		break;
	}
	return is_it;
#endif
}

int uaio_library_find(char ret_dir[PATH_MAX])
{
	struct places places = { 0 };
	int i = 0;

	add_places(&places);
	while (i < places.nr && !has_library(places.dirs[i]))
		i++;
	if (i == places.nr || !realpath(places.dirs[i], ret_dir))
		return diag_not_found(&places);

	/*
	 * ld.so(8): the loader splits LD_PRELOAD at spaces and colons, and
	 * LD_LIBRARY_PATH at colons and semicolons. In both, $ begins a variable, and
	 * nothing can be quoted.
	 */
	if (strpbrk(ret_dir, " :;$"))
		return uaio_diag(
			EXIT_REFUSED,
			"the library is in '%s', and LD_PRELOAD cannot hold a "
			"path with a space, ':', ';' or '$': move it elsewhere",
			ret_dir);
	return 0;
}

/* Return: 0 if the kernel lets this process execute the file's code; else -errno. */
static int try_code(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *code;

	if (fd < 0)
		return -errno;
	code = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	(void)close(fd);
	if (code == MAP_FAILED)
		return -errno;
	(void)munmap(code, 1);
	return 0;
}

int uaio_library_try(const char *path)
{
	struct uaio_image image;
	int r = uaio_image_open(path, &image);

	if (r)
		return r;
	uaio_image_close(&image);
	return try_code(path);
}

int uaio_library_check(const char *dir)
{
	char path[PATH_MAX + sizeof(UAIO_LIBRARY)];
	int r;

	(void)snprintf(path, sizeof(path), "%s/" UAIO_LIBRARY, dir);
	r = uaio_library_try(path);
	if (!r)
		return 0;
	if (r == -ENOEXEC)
		return uaio_diag(EXIT_REFUSED,
				 "%s cannot be loaded: it is damaged, or for "
				 "another processor: install it again, or run "
				 "make",
				 path);
	return uaio_diag(EXIT_REFUSED, "%s cannot be loaded: %s%s", path,
			 strerror(-r),
			 r == -EPERM || r == -EACCES
				 ? ": put it on a file system that is not "
				   "mounted noexec"
				 : "");
}

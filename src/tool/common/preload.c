/* SPDX-License-Identifier: MIT */
/*
 * Sets LD_PRELOAD and LD_LIBRARY_PATH. The user's entries are kept, after the
 * library's. Entries that an outer `uaio run` has made are replaced. Otherwise a `uaio
 * run` inside another would make the variables longer, or load two builds of the
 * library into one process.
 *
 * Tested by test/run/environment.py.
 */
#include "tool/common/library.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/variables.h"

typedef bool (*is_kept_fn)(const char *item, size_t len, const char *first);

static bool is_name(const char *name, const char *text, size_t len)
{
	return len == strlen(name) && !memcmp(name, text, len);
}

/*
 * Return: whether to keep an item of LD_PRELOAD. False for another build of the
 * library: if two builds are in a process, each misses the calls that the other
 * interposes.
 */
static bool is_other_library(const char *item, size_t len, const char *first)
{
	const char *slash = memrchr(item, '/', len);
	const char *name = slash ? slash + 1 : item;
	size_t name_len = len - (size_t)(name - item);

	(void)first;
	return len > 0 && !is_name(UAIO_LIBRARY, name, name_len) &&
	       !is_name(UAIO_CHECK_LIBRARY, name, name_len);
}

/*
 * Return: whether to keep an item of LD_LIBRARY_PATH. False for the directory `first`,
 * which is already in front. Empty items are kept: they mean the working directory.
 */
static bool is_other_directory(const char *item, size_t len, const char *first)
{
	return len != strlen(first) || memcmp(item, first, len);
}

static int prepend(const char *variable, const char *separators,
		   const char *first, is_kept_fn is_kept)
{
	const char *old = getenv(variable);
	char *list, *end;
	int r;

	if (!old)
		old = "";
	list = malloc(strlen(first) + 1 + strlen(old) + 1);
	if (!list)
		return -ENOMEM;
	end = stpcpy(list, first);

	/* An empty variable has no item, but strcspn() would find an empty one. */
	for (const char *item = *old ? old : NULL; item;) {
		size_t len = strcspn(item, separators);

		if (is_kept(item, len, first)) {
			*end++ = ':';
			end = mempcpy(end, item, len);
		}
		item = item[len] ? item + len + 1 : NULL;
	}
	*end = '\0';

	r = setenv(variable, list, 1);
	free(list);
	return r < 0 ? -ENOMEM : 0;
}

/*
 * Add "OPTION=0" to a variable with a sanitizer's options, unless the user has set
 * OPTION.
 */
static int switch_off(const char *variable, const char *option)
{
	const char *old = getenv(variable);
	char *text;
	int r;

	if (old && strstr(old, option))
		return 0;
	r = asprintf(&text, "%s%s%s=0", old ? old : "", old && *old ? ":" : "",
		     option);
	if (r < 0)
		return -ENOMEM;
	r = setenv(variable, text, 1);
	free(text);
	return r < 0 ? -ENOMEM : 0;
}

/*
 * AddressSanitizer does not start if another library comes before it in the process's
 * list of libraries. But libuaio.so may come first, because it passes calls on to the
 * next function of the same name. So switch this check of AddressSanitizer off.
 * ThreadSanitizer kills a process that starts a thread after a fork of a parent with
 * several threads or fibers. Switch this check off, too: the library has threads, and
 * its requests may have fibers.
 */
static int allow_sanitizers(void)
{
	int r = switch_off("ASAN_OPTIONS", "verify_asan_link_order");

	return r < 0 ? r : switch_off("TSAN_OPTIONS", "die_after_fork");
}

/* List the libraries that come first in LD_PRELOAD. */
static void list_libraries(const char *dir, char *list, size_t room)
{
	char shim[PATH_MAX];

	(void)snprintf(shim, sizeof(shim), "%s/" UAIO_CHECK_LIBRARY, dir);
	if (getenv(UAIO_CHECK_VARIABLE) && !access(shim, R_OK))
		(void)snprintf(list, room, "%s:%s/" UAIO_LIBRARY, shim, dir);
	else
		(void)snprintf(list, room, "%s/" UAIO_LIBRARY, dir);
}

int uaio_preload_set(const char *dir)
{
	char libraries[2 * PATH_MAX];
	int r;

	list_libraries(dir, libraries, sizeof(libraries));
	r = prepend("LD_PRELOAD", " :", libraries, is_other_library);
	if (r < 0)
		return r;
	r = prepend("LD_LIBRARY_PATH", ":;", dir, is_other_directory);
	return r < 0 ? r : allow_sanitizers();
}

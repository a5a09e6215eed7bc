/* SPDX-License-Identifier: MIT */
/*
 * Reports programs into which the library will not be loaded
 *
 * The library cannot be loaded into some programs, such as statically linked ones. Other
 * programs are executed with an environment whose LD_PRELOAD does not name the library.
 * With --verbose or --stats, this file writes a line about such a program before the
 * exec, with what the user can do. exec.c and spawn.c call it.
 *
 * Context: async-signal-safe, also in a child of vfork().
 *
 * Tested by test/run/lost.py.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/loader.h"
#include "base/sys.h"
#include "life/report.h"
#include "options/config.h"
#include "host/host.h"

/* The directories in which execvp() searches if the environment has no PATH. */
#define DEFAULT_PATH "/bin:/usr/bin"

enum {
	/*
	 * how many scripts may follow one another, as in the kernel: the interpreter of
	 * a script may itself be a script
	 */
	SCRIPTS_MAX = 5,
	HEAD_BYTES = 256,
	/* longest path that is reported: the buffer must fit on a small stack */
	PATH_BYTES = 1024,
	LINE_BYTES = PATH_BYTES + 256,
};

union head {
	/* the last byte is a null byte */
	char text[HEAD_BYTES + 1];
	ElfW(Ehdr) elf;
};

static void tell(const char *path, const char *why)
{
	char line[LINE_BYTES];
	int len = snprintf(line, sizeof(line), "uaio: library: not in %s, %s\n",
			   path, why);

	if (len > 0 && (size_t)len < sizeof(line))
		uaio_report_say(line);
}

/* Return: whether LD_PRELOAD in the environment envp names this library. */
static bool names_us(char *const *envp)
{
	for (; envp && *envp; envp++)
		if (uaio_has_prefix(*envp, "LD_PRELOAD="))
			return strstr(*envp, "libuaio.so");
	return false;
}

/*
 * Return: why the program's loader cannot load the library, or NULL. The loaders of
 * glibc and musl can; Android's cannot.
 */
static const char *why_of_loader(int fd, const ElfW(Ehdr) * elf,
				 const char *path)
{
	char loader[PATH_BYTES];

	switch (uaio_loader_read(fd, elf, loader, sizeof(loader))) {
	case -ENOENT:
		return uaio_has_prefix(uaio_base_name(path), "ld-")
			       ? NULL /* the file is itself a loader */
			       : "which is statically linked: use a dynamic "
				 "build of it, or put 'uaio run --trap' in "
				 "front of it";
	case 0:
		return uaio_has_prefix(uaio_base_name(loader), "linker")
			       ? "which is built for another C library: use a "
				 "build for glibc or musl"
			       : NULL;
	/* on any other error the exec itself will fail */
	default: return NULL;
	}
}

static const char *why_of_elf(int fd, const ElfW(Ehdr) * elf, const char *path)
{
	if (!uaio_elf_is_ours(elf))
		return "which is for another processor: use a build for this "
		       "one";
	return why_of_loader(fd, elf, path);
}

static bool gains_privilege(const struct stat *st)
{
	const mode_t setgid = S_ISGID | S_IXGRP;

	return (st->st_mode & S_ISUID && st->st_uid != (uid_t)sys_getuid()) ||
	       ((st->st_mode & setgid) == setgid && st->st_gid != getgid());
}

/*
 * Read the beginning of the open file fd into `head`.
 * Return: why the library cannot be loaded into this program, or NULL. For a script,
 * *ret_interpreter is the name of its interpreter, inside `head`; else NULL.
 */
static const char *why_of_file(int fd, const char *path, union head *head,
			       char **ret_interpreter)
{
	struct stat st;
	ssize_t len = sys_pread(fd, head->text, HEAD_BYTES, 0);

	*ret_interpreter = NULL;
	memset(head->text + (len > 0 ? len : 0), 0,
	       sizeof(head->text) - (size_t)(len > 0 ? len : 0));
	if (sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	if (uaio_has_prefix(head->text, "#!")) {
		char *name = head->text + 2 + strspn(head->text + 2, " \t");

		name[strcspn(name, " \t\n")] = '\0';
		*ret_interpreter = name;
		return NULL;
	}
	if (len < (ssize_t)sizeof(head->elf) ||
	    memcmp(head->text, ELFMAG, SELFMAG))
		return NULL;
	if (gains_privilege(&st))
		return "which gains privilege, so that its loader ignores "
		       "LD_PRELOAD: put 'uaio run' behind it";
	return why_of_elf(fd, &head->elf, path);
}

/*
 * Open the program with O_NONBLOCK: path may be a FIFO or device, whose open() could
 * block.
 */
static int open_program(int dir, const char *path)
{
	return sys_openat(dir, path,
			  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

/*
 * Report the program in the open file fd if the library will not be loaded into it. If
 * it is a script, look at its interpreter instead. Closes fd.
 */
static void look_at(int fd, const char *path, char *const *envp)
{
	char *interpreter = NULL;
	const char *why = NULL;
	union head head;
	char script[HEAD_BYTES];

	for (int i = 0; fd >= 0; i++) {
		why = why_of_file(fd, path, &head, &interpreter);
		(void)sys_close(fd);
		if (!interpreter || i == SCRIPTS_MAX)
			break;
		(void)snprintf(script, sizeof(script), "%s", interpreter);
		path = script;
		fd = open_program(AT_FDCWD, path);
	}
	if (!why && !names_us(envp))
		why = "which is given an environment without LD_PRELOAD: leave "
		      "it there, or start it by uaio run";
	if (why)
		tell(path, why);
}

static bool is_wanted(void)
{
	return uaio_config.says_lost;
}

void uaio_host_tell_lost(int dir, const char *path, char *const *envp)
{
	char own[32];
	int fd;

	if (likely(!is_wanted()) || !path)
		return;
	if (!*path) {
		(void)snprintf(own, sizeof(own), "/proc/self/fd/%d", dir);
		dir = AT_FDCWD;
		path = own;
	}
	fd = open_program(dir, path);
	if (fd >= 0)
		look_at(fd, path, envp);
}

void uaio_host_tell_lost_named(const char *name, char *const *envp)
{
	const char *dirs = getenv("PATH");
	char path[PATH_BYTES];

	if (likely(!is_wanted()) || !name)
		return;
	if (!dirs)
		dirs = DEFAULT_PATH;
	if (strchr(name, '/')) {
		uaio_host_tell_lost(AT_FDCWD, name, envp);
		return;
	}
	while (dirs) {
		size_t len = strcspn(dirs, ":");
		int fd = -1;

		if (snprintf(path, sizeof(path), "%.*s/%s", len ? (int)len : 1,
			     len ? dirs : ".", name) < (int)sizeof(path))
			fd = open_program(AT_FDCWD, path);
		if (fd >= 0) {
			look_at(fd, path, envp);
			return;
		}
		dirs = dirs[len] ? dirs + len + 1 : NULL;
	}
}

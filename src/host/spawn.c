/* SPDX-License-Identifier: MIT */
/*
 * posix_spawn(3), system(3) and popen(3), which execute a program in a new process
 *
 * The C library itself creates the child, which executes the program. The library cannot
 * interpose any call in the child. The child has no requests. So the functions here only
 * report programs into which the library is not loaded (lost.c). The functions report in
 * the parent, before it creates the child, which may share the parent's memory.
 *
 * Known gap: the file actions of posix_spawn() may change the child's directory, and
 * only the C library can read them. So a relative path is looked up in the parent's
 * directory.
 *
 * Tested by test/run/lost.py.
 */
#include "host/host.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/symver.h"

/* The shell that system() and popen() execute. */
#define SHELL "/bin/sh"

/* Next definitions of these functions (RTLD_NEXT); NULL until the library is loaded. */
static struct {
	int (*posix_spawn)(pid_t *, const char *,
			   const posix_spawn_file_actions_t *,
			   const posix_spawnattr_t *, char *const *,
			   char *const *);
	int (*posix_spawnp)(pid_t *, const char *,
			    const posix_spawn_file_actions_t *,
			    const posix_spawnattr_t *, char *const *,
			    char *const *);
	int (*system)(const char *);
	FILE *(*popen)(const char *, const char *);
} next;

void uaio_host_load_spawn(void)
{
	uaio_host_find("posix_spawn", &next.posix_spawn);
	uaio_host_find("posix_spawnp", &next.posix_spawnp);
	uaio_host_find("system", &next.system);
	uaio_host_find("popen", &next.popen);
}

UAIO_EXPORT int posix_spawn(pid_t *ret_pid, const char *path,
			    const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const *argv,
			    char *const *envp);
UAIO_EXPORT int posix_spawnp(pid_t *ret_pid, const char *file,
			     const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attr, char *const *argv,
			     char *const *envp);
UAIO_EXPORT int system(const char *command);
UAIO_EXPORT FILE *popen(const char *command, const char *type);

int posix_spawn(pid_t *ret_pid, const char *path,
		const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attr, char *const *argv,
		char *const *envp)
{
	uaio_host_tell_lost(AT_FDCWD, path, envp);
	return UAIO_HOST_NEXT(posix_spawn)(ret_pid, path, actions, attr, argv,
					   envp);
}

int posix_spawnp(pid_t *ret_pid, const char *file,
		 const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attr, char *const *argv,
		 char *const *envp)
{
	uaio_host_tell_lost_named(file, envp);
	return UAIO_HOST_NEXT(posix_spawnp)(ret_pid, file, actions, attr, argv,
					    envp);
}

int system(const char *command)
{
	/*
	 * system(NULL) executes no program, so there is nothing to report: it only
	 * returns whether there is a shell.
	 */
	if (command)
		uaio_host_tell_lost(AT_FDCWD, SHELL, environ);
	return UAIO_HOST_NEXT(system)(command);
}

FILE *popen(const char *command, const char *type)
{
	uaio_host_tell_lost(AT_FDCWD, SHELL, environ);
	return UAIO_HOST_NEXT(popen)(command, type);
}

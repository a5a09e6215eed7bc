/* SPDX-License-Identifier: MIT */
#include "tool/trapped.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

int uaio_trapped_exec(const char *path, char **argv)
{
	if (setenv(UAIO_TRAP_PROGRAM, path, 1) == 0)
		(void)execv("/proc/self/exe", argv);
	return -errno;
}

bool uaio_trapped_is_asked(void)
{
	return getenv(UAIO_TRAP_PROGRAM);
}

/* Return: the value; the variable is not in the environment from now on. */
static const char *take_variable(char **envp)
{
	const size_t len = strlen(UAIO_TRAP_PROGRAM);
	const char *value = "";
	char **to = envp;

	for (char **from = envp; *from; from++)
		if (!strncmp(*from, UAIO_TRAP_PROGRAM "=", len + 1))
			value = *from + len + 1;
		else
			*to++ = *from;
	*to = NULL;
	return value;
}

static char **copy(char **vector)
{
	size_t nr = 1;
	char **to;

	for (char **at = vector; *at; at++)
		nr++;
	to = malloc(nr * sizeof(*to));
	return to ? memcpy(to, vector, nr * sizeof(*to)) : NULL;
}

int uaio_trapped_main(char **argv, char **envp)
{
	const char *(*become)(const char *, char **, char **) = NULL;
	const char *path, *cause = "there is no memory";
	char **env = copy(envp);

	*(void **)&become = dlsym(RTLD_DEFAULT, "uaio_trap_program");
	path = env ? take_variable(env) : "";
	if (!become)
		cause = "the library was not loaded";
	else if (env)
		cause = become(path, argv, env);
	return uaio_diag(EXIT_REFUSED, "%s: --trap: %s", path, cause);
}

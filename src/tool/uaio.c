/* SPDX-License-Identifier: MIT */
/*
 * uaio run -- command: start a program with the library in front of libaio.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void prepend(const char *name, const char *value, char separator)
{
	const char *old = getenv(name);
	char *joined;

	if (asprintf(&joined, "%s%c%s", value, separator, old ? old : "") < 0 ||
	    setenv(name, old && *old ? joined : value, 1) < 0) {
		perror("uaio");
		exit(2);
	}
	free(joined);
}

int main(int argc, char **argv)
{
	char dir[PATH_MAX] = "", lib[PATH_MAX + 16];
	int first = 2;

	if (argc > 2 && !strcmp(argv[2], "--"))
		first = 3;
	if (argc <= first || strcmp(argv[1], "run")) {
		fputs("usage: uaio run -- command [argument...]\n", stderr);
		return 2;
	}
	if (readlink("/proc/self/exe", dir, sizeof(dir) - 1) > 0)
		*strrchr(dir, '/') = '\0';
	snprintf(lib, sizeof(lib), "%s/libuaio.so.0", dir);
	if (access(lib, R_OK) < 0) {
		strcpy(dir, UAIO_LIBDIR);
		snprintf(lib, sizeof(lib), "%s/libuaio.so.0", dir);
	}
	prepend("LD_PRELOAD", lib, ':');
	prepend("LD_LIBRARY_PATH", dir, ':');
	execvp(argv[first], argv + first);
	fprintf(stderr, "uaio: %s: %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

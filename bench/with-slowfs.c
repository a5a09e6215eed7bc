/* SPDX-License-Identifier: MIT */
/*
 * with-slowfs READ_US[:BYTES|:cached|:async] WRITE_US FOLDER COMMAND [ARGUMENT...]
 *
 * Run a command where the folder is a file system whose every read and write
 * takes so long, each by itself (test/helpers/slowfs.h): for root, in a mount
 * namespace of its own, of which nothing is left at the end. What is asked of
 * it in one call is made in pieces of 1 MiB, or reads in those of so many bytes,
 * one after another. "cached", its files are read through the page cache;
 * "async", kernel AIO has many O_DIRECT calls there at a time, as on a device.
 *
 * With SLOWFS_REPORT=FILE in the environment, the file gets an object of JSON at
 * the end: how many reads there were, and how many at once at most.
 *
 * The exit status is the command's; 125 if there can be no such file system.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slowfs.h"

enum { CANNOT = 125, NOT_FOUND = 127 };

static int fail(const char *what)
{
	perror(what);
	return CANNOT;
}

static int run(char **command)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(command[0], command);
		perror(command[0]);
		_exit(NOT_FOUND);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return fail("fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* how: what comes after the time of a read, or NULL. */
static struct slowfs *start(const char *folder, const char *how)
{
	if (!how)
		return slowfs_start(folder);
	if (strcmp(how, ":cached") == 0)
		return slowfs_start_cached(folder);
	if (strcmp(how, ":async") == 0)
		return slowfs_start_async(folder);
	return slowfs_start_in_pieces(folder, (uint32_t)atoi(how + 1));
}

static int report(struct slowfs *fs, const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return fail(path);
	fprintf(file, "{\"reads\": %u, \"at_once\": %u}\n",
		slowfs_nr_done(fs, SLOWFS_READ),
		slowfs_most_held(fs, SLOWFS_READ));
	return fclose(file) ? fail(path) : 0;
}

int main(int argc, char **argv)
{
	const char *path = getenv("SLOWFS_REPORT");
	struct slowfs *fs;
	int status;

	if (argc < 5) {
		fprintf(stderr,
			"usage: with-slowfs READ_US[:BYTES|:cached|:async] "
			"WRITE_US FOLDER COMMAND [ARGUMENT...]\n");
		return CANNOT;
	}
	/* Whoever started us is gone, and with us all of it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return fail("with-slowfs: no namespace");
	fs = start(argv[3], strchr(argv[1], ':'));
	if (!fs)
		return fail("with-slowfs: cannot mount");
	slowfs_delay(fs, SLOWFS_READ, (unsigned)atoi(argv[1]));
	slowfs_delay(fs, SLOWFS_WRITE, (unsigned)atoi(argv[2]));
	status = run(argv + 4);
	if (path && status == 0)
		status = report(fs, path);
	slowfs_stop(fs);
	return status;
}

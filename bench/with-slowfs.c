/* SPDX-License-Identifier: MIT */
/*
 * with-slowfs READ_US[:BYTES|:cached|:async] WRITE_US FOLDER COMMAND [ARGUMENT...]
 *
 * Run a command while a slow file system (test/helpers/slowfs.h) is mounted at the
 * directory FOLDER. Each read takes READ_US microseconds and each write WRITE_US,
 * however many run at the same time. Reads and writes are split into pieces of 1 MiB,
 * which are executed one after another. With ":BYTES", reads are split into pieces of
 * BYTES instead. With "cached", files are read through the page cache. With "async",
 * kernel AIO executes many O_DIRECT reads and writes in parallel, as on a device. The
 * program needs root. It mounts in a mount namespace of its own, so the mount
 * disappears when the command ends.
 *
 * If SLOWFS_REPORT names a file, the program finally writes a JSON object to it. The
 * object has the number of reads, and the most reads that were in progress at the same
 * time.
 *
 * The exit status is the command's, or 125 if the slow file system cannot be mounted.
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

/*
 * how: the end of the program's first argument, after READ_US, such as ":cached"; NULL
 * if the argument has only READ_US.
 */
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
	/*
	 * This process, and thereby the mount, must not outlive the parent process.
	 */
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

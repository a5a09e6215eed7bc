/* SPDX-License-Identifier: MIT */
/*
 * Examines the file system of a file or directory: its type, whether direct I/O works,
 * and how long a sync takes
 *
 * Tested by test/run/doctor_programs.py.
 */
#include "tool/doctor/findings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/newer.h"
#include "base/sys.h"
#include "options/names.h"

enum {
	BLOCK = 4096,
	NR_SYNCS = 5,
	TYPE_MAX = 64,
	NS_PER_US = 1000,
};

/* What is examined: a path that the user named. */
struct place {
	struct uaio_findings *findings;
	/* the path, if it is a directory; else the file's directory */
	char dir[PATH_MAX];
	/* open file at the path, or `made` if the path is a directory; or -1 */
	int fd;
	int made; /* open temporary file in dir, or -1 */
	/* errno if the temporary file could not be made; or 0 */
	int made_error;
};

/*
 * Make a file in the directory. The file has no name, or its name is removed at once.
 * Return: its descriptor, or -1.
 */
static int make_file(const char *dir)
{
	char name[PATH_MAX + 32];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR &&
			errno != EINVAL && errno != ENOENT))
		return fd;
	(void)snprintf(name, sizeof(name), "%s/.uaio-doctor-XXXXXX", dir);
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		(void)unlink(name);
	return fd;
}

/*
 * line: a line of /proc/self/mountinfo. mount: the id of a mount.
 * Return: the type of the mount's file system, which follows " - "; NULL if the line
 * describes another mount.
 */
static char *type_of(char *line, unsigned long long mount)
{
	unsigned long long number;
	char *type;

	if (sscanf(line, "%llu", &number) != 1 || number != mount)
		return NULL;
	type = strstr(line, " - ");
	if (!type)
		return NULL;
	type += strlen(" - ");
	type[strcspn(type, " \n")] = '\0';
	return type;
}

/*
 * Call statx(2), which some C libraries lack. sys_statx() would return -ENOSYS here:
 * it makes the call only if uaio_calls (base/calls.h) has it, and this tool does not
 * set uaio_calls.
 */
static int ask(int dir, const char *path, int flags, unsigned mask,
	       struct uaio_statx *ret)
{
	return (int)uaio_sys6(SYS_statx, dir, (long)path, flags, mask,
			      (long)ret, 0);
}

static bool find_type(const char *path, char type[TYPE_MAX])
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, *found = NULL;
	struct uaio_statx st = { 0 };
	size_t room = 0;

	if (file && ask(AT_FDCWD, path, 0, UAIO_STATX_MNT_ID, &st) == 0 &&
	    st.mask & UAIO_STATX_MNT_ID)
		while (!found && getline(&line, &room, file) > 0)
			found = type_of(line, st.mnt_id);
	if (found)
		(void)snprintf(type, TYPE_MAX, "%s", found);
	free(line);
	if (file)
		(void)fclose(file);
	return found;
}

static void judge_type(const struct place *place, const char *path)
{
	unsigned long long free_mib = 0;
	char type[TYPE_MAX];
	struct statvfs fs;

	if (!find_type(path, type))
		strcpy(type, "of an unknown type");
	if (statvfs(path, &fs) == 0)
		free_mib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	uaio_find(place->findings, UAIO_PASS, "file system",
		  "%s, %llu MiB free", type, free_mib);
}

static void judge_alignment(const struct place *place)
{
	struct uaio_statx st = { 0 };

	if (ask(place->fd, "", AT_EMPTY_PATH, UAIO_STATX_DIOALIGN, &st) < 0 ||
	    !(st.mask & UAIO_STATX_DIOALIGN) || !st.dio_offset_align) {
		uaio_find(place->findings, UAIO_PASS, "alignment",
			  "the kernel does not tell how direct I/O is to be "
			  "aligned here");
		return;
	}
	uaio_find(place->findings, UAIO_PASS, "alignment",
		  "direct I/O: offset and length to %u bytes, memory to %u; "
		  "uaio run --bounce serves others",
		  st.dio_offset_align, st.dio_mem_align);
}

static void judge_direct(const struct place *place)
{
	int flags = fcntl(place->fd, F_GETFL);
	struct uaio_finding *finding;

	if (fcntl(place->fd, F_SETFL, flags | O_DIRECT) == 0) {
		(void)fcntl(place->fd, F_SETFL, flags);
		uaio_find(place->findings, UAIO_PASS, "O_DIRECT",
			  "files can be opened with it");
		judge_alignment(place);
		return;
	}
	finding = uaio_find(place->findings, UAIO_WARN, "O_DIRECT",
			    "%s: files cannot be opened with it",
			    uaio_error_name(errno));
	finding->error = errno;
	uaio_finding_fix(finding, "filesystem",
			 "use another file system, or let the program "
			 "use the page cache");
}

/*
 * Return: whether the file system is in memory, so that the library executes requests
 * for its files inside the submitting call.
 */
static bool is_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static void judge_nowait(const struct place *place)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct uaio_finding *finding;
	ssize_t ret;

	if (is_in_memory(place->fd)) {
		uaio_find(place->findings, UAIO_PASS, "RWF_NOWAIT",
			  "not needed: all files are in memory");
		return;
	}
	ret = uaio_sys6(SYS_preadv2, place->fd, (long)&iov, 1, 0, 0,
			RWF_NOWAIT);
	if (ret >= 0 || ret == -EAGAIN) {
		uaio_find(place->findings, UAIO_PASS, "RWF_NOWAIT",
			  "reads of what is cached complete inside io_submit");
		return;
	}
	finding = uaio_find(place->findings, UAIO_WARN, "RWF_NOWAIT",
			    "%s: whether a read would wait cannot be asked",
			    uaio_error_name((int)-ret));
	finding->error = (int)-ret;
	uaio_finding_fix(finding, "filesystem",
			 "use another file system, if io_submit must "
			 "not wait: worker threads read with "
			 "--never-block");
}

static int compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/*
 * Write one block and sync it, NR_SYNCS times.
 * Return: 0, and *ret_ns is the median time; or an errno.
 */
static int time_sync(int fd, int64_t *ret_ns)
{
	static const char block[BLOCK];
	int64_t ns[NR_SYNCS];

	for (int i = 0; i < NR_SYNCS; i++) {
		int64_t start = now_ns();

		if (pwrite(fd, block, BLOCK, 0) != BLOCK || fsync(fd) < 0)
			return errno ? errno : ENOSPC;
		ns[i] = now_ns() - start;
	}
	qsort(ns, NR_SYNCS, sizeof(ns[0]), compare);
	*ret_ns = ns[NR_SYNCS / 2];
	return 0;
}

static void judge_sync(const struct place *place)
{
	int error = place->made_error;
	struct uaio_finding *finding;
	int64_t ns;

	if (!error)
		error = time_sync(place->made, &ns);
	if (!error) {
		uaio_find(place->findings, UAIO_PASS, "fsync",
			  "%.1f us to write a block and fsync it, the median "
			  "of %d",
			  (double)ns / NS_PER_US, NR_SYNCS);
		return;
	}
	finding = uaio_find(place->findings, UAIO_WARN, "fsync",
			    "not measured, as no file can be made or written "
			    "there: %s",
			    uaio_error_name(error));
	finding->error = error;
	uaio_finding_fix(finding, "filesystem",
			 "run it as the user who writes there, or "
			 "name another directory");
}

/*
 * Set place->dir: the path itself if it is a directory, else the file's directory.
 */
static void find_dir(struct place *place, const char *path, bool is_dir)
{
	char *slash;

	(void)snprintf(place->dir, sizeof(place->dir), "%s", path);
	if (is_dir)
		return;
	slash = strrchr(place->dir, '/');
	if (slash)
		slash[slash == place->dir] = '\0';
	else
		strcpy(place->dir, ".");
}

static void judge_open(struct place *place, const char *path, bool is_file)
{
	place->made = make_file(place->dir);
	place->made_error = place->made < 0 ? errno : 0;
	judge_type(place, path);
	judge_sync(place);
	place->fd = is_file ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
			    : place->made;
	if (place->fd >= 0) {
		judge_direct(place);
		judge_nowait(place);
	}
	if (place->fd >= 0 && place->fd != place->made)
		(void)close(place->fd);
	if (place->made >= 0)
		(void)close(place->made);
}

void uaio_filesystem_judge(const char *path, struct uaio_findings *findings)
{
	struct place place = { .findings = findings };
	struct uaio_finding *finding;
	struct stat st;

	findings->section = path;
	if (stat(path, &st) == 0 &&
	    (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		find_dir(&place, path, S_ISDIR(st.st_mode));
		judge_open(&place, path, S_ISREG(st.st_mode));
		return;
	}
	finding =
		uaio_find(findings, UAIO_FAIL, "path", "%s",
			  stat(path, &st) < 0 ? strerror(errno)
					      : "is no file and no directory");
	uaio_finding_fix(finding, "filesystem", "name a file or a directory");
}

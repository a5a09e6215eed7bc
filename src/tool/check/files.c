/* SPDX-License-Identifier: MIT */
/* Tested by test-reports.c. */
#include "tool/check/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/tool.h"

enum {
	NR_BUCKETS = 1024,
	CHUNK = 1 << 16,
	/*
	 * maximum size of a file in bytes, because a program may write any amount
	 */
	FILE_MAX = 1 << 28,
	LINE_MAX_SUMMARY = 256,
};

struct uaio_check_file {
	struct uaio_check_file *next; /* next file in the hash bucket */
	int pid;
	off_t at;         /* how far the file was read */
	bool is_too_long; /* the user was notified that the file is too long */
	/*
	 * The bytes read so far of a report or line whose end has not been read yet.
	 */
	char *pending;
	size_t nr_pending;
};

int uaio_check_files_open(struct uaio_check_files *files, const char *path)
{
	files->dir = opendir(path);
	if (!files->dir)
		return -errno;
	files->buckets =
		uaio_check_memory(calloc(NR_BUCKETS, sizeof(*files->buckets)));
	return 0;
}

static struct uaio_check_file *find(struct uaio_check_files *files, int pid)
{
	struct uaio_check_file **bucket = &files->buckets[pid % NR_BUCKETS];
	struct uaio_check_file *file = *bucket;

	while (file && file->pid != pid)
		file = file->next;
	if (file)
		return file;
	file = uaio_check_memory(calloc(1, sizeof(*file)));
	*file = (struct uaio_check_file){ .next = *bucket, .pid = pid };
	return *bucket = file;
}

/*
 * Count a process from its lines "begun" and "summary". A process that is ended by a
 * signal, or executes another program, writes no summary.
 */
static void add_summary(struct uaio_check_sums *sums, const char *text,
			size_t len)
{
	char line[LINE_MAX_SUMMARY], *rest = line, *part;

	if (len >= sizeof(line))
		len = sizeof(line) - 1;
	memcpy(line, text, len);
	line[len] = '\0';
	part = strsep(&rest, "\t");
	sums->nr_processes += !strcmp(part, "begun");
	if (strcmp(part, "summary"))
		return;
	sums->nr_ended++;
	while ((part = strsep(&rest, "\t"))) {
		char *value = strchr(part, ' ');

		if (!value)
			continue;
		*value++ = '\0';
		if (!strcmp(part, "requests"))
			sums->nr_requests += strtoull(value, NULL, 10);
		else if (!strcmp(part, "checked"))
			sums->nr_checked += strtoull(value, NULL, 10);
		else if (!strcmp(part, "by") && strcmp(value, "none"))
			(void)snprintf(sums->checkers, sizeof(sums->checkers),
				       "%s", value);
	}
}

static void hand_over(struct uaio_check_files *files,
		      const struct uaio_check_file *file, const char *text,
		      size_t len)
{
	struct uaio_report report;

	if (!uaio_report_parse(&report, text, len))
		return;
	report.pid = file->pid;
	files->report(&report, files->arg);
	uaio_report_free(&report);
}

static bool begins(const char *line, size_t len, const char *word)
{
	return len >= strlen(word) && !memcmp(line, word, strlen(word));
}

/*
 * Report the complete reports in `pending`. Keep the bytes after them: the start
 * of the next report or line. A report without the line `end` is reported as incomplete
 * if another report follows, if it is too long, or in the last call.
 */
static void take_reports(struct uaio_check_files *files,
			 struct uaio_check_file *file, bool is_last)
{
	char *text = file->pending, *newline;
	size_t begin = 0, at = 0, nr = file->nr_pending;
	bool is_open = false; /* inside the report at `begin` */

	while ((newline = memchr(text + at, '\n', nr - at))) {
		const size_t len = (size_t)(newline - (text + at));
		const size_t next = at + len + 1;

		if (begins(text + at, len, "report\t")) {
			if (is_open)
				hand_over(files, file, text + begin,
					  at - begin);
			begin = at;
			is_open = true;
		} else if (is_open && len == 3 &&
			   !memcmp(text + at, "end", 3)) {
			hand_over(files, file, text + begin, next - begin);
			begin = next;
			is_open = false;
		} else if (!is_open) {
			add_summary(&files->sums, text + at, len);
			begin = next;
		}
		at = next;
	}
	if (is_last || nr - begin > UAIO_CHECK_REPORT_MAX) {
		if (is_open)
			hand_over(files, file, text + begin, nr - begin);
		begin = nr;
	}
	memmove(text, text + begin, nr - begin);
	file->nr_pending = nr - begin;
}

static void read_open(struct uaio_check_files *files,
		      struct uaio_check_file *file, int fd, bool is_last)
{
	ssize_t nr;

	if (!file->pending)
		file->pending = uaio_check_memory(
			malloc(UAIO_CHECK_REPORT_MAX + CHUNK));
	while (file->at < FILE_MAX &&
	       (nr = pread(fd, file->pending + file->nr_pending, CHUNK,
			   file->at)) > 0) {
		file->at += nr;
		file->nr_pending += (size_t)nr;
		take_reports(files, file, false);
	}
	if (file->at >= FILE_MAX && !file->is_too_long) {
		file->is_too_long = true;
		uaio_diag(0,
			  "check: process %d has written %d MiB of reports: "
			  "the rest is not read",
			  file->pid, FILE_MAX >> 20);
	}
	if (is_last)
		take_reports(files, file, true);
	if (!file->nr_pending) {
		free(file->pending);
		file->pending = NULL;
	}
}

/*
 * The program can create anything in the directory of reports, so ignore what is not a
 * regular file.
 */
static void read_file(struct uaio_check_files *files, const char *name,
		      bool is_last)
{
	struct uaio_check_file *file = find(files, atoi(name));
	struct stat st;
	int fd;

	if (fstatat(dirfd(files->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || (st.st_size <= file->at && !is_last))
		return;
	fd = openat(dirfd(files->dir), name,
		    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		read_open(files, file, fd, is_last);
	(void)close(fd);
}

static bool is_process(const char *name)
{
	size_t len = strlen(name);

	/* Any number of at most nine digits fits in an int. */
	return len && len < 10 && strspn(name, "0123456789") == len;
}

void uaio_check_files_read(struct uaio_check_files *files, bool is_last)
{
	const struct dirent *entry;

	rewinddir(files->dir);
	while ((entry = readdir(files->dir)))
		if (is_process(entry->d_name))
			read_file(files, entry->d_name, is_last);
}

void uaio_check_files_close(struct uaio_check_files *files)
{
	for (unsigned i = 0; i < NR_BUCKETS; i++)
		while (files->buckets[i]) {
			struct uaio_check_file *file = files->buckets[i];

			files->buckets[i] = file->next;
			free(file->pending);
			free(file);
		}
	free(files->buckets);
	(void)closedir(files->dir);
}

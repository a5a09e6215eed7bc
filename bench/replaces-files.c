/* SPDX-License-Identifier: MIT */
/*
 * The work "files" (a kind of load) of replaces.c: the program opens a small file in
 * the page cache, reads it by one request, and closes it. If the depth is above 1, the
 * program opens several files, submits all reads together, and closes the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replaces.h"

enum { FILES = 256 };

static void name_of(const struct job *job, size_t i, char name[PATH_MAX])
{
	snprintf(name, PATH_MAX, "%s/%zu", job->path, i % FILES);
}

static void set_up(struct job *job)
{
	char *bytes = new_buffers(job, 1), name[PATH_MAX];

	if (mkdir(job->path, 0700) < 0 && errno != EEXIST)
		fail(job->path, errno);
	for (size_t i = 0; i < FILES; i++) {
		int fd;

		name_of(job, i, name);
		fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || write(fd, bytes, job->bytes) < 0)
			fail(name, errno);
		close(fd);
	}
	free(bytes);
}

static int open_file(const struct job *job, size_t i)
{
	char name[PATH_MAX];
	int fd;

	name_of(job, i, name);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(name, errno);
	return fd;
}

static uint64_t run_plain(const struct job *job, size_t thread)
{
	char *buffer = new_buffers(job, 1);
	uint64_t nr = 0;

	for (; !is_over(job); nr++) {
		int fd = open_file(job, thread + nr);

		if (pread(fd, buffer, job->bytes, 0) != (ssize_t)job->bytes)
			fail("a request", EIO);
		close(fd);
	}
	free(buffer);
	return nr;
}

static uint64_t run_aio(const struct job *job, size_t thread)
{
	io_context_t context = new_context(job);
	struct io_event events[REPLACES_MAX_DEPTH];
	struct iocb *iocbs = calloc(job->depth, sizeof(*iocbs));
	struct iocb *all[REPLACES_MAX_DEPTH];
	char *buffers = new_buffers(job, job->depth);
	uint64_t nr = 0;

	if (!iocbs)
		fail("memory", ENOMEM);
	for (; !is_over(job); nr += job->depth) {
		for (size_t i = 0; i < job->depth; i++) {
			all[i] = &iocbs[i];
			io_prep_pread(all[i], open_file(job, thread + nr + i),
				      buffers + i * job->bytes, job->bytes, 0);
		}
		submit_all(context, all, job->depth);
		for (size_t left = job->depth; left > 0;)
			left -= reap(job, context, events, left);
		for (size_t i = 0; i < job->depth; i++)
			close(iocbs[i].aio_fildes);
	}
	end_context(context);
	free(iocbs);
	free(buffers);
	return nr;
}

static uint64_t run(const struct job *job, size_t thread)
{
	return job->is_plain ? run_plain(job, thread) : run_aio(job, thread);
}

const struct work replaces_files = { "files", set_up, run };

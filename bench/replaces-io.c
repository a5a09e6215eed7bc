/* SPDX-License-Identifier: MIT */
/*
 * The works "read" and "write" (kinds of load) of replaces.c, at random offsets of one
 * file. The file is either allocated (and in the page cache or not), or a hole. For
 * each completed request the program submits another.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "replaces.h"

enum { LAY_OUT_BYTES = 1 << 20 };

static void lay_out(const struct job *job)
{
	const struct job piece = { .bytes = LAY_OUT_BYTES };
	char *bytes = new_buffers(&piece, 1);
	int fd = open(job->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)job->file_bytes) < 0)
		fail(job->path, errno);
	for (size_t at = 0; at < job->file_bytes && !job->is_sparse;
	     at += LAY_OUT_BYTES)
		if (write(fd, bytes, LAY_OUT_BYTES) != LAY_OUT_BYTES)
			fail(job->path, errno);
	if (fsync(fd) < 0)
		fail(job->path, errno);
	if (job->is_cold)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while (!job->is_direct && !job->is_cold &&
	       read(fd, bytes, LAY_OUT_BYTES) > 0)
		;
	close(fd);
	free(bytes);
}

static void set_up(struct job *job)
{
	lay_out(job);
	job->fd = open(job->path,
		       O_RDWR | O_CLOEXEC | (job->is_direct ? O_DIRECT : 0));
	if (job->fd < 0)
		fail(job->path, errno);
}

static long long next_offset(const struct job *job, uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (long long)((*random >> 33) % (job->file_bytes / job->bytes) *
			   job->bytes);
}

static uint64_t run_plain(const struct job *job, size_t thread, bool is_write)
{
	char *buffer = new_buffers(job, 1);
	uint64_t random = thread, nr = 0;

	for (; !is_over(job); nr++) {
		long long off = next_offset(job, &random);
		ssize_t ret = is_write
				      ? pwrite(job->fd, buffer, job->bytes, off)
				      : pread(job->fd, buffer, job->bytes, off);

		if (ret != (ssize_t)job->bytes)
			fail("a request", ret < 0 ? errno : EIO);
	}
	free(buffer);
	return nr;
}

static void prepare(const struct job *job, struct iocb *iocb, char *buffer,
		    bool is_write)
{
	if (is_write)
		io_prep_pwrite(iocb, job->fd, buffer, job->bytes, 0);
	else
		io_prep_pread(iocb, job->fd, buffer, job->bytes, 0);
}

static uint64_t run_aio(const struct job *job, size_t thread, bool is_write)
{
	io_context_t context = new_context(job);
	struct io_event events[REPLACES_MAX_DEPTH];
	struct iocb *next[REPLACES_MAX_DEPTH];
	struct iocb *iocbs = calloc(job->depth, sizeof(*iocbs));
	char *buffers = new_buffers(job, job->depth);
	uint64_t random = thread, nr = 0;
	size_t nr_next = job->depth, left = job->depth;

	if (!iocbs)
		fail("memory", ENOMEM);
	for (size_t i = 0; i < job->depth; i++) {
		next[i] = &iocbs[i];
		prepare(job, next[i], buffers + i * job->bytes, is_write);
	}
	while (!is_over(job)) {
		for (size_t i = 0; i < nr_next; i++)
			next[i]->u.c.offset = next_offset(job, &random);
		submit_all(context, next, nr_next);
		nr_next = reap(job, context, events, job->depth);
		for (size_t i = 0; i < nr_next; i++)
			next[i] = events[i].obj;
		nr += nr_next;
	}
	for (left -= nr_next; left > 0; left -= nr_next) {
		nr_next = reap(job, context, events, left);
		nr += nr_next;
	}
	end_context(context);
	free(iocbs);
	free(buffers);
	return nr;
}

static uint64_t run_reads(const struct job *job, size_t thread)
{
	return job->is_plain ? run_plain(job, thread, false)
			     : run_aio(job, thread, false);
}

static uint64_t run_writes(const struct job *job, size_t thread)
{
	return job->is_plain ? run_plain(job, thread, true)
			     : run_aio(job, thread, true);
}

const struct work replaces_read = { "read", set_up, run_reads };
const struct work replaces_write = { "write", set_up, run_writes };

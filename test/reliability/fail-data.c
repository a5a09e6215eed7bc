/* SPDX-License-Identifier: MIT */
/*
 * Files and streams with known bytes, and the results that requests on them may have.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/names.h"
#include "unit.h"
#include "fail-each.h"

bool fail_is_strict;

void fail_with(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "failed: %s\n", text);
	_exit(1);
}

/*
 * Results
 */

static const struct fail_kind *kind_of_fault(void)
{
	return &fail_kinds[fail_shared->fault.key & 0xffff];
}

bool fail_may_refuse(int error)
{
	return !fail_is_strict && (error == EAGAIN || error == ENOMEM);
}

bool fail_may_end_with(int error)
{
	const struct fail_fault *fault = &fail_shared->fault;
	const struct fail_kind *kind = kind_of_fault();

	if (fail_is_strict)
		return false;
	if (!(kind->flags & FAIL_IS_DATA))
		return error == EAGAIN || error == ENOMEM;
	/*
	 * After EAGAIN, EOPNOTSUPP or ENOSYS the library tries another call for the
	 * same request, so no request may complete with these errors.
	 */
	return error == fault->how && error != EAGAIN && error != EOPNOTSUPP &&
	       error != ENOSYS;
}

void fail_complete(struct fail_job *job, int64_t res)
{
	need(job->is_pending, "%s ends twice, or was not accepted", job->what);
	job->is_pending = false;
	job->res = res;
}

static void judge_error(const struct fail_job *job)
{
	const char *name = uaio_error_name((int)-job->res);

	need(fail_may_end_with((int)-job->res) ||
		     (!fail_is_strict && job->res == -job->also),
	     "%s ends with %s (%lld)", job->what,
	     name ? name : "no error number", (long long)job->res);
	add_relaxed(&fail_shared->nr_errors, 1);
}

void fail_judge_count(const struct fail_job *job)
{
	need(!job->is_pending, "%s is not complete", job->what);
	if (!job->is_accepted)
		return;
	if (job->res < 0)
		judge_error(job);
	else
		need(job->res > 0 && job->res <= job->asked &&
			     (!fail_is_strict || job->res == job->asked),
		     "%s moves %lld of %lld bytes", job->what,
		     (long long)job->res, (long long)job->asked);
}

void fail_judge_value(const struct fail_job *job)
{
	need(!job->is_pending, "%s is not complete", job->what);
	if (!job->is_accepted || job->res == job->asked)
		return;
	need(job->res < 0, "%s ends with %lld, not with %lld", job->what,
	     (long long)job->res, (long long)job->asked);
	judge_error(job);
}

/* Return: how many bytes the request has moved, according to its result. */
static size_t moved(const struct fail_job *job)
{
	fail_judge_count(job);
	return job->is_accepted && job->res > 0 ? (size_t)job->res : 0;
}

/*
 * Bytes
 */

static char byte_of(unsigned salt, size_t at)
{
	uint32_t mixed = (uint32_t)(salt * 0x10001u + at) * 0x9e3779b1u;

	return (char)(mixed >> 24);
}

static void fill(char *bytes, size_t nr, unsigned salt)
{
	for (size_t i = 0; i < nr; i++)
		bytes[i] = byte_of(salt, i);
}

static void check(const char *what, const char *got, const char *right,
		  size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		need(got[i] == right[i],
		     "%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, nr,
		     (unsigned char)got[i], (unsigned char)right[i]);
}

/*
 * Files
 */

static void cut_block(char *bytes, unsigned nr_pieces, struct iovec *pieces)
{
	const size_t each = FAIL_BLOCK / nr_pieces;

	for (unsigned i = 0; i < nr_pieces; i++)
		pieces[i] = (struct iovec){ bytes + i * each, each };
	pieces[nr_pieces - 1].iov_len = FAIL_BLOCK - (nr_pieces - 1) * each;
}

void fail_file_open(struct fail_file *file, int fd, unsigned salt)
{
	static const unsigned pieces[FAIL_BLOCKS] = { 1, 3, FAIL_VECTORS };
	char old[FAIL_BLOCK];

	file->fd = file->plain = fd;
	for (unsigned i = 0; i < FAIL_BLOCKS; i++) {
		struct fail_block *block = &file->blocks[i];

		block->salt = salt + i;
		block->nr_pieces = pieces[i];
		fill(block->out, FAIL_BLOCK, block->salt);
		memset(block->in, 0, FAIL_BLOCK);
		cut_block(block->out, pieces[i], block->outs);
		cut_block(block->in, pieces[i], block->ins);
		fill(old, FAIL_BLOCK, ~block->salt);
		need(pwrite(fd, old, FAIL_BLOCK, (off_t)i * FAIL_BLOCK) ==
			     FAIL_BLOCK,
		     "a file cannot be written");
	}
}

void fail_file_cool(const struct fail_file *file)
{
	need(fsync(file->plain) == 0, "a file cannot be synced");
	(void)posix_fadvise(file->plain, 0, 0, POSIX_FADV_DONTNEED);
}

void fail_file_written(const struct fail_file *file, unsigned i,
		       const struct fail_job *job)
{
	const struct fail_block *block = &file->blocks[i];
	char now[FAIL_BLOCK], old[FAIL_BLOCK];
	const size_t nr = moved(job);
	const off_t off = (off_t)i * FAIL_BLOCK;

	need(pread(file->plain, now, FAIL_BLOCK, off) == FAIL_BLOCK,
	     "a file cannot be read");
	check(job->what, now, block->out, nr);
	/*
	 * If the request was refused, or wrote only a part of the block, the rest must
	 * be unchanged. (A request that failed may have written anything.)
	 */
	fill(old, FAIL_BLOCK, ~block->salt);
	if (!job->is_accepted || job->res > 0)
		check(job->what, now + nr, old + nr, FAIL_BLOCK - nr);
	need(pwrite(file->plain, block->out, FAIL_BLOCK, off) == FAIL_BLOCK,
	     "a file cannot be written");
}

void fail_file_read(const struct fail_file *file, unsigned i,
		    const struct fail_job *job)
{
	const struct fail_block *block = &file->blocks[i];

	check(job->what, block->in, block->out, moved(job));
}

/*
 * Streams
 */

void fail_stream_open(struct fail_stream *stream, bool is_socket, unsigned salt)
{
	int ends[2];
	int ret = is_socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
					 ends)
			    : pipe2(ends, O_CLOEXEC);

	need(ret == 0, "there is no stream");
	stream->from = ends[0];
	stream->to = ends[1];
	stream->nr_put = stream->nr_got = 0;
	fill(stream->bytes, FAIL_STREAM_BYTES, salt);
}

const char *fail_stream_next(const struct fail_stream *stream, size_t nr)
{
	need(stream->nr_put + nr <= FAIL_STREAM_BYTES, "a stream is too short");
	return stream->bytes + stream->nr_put;
}

void fail_stream_put(struct fail_stream *stream, size_t nr)
{
	const char *next = fail_stream_next(stream, nr);

	/* Count the bytes before writing them: a read may complete at once. */
	stream->nr_put += nr;
	need(write(stream->to, next, nr) == (ssize_t)nr,
	     "a stream cannot be written");
}

void fail_stream_written(struct fail_stream *stream, size_t nr,
			 const struct fail_job *job)
{
	const size_t done = moved(job);

	stream->nr_put += done;
	if (done < nr)
		fail_stream_put(stream, nr - done);
}

void fail_stream_read(struct fail_stream *stream, const void *buf,
		      const struct fail_job *job)
{
	const size_t nr = moved(job);

	need(stream->nr_got + nr <= stream->nr_put,
	     "%s reads more than was written", job->what);
	check(job->what, buf, stream->bytes + stream->nr_got, nr);
	stream->nr_got += nr;
}

void fail_stream_close(struct fail_stream *stream)
{
	const size_t nr = stream->nr_put - stream->nr_got;
	char rest[FAIL_STREAM_BYTES + 1];
	ssize_t got;

	need(fcntl(stream->from, F_SETFL, O_NONBLOCK) == 0,
	     "a stream cannot be read");
	got = read(stream->from, rest, sizeof(rest));
	if (got < 0 && errno == EAGAIN)
		got = 0;
	need(got == (ssize_t)nr, "a stream has %zd bytes left, not %zu", got,
	     nr);
	check("what a stream has left", rest, stream->bytes + stream->nr_got,
	      nr);
	unit_close(stream->from);
	unit_close(stream->to);
}

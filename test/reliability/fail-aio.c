/* SPDX-License-Identifier: MIT */
/*
 * fail-each's workloads of kernel AIO: files, streams, O_DIRECT, and requests during a
 * fork
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sleep.h"
#include "aio/aio.h"
#include "unit.h"
#include "fail-each.h"

enum { NR_MAX = 32, PIECE = 24, DIRECT = 4096, DIRECT_BLOCKS = 3 };

static struct {
	uint64_t handle;
	int resfd;
	unsigned nr, nr_sent, nr_pending, nr_signals;
	struct fail_job jobs[NR_MAX];
	struct iocb iocbs[NR_MAX];
} aio;

/*
 * Requests
 */

static struct fail_job *add(const char *what, unsigned opcode, int fd,
			    const void *buf, size_t nr, int64_t off,
			    int64_t asked)
{
	struct iocb *iocb = &aio.iocbs[aio.nr];
	struct fail_job *job = &aio.jobs[aio.nr];

	need(aio.nr < NR_MAX, "there are too many requests");
	*iocb = unit_iocb(opcode, fd, (void *)(uintptr_t)buf, nr, off);
	iocb->aio_data = aio.nr++;
	*job = (struct fail_job){ .what = what, .asked = asked };
	return job;
}

/* Make the most recently added request signal the eventfd. */
static void add_signal(void)
{
	struct iocb *iocb = &aio.iocbs[aio.nr - 1];

	iocb->aio_flags |= IOCB_FLAG_RESFD;
	iocb->aio_resfd = (uint32_t)aio.resfd;
}

/* Submit the added requests. If io_submit refuses a request, skip that request. */
static void submit(void)
{
	struct iocb *list[NR_MAX];

	for (unsigned i = 0; i < aio.nr; i++)
		list[i] = &aio.iocbs[i];
	/* Set the flags first: a request may complete before io_submit returns. */
	for (unsigned i = aio.nr_sent; i < aio.nr; i++)
		aio.jobs[i].is_accepted = aio.jobs[i].is_pending = true;
	while (aio.nr_sent < aio.nr) {
		long ret = uaio_aio_submit(aio.handle, aio.nr - aio.nr_sent,
					   list + aio.nr_sent);

		if (ret > 0) {
			aio.nr_pending += (unsigned)ret;
			aio.nr_sent += (unsigned)ret;
			continue;
		}
		need(ret < 0 && fail_may_refuse((int)-ret),
		     "io_submit of %s returns %ld", aio.jobs[aio.nr_sent].what,
		     ret);
		aio.jobs[aio.nr_sent].is_accepted = false;
		aio.jobs[aio.nr_sent++].is_pending = false;
	}
}

static const char *first_pending(void)
{
	for (unsigned i = 0; i < aio.nr; i++)
		if (aio.jobs[i].is_pending)
			return aio.jobs[i].what;
	return "nothing";
}

/* Wait until this request is complete; NULL: until all are. */
static void await(const struct fail_job *job)
{
	const struct timespec patience = { FAIL_PATIENCE_S, 0 };
	struct uaio_event events[NR_MAX];

	while (job ? job->is_pending : aio.nr_pending > 0) {
		long ret = uaio_aio_getevents(aio.handle, 1, NR_MAX, events,
					      &patience);

		need(ret != 0, "no event comes for %s",
		     job ? job->what : first_pending());
		need(ret > 0 || ret == -EINTR || fail_may_refuse((int)-ret),
		     "io_getevents returns %ld", ret);
		need(ret != -EINTR || !fail_is_strict,
		     "io_getevents is interrupted");
		for (long i = 0; i < ret; i++) {
			need(events[i].data < aio.nr, "an event is nobody's");
			fail_complete(&aio.jobs[events[i].data], events[i].res);
			aio.nr_pending--;
			aio.nr_signals += aio.iocbs[events[i].data].aio_flags &
					  IOCB_FLAG_RESFD;
		}
	}
}

/* Free the slots of all requests, which must be complete. */
static void clear(void)
{
	need(aio.nr_pending == 0, "%s is left", first_pending());
	aio.nr = aio.nr_sent = 0;
}

static void begin(void)
{
	long ret;

	memset(&aio, 0, sizeof(aio));
	ret = uaio_aio_setup(NR_MAX, &aio.handle);
	if (ret < 0) {
		need(fail_may_refuse((int)-ret), "io_setup returns %ld", ret);
		ret = uaio_aio_setup(NR_MAX, &aio.handle);
	}
	need(ret == 0, "io_setup returns %ld", ret);
	aio.resfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	need(aio.resfd >= 0, "there is no eventfd");
}

/* Destroy the context. Its requests that still wait are cancelled. */
static void end(void)
{
	long ret = uaio_aio_destroy(aio.handle);

	need(ret == 0, "io_destroy returns %ld", ret);
	unit_close(aio.resfd);
}

/* Check that the eventfd has counted each event of the requests that signal it. */
static void check_signals(void)
{
	const int64_t until =
		uaio_now_ns() + FAIL_PATIENCE_S * INT64_C(1000000000);
	uint64_t sum = 0, nr;

	/* An event may be in the ring a moment before the eventfd counts it. */
	while (sum < aio.nr_signals && uaio_now_ns() < until) {
		if (read(aio.resfd, &nr, sizeof(nr)) > 0)
			sum += nr;
		else
			sched_yield();
	}
	need(sum == aio.nr_signals, "the eventfd counts %llu of %u events",
	     (unsigned long long)sum, aio.nr_signals);
}

/*
 * Files
 */

static void write_files(struct fail_file *files, unsigned nr)
{
	struct fail_job *syncs[4], *writes[2][FAIL_BLOCKS];
	unsigned nr_syncs = 0;

	for (unsigned f = 0; f < nr; f++) {
		/*
		 * Add the last block first: its write has a long vector, which
		 * io_submit must copy. If the copy fails in the first iocb,
		 * io_submit must return an error, not a count.
		 */
		for (unsigned i = FAIL_BLOCKS; i-- > 0;) {
			struct fail_block *block = &files[f].blocks[i];
			bool is_plain = block->nr_pieces == 1;

			writes[f][i] = add(
				is_plain ? "a write" : "a vectored write",
				is_plain ? IOCB_CMD_PWRITE : IOCB_CMD_PWRITEV,
				files[f].fd,
				is_plain ? block->out : (void *)block->outs,
				is_plain ? FAIL_BLOCK : block->nr_pieces,
				(int64_t)i * FAIL_BLOCK, FAIL_BLOCK);
			if (i == 1)
				add_signal();
		}
		syncs[nr_syncs++] = add("fsync", IOCB_CMD_FSYNC, files[f].fd,
					NULL, 0, 0, 0);
		syncs[nr_syncs++] = add("fdatasync", IOCB_CMD_FDSYNC,
					files[f].fd, NULL, 0, 0, 0);
		add_signal();
	}
	submit();
	await(NULL);
	for (unsigned i = 0; i < nr_syncs; i++)
		fail_judge_value(syncs[i]);
	for (unsigned f = 0; f < nr; f++)
		for (unsigned i = 0; i < FAIL_BLOCKS; i++)
			fail_file_written(&files[f], i, writes[f][i]);
	clear();
}

static void read_files(struct fail_file *files, unsigned nr)
{
	struct fail_job *reads[2][FAIL_BLOCKS];

	for (unsigned f = 0; f < nr; f++)
		for (unsigned i = 0; i < FAIL_BLOCKS; i++) {
			struct fail_block *block = &files[f].blocks[i];
			bool is_plain = block->nr_pieces == 1;

			reads[f][i] =
				add(is_plain ? "a read" : "a vectored read",
				    is_plain ? IOCB_CMD_PREAD : IOCB_CMD_PREADV,
				    files[f].fd,
				    is_plain ? block->in : (void *)block->ins,
				    is_plain ? FAIL_BLOCK : block->nr_pieces,
				    (int64_t)i * FAIL_BLOCK, FAIL_BLOCK);
			if (i == 2)
				add_signal();
		}
	submit();
	await(NULL);
	for (unsigned f = 0; f < nr; f++)
		for (unsigned i = 0; i < FAIL_BLOCKS; i++)
			fail_file_read(&files[f], i, reads[f][i]);
	clear();
}

static void work_on_files(void)
{
	static struct fail_file files[2];

	for (unsigned i = 0; i < 2; i++)
		fail_file_open(&files[i], unit_file(i), 3 + 10 * i);
	write_files(files, 2);
	fail_file_cool(&files[0]);
	read_files(files, 2);
	for (unsigned i = 0; i < 2; i++)
		unit_close(files[i].fd);
}

/*
 * Streams
 */

/* Two reads and a poll wait. Then one write wakes them all. */
static void work_on_stream(bool is_socket)
{
	static struct fail_stream stream;
	static char bufs[2][PIECE];
	struct iovec halves[] = { { bufs[1], PIECE / 2 },
				  { bufs[1] + PIECE / 2, PIECE / 2 } };
	struct fail_job *poll, *reads[2], *write;

	fail_stream_open(&stream, is_socket, 77);
	poll = add("a poll", IOCB_CMD_POLL, stream.from, (void *)POLLIN, 0, 0,
		   POLLIN);
	add_signal();
	reads[0] = add("the first read of a stream", IOCB_CMD_PREAD,
		       stream.from, bufs[0], PIECE, 0, PIECE);
	reads[1] = add("the second read of a stream", IOCB_CMD_PREADV,
		       stream.from, halves, 2, 0, PIECE);
	add_signal();
	submit();
	write = add("a write to a stream", IOCB_CMD_PWRITE, stream.to,
		    fail_stream_next(&stream, 3 * PIECE), 3 * PIECE, 0,
		    3 * PIECE);
	submit();
	await(write);
	fail_stream_written(&stream, 3 * PIECE, write);
	await(NULL);
	fail_judge_value(poll);
	for (unsigned i = 0; i < 2; i++)
		fail_stream_read(&stream, bufs[i], reads[i]);
	fail_stream_close(&stream);
	clear();
}

/*
 * Cancel a poll of one pipe. Then close the descriptor of another pipe, on which a read
 * waits. The read must still complete.
 */
static void cancel_and_close(void)
{
	static struct fail_stream idle, closed;
	static char buf[PIECE];
	struct fail_job *poll, *read;
	struct iocb *iocb;
	long ret = -EINVAL;
	int kept;

	fail_stream_open(&idle, false, 5);
	fail_stream_open(&closed, false, 6);
	/*
	 * Keep a duplicate of the descriptor. After the descriptor is closed, the test
	 * counts, by the duplicate, the bytes that the pipe still contains.
	 */
	kept = fcntl(closed.from, F_DUPFD_CLOEXEC, 0);
	need(kept >= 0, "there is no descriptor");
	iocb = &aio.iocbs[aio.nr];
	poll = add("a poll that is cancelled", IOCB_CMD_POLL, idle.from,
		   (void *)POLLIN, 0, 0, 0);
	read = add("a read whose descriptor is closed", IOCB_CMD_PREAD,
		   closed.from, buf, PIECE, 0, PIECE);
	/*
	 * If the library cannot duplicate the descriptor, the read may fail with EBADF
	 * (doc/differences.md).
	 */
	read->also = EBADF;
	submit();
	if (poll->is_accepted)
		ret = uaio_aio_cancel(aio.handle, iocb);
	need(ret == -EINPROGRESS || !poll->is_accepted ||
		     fail_may_refuse((int)-ret) ||
		     (ret == -EINVAL && !fail_is_strict),
	     "io_cancel returns %ld", ret);
	unit_close(closed.from);
	closed.from = kept;
	fail_stream_put(&closed, PIECE);
	/* If the poll could not be cancelled, this write completes it. */
	if (ret != -EINPROGRESS) {
		poll->asked = POLLIN;
		fail_stream_put(&idle, 1);
	}
	await(NULL);
	fail_judge_value(poll);
	fail_stream_read(&closed, buf, read);
	fail_stream_close(&idle);
	fail_stream_close(&closed);
	clear();
}

/* Submit a poll and a read that still wait when the caller destroys the context. */
static void leave_waiting(struct fail_stream *stream)
{
	static char buf[PIECE];

	fail_stream_open(stream, false, 9);
	add("a poll that is left", IOCB_CMD_POLL, stream->from, (void *)POLLIN,
	    0, 0, 0);
	add("a read that is left", IOCB_CMD_PREAD, stream->from, buf, PIECE, 0,
	    PIECE);
	submit();
}

void fail_work_files(void)
{
	begin();
	work_on_files();
	check_signals();
	end();
}

void fail_work_aio(void)
{
	static struct fail_stream left;

	begin();
	work_on_files();
	work_on_stream(false);
	work_on_stream(true);
	cancel_and_close();
	check_signals();
	leave_waiting(&left);
	end();
	fail_stream_close(&left);
}

/* O_DIRECT requests, which the kernel's own AIO or io_uring may execute */

static char direct[2][DIRECT_BLOCKS * DIRECT] __attribute__((aligned(DIRECT)));

/*
 * Return: a second descriptor of the file, with O_DIRECT if the file system supports
 * that.
 */
static int reopen_direct(int fd)
{
	char path[32];
	int other;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (other < 0)
		other = open(path, O_RDWR | O_CLOEXEC);
	need(other >= 0, "a file cannot be opened");
	return other;
}

static int64_t direct_off(unsigned i)
{
	return (1 + (int64_t)i) * DIRECT;
}

static void check_direct(const struct fail_job *job, unsigned i)
{
	fail_judge_count(job);
	need(!job->is_accepted || job->res < 0 ||
		     !memcmp(direct[0] + i * DIRECT, direct[1] + i * DIRECT,
			     (size_t)job->res),
	     "%s moves wrong bytes", job->what);
}

static void write_direct(const struct fail_file *file)
{
	struct fail_job *jobs[DIRECT_BLOCKS];

	for (unsigned i = 0; i < DIRECT_BLOCKS; i++) {
		memset(direct[0] + i * DIRECT, 'a' + (int)i, DIRECT);
		jobs[i] = add("a direct write", IOCB_CMD_PWRITE, file->fd,
			      direct[0] + i * DIRECT, DIRECT, direct_off(i),
			      DIRECT);
	}
	submit();
	await(NULL);
	for (unsigned i = 0; i < DIRECT_BLOCKS; i++) {
		(void)!pread(file->plain, direct[1] + i * DIRECT, DIRECT,
			     direct_off(i));
		check_direct(jobs[i], i);
		need(pwrite(file->plain, direct[0] + i * DIRECT, DIRECT,
			    direct_off(i)) == DIRECT,
		     "a file cannot be written");
	}
	clear();
}

static void read_direct(const struct fail_file *file)
{
	struct fail_job *jobs[DIRECT_BLOCKS];

	memset(direct[1], 0, sizeof(direct[1]));
	for (unsigned i = 0; i < DIRECT_BLOCKS; i++)
		jobs[i] = add("a direct read", IOCB_CMD_PREAD, file->fd,
			      direct[1] + i * DIRECT, DIRECT, direct_off(i),
			      DIRECT);
	submit();
	await(NULL);
	for (unsigned i = 0; i < DIRECT_BLOCKS; i++)
		check_direct(jobs[i], i);
	clear();
}

/* Write and read aligned blocks, then misaligned pieces. */
void fail_work_direct(void)
{
	static struct fail_file file;

	begin();
	fail_file_open(&file, unit_file(false), 33);
	file.fd = reopen_direct(file.plain);
	write_direct(&file);
	read_direct(&file);
	write_files(&file, 1);
	read_files(&file, 1);
	check_signals();
	unit_close(file.fd);
	unit_close(file.plain);
	end();
}

/*
 * fork
 */

static void work_in_child(void)
{
	begin();
	work_on_files();
	work_on_stream(false);
	end();
}

/* A read waits in the parent while a child of fork() uses a context of its own. */
void fail_work_fork(void)
{
	static struct fail_stream stream;
	static char buf[PIECE];
	struct fail_job *read;
	int status = 0;
	pid_t pid;

	begin();
	fail_stream_open(&stream, true, 21);
	read = add("a read beside a fork", IOCB_CMD_PREAD, stream.from, buf,
		   PIECE, 0, PIECE);
	submit();
	pid = fork();
	need(pid >= 0, "there is no child");
	if (pid == 0) {
		alarm(FAIL_PATIENCE_S);
		work_in_child();
		_exit(0);
	}
	need(waitpid(pid, &status, 0) == pid, "the child is lost");
	/* Status 1: the child has already printed why it failed. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		_exit(1);
	need(status == 0, "the child ends with status 0x%x", status);
	fail_stream_put(&stream, PIECE);
	await(NULL);
	fail_stream_read(&stream, buf, read);
	clear();
	work_on_files();
	fail_stream_close(&stream);
	end();
}

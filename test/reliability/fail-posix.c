/* SPDX-License-Identifier: MIT */
/*
 * fail-each's workload of POSIX AIO: files, streams, lists, cancels and notifications
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "posix/posix.h"
#include "unit.h"
#include "fail-each.h"

enum { NR_MAX = 32, PIECE = 24 };

static struct {
	unsigned nr;
	uint32_t nr_calls,
		nr_signals; /* atomic: notifications that have arrived */
	uint32_t nr_calls_due, nr_signals_due;
	struct fail_job jobs[NR_MAX];
	struct aiocb aiocbs[NR_MAX];
} posix;

static void call(union sigval value)
{
	(void)value;
	add_relaxed(&posix.nr_calls, 1);
}

static void on_signal(int sig)
{
	(void)sig;
	add_relaxed(&posix.nr_signals, 1);
}

static int signal_number(void)
{
	return SIGRTMIN + 1;
}

/*
 * Requests
 */

static struct aiocb *add(const char *what, int opcode, int fd, const void *buf,
			 size_t nr, off_t off, int64_t asked)
{
	struct aiocb *aiocb = &posix.aiocbs[posix.nr];

	need(posix.nr < NR_MAX, "there are too many requests");
	posix.jobs[posix.nr++] =
		(struct fail_job){ .what = what, .asked = asked };
	memset(aiocb, 0, sizeof(*aiocb));
	aiocb->aio_fildes = fd;
	aiocb->aio_lio_opcode = opcode;
	aiocb->aio_buf = (void *)(uintptr_t)buf;
	aiocb->aio_nbytes = nr;
	aiocb->aio_offset = off;
	aiocb->aio_sigevent.sigev_notify = SIGEV_NONE;
	return aiocb;
}

static struct fail_job *job_of(const struct aiocb *aiocb)
{
	return &posix.jobs[aiocb - posix.aiocbs];
}

static void notify(struct aiocb *aiocb, int how)
{
	aiocb->aio_sigevent.sigev_notify = how;
	if (how == SIGEV_SIGNAL) {
		aiocb->aio_sigevent.sigev_signo = signal_number();
		return;
	}
	aiocb->aio_sigevent.sigev_notify_function = call;
	aiocb->aio_sigevent.sigev_notify_attributes = NULL;
}

static void count_notice(const struct aiocb *aiocb)
{
	posix.nr_calls_due += aiocb->aio_sigevent.sigev_notify == SIGEV_THREAD;
	posix.nr_signals_due +=
		aiocb->aio_sigevent.sigev_notify == SIGEV_SIGNAL;
}

static void submit(struct aiocb *aiocb)
{
	struct fail_job *job = job_of(aiocb);
	int ret;

	switch (aiocb->aio_lio_opcode) {
	case LIO_READ: ret = uaio_posix_read(aiocb); break;
	case LIO_WRITE: ret = uaio_posix_write(aiocb); break;
	default: ret = uaio_posix_fsync(O_SYNC, aiocb);
	}
	need(ret == 0 || fail_may_refuse(-ret), "the call for %s returns %d",
	     job->what, ret);
	job->is_accepted = job->is_pending = ret == 0;
	if (ret == 0)
		count_notice(aiocb);
}

static void await(const struct aiocb *aiocb)
{
	const struct timespec patience = { FAIL_PATIENCE_S, 0 };
	struct fail_job *job = job_of(aiocb);
	int error;

	if (!job->is_pending)
		return;
	while ((error = uaio_posix_error(aiocb)) == EINPROGRESS) {
		const int64_t before = uaio_now_ns();
		int ret = uaio_posix_suspend(&aiocb, 1, &patience);

		need(uaio_now_ns() - before < FAIL_PATIENCE_S * 1000000000ll,
		     "%s does not end", job->what);
		/* The signal of a notification may interrupt aio_suspend. */
		need(ret == 0 || ret == -EINTR || fail_may_refuse(-ret),
		     "aio_suspend returns %d", ret);
	}
	fail_complete(job, error ? -error : aiocb->UAIO_AIOCB_RESULT);
}

static void await_all(void)
{
	for (unsigned i = 0; i < posix.nr; i++)
		await(&posix.aiocbs[i]);
}

/* Check that each request that wanted a notification has had it. */
static void check_notices(void)
{
	const int64_t until =
		uaio_now_ns() + FAIL_PATIENCE_S * INT64_C(1000000000);
	uint32_t nr_calls, nr_signals;

	do {
		sched_yield();
		nr_calls = load_relaxed(&posix.nr_calls);
		nr_signals = load_relaxed(&posix.nr_signals);
	} while ((nr_calls < posix.nr_calls_due ||
		  nr_signals < posix.nr_signals_due) &&
		 uaio_now_ns() < until);
	need(nr_calls == posix.nr_calls_due, "%u of %u functions are called",
	     nr_calls, posix.nr_calls_due);
	need(nr_signals == posix.nr_signals_due, "%u of %u signals come",
	     nr_signals, posix.nr_signals_due);
}

/*
 * Work
 */

static void write_file(struct fail_file *file)
{
	struct aiocb *writes[FAIL_BLOCKS], *sync;

	for (unsigned i = 0; i < FAIL_BLOCKS; i++) {
		writes[i] =
			add("a write", LIO_WRITE, file->fd, file->blocks[i].out,
			    FAIL_BLOCK, (off_t)i * FAIL_BLOCK, FAIL_BLOCK);
		if (i)
			notify(writes[i], i == 1 ? SIGEV_THREAD : SIGEV_SIGNAL);
		submit(writes[i]);
	}
	sync = add("aio_fsync", LIO_NOP, file->fd, NULL, 0, 0, 0);
	submit(sync);
	await_all();
	fail_judge_value(job_of(sync));
	for (unsigned i = 0; i < FAIL_BLOCKS; i++)
		fail_file_written(file, i, job_of(writes[i]));
}

/* Read the file by lio_listio(), which waits for the reads. */
static void read_file(struct fail_file *file)
{
	struct aiocb *reads[FAIL_BLOCKS];
	int ret;

	for (unsigned i = 0; i < FAIL_BLOCKS; i++)
		reads[i] = add("a read of a list", LIO_READ, file->fd,
			       file->blocks[i].in, FAIL_BLOCK,
			       (off_t)i * FAIL_BLOCK, FAIL_BLOCK);
	notify(reads[2], SIGEV_THREAD);
	/*
	 * Set an error before the call. If lio_listio() fails before it submits a
	 * request, the request keeps this error, and so counts as refused.
	 */
	for (unsigned i = 0; i < FAIL_BLOCKS; i++)
		reads[i]->UAIO_AIOCB_ERROR = EAGAIN;
	ret = uaio_posix_listio(LIO_WAIT, reads, FAIL_BLOCKS, NULL);
	need(ret == 0 || ret == -EINTR || ret == -EIO || fail_may_refuse(-ret),
	     "lio_listio returns %d", ret);
	need(ret == 0 || !fail_is_strict || ret == -EINTR,
	     "lio_listio returns %d", ret);
	for (unsigned i = 0; i < FAIL_BLOCKS; i++) {
		int error = uaio_posix_error(reads[i]);

		/* EAGAIN: lio_listio() refused the request. */
		job_of(reads[i])->is_accepted = error != EAGAIN;
		job_of(reads[i])->is_pending = error != EAGAIN;
		if (error == EAGAIN)
			need(ret != 0 && !fail_is_strict,
			     "lio_listio returns 0, and refuses a read");
		else
			count_notice(reads[i]);
	}
	await_all();
	for (unsigned i = 0; i < FAIL_BLOCKS; i++)
		fail_file_read(file, i, job_of(reads[i]));
}

static void work_on_files(void)
{
	static struct fail_file file;

	for (unsigned i = 0; i < 2; i++) {
		fail_file_open(&file, unit_file(i), 120 + 10 * i);
		write_file(&file);
		read_file(&file);
		unit_close(file.fd);
		posix.nr = 0;
	}
}

static void work_on_stream(bool is_socket)
{
	static struct fail_stream stream;
	static char bufs[2][PIECE];
	struct aiocb *reads[2], *write;

	fail_stream_open(&stream, is_socket, 140 + is_socket);
	for (unsigned i = 0; i < 2; i++) {
		reads[i] = add("a read of a stream", LIO_READ, stream.from,
			       bufs[i], PIECE, 0, PIECE);
		notify(reads[i], i ? SIGEV_THREAD : SIGEV_SIGNAL);
		submit(reads[i]);
	}
	write = add("a write to a stream", LIO_WRITE, stream.to,
		    fail_stream_next(&stream, 3 * PIECE), 3 * PIECE, 0,
		    3 * PIECE);
	submit(write);
	await(write);
	fail_stream_written(&stream, 3 * PIECE, job_of(write));
	await_all();
	for (unsigned i = 0; i < 2; i++)
		fail_stream_read(&stream, bufs[i], job_of(reads[i]));
	fail_stream_close(&stream);
	posix.nr = 0;
}

/*
 * Cancel a read of one pipe. Then close the descriptor of another pipe, on which a read
 * waits. That read must still complete.
 */
static void cancel_and_close(void)
{
	static struct fail_stream idle, closed;
	static char byte, buf[PIECE];
	struct aiocb *cancelled, *kept;
	int ret, fd;

	fail_stream_open(&idle, false, 150);
	fail_stream_open(&closed, false, 151);
	fd = fcntl(closed.from, F_DUPFD_CLOEXEC, 0);
	need(fd >= 0, "there is no descriptor");
	cancelled = add("a read that is cancelled", LIO_READ, idle.from, &byte,
			1, 0, -ECANCELED);
	kept = add("a read whose descriptor is closed", LIO_READ, closed.from,
		   buf, PIECE, 0, PIECE);
	/*
	 * If the library cannot duplicate the descriptor, the read may fail with EBADF
	 * (doc/differences.md).
	 */
	job_of(kept)->also = EBADF;
	submit(cancelled);
	submit(kept);
	ret = uaio_posix_cancel(idle.from, cancelled);
	need(ret == AIO_CANCELED ||
		     (!fail_is_strict &&
		      (ret == AIO_ALLDONE || ret == AIO_NOTCANCELED ||
		       fail_may_refuse(-ret))),
	     "aio_cancel returns %d", ret);
	if (ret != AIO_CANCELED && ret != AIO_ALLDONE) {
		job_of(cancelled)->asked = 1;
		fail_stream_put(&idle, 1);
	}
	unit_close(closed.from);
	closed.from = fd;
	fail_stream_put(&closed, PIECE);
	await_all();
	if (job_of(cancelled)->asked == 1)
		fail_stream_read(&idle, &byte, job_of(cancelled));
	else
		fail_judge_value(job_of(cancelled));
	fail_stream_read(&closed, buf, job_of(kept));
	fail_stream_close(&idle);
	fail_stream_close(&closed);
	posix.nr = 0;
}

void fail_work_posix(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	memset(&posix, 0, sizeof(posix));
	need(sigaction(signal_number(), &action, NULL) == 0,
	     "a signal has no handler");
	work_on_files();
	work_on_stream(false);
	work_on_stream(true);
	cancel_and_close();
	check_notices();
}

/* SPDX-License-Identifier: MIT */
/*
 * fail-each's workload of io_uring on files and timers, with registered files and
 * buffers
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "fail-ring.h"

enum { ENTRIES = 64, TRIES = 100, NS_SOON = 1000000 };

static struct {
	struct uring uring;
	struct io_uring_sqe *last;
	unsigned nr, nr_pending, nr_sent;
	struct fail_job jobs[ENTRIES];
} ring;

/*
 * The client
 */

/*
 * Return: whether io_uring_setup() or io_uring_register() may fail with this error.
 */
static bool may_refuse_setup(int error)
{
	return fail_may_refuse(error) ||
	       (!fail_is_strict && (error == EMFILE || error == ENFILE ||
				    error == EPERM || error == EBUSY));
}

void fail_ring_open(void)
{
	const struct io_uring_params params = { 0 };
	long ret;

	memset(&ring, 0, sizeof(ring));
	ret = uring_open(&ring.uring, ENTRIES, &params);
	if (ret < 0) {
		need(may_refuse_setup((int)-ret), "io_uring_setup returns %ld",
		     ret);
		ret = uring_open(&ring.uring, ENTRIES, &params);
	}
	need(ret == 0, "io_uring_setup returns %ld", ret);
}

void fail_ring_close(void)
{
	uring_unmap(&ring.uring);
	unit_close(ring.uring.fd);
}

void fail_ring_register(uint32_t opcode, const void *arg, uint32_t nr_args)
{
	long ret = uring_register(ring.uring.fd, opcode, arg, nr_args);

	if (ret < 0) {
		need(may_refuse_setup((int)-ret),
		     "io_uring_register %u returns %ld", opcode, ret);
		ret = uring_register(ring.uring.fd, opcode, arg, nr_args);
	}
	need(ret == 0, "io_uring_register %u returns %ld", opcode, ret);
}

struct fail_job *fail_ring_add(const char *what, int opcode, int fd,
			       const void *addr, size_t len, int64_t off,
			       int64_t asked)
{
	struct fail_job *job = &ring.jobs[ring.nr];

	need(ring.nr < ENTRIES, "there are too many requests");
	*job = (struct fail_job){ .what = what, .asked = asked };
	ring.last = uring_put_rw(&ring.uring, opcode, fd, (uintptr_t)addr, len,
				 (uint64_t)off, ring.nr++);
	return job;
}

struct io_uring_sqe *fail_ring_sqe(void)
{
	return ring.last;
}

uint64_t fail_ring_name(const struct fail_job *job)
{
	return (uint64_t)(job - ring.jobs);
}

/*
 * Submit the added requests. If the ring does not accept all, submit the rest again.
 */
void fail_ring_submit(void)
{
	uint32_t left = uring_publish(&ring.uring);
	unsigned nr_tries = 0;

	for (; ring.nr_sent < ring.nr; ring.nr_sent++, ring.nr_pending++)
		ring.jobs[ring.nr_sent].is_accepted =
			ring.jobs[ring.nr_sent].is_pending = true;
	while (left) {
		long ret = uring_enter(ring.uring.fd, left, 0, 0, NULL, 0);

		need(ret > 0 || (ret == 0 && !fail_is_strict) ||
			     fail_may_refuse((int)-ret),
		     "io_uring_enter submits and returns %ld", ret);
		need(++nr_tries < TRIES, "io_uring_enter takes no request");
		left -= ret > 0 ? (uint32_t)ret : 0;
	}
}

static const char *first_pending(void)
{
	for (unsigned i = 0; i < ring.nr; i++)
		if (ring.jobs[i].is_pending)
			return ring.jobs[i].what;
	return "nothing";
}

static void take_all(fail_shot_fn *shot)
{
	struct io_uring_cqe cqe;

	while (uring_take(&ring.uring, &cqe)) {
		struct fail_job *job = &ring.jobs[cqe.user_data];

		need(cqe.user_data < ring.nr, "a completion is nobody's");
		need(job->is_pending, "%s has a completion too many",
		     job->what);
		if (shot)
			shot(job, &cqe);
		if (cqe.flags & IORING_CQE_F_MORE)
			continue;
		fail_complete(job, cqe.res);
		ring.nr_pending--;
	}
}

static void sleep_in_ring(const char *what)
{
	const struct __kernel_timespec patience = { .tv_sec = FAIL_PATIENCE_S };
	const struct io_uring_getevents_arg arg = {
		.ts = (uintptr_t)&patience
	};
	long ret = uring_enter(ring.uring.fd, 0, 1,
			       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
			       &arg, sizeof(arg));

	need(ret != -ETIME, "no completion comes for %s", what);
	need(ret == 0 || (ret == -EINTR && !fail_is_strict) ||
		     fail_may_refuse((int)-ret),
	     "io_uring_enter waits and returns %ld", ret);
}

void fail_ring_await_shots(const struct fail_job *job, fail_shot_fn *shot,
			   const size_t *nr, size_t min)
{
	for (;;) {
		take_all(shot);
		if (job ? !job->is_pending : !ring.nr_pending)
			return;
		if (nr && *nr >= min)
			return;
		sleep_in_ring(job ? job->what : first_pending());
	}
}

void fail_ring_await(const struct fail_job *job, fail_shot_fn *shot)
{
	fail_ring_await_shots(job, shot, NULL, 0);
}

void fail_ring_clear(void)
{
	need(ring.nr_pending == 0, "%s is left", first_pending());
	ring.nr = ring.nr_sent = 0;
}

void fail_ring_cancel(struct fail_job *job, fail_shot_fn *shot)
{
	struct fail_job *cancel = NULL;

	/* A fault may let one cancel request fail, so submit a second one then. */
	for (unsigned i = 0; i < 2 && (!cancel || cancel->res < 0); i++) {
		cancel = fail_ring_add("a cancellation", IORING_OP_ASYNC_CANCEL,
				       -1, NULL, 0, 0, 0);
		fail_ring_sqe()->addr = fail_ring_name(job);
		fail_ring_submit();
		fail_ring_await(cancel, shot);
		/*
		 * There was nothing to cancel: the request had completed before, or a
		 * worker is executing it.
		 */
		if (!fail_is_strict &&
		    (cancel->res == -ENOENT || cancel->res == -EALREADY))
			break;
		fail_judge_value(cancel);
	}
	fail_ring_await(job, shot);
}

/*
 * Files
 */

static struct fail_file files[2];

/*
 * Read or write block i of file f. The first block uses a registered buffer (file 0) or
 * a registered file (file 1). The second block is left to a worker (IOSQE_ASYNC).
 */
static struct fail_job *add_block(unsigned f, unsigned i, bool is_write)
{
	struct fail_block *block = &files[f].blocks[i];
	void *vector = is_write ? block->outs : block->ins;
	void *bytes = is_write ? block->out : block->in;
	const int64_t off = (int64_t)i * FAIL_BLOCK;
	struct fail_job *job;

	if (i > 0) {
		job = fail_ring_add(
			is_write ? "a vectored write" : "a vectored read",
			is_write ? IORING_OP_WRITEV : IORING_OP_READV,
			files[f].fd, vector, block->nr_pieces, off, FAIL_BLOCK);
		fail_ring_sqe()->flags = i == 1 ? IOSQE_ASYNC : 0;
		return job;
	}
	if (f == 0) {
		job = fail_ring_add(
			is_write ? "a write from a registered buffer"
				 : "a read to a registered buffer",
			is_write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED,
			files[f].fd, bytes, FAIL_BLOCK, off, FAIL_BLOCK);
		fail_ring_sqe()->buf_index = is_write ? 0 : 1;
		return job;
	}
	job = fail_ring_add(is_write ? "a write to a registered file"
				     : "a read of a registered file",
			    is_write ? IORING_OP_WRITE : IORING_OP_READ, (int)f,
			    bytes, FAIL_BLOCK, off, FAIL_BLOCK);
	fail_ring_sqe()->flags = IOSQE_FIXED_FILE;
	return job;
}

/*
 * Write the blocks of two files. An fsync is linked to the last write of each file.
 */
static void write_files(void)
{
	struct fail_job *writes[2][FAIL_BLOCKS], *syncs[2];

	for (unsigned f = 0; f < 2; f++) {
		for (unsigned i = 0; i < FAIL_BLOCKS; i++)
			writes[f][i] = add_block(f, i, true);
		fail_ring_sqe()->flags |= IOSQE_IO_LINK;
		syncs[f] = fail_ring_add("a linked fsync", IORING_OP_FSYNC,
					 files[f].fd, NULL, 0, 0, 0);
	}
	fail_ring_submit();
	fail_ring_await(NULL, NULL);
	for (unsigned f = 0; f < 2; f++) {
		const struct fail_job *last = writes[f][FAIL_BLOCKS - 1];

		for (unsigned i = 0; i < FAIL_BLOCKS; i++)
			fail_file_written(&files[f], i, writes[f][i]);
		if (syncs[f]->res != -ECANCELED || last->res == FAIL_BLOCK)
			fail_judge_value(syncs[f]);
	}
	fail_ring_clear();
}

static void read_files(void)
{
	struct fail_job *reads[2][FAIL_BLOCKS];

	for (unsigned f = 0; f < 2; f++)
		for (unsigned i = 0; i < FAIL_BLOCKS; i++)
			reads[f][i] = add_block(f, i, false);
	fail_ring_submit();
	fail_ring_await(NULL, NULL);
	for (unsigned f = 0; f < 2; f++)
		for (unsigned i = 0; i < FAIL_BLOCKS; i++)
			fail_file_read(&files[f], i, reads[f][i]);
	fail_ring_clear();
}

static void work_on_files(void)
{
	struct iovec buffers[2];
	int fds[2];

	for (unsigned i = 0; i < 2; i++) {
		fail_file_open(&files[i], unit_file(i), 50 + 10 * i);
		fds[i] = files[i].fd;
	}
	buffers[0] = (struct iovec){ files[0].blocks[0].out, FAIL_BLOCK };
	buffers[1] = (struct iovec){ files[0].blocks[0].in, FAIL_BLOCK };
	fail_ring_register(IORING_REGISTER_FILES, fds, 2);
	fail_ring_register(IORING_REGISTER_BUFFERS, buffers, 2);
	write_files();
	read_files();
	fail_ring_register(IORING_UNREGISTER_BUFFERS, NULL, 0);
	fail_ring_register(IORING_UNREGISTER_FILES, NULL, 0);
	for (unsigned i = 0; i < 2; i++)
		unit_close(files[i].fd);
}

/*
 * Timers
 */

static const struct __kernel_timespec soon = { .tv_nsec = NS_SOON };
static const struct __kernel_timespec late = { .tv_sec = 10 * FAIL_PATIENCE_S };

static void wait_for_times(void)
{
	struct fail_job *nop, *expires, *removed;

	nop = fail_ring_add("a no-op", IORING_OP_NOP, -1, NULL, 0, 0, 0);
	expires = fail_ring_add("a timeout", IORING_OP_TIMEOUT, -1, &soon, 1, 0,
				-ETIME);
	removed = fail_ring_add("a timeout that is cancelled",
				IORING_OP_TIMEOUT, -1, &late, 1, 0, -ECANCELED);
	fail_ring_submit();
	fail_ring_await(expires, NULL);
	fail_ring_cancel(removed, NULL);
	fail_ring_await(NULL, NULL);
	fail_judge_value(nop);
	fail_judge_value(expires);
	fail_judge_value(removed);
	fail_ring_clear();
}

/* A read of an empty pipe, which its linked timeout cancels. */
static void read_until_a_time(void)
{
	static struct fail_stream stream;
	static char byte;
	struct fail_job *read, *timer;

	fail_stream_open(&stream, false, 31);
	read = fail_ring_add("a read with a linked timeout", IORING_OP_READ,
			     stream.from, &byte, 1, -1, -ECANCELED);
	fail_ring_sqe()->flags = IOSQE_IO_LINK;
	timer = fail_ring_add("a linked timeout", IORING_OP_LINK_TIMEOUT, -1,
			      &soon, 1, 0, -ETIME);
	fail_ring_submit();
	fail_ring_await(timer, NULL);
	/*
	 * If the timeout failed, the read would wait for ever: complete it by writing a
	 * byte.
	 */
	if (timer->res != -ETIME && read->is_pending) {
		fail_judge_value(timer);
		read->asked = 1;
		fail_stream_put(&stream, 1);
	}
	fail_ring_await(NULL, NULL);
	if (read->asked == 1)
		fail_stream_read(&stream, &byte, read);
	else
		fail_judge_value(read);
	need(timer->res == -ETIME || !fail_is_strict,
	     "a linked timeout ends with %lld", (long long)timer->res);
	fail_stream_close(&stream);
	fail_ring_clear();
}

/* Submit a poll and a read that still wait when the caller closes the ring. */
static void leave_waiting(struct fail_stream *stream)
{
	static char byte;

	fail_stream_open(stream, false, 32);
	(void)fail_ring_add("a poll that is left", IORING_OP_POLL_ADD,
			    stream->from, NULL, 0, 0, 0);
	fail_ring_sqe()->poll32_events = POLLIN;
	(void)fail_ring_add("a read that is left", IORING_OP_READ, stream->from,
			    &byte, 1, -1, 0);
	fail_ring_submit();
}

void fail_work_ring(void)
{
	static struct fail_stream left;

	fail_ring_open();
	work_on_files();
	wait_for_times();
	read_until_a_time();
	leave_waiting(&left);
	fail_ring_close();
	fail_stream_close(&left);
}

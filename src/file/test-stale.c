/* SPDX-License-Identifier: MIT */
/*
 * Tests descriptors that the program closes and opens again by system calls that the library
 * does not see. The library's entry is then wrong, and must do no harm.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "options/config.h"
#include "file/file.h"
#include "issue/chain.h"
#include "issue/submit.h"
#include "req/call.h"
#include "aio/aio.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "proc/entry.h"
#include <linux/fs.h>
#include "aio/ring.h"
#include "ready/ready.h"
#include "unit.h"
#include "streams.h"

enum { BYTES = UNIT_KEY_BYTES };

/*
 * Make `number` refer to another file, by a direct system call, which the library does not
 * see.
 */
static void replace_unseen(int number, int by)
{
	assert_int_equal(uaio_sys_raw(SYS_dup3, by, number, 0, 0, 0, 0),
			 number);
}

static int64_t execute(uint64_t handle, int opcode, int fd, void *buf,
		       size_t bytes, long long off)
{
	struct iocb iocb = unit_iocb(opcode, fd, buf, bytes, off);
	struct io_event event;

	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	return event.res;
}

/*
 * The test's gate (unit_gate_close()) stops a write, so a write to the same file by
 * another descriptor waits for the first write. The other descriptor is then replaced.
 */
static void a_write_that_waited_goes_to_no_other_file(void **state)
{
	int fd = unit_numbered_file(true, 4), copy = dup(fd);
	int other = unit_file(true);
	uint64_t handle = unit_context(4);
	struct io_event events[2];
	struct iocb iocbs[2];
	static char buf[BYTES];

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(fd);
	iocbs[0] = unit_iocb(IOCB_CMD_PWRITE, fd, buf, BYTES, 0);
	iocbs[1] = unit_iocb(IOCB_CMD_PWRITE, copy, buf, BYTES, BYTES);
	assert_int_equal(unit_submit(handle, &iocbs[0]), 1);
	unit_gate_await(1);
	assert_int_equal(unit_submit(handle, &iocbs[1]), 1);
	replace_unseen(copy, other);
	unit_gate_open();
	assert_int_equal(unit_reap(handle, 2, events), 2);
	assert_int_equal(events[0].res, BYTES);
	assert_int_equal(events[1].res, -EBADF);
	assert_int_equal(lseek(other, 0, SEEK_END), 0);
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
	unit_close(copy);
	unit_close(other);
}

/* As above, but a sync by the other descriptor waits for the first write. */
static void a_sync_that_waited_syncs_no_other_file(void **state)
{
	static const int opcodes[] = { IOCB_CMD_FSYNC, IOCB_CMD_FDSYNC };
	int fd = unit_numbered_file(true, 1), other = unit_file(true);
	uint64_t handle = unit_context(4);
	static char buf[BYTES];

	(void)state;
	uaio_config.force_worker = true;
	for (unsigned i = 0; i < NR_ELEMENTS(opcodes); i++) {
		int copy = dup(fd);
		struct iocb write =
			unit_iocb(IOCB_CMD_PWRITE, fd, buf, BYTES, 0);
		struct iocb sync =
			unit_iocb((unsigned)opcodes[i], copy, NULL, 0, 0);
		struct io_event events[2];

		unit_gate_close(fd);
		assert_int_equal(unit_submit(handle, &write), 1);
		unit_gate_await(1);
		assert_int_equal(unit_submit(handle, &sync), 1);
		replace_unseen(copy, other);
		unit_gate_open();
		assert_int_equal(unit_reap(handle, 2, events), 2);
		assert_int_equal(events[0].res, BYTES);
		assert_int_equal(events[1].res, -EBADF);
		unit_close(copy);
	}
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
	unit_close(other);
}

/*
 * Reads that the test's gate stops occupy all workers, so an advice about another
 * descriptor waits for a worker. That descriptor is then replaced.
 */
static void an_advice_that_waited_is_about_no_other_file(void **state)
{
	enum { NR_BUSY = 40 };
	int busy = unit_numbered_file(true, NR_BUSY), other = unit_file(true);
	int fd = unit_file(true);
	uint64_t handle = unit_context(1), busy_handle = unit_context(NR_BUSY);
	static char area[NR_BUSY][BYTES];
	struct iocb reads[NR_BUSY];
	struct io_event events[NR_BUSY];
	const struct uaio_sqe advice = {
		.op = UAIO_OP_FADVISE,
		.fd = fd,
		.is_async = true,
	};

	(void)state;
	uaio_config.force_worker = true;
	unit_gate_close(busy);
	for (unsigned i = 0; i < NR_BUSY; i++) {
		reads[i] = unit_iocb(IOCB_CMD_PREAD, busy, area[i], BYTES,
				     i * BYTES);
		assert_int_equal(unit_submit(busy_handle, &reads[i]), 1);
	}
	uaio_config.force_worker = false;
	assert_int_equal(unit_submit_sqe(handle, &advice), 0);
	replace_unseen(fd, other);
	unit_gate_open();
	assert_int_equal(unit_reap_one(handle), -EBADF);
	assert_int_equal(unit_reap(busy_handle, NR_BUSY, events), NR_BUSY);
	unit_destroy(busy_handle);
	unit_destroy(handle);
	unit_close(busy);
	unit_close(fd);
	unit_close(other);
}

static unsigned nr_interrupted;

static bool interrupt(long nr, const long args[6], long *ret_res)
{
	(void)args;
	if (nr != SYS_pread64)
		return false;
	nr_interrupted++;
	*ret_res = -EINTR;
	return true;
}

/*
 * A FUSE server may answer EINTR, although no signal has interrupted the call. Then
 * EINTR is the request's result.
 */
static void an_answer_of_eintr_is_an_answer(void **state)
{
	int fd = unit_numbered_file(true, 1);
	uint64_t handle = unit_context(4);
	char buf[BYTES];

	(void)state;
	uaio_config.force_worker = true;
	nr_interrupted = 0;
	unit_hook(interrupt);
	assert_int_equal(execute(handle, IOCB_CMD_PREAD, fd, buf, BYTES, 0),
			 -EINTR);
	unit_hook(NULL);
	assert_true(nr_interrupted > 1);
	uaio_config.force_worker = false;
	unit_destroy(handle);
	unit_close(fd);
}

/*
 * A read is parked on a pipe. Then its descriptor is made to refer to another pipe,
 * unseen by the library. The read must not take a byte from the other pipe.
 */
static void a_read_that_is_parked_reads_no_other_pipe(void **state)
{
	uint64_t handle = unit_context(4);
	int ends[2], others[2], copy;
	struct io_event event;
	struct iocb iocb;
	char byte = 0;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(others), 0);
	copy = dup(ends[0]);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	replace_unseen(ends[0], others[0]);
	assert_int_equal(write(others[1], "o", 1), 1);
	assert_int_equal(write(ends[1], "p", 1), 1);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, -EBADF);
	assert_int_equal(read(others[0], &byte, 1), 1);
	assert_int_equal(byte, 'o');
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(copy);
	(void)close(ends[1]);
	(void)close(others[0]);
	(void)close(others[1]);
}

static unsigned nr_statx; /* atomic */

static bool count_statx(long nr, const long args[6], long *ret_res)
{
	(void)args;
	(void)ret_res;
	if (nr == SYS_statx)
		add_relaxed(&nr_statx, 1);
	return false;
}

/*
 * Submit a read, and wait up to 1 ms for its event. In that time the library usually
 * adds fd to the epoll.
 */
static void park(uint64_t handle, int fd, char *byte)
{
	struct timespec soon = { .tv_nsec = 1000000 };
	struct iocb iocb = unit_iocb(IOCB_CMD_PREAD, fd, byte, 1, 0);
	struct uaio_event event;

	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, &soon), 0);
}

static void park_and_read(uint64_t handle, const int ends[2])
{
	struct io_event event;
	char byte;

	park(handle, ends[0], &byte);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, 1);
}

/* Check that the read fails with EBADF, and that the byte stays in the other pipe. */
static void assert_is_lost(uint64_t handle, const int others[2])
{
	struct io_event event;
	char byte = 0;

	assert_int_equal(unit_reap(handle, 1, &event), 1);
	assert_int_equal(event.res, -EBADF);
	assert_int_equal(read(others[0], &byte, 1), 1);
	assert_int_equal(byte, 'o');
}

/*
 * Once the epoll watches fd, the library relies on the epoll's events, and no longer
 * checks by statx() that fd refers to the same file. Then fd is replaced unseen. The
 * read must not take a byte from the other pipe.
 */
static void a_read_that_is_armed_reads_no_other_pipe(void **state)
{
	uint64_t handle = unit_context(4);
	int ends[2], others[2], copy;
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(others), 0);
	copy = dup(ends[0]);
	park_and_read(handle, ends);
	unit_hook(count_statx);
	/*
	 * Repeat until fd is armed in the epoll: then the library makes no statx() call for
	 * a read.
	 */
	do {
		store_relaxed(&nr_statx, 0);
		park_and_read(handle, ends);
	} while (load_relaxed(&nr_statx));
	unit_hook(NULL);
	park(handle, ends[0], &byte);
	replace_unseen(ends[0], others[0]);
	assert_int_equal(write(others[1], "o", 1), 1);
	assert_int_equal(write(ends[1], "p", 1), 1);
	assert_is_lost(handle, others);
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(copy);
	(void)close(ends[1]);
	(void)close(others[0]);
	(void)close(others[1]);
}

static bool has_armed(void *arg)
{
	struct uaio_ready_counters counters;

	uaio_ready_count(&counters);
	return counters.nr_arms > *(uint64_t *)arg;
}

/*
 * The test replaces fd, unseen by the library, before the library adds it to the epoll.
 */
static void a_read_that_was_armed_late_reads_no_other_pipe(void **state)
{
	uint64_t handle = unit_context(4);
	struct uaio_ready_counters counters;
	int ends[2], others[2], copy;
	struct iocb iocb;
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(others), 0);
	copy = dup(ends[0]);
	iocb = unit_iocb(IOCB_CMD_PREAD, ends[0], &byte, 1, 0);
	uaio_ready_count(&counters);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	replace_unseen(ends[0], others[0]);
	/*
	 * Wait until the fallback thread has added fd to the epoll. Only then it tries
	 * the read.
	 */
	unit_await(has_armed, &counters.nr_arms);
	assert_int_equal(write(others[1], "o", 1), 1);
	assert_is_lost(handle, others);
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(copy);
	(void)close(ends[1]);
	(void)close(others[0]);
	(void)close(others[1]);
}

/*
 * fd refers to a first pipe, then to a second, then to the first again, which the epoll
 * still watches. A read that was submitted on the second pipe must take no byte from
 * the first.
 */
static void a_number_that_is_its_first_pipe_again_is_not_read(void **state)
{
	uint64_t handle = unit_context(4);
	int ends[2], others[2], first;
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(others), 0);
	first = dup(ends[0]);
	park_and_read(handle, ends);
	park_and_read(handle, ends);
	replace_unseen(ends[0], others[0]);
	unit_close(ends[0]);
	replace_unseen(ends[0], others[0]);
	for (unsigned i = 0; i < 2; i++)
		park_and_read(handle, (int[]){ ends[0], others[1] });
	park(handle, ends[0], &byte);
	replace_unseen(ends[0], first);
	assert_int_equal(write(ends[1], "o", 1), 1);
	assert_int_equal(write(others[1], "p", 1), 1);
	assert_is_lost(handle, (int[]){ first, ends[1] });
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(first);
	(void)close(ends[1]);
	(void)close(others[0]);
	(void)close(others[1]);
}

static void a_pipe_that_became_a_file_is_written_in_its_place(void **state)
{
	uint64_t handle = unit_context(4);
	int ends[2], file = unit_file(true);
	char byte = 'x';

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(execute(handle, IOCB_CMD_PWRITE, ends[1], &byte, 1, 0),
			 1);
	replace_unseen(ends[1], file);
	assert_int_equal(
		execute(handle, IOCB_CMD_PWRITE, ends[1], &byte, 1, 10), 1);
	assert_int_equal(
		execute(handle, IOCB_CMD_PWRITE, ends[1], &byte, 1, 20), 1);
	assert_int_equal(lseek(file, 0, SEEK_END), 21);
	unit_destroy(handle);
	unit_close(ends[1]);
	(void)close(ends[0]);
	unit_close(file);
}

static void a_file_that_became_a_pipe_is_read_as_one(void **state)
{
	uint64_t handle = unit_context(4);
	int ends[2], file = unit_file(true);
	char byte = 'x';

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(execute(handle, IOCB_CMD_PWRITE, file, &byte, 1, 0),
			 1);
	replace_unseen(file, ends[1]);
	byte = 'y';
	assert_int_equal(execute(handle, IOCB_CMD_PWRITE, file, &byte, 1, 0),
			 1);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	unit_destroy(handle);
	unit_close(file);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static struct uaio_sqe at_position(enum uaio_op op, int fd, void *byte,
				   uint32_t flags)
{
	return (struct uaio_sqe){
		.op = op,
		.fd = fd,
		.buf = byte,
		.len = 1,
		.off = UAIO_OFF_POSITION,
		.rw_flags = flags,
	};
}

/* Return: the end of a new pipe on which op has to wait; *ret_other: the other end. */
static int pipe_that_waits(enum uaio_op op, int *ret_other)
{
	int ends[2];
	bool is_read = op == UAIO_OP_READ;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*ret_other = ends[is_read];
	if (is_read)
		return ends[0];
	fill_stream(ends[1], 4096);
	return ends[1];
}

/*
 * A file's descriptor is made to refer to a pipe, unseen by the library. A request at
 * the file position must then not wait inside the submitting call: a call that waits
 * would keep other threads from submitting to the ring.
 */
static void wait_aside(bool in_memory, enum uaio_op op, uint32_t flags)
{
	uint64_t handle = unit_context(4);
	int file = unit_numbered_file(in_memory, 1), other, end;
	struct timespec now = { 0 };
	struct uaio_event event;
	char byte = 'x', bytes[4096];
	struct uaio_sqe sqe = at_position(op, file, &byte, flags);

	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(unit_reap_one(handle), 1);
	end = pipe_that_waits(op, &other);
	replace_unseen(file, end);
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_int_equal(uaio_aio_getevents(handle, 1, 1, &event, &now), 0);
	if (op == UAIO_OP_READ)
		assert_int_equal(write(other, "x", 1), 1);
	else
		assert_int_equal(read(other, bytes, sizeof(bytes)),
				 sizeof(bytes));
	assert_int_equal(unit_reap_one(handle), 1);
	unit_destroy(handle);
	unit_close(file);
	(void)close(end);
	(void)close(other);
}

static void what_became_a_pipe_keeps_no_submission(void **state)
{
	(void)state;
	wait_aside(true, UAIO_OP_READ, 0);
	wait_aside(true, UAIO_OP_WRITE, 0);
	wait_aside(false, UAIO_OP_WRITE, 0);
	wait_aside(true, UAIO_OP_READ, RWF_HIPRI);
}

/*
 * In the following tests, a thread holds no reference to a file's entry, which the
 * library reuses for a stream. The thread's write must keep its offset. So the thread
 * must not make a call for streams, which ignores the offset.
 */
static struct uaio_sqe write_of(int number, int64_t off, const char *byte)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_WRITE,
		.fd = number,
		.buf = (void *)(uintptr_t)byte,
		.len = 1,
		.off = off,
	};
}

static struct uaio_outcome issue_by(struct uaio_file *entry,
				    const struct uaio_sqe *sqe)
{
	struct uaio_outcome outcome = { .res = 0 };
	int error = 0;

	assert_int_equal(uaio_issue(entry, sqe, &error, &outcome),
			 UAIO_NEXT_DONE);
	assert_int_equal(error, 0);
	return outcome;
}

static struct uaio_outcome issue_by_other_entry(int number, int stream,
						int64_t off, const char *byte,
						uint32_t rw_flags)
{
	struct uaio_sqe sqe = write_of(number, off, byte);
	struct uaio_file *entry;

	sqe.rw_flags = rw_flags;
	assert_int_equal(uaio_file_open(stream, &entry), 0);
	return issue_by(entry, &sqe);
}

static void a_reused_entry_does_not_move_a_write(void **state)
{
	static const int64_t offsets[] = { 0, 1000 };
	int file = unit_file(true), ends[2];
	char found;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(lseek(file, 50, SEEK_SET), 50);
		assert_int_equal(
			issue_by_other_entry(file, ends[1], offsets[i], "w", 0)
				.res,
			1);
		assert_int_equal(pread(file, &found, 1, offsets[i]), 1);
		assert_int_equal(found, 'w');
		assert_int_equal(issue_by_other_entry(file, ends[1], offsets[i],
						      "h", RWF_HIPRI)
					 .res,
				 1);
		assert_int_equal(pread(file, &found, 1, offsets[i]), 1);
		assert_int_equal(found, 'h');
		assert_int_equal(lseek(file, 0, SEEK_CUR), 50);
	}
	unit_close(file);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void a_reused_entry_of_a_closed_descriptor_is_bad(void **state)
{
	int file = unit_file(true), ends[2];

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	unit_close(file);
	assert_int_equal(issue_by_other_entry(file, ends[1], 1000, "w", 0).res,
			 -EBADF);
	assert_int_equal(issue_by_other_entry(file, ends[1], 0, "w", 0).res,
			 -EBADF);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * A thread holds no reference to an entry, and has read that the entry is of a regular
 * file. Then the library reuses the entry for a stream. (The test only sets the flag
 * UAIO_FILE_F_STREAM.) The thread must not make a call without an offset.
 */
static void a_kind_that_was_read_stays(void **state)
{
	/*
	 * After 64 cached reads in a row, another function of the library makes the
	 * reads, without first querying the page cache.
	 */
	enum { READS = 66 };

	(void)state;
	for (unsigned in_memory = 0; in_memory < 2; in_memory++) {
		int file = unit_numbered_file(in_memory, 2);
		struct uaio_sqe sqe = write_of(file, BYTES, "w");
		struct uaio_file *entry;
		char found;

		assert_int_equal(lseek(file, 0, SEEK_SET), 0);
		assert_int_equal(uaio_file_open(file, &entry), 0);
		store_relaxed(&entry->flags, entry->flags | UAIO_FILE_F_STREAM);
		assert_int_equal(issue_by(entry, &sqe).res, 1);
		assert_int_equal(pread(file, &found, 1, BYTES), 1);
		assert_int_equal(found, 'w');
		sqe.op = UAIO_OP_READ;
		sqe.buf = &found;
		for (unsigned i = 0; i < READS; i++) {
			found = 0;
			assert_int_equal(issue_by(entry, &sqe).res, 1);
			assert_int_equal(found, 'w');
		}
		assert_int_equal(lseek(file, 0, SEEK_CUR), 0);
		unit_close(file);
	}
}

/*
 * While a write is submitted, the library reuses the entry of its file for a
 * descriptor that is not open for writing. The write must succeed nevertheless.
 */
static void a_reused_entry_refuses_no_write(void **state)
{
	int file = unit_file(true), ends[2];
	struct uaio_sqe sqe = write_of(file, BYTES, "w");
	uint64_t handle = unit_context(1);
	struct uaio_submission submission;
	struct uaio_file *entry;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, 1), 1);
	assert_int_equal(uaio_file_open(ends[0], &entry), 0);
	assert_int_equal(uaio_batch_add(&submission.batch, entry, &sqe), 0);
	uaio_submission_end(&submission, 1);
	uaio_leave();
	assert_int_equal(unit_reap_one(handle), 1);
	unit_destroy(handle);
	unit_close(file);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * In the following tests, a descriptor is made to refer to another file, unseen by the
 * library. The other file allows what the first did not.
 */
static int open_read_only(int file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/*
 * The same call also submits a read, which a worker must execute before the old entry
 * can be removed.
 */
static void a_descriptor_that_became_writable_is_written(void **state)
{
	int file = unit_numbered_file(true, 1), fd = open_read_only(file);
	uint64_t handle = unit_context(2);
	char buf[BYTES], byte = 'x';
	struct iocb iocbs[2] = {
		unit_iocb(IOCB_CMD_PREAD, fd, buf, BYTES, 0),
		unit_iocb(IOCB_CMD_PWRITE, fd, &byte, 1, BYTES),
	};
	struct io_event events[2];

	(void)state;
	assert_int_equal(unit_submit(handle, &iocbs[1]), -EBADF);
	replace_unseen(fd, file);
	uaio_config.force_worker = true;
	assert_int_equal(
		uaio_aio_submit(handle, 2,
				(struct iocb *[]){ &iocbs[0], &iocbs[1] }),
		2);
	assert_int_equal(unit_reap(handle, 2, events), 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(events[i].res,
				 events[i].obj == (uintptr_t)&iocbs[0] ? BYTES
								       : 1);
	uaio_config.force_worker = false;
	assert_int_equal(lseek(file, 0, SEEK_END), BYTES + 1);
	unit_destroy(handle);
	unit_close(fd);
	unit_close(file);
}

static void a_linked_write_to_what_became_writable_is_made(void **state)
{
	int file = unit_file(true), fd = open_read_only(file);
	struct uaio_sqe sqe = write_of(fd, BYTES, "w");
	uint64_t handle = unit_context(1);
	struct uaio_submission submission;
	struct uaio_chain chain;

	(void)state;
	assert_int_equal(unit_submit_sqe(handle, &sqe), -EBADF);
	replace_unseen(fd, file);
	sqe.links = UAIO_LINK;
	assert_true(uaio_enter());
	assert_int_equal(uaio_submission_begin(&submission, handle, 1), 1);
	uaio_chain_begin(&chain, &submission.batch);
	assert_int_equal(uaio_chain_add(&chain, &sqe), 0);
	uaio_chain_end(&chain);
	uaio_submission_end(&submission, 1);
	uaio_leave();
	assert_int_equal(unit_reap_one(handle), 1);
	unit_destroy(handle);
	unit_close(fd);
	unit_close(file);
}

static void a_pipe_that_became_a_file_is_synced(void **state)
{
	uint64_t handle = unit_context(1);
	int ends[2], file = unit_file(true);
	struct iocb sync;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	sync = unit_iocb(IOCB_CMD_FSYNC, ends[0], NULL, 0, 0);
	assert_int_equal(unit_submit(handle, &sync), -EINVAL);
	replace_unseen(ends[0], file);
	assert_int_equal(execute(handle, IOCB_CMD_FSYNC, ends[0], NULL, 0, 0),
			 0);
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(file);
	(void)close(ends[1]);
}

static void a_file_that_became_an_eventfd_is_signalled(void **state)
{
	uint64_t handle = unit_context(1), count = 0;
	int fd = unit_file(true), file = unit_file(true);
	int event = eventfd(0, EFD_CLOEXEC);
	struct iocb iocb = unit_iocb(IOCB_CMD_PWRITE, file, "x", 1, 0);

	(void)state;
	iocb.aio_flags = IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)fd;
	assert_int_equal(unit_submit(handle, &iocb), -EINVAL);
	replace_unseen(fd, event);
	assert_int_equal(unit_submit(handle, &iocb), 1);
	assert_int_equal(unit_reap_one(handle), 1);
	assert_int_equal(read(event, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 1);
	unit_destroy(handle);
	unit_close(fd);
	unit_close(file);
	(void)close(event);
}

/* The library has not seen the close, and still has the entry of a pipe. */
static void a_closed_descriptor_is_bad_for_any_request(void **state)
{
	uint64_t handle = unit_context(1);
	int ends[2];
	struct iocb sync;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	sync = unit_iocb(IOCB_CMD_FSYNC, ends[0], NULL, 0, 0);
	assert_int_equal(unit_submit(handle, &sync), -EINVAL);
	assert_int_equal(uaio_sys_raw(SYS_close, ends[0], 0, 0, 0, 0, 0), 0);
	assert_int_equal(unit_submit(handle, &sync), -EBADF);
	unit_destroy(handle);
	(void)close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_write_that_waited_goes_to_no_other_file),
		UNIT_TEST(a_sync_that_waited_syncs_no_other_file),
		UNIT_TEST(an_advice_that_waited_is_about_no_other_file),
		UNIT_TEST(an_answer_of_eintr_is_an_answer),
		UNIT_TEST(a_read_that_is_parked_reads_no_other_pipe),
		UNIT_TEST(a_read_that_is_armed_reads_no_other_pipe),
		UNIT_TEST(a_read_that_was_armed_late_reads_no_other_pipe),
		UNIT_TEST(a_number_that_is_its_first_pipe_again_is_not_read),
		UNIT_TEST(a_pipe_that_became_a_file_is_written_in_its_place),
		UNIT_TEST(a_file_that_became_a_pipe_is_read_as_one),
		UNIT_TEST(what_became_a_pipe_keeps_no_submission),
		UNIT_TEST(a_reused_entry_does_not_move_a_write),
		UNIT_TEST(a_reused_entry_of_a_closed_descriptor_is_bad),
		UNIT_TEST(a_kind_that_was_read_stays),
		UNIT_TEST(a_reused_entry_refuses_no_write),
		UNIT_TEST(a_descriptor_that_became_writable_is_written),
		UNIT_TEST(a_linked_write_to_what_became_writable_is_made),
		UNIT_TEST(a_pipe_that_became_a_file_is_synced),
		UNIT_TEST(a_file_that_became_an_eventfd_is_signalled),
		UNIT_TEST(a_closed_descriptor_is_bad_for_any_request),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Decides which thread executes a SPLICE or TEE. Both have two files, at least one of
 * them a pipe.
 *
 * The submitting thread makes the system call if neither file makes it wait. With
 * SPLICE_F_NONBLOCK the call does not wait for a pipe. The flag has no effect on a
 * regular file. So before the call reads a regular file, the library checks, as for a
 * read, that the pages are in the page cache. The call writes to a regular file in this
 * thread only as long as writes of the inode are fast (policy.h). A worker makes all
 * other calls. A worker also repeats a call that has failed in the submitting thread,
 * because the descriptor may refer to another file by now.
 *
 * Accepted race: a splice waits for the mutex of a pipe, as reads and writes of the
 * pipe do. A worker holds this mutex while its splice waits for a disk or a file
 * server. The submitting thread makes a call only if the pipe is ready. So it can block
 * on the mutex only if another request uses the same pipe at the same time.
 *
 * Tested by test-ends.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <string.h>

#include "base/check.h"
#include "base/cycles.h"
#include "base/sys.h"
#include "options/config.h"
#include "op/args.h"
#include "wait/order.h"
#include "wait/page.h"
#include "issue/policy.h"
#include "issue/submit.h"

/* One of the two files of a splice or tee. */
struct end {
	struct uaio_file *file; /* borrows: file.h, I2 */
	struct uaio_inode *inode;
	/*
	 * what the splice does to this file, as a read or a write, with the splice's
	 * length and its offset in this file; for checks that expect a read or write
	 */
	struct uaio_sqe sqe;
	uint64_t room; /* capacity of a pipe, in bytes; 0: a regular file */
};

/* Return: the capacity of the pipe in bytes, if fd is a pipe and ready; otherwise 0. */
static uint64_t ask_pipe(int fd, bool is_in)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = is_in ? POLLIN : POLLOUT };
	int room;

	/*
	 * fcntl(F_GETPIPE_SZ) waits for the pipe's mutex, which a splice may hold for
	 * long; poll() does not. So call fcntl() only if the pipe is ready.
	 */
	if (sys_ppoll(&pfd, 1, &zero, NULL, 0) <= 0)
		return 0;
	room = sys_fcntl(fd, F_GETPIPE_SZ, 0);
	return room > 0 ? (uint64_t)room : 0;
}

/*
 * Fill in *ret for one of the two files of sqe.
 * Return: whether the file is a ready pipe, or a local regular file or block device.
 */
static bool look_at(const struct uaio_sqe *sqe, enum uaio_end which,
		    struct end *ret)
{
	const struct uaio_args *args = sqe->args;
	bool is_in = which == UAIO_END_IN;

	ret->sqe = (struct uaio_sqe){
		.op = is_in ? UAIO_OP_READ : UAIO_OP_WRITE,
		.door = sqe->door,
		.fd = is_in ? args->fd : sqe->fd,
		.off = is_in ? args->off : sqe->off,
		.len = sqe->len,
	};
	ret->room = 0;
	/*
	 * Leave registered files to a worker: they are looked up only when a request is
	 * created.
	 */
	if (args->files[which] || args->is_place[which] ||
	    uaio_look_up(ret->sqe.fd, &ret->file) < 0)
		return false;
	ret->inode = load_relaxed(&ret->file->inode);
	if (uaio_file_kind(ret->file) == UAIO_KIND_STREAM) {
		ret->room = ask_pipe(ret->sqe.fd, is_in);
		return ret->room;
	}
	/*
	 * The descriptor may refer to a stream by now. Check this only if the request has
	 * no offset: with an offset, the kernel's call on a stream fails anyway.
	 */
	if (ret->sqe.off == UAIO_OFF_POSITION &&
	    uaio_is_misplaced(ret->file, &ret->sqe))
		return false;
	return uaio_file_kind(ret->file) <= UAIO_KIND_CACHED && ret->inode &&
	       !uaio_file_has(ret->file, UAIO_FILE_F_REMOTE);
}

/*
 * Return: whether other requests of the inode may hold the inode's lock while they wait for
 * a disk.
 */
static bool is_busy(const struct uaio_inode *inode)
{
	return uaio_inode_is_busy(inode) || uaio_inode_has_direct(inode);
}

/*
 * Read the bytes that the call would move, at most as many as the pipe holds, into a small
 * buffer with RWF_NOWAIT.
 * Return: whether all of them are in the page cache.
 */
static bool is_cached(struct uaio_file *file, const struct uaio_sqe *sqe,
		      uint64_t bytes)
{
	enum { BYTES = 1024, IOVS = 64 };
	char scratch[BYTES];
	struct iovec iov[IOVS];
	struct uaio_outcome outcome = { .on = 0 };
	struct uaio_sqe read = *sqe;
	int64_t res = 1;

	for (unsigned i = 0; i < IOVS; i++)
		iov[i] = (struct iovec){ scratch, BYTES };
	read.op = UAIO_OP_READV;
	read.iov = iov;
	if (read.off == UAIO_OFF_POSITION)
		read.off = sys_lseek(read.fd, 0, SEEK_CUR);
	if (read.off < 0)
		return false;
	while (bytes && res > 0) {
		uint64_t nr = (bytes + BYTES - 1) / BYTES;

		read.len = nr < IOVS ? nr : IOVS;
		res = uaio_read_cached(&read, &outcome);
		if (res == UAIO_OP_BLOCKS)
			/* relaxed: a heuristic */
			store_relaxed(&file->nowait_refused, 1);
		if (res < 0)
			return false;
		read.off += res;
		bytes -= (uint64_t)res < bytes ? (uint64_t)res : bytes;
	}
	return true;
}

/* Return: whether a splice from the file will not wait for the file's device. */
static bool may_read(const struct end *in, uint64_t room)
{
	struct uaio_file *file = in->file;
	uint64_t bytes = in->sqe.len < room ? in->sqe.len : room;
	bool is_hot;

	if (is_busy(in->inode))
		return false;
	if (uaio_file_kind(file) == UAIO_KIND_MEMORY || uaio_is_streaking(file))
		return true;
	/* relaxed: a heuristic */
	if (load_relaxed(&file->nowait_refused))
		return false;
	is_hot = is_cached(file, &in->sqe, bytes);
	uaio_note_cached(file, is_hot);
	return is_hot;
}

static enum uaio_next make_call(const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	ret->start = uaio_cycles();
	ret->res = uaio_optab[sqe->op].run(sqe, -1, &ret->found, RWF_NOWAIT);
	ret->end = uaio_cycles();
	if (ret->res >= 0)
		return UAIO_NEXT_DONE;
	ret->res = 0;
	return UAIO_NEXT_WORKER;
}

static enum uaio_next splice_from(const struct end *in, uint64_t room,
				  const struct uaio_sqe *sqe,
				  struct uaio_outcome *ret)
{
	enum uaio_next next;

	if (!may_read(in, room))
		return UAIO_NEXT_WORKER;
	next = make_call(sqe, ret);
	uaio_judge_read(in->file, ret->end - ret->start);
	return next;
}

static enum uaio_next splice_to(const struct end *out,
				const struct uaio_sqe *sqe,
				struct uaio_outcome *ret)
{
	struct uaio_trial_write trial;
	enum uaio_next next;

	if (uaio_file_kind(out->file) == UAIO_KIND_MEMORY)
		return is_busy(out->inode) ? UAIO_NEXT_WORKER
					   : make_call(sqe, ret);
	if (is_busy(out->inode) ||
	    !uaio_trial_write_begin(out->file, out->inode, &out->sqe, &trial))
		return UAIO_NEXT_WORKER;
	next = make_call(sqe, ret);
	uaio_trial_write_end(out->inode, &out->sqe, &trial,
			     ret->end - ret->start);
	return next;
}

enum uaio_next uaio_try_ends(const struct uaio_sqe *sqe,
			     struct uaio_outcome *ret)
{
	struct end in, out;

	if (!sqe->len || !look_at(sqe, UAIO_END_IN, &in) ||
	    !look_at(sqe, UAIO_END_OUT, &out))
		return UAIO_NEXT_WORKER;
	if (!in.room)
		return out.room ? splice_from(&in, out.room, sqe, ret)
				: UAIO_NEXT_WORKER;
	return out.room ? make_call(sqe, ret) : splice_to(&out, sqe, ret);
}

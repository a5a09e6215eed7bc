/* SPDX-License-Identifier: MIT */
#include "split/bounce.h"

#include <string.h>
#include <sys/mman.h>

#include "base/slab.h"
#include "base/sys.h"
#include "req/req.h"
#include "req/stats.h"
#include "wait/order.h"
#include "split/align.h"

/*
 * The greatest number of bytes that one read or write transfers (MAX_RW_COUNT of the
 * kernel), and so the limit of a request.
 */
static const uint64_t RW_BYTES_MAX = 0x7ffff000;

/*
 * Aligned memory. An unused struct in the slab keeps its memory mapped, for reuse.
 */
struct room {
	struct uaio_slab_node node;
	/* owns; NULL: not mapped yet */
	char *mapped;
};

static struct uaio_slab rooms;

void uaio_bounce_init(void)
{
	uaio_slab_init(&rooms, sizeof(struct room), 4096);
}

static struct room *get_room(void)
{
	const size_t bytes = UAIO_BOUNCE_BYTES + UAIO_ALIGNMENT_MAX;
	struct room *room = uaio_slab_get(&rooms);
	char *mapped;

	if (!room || room->mapped)
		return room;
	mapped = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS);
	if (sys_is_map_error(mapped)) {
		uaio_slab_put(&rooms, room);
		return NULL;
	}
	room->mapped = mapped;
	return room;
}

static char *aligned_memory(const struct room *room)
{
	uintptr_t start = (uintptr_t)room->mapped;

	return room->mapped + (-start & (UAIO_ALIGNMENT_MAX - 1));
}

/* A request that is executed through a copy. Positions are offsets in the file. */
struct bounce {
	struct uaio_req *req;
	int fd;
	/* memory for one chunk: UAIO_BOUNCE_BYTES bytes */
	char *memory;
	int64_t block; /* size of a block, in bytes */
	/* file offset of the first byte that is yet to be transferred */
	int64_t pos;
	/* end of the request (offset of its last byte plus 1) */
	int64_t end;
	/* how many bytes of the request were transferred */
	int64_t done;
	/*
	 * smallest size to which cut_back() may truncate the file; INT64_MAX: never
	 * truncate it
	 */
	int64_t length;

	/*
	 * file offsets of the current chunk: it consists of whole blocks, and begins
	 * with the block that contains `pos`
	 */
	int64_t begin;
	int64_t stop;
	/* how many bytes of the request are in the chunk, from `pos` on */
	int64_t part;
};

static void next_chunk(struct bounce *bounce)
{
	bounce->begin = bounce->pos & -bounce->block;
	bounce->stop = (bounce->end + bounce->block - 1) & -bounce->block;
	if (bounce->stop - bounce->begin > UAIO_BOUNCE_BYTES)
		bounce->stop = bounce->begin + UAIO_BOUNCE_BYTES;
	bounce->part =
		(bounce->end < bounce->stop ? bounce->end : bounce->stop) -
		bounce->pos;
}

static char *part_of(const struct bounce *bounce)
{
	return bounce->memory + (bounce->pos - bounce->begin);
}

static void advance(struct bounce *bounce, int64_t bytes)
{
	struct uaio_req *req = bounce->req;

	uaio_sqe_advance(&req->sqe, req->iov, (uint64_t)bytes);
	bounce->pos += bytes;
	bounce->done += bytes;
}

static int64_t result(const struct bounce *bounce, int64_t error)
{
	return bounce->done ? bounce->done : error;
}

/* Read or write whole blocks of the chunk by one system call. */
static int64_t call(const struct bounce *bounce, enum uaio_op op,
		    uint32_t flags, int64_t off, int64_t bytes)
{
	const struct uaio_sqe sqe = {
		.op = (uint8_t)op,
		.rw_flags = flags,
		.off = off,
		.buf = bounce->memory + (off - bounce->begin),
		.len = (uint64_t)bytes,
	};
	int64_t res;

	do
		res = uaio_optab[op].run(&sqe, bounce->fd, &bounce->req->found,
					 0);
	while (res == -EINTR);
	return res;
}

/*
 * Copy between the chunk's memory and the client's, by process_vm_readv or
 * process_vm_writev: with these calls, unmapped memory causes an error, not a signal.
 * If a seccomp filter refuses the calls, return -EINVAL, the kernel's own result for
 * the request.
 */
static int64_t copy(const struct bounce *bounce, sys_process_vm_fn *move)
{
	const struct uaio_sqe *sqe = &bounce->req->sqe;
	const struct iovec mine = { part_of(bounce), (size_t)bounce->part };
	const struct iovec one = { sqe->buf, sqe->len };
	bool is_vectored = uaio_optab[sqe->op].is_vectored;
	int64_t moved = move(sys_getpid(), &mine, is_vectored ? sqe->iov : &one,
			     is_vectored ? (int)sqe->len : 1);

	if (moved == bounce->part)
		return 0;
	if (moved == -EPERM || moved == -ENOSYS)
		return -EINVAL;
	return moved < 0 ? moved : -EFAULT;
}

static int64_t execute_read(struct bounce *bounce)
{
	uint32_t flags = bounce->req->sqe.rw_flags;

	while (bounce->pos < bounce->end) {
		int64_t got, bytes, ret;

		next_chunk(bounce);
		bytes = bounce->stop - bounce->begin;
		got = call(bounce, UAIO_OP_READ, flags, bounce->begin, bytes);
		if (got < 0)
			return result(bounce, got);
		/*
		 * The request's part of this chunk may reach beyond the end of the
		 * file, so shorten it.
		 */
		if (bounce->part > got - (bounce->pos - bounce->begin))
			bounce->part = got - (bounce->pos - bounce->begin);
		if (bounce->part <= 0)
			break;
		ret = copy(bounce, sys_process_vm_writev);
		if (ret < 0)
			return result(bounce, ret);
		advance(bounce, bounce->part);
		if (got < bytes)
			break;
	}
	return bounce->done;
}

/* Return: the size of the file or device in bytes, or -errno. */
static int64_t length_of(const struct bounce *bounce)
{
	uint64_t bytes;
	struct stat st;
	int ret;

	if (bounce->req->file->flags & UAIO_FILE_F_BLOCKDEV) {
		ret = sys_ioctl_block(bounce->fd, BLKGETSIZE64, &bytes);
		return ret < 0 ? ret : (int64_t)bytes;
	}
	ret = sys_fstat(bounce->fd, &st);
	return ret < 0 ? ret : st.st_size;
}

/*
 * Read the block at off into the chunk's memory. Fill the part of the block that is
 * after the end of the file with zeros.
 */
static int64_t read_block(const struct bounce *bounce, int64_t off)
{
	uint32_t flags = bounce->req->sqe.rw_flags & RWF_HIPRI;
	int64_t got = call(bounce, UAIO_OP_READ, flags, off, bounce->block);

	if (got < 0)
		return got;
	/*
	 * If the read was short although the file does not end there, fail: the zeros
	 * would overwrite data of the file.
	 */
	if (got < bounce->block && off + got < length_of(bounce))
		return -EIO;
	memset(bounce->memory + (off - bounce->begin) + got, 0,
	       (size_t)(bounce->block - got));
	return 0;
}

/*
 * Read the chunk's first and last block from the file, unless the request overwrites
 * them completely.
 */
static int64_t read_edges(const struct bounce *bounce)
{
	int64_t last = bounce->stop - bounce->block;
	bool has_head = bounce->begin < bounce->pos;
	int64_t ret = 0;

	if (has_head)
		ret = read_block(bounce, bounce->begin);
	if (ret == 0 && bounce->end < bounce->stop &&
	    !(has_head && last == bounce->begin))
		ret = read_block(bounce, last);
	return ret;
}

static bool is_sync(const struct uaio_req *req)
{
	return req->file->flags & UAIO_FILE_F_SYNC ||
	       req->sqe.rw_flags & (RWF_DSYNC | RWF_SYNC);
}

/*
 * The write of whole blocks ended at file offset `written`. If it has added zeros after
 * the end of the request, truncate the file. If another process has changed the file's
 * size since then, leave the file as it is (I3).
 */
static int64_t cut_back(struct bounce *bounce, int64_t written)
{
	int64_t keep = written < bounce->end ? written : bounce->end;
	int64_t ret;

	if (keep <= bounce->pos || keep < bounce->length)
		keep = bounce->length;
	bounce->length = keep;
	if (written <= keep || length_of(bounce) != written)
		return 0;
	do
		ret = sys_ftruncate(bounce->fd, keep);
	while (ret == -EINTR);
	/* After a synchronous write, make the new size durable, too. */
	return ret == 0 && is_sync(bounce->req) ? sys_fsync(bounce->fd) : ret;
}

static int64_t write_chunk(struct bounce *bounce, int64_t *ret_written)
{
	int64_t ret = read_edges(bounce);

	if (ret == 0)
		ret = copy(bounce, sys_process_vm_readv);
	if (ret == 0)
		ret = call(bounce, UAIO_OP_WRITE, bounce->req->sqe.rw_flags,
			   bounce->begin, bounce->stop - bounce->begin);
	if (ret < 0)
		return ret;
	*ret_written = bounce->begin + ret;
	return 0;
}

static int64_t execute_write(struct bounce *bounce)
{
	while (bounce->pos < bounce->end) {
		int64_t written, ret;

		next_chunk(bounce);
		ret = write_chunk(bounce, &written);
		if (ret < 0)
			return result(bounce, ret);
		ret = cut_back(bounce, written);
		if (ret < 0)
			return ret;
		if (written - bounce->pos < bounce->part)
			bounce->part = written - bounce->pos;
		if (bounce->part > 0)
			advance(bounce, bounce->part);
		if (written < bounce->stop)
			break;
	}
	return bounce->done;
}

/*
 * Write a range that begins or ends inside a block. No other write to the inode runs
 * meanwhile (I2).
 */
static int64_t execute_write_exclusively(struct bounce *bounce)
{
	uaio_inode_await_inline(bounce->req->file->inode);
	bounce->length = length_of(bounce);
	if (bounce->length < 0)
		return bounce->length;
	if (bounce->req->file->flags & UAIO_FILE_F_BLOCKDEV) {
		if (bounce->pos >= bounce->length)
			return -ENOSPC;
		if (bounce->end > bounce->length)
			bounce->end = bounce->length;
	}
	return execute_write(bounce);
}

static bool appends(const struct uaio_file *file, const struct uaio_sqe *sqe)
{
	return uaio_file_has(file, UAIO_FILE_F_APPEND) ||
	       sqe->rw_flags & RWF_APPEND;
}

bool uaio_bounces_exclusively(struct uaio_file *file,
			      const struct uaio_sqe *sqe)
{
	struct uaio_alignment alignment;

	if (!uaio_may_bounce(file, sqe, -EINVAL) || appends(file, sqe) ||
	    !uaio_file_has(file, UAIO_FILE_F_READ))
		return false;
	uaio_alignment_of(file, uaio_file_use(file), &alignment);
	uaio_file_unuse(file);
	return !uaio_is_range_aligned(&alignment, sqe);
}

/*
 * Return: the request's result; -EINVAL if the request cannot be executed through a
 * copy.
 */
static int64_t execute(struct bounce *bounce, bool is_range_aligned)
{
	struct uaio_req *req = bounce->req;

	if (uaio_optab[req->sqe.op].class == UAIO_CLASS_READ)
		return execute_read(bounce);
	if (req->order == UAIO_ORDER_WRITE_EXCLUSIVE)
		return execute_write_exclusively(bounce);
	if (!is_range_aligned || appends(req->file, &req->sqe))
		return -EINVAL;
	bounce->length = INT64_MAX;
	return execute_write(bounce);
}

int64_t uaio_bounce(struct uaio_req *req)
{
	enum uaio_op_class class = uaio_optab[req->sqe.op].class;
	uint64_t bytes = uaio_sqe_bytes(&req->sqe);
	struct uaio_alignment alignment;
	struct bounce bounce = { .req = req, .pos = req->sqe.off };
	struct room *room;
	int64_t res;

	if (class != UAIO_CLASS_READ && class != UAIO_CLASS_WRITE)
		return -EINVAL;
	/*
	 * The descriptor of a regular file may still be used after uaio_file_unuse(): a
	 * thread that closes the descriptor waits for this request (closing.h).
	 */
	bounce.fd = uaio_file_use(req->file);
	uaio_file_unuse(req->file);
	uaio_alignment_of(req->file, bounce.fd, &alignment);
	if (uaio_is_aligned(&alignment, &req->sqe) ||
	    req->sqe.off >
		    INT64_MAX - (int64_t)RW_BYTES_MAX - UAIO_BOUNCE_BYTES)
		return -EINVAL;
	bounce.block = alignment.offset;
	bounce.end = req->sqe.off +
		     (int64_t)(bytes < RW_BYTES_MAX ? bytes : RW_BYTES_MAX);
	room = get_room();
	if (!room)
		return -ENOMEM;
	bounce.memory = aligned_memory(room);
	res = execute(&bounce, uaio_is_range_aligned(&alignment, &req->sqe));
	uaio_slab_put(&rooms, room);
	if (res != -EINVAL)
		uaio_stats_direct(UAIO_DIRECT_BOUNCED, 1);
	return res;
}

/* SPDX-License-Identifier: MIT */
/*
 * Operations as the engine sees them
 *
 * A front-end describes a request in a struct uaio_sqe; op/optab.c has one row
 * per operation that says how to check it and how to make it. The engine
 * decides where and when.
 */
#ifndef UAIO_ENGINE_OPDEF_H
#define UAIO_ENGINE_OPDEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct uaio_file;

enum uaio_op {
	UAIO_OP_READ,
	UAIO_OP_READV,
	UAIO_OP_WRITE,
	UAIO_OP_WRITEV,
	UAIO_OP_FSYNC,
	UAIO_OP_FDSYNC,
	UAIO_OP_POLL,
	UAIO_OP_NOP,
	UAIO_OP_OPENAT,
	UAIO_NR_OPS,
};

/* What the policy and the order of a file's requests depend on. */
enum uaio_op_class {
	UAIO_CLASS_READ,
	UAIO_CLASS_WRITE,
	UAIO_CLASS_SYNC,
	UAIO_CLASS_POLL,
	UAIO_NR_CLASSES, /* that the policy's table has */
	/*
	 * A plain system call, on no file, so there is no policy to ask: if it
	 * may block, and for how long nobody knows, it is a worker's.
	 */
	UAIO_CLASS_CALL = UAIO_NR_CLASSES,
};

struct uaio_sqe {
	uint8_t op;        /* enum uaio_op */
	bool is_signalled; /* a descriptor tells its client of its end */
	bool is_async;     /* a worker's, whatever the policy would say */
	uint16_t ioprio;   /* 0: none asked for */
	union {
		uint32_t rw_flags;   /* RWF_* of preadv2() */
		uint32_t open_flags; /* O_* */
	};
	int fd; /* of openat the folder's; ignored by what is on no file */
	uint64_t word; /* the door's, or 0: see sink.h */
	union {
		int64_t off;   /* or UAIO_OFF_POSITION */
		uint32_t mode; /* of a new file */
	};
	union {
		void *buf;               /* borrows: the client's memory */
		const struct iovec *iov; /* borrows; a request owns its copy */
		const char *path;        /* the same */
		uint64_t events;         /* of poll(): the low 16 bits */
	};
	uint64_t len;  /* bytes, of a path with its 0; or number of iovecs */
	uint64_t data; /* comes back in the completion */
	uint64_t key;  /* as well; a request is cancelled by it */
};

/*
 * Where the open file is; streams are nowhere else. What was read or written
 * there in part cannot be made again, as the position has moved on.
 */
#define UAIO_OFF_POSITION INT64_C(-1)

/*
 * Of the extra flags for run: a write that has waited is tried again. Whoever
 * does it gets no SIGPIPE. (RWF_NOSIGNAL; not all kernels know it.)
 */
enum { UAIO_RWF_HAS_WAITED = 0x100 };

/* What one call moves at most: INT_MAX less the rest of its page. */
#define UAIO_RW_BYTES_MAX ((uint64_t)0x7ffff000)

/* How a request went when it was tried. The result is apart from it. */
enum uaio_issue {
	UAIO_ISSUE_DONE,         /* complete, with a result */
	UAIO_ISSUE_RETRY_READY,  /* when its file is ready */
	UAIO_ISSUE_RETRY_PAGE,   /* when its pages, now started, are there */
	UAIO_ISSUE_RETRY_WORKER, /* on a worker, where it may block */
};

struct uaio_op_def {
	const char *name;
	enum uaio_op_class class;
	bool is_vectored;  /* iov outlives the call: it is copied */
	bool has_path;     /* so does path */
	bool has_no_file;  /* its requests' is NULL */
	bool never_blocks; /* and takes next to no time */

	/*
	 * Refuse what is not safe to go on with, or can never be made. What
	 * only one interface refuses, its front-end has refused before.
	 * Return: 0 or -errno.
	 */
	int (*prep)(const struct uaio_sqe *sqe, const struct uaio_file *file);

	/*
	 * Make the request's system call on fd. extra_flags are RWF_* added to
	 * the client's: RWF_NOWAIT, or none to block as long as it takes, and
	 * UAIO_RWF_HAS_WAITED, which reads ignore. With RWF_NOWAIT -EOPNOTSUPP
	 * says that there is no way to make it without blocking.
	 * Return: the call's result or -errno.
	 */
	int64_t (*run)(const struct uaio_sqe *sqe, int fd, bool is_stream,
		       uint32_t extra_flags);
};

extern const struct uaio_op_def uaio_optab[UAIO_NR_OPS];

/* Return: bytes of the arguments that a request owns a copy of. */
static inline size_t uaio_sqe_copied_bytes(const struct uaio_sqe *sqe)
{
	if (uaio_optab[sqe->op].is_vectored)
		return sqe->len * sizeof(*sqe->iov);
	return uaio_optab[sqe->op].has_path ? sqe->len : 0;
}

/* Return: bytes a read or write asks for, and may get. */
static inline uint64_t uaio_sqe_bytes(const struct uaio_sqe *sqe)
{
	uint64_t bytes = 0;

	if (!uaio_optab[sqe->op].is_vectored)
		return sqe->len;
	for (uint64_t i = 0; i < sqe->len; i++)
		bytes += sqe->iov[i].iov_len;
	return bytes < UAIO_RW_BYTES_MAX ? bytes : UAIO_RW_BYTES_MAX;
}

/* Cut a copy of vectors to what one call moves, however many are made for it. */
static inline void uaio_iovs_cut(struct iovec *iov, uint64_t nr)
{
	uint64_t left = UAIO_RW_BYTES_MAX;

	for (uint64_t i = 0; i < nr; i++) {
		if (iov[i].iov_len > left)
			iov[i].iov_len = left;
		left -= iov[i].iov_len;
	}
}

/*
 * bytes of sqe are done: the rest is what remains. iov is a copy of the vectors
 * that sqe points to. Spent vectors stay, empty, so that their number does.
 */
static inline void uaio_sqe_advance(struct uaio_sqe *sqe, struct iovec *iov,
				    uint64_t bytes)
{
	if (sqe->off != UAIO_OFF_POSITION)
		sqe->off += (int64_t)bytes; /* streams have none */
	if (!uaio_optab[sqe->op].is_vectored) {
		sqe->buf = (char *)sqe->buf + bytes;
		sqe->len -= bytes;
		return;
	}
	for (uint64_t i = 0; i < sqe->len && bytes; i++) {
		size_t part = iov[i].iov_len;

		if (part > bytes)
			part = bytes;
		iov[i].iov_base = (char *)iov[i].iov_base + part;
		iov[i].iov_len -= part;
		bytes -= part;
	}
}

#endif /* UAIO_ENGINE_OPDEF_H */

/* SPDX-License-Identifier: MIT */
/*
 * Names that users read and type: of operations, which a request may be of, and of errors
 *
 * The names are those of the statistics, of faults (faults.h) and of traces; the
 * command knows them as well. What an operation does is in op/op.h.
 */
#ifndef UAIO_OPTIONS_NAMES_H
#define UAIO_OPTIONS_NAMES_H

#include <stddef.h>

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
	UAIO_OP_TIMER,
	UAIO_OP_LINK_TIMER, /* of the request before it in a chain */
	UAIO_OP_READ_SELECT, /* to where its door says: len bytes at most, if not 0 */

	/* of an open file */
	UAIO_OP_FALLOCATE,
	UAIO_OP_FTRUNCATE,
	UAIO_OP_SYNC_FILE_RANGE,
	UAIO_OP_FADVISE,
	UAIO_OP_FGETXATTR,
	UAIO_OP_FSETXATTR,

	/* of a socket */
	UAIO_OP_SEND,
	UAIO_OP_SENDMSG,
	UAIO_OP_SEND_ZC, /* io_uring's: as SEND, where the kernel need not copy */
	UAIO_OP_SENDMSG_ZC,
	UAIO_OP_RECV,
	UAIO_OP_RECVMSG,
	UAIO_OP_ACCEPT,
	UAIO_OP_CONNECT,
	UAIO_OP_SHUTDOWN,
	UAIO_OP_BIND,
	UAIO_OP_LISTEN,
	UAIO_OP_SOCKET_CMD,

	/* without a file */
	UAIO_OP_MADVISE,
	UAIO_OP_OPENAT2,
	UAIO_OP_CLOSE,
	UAIO_OP_STATX,
	UAIO_OP_RENAMEAT,
	UAIO_OP_UNLINKAT,
	UAIO_OP_MKDIRAT,
	UAIO_OP_SYMLINKAT,
	UAIO_OP_LINKAT,
	UAIO_OP_GETXATTR,
	UAIO_OP_SETXATTR,
	UAIO_OP_SPLICE,
	UAIO_OP_TEE,
	UAIO_OP_EPOLL_CTL,
	UAIO_OP_PIPE,
	UAIO_OP_SOCKET,
	UAIO_OP_FUTEX_WAKE,
	UAIO_OP_FUTEX_WAIT,
	UAIO_OP_FUTEX_WAITV,
	UAIO_OP_WAITID,
	UAIO_OP_EPOLL_WAIT, /* of an open file: an epoll */
	UAIO_OP_CALLED,     /* a function of the door's, which never blocks */
	UAIO_NR_OPS,
};

extern const char *const uaio_op_names[UAIO_NR_OPS];

/* errors.c: errors by their names */

/* Return: the error number of that name, in either case, as EIO or eio; or 0. */
int uaio_error_of(const char *name, size_t len);

/* Return: "EIO" for 5; NULL if no error has the number. */
const char *uaio_error_name(int error);

/* like.c: the known name that is most like a mistyped one */

struct uaio_like {
	const char *name;  /* what was typed */
	const char *best;  /* the known name that is most like it, or NULL */
	unsigned mistakes; /* by which the two differ */
};

/*
 * Compare @like->name with a known name. It becomes the best if it differs by fewer
 * mistakes than the best before, by no more than two, and by no more than half of what
 * was typed. A mistake is a character that was put in, left out or changed.
 */
void uaio_like_compare(struct uaio_like *like, const char *known);

#endif /* UAIO_OPTIONS_NAMES_H */

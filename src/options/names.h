/* SPDX-License-Identifier: MIT */
/*
 * Names of operations and errors that users read and type
 *
 * Statistics, faults (faults.h), traces and the command uaio use them. op/op.h says what
 * an operation does.
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
	UAIO_OP_LINK_TIMER,  /* the timeout of the previous linked request */
	UAIO_OP_READ_SELECT, /* to provided buffers; len 0: no limit */

	/* on an open file */
	UAIO_OP_FALLOCATE,
	UAIO_OP_FTRUNCATE,
	UAIO_OP_SYNC_FILE_RANGE,
	UAIO_OP_FADVISE,
	UAIO_OP_FGETXATTR,
	UAIO_OP_FSETXATTR,

	/* on a socket */
	UAIO_OP_SEND,
	UAIO_OP_SENDMSG,
	UAIO_OP_SEND_ZC, /* SEND of io_uring that may be zero-copy */
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
	UAIO_OP_EPOLL_WAIT, /* on an open file: an epoll */
	UAIO_OP_CALLED,     /* a function of the door, which never blocks */
	UAIO_NR_OPS,
};

extern const char *const uaio_op_names[UAIO_NR_OPS];

/* errors.c: names of errors */

/* Return: the error number for a name in upper or lower case; 0 if unknown. */
int uaio_error_of(const char *name, size_t len);

/* Return: the name, such as "EIO" for 5; NULL if no error has this number. */
const char *uaio_error_name(int error);

/* like.c: suggestions for mistyped names */

struct uaio_like {
	const char *name;  /* the typed name */
	const char *best;  /* the most similar known name so far; or NULL */
	unsigned mistakes; /* the distance of the two */
};

/*
 * Compare @like->name with a known name, which becomes the best if it has fewer mistakes
 * than the best so far. It must have at most two, and at most one for each two characters
 * typed. A mistake is a character inserted, omitted or changed.
 */
void uaio_like_compare(struct uaio_like *like, const char *known);

#endif /* UAIO_OPTIONS_NAMES_H */

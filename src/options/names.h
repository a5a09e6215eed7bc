/* SPDX-License-Identifier: MIT */
/*
 * Names of operations and errors, which users read and type
 *
 * Statistics, faults (faults.h), traces and the command uaio use these names. op/op.h
 * says what an operation does.
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
	/* timeout of the previous request in the chain of linked requests */
	UAIO_OP_LINK_TIMER,
	/*
	 * read into provided buffers, at most `len` bytes per buffer; `len` 0: fill the
	 * buffer
	 */
	UAIO_OP_READ_SELECT,

	/* operations on an open file */
	UAIO_OP_FALLOCATE,
	UAIO_OP_FTRUNCATE,
	UAIO_OP_SYNC_FILE_RANGE,
	UAIO_OP_FADVISE,
	UAIO_OP_FGETXATTR,
	UAIO_OP_FSETXATTR,

	/* operations on a socket */
	UAIO_OP_SEND,
	UAIO_OP_SENDMSG,
	/*
	 * io_uring's SEND_ZC and SENDMSG_ZC, which may send without copying the data
	 */
	UAIO_OP_SEND_ZC,
	UAIO_OP_SENDMSG_ZC,
	UAIO_OP_RECV,
	UAIO_OP_RECVMSG,
	UAIO_OP_ACCEPT,
	UAIO_OP_CONNECT,
	UAIO_OP_SHUTDOWN,
	UAIO_OP_BIND,
	UAIO_OP_LISTEN,
	UAIO_OP_SOCKET_CMD,

	/* operations without a file */
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
	/* its file is an epoll */
	UAIO_OP_EPOLL_WAIT,
	/*
	 * a function that a front-end (such as io_uring) executes as a request; never
	 * blocks
	 */
	UAIO_OP_CALLED,
	UAIO_NR_OPS,
};

extern const char *const uaio_op_names[UAIO_NR_OPS];

/* errors.c: converts between errors and their names */

/*
 * Return: the number of the error with this name, in upper or lower case; 0 if it is
 * unknown.
 */
int uaio_error_of(const char *name, size_t len);

/*
 * Return: the name of an error, such as "EIO" for 5; NULL if no error has this number.
 */
const char *uaio_error_name(int error);

/* like.c: finds known names that are similar to a mistyped name */

struct uaio_like {
	const char *name; /* the typed name */
	/* the most similar name so far; or NULL */
	const char *best;
	/* how many mistakes there are between `best` and `name` */
	unsigned mistakes;
};

/*
 * Compare the typed @like->name with a known name. A mistake is a character that is
 * inserted, omitted or changed. A similar name has at most two mistakes, and at most
 * one for each two characters of the typed name. If the known name is similar, and has
 * fewer mistakes than @like->best, it becomes @like->best.
 */
void uaio_like_compare(struct uaio_like *like, const char *known);

#endif /* UAIO_OPTIONS_NAMES_H */

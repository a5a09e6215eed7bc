/* SPDX-License-Identifier: MIT */
/*
 * Arguments: what an operation has beside what fits into a struct uaio_sqe
 *
 * A front-end fills in a struct uaio_args, which a struct uaio_sqe points to while
 * it is submitted. If the request has to wait, it gets a copy with all that the
 * call reads, in one piece of memory: the client may change its own as soon as
 * the submitting call returns. What the call writes to is the client's memory, as
 * the buffer of a read is.
 *
 *   I1  prep measures the texts. A copy of a text ends where it ended then, even
 *       if its client writes there meanwhile.
 *   I2  A copy has references to its files, from when it is made; of files that
 *       are not fixed yet, from uaio_args_fix() on.
 *
 * Tested by test-args.c.
 */
#ifndef UAIO_OP_ARGS_H
#define UAIO_OP_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op/op.h"

struct iovec;
struct uaio_endable;
struct uaio_file;
struct uaio_queue;
struct uaio_sleeper;

/* The kernel's struct user_msghdr. That of musl has counts of 32 bits, and padding. */
struct uaio_msghdr {
	void *msg_name;
	uint32_t msg_namelen;
	struct iovec *msg_iov;
	size_t msg_iovlen;
	void *msg_control;
	size_t msg_controllen;
	unsigned msg_flags;
};

/* The descriptors of an operation with two. */
enum uaio_end { UAIO_END_IN, UAIO_END_OUT, UAIO_NR_ENDS };

/* All that an operation does not use is 0. A copy owns what it points to, but out. */
struct uaio_args {
	const char *path;
	const char *name; /* a second path, or that of an attribute */
	const void *in;   /* other memory that the call reads */
	void *out;        /* borrows: where the call writes */
	uint32_t in_bytes;
	uint32_t out_bytes;
	const void *address; /* of a socket: to send, connect or bind to */
	uint32_t address_bytes;

	/*
	 * Of a message: its vectors are in; its control data is the client's memory,
	 * which the call reads or writes. Of one that is received, out is the
	 * client's struct msghdr, or NULL; and where the sender's address goes.
	 */
	uint32_t sender_bytes;
	void *sender;  /* borrows, as out */
	void *control; /* the same */
	uint64_t control_bytes;

	int fd;        /* a second descriptor; with name: its directory */
	uint32_t what; /* of statx(): the mask; of epoll_ctl(): op */
	int64_t off;   /* on the second descriptor, or UAIO_OFF_POSITION */
	/*
	 * Of an operation with two ends: the files that they are, fixed
	 * (file.h), instead of the descriptors; or NULL.
	 */
	struct uaio_file *files[UAIO_NR_ENDS];
	bool is_place
		[UAIO_NR_ENDS]; /* its number is one of a door's (sink.h) */

	/* Of a copy with two ends: shares; NULL: its call may not be ended. */
	struct uaio_endable *endable;
	/* Of an operation that sleeps. A copy shares it (ref); others borrow it. */
	struct uaio_sleeper *sleeper;

	/* set here, and by prep */
	uint32_t path_bytes; /* both with their 0 at the end */
	uint32_t name_bytes;
	uint32_t copied_bytes; /* in all, of a copy; else 0 */
};

/* The most bytes that the value of an attribute has. */
enum { UAIO_VALUE_BYTES_MAX = 65536, UAIO_NAME_BYTES_MAX = 256 };

/* The most futexes that FUTEX_WAITV waits on: with ours they are the kernel's most. */
enum { UAIO_FUTEXES_MAX = 126 };

/* The most bytes of a socket's address: struct sockaddr_storage. */
enum { UAIO_ADDRESS_BYTES_MAX = 128 };

/* The most bytes that a copy has: a path, and an attribute with its value. */
enum {
	UAIO_ARGS_BYTES_MAX = sizeof(struct uaio_args) + 4096 +
			      UAIO_NAME_BYTES_MAX + UAIO_VALUE_BYTES_MAX,
};

/*
 * Measure a path of the client's, for path_bytes, name_bytes, or sqe.len where an
 * operation has but one path.
 * Return: 0 with its length, including the 0; -EFAULT; -ENAMETOOLONG; -ENOENT: it
 * is empty, and may_be_empty is false.
 */
int uaio_path_measure(const char *path, bool may_be_empty, uint32_t *ret_bytes);

/* The same for the name of an attribute. Return: 0; -EFAULT; -ERANGE. */
int uaio_name_measure(const char *name, uint32_t *ret_bytes);

/* Return: whether this memory of the client's may be read from here. */
bool uaio_args_can_read(const void *memory, uint64_t bytes);

/* Return: the size of a copy of the arguments of sqe, which has such. */
size_t uaio_args_bytes(const struct uaio_sqe *sqe);

/* Copy the arguments to memory of that size. */
void uaio_args_copy(const struct uaio_args *args, void *ret_copy);

/* As get_fixed of struct uaio_sink. */
typedef struct uaio_file *uaio_args_place_fn(struct uaio_queue *queue,
					     int place);

/*
 * Fix the files of a copy that are not fixed; out is a descriptor, the other is
 * in the copy. What is a place is found there, by the function, which may be NULL if
 * none is.
 * Return: 0; -EBADF; -EAGAIN: no descriptor or no memory can be had.
 */
int uaio_args_fix(struct uaio_args *copy, int out, struct uaio_queue *queue,
		  uaio_args_place_fn *find);

/*
 * Note that bytes of a message are moved: the vectors of the copy go on behind them,
 * and the control data has gone with them.
 */
void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes);

/* Drop what a copy has references to. */
void uaio_args_release(struct uaio_args *copy);

#endif /* UAIO_OP_ARGS_H */

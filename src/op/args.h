/* SPDX-License-Identifier: MIT */
/*
 * Arguments of an operation that do not fit into a struct uaio_sqe
 *
 * A front-end (kernel AIO, io_uring or POSIX AIO) fills in a struct uaio_args, to which a
 * struct uaio_sqe points during the submission. A request that waits gets a copy of everything
 * that its system call reads, in one piece of memory. So the client may change its own memory
 * once the submitting call returns. What the system call writes goes to the client's memory,
 * as with the buffer of a read.
 *
 *   I1  prep measures the strings. The copy of a string has the length that prep measured,
 *       even if the client changes the string meanwhile.
 *   I2  A copy owns references to its files from its creation on, or, for files that are not
 *       fixed yet (given by descriptor), from uaio_args_fix() on.
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

/* The kernel's struct user_msghdr. musl's struct msghdr has 32-bit counts, and padding. */
struct uaio_msghdr {
	void *msg_name;
	uint32_t msg_namelen;
	struct iovec *msg_iov;
	size_t msg_iovlen;
	void *msg_control;
	size_t msg_controllen;
	unsigned msg_flags;
};

/* The two files of a splice or tee. */
enum uaio_end { UAIO_END_IN, UAIO_END_OUT, UAIO_NR_ENDS };

/* Unused members are 0. A copy owns what it points to, except out. */
struct uaio_args {
	const char *path;
	const char *name; /* a second path, or the name of an attribute */
	const void *in;   /* other memory that the call reads */
	void *out;        /* borrows: where the call writes */
	uint32_t in_bytes;
	uint32_t out_bytes;
	/* the address of a socket to send to, connect to or bind to */
	const void *address;
	uint32_t address_bytes;

	/*
	 * For a message: in holds its vectors. control is the client's memory, which the call
	 * reads or writes. For a message to receive: out is the client's struct msghdr, or
	 * NULL; sender is the memory for the sender's address.
	 */
	uint32_t sender_bytes;
	void *sender;  /* borrows */
	void *control; /* borrows */
	uint64_t control_bytes;

	/* a second descriptor; if name is a path: the directory that the path starts from */
	int fd;
	uint32_t what; /* the mask of statx(); the op of epoll_ctl() */
	int64_t off; /* offset of the second descriptor, or UAIO_OFF_POSITION */
	/*
	 * For an operation with two files: both files, if they are fixed (file.h), instead of
	 * descriptors; or NULL.
	 */
	struct uaio_file *files[UAIO_NR_ENDS];
	/* fd is not a descriptor but a slot of the ring's registered files (sink.h) */
	bool is_place[UAIO_NR_ENDS];

	/* For a copy with two files; shares; NULL: its call cannot be ended early. */
	struct uaio_endable *endable;
	/*
	 * For an operation that sleeps (sleeper.h): a copy shares the sleeper (ref); other
	 * structs borrow it.
	 */
	struct uaio_sleeper *sleeper;

	/* set by prep */
	/* path_bytes and name_bytes include the terminating 0 */
	uint32_t path_bytes;
	uint32_t name_bytes;
	uint32_t copied_bytes; /* the size of a copy; 0 if this is not a copy */
};

/* The most bytes of an attribute's value, and of its name. */
enum { UAIO_VALUE_BYTES_MAX = 65536, UAIO_NAME_BYTES_MAX = 256 };

/* The most futexes that FUTEX_WAITV waits on: with the library's two, the kernel's limit. */
enum { UAIO_FUTEXES_MAX = 126 };

/* The most bytes of a socket's address: struct sockaddr_storage. */
enum { UAIO_ADDRESS_BYTES_MAX = 128 };

/* The most bytes of a copy: a path, and an attribute's name and value. */
enum {
	UAIO_ARGS_BYTES_MAX = sizeof(struct uaio_args) + 4096 +
			      UAIO_NAME_BYTES_MAX + UAIO_VALUE_BYTES_MAX,
};

/*
 * Measure a path of the client's. The result is stored in path_bytes or name_bytes; in sqe.len
 * if the operation has only one path.
 * Return: 0 with its length, including the 0; -EFAULT; -ENAMETOOLONG; -ENOENT: it is
 * empty, and may_be_empty is false.
 */
int uaio_path_measure(const char *path, bool may_be_empty, uint32_t *ret_bytes);

/* Measure the name of an attribute. Return: 0 with its length; -EFAULT; -ERANGE. */
int uaio_name_measure(const char *name, uint32_t *ret_bytes);

/* Return: whether the library can read this memory of the client. */
bool uaio_args_can_read(const void *memory, uint64_t bytes);

/* Return: how many bytes a copy of the arguments of sqe needs. */
size_t uaio_args_bytes(const struct uaio_sqe *sqe);

/* Copy the arguments to memory of uaio_args_bytes() bytes. */
void uaio_args_copy(const struct uaio_args *args, void *ret_copy);

/* Like get_fixed of struct uaio_sink. */
typedef struct uaio_file *uaio_args_place_fn(struct uaio_queue *queue,
					     int place);

/*
 * Fix the files of a copy that are not fixed yet: out, and the descriptor in the copy. find
 * looks up registered files by their slot; NULL: the copy has none.
 * Return: 0; -EBADF; -EAGAIN: no descriptor or no memory can be had.
 */
int uaio_args_fix(struct uaio_args *copy, int out, struct uaio_queue *queue,
		  uaio_args_place_fn *find);

/*
 * Skip the first `bytes` bytes of a message, which were sent or received. The control data was
 * transferred with them.
 */
void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes);

/* Drop the references of a copy. */
void uaio_args_release(struct uaio_args *copy);

#endif /* UAIO_OP_ARGS_H */

/* SPDX-License-Identifier: MIT */
/*
 * Arguments of an operation that do not fit into a struct uaio_sqe
 *
 * A front-end (kernel AIO, io_uring or POSIX AIO) fills in a struct uaio_args, to which a
 * struct uaio_sqe points during the submission. A request that waits gets a copy of
 * everything that its system call reads, in one piece of memory. So the client may change
 * its own memory once the submitting call returns. The system call writes its results to
 * the client's memory, as for the buffer of a read.
 *
 *   I1  The operation's function prep (op.h) measures the strings. The copy of a string
 *       has the measured length, even if the client changes the string meanwhile.
 *   I2  A copy owns references to its files. If the client gave a registered (fixed)
 *       file, the copy owns a reference from its creation on. If the client gave a
 *       descriptor, the copy owns a reference from uaio_args_fix() on.
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

/*
 * The kernel's struct user_msghdr. It is declared here because musl's struct msghdr
 * differs: it has 32-bit counts, and padding.
 */
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

/*
 * Unused members are 0. If the struct is a copy for a waiting request, it owns the
 * memory to which its pointers point, except `out`.
 */
struct uaio_args {
	const char *path;
	const char *name; /* a second path, or the name of an attribute */
	const void *in;   /* other memory that the system call reads */
	/* borrows: the memory to which the system call writes */
	void *out;
	uint32_t in_bytes;
	uint32_t out_bytes;
	/* the address of a socket to send to, connect to or bind to */
	const void *address;
	uint32_t address_bytes;

	/*
	 * For a message, `in` is the copy of its vectors, and `control` is the client's
	 * memory for control data. To receive a message, `out` is the client's struct
	 * msghdr, or NULL, and `sender` is the memory for the sender's address.
	 */
	uint32_t sender_bytes;
	void *sender;  /* borrows */
	void *control; /* borrows */
	uint64_t control_bytes;

	/*
	 * a second descriptor; if the member `name` is a path, the directory in which the
	 * path begins
	 */
	int fd;
	uint32_t what; /* for STATX the mask; for EPOLL_CTL the op */
	int64_t off; /* offset of the second descriptor, or UAIO_OFF_POSITION */
	/*
	 * For an operation with two files: a pointer to each file that is fixed (file.h);
	 * NULL for a file that is given by a descriptor.
	 */
	struct uaio_file *files[UAIO_NR_ENDS];
	/*
	 * For each of the two files: the file's number (in fd or in the sqe) is a slot
	 * in the ring's table of registered files (sink.h), not a descriptor.
	 */
	bool is_place[UAIO_NR_ENDS];

	/*
	 * owns: an endable (proc/endable.h), in which a worker waits for a file, so that
	 * a canceller can end the wait. Set only in a copy for an operation with two
	 * files. NULL: the wait cannot be ended.
	 */
	struct uaio_endable *endable;
	/*
	 * For an operation that sleeps (sleeper.h). A copy has a reference to the sleeper;
	 * other structs borrow it.
	 */
	struct uaio_sleeper *sleeper;

	/* set by prep */
	/* path_bytes and name_bytes include the terminating null byte */
	uint32_t path_bytes;
	uint32_t name_bytes;
	/* the size in bytes, if this is a copy; else 0 */
	uint32_t copied_bytes;
};

/* The most bytes that an attribute's value and its name can have. */
enum { UAIO_VALUE_BYTES_MAX = 65536, UAIO_NAME_BYTES_MAX = 256 };

/*
 * The most futexes on which FUTEX_WAITV waits: the kernel's limit of 128, less two of the
 * library's own (sleeper.h).
 */
enum { UAIO_FUTEXES_MAX = 126 };

/* The most bytes of a socket's address: struct sockaddr_storage. */
enum { UAIO_ADDRESS_BYTES_MAX = 128 };

/*
 * The most bytes of a copy. The largest one has a path, and an attribute's name and
 * value.
 */
enum {
	UAIO_ARGS_BYTES_MAX = sizeof(struct uaio_args) + 4096 +
			      UAIO_NAME_BYTES_MAX + UAIO_VALUE_BYTES_MAX,
};

/*
 * Measure a path of the client's. The caller stores the length in path_bytes or name_bytes;
 * for an operation with only one path, in sqe.len.
 * Return: 0 on success: *ret_bytes then includes the terminating null byte; -EFAULT;
 * -ENAMETOOLONG; -ENOENT if the path is empty, and may_be_empty is false.
 */
int uaio_path_measure(const char *path, bool may_be_empty, uint32_t *ret_bytes);

/*
 * Measure the name of an attribute.
 * Return: 0 on success: *ret_bytes then includes the terminating null byte; -EFAULT;
 * -ERANGE: the name is empty or too long.
 */
int uaio_name_measure(const char *name, uint32_t *ret_bytes);

/* Return: whether the library can read this memory of the client. */
bool uaio_args_can_read(const void *memory, uint64_t bytes);

/* Return: how many bytes a copy of the arguments of sqe needs. */
size_t uaio_args_bytes(const struct uaio_sqe *sqe);

/* Copy the arguments to memory of uaio_args_bytes() bytes. */
void uaio_args_copy(const struct uaio_args *args, void *ret_copy);

/* A function like get_fixed of struct uaio_sink (sink.h): looks up a registered file. */
typedef struct uaio_file *uaio_args_place_fn(struct uaio_queue *queue,
					     int place);

/*
 * The client gives the two files of a splice or tee by the numbers copy->fd and `out`.
 * For each file that is not fixed yet, make a fixed file (file.h, I5), and store it in
 * copy->files. If a number is a slot of registered files, call find() to look the file
 * up. `find` may be NULL if no number is a slot.
 * Return: 0; -EBADF; -EMFILE: no descriptor is left; -EAGAIN: memory is refused.
 */
int uaio_args_fix(struct uaio_args *copy, int out, struct uaio_queue *queue,
		  uaio_args_place_fn *find);

/*
 * Called after a call that has transferred the first `bytes` bytes of a message and all
 * its control data: make sqe describe the bytes that are left.
 */
void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes);

/* Drop the references that a copy owns. */
void uaio_args_release(struct uaio_args *copy);

#endif /* UAIO_OP_ARGS_H */

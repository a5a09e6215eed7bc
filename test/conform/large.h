/* SPDX-License-Identifier: MIT */
/*
 * Test data in which each word shows its file offset and its writer. The data is for
 * requests so large that the library may execute them in segments.
 *
 * Each word of the data contains its offset in the file and a "hand", which is the
 * number of the write that wrote it. So misplaced data is recognised anywhere. Test
 * cases print the content of memory or of a file as text: "1:4096,2:512,zero:1024" means
 * 4096 bytes of hand 1, 512 bytes of hand 2, 1024 zero bytes.
 */
#ifndef CONFORM_LARGE_H
#define CONFORM_LARGE_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* The library splits direct requests only at multiples of SEGMENT. */
#define SEGMENT (256l << 10)
#define LARGE (4l << 20)

void stamp(void *buf, size_t nbytes, long long offset, int hand);
bool is_stamped(const void *buf, size_t nbytes, long long offset, int hand);

/* Prints what was read into memory, and what the file "f" contains. */
void note_bytes(const char *key, const void *buf, size_t nbytes,
		long long offset);
void note_file(const char *key);

/*
 * Creates a file whose words have hand (number) 1, and opens it with O_DIRECT and these
 * flags.
 */
int large_file(const char *name, size_t size, int flags);
/* Opens the descriptor's file again, as a new open file description. */
int open_again(int fd, int flags);

/*
 * Make a request of up to LARGE bytes. All requests use one shared buffer. A read
 * prints its result, the data read (.data), and whether it changed other memory
 * (.astray). A write prints its result and the content of file "f": the range written
 * (.data), the remainder of the requested range (.left), and all other bytes (.around).
 * The words of successive writes have the hands 2, 3, ...
 */
void read_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset);
void write_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset);
/* As read_large() and write_large(), but with RWF_* flags. */
void read_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
void write_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		   long long offset, unsigned int flags);

/*
 * As read_large() and write_large(), but the memory of the request begins `by` bytes
 * after the start of the shared buffer.
 */
void read_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset, int by);
void write_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset, int by);
/* As write_large(), but appends to the file, so that the offset has no effect. */
void append_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
/*
 * These functions are for a test case that writes by its own calls, not by
 * write_large(). next_hand() returns the hand (number) of the next write;
 * note_written() prints what write_large() prints.
 */
int next_hand(void);
void note_written(const char *key, long long nbytes, long long offset,
		  long long res);
/*
 * The field .left shows the bytes of the requested range that the result of a write
 * does not count. A failed write prints .left only if some of these bytes are neither
 * zero nor data of a write. After this call, a short write prints .left only under this
 * condition, too.
 */
void what_is_left_is_open(void);

/*
 * Parts of the shared buffer, as an iovec. The first element has the highest address,
 * and one block lies between any two elements. A test case may change iov before it
 * makes a request.
 */
struct pieces {
	struct iovec iov[1024];
	int nr;
};
void add_pieces(struct pieces *pieces, int nr, size_t nbytes);
void read_pieces(const char *key, aio_context_t ctx, int fd,
		 const struct pieces *pieces, long long offset);
void write_pieces(const char *key, aio_context_t ctx, int fd,
		  const struct pieces *pieces, long long offset);

/*
 * Mounts a small file system at "small", of the same type as the current directory's.
 * The mount ends with the test case.
 */
void mount_small(void);
/* Fills all free space of the file system at "small". */
void fill_small(void);

#endif

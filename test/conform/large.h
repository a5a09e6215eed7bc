/* SPDX-License-Identifier: MIT */
/*
 * Test data that shows its offset and its writer, for rows with requests so
 * large that they may be executed in several segments
 *
 * Each word holds its offset in the file and a hand, which is the number of the
 * write that wrote it. So misplaced data is recognised anywhere. Rows note the
 * content of memory or of a file as text, in blocks of 512 bytes:
 * "1:4096,2:512,zero:1024".
 */
#ifndef CONFORM_LARGE_H
#define CONFORM_LARGE_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* Requests are split only where the offset is a multiple of SEGMENT. */
#define SEGMENT (256l << 10)
#define LARGE (4l << 20)

void stamp(void *buf, size_t nbytes, long long offset, int hand);
bool is_stamped(const void *buf, size_t nbytes, long long offset, int hand);

/* Note what memory holds that was read there, and what the file "f" holds. */
void note_bytes(const char *key, const void *buf, size_t nbytes,
		long long offset);
void note_file(const char *key);

/* Creates a file that hand 1 fills; opens it with O_DIRECT and flags. */
int large_file(const char *name, size_t size, int flags);
/* Opens the file of the descriptor once more, as another open file. */
int open_again(int fd, int flags);

/*
 * Requests of up to LARGE bytes, all in one shared buffer. A read notes its
 * result, the data read (.data), and whether it changed other memory (.astray).
 * A write notes its result and the content of file "f": the range written
 * (.data), the rest of the requested range (.left), and all other bytes
 * (.around). The writes have the hands 2, 3, ...
 */
void read_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset);
void write_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset);
/* As read_large() and write_large(), with RWF_* flags in the request. */
void read_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
void write_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		   long long offset, unsigned int flags);

/* As read_large() and write_large(), in a buffer moved by some bytes. */
void read_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset, int by);
void write_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset, int by);
/* An appending write: it goes to the end of the file, whatever the offset. */
void append_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
/*
 * For writes made in another way: the next hand, and notes as write_large()'s.
 */
int next_hand(void);
void note_written(const char *key, long long nbytes, long long offset,
		  long long res);
/*
 * A failed write may have written some of its bytes, and in this row a short
 * write some bytes after those that it reports. After this call neither is
 * noted.
 */
void what_is_left_is_open(void);

/*
 * Parts of the shared buffer as an iovec. The first element lies highest in
 * memory, with a gap of one block between two. A row may change iov before its
 * request.
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
 * Mounts a small file system of the type in use at "small". It ends with the
 * row.
 */
void mount_small(void);
/* Fills all free space of the file system at "small". */
void fill_small(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Test data that shows its offset and its writer, for rows with requests so
 * large that they may be executed in several segments
 *
 * Each word consists of its offset in the file and a hand: the number of the write that
 * wrote the word. So misplaced data is recognised anywhere. Rows note the content of memory
 * or of a file as text, in blocks of 512 bytes: "1:4096,2:512,zero:1024".
 */
#ifndef CONFORM_LARGE_H
#define CONFORM_LARGE_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* The library only splits requests at multiples of SEGMENT. */
#define SEGMENT (256l << 10)
#define LARGE (4l << 20)

void stamp(void *buf, size_t nbytes, long long offset, int hand);
bool is_stamped(const void *buf, size_t nbytes, long long offset, int hand);

/* Notes what was read into memory, and what the file "f" contains. */
void note_bytes(const char *key, const void *buf, size_t nbytes,
		long long offset);
void note_file(const char *key);

/* Creates a file filled by hand 1, and opens it with O_DIRECT and these flags. */
int large_file(const char *name, size_t size, int flags);
/* Opens the descriptor's file again, as a new open file description. */
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
/* As read_large() and write_large(), but with RWF_* flags. */
void read_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
void write_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		   long long offset, unsigned int flags);

/* As read_large() and write_large(), but at an offset in the shared buffer. */
void read_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset, int by);
void write_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset, int by);
/* As write_large(), but appends to the file, so that the offset has no effect. */
void append_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
/*
 * For writes that are made in another way: return the next hand; note what write_large()
 * notes.
 */
int next_hand(void);
void note_written(const char *key, long long nbytes, long long offset,
		  long long res);
/*
 * A failed write may have written some of its bytes. In this row a short write, too, may
 * have written more bytes than it reports. After this call such bytes are not noted.
 */
void what_is_left_is_open(void);

/*
 * Parts of the shared buffer, as an iovec. Its first element is the highest in memory, with
 * a gap of one block between any two elements. A row may change iov before its request.
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
 * Mounts a small file system, of the type of the current one, at "small". The mount ends
 * with the row.
 */
void mount_small(void);
/* Fills all free space of the file system at "small". */
void fill_small(void);

#endif

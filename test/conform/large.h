/* SPDX-License-Identifier: MIT */
/*
 * Bytes that tell where they belong and which write wrote them, for rows whose
 * requests are large enough to be executed in several segments
 *
 * Each word holds its offset in the file and a hand, which is the number of a
 * write; so misplaced data is recognised wherever it is. The content of memory
 * or of a file is noted as text, in blocks of 512 bytes:
 * "1:4096,2:512,zero:1024".
 */
#ifndef CONFORM_LARGE_H
#define CONFORM_LARGE_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* If a request is cut then where an offset in the file is a multiple of it. */
#define SEGMENT (256l << 10)
#define LARGE (4l << 20)

void stamp(void *buf, size_t nbytes, long long offset, int hand);
bool is_stamped(const void *buf, size_t nbytes, long long offset, int hand);

/* What bytes read at that offset hold, and the file "f". */
void note_bytes(const char *key, const void *buf, size_t nbytes,
		long long offset);
void note_file(const char *key);

/* A new file by hand 1, opened with O_DIRECT and these flags. */
int large_file(const char *name, size_t size, int flags);
/* One more open file of it. */
int open_again(int fd, int flags);

/*
 * Requests of up to LARGE bytes, in memory that they share. A read notes its
 * result, what it read (.data), and if something else came into the memory
 * (.astray). A write notes its result, and what the file "f" holds then: what
 * was written (.data), what was not though it was asked for (.left), and all
 * else (.around). Writes are by the hands 2, 3, ...
 */
void read_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset);
void write_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset);
/* The same with flags of the request's. */
void read_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
void write_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		   long long offset, unsigned int flags);

/* The same in memory that is moved by so many bytes. */
void read_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset, int by);
void write_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset, int by);
/* A write that goes to the end of the file, whatever the offset. */
void append_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags);
/* For a write that is made otherwise. */
int next_hand(void);
void note_written(const char *key, long long nbytes, long long offset,
		  long long res);
/*
 * Of a write that fails some of its bytes may be written nevertheless; in this
 * row also behind what a short one tells of. It is not noted then.
 */
void what_is_left_is_open(void);

/*
 * Pieces in that memory: the first is the last there, with a gap of a block
 * between two. They may be changed before they are used.
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
 * A small file system of the row's own, of the type that the rows are run on,
 * at the folder "small"; it goes with the row.
 */
void mount_small(void);
/* Takes all the room that is left there. */
void fill_small(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs segments-*: one large direct request that the library executes
 * in segments. The file system holds, delays or fails each segment as the test wants
 * (slowfs.h).
 *
 * The request begins three pages before a border between segments, and ends seven pages
 * after another border. So it has 17 segments, the first of which is the shortest. Each
 * segment is one call of the file system, which a test identifies by its offset.
 */
#ifndef SEGMENTS_H
#define SEGMENTS_H

#include "split/split.h"
#include "items.h"
#include "slowfs.h"

enum {
	PAGE = 4096,
	SEGMENT = UAIO_SEGMENT_BYTES,
	NR_SEGMENTS = 17,
	FIRST = 3 * PAGE,
	LAST = 7 * PAGE,
	OFF = 2 * SEGMENT - FIRST,
	BYTES = FIRST + (NR_SEGMENTS - 2) * SEGMENT + LAST,
	/*
	 * If the library does not split the request, the kernel splits it into FUSE
	 * calls of this size.
	 */
	CALL = 1 << 20,
	NR_CALLS_WHOLE = (BYTES + CALL - 1) / CALL,
};

struct shape {
	unsigned opcode;
	enum slowfs_op op;
	bool is_vectored; /* it has vectors that cross borders between segments */
};

enum { NR_SHAPES = 4, NR_FAULTS = 5 };

extern const struct shape shapes[NR_SHAPES];
extern const struct slowfs_fault faults[NR_FAULTS];

extern struct slowfs *fs,
	*other_fs; /* file systems mounted at ./slow and ./other */

extern uint64_t handle;  /* an AIO context */
extern int fd;           /* of slow/file, opened with O_DIRECT */
extern struct iocb iocb; /* the request that was submitted last */

/*
 * The setup and teardown of each test. The setup starts the library, opens and fills
 * the file, and makes the context.
 */
int segments_start(void **state);
int segments_stop(void **state);
/* Open slow/file, and store its descriptor in fd. */
void open_file(void);
/*
 * Fill the file with the old content, which differs from the content that requests
 * write.
 */
void fill_file(void);

#define SEGMENTS_TEST(function) \
	cmocka_unit_test_setup_teardown(function, segments_start, segments_stop)

/*
 * Mount the slow file systems, and call run().
 * Return: what run() returned; 77 (skipped) if no slow file system can be mounted.
 */
int segments_main(int (*run)(void));

void set_at_once(unsigned at_once);
/*
 * From now on, if is_whole, result_of() returns the result of a request that is not
 * split; otherwise the result of a split request.
 */
void expect_whole(bool is_whole);

/* prepare(): make the request, its memory and its file ready for submission. */
void prepare(const struct shape *shape);
void submit(const struct shape *shape);
void assert_no_more(void);
/*
 * Reap the request's event, which must have this result. The request's memory and file
 * must have the content that follows from this result.
 */
void assert_executed(int64_t expected);
void assert_data(int64_t res);
/* Check the content of the request's memory, but not of its file. */
void assert_memory(int64_t res);

/* Return: the offset, from the request's start, at which the segment begins. */
int64_t border(unsigned segment);
/*
 * Make this segment of the prepared request fail. assert_executed() removes the fault.
 */
void fault_segment(unsigned segment, const struct slowfs_fault *fault);
/* Return: the result of the request if this segment is the first one with a fault. */
int64_t result_of(unsigned segment, const struct slowfs_fault *fault);
void make_with_fault(const struct shape *shape, unsigned segment,
		     const struct slowfs_fault *fault);
/* Execute a request of each shape, first without a fault, then with one. */
void make_all_shapes(void);

/*
 * Wait until exactly nr workers for files (UAIO_BOUNDED) are busy and nothing is
 * queued.
 */
void await_busy(unsigned nr);
/*
 * Return: whether FUSE executes direct writes of one file in parallel (since Linux
 * 6.2).
 */
bool are_writes_parallel(void);

#endif /* SEGMENTS_H */

/* SPDX-License-Identifier: MIT */
/*
 * What the programs segments-* share: one large direct request in segments, on
 * a file system that treats each segment as it is told to (slowfs.h)
 *
 * The request begins three pages before a segment border and ends seven pages
 * after one: 17 segments, of which the first is the shortest. Each segment is
 * one call of the file system, which identifies it by its offset.
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
	/* What the kernel cuts a request into, if we do not. */
	CALL = 1 << 20,
	NR_CALLS_WHOLE = (BYTES + CALL - 1) / CALL,
};

struct shape {
	unsigned opcode;
	enum slowfs_op op;
	bool is_vectored; /* in parts that know no borders */
};

enum { NR_SHAPES = 4, NR_FAULTS = 5 };

extern const struct shape shapes[NR_SHAPES];
extern const struct slowfs_fault faults[NR_FAULTS];

extern struct slowfs *fs, *other_fs; /* mounted on slow and other */

extern uint64_t handle;  /* a context */
extern int fd;           /* of slow/file, with O_DIRECT */
extern struct iocb iocb; /* the request, as it was submitted last */

/* Around each test; but for the file the engine need not be there before. */
int segments_start(void **state);
int segments_stop(void **state);
void open_file(void);
/* What was there before; what is written is something else. */
void fill_file(void);

#define SEGMENTS_TEST(function) \
	cmocka_unit_test_setup_teardown(function, segments_start, segments_stop)

/* Return: an exit status, 77 if there can be no such file system. */
int segments_main(int (*run)(void));

void set_at_once(unsigned at_once);
/* It is not cut from now on: there is nobody but the submitter. */
void expect_whole(bool is_whole);

/* Ready for being submitted. */
void prepare(const struct shape *shape);
void submit(const struct shape *shape);
void assert_no_more(void);
/* Its only event comes, with this result, and all data is as that says. */
void assert_executed(int64_t expected);
void assert_data(int64_t res);
/* Of the request's memory only. */
void assert_memory(int64_t res);

/* Return: where a segment begins, in the request. */
int64_t border(unsigned segment);
/* A fault of the request that was prepared; until it is made. */
void fault_segment(unsigned segment, const struct slowfs_fault *fault);
/* Return: the result where this one is the first with a fault. */
int64_t result_of(unsigned segment, const struct slowfs_fault *fault);
void make_with_fault(const struct shape *shape, unsigned segment,
		     const struct slowfs_fault *fault);
/* Each without a fault and with one. */
void make_all_shapes(void);

/* Return once all bounded workers but so many sleep, and nothing is queued. */
void await_busy(unsigned nr);
/* Return: whether writes of a file do not wait for one another. */
bool are_writes_parallel(void);

#endif /* SEGMENTS_H */

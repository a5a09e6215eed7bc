/* SPDX-License-Identifier: MIT */
/*
 * The ring of a trace: what traced processes and `uaio trace` share
 *
 * A file in memory, of the tracer's, that all traced processes map. It has lanes, each
 * of which is one thread's, and in each lane room for a number of records, one for
 * each request that has ended. Pages of lanes that nobody takes are never allocated.
 *
 *   I1  A lane is its thread's from when the thread writes its id into `owner`, which
 *       was 0, until the tracer writes 0 there, after it has found the thread gone.
 *       A program that becomes another by exec has the lane of its thread again.
 *   I2  Only its thread writes the records, `head` and `nr_lost` of a lane, and only
 *       the tracer `tail`. Records [tail, head), by their numbers, are the tracer's;
 *       the thread writes the next one, and then moves head. So a thread that dies at
 *       any instruction leaves only whole records.
 *   I3  Nobody waits. A thread that finds its lane full drops the record and counts
 *       it. So the program goes on as it was when the tracer is slow, or gone.
 *   I4  Neither side relies on what the other can write: numbers are cut to what
 *       there is room for. The file cannot be made shorter (F_SEAL_SHRINK).
 *   I5  Times are of uaio_cycles(), which is one clock for all processes of a machine.
 *   I6  A file has a number in records, which is never another file's of the process: a
 *       time. Before the first of these records is put, in whatever lane, some lane has
 *       its name (UAIO_TRACE_NAME): a record with the number in `file` and the length in
 *       `len`, and the text in those behind it, which are put together, and not counted
 *       as lost where there is no room. A file may get another number.
 *
 *              thread  tracer	X: one of them at a time, by I1
 *   put           X       -
 *   take          -       X
 */
#ifndef UAIO_TRACE_RING_H
#define UAIO_TRACE_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define UAIO_TRACE_MAGIC "uaiotrac"
enum { UAIO_TRACE_VERSION = 4 };

/* The path of the file, as traced processes find it. */
#define UAIO_TRACE_VARIABLE "UAIO_TRACE"

enum {
	UAIO_TRACE_LANES = 256,
	/* A million requests a second fill it in 16 milliseconds. */
	UAIO_TRACE_RECORDS = 16384,
};

/* Which interface a request came by. */
enum uaio_door_id {
	UAIO_DOOR_OTHER,
	UAIO_DOOR_AIO,
	UAIO_DOOR_URING,
	UAIO_DOOR_POSIX,
	UAIO_NR_DOORS,
};

/* Who executed a request. */
enum uaio_by {
	UAIO_BY_SUBMITTER, /* inside the submitting call */
	UAIO_BY_WAITER,    /* a thread of the program's, later */
	UAIO_BY_WORKER,
	UAIO_BY_READY,  /* the fallback thread, or another of ours */
	UAIO_BY_KERNEL, /* its AIO or io_uring, by itself */
	UAIO_NR_BYS,
};

/* Instead of an operation: a name (I6), of so many bytes at most. */
enum { UAIO_TRACE_NAME = 255, UAIO_TRACE_NAME_BYTES = 256 };

struct uaio_trace_record {
	uint64_t
		submitted; /* inline: as started; 0: not known, nor when it started */
	uint64_t started; /* its last system call; 0: none was made */
	uint64_t ended;
	int64_t off; /* -1: none, or the file's own position */
	uint64_t len;
	uint64_t file; /* its number (I6); 0: none, or its name is not known */
	int32_t res;
	int32_t fd; /* -1: none */
	uint8_t op; /* enum uaio_op */
	uint8_t door : 3;
	uint8_t by : 4;
	uint8_t is_late : 1; /* its completion was held back: its service time, too */
	uint16_t
		queue; /* the number of its context or ring, as they were set up */
	uint32_t tid; /* 0: the owner of its lane (ask.h) */
};

struct uaio_trace_lane {
	_Alignas(64) uint32_t owner; /* atomic: thread id; 0: nobody's */
	uint32_t pid;                /* atomic: its process */
	uint64_t head;               /* atomic: records ever written */
	uint64_t nr_lost;            /* atomic: records that found no room */
	uint64_t nr_names;           /* atomic: names that were written */
	_Alignas(64) uint64_t tail;  /* atomic: records that were taken */
	uint64_t nr_names_taken;     /* the tracer's */
};

struct uaio_trace_ring {
	char magic[8];
	uint32_t version;
	uint32_t tracer;                   /* its process id */
	uint64_t pid_namespace;            /* its inode, in which all ids are */
	_Alignas(64) uint64_t nr_homeless; /* atomic: records without a lane */
	struct uaio_trace_lane lanes[UAIO_TRACE_LANES];
	_Alignas(4096) struct uaio_trace_record
		records[UAIO_TRACE_LANES][UAIO_TRACE_RECORDS];
};

static_assert(sizeof(struct uaio_trace_record) == 64, "one line");
static_assert(UAIO_TRACE_NAME_BYTES % sizeof(struct uaio_trace_record) == 0,
	      "a name is copied by whole records");
static_assert(UAIO_NR_DOORS <= 8 && UAIO_NR_BYS <= 16, "they fit");
static_assert((UAIO_TRACE_RECORDS & (UAIO_TRACE_RECORDS - 1)) == 0,
	      "a number is cut by a mask");

/* Return: how many records a name of so many bytes takes. */
static inline uint64_t uaio_trace_name_records(uint64_t len)
{
	return 1 + (len + sizeof(struct uaio_trace_record) - 1) /
			   sizeof(struct uaio_trace_record);
}

static inline struct uaio_trace_record *
uaio_trace_at(struct uaio_trace_ring *ring, unsigned lane, uint64_t number)
{
	return &ring->records[lane][number & (UAIO_TRACE_RECORDS - 1)];
}

#endif /* UAIO_TRACE_RING_H */

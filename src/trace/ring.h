/* SPDX-License-Identifier: MIT */
/*
 * The ring of a trace: memory shared by traced processes and `uaio trace`
 *
 * The ring is a file in memory that belongs to the tracer; all traced processes map it.
 * The ring has lanes: each is a ring buffer of records, and is written by one thread. A
 * thread writes a record for each completed request. Pages of unused lanes are never
 * allocated.
 *
 *   I1  A thread claims a lane by writing its id to `owner`, which was 0. The lane
 *       belongs to the thread until the tracer finds that the thread is gone and writes
 *       0. If the thread executes another program (exec), it keeps its lane.
 *   I2  Only the lane's thread writes its records, `head` and `nr_lost`; only the
 *       tracer writes `tail`. Records with numbers from tail to head - 1 belong to the
 *       tracer. The thread writes record number head, and then advances head. So a
 *       thread that dies at any instruction leaves only complete records.
 *   I3  Neither the thread nor the tracer waits for the other. If a thread finds its
 *       lane full, it drops the record and counts it as lost. So a slow or ended tracer
 *       does not delay the program.
 *   I4  Neither the process nor the tracer trusts data that the other can write:
 *       numbers of records are masked to the size of the lane. The file cannot shrink
 *       (F_SEAL_SHRINK).
 *   I5  Times are values of uaio_cycles(), which is one clock for all processes of a
 *       machine.
 *   I6  Records identify a file by a number, which no other file of the process ever
 *       has. Before the first record with this number is written, the file's name is
 *       written to some lane: a record with op UAIO_TRACE_NAME, the number in `file`
 *       and the length of the name in `len`, followed by records with the text. These
 *       records are written together. If there is no room for them, they do not count
 *       as lost. A file may get another number later.
 *
 *             thread  tracer   X: at most one at a time, by I1
 *    put        X       -
 *    take       -       X
 */
#ifndef UAIO_TRACE_RING_H
#define UAIO_TRACE_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define UAIO_TRACE_MAGIC "uaiotrac"
enum { UAIO_TRACE_VERSION = 4 };

/* The environment variable that tells a traced process the path of the ring's file. */
#define UAIO_TRACE_VARIABLE "UAIO_TRACE"

enum {
	UAIO_TRACE_LANES = 256,
	/* A million requests a second fill a lane in 16 ms. */
	UAIO_TRACE_RECORDS = 16384,
};

/* The interface by which a request was submitted. */
enum uaio_door_id {
	UAIO_DOOR_OTHER,
	UAIO_DOOR_AIO,
	UAIO_DOOR_URING,
	UAIO_DOOR_POSIX,
	UAIO_NR_DOORS,
};

/* What executed a request. */
enum uaio_by {
	UAIO_BY_SUBMITTER, /* inside the submitting call */
	UAIO_BY_WAITER, /* a thread of the program, after the submitting call */
	UAIO_BY_WORKER,
	UAIO_BY_READY, /* the fallback thread, or another of the library's threads */
	UAIO_BY_KERNEL, /* the kernel's AIO or io_uring */
	UAIO_NR_BYS,
};

/*
 * The op of a record that has a file's name (I6); and the most bytes that a name may
 * have.
 */
enum { UAIO_TRACE_NAME = 255, UAIO_TRACE_NAME_BYTES = 256 };

struct uaio_trace_record {
	uint64_t submitted; /* if executed inline: as started; 0: unknown */
	uint64_t started;   /* the last system call; 0: unknown, or none */
	uint64_t ended;
	int64_t off; /* -1: none, or the file's own position */
	uint64_t len;
	uint64_t file; /* number of the file (I6); 0: no file, or no name */
	int32_t res;
	int32_t fd; /* -1: none */
	uint8_t op; /* enum uaio_op */
	uint8_t door : 3;
	uint8_t by : 4;
	uint8_t is_late : 1; /* an injected fault delayed it: times are too long */
	uint16_t queue; /* context or ring, numbered in order of creation */
	uint32_t tid;   /* 0: the thread is the owner of the lane (ask.h) */
};

struct uaio_trace_lane {
	_Alignas(64) uint32_t owner; /* atomic: thread id; 0: free */
	uint32_t pid;                /* atomic: the thread's process */
	uint64_t head;               /* atomic: how many records were written */
	uint64_t nr_lost;           /* atomic: how many records found no room */
	uint64_t nr_names;          /* atomic: names written */
	_Alignas(64) uint64_t tail; /* atomic: records the tracer has read */
	uint64_t nr_names_taken;    /* for the tracer only */
};

struct uaio_trace_ring {
	char magic[8];
	uint32_t version;
	uint32_t tracer;        /* process id of the tracer */
	uint64_t pid_namespace; /* inode of the namespace of all ids */
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

/* Return: how many records a name of len bytes takes. */
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

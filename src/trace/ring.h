/* SPDX-License-Identifier: MIT */
/*
 * The ring of a trace: memory shared by traced processes and `uaio trace`
 *
 * The ring is a memfd of the tracer; all traced processes map it. The ring has lanes:
 * each is a ring buffer of records that one thread writes. A thread writes a record for
 * each completed request. Pages of unused lanes are never allocated.
 *
 *   I1  A thread claims a lane by changing its `owner` from 0 to the thread's id. The lane
 *       belongs to the thread until the tracer finds that the thread is gone, and writes 0.
 *       A thread that executes another program (exec) keeps its lane.
 *   I2  Only the lane's thread writes its records, `head` and `nr_lost`; only the tracer
 *       writes `tail`. The records from tail to head - 1 are for the tracer to read. The
 *       thread writes record number head, and then increments head. So a thread that dies
 *       at any instruction leaves only complete records.
 *   I3  Neither the thread nor the tracer waits for the other. If a thread finds its lane
 *       full, it drops the record and counts it as lost. So a slow or ended tracer does not
 *       delay the program.
 *   I4  Neither the process nor the tracer trusts data that the other can write: the number
 *       of a record is masked to the size of the lane. The file cannot shrink
 *       (F_SEAL_SHRINK).
 *   I5  Times are values of uaio_cycles(), a clock that all processes of a machine share.
 *   I6  Records identify a file by a number, which no other file of the process ever has.
 *       Before the first record with this number, the file's name is written to some lane:
 *       a record with op UAIO_TRACE_NAME, the number in `file` and the length of the name
 *       in `len`, followed by records with the text. All records of a name are written
 *       together. If there is no room for them, they do not count as lost. A file may get
 *       another number later.
 *
 *            thread  tracer   X: may call this; in each lane one caller at a time (I1)
 *   put        X       -      write a record
 *   take       -       X      read records
 */
#ifndef UAIO_TRACE_RING_H
#define UAIO_TRACE_RING_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define UAIO_TRACE_MAGIC "uaiotrac"
enum { UAIO_TRACE_VERSION = 4 };

/* Environment variable with the path of the ring, for a traced process. */
#define UAIO_TRACE_VARIABLE "UAIO_TRACE"

enum {
	UAIO_TRACE_LANES = 256,
	/*
	 * Number of records in a lane (ring buffer): a million requests a second fill a
	 * lane in 16 ms.
	 */
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
	/* the submitting thread, inside the submitting call */
	UAIO_BY_SUBMITTER,
	/* a thread of the program, later than the submitting call */
	UAIO_BY_WAITER,
	UAIO_BY_WORKER,
	/*
	 * the fallback thread (ready/fallback.c), or another thread of the library
	 */
	UAIO_BY_READY,
	/* the kernel, by kernel AIO or by its io_uring */
	UAIO_BY_KERNEL,
	UAIO_NR_BYS,
};

/*
 * UAIO_TRACE_NAME: the op of a record with the name of a file (I6).
 * UAIO_TRACE_NAME_BYTES: the longest name, in bytes.
 */
enum { UAIO_TRACE_NAME = 255, UAIO_TRACE_NAME_BYTES = 256 };

struct uaio_trace_record {
	/*
	 * time of the submission; if the submitting call executed the request: the same
	 * as `started`; 0: unknown
	 */
	uint64_t submitted;
	/* begin of the request's last system call; 0: unknown, or no call */
	uint64_t started;
	uint64_t ended;
	/* offset; -1: none, or the file's own position is used */
	int64_t off;
	uint64_t len;
	/*
	 * number of the file (I6); 0: the request has no file, or the file's name is
	 * not known
	 */
	uint64_t file;
	int32_t res;
	int32_t fd; /* -1: none */
	uint8_t op; /* enum uaio_op */
	uint8_t door : 3;
	uint8_t by : 4;
	/* an injected fault delayed the request, so its times are too long */
	uint8_t is_late : 1;
	/* number of the context or ring, in order of creation */
	uint16_t queue;
	/* thread id; 0: the thread that owns the lane (ask.h, I5) */
	uint32_t tid;
};

struct uaio_trace_lane {
	/* atomic: id of the thread that owns the lane; 0: the lane is free */
	_Alignas(64) uint32_t owner;
	/* atomic: id of the thread's process */
	uint32_t pid;
	/* atomic: how many records the thread has written */
	uint64_t head;
	/* atomic: how many records were dropped, as the lane was full */
	uint64_t nr_lost;
	uint64_t nr_names; /* atomic: names written */
	/* atomic: how many records the tracer has read */
	_Alignas(64) uint64_t tail;
	/* how many names the tracer has read; only the tracer uses it */
	uint64_t nr_names_taken;
};

struct uaio_trace_ring {
	char magic[8];
	uint32_t version;
	/* process id of the tracer that owns this ring */
	uint32_t tracer;
	/*
	 * inode of the pid namespace in which the ring's process and thread ids are
	 * valid
	 */
	uint64_t pid_namespace;
	/*
	 * atomic: how many records were dropped, as their threads found no free lane
	 */
	_Alignas(64) uint64_t nr_homeless;
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

/* Return: how many records a name of len bytes fills. */
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

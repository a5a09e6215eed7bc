/* SPDX-License-Identifier: MIT */
/*
 * files: does each file hold what was written to it, whichever way it was written?
 *
 * An ordinary client of kernel AIO, POSIX AIO and io_uring, which runs on the kernel as
 * well. A coordinator makes a file in the current directory in each round. Processes
 * of several threads, each thread with one of the three interfaces, read and write that
 * file meanwhile, through several descriptors each. Beside them the coordinator starts
 * processes that submit writes and end at once, one after another.
 *
 * The file is an array of cells of 512 bytes. Each cell has one owner, the only thread
 * that writes it. A write gives each of its cells the next version. The bytes of a cell
 * follow from its index, its owner and its version, so that a reader can tell them from
 * all others. Version 0 is the hole that was there before.
 *
 * These are the laws. A client that sees one broken ends the run:
 *
 *   L1  A read returns, of each cell, a version that is not older than the last whose
 *       write had completed before the read was submitted, and not newer than the last
 *       that was submitted before the read completed.
 *   L2  L1 is stricter if one process submits the read and the write, the read is not by
 *       io_uring, and the write is a buffered one of kernel AIO: such a write counts as
 *       completed once io_submit has returned. For later requests in the same io_submit, it
 *       counts as completed at once.
 *   L3  A buffered read of kernel AIO returns no version that its process submits after
 *       io_submit has returned, and no version that follows the read in the same io_submit.
 *   L4  A cell that no request writes meanwhile is whole. A cell that is being written may
 *       be a mixture of the versions of L1, except on a file system that never mixes reads
 *       and writes.
 *   L5  A read changes no memory around its buffer and between its vectors.
 *   L6  A write completes with all of its bytes. It has been executed when io_destroy
 *       of its context returns.
 *   L7  On uaio, a process that ends, or executes another program, has executed all writes
 *       that it had submitted. A process that a signal ends has executed the writes whose
 *       completion it had seen. On the kernel, L7 holds for kernel AIO only.
 *   L8  In the end each cell holds its newest version, in the page cache and on the
 *       disk.
 *
 * Linux promises nothing if buffered and direct writes hit the same folio of the page
 * cache. So the first half of a file has buffered writes and the second half direct ones.
 * Both halves have reads of either kind, and no folio is larger than half of a file.
 */
#ifndef RELIABILITY_FILES_H
#define RELIABILITY_FILES_H

#include <aio.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "uring-client.h"

enum {
	CELL = 512,
	PAGE = 4096,
	PAGE_CELLS = PAGE / CELL,
	REGION_CELLS = (2 << 20) / CELL, /* a folio has at most 2 MiB */
	/* the first half has buffered writes, the second direct ones */
	NR_CELLS = 2 * REGION_CELLS,
	NR_STRIPES = 448,
	CELLS_MAX = 128, /* of a request */
	BYTES_MAX = CELLS_MAX * CELL,
	AREA = BYTES_MAX +
	       4 * PAGE, /* a request's buffer, with guard bytes around it */
	VECTORS_MAX = 8,
	NR_SLOTS = 12, /* requests in flight per thread */
	NR_PROCESSES = 2,
	NR_THREADS = 4, /* of a process */
	LEAVER = NR_PROCESSES * NR_THREADS,
	NR_OWNERS = LEAVER + 1,
	NR_DESCRIPTORS = 4,
};

enum door { KERNEL_AIO, POSIX_AIO, IO_URING, NR_DOORS };

enum memory {
	ALIGNED,
	MISALIGNED,
	OF_FILE, /* a file that is mapped */
	SHARED,
	ON_STACK,
	NR_MEMORIES,
};

/* Adjacent cells with one owner. */
struct stripe {
	uint16_t first, nr;
	uint8_t owner;
};

/* Shared memory of all processes. Only a cell's owner changes its versions. */
struct shared {
	/* atomic */
	uint32_t
		started[NR_CELLS]; /* newest version whose write was prepared */
	/* newest version that counts as completed by L2 or L7 */
	uint32_t accepted[NR_CELLS];
	uint32_t done[NR_CELLS]; /* newest version whose completion was seen */
	uint64_t nr_checked;     /* cells that reads have returned */
	uint32_t has_failed;
	uint32_t is_over; /* the round */
};

/* What the coordinator sets before it forks. */
struct run {
	uint64_t seed;
	bool is_uaio;
	bool is_long; /* the run takes ten seconds or more */
	/* the file system never mixes buffered reads and writes: L4 */
	bool keeps_apart;
	const char *folder;
	unsigned round;
	char file[64], link[64], mapped[64];
	int inherited; /* a descriptor of the file that all processes inherit */
	struct stripe stripes[NR_STRIPES];
	uint8_t owners[NR_CELLS];
};

extern struct run run;
extern struct shared *shared;

/* A request. */
struct slot {
	enum what { FREE, READ, WRITE, SYNC } what;
	int fd;
	bool is_direct;
	enum memory memory;
	unsigned first, nr; /* cells */
	/*
	 * For a read: the oldest and newest version it may return. For a write: high is the
	 * version written.
	 */
	uint32_t low[CELLS_MAX], high[CELLS_MAX];
	struct iovec iov[VECTORS_MAX];
	unsigned nr_iov;
	union {
		struct iocb iocb;
		struct aiocb aiocb;
	};
};

/* A thread that makes requests. */
struct client {
	unsigned owner;
	enum door door;
	uint64_t random;
	bool only_writes;
	const int *buffered, *direct; /* NR_DESCRIPTORS each */
	char *areas[NR_MEMORIES];     /* AREA bytes for each slot */
	char *linear; /* BYTES_MAX: to copy a request's vectors together */
	unsigned nr_pending;
	uint64_t nr_checked;
	aio_context_t ctx;
	struct uring ring;
	struct slot slots[NR_SLOTS];
};

static inline uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static inline void raise_to(uint32_t *word, uint32_t value)
{
	if (load(word) < value)
		__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Return: a number below the limit. */
uint32_t draw(uint64_t *random, uint32_t limit);

/* Print why the run has failed, if no process has yet, and end the process. */
_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* Return: whether direct requests write the cell. */
static inline bool is_direct_cell(unsigned cell)
{
	return cell >= REGION_CELLS;
}

/*
 * files-cell.c: the contents of cells
 */

/* Give each cell its owner. */
void cells_assign(void);
void cell_fill(char *to, unsigned cell, uint32_t version);
/*
 * Fail unless the bytes are one of the versions low to high of the cell. If the cell may be
 * torn, each byte must equal that byte of one of these versions.
 */
void cell_check(const char *bytes, unsigned cell, uint32_t low, uint32_t high,
		bool may_be_torn, const char *reader);

/*
 * files-door.c: the three interfaces
 */

struct result {
	struct slot *slot;
	int64_t res; /* bytes, or a negative errno */
};

extern const char *const door_names[NR_DOORS];

void door_open(struct client *client);
/* With KERNEL_AIO requests may be in flight: io_destroy waits for them. */
void door_close(struct client *client);
/* Submit the requests in this order. */
void door_submit(struct client *client, struct slot **list, unsigned nr);
/* Consume completions; wait for at least one if `waits`. Return: how many. */
unsigned door_reap(struct client *client, bool waits,
		   struct result ret[NR_SLOTS]);

/*
 * files-client.c: threads that make requests
 */

struct descriptors {
	int buffered[NR_DESCRIPTORS], direct[NR_DESCRIPTORS];
};

void descriptors_open(struct descriptors *ret);
/* Allocate the memory (except buffers on the stack) and set up the interface. */
void client_begin(struct client *client, unsigned owner, enum door door,
		  const struct descriptors *descriptors);
/* Make random requests until the end of the round, then wait for them. */
void client_run(struct client *client);
/* Submit writes, and see some of them complete. */
void client_write_some(struct client *client);

/*
 * files-leave.c: processes that end while their writes are in flight
 */

/* Return from main() with this status. (A way to end.) */
_Noreturn void return_from_main(int status);

struct leaving {
	unsigned way;
	enum door door;
	uint64_t random;
};

struct leaving leaving_draw(uint64_t *random);
const char *leaving_name(const struct leaving *leaving);
/* Submit writes and leave, in a separate process. */
_Noreturn void leave(const struct leaving *leaving);
/*
 * The process has ended with this status of waitpid(2). Fail if the status is wrong. Writes
 * that the process must have executed count as completed from now on.
 */
void leaving_settle(const struct leaving *leaving, int status);

#endif /* RELIABILITY_FILES_H */

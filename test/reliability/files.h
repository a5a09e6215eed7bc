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
 *   L2  The same, where both are requests of one process, the read is not one of io_uring,
 *       and the write is a buffered one of kernel AIO: it counts as completed once
 *       io_submit has returned, and for its thread from the next request of a batch on.
 *   L3  A buffered read of kernel AIO returns no version that its process submits after
 *       io_submit has returned; nor one that its thread submits after it in a batch.
 *   L4  A cell that no request writes meanwhile is whole. Others may be mixtures of the
 *       versions of L1, except on a file system that keeps reads and writes apart.
 *   L5  A read changes no memory around its buffer and between its vectors.
 *   L6  A write completes with all of its bytes. It has been executed when io_destroy
 *       of its context returns.
 *   L7  On uaio, a process that ends, or executes another program, has executed all
 *       writes that it had submitted. One that a signal ends has executed those whose
 *       completion it had seen. On the kernel, L7 holds for kernel AIO only.
 *   L8  In the end each cell holds its newest version, in the page cache and on the
 *       disk.
 *
 * Linux gives no promise where buffered and direct writes meet in one folio of the page
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
	NR_CELLS = 2 * REGION_CELLS,     /* buffered writes, then direct ones */
	NR_STRIPES = 448,
	CELLS_MAX = 128, /* of a request */
	BYTES_MAX = CELLS_MAX * CELL,
	AREA = BYTES_MAX +
	       4 * PAGE, /* memory of a request, with its surroundings */
	VECTORS_MAX = 8,
	NR_SLOTS = 12, /* requests of a thread at a time */
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

/* Cells in a row with one owner. */
struct stripe {
	uint16_t first, nr;
	uint8_t owner;
};

/* What all processes see. Of each cell only its owner changes the versions. */
struct shared {
	/* atomic */
	uint32_t started[NR_CELLS];  /* the newest version that was drawn */
	uint32_t accepted[NR_CELLS]; /* that counts as completed by L2, or L7 */
	uint32_t done[NR_CELLS];     /* whose completion was seen */
	uint64_t nr_checked;         /* cells that reads have returned */
	uint32_t has_failed;
	uint32_t is_over; /* the round */
};

/* What the coordinator sets before it forks. */
struct run {
	uint64_t seed;
	bool is_uaio;
	bool is_long;     /* ten seconds or more */
	bool keeps_apart; /* buffered reads and writes: L4 */
	const char *folder;
	unsigned round;
	char file[64], link[64], mapped[64];
	int inherited; /* a descriptor of the file, of all processes */
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
	/* The oldest and newest versions that a read may return; what is written. */
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
	char *linear; /* BYTES_MAX: a request without its vectors */
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

/* Return: whether cells here are written by direct requests. */
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
 * Fail unless the bytes are one of these versions of the cell, or, if it may be torn,
 * each byte is one of these versions'.
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
/* Submit them in this order. */
void door_submit(struct client *client, struct slot **list, unsigned nr);
/* Take completions, at least one if it waits. Return: how many. */
unsigned door_reap(struct client *client, bool waits,
		   struct result ret[NR_SLOTS]);

/*
 * files-client.c: threads that make requests
 */

struct descriptors {
	int buffered[NR_DESCRIPTORS], direct[NR_DESCRIPTORS];
};

void descriptors_open(struct descriptors *ret);
/* Get the memory, but for that on the stack, and set up the interface. */
void client_begin(struct client *client, unsigned owner, enum door door,
		  const struct descriptors *descriptors);
/* Make random requests until the end of the round, then wait for them. */
void client_run(struct client *client);
/* Submit writes, and see some of them complete. */
void client_write_some(struct client *client);

/*
 * files-leave.c: processes that end while their writes are in flight
 */

/* Return from main() with this status. */
_Noreturn void return_from_main(int status);

struct leaving {
	unsigned way;
	enum door door;
	uint64_t random;
};

struct leaving leaving_draw(uint64_t *random);
const char *leaving_name(const struct leaving *leaving);
/* In a process of its own. */
_Noreturn void leave(const struct leaving *leaving);
/*
 * The process has ended with this status of waitpid(2): fail if that is wrong. Writes
 * that it must have executed count as completed from now on.
 */
void leaving_settle(const struct leaving *leaving, int status);

#endif /* RELIABILITY_FILES_H */

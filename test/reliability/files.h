/* SPDX-License-Identifier: MIT */
/*
 * files: checks that each file contains what was written to it, by any interface
 *
 * The program is an ordinary client of kernel AIO, POSIX AIO and io_uring. It uses the
 * library, or without the library the kernel. In each round a coordinator makes a file
 * in the current directory. Processes with several threads read and write this file.
 * Each thread uses one of the three interfaces, through several descriptors. At the
 * same time the coordinator starts further processes, one after another, that submit
 * writes and end at once.
 *
 * The file is an array of cells of 512 bytes. Each cell has one owner: only this thread
 * writes the cell. A write gives each of its cells the next version. The bytes of a
 * cell follow from its index, its owner and its version, so a reader can tell which
 * version it got. Version 0 consists of zeros, which the cell contains before the first
 * write.
 *
 * These invariants must hold. A client that finds a violation ends the run:
 *
 * L1  Each cell that a read returns has a version within two limits. It is not older than
 *     the newest version whose write had completed before the read was submitted. It is
 *     not newer than the newest version that was submitted before the read completed.
 * L2  In L1, a buffered write of kernel AIO counts as completed once the io_submit call
 *     for the write has returned. Only reads of the same process by kernel AIO or POSIX
 *     AIO rely on this. If one io_submit call submits a write and then a read, the read
 *     must return the version of this write, or a newer one.
 * L3  A buffered read of kernel AIO returns no version that its process submits after the
 *     io_submit call for the read has returned. If one io_submit call submits a read and
 *     then a write, the read does not return the version of this write.
 * L4  A cell that no request writes meanwhile is whole. A cell that is being written may
 *     be a mixture of the versions of L1, except on a file system that never mixes reads
 *     and writes.
 * L5  A read changes no memory around its buffer or between its vectors.
 * L6  A write completes with all of its bytes. It has been executed when io_destroy
 *     of its context returns.
 * L7  On uaio, when a process ends or executes another program, all writes that it had
 *     submitted have been executed. If a signal ends the process, this holds for the
 *     writes whose completion it had seen. On the kernel, L7 holds for kernel AIO only.
 * L8  In the end each cell contains its newest version, in the page cache and on the
 *     disk.
 *
 * Linux promises nothing if buffered and direct writes go to the same folio of the page
 * cache. So the first half of a file has only buffered writes, the second half only
 * direct ones. Both halves have reads of either kind. No folio is larger than half a
 * file.
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
	REGION_CELLS = (2 << 20) / CELL, /* 2 MiB: the largest folio */
	/* the first half is for buffered writes, the second for direct ones */
	NR_CELLS = 2 * REGION_CELLS,
	NR_STRIPES = 448,
	CELLS_MAX = 128, /* most cells of a request */
	BYTES_MAX = CELLS_MAX * CELL,
	/* memory for a request's buffer, with guard bytes around it */
	AREA = BYTES_MAX + 4 * PAGE,
	VECTORS_MAX = 8,
	NR_SLOTS = 12, /* requests in flight of each thread */
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
	OF_FILE, /* a shared mapping of a file */
	SHARED,
	ON_STACK,
	NR_MEMORIES,
};

/* Adjacent cells that have the same owner */
struct stripe {
	uint16_t first, nr;
	uint8_t owner;
};

/*
 * Memory that all processes share. Only the owner of a cell changes the cell's
 * versions.
 */
struct shared {
	/* atomic */
	uint32_t started[NR_CELLS]; /* newest version whose write is prepared */
	/* newest version that counts as completed (L2, L7) */
	uint32_t accepted[NR_CELLS];
	/* newest version whose completion a thread has seen */
	uint32_t done[NR_CELLS];
	uint64_t nr_checked; /* number of cells that reads have returned */
	uint32_t has_failed;
	uint32_t is_over; /* the round has ended */
};

/* What the coordinator sets before it forks */
struct run {
	uint64_t seed;
	bool is_uaio;
	bool is_long; /* the run takes at least ten seconds */
	/* the file system never mixes buffered reads and writes (L4) */
	bool keeps_apart;
	const char *folder;
	unsigned round;
	char file[64], link[64], mapped[64];
	/* a descriptor of the file, inherited by all processes */
	int inherited;
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
	unsigned first, nr; /* index of the first cell, and number of cells */
	/*
	 * For a read, the oldest and the newest version of each cell that it may
	 * return. For a write, low[] are the versions that it writes.
	 */
	uint32_t low[CELLS_MAX], high[CELLS_MAX];
	struct iovec iov[VECTORS_MAX];
	unsigned nr_iov;
	union {
		struct iocb iocb;
		struct aiocb aiocb;
	};
};

/* A thread that makes requests */
struct client {
	unsigned owner;
	enum door door;
	uint64_t random;
	bool only_writes;
	const int *buffered, *direct; /* NR_DESCRIPTORS each */
	/* for each slot, AREA bytes of each kind of memory */
	char *areas[NR_MEMORIES];
	/*
	 * BYTES_MAX bytes, to which the vectors of a request are copied one after
	 * another
	 */
	char *linear;
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

/* Return: a random number below `limit`. */
uint32_t draw(uint64_t *random, uint32_t limit);

/*
 * End the process. If no process has failed before, print why the run has failed.
 */
_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* Return: whether the cell is written by direct requests only. */
static inline bool is_direct_cell(unsigned cell)
{
	return cell >= REGION_CELLS;
}

/*
 * files-cell.c: the contents of cells
 */

/* Assign an owner to each cell. */
void cells_assign(void);
void cell_fill(char *to, unsigned cell, uint32_t version);
/*
 * Fail unless the bytes are the cell's version low, or high, or one between.
 * may_be_torn: each byte may come from another of these versions.
 */
void cell_check(const char *bytes, unsigned cell, uint32_t low, uint32_t high,
		bool may_be_torn, const char *reader);

/* files-door.c: the three interfaces (kernel AIO, POSIX AIO, io_uring) */

struct result {
	struct slot *slot;
	int64_t res; /* a number of bytes, or a negative errno */
};

extern const char *const door_names[NR_DOORS];

void door_open(struct client *client);
/*
 * Close the interface. With kernel AIO, the client may still have requests in flight,
 * because io_destroy waits for them.
 */
void door_close(struct client *client);
/* Submit the nr requests in the order of the list. */
void door_submit(struct client *client, struct slot **list, unsigned nr);
/*
 * Consume completions. waits: sleep until there is at least one.
 * Return: how many.
 */
unsigned door_reap(struct client *client, bool waits,
		   struct result ret[NR_SLOTS]);

/*
 * files-client.c: threads that make requests
 */

struct descriptors {
	int buffered[NR_DESCRIPTORS], direct[NR_DESCRIPTORS];
};

void descriptors_open(struct descriptors *ret);
/*
 * Allocate the client's memory, except for buffers on the stack, and set up its
 * interface.
 */
void client_begin(struct client *client, unsigned owner, enum door door,
		  const struct descriptors *descriptors);
/* Make random requests until the round ends, then wait for their completions. */
void client_run(struct client *client);
/* Submit writes, and wait for some of them. */
void client_write_some(struct client *client);

/*
 * files-leave.c: processes that end while their writes are in flight
 */

/* End the process by returning from main() with this status. */
_Noreturn void return_from_main(int status);

struct leaving {
	unsigned way;
	enum door door;
	uint64_t random;
};

struct leaving leaving_draw(uint64_t *random);
const char *leaving_name(const struct leaving *leaving);
/* In a child process: submit writes, then end in this way. */
_Noreturn void leave(const struct leaving *leaving);
/*
 * The process of `leaving` has ended; waitpid(2) returned this status. Fail if the
 * status is wrong. From now on, writes that the process must have executed count as
 * completed.
 */
void leaving_settle(const struct leaving *leaving, int status);

#endif /* RELIABILITY_FILES_H */

/* SPDX-License-Identifier: MIT */
/*
 * The memory that crash.py, the client and the file system share: a file, which outlives
 * all three of them
 *
 * crash.py declares the same members. A round is one life of a client and of a file
 * system, which ends when the client is killed. The arrays and the image go from one
 * round to the next.
 */
#ifndef CRASH_H
#define CRASH_H

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CRASH_SLOTS = 64, /* records of the file, one per slot */
	CRASH_SLOT_BYTES = 4096,
	CRASH_WRITE_SLOTS = 8, /* most slots that one request writes */
};

enum crash_door { CRASH_AIO, CRASH_URING, CRASH_POSIX };

/* When the server ends, relative to the request that ends the round. */
enum crash_end { CRASH_BEFORE_IT, CRASH_BEFORE_ITS_ANSWER, CRASH_AFTER_IT };

struct crash_state {
	/* What crash.py decides before a round */
	uint32_t seed;
	uint32_t door;
	uint32_t open_flags; /* O_DIRECT, O_DSYNC, O_SYNC */
	uint32_t depth;      /* requests in flight */
	/* The file bypasses the page cache, as FOPEN_DIRECT_IO says. */
	uint32_t is_uncached;
	/* The kernel may delay writes to the server (FUSE writeback cache). */
	uint32_t writes_back;
	uint32_t write_bytes; /* most bytes of one FUSE_WRITE */
	/*
	 * When the round ends: an enum crash_end, and the number of the write or sync it
	 * refers to, counted from 1.
	 */
	uint32_t end;
	uint32_t end_at;
	uint32_t end_after_us; /* delay after the answer, for CRASH_AFTER_IT */
	/*
	 * Only the client is killed; the file system still answers the remaining requests.
	 */
	uint32_t is_power_on;

	/* The file system */
	uint32_t has_ended; /* atomic: from now on requests may fail */
	uint32_t bytes;     /* durable length of the file */

	/* The client */
	uint32_t pid;
	uint32_t version; /* of the newest record of the file */
	uint32_t nr_requests;
	/* number of the requests that the kernel's AIO executed */
	uint32_t nr_kernel_aio;
	/* number of the requests that the kernel's io_uring executed */
	uint32_t nr_io_uring;
	/*
	 * For each slot: the newest submitted version, and the newest version reported
	 * durable.
	 */
	uint32_t submitted[CRASH_SLOTS];
	uint32_t reported[CRASH_SLOTS];

	/* What is durable */
	unsigned char image[CRASH_SLOTS * CRASH_SLOT_BYTES];
};

static inline struct crash_state *crash_state_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat st;
	void *state;

	assert(fd >= 0 && fstat(fd, &st) == 0);
	/* If not equal, crash.py declares other members. */
	assert(st.st_size == (off_t)sizeof(struct crash_state));
	state = mmap(NULL, sizeof(struct crash_state), PROT_READ | PROT_WRITE,
		     MAP_SHARED, fd, 0);
	assert(state != MAP_FAILED && close(fd) == 0);
	return state;
}

/* Return: a random number below `below` (splitmix64). */
static inline uint32_t crash_draw(uint64_t *random, uint32_t below)
{
	uint64_t x = *random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % below;
}

#endif /* CRASH_H */

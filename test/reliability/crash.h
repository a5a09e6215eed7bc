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
	CRASH_SLOTS = 64, /* of the file: a record each */
	CRASH_SLOT_BYTES = 4096,
	CRASH_WRITE_SLOTS = 8, /* the most that one request writes */
};

enum crash_door { CRASH_AIO, CRASH_URING, CRASH_POSIX };

/* Where the file system is, with the request that ends the round. */
enum crash_end { CRASH_BEFORE_IT, CRASH_BEFORE_ITS_ANSWER, CRASH_AFTER_IT };

struct crash_state {
	/* What crash.py decides before a round */
	uint32_t seed;
	uint32_t door;
	uint32_t open_flags; /* O_DIRECT, O_DSYNC, O_SYNC */
	uint32_t depth;      /* requests in flight */
	/* The file bypasses the page cache, as FOPEN_DIRECT_IO says. */
	uint32_t is_uncached;
	/* The page cache keeps writes to itself for a while. */
	uint32_t writes_back;
	uint32_t write_bytes; /* the most of one FUSE_WRITE */
	/* The round ends there: enum crash_end; with which write or sync, from 1. */
	uint32_t end;
	uint32_t end_at;
	uint32_t end_after_us; /* of CRASH_AFTER_IT: so much later */
	/* Only the client is killed; the file system answers what is left. */
	uint32_t is_power_on;

	/* The file system */
	uint32_t has_ended; /* atomic: requests may fail from now on */
	uint32_t bytes;     /* of the file, as they are durable */

	/* The client */
	uint32_t pid;
	uint32_t version; /* of the newest record of the file */
	uint32_t nr_requests;
	uint32_t nr_kernel_aio; /* of these, executed by the kernel's AIO */
	uint32_t nr_io_uring; /* of these, executed by the kernel's io_uring */
	/* By slot: the newest version; the newest that is reported durable. */
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
	/* Else crash.py has other members. */
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

/* SPDX-License-Identifier: MIT */
/*
 * The memory that crash.py, the client and the file system's server share: a file,
 * which outlives the three processes
 *
 * crash.py declares the members of struct crash_state, too. In a round, a client and a
 * file system run until the client is killed. The arrays and the image keep their
 * content from one round to the next.
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
	CRASH_SLOTS = 64, /* records in the file, one in each slot */
	CRASH_SLOT_BYTES = 4096,
	CRASH_WRITE_SLOTS = 8, /* most slots that one request may write */
};

enum crash_door { CRASH_AIO, CRASH_URING, CRASH_POSIX };

/*
 * When the server ends the round: before it executes the chosen write or sync, before
 * it answers that request, or after the answer
 */
enum crash_end { CRASH_BEFORE_IT, CRASH_BEFORE_ITS_ANSWER, CRASH_AFTER_IT };

struct crash_state {
	/* What crash.py chooses before a round */
	uint32_t seed;
	uint32_t door;
	uint32_t open_flags; /* O_DIRECT, O_DSYNC, O_SYNC */
	uint32_t depth;      /* requests in flight */
	/* The file has no page cache (FOPEN_DIRECT_IO). */
	uint32_t is_uncached;
	/* The kernel may delay writes to the server (FUSE's writeback cache). */
	uint32_t writes_back;
	uint32_t write_bytes; /* most bytes in a FUSE_WRITE */
	/*
	 * The write or sync that ends the round is number end_at, counted from 1. `end`
	 * is an enum crash_end.
	 */
	uint32_t end;
	uint32_t end_at;
	uint32_t end_after_us; /* CRASH_AFTER_IT: delay after the answer */
	/*
	 * Only the client is killed; the file system continues to answer requests.
	 */
	uint32_t is_power_on;

	/* What the file system's server writes */
	/* atomic: the round has ended, so requests may fail */
	uint32_t has_ended;
	uint32_t bytes; /* length of the file's durable part */

	/* What the client writes */
	uint32_t pid;
	uint32_t version; /* version of the newest record in the file */
	uint32_t nr_requests;
	/* how many requests the kernel's AIO executed */
	uint32_t nr_kernel_aio;
	/* how many requests the kernel's io_uring executed */
	uint32_t nr_io_uring;
	/*
	 * For each slot: the newest version that was submitted, and the newest that was
	 * reported durable.
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
	/*
	 * If the file's size is not the size of this structure, crash.py declares other
	 * members.
	 */
	assert(st.st_size == (off_t)sizeof(struct crash_state));
	state = mmap(NULL, sizeof(struct crash_state), PROT_READ | PROT_WRITE,
		     MAP_SHARED, fd, 0);
	assert(state != MAP_FAILED && close(fd) == 0);
	return state;
}

/* Return: a random number less than `below` (splitmix64). */
static inline uint32_t crash_draw(uint64_t *random, uint32_t below)
{
	uint64_t x = *random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % below;
}

#endif /* CRASH_H */

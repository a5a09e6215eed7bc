/* SPDX-License-Identifier: MIT */
/*
 * soak [--samples FILE] --seed S --seconds N: a server must not grow or become slow
 *
 * The serving process has one end of each of up to 10 000 pairs of sockets. It receives
 * on all of them by multishot receives, into provided buffers of one io_uring ring, and
 * echoes each message. A second thread reads and writes blocks of two files by kernel
 * AIO, one file with O_DIRECT. The client process has the other ends. It measures the
 * time of each echo, and compares the echo with what it sent.
 *
 * The supervisor takes 60 samples. Each has the memory, descriptors and threads of the
 * serving process, and the latency of the echoes since the sample before. This must
 * hold:
 *
 * - Each message is echoed once, unchanged. Each block has the content written last.
 * - Each receive of the server ends once, when the client closes the socket's other end.
 * - In the last third of the samples, no figure is worse than in the middle third by more
 *   than the margin (soak.c).
 *
 * The last line of output has the numbers of echoes and file requests.
 */
#ifndef SOAK_H
#define SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

#define REQUIRE(condition)                                             \
	do {                                                           \
		if (!(condition))                                      \
			fail("%s:%d: not so: %s (errno %d)", __FILE__, \
			     __LINE__, #condition, errno);             \
	} while (0)

_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

enum {
	NR_SOCKETS_MAX = 10000,
	/* a histogram: eight buckets for each power of two of nanoseconds */
	NR_BUCKETS = 64 * 8,
};

struct message {
	int64_t sent_ns;
	uint32_t socket;
	uint32_t number;
	uint64_t check; /* checksum of the other members */
};

struct shared {
	pid_t supervisor;
	uint64_t seed;
	unsigned nr_sockets;
	/* [0]: the server's end; [1]: the client's */
	int ends[NR_SOCKETS_MAX][2];
	/* atomic: how many echoes have a latency in each bucket */
	uint64_t echoes[NR_BUCKETS];
	uint64_t nr_echoes;  /* atomic */
	uint64_t nr_blocks;  /* atomic: completed file requests */
	uint32_t is_over;    /* atomic: the processes start no more requests */
	uint32_t has_failed; /* atomic */
	char failure[400];
};
extern struct shared *shared;

static inline uint64_t check_of(const struct message *message)
{
	return (uint64_t)message->sent_ns * 0x9e3779b97f4a7c15u ^
	       ((uint64_t)message->socket << 32 | message->number);
}

/* splitmix64 */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % n;
}

/*
 * The main functions of the two child processes (soak-server.c, soak-client.c); they
 * exit with status 0.
 */
_Noreturn void serving_process(void);
_Noreturn void client_process(void);

#endif /* SOAK_H */

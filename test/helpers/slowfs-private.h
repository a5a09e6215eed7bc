/* SPDX-License-Identifier: MIT */
/* Shared only by slowfs.c (the test's side) and slowfs-server.c (the server process) */
#ifndef SLOWFS_PRIVATE_H
#define SLOWFS_PRIVATE_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "slowfs.h"

#define NOWHERE UINT64_MAX

enum { FAULTS_MAX = 8, OPCODES_MAX = 64 };

/* Memory that the server shares with its clients. */
struct slowfs {
	/* immutable after the start */
	pid_t server;
	/* an eventfd that wakes the server, to read is_holding again */
	int poke;
	uint32_t open_flags; /* FOPEN_* of every opened file */
	uint32_t init_flags; /* FUSE_* in addition to those of every server */
	uint16_t background_max;
	uint32_t notes_callers; /* atomic */
	uint32_t minor; /* atomic: the kernel supports FUSE protocol 7.minor */
	char folder[PATH_MAX];

	/* atomic, futex words */
	uint32_t is_holding[SLOWFS_NR_OPS];
	uint32_t nr_held[SLOWFS_NR_OPS];
	uint32_t nr_done[SLOWFS_NR_OPS];

	/* atomic */
	uint32_t delay_us[SLOWFS_NR_OPS];
	uint32_t most_held[SLOWFS_NR_OPS];
	/*
	 * per operation: file offset; held calls that include it are to be answered; or
	 * NOWHERE
	 */
	uint64_t let_go[SLOWFS_NR_OPS];
	uint32_t nr_let_go[SLOWFS_NR_OPS]; /* a futex word */
	/* by opcode; the server writes an entry before it answers the call */
	struct slowfs_caller callers[OPCODES_MAX];
	struct fault {
		struct slowfs_fault what;
		enum slowfs_op op;
		uint64_t off;      /* or NOWHERE */
		uint32_t nr_left;  /* matching calls until the fault happens */
		uint32_t is_there; /* atomic: the other members are valid */
	} faults[FAULTS_MAX];
};

/* Serve requests from the open /dev/fuse, until it is unmounted. */
_Noreturn void slowfs_serve(struct slowfs *fs, int fd);

#endif /* SLOWFS_PRIVATE_H */

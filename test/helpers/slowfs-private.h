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
	/* an eventfd: wakes the server after is_holding or let_go has changed */
	int poke;
	uint32_t open_flags; /* FOPEN_* flags of each opened file */
	/* FUSE_* flags, in addition to the flags that every slowfs server sets */
	uint32_t init_flags;
	uint16_t background_max;
	uint32_t notes_callers; /* atomic */
	/* atomic: the kernel's FUSE protocol has version 7.minor */
	uint32_t minor;
	char folder[PATH_MAX];

	/* atomic, futex words */
	uint32_t is_holding[SLOWFS_NR_OPS];
	uint32_t nr_held[SLOWFS_NR_OPS];
	uint32_t nr_done[SLOWFS_NR_OPS];

	/* atomic */
	uint32_t delay_us[SLOWFS_NR_OPS];
	uint32_t most_held[SLOWFS_NR_OPS];
	/*
	 * For each operation: an offset that the test has released, or NOWHERE. The
	 * server answers the held calls whose range includes this offset.
	 */
	uint64_t let_go[SLOWFS_NR_OPS];
	uint32_t nr_let_go[SLOWFS_NR_OPS]; /* a futex word */
	/*
	 * For each FUSE opcode: who made the last call. The server writes this before
	 * it answers the call.
	 */
	struct slowfs_caller callers[OPCODES_MAX];
	struct fault {
		struct slowfs_fault what;
		enum slowfs_op op;
		uint64_t off; /* or NOWHERE */
		/*
		 * If off is NOWHERE, the nr_left-th call from now gets the fault;
		 * otherwise each call whose range includes off does.
		 */
		uint32_t nr_left;
		uint32_t is_there; /* atomic: the other members are valid */
	} faults[FAULTS_MAX];
};

/*
 * Serve the requests that arrive from /dev/fuse (fd), until the file system is
 * unmounted.
 */
_Noreturn void slowfs_serve(struct slowfs *fs, int fd);

#endif /* SLOWFS_PRIVATE_H */

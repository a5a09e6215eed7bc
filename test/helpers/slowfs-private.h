/* SPDX-License-Identifier: MIT */
/* What slowfs.c and its server share; for those two only. */
#ifndef SLOWFS_PRIVATE_H
#define SLOWFS_PRIVATE_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "slowfs.h"

#define NOWHERE UINT64_MAX

enum { FAULTS_MAX = 8, OPCODES_MAX = 64 };

/* Shared by the server and its clients. */
struct slowfs {
	/* immutable after the start */
	pid_t server;
	int poke;            /* an eventfd: look at is_holding again */
	uint32_t open_flags; /* FOPEN_*, of every file */
	uint32_t init_flags; /* FUSE_*, beside those of every server */
	uint16_t background_max;
	uint32_t notes_callers; /* atomic */
	uint32_t minor; /* atomic: the kernel's version of FUSE, 7.minor */
	char folder[PATH_MAX];

	/* atomic, futex words */
	uint32_t is_holding[SLOWFS_NR_OPS];
	uint32_t nr_held[SLOWFS_NR_OPS];
	uint32_t nr_done[SLOWFS_NR_OPS];

	/* atomic */
	uint32_t delay_us[SLOWFS_NR_OPS];
	uint32_t most_held[SLOWFS_NR_OPS];
	uint64_t let_go[SLOWFS_NR_OPS];    /* over which byte; or NOWHERE */
	uint32_t nr_let_go[SLOWFS_NR_OPS]; /* a futex word */
	/* the server's, of a call until it is answered */
	struct slowfs_caller callers[OPCODES_MAX];
	struct fault {
		struct slowfs_fault what;
		enum slowfs_op op;
		uint64_t off;      /* or NOWHERE */
		uint32_t nr_left;  /* calls until it is due */
		uint32_t is_there; /* atomic: the rest is written */
	} faults[FAULTS_MAX];
};

/* Answer what comes from the open /dev/fuse, to the end of the mount. */
_Noreturn void slowfs_serve(struct slowfs *fs, int fd);

#endif /* SLOWFS_PRIVATE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Run-time options, which are read from the environment when the library is loaded
 *
 * `uaio run` translates its flags to these variables. Tested by test/run/options.py.
 */
#ifndef UAIO_OPTIONS_CONFIG_H
#define UAIO_OPTIONS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "options/faults.h"
#include "options/options.h"
#include "options/variables.h"

struct uaio_config {
	/* limit of the sum of all contexts' events; 0: no limit */
	uint64_t max_nr;
	/*
	 * before each buffered read, check whether the page cache has the data: a read
	 * that would block goes to a worker
	 */
	bool never_block;
	/* never execute a request inside io_submit */
	bool force_worker;
	/* check that an iocb's address is readable before reading the iocb */
	bool is_strict;
	/*
	 * if a request's memory is misaligned for O_DIRECT, transfer the data through
	 * an aligned copy
	 */
	bool bounces;
	/* how many parts of a large request run at once; 0: the library decides */
	unsigned segments;
	enum uaio_uring_when uring;
	enum uaio_posix_when posix;
	enum uaio_backend backend;
	/* do not patch system call instructions of the program (patch.h) */
	bool is_patch_off;
	bool is_verbose;
	/* report statistics at the end of the process */
	bool has_report;
	/* report at once each call that the library does not serve */
	bool says_lost;
	/* let other processes read the counts (live/live.h) */
	bool has_live;
	/* Count and time requests. Does not change once the library has started. */
	bool has_stats;
	bool has_faults; /* inject uaio_faults */
	/*
	 * Set if faults are injected, or `uaio check` inspects requests and their
	 * memory.
	 */
	bool is_examined;

	/*
	 * values of --workers, --fixed and --max-items (uaio_option_count()); 0: the
	 * option is not given
	 */
	uint64_t workers, fixed, max_items;

	/* --cpus and --nice, for all threads of the library */
	bool has_cpus;
	bool has_nice;
	int nice;
	struct uaio_cpus cpus;
};

/*
 * If a member's comment does not say otherwise, the member is immutable after load.
 */
extern struct uaio_config uaio_config;
extern struct uaio_faults uaio_faults; /* immutable after load */

/* The value of the variable UAIO_CHECK; "" if it is unset. Immutable after load. */
extern char uaio_check_directory[UAIO_CHECK_DIRECTORY_MAX];
/*
 * Whether the variables UAIO_CHECK and UAIO_CHECK_HINTS are both set. Immutable after
 * load.
 */
extern bool uaio_check_hints;

void uaio_config_load(void);

#endif /* UAIO_OPTIONS_CONFIG_H */

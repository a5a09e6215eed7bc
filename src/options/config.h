/* SPDX-License-Identifier: MIT */
/*
 * Run-time options, read from the environment once, when the library is loaded
 *
 * `uaio run` sets the same variables from its flags. Tested by test/run/options.py.
 */
#ifndef UAIO_OPTIONS_CONFIG_H
#define UAIO_OPTIONS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "options/faults.h"
#include "options/options.h"
#include "options/variables.h"

struct uaio_config {
	uint64_t max_nr;  /* quota of events in all contexts; 0: no quota */
	bool never_block; /* always try the page cache before a buffered read */
	bool force_worker; /* execute nothing inside io_submit */
	bool is_strict;    /* probe iocb addresses before reading them */
	bool bounces;      /* copy misaligned direct requests */
	unsigned segments; /* segments at once; 0: chosen by the library */
	enum uaio_uring_when uring;
	enum uaio_posix_when posix;
	enum uaio_backend backend;
	bool is_patch_off; /* change no code of the program */
	bool is_verbose;
	bool has_report; /* report statistics when the process ends */
	bool says_lost;  /* say at once which calls are not served */
	bool has_live;   /* publish the counts of requests: live/live.h */
	/* Count and time requests. Immutable while the library is up. */
	bool has_stats;
	bool has_faults; /* inject uaio_faults */
	/* Inspect each request: inject uaio_faults, or check its memory. */
	bool is_examined;

	/* for the work queue: to be read by uaio_option_count(); 0: not given */
	uint64_t workers, fixed, max_items;

	/* for the library's threads */
	bool has_cpus;
	bool has_nice;
	int nice;
	struct uaio_cpus cpus;
};

/* Members without a comment of their own are immutable after load. */
extern struct uaio_config uaio_config;
extern struct uaio_faults uaio_faults; /* immutable after load */

/* The value of UAIO_CHECK_VARIABLE; "" if unset. Immutable after load. */
extern char uaio_check_directory[UAIO_CHECK_DIRECTORY_MAX];
/* Whether UAIO_CHECK_HINTS_VARIABLE is set, too. Immutable after load. */
extern bool uaio_check_hints;

void uaio_config_load(void);

#endif /* UAIO_OPTIONS_CONFIG_H */

/* SPDX-License-Identifier: MIT */
/*
 * Run-time options, read from the environment once, when the library is
 * loaded. `uaio run` sets the same variables from its flags.
 *
 * Tested by test/run/options.py.
 */
#ifndef UAIO_OPTIONS_CONFIG_H
#define UAIO_OPTIONS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "options/faults.h"
#include "options/options.h"
#include "options/variables.h"

struct uaio_config {
	uint64_t max_nr;   /* quota of events over all contexts; 0: none */
	bool never_block;  /* buffered reads always ask the page cache first */
	bool force_worker; /* nothing is executed inside io_submit */
	bool is_strict;    /* iocb addresses are probed before they are read */
	bool bounces;      /* misaligned direct requests go through a copy */
	unsigned segments; /* segments at once; 0: as many as pay */
	enum uaio_uring_when uring;
	enum uaio_posix_when posix;
	enum uaio_backend backend;
	bool is_patch_off; /* no code of the program's is changed */
	bool is_verbose;
	bool has_report; /* at the end the process says what it did */
	bool says_lost;  /* it says at once what is not served */
	bool has_live;   /* others may read what it does: live/live.h */
	/* Requests are counted and timed; immutable while the engine is up. */
	bool has_stats;
	bool has_faults; /* uaio_faults are made */
	/* Each request is looked at: uaio_faults are made, or its memory is checked. */
	bool is_examined;

	/* of the work queue: values for uaio_option_count(); 0: not given */
	uint64_t workers, fixed, max_items;

	/* of the engine's threads */
	bool has_cpus;
	bool has_nice;
	int nice;
	struct uaio_cpus cpus;
};

extern struct uaio_config uaio_config; /* the rest: immutable after load */
extern struct uaio_faults uaio_faults; /* immutable after load */

/* The value of UAIO_CHECK_VARIABLE; "": not set. Immutable after load. */
extern char uaio_check_directory[UAIO_CHECK_DIRECTORY_MAX];
/* Whether UAIO_CHECK_HINTS_VARIABLE is set beside it; the same. */
extern bool uaio_check_hints;

void uaio_config_load(void);

#endif /* UAIO_OPTIONS_CONFIG_H */

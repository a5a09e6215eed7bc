/* SPDX-License-Identifier: MIT */
#include "options/options.h"

#include <assert.h>
#include <stddef.h>

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static const char *const uring_words[] = {
	[UAIO_URING_AUTO] = "auto",
	[UAIO_URING_ALWAYS] = "always",
	[UAIO_URING_NEVER] = "never",
	NULL,
};

static const char *const backend_words[] = {
	[UAIO_BACKEND_AUTO] = "auto",
	[UAIO_BACKEND_THREADS] = "threads",
	[UAIO_BACKEND_AIO] = "aio",
	[UAIO_BACKEND_URING] = "io_uring",
	NULL,
};

static const char *const trap_words[] = {
	[UAIO_TRAP_OFF] = "off",
	[UAIO_TRAP_AUTO] = "auto",
	[UAIO_TRAP_ALWAYS] = "always",
	NULL,
};

static const char *const on_words[] = { "on", "off", NULL };
static_assert(UAIO_POSIX_ON == 0 && UAIO_POSIX_OFF == 1, "on_words");
static_assert(UAIO_LIVE_YES == 0 && UAIO_LIVE_NO == 1, "on_words");

const struct uaio_option uaio_options[] = {
	[UAIO_OPTION_MAX_NR] = {
		.name = "max-nr",
		.variable = "UAIO_MAX_NR",
		.kind = UAIO_OPTION_COUNT,
		.min = 0,
		.max = UINT32_MAX,
		.placeholder = "N",
		.help = "limit on events of all contexts, 0: none",
	},
	[UAIO_OPTION_NEVER_BLOCK] = {
		.name = "never-block",
		.variable = "UAIO_NEVER_BLOCK",
		.kind = UAIO_OPTION_SWITCH,
		.bare = "1",
		.help = "io_submit never waits for a disk to read",
	},
	[UAIO_OPTION_FORCE_WORKER] = {
		.name = "force-worker",
		.variable = "UAIO_FORCE_WORKER",
		.kind = UAIO_OPTION_SWITCH,
		.bare = "1",
		.help = "for tests: io_submit executes nothing",
	},
	[UAIO_OPTION_STRICT] = {
		.name = "strict",
		.variable = "UAIO_STRICT",
		.kind = UAIO_OPTION_SWITCH,
		.bare = "1",
		.help = "bad iocb addresses: EFAULT, not a fault",
	},
	[UAIO_OPTION_SEGMENTS] = {
		.name = "segments",
		.variable = "UAIO_SEGMENTS",
		.kind = UAIO_OPTION_COUNT,
		.min = 0,
		.max = 64,
		.placeholder = "N",
		.help = "segments of direct I/O at once, 1: whole",
	},
	[UAIO_OPTION_BOUNCE] = {
		.name = "bounce",
		.variable = "UAIO_BOUNCE",
		.kind = UAIO_OPTION_SWITCH,
		.bare = "1",
		.help = "misaligned direct I/O through a copy",
	},
	[UAIO_OPTION_STATS] = {
		.name = "stats",
		.variable = "UAIO_STATS",
		.kind = UAIO_OPTION_FILE,
		.placeholder = "[=FILE]",
		.bare = "-",
		.help = "at exit, report what ran and how fast",
	},
	[UAIO_OPTION_STATS_JSON] = {
		.name = "stats-json",
		.variable = "UAIO_STATS_JSON",
		.kind = UAIO_OPTION_FILE,
		.placeholder = "FILE",
		.help = "the same as a line of JSON",
	},
	[UAIO_OPTION_LIVE] = {
		.name = "live",
		.variable = "UAIO_LIVE",
		.kind = UAIO_OPTION_WORD,
		.words = on_words,
		.placeholder = "ON|OFF",
		.help = "counts that uaio stat reads: on, off",
	},
	[UAIO_OPTION_WORKERS] = {
		.name = "workers",
		.variable = "UAIO_WORKERS",
		.kind = UAIO_OPTION_COUNTS,
		.max = 4096,
		.usual = { 292, 256 },
		.placeholder = "N[,M]",
		.help = "threads for files; M: for other I/O",
	},
	[UAIO_OPTION_FIXED] = {
		.name = "fixed",
		.variable = "UAIO_FIXED",
		.kind = UAIO_OPTION_COUNTS,
		.max = 16,
		.usual = { 0, 0 },
		.placeholder = "N[,M]",
		.help = "of them, threads that stay when idle",
	},
	[UAIO_OPTION_MAX_ITEMS] = {
		.name = "max-items",
		.variable = "UAIO_MAX_ITEMS",
		.kind = UAIO_OPTION_COUNTS,
		.max = 1024,
		.usual = { 64, 64 },
		.placeholder = "N[,M]",
		.help = "work items in a list; not for libaio",
	},
	[UAIO_OPTION_CPUS] = {
		.name = "cpus",
		.variable = "UAIO_CPUS",
		.kind = UAIO_OPTION_CPUS_LIST,
		.placeholder = "LIST",
		.help = "where the library's threads run: 0-2,5",
	},
	[UAIO_OPTION_NICE] = {
		.name = "nice",
		.variable = "UAIO_NICE",
		.kind = UAIO_OPTION_NUMBER,
		.min = (uint64_t)-20,
		.max = 19,
		.placeholder = "N",
		.help = "nice value of the library's threads",
	},
	[UAIO_OPTION_URING] = {
		.name = "uring",
		.variable = "UAIO_URING",
		.kind = UAIO_OPTION_WORD,
		.words = uring_words,
		.placeholder = "WHEN",
		.help = "serve io_uring: auto, always or never",
	},
	[UAIO_OPTION_POSIX] = {
		.name = "posix",
		.variable = "UAIO_POSIX",
		.kind = UAIO_OPTION_WORD,
		.words = on_words,
		.placeholder = "ON|OFF",
		.help = "serve aio_read and its like: on, off",
	},
	[UAIO_OPTION_BACKEND] = {
		.name = "backend",
		.variable = "UAIO_BACKEND",
		.kind = UAIO_OPTION_WORD,
		.words = backend_words,
		.placeholder = "WHICH",
		.help = "backend: auto, threads, aio or io_uring",
	},
	[UAIO_OPTION_NO_PATCH] = {
		.name = "no-patch",
		.variable = "UAIO_NO_PATCH",
		.kind = UAIO_OPTION_SWITCH,
		.bare = "1",
		.help = "change no code that calls io_uring",
	},
	[UAIO_OPTION_FAULT] = {
		.name = "fault",
		.variable = "UAIO_FAULT",
		.kind = UAIO_OPTION_FAULTS,
		.placeholder = "SPEC",
		.help = "make faults: write:eio@p=0.01,seed=1",
	},
	[UAIO_OPTION_TRAP] = {
		.name = "trap",
		.variable = "UAIO_TRAP",
		.kind = UAIO_OPTION_WORD,
		.words = trap_words,
		.placeholder = "[=WHEN]",
		.bare = "auto",
		.help = "trap system calls: auto, always or off",
	},
	[UAIO_OPTION_VERBOSE] = {
		.name = "verbose",
		.variable = "UAIO_VERBOSE",
		.kind = UAIO_OPTION_SWITCH,
		.bare = "1",
		.help = "at start, say what is interposed",
	},
};
static_assert(NR_ELEMENTS(uaio_options) == UAIO_NR_OPTIONS,
	      "a row for each option");

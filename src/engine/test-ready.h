/* SPDX-License-Identifier: MIT */
/* What the tests of waiting on a pipe share: one pipe, one context. */
#ifndef TEST_READY_H
#define TEST_READY_H

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static int ends[2]; /* of a pipe: read, write */
static uint64_t handle;

static inline void open_pipe(unsigned nr_events)
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	handle = unit_context(nr_events);
}

static inline void close_pipe(void)
{
	unit_destroy(handle);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static inline void put_text(const char *text)
{
	assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
}

#endif /* TEST_READY_H */

/* SPDX-License-Identifier: MIT */
/*
 * What there is: the two ways to ask
 *
 * Tested by test-uring-register.c.
 */
#include <errno.h>
#include <string.h>

#include "uring/calls.h"
#include "uring/register.h"
#include "uring/submit.h"

/* Return: how many opcodes of submissions there are, up to the last that is served. */
static uint32_t nr_ops(void)
{
	enum { NR_OPS = 64 }; /* above all opcodes that are served */
	uint32_t nr = NR_OPS;

	while (nr && !uaio_uring_row_of(nr - 1))
		nr--;
	return nr;
}

/* Say which operations there are, and no others. */
long uaio_uring_probe(void *arg, uint32_t nr)
{
	struct {
		struct io_uring_probe head;
		struct io_uring_probe_op ops[UAIO_URING_OPS_MAX];
	} own;
	const uint32_t nr_there = nr_ops();
	size_t bytes;

	if (!arg || nr > UAIO_URING_OPS_MAX)
		return -EINVAL;
	bytes = sizeof(own.head) + nr * sizeof(own.ops[0]);
	if (uaio_uring_copy_in(&own, (uintptr_t)arg, bytes) < 0)
		return -EFAULT;
	for (size_t i = 0; i < bytes; i++)
		if (((const char *)&own)[i])
			return -EINVAL;
	own.head.last_op = (uint8_t)(nr_there - 1);
	if (nr > nr_there)
		nr = nr_there;
	own.head.ops_len = (uint8_t)nr;
	for (unsigned i = 0; i < nr; i++) {
		own.ops[i].op = (uint8_t)i;
		if (uaio_uring_row_of(i))
			own.ops[i].flags = IO_URING_OP_SUPPORTED;
	}
	return uaio_uring_copy_out((uintptr_t)arg, &own, bytes);
}

/* SPDX-License-Identifier: MIT */
/*
 * What there is: the two ways to ask
 *
 * Tested by test-uring-register.c.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "uring/calls.h"
#include "uring/register.h"
#include "uring/served.h"
#include "uring/sq.h"

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
	union {
		struct io_uring_probe head;
		uint8_t bytes[sizeof(struct io_uring_probe) +
			      UAIO_URING_OPS_MAX *
				      sizeof(struct io_uring_probe_op)];
	} own;
	const uint32_t nr_there = nr_ops();
	size_t bytes;

	if (!arg || nr > UAIO_URING_OPS_MAX)
		return -EINVAL;
	bytes = sizeof(own.head) + nr * sizeof(own.head.ops[0]);
	if (uaio_uring_copy_in(&own, (uintptr_t)arg, bytes) < 0)
		return -EFAULT;
	for (size_t i = 0; i < bytes; i++)
		if (own.bytes[i])
			return -EINVAL;
	own.head.last_op = (uint8_t)(nr_there - 1);
	if (nr > nr_there)
		nr = nr_there;
	own.head.ops_len = (uint8_t)nr;
	for (unsigned i = 0; i < nr; i++) {
		own.head.ops[i].op = (uint8_t)i;
		if (uaio_uring_row_of(i))
			own.head.ops[i].flags = IO_URING_OP_SUPPORTED;
	}
	return uaio_uring_copy_out((uintptr_t)arg, &own, bytes);
}

static struct uaio_uring_query_ops what_is_served(void)
{
	return (struct uaio_uring_query_ops){
		.nr_ops = nr_ops(),
		.nr_registers = UAIO_URING_REGISTER_END,
		.features = UAIO_URING_FEATURES,
		.setup_flags = UAIO_URING_SETUP_FLAGS,
		.enter_flags = UAIO_URING_ENTER_FLAGS,
		.sqe_flags = UAIO_URING_SQE_FLAGS,
		.nr_queries = UAIO_URING_QUERY_LAST,
	};
}

/* Return: 0; -EOPNOTSUPP: there is no such query; -EINVAL. */
static int check_query(const struct uaio_uring_query *query)
{
	if (query->about >= UAIO_URING_QUERY_LAST)
		return -EOPNOTSUPP;
	return query->resv[0] | query->resv[1] | query->resv[2] ||
			       query->result || !query->bytes
		       ? -EINVAL
		       : 0;
}

/*
 * Answer one query. A client that knows more members than there are finds zeroes in
 * the others.
 * Return: 0, also if the answer is an error; -EFAULT. *ret_next: the next one.
 */
static int answer(uint64_t at, uint64_t *ret_next)
{
	struct uaio_uring_query_ops ops = what_is_served();
	struct uaio_uring_query query;
	size_t bytes;

	if (uaio_uring_copy_in(&query, at, sizeof(query)) < 0)
		return -EFAULT;
	query.result = check_query(&query);
	bytes = query.bytes < sizeof(ops) ? query.bytes : sizeof(ops);
	/* What it had there does not matter, but is read all the same. */
	if (query.result == 0 && !uaio_uring_may_read(query.data, bytes))
		return -EFAULT;
	if (query.result < 0)
		bytes = 0;
	if (uaio_uring_clear(query.data + bytes, query.bytes - bytes) < 0 ||
	    (bytes && uaio_uring_copy_out(query.data, &ops, bytes) < 0))
		return -EFAULT;
	query.bytes = (uint32_t)bytes;
	*ret_next = query.next;
	return uaio_uring_copy_out(at, &query, sizeof(query));
}

long uaio_uring_query(void *arg, uint32_t nr)
{
	enum {
		QUERIES_MAX = 1000
	}; /* as in the kernel: they may be a circle */
	uint64_t at = (uintptr_t)arg;

	if (nr)
		return -EINVAL;
	for (unsigned i = 1; at; i++) {
		if (answer(at, &at) < 0)
			return -EFAULT;
		if (i >= QUERIES_MAX)
			return -ERANGE;
	}
	return 0;
}

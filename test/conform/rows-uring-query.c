/* SPDX-License-Identifier: MIT */
/* IORING_REGISTER_QUERY: its answers, on a ring and without a ring */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "uring.h"

enum { REGISTER_QUERY = 35, QUERY_OPS = 0 };

/* Has the layout of the kernel's struct io_uring_query_hdr. */
struct query {
	uint64_t next, data;
	uint32_t about, bytes;
	int32_t result;
	uint32_t resv[3];
};

/* Has the layout of the kernel's struct io_uring_query_opcode. */
struct ops {
	uint32_t nr_ops, nr_registers;
	uint64_t features, setup_flags, enter_flags, sqe_flags;
	uint32_t nr_queries, pad;
};

static long ask(struct query *query, uint32_t nr)
{
	return uring_register(-1, REGISTER_QUERY, query, nr);
}

static struct query query_of(void *data, size_t bytes)
{
	return (struct query){ .data = (uintptr_t)data,
			       .bytes = (uint32_t)bytes };
}

static void note_answer(const char *key, long ret, const struct query *query)
{
	note_result(key, ret);
	note_result(key, query->result);
	note(key, query->bytes);
}

static void what_there_is(void)
{
	struct ops ops = { 0 };
	struct query query = query_of(&ops, sizeof(ops));
	struct io_uring_params params = { 0 };

	note_answer("ask", ask(&query, 0), &query);
	note("ops", ops.nr_ops);
	note("registers", ops.nr_registers);
	note("enter", (long)ops.enter_flags);
	note("sqe", (long)ops.sqe_flags);
	note("queries", ops.nr_queries);
	REQUIRE(uring_setup(4, &params) >= 0);
	note("features", ops.features == params.features);
	/* Tries each setup flag, together with the flags that it needs. */
	for (int bit = 0; bit < 32; bit++) {
		uint32_t with = 0;
		bool is_taken;

		params = (struct io_uring_params){ .cq_entries = 8 };
		/* these flags need further flags */
		if (bit == 5 || bit == 14 || bit == 15)
			continue;
		if (bit == 2)
			with = IORING_SETUP_SQPOLL;
		if (bit == 9)
			with = IORING_SETUP_COOP_TASKRUN;
		if (bit == 13)
			with = IORING_SETUP_SINGLE_ISSUER;
		if (bit == 17)
			with = IORING_SETUP_IOPOLL;
		params.flags = 1u << bit | with;
		is_taken = uring_setup(4, &params) >= 0;
		if (is_taken != (ops.setup_flags >> bit & 1))
			note("other", bit);
	}
}

static void with_a_ring(void)
{
	struct ops ops = { 0 };
	struct query query = query_of(&ops, sizeof(ops));
	struct uring ring = new_uring(4, 0);

	note_result("ring", uring_register(ring.fd, REGISTER_QUERY, &query, 0));
	note_answer("ring", 0, &query);
	note("ops", ops.nr_ops);
	query = query_of(&ops, sizeof(ops));
	note_result("registered",
		    uring_register(
			    -1, REGISTER_QUERY | REGISTER_USE_REGISTERED_RING,
			    &query, 0));
	note_result("closed", uring_register(77777, REGISTER_QUERY, &query, 0));
}

static void sizes(void)
{
	unsigned char data[128];

	for (size_t bytes = 0; bytes <= 72; bytes += 8) {
		struct query query = query_of(data, bytes);
		char key[16];
		size_t end;

		memset(data, 0xee, sizeof(data));
		snprintf(key, sizeof(key), "%zu", bytes);
		note_answer(key, ask(&query, 0), &query);
		for (end = sizeof(data); end && data[end - 1] == 0xee;)
			end--;
		note(key, (long)end);
	}
}

static void mistakes(void)
{
	struct ops ops;
	struct query query = query_of(&ops, sizeof(ops));
	char *read_only = pages_of(4096, PROT_READ);
	struct query *queries;

	note_result("nr_1", ask(&query, 1));
	note_result("null", ask(NULL, 0));
	note_result("null_nr_1", ask(NULL, 1));
	note_result("kernel", ask(KERNEL_ADDRESS, 0));
	for (uint32_t about = 1; about < 4; about++) {
		memset(&ops, 0xee, sizeof(ops));
		query = query_of(&ops, sizeof(ops));
		query.about = about;
		note_answer("about", ask(&query, 0), &query);
		note("cleared", ops.nr_ops);
	}
	query = query_of(NULL, 0);
	query.about = 7;
	note_answer("about_nothing", ask(&query, 0), &query);
	for (int i = 0; i < 3; i++) {
		query = query_of(&ops, sizeof(ops));
		query.resv[i] = 1;
		note_answer("resv", ask(&query, 0), &query);
	}
	query = query_of(&ops, sizeof(ops));
	query.result = 1;
	note_answer("result", ask(&query, 0), &query);
	query = query_of(KERNEL_ADDRESS, sizeof(ops));
	note_answer("data_kernel", ask(&query, 0), &query);
	query = query_of(KERNEL_ADDRESS, sizeof(ops));
	query.about = 7;
	note_answer("about_kernel", ask(&query, 0), &query);
	query = query_of(read_only, sizeof(ops));
	note_answer("read_only", ask(&query, 0), &query);
	queries = pages_of(4096, PROT_READ | PROT_WRITE);
	*queries = query_of(&ops, sizeof(ops));
	mprotect(queries, 4096, PROT_READ);
	note_result("read_only_query", ask(queries, 0));
}

static void many(void)
{
	static struct query queries[1100];
	static const int sizes[] = { 1, 2, 999, 1000, 1001 };
	struct ops ops;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const int nr = sizes[i];
		int nr_done = 0;

		memset(queries, 0, sizeof(queries));
		for (int k = 0; k < nr; k++) {
			queries[k] = query_of(&ops, 8);
			queries[k].about = 9;
			if (k + 1 < nr)
				queries[k].next = (uintptr_t)&queries[k + 1];
		}
		note_result("chain", ask(queries, 0));
		while (nr_done < nr && !queries[nr_done].bytes)
			nr_done++;
		note("done", nr_done);
	}
	queries[0] = query_of(&ops, sizeof(ops));
	queries[0].next = (uintptr_t)&queries[0];
	note_result("circle", ask(queries, 0));
	/*
	 * In a chain of queries, a wrong query gets its own error, and the query after
	 * it is answered.
	 */
	queries[0] = query_of(&ops, sizeof(ops));
	queries[0].about = 9;
	queries[0].next = (uintptr_t)&queries[1];
	queries[1] = query_of(&ops, sizeof(ops));
	note_result("after_mistake", ask(queries, 0));
	note_answer("first", 0, &queries[0]);
	note_answer("second", 0, &queries[1]);
}

const struct row rows_uring_query[] = {
	ROW("a query tells what a setup and a probe tell", what_there_is),
	ROW("a query needs no ring", with_a_ring),
	ROW("a query of each size", sizes),
	ROW("mistakes of a query", mistakes),
	ROW("queries in a chain", many),
	NO_ROW,
};

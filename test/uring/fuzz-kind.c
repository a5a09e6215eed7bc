/* SPDX-License-Identifier: MIT */
/*
 * The kinds of isolated scenarios: features that only some of the scenarios use.
 */
#undef NDEBUG
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind kind;

bool parse_seed(const char *text, uint64_t *ret_seed)
{
	static const char *const names[NR_KINDS] = {
		[KIND_PLAIN] = "plain",
		[KIND_SKIP] = "skip",
		[KIND_DISABLED] = "disabled",
		[KIND_TRACED] = "traced",
	};
	size_t length = strcspn(text, ":");
	char *end;

	for (unsigned i = 0; text[length] && i < NR_KINDS; i++)
		if (strlen(names[i]) == length &&
		    !strncmp(text, names[i], length)) {
			kind = i;
			text += length + 1;
			break;
		}
	*ret_seed = strtoull(text, &end, 0);
	return end != text && !*end;
}

/*
 * Requests without a completion (IOSQE_CQE_SKIP_SUCCESS)
 *
 * The program cannot see whether a request without a completion has ended. But a
 * waiting request can be cancelled, and one that has ended cannot. So wait for a while,
 * then try to cancel the request.
 */

static bool is_any_pending(unsigned from)
{
	for (unsigned i = from; i < world.nr_requests; i++)
		if (world.requests[i].is_pending)
			return true;
	return false;
}

static bool has_ended(const struct ring *ring, const struct request *request)
{
	struct io_uring_sync_cancel_reg what = {
		.addr = request->sqe.user_data,
		.timeout = { 0, 0 },
	};

	return uring_register(ring->uring.fd, IORING_REGISTER_SYNC_CANCEL,
			      &what, 1) == -ENOENT;
}

bool await_silent(struct ring *ring, unsigned from, uint64_t patience_us)
{
	/*
	 * await_silent() waits for patience_us / PART; most requests end sooner.
	 */
	enum { PART = 4 };

	if (!is_any_pending(from))
		return true;
	/*
	 * Make await() wait for a completion that never comes, so that the time passes.
	 */
	ring->nr_pending++;
	await(ring, patience_us / PART);
	ring->nr_pending--;
	for (unsigned i = from; i < world.nr_requests; i++)
		if (world.requests[i].is_pending &&
		    !has_ended(ring, &world.requests[i]))
			return false;
	uring_enter(ring->uring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
	take_all(ring);
	for (unsigned i = from; i < world.nr_requests; i++)
		if (world.requests[i].is_pending) {
			world.requests[i].is_pending = false;
			note_silent(i);
		}
	return true;
}

/* Calls on a ring that is created disabled (IORING_SETUP_R_DISABLED) */

static void tell(const char *what, unsigned step, long ret, uint32_t opcode)
{
	printf("%llu.%s%u %ld | register %u\n",
	       (unsigned long long)world.number, what, step, ret, opcode);
}

void live_disabled(struct ring *ring)
{
	const unsigned nr = any(8);
	uint32_t opcode;
	long ret;

	for (unsigned i = 0; i < nr; i++) {
		switch (any(4)) {
		case 0:
			ret = uring_enter(ring->uring.fd, any(2), 0,
					  any(2) ? IORING_ENTER_GETEVENTS : 0,
					  NULL, 0);
			tell("enter", i, ret, 0);
			break;
		case 1:
			ret = register_likely_restrictions(ring);
			tell("restrict", i, ret, IORING_REGISTER_RESTRICTIONS);
			break;
		default:
			ret = make_register(ring, &opcode);
			tell("before", i, ret, opcode);
		}
	}
	ret = uring_register(ring->uring.fd, IORING_REGISTER_ENABLE_RINGS, NULL,
			     0);
	tell("enable", nr, ret, IORING_REGISTER_ENABLE_RINGS);
}

/*
 * Words to which the program stores (make_mark()), so that a trace of its memory
 * accesses shows when the program did so
 */

static volatile uint64_t marks[NR_MARKS];

void make_mark(enum mark mark)
{
	if (kind == KIND_TRACED)
		marks[mark] = 1;
}

static void print_range(const char *name, const void *start, size_t bytes)
{
	printf("%llu.traced %s %#lx %#zx\n", (unsigned long long)world.number,
	       name, (unsigned long)(uintptr_t)start, bytes);
}

/*
 * Print the memory map. In it, once.py finds the library's own mapping of the ring.
 */
static void print_map(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (!maps)
		failed("/proc/self/maps", errno);
	while (fgets(line, sizeof(line), maps))
		printf("%llu.map %s", (unsigned long long)world.number, line);
	fclose(maps);
}

void print_traced(const struct ring *ring)
{
	const struct uring *uring = &ring->uring;
	size_t bytes;
	const void *start = arguments(&bytes);

	print_range("marks", (const void *)marks, sizeof(marks));
	print_range("arguments", start, bytes);
	start = vectors(&bytes);
	print_range("vectors", start, bytes);
	print_range("arena", arena, ARENA);
	print_range("arrays", arrays, (size_t)NR_ARRAYS * ARRAY);
	print_range("submissions", uring->sqes, uring->sqes_bytes);
	if (uring->sq_array)
		print_range("array of submissions", uring->sq_array,
			    uring->params.sq_entries * sizeof(uint32_t));
	print_map();
}

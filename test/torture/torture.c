/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "torture.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "unit.h"

enum { SECONDS = 10, HANG_SECONDS = 60 };

static uint64_t seed;
static int64_t end_ns;
static bool is_long;
static struct {
	uint64_t count;
	const char *unit;
} checked;

struct random random_start(unsigned nr)
{
	struct random random = { seed + nr * 0x9e3779b97f4a7c15u };

	(void)random_below(&random, 2);
	return random;
}

uint32_t random_below(struct random *random, uint32_t n)
{
	uint64_t x;

	/* splitmix64 */
	random->state += 0x9e3779b97f4a7c15u;
	x = random->state;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % n;
}

bool is_over(void)
{
	return uaio_now_ns() >= end_ns;
}

uint64_t least_bytes(void)
{
	return is_long ? 1u << 30 : 16u << 20;
}

void note_count(uint64_t count, const char *unit)
{
	checked.count += count;
	checked.unit = unit;
}

static const struct {
	const char *name;
	int (*run)(void);
} kinds[] = {
	{ "contexts", torture_contexts }, { "ordering", torture_ordering },
	{ "churn", torture_churn },       { "streams", torture_streams },
	{ "sharing", torture_sharing },   { "waiters", torture_waiters },
	{ "blocks", torture_blocks },     { "reaping", torture_reaping },
};

int main(int argc, char **argv)
{
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : SECONDS;
	struct unit_footprint before;
	const char *leak;

	is_long = seconds > SECONDS;
	seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)uaio_now_ns();
	for (size_t i = 0; i < NR_ELEMENTS(kinds); i++) {
		if (argc < 2 || strcmp(argv[1], kinds[i].name))
			continue;
		printf("seed %" PRIu64 "\n", seed);
		fflush(stdout);
		signal(SIGPIPE, SIG_IGN);
		alarm(seconds + HANG_SECONDS);
		REQUIRE(unit_engine(NULL) == 0);
		REQUIRE(unit_setup(NULL) == 0);
		unit_footprint(&before);
		alarm(seconds + HANG_SECONDS);
		end_ns = uaio_now_ns() + seconds * INT64_C(1000000000);
		if (kinds[i].run())
			return 1;
		leak = unit_find_leak(&before, UNIT_PATIENCE_MS);
		if (leak)
			fprintf(stderr, "left behind: %s\n", leak);
		REQUIRE(checked.count);
		printf("counted %" PRIu64 " %s: 0 lost\n", checked.count,
		       checked.unit);
		return leak ? 1 : 0;
	}
	fprintf(stderr, "usage: torture KIND [SECONDS [SEED]]\n");
	return 2;
}

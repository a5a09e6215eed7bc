/* SPDX-License-Identifier: MIT */
/*
 * fail-each [--seed S] [--seconds N] [--list] [--keep-going]
 *           [--case WORKLOAD/CALL@SITE:N:HOW]
 *
 * The program lets each system call of the library fail once in each way that its
 * manual page allows. It also lets calls return a short count, or take long. A case
 * fails if a request does not complete exactly once, or moves wrong bytes. It fails if
 * a request completes with an error that its interface (such as POSIX AIO) does not
 * have. It also fails if a resource is left behind, or if the library does not work as
 * usual afterwards.
 *
 * The cases are shuffled, always in the same way. The seed chooses the case at which a
 * run starts; runs with seeds S, S+1, ... start far apart. After the last case a run
 * continues with the first. --case runs all cases whose names begin with its argument.
 * A site is an instruction that makes system calls. In each workload, only the first
 * CALLS_MAX calls of a site are made to fail, because a site with more calls is in a
 * loop. SITE is an address in the program: addr2line -fie PROGRAM SITE.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/slab.h"
#include "base/sleep.h"
#include "options/config.h"
#include "options/names.h"
#include "native/driver.h"
#include "unit.h"
#include "uring-client.h"
#include "fail-each.h"

enum {
	CALLS_MAX = 12,
	LEARN_ROUNDS = 3,
	/*
	 * how often to run a case until it makes the call that is to fail; some runs do
	 * not make this call
	 */
	TRIES = 2,
	/* how often each process runs with the fault, so that leaks add up */
	FAULTS = 3,
	KEPT_MAX = 8, /* most requests that a workload has in flight at once */
	CASES_MAX = 1 << 17,
	NR_CALLS_MAX = 512, /* exceeds all numbers of system calls */
	STATUS_NOT_REACHED = 2,
};

static const struct workload {
	const char *name;
	void (*work)(void);
	bool force_worker;
	enum uaio_backend backend;
} workloads[] = {
	{ "aio", fail_work_aio, false, UAIO_BACKEND_THREADS },
	{ "aio-workers", fail_work_aio, true, UAIO_BACKEND_THREADS },
	{ "direct", fail_work_direct, false, UAIO_BACKEND_THREADS },
	{ "direct-aio", fail_work_direct, false, UAIO_BACKEND_AIO },
	{ "direct-uring", fail_work_direct, false, UAIO_BACKEND_URING },
	{ "fork", fail_work_fork, false, UAIO_BACKEND_THREADS },
	{ "posix", fail_work_posix, false, UAIO_BACKEND_THREADS },
	{ "posix-workers", fail_work_posix, true, UAIO_BACKEND_THREADS },
	{ "ring", fail_work_ring, false, UAIO_BACKEND_THREADS },
	{ "ring-workers", fail_work_ring, true, UAIO_BACKEND_THREADS },
	{ "sockets", fail_work_sockets, false, UAIO_BACKEND_THREADS },
};

struct test_case {
	uint32_t order;
	uint16_t workload;
	bool is_covered;
	struct fail_fault fault;
};

static struct {
	const char *program;
	uint32_t seed;
	unsigned seconds;
	/* --case: the beginning of the names of the cases to run; or NULL */
	const char *only;
	bool lists;
	bool keeps_going;
	unsigned nr_lost;
	unsigned nr;
	struct test_case *cases;
} sweep = { .seconds = 3 };

/*
 * Functions that run one case, in a process of its own. `played` is the case's
 * workload.
 */

static const struct workload *played;

/*
 * For each workload: the most descriptors and objects that the library kept after a run
 * without a fault
 */
static struct {
	uint32_t nr_own_fds;
	uint64_t nr_objects;
} left[NR_ELEMENTS(workloads)];

/*
 * *ret_nr: how many descriptors the library has.
 * Return: whether one of them refers to a file of the program.
 */
static bool holds_file(uint32_t *ret_nr)
{
	char path[40], file[64];
	bool holds = false;
	unsigned fd;

	*ret_nr = 0;
	for (unsigned at = 0; uaio_own_fd(at, ~0u, &fd); at = fd + 1) {
		ssize_t len;

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%u", fd);
		len = readlink(path, file, sizeof(file));
		holds |= len > 0 && strncmp(file, "anon_inode:", 11) != 0;
		++*ret_nr;
	}
	return holds;
}

/*
 * A fault may prevent the library from reading the number of seccomp filters. Then the
 * library makes only the system calls that any program makes to wait for files
 * (calls.h, I5). It has no io_uring and serves streams with restrictions
 * (doc/sandboxes.md).
 * Return: whether the library is in this state.
 */
static bool is_limited(void)
{
	return !uaio_may_call(UAIO_CALL_MEMFD);
}

/*
 * Create and close a ring. This lets the library free the rings that were closed
 * before: it may free them only when another ring is made or closed.
 */
static void make_ring(void)
{
	const struct io_uring_params params = { 0 };
	struct uring ring;

	need(uring_open(&ring, 1, &params) == 0, "there is no ring");
	uring_unmap(&ring);
	unit_close(ring.fd);
}

/*
 * After a fault the library may keep one more poller (proc/poller.h), which is one
 * object and two descriptors. The queue of POSIX AIO is never closed. It keeps as many
 * request objects as were ever in flight at once.
 * Return: whether, besides these, the library keeps more than after a run without a
 * fault.
 */
static bool is_more(uint32_t nr_fds, uint64_t nr_objects)
{
	const uint32_t nr_own_fds = fail_shared->nr_own_fds;
	const bool has_poller = nr_fds > nr_own_fds;
	const unsigned nr_kept = played->work == fail_work_posix ? KEPT_MAX : 0;

	return nr_fds > nr_own_fds + 2 ||
	       nr_objects > fail_shared->nr_objects + has_poller + nr_kept;
}

static void check_leaks(void)
{
	const int64_t until =
		uaio_now_ns() + FAIL_PATIENCE_S * INT64_C(1000000000);
	const bool learns = !fail_shared->fault.key;
	struct uaio_counters counters = { 0 };
	uint64_t nr_objects;
	uint32_t nr_fds;
	bool holds, has_more;

	do {
		if (!is_limited())
			make_ring();
		uaio_counters_read(&counters);
		holds = holds_file(&nr_fds);
		nr_objects = load_relaxed(&uaio_slabs_nr_out);
		has_more = !learns && is_more(nr_fds, nr_objects);
	} while ((counters.nr_contexts || holds || has_more) &&
		 uaio_now_ns() < until);
	/*
	 * Make the driver end before unit_teardown() looks for leftovers. The driver is
	 * a thread (native/driver.h) that keeps a kernel io_uring, which has kernel
	 * threads.
	 */
	uaio_driver_end_when_idle();
	need(!holds, "the library keeps a file of the program's");
	if (learns) {
		if (fail_shared->nr_own_fds < nr_fds)
			fail_shared->nr_own_fds = nr_fds;
		if (fail_shared->nr_objects < nr_objects)
			fail_shared->nr_objects = nr_objects;
	}
	need(!has_more,
	     "the library keeps %u descriptors, %llu objects; not %u, %llu",
	     nr_fds, (unsigned long long)nr_objects, fail_shared->nr_own_fds,
	     (unsigned long long)fail_shared->nr_objects);
	need(unit_teardown(NULL) == 0, "something is left behind");
}

static void configure(void)
{
	uaio_config.force_worker = played->force_worker;
	uaio_config.backend = played->backend;
	/*
	 * With has_stats, the library counts the requests in each state. unit_teardown()
	 * checks these counts.
	 */
	uaio_config.has_stats = true;
}

/*
 * The kernel reports a failed writeback only once: the next sync succeeds although data
 * was lost. So if the fault lets a sync fail, a request must complete with an error.
 * Return: whether the fault let a sync fail, but no request completed with an error.
 */
static bool is_sync_error_lost(void)
{
	const struct fail_fault *fault = &fail_shared->fault;
	const long nr = fail_kinds[fault->key & 0xffff].nr;

	return fault->key && (nr == SYS_fsync || nr == SYS_fdatasync) &&
	       fault->how > 0 && fault->how != EINTR &&
	       load_relaxed(&fail_shared->nr_seen) >= fault->n &&
	       !load_relaxed(&fail_shared->nr_errors);
}

/*
 * Start the library, run the workload several times with the fault, then once without
 * it.
 */
static int play(void)
{
	const struct fail_fault *fault = &fail_shared->fault;
	void (*work)(void);
	int ret;

	(void)unit_setup(NULL);
	alarm(4 * FAIL_PATIENCE_S);
	fail_is_strict = !fault->key || fault->how == FAIL_DELAY;
	store_relaxed(&fail_shared->is_on, 1);
	ret = unit_engine(NULL);
	if (ret < 0) {
		need(fail_may_refuse(-ret), "the library starts with %d", ret);
		ret = uaio_engine_start();
	}
	need(ret == 0, "the library starts with %d", ret);
	configure();
	work = is_limited() ? fail_work_files : played->work;
	for (unsigned i = 0; i < (fail_is_strict ? 1 : FAULTS); i++) {
		store_relaxed(&fail_shared->nr_seen, 0);
		store_relaxed(&fail_shared->nr_errors, 0);
		work();
		need(!is_sync_error_lost(), "an error of a sync is lost");
	}
	store_relaxed(&fail_shared->is_on, 0);
	fail_is_strict = true;
	work();
	check_leaks();
	return fault->key && !load_relaxed(&fail_shared->is_done)
		       ? STATUS_NOT_REACHED
		       : 0;
}

/*
 * Run a case in a child process. If the case fails, print the reason.
 * Return: the result of play(); -1 if the case fails.
 */
static int run(const struct workload *workload, const struct fail_fault *fault)
{
	int ret;

	played = workload;
	fail_shared->fault = *fault;
	fail_shared->nr_seen = fail_shared->is_done = fail_shared->is_on = 0;
	fail_shared->nr_own_fds = left[workload - workloads].nr_own_fds;
	fail_shared->nr_objects = left[workload - workloads].nr_objects;
	ret = unit_in_child(play);
	if (ret < 0)
		fprintf(stderr, "failed: the process ends by signal %d (%s)\n",
			-ret, strsignal(-ret));
	return ret == 0 || ret == STATUS_NOT_REACHED ? ret : -1;
}

/*
 * Cases
 */

static const char *how_name(int how)
{
	const char *name = how > 0 ? uaio_error_name(how) : NULL;

	return how == FAIL_SHORT   ? "short"
	       : how == FAIL_DELAY ? "delay"
	       : name              ? name
				   : "?";
}

enum { NAME_MAX_BYTES = 96 };

static void name_of(const struct test_case *test, char *ret_name)
{
	const struct fail_fault *fault = &test->fault;

	(void)snprintf(ret_name, NAME_MAX_BYTES, "%s/%s@%#llx:%u:%s",
		       workloads[test->workload].name,
		       fail_kinds[fault->key & 0xffff].name,
		       (unsigned long long)(fault->key >> 16), fault->n,
		       how_name(fault->how));
}

/*
 * Return: a hash of the case. In the order of these hashes, similar cases are far
 * apart, so even a short run has cases of many kinds.
 */
static uint32_t mix(const struct test_case *test)
{
	uint64_t x = test->fault.key * 0x9e3779b97f4a7c15u;

	x += test->fault.n * 0xbf58476d1ce4e5b9u +
	     (uint64_t)test->fault.how * 0x94d049bb133111ebu + test->workload;
	x ^= x >> 31;
	x *= 0xd6e8feb86659fd93u;
	return (uint32_t)(x >> 32);
}

static void add_case(unsigned workload, uint64_t key, uint32_t n, int how)
{
	struct test_case *test = &sweep.cases[sweep.nr];

	need(sweep.nr++ < CASES_MAX, "there are too many cases");
	*test = (struct test_case){ .workload = (uint16_t)workload,
				    .fault = { key, n, how } };
	test->order = mix(test);
}

static uint32_t at_most(uint32_t n, uint32_t max)
{
	return n < max ? n : max;
}

static void add_site(unsigned workload, const struct fail_site *site,
		     bool *is_absent)
{
	const struct fail_kind *kind = &fail_kinds[site->key & 0xffff];
	const uint32_t nr_cuts = at_most(site->nr_cuts, CALLS_MAX);

	for (uint32_t n = 1; n <= at_most(site->nr_calls, CALLS_MAX); n++) {
		for (unsigned i = 0;
		     i < NR_ELEMENTS(kind->errors) && kind->errors[i]; i++) {
			/*
			 * With ENOSYS, all calls with the same number fail. So each
			 * number needs only one case with ENOSYS.
			 */
			if (kind->errors[i] == ENOSYS) {
				bool *is_done =
					&is_absent[kind->nr % NR_CALLS_MAX];

				if (*is_done)
					continue;
				*is_done = true;
			}
			add_case(workload, site->key, n, kind->errors[i]);
		}
		add_case(workload, site->key, n, FAIL_DELAY);
	}
	for (uint32_t n = 1; n <= nr_cuts; n++)
		add_case(workload, site->key, n, FAIL_SHORT);
}

/*
 * Run the workload without a fault, to find out which calls it makes.
 * Return: false if the workload fails.
 */
static bool learn(unsigned workload)
{
	static const struct fail_fault none;
	static struct fail_site most[FAIL_SITES_MAX];
	bool is_absent[NR_CALLS_MAX] = { false };

	memset(most, 0, sizeof(most));
	memset(fail_shared->sites, 0, sizeof(fail_shared->sites));
	for (unsigned i = 0; i < LEARN_ROUNDS; i++) {
		if (run(&workloads[workload], &none) != 0)
			return false;
		left[workload].nr_own_fds = fail_shared->nr_own_fds;
		left[workload].nr_objects = fail_shared->nr_objects;
		/*
		 * For each site (system call instruction), record the most calls that
		 * it made in one run of the workload. In the next run, the site keeps
		 * its element of sites[], and counts from 0 again.
		 */
		for (unsigned j = 0; j < FAIL_SITES_MAX; j++) {
			struct fail_site *site = &fail_shared->sites[j];

			most[j].key = site->key;
			if (most[j].nr_calls < site->nr_calls)
				most[j].nr_calls = site->nr_calls;
			if (most[j].nr_cuts < site->nr_cuts)
				most[j].nr_cuts = site->nr_cuts;
			site->nr_calls = site->nr_cuts = 0;
		}
	}
	for (unsigned i = 0; i < FAIL_SITES_MAX; i++)
		if (most[i].key)
			add_site(workload, &most[i], is_absent);
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct test_case *one = a, *other = b;

	return one->order < other->order ? -1 : one->order > other->order;
}

/*
 * The sweep
 */

/* Return: false if the case fails and no more cases are to run. */
static bool try_case(struct test_case *test)
{
	char name[NAME_MAX_BYTES];
	int ret = STATUS_NOT_REACHED;

	for (unsigned i = 0; i < TRIES && ret == STATUS_NOT_REACHED; i++)
		ret = run(&workloads[test->workload], &test->fault);
	test->is_covered |= ret == 0;
	if (ret >= 0)
		return true;
	name_of(test, name);
	fprintf(stderr, "replay: %s --case %s --seed %u\n", sweep.program, name,
		sweep.seed);
	sweep.nr_lost++;
	return sweep.keeps_going;
}

static bool try_all(void)
{
	const int64_t until =
		uaio_now_ns() + sweep.seconds * INT64_C(1000000000);
	/*
	 * The seed is multiplied by the golden ratio, so that runs with successive
	 * seeds start far apart.
	 */
	const uint64_t from =
		(uint64_t)(sweep.seed * 0x9e3779b1u) * sweep.nr >> 32;

	for (uint64_t i = 0; uaio_now_ns() < until; i++) {
		struct test_case *test = &sweep.cases[(from + i) % sweep.nr];

		if (!try_case(test))
			return false;
	}
	return true;
}

/*
 * Run all cases whose names begin with sweep.only; with --list, print the names of all
 * cases.
 */
static bool try_named(void)
{
	char name[NAME_MAX_BYTES];
	bool is_found = sweep.lists;

	for (unsigned i = 0; i < sweep.nr; i++) {
		name_of(&sweep.cases[i], name);
		if (sweep.lists)
			puts(name);
		else if (!strncmp(name, sweep.only, strlen(sweep.only)))
			is_found = true;
		else
			continue;
		if (!sweep.lists && !try_case(&sweep.cases[i]))
			return false;
	}
	if (!is_found)
		fprintf(stderr, "failed: there is no case %s\n", sweep.only);
	return is_found;
}

static bool learn_all(void)
{
	for (unsigned i = 0; i < NR_ELEMENTS(workloads); i++) {
		const char *name = workloads[i].name;
		const size_t len = strlen(name);

		if (sweep.only && (strncmp(sweep.only, name, len) != 0 ||
				   sweep.only[len] != '/'))
			continue;
		if (learn(i))
			continue;
		fprintf(stderr, "replay: %s --seed %u (%s, without a fault)\n",
			sweep.program, sweep.seed, name);
		return false;
	}
	qsort(sweep.cases, sweep.nr, sizeof(*sweep.cases), compare);
	return true;
}

static void read_arguments(int argc, char **argv)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	sweep.program = argv[0];
	sweep.seed =
		(uint32_t)now.tv_sec * 1000000u + (uint32_t)now.tv_nsec / 1000u;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--list")) {
			sweep.lists = true;
			continue;
		}
		if (!strcmp(argv[i], "--keep-going")) {
			sweep.keeps_going = true;
			continue;
		}
		if (value && !strcmp(argv[i], "--seed"))
			sweep.seed = (uint32_t)strtoul(value, NULL, 10);
		else if (value && !strcmp(argv[i], "--seconds"))
			sweep.seconds = (unsigned)strtoul(value, NULL, 10);
		else if (value && !strcmp(argv[i], "--case"))
			sweep.only = value;
		else
			fail_with("usage: %s [--seed S] [--seconds N] [--list] "
				  "[--keep-going] [--case NAME]",
				  argv[0]);
		i++;
	}
}

int main(int argc, char **argv)
{
	unsigned nr_covered = 0;

	read_arguments(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %u\n", sweep.seed);
	fail_shared = mmap(NULL, sizeof(*fail_shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sweep.cases = calloc(CASES_MAX, sizeof(*sweep.cases));
	need(fail_shared != MAP_FAILED && sweep.cases, "there is no memory");
	fail_hook();
	if (!learn_all() ||
	    !(sweep.only || sweep.lists ? try_named() : try_all()))
		return 1;
	for (unsigned i = 0; i < sweep.nr; i++)
		nr_covered += sweep.cases[i].is_covered;
	printf("counted %u pairs of %u: %u lost\n", nr_covered, sweep.nr,
	       sweep.nr_lost);
	return sweep.nr_lost || (!sweep.lists && !nr_covered);
}

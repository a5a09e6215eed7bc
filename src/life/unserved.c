/* SPDX-License-Identifier: MIT */
/*
 * Records why the library does not serve the program, and which rings the kernel makes
 *
 * Tested by test/run/lost.py and test/uring/uring.py.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "options/config.h"
#include "trace/trace.h"
#include "life/report.h"
#include "life/reportint.h"

/* atomic: why the library did not serve the program; NULL: it did */
static const char *unserved;

/* Rings that the kernel made. All accesses are atomic and relaxed. */
static struct {
	/*
	 * id of the process for which the kernel made these rings; a child of fork()
	 * inherits its parent's struct
	 */
	int pid;
	uint64_t nr;
	/* why it is the kernel that makes the rings; constant text, or NULL */
	const char *why;
	/* the first limit because of which the kernel refused a ring, or NULL */
	const char *limit;
} kernels;

/*
 * Return: whether this process itself made the rings, and not an ancestor that forked
 * it.
 */
static bool is_maker_of_rings(void)
{
	return load_relaxed(&kernels.pid) == sys_getpid();
}

/*
 * Called when the kernel has made or refused a ring for this process. If an ancestor
 * recorded the rings, forget them.
 */
static void begin_rings(void)
{
	if (likely(is_maker_of_rings()))
		return;
	store_relaxed(&kernels.nr, 0);
	store_relaxed(&kernels.limit, NULL);
	store_relaxed(&kernels.pid, sys_getpid());
}

const char *uaio_unserved_why(void)
{
	const char *why = load_relaxed(&unserved);

	/*
	 * kernels.why says why the kernel makes the rings. If the kernel has refused a
	 * ring because of a limit, the library has made that ring. So it would be wrong
	 * to say that the program is not served: return NULL. The report then says how
	 * many rings the kernel and the library have made.
	 */
	return why || load_relaxed(&kernels.limit) ? why
						   : load_relaxed(&kernels.why);
}

const char *uaio_unserved_limit(uint64_t *ret_nr)
{
	*ret_nr = load_relaxed(&kernels.nr);
	return is_maker_of_rings() ? load_relaxed(&kernels.limit) : NULL;
}

/*
 * Store the constant text `why` in *reason, unless *reason has a text.
 * Return: whether it was stored.
 */
static bool note_once(const char **reason, const char *why)
{
	const char *none = NULL;

	return cas_relaxed(reason, &none, why);
}

static void say_unserved(const char *why)
{
	bool wants_requests = uaio_config.has_faults || uaio_trace_is_on();
	char line[256];

	/*
	 * With faults or a trace, too, the user waits for something that the library
	 * does only to requests that it serves.
	 */
	if (!uaio_config.says_lost &&
	    (!wants_requests || uaio_config.has_report))
		return;
	(void)snprintf(line, sizeof(line), "uaio: library: not served: %s\n",
		       why);
	uaio_report_say(line);
}

void uaio_report_unserved(const char *why)
{
	if (note_once(&unserved, why))
		say_unserved(why);
}

void uaio_report_kernels_ring(const char *why)
{
	begin_rings();
	(void)add_relaxed(&kernels.nr, 1);
	if (note_once(&kernels.why, why))
		say_unserved(why);
}

void uaio_report_limited_ring(const char *limit)
{
	char line[256];

	begin_rings();
	if (!note_once(&kernels.limit, limit) || !uaio_config.is_verbose)
		return;
	(void)snprintf(line, sizeof(line),
		       "uaio: library: the kernel refuses an io_uring (%s): "
		       "the library makes it; rings of the kernel's so far: "
		       "%" PRIu64 "\n",
		       limit, load_relaxed(&kernels.nr));
	uaio_report_say(line);
}

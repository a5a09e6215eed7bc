/* SPDX-License-Identifier: MIT */
/* Tested by test/run/trace.py. */
#include "options/faults.h"
#include "tool/trace/tracing.h"

bool uaio_sieve_passes(const struct uaio_sieve *sieve,
		       const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;

	if (sieve->ops && (record->op >= 64 || !(sieve->ops >> record->op & 1)))
		return false;
	if (sieve->is_errors_only && record->res >= 0)
		return false;
	if (sieve->slower_ns &&
	    traced->ended_ns - traced->submitted_ns <= sieve->slower_ns)
		return false;
	return !sieve->file || uaio_fault_matches(sieve->file, traced->file);
}

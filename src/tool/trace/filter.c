/* SPDX-License-Identifier: MIT */
/* Tested by test/run/trace.py. */
#include "options/faults.h"
#include "tool/trace/tracing.h"

bool uaio_trace_filter_passes(const struct uaio_trace_filter *filter,
			      const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;

	if (filter->ops &&
	    (record->op >= 64 || !(filter->ops >> record->op & 1)))
		return false;
	if (filter->is_errors_only && record->res >= 0)
		return false;
	if (filter->slower_ns &&
	    traced->ended_ns - traced->submitted_ns <= filter->slower_ns)
		return false;
	return !filter->file || uaio_fault_matches(filter->file, traced->file);
}

/* SPDX-License-Identifier: MIT */
/*
 * The limits of the control groups that this process is in
 *
 * A group is under the limits of all groups above it. Both versions of control
 * groups are read where they are mounted by custom, /sys/fs/cgroup.
 *
 * Tested by test/run/doctor.py.
 */
#ifndef UAIO_TOOL_DOCTOR_CGROUPS_H
#define UAIO_TOOL_DOCTOR_CGROUPS_H

#include <stdbool.h>

/*
 * Of a controller's limit and its use, find the group that has the least left.
 * *ret_max is LLONG_MAX and *ret_current 0 if no group has a limit.
 * Return: whether a file of that name was found.
 */
bool uaio_cgroups_least(const char *controller, const char *max_name,
			const char *current_name, long long *ret_max,
			long long *ret_current);

#endif /* UAIO_TOOL_DOCTOR_CGROUPS_H */

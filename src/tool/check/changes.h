/* SPDX-License-Identifier: MIT */
/*
 * The changes that injected faults have made to requests (issue/fault.h I3), and texts
 * for --fault that repeat some of these changes
 *
 * Tested by test-seeds.c.
 */
#ifndef UAIO_TOOL_CHECK_CHANGES_H
#define UAIO_TOOL_CHECK_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct uaio_change {
	unsigned fault; /* index of the fault in the --fault text, from 0 */
	/* Each fault numbers the requests that it may change, from 1. */
	uint64_t number;
	int pid;
	/* the other fields of `line`; "-": the field is not known */
	const char *kind, *value, *operation, *fd, *path;
	char *line; /* owns: the memory that holds the strings above */
	/*
	 * owns: the call stack of the request's submission, one frame per line; or NULL
	 */
	char *stack;
};

struct uaio_changes {
	size_t nr;
	struct uaio_change *all; /* owns; sorted by fault, number and process */
};

/*
 * Parse one line of a process's file of changes, without its newline, and add the
 * change.
 * Return: 0, -EINVAL or -ENOMEM.
 */
int uaio_changes_add(struct uaio_changes *changes, int pid, const char *line);

/*
 * Read the changes of all processes: each process has a file in the directory. Skips a
 * file's last line if it is incomplete, as a killed process may leave it.
 * Return: 0, or -errno if the directory or a file cannot be read.
 */
int uaio_changes_read(const char *directory, struct uaio_changes *ret);
/* Sort the changes. */
void uaio_changes_sort(struct uaio_changes *changes);
void uaio_changes_free(struct uaio_changes *changes);

/*
 * Several processes may have changed a request with the same number by the same fault.
 * Keep only one of these changes. The changes must be sorted.
 */
void uaio_changes_unite(struct uaio_changes *changes);

/* Write a sentence that describes a change, without the full stop. */
void uaio_change_print(FILE *to, const struct uaio_change *change);

/*
 * Write to *ret the --fault text with this seed in each fault. The caller frees *ret.
 * Return: 0 or -ENOMEM.
 */
int uaio_faults_seeded(const char *text, uint64_t seed, char **ret);

/*
 * Write to *ret a --fault text that repeats only the changes whose indices are in
 * `items`, in rising order. All changes must come from runs with `text` and `seed`, and
 * must be sorted and united. If is_exact is set, the new text names only the request
 * numbers of these changes, and drops the keys `p`, `after`, `every` and `count`.
 * Return: 0, and the caller frees *ret; -ENOMEM; -E2BIG: --fault cannot hold so many
 * numbers and ranges.
 */
int uaio_faults_chosen(const char *text, uint64_t seed,
		       const struct uaio_changes *changes, const size_t *items,
		       size_t nr, bool is_exact, char **ret);

#endif /* UAIO_TOOL_CHECK_CHANGES_H */

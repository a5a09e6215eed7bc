/* SPDX-License-Identifier: MIT */
/*
 * What the library has changed on purpose (issue/fault.h I3), and --fault texts that
 * repeat some of these changes
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
	unsigned fault;  /* index of the fault in the --fault text, from 0 */
	uint64_t number; /* serial number of the fault's request, from 1 */
	int pid;
	/* The rest of the line: kind, value, operation, descriptor, path. */
	const char *kind, *value, *operation, *fd, *path;
	char *line; /* owns the strings above */
	/* owns: the stack of the submission, one frame per line; or NULL */
	char *stack;
};

struct uaio_changes {
	size_t nr;
	struct uaio_change *all; /* owns; sorted by fault, number and process */
};

/* Add the change in a line, without its newline. Return: 0, -EINVAL or -ENOMEM. */
int uaio_changes_add(struct uaio_changes *changes, int pid, const char *line);

/*
 * Read the files of all processes in the directory. Skips incomplete lines, which a
 * killed process may leave. Return: 0 or -errno.
 */
int uaio_changes_read(const char *directory, struct uaio_changes *ret);
/* Sort the changes. */
void uaio_changes_sort(struct uaio_changes *changes);
void uaio_changes_free(struct uaio_changes *changes);

/*
 * If several processes made a change of the same fault and number, keep only one of
 * these changes. The changes are sorted.
 */
void uaio_changes_unite(struct uaio_changes *changes);

/* Write a sentence about a change, without the full stop. */
void uaio_change_print(FILE *to, const struct uaio_change *change);

/*
 * Write to *ret the --fault text with the seed added. The caller frees *ret.
 * Return: 0 or -ENOMEM.
 */
int uaio_faults_seeded(const char *text, uint64_t seed, char **ret);

/*
 * Write to *ret the faults of text with the seed, limited to the changes in `items`
 * (rising indices). The changes are sorted and united. If is_exact, *ret names the
 * numbers of these changes, and has no other condition that chooses among numbers.
 * Return: 0; -ENOMEM; -E2BIG: too many numbers and ranges for --fault. The caller frees
 * *ret.
 */
int uaio_faults_chosen(const char *text, uint64_t seed,
		       const struct uaio_changes *changes, const size_t *items,
		       size_t nr, bool is_exact, char **ret);

#endif /* UAIO_TOOL_CHECK_CHANGES_H */

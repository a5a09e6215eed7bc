/* SPDX-License-Identifier: MIT */
/*
 * What the library has changed on purpose (issue/fault.h I3), and the text of --fault that
 * makes some of it again
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
	unsigned fault;  /* which of the text's, from 0 */
	uint64_t number; /* which of its requests, from 1 */
	int pid;
	/* The rest of the line: kind, value, operation, descriptor, path. */
	const char *kind, *value, *operation, *fd, *path;
	char *line;  /* owns the five */
	char *stack; /* owns: where it was submitted, in lines; or NULL */
};

struct uaio_changes {
	size_t nr;
	struct uaio_change *all; /* owns; by fault, number and process */
};

/* Add those of a line, without its newline. Return: 0, -EINVAL or -ENOMEM. */
int uaio_changes_add(struct uaio_changes *changes, int pid, const char *line);

/*
 * Read the files of all processes in the directory. Lines that are none, as of a process
 * that was killed, are left out.
 * Return: 0 or -errno.
 */
int uaio_changes_read(const char *directory, struct uaio_changes *ret);
/* Order them. */
void uaio_changes_sort(struct uaio_changes *changes);
void uaio_changes_free(struct uaio_changes *changes);

/* Leave one process's change of each fault and number. Context: they are in order. */
void uaio_changes_unite(struct uaio_changes *changes);

/* Write a sentence of a change, without an end. */
void uaio_change_print(FILE *to, const struct uaio_change *change);

/*
 * Write into *ret the faults of text, each with the seed.
 * Return: 0 or -ENOMEM; the caller frees *ret.
 */
int uaio_faults_seeded(const char *text, uint64_t seed, char **ret);

/*
 * The same, so that of the changes, which are in order and one of each fault and number,
 * only those in items (rising indices) are made. If is_exact, the text names their numbers
 * and has no other conditions that choose among numbers.
 * Return: 0; -ENOMEM; -E2BIG if there are too many numbers and ranges for --fault.
 */
int uaio_faults_chosen(const char *text, uint64_t seed,
		       const struct uaio_changes *changes, const size_t *items,
		       size_t nr, bool is_exact, char **ret);

#endif /* UAIO_TOOL_CHECK_CHANGES_H */

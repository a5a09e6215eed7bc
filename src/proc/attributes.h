/* SPDX-License-Identifier: MIT */
/*
 * What of a thread's identity can be asked of the kernel, and compared
 *
 * Tested by test-identity.c.
 */
#ifndef UAIO_PROC_ATTRIBUTES_H
#define UAIO_PROC_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	/* A thread that has more supplementary groups is not compared. */
	UAIO_GROUPS_MAX = 64,
};

struct uaio_attributes {
	uid_t uids[4]; /* real, effective, saved, of the file system */
	gid_t gids[4];
	/* effective, permitted and inheritable ones; those of 32 and more follow */
	uint32_t caps[6];
	/* securebits are not asked for: a change of them makes a domain */
	int32_t ioprio;
	uint32_t nr_groups;
	gid_t groups[UAIO_GROUPS_MAX]; /* the first nr_groups, in their order */
};

/*
 * Ask for those of the calling thread.
 * Return: false if one of them is refused or too long: then nothing can be compared.
 */
bool uaio_attributes_ask(struct uaio_attributes *ret);

bool uaio_attributes_are_equal(const struct uaio_attributes *a,
			       const struct uaio_attributes *b);

/* Return: whether a thread that has these may have others later. */
bool uaio_attributes_may_change(const struct uaio_attributes *attributes);

/* Return: whether they give all rights on files. */
bool uaio_attributes_have_all(const struct uaio_attributes *attributes);

/*
 * Return: whether a call on files that a thread with a makes has no right which it would
 * not have with b: the ids of the file system and the groups are the same, and a has no
 * effective capability that b does not have.
 */
bool uaio_attributes_are_within(const struct uaio_attributes *a,
				const struct uaio_attributes *b);

/*
 * Take, for the calling thread, the ids of the file system, the supplementary groups and
 * the effective capabilities, as far as the thread may. The caller asks what came of it.
 */
void uaio_attributes_take(const struct uaio_attributes *wanted);

#endif /* UAIO_PROC_ATTRIBUTES_H */

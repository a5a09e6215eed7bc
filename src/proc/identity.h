/* SPDX-License-Identifier: MIT */
/*
 * Identities: as whom a thread makes its system calls
 *
 * The kernel makes a request with what belongs to the thread that submits it:
 * user and group ids, supplementary groups, capabilities, securebits, the domain of
 * a security module, keyrings, the I/O priority, and the root, working directory,
 * umask and mount namespace of its fs_struct. Threads that have the same of all of
 * these share an identity, which is a number; the process's is 0. A thread inherits
 * the identity of its creator (uaio_thread_start(), and pthread_create() and
 * thrd_create() of the program).
 *
 *   I1  A change is noted before the thread can submit a request: the functions and
 *       system calls that change an identity are interposed (host/identity.c).
 *   I2  After each change the library queries the thread's attributes: ids, groups,
 *       capabilities, I/O priority. A thread that changes back has its former number
 *       again. What cannot be queried makes a new domain, which no other thread joins.
 *   I3  A number is never used for another identity.
 *   I4  Functions of the C library that change all threads (setuid() and its like) leave
 *       each thread its number; the attributes of all numbers are forgotten.
 *
 * Identities are unproved if the program's own instructions may change them. Then the
 * library compares the attributes of a thread whenever a request leaves that thread.
 *
 * Tested by test-identity.c and test/identity/identity.c.
 */
#ifndef UAIO_PROC_IDENTITY_H
#define UAIO_PROC_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomic.h"
#include "base/check.h"
#include "proc/entry.h"

enum { UAIO_IDENTITY_OF_PROCESS = 0 };

enum {
	UAIO_IDENTITIES_MANY = 1,     /* threads may have different ones */
	UAIO_IDENTITIES_UNPROVED = 2, /* they may change unnoticed */
};

/* atomic: the bits above */
extern uint32_t uaio_identities __attribute__((visibility("hidden")));

/* Return: whether threads may have different identities. It costs one load. */
static inline bool uaio_identities_are_many(void)
{
	/* relaxed: a thread that submits has changed, or inherited, by itself */
	return load_relaxed(&uaio_identities);
}

/* Return: the identity of the calling thread, as far as is known. */
static inline uint32_t uaio_identity_mine(void)
{
	return uaio_entry.identity;
}

/* Return: the domain of the calling thread's identity. */
static inline uint32_t uaio_identity_domain(void)
{
	return uaio_entry.domain;
}

/*
 * The calling thread is about to change, so that identities may differ from now on.
 * Return: whether they could not before; then it has the process's identity.
 */
bool uaio_identities_become_many(void);

/* The program may change its identity by instructions of its own. Any thread. */
void uaio_identities_become_unproved(void);

/*
 * Called before the first request, and when code may have been loaded: ask by may_change
 * whether an instruction of the program's own may change ids, groups or capabilities,
 * unless this thread has none that it could change. Context: inside, by a thread that
 * may take the loader's lock; no lock is held.
 */
void uaio_identities_prove(void);

/*
 * Called in a child of fork(): another thread of the parent may have held the lock. The
 * thread keeps its number.
 */
void uaio_identities_forget(void);

/*
 * Set when the library is loaded, for the above; or NULL: nothing is asked.
 * is_beside_lost_threads: the process is a child of fork(), and its parent had other
 * threads. One of them may have held the loader's lock, which nobody releases in the child.
 */
extern bool (*uaio_identity_may_change)(bool is_beside_lost_threads)
	__attribute__((visibility("hidden")));

/* What a call has changed of the calling thread, or of all. */
enum uaio_identity_change {
	UAIO_CHANGED_ATTRIBUTES,
	UAIO_CHANGED_DOMAIN,
	UAIO_CHANGED_PROCESS,
};

/*
 * Called after a call that may have changed the identity of the calling thread, or of
 * all, whatever the call returned. Context: any thread of the program.
 */
void uaio_identity_changed(enum uaio_identity_change change);

/*
 * Identities may differ: compare the attributes of the calling thread, and note the
 * change if they differ; if identities are proved, only once, for a thread that the C
 * library may have created by itself. Context: inside; no lock is held.
 */
void uaio_identity_check(void);

/*
 * For who creates a thread: how a function of the client's is started in a thread that
 * inherits the calling thread's identity. Return: main and *arg as they were, if there
 * is nothing to inherit; NULL if memory is refused.
 */
typedef void *uaio_thread_main_fn(void *arg);
uaio_thread_main_fn *uaio_identity_inherit(uaio_thread_main_fn *main,
					   void **arg);
/* The thread was not created: free what the above has made of arg. */
void uaio_identity_disinherit(uaio_thread_main_fn *main, void *arg);

/* attributes.c: what of an identity can be asked of the kernel, and compared */

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

#endif /* UAIO_PROC_IDENTITY_H */

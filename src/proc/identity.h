/* SPDX-License-Identifier: MIT */
/*
 * Identities: the credentials and namespaces with which a thread makes system calls
 *
 * The kernel executes a request with attributes of the submitting thread: user and
 * group ids, supplementary groups, capabilities, securebits, security module domain,
 * seccomp filters, keyrings, I/O priority, and the root, working directory, umask and
 * mount namespace of its fs_struct. Threads with equal attributes share an identity,
 * which is a number. The identity of the process is 0. A thread inherits its creator's
 * identity (uaio_thread_start(), and the program's pthread_create() and thrd_create()).
 *
 *   I1  The library notices a change before the thread can submit a request: the
 *       functions and system calls that change an identity are interposed
 *       (host/identity.c).
 *   I2  After each change the library queries the thread's attributes: ids, groups,
 *       capabilities, I/O priority. A thread that changes back gets its former number
 *       again. If an attribute changes that cannot be queried, the thread gets a new
 *       domain. A domain is a part of the identity. The thread passes it on only to
 *       threads that it creates later.
 *   I3  A number is never reused for another identity.
 *   I4  If a function of the C library changes all threads, such as setuid(), all
 *       threads keep their numbers. The library forgets the attributes that it recorded
 *       for these numbers. Then it records the new attributes of the thread that made
 *       the call: new threads with equal attributes share that thread's number.
 *
 * Identities are unproved if the program may change them by its own syscall
 * instructions, which the library does not see. If they are unproved, the library
 * queries and compares a thread's attributes whenever another thread is to execute the
 * thread's request.
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
	/* threads may have different identities */
	UAIO_IDENTITIES_MANY = 1,
	/* identities may change without the library's notice */
	UAIO_IDENTITIES_UNPROVED = 2,
};

/* atomic: bits of the enum above */
extern uint32_t uaio_identities __attribute__((visibility("hidden")));

/* Return: whether threads may have different identities; takes one load. */
static inline bool uaio_identities_are_many(void)
{
	/*
	 * relaxed: if this thread has changed its identity, it has set the flag itself;
	 * if it has inherited an identity, its creator saw the flag
	 */
	return load_relaxed(&uaio_identities);
}

/* Return: the last known identity of the calling thread. */
static inline uint32_t uaio_identity_mine(void)
{
	return uaio_entry.identity;
}

/* Return: the domain (I2) of the calling thread's identity. */
static inline uint32_t uaio_identity_domain(void)
{
	return uaio_entry.domain;
}

/*
 * Called before the calling thread changes its identity: from now on threads may have
 * different identities.
 * Return: whether all threads had one identity until now. If so, this thread has the
 * process's identity.
 */
bool uaio_identities_become_many(void);

/*
 * Record that the program may change identities by its own syscall instructions.
 * Context: any thread.
 */
void uaio_identities_become_unproved(void);

/*
 * Called before the first request, and when code may have been loaded. If this thread
 * has a right to change ids, groups or capabilities, find out whether the program's own
 * syscall instructions may do so (uaio_identity_may_change()). Context: inside the
 * library; the thread may acquire the loader's lock; no lock is held.
 */
void uaio_identities_prove(void);

/*
 * Called in a child of fork(): free the lock, which a thread of the parent may have
 * held. The calling thread keeps its identity.
 */
void uaio_identities_forget(void);

/*
 * Called later in this child: record the attributes of the calling thread's identity, so
 * that new threads are found to share it. Context: identities may differ; no lock is
 * held.
 */
void uaio_identity_note(void);

/*
 * Return: whether the program's own syscall instructions may change identities. The
 * pointer is set when the library is loaded; if it is NULL, these instructions never
 * change identities. is_beside_lost_threads: the process is a child of fork() whose
 * parent had other threads. One of those threads may have held the loader's lock, which
 * no thread releases in the child.
 */
extern bool (*uaio_identity_may_change)(bool is_beside_lost_threads)
	__attribute__((visibility("hidden")));

/*
 * What a call has changed: attributes of the calling thread, its domain (I2), or
 * attributes of all threads.
 */
enum uaio_identity_change {
	UAIO_CHANGED_ATTRIBUTES,
	UAIO_CHANGED_DOMAIN,
	UAIO_CHANGED_PROCESS,
};

/*
 * Called after a call that may have changed the identity of the calling thread or of all
 * threads, whether the call succeeded or not. Before a change of all threads the caller
 * has called uaio_identity_check(): the thread then has the identity of its attributes.
 * Context: any thread of the program.
 */
void uaio_identity_changed(enum uaio_identity_change change);

/*
 * Compare the calling thread's attributes with those recorded for its identity. If they
 * differ, give the thread another identity. Unless identities are unproved, a thread is
 * checked only once, and only if the C library may have created it by itself.
 * Context: identities may differ; inside the library; no lock is held.
 */
void uaio_identity_check(void);

/*
 * Wrap main and *arg for a new thread, so that it inherits the calling thread's identity.
 * Return: the function to start with *arg; main itself if there is nothing to inherit;
 * NULL if there is no memory.
 */
typedef void *uaio_thread_main_fn(void *arg);
uaio_thread_main_fn *uaio_identity_inherit(uaio_thread_main_fn *main,
					   void **arg);
/* Free what uaio_identity_inherit() has allocated, if the thread was not created. */
void uaio_identity_disinherit(uaio_thread_main_fn *main, void *arg);

/* attributes.c: the attributes of an identity that can be queried and compared */

/* how many supplementary groups struct uaio_attributes contains itself */
enum { UAIO_GROUPS_MAX = 64 };

struct uaio_attributes {
	/* real, effective, saved and file system id */
	uid_t uids[4];
	gid_t gids[4];
	/*
	 * three words for capabilities 0 to 31: effective, permitted, inheritable; then
	 * the same three words for capabilities from 32 on
	 */
	uint32_t caps[6];
	/*
	 * securebits are no member: a thread that changes securebits gets a new domain
	 * (I2)
	 */
	int32_t ioprio;
	uint32_t nr_groups;
	/* only the first nr_groups are used */
	gid_t groups[UAIO_GROUPS_MAX];
	/*
	 * borrows: more than UAIO_GROUPS_MAX groups, while nr_groups is 0; or NULL. Equal
	 * lists are one object, which is never freed.
	 */
	const struct uaio_groups *many_groups;
};

/*
 * Query the attributes of the calling thread.
 * Return: false if a query fails, or the groups cannot be kept: then attributes cannot
 * be compared.
 */
bool uaio_attributes_ask(struct uaio_attributes *ret);

/*
 * Called in a child of fork(): free the lock, which a thread of the parent may have
 * held.
 */
void uaio_attributes_forget(void);

bool uaio_attributes_are_equal(const struct uaio_attributes *a,
			       const struct uaio_attributes *b);

/* Return: whether a thread with these attributes is able to change them. */
bool uaio_attributes_may_change(const struct uaio_attributes *attributes);

/* Return: whether the attributes give all rights on files. */
bool uaio_attributes_have_all(const struct uaio_attributes *attributes);

/*
 * Return: whether a call on files has no more rights with *a than with *b. The file
 * system ids and the groups must be equal, and *a must have no effective capability
 * that *b lacks.
 */
bool uaio_attributes_are_within(const struct uaio_attributes *a,
				const struct uaio_attributes *b);

/*
 * Set the calling thread's file system ids, supplementary groups and effective
 * capabilities as far as the thread may set them. The caller must query the result.
 */
void uaio_attributes_take(const struct uaio_attributes *wanted);

#endif /* UAIO_PROC_IDENTITY_H */

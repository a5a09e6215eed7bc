/* SPDX-License-Identifier: MIT */
/*
 * Functions that change the identity of threads: credentials, namespaces and so on
 *
 * Each function here makes the system call, then records the change (proc/identity.h).
 * The C library's setuid() and similar functions change all threads of the process,
 * including the library's. The system call setuid, made by syscall(2), changes the
 * calling thread only.
 *
 * Tested by test/identity/identity.c.
 */
#include "host/host.h"

#include <errno.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/newer.h"
#include "base/symver.h"
#include "base/sys.h"
#include "base/threads.h"
#include "proc/entry.h"
#include "proc/former.h"
#include "proc/handlers.h"
#include "proc/identity.h"
#include "proc/process.h"
#include "wq/wq.h"
#include "patch/patch.h"
#include "patch/scan.h"

enum {
	NR_LANDLOCK_RESTRICT_SELF = 446,
	NR_LSM_SET_SELF_ATTR = 460,
	IOPRIO_WHO_THREAD = 1,
	/*
	 * Values from <threads.h>. Tests would include test/unit/threads.h instead of
	 * this header.
	 */
	THRD_SUCCESS = 0,
	THRD_NOMEM = 3,
};

typedef int thrd_main_fn(void *arg);

/*
 * The next definitions of these functions, usually the C library's; each is NULL until
 * it is first needed.
 */
static struct {
	int (*setuid)(uid_t);
	int (*setgid)(gid_t);
	int (*seteuid)(uid_t);
	int (*setegid)(gid_t);
	int (*setreuid)(uid_t, uid_t);
	int (*setregid)(gid_t, gid_t);
	int (*setresuid)(uid_t, uid_t, uid_t);
	int (*setresgid)(gid_t, gid_t, gid_t);
	int (*setgroups)(size_t, const gid_t *);
	int (*initgroups)(const char *, gid_t);
	int (*pthread_create)(pthread_t *, const pthread_attr_t *,
			      void *(*)(void *), void *);
	int (*thrd_create)(pthread_t *, thrd_main_fn *, void *);
} next;

/*
 * Used like a value of enum uaio_identity_change; says that the call changes no
 * identity.
 */
enum { NOTHING = UAIO_HOST_NO_CHANGE };

/* System calls that change attributes of an identity (UAIO_CHANGED_ATTRIBUTES). */
static const struct uaio_numbers changing[] = {
	{ SYS_setuid, SYS_setuid },       { SYS_setgid, SYS_setgid },
	{ SYS_setreuid, SYS_setreuid },   { SYS_setregid, SYS_setregid },
	{ SYS_setresuid, SYS_setresuid }, { SYS_setresgid, SYS_setresgid },
	{ SYS_setgroups, SYS_setgroups }, { SYS_setfsuid, SYS_setfsuid },
	{ SYS_setfsgid, SYS_setfsgid },   { SYS_capset, SYS_capset },
};
enum { NR_CHANGING = sizeof(changing) / sizeof(changing[0]) };

/*
 * Return: whether code in the process may make the system calls in `changing` by its
 * own instructions, so that the library would not notice.
 *
 * is_beside_lost_threads: a process with several threads has forked this process. One of
 * the threads that the child lacks may have held the dynamic loader's lock. The lock is
 * free for certain once the child has loaded or unloaded an object
 * (uaio_patch_has_loaded()). Until then this thread must not acquire the lock. The
 * function reads the list of loaded objects without the lock if the process has a single
 * thread and the library counts loads (uaio_patch_loads()). If either is not so, the
 * function returns true. Once it has returned false, it reads the list again only after
 * objects were loaded or unloaded.
 */
static bool may_change_unseen(bool is_beside_lost_threads)
{
	/*
	 * atomic: the count of changes to the loaded objects (uaio_patch_loads()) when
	 * this function last returned false
	 */
	static uint32_t proved_at;
	const uint32_t loads = uaio_patch_loads();
	bool may_change;

	/*
	 * relaxed, for the load and the store of proved_at: no other data depends on it
	 */
	if (!is_beside_lost_threads || uaio_patch_has_loaded())
		may_change = uaio_patch_may_call(changing, NR_CHANGING);
	else if (!loads)
		may_change = true;
	else if (load_relaxed(&proved_at) == loads)
		may_change = false;
	else
		may_change = !uaio_has_threads(1) ||
			     uaio_patch_may_call_alone(uaio_patch_debug(),
						       changing, NR_CHANGING);
	if (!may_change)
		store_relaxed(&proved_at, loads);
	return may_change;
}

void uaio_host_load_identity(void)
{
	uaio_identity_may_change = may_change_unseen;
}

/*
 * Create the manager thread of crew 0 (the first group of workers) now, while this
 * thread has the process's identity. The manager inherits the identity of the thread
 * that creates it, and a later creator could have another identity.
 */
static void hold(void)
{
	if (!uaio_engine_is_ours() || !uaio_enter())
		return;
	if (uaio_identity_mine() == UAIO_IDENTITY_OF_PROCESS)
		uaio_wq_hold();
	uaio_leave();
}

void uaio_host_prove_identity(void)
{
	bool were_many = uaio_identities_are_many();

	/*
	 * If the library is not started, do nothing: its start calls
	 * uaio_identities_prove(), too.
	 */
	if (!uaio_engine_is_up() || !uaio_enter())
		return;
	uaio_identities_prove();
	uaio_leave();
	if (!were_many && uaio_identities_are_many())
		hold();
}

/*
 * Return: whether the caller has to record the change of identity after the system
 * call.
 */
static bool begin(int change)
{
	/*
	 * Record no change in a child of vfork(): it uses its parent's memory, but has
	 * an identity of its own.
	 */
	if (change == NOTHING || !uaio_engine_is_owner())
		return false;
	if (change == UAIO_CHANGED_PROCESS)
		return uaio_identities_are_many();
	if (uaio_identities_become_many())
		hold();
	return true;
}

long uaio_host_raw_changing(long nr, const long a[6], int change)
{
	bool tells = begin(change);
	long ret = nr == SYS_unshare
			   ? uaio_host_raw_unshare((int)a[0])
			   : uaio_sys6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);

	if (tells)
		uaio_identity_changed((enum uaio_identity_change)change);
	return ret;
}

/*
 * Return: what this keyctl() changes, a value of enum uaio_identity_change; or NOTHING.
 */
static int change_of_keyctl(const long a[6])
{
	switch (a[0]) {
	case KEYCTL_JOIN_SESSION_KEYRING:
	case KEYCTL_SET_REQKEY_KEYRING:
	case KEYCTL_ASSUME_AUTHORITY: return UAIO_CHANGED_DOMAIN;
	case KEYCTL_GET_KEYRING_ID:
		return a[2] ? (int)UAIO_CHANGED_DOMAIN : NOTHING;
	default: return NOTHING;
	}
}

/*
 * A call that names the thread's own keyring counts as a change, as the kernel may then
 * create this keyring.
 */
static int change_of_key(long keyring)
{
	return keyring == KEY_SPEC_THREAD_KEYRING ? (int)UAIO_CHANGED_DOMAIN
						  : NOTHING;
}

static int change_of_unshare(long flags)
{
	return flags & ~(CLONE_FILES | CLONE_SYSVSEM | (long)CLONE_NEWPID)
		       ? (int)UAIO_CHANGED_DOMAIN
		       : NOTHING;
}

static int change_of_ioprio(const long a[6])
{
	return a[0] == IOPRIO_WHO_THREAD && (!a[1] || a[1] == sys_gettid())
		       ? (int)UAIO_CHANGED_ATTRIBUTES
		       : NOTHING;
}

/*
 * Return: whether this is the only thread of the process. If the program has installed a
 * filter, ask the C library: the filter may kill the process if it asks the kernel.
 */
static bool is_only_thread(void)
{
	if (uaio_host_has_filter())
		return &__libc_single_threaded && __libc_single_threaded;
	return uaio_has_threads(1);
}

/*
 * A seccomp filter refuses system calls of its thread, and of threads that this thread
 * creates later. If the process has only this thread, the filter is the process's. The
 * filter of a child of vfork() does not concern the library.
 */
static int change_of_filter(long mode, long flags, long program)
{
	bool is_filter = mode == SECCOMP_MODE_FILTER && program &&
			 !(flags & SECCOMP_FILTER_FLAG_TSYNC);

	return (is_filter || mode == SECCOMP_MODE_STRICT) &&
			       uaio_engine_is_owner() && !is_only_thread()
		       ? (int)UAIO_CHANGED_DOMAIN
		       : NOTHING;
}

static int change_of_prctl(const long a[6])
{
	switch (a[0]) {
	case PR_SET_SECUREBITS: return UAIO_CHANGED_DOMAIN;
	case PR_SET_SECCOMP: return change_of_filter(a[1], 0, a[2]);
	default: return NOTHING;
	}
}

static int change_of_seccomp(const long a[6])
{
	switch (a[0]) {
	case SECCOMP_SET_MODE_FILTER:
		return change_of_filter(SECCOMP_MODE_FILTER, a[1], a[2]);
	case SECCOMP_SET_MODE_STRICT:
		return change_of_filter(SECCOMP_MODE_STRICT, 0, 0);
	default: return NOTHING;
	}
}

int uaio_host_change_of(long nr, const long a[6])
{
	switch (nr) {
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setgroups:
	case SYS_setfsuid:
	case SYS_setfsgid:
	case SYS_capset: return UAIO_CHANGED_ATTRIBUTES;
	case SYS_ioprio_set: return change_of_ioprio(a);
	case SYS_keyctl: return change_of_keyctl(a);
	case SYS_add_key: return change_of_key(a[4]);
	case SYS_request_key: return change_of_key(a[3]);
	case SYS_unshare: return change_of_unshare(a[0]);
	case SYS_prctl: return change_of_prctl(a);
	case SYS_seccomp: return change_of_seccomp(a);
	case SYS_setns:
	case NR_LANDLOCK_RESTRICT_SELF:
	case NR_LSM_SET_SELF_ATTR: return UAIO_CHANGED_DOMAIN;
	default: return NOTHING;
	}
}

bool uaio_host_changes_identity(long nr, const long a[6])
{
	return uaio_host_change_of(nr, a) != NOTHING;
}

long uaio_host_raw_identity(long nr, const long a[6])
{
	return uaio_host_raw_changing(nr, a, uaio_host_change_of(nr, a));
}

/* Functions that change the calling thread only */

UAIO_EXPORT int setfsuid(uid_t id);
UAIO_EXPORT int setfsgid(gid_t id);
UAIO_EXPORT int capset(void *header, const void *data);
UAIO_EXPORT int setns(int fd, int type);
UAIO_EXPORT int unshare(int flags);

int setfsuid(uid_t id)
{
	return (int)uaio_host_error(uaio_host_raw_identity(
		SYS_setfsuid, (const long[6]){ (long)id }));
}

int setfsgid(gid_t id)
{
	return (int)uaio_host_error(uaio_host_raw_identity(
		SYS_setfsgid, (const long[6]){ (long)id }));
}

int capset(void *header, const void *data)
{
	return (int)uaio_host_error(uaio_host_raw_identity(
		SYS_capset, (const long[6]){ (long)header, (long)data }));
}

int setns(int fd, int type)
{
	return (int)uaio_host_error(
		uaio_host_raw_identity(SYS_setns, (const long[6]){ fd, type }));
}

int unshare(int flags)
{
	const long a[6] = { flags };

	return (int)uaio_host_error(
		uaio_host_changes_identity(SYS_unshare, a)
			? uaio_host_raw_identity(SYS_unshare, a)
			: uaio_host_raw_unshare(flags));
}

/* Functions that change all threads of the process */

UAIO_EXPORT int setuid(uid_t id);
UAIO_EXPORT int setgid(gid_t id);
UAIO_EXPORT int seteuid(uid_t id);
UAIO_EXPORT int setegid(gid_t id);
UAIO_EXPORT int setreuid(uid_t real, uid_t effective);
UAIO_EXPORT int setregid(gid_t real, gid_t effective);
UAIO_EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved);
UAIO_EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved);
UAIO_EXPORT int setgroups(size_t nr, const gid_t *ids);
UAIO_EXPORT int initgroups(const char *user, gid_t group);

/*
 * A change of the credentials of all threads. Queued requests keep the ids with which
 * they were submitted (proc/former.h). Workers wait until the change ends. A signal
 * handler could leave the C library's function by siglongjmp() before the change ends,
 * so signals are blocked during the change.
 */
struct change_of_all {
	bool tells, is_of_process, is_begun;
	uint64_t mask; /* if is_begun */
	struct uaio_former_change former;
};

/*
 * Return: 0; -EAGAIN if the change must not be made, because a system call that uses
 * the former ids does not end.
 */
static int begin_all(struct change_of_all *change)
{
	const uint64_t deferred = uaio_handlers_deferrable();
	int ret;

	change->tells = begin(UAIO_CHANGED_PROCESS);
	change->is_begun = uaio_engine_is_owner() && uaio_engine_is_up();
	if (!change->is_begun) {
		if (change->tells && uaio_enter()) {
			uaio_identity_check();
			uaio_leave();
		}
		return 0;
	}
	(void)sys_sigmask(SIG_BLOCK, &deferred, &change->mask);
	change->is_begun = uaio_enter();
	if (!change->is_begun) {
		(void)sys_sigmask(SIG_SETMASK, &change->mask, NULL);
		return 0;
	}
	uaio_wq_ids_begin();
	/* Compare now, while no other thread changes the recorded attributes. */
	if (change->tells)
		uaio_identity_check();
	change->is_of_process =
		uaio_identity_mine() == UAIO_IDENTITY_OF_PROCESS;
	ret = uaio_former_change_begin(change->is_of_process, &change->former);
	if (ret < 0)
		uaio_wq_ids_end();
	uaio_leave();
	if (ret < 0)
		(void)sys_sigmask(SIG_SETMASK, &change->mask, NULL);
	return ret;
}

static int end_all(struct change_of_all *change, int ret)
{
	/*
	 * Record the new attributes now: another change of all threads may begin after
	 * uaio_wq_ids_end().
	 */
	if (change->tells)
		uaio_identity_changed(UAIO_CHANGED_PROCESS);
	if (change->is_begun) {
		bool enters = uaio_enter();

		uaio_former_change_end(change->is_of_process, ret == 0,
				       &change->former);
		uaio_wq_ids_end();
		if (enters)
			uaio_leave();
		(void)sys_sigmask(SIG_SETMASK, &change->mask, NULL);
	}
	return ret;
}

#define CHANGE_ALL(function, ...)                                           \
	do {                                                                \
		struct change_of_all change;                                \
		int ret = begin_all(&change);                               \
                                                                            \
		return ret < 0 ? (int)uaio_host_error(ret)                  \
			       : end_all(&change, UAIO_HOST_NEXT(function)( \
							  __VA_ARGS__));    \
	} while (0)

int setuid(uid_t id)
{
	CHANGE_ALL(setuid, id);
}

int setgid(gid_t id)
{
	CHANGE_ALL(setgid, id);
}

int seteuid(uid_t id)
{
	CHANGE_ALL(seteuid, id);
}

int setegid(gid_t id)
{
	CHANGE_ALL(setegid, id);
}

int setreuid(uid_t real, uid_t effective)
{
	CHANGE_ALL(setreuid, real, effective);
}

int setregid(gid_t real, gid_t effective)
{
	CHANGE_ALL(setregid, real, effective);
}

int setresuid(uid_t real, uid_t effective, uid_t saved)
{
	CHANGE_ALL(setresuid, real, effective, saved);
}

int setresgid(gid_t real, gid_t effective, gid_t saved)
{
	CHANGE_ALL(setresgid, real, effective, saved);
}

int setgroups(size_t nr, const gid_t *ids)
{
	CHANGE_ALL(setgroups, nr, ids);
}

int initgroups(const char *user, gid_t group)
{
	CHANGE_ALL(initgroups, user, group);
}

/*
 * A new thread inherits the identity of its creator: pthread_create() and thrd_create()
 * record this. A sanitizer interposes both functions itself. So with a sanitizer this
 * file does not define them; instead, uaio_identity_check() compares a thread's
 * attributes with the recorded ones.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

UAIO_EXPORT int pthread_create(pthread_t *ret_thread,
			       const pthread_attr_t *attr,
			       void *(*main)(void *), void *arg);
UAIO_EXPORT int thrd_create(pthread_t *ret_thread, thrd_main_fn *main,
			    void *arg);

int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr,
		   void *(*main)(void *), void *arg)
{
	uaio_thread_main_fn *first = uaio_identity_inherit(main, &arg);
	int ret;

	if (unlikely(!first))
		return EAGAIN;
	ret = UAIO_HOST_NEXT(pthread_create)(ret_thread, attr, first, arg);
	if (unlikely(ret))
		uaio_identity_disinherit(first, arg);
	return ret;
}

/*
 * The start functions of thrd_create() and pthread_create() return different types, but
 * in the same register. So uaio_identity_inherit() can start both kinds.
 */
int thrd_create(pthread_t *ret_thread, thrd_main_fn *main, void *arg)
{
	uaio_thread_main_fn *first = uaio_identity_inherit(
		(uaio_thread_main_fn *)(void *)main, &arg);
	int ret;

	if (unlikely(!first))
		return THRD_NOMEM;
	ret = UAIO_HOST_NEXT(thrd_create)(ret_thread,
					  (thrd_main_fn *)(void *)first, arg);
	if (unlikely(ret != THRD_SUCCESS))
		uaio_identity_disinherit(first, arg);
	return ret;
}
#endif

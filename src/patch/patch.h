/* SPDX-License-Identifier: MIT */
/*
 * Calls of io_uring by a program's own instruction come to us
 *
 * A program may have liburing linked into it, or make the calls by itself. Each
 * place at which it does, in any loaded object, is changed (find.h): its first
 * instructions, mostly the mov of the call's number, become a jump to a trampoline
 * nearby, which executes the instructions up to the system call, calls us, and goes on
 * behind it. The rest of the place stays: a jump into it makes the system call.
 *
 *   I1  What was objects when the library was loaded is changed then. Objects
 *       that are loaded later are changed before their constructors run: the
 *       loader calls an empty function for debuggers when it has mapped
 *       something (_dl_debug_state), and that function is changed as well.
 *   I2  Code that other threads may execute is written by one store of the
 *       aligned eight bytes around it, or not at all: that is code of objects
 *       that were there before us, if the process has threads already; and only one
 *       instruction of it, as a thread may be between two. In an object that is being
 *       loaded nothing has been executed.
 *   I3  Code stays executable while it is written. Where memory must not be
 *       written and executed, nothing is changed.
 *   I4  Our own code is not changed.
 *
 * On aarch64 the system call itself becomes a branch, and the trampoline makes the calls
 * with other numbers. There a thread may execute what is written; but the loader's
 * function is written only if the process has no other thread. Where objects that are
 * loaded later are not seen, uaio_patch_has_left() looks at them. Objects in other
 * namespaces (dlmopen) are not seen.
 *
 * Tested by test-patch.c, test-patch-arm.c and test/uring/uring.py.
 */
#ifndef UAIO_PATCH_PATCH_H
#define UAIO_PATCH_PATCH_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uaio_patch_ops {
	/* A call of io_uring: as the system call. */
	long (*call)(long nr, const long args[6]);
	/*
	 * An object has places: so many were changed, and so many were not.
	 * name: its path, or the empty string for the program.
	 */
	void (*report)(const char *name, size_t nr, size_t nr_left);
};

/* Called once, when the library is loaded. ops stays where it is. */
void uaio_patch_load(const struct uaio_patch_ops *ops);

/* Return: the loader's structure for debuggers; NULL before that, or if there is none. */
const struct r_debug *uaio_patch_debug(void);

/*
 * Return: a number that changes whenever the loader has mapped or unmapped objects; 0 if
 * the loader does not call us then (I1).
 */
uint32_t uaio_patch_loads(void);

/* Return: whether the last such change was made in this process, not before a fork(). */
bool uaio_patch_has_loaded(void);

/*
 * Return: whether the object that addr is in calls io_uring_enter by an instruction that
 * was not changed, or may do so. Its code is looked at, unless all that there was has
 * been changed.
 */
bool uaio_patch_has_left(const void *addr);

/*
 * As what trampolines call, for others that keep every register: uaio_patch_entry_other
 * (entry.S) calls uaio_patch_other. uaio_patch_save_load(): before the first call.
 */
extern long (*uaio_patch_other)(int nr, const long args[6])
	__attribute__((visibility("hidden")));
void uaio_patch_save_load(void);

#endif /* UAIO_PATCH_PATCH_H */

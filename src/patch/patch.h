/* SPDX-License-Identifier: MIT */
/*
 * Patches io_uring system calls that a program makes by its own instructions
 *
 * A program may have liburing linked statically, or make io_uring system calls by its
 * own code. The library patches each such call site in every loaded object (find.h).
 * The first instructions of the site, mostly the mov of the system call's number,
 * become a jump to a trampoline nearby. The trampoline executes the instructions of the
 * site that come before the `syscall`, calls the library, and jumps to the instruction
 * after the `syscall`. The other bytes of the site are not changed: code that jumps to
 * these bytes still makes the system call.
 *
 *   I1  When the library is loaded, it patches the objects that are already loaded. Later
 *       objects are patched before their constructors run: when the dynamic loader has
 *       mapped an object, it calls an empty function for debuggers (_dl_debug_state). The
 *       library patches that function as well.
 *   I2  If other threads may execute some code, the library replaces this code by one
 *       store of an aligned eight-byte word, or not at all. Other threads may execute
 *       an object's code if the object was loaded before the library, and the process
 *       already has other threads. In such code the library replaces only one
 *       instruction, as a thread may be between two instructions. No thread executes
 *       the code of an object that is just being loaded.
 *   I3  Code stays executable while it is written. If the system forbids memory that is
 *       both writable and executable, nothing is patched.
 *   I4  The library's own code is not patched.
 *
 * On aarch64 the `svc` itself becomes a branch. If the system call is not one of
 * io_uring, the trampoline makes the call. The library may write a branch over an `svc`
 * while another thread executes the `svc`. The architecture does not allow this for a
 * `ret`. So the library patches the loader's function (I1) only if the process has no
 * other thread.
 *
 * If the loader's function is not patched, uaio_patch_has_left() inspects objects that
 * were loaded later. Objects in other link namespaces (dlmopen) are never patched.
 *
 * Thread-safety: any thread may call; the loader's lock (dl_iterate_phdr) protects the
 * state.
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
	/*
	 * Execute a system call of io_uring for a patched site.
	 * Return: the result of the call, or a negative error number.
	 */
	long (*call)(long nr, const long args[6]);
	/*
	 * Called for each object with call sites: nr of them were patched, nr_left were
	 * not. name: the object's path, or the empty string for the program.
	 */
	void (*report)(const char *name, size_t nr, size_t nr_left);
};

/* Called once, when the library is loaded. *ops must stay valid afterwards. */
void uaio_patch_load(const struct uaio_patch_ops *ops);

/* Return: the loader's _r_debug; NULL before uaio_patch_load(), or if the loader has none. */
const struct r_debug *uaio_patch_debug(void);

/*
 * Return: a count that changes whenever the loader has mapped or unmapped objects; 0 if the
 * loader's function is not patched (I1).
 */
uint32_t uaio_patch_loads(void);

/*
 * Return: whether this process itself has loaded or unloaded objects, after fork() and
 * after the library was loaded.
 */
bool uaio_patch_has_loaded(void);

/*
 * Return: whether the loaded object (program or library) that contains addr has, or may
 * have, an unpatched call site of io_uring_enter. Cheap if all call sites of all
 * objects are patched; otherwise this function searches the code of the object at addr.
 */
bool uaio_patch_has_left(const void *addr);

/*
 * uaio_patch_entry_other (entry.S) saves all registers, as uaio_patch_entry does for
 * trampolines, and calls the function to which uaio_patch_other points. Only the module
 * trap uses uaio_patch_entry_other. uaio_patch_save_load() must be called before either
 * entry point is used.
 */
extern long (*uaio_patch_other)(int nr, const long args[6])
	__attribute__((visibility("hidden")));
void uaio_patch_save_load(void);

#endif /* UAIO_PATCH_PATCH_H */

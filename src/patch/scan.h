/* SPDX-License-Identifier: MIT */
/*
 * Finds the system calls that loaded objects make by their own instructions
 *
 * The library can interpose a system call that an object makes through the C library.
 * It cannot interpose a system call that an object makes by its own `syscall`
 * instruction. The scan finds these instructions and the numbers of their system calls,
 * so that callers know which calls the library may not see.
 *
 *   I1  In doubt, a `syscall` instruction is assumed to make any system call: if it is in
 *       no function of the unwind table, if an indirect jump may lead to it, or if the
 *       number of its call is not the same constant on all paths. The same holds for
 *       `int $0x80` and `sysenter`. Code is assumed to come from a compiler: functions
 *       preserve callee-saved registers, and no branch leads into the middle of an
 *       instruction.
 *   I2  Bytes outside the functions of the unwind table count as code if a branch or
 *       call leads to them, an instruction computes their address, or the object names
 *       it (reach.h). Otherwise they count as data.
 *   I3  The first query scans all objects; later queries scan only objects that were
 *       loaded since the last one.
 *   I4  When an object is unloaded, its system calls stay in the result: a thread may have
 *       made such a call before.
 *
 * The C library, the dynamic loader, the vdso and this library are not scanned. The scan does
 * not see code that the program generates at run time, or objects in other link namespaces
 * (dlmopen). On other processors than x86-64 every system call counts as possible.
 *
 * Tested by test-scan.c.
 */
#ifndef UAIO_PATCH_SCAN_H
#define UAIO_PATCH_SCAN_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "patch/find.h"

/* the numbers of all system calls are below this */
enum { UAIO_OWN_CALLS_MAX = 512 };

/* The system calls that objects may make by their own instructions. */
struct uaio_own_calls {
	uint64_t words[UAIO_OWN_CALLS_MAX / 64]; /* bitmap of numbers */
	/* some instruction may make any system call (I1) */
	bool has_any;
};

/*
 * Return: whether some object may make one of the system calls in `numbers` (nr ranges)
 * by its own instruction. This includes objects that were loaded at an earlier query,
 * and are unloaded now. Also true while another thread scans, or if another thread was
 * scanning when the process was forked.
 *
 * Each query calls dl_iterate_phdr(), and the first query also scans all objects. Once
 * an instruction was found that may make any system call, a query only reads a flag.
 *
 * Context: any thread that may take the loader's lock. Does not wait for any lock of
 * the library.
 */
bool uaio_patch_may_call(const struct uaio_numbers *numbers, size_t nr);

/*
 * Like uaio_patch_may_call(), for the only thread of a child of fork(). Another thread
 * of the parent may have held the loader's lock, which no thread releases in the child.
 * So this function reads the loader's list of objects without the lock.
 *
 * debug: the loader's _r_debug; if it is NULL, the result is true.
 * Return: like uaio_patch_may_call(). Also true if fork() happened while the loader
 * changed the list, or if the program headers of an object are not found. Context: the
 * process has no other thread.
 */
bool uaio_patch_may_call_alone(const struct r_debug *debug,
			       const struct uaio_numbers *numbers, size_t nr);

/* Scan one object. Add the system calls that it may make to *calls. */
void uaio_scan_object(const struct dl_phdr_info *object,
		      struct uaio_own_calls *calls);

#endif /* UAIO_PATCH_SCAN_H */

/* SPDX-License-Identifier: MIT */
/*
 * Which system calls the program makes by instructions of its own
 *
 * A system call that goes through the C library can be interposed. One that an object
 * makes by its own `syscall` instruction cannot. The scan finds these instructions and
 * the numbers of their calls, so that callers know what may happen unseen.
 *
 *   I1  In doubt an instruction may make any call: where it is in no function of the
 *       table for unwinding, where a jump by a register may lead to it, where its
 *       number is not the same constant on all ways to it, and for `int $0x80` and
 *       `sysenter`. Code is trusted to be a compiler's: functions keep the registers
 *       that they have to keep, and no branch leads into an instruction.
 *   I2  Bytes outside of these functions are data if nothing leads to them, or what
 *       does is no code: no branch, call, computed address or name does.
 *   I3  Nothing is scanned before the first question. Later questions scan only objects
 *       that were loaded meanwhile.
 *   I4  What was found stays found after its object is unloaded: a thread may have made
 *       the call before.
 *
 * The C library, the loader, the vdso and the library itself are not scanned. Code that
 * the program writes at run time, and objects in other namespaces (dlmopen), are not
 * seen. On other processors than x86-64 every call is possible.
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

enum { UAIO_OWN_CALLS_MAX = 512 }; /* numbers are below */

/* The system calls that objects make by their own instructions. */
struct uaio_own_calls {
	uint64_t words[UAIO_OWN_CALLS_MAX / 64]; /* a bit for each number */
	bool has_any; /* there is an instruction that may make any call */
};

/*
 * Return: whether an object that is loaded now, or was so at an earlier question, may
 * make one of the system calls in nr ranges of numbers by an instruction of its own.
 * True also while another thread scans, or did so when the process was forked.
 *
 * The first question reads the code of all objects. Later ones cost a call of
 * dl_iterate_phdr(), or nothing once an instruction was found that may make any call.
 *
 * Context: any thread that may take the loader's lock. No lock of the library is waited
 * for.
 */
bool uaio_patch_may_call(const struct uaio_numbers *numbers, size_t nr);

/*
 * As uaio_patch_may_call(), for the only thread of a child of fork(). Another thread of the
 * parent may have held the loader's lock, which nobody releases in the child: so the
 * loader's list of objects is read without the lock.
 *
 * debug: the loader's structure for debuggers (_r_debug); or NULL, then true is returned.
 * Return: true also if the fork came while the list changed, or if the program headers of
 * an object are not found.
 * Context: the process has no other thread.
 */
bool uaio_patch_may_call_alone(const struct r_debug *debug,
			       const struct uaio_numbers *numbers, size_t nr);

/* Add the calls of one object, whichever it is, to calls. */
void uaio_scan_object(const struct dl_phdr_info *object,
		      struct uaio_own_calls *calls);

#endif /* UAIO_PATCH_SCAN_H */

/* SPDX-License-Identifier: MIT */
/*
 * Which programs can be served that the program executes (exec.h)
 *
 * Context: async-signal-safe, also in a child of vfork(), but for the beginning.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_FIT_H
#define UAIO_TRAP_FIT_H

#include <stdbool.h>

/* Note what this process was loaded from. */
void uaio_trap_fit_begin(void);

/*
 * Return: whether no library can be loaded into the file, or all programs are to have the
 * trap; the process may execute it, it gains no privilege, and our own file would be
 * loaded as it was. In doubt, false.
 */
bool uaio_trap_fits(const char *path);

#endif /* UAIO_TRAP_FIT_H */

/* SPDX-License-Identifier: MIT */
/*
 * Programs that the program executes: whether they can be served, and their environment
 *
 * One that no library can be loaded into is executed as `uaio run --trap` does it: in its
 * place this process' own file, which becomes it. What cannot have the library is executed
 * as it is, and so is what is in doubt. It, and the caller, see what they would without
 * us:
 *
 *   I1  Our own file is executed only if the program itself could be, as far as can be
 *       known; if it fails all the same, the program is executed as it is.
 *   I2  It is executed only if its loader will find what it found for this process: the
 *       same variables, the same files, memory, and no filter of the program's own.
 *   I3  A signal that comes meanwhile comes to the program that is executed, or its handler
 *       is called before; in no case is it blocked there.
 *   I4  If the process can then not become the program, it executes it as it is
 *       (UAIO_TRAP_CHILD).
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_EXEC_H
#define UAIO_TRAP_EXEC_H

#include <stdbool.h>
#include <stddef.h>

#include "trap/thread.h"
#include "trap/trap.h"

/* envp: the environment as the process was given it. */
void uaio_trap_exec_begin(const struct uaio_trap_ops *ops, char **envp);

/* The program is about to install a filter of system calls. */
void uaio_trap_exec_filtered(void);

/*
 * The system calls execve and execveat.
 * Return: the error; or the number of the call, which is then made once more, when
 * handlers of signals have been called.
 */
long uaio_trap_exec(struct uaio_trap_thread *self, long nr, const long a[6]);

/*
 * environ.c: the environment of what the program executes. Context: async-signal-safe, also
 * in a child of vfork(), but for the beginning.
 */

struct uaio_trap_environ {
	char **entries;
	size_t nr;
	bool is_readable;
	bool has_hidden; /* variables that were hidden from the program */
	bool is_served; /* the loader finds what it found for this process, and UAIO_TRAP */
};

/* envp: as the process was given it. */
void uaio_trap_environ_begin(char **envp);

/* Return: whether programs are to have the trap that a library can be loaded into. */
bool uaio_trap_environ_wants_all(void);

/* The loader's variables are as they are in envp now. */
void uaio_trap_environ_hidden(char **envp);

/* Return: whether any was hidden. */
bool uaio_trap_environ_has_hidden(void);

/* Return: the length of a text of the program's, or -1 if it has no room, or cannot be read. */
long uaio_trap_length_of(const char *text, size_t room);

void uaio_trap_environ_look(char **envp, struct uaio_trap_environ *ret_env);

/*
 * What was hidden is there again, and there is one more entry, if it is not NULL. There is
 * room at `to` for so many entries, for one more and for the NULL.
 */
void uaio_trap_environ_fill(char **to, const struct uaio_trap_environ *env,
			    char *more);

/*
 * fit.c: which programs can be served that the program executes. Context: as environ.c.
 */

/* Note what this process was loaded from. */
void uaio_trap_fit_begin(void);

/*
 * Return: whether no library can be loaded into the file, or all programs are to have the
 * trap; the process may execute it, it gains no privilege, and our own file would be
 * loaded as it was. In doubt, false.
 */
bool uaio_trap_fits(const char *path);

#endif /* UAIO_TRAP_EXEC_H */

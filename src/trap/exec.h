/* SPDX-License-Identifier: MIT */
/*
 * execve() by the program: which new programs get the trap, and their environment
 *
 * For a new program into which no library can be loaded, the process executes its own
 * file (`uaio run --trap`), which then becomes the program. A program that cannot have
 * the library is executed directly, and so is a program for which this is in doubt.
 * Otherwise execve() behaves as without the library:
 *
 *   I1  The process's own file is executed only if the program itself could be
 *       executed, as far as this can be known. If the execution of the own file fails
 *       all the same, the program is executed directly.
 *   I2  The own file is executed only if the loader will find what it found when it
 *       started this process: the same variables, files and memory, and no seccomp
 *       filter of the program.
 *   I3  A signal during execve() goes to the new program, or its handler runs in the
 *       old program before. The new program does not find the signal blocked.
 *   I4  If the new process cannot become the program, it executes the program directly
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

/* envp: the environment that the process got at its start. */
void uaio_trap_exec_begin(const struct uaio_trap_ops *ops, char **envp);

/* The program is about to install a seccomp filter. */
void uaio_trap_exec_filtered(void);

/*
 * The system calls execve and execveat.
 * Return: -errno; or the call's number if the thread has to run pending signal handlers
 * and then repeat the call.
 */
long uaio_trap_exec(struct uaio_trap_thread *self, long nr, const long a[6]);

/*
 * environ.c: the environment of executed programs. Context: async-signal-safe, also in
 * a child of vfork(), except uaio_trap_environ_begin().
 */

struct uaio_trap_environ {
	char **entries;
	size_t nr;
	bool is_readable;
	bool has_hidden; /* some variables were hidden from this program */
	/*
	 * the loader will find what it found for this process, and UAIO_TRAP is as in
	 * this process
	 */
	bool is_served;
};

/* envp: the environment that the process got at its start. */
void uaio_trap_environ_begin(char **envp);

/* Return: whether programs into which a library can be loaded get the trap, too. */
bool uaio_trap_environ_wants_all(void);

/* The loader's variables in envp now have the values that the program is to see. */
void uaio_trap_environ_hidden(char **envp);

/* Return: whether a variable was hidden. */
bool uaio_trap_environ_has_hidden(void);

/*
 * Return: the length of a string of the program; -1 if it is too long, or unreadable.
 */
long uaio_trap_length_of(const char *text, size_t room);

void uaio_trap_environ_look(char **envp, struct uaio_trap_environ *ret_env);

/*
 * Copy an environment, restore the hidden variables, and add `more` if it is not NULL.
 * `to` has room for env->nr entries, `more` and the final NULL.
 */
void uaio_trap_environ_fill(char **to, const struct uaio_trap_environ *env,
			    char *more);

/*
 * fit.c: which executed programs can get the trap. Context: async-signal-safe, also in
 * a child of vfork(), except uaio_trap_fit_begin().
 */

/* Note the files that this process was loaded from. */
void uaio_trap_fit_begin(void);

/*
 * Return: whether to execute the file with the trap. True only if no library can be
 * loaded into the file, or all programs are to have the trap; and if the process may
 * execute the file, gains no privilege by it, and could load its own file again. In
 * doubt, false.
 */
bool uaio_trap_fits(const char *path);

#endif /* UAIO_TRAP_EXEC_H */

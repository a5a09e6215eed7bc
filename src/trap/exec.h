/* SPDX-License-Identifier: MIT */
/*
 * execve() by the program: which new programs run under the trap, and their environment
 *
 * If no library can be loaded into the new program, the process executes its own file
 * (`uaio run --trap`), which then becomes the program. If the new program cannot run
 * under the trap, or if the library cannot find this out, the process executes the
 * program directly. In all other respects execve() behaves as it does without the
 * library:
 *
 *   I1  The process executes its own file only if it could execute the program
 *       itself, as far as the library can tell. If the execution of its own file fails
 *       nevertheless, the process executes the program directly.
 *   I2  The process executes its own file only if the loader will find enough memory,
 *       and the same variables and files as at the start of this process. The program
 *       must have installed no seccomp filter.
 *   I3  A signal during execve() goes to the new program; or its handler runs in the
 *       old program, before the new program starts. The new program does not find the
 *       signal blocked.
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

/*
 * Called when the program begins. envp: the environment that the process got at its
 * start.
 */
void uaio_trap_exec_begin(const struct uaio_trap_ops *ops, char **envp);

/* Called when the program is about to install a seccomp filter. */
void uaio_trap_exec_filtered(void);

/*
 * Serve the program's system calls execve and execveat.
 * Return: the error, if the program cannot be executed; or the call's number, if the
 * thread must run pending signal handlers and then repeat the call.
 */
long uaio_trap_exec(struct uaio_trap_thread *self, long nr, const long a[6]);

/*
 * environ.c: the environment of executed programs. Context: async-signal-safe, also in
 * a child of vfork(); only uaio_trap_environ_begin() is not.
 */

struct uaio_trap_environ {
	char **entries;
	size_t nr;
	bool is_readable;
	/* some variables of this environment were hidden from the program */
	bool has_hidden;
	/*
	 * the loader's variables and UAIO_TRAP are as in this process, so the loader
	 * will load the library
	 */
	bool is_served;
};

/*
 * Record the loader's variables. envp: the environment that the process got at its
 * start.
 */
void uaio_trap_environ_begin(char **envp);

/*
 * Return: whether all programs run under the trap, also those into which a library can
 * be loaded.
 */
bool uaio_trap_environ_wants_all(void);

/*
 * Called when the loader's variables in envp have the values that the program will see:
 * record which of the values differ from the original ones.
 */
void uaio_trap_environ_hidden(char **envp);

/* Return: whether a variable of the loader was hidden from the program. */
bool uaio_trap_environ_has_hidden(void);

/*
 * Return: the length of a string in the program's memory; -1 if it is too long or
 * unreadable.
 */
long uaio_trap_length_of(const char *text, size_t room);

void uaio_trap_environ_look(char **envp, struct uaio_trap_environ *ret_env);

/*
 * Copy the environment to `to`, restore the hidden variables, and add the entry `more`
 * if it is not NULL. `to` has room for env->nr entries, `more` and the final NULL.
 */
void uaio_trap_environ_fill(char **to, const struct uaio_trap_environ *env,
			    char *more);

/*
 * fit.c: which executed programs can run under the trap. Context: async-signal-safe,
 * also in a child of vfork(); only uaio_trap_fit_begin() is not.
 */

/* Record the files from which this process was loaded. */
void uaio_trap_fit_begin(void);

/*
 * Return: whether to execute the file under the trap. True only if no library can be
 * loaded into the file, or all programs are to run under the trap. Also, the process
 * must be able to execute the file, without gaining privileges, and to load its own
 * file again. False if the library cannot find this out.
 */
bool uaio_trap_fits(const char *path);

#endif /* UAIO_TRAP_EXEC_H */

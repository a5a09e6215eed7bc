/* SPDX-License-Identifier: MIT */
/*
 * The environment of what the program executes
 *
 * The variables of the loader's that this process was given make the library come. In a
 * program that a loader of another C library started they were hidden (become.c). The
 * memory is the program's: what cannot be read is for the kernel to say.
 *
 * Context: async-signal-safe, also in a child of vfork(), but for the beginning.
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_ENVIRON_H
#define UAIO_TRAP_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>

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

#endif /* UAIO_TRAP_ENVIRON_H */

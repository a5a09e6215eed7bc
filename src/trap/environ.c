/* SPDX-License-Identifier: MIT */
/*
 * The environment of programs that the program executes
 *
 * This process got variables of the dynamic loader (LD_PRELOAD and others). If they are
 * passed on unchanged, they make a new program load the library, too. If another C
 * library's loader started this program, become.c has hidden the variables from the
 * program. Then the library restores them in the environment that the program passes to
 * execve(). If the memory of this environment cannot be read, the kernel's execve()
 * reports the error.
 *
 * Context: async-signal-safe, also in a child of vfork(); only
 * uaio_trap_environ_begin() is not.
 *
 * Tested by test/trap.
 */
#include "trap/exec.h"

#if defined(__x86_64__)
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/loader.h"
#include "base/uaddr.h"

enum {
	PAGE = 4096,
	/*
	 * if this process got more variables of the loader, no program that it executes
	 * runs under the trap
	 */
	VARIABLES_MAX = 32,
};

static const uintptr_t NOWHERE = UINTPTR_MAX;

/* Neither this struct nor its strings change once the program has begun. */
static struct {
	bool is_complete;
	bool has_hidden;
	/* the environment's entry UAIO_TRAP, as this process got it */
	const char *switched;
	unsigned nr;
	struct {
		/*
		 * given: the entry as this process got it; shown: as the program sees
		 * it
		 */
		char *given, *shown;
	} variables[VARIABLES_MAX];
} loaders;

/* Recording the loader's variables, when the program begins */

/*
 * Return: whether the entry is a variable that the C library or its loader reads.
 */
static bool is_loaders(const char *entry)
{
	return uaio_has_prefix(entry, "LD_") ||
	       uaio_has_prefix(entry, "GLIBC_TUNABLES=");
}

static bool note_variable(char *entry)
{
	unsigned i = loaders.nr;

	if (i == VARIABLES_MAX)
		return false;
	loaders.variables[i].given = strdup(entry);
	loaders.variables[i].shown = loaders.variables[i].given;
	loaders.nr += loaders.variables[i].given != NULL;
	return loaders.variables[i].given;
}

void uaio_trap_environ_begin(char **envp)
{
	loaders.is_complete = true;
	loaders.switched = "";
	for (; *envp; envp++) {
		if (is_loaders(*envp) && !note_variable(*envp))
			loaders.is_complete = false;
		if (uaio_has_prefix(*envp, "UAIO_TRAP="))
			loaders.switched = strdup(*envp);
	}
	if (!loaders.switched)
		loaders.is_complete = false;
}

bool uaio_trap_environ_wants_all(void)
{
	return loaders.switched &&
	       !strcmp(loaders.switched, "UAIO_TRAP=always");
}

void uaio_trap_environ_hidden(char **envp)
{
	for (unsigned i = 0; *envp && i < loaders.nr; envp++) {
		char *shown;

		if (!is_loaders(*envp))
			continue;
		shown = strcmp(*envp, loaders.variables[i].given)
				? strdup(*envp)
				: NULL;
		if (shown) {
			loaders.variables[i].shown = shown;
			loaders.has_hidden = true;
		}
		i++;
	}
}

/*
 * Functions that read the program's memory. If it cannot be read, the kernel's execve()
 * reports the error.
 */

/*
 * Return: whether the memory can be read. *page: the last page that was found readable,
 * so that all strings in one page take a single system call.
 */
static bool can_reach(uintptr_t addr, size_t bytes, uintptr_t *page)
{
	uintptr_t last = addr + bytes - 1;

	if (addr / PAGE == *page && last / PAGE == *page)
		return true;
	if (!uaio_is_accessible(addr, bytes) || !uaio_can_read(addr, bytes))
		return false;
	*page = last / PAGE;
	return true;
}

static long length_of(const char *text, size_t room, uintptr_t *page)
{
	for (size_t at = 0; at < room; at++) {
		if (!can_reach((uintptr_t)(text + at), 1, page))
			return -1;
		if (!text[at])
			return (long)at;
	}
	return -1;
}

long uaio_trap_length_of(const char *text, size_t room)
{
	uintptr_t page = NOWHERE;

	return length_of(text, room, &page);
}

static bool is_text(const char *text, const char *wanted, uintptr_t *page)
{
	long bytes = (long)strlen(wanted);

	return length_of(text, (size_t)bytes + 1, page) == bytes &&
	       !memcmp(text, wanted, (size_t)bytes);
}

static bool begins(const char *text, const char *prefix, uintptr_t *page)
{
	for (size_t at = 0; prefix[at]; at++)
		if (!can_reach((uintptr_t)(text + at), 1, page) ||
		    text[at] != prefix[at])
			return false;
	return true;
}

/*
 * Return: the index of the loader's variable whose entry, as the program sees it, is
 * equal to `entry`; -1: none.
 */
static int variable_of(const char *entry, uintptr_t *page)
{
	for (unsigned i = 0; i < loaders.nr; i++)
		if (is_text(entry, loaders.variables[i].shown, page))
			return (int)i;
	return -1;
}

/* What all entries of an environment together say about the loader and the trap. */
struct said {
	/* an entry is LD_PRELOAD with the value that it has in this process */
	bool names_us;
	/* some variable of the loader has another value than in this process */
	bool is_strange;
	bool wants_trap;
};

static void look_at_entry(struct uaio_trap_environ *env, struct said *said,
			  const char *entry, uintptr_t *page)
{
	int i;

	if (begins(entry, "UAIO_TRAP=", page))
		said->wants_trap = is_text(entry, loaders.switched, page);
	if (!begins(entry, "LD_", page) &&
	    !begins(entry, "GLIBC_TUNABLES=", page))
		return;
	i = variable_of(entry, page);
	if (i < 0)
		said->is_strange = true;
	else if (loaders.variables[i].shown != loaders.variables[i].given)
		env->has_hidden = true;
	if (i >= 0 &&
	    uaio_has_prefix(loaders.variables[i].given, "LD_PRELOAD="))
		said->names_us = true;
}

bool uaio_trap_environ_has_hidden(void)
{
	return loaders.has_hidden;
}

void uaio_trap_environ_look(char **envp, struct uaio_trap_environ *ret_env)
{
	struct uaio_trap_environ env = { .entries = envp };
	struct said said = { 0 };
	uintptr_t pages[] = { NOWHERE, NOWHERE };

	while (can_reach((uintptr_t)&envp[env.nr], sizeof(*envp), &pages[0])) {
		if (!envp[env.nr]) {
			env.is_readable = true;
			break;
		}
		look_at_entry(&env, &said, envp[env.nr++], &pages[1]);
	}
	env.is_served = loaders.is_complete && said.wants_trap &&
			said.names_us && !said.is_strange;
	*ret_env = env;
}

void uaio_trap_environ_fill(char **to, const struct uaio_trap_environ *env,
			    char *more)
{
	uintptr_t page = NOWHERE;

	for (size_t nr = 0; nr < env->nr; nr++) {
		char *entry = env->entries[nr];
		int i = begins(entry, "LD_", &page) ? variable_of(entry, &page)
						    : -1;

		*to++ = i < 0 ? entry : loaders.variables[i].given;
	}
	if (more)
		*to++ = more;
	*to = NULL;
}
#endif

/* SPDX-License-Identifier: MIT */
/*
 * Telling the user where the library gets lost
 *
 * A program that is executed may be one that the library cannot be loaded into, or be
 * given an environment that does not name it. With --verbose or --stats the user is
 * told at that moment, and how to keep it. Callers: exec.c, spawn.c.
 *
 * Context: async-signal-safe, also in a child of vfork().
 *
 * Tested by test/run/lost.py.
 */
#ifndef UAIO_HOST_LOST_H
#define UAIO_HOST_LOST_H

/*
 * The file at path, relative to the directory dir, is about to be executed with this
 * environment. An empty path is the open file dir itself.
 */
void uaio_host_tell_lost(int dir, const char *path, char *const *envp);

/* The same for a name that is looked for along PATH. */
void uaio_host_tell_lost_named(const char *name, char *const *envp);

#endif /* UAIO_HOST_LOST_H */

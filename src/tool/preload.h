/* SPDX-License-Identifier: MIT */
/*
 * The loader's variables. What a user has in them already is kept, after our
 * part; what an outer `uaio run` put there is replaced, so that nesting neither
 * makes them grow nor brings two engines into one process.
 */
#ifndef UAIO_TOOL_PRELOAD_H
#define UAIO_TOOL_PRELOAD_H

/*
 * Puts the library in @dir in front in LD_PRELOAD, and @dir, for its links that
 * are named as libaio is, in LD_LIBRARY_PATH.
 *
 * Return: 0, or -ENOMEM.
 */
int uaio_preload_set(const char *dir);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Setting LD_PRELOAD and LD_LIBRARY_PATH. What the user has in them is kept,
 * after our part. What an outer `uaio run` put there is replaced, so that
 * nested calls neither make the variables grow nor load two engines into one
 * process.
 *
 * Tested by test/run/environment.py.
 */
#ifndef UAIO_TOOL_COMMON_PRELOAD_H
#define UAIO_TOOL_COMMON_PRELOAD_H

/*
 * Puts the library in @dir first in LD_PRELOAD, and @dir first in
 * LD_LIBRARY_PATH: it has the links that bear libaio's names. Lets programs with
 * AddressSanitizer start in spite of that.
 *
 * Return: 0, or -ENOMEM.
 */
int uaio_preload_set(const char *dir);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Secure execution: the kernel sets AT_SECURE (getauxval(3)) for a program that
 * gains privilege by being executed, and the loader then ignores LD_PRELOAD.
 * This predicts, before the exec, whether the kernel will set it. It does not
 * know of security modules, which may set it too (SELinux does when the domain
 * changes).
 *
 * Tested by test/run/targets.py.
 */
#ifndef UAIO_TOOL_COMMON_SECURE_H
#define UAIO_TOOL_COMMON_SECURE_H

struct uaio_secure {
	const char *reason; /* continues a sentence after the file's name */
	const char *advice; /* what to do instead */
};

/* Return: why executing @path would be secure, or NULL if it would not be. */
const struct uaio_secure *uaio_secure_if_executed(const char *path);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Secure execution, getauxval(3) AT_SECURE: a program that gains privilege by
 * being executed gets it, and its loader ignores LD_PRELOAD. This tells before
 * the exec whether the kernel would set it. A security module may set it on top
 * of that (SELinux at a domain change); this is not foreseen.
 */
#ifndef UAIO_TOOL_SECURE_H
#define UAIO_TOOL_SECURE_H

struct uaio_secure {
	const char *reason; /* goes on after "it " */
	const char *advice; /* what to do instead */
};

/* Return: why the execution of @path would be secure, NULL if it would not. */
const struct uaio_secure *uaio_secure_if_executed(const char *path);

#endif

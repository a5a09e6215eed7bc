/* SPDX-License-Identifier: MIT */
/*
 * What programs and this machine allow of the kernel's own AIO, determined by system
 * calls that bypass the library.
 */
#ifndef HOST_NATIVE_H
#define HOST_NATIVE_H

#include <stdbool.h>

/* Return: whether the kernel accepts direct AIO requests from this process. */
bool native_is_possible(void);

#endif /* HOST_NATIVE_H */

/* SPDX-License-Identifier: MIT */
/*
 * Finds out whether programs on this machine may use the kernel's own AIO. The system
 * calls for this bypass the library.
 */
#ifndef HOST_NATIVE_H
#define HOST_NATIVE_H

#include <stdbool.h>

/* Return: whether the kernel accepts direct AIO requests from this process. */
bool native_is_possible(void);

#endif /* HOST_NATIVE_H */

/* SPDX-License-Identifier: MIT */
/*
 * What programs and this machine allow of the kernel's own AIO, found out by system
 * calls that nothing stands in front of.
 */
#ifndef HOST_NATIVE_H
#define HOST_NATIVE_H

#include <stdbool.h>

/*
 * Return: whether the kernel takes direct requests in this process, so that the
 * library may hand it some.
 */
bool native_is_possible(void);

#endif /* HOST_NATIVE_H */

/* SPDX-License-Identifier: MIT */
/* loop: loop devices, which are block devices backed by a file */
#ifndef LOOP_H
#define LOOP_H

#include <stddef.h>

/*
 * Attach the file to a free loop device, which exists until its last descriptor is
 * closed. Write the device's path to ret_path.
 * Return: a descriptor of the device; -1 with errno if this user or machine cannot use
 * a loop device.
 */
int loop_attach(int file, char *ret_path, size_t bytes);

#endif /* LOOP_H */

/* SPDX-License-Identifier: MIT */
/*
 * loop: a block device on a file
 */
#ifndef LOOP_H
#define LOOP_H

#include <stddef.h>

/*
 * Make a loop device of the file; it exists until its last descriptor is closed. Its
 * path is written to ret_path.
 * Return: a descriptor of the device, or -1 with errno if this user or machine cannot.
 */
int loop_attach(int file, char *ret_path, size_t bytes);

#endif /* LOOP_H */

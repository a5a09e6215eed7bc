/* SPDX-License-Identifier: MIT */
/* loop: a block device that is a file */
#ifndef LOOP_H
#define LOOP_H

#include <stddef.h>

/*
 * Make a loop device of the file, which ends with its last opener; its path is
 * written to ret_path.
 * Return: a descriptor of it; or -1 with errno: this user or machine cannot.
 */
int loop_attach(int file, char *ret_path, size_t bytes);

#endif /* LOOP_H */

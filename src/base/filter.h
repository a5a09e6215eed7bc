/* SPDX-License-Identifier: MIT */
/*
 * What a filter of system calls would say
 *
 * A filter (seccomp) is a program of classic BPF, which sees the number and the
 * arguments of a call and nothing else; so it can be asked without making one.
 */
#ifndef UAIO_BASE_FILTER_H
#define UAIO_BASE_FILTER_H

#include <stdbool.h>

struct sock_fprog;

/*
 * Return: whether it lets the call through. False for a program that cannot be
 * read, or that the kernel would refuse to install.
 */
bool uaio_filter_allows(const struct sock_fprog *program, long nr,
			const long args[6]);

#endif /* UAIO_BASE_FILTER_H */

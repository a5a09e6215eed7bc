/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own shared object, which reads the clock without a system call
 *
 * The C library's clock_gettime() asks it, too; but that is a symbol, and others
 * put theirs in front of it: libfaketime and its like show a program another time
 * than the one that the kernel wakes sleepers by.
 */
#ifndef UAIO_BASE_VDSO_H
#define UAIO_BASE_VDSO_H

/*
 * Return: the function of that name, or NULL if image, the start of an object as
 * the kernel maps it, has none.
 */
void *uaio_vdso_find(const void *image, const char *name);

#endif /* UAIO_BASE_VDSO_H */

/* SPDX-License-Identifier: MIT */
/*
 * The vDSO: the kernel's shared object, whose functions read the clock without
 * a system call
 *
 * The C library's clock_gettime() uses it, too. But that is a symbol which
 * other libraries interpose: libfaketime and its like show a program another
 * time than the one by which the kernel wakes sleepers.
 */
#ifndef UAIO_BASE_VDSO_H
#define UAIO_BASE_VDSO_H

/*
 * image: where an object begins that the kernel has mapped; or NULL.
 * Return: the function of that name, or NULL if the object has none.
 */
void *uaio_vdso_find(const void *image, const char *name);

#endif /* UAIO_BASE_VDSO_H */

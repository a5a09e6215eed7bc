/* SPDX-License-Identifier: MIT */
/*
 * Functions for large files have names of their own, with 64
 *
 * In musl these names are macros, for functions that are the usual ones, and its loader
 * binds references of older programs to the C library alone. The library defines each
 * such name everywhere.
 *
 * Included after all other headers, by files of host/ that define such a name.
 */
#ifndef UAIO_HOST_LFS_H
#define UAIO_HOST_LFS_H

#include <sys/types.h>

#undef open64
#undef openat64
#undef fopen64
#undef freopen64
#undef fcntl64
#undef mmap64
#undef aio_read64
#undef aio_write64
#undef aio_fsync64
#undef aio_error64
#undef aio_return64
#undef aio_suspend64
#undef aio_cancel64
#undef lio_listio64

#endif /* UAIO_HOST_LFS_H */

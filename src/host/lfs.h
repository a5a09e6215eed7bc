/* SPDX-License-Identifier: MIT */
/*
 * Lets source files of src/host define functions whose names end in 64 (for large
 * files)
 *
 * glibc has functions with these names. In musl the names are macros for the functions
 * without 64. Older programs refer to the names themselves, and musl's loader binds
 * these references only to musl. The library defines the functions for both C
 * libraries, so this header undefines the macros.
 *
 * A source file includes this header after all others, because those define the macros.
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

/* SPDX-License-Identifier: MIT */
/* What doc/differences.md is printed of, beside rows. */
#ifndef CONFORM_DOCUMENT_H
#define CONFORM_DOCUMENT_H

void print_uring(void);

#endif

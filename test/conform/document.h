/* SPDX-License-Identifier: MIT */
/* Parts of doc/differences.md that are printed from tables, not from rows. */
#ifndef CONFORM_DOCUMENT_H
#define CONFORM_DOCUMENT_H

void print_uring(void);

#endif

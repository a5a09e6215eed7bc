/* SPDX-License-Identifier: MIT */
/* The part of doc/differences.md that is printed from a table, not from test cases. */
#ifndef CONFORM_DOCUMENT_H
#define CONFORM_DOCUMENT_H

void print_uring(void);

#endif

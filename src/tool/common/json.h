/* SPDX-License-Identifier: MIT */
/*
 * Text as JSON has it
 *
 * Tested by test/run/doctor.py and test/run/check.py.
 */
#ifndef UAIO_TOOL_COMMON_JSON_H
#define UAIO_TOOL_COMMON_JSON_H

#include <stdio.h>

/*
 * Write the text as a string, or null if it is NULL. Bytes that are no UTF-8, as names of
 * files may have, become '?'.
 */
void uaio_json_text(FILE *to, const char *text);

#endif /* UAIO_TOOL_COMMON_JSON_H */

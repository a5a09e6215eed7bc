# SPDX-License-Identifier: MIT
"""Points for tracers of the system, as notes in the library."""
import re

from harness import case, expect, main


@case("the library tells tracers where requests begin and end")
def _(tool):
    notes = tool.exec("readelf", "-n", tool.library).expect(err=None).out
    found = re.findall(
        r"Provider: uaio\n\s+Name: (\w+)\n.*\n\s+Arguments: (.*)", notes)
    expect({name for name, _ in found}, {"submit", "issue", "complete"},
           "points")
    for name, arguments in found:
        expect(len(arguments.split()) >= 3, True, f"{name}: {arguments}")


main()

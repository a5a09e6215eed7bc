/* SPDX-License-Identifier: MIT */
/*
 * Before the process exits or executes another program: finish accepted requests
 * (flow/gate.h), and write the report (report.h)
 *
 * Tested by test/host/leaving*.c, as each test ends its process.
 */
#include "proc/process.h"
#include "live/live.h"
#include "flow/gate.h"
#include "life/life.h"
#include "life/report.h"

void uaio_engine_exiting(void)
{
	if (uaio_engine_is_ours())
		uaio_gate_end();
	uaio_report(false);
	if (uaio_engine_is_ours())
		uaio_live_remove();
}

bool uaio_engine_leave(void)
{
	if (!uaio_engine_is_ours() || !uaio_gate_leave())
		return false;
	uaio_report(true);
	/*
	 * Writing the report may take long. Meanwhile threads that wait at the gate may
	 * reach their time limit, and submit requests (gate.h, I4). So close the gate
	 * again.
	 */
	uaio_gate_leave_again();
	uaio_live_set_state(UAIO_LIVE_LEAVING);
	return true;
}

void uaio_engine_stay(void)
{
	uaio_live_set_state(UAIO_LIVE_ON);
	uaio_gate_stay();
}

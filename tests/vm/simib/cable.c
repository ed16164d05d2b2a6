// SPDX-License-Identifier: GPL-2.0
/*
 * Cables: link up, link down, and the events and traps for both.
 */
#include "simib.h"

bool simib_link_is_up(const struct simib_port *port)
{
	return READ_ONCE(port->state) >= IB_PORT_INIT;
}

static void simib_link_up(struct simib_adapter *adapter)
{
	WRITE_ONCE(adapter->port.state, IB_PORT_INIT);
	WRITE_ONCE(adapter->port.peer->state, IB_PORT_INIT);
}

/* LIDs, P_Keys and other settings stay, as in hardware. */
static void simib_link_down(struct simib_adapter *adapter)
{
	WRITE_ONCE(adapter->port.state, IB_PORT_DOWN);
	WRITE_ONCE(adapter->port.peer->state, IB_PORT_DOWN);
	simib_count(&adapter->port, SIMIB_LINK_DOWNED);
	simib_count(adapter->port.peer, SIMIB_LINK_DOWNED);
	simib_dispatch(adapter, IB_EVENT_PORT_ERR);
}

/* Updates the state of both ends from the cable and from the port states that the subnet manager has set. */
void simib_cable_update(struct simib_adapter *adapter)
{
	struct simib_port *port = &adapter->port;
	bool up = !adapter->cable_out && !port->disabled && !port->peer->disabled;

	lockdep_assert_held(&simib_fabric->lock);
	if (up == simib_link_is_up(port))
		return;
	if (up)
		simib_link_up(adapter);
	else
		simib_link_down(adapter);
	simib_trap_link_state(&simib_fabric->sw);
}

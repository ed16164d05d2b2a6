// SPDX-License-Identifier: GPL-2.0
/*
 * The switch's data path: forwarding by linear and multicast tables (IBA 18.2.4), partition enforcement (10.9.5), and
 * directed routes (14.2.2). It has no thread and no buffers; it runs in the sender's thread.
 */
#include "simib.h"

#define SIMIB_ENFORCE_IN	0x8	/* PortInfo.PartitionEnforcementInbound, Outbound */
#define SIMIB_ENFORCE_OUT	0x4

void simib_switch_init(struct simib_switch *sw, int port_count)
{
	int i;

	sw->port_count = port_count;
	for (i = 0; i <= port_count; i++)
		simib_port_init(&sw->ports[i], i, SIMIB_SWITCH_NODE);
	/* Port 0 has no link, so it is never down. */
	sw->ports[0].state = IB_PORT_ACTIVE;
	memset(sw->lft, SIMIB_NO_PORT, sizeof(sw->lft));
	strscpy(sw->description, "simib switch", sizeof(sw->description));
	simib_trap_init(&sw->trap, &sw->ports[0]);
}

static struct simib_switch *simib_switch_of(void)
{
	return &simib_fabric->sw;
}

/*
 * Ignores membership: the adapters keep limited members apart. If the switch checked membership, too, a limited member's
 * packet would not pass a port whose table has that P_Key as limited.
 */
static bool simib_switch_knows_pkey(const struct simib_port *port, u16 pkey)
{
	int i;

	for (i = 0; i < SIMIB_PKEYS; i++) {
		const u16 entry = READ_ONCE(port->pkeys[i]);

		if ((entry & 0x7fff) && !((entry ^ pkey) & 0x7fff))
			return true;
	}
	return false;
}

static bool simib_switch_admits(const struct simib_port *port, const struct simib_packet *packet, u8 direction)
{
	return packet->smp || !(READ_ONCE(port->enforce) & direction) || simib_switch_knows_pkey(port, packet->pkey);
}

/* Why the packet must not leave through this port, or -1. */
static int simib_egress_drop(const struct simib_port *out, const struct simib_packet *packet)
{
	const u8 needed = packet->smp ? IB_PORT_INIT : IB_PORT_ACTIVE;

	if (READ_ONCE(out->state) < needed)
		return SIMIB_DROP_switch_port_down;
	if (!simib_switch_admits(out, packet, SIMIB_ENFORCE_OUT))
		return SIMIB_DROP_switch_pkey;
	if (packet->length > ib_mtu_enum_to_int(READ_ONCE(out->neighbor_mtu)))
		return SIMIB_DROP_switch_mtu;
	return -1;
}

/* Sends the packet to an adapter. A drop is counted at that adapter. */
void simib_switch_egress(struct simib_port *out, struct simib_packet *packet)
{
	const int drop = simib_egress_drop(out, packet);

	if (drop >= 0) {
		simib_drop(out->peer->adapter, drop);
		simib_count(out, drop == SIMIB_DROP_switch_pkey ? SIMIB_XMIT_CONSTRAINT : SIMIB_XMIT_DISCARDS);
		return;
	}
	simib_count_packet(out, packet, true);
	simib_count_packet(out->peer, packet, false);
	simib_receive(out->peer->adapter, packet);
}

/* To every port of the group except the ingress port: that adapter has served its own queue pairs. */
static void simib_forward_multicast(struct simib_switch *sw, struct simib_port *in, struct simib_packet *packet)
{
	const u16 index = packet->dlid - SIMIB_MLID_BASE;
	u16 ports = index < SIMIB_MFT_SIZE ? READ_ONCE(sw->mft[index]) : 0;
	int i;

	if (!ports)
		simib_drop(in->peer->adapter, SIMIB_DROP_no_route);
	for (i = 1; i <= sw->port_count; i++)
		if (ports & BIT(i) && i != in->number)
			simib_switch_egress(&sw->ports[i], packet);
}

static void simib_forward_unicast(struct simib_switch *sw, struct simib_port *in, struct simib_packet *packet)
{
	const u8 out = packet->dlid < SIMIB_LFT_SIZE ? READ_ONCE(sw->lft[packet->dlid]) : SIMIB_NO_PORT;

	if (out >= 1 && out <= sw->port_count)
		simib_switch_egress(&sw->ports[out], packet);
	else
		simib_drop(in->peer->adapter, SIMIB_DROP_no_route);
}

static void simib_to_sender(struct simib_port *in, struct simib_packet *packet)
{
	const u16 requester = packet->slid;

	packet->slid = packet->dlid;
	packet->dlid = requester;
	swap(packet->src_qpn, packet->dst_qpn);
	packet->sender = NULL;
	packet->has_grh = false;
	packet->solicited = false;
	simib_switch_egress(in, packet);
}

/*
 * IBA 14.2.2.2: an SMP on its way out. This switch is the first and only hop of every route; the next node is an adapter.
 */
static void simib_route_out(struct simib_switch *sw, struct simib_port *in, struct simib_packet *packet, struct ib_smp *smp)
{
	u8 out;

	if (!smp->hop_ptr || smp->hop_ptr > smp->hop_cnt || smp->hop_cnt >= IB_SMP_MAX_PATH_HOPS)
		return;
	smp->return_path[smp->hop_ptr] = in->number;
	smp->hop_ptr++;
	if (smp->hop_ptr > smp->hop_cnt) {
		if (!simib_switch_sma(sw, in->number, smp))
			return;
		smp->hop_ptr--;		/* C14-13: the return path */
		simib_to_sender(in, packet);
		return;
	}
	out = smp->initial_path[smp->hop_ptr];
	if (out >= 1 && out <= sw->port_count)
		simib_switch_egress(&sw->ports[out], packet);
}

/* IBA 14.2.2.4: an SMP on its return path. */
static void simib_route_back(struct simib_switch *sw, struct simib_packet *packet, struct ib_smp *smp)
{
	u8 out;

	if (smp->hop_ptr < 2 || smp->hop_ptr > smp->hop_cnt || smp->hop_cnt >= IB_SMP_MAX_PATH_HOPS)
		return;
	smp->hop_ptr--;
	out = smp->return_path[smp->hop_ptr];
	if (out >= 1 && out <= sw->port_count)
		simib_switch_egress(&sw->ports[out], packet);
}

/* A datagram to the switch itself: QP0 is its subnet management agent, QP1 its performance management agent. */
static void simib_switch_consume(struct simib_switch *sw, struct simib_port *in, struct simib_packet *packet)
{
	struct ib_mad *mad = (struct ib_mad *)packet->payload;
	u8 method = mad->mad_hdr.method;

	if (packet->length != sizeof(*mad))
		return;
	if (packet->smp) {
		if (simib_switch_sma(sw, in->number, (struct ib_smp *)mad))
			simib_to_sender(in, packet);
	} else if (packet->dst_qpn == 1 && mad->mad_hdr.mgmt_class == IB_MGMT_CLASS_PERF_MGMT &&
		   (method == IB_MGMT_METHOD_GET || method == IB_MGMT_METHOD_SET)) {
		/* All attributes have the port number at the same place as PortCounters. */
		const u8 port = mad->data[40 + 1];

		simib_answer((struct ib_smp *)mad, port <= sw->port_count ? simib_pma(&sw->ports[port], mad) :
							IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);
		simib_to_sender(in, packet);
	}
}

static void simib_switch_smp(struct simib_switch *sw, struct simib_port *in, struct simib_packet *packet)
{
	struct ib_smp *smp = (struct ib_smp *)packet->payload;

	if (packet->length != sizeof(*smp) || READ_ONCE(in->state) < IB_PORT_INIT)
		return;
	if (packet->dlid != SIMIB_LID_PERMISSIVE)
		simib_forward_unicast(sw, in, packet);
	else if (smp->mgmt_class != IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		simib_switch_consume(sw, in, packet);	/* IBA 14.2.1.1: the permissive LID addresses the node that receives it */
	else if (ib_get_smp_direction(smp))
		simib_route_back(sw, packet, smp);
	else
		simib_route_out(sw, in, packet, smp);
}

/* A packet from an adapter's cable. */
void simib_switch_ingress(struct simib_port *in, struct simib_packet *packet)
{
	struct simib_switch *sw = simib_switch_of();

	simib_count_packet(in, packet, false);
	if (packet->dlid == READ_ONCE(sw->ports[0].lid)) {
		simib_switch_consume(sw, in, packet);
		return;
	}
	if (packet->smp) {
		simib_switch_smp(sw, in, packet);
		return;
	}
	if (READ_ONCE(in->state) != IB_PORT_ACTIVE) {
		simib_drop(in->peer->adapter, SIMIB_DROP_switch_port_down);
		return;
	}
	if (!simib_switch_admits(in, packet, SIMIB_ENFORCE_IN)) {
		simib_drop(in->peer->adapter, SIMIB_DROP_switch_pkey);
		simib_count(in, SIMIB_RCV_CONSTRAINT);
		return;
	}
	if (simib_is_multicast_lid(packet->dlid))
		simib_forward_multicast(sw, in, packet);
	else
		simib_forward_unicast(sw, in, packet);
}

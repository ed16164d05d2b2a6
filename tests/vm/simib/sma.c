// SPDX-License-Identifier: GPL-2.0
/*
 * Subnet management agent: the attributes of ports, of adapters and of the switch (PortInfo, P_KeyTable, GUIDInfo), and the
 * agent of an adapter. IBA 14.2.5.
 */
#include "simib.h"

#define SIMIB_WIDTH_1X_4X	3	/* PortInfo.LinkWidthSupported */
#define SIMIB_WIDTH_4X		2
#define SIMIB_SPEED_ALL		7	/* LinkSpeedSupported: SDR, DDR, QDR */
#define SIMIB_SPEED_QDR		4
#define SIMIB_VL0		1	/* VLCap, OperationalVLs */
#define SIMIB_RESPONSE_TIME	18	/* 4.096 us << 18: about a second */
#define SIMIB_ENFORCE_IN	0x8	/* PartitionEnforcementInbound, Outbound */
#define SIMIB_ENFORCE_OUT	0x4
#define SIMIB_CLIENT_REREGISTER	0x80

void simib_port_init(struct simib_port *port, u8 number, int node)
{
	port->number = number;
	port->state = IB_PORT_DOWN;
	port->mtu_cap = simib_fabric->mtu;
	port->neighbor_mtu = simib_fabric->mtu;
	port->gid_prefix = SIMIB_DEFAULT_PREFIX;
	port->guids[0] = simib_port_guid(node);
	port->pkeys[0] = 0xffff;	/* IBA 10.9.2: until a subnet manager sets it */
	port->cap_mask = IB_PORT_TRAP_SUP | IB_PORT_SYS_IMAGE_GUID_SUP;
	if (node != SIMIB_SWITCH_NODE)
		port->cap_mask |= IB_PORT_CLIENT_REG_SUP | IB_PORT_CAP_MASK_NOTICE_SUP | IB_PORT_OTHER_LOCAL_CHANGES_SUP;
}

static u8 simib_phys_state(const struct simib_port *port)
{
	if (port->disabled)
		return IB_PORT_PHYS_STATE_DISABLED;
	return simib_link_is_up(port) ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_POLLING;
}

/* IBA 14.2.5.6. `arrived_on` is the port that received the request. */
u16 simib_get_port_info(struct simib_port *port, u8 arrived_on, struct ib_smp *smp)
{
	struct ib_port_info *info = (struct ib_port_info *)smp->data;

	memset(info, 0, sizeof(smp->data));
	info->mkey = port->mkey;
	info->gid_prefix = port->gid_prefix;
	info->lid = cpu_to_be16(port->lid);
	info->sm_lid = cpu_to_be16(port->sm_lid);
	info->cap_mask = cpu_to_be32(port->cap_mask);
	info->mkey_lease_period = cpu_to_be16(port->mkey_lease);
	info->local_port_num = arrived_on;
	info->link_width_enabled = SIMIB_WIDTH_1X_4X;
	info->link_width_supported = SIMIB_WIDTH_1X_4X;
	info->link_width_active = SIMIB_WIDTH_4X;
	info->linkspeed_portstate = SIMIB_SPEED_ALL << 4 | port->state;
	info->portphysstate_linkdown = simib_phys_state(port) << 4 | IB_PORT_PHYS_STATE_POLLING;
	info->mkeyprot_resv_lmc = port->mkey_protection << 6 | port->lmc;
	info->linkspeedactive_enabled = SIMIB_SPEED_QDR << 4 | SIMIB_SPEED_ALL;
	info->neighbormtu_mastersmsl = port->neighbor_mtu << 4 | port->sm_sl;
	info->vlcap_inittype = SIMIB_VL0 << 4 | port->init_type;
	info->vl_high_limit = port->vl_high_limit;
	info->inittypereply_mtucap = port->mtu_cap;
	info->vlstallcnt_hoqlife = port->vl_stall_hoq_life;
	info->operationalvl_pei_peo_fpi_fpo = SIMIB_VL0 << 4 | port->enforce;
	info->pkey_violations = cpu_to_be16(min(atomic_read(&port->pkey_violations), 0xffff));
	info->qkey_violations = cpu_to_be16(min(atomic_read(&port->qkey_violations), 0xffff));
	info->guid_cap = port->adapter || !port->number ? SIMIB_GUIDS : 0;
	info->clientrereg_resv_subnetto = port->subnet_timeout;
	info->resv_resptimevalue = SIMIB_RESPONSE_TIME;
	info->localphyerrors_overrunerrors = port->error_thresholds;
	return 0;
}

static void simib_notify(struct simib_port *port, enum ib_event_type event)
{
	if (port->adapter)
		simib_dispatch(port->adapter, event);
}

/* IBA 14.2.5.6 PortState: from Down to Initialize by itself, then as the subnet manager sets it. False: not allowed now. */
static bool simib_may_set_state(const struct simib_port *port, u8 state)
{
	switch (state) {
	case IB_PORT_NOP:
	case IB_PORT_DOWN:
		return true;
	case IB_PORT_ARMED:
		return port->state == IB_PORT_INIT || port->state == IB_PORT_ARMED;
	case IB_PORT_ACTIVE:
		return port->state == IB_PORT_ARMED || port->state == IB_PORT_ACTIVE;
	default:
		return false;
	}
}

static struct simib_adapter *simib_cable_of(struct simib_port *port)
{
	return port->adapter ?: port->peer->adapter;
}

/* A link that is set to Down retrains at once, unless an end is disabled, and is then in Initialize. */
static void simib_bounce(struct simib_port *port)
{
	const bool disabled = port->disabled;

	port->disabled = true;
	simib_cable_update(simib_cable_of(port));
	port->disabled = disabled;
	simib_cable_update(simib_cable_of(port));
}

static void simib_set_state(struct simib_port *port, u8 state)
{
	if (state == IB_PORT_DOWN) {
		simib_bounce(port);
	} else if (state != IB_PORT_NOP && state != port->state) {
		WRITE_ONCE(port->state, state);
		if (state == IB_PORT_ACTIVE)
			simib_notify(port, IB_EVENT_PORT_ACTIVE);
	}
}

static void simib_set_phys_state(struct simib_port *port, u8 phys_state)
{
	if (phys_state != IB_PORT_PHYS_STATE_POLLING && phys_state != IB_PORT_PHYS_STATE_DISABLED)
		return;
	port->disabled = phys_state == IB_PORT_PHYS_STATE_DISABLED;
	simib_cable_update(simib_cable_of(port));
}

/* The settings of an endport, which external ports of a switch do not have. */
static u16 simib_set_endport_info(struct simib_port *port, const struct ib_port_info *info)
{
	const u16 lid = be16_to_cpu(info->lid), sm_lid = be16_to_cpu(info->sm_lid);
	const u8 lmc = info->mkeyprot_resv_lmc & 7, sm_sl = info->neighbormtu_mastersmsl & 0xf;

	if (!lid || lid >= SIMIB_MLID_BASE || !sm_lid || sm_lid >= SIMIB_MLID_BASE)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (port->gid_prefix != info->gid_prefix) {
		WRITE_ONCE(port->gid_prefix, info->gid_prefix);
		simib_notify(port, IB_EVENT_GID_CHANGE);
	}
	if (port->lid != lid || port->lmc != lmc) {
		WRITE_ONCE(port->lid, lid);
		WRITE_ONCE(port->lmc, lmc);
		simib_notify(port, IB_EVENT_LID_CHANGE);
	}
	if (port->sm_lid != sm_lid || port->sm_sl != sm_sl) {
		port->sm_lid = sm_lid;
		port->sm_sl = sm_sl;
		simib_notify(port, IB_EVENT_SM_CHANGE);
	}
	port->subnet_timeout = info->clientrereg_resv_subnetto & 0x1f;
	port->init_type = info->vlcap_inittype & 0xf;
	if (info->clientrereg_resv_subnetto & SIMIB_CLIENT_REREGISTER)
		simib_notify(port, IB_EVENT_CLIENT_REREGISTER);
	return 0;
}

static void simib_set_link_info(struct simib_port *port, const struct ib_port_info *info)
{
	const u8 mtu = info->neighbormtu_mastersmsl >> 4;

	port->mkey = info->mkey;
	port->mkey_lease = be16_to_cpu(info->mkey_lease_period);
	port->mkey_protection = info->mkeyprot_resv_lmc >> 6;
	port->vl_high_limit = info->vl_high_limit;
	port->vl_stall_hoq_life = info->vlstallcnt_hoqlife;
	port->error_thresholds = info->localphyerrors_overrunerrors;
	if (mtu >= IB_MTU_256 && mtu <= port->mtu_cap)
		WRITE_ONCE(port->neighbor_mtu, mtu);
	if (!port->adapter)
		WRITE_ONCE(port->enforce, info->operationalvl_pei_peo_fpi_fpo & (SIMIB_ENFORCE_IN | SIMIB_ENFORCE_OUT));
	if (!info->pkey_violations)
		atomic_set(&port->pkey_violations, 0);
	if (!info->qkey_violations)
		atomic_set(&port->qkey_violations, 0);
}

u16 simib_set_port_info(struct simib_port *port, u8 arrived_on, struct ib_smp *smp)
{
	const struct ib_port_info info = *(struct ib_port_info *)smp->data;
	const u8 state = info.linkspeed_portstate & 0xf;
	const bool is_endport = port->adapter || !port->number;
	u16 status = 0;

	if (!simib_may_set_state(port, state))
		status = IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (!status && is_endport)
		status = simib_set_endport_info(port, &info);
	if (!status) {
		simib_set_link_info(port, &info);
		if (port->peer) {
			simib_set_phys_state(port, info.portphysstate_linkdown >> 4);
			simib_set_state(port, state);
		}
	}
	simib_get_port_info(port, arrived_on, smp);
	((struct ib_port_info *)smp->data)->clientrereg_resv_subnetto |= info.clientrereg_resv_subnetto & SIMIB_CLIENT_REREGISTER;
	return status;
}

/* IBA 14.2.5.7, blocks of 32. */
u16 simib_get_pkeys(struct simib_port *port, u16 block, struct ib_smp *smp)
{
	__be16 *pkeys = (__be16 *)smp->data;
	int i;

	if (block >= SIMIB_PKEYS / SIMIB_PKEYS_PER_BLOCK)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	for (i = 0; i < SIMIB_PKEYS_PER_BLOCK; i++)
		pkeys[i] = cpu_to_be16(port->pkeys[block * SIMIB_PKEYS_PER_BLOCK + i]);
	return 0;
}

u16 simib_set_pkeys(struct simib_port *port, u16 block, struct ib_smp *smp)
{
	const __be16 *pkeys = (__be16 *)smp->data;
	bool changed = false;
	int i;

	if (block >= SIMIB_PKEYS / SIMIB_PKEYS_PER_BLOCK)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	for (i = 0; i < SIMIB_PKEYS_PER_BLOCK; i++) {
		u16 *entry = &port->pkeys[block * SIMIB_PKEYS_PER_BLOCK + i];

		changed |= *entry != be16_to_cpu(pkeys[i]);
		WRITE_ONCE(*entry, be16_to_cpu(pkeys[i]));
	}
	if (changed)
		simib_notify(port, IB_EVENT_PKEY_CHANGE);
	return 0;
}

/* IBA 14.2.5.5: one block of eight. */
u16 simib_get_guids(struct simib_port *port, struct ib_smp *smp)
{
	if (smp->attr_mod)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	memcpy(smp->data, port->guids, sizeof(port->guids));
	return 0;
}

/* The first GUID is the port's own, and read-only. */
static u16 simib_set_guids(struct simib_port *port, struct ib_smp *smp)
{
	const __be64 *guids = (__be64 *)smp->data;
	int i;

	if (smp->attr_mod)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	for (i = 1; i < SIMIB_GUIDS; i++)
		WRITE_ONCE(port->guids[i], guids[i]);
	simib_notify(port, IB_EVENT_GID_CHANGE);
	return simib_get_guids(port, smp);
}

/* IBA 14.2.5.3. */
void simib_fill_node_info(struct ib_node_info *info, u8 type, u8 ports, int node, u8 arrived_on)
{
	memset(info, 0, IB_SMP_DATA_SIZE);
	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	info->node_type = type;
	info->num_ports = ports;
	info->sys_guid = simib_node_guid(node);
	info->node_guid = simib_node_guid(node);
	info->port_guid = simib_port_guid(node);
	info->partition_cap = cpu_to_be16(SIMIB_PKEYS);
	info->local_port_num = arrived_on;
}

static u16 simib_adapter_get(struct simib_adapter *adapter, struct ib_smp *smp)
{
	switch (smp->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		memcpy(smp->data, adapter->ibdev.node_desc, IB_SMP_DATA_SIZE);
		return 0;
	case IB_SMP_ATTR_NODE_INFO:
		simib_fill_node_info((struct ib_node_info *)smp->data, RDMA_NODE_IB_CA, 1, adapter->index, 1);
		return 0;
	case IB_SMP_ATTR_PORT_INFO:
		return simib_get_port_info(&adapter->port, 1, smp);
	case IB_SMP_ATTR_PKEY_TABLE:
		return simib_get_pkeys(&adapter->port, be32_to_cpu(smp->attr_mod), smp);
	case IB_SMP_ATTR_GUID_INFO:
		return simib_get_guids(&adapter->port, smp);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}

static u16 simib_adapter_set(struct simib_adapter *adapter, struct ib_smp *smp)
{
	switch (smp->attr_id) {
	case IB_SMP_ATTR_PORT_INFO:
		return simib_set_port_info(&adapter->port, 1, smp);
	case IB_SMP_ATTR_PKEY_TABLE:
		return simib_set_pkeys(&adapter->port, be32_to_cpu(smp->attr_mod), smp);
	case IB_SMP_ATTR_GUID_INFO:
		return simib_set_guids(&adapter->port, smp);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}

/* Answers in place. */
u16 simib_adapter_sma(struct simib_adapter *adapter, struct ib_smp *smp)
{
	if (smp->class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	if (smp->method == IB_MGMT_METHOD_GET)
		return simib_adapter_get(adapter, smp);
	return simib_adapter_set(adapter, smp);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Traps to the subnet manager, IBA 13.4.9 and 14.2.5.1: 128 (a link of the switch changed its state) and 144 (a port's
 * capability mask or a node's description changed). Each node repeats its last trap until it is repressed.
 */
#include "simib.h"

#define SIMIB_TRAP_LINK_STATE		128
#define SIMIB_TRAP_LOCAL_CHANGE		144
#define SIMIB_TRAP_TRIES		5
#define SIMIB_TRAP_INTERVAL		HZ

#define SIMIB_NOTICE_GENERIC		0x80
#define SIMIB_NOTICE_URGENT		1
#define SIMIB_NOTICE_INFORMATIONAL	4

struct simib_notice {
	u8 generic_type;
	u8 producer[3];			/* enum rdma_node_type has IBA's numbers */
	__be16 trap_number;
	__be16 issuer_lid;
	__be16 toggle_count;
	union {
		struct {
			__be16 lid;
		} __packed link_state;
		struct {
			__be16 reserved;
			__be16 lid;
			u8 reserved2;
			u8 other_local_changes;
			__be32 capability_mask;
			u8 reserved3;
			u8 change_flags;
		} __packed local_change;
		u8 details[54];
	};
} __packed;

/* Sends the trap through the cable, or through the switch's own forwarding table, and schedules its repetition. */
static void simib_send_trap(struct simib_port *port, struct ib_smp *smp, u16 sm_lid, u8 sm_sl)
{
	struct simib_packet packet = {
		.slid = port->lid,
		.dlid = sm_lid,
		.sl = sm_sl,
		.smp = true,
		.pkey = 0xffff,
		.length = sizeof(*smp),
		.payload = (u8 *)smp,
	};
	u8 out;

	local_bh_disable();
	rcu_read_lock();
	if (port->adapter) {
		simib_transmit(port->adapter, &packet);
	} else {
		out = READ_ONCE(simib_fabric->sw.lft[sm_lid]);
		if (out >= 1 && out <= simib_fabric->sw.port_count)
			simib_switch_egress(&simib_fabric->sw.ports[out], &packet);
	}
	rcu_read_unlock();
	local_bh_enable();
}

static void simib_trap_work(struct work_struct *work)
{
	struct simib_trap *trap = container_of(to_delayed_work(work), struct simib_trap, work);
	struct simib_notice *notice;
	struct ib_smp smp;
	u16 sm_lid;
	u8 sm_sl;

	spin_lock_irq(&simib_fabric->lock);
	if (!trap->tries_left) {
		spin_unlock_irq(&simib_fabric->lock);
		return;
	}
	trap->tries_left--;
	smp = trap->smp;
	sm_lid = trap->port->sm_lid;
	sm_sl = trap->port->sm_sl;
	notice = (struct simib_notice *)smp.data;
	notice->issuer_lid = cpu_to_be16(trap->port->lid);
	if (trap->port->adapter)
		notice->local_change.lid = notice->issuer_lid;
	else
		notice->link_state.lid = notice->issuer_lid;
	schedule_delayed_work(&trap->work, SIMIB_TRAP_INTERVAL);
	spin_unlock_irq(&simib_fabric->lock);
	/* Without a subnet manager's LID only retry later: a subnet manager may appear. */
	if (sm_lid)
		simib_send_trap(trap->port, &smp, sm_lid, sm_sl);
}

void simib_trap_init(struct simib_trap *trap, struct simib_port *port)
{
	INIT_DELAYED_WORK(&trap->work, simib_trap_work);
	trap->port = port;
}

void simib_trap_stop(struct simib_trap *trap)
{
	spin_lock_irq(&simib_fabric->lock);
	trap->tries_left = 0;
	spin_unlock_irq(&simib_fabric->lock);
	cancel_delayed_work_sync(&trap->work);
}

/* A newer trap replaces one that is still being repeated: both make the subnet manager sweep. */
static struct simib_notice *simib_raise(struct simib_trap *trap, u16 number, u8 type, u8 producer)
{
	struct ib_smp *smp = &trap->smp;
	struct simib_notice *notice = (struct simib_notice *)smp->data;

	lockdep_assert_held(&simib_fabric->lock);
	memset(smp, 0, sizeof(*smp));
	smp->base_version = IB_MGMT_BASE_VERSION;
	smp->mgmt_class = IB_MGMT_CLASS_SUBN_LID_ROUTED;
	smp->class_version = 1;
	smp->method = IB_MGMT_METHOD_TRAP;
	smp->tid = cpu_to_be64(++trap->tid);
	smp->attr_id = IB_SMP_ATTR_NOTICE;
	notice->generic_type = SIMIB_NOTICE_GENERIC | type;
	notice->producer[2] = producer;
	notice->trap_number = cpu_to_be16(number);
	trap->tries_left = SIMIB_TRAP_TRIES;
	mod_delayed_work(system_wq, &trap->work, 0);
	return notice;
}

void simib_trap_link_state(struct simib_switch *sw)
{
	sw->port_state_change = true;
	simib_raise(&sw->trap, SIMIB_TRAP_LINK_STATE, SIMIB_NOTICE_URGENT, RDMA_NODE_IB_SWITCH);
}

void simib_trap_local_change(struct simib_adapter *adapter, bool description)
{
	struct simib_notice *notice =
		simib_raise(&adapter->trap, SIMIB_TRAP_LOCAL_CHANGE, SIMIB_NOTICE_INFORMATIONAL, RDMA_NODE_IB_CA);

	notice->local_change.other_local_changes = description;
	notice->local_change.capability_mask = cpu_to_be32(adapter->port.cap_mask);
	notice->local_change.change_flags = description ? IB_NOTICE_TRAP_NODE_DESC_CHG : 0;
}

void simib_trap_repress(struct simib_trap *trap, const struct ib_smp *repress)
{
	unsigned long flags;

	spin_lock_irqsave(&simib_fabric->lock, flags);
	if (repress->tid == trap->smp.tid)
		trap->tries_left = 0;
	spin_unlock_irqrestore(&simib_fabric->lock, flags);
}

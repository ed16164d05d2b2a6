// SPDX-License-Identifier: GPL-2.0
/*
 * The channel adapter as the RDMA core sees it: capabilities, its port, its table of operations.
 *
 * In user space libibverbs selects the provider for RDMA_DRIVER_QIB, libipathverbs. With ABI 1 that makes every verb a system
 * call, so no queue is shared with user space, and no memory mapped.
 */
#include <linux/module.h>
#include <rdma/uverbs_ioctl.h>

#include "simib.h"

#define SIMIB_UVERBS_ABI	1
#define SIMIB_VENDOR		0x534942	/* "SIB" */

static int simib_query_device(struct ib_device *ibdev, struct ib_device_attr *attr, struct ib_udata *udata)
{
	if (udata->inlen || udata->outlen)
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1ull << 32;
	attr->sys_image_guid = ibdev->node_guid;
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = PAGE_SIZE;
	attr->vendor_id = SIMIB_VENDOR;
	attr->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_BAD_QKEY_CNTR | IB_DEVICE_SHUTDOWN_PORT |
				 IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_SYS_IMAGE_GUID;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY | IBK_BLOCK_MULTICAST_LOOPBACK;
	attr->max_qp = SIMIB_MAX_QPS;
	attr->max_qp_wr = SIMIB_MAX_QP_WR;
	attr->max_send_sge = SIMIB_MAX_SGE;
	attr->max_recv_sge = SIMIB_MAX_SGE;
	attr->max_cq = SIMIB_MAX_QPS;
	attr->max_cqe = SIMIB_MAX_CQE;
	attr->max_mr = SIMIB_MAX_MRS;
	attr->max_pd = SIMIB_MAX_QPS;
	attr->max_mcast_grp = SIMIB_MAX_MCAST;
	attr->max_mcast_qp_attach = SIMIB_MAX_QPS;
	attr->max_total_mcast_qp_attach = SIMIB_MAX_MCAST;
	attr->max_ah = SIMIB_MAX_MRS;
	attr->max_pkeys = SIMIB_PKEYS;
	return 0;
}

static int simib_query_port(struct ib_device *ibdev, u32 port_num, struct ib_port_attr *attr)
{
	struct simib_port *port = &to_adapter(ibdev)->port;
	unsigned long flags;

	spin_lock_irqsave(&simib_fabric->lock, flags);
	attr->state = port->state;
	attr->phys_state = port->disabled ? IB_PORT_PHYS_STATE_DISABLED :
			   simib_link_is_up(port) ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_POLLING;
	attr->max_mtu = port->mtu_cap;
	attr->active_mtu = port->neighbor_mtu;
	attr->lid = port->lid;
	attr->lmc = port->lmc;
	attr->sm_lid = port->sm_lid;
	attr->sm_sl = port->sm_sl;
	attr->port_cap_flags = port->cap_mask;
	attr->subnet_timeout = port->subnet_timeout;
	attr->init_type_reply = 0;
	spin_unlock_irqrestore(&simib_fabric->lock, flags);
	attr->gid_tbl_len = SIMIB_GUIDS;
	attr->pkey_tbl_len = SIMIB_PKEYS;
	attr->max_msg_sz = ib_mtu_enum_to_int(port->mtu_cap);
	attr->bad_pkey_cntr = atomic_read(&port->pkey_violations);
	attr->qkey_viol_cntr = atomic_read(&port->qkey_violations);
	attr->max_vl_num = 1;	/* VL0, IBA 14.2.5.6 VLCap */
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_QDR;
	return 0;
}

static int simib_get_port_immutable(struct ib_device *ibdev, u32 port_num, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = SIMIB_GUIDS;
	immutable->pkey_tbl_len = SIMIB_PKEYS;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer simib_get_link_layer(struct ib_device *ibdev, u32 port_num)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int simib_query_gid(struct ib_device *ibdev, u32 port_num, int index, union ib_gid *gid)
{
	struct simib_port *port = &to_adapter(ibdev)->port;

	if (index < 0 || index >= SIMIB_GUIDS)
		return -EINVAL;
	gid->global.subnet_prefix = READ_ONCE(port->gid_prefix);
	gid->global.interface_id = READ_ONCE(port->guids[index]);
	return 0;
}

static int simib_query_pkey(struct ib_device *ibdev, u32 port_num, u16 index, u16 *pkey)
{
	if (index >= SIMIB_PKEYS)
		return -EINVAL;
	*pkey = READ_ONCE(to_adapter(ibdev)->port.pkeys[index]);
	return 0;
}

/* IBA 14.3.8: trap 144 reports the change to the subnet manager. */
static int simib_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *modify)
{
	unsigned long flags;

	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC) {
		spin_lock_irqsave(&simib_fabric->lock, flags);
		memcpy(ibdev->node_desc, modify->node_desc, IB_DEVICE_NODE_DESC_MAX);
		simib_trap_local_change(to_adapter(ibdev), true);
		spin_unlock_irqrestore(&simib_fabric->lock, flags);
	}
	return 0;
}

static int simib_modify_port(struct ib_device *ibdev, u32 port_num, int mask, struct ib_port_modify *modify)
{
	struct simib_adapter *adapter = to_adapter(ibdev);
	struct simib_port *port = &adapter->port;
	unsigned long flags;
	u32 before;

	spin_lock_irqsave(&simib_fabric->lock, flags);
	before = port->cap_mask;
	port->cap_mask |= modify->set_port_cap_mask;
	port->cap_mask &= ~modify->clr_port_cap_mask;
	if (port->cap_mask != before)
		simib_trap_local_change(adapter, false);
	if (mask & IB_PORT_SHUTDOWN) {
		port->disabled = true;
		simib_cable_update(adapter);
	}
	if (mask & IB_PORT_RESET_QKEY_CNTR)
		atomic_set(&port->qkey_violations, 0);
	spin_unlock_irqrestore(&simib_fabric->lock, flags);
	return 0;
}

static int simib_alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

static void simib_dealloc_ucontext(struct ib_ucontext *context)
{
}

/*
 * Nothing to do: the core destroys the user's objects and raises IB_EVENT_DEVICE_FATAL, and no memory is mapped. The core
 * requires this operation to unload a module while users have the device open.
 */
static void simib_disassociate_ucontext(struct ib_ucontext *context)
{
}

/* Optional in IBA 10.2.9, but libipathverbs' table of operations includes shared receive queues. */
static int simib_create_srq(struct ib_srq *srq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int simib_destroy_srq(struct ib_srq *srq, struct ib_udata *udata)
{
	return 0;
}

static void simib_get_fw_str(struct ib_device *ibdev, char *text)
{
	strscpy(text, "1.0.0", IB_FW_VERSION_NAME_MAX);
}

static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "simib\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "0\n");
}
static DEVICE_ATTR_RO(hw_rev);

static struct attribute *simib_attributes[] = {
	&dev_attr_hca_type.attr,
	&dev_attr_hw_rev.attr,
	NULL,
};

static const struct attribute_group simib_attribute_group = {
	.attrs = simib_attributes,
};

static const struct ib_device_ops simib_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_QIB,
	.uverbs_abi_ver = SIMIB_UVERBS_ABI,
	.device_group = &simib_attribute_group,

	.query_device = simib_query_device,
	.modify_device = simib_modify_device,
	.get_dev_fw_str = simib_get_fw_str,
	.query_port = simib_query_port,
	.modify_port = simib_modify_port,
	.get_port_immutable = simib_get_port_immutable,
	.get_link_layer = simib_get_link_layer,
	.query_gid = simib_query_gid,
	.query_pkey = simib_query_pkey,
	.process_mad = simib_process_mad,

	.alloc_ucontext = simib_alloc_ucontext,
	.dealloc_ucontext = simib_dealloc_ucontext,
	.disassociate_ucontext = simib_disassociate_ucontext,

	.alloc_pd = simib_alloc_pd,
	.dealloc_pd = simib_dealloc_pd,
	.create_ah = simib_create_ah,
	.create_user_ah = simib_create_ah,
	.query_ah = simib_query_ah,
	.destroy_ah = simib_destroy_ah,
	.get_dma_mr = simib_get_dma_mr,
	.reg_user_mr = simib_reg_user_mr,
	.dereg_mr = simib_dereg_mr,
	.create_srq = simib_create_srq,
	.destroy_srq = simib_destroy_srq,

	.create_cq = simib_create_cq,
	.destroy_cq = simib_destroy_cq,
	.resize_cq = simib_resize_cq,
	.poll_cq = simib_poll_cq,
	.req_notify_cq = simib_req_notify_cq,

	.create_qp = simib_create_qp,
	.modify_qp = simib_modify_qp,
	.query_qp = simib_query_qp,
	.destroy_qp = simib_destroy_qp,
	.post_send = simib_post_send,
	.post_recv = simib_post_recv,
	.attach_mcast = simib_attach_mcast,
	.detach_mcast = simib_detach_mcast,

	INIT_RDMA_OBJ_SIZE(ib_ah, simib_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, simib_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, simib_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, simib_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, simib_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, simib_ucontext, ibucontext),
};

/* Verbs that user space may call, in addition to those that the core allows for every device. */
static const u64 simib_user_verbs = BIT_ULL(IB_USER_VERBS_CMD_POLL_CQ) | BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ) |
				    BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) | BIT_ULL(IB_USER_VERBS_CMD_POST_RECV);

static void simib_init_ibdev(struct simib_adapter *adapter)
{
	struct ib_device *ibdev = &adapter->ibdev;

	ib_set_device_ops(ibdev, &simib_ops);
	ibdev->uverbs_cmd_mask |= simib_user_verbs;
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->node_guid = simib_node_guid(adapter->index);
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = 1;
	ibdev->local_dma_lkey = 0;
	ibdev->dev.parent = simib_fabric->bus;
	snprintf(ibdev->node_desc, sizeof(ibdev->node_desc), "simib%d", adapter->index);
}

/* Returns NULL if out of memory. */
struct simib_adapter *simib_create_adapter(int index)
{
	struct simib_adapter *adapter = ib_alloc_device(simib_adapter, ibdev);

	if (!adapter)
		return NULL;
	adapter->index = index;
	adapter->port.adapter = adapter;
	simib_port_init(&adapter->port, 1, index);
	simib_init_ibdev(adapter);
	INIT_WORK(&adapter->send_work, simib_send_work);
	spin_lock_init(&adapter->send_lock);
	INIT_LIST_HEAD(&adapter->send_list);
	xa_init_flags(&adapter->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&adapter->mrs, XA_FLAGS_ALLOC1);
	mutex_init(&adapter->mcast_lock);
	hash_init(adapter->mcast);
	simib_trap_init(&adapter->trap, &adapter->port);
	adapter->packet = kmalloc(SIMIB_MAX_MTU, GFP_KERNEL);
	adapter->workqueue = alloc_ordered_workqueue("simib%d", WQ_HIGHPRI | WQ_MEM_RECLAIM, index);
	if (!adapter->packet || !adapter->workqueue) {
		simib_destroy_adapter(adapter);
		return NULL;
	}
	return adapter;
}

int simib_register_adapter(struct simib_adapter *adapter)
{
	return ib_register_device(&adapter->ibdev, "simib%d", NULL);
}

/* The adapter is unregistered, and no sender delivers to it any more. */
void simib_destroy_adapter(struct simib_adapter *adapter)
{
	if (adapter->workqueue)
		destroy_workqueue(adapter->workqueue);
	kfree(adapter->packet);
	xa_destroy(&adapter->qps);
	xa_destroy(&adapter->mrs);
	ib_dealloc_device(&adapter->ibdev);
}

/* Any context: the core calls its clients later, from its own workqueue. */
void simib_dispatch(struct simib_adapter *adapter, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &adapter->ibdev,
		.element.port_num = 1,
		.event = type,
	};

	ib_dispatch_event(&event);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Multicast attachments: which queue pairs of an adapter receive which group, IBA 10.5.2.
 */
#include <linux/jhash.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "simib.h"

struct simib_attachment {
	struct hlist_node node;
	struct rcu_head rcu;
	union ib_gid mgid;
	u16 mlid;
	struct simib_qp *qp;
};

static u32 simib_mcast_hash(const union ib_gid *mgid)
{
	return jhash(mgid, sizeof(*mgid), 0);
}

static bool simib_is_group(const struct simib_attachment *attachment, const union ib_gid *mgid, u16 mlid)
{
	return attachment->mlid == mlid && !memcmp(&attachment->mgid, mgid, sizeof(*mgid));
}

/* Requires mcast_lock. */
static struct simib_attachment *simib_find_attachment(struct simib_adapter *adapter, struct simib_qp *qp,
						      const union ib_gid *mgid, u16 mlid)
{
	struct simib_attachment *attachment;

	hash_for_each_possible(adapter->mcast, attachment, node, simib_mcast_hash(mgid))
		if (attachment->qp == qp && simib_is_group(attachment, mgid, mlid))
			return attachment;
	return NULL;
}

static int simib_add_attachment(struct simib_adapter *adapter, struct simib_qp *qp, const union ib_gid *mgid, u16 mlid)
{
	struct simib_attachment *attachment;

	if (adapter->mcast_count >= SIMIB_MAX_MCAST)
		return -ENOMEM;
	attachment = kzalloc(sizeof(*attachment), GFP_KERNEL);
	if (!attachment)
		return -ENOMEM;
	attachment->mgid = *mgid;
	attachment->mlid = mlid;
	attachment->qp = qp;
	hash_add_rcu(adapter->mcast, &attachment->node, simib_mcast_hash(mgid));
	adapter->mcast_count++;
	return 0;
}

static void simib_remove_attachment(struct simib_adapter *adapter, struct simib_attachment *attachment)
{
	hash_del_rcu(&attachment->node);
	adapter->mcast_count--;
	kfree_rcu(attachment, rcu);
}

/* A second, equal attachment changes nothing. */
int simib_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct simib_adapter *adapter = to_adapter(ibqp->device);
	struct simib_qp *qp = to_qp(ibqp);
	int ret = 0;

	if (gid->raw[0] != 0xff || !simib_is_multicast_lid(lid))
		return -EINVAL;
	mutex_lock(&adapter->mcast_lock);
	if (!simib_find_attachment(adapter, qp, gid, lid))
		ret = simib_add_attachment(adapter, qp, gid, lid);
	mutex_unlock(&adapter->mcast_lock);
	return ret;
}

int simib_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct simib_adapter *adapter = to_adapter(ibqp->device);
	struct simib_attachment *attachment;

	mutex_lock(&adapter->mcast_lock);
	attachment = simib_find_attachment(adapter, to_qp(ibqp), gid, lid);
	if (attachment)
		simib_remove_attachment(adapter, attachment);
	mutex_unlock(&adapter->mcast_lock);
	return attachment ? 0 : -EINVAL;
}

/* For a queue pair that is being destroyed. The caller waits for a grace period afterwards. */
void simib_detach_all(struct simib_qp *qp)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);
	struct simib_attachment *attachment;
	struct hlist_node *next;
	int bucket;

	mutex_lock(&adapter->mcast_lock);
	hash_for_each_safe(adapter->mcast, bucket, next, attachment, node)
		if (attachment->qp == qp)
			simib_remove_attachment(adapter, attachment);
	mutex_unlock(&adapter->mcast_lock);
}

/* Calls deliver() for each queue pair that is attached to the packet's group. Returns false if there is none. */
bool simib_mcast_each(struct simib_adapter *adapter, const struct simib_packet *packet,
		      void (*deliver)(struct simib_qp *qp, const struct simib_packet *packet))
{
	struct simib_attachment *attachment;
	bool found = false;

	hash_for_each_possible_rcu(adapter->mcast, attachment, node, simib_mcast_hash(&packet->grh.dgid)) {
		if (!simib_is_group(attachment, &packet->grh.dgid, packet->dlid))
			continue;
		found = true;
		if (attachment->qp == packet->sender && attachment->qp->block_loopback)
			continue;
		deliver(attachment->qp, packet);
	}
	return found;
}

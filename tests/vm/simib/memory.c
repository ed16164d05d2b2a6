// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains, address handles, memory regions, and copies between them and a packet.
 *
 * The device does no DMA (ib_uses_virt_dma), so an address in a work request of the kernel is a kernel address, with the
 * local DMA key 0. A user's address is looked up in a region of pinned pages.
 */
#include <linux/mm.h>

#include "simib.h"

#define SIMIB_LOCAL_DMA_LKEY	0

int simib_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return 0;
}

int simib_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return 0;
}

/* IBA 8.3: the GRH, except length and source. */
static void simib_fill_grh_av(struct simib_av *av, const struct ib_global_route *grh)
{
	av->has_grh = true;
	av->sgid_index = grh->sgid_index;
	av->hop_limit = grh->hop_limit;
	av->dgid = grh->dgid;
	av->version_tclass_flow = cpu_to_be32(6u << 28 | grh->traffic_class << 20 | (grh->flow_label & 0xfffff));
}

int simib_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct simib_av *av = &container_of(ibah, struct simib_ah, ibah)->av;
	const struct rdma_ah_attr *attr = init->ah_attr;
	const u32 dlid = rdma_ah_get_dlid(attr);
	const bool has_grh = rdma_ah_get_ah_flags(attr) & IB_AH_GRH;

	/* Accept LID 0: the core makes a handle for the subnet manager before there is one. */
	if (attr->type != RDMA_AH_ATTR_TYPE_IB || dlid > SIMIB_LID_PERMISSIVE)
		return -EINVAL;
	if (has_grh && attr->grh.sgid_index >= SIMIB_GUIDS)
		return -EINVAL;
	/* IBA 9.6.1.5: a multicast packet has a GRH. */
	if (simib_is_multicast_lid(dlid) && !has_grh)
		return -EINVAL;
	av->dlid = dlid;
	av->sl = rdma_ah_get_sl(attr) & 0xf;
	av->path_bits = rdma_ah_get_path_bits(attr);
	if (has_grh)
		simib_fill_grh_av(av, rdma_ah_read_grh(attr));
	return 0;
}

/* For the MAD layer, which compares the source of an answer with the destination of the request. */
int simib_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	const struct simib_av *av = &container_of(ibah, struct simib_ah, ibah)->av;
	const u32 tclass_flow = be32_to_cpu(av->version_tclass_flow);

	memset(attr, 0, sizeof(*attr));
	attr->type = RDMA_AH_ATTR_TYPE_IB;
	rdma_ah_set_port_num(attr, 1);
	rdma_ah_set_dlid(attr, av->dlid);
	rdma_ah_set_sl(attr, av->sl);
	rdma_ah_set_path_bits(attr, av->path_bits);
	if (av->has_grh) {
		union ib_gid dgid = av->dgid;

		rdma_ah_set_grh(attr, &dgid, tclass_flow & 0xfffff, av->sgid_index, av->hop_limit, tclass_flow >> 20);
	}
	return 0;
}

/* No reference is left: work requests have copies. */
int simib_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}

static int simib_publish_mr(struct simib_adapter *adapter, struct simib_mr *mr)
{
	u32 key;
	int ret;

	ret = xa_alloc_cyclic(&adapter->mrs, &key, mr, XA_LIMIT(1, U32_MAX - 1), &adapter->next_key, GFP_KERNEL);
	if (ret < 0)
		return ret;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	return 0;
}

struct ib_mr *simib_get_dma_mr(struct ib_pd *pd, int access)
{
	struct simib_mr *mr;
	int ret;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->length = U64_MAX;
	mr->access = access;
	mr->ibmr.pd = pd;
	ret = simib_publish_mr(to_adapter(pd->device), mr);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

/* The kernel addresses of the region's pages; they are always mapped on architectures without high memory. */
static int simib_list_pages(struct simib_mr *mr)
{
	struct sg_page_iter iter;
	size_t n = 0;

	mr->pages = kvcalloc(ib_umem_num_pages(mr->umem), sizeof(*mr->pages), GFP_KERNEL_ACCOUNT);
	if (!mr->pages)
		return -ENOMEM;
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &iter, 0)
		mr->pages[n++] = page_address(sg_page_iter_page(&iter));
	return 0;
}

static void simib_free_mr(struct simib_mr *mr)
{
	kvfree(mr->pages);
	if (mr->umem)
		ib_umem_release(mr->umem);
	kfree(mr);
}

struct ib_mr *simib_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access, struct ib_udata *udata)
{
	struct simib_mr *mr;
	int ret;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->umem = ib_umem_get(pd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		ret = PTR_ERR(mr->umem);
		mr->umem = NULL;
		goto fail;
	}
	mr->iova = iova;
	mr->length = length;
	mr->access = access;
	mr->first_offset = ib_umem_offset(mr->umem);
	mr->ibmr.pd = pd;
	ret = simib_list_pages(mr);
	if (!ret)
		ret = simib_publish_mr(to_adapter(pd->device), mr);
	if (!ret)
		return &mr->ibmr;
fail:
	simib_free_mr(mr);
	return ERR_PTR(ret);
}

int simib_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct simib_mr *mr = container_of(ibmr, struct simib_mr, ibmr);

	xa_erase(&to_adapter(ibmr->device)->mrs, ibmr->lkey);
	synchronize_rcu_expedited();
	simib_free_mr(mr);
	return 0;
}

/* Copies from the packet to memory, or from memory to the packet. */
enum simib_direction { SIMIB_TO_MEMORY, SIMIB_FROM_MEMORY };

static void simib_copy_flat(void *memory, void *packet, u32 length, enum simib_direction direction)
{
	if (!packet)
		return;
	if (direction == SIMIB_TO_MEMORY)
		memcpy(memory, packet, length);
	else
		memcpy(packet, memory, length);
}

static void simib_copy_pages(const struct simib_mr *mr, u64 offset, u8 *packet, u32 length, enum simib_direction direction)
{
	offset += mr->first_offset;
	while (length) {
		const u32 in_page = offset & ~PAGE_MASK;
		const u32 chunk = min_t(u32, length, PAGE_SIZE - in_page);

		simib_copy_flat(mr->pages[offset >> PAGE_SHIFT] + in_page, packet, chunk, direction);
		if (packet)
			packet += chunk;
		offset += chunk;
		length -= chunk;
	}
}

/* IBA 10.6.3: checks the region's protection domain, its bounds, and the right to write. */
static struct simib_mr *simib_find_mr(struct ib_pd *pd, const struct ib_sge *sge, enum simib_direction direction)
{
	struct simib_mr *mr = xa_load(&to_adapter(pd->device)->mrs, sge->lkey);

	if (!mr || mr->ibmr.pd != pd)
		return NULL;
	if (direction == SIMIB_TO_MEMORY && !(mr->access & IB_ACCESS_LOCAL_WRITE))
		return NULL;
	if (sge->addr < mr->iova || sge->length > mr->length || sge->addr - mr->iova > mr->length - sge->length)
		return NULL;
	return mr;
}

static int simib_copy_sge(struct ib_pd *pd, const struct ib_sge *sge, u32 offset, u8 *packet, u32 length,
			  enum simib_direction direction)
{
	struct simib_mr *mr;

	if (sge->lkey == SIMIB_LOCAL_DMA_LKEY && !pd->uobject) {
		simib_copy_flat((void *)(uintptr_t)sge->addr + offset, packet, length, direction);
		return 0;
	}
	mr = simib_find_mr(pd, sge, direction);
	if (!mr)
		return -EFAULT;
	if (mr->umem)
		simib_copy_pages(mr, sge->addr - mr->iova + offset, packet, length, direction);
	else
		simib_copy_flat((void *)(uintptr_t)sge->addr + offset, packet, length, direction);
	return 0;
}

static int simib_copy(struct ib_pd *pd, struct simib_cursor *cursor, u8 *packet, u32 length, enum simib_direction direction)
{
	while (length) {
		u32 chunk;
		int ret;

		if (!cursor->left)
			return -EINVAL;
		chunk = min(length, cursor->sge->length - cursor->offset);
		if (chunk) {
			ret = simib_copy_sge(pd, cursor->sge, cursor->offset, packet, chunk, direction);
			if (ret)
				return ret;
		}
		length -= chunk;
		cursor->offset += chunk;
		if (packet)
			packet += chunk;
		if (cursor->offset == cursor->sge->length) {
			cursor->sge++;
			cursor->left--;
			cursor->offset = 0;
		}
	}
	return 0;
}

/* Call in an RCU read-side section. -EFAULT: bad key or address. */
int simib_gather(struct ib_pd *pd, struct simib_cursor *from, void *to, u32 length)
{
	return simib_copy(pd, from, to, length, SIMIB_FROM_MEMORY);
}

/* The same. With `from` NULL it skips the memory, but still checks it. */
int simib_scatter(struct ib_pd *pd, struct simib_cursor *to, const void *from, u32 length)
{
	return simib_copy(pd, to, (u8 *)from, length, SIMIB_TO_MEMORY);
}

/* The total length; at most U32_MAX. */
u32 simib_sge_length(const struct ib_sge *sge, u32 count)
{
	u64 length = 0;

	while (count--)
		length += sge++->length;
	return min_t(u64, length, U32_MAX);
}

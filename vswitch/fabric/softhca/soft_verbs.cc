// The verbs of the software HCA: they make and destroy the objects, and pass the rest to the port.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

#include "vswitch/fabric/softhca/soft_device.h"
#include "vswitch/fabric/softhca/soft_port.h"
#include "vswitch/fabric/softhca/soft_queries.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {
namespace {

SoftPort& Port(ibv_context* context) { return *AsSoft(context)->port; }

// A failed verb that returns a pointer leaves the reason in errno.
std::nullptr_t Fail(int error) {
  errno = error;
  return nullptr;
}

template <typename Object>
void InitLocks(Object* object) {
  pthread_mutex_init(&object->mutex, nullptr);
  pthread_cond_init(&object->cond, nullptr);
}
template <typename Object>
void DestroyLocks(Object* object) {
  pthread_mutex_destroy(&object->mutex);
  pthread_cond_destroy(&object->cond);
}

size_t PowerOfTwo(size_t at_least) {
  size_t power = 1;
  while (power < at_least) power *= 2;
  return power;
}

// ---- Protection domains and memory regions.

ibv_pd* AllocPd(ibv_context* context) {
  auto* pd = new SoftPd();
  pd->context = context;
  return pd;
}

int DeallocPd(ibv_pd* pd) {
  if (AsSoft(pd)->users.load() != 0) return EBUSY;
  delete AsSoft(pd);
  return 0;
}

ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length, int access) {
  const bool local_write = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  // IBA 1.4 §10.6.3.1: remote write and atomic access require local write access.
  if (!local_write && (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0)
    return Fail(EINVAL);
  auto* mr = new SoftMr();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->local_write = local_write;
  Port(pd->context).WithQueuePairs([mr](QueuePairs& queue_pairs) {
    queue_pairs.regions().Add(mr);
  });
  ++AsSoft(pd)->users;
  return mr;
}

int DeregMr(ibv_mr* handle) {
  auto* mr = static_cast<SoftMr*>(handle);
  Port(mr->context).WithQueuePairs([mr](QueuePairs& queue_pairs) {
    queue_pairs.regions().Remove(mr);
  });
  --AsSoft(mr->pd)->users;
  delete mr;
  return 0;
}

// ---- Completion channels and queues.

ibv_comp_channel* CreateCompChannel(ibv_context* context) {
  auto channel = std::make_unique<SoftChannel>();
  channel->context = context;
  if (const int error = Port(context).AddChannel(channel.get()); error != 0) return Fail(error);
  return channel.release();
}

int DestroyCompChannel(ibv_comp_channel* channel) {
  if (static_cast<SoftChannel*>(channel)->users.load() != 0) return EBUSY;
  delete static_cast<SoftChannel*>(channel);
  return 0;
}

ibv_cq* CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                 int vector) {
  if (entries < 1 || entries > kMaxCqe || vector != 0) return Fail(EINVAL);
  auto* cq = new SoftCq();
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = entries;
  cq->entries.resize(PowerOfTwo(static_cast<size_t>(entries)));
  InitLocks(cq);
  if (channel != nullptr) ++cq->soft_channel()->users;
  return cq;
}

// Waits until the events that get_cq_event returned are acknowledged, like ibv_destroy_cq.
int DestroyCq(ibv_cq* handle) {
  SoftCq* cq = AsSoft(handle);
  if (cq->users.load() != 0) return EBUSY;
  SoftPort& port = Port(cq->context);
  port.RemoveCq(cq);
  const uint32_t raised = port.EventsRaised(cq);
  pthread_mutex_lock(&cq->mutex);
  while (cq->comp_events_completed != raised) pthread_cond_wait(&cq->cond, &cq->mutex);
  pthread_mutex_unlock(&cq->mutex);
  if (cq->channel != nullptr) --cq->soft_channel()->users;
  DestroyLocks(cq);
  delete cq;
  return 0;
}

int GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return Port(channel->context).GetCqEvent(static_cast<SoftChannel*>(channel), cq, cq_context);
}

void AckCqEvents(ibv_cq* cq, unsigned int events) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += events;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

// ---- Queue pairs.

bool IsWithinLimits(const ibv_qp_cap& wanted) {
  return wanted.max_send_wr <= static_cast<uint32_t>(kMaxWr) &&
         wanted.max_recv_wr <= static_cast<uint32_t>(kMaxWr) &&
         wanted.max_send_sge <= static_cast<uint32_t>(kMaxSge) &&
         wanted.max_recv_sge <= static_cast<uint32_t>(kMaxSge) &&
         wanted.max_inline_data <= kMaxInline;
}

std::unique_ptr<SoftQp> MakeQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  // Like ibv_create_qp: reports what was granted, which may be more than requested.
  attr->cap.max_inline_data = std::max(attr->cap.max_inline_data, kDefaultInline);
  auto qp = std::make_unique<SoftQp>();
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->state = IBV_QPS_RESET;
  qp->qp_type = attr->qp_type;
  qp->capabilities = attr->cap;
  qp->signal_all = attr->sq_sig_all != 0;
  qp->receives.resize(PowerOfTwo(std::max(attr->cap.max_recv_wr, 1u)));
  qp->receive_sges.resize(qp->receives.size() * attr->cap.max_recv_sge + 1);
  return qp;
}

ibv_qp* CreateQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (attr->qp_type != IBV_QPT_UD || attr->srq != nullptr) return Fail(EOPNOTSUPP);
  if (attr->send_cq == nullptr || attr->recv_cq == nullptr || !IsWithinLimits(attr->cap))
    return Fail(EINVAL);
  std::unique_ptr<SoftQp> qp = MakeQp(pd, attr);
  if (const int error = Port(pd->context).AddQp(qp.get()); error != 0) return Fail(error);
  InitLocks(qp.get());
  ++AsSoft(pd)->users;
  ++qp->soft_send_cq()->users;
  ++qp->soft_recv_cq()->users;
  return qp.release();
}

int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return Port(qp->context).WithQueuePairs([=](QueuePairs& queue_pairs) {
    return queue_pairs.Modify(AsSoft(qp), *attr, mask);
  });
}

int QueryQp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  Port(qp->context).QueryQp(AsSoft(qp), attr, init);
  return 0;
}

int DestroyQp(ibv_qp* handle) {
  SoftQp* qp = AsSoft(handle);
  if (const int error = Port(qp->context).RemoveQp(qp); error != 0) return error;
  --AsSoft(qp->pd)->users;
  --qp->soft_send_cq()->users;
  --qp->soft_recv_cq()->users;
  DestroyLocks(qp);
  delete qp;
  return 0;
}

int AttachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  const Gid mgid = Gid::FromWire(gid->raw);
  if (!mgid.IsMulticast() || (lid != 0 && !Mlid(lid).IsValid())) return EINVAL;
  return Port(qp->context).WithQueuePairs([=](QueuePairs& queue_pairs) {
    return queue_pairs.Attach(AsSoft(qp), mgid);
  });
}

int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  const Gid mgid = Gid::FromWire(gid->raw);
  return Port(qp->context).WithQueuePairs([=](QueuePairs& queue_pairs) {
    return queue_pairs.Detach(AsSoft(qp), mgid);
  });
}

// ---- Address handles.

ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr) {
  if (attr->port_num != 1 || attr->dlid == 0 || attr->sl > Sl::kMax) return Fail(EINVAL);
  if (attr->is_global != 0 && attr->grh.sgid_index != 0) return Fail(EINVAL);
  auto* ah = new SoftAh();
  ah->context = pd->context;
  ah->pd = pd;
  ah->attributes = *attr;
  ++AsSoft(pd)->users;
  return ah;
}

int DestroyAh(ibv_ah* ah) {
  --AsSoft(ah->pd)->users;
  delete static_cast<SoftAh*>(ah);
  return 0;
}

// Like libibverbs: the reply goes to the datagram's source and leaves from the GID that it was sent
// to.
int InitAhFromWc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attr) {
  *attr = ibv_ah_attr{};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  // A group's GID cannot be a source address; use the port's own.
  const Gid dgid = Gid::FromWire(grh->dgid.raw);
  if (!dgid.IsMulticast() && dgid != Port(context).config().gid) {
    errno = EINVAL;
    return -1;
  }
  const uint32_t word = be32toh(grh->version_tclass_flow);
  attr->is_global = 1;
  attr->grh.dgid = grh->sgid;
  attr->grh.flow_label = word & 0xfffff;
  attr->grh.traffic_class = static_cast<uint8_t>(word >> 20);
  attr->grh.hop_limit = 0xff;
  attr->grh.sgid_index = 0;
  return 0;
}

// ---- Asynchronous events.

int GetAsyncEvent(ibv_context* context, ibv_async_event* event) {
  SoftContext* soft = AsSoft(context);
  return soft->port->GetAsyncEvent(soft, event);
}

// Nothing waits for acknowledgements: destroy_qp takes back the events that were not delivered yet.
void AckAsyncEvent(ibv_async_event*) {}

}  // namespace

const VerbsTable& SoftVerbsTable() {
  static constexpr VerbsTable kTable = {
      .get_device_list = GetDeviceList,
      .free_device_list = FreeDeviceList,
      .get_device_name = GetDeviceName,
      .open_device = OpenDevice,
      .close_device = CloseDevice,
      .query_device = QueryDevice,
      .query_port = QueryPort,
      .query_gid = QueryGid,
      .query_gid_ex = QueryGidEx,
      .query_pkey = QueryPkey,
      .alloc_pd = AllocPd,
      .dealloc_pd = DeallocPd,
      .reg_mr = RegMr,
      .dereg_mr = DeregMr,
      .create_comp_channel = CreateCompChannel,
      .destroy_comp_channel = DestroyCompChannel,
      .create_cq = CreateCq,
      .destroy_cq = DestroyCq,
      .get_cq_event = GetCqEvent,
      .ack_cq_events = AckCqEvents,
      .create_qp = CreateQp,
      .modify_qp = ModifyQp,
      .query_qp = QueryQp,
      .destroy_qp = DestroyQp,
      .attach_mcast = AttachMcast,
      .detach_mcast = DetachMcast,
      .create_ah = CreateAh,
      .destroy_ah = DestroyAh,
      .init_ah_from_wc = InitAhFromWc,
      .get_async_event = GetAsyncEvent,
      .ack_async_event = AckAsyncEvent,
  };
  return kTable;
}

}  // namespace eoib::softhca

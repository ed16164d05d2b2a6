#include "vswitch/fabric/softhca/soft_verbs.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/fabric/softhca/link_rate.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {
namespace {

// A device with one port that can be opened. A device that only names the port of an Hca has no factory.
struct SoftDevice : ibv_device {
  std::string port_name;
  LinkFactory factory;
  SoftPort::Options options;
  absl::Mutex mutex;
  std::weak_ptr<SoftPort> port ABSL_GUARDED_BY(mutex);  // while a context is open
};

// The added devices. The list is never destroyed.
struct DeviceList {
  absl::Mutex mutex;
  std::vector<std::shared_ptr<SoftDevice>> devices ABSL_GUARDED_BY(mutex);
};
DeviceList& Devices() {
  static DeviceList* const list = new DeviceList();
  return *list;
}

std::shared_ptr<SoftDevice> MakeDevice(const std::string& name) {
  auto device = std::make_shared<SoftDevice>();
  static_cast<ibv_device&>(*device) = ibv_device{};
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device->name, sizeof(device->name), "%s", name.c_str());
  std::snprintf(device->dev_name, sizeof(device->dev_name), "soft-%.50s", name.c_str());
  // Nothing exists at these paths: a program that reads attributes there finds none.
  std::snprintf(device->dev_path, sizeof(device->dev_path), "/sys/class/infiniband_verbs/soft-%.50s", name.c_str());
  std::snprintf(device->ibdev_path, sizeof(device->ibdev_path), "/sys/class/infiniband/%.50s", name.c_str());
  return device;
}

SoftContext* AsSoft(ibv_context* context) { return static_cast<SoftContext*>(verbs_get_ctx(context)); }
SoftQp* AsSoft(ibv_qp* qp) { return static_cast<SoftQp*>(qp); }
SoftCq* AsSoft(ibv_cq* cq) { return static_cast<SoftCq*>(cq); }
SoftPd* AsSoft(ibv_pd* pd) { return static_cast<SoftPd*>(pd); }
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

__be64 NetworkGuid(Guid guid) { return htobe64(guid.value()); }

// ---- Inline verbs, reached through the context's ops.

int PollCq(ibv_cq* cq, int count, ibv_wc* completions) noexcept {
  return Port(cq->context).Poll(AsSoft(cq), count, completions);
}

int RequestNotify(ibv_cq* cq, int solicited_only) noexcept {
  return Port(cq->context).RequestNotify(AsSoft(cq), solicited_only != 0);
}

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) noexcept {
  return Port(qp->context).PostSend(AsSoft(qp), request, bad);
}

int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) noexcept {
  return Port(qp->context).PostReceive(AsSoft(qp), request, bad);
}

// ---- Devices and contexts.

ibv_device** GetDeviceList(int* count) {
  DeviceList& list = Devices();
  absl::MutexLock lock(&list.mutex);
  auto** devices = static_cast<ibv_device**>(std::calloc(list.devices.size() + 1, sizeof(ibv_device*)));
  if (devices == nullptr) return Fail(ENOMEM);
  for (size_t i = 0; i < list.devices.size(); ++i) devices[i] = list.devices[i].get();
  if (count != nullptr) *count = static_cast<int>(list.devices.size());
  return devices;
}

void FreeDeviceList(ibv_device** list) { std::free(list); }

const char* GetDeviceName(ibv_device* device) { return device->name; }

absl::StatusOr<std::shared_ptr<SoftPort>> OpenPort(const SoftDevice& device, bool query_only) {
  absl::StatusOr<std::unique_ptr<SubnetLink>> link = device.factory();
  if (!link.ok()) return link.status();
  SoftPort::Options options = device.options;
  options.query_only = query_only;
  return SoftPort::Open(std::move(*link), device.port_name, options);
}

ibv_context* OpenDevice(ibv_device* handle) {
  auto* device = static_cast<SoftDevice*>(handle);
  absl::MutexLock lock(&device->mutex);
  std::shared_ptr<SoftPort> port = device->port.lock();
  if (port == nullptr) {
    absl::StatusOr<std::shared_ptr<SoftPort>> opened = OpenPort(*device, /*query_only=*/false);
    // Another process owns the port: it can still be queried.
    if (absl::IsAlreadyExists(opened.status())) opened = OpenPort(*device, /*query_only=*/true);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s: %s\n", device->name, std::string(opened.status().message()).c_str());
      return Fail(ENODEV);
    }
    port = *std::move(opened);
    device->port = port;
  }
  ibv_context* context = OpenContext(port, device->name);
  if (context != nullptr) context->device = device;
  return context;
}

int CloseDevice(ibv_context* handle) {
  SoftContext* context = AsSoft(handle);
  context->port->RemoveContext(context);
  pthread_mutex_destroy(&context->context.mutex);
  delete context;
  return 0;
}

void FillDeviceAttributes(const PortConfig& config, ibv_device_attr* attr) {
  *attr = ibv_device_attr{};
  std::snprintf(attr->fw_ver, sizeof(attr->fw_ver), "0.1.0");
  attr->node_guid = NetworkGuid(config.node_guid);
  attr->sys_image_guid = attr->node_guid;
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = 0xffff'f000;
  attr->max_qp = static_cast<int>(std::min<uint32_t>(config.qpns.count, kMaxQp));
  attr->max_qp_wr = kMaxWr;
  attr->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_PORT_ACTIVE_EVENT;
  attr->max_sge = kMaxSge;
  attr->max_cq = 65536;
  attr->max_cqe = kMaxCqe;
  attr->max_mr = 1 << 24;
  attr->max_pd = 65536;
  attr->atomic_cap = IBV_ATOMIC_NONE;
  attr->max_mcast_grp = 16384;
  attr->max_mcast_qp_attach = kMaxQp;
  attr->max_total_mcast_qp_attach = 16384 * 16;
  attr->max_ah = 1 << 20;
  attr->max_pkeys = static_cast<uint16_t>(config.pkeys.size());
  attr->phys_port_cnt = 1;
}

int QueryDevice(ibv_context* context, ibv_device_attr* attr) {
  FillDeviceAttributes(Port(context).config(), attr);
  return 0;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr, size_t size) noexcept {
  if (size < sizeof(attr->orig_attr)) return EINVAL;
  std::memset(attr, 0, size);
  FillDeviceAttributes(Port(context).config(), &attr->orig_attr);
  return 0;
}

void FillPortAttributes(const PortConfig& config, const SoftPortCounters& counters, ibv_port_attr* attr) {
  constexpr uint8_t kLinkUp = 5, kPolling = 2;  // PortPhysicalState
  const LinkForm link = LinkFormOf(config.rate);
  *attr = ibv_port_attr{};
  attr->state = config.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = static_cast<ibv_mtu>(config.mtu);
  attr->gid_tbl_len = 1;
  attr->port_cap_flags = IBV_PORT_CLIENT_REG_SUP;
  attr->max_msg_sz = 4096;
  attr->bad_pkey_cntr = static_cast<uint32_t>(counters.rcv_pkey_violations);
  attr->qkey_viol_cntr = static_cast<uint32_t>(counters.rcv_qkey_violations);
  attr->pkey_tbl_len = static_cast<uint16_t>(config.pkeys.size());
  attr->lid = config.lid.value();
  attr->sm_lid = config.sm_lid.value();
  attr->max_vl_num = 1;
  attr->subnet_timeout = 18;
  attr->active_width = link.width;
  attr->active_speed = link.speed;
  attr->phys_state = config.active ? kLinkUp : kPolling;
  attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
}

int QueryPortOp(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t size) noexcept {
  return QueryPortAttributes(context, port, attr, size);
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  return QueryPortAttributes(context, port, attr, sizeof(*attr));
}

int QueryGid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  Port(context).config().gid.ToWire(gid->raw);
  return 0;
}

int QueryGidEx(ibv_context* context, uint8_t port, int index, ibv_gid_entry* entry) {
  *entry = {};
  if (QueryGid(context, port, index, &entry->gid) != 0) return errno;
  entry->gid_index = static_cast<uint32_t>(index);
  entry->port_num = port;
  entry->gid_type = IBV_GID_TYPE_IB;
  return 0;
}

int QueryPkey(ibv_context* context, uint8_t port, int index, uint16_t* pkey) {
  const std::vector<PKey> pkeys = Port(context).config().pkeys;
  if (port != 1 || index < 0 || static_cast<size_t>(index) >= pkeys.size()) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(pkeys[index].value());
  return 0;
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
  if (!local_write && (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0) return Fail(EINVAL);
  auto* mr = new SoftMr();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->local_write = local_write;
  Port(pd->context).AddRegion(mr);
  ++AsSoft(pd)->users;
  return mr;
}

int DeregMr(ibv_mr* handle) {
  auto* mr = static_cast<SoftMr*>(handle);
  Port(mr->context).RemoveRegion(mr);
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

ibv_cq* CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int vector) {
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
  return wanted.max_send_wr <= static_cast<uint32_t>(kMaxWr) && wanted.max_recv_wr <= static_cast<uint32_t>(kMaxWr) &&
         wanted.max_send_sge <= static_cast<uint32_t>(kMaxSge) && wanted.max_recv_sge <= static_cast<uint32_t>(kMaxSge) &&
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
  if (attr->send_cq == nullptr || attr->recv_cq == nullptr || !IsWithinLimits(attr->cap)) return Fail(EINVAL);
  std::unique_ptr<SoftQp> qp = MakeQp(pd, attr);
  if (const int error = Port(pd->context).AddQp(qp.get()); error != 0) return Fail(error);
  InitLocks(qp.get());
  ++AsSoft(pd)->users;
  ++qp->soft_send_cq()->users;
  ++qp->soft_recv_cq()->users;
  return qp.release();
}

int ModifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask) { return Port(qp->context).ModifyQp(AsSoft(qp), *attr, mask); }

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
  return Port(qp->context).Attach(AsSoft(qp), mgid);
}

int DetachMcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return Port(qp->context).Detach(AsSoft(qp), Gid::FromWire(gid->raw));
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

// Like libibverbs: the reply goes to the datagram's source and leaves from the GID that it was sent to.
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

// ---- Asynchronous events and names.

int GetAsyncEvent(ibv_context* context, ibv_async_event* event) {
  SoftContext* soft = AsSoft(context);
  return soft->port->GetAsyncEvent(soft, event);
}

// Nothing waits for acknowledgements: destroy_qp takes back the events that were not delivered yet.
void AckAsyncEvent(ibv_async_event*) {}

const char* WcStatusStr(ibv_wc_status status) {
  static constexpr const char* kNames[] = {"success",
                                           "local length error",
                                           "local QP operation error",
                                           "local EE context operation error",
                                           "local protection error",
                                           "Work Request Flushed Error",
                                           "memory management operation error",
                                           "bad response error",
                                           "local access error",
                                           "remote invalid request error",
                                           "remote access error",
                                           "remote operation error",
                                           "transport retry counter exceeded",
                                           "RNR retry counter exceeded",
                                           "local RDD violation error",
                                           "remote invalid RD request",
                                           "aborted error",
                                           "invalid EE context number",
                                           "invalid EE context state",
                                           "fatal error",
                                           "response timeout error",
                                           "general error",
                                           "TM error",
                                           "TM software rendezvous"};
  const auto index = static_cast<size_t>(status);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // namespace

// ---- The interface.

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
      .wc_status_str = WcStatusStr,
  };
  return kTable;
}

ibv_context* OpenContext(std::shared_ptr<SoftPort> port, const std::string& device_name) {
  UniqueFd async(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  if (!async.valid()) return nullptr;
  auto* soft = new SoftContext(std::move(port));
  soft->async = std::move(async);
  std::shared_ptr<SoftDevice> device = MakeDevice(device_name);
  soft->keeps_device = device;
  // The inline verbs read all of these (infiniband/verbs.h). They return EOPNOTSUPP for members that stay null.
  soft->sz = sizeof(verbs_context);
  soft->query_port = QueryPortOp;
  soft->query_device_ex = QueryDeviceEx;
  ibv_context& context = soft->context;
  context.device = device.get();
  context.ops.poll_cq = PollCq;
  context.ops.req_notify_cq = RequestNotify;
  context.ops.post_send = PostSend;
  context.ops.post_recv = PostReceive;
  context.cmd_fd = -1;
  context.async_fd = soft->async.get();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  soft->port->AddContext(soft);
  return &context;
}

SoftPort* PortOf(ibv_context* context) { return AsSoft(context)->port.get(); }

void AddDevice(const std::string& device_name, const std::string& port_name, LinkFactory factory,
               const SoftPort::Options& options) {
  std::shared_ptr<SoftDevice> device = MakeDevice(device_name);
  device->port_name = port_name;
  device->factory = std::move(factory);
  device->options = options;
  DeviceList& list = Devices();
  absl::MutexLock lock(&list.mutex);
  list.devices.push_back(std::move(device));
}

int QueryPortAttributes(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t size) {
  if (port != 1) return EINVAL;
  SoftPort& soft = Port(context);
  ibv_port_attr filled;
  FillPortAttributes(soft.config(), soft.counters(), &filled);
  std::memset(attr, 0, size);
  std::memcpy(attr, &filled, std::min(size, sizeof(filled)));
  return 0;
}

}  // namespace eoib::softhca

#include "vswitch/fabric/softhca/soft_queries.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "vswitch/fabric/link_rate.h"
#include "vswitch/fabric/softhca/soft_device.h"
#include "vswitch/fabric/softhca/soft_port.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {
namespace {

void FillDeviceAttributes(const PortConfig& config, ibv_device_attr* attr) {
  *attr = ibv_device_attr{};
  std::snprintf(attr->fw_ver, sizeof(attr->fw_ver), "0.1.0");
  attr->node_guid = htobe64(config.node_guid.value());
  attr->sys_image_guid = attr->node_guid;
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = 0xffff'f000;
  attr->max_qp = static_cast<int>(std::min<uint32_t>(config.qpns.count, kMaxQp));
  attr->max_qp_wr = kMaxWr;
  attr->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                           IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_UD_IP_CSUM;
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

void FillPortAttributes(const PortConfig& config, const SoftPortCounters& counters,
                        ibv_port_attr* attr) {
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

}  // namespace

int QueryDevice(ibv_context* context, ibv_device_attr* attr) {
  FillDeviceAttributes(PortOf(context)->config(), attr);
  return 0;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr,
                  size_t size) noexcept {
  if (size < sizeof(attr->orig_attr)) return EINVAL;
  std::memset(attr, 0, size);
  FillDeviceAttributes(PortOf(context)->config(), &attr->orig_attr);
  return 0;
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  return QueryPortAttributes(context, port, attr, sizeof(*attr));
}

int QueryGid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  PortOf(context)->config().gid.ToWire(gid->raw);
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
  const std::vector<PKey> pkeys = PortOf(context)->config().pkeys;
  if (port != 1 || index < 0 || static_cast<size_t>(index) >= pkeys.size()) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(pkeys[index].value());
  return 0;
}

int QueryPortAttributes(ibv_context* context, uint8_t port, ibv_port_attr* attr,
                        size_t size) noexcept {
  if (port != 1) return EINVAL;
  const SoftPort& soft = *PortOf(context);
  ibv_port_attr filled;
  FillPortAttributes(soft.config(), soft.counters(), &filled);
  std::memset(attr, 0, size);
  std::memcpy(attr, &filled, std::min(size, sizeof(filled)));
  return 0;
}

}  // namespace eoib::softhca

// libeoib-verbs.so: libibverbs' functions on the software HCA, for unmodified programs:
//
//       LD_PRELOAD=libeoib-verbs.so EOIB_FABRIC=/run/eoib/fabricd.sock EOIB_PORT=host1 ibv_devinfo
//
// The symbols are unversioned, so they replace every version. The only device is eoib0 with one
// port, EOIB_PORT; without the two variables there is none. While another process owns the port,
// programs can query it but create no queue pairs (EBUSY). Functions that need no device (names of
// rates, for example) stay libibverbs'. Only UD queue pairs are supported, and no rdma_cm
// (rdma_cm_preload.cc).
#include <endian.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "vswitch/fabric/softhca/preload/environment.h"
#include "vswitch/fabric/softhca/preload/exported.h"
#include "vswitch/fabric/softhca/soft_device.h"
#include "vswitch/fabric/softhca/soft_queries.h"

namespace {

using eoib::VerbsTable;
using eoib::softhca::kDeviceName;
using eoib::softhca::SoftPort;

// More patience than an agent has, which must not wait for a stopped peer. Programs written for
// hardware expect two hosts and a subnet manager that lets packets wait for a second (OpenSM's
// head_of_queue_lifetime is 0x12: 4.096 us * 2^18). Their tools poll without a pause and wait for
// ever for a lost datagram.
SoftPort::Options PatientOptions() {
  SoftPort::Options options;
  options.polls_before_yield = 100;
  options.linger = absl::Seconds(1);
  options.outbound.first_capacity = 1 << 20;
  options.outbound.parking_capacity = 64 << 20;
  options.outbound.head_of_queue_lifetime = absl::Microseconds(4.096 * (1 << 18));
  return options;
}

// Adds the device that the environment names. Called once.
bool AddDeviceOfEnvironment() {
  const auto environment = eoib::softhca::ReadEnvironment("libeoib-verbs");
  if (!environment.has_value()) return false;
  const auto connect = [environment] { return environment->Connect(); };
  eoib::softhca::AddDevice(kDeviceName, environment->port, connect, PatientOptions());
  return true;
}

const VerbsTable& Table() {
  static const bool added = AddDeviceOfEnvironment();
  static_cast<void>(added);
  return eoib::softhca::SoftVerbsTable();
}

int Unsupported() { return errno = EOPNOTSUPP; }
std::nullptr_t NullUnsupported() {
  errno = EOPNOTSUPP;
  return nullptr;
}

// Opens a temporary context to query a device that the program has not opened.
eoib::softhca::PortConfig ConfigOf(ibv_device* device) {
  ibv_context* context = Table().open_device(device);
  if (context == nullptr) return eoib::softhca::PortConfig();
  const eoib::softhca::PortConfig config = eoib::softhca::PortOf(context)->config();
  Table().close_device(context);
  return config;
}

int FillGidEntry(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                 size_t size) {
  ibv_gid_entry filled;
  if (Table().query_gid_ex(context, static_cast<uint8_t>(port), static_cast<int>(index), &filled) !=
      0)
    return EINVAL;
  std::memcpy(entry, &filled, std::min(size, sizeof(filled)));
  return 0;
}

}  // namespace

#define EOIB_VERB(result, name, arguments) EOIB_EXPORTED(result, "ibv_" #name, name, arguments)

// ---- The verbs of the table.

EOIB_VERB(ibv_device**, get_device_list, (int* count)) { return Table().get_device_list(count); }
EOIB_VERB(void, free_device_list, (ibv_device * *list)) { Table().free_device_list(list); }
EOIB_VERB(const char*, get_device_name, (ibv_device * device)) {
  return Table().get_device_name(device);
}
EOIB_VERB(ibv_context*, open_device, (ibv_device * device)) { return Table().open_device(device); }
EOIB_VERB(int, close_device, (ibv_context * context)) { return Table().close_device(context); }
EOIB_VERB(int, query_device, (ibv_context * context, ibv_device_attr* attr)) {
  return Table().query_device(context, attr);
}
// The fallback of the inline ibv_query_port. The attributes end before port_cap_flags2.
EOIB_VERB(int, query_port, (ibv_context * context, uint8_t port, _compat_ibv_port_attr* attr)) {
  return eoib::softhca::QueryPortAttributes(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                                            offsetof(ibv_port_attr, port_cap_flags2));
}
EOIB_VERB(int, query_gid, (ibv_context * context, uint8_t port, int index, ibv_gid* gid)) {
  return Table().query_gid(context, port, index, gid);
}
EOIB_VERB(int, query_pkey, (ibv_context * context, uint8_t port, int index, uint16_t* pkey)) {
  return Table().query_pkey(context, port, index, pkey);
}
EOIB_VERB(ibv_pd*, alloc_pd, (ibv_context * context)) { return Table().alloc_pd(context); }
EOIB_VERB(int, dealloc_pd, (ibv_pd * pd)) { return Table().dealloc_pd(pd); }
EOIB_VERB(ibv_mr*, reg_mr, (ibv_pd * pd, void* address, size_t length, int access)) {
  return Table().reg_mr(pd, address, length, access);
}
EOIB_VERB(ibv_mr*, reg_mr_iova2,
          (ibv_pd * pd, void* address, size_t length, uint64_t iova, unsigned int access)) {
  // UD work requests name buffers by address, so another iova has no use here.
  if (iova != reinterpret_cast<uint64_t>(address)) return NullUnsupported();
  return Table().reg_mr(
      pd, address, length,
      static_cast<int>(access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE)));
}
EOIB_VERB(ibv_mr*, reg_mr_iova,
          (ibv_pd * pd, void* address, size_t length, uint64_t iova, int access)) {
  return Preload_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
}
EOIB_VERB(int, dereg_mr, (ibv_mr * mr)) { return Table().dereg_mr(mr); }
EOIB_VERB(ibv_comp_channel*, create_comp_channel, (ibv_context * context)) {
  return Table().create_comp_channel(context);
}
EOIB_VERB(int, destroy_comp_channel, (ibv_comp_channel * channel)) {
  return Table().destroy_comp_channel(channel);
}
EOIB_VERB(ibv_cq*, create_cq,
          (ibv_context * context, int entries, void* cq_context, ibv_comp_channel* channel,
           int vector)) {
  return Table().create_cq(context, entries, cq_context, channel, vector);
}
EOIB_VERB(int, destroy_cq, (ibv_cq * cq)) { return Table().destroy_cq(cq); }
EOIB_VERB(int, get_cq_event, (ibv_comp_channel * channel, ibv_cq** cq, void** cq_context)) {
  return Table().get_cq_event(channel, cq, cq_context);
}
EOIB_VERB(void, ack_cq_events, (ibv_cq * cq, unsigned int events)) {
  Table().ack_cq_events(cq, events);
}
EOIB_VERB(ibv_qp*, create_qp, (ibv_pd * pd, ibv_qp_init_attr* attr)) {
  ibv_qp* qp = Table().create_qp(pd, attr);
  if (qp == nullptr && errno == EBUSY) {
    const std::string& port = eoib::softhca::PortOf(pd->context)->name();
    std::fprintf(stderr, "libeoib-verbs: no queue pair: another process owns port %s\n",
                 port.c_str());
    errno = EBUSY;
  }
  return qp;
}
EOIB_VERB(int, modify_qp, (ibv_qp * qp, ibv_qp_attr* attr, int mask)) {
  return Table().modify_qp(qp, attr, mask);
}
EOIB_VERB(int, query_qp, (ibv_qp * qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init)) {
  return Table().query_qp(qp, attr, mask, init);
}
EOIB_VERB(int, destroy_qp, (ibv_qp * qp)) { return Table().destroy_qp(qp); }
EOIB_VERB(int, attach_mcast, (ibv_qp * qp, const ibv_gid* gid, uint16_t lid)) {
  return Table().attach_mcast(qp, gid, lid);
}
EOIB_VERB(int, detach_mcast, (ibv_qp * qp, const ibv_gid* gid, uint16_t lid)) {
  return Table().detach_mcast(qp, gid, lid);
}
EOIB_VERB(ibv_ah*, create_ah, (ibv_pd * pd, ibv_ah_attr* attr)) {
  return Table().create_ah(pd, attr);
}
EOIB_VERB(int, destroy_ah, (ibv_ah * ah)) { return Table().destroy_ah(ah); }
EOIB_VERB(int, init_ah_from_wc,
          (ibv_context * context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attr)) {
  return Table().init_ah_from_wc(context, port, wc, grh, attr);
}
EOIB_VERB(ibv_ah*, create_ah_from_wc, (ibv_pd * pd, ibv_wc* wc, ibv_grh* grh, uint8_t port)) {
  ibv_ah_attr attr;
  if (Table().init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return Table().create_ah(pd, &attr);
}
EOIB_VERB(int, get_async_event, (ibv_context * context, ibv_async_event* event)) {
  return Table().get_async_event(context, event);
}
EOIB_VERB(void, ack_async_event, (ibv_async_event * event)) { Table().ack_async_event(event); }

// ---- Further queries.

EOIB_VERB(__be64, get_device_guid, (ibv_device * device)) {
  return htobe64(ConfigOf(device).node_guid.value());
}
// As with a kernel that does not report it.
EOIB_VERB(int, get_device_index, (ibv_device*)) { return -1; }
EOIB_VERB(int, get_pkey_index, (ibv_context * context, uint8_t port, __be16 pkey)) {
  uint16_t entry;
  for (int index = 0; Table().query_pkey(context, port, index, &entry) == 0; ++index) {
    if (entry == pkey) return index;
  }
  return -1;
}
// Private function of libibverbs that ibv_devinfo calls. Type 0 is "InfiniBand, or RoCE v1".
EOIB_VERB(int, query_gid_type,
          (ibv_context * context, uint8_t port, unsigned int index, int* type)) {
  ibv_gid gid;
  *type = 0;
  return Table().query_gid(context, port, static_cast<int>(index), &gid);
}
EOIB_EXPORTED(int, "_ibv_query_gid_ex", query_gid_ex,
              (ibv_context * context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
               uint32_t flags, size_t size)) {
  return flags != 0 ? EINVAL : FillGidEntry(context, port, index, entry, size);
}
EOIB_EXPORTED(ssize_t, "_ibv_query_gid_table", query_gid_table,
              (ibv_context * context, ibv_gid_entry* entries, size_t count, uint32_t flags,
               size_t size)) {
  if (flags != 0 || count == 0) return -EINVAL;
  return FillGidEntry(context, 1, 0, entries, size) == 0 ? 1 : -EINVAL;
}

// The device has no sysfs directory. For other directories, return the file's first line.
EOIB_VERB(int, read_sysfs_file,
          (const char* directory, const char* file, char* buffer, size_t size)) {
  const std::string path = std::string(directory) + "/" + file;
  if (path == std::string("/sys/class/infiniband/") + kDeviceName + "/board_id") {
    return std::snprintf(buffer, size, "%s", eoib::softhca::kBoardId);
  }
  FILE* stream = std::fopen(path.c_str(), "re");
  if (stream == nullptr) return -1;
  const size_t got = std::fread(buffer, 1, size - 1, stream);
  std::fclose(stream);
  buffer[got] = '\0';
  buffer[std::strcspn(buffer, "\n")] = '\0';
  return static_cast<int>(std::strlen(buffer));
}

// ---- Unsupported. Without these, libibverbs' own functions would run on our objects and expect
// their own data behind them.

EOIB_VERB(int, fork_init, ()) { return 0; }
EOIB_VERB(ibv_fork_status, is_fork_initialized, ()) { return IBV_FORK_UNNEEDED; }
EOIB_VERB(ibv_srq*, create_srq, (ibv_pd*, ibv_srq_init_attr*)) { return NullUnsupported(); }
EOIB_VERB(int, resize_cq, (ibv_cq*, int)) { return Unsupported(); }
EOIB_VERB(int, rereg_mr, (ibv_mr*, int, ibv_pd*, void*, size_t, int)) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;
}
EOIB_VERB(ibv_mr*, reg_dmabuf_mr, (ibv_pd*, uint64_t, size_t, uint64_t, int, int)) {
  return NullUnsupported();
}
EOIB_VERB(ibv_context*, import_device, (int)) { return NullUnsupported(); }
EOIB_VERB(ibv_pd*, import_pd, (ibv_context*, uint32_t)) { return NullUnsupported(); }
EOIB_VERB(ibv_mr*, import_mr, (ibv_pd*, uint32_t)) { return NullUnsupported(); }
EOIB_VERB(ibv_dm*, import_dm, (ibv_context*, uint32_t)) { return NullUnsupported(); }
EOIB_VERB(ibv_qp_ex*, qp_to_qp_ex, (ibv_qp*)) { return nullptr; }
EOIB_VERB(int, query_qp_data_in_order, (ibv_qp*, ibv_wr_opcode, uint32_t)) { return 0; }
EOIB_VERB(int, resolve_eth_l2_from_gid, (ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*)) {
  return Unsupported();
}
EOIB_VERB(int, set_ece, (ibv_qp*, ibv_ece*)) { return Unsupported(); }
EOIB_VERB(int, query_ece, (ibv_qp*, ibv_ece*)) { return Unsupported(); }

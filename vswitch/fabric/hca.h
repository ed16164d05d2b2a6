// Hca: one port of an opened HCA, real or software, with its verbs, its MADs and its packet
// capture. Callers cannot tell the two kinds apart.
#ifndef EOIB_VSWITCH_FABRIC_HCA_H_
#define EOIB_VSWITCH_FABRIC_HCA_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/fabric/capture_options.h"
#include "vswitch/fabric/capture_report.h"
#include "vswitch/fabric/mad_transport.h"
#include "vswitch/fabric/verbs.h"

namespace eoib {

class RebuiltCapture;

// A port's state, as the subnet manager configured it.
struct HcaPortInfo {
  bool active = false;
  ibv_port_state state = IBV_PORT_NOP;
  bool ethernet_link_layer = false;  // RoCE: no LID, no SA
  Lid lid;
  Lid sm_lid;
  Gid gid;           // at index 0 (InfiniBand), or at the chosen one (RoCE)
  uint8_t mtu = 0;   // active MTU, IbMtu's code
  uint8_t rate = 0;  // active speed times width as an IBA rate code
};

// Explains why a port is not active and what to do: "the port is down: no link (...)".
std::string PortTrouble(const HcaPortInfo& port);

// Any thread may call all members unless their comment says otherwise. One thread uses the MAD
// transport.
class Hca {
 public:
  virtual ~Hca() = default;

  virtual const VerbsTable& verbs() const = 0;
  virtual ibv_context* context() const = 0;
  virtual uint8_t port() const = 0;
  // Index of the source GID: 0 on InfiniBand; on RoCE the one that roce_gid.h chooses.
  virtual int gid_index() const = 0;
  // Control calls this when the GID table changed; the HCA may choose another index.
  virtual void OnGidChange() {}
  virtual std::string name() const = 0;  // "mlx5_0/1" or "soft:host1"
  // Null on an Ethernet link layer, which has no subnet administrator.
  virtual MadTransport* mads() = 0;

  // Writes the packets that this port sends and receives to a file, as ERF records (wire/ib/erf.h).
  // A running capture is closed when the new one starts. kFailedPrecondition on a port that other
  // tools capture better; the message names them.
  virtual absl::Status StartCapture(const CaptureOptions& options) = 0;
  // Closes the capture and waits for its file. kFailedPrecondition if none runs; else the write
  // error that ended it, if any.
  virtual absl::StatusOr<CaptureReport> StopCapture() = 0;
  // The capture that was started and not stopped, if any.
  virtual absl::optional<CaptureReport> Capture() const = 0;
  // Caveats for readers of this HCA's captures; empty if packets are captured as they are on the
  // cable.
  virtual std::string CaptureNote() const { return ""; }
  // For UdEndpoint: where to report sent and received packets. Null if the HCA captures packets
  // itself.
  virtual RebuiltCapture* rebuilt_capture() { return nullptr; }
  // Control calls this when the port's LID, GID or P_Keys may have changed.
  virtual void OnPortChange() {}

  // OK while the port can send to its subnet manager, as far as it knows. Else why not, for the
  // operator: known peers are still reached, but no group can be joined and no path asked for.
  virtual absl::Status SubnetStatus() const { return absl::OkStatus(); }

  // The port's counters, under the names of the InfiniBand port counters where those exist. Empty
  // for a real HCA: perfquery reads its counters.
  struct PortCounter {
    const char* name;
    uint64_t value;
    const char* help;
    bool is_gauge = false;  // what there is now, not a count since the start
  };
  virtual std::vector<PortCounter> PortCounters() const { return {}; }

  // As the HCA reports them; QueryPort has what the switch uses.
  absl::StatusOr<ibv_port_attr> QueryAttributes() const;
  absl::StatusOr<HcaPortInfo> QueryPort() const;
  // The entry of the GID table at gid_index(). Its type and network device matter on RoCE only.
  absl::StatusOr<ibv_gid_entry> QueryGidEntry() const;
  // The port's P_Key table, including invalid entries.
  absl::StatusOr<std::vector<PKey>> QueryPKeys() const;
  // Finds the partition's P_Key in the port's table, preferring a full member's. kNotFound, with
  // the table, if the port is not a member. On an Ethernet link layer nothing checks P_Keys and the
  // table may be a single 0xffff, so every port counts as a full member.
  struct PKeyIndex {
    uint16_t index;
    PKey pkey;
  };
  absl::StatusOr<PKeyIndex> FindPKey(PKey pkey) const;
};

// Opens "DEVICE/PORT", or "DEVICE/PORT?gid=INDEX" on an Ethernet link layer, through libibverbs
// and, on InfiniBand, libibumad. kNotFound lists the devices.
absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_HCA_H_

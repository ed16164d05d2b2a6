// Hca: one port of one opened HCA, real or software, and what belongs to it: verbs, MADs, capture.
//
// This is where the two seams come together: whoever holds an Hca cannot tell, and need not know, what fills them.
#ifndef EOIB_VSWITCH_FABRIC_HCA_H_
#define EOIB_VSWITCH_FABRIC_HCA_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "fdb/address.h"
#include "vswitch/fabric/capture_report.h"
#include "vswitch/fabric/mad_transport.h"
#include "vswitch/fabric/verbs.h"

namespace eoib {

class RebuiltCapture;

// A port's state as a subnet manager left it.
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

// Why a port that is not active is not, and what to do about it: "the port is down: no link (...)".
std::string PortTrouble(const HcaPortInfo& port);

// What StopCapture answers on an HCA of that name where there is nothing to stop: kFailedPrecondition.
absl::Status NoCaptureRuns(absl::string_view hca_name);

// All members may be called from any thread unless their comment says otherwise; the MAD transport from one.
class Hca {
 public:
  virtual ~Hca() = default;

  virtual const VerbsTable& verbs() const = 0;
  virtual ibv_context* context() const = 0;
  virtual uint8_t port() const = 0;
  // Of the GID that datagrams come from: 0 on InfiniBand; on RoCE as roce_gid.h says.
  virtual int gid_index() const = 0;
  // The GID table has changed: another index may be the right one now. Control only.
  virtual void OnGidChange() {}
  virtual std::string name() const = 0;  // "mlx5_0/1" or "soft:host1"
  // Null on a link layer without a subnet administrator.
  virtual MadTransport* mads() = 0;

  // Starts writing every packet this port sends and receives to `path` as ERF records (see wire/erf.h). kFailedPrecondition
  // where there is a better way, which the message says. A capture that runs already is closed, whatever becomes of it.
  virtual absl::Status StartCapture(const std::string& path) = 0;
  // Waits for the file. kFailedPrecondition if none runs; the error of a write that has failed meanwhile.
  virtual absl::StatusOr<CaptureReport> StopCapture() = 0;
  // Of the capture that has been started and not been stopped.
  virtual absl::optional<CaptureReport> Capture() const = 0;
  // What who reads a capture of this HCA has to know; empty if packets are in it as they are on the cable.
  virtual std::string CaptureNote() const { return ""; }
  // For UdEndpoint: where it tells what it sends and receives. Null if the HCA knows by itself.
  virtual RebuiltCapture* rebuilt_capture() { return nullptr; }
  // The port's LID, GID or P_Keys may have changed. Control only.
  virtual void OnPortChange() {}

  // What the port counts, under names of the InfiniBand port counters where there is one; empty where they are read elsewhere
  // (a real HCA's with perfquery).
  struct PortCounter {
    const char* name;
    uint64_t value;
    const char* help;
  };
  virtual std::vector<PortCounter> PortCounters() const { return {}; }

  absl::StatusOr<HcaPortInfo> QueryPort() const;
  // The entry of the GID table at gid_index(): type and network device are RoCE's.
  absl::StatusOr<ibv_gid_entry> QueryGidEntry() const;
  // The port's table of P_Keys, also those that are not valid.
  absl::StatusOr<std::vector<PKey>> QueryPKeys() const;
  // The index of the P_Key of that partition in the port's table (full member preferred), and whether it is a full member's.
  // kNotFound, listing the table, if the port is not a member. On an Ethernet link layer nothing checks P_Keys, its table may
  // be a single 0xffff, and every port counts as a full member.
  struct PKeyIndex {
    uint16_t index;
    PKey pkey;
  };
  absl::StatusOr<PKeyIndex> FindPKey(PKey pkey) const;
};

// Which HCAs a program can open: scheme ("verbs", "soft") -> opener of what follows the colon. Mains fill it, so that a
// program decides at its link which HCAs it carries.
class HcaRegistry {
 public:
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Hca>>(absl::string_view rest)>;
  void Register(std::string scheme, Opener opener) { openers_[std::move(scheme)] = std::move(opener); }
  // `name`: "verbs:DEVICE/PORT" or "soft:PORTNAME". kInvalidArgument lists the schemes this program knows.
  absl::StatusOr<std::unique_ptr<Hca>> Open(absl::string_view name) const;

 private:
  std::map<std::string, Opener> openers_;
};

// Opens "DEVICE/PORT", or "DEVICE/PORT?gid=INDEX" on an Ethernet link layer, through libibverbs and, on an InfiniBand link
// layer, libibumad. kNotFound lists the devices there are.
absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port);

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_HCA_H_

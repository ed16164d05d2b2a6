// VesVPorts: the vPorts of a VES on this host, and what their interfaces have in common: the
// carrier and the MTU follow the VES.
#ifndef EOIB_CONTROL_VES_VES_VPORTS_H_
#define EOIB_CONTROL_VES_VES_VPORTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "control/config/config.h"
#include "control/vport/vport.h"

namespace eoib {

// Control thread. In the order of the vPorts' indexes.
class VesVPorts {
 public:
  // `ves` outlives the object. `mtu` is the VES's: the largest frame.
  VesVPorts(const VesConfig* ves, uint32_t mtu) : ves_(ves), mtu_(mtu) {}

  bool empty() const { return vports_.empty(); }
  size_t size() const { return vports_.size(); }
  std::vector<VPort>::const_iterator begin() const { return vports_.begin(); }
  std::vector<VPort>::const_iterator end() const { return vports_.end(); }
  std::vector<VPort>::iterator begin() { return vports_.begin(); }
  std::vector<VPort>::iterator end() { return vports_.end(); }
  const std::vector<VPort>& all() const { return vports_; }
  // Requires that there is such a vPort.
  VPort* Find(const std::string& name);
  VPort* At(uint32_t index);
  // For the operator. "?" if there is no such vPort, as while it is being added or removed.
  std::string NameAt(uint32_t index) const;
  // Up to ten names, and the number of the others, for the log: "web1, web2"; "" if there is none.
  std::string Names() const;

  void Add(VPort vport);
  VPort Take(const std::string& name);

  // The carrier of the interfaces, as it was last set at all of them.
  bool carrier() const { return carrier_.value_or(false); }
  void SetCarrier(bool up);
  // A new MTU of the VES.
  void SetMtu(uint32_t mtu);
  // Gives a new interface the MTU of the VES and `carrier`.
  void SetUp(VPort* vport, bool carrier) const;
  // The MTU of a vPort's interface, as the VES's present MTU allows.
  int InterfaceMtu(const VPortConfig& vport) const;

 private:
  absl::Status ApplyMtu(VPort* vport) const;

  const VesConfig* const ves_;
  uint32_t mtu_;
  std::vector<VPort> vports_;
  absl::optional<bool> carrier_;  // nullopt: unknown, or the interfaces differ
};

}  // namespace eoib

#endif  // EOIB_CONTROL_VES_VES_VPORTS_H_

// Addresses: which IP addresses this host has on the link, would like to have, and must not have.
//
// They come from four sides: the link-local address of the port (RFC 4391 §8), the operator's flags, DHCP, and `ip addr add` on
// the TUN. The first three are put on the TUN only when duplicate address detection has found them free; the last is there
// before anybody can ask, so it is taken off again if it is not free. Until then nothing is sent from it, and nobody answers
// for it.
//
// Between the kernel (KernelAddresses tells what is on the TUN, and changes it), Dad (whose Owner this is) and who reads: the
// responders, IpHost, Memberships, `show`. One thread.
#ifndef EOIB_GATEWAY_ENDPOINT_ADDRESSES_H_
#define EOIB_GATEWAY_ENDPOINT_ADDRESSES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/endpoint/dad.h"
#include "gateway/endpoint/interface_address.h"
#include "vswitch/wire/ip_addr.h"

namespace eoib::endpoint {

// The addresses of the TUN in the kernel.
class KernelAddresses {
 public:
  virtual ~KernelAddresses() = default;
  // An address that is there already, or is not, is no error. The kernel takes it off by itself at `until`.
  virtual absl::Status Add(const InterfaceAddress& address, absl::Time until) = 0;
  virtual absl::Status Remove(const InterfaceAddress& address) = 0;
};

enum class AddressOrigin : uint8_t { kLinkLocal, kOperator, kDhcp, kKernel };
enum class AddressState : uint8_t {
  kTentative,
  kAssigned,
  kDuplicate,  // withheld
  kRemoved,    // taken off the TUN by somebody, say with `ip link set down`; put there again when that is up
  kRefused,    // by the kernel, say without IPv6: not ours; tried again when the TUN or the link comes up
};
const char* ToString(AddressOrigin origin);
const char* ToString(AddressState state);

class Addresses final : public Dad::Owner {
 public:
  struct Item {
    InterfaceAddress address;
    AddressOrigin origin = AddressOrigin::kKernel;
    AddressState state = AddressState::kTentative;
    bool in_kernel = false;
    absl::Time until = absl::InfiniteFuture();  // then the kernel takes it off, if this program is dead by then
    absl::optional<IpoibAddress> rival;         // who has a duplicate, or has last contested it
    uint64_t contests = 0;
    std::string refusal;  // the kernel's reason
  };
  // A state has changed, or there is one address more or less. Called last; may call everything here.
  using Changed = std::function<void(const IpAddr&)>;

  // Stays the caller's. Connect tells the one who asks others; before anything else.
  explicit Addresses(KernelAddresses* kernel) : kernel_(kernel) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  void Connect(Dad* dad) { dad_ = dad; }
  void OnChange(Changed changed) { changed_.push_back(std::move(changed)); }

  // This host is to have the address, if it is free. What is there already stays as it is.
  void Want(const InterfaceAddress& address, AddressOrigin origin);
  // How long, if not for ever.
  void KeepUntil(const IpAddr& address, absl::Time until);
  // Not any more.
  void Release(const IpAddr& address);

  // What the kernel says of the TUN.
  void OnKernelAdded(const InterfaceAddress& address);
  // Of several lengths that the address had there, one is gone and this remains.
  void OnKernelChanged(const InterfaceAddress& address);
  // With no length any more.
  void OnKernelRemoved(const IpAddr& address);
  void OnTunUp();
  // The link has come up, perhaps with another MTU: what the kernel refused it may take now.
  void OnLinkUp();

  // Dad::Owner.
  void OnUnique(const IpAddr& address) override;
  void OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>& rival) override;
  void OnContested(const IpAddr& address, const absl::optional<IpoibAddress>& rival, bool announced) override;

  bool IsAssigned(const IpAddr& address) const;
  bool IsTentative(const IpAddr& address) const;
  const Item* Find(const IpAddr& address) const;
  // True if a subnet of an assigned address has this broadcast address.
  bool IsSubnetBroadcast(Ipv4Addr destination) const;
  // An assigned address to ask for `target` from: of its subnet if there is one, link-local in IPv6, or any.
  absl::optional<IpAddr> SourceFor(const IpAddr& target) const;
  const std::map<IpAddr, Item>& items() const { return items_; }

 private:
  Item* FindItem(const IpAddr& address);
  void Begin(Item* item);
  void BeginAll(absl::FunctionRef<bool(AddressState)> which);
  void Refuse(Item* item, const absl::Status& status);
  void Erase(const IpAddr& address);
  void Log(const absl::Status& status) const;
  void Tell(const IpAddr& address);

  KernelAddresses* const kernel_;
  Dad* dad_ = nullptr;
  std::vector<Changed> changed_;
  std::map<IpAddr, Item> items_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_ADDRESSES_H_

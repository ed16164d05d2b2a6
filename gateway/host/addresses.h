// Addresses: the IP addresses of this host on the link, with their origin and state (README.md,
// "Addresses"). While an address is tentative, the host neither sends from it nor answers for it.
// It works with the kernel through KernelAddresses, and is the Owner of Dad. One thread.
#ifndef EOIB_GATEWAY_HOST_ADDRESSES_H_
#define EOIB_GATEWAY_HOST_ADDRESSES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gateway/host/dad.h"
#include "gateway/host/interface_address.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

// The addresses of the TUN in the kernel.
class KernelAddresses {
 public:
  virtual ~KernelAddresses() = default;
  // To add an existing address, or remove a missing one, is no error. The kernel removes the
  // address by itself at `until`.
  virtual absl::Status Add(const InterfaceAddress& address, absl::Time until) = 0;
  virtual absl::Status Remove(const InterfaceAddress& address) = 0;
};

enum class AddressOrigin : uint8_t { kLinkLocal, kOperator, kDhcp, kKernel };
enum class AddressState : uint8_t {
  kTentative,
  kAssigned,
  kDuplicate,  // another interface has it: not used here
  // Removed from the TUN from outside, such as by `ip link set down`; added again when the TUN is
  // up.
  kRemoved,
  // The kernel refused it, for example without IPv6; retried when the TUN or the link comes up.
  kRefused,
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
    // The kernel removes it then, even if this program is dead.
    absl::Time until = absl::InfiniteFuture();
    // The interface that has the duplicate, or last contested the address.
    absl::optional<IpoibAddress> rival;
    uint64_t contests = 0;
    std::string refusal;  // the kernel's reason
  };
  // An address was added or removed, or its state has changed. Called last, so it may call any
  // function here.
  using Changed = std::function<void(const IpAddr&)>;

  // `kernel` and `dad` outlive it. Call Connect first.
  explicit Addresses(KernelAddresses* kernel) : kernel_(kernel) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  void Connect(Dad* dad) { dad_ = dad; }
  void OnChange(Changed changed) { changed_.push_back(std::move(changed)); }

  // Takes the address if it is free. An address that exists already only changes its origin.
  void Want(const InterfaceAddress& address, AddressOrigin origin);
  // Limits the lifetime of an address.
  void KeepUntil(const IpAddr& address, absl::Time until);
  // Gives the address up, and removes it from the TUN.
  void Release(const IpAddr& address);

  // Changes of the TUN's addresses in the kernel.
  void OnKernelAdded(const InterfaceAddress& address);
  // The address had several prefix lengths; one was removed, and this one remains.
  void OnKernelChanged(const InterfaceAddress& address);
  // The last prefix length was removed.
  void OnKernelRemoved(const IpAddr& address);
  void OnTunUp();
  // The link has come up, perhaps with another MTU: the kernel may now accept addresses that it
  // refused.
  void OnLinkUp();

  // Dad::Owner.
  void OnUnique(const IpAddr& address) override;
  void OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>& rival) override;
  void OnContested(const IpAddr& address, const absl::optional<IpoibAddress>& rival,
                   bool announced) override;

  bool IsAssigned(const IpAddr& address) const;
  bool IsTentative(const IpAddr& address) const;
  const Item* Find(const IpAddr& address) const;
  // True if a subnet of an assigned address has this broadcast address.
  bool IsSubnetBroadcast(Ipv4Addr destination) const;
  // An assigned source address for solicitations of `target`: IPv4 prefers one of its subnet, IPv6
  // a link-local one.
  absl::optional<IpAddr> SourceFor(const IpAddr& target) const;
  const std::map<IpAddr, Item>& items() const { return items_; }

 private:
  Item* FindItem(const IpAddr& address);
  void Begin(Item* item);
  void BeginAll(absl::FunctionRef<bool(AddressState)> which);
  void Refuse(Item* item, const absl::Status& status);
  void Erase(const IpAddr& address);
  void Tell(const IpAddr& address);

  KernelAddresses* const kernel_;
  Dad* dad_ = nullptr;
  std::vector<Changed> changed_;
  std::map<IpAddr, Item> items_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_ADDRESSES_H_

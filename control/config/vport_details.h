// VPortDetails: the configuration of a kind of vPort that only its program knows, such as a
// gateway's, as a value.
#ifndef EOIB_CONTROL_CONFIG_VPORT_DETAILS_H_
#define EOIB_CONTROL_CONFIG_VPORT_DETAILS_H_

#include <memory>
#include <utility>

namespace eoib {

class VPortDetails {
 public:
  // None, for kinds whose keys are all in VPortConfig.
  VPortDetails() = default;
  // `Config` has operator==, and two members: `line`, which does not count, and
  // bool MayBecome(const Config& next) const.
  template <typename Config>
  static VPortDetails Of(Config config) {
    VPortDetails details;
    details.held_ = std::make_shared<HeldAs<Config>>(std::move(config));
    return details;
  }
  // Requires that they were made of a `Config`.
  template <typename Config>
  const Config& As() const {
    return static_cast<const HeldAs<Config>&>(*held_).config;
  }

  // Whether an interface with this configuration takes over `next` in place
  // (VPortInterface::Adjust).
  bool MayBecome(const VPortDetails& next) const {
    return held_ == nullptr ? next.held_ == nullptr
                            : next.held_ != nullptr && held_->MayBecome(*next.held_);
  }
  friend bool operator==(const VPortDetails& a, const VPortDetails& b) {
    return a.held_ == nullptr ? b.held_ == nullptr
                              : b.held_ != nullptr && a.held_->Equals(*b.held_);
  }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual bool Equals(const Held& other) const = 0;
    virtual bool MayBecome(const Held& next) const = 0;
  };
  template <typename Config>
  struct HeldAs final : Held {
    explicit HeldAs(Config its_config) : config(std::move(its_config)) {}
    bool Equals(const Held& other) const override {
      const auto* const others = dynamic_cast<const HeldAs*>(&other);
      if (others == nullptr) return false;
      Config here = config;
      here.line = others->config.line;
      return here == others->config;
    }
    bool MayBecome(const Held& next) const override {
      const auto* const nexts = dynamic_cast<const HeldAs*>(&next);
      return nexts != nullptr && config.MayBecome(nexts->config);
    }

    const Config config;
  };
  std::shared_ptr<const Held> held_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_CONFIG_VPORT_DETAILS_H_

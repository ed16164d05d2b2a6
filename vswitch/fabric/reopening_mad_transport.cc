#include "vswitch/fabric/reopening_mad_transport.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

namespace eoib {

ReopeningMadTransport::ReopeningMadTransport(Opener open)
    : open_(std::move(open)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

ReopeningMadTransport::~ReopeningMadTransport() = default;

// A failure to open is kUnavailable, whatever its cause, so that the caller retries.
absl::Status ReopeningMadTransport::OpenIfNeeded() {
  if (mads_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<MadTransport>> mads = open_();
  if (!mads.ok()) return absl::UnavailableError(mads.status().message());
  epoll_event readable = {};
  readable.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, (*mads)->fd(), &readable) != 0) {
    return absl::ErrnoToStatus(errno, "wait for MADs");
  }
  mads_ = *std::move(mads);
  return absl::OkStatus();
}

// A removed device reports EPOLLERR for ever, so its descriptor must leave epoll_.
void ReopeningMadTransport::CloseIfLost() {
  if (mads_->lost()) mads_.reset();  // closing the descriptor removes it from epoll_
}

absl::Status ReopeningMadTransport::Send(const Mad& mad) {
  if (absl::Status status = OpenIfNeeded(); !status.ok()) return status;
  absl::Status status = mads_->Send(mad);
  CloseIfLost();
  return status;
}

absl::Status ReopeningMadTransport::Reply(const Mad& mad) {
  if (mads_ == nullptr) return absl::UnavailableError("reply to the SA: the MAD device is gone");
  absl::Status status = mads_->Reply(mad);
  CloseIfLost();
  return status;
}

bool ReopeningMadTransport::Receive(std::vector<uint8_t>* mad) {
  if (mads_ == nullptr) return false;
  const bool received = mads_->Receive(mad);
  if (!received) CloseIfLost();
  return received;
}

}  // namespace eoib

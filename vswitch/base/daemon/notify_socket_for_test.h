// NotifySocket: listens as systemd does at NOTIFY_SOCKET, for tests of what a program tells its
// service manager.
#ifndef EOIB_VSWITCH_BASE_DAEMON_NOTIFY_SOCKET_FOR_TEST_H_
#define EOIB_VSWITCH_BASE_DAEMON_NOTIFY_SOCKET_FOR_TEST_H_

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "vswitch/base/unique_fd.h"

namespace eoib {

class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : path_(path), socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
        << path;
  }

  const std::string& path() const { return path_; }
  // The messages since the last call.
  std::vector<std::string> Take() const {
    std::vector<std::string> messages;
    std::array<char, 4096> message;
    ssize_t size;
    while ((size = recv(socket_.get(), message.data(), message.size(), MSG_DONTWAIT)) >= 0) {
      messages.emplace_back(message.data(), static_cast<size_t>(size));
    }
    return messages;
  }

 private:
  const std::string path_;
  const UniqueFd socket_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_DAEMON_NOTIFY_SOCKET_FOR_TEST_H_

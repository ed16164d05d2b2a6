// Helpers for tests against the kernel: shell commands, and a TUN in an empty network namespace.
#ifndef EOIB_GATEWAY_HOST_KERNEL_FOR_TEST_H_
#define EOIB_GATEWAY_HOST_KERNEL_FOR_TEST_H_

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "gateway/host/tun_device.h"
#include "gtest/gtest.h"

namespace eoib::endpoint {

inline std::string OutputOf(const char* command) {
  FILE* const pipe = popen(command, "r");
  std::string output;
  char buffer[4096];
  while (size_t size = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, size);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

// Runs `test` in a new network namespace whose only netdev besides lo is a TUN, ib0, that is up.
inline void WithTun(const std::function<void(int index)>& test) {
  std::thread([&test] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    auto tun = TunDevice::Open("ib0");
    ASSERT_TRUE(tun.ok()) << tun.status();
    (*tun)->SetLink(2044);
    test((*tun)->index());
  }).join();
}

// Leaves a TUN ib0 in the network namespace of the calling thread, as a killed process does.
inline void LeaveTunOfDeadProcess() {
  const pid_t child = fork();
  if (child == 0) {
    auto tun = TunDevice::Open("ib0");
    _exit(tun.ok() ? 7 : 1);  // without destructors
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_KERNEL_FOR_TEST_H_

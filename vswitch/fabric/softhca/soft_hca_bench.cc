// Datagrams and bits per second from one port to another, each on its own thread.
//
//       softhca_bench [SECONDS]
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "vswitch/fabric/softhca/soft_node_for_test.h"

namespace eoib::softhca {
namespace {

constexpr int kBatch = 32;
constexpr uint32_t kDepth = 512;

std::unique_ptr<SoftNode> Open(Subnet* subnet, const std::string& name, bool files) {
  std::unique_ptr<SubnetLink> link = subnet->Connect();
  if (files) link = std::make_unique<DescriptorLink>(std::move(link));
  return std::make_unique<SoftNode>(OpenSoftHca(std::move(link), name).value(),
                                    NodeOptions{.receives = kDepth, .sends = kDepth});
}

// Two spinning threads must not share a processor.
void PinTo(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % std::max(1u, std::thread::hardware_concurrency()), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// Posts batches; only the last send of each is signaled.
class Sender {
 public:
  Sender(SoftNode* node, const Destination& to, uint32_t length)
      : node_(node), ah_(node->MakeAh(to)) {
    for (int i = 0; i < kBatch; ++i) {
      sges_[i] = {reinterpret_cast<uintptr_t>(node->send_area()), length, node->mr()->lkey};
      requests_[i] = {};
      requests_[i].sg_list = &sges_[i];
      requests_[i].num_sge = 1;
      requests_[i].opcode = IBV_WR_SEND;
      requests_[i].next = i + 1 < kBatch ? &requests_[i + 1] : nullptr;
      requests_[i].send_flags = i + 1 < kBatch ? 0 : IBV_SEND_SIGNALED;
      requests_[i].wr.ud = {ah_, to.qpn.value(), to.qkey};
    }
  }
  ~Sender() { node_->verbs().destroy_ah(ah_); }

  void Burst() {
    ibv_send_wr* bad;
    if (ibv_post_send(node_->qp(), requests_, &bad) != 0) std::abort();
    node_->PollSend();
  }

 private:
  SoftNode* const node_;
  ibv_ah* const ah_;
  ibv_sge sges_[kBatch];
  ibv_send_wr requests_[kBatch];
};

uint64_t ReceiveBurst(SoftNode* node) {
  ibv_wc completions[kBatch];
  const int got = ibv_poll_cq(node->receive_cq(), kBatch, completions);
  ibv_sge sges[kBatch];
  ibv_recv_wr requests[kBatch];
  for (int i = 0; i < got; ++i) {
    sges[i] = {reinterpret_cast<uintptr_t>(node->buffer(completions[i].wr_id)), 4136,
               node->mr()->lkey};
    requests[i] = {completions[i].wr_id, i + 1 < got ? &requests[i + 1] : nullptr, &sges[i], 1};
  }
  ibv_recv_wr* bad;
  if (got > 0 && ibv_post_recv(node->qp(), requests, &bad) != 0) std::abort();
  return static_cast<uint64_t>(got);
}

// `window`: how many bytes the sender may be ahead of the receiver; 0: no limit.
void Measure(bool files, uint32_t length, uint64_t window, double seconds) {
  Subnet subnet;
  auto a = Open(&subnet, "a", files), b = Open(&subnet, "b", files);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> taken{0};
  std::thread thread([&] {
    PinTo(1);
    Sender sender(a.get(), b->GlobalAddress(), length);
    for (uint64_t sent = 0; !stop;) {
      if (window != 0 &&
          (sent + kBatch - taken.load(std::memory_order_relaxed)) * length > window) {
        std::this_thread::yield();
        continue;
      }
      sender.Burst();
      sent += kBatch;
    }
  });
  PinTo(0);
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto receive_until = [&](double end) {
    while (elapsed() < end) {
      for (int i = 0; i < 100; ++i)
        taken.store(taken.load(std::memory_order_relaxed) + ReceiveBurst(b.get()));
    }
  };
  receive_until(0.2);
  const uint64_t before = taken;
  const double from = elapsed();
  receive_until(from + seconds);
  const uint64_t received = taken - before;
  const double time = elapsed() - from;
  stop = true;
  thread.join();
  const SoftPortCounters sent = a->counters();
  std::printf(
      "%-10s %-9s %4u bytes: %6.2f M/s received, %6.1f Gb/s; sent %.2f M/s, discarded %.0f %%, "
      "ring %llu KiB\n",
      files ? "files" : "in process", window == 0 ? "flood" : "window", length,
      received / time / 1e6, received * length * 8 / time / 1e9,
      sent.xmit_packets / (time + 0.2) / 1e6, 100.0 * sent.xmit_discards / sent.xmit_packets,
      static_cast<unsigned long long>(a->port().rings().largest_outbound / 1024));
}

}  // namespace
}  // namespace eoib::softhca

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  for (const bool files : {false, true}) {
    for (const uint64_t window : {384 * 1024, 0}) {
      for (const uint32_t length : {64u, 1500u, 4096u})
        eoib::softhca::Measure(files, length, window, seconds);
    }
  }
}

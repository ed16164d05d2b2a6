// eoib-fabricd: the software subnet. Ports of other processes on this machine register with it over RUNDIR/fabricd.sock.
//
// One thread. Datagrams never come here: stopped, it stops nothing that is known; killed and started again, it is found again.

#include <gflags/gflags.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/command_registry.h"
#include "control/command_server.h"
#include "control/directories.h"
#include "control/event_loop.h"
#include "control/program.h"
#include "fdb/clock.h"
#include "vswitch/fabric/softhca/fabric_server.h"
#include "vswitch/fabric/softhca/subnet.h"
#include "vswitch/fabric/softhca/subnet_config.h"

DEFINE_string(rundir, "/run/eoib", "directory of fabricd.sock, where ports register, and of the control socket fabricd.ctl");
DEFINE_string(config, "", "partitions, a TOML file; without one there is the default partition 0xffff only");
DEFINE_string(pidfile, "", "write the process ID to this file, and remove it at the end");

namespace eoib::softhca {
namespace {

using Arguments = CommandRegistry::Arguments;
using Answer = absl::StatusOr<std::string>;

Answer Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return std::string("ok\n");
}

std::string JoinStates(uint8_t bits) {
  std::string text;
  if ((bits & kFullMember) != 0) text += " full";
  if ((bits & kNonMember) != 0) text += " non-member";
  if ((bits & kSendOnlyNonMember) != 0) text += " send-only";
  return text;
}

std::string ShowPort(const Subnet::PortStatus& port) {
  const char* state = !port.link_up ? "link down" : port.alive ? "active" : "no process";
  std::string text =
      absl::StrFormat("%-16s lid %-6s %-10s guid %s qpns %s+%u\n", port.name, port.config.lid.ToString(), state,
                      port.config.port_guid.ToString(), port.config.qpns.first.ToString(), port.config.qpns.count);
  absl::StrAppend(&text, "  pkeys");
  for (const PKey pkey : port.config.pkeys) absl::StrAppend(&text, " ", pkey.IsValid() ? pkey.ToString() : "-");
  absl::StrAppendFormat(&text, "\n  registrations %u, MADs %u, rings out %u, in %u, opened %u, refused %u\n",
                        port.registrations, port.mads, port.rings_out, port.rings_in, port.rings_made, port.rings_refused);
  return text;
}

// The commands of the control socket. `subnet` and `server` outlive them.
class Commands {
 public:
  Commands(Subnet* subnet, const FabricServer* server) : subnet_(subnet), server_(server) {}

  void Register(CommandRegistry* registry) {
    registry->Register(
        {"show", "", "ports, their LIDs, P_Keys and counters", 0, 0, [this](const Arguments&) { return Show(); }});
    registry->Register(
        {"groups", "", "multicast groups and their members", 0, 0, [this](const Arguments&) { return Groups(); }});
    registry->Register({"rings", "", "which port has a ring to which", 0, 0, [this](const Arguments&) { return Rings(); }});
    registry->Register({"link", "PORT up|down", "plug a port's cable in, or pull it", 2, 2,
                        [this](const Arguments& arguments) { return Link(arguments); }});
    registry->Register(
        {"lid", "PORT LID", "give a port another LID", 2, 2, [this](const Arguments& arguments) { return SetLid(arguments); }});
    registry->Register({"loss", "PPM [SEED]", "lose so many of a million datagrams", 1, 2,
                        [this](const Arguments& arguments) { return Loss(arguments); }});
    registry->Register({"partition/add", "PKEY PORT|ALL [limited]", "make a port a member of a partition", 2, 3,
                        [this](const Arguments& arguments) { return PartitionAdd(arguments); }});
    registry->Register({"partition/remove", "PKEY PORT|ALL", "withdraw a P_Key from a port", 2, 2,
                        [this](const Arguments& arguments) { return PartitionRemove(arguments); }});
    registry->Register(
        {"sm", "on|off", "answer MADs, or not", 1, 1, [this](const Arguments& arguments) { return Sm(arguments); }});
  }

 private:
  Answer Show() const {
    std::string text;
    for (const Subnet::PortStatus& port : subnet_->Ports()) text += ShowPort(port);
    const SaResponder::Counters sa = subnet_->SaCounters();
    absl::StrAppendFormat(&text, "SM %s, lid %s: %u MADs answered (%u with an error), %u malformed\n",
                          subnet_->sm_absent() ? "absent" : "present", Subnet::kSmLid.ToString(), sa.requests, sa.errors,
                          sa.malformed);
    const FabricServer::Counters& counters = server_->counters();
    absl::StrAppendFormat(&text, "connections %u: accepted %u, refused %u, dropped for bad messages %u, for not reading %u\n",
                          server_->clients(), counters.accepted, counters.refused, counters.malformed, counters.stuck);
    if (!server_->last_error().empty()) absl::StrAppend(&text, "last dropped for: ", server_->last_error(), "\n");
    absl::StrAppend(&text, "loss ", subnet_->faults().loss_ppm, " ppm\n");
    return text;
  }

  Answer Groups() const {
    std::string text;
    for (const Subnet::GroupStatus& group : subnet_->Groups()) {
      const McMemberRecord& record = group.record;
      absl::StrAppendFormat(&text, "%s mlid %s pkey %s qkey %s mtu %d rate %u sl %s\n", record.mgid.ToString(),
                            record.mlid.ToString(), record.pkey.ToString(), record.qkey.ToString(), MtuBytes(record.mtu),
                            record.rate, record.sl.ToString());
      for (const Subnet::GroupMember& member : group.members) {
        absl::StrAppend(&text, "  ", member.port, " lid ", member.lid.ToString(), JoinStates(member.join_state), "\n");
      }
    }
    return text;
  }

  Answer Rings() const {
    std::string text;
    for (const Subnet::RingStatus& ring : subnet_->Rings()) {
      absl::StrAppendFormat(&text, "0x%x %s -> %s, %u bytes\n", ring.ring, ring.source, ring.destination, ring.capacity);
    }
    return text;
  }

  Answer Link(const Arguments& arguments) {
    if (arguments[1] != "up" && arguments[1] != "down") {
      return absl::InvalidArgumentError(absl::StrCat("link ", arguments[0], " ", arguments[1], ": must be up or down"));
    }
    return Done(subnet_->SetLink(arguments[0], arguments[1] == "up"));
  }

  Answer SetLid(const Arguments& arguments) {
    const absl::StatusOr<Lid> lid = Lid::Parse(arguments[1]);
    if (!lid.ok()) return lid.status();
    return Done(subnet_->SetLid(arguments[0], *lid));
  }

  Answer Loss(const Arguments& arguments) {
    uint32_t ppm;
    uint64_t seed = 1;
    const bool numbers =
        absl::SimpleAtoi(arguments[0], &ppm) && (arguments.size() < 2 || absl::SimpleAtoi(arguments[1], &seed));
    if (!numbers || ppm > 1'000'000) return absl::InvalidArgumentError("loss: must be 0 to 1000000, parts per million");
    subnet_->SetLossPpm(ppm, seed);
    return Done(absl::OkStatus());
  }

  Answer PartitionAdd(const Arguments& arguments) {
    const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
    if (!pkey.ok()) return pkey.status();
    if (arguments.size() == 3 && arguments[2] != "limited" && arguments[2] != "full") {
      return absl::InvalidArgumentError(absl::StrCat("membership ", arguments[2], ": must be limited or full"));
    }
    const bool limited = arguments.size() == 3 && arguments[2] == "limited";
    return Done(subnet_->AddToPartition(*pkey, arguments[1], limited ? Membership::kLimited : Membership::kFull));
  }

  Answer PartitionRemove(const Arguments& arguments) {
    const absl::StatusOr<PKey> pkey = PKey::Parse(arguments[0]);
    if (!pkey.ok()) return pkey.status();
    return Done(subnet_->RemoveFromPartition(*pkey, arguments[1]));
  }

  Answer Sm(const Arguments& arguments) {
    if (arguments[0] != "on" && arguments[0] != "off") {
      return absl::InvalidArgumentError(absl::StrCat("sm ", arguments[0], ": must be on or off"));
    }
    subnet_->SetSmAbsent(arguments[0] == "off");
    return Done(absl::OkStatus());
  }

  Subnet* const subnet_;
  const FabricServer* const server_;
};

// Rings pass through here as four descriptors each, and wait here for ports that are slow to read.
void AllowManyDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status WritePidFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << getpid() << "\n" << std::flush;
  return file ? absl::OkStatus() : absl::InternalError(absl::StrCat("write the process ID to ", path));
}

absl::Status Run() {
  const UniqueFd signals = TerminationSignals();
  AllowManyDescriptors();
  Subnet::Options options;
  if (!FLAGS_config.empty()) {
    absl::StatusOr<SubnetConfig> config = LoadSubnetConfig(FLAGS_config);
    if (!config.ok()) return config.status();
    options.config = *std::move(config);
  }
  if (absl::Status status = MakeDirectories(FLAGS_rundir, 0755); !status.ok()) return status;
  Subnet subnet(std::move(options));
  auto server = FabricServer::Listen(absl::StrCat(FLAGS_rundir, "/fabricd.sock"), &subnet);
  if (!server.ok()) return server.status();

  MonotonicClock clock;
  EventLoop loop(&clock);
  CommandRegistry registry;
  Commands commands(&subnet, server->get());
  commands.Register(&registry);
  registry.Register({"exit", "", "stop the subnet", 0, 0, [&](const Arguments&) -> Answer {
                       // After the answer is out.
                       loop.CallAt(clock.Now(), [&loop] { loop.Stop(); });
                       return std::string("stopping\n");
                     }});
  auto control = CommandServer::Listen(absl::StrCat(FLAGS_rundir, "/fabricd.ctl"), &registry);
  if (!control.ok()) return control.status();

  absl::Status watched = loop.Add(signals.get(), EPOLLIN, [&](uint32_t) { loop.Stop(); });
  watched.Update(loop.Add((*server)->fd(), EPOLLIN, [&](uint32_t) { (*server)->Run(); }));
  watched.Update(loop.Add((*control)->fd(), EPOLLIN, [&](uint32_t) { (*control)->Run(); }));
  watched.Update(WritePidFile(FLAGS_pidfile));
  if (!watched.ok()) return watched;
  loop.Run();
  if (!FLAGS_pidfile.empty()) unlink(FLAGS_pidfile.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace eoib::softhca

int main(int argc, char** argv) {
  const int done = eoib::ParseFlags(
      argc, argv, "the software InfiniBand subnet of this machine: subnet manager, SA and switch control", "fabricd_main");
  if (done >= 0) return done;
  const absl::Status status = eoib::softhca::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "eoib-fabricd: %s\n", std::string(status.message()).c_str());
  return 1;
}

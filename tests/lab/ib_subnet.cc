#include "tests/lab/ib_subnet.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace eoib::lab {
namespace {

constexpr uint16_t kFullMember = 0x8000;
constexpr uint16_t kDefaultPartition = 0x7fff;
// Generous, because an emulated machine on a busy host is slow.
constexpr absl::Duration kLimit = absl::Seconds(60);
constexpr absl::Duration kSmPatience = absl::Seconds(20);  // with OpenSM's end

std::string ReadLine(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadFile(path)));
}

uint32_t ParseHex(absl::string_view text) {
  uint32_t value = 0;
  return absl::SimpleHexAtoi(text, &value) ? value : 0;
}

std::string Knob(int adapter, const std::string& name) {
  return absl::StrCat("/sys/kernel/debug/simib/", IbSubnet::Device(adapter), "/", name);
}

// IBA 14.2.5.6: code 1 is 256 bytes, code 5 is 4096.
int MtuCode(int mtu) {
  int code = 1;
  for (int bytes = 256; bytes < mtu; bytes *= 2) ++code;
  return code;
}

std::string MemberList(const std::vector<int>& adapters, absl::string_view membership) {
  std::string members;
  for (int adapter : adapters) {
    const std::string member = adapter == IbPartition::kAll
                                   ? "ALL"
                                   : absl::StrFormat("0x%016x", IbSubnet::PortGuid(adapter));
    absl::StrAppend(&members, members.empty() ? "" : ", ", member, "=", membership);
  }
  return members;
}

// opensm(8), "PARTITION CONFIGURATION". The partition's name is its number; it appears nowhere
// else.
std::string ToConfiguration(const IbPartition& partition) {
  const uint16_t number = partition.pkey & kDefaultPartition;
  std::string text = absl::StrFormat(
      "%s=0x%04x", number == kDefaultPartition ? "Default" : absl::StrFormat("p%04x", number),
      number);
  if (partition.ipoib) absl::StrAppend(&text, ", ipoib, mtu=", MtuCode(partition.mtu));
  std::vector<std::string> members;
  if (!partition.limited.empty()) members.push_back(MemberList(partition.limited, "limited"));
  if (!partition.full.empty()) members.push_back(MemberList(partition.full, "full"));
  return absl::StrCat(text, " : ", absl::StrJoin(members, ", "), ";\n");
}

bool Has(const std::vector<int>& adapters, int adapter) {
  return std::any_of(adapters.begin(), adapters.end(),
                     [&](int a) { return a == adapter || a == IbPartition::kAll; });
}

}  // namespace

IbSubnet::IbSubnet(std::string directory, const IbSubnetOptions& options)
    : directory_(std::move(directory)), options_(options) {
  MustRunOnMachine({"modprobe", "-a", "ib_uverbs", "ib_umad", "ib_ipoib"});
  WritePartitions();
  Load();
}

// Unload the module first: IPoIB then leaves its groups, which takes a minute if no SA answers.
IbSubnet::~IbSubnet() {
  if (loaded_) Unload();
}

void IbSubnet::Load() {
  const char* module = std::getenv("EOIB_SIMIB");
  if (module == nullptr)
    Die("EOIB_SIMIB is not set: run the test through ctest, or set it to simib.ko of "
        "tests/vm/build_module.sh");
  MustRunOnMachine({"insmod", module, absl::StrCat("adapters=", options_.adapters),
                    absl::StrCat("mtu=", options_.mtu),
                    absl::StrCat("async=", options_.async ? 1 : 0)});
  loaded_ = true;
  cable_out_.clear();
}

// Kills the subnet managers (in ~Process). OpenSM 3.3 survives the loss of its device and keeps
// polling for MADs; on SIGTERM it would wait for answers that cannot come.
void IbSubnet::Unload() {
  MustRunOnMachine({"rmmod", "simib"});
  sms_.clear();
  loaded_ = false;
}

void IbSubnet::Start() {
  StartSm(0);
  Wait();
}

std::string IbSubnet::SmDirectory(int adapter) const { return Path(absl::StrCat("sm", adapter)); }

// Timeouts far below production values, for short tests: a dead master is noticed after about a
// second, a lost MAD after 0.2 s.
void IbSubnet::StartSm(int adapter, int priority) {
  const std::string own = SmDirectory(adapter);
  mkdir(own.c_str(), 0755);
  WriteFile(
      own + "/opensm.conf",
      absl::StrCat("sweep_interval 5\ntransaction_timeout 200\nsminfo_polling_timeout "
                   "300\npolling_retry_number 2\n",
                   "force_log_flush TRUE\nlmc ", options_.lmc, "\npart_enforce both\nqos FALSE\n"));
  SpawnOptions options;
  options.argv = {"opensm",
                  "-F",
                  own + "/opensm.conf",
                  "-g",
                  absl::StrFormat("0x%016x", PortGuid(adapter)),
                  "-P",
                  Path("partitions.conf"),
                  "-f",
                  own + "/opensm.log",
                  "-p",
                  absl::StrCat(priority)};
  options.environment = {"OSM_CACHE_DIR=" + own, "OSM_TMP_DIR=" + own};
  sms_[adapter] = std::make_unique<Process>(std::move(options), own + "/output.log");
}

// OpenSM 3.3.23 sometimes hangs when it ends.
void IbSubnet::StopSm(int adapter) {
  KillSm(adapter, SIGTERM);
  if (!sms_.at(adapter)->Wait(kSmPatience)) {
    std::printf("lab: OpenSM on %s hangs at its end, and is killed\n", Device(adapter).c_str());
    sms_.at(adapter)->Kill(SIGKILL);
  }
  sms_.erase(adapter);
}

void IbSubnet::KillSm(int adapter, int signal) {
  if (!SmAlive(adapter))
    Die(absl::StrCat("no OpenSM runs on ", Device(adapter), ":\n", SmLog(adapter)));
  sms_.at(adapter)->Kill(signal);
}

bool IbSubnet::SmAlive(int adapter) {
  auto sm = sms_.find(adapter);
  return sm != sms_.end() && sm->second->Alive();
}

std::string IbSubnet::SmLog(int adapter) const {
  return absl::StrCat(ReadFile(SmDirectory(adapter) + "/output.log"),
                      ReadFile(SmDirectory(adapter) + "/opensm.log"));
}

// OpenSM's file guid2lid has a line "GUID LID LID", in hexadecimal, and an empty line for each
// port.
void IbSubnet::ReassignLid(int adapter, uint16_t lid) {
  if (sms_.size() != 1) Die("change a LID: exactly one subnet manager must run");
  const int manager = sms_.begin()->first;
  StopSm(manager);
  const std::string path = SmDirectory(manager) + "/guid2lid",
                    guid = absl::StrFormat("0x%016x", PortGuid(adapter));
  std::string text;
  for (absl::string_view line : absl::StrSplit(ReadFile(path), '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, guid)) absl::StrAppend(&text, line, "\n\n");
  }
  WriteFile(path, absl::StrCat(text, guid, absl::StrFormat(" 0x%04x 0x%04x\n\n", lid, lid)));
  StartSm(manager);
  if (!EventuallyTrue(kLimit, [&] { return Lid(adapter) == lid; })) {
    Die(absl::StrCat(Device(adapter), " does not get another LID:\n", SmLog(manager)));
  }
  Wait();
}

void IbSubnet::WritePartitions() {
  std::string text;
  bool has_default = false;
  for (const IbPartition& partition : options_.partitions) {
    has_default |= (partition.pkey & kDefaultPartition) == kDefaultPartition;
    absl::StrAppend(&text, ToConfiguration(partition));
  }
  if (!has_default) text = "Default=0x7fff : ALL=limited, SELF=full;\n" + text;
  WriteFile(Path("partitions.conf"), text);
}

void IbSubnet::SetPartitions(const std::vector<IbPartition>& partitions) {
  options_.partitions = partitions;
  WritePartitions();
  ReloadPartitions();
}

void IbSubnet::SetPartitionFile(const std::string& text) {
  options_.partitions.clear();
  WriteFile(Path("partitions.conf"), text);
  ReloadPartitions();
}

void IbSubnet::ReloadPartitions() {
  for (auto& [adapter, sm] : sms_) {
    if (sm->Alive()) sm->Kill(SIGHUP);
  }
}

// Keyed by the low 15 bits; a member of both kinds is a full member. Without the default partition,
// which is implicit.
std::map<uint16_t, uint16_t> IbSubnet::ExpectedPKeys(int adapter) const {
  std::map<uint16_t, uint16_t> expected;
  for (const IbPartition& partition : options_.partitions) {
    const uint16_t number = partition.pkey & kDefaultPartition;
    if (Has(partition.limited, adapter)) expected[number] = number;
    if (Has(partition.full, adapter)) expected[number] = number | kFullMember;
  }
  expected.erase(kDefaultPartition);
  return expected;
}

std::string IbSubnet::MissingOfPort(int adapter) const {
  auto cable = cable_out_.find(adapter);
  if (cable != cable_out_.end() && cable->second) return "";
  if (State(adapter) != 4 || Lid(adapter) == 0)
    return absl::StrCat(Device(adapter), " is ", Port(adapter, "state"));
  std::map<uint16_t, uint16_t> found;
  for (const auto& [index, pkey] : PKeys(adapter)) found[pkey & kDefaultPartition] = pkey;
  found.erase(kDefaultPartition);
  if (found != ExpectedPKeys(adapter))
    return Device(adapter) + " has not the P_Keys it should have";
  return "";
}

bool IbSubnet::SaAnswers() const {
  return RunOnMachine({"saquery", "-t", "500", "-C", Device(options_.adapters - 1), "-s"},
                      absl::Seconds(10))
      .ok();
}

std::string IbSubnet::Missing() const {
  for (int adapter = 0; adapter < options_.adapters; ++adapter) {
    const std::string missing = MissingOfPort(adapter);
    if (!missing.empty()) return missing;
  }
  return SaAnswers() ? "" : "the subnet administrator does not answer";
}

void IbSubnet::Wait() {
  std::string missing;
  if (EventuallyTrue(kLimit, [&] { return (missing = Missing()).empty(); })) return;
  std::string logs;
  for (const auto& [adapter, sm] : sms_)
    absl::StrAppend(&logs, "\n---- OpenSM on ", Device(adapter), "\n", SmLog(adapter));
  Die(absl::StrCat("the subnet does not come up: ", missing, logs));
}

std::string IbSubnet::Device(int adapter) { return absl::StrCat("simib", adapter); }

uint64_t IbSubnet::PortGuid(int adapter) {
  return 0x0253494d49420001 | static_cast<uint64_t>(adapter) << 8;
}

std::string IbSubnet::Port(int adapter, const std::string& file) {
  return ReadLine(absl::StrCat("/sys/class/infiniband/", Device(adapter), "/ports/1/", file));
}

uint16_t IbSubnet::Lid(int adapter) {
  return static_cast<uint16_t>(ParseHex(Port(adapter, "lid")));
}

uint16_t IbSubnet::SmLid(int adapter) {
  return static_cast<uint16_t>(ParseHex(Port(adapter, "sm_lid")));
}

// The file contains "4: ACTIVE".
int IbSubnet::State(int adapter) { return std::atoi(Port(adapter, "state").c_str()); }

std::map<int, uint16_t> IbSubnet::PKeys(int adapter) {
  std::map<int, uint16_t> pkeys;
  for (int index = 0;; ++index) {
    const std::string text = Port(adapter, absl::StrCat("pkeys/", index));
    if (text.empty()) return pkeys;
    if (ParseHex(text) != 0) pkeys[index] = static_cast<uint16_t>(ParseHex(text));
  }
}

// An IPoIB link-layer address ends in the port's GUID (RFC 4391 §9.1.1). Child interfaces have the
// same GUID; they are excluded by the dot in their names.
std::string IbSubnet::IpoibInterface(int adapter) {
  const std::string guid = absl::StrFormat("%016x", PortGuid(adapter));
  std::string found;
  DIR* directory = opendir("/sys/class/net");
  if (directory == nullptr) DieErrno("open /sys/class/net");
  while (dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    std::string address = ReadLine(absl::StrCat("/sys/class/net/", name, "/address"));
    address.erase(std::remove(address.begin(), address.end(), ':'), address.end());
    if (absl::StartsWith(name, "ib") && !absl::StrContains(name, '.') &&
        absl::EndsWith(address, guid))
      found = name;
  }
  closedir(directory);
  return found;
}

void IbSubnet::SetCable(int adapter, bool in) {
  cable_out_[adapter] = !in;
  WriteFile(Knob(adapter, "cable"), in ? "1\n" : "0\n");
}

void IbSubnet::SetLoss(int adapter, int one_in) {
  WriteFile(Knob(adapter, "drop"), absl::StrCat(one_in, "\n"));
}

std::map<std::string, uint64_t> IbSubnet::Drops(int adapter) {
  std::map<std::string, uint64_t> drops;
  for (absl::string_view line :
       absl::StrSplit(ReadFile(Knob(adapter, "drops")), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> word = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (!absl::SimpleAtoi(word.second, &drops[word.first]))
      Die("not a line \"NAME VALUE\": " + std::string(line));
  }
  return drops;
}

}  // namespace eoib::lab

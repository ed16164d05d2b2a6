#include "vswitch/fabric/packet_capture.h"

#include <signal.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace eoib {
namespace {

constexpr uint8_t kBthUdSendOnlyWithImmediate = 0x65;  // IBA 1.4 §9.2, table 38

using Bytes = absl::Span<const uint8_t>;

template <typename Wire>
Bytes AsBytes(const Wire& wire) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&wire), sizeof(wire));
}

// Turns the headers into those of a packet without a GRH (LNH "IBA local"). The writer then leaves the GRH out.
void MakeLocal(UdHeaders* headers) {
  headers->lrh.sl_lnh = static_cast<uint8_t>((headers->lrh.sl_lnh & ~3) | kLnhIbaLocal);
  headers->lrh.packet_length = static_cast<uint16_t>(headers->lrh.packet_length.value() - sizeof(Grh) / 4);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketCapture>> PacketCapture::Open(const std::string& path, Origin origin,
                                                                   absl::string_view comment) {
  absl::StatusOr<std::unique_ptr<ErfWriter>> writer = ErfWriter::Open(path, static_cast<uint8_t>(origin));
  if (!writer.ok()) return writer.status();
  if (!comment.empty()) {
    if (absl::Status status = (*writer)->WriteComment(absl::Now(), comment); !status.ok()) return status;
  }
  return Adopt(*std::move(writer));
}

std::unique_ptr<PacketCapture> PacketCapture::Adopt(std::unique_ptr<ErfWriter> writer) {
  std::unique_ptr<PacketCapture> capture(new PacketCapture(std::move(writer)));
  capture->Start();
  return capture;
}

PacketCapture::PacketCapture(std::unique_ptr<ErfWriter> writer)
    : path_(writer->path()),
      filling_(std::make_unique<uint8_t[]>(kCapacity)),
      writer_(std::move(writer)),
      writing_(std::make_unique<uint8_t[]>(kCapacity)) {}

// The capture thread takes no signals: those belong to the program's own threads.
void PacketCapture::Start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PacketCapture::~PacketCapture() { Close(); }

bool PacketCapture::Record(const Packet& packet, size_t length, absl::FunctionRef<void(uint8_t* to)> copy) {
  static_assert(std::is_trivially_copyable_v<Note>);
  const Note note = {.nanos = absl::GetCurrentTimeNanos(),
                     .length = static_cast<uint32_t>(length),
                     .global = packet.global,
                     .has_immediate = packet.immediate.has_value(),
                     .immediate = packet.immediate.value_or(be32()),
                     .headers = packet.headers};
  absl::MutexLock lock(&mutex_);
  if (ending_ || !status_.ok() || kCapacity - filled_ < sizeof(note) + length) {
    ++missed_;
    return false;
  }
  std::memcpy(&filling_[filled_], &note, sizeof(note));
  copy(&filling_[filled_ + sizeof(note)]);
  filled_ += sizeof(note) + length;
  return true;
}

CaptureReport PacketCapture::report() const {
  absl::MutexLock lock(&mutex_);
  return {path_, packets_, missed_, status_};
}

CaptureReport PacketCapture::Close() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  if (thread_.joinable()) thread_.join();
  return report();
}

// ---- The thread.

void PacketCapture::Run() {
  bool last = false;
  while (!last) {
    last = WaitForWork();
    absl::Status status = WriteAll();
    if (last && status.ok()) status = writer_->Close();
    absl::MutexLock lock(&mutex_);
    packets_ = writer_->packets();
    if (status_.ok()) status_ = status;
  }
}

// Swaps the buffers: takes what was recorded and hands back the empty one. True if this was the last time.
bool PacketCapture::WaitForWork() {
  const auto urgent = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ending_ || filled_ >= kCapacity / 2; };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&urgent), kTick);
  filling_.swap(writing_);
  to_write_ = std::exchange(filled_, 0);
  return ending_;
}

absl::StatusOr<CaptureReport> PacketCapture::Stop(std::unique_ptr<PacketCapture> capture, absl::string_view hca_name) {
  if (capture == nullptr) return absl::FailedPreconditionError(absl::StrCat("stop the capture on ", hca_name, ": none runs"));
  CaptureReport report = capture->Close();
  if (!report.status.ok()) return report.status;
  return report;
}

absl::Status PacketCapture::WriteAll() {
  for (size_t at = 0; at < to_write_;) {
    Note note;
    std::memcpy(&note, &writing_[at], sizeof(note));
    at += sizeof(note);
    if (absl::Status status = WritePacket(note, {&writing_[at], note.length}); !status.ok()) return status;
    at += note.length;
  }
  return writer_->Flush();
}

absl::Status PacketCapture::WritePacket(const Note& note, Bytes data) {
  // ImmDt is an extended header, but it lies where the payload begins.
  const Bytes payload[] = {note.has_immediate ? AsBytes(note.immediate) : Bytes(), data};
  UdHeaders headers = note.headers;
  if (note.has_immediate) headers.bth.opcode = kBthUdSendOnlyWithImmediate;
  const absl::Time time = absl::FromUnixNanos(note.nanos);
  if (note.global) {
    const UdTrailer trailer = MakeUdTrailer(headers, payload);
    return writer_->Write(time, {AsBytes(headers), payload[0], payload[1], trailer.span()});
  }
  MakeLocal(&headers);
  const UdTrailer trailer = MakeUdTrailer(headers, payload);
  return writer_->Write(
      time, {AsBytes(headers.lrh), AsBytes(headers.bth), AsBytes(headers.deth), payload[0], payload[1], trailer.span()});
}

}  // namespace eoib

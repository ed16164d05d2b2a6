#include "vswitch/fabric/packet_capture.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

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

// Turns the headers into those of a packet without a GRH (LNH "IBA local"). The writer then leaves
// the GRH out.
void MakeLocal(UdHeaders* headers) {
  headers->lrh.sl_lnh = static_cast<uint8_t>((headers->lrh.sl_lnh & ~3) | kLnhIbaLocal);
  headers->lrh.packet_length =
      static_cast<uint16_t>(headers->lrh.packet_length.value() - sizeof(Grh) / 4);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketCapture>> PacketCapture::Open(const CaptureOptions& options,
                                                                   Origin origin,
                                                                   absl::string_view comment) {
  absl::StatusOr<std::unique_ptr<ErfWriter>> writer =
      ErfWriter::Open(options.path, static_cast<uint8_t>(origin));
  if (!writer.ok()) return writer.status();
  if (!comment.empty()) {
    if (absl::Status status = (*writer)->WriteComment(absl::Now(), comment); !status.ok())
      return status;
  }
  return Adopt(*std::move(writer), options);
}

std::unique_ptr<PacketCapture> PacketCapture::Adopt(std::unique_ptr<ErfWriter> writer,
                                                    const CaptureOptions& options) {
  std::unique_ptr<PacketCapture> capture(new PacketCapture(std::move(writer), options));
  capture->Start();
  return capture;
}

PacketCapture::PacketCapture(std::unique_ptr<ErfWriter> writer, const CaptureOptions& options)
    : path_(writer->path()),
      snap_length_(options.snap_length),
      limit_(options.limit),
      filter_(options.filter),
      filling_(std::make_unique<uint8_t[]>(kCapacity)),
      writer_(std::move(writer)),
      writing_(std::make_unique<uint8_t[]>(kCapacity)) {
  writer_->SetPatience([this] { return MayWait(); });
}

// The capture thread takes no signals: those belong to the program's own threads.
void PacketCapture::Start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PacketCapture::~PacketCapture() { Close(); }

bool PacketCapture::Record(const Packet& packet, size_t length,
                           absl::FunctionRef<void(uint8_t* to)> copy) {
  static_assert(std::is_trivially_copyable_v<Note>);
  const Note note = {.nanos = absl::GetCurrentTimeNanos(),
                     .length = static_cast<uint32_t>(length),
                     .recorded = static_cast<uint32_t>(std::min(length, snap_length_)),
                     .global = packet.global,
                     .has_immediate = packet.immediate.has_value(),
                     .immediate = packet.immediate.value_or(be32()),
                     .headers = packet.headers};
  absl::MutexLock lock(&mutex_);
  if (full_) return true;
  if (ending_ || !status_.ok() || kCapacity - filled_ < sizeof(note) + length) {
    ++missed_;
    return false;
  }
  uint8_t* const payload = &filling_[filled_ + sizeof(note)];
  copy(payload);
  if (!filter_.Passes(packet.headers, {payload, length})) return true;
  std::memcpy(&filling_[filled_], &note, sizeof(note));
  filled_ += sizeof(note) + note.recorded;
  return true;
}

CaptureReport PacketCapture::report() const {
  absl::MutexLock lock(&mutex_);
  return {path_, packets_, missed_, status_, full_};
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
    full_ = reached_limit_;
    if (status_.ok()) status_ = status;
  }
}

// Swaps the buffers: takes what was recorded and hands back the empty one. True if this was the
// last time.
bool PacketCapture::WaitForWork() {
  const auto urgent = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ending_ || filled_ >= kCapacity / 2;
  };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&urgent), kTick);
  filling_.swap(writing_);
  to_write_ = std::exchange(filled_, 0);
  return ending_;
}

absl::StatusOr<CaptureReport> PacketCapture::Stop(std::unique_ptr<PacketCapture> capture,
                                                  absl::string_view hca_name) {
  if (capture == nullptr)
    return absl::FailedPreconditionError(
        absl::StrCat("stop the capture on ", hca_name, ": none runs"));
  CaptureReport report = capture->Close();
  if (!report.status.ok()) return report.status;
  return report;
}

absl::Status PacketCapture::WriteAll() {
  for (size_t at = 0; at < to_write_;) {
    Note note;
    std::memcpy(&note, &writing_[at], sizeof(note));
    at += sizeof(note);
    if (absl::Status status = WritePacket(note, {&writing_[at], note.recorded}); !status.ok())
      return status;
    at += note.recorded;
  }
  return writer_->Flush();
}

absl::Status PacketCapture::WritePacket(const Note& note, Bytes data) {
  // ImmDt is an extended header, but it lies where the payload begins.
  const Bytes payload[] = {note.has_immediate ? AsBytes(note.immediate) : Bytes(), data};
  UdHeaders headers = note.headers;
  if (note.has_immediate) headers.bth.opcode = kBthUdSendOnlyWithImmediate;
  if (!note.global) MakeLocal(&headers);
  const absl::Time time = absl::FromUnixNanos(note.nanos);
  const size_t length = headers.lrh.packet_length.value() * 4u + kVcrcSize;
  // The CRCs are over the whole payload. Of a shortened packet they are cut off anyway.
  const UdTrailer trailer =
      note.recorded < note.length ? UdTrailer() : MakeUdTrailer(headers, payload);
  if (note.global)
    return WriteRecord(time, {AsBytes(headers), payload[0], payload[1], trailer.span()}, length);
  return WriteRecord(time,
                     {AsBytes(headers.lrh), AsBytes(headers.bth), AsBytes(headers.deth), payload[0],
                      payload[1], trailer.span()},
                     length);
}

// Shortens the packet to the snap length. The packet that does not fit below the limit ends the
// capture.
absl::Status PacketCapture::WriteRecord(absl::Time time, absl::Span<const Bytes> pieces,
                                        size_t length) {
  std::vector<Bytes> shortened(pieces.begin(), pieces.end());
  size_t room = snap_length_;
  for (Bytes& piece : shortened) {
    piece = piece.subspan(0, room);
    room -= piece.size();
  }
  const size_t record = ErfWriter::kRecordOverhead + snap_length_ - room;
  reached_limit_ = reached_limit_ || (limit_ != 0 && writer_->bytes() + record > limit_);
  return reached_limit_ ? absl::OkStatus() : writer_->Write(time, shortened, length);
}

// A stopped capture does not wait for a reader that does not read.
bool PacketCapture::MayWait() const {
  absl::MutexLock lock(&mutex_);
  return !ending_;
}

}  // namespace eoib

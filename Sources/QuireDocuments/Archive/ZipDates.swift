import Foundation
import Quire

/// Makes the times in a zip file's headers independent of the time zone.
///
/// A zip header holds a local time, which libarchive takes from the process's time zone, beside the extra field with
/// the time in UTC. Two exports in different time zones would differ in those four bytes of each header.
struct ZipDates {
    /// Where the local headers begin.
    var entries: [Int64] = []
    /// Where the entries end and the central directory begins.
    var endOfEntries: Int64 = 0

    /// 1980-01-01 00:00:00 in DOS form: time, then date, little-endian.
    private static let earliest: [UInt8] = [0, 0, 0x21, 0]

    /// Sets all times to the earliest one.
    ///
    /// - Parameter file: The finished file.
    func makeEqual(in file: OpenFile) throws {
        for entry in entries {
            try expect([0x50, 0x4B, 3, 4], at: entry, in: file)
            try file.write(Self.earliest, at: entry + 10)
        }
        var header = endOfEntries
        for _ in entries {
            try expect([0x50, 0x4B, 1, 2], at: header, in: file)
            try file.write(Self.earliest, at: header + 12)
            let lengths = try file.read(6, at: header + 28)
            header += 46
            for index in stride(from: 0, to: 6, by: 2) {
                header += Int64(lengths[index]) | Int64(lengths[index + 1]) << 8
            }
        }
    }

    private func expect(_ signature: [UInt8], at offset: Int64, in file: OpenFile) throws {
        guard try file.read(4, at: offset) == signature else {
            throw QuireError(
                .inputOutput, "“\(file.path)” has no zip header where one was written.",
                subject: .init(file: file.path))
        }
    }
}

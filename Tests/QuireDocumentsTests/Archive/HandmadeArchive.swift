import Crypto
import Foundation

@testable import QuireDocuments

/// Archives made byte by byte, to hold what no honest program writes.
struct HandmadeArchive {
    enum Kind: UInt8 {
        case file = 0x30
        case hardLink = 0x31
        case symbolicLink = 0x32
        case device = 0x33
        case folder = 0x35
        case pipe = 0x36
    }

    struct Entry {
        var path: String
        var kind = Kind.file
        var data = Data()
        var target = ""
    }

    var entries: [Entry] = []

    init(_ entries: [Entry]) { self.entries = entries }

    /// Adds a manifest of the files and folders as they are, so that only the policy can object.
    func withManifest() throws -> HandmadeArchive {
        var copy = self
        let listed = entries.compactMap { entry -> ArchiveManifest.Entry? in
            switch entry.kind {
            case .file:
                .init(
                    path: entry.path, size: Int64(entry.data.count),
                    sha256: SHA256.hash(data: entry.data).hexadecimal)
            case .folder: .init(path: entry.path + "/", size: 0, sha256: "")
            default: nil
            }
        }
        copy.entries.append(
            .init(
                path: ArchiveManifest.path, data: try ArchiveManifest(entries: listed).encoded()))
        return copy
    }

    /// The archive as an uncompressed tar file.
    var tar: Data {
        var archive = Data()
        for entry in entries {
            var header = [UInt8](repeating: 0, count: 512)
            func put(_ text: String, _ offset: Int) {
                for (index, byte) in text.utf8.enumerated() { header[offset + index] = byte }
            }
            put(entry.path, 0)
            put("0000644\0", 100)
            put("0000000\0", 108)
            put("0000000\0", 116)
            let size = String(entry.data.count, radix: 8)
            put(String(repeating: "0", count: 11 - size.count) + size + "\0", 124)
            put("00000000000\0", 136)
            put("        ", 148)
            header[156] = entry.kind.rawValue
            put(entry.target, 157)
            put("ustar\u{0}00", 257)
            let sum = String(header.reduce(0) { $0 + Int($1) }, radix: 8)
            put(String(repeating: "0", count: 6 - sum.count) + sum + "\0 ", 148)
            archive.append(contentsOf: header)
            archive.append(entry.data)
            archive.append(Data(count: (512 - entry.data.count % 512) % 512))
        }
        return archive + Data(count: 1024)
    }

    /// The archive as a zip file of stored entries. Symbolic links are marked as Unix marks them.
    ///
    /// - Parameter breakingChecksum: Whether the first entry's checksum is wrong.
    /// - Parameter name: The bytes of a name, which are UTF-8 unless the archive does not say so.
    func zip(breakingChecksum: Bool = false, name: ((String) -> [UInt8])? = nil) -> Data {
        var archive = Data()
        var directory = Data()
        for (index, entry) in entries.enumerated() {
            let isLink = entry.kind == .symbolicLink
            let data = isLink ? Data(entry.target.utf8) : entry.data
            let text = entry.kind == .folder ? entry.path + "/" : entry.path
            let path = Data(name?(text) ?? Array(text.utf8))
            let checksum = crc32(data) ^ (breakingChecksum && index == 0 ? 1 : 0)
            let common =
                bytes(
                    20 as UInt16, (name == nil ? 0x0800 : 0) as UInt16, 0 as UInt16, 0 as UInt16,
                    0x21 as UInt16)
                + bytes(checksum, UInt32(data.count), UInt32(data.count))
                + bytes(UInt16(path.count), 0 as UInt16)
            let mode: UInt32 = isLink ? 0o120777 : entry.kind == .folder ? 0o040755 : 0o100644
            directory += bytes(0x0201_4B50 as UInt32, 0x0314 as UInt16) + common
            directory += bytes(0 as UInt16, 0 as UInt16, 0 as UInt16, mode << 16)
            directory += bytes(UInt32(archive.count)) + path
            archive += bytes(0x0403_4B50 as UInt32) + common + path + data
        }
        let start = UInt32(archive.count)
        archive += directory
        archive += bytes(0x0605_4B50 as UInt32, 0 as UInt16, 0 as UInt16)
        archive += bytes(UInt16(entries.count), UInt16(entries.count))
        return archive + bytes(UInt32(directory.count), start, 0 as UInt16)
    }

    private func bytes<each Number: FixedWidthInteger>(_ numbers: repeat each Number) -> Data {
        var data = Data()
        for number in repeat each numbers {
            withUnsafeBytes(of: number.littleEndian) { data.append(contentsOf: $0) }
        }
        return data
    }

    private func crc32(_ data: Data) -> UInt32 {
        var value: UInt32 = 0xFFFF_FFFF
        for byte in data {
            value ^= UInt32(byte)
            for _ in 0..<8 { value = value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
        return ~value
    }
}

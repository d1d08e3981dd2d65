import Foundation
import Quire

/// The directory of a zip file as ``ZipWriter`` writes it.
///
/// A file with anything else is not read this way: comments, extra fields, entries that are encrypted or overlap, sizes behind the
/// data. That is what ``ArchiveReader`` is for.
struct ZipDirectory {
    /// A file or folder.
    struct Entry {
        /// The path, without the slash at a folder's end.
        var path: String
        var isFolder: Bool
        /// The offset of its header.
        var offset: Int64
        var size: Int64
        var compressedSize: Int64
        var isCompressed: Bool
        var nameSize: Int
    }

    /// The largest directory that is read: more than 100,000 entries take.
    private static let largestSize: Int64 = 64 << 20
    private static let endSize: Int64 = 22
    private static let limit: Int64 = 0xFFFF_FFFF

    /// The entries, in the order of their data.
    let entries: [Entry]
    /// The offset of the directory, where the data end.
    let start: Int64

    /// Reads the directory; `nil` if it is not one of this kind.
    init?(of file: OpenFile, maximumCount: Int) throws {
        guard let (start, size, count) = try Self.location(in: file), count <= maximumCount,
            size <= Self.largestSize
        else { return nil }
        var fields = BinaryFields(try file.read(Int(size), at: start))
        var entries: [Entry] = []
        for _ in 0..<count {
            guard let entry = Self.entry(&fields) else { return nil }
            entries.append(entry)
        }
        guard fields.isAtEnd else { return nil }
        entries.sort { $0.offset < $1.offset }
        var end: Int64 = 0
        for entry in entries {
            let header = 30 + Int64(entry.nameSize)
            guard entry.offset >= end, start - entry.offset >= header,
                entry.compressedSize <= start - entry.offset - header
            else { return nil }
            end = entry.offset + header + entry.compressedSize
        }
        self.entries = entries
        self.start = start
    }

    private static func location(
        in file: OpenFile
    ) throws -> (start: Int64, size: Int64, count: Int)? {
        var end = try file.information().size - endSize
        guard end >= 0 else { return nil }
        var fields = BinaryFields(try file.read(Int(endSize), at: end))
        guard fields.next(UInt32.self) == 0x0605_4B50, fields.next(UInt32.self) == 0,
            let ownCount = fields.next(UInt16.self), fields.next(UInt16.self) == ownCount,
            var size = fields.next(UInt32.self).map(Int64.init),
            var start = fields.next(UInt32.self).map(Int64.init), fields.next(UInt16.self) == 0
        else { return nil }
        var count = Int64(ownCount)
        if count == 0xFFFF || size == limit || start == limit {
            let recordSize: Int64 = 56
            let locatorSize: Int64 = 20
            end -= recordSize + locatorSize
            guard end >= 0 else { return nil }
            fields = BinaryFields(
                try file.read(Int(recordSize + locatorSize), at: end))
            guard fields.next(UInt32.self) == 0x0606_4B50, fields.next(Int64.self) == 44,
                fields.next(UInt32.self) != nil, fields.next(Int64.self) == 0,
                let longCount = fields.next(Int64.self), fields.next(Int64.self) == longCount,
                let longSize = fields.next(Int64.self), let longStart = fields.next(Int64.self),
                fields.next(UInt32.self) == 0x0706_4B50, fields.next(UInt32.self) == 0,
                fields.next(Int64.self) == end
            else { return nil }
            (count, size, start) = (longCount, longSize, longStart)
        }
        guard count >= 0, size >= 0, start >= 0, start <= end, size == end - start else {
            return nil
        }
        return (start, size, Int(clamping: count))
    }

    private static func entry(_ fields: inout BinaryFields) -> Entry? {
        guard fields.next(UInt32.self) == 0x0201_4B50, fields.next(UInt32.self) != nil,
            let flags = fields.next(UInt16.self), flags & ~0x0800 == 0,
            let method = fields.next(UInt16.self), method == 0 || method == 8,
            // Time and checksum: the manifest has a digest.
            fields.next(Int64.self) != nil,
            var compressedSize = fields.next(UInt32.self).map(Int64.init),
            var size = fields.next(UInt32.self).map(Int64.init),
            let nameSize = fields.next(UInt16.self).map(Int.init),
            let extraSize = fields.next(UInt16.self).map(Int.init),
            // No comment, on this disk; then attributes.
            fields.next(UInt32.self) == 0, fields.next(UInt16.self) != nil,
            fields.next(UInt32.self) != nil,
            var offset = fields.next(UInt32.self).map(Int64.init),
            let name = fields.bytes(nameSize), let extra = fields.bytes(extraSize),
            let path = String(validating: name, as: UTF8.self)
        else { return nil }
        if extraSize > 0 {
            var fields = BinaryFields(Array(extra))
            guard fields.next(UInt16.self) == 1, fields.next(UInt16.self) != nil else { return nil }
            for keyPath in [\Sizes.size, \.compressedSize, \.offset] {
                var sizes = Sizes(size: size, compressedSize: compressedSize, offset: offset)
                guard sizes[keyPath: keyPath] == limit else { continue }
                guard let long = fields.next(Int64.self), long >= 0 else { return nil }
                sizes[keyPath: keyPath] = long
                (size, compressedSize, offset) = (sizes.size, sizes.compressedSize, sizes.offset)
            }
            guard fields.isAtEnd else { return nil }
        }
        let isFolder = path.hasSuffix("/")
        return Entry(
            path: isFolder ? String(path.dropLast()) : path, isFolder: isFolder, offset: offset,
            size: size, compressedSize: compressedSize, isCompressed: method == 8,
            nameSize: nameSize)
    }

    private struct Sizes {
        var size: Int64
        var compressedSize: Int64
        var offset: Int64
    }
}

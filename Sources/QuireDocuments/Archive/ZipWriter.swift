import Foundation
import Quire
import Synchronization

/// Writes a zip file as every program reads it: sizes before the data, names in UTF-8, and no extra fields but those of zip64.
///
/// Equal entries give equal bytes, whatever the number of threads: how files are grouped depends on their sizes only. Large files
/// are compressed in independent chunks, and followed by an index of them that is not an entry, as the SOZip
/// profile specifies (sozip/sozip-spec, 0.5.0), so that readers can begin anywhere in the file. A file that does not become smaller is
/// stored. At most ``batchSize`` bytes are in memory, and their compressed form.
final class ZipWriter: ArchiveWriter {
    /// Chunks of 32 KiB, as others write them, make a database a seventh larger than one piece, and these a fiftieth. A reader loses
    /// nothing, because it verifies more than a chunk at a time; see ``ZipArchive``.
    private static let chunkSize = 256 << 10
    /// The size above which a file is compressed in chunks.
    private static let wholeFileSize: Int64 = 1 << 20
    private static let batchSize = 8 << 20
    private static let outputSize = 1 << 20
    /// Sizes and offsets of 32 bits end here.
    private static let limit: Int64 = 0xFFFF_FFFF

    /// An entry, as its headers describe it.
    private struct Entry {
        var name: [UInt8]
        var isFolder = false
        var offset: Int64 = 0
        var size: Int64 = 0
        var compressedSize: Int64 = 0
        var checksum: UInt32 = 0
        var isCompressed = false

        /// Whether its sizes are those of zip64. Known before the data are compressed, because the headers differ in length.
        var isLarge: Bool { size + size >> 8 + 1 << 16 >= limit }
    }

    /// A file of the batch, or a part of one.
    private struct Part {
        var entry: Entry
        /// Its bytes in the batch.
        var range: Range<Int>
        /// Whether it is compressed in chunks.
        var isChunked: Bool
        var isLast = false
    }

    /// The unit of work of a thread.
    private struct Piece {
        var range: Range<Int>
        var isLast: Bool
        var output: [UInt8] = []
        var checksum = CRC32()
    }

    /// A file of which a part has been written.
    private struct OpenEntry {
        var entry: Entry
        var checksum = CRC32()
        /// The offsets of the chunks in the compressed data.
        var chunks: [Int64] = []
    }

    private let file: OpenFile
    private let level: Int
    private let compressors: [ChunkCompressor]
    private var entries: [Entry] = []
    private var batch: [UInt8] = []
    private var parts: [Part] = []
    private var openEntry: OpenEntry?
    private var output: [UInt8] = []
    /// The number of bytes written to the file.
    private var written: Int64 = 0

    /// Begins an archive.
    ///
    /// - Parameters:
    ///   - file: A new empty file.
    ///   - level: From 0, which stores everything, to 9.
    ///   - threads: The number of threads that compress.
    init(file: OpenFile, level: Int, threads: Int) {
        self.file = file
        self.level = level
        compressors =
            level == 0 ? [] : (0..<max(threads, 1)).map { _ in ChunkCompressor(level: level) }
    }

    private var offset: Int64 { written + Int64(output.count) }

    // MARK: Entries

    func addFolder(_ path: String) {
        let entry = Entry(name: Array("\(path)/".utf8), isFolder: true)
        let end = batch.count
        parts.append(Part(entry: entry, range: end..<end, isChunked: false, isLast: true))
    }

    func addFile(
        _ path: String, size: Int64,
        body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void
    ) throws {
        let isChunked = size > Self.wholeFileSize && level > 0
        // Whether a file is compressed is decided by its first batch, which must not depend on earlier files.
        if isChunked || batch.count + Int(clamping: size) > Self.batchSize { try flushBatch() }
        let entry = Entry(name: Array(path.utf8), size: size)
        var part = Part(entry: entry, range: batch.count..<batch.count, isChunked: isChunked)
        try body { bytes in
            var rest = bytes
            while !rest.isEmpty {
                let count = min(rest.count, Self.batchSize - batch.count)
                batch.append(contentsOf: rest[..<count])
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
                part.range = part.range.lowerBound..<batch.count
                if batch.count == Self.batchSize, !rest.isEmpty {
                    parts.append(part)
                    try flushBatch()
                    part.range = 0..<0
                }
            }
        }
        part.isLast = true
        parts.append(part)
        if isChunked { try flushBatch() }
    }

    func finish() throws {
        try flushBatch()
        let start = offset
        for entry in entries { try write(centralHeader(of: entry)) }
        try write(end(directory: start, size: offset - start))
        try flushOutput()
    }

    // MARK: Compressing

    private func flushBatch() throws {
        defer {
            batch.removeAll(keepingCapacity: true)
            parts.removeAll(keepingCapacity: true)
        }
        var pieces: [Piece] = []
        let ranges = parts.map { part in
            let start = pieces.count
            pieces += self.pieces(of: part)
            return start..<pieces.count
        }
        compress(&pieces)
        for (part, range) in zip(parts, ranges) { try write(part, pieces[range]) }
    }

    private func pieces(of part: Part) -> [Piece] {
        let size = part.isChunked ? Self.chunkSize : max(part.range.count, 1)
        let starts = Array(stride(from: part.range.lowerBound, to: part.range.upperBound, by: size))
        return starts.enumerated().map { index, start in
            Piece(
                range: start..<min(start + size, part.range.upperBound),
                isLast: part.isLast && index == starts.count - 1)
        }
    }

    /// Compresses the pieces, each by the next thread that is free.
    private func compress(_ pieces: inout [Piece]) {
        let isStored = compressors.isEmpty || openEntry?.entry.isCompressed == false
        // Each piece is used by one thread only, and each compressor too.
        nonisolated(unsafe) let compressors = compressors
        let next = Atomic(0)
        batch.withUnsafeBytes { batch in
            pieces.withUnsafeMutableBufferPointer { pieces in
                nonisolated(unsafe) let batch = batch
                nonisolated(unsafe) let pieces = pieces
                DispatchQueue.concurrentPerform(iterations: max(compressors.count, 1)) { thread in
                    while true {
                        let index = next.add(1, ordering: .relaxed).oldValue
                        guard index < pieces.count else { return }
                        let bytes = UnsafeRawBufferPointer(rebasing: batch[pieces[index].range])
                        pieces[index].checksum = CRC32(bytes)
                        if isStored { continue }
                        pieces[index].output = compressors[thread].compress(
                            bytes, isLast: pieces[index].isLast)
                    }
                }
            }
        }
    }

    // MARK: Writing

    private func write(_ part: Part, _ pieces: ArraySlice<Piece>) throws {
        var open = openEntry ?? OpenEntry(entry: part.entry)
        let isFirst = openEntry == nil
        openEntry = nil
        if isFirst {
            // Of a large file its first eight megabytes decide. Less than a fortieth is not worth decompressing it.
            let compressed = pieces.reduce(0) { $0 + $1.output.count }
            open.entry.isCompressed =
                level > 0 && !part.range.isEmpty
                && compressed < part.range.count - part.range.count / 40
            open.entry.offset = offset
        }
        for piece in pieces { open.checksum.append(piece.checksum) }
        open.entry.checksum = open.checksum.value
        let count = pieces.reduce(0) {
            $0 + (open.entry.isCompressed ? $1.output.count : $1.range.count)
        }
        open.entry.compressedSize += Int64(count)
        if isFirst { try write(localHeader(of: open.entry)) }
        var position = open.entry.compressedSize - Int64(count)
        for piece in pieces {
            if open.entry.isCompressed {
                open.chunks.append(position)
                position += Int64(piece.output.count)
                try write(piece.output)
            } else {
                try write(batch[piece.range])
            }
        }
        guard part.isLast else { return openEntry = open }
        if !isFirst {
            try flushOutput()
            try file.write(localHeader(of: open.entry), at: open.entry.offset)
        }
        entries.append(open.entry)
        if part.isChunked && open.entry.isCompressed { try writeIndex(of: open) }
    }

    /// Writes the index of a file's chunks: a local file that the directory does not list.
    private func writeIndex(of open: OpenEntry) throws {
        var index: [UInt8] = []
        index.append(numbers: 1 as UInt32, 0 as UInt32, UInt32(Self.chunkSize), 8 as UInt32)
        index.append(numbers: open.entry.size, open.entry.compressedSize)
        for chunk in open.chunks.dropFirst() { index.append(numbers: chunk) }
        let path = String(decoding: open.entry.name, as: UTF8.self)
        let name = ".\(FileSystem.name(of: path)).sozip.idx"
        let folder = path.contains("/") ? FileSystem.folder(of: path) + "/" : ""
        var entry = Entry(name: Array((folder + name).utf8))
        entry.size = Int64(index.count)
        entry.compressedSize = entry.size
        entry.checksum = index.withUnsafeBytes { CRC32($0).value }
        try write(localHeader(of: entry))
        try write(index)
    }

    private func write(_ bytes: some Collection<UInt8>) throws {
        output.append(contentsOf: bytes)
        if output.count >= Self.outputSize { try flushOutput() }
    }

    private func flushOutput() throws {
        try output.withUnsafeBytes { try file.write($0) }
        written += Int64(output.count)
        output.removeAll(keepingCapacity: true)
    }

    // MARK: Headers

    /// The fields that both headers of an entry have: flags, method, time, checksum, sizes and the length of the name.
    private func appendCommonFields(of entry: Entry, to header: inout [UInt8]) {
        // UTF-8; 1980-01-01 00:00, the earliest time.
        header.append(numbers: 0x0800 as UInt16, entry.isCompressed ? 8 : 0 as UInt16)
        header.append(numbers: 0 as UInt16, 0x21 as UInt16, entry.checksum)
        for size in [entry.compressedSize, entry.size] {
            header.append(numbers: UInt32(entry.isLarge ? Self.limit : size))
        }
        header.append(numbers: UInt16(entry.name.count))
    }

    private func localHeader(of entry: Entry) -> [UInt8] {
        var header: [UInt8] = []
        header.append(numbers: 0x0403_4B50 as UInt32, entry.isLarge ? 45 : 20 as UInt16)
        appendCommonFields(of: entry, to: &header)
        header.append(numbers: entry.isLarge ? 20 : 0 as UInt16)
        header += entry.name
        if entry.isLarge {
            header.append(numbers: 1 as UInt16, 16 as UInt16, entry.size, entry.compressedSize)
        }
        return header
    }

    private func centralHeader(of entry: Entry) -> [UInt8] {
        var extra: [UInt8] = []
        if entry.isLarge { extra.append(numbers: entry.size, entry.compressedSize) }
        if entry.offset >= Self.limit { extra.append(numbers: entry.offset) }
        if !extra.isEmpty {
            var field: [UInt8] = []
            field.append(numbers: 1 as UInt16, UInt16(extra.count))
            extra = field + extra
        }
        var header: [UInt8] = []
        // Made by Unix, so that the permissions count.
        header.append(numbers: 0x0201_4B50 as UInt32, 0x032D as UInt16)
        header.append(numbers: extra.isEmpty ? 20 : 45 as UInt16)
        appendCommonFields(of: entry, to: &header)
        header.append(numbers: UInt16(extra.count), 0 as UInt16, 0 as UInt16, 0 as UInt16)
        let attributes: UInt32 = entry.isFolder ? 0o040755 << 16 | 0x10 : 0o100644 << 16
        header.append(numbers: attributes, UInt32(min(entry.offset, Self.limit)))
        return header + entry.name + extra
    }

    private func end(directory: Int64, size: Int64) -> [UInt8] {
        let count = Int64(entries.count)
        var end: [UInt8] = []
        if count >= 0xFFFF || size >= Self.limit || directory >= Self.limit {
            let start = directory + size
            end.append(numbers: 0x0606_4B50 as UInt32, 44 as Int64, 0x032D as UInt16, 45 as UInt16)
            end.append(numbers: 0 as UInt32, 0 as UInt32, count, count, size, directory)
            end.append(numbers: 0x0706_4B50 as UInt32, 0 as UInt32, start, 1 as UInt32)
        }
        let shortCount = UInt16(min(count, 0xFFFF))
        end.append(numbers: 0x0605_4B50 as UInt32, 0 as UInt16, 0 as UInt16, shortCount, shortCount)
        end.append(
            numbers: UInt32(min(size, Self.limit)), UInt32(min(directory, Self.limit)), 0 as UInt16)
        return end
    }
}

extension [UInt8] {
    /// Appends numbers, the least significant byte first.
    fileprivate mutating func append<each Number: FixedWidthInteger>(
        numbers: repeat each Number
    ) {
        for number in repeat each numbers { append(littleEndian: number) }
    }
}

import Crypto
import Foundation
import Quire
import Synchronization

/// The document in a zip file that Quire has made, read without unpacking it.
///
/// Opening it reads the directory and the manifest, and checks that they list the same. Everything else is read when it is asked
/// for, and nothing is given out that differs from the manifest: large files are verified MiB by MiB, others as a whole. So memory is
/// bounded, whatever sizes the archive states.
///
/// A compressed file of more than 1 MiB needs the index of its chunks, which ``ZipWriter`` writes. Paths are relative to the document.
final class ZipArchive: ReadableArchive {
    /// The number of bytes that are verified together.
    static let blockSize = Int64(ArchiveFileDigests.partSize)

    /// A file as the directory and the manifest describe it.
    fileprivate struct Member {
        var entry: ZipDirectory.Entry
        var listed: ArchiveManifest.Entry
        var number: Int
    }

    private let file: OpenFile
    private let archiveInformation: FileInformation
    private let directoryStart: Int64
    private let members: [String: Member]
    /// The names in each folder, by its path.
    private let folders: [String: [String]]
    private let blocks = ArchiveBlockCache()
    /// Large files that have been opened before, with the places of their chunks.
    private let opened = Lock<[Int: ZipArchiveFile]>([:])

    /// Opens an archive; `nil` if it must be unpacked to be read, or to find out what is wrong with it.
    init?(_ file: OpenFile, limits: ArchiveLimits) throws {
        // The manifest, and the folder of the document, are not counted.
        guard
            let directory = try ZipDirectory(of: file, maximumCount: limits.entries + 100),
            // The outermost: documents in additional content may have their own.
            let manifestEntry = directory.entries.filter({
                !$0.isFolder && "/\($0.path)".hasSuffix("/" + ArchiveManifest.path)
            }).min(by: { $0.path.utf8.count < $1.path.utf8.count }),
            let data = try Self.manifestData(manifestEntry, in: file),
            let manifest = try? ArchiveManifest.decoded(data, archive: file.path),
            let listed = try? manifest.files(archive: file.path)
        else { return nil }
        let root = manifestEntry.path.dropLast(ArchiveManifest.path.count)
        let unlisted = [
            String(root.dropLast()), root + ArchiveManifest.path, root + ArchiveSignature.path,
            ArchiveManifest.mediaTypePath,
        ]
        var members: [String: Member] = [:]
        var folders: [String: [String]] = ["": []]
        var names = PortableNames()
        func add(_ path: String, isFolder: Bool) -> Bool {
            names.add(path, isFolder: isFolder) == nil
                && DocumentPackageLayout.objection(toArchived: path, isFolder: isFolder) == nil
        }
        func addFolder(_ path: String) {
            if folders.updateValue(folders[path] ?? [], forKey: path) != nil { return }
            addName(of: path)
        }
        func addName(of path: String) {
            let folder = path.contains("/") ? FileSystem.folder(of: path) : ""
            addFolder(folder)
            folders[folder]?.append(FileSystem.name(of: path))
        }
        for folder in manifest.folders {
            guard add(folder, isFolder: true) else { return nil }
            addFolder(folder)
        }
        for (number, entry) in directory.entries.enumerated() {
            if unlisted.contains(entry.path) { continue }
            guard entry.path.hasPrefix(root) else { return nil }
            if entry.isFolder { continue }
            let path = String(entry.path.dropFirst(root.count))
            guard let listed = listed[path], listed.size == entry.size,
                ArchiveName.normalized(path).utf8.elementsEqual(path.utf8),
                add(path, isFolder: false)
            else { return nil }
            let member = Member(entry: entry, listed: listed, number: number + 1)
            guard try member.isReadable(in: file) else { return nil }
            members[path] = member
            addName(of: path)
        }
        guard members.count == listed.count else { return nil }
        self.file = file
        archiveInformation = try file.information()
        directoryStart = directory.start
        self.members = members
        self.folders = folders.mapValues {
            $0.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        }
    }

    private static func manifestData(
        _ entry: ZipDirectory.Entry, in file: OpenFile
    ) throws -> Data? {
        guard entry.size <= ArchiveManifest.largestSize,
            entry.compressedSize <= ArchiveManifest.largestSize,
            let start = try entry.dataStart(in: file)
        else { return nil }
        let data = Data(try file.read(Int(entry.compressedSize), at: start))
        return entry.isCompressed
            ? RawDeflate.decompressed(data, limit: ArchiveManifest.largestSize) : data
    }

    // MARK: ReadableArchive

    func information(at path: String) -> FileInformation? {
        if let member = members[path] { return information(of: member) }
        guard folders[path] != nil else { return nil }
        // Nothing compares folders, so all have one number.
        return FileInformation(.folder, inArchive: archiveInformation, number: 0, size: 0)
    }

    private func information(of member: Member) -> FileInformation {
        FileInformation(
            .regular, inArchive: archiveInformation, number: member.number,
            size: member.entry.size)
    }

    func names(in folder: String) -> [String] { folders[folder] ?? [] }

    func open(_ path: String) throws -> any ArchivedFile {
        guard let member = members[path] else {
            throw FileSystem.failure("open", FileSystem.path(file.path, path), errno: ENOENT)
        }
        if let known = opened.withLock({ $0[member.number] }) { return known }
        let made = try ZipArchiveFile(
            member, in: file, blocks: blocks, information: information(of: member))
        if member.isLarge { opened.withLock { $0[member.number] = made } }
        return made
    }
}

extension ZipArchive.Member {
    /// Whether it has several blocks.
    var isLarge: Bool { entry.size > ZipArchive.blockSize }

    /// The digest that a block must have.
    func digest(ofBlock number: Int) -> String? {
        isLarge ? listed.sha256PerMiB?[number] : listed.sha256
    }

    /// Whether it can be read in place: it has the digests that it takes, and an index if it is compressed.
    func isReadable(in file: OpenFile) throws -> Bool {
        if !isLarge { return true }
        let count = (entry.size - 1) / ZipArchive.blockSize + 1
        guard listed.sha256PerMiB?.count == Int(clamping: count) else { return false }
        if !entry.isCompressed { return entry.size == entry.compressedSize }
        return try entry.indexStart(in: file) != nil
    }
}

extension ZipDirectory.Entry {
    private static let headerSize = 30

    /// The offset of its data; `nil` if its header is missing.
    func dataStart(in file: OpenFile) throws -> Int64? {
        try Self.content(at: offset, size: compressedSize, in: file)?.start
    }

    /// The offset and size of the index of its chunks, a file that the directory does not list; `nil` if there is none.
    func indexStart(in file: OpenFile) throws -> (start: Int64, size: Int)? {
        guard let start = try dataStart(in: file),
            let index = try Self.content(at: start + compressedSize, in: file),
            index.name.hasSuffix(".sozip.idx")
        else { return nil }
        return (index.start, Int(index.size))
    }

    /// The content of the file whose header is at an offset; `nil` if there is no header, or the archive ends before the content does.
    ///
    /// - Parameter size: The size of the content; `nil` for the one in the header.
    private static func content(
        at offset: Int64, size known: Int64? = nil, in file: OpenFile
    ) throws -> (start: Int64, name: String, size: Int64)? {
        let end = try file.information().size
        guard offset <= end - Int64(headerSize) else { return nil }
        var fields = BinaryFields(try file.read(headerSize, at: offset))
        guard fields.next(UInt32.self) == 0x0403_4B50,
            // Version, flags, method, time and checksum.
            fields.bytes(14) != nil, fields.next(UInt32.self) != nil,
            let ownSize = fields.next(UInt32.self),
            let nameSize = fields.next(UInt16.self), let extraSize = fields.next(UInt16.self)
        else { return nil }
        let start = offset + Int64(headerSize) + Int64(nameSize) + Int64(extraSize)
        let size = known ?? Int64(ownSize)
        guard start <= end, size <= end - start else { return nil }
        let name = try file.read(Int(nameSize), at: offset + Int64(headerSize))
        return (start, String(decoding: name, as: UTF8.self), size)
    }
}

// MARK: - Files

/// A file in the archive. Threads may read it concurrently.
private final class ZipArchiveFile: ArchivedFile {
    let information: FileInformation
    private let member: ZipArchive.Member
    private let file: OpenFile
    private let blocks: ArchiveBlockCache
    private let dataStart: Int64
    /// The number of bytes in a chunk.
    private let chunkSize: Int
    /// The offsets of the chunks in the compressed data, and the end of the last one.
    private let chunks: [Int64]
    /// The block that was asked for last.
    private let lastBlock = Atomic(-2)

    init(
        _ member: ZipArchive.Member, in file: OpenFile, blocks: ArchiveBlockCache,
        information: FileInformation
    ) throws {
        self.member = member
        self.file = file
        self.blocks = blocks
        self.information = information
        let entry = member.entry
        guard let start = try entry.dataStart(in: file) else {
            throw Self.damaged(
                file, "the header of “\(member.listed.path)” is not valid")
        }
        dataStart = start
        if entry.isCompressed && member.isLarge {
            (chunkSize, chunks) = try Self.chunks(of: member, in: file)
        } else {
            (chunkSize, chunks) = (Int(entry.size), [0, entry.compressedSize])
        }
    }

    /// Reads the index of the chunks. It is not trusted: what is read by it is compared with the manifest.
    private static func chunks(
        of member: ZipArchive.Member, in file: OpenFile
    ) throws -> (size: Int, [Int64]) {
        let entry = member.entry
        guard let index = try entry.indexStart(in: file) else { throw wrongIndex(of: member, file) }
        var fields = BinaryFields(
            try file.read(min(index.size, 32), at: index.start))
        guard fields.next(UInt32.self) == 1, fields.next(UInt32.self) == 0,
            let chunkSize = fields.next(UInt32.self).map(Int64.init), chunkSize >= 1 << 10,
            ZipArchive.blockSize % chunkSize == 0, fields.next(UInt32.self) == 8,
            fields.next(Int64.self) == entry.size,
            fields.next(Int64.self) == entry.compressedSize
        else { throw wrongIndex(of: member, file) }
        let count = (entry.size - 1) / chunkSize + 1
        // The size of the archive bounds the memory.
        guard Int64(index.size) == 32 + (count - 1) * 8,
            Int64(index.size) <= entry.compressedSize
        else { throw wrongIndex(of: member, file) }
        fields = BinaryFields(try file.read(index.size - 32, at: index.start + 32))
        var chunks: [Int64] = [0]
        chunks.reserveCapacity(Int(count) + 1)
        while let next = fields.next(Int64.self) { chunks.append(next) }
        chunks.append(entry.compressedSize)
        // A chunk that cannot be compressed is a little longer.
        for (start, end) in zip(chunks, chunks.dropFirst())
        where start >= end || end - start > chunkSize + chunkSize / 8 + 64 {
            throw wrongIndex(of: member, file)
        }
        return (Int(chunkSize), chunks)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
        var filled = 0
        while filled < buffer.count, offset + Int64(filled) < member.entry.size {
            let position = offset + Int64(filled)
            let number = Int(position / ZipArchive.blockSize)
            let start = Int(position % ZipArchive.blockSize)
            let block = try self.block(number)
            let count = min(block.count - start, buffer.count - filled)
            block.withUnsafeBytes {
                UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<filled + count])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + count]))
            }
            filled += count
        }
        return filled
    }

    /// A block of the file. If they are read one after the other, the processors read the next ones meanwhile.
    private func block(_ number: Int) throws -> [UInt8] {
        let last = lastBlock.exchange(number, ordering: .relaxed)
        if number == last + 1 {
            let end = min(number + 1 + Self.readAhead, blockCount)
            for next in number + 1..<max(end, number + 1) {
                guard let block = blocks.newBlock(next, ofMember: member.number) else { continue }
                DispatchQueue.global().async { block.read { try self.load(next) } }
            }
        }
        let block = blocks.block(number, ofMember: member.number)
        do { return try block.value { try load(number) } } catch {
            blocks.remove(block)
            throw error
        }
    }

    private static let readAhead = min(ProcessInfo.processInfo.activeProcessorCount, 4)

    private var blockCount: Int {
        Int((member.entry.size + ZipArchive.blockSize - 1) / ZipArchive.blockSize)
    }

    /// Reads a block, and verifies it.
    private func load(_ number: Int) throws -> [UInt8] {
        let start = Int64(number) * ZipArchive.blockSize
        let size = Int(min(ZipArchive.blockSize, member.entry.size - start))
        let block =
            member.entry.isCompressed
            ? try decompressedBlock(from: start, size) : try bytes(size, at: dataStart + start)
        let digest = SHA256.hash(data: block).hexadecimal
        guard digest == member.digest(ofBlock: number) else {
            throw Self.damaged(
                file, "“\(member.listed.path)” does not match the manifest")
        }
        return block
    }

    private func decompressedBlock(from start: Int64, _ size: Int) throws -> [UInt8] {
        if size == 0 { return [] }
        let first = Int(start) / chunkSize
        let end = (Int(start) + size - 1) / chunkSize + 1
        let base = chunks[first]
        // Also a whole file, whose compressed size nothing has bounded yet.
        guard chunks[end] - base <= 2 * ZipArchive.blockSize else {
            throw Self.wrongIndex(of: member, file)
        }
        let compressed = try bytes(Int(chunks[end] - base), at: dataStart + base)
        let decompressor = ChunkDecompressor()
        return try [UInt8](unsafeUninitializedCapacity: size) { output, count in
            let output = UnsafeMutableRawBufferPointer(output)
            try compressed.withUnsafeBytes { compressed in
                for chunk in first..<end {
                    let range = Int(chunks[chunk] - base)..<Int(chunks[chunk + 1] - base)
                    let position = (chunk - first) * chunkSize
                    let target = output[position..<min(position + chunkSize, size)]
                    guard
                        decompressor.decompress(
                            UnsafeRawBufferPointer(rebasing: compressed[range]),
                            into: UnsafeMutableRawBufferPointer(rebasing: target))
                    else {
                        throw Self.damaged(file, "“\(member.listed.path)” cannot be decompressed")
                    }
                }
            }
            count = size
        }
    }

    /// Bytes of the archive, which were there when it was opened.
    private func bytes(_ count: Int, at offset: Int64) throws -> [UInt8] {
        let bytes = try [UInt8](unsafeUninitializedCapacity: count) { buffer, found in
            found = try file.read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
        }
        guard bytes.count == count else {
            throw Self.damaged(file, "it was truncated while it was open")
        }
        return bytes
    }

    private static func wrongIndex(
        of member: ZipArchive.Member, _ file: OpenFile
    ) -> QuireError {
        damaged(file, "the index of “\(member.listed.path)” is wrong")
    }

    private static func damaged(_ file: OpenFile, _ what: String) -> QuireError {
        QuireError(
            .invalidFormat, "“\(file.path)” is damaged: \(what). Get the archive again.",
            file: file.path)
    }
}

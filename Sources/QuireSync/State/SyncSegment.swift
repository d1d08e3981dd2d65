internal import Crypto
internal import Foundation
internal import Quire
internal import QuireSystem

/// A file of changes: what one peer has changed since its last segment.
///
/// ```text
/// "QUIRESYN" version kind            10 bytes; the kind is 1, or 2 for a part of a snapshot
/// container peer                     16 bytes each
/// sequence time                      numbers; the part and the number of parts follow for a snapshot
/// model                              text: a digest, for messages
/// vector                             what the peer had merged when it wrote the file
/// forgotten                          vector of segments whose deletions the peer has forgotten
/// retired                            peers that others need not wait for any more
/// range peers                        of a snapshot only
/// compression size                   0 or 1 (DEFLATE), and the number of bytes of what follows without it
/// names peers records                tables that the records refer to, and these
/// SHA-256                            of all before it
/// ```
///
/// A segment without records says what its peer has merged.
///
/// A file is whole or it is not read: its name has the beginning of its digest.
struct SyncSegment: Sendable, Equatable {
    let container: SyncIdentifier
    let peer: SyncIdentifier
    let sequence: Int64
    /// The peer's clock.
    let time: UInt64
    let model: String
    let seen: SyncVector
    /// The segments whose deletions the author may have forgotten; see ``SyncStability``.
    var forgotten = SyncVector()
    /// Peers that have left, or were retired.
    var retired: Set<SyncIdentifier> = []
    let records: [SyncRecord]
    /// The part of a snapshot, from 0, and the number of parts; `nil` for a segment.
    var part: SyncSnapshotPart?
    /// The header of a part of a snapshot; `nil` for a segment.
    var snapshot: SyncSnapshotHeader?

    /// The maximum size of a file.
    static let maximumSize = 64 << 20
    private static let magic = Array("QUIRESYN".utf8)
    private static let version: UInt8 = 1
    /// The maximum number of ranges in a file's vectors, and of entries of its records: a small file could take gigabytes of memory.
    private static let (maximumRangeCount, maximumEntryCount) = (1 << 20, 1 << 21)
    static let folder = SyncFileName(unchecked: "log")

    /// The file that carries it.
    func encoded() -> [UInt8] {
        var writer = SyncByteWriter()
        writer.raw(Self.magic)
        writer.byte(Self.version)
        writer.byte(part == nil ? 1 : 2)
        writer.identifier(container)
        writer.identifier(peer)
        writer.unsigned(UInt64(sequence))
        writer.unsigned(time)
        if let part {
            writer.unsigned(UInt64(part.index))
            writer.unsigned(UInt64(part.count))
        }
        writer.text(model)
        seen.encode(to: &writer)
        forgotten.encode(to: &writer)
        writer.identifiers(retired.sorted())
        snapshot?.encode(to: &writer)
        let block = SyncRecordBlock.encode(records)
        let compressed =
            block.count > Self.compressionThreshold
            ? RawDeflate.compressed(Data(block)) : nil
        writer.byte(compressed == nil ? 0 : 1)
        writer.unsigned(UInt64(block.count))
        if let compressed { writer.raw(compressed) } else { writer.raw(block) }
        writer.raw(SHA256.hash(data: writer.bytes))
        return writer.bytes
    }
}

extension SyncSegment {
    /// Reads a file.
    ///
    /// - Throws: `QuireError` with code `invalidFormat` if it is not whole, or of a version that is not known.
    init(_ bytes: [UInt8], name: SyncSegmentName) throws {
        let file = name.fileName
        let content = bytes.dropLast(32)
        var reader = SyncByteReader(
            content, file: file, allowance: Self.maximumRangeCount)
        let digest = Array(SHA256.hash(data: content))
        guard bytes.count > 32, digest.elementsEqual(bytes.suffix(32)),
            SyncSegmentName.digestText(digest) == name.digest
        else { throw reader.damage("it is incomplete, or its digest is wrong") }
        guard try Array(reader.raw(count: Self.magic.count)) == Self.magic else {
            throw reader.damage("it is not a segment")
        }
        let version = try reader.byte()
        guard version == Self.version, try reader.byte() == (name.part == nil ? 1 : 2) else {
            throw QuireError(
                .unsupported,
                "“\(file)” was written by a later version of this program (format \(version)); update the program to read it.",
                file: file)
        }
        container = try reader.identifier()
        peer = try reader.identifier()
        let number = try reader.unsigned()
        time = try reader.unsigned()
        guard number >= 1, number < 1 << 61, time <= SyncClock.maximum else {
            throw reader.damage("its number or time is out of range")
        }
        sequence = Int64(number)
        if name.part != nil {
            let (index, count) = (try reader.unsigned(), try reader.unsigned())
            guard index < count, count <= UInt64(SyncSnapshotPart.maximumCount) else {
                throw reader.damage("its part is out of range")
            }
            part = SyncSnapshotPart(index: Int(index), count: Int(count))
        } else {
            part = nil
        }
        guard peer == name.peer, sequence == name.sequence, part == name.part else {
            throw reader.damage("it contains the content of another file")
        }
        model = try reader.text()
        seen = try SyncVector(from: &reader)
        forgotten = try SyncVector(from: &reader)
        retired = Set(try reader.identifiers())
        guard retired.count <= SyncPeer.maximumRetiredCount else {
            throw reader.damage("it retires too many peers")
        }
        snapshot = part == nil ? nil : try SyncSnapshotHeader(from: &reader)
        records = try Self.records(&reader)
    }

    /// The size of records in bytes from which they are compressed.
    private static let compressionThreshold = 512

    private static func records(_ reader: inout SyncByteReader) throws -> [SyncRecord] {
        let isCompressed = try reader.byte() == 1
        let size = try reader.unsigned()
        guard size <= UInt64(RawDeflate.maximumSize) else {
            throw reader.damage("its records are larger than \(RawDeflate.maximumSize) bytes")
        }
        var block = try reader.raw(count: reader.remaining)
        if isCompressed {
            guard let data = RawDeflate.decompressed(Data(block), limit: Int(size)) else {
                throw reader.damage("its records cannot be decompressed")
            }
            block = Array(data)[...]
        }
        guard block.count == Int(size) else { throw reader.damage("its records are incomplete") }
        var inner = SyncByteReader(
            block, file: reader.file, allowance: Self.maximumEntryCount)
        let records = try SyncRecordBlock.decode(&inner)
        guard inner.remaining == 0 else { throw inner.damage("data follows its end") }
        return records
    }
}

/// One of the files that a snapshot is made of.
struct SyncSnapshotPart: Hashable, Sendable {
    let index: Int
    let count: Int

    static let maximumCount = 100_000
    /// The folder of snapshots.
    static let folder = SyncFileName(unchecked: "base")
}

/// The header of a part of a snapshot.
///
/// The part has all records with identifiers in its range. One that others have and it has not was deleted, and forgotten, if its
/// insertion is in the segments that are forgotten.
struct SyncSnapshotHeader: Sendable, Equatable {
    /// The identifier after which the range begins; `nil` for the first part.
    let after: SyncIdentifier?
    /// The last identifier of the range; `nil` for the last part.
    let through: SyncIdentifier?
    /// All peers that the author knew.
    let peers: [SyncPeer]

    func contains(_ id: SyncIdentifier) -> Bool {
        (after.map { $0 < id } ?? true) && (through.map { id <= $0 } ?? true)
    }

    func encode(to writer: inout SyncByteWriter) {
        writer.identifiers(after.map { [$0] } ?? [])
        writer.identifiers(through.map { [$0] } ?? [])
        writer.unsigned(UInt64(peers.count))
        for peer in peers { peer.encode(to: &writer) }
    }

    init(after: SyncIdentifier?, through: SyncIdentifier?, peers: [SyncPeer]) {
        self.after = after
        self.through = through
        self.peers = peers
    }

    init(from reader: inout SyncByteReader) throws {
        after = try reader.identifiers().first
        through = try reader.identifiers().first
        let count = try reader.count(size: SyncPeer.minimumSize)
        guard count <= SyncPeer.maximumCount else {
            throw reader.damage("it contains too many peers")
        }
        peers = try (0..<count).map { _ in try SyncPeer(from: &reader) }
    }
}

/// The name of a segment's file, `PEER-SEQUENCE-DIGEST.seg`, or of a part of a snapshot, `PEER-SEQUENCE-PART.COUNT-DIGEST.snap`.
struct SyncSegmentName: Hashable, Sendable {
    let peer: SyncIdentifier
    let sequence: Int64
    /// 16 hexadecimal digits: the beginning of the file's digest.
    let digest: String
    var part: SyncSnapshotPart?

    init(
        peer: SyncIdentifier, sequence: Int64, part: SyncSnapshotPart? = nil,
        encoded bytes: [UInt8]
    ) {
        self.peer = peer
        self.sequence = sequence
        self.part = part
        digest = Self.digestText(bytes.suffix(32))
    }

    /// `nil` if the name is not that of such a file.
    init?(_ fileName: String) {
        let parts = fileName.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count >= 3, let peer = SyncIdentifier(parts[0]),
            let sequence = Int64(parts[1]), sequence >= 1, sequence < 1 << 61,
            let digest = parts[parts.count - 1].split(separator: ".").first
        else { return nil }
        self.peer = peer
        self.sequence = sequence
        self.digest = String(digest)
        if parts.count == 4 {
            let numbers = parts[2].split(separator: ".").map { Int($0) }
            guard numbers.count == 2, let index = numbers[0], let count = numbers[1],
                index >= 0, index < count, count <= SyncSnapshotPart.maximumCount
            else { return nil }
            part = SyncSnapshotPart(index: index, count: count)
        }
        // In its one form.
        guard digest.utf8.count == 16, self.fileName == fileName else { return nil }
    }

    static func digestText(_ digest: some Sequence<UInt8>) -> String {
        digest.prefix(8).hexadecimal
    }

    /// Groups the names of files of snapshots by snapshot, and keeps those of snapshots of which there is a file for each part.
    static func wholeSnapshots(_ names: [SyncSegmentName]) -> [[SyncSegmentName]] {
        // Not by the number alone: another peer's file must not keep a snapshot from being whole.
        Dictionary(grouping: names.filter { $0.part != nil }) {
            [$0.peer.description, String($0.sequence), String($0.part?.count ?? 0)]
        }.values.filter { Set($0.map { $0.part?.index }).count == $0[0].part?.count }
    }

    var fileName: String {
        let number = String(sequence)
        let padding = String(repeating: "0", count: max(0, 10 - number.count))
        let start = "\(peer)-\(padding)\(number)-"
        guard let part else { return "\(start)\(digest).seg" }
        return "\(start)\(part.index).\(part.count)-\(digest).snap"
    }
}

// MARK: - Records

/// Records as bytes: tables of names and peers, then the records, which refer to these.
enum SyncRecordBlock {
    private enum Kind: UInt8 { case existence, property, member, position, counter, base }

    static func encode(_ records: [SyncRecord]) -> [UInt8] {
        var names: [String: UInt64] = [:]
        var peers: [SyncIdentifier: UInt64] = [:]
        var nameTable = SyncByteWriter()
        var peerTable = SyncByteWriter()
        func number(of name: String) -> UInt64 {
            if let known = names[name] { return known }
            let number = UInt64(names.count)
            names[name] = number
            nameTable.text(name)
            return number
        }
        func number(of peer: SyncIdentifier) -> UInt64 {
            if let known = peers[peer] { return known }
            let number = UInt64(peers.count)
            peers[peer] = number
            peerTable.identifier(peer)
            return number
        }
        var body = SyncByteWriter()
        for record in records {
            body.identifier(record.id)
            body.unsigned(number(of: record.entity))
            body.unsigned(UInt64(record.entries.count))
            for (key, entry) in record.entries.sorted(by: { $0.key < $1.key }) {
                switch key {
                case .existence: body.byte(Kind.existence.rawValue)
                case .property(let name):
                    body.byte(Kind.property.rawValue)
                    body.unsigned(number(of: name))
                case .member(let name, let id):
                    body.byte(Kind.member.rawValue)
                    body.unsigned(number(of: name))
                    body.identifier(id)
                case .position(let name, let id):
                    body.byte(Kind.position.rawValue)
                    body.unsigned(number(of: name))
                    body.identifier(id)
                case .counter(let name, let peer):
                    body.byte(Kind.counter.rawValue)
                    body.unsigned(number(of: name))
                    body.unsigned(number(of: peer))
                case .base(let name):
                    body.byte(Kind.base.rawValue)
                    body.unsigned(number(of: name))
                }
                body.unsigned(entry.version.time)
                body.unsigned(number(of: entry.version.peer))
                body.unsigned(UInt64(entry.version.sequence))
                entry.value.encode(to: &body)
            }
        }
        var writer = SyncByteWriter()
        writer.unsigned(UInt64(names.count))
        writer.raw(nameTable.bytes)
        writer.unsigned(UInt64(peers.count))
        writer.raw(peerTable.bytes)
        writer.unsigned(UInt64(records.count))
        writer.raw(body.bytes)
        return writer.bytes
    }

    static func decode(_ reader: inout SyncByteReader) throws -> [SyncRecord] {
        var names: [String] = []
        for _ in 0..<(try reader.count()) { names.append(try reader.text()) }
        var peers: [SyncIdentifier] = []
        for _ in 0..<(try reader.count()) { peers.append(try reader.identifier()) }
        func element<Element>(_ table: [Element]) throws -> Element {
            let number = try reader.unsigned()
            guard number < UInt64(table.count) else {
                throw reader.damage("an index is outside its table")
            }
            return table[Int(number)]
        }
        var records: [SyncRecord] = []
        for _ in 0..<(try reader.count()) {
            let id = try reader.identifier()
            let entity = try element(names)
            var entries: [SyncKey: SyncEntry] = [:]
            let entryCount = try reader.count(size: 6)
            try reader.use(entryCount)
            for _ in 0..<entryCount {
                let key: SyncKey
                switch Kind(rawValue: try reader.byte()) {
                case .existence: key = .existence
                case .property: key = .property(try element(names))
                case .member: key = .member(try element(names), try reader.identifier())
                case .position: key = .position(try element(names), try reader.identifier())
                case .counter: key = .counter(try element(names), try element(peers))
                case .base: key = .base(try element(names))
                case nil: throw reader.damage("an entry is of an unknown kind")
                }
                let time = try reader.unsigned()
                let peer = try element(peers)
                let sequence = try reader.unsigned()
                guard time <= SyncClock.maximum, sequence < 1 << 61 else {
                    throw reader.damage("a version is out of range")
                }
                let value = try SyncValue(from: &reader)
                if key == .existence {
                    guard case .integer(let count) = value,
                        (0...SyncRecord.maximumExistenceCount).contains(count)
                    else {
                        throw reader.damage("an object neither exists nor is deleted")
                    }
                }
                entries[key] = SyncEntry(
                    value: value,
                    version: SyncVersion(time: time, peer: peer, sequence: Int64(sequence)))
            }
            records.append(SyncRecord(id: id, entity: entity, entries: entries))
        }
        return records
    }
}

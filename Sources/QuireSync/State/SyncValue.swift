internal import Crypto
internal import Foundation
internal import Quire
internal import QuireModel

/// A value as it is written to files: a value of an attribute, or the destination of a to-one relationship.
enum SyncValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case double(Double)
    case boolean(Bool)
    /// The digits, as `Decimal` describes them.
    case decimal(String)
    case string(String)
    /// Seconds since the reference date.
    case date(Double)
    case binary(Data)
    /// Bytes in a file of their own.
    case blob(SyncBlob)
    case uuid(UUID)
    case uri(String)
    case reference(SyncIdentifier)
    /// A value that another one was made from, and its version.
    indirect case ancestor(SyncValue, SyncVersion)
    /// Of a later version of the format; passed on as it is.
    case unknown(tag: UInt8, Data)
}

/// The content of a file of external data: its digest and size.
struct SyncBlob: Hashable, Sendable {
    /// The SHA-256, 32 bytes.
    let digest: Data
    let size: Int64

    /// The folder of the folders of blobs.
    static let folder = SyncFileName(unchecked: "blob")

    var fileName: SyncFileName? {
        let text = digest.hexadecimal
        return Self.folder.entry("\(text.prefix(2))/\(text)")
    }

    /// The digest that a file's name says; `nil` if it is not the name of a blob.
    static func digest(of name: String) -> Data? {
        guard name.utf8.count == 64, let high = SyncIdentifier(name.prefix(32)),
            let low = SyncIdentifier(name.suffix(32)), !name.contains("-")
        else { return nil }
        return high.bytes + low.bytes
    }
}

// MARK: - Attribute values

extension SyncValue {
    /// The value of an attribute. Objects and composites have none: their parts are values of their own.
    ///
    /// - Throws: `QuireError` with code `unsupported` if a text is too large; an error of reading external data.
    init(_ value: AttributeValue) throws {
        switch value {
        case .null, .composite, .objectID: self = .null
        case .integer(let number): self = .integer(number)
        case .double(let number): self = .double(number)
        case .boolean(let flag): self = .boolean(flag)
        case .decimal(let number): self = .decimal(number.description)
        case .string(let text):
            guard text.utf8.count <= Self.maximumTextSize else {
                throw QuireError(
                    .unsupported,
                    "A text of \(text.utf8.count) bytes is too long to synchronize (maximum \(Self.maximumTextSize)). Shorten it or store it as binary data; the saved changes are then sent.",
                    subject: .init(value: String(text.prefix(40))))
            }
            self = .string(text)
        case .date(let date): self = .date(date.timeIntervalSinceReferenceDate)
        case .binary(let data): self = Self.bytes(data)
        case .external(let data):
            guard data.file != nil else {
                self = Self.bytes(try data.contents())
                return
            }
            let digest: Data
            if let known = data.sha256 {
                digest = known
            } else {
                var hash = SHA256()
                try data.forEachBlock { hash.update(bufferPointer: $0) }
                digest = Data(hash.finalize())
            }
            self = .blob(SyncBlob(digest: digest, size: Int64(data.size)))
        case .uuid(let uuid): self = .uuid(uuid)
        case .uri(let url): self = .uri(url.absoluteString)
        }
    }

    /// The maximum size of a text in bytes, far below that of a file, which others would not read if it were larger.
    static let maximumTextSize = 32 << 20
    /// Bytes above this size are in a file of their own.
    static let maximumInlineSize = 100 * 1024

    private static func bytes(_ data: Data) -> SyncValue {
        data.count <= maximumInlineSize
            ? .binary(data)
            : .blob(SyncBlob(digest: Data(SHA256.hash(data: data)), size: Int64(data.count)))
    }

    /// The value for an attribute; `nil` if it is a reference, a file, or of an unknown kind.
    var attributeValue: AttributeValue? {
        switch self {
        case .null: .null
        case .integer(let number): .integer(number)
        case .double(let number): .double(number)
        case .boolean(let flag): .boolean(flag)
        case .decimal(let text):
            // None that a decimal has for a description is longer.
            text.utf8.count > 256
                ? nil
                : Decimal(string: text, locale: Locale(identifier: "en_US_POSIX"))
                    .map { .decimal($0) }
        case .string(let text): .string(text)
        case .date(let seconds): .date(Date(timeIntervalSinceReferenceDate: seconds))
        case .binary(let data): .binary(data)
        case .uuid(let uuid): .uuid(uuid)
        case .uri(let text): URL(string: text).map { .uri($0) }
        case .blob, .reference, .ancestor, .unknown: nil
        }
    }
}

extension SyncValue {
    /// About the number of bytes that it takes in a file.
    var size: Int {
        switch self {
        case .string(let text), .uri(let text), .decimal(let text): text.utf8.count
        case .binary(let data), .unknown(_, let data): data.count
        default: 16
        }
    }
}

// MARK: - Bytes

extension SyncValue {
    private var tag: UInt8 {
        switch self {
        case .null: 0
        case .integer: 1
        case .double: 2
        case .boolean: 3
        case .decimal: 4
        case .string: 5
        case .date: 6
        case .binary: 7
        case .blob: 8
        case .uuid: 9
        case .uri: 10
        case .reference: 11
        case .ancestor: 12
        case .unknown(let tag, _): tag
        }
    }

    /// Writes a tag, the number of bytes that follow, and these: an unknown tag can be passed over.
    func encode(to writer: inout SyncByteWriter) {
        writer.byte(tag)
        var payload = SyncByteWriter()
        switch self {
        case .null: break
        case .integer(let number): payload.signed(number)
        case .double(let number), .date(let number): payload.word(number.bitPattern)
        case .boolean(let flag): payload.byte(flag ? 1 : 0)
        case .decimal(let text), .string(let text), .uri(let text):
            payload.raw(Array(text.utf8))
        case .binary(let data), .unknown(_, let data): payload.raw(data)
        case .blob(let blob):
            payload.raw(blob.digest)
            payload.unsigned(UInt64(blob.size))
        case .uuid(let uuid): withUnsafeBytes(of: uuid.uuid) { payload.raw($0) }
        case .reference(let id): payload.raw(id.bytes)
        case .ancestor(let value, let version):
            payload.unsigned(version.time)
            payload.identifier(version.peer)
            payload.unsigned(UInt64(version.sequence))
            value.encode(to: &payload)
        }
        writer.unsigned(UInt64(payload.bytes.count))
        writer.raw(payload.bytes)
    }

    init(from reader: inout SyncByteReader) throws {
        let tag = try reader.byte()
        let payload = try reader.raw(count: reader.count())
        var inner = SyncByteReader(payload, file: reader.file)
        switch tag {
        case 0: self = .null
        case 1: self = .integer(try inner.signed())
        case 2: self = .double(Double(bitPattern: try inner.word()))
        case 3: self = .boolean(try inner.byte() != 0)
        case 4: self = .decimal(try inner.text(payload))
        case 5: self = .string(try inner.text(payload))
        case 6: self = .date(Double(bitPattern: try inner.word()))
        case 7: self = .binary(Data(payload))
        case 8:
            let digest = Data(try inner.raw(count: 32))
            let size = try inner.unsigned()
            guard let size = Int64(exactly: size) else { throw inner.damage("a size is too large") }
            self = .blob(SyncBlob(digest: digest, size: size))
        case 9:
            guard payload.count == 16 else { throw inner.damage("a UUID does not have 16 bytes") }
            let uuid = payload.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
            self = .uuid(UUID(uuid: uuid))
        case 10: self = .uri(try inner.text(payload))
        case 11:
            guard payload.count == 16 else {
                throw inner.damage("a reference does not have 16 bytes")
            }
            self = .reference(SyncIdentifier(bytes: payload))
        case 12:
            let (time, peer) = (try inner.unsigned(), try inner.identifier())
            let sequence = try inner.unsigned()
            guard time <= SyncClock.maximum, sequence < 1 << 61 else {
                throw inner.damage("a version is out of range")
            }
            // No value in a value in a value: the depth is that of the call stack.
            guard inner.next != 12 else { throw inner.damage("an ancestor has an ancestor") }
            self = .ancestor(
                try SyncValue(from: &inner),
                SyncVersion(time: time, peer: peer, sequence: Int64(sequence)))
        default: self = .unknown(tag: tag, Data(payload))
        }
    }

    /// The bytes, by which values of one version are ordered.
    var encoded: [UInt8] {
        var writer = SyncByteWriter()
        encode(to: &writer)
        return writer.bytes
    }
}

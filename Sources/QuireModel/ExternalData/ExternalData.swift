public import Foundation
package import QuireProtection
package import QuireSystem

/// The value of a binary attribute of any size, without its bytes being in memory.
///
/// The content is a file of the store, a file written for an unsaved value, or the bytes of a small value kept in its row.
/// Instances are immutable and thread-safe.
///
/// ```swift
/// try await film.setExternalData(contentsOf: "/media/card/00001.mts", forKey: "video")
/// try context.save()                              // Copies nothing.
/// if let video = try film.externalData(forKey: "video") {
///     for try await chunk in video.chunks() { player.feed(chunk) }
/// }
/// ```
///
/// The content stays readable while the instance is retained, even if the object gets another value, is deleted, or its
/// store is closed: the file is open. Another process may unlink the file (``url``) when the value is replaced; reading
/// through this instance still works.
///
/// As an attribute value it is ``AttributeValue/external(_:)``. Setting that for another object, also in another store,
/// gives it the same bytes; within a store they are not copied.
///
/// Two instances are equal if they refer to the same file, or their bytes are known to be equal.
public final class ExternalData: Sendable {
    package enum Content: Sendable {
        case bytes(Data)
        case file(ExternalDataFile)
    }

    package let content: Content
    /// The open file, for instances handed to programs.
    private let descriptor: ContentFile?
    /// The object and attribute of the value, for errors.
    let owner: QuireError.Subject

    package init(
        _ content: Content, descriptor: ContentFile? = nil, owner: QuireError.Subject = .init()
    ) {
        self.content = content
        self.descriptor = descriptor
        self.owner = owner
    }

    /// A value with bytes in memory.
    public convenience init(_ data: Data) { self.init(.bytes(data)) }

    /// The same value with its file open, to hand to a program.
    package func opened(ownedBy owner: QuireError.Subject) throws -> ExternalData {
        guard case .file(let file) = content else { return ExternalData(content, owner: owner) }
        do {
            // The digest is read now: the store deletes it when the value is replaced.
            _ = file.record
            return ExternalData(
                content, descriptor: try descriptor ?? file.open(), owner: owner)
        } catch let error as QuireError {
            throw ExternalData(content, owner: owner).named(error)
        }
    }

    // MARK: - Facts

    /// The number of bytes; 0 if the file is missing, which is reported on reading.
    public var size: Int {
        switch content {
        case .bytes(let data): return data.count
        case .file(let file):
            if let size = try? descriptor?.count { return Int(clamping: size) }
            return file.size
        }
    }

    /// The SHA-256 of the saved bytes; `nil` if the store has recorded none, as Core Data's stores, or they are kept in the
    /// row.
    public var sha256: Data? {
        if case .file(let file) = content { file.record?.sha256 } else { nil }
    }

    /// The URL of a file with the bytes, which must not be changed; `nil` if they are in the object's row, the store is protected
    /// and the file sealed, or the document is in an archive.
    public var url: URL? {
        guard let location = file?.location, location.classKey == nil,
            !ArchiveMount.contains(location.path)
        else { return nil }
        return URL(fileURLWithPath: location.path)
    }

    /// The path of the file, if the value has one.
    public var path: String? { file?.path }

    package var file: ExternalDataFile? {
        if case .file(let file) = content { file } else { nil }
    }

    // MARK: - Reading

    /// All bytes, in memory.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput`, or `invalidFormat` if the file is missing, or the store was opened
    ///   to verify values and the digest differs.
    public func data() throws -> Data {
        let data = try contents()
        if let file, file.verifiesWholeValues, let record = file.record {
            let digest = RunningDigest()
            data.withUnsafeBytes { digest.update($0) }
            try check(digest, against: record)
        }
        return data
    }

    /// All bytes, without querying the store's record.
    package func contents() throws -> Data {
        if case .bytes(let data) = content { return data }
        return try read(size, at: 0)
    }

    /// Bytes from an offset: up to the requested number, fewer at the end, none beyond it.
    ///
    /// - Throws: As ``data()``.
    /// - Precondition: Neither number is negative.
    public func read(_ count: Int, at offset: Int) throws -> Data {
        precondition(
            count >= 0 && offset >= 0, "ExternalData.read requires a nonnegative count and offset.")
        switch content {
        case .bytes(let data):
            let start = min(offset, data.count)
            return Data(data.dropFirst(start).prefix(count))
        case .file:
            return try naming {
                let file = try openFile()
                let rest = Int(clamping: try file.count) - offset
                if rest <= 0 { return Data() }
                var bytes = Data(count: min(count, rest))
                let read = try bytes.withUnsafeMutableBytes {
                    try file.read(into: $0, at: Int64(offset))
                }
                if read < bytes.count { bytes.count = read }
                return bytes
            }
        }
    }

    /// Calls a closure with all bytes, block by block.
    package func forEachBlock(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        switch content {
        case .bytes(let data): try data.withUnsafeBytes(body)
        case .file:
            try naming {
                try openFile().forEachBlock(ofSize: Self.blockSize) { block in
                    if Task.isCancelled { throw Self.cancelled() }
                    try body(block)
                }
            }
        }
    }

    static let blockSize = 1 << 20

    static func cancelled() -> QuireError {
        QuireError(.cancelled, "Copying a value was cancelled; the value is unchanged.")
    }

    /// The open file. A retained descriptor must not be read by its file position.
    func openFile() throws -> ContentFile {
        if let descriptor { return descriptor }
        guard case .file(let file) = content else {
            preconditionFailure("A value in memory has no file.")
        }
        return try file.open()
    }

    // MARK: - Checking

    /// Verifies the bytes against the saved digest.
    ///
    /// - Returns: `false` if the store has recorded no digest.
    /// - Complexity: O(*n*) in the bytes; one block at a time is in memory.
    /// - Throws: ``QuireError`` with code `invalidFormat`, naming object, attribute and file, if they differ; or as
    ///   ``data()``.
    @discardableResult public func verify() throws -> Bool {
        guard let record = file?.record else { return false }
        let digest = RunningDigest()
        try forEachBlock(digest.update)
        try check(digest, against: record)
        return true
    }

    /// Calls a closure with all bytes, block by block, and verifies them when all were read.
    ///
    /// - Throws: As ``verify()``, or what the closure throws; ``QuireError`` with code `invalidFormat` if the size of the file has
    ///   changed meanwhile.
    package func forEachVerifiedBlock(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        let expected = size
        let digest = RunningDigest()
        try forEachBlock { block in
            digest.update(block)
            try body(block)
        }
        if let record = file?.record { try check(digest, against: record) }
        guard digest.size == expected else {
            throw named(
                QuireError(
                    .invalidFormat,
                    "The file “\(path ?? "")” has \(digest.size) bytes instead of \(expected).",
                    subject: .init(file: path)))
        }
    }

    package func check(_ digest: RunningDigest, against record: ExternalDataRecord) throws {
        if digest.record == record { return }
        throw named(
            QuireError(
                .invalidFormat,
                "The file “\(path ?? "")” was changed after it was saved; restore it from a backup.",
                file: path))
    }

    /// Adds the object and attribute to errors.
    package func naming<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as QuireError { throw named(error) }
    }

    private func named(_ error: QuireError) -> QuireError {
        guard let object = owner.object, error.subject.object == nil, error.code != .cancelled
        else { return error }
        var error = error
        let property = owner.property ?? "A value"
        error.message = "“\(property)” of \(object) cannot be read: \(error.message)"
        error.subject.object = object
        error.subject.entity = owner.entity
        error.subject.property = owner.property
        return error
    }
}

extension ExternalData: Hashable {
    /// Whether both refer to the same file, or their bytes are known to be equal.
    public static func == (left: ExternalData, right: ExternalData) -> Bool {
        if left === right { return true }
        switch (left.content, right.content) {
        case (.bytes(let left), .bytes(let right)): return left == right
        case (.file(let left), .file(let right)):
            if left.path == right.path { return true }
            guard let record = left.knownRecord else { return false }
            return record == right.knownRecord
        default: return false
        }
    }

    /// Hashes the number of bytes, which equal values share.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(file?.size ?? size)
    }
}

extension ExternalData: CustomStringConvertible {
    /// The number of bytes and their location.
    public var description: String {
        "\(size) bytes" + (path.map { " in “\($0)”" } ?? "")
    }
}

// MARK: - Comparing

extension ExternalData {
    /// Whether both have the same bytes, which are read only if they cannot be compared otherwise.
    func hasSameBytes(as other: ExternalData) -> Bool {
        if self == other { return true }
        if size != other.size { return false }
        if let mine = file, let theirs = other.file {
            if let record = mine.record, let otherRecord = theirs.record {
                return record == otherRecord
            }
            if let one = mine.information, let two = theirs.information, one.isSameFile(as: two) {
                return true
            }
        }
        return (try? readsSame(as: other)) ?? false
    }

    /// Compares the bytes with those of another value by reading both.
    package func readsSame(as other: ExternalData) throws -> Bool {
        struct Different: Error {}
        var offset = 0
        do {
            try forEachBlock { block in
                let piece = try other.read(block.count, at: offset)
                let isSame = piece.withUnsafeBytes {
                    $0.count == block.count && $0.elementsEqualBytes(block)
                }
                if !isSame { throw Different() }
                offset += block.count
            }
        } catch is Different {
            return false
        }
        return offset == other.size
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func elementsEqualBytes(_ other: UnsafeRawBufferPointer) -> Bool {
        guard let mine = baseAddress, let theirs = other.baseAddress else { return count == 0 }
        return memcmp(mine, theirs, count) == 0
    }
}

extension AttributeValue {
    /// The bytes of a binary value, read from its file if external; `nil` for other values.
    ///
    /// - Throws: As ``ExternalData/data()``.
    public func data() throws -> Data? {
        switch self {
        case .binary(let data): data
        case .external(let value): try value.data()
        default: nil
        }
    }

    /// As ``data()``, without querying the store's record.
    package func contents() throws -> Data? {
        if case .external(let value) = self { return try value.contents() }
        return try data()
    }

    /// The value with its bytes in memory.
    package func loaded() throws -> AttributeValue {
        if case .external(let value) = self { return .binary(try value.data()) }
        return self
    }

    /// As ``loaded()``; if the bytes cannot be read, the value keeps referring to the file, and reading it throws.
    package var loadedIfReadable: AttributeValue { (try? loaded()) ?? self }

    /// The number of bytes of a binary value.
    package var binarySize: Int? {
        switch self {
        case .binary(let data): data.count
        case .external(let data): data.size
        default: nil
        }
    }

    /// Whether both are the same value, regardless of the bytes' location. Texts are if their bytes are, as in stores and queries:
    /// to compose the accents of a text is a change, although Swift's strings are equal before and after it.
    package func isSame(as other: AttributeValue) -> Bool {
        switch (self, other) {
        case (.external(let mine), .external(let theirs)): mine.hasSameBytes(as: theirs)
        case (.external(let value), .binary(let data)), (.binary(let data), .external(let value)):
            value.hasSameBytes(as: ExternalData(data))
        case (.string(let mine), .string(let theirs)):
            mine.utf8.count == theirs.utf8.count && mine.utf8.elementsEqual(theirs.utf8)
        case (.composite(let mine), .composite(let theirs)):
            mine.count == theirs.count
                && mine.allSatisfy { theirs[$0.key]?.isSame(as: $0.value) ?? false }
        default: self == other
        }
    }
}

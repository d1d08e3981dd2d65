import Crypto
package import Foundation
import QuireSystem

// The encoding of a keybag. All numbers are big-endian. Input is untrusted: every length and count is bounded, and any
// deviation from the format is an error.

extension Keybag {
    private static let magic = Data("QUIRKBAG".utf8)

    /// Whether a file begins like a keybag. One that cannot be read does not.
    package static func isKeybag(at path: String) -> Bool {
        (try? OpenFile.open(path, for: .reading).read(magic.count, at: 0)) == Array(magic)
    }

    private static let version: UInt16 = 1
    private static let authenticationCount = 32
    /// The greatest size of a file: everything at its greatest.
    package static let maximumSize = 1 << 20

    /// Parses a keybag, without verifying it.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is not a valid keybag, `unsupported` if a later version has
    ///   made it.
    package init(_ bytes: Data, path: String) throws {
        var reader = KeybagReader(bytes, path: path)
        guard bytes.count <= Self.maximumSize, try reader.data(8) == Self.magic else {
            throw reader.error()
        }
        let version = try reader.number(UInt16.self)
        if version > Self.version {
            throw QuireError(
                .unsupported,
                "The keybag “\(path)” was created by a later version of Quire; use that version.",
                file: path)
        }
        guard version == Self.version, try reader.number(UInt16.self) == 0 else {
            throw reader.error()
        }
        let identifier = try reader.identifier()
        let revision = try reader.number(UInt64.self)
        let fileProtection = try reader.fileProtection()
        let classKeys = try reader.list(1...Self.maximumClassKeyCount) { try $0.classKeys() }
        guard zip(classKeys, classKeys.dropFirst()).allSatisfy({ $0.epoch < $1.epoch }) else {
            throw reader.error()
        }
        self.init(
            path: path, identifier: identifier, fileProtection: fileProtection,
            classKeys: classKeys)
        self.revision = revision
        slots = try reader.list(0...Self.maximumSlotCount) { try $0.slot() }
        // The keybag is untrusted: trying a passphrase in all its slots must not take minutes.
        guard Self.work(of: slots) <= ScryptCost.maximumWork else { throw reader.error() }
        storeKeys = try reader.list(0...Self.maximumStoreKeyCount) {
            StoreKey(number: try $0.number(), key: try $0.wrappedFileKey())
        }
        changeInProgress = try reader.data(Int(try reader.number(UInt16.self)))
        authenticationCode = try reader.data(Self.authenticationCount)
        guard reader.isAtEnd, Set(slots.map(\.identifier)).count == slots.count,
            Set(storeKeys.map(\.number)).count == storeKeys.count,
            !storeKeys.contains(where: { $0.number == 0 })
        else { throw reader.error() }
    }

    /// The bytes that it was parsed from.
    var bytes: Data { encodedContent + authenticationCode }

    /// All that the authentication code is of.
    var encodedContent: Data {
        var bytes = Self.magic
        bytes.append(bigEndian: Self.version)
        bytes.append(bigEndian: 0 as UInt16)
        bytes += identifier.data
        bytes.append(bigEndian: revision)
        bytes.append(fileProtection.code)
        bytes += encodedClassKeys
        bytes.append(UInt8(slots.count))
        for slot in slots {
            let encoded = slot.encoded
            bytes.append(bigEndian: UInt16(encoded.count))
            bytes += encoded
        }
        bytes.append(UInt8(storeKeys.count))
        for storeKey in storeKeys {
            bytes.append(bigEndian: storeKey.number)
            bytes += storeKey.key.encoded
        }
        bytes.append(bigEndian: UInt16(changeInProgress.count))
        bytes += changeInProgress
        return bytes
    }

    private var encodedClassKeys: Data {
        var bytes = Data([UInt8(classKeys.count)])
        for keys in classKeys {
            bytes.append(bigEndian: keys.epoch)
            bytes += keys.complete + keys.untilFirstAuthentication + keys.publicKey
            bytes += keys.privateKey
        }
        return bytes
    }

    /// The SHA-256 of the encoded class keys, which identifies a keybag together with its identifier.
    package var classKeyDigest: Data { Data(SHA256.hash(data: encodedClassKeys)) }
}

extension KeybagSlot {
    fileprivate var kind: UInt8 {
        switch content {
        case .passphrase: 1
        case .keyFile: 2
        case .recoveryKey: 3
        case .domain: 4
        case .other(let kind, _): kind
        }
    }

    fileprivate var encoded: Data {
        var bytes = identifier.data
        bytes.append(kind)
        bytes.append(bigEndian: UInt64(bitPattern: created))
        bytes.append(UInt8(label.utf8.count))
        bytes += Data(label.utf8)
        bytes += salt
        switch content {
        case .passphrase(let cost, let wrapped):
            bytes.append(bigEndian: cost.logarithmOfN)
            bytes.append(bigEndian: cost.r)
            bytes.append(bigEndian: cost.p)
            bytes += wrapped
        case .keyFile(let wrapped), .recoveryKey(let wrapped): bytes += wrapped
        case .domain(let parent, let wrapped): bytes += parent.data + wrapped.encoded
        case .other(_, let rest): bytes += rest
        }
        return bytes
    }
}

extension WrappedFileKey {
    /// The encoding: identifier (16 bytes), class (1), epoch (4), length of the wrapped key (1), wrapped key.
    package var encoded: Data {
        var data = file.data
        data.append(fileProtection.code)
        data.append(bigEndian: epoch)
        data.append(UInt8(bytes.count))
        return data + bytes
    }

    /// The length of a wrapped key, by class.
    package static func wrappedCount(for fileProtection: FileProtection) -> Int {
        fileProtection == .completeUnlessOpen
            ? KeyWrapping.publicKeyCount + KeyWrapping.wrappedCount : KeyWrapping.wrappedCount
    }
}

extension FileProtection {
    /// Its code in files.
    package var code: UInt8 {
        switch self {
        case .none: 0
        case .complete: 1
        case .completeUnlessOpen: 2
        case .completeUntilFirstUserAuthentication: 3
        }
    }

    /// The class for a code in files, if there is one.
    package init?(code: UInt8) {
        guard let found = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = found
    }
}

/// The rest of the bytes of a keybag.
private struct KeybagReader {
    private var rest: Data
    private let path: String

    init(_ bytes: Data, path: String) {
        rest = bytes
        self.path = path
    }

    var isAtEnd: Bool { rest.isEmpty }

    func error() -> QuireError {
        QuireError(
            .invalidFormat,
            "“\(path)” is not a keybag, or is damaged; restore it from a backup.", file: path)
    }

    mutating func data(_ count: Int) throws -> Data {
        guard rest.count >= count else { throw error() }
        defer { rest = rest.dropFirst(count) }
        return Data(rest.prefix(count))
    }

    mutating func number<Number: FixedWidthInteger>(
        _: Number.Type = Number.self
    ) throws -> Number {
        try data(MemoryLayout<Number>.size).reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    mutating func identifier() throws -> UUID {
        let bytes = try data(16)
        var uuid = UUID().uuid
        withUnsafeMutableBytes(of: &uuid) { _ = bytes.copyBytes(to: $0) }
        return UUID(uuid: uuid)
    }

    mutating func list<Element>(
        _ counts: ClosedRange<Int>, _ element: (inout Self) throws -> Element
    ) throws -> [Element] {
        let count = Int(try number(UInt8.self))
        guard counts.contains(count) else { throw error() }
        return try (0..<count).map { _ in try element(&self) }
    }

    mutating func fileProtection() throws -> FileProtection {
        guard let found = FileProtection(code: try number()), found != .none else {
            throw error()
        }
        return found
    }

    mutating func classKeys() throws -> Keybag.ClassKeys {
        let keys = Keybag.ClassKeys(
            epoch: try number(), complete: try data(KeyWrapping.wrappedCount),
            untilFirstAuthentication: try data(KeyWrapping.wrappedCount),
            publicKey: try data(KeyWrapping.publicKeyCount),
            privateKey: try data(KeyWrapping.wrappedCount))
        guard keys.epoch > 0 else { throw error() }
        return keys
    }

    mutating func wrappedFileKey() throws -> WrappedFileKey {
        let file = try identifier()
        let fileProtection = try fileProtection()
        let epoch: UInt32 = try number()
        let count = Int(try number(UInt8.self))
        guard epoch > 0, count == WrappedFileKey.wrappedCount(for: fileProtection) else {
            throw error()
        }
        return WrappedFileKey(
            file: file, fileProtection: fileProtection, epoch: epoch, bytes: try data(count))
    }

    mutating func slot() throws -> KeybagSlot {
        var slot = KeybagReader(try data(Int(try number(UInt16.self))), path: path)
        let identifier = try slot.identifier()
        let kind: UInt8 = try slot.number()
        let created = Int64(bitPattern: try slot.number())
        let labelCount = Int(try slot.number(UInt8.self))
        guard labelCount <= KeybagSlot.maximumLabelCount,
            let label = String(validating: try slot.data(labelCount), as: UTF8.self)
        else { throw error() }
        let salt = try slot.data(32)
        let content = try slot.content(kind: kind)
        guard slot.isAtEnd else { throw error() }
        return KeybagSlot(
            identifier: identifier, created: created, label: label, salt: salt,
            content: content)
    }

    private mutating func content(kind: UInt8) throws -> KeybagSlot.Content {
        switch kind {
        case 1:
            let cost = ScryptCost(
                logarithmOfN: try number(), r: try number(), p: try number())
            guard cost.isAcceptable else { throw error() }
            return .passphrase(cost: cost, wrapped: try data(KeyWrapping.wrappedCount))
        case 2: return .keyFile(wrapped: try data(KeyWrapping.wrappedCount))
        case 3: return .recoveryKey(wrapped: try data(KeyWrapping.wrappedCount))
        case 4: return .domain(parent: try identifier(), wrapped: try wrappedFileKey())
        default: return .other(kind: kind, bytes: try data(rest.count))
        }
    }
}

// MARK: - Files

/// The file of a keybag.
///
/// It is replaced atomically (``AtomicFileReplace``), and claimed during a change, so that concurrent changes by several
/// processes are serialized. Beneath a root it is untrusted; see ``FileLocation``.
struct KeybagFile: Sendable {
    /// The file's path.
    var path: String
    /// The document package that contains it, if any.
    var root: String?
    /// The archive that contains it, if any, which stays mounted.
    var mount: ArchiveMount?

    private static let patience = FileLockWait(timeout: .seconds(10)) { _ in }

    /// The file's metadata, if it exists.
    var information: FileInformation? {
        get throws { try FileSystem.information(at: path, beneath: root) }
    }

    /// Reads the keybag. Nothing of it is verified.
    func read() throws -> Keybag {
        try Keybag(
            FileSystem.contents(of: path, beneath: root, limit: Keybag.maximumSize), path: path)
    }

    /// Writes a keybag to a new file.
    ///
    /// - Parameter isPrivate: Whether only its owner may read it.
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path is taken.
    func create(_ bytes: Data, isPrivate: Bool) throws {
        try Self.writeNewFile(bytes, at: path, beneath: root, isPrivate: isPrivate)
    }

    /// Reads the keybag, lets it be changed, and writes it.
    ///
    /// - Parameter change: Gives the bytes of the changed keybag.
    /// - Throws: ``QuireError`` with code `locked` if another process is changing it all the time.
    func update(_ change: (Keybag) throws -> Data) throws {
        let isDone: Bool? = try Self.patience.polling(path) { _ in
            let file = try OpenFile.open(path, beneath: root, for: .reading)
            defer { file.close() }
            // Without flock on the file system, the last of two concurrent changes wins.
            guard (try? file.claim()) ?? true,
                // The previous holder of the claim has replaced it.
                let found = try FileSystem.information(at: path, beneath: root),
                try file.information().isSameFile(as: found)
            else { return nil }
            let keybag = try Keybag(
                file.readToEnd(limit: Keybag.maximumSize), path: path)
            try AtomicFileReplace.replace(path, beneath: root, with: change(keybag))
            return true
        }
        if isDone == nil {
            throw QuireError(
                .locked,
                "Another process is changing the keybag “\(path)”; wait until it has finished, and try again.",
                file: path)
        }
    }

    fileprivate static func writeNewFile(
        _ bytes: Data, at path: String, beneath root: String? = nil, isPrivate: Bool
    ) throws {
        guard isPrivate else {
            try FileSystem.writeNewFile(bytes, at: path, beneath: root)
            return
        }
        let (file, temporary) = try OpenFile.createTemporary(beside: path, beneath: root)
        try FileSystem.removeOnFailure(temporary, beneath: root) {
            try file.setPermissionsIfPossible(0o600)
            try file.write(bytes)
            try file.synchronize()
            try FileSystem.renameWithoutReplacing(temporary, to: path, beneath: root)
            file.close()
        }
        try FileSystem.synchronizeFolder(containing: path, beneath: root)
    }
}

/// Files with random bytes that open a slot.
package enum KeyFile {
    /// Reads a key file.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if it is not a file, its size is not valid for a key file, or if
    ///   users other than its owner may write to it: they could have replaced the key.
    package static func read(_ path: String) throws -> Data {
        let file = try OpenFile.open(path, for: .reading)
        defer { file.close() }
        let information = try file.information()
        guard information.kind == .regular else {
            throw error("“\(path)” cannot be a key file: it is not a regular file.", path)
        }
        guard information.permissions & 0o022 == 0 else {
            throw error(
                "Other users can write to the key file “\(path)”. Run chmod 600 and check that it is the correct file.",
                path)
        }
        guard KeybagCredential.keyFileCounts.contains(Int(clamping: information.size)) else {
            throw error(
                "“\(path)” cannot be a key file: it has \(information.size) bytes, and a key file has \(KeybagCredential.keyFileCounts.lowerBound) to \(KeybagCredential.keyFileCounts.upperBound).",
                path)
        }
        return try file.readToEnd(limit: KeybagCredential.keyFileCounts.upperBound)
    }

    /// Makes a key file of 32 random bytes that only its user may read.
    static func make(at path: String) throws {
        let secret = try SecretMemory(randomCount: 32)
        try KeybagFile.writeNewFile(
            secret.withUnsafeBytes { Data($0) }, at: path, isPrivate: true)
    }

    private static func error(_ message: String, _ path: String) -> QuireError {
        QuireError(.invalidValue, message, file: path)
    }
}

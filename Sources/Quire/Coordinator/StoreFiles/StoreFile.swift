import Foundation

/// A file with a store that need not be open: of which type it is, what it says of itself, and what can be done to it as a
/// whole.
///
/// ```swift
/// let file = try StoreFile(at: "Requests.paw")
/// print(file.type.rawValue, try file.metadata().storeUUID)
/// try file.convert(to: "requests.sqlite", type: .sqlite)
/// ```
///
/// It may be used from any thread.
public struct StoreFile: Sendable {
    /// The path, from the root.
    public let path: String
    /// The type of the store, as the first bytes tell it.
    public let type: StoreType

    /// Looks at a file.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if it is none of the stores of this framework, or
    ///   `inputOutput`.
    public init(at path: String) throws {
        let path = FileSystem.absolute(path)
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError(.notFound, "There is no “\(path)”.", subject: .init(file: path))
        }
        guard information.kind == .regular else {
            throw QuireError(
                .invalidFormat, "“\(path)” is no file, so it cannot be a store.",
                subject: .init(file: path))
        }
        self.path = path
        type = try Self.type(of: path)
    }

    /// How many bytes of an XML file may come before its first element that tells it for a store.
    private static let headSize: Int64 = 4096

    private static func type(of path: String) throws -> StoreType {
        // One that is open and new may have nothing in it but its log yet.
        if SQLiteOpenFiles.contains(path) { return .sqlite }
        let file = try OpenFile.open(path, for: .reading)
        defer { file.close() }
        var head = try file.read(Int(min(file.information().size, headSize)), at: 0)
        if try StoreProtection.domain(ofStoreAt: path) != nil {
            // A SQLite database is sealed page by page, others as a whole.
            guard SealedFileHeader.isSealed(head) else { return .sqlite }
            let sealed = try ContentFile(
                file, unsealing: StoreProtection.find(forStoreAt: path)?.classKey)
            head = [UInt8](try sealed.readAll().prefix(Int(headSize)))
        }
        if head.starts(with: Array("SQLite format 3\0".utf8)) { return .sqlite }
        if head.starts(with: Array("CoreData".utf8)) { return .binary }
        let text = String(decoding: head, as: UTF8.self)
        if text.contains("<database>") || text.contains("<!DOCTYPE database") { return .xml }
        throw QuireError(
            .invalidFormat,
            "“\(path)” is no store: it begins like no SQLite database, and like none of Core Data's XML and binary files.",
            subject: .init(file: path))
    }

    // MARK: - Looking

    /// What the store says of itself, without opening it as a store: its objects are not read, its model is not needed.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if the file is damaged, or `inputOutput`.
    public func metadata() throws -> StoreMetadata {
        switch type {
        case .xml: try XMLStore.metadata(at: path)
        case .binary: try BinaryStore.metadata(at: path)
        default: try SQLiteStore.metadata(at: path)
        }
    }

    /// Opens the store with what it takes for its model: the one that is given, or the one that it carries, or else, for
    /// reading only, one that is made of its file alone.
    ///
    /// - Parameters:
    ///   - model: The model; `nil` for the one that the store carries.
    ///   - isReadOnly: Whether nothing will be saved.
    /// - Throws: As ``SQLiteStore/open(at:model:options:)`` and ``AtomicStore/open(at:model:options:)``.
    public func open(
        model: ManagedObjectModel? = nil, isReadOnly: Bool = true
    ) throws -> any PersistentStore {
        try open(model: model, isReadOnly: isReadOnly, lockWait: nil)
    }

    /// Opens the store.
    ///
    /// - Parameter lockWait: How to wait for other processes. A store that is written as a whole is then locked as long as
    ///   it is open for writing.
    package func open(
        model: ManagedObjectModel?, isReadOnly: Bool, lockWait: FileLockWait?
    ) throws -> any PersistentStore {
        var atomic = AtomicStoreOptions()
        atomic.isReadOnly = isReadOnly
        atomic.lockWait = lockWait
        switch type {
        case .xml:
            return try open(XMLStore.self, model, atomic, XMLStore.inferredModel(of:path:))
        case .binary:
            return try open(BinaryStore.self, model, atomic, BinaryStore.inferredModel(of:path:))
        default:
            var options = SQLiteStoreOptions()
            options.isReadOnly = isReadOnly
            options.infersModel = isReadOnly
            options.lockWait = lockWait
            return try SQLiteStore.open(at: path, model: model, options: options)
        }
    }

    private func open<Store: AtomicStore>(
        _ type: Store.Type, _ model: ManagedObjectModel?, _ options: AtomicStoreOptions,
        _ inferredModel: @escaping ModelOfFile
    ) throws -> Store {
        try type.open(
            at: path, model: model, layout: nil, options: options,
            inferringModel: options.isReadOnly ? inferredModel : nil)
    }

    // MARK: - As a whole

    /// Removes the store, with its log and its external data.
    ///
    /// - Throws: ``QuireError`` with code `locked` if it is open, `readOnly` or `inputOutput`.
    public func destroy() throws {
        if type == .sqlite { return try SQLiteStore.destroy(at: path) }
        try FileSystem.removeFile(path)
        try FileSystem.synchronizeFolder(containing: path)
        try StoreProtection.removeKeybag(ofStoreAt: path)
    }

    /// Puts a copy of another store of the same type in the place of this one. The copy has the other's UUID and model.
    ///
    /// At every instant, also after a crash or power loss, there is the whole old or the whole new store.
    ///
    /// - Throws: ``QuireError`` with code `unsupported` if the other store is of another type, `locked` if this one is
    ///   open, `protectionUnavailable` if the other one is protected with other keys than this one, `invalidFormat`,
    ///   `outOfSpace`, `readOnly` or `inputOutput`.
    public func replace(with other: StoreFile) throws {
        guard type == other.type else {
            throw QuireError(
                .unsupported,
                "“\(other.path)” is a store of type \(other.type.rawValue), “\(path)” one of type \(type.rawValue); "
                    + "convert it to the same type first.", subject: .init(file: other.path))
        }
        if type == .sqlite {
            return try SQLiteStore.replace(at: path, withStoreAt: other.path)
        }
        // Reads and checks all of it: what cannot be opened must not come in the place of what can.
        try other.open().close()
        let (mine, theirs) = try (
            StoreProtection.find(forStoreAt: path), StoreProtection.find(forStoreAt: other.path)
        )
        if let theirs, theirs.domain.identifier != mine?.domain.identifier {
            throw StoreProtection.otherKeysError(path)
        }
        var data = try FileSystem.contents(of: other.path)
        if let mine, theirs == nil { data = try mine.classKey.sealed(data, path: path) }
        try AtomicFileReplace.replace(path, with: data)
    }
}

package import Foundation
public import QuireModel
public import QuireProtection
public import QuireStore
package import QuireSystem

/// Options for opening the file of an atomic store.
public struct AtomicStoreOptions: Sendable {
    /// Whether the store is opened for reading only.
    public var isReadOnly = false
    /// The configuration of the model whose entities' objects the store contains; `nil` for all entities.
    public var configuration: String?
    /// Classes to bind to the entities of the model, whether it is passed or read from the store; see
    /// ``ManagedObjectModel/bind(classes:)``.
    public var objectClasses: [any EntityClass.Type] = []
    /// The protection class of a new store. `nil` for that of ``protectionDomain``, or none if no domain is set.
    ///
    /// An existing store keeps its class. Opening it with another one fails with code `protectionUnavailable`, unless that is
    /// `none`.
    public var fileProtection: FileProtection?
    /// The domain whose keys protect a new store; `nil` for ``ProtectionDomain/default``.
    public var protectionDomain: ProtectionDomain?
    /// Further slots of a new store's keybag.
    package var protectionSlots: [NewSlot] = []
    /// The waiting policy for locking the file when a store is opened for writing; the lock is then held until it is closed.
    /// `nil` to lock it for each save only.
    package var lockWait: FileLockWait?

    /// Creates the default options.
    public init() {}
}

/// The initial state of an ``AtomicStore``.
public struct AtomicStoreOpening {
    package let contents: AtomicContents
    package let file: AtomicStoreFile?
    package let options: AtomicStoreOptions

    package init(contents: AtomicContents, file: AtomicStoreFile?, options: AtomicStoreOptions) {
        self.contents = contents
        self.file = file
        self.options = options
    }
}

/// Infers a model from the content of a file.
package typealias ModelOfFile = (_ data: Data, _ path: String) throws -> ManagedObjectModel

extension AtomicStore {
    /// Creates an empty store that contains its model.
    ///
    /// - Parameters:
    ///   - path: The path of the file, which must not exist, or be empty. The folder must exist.
    ///   - model: The model.
    ///   - options: Options for using the file.
    /// - Throws: ``QuireError`` with code `alreadyExists`, `invalidModel`, `unsupported`, `outOfSpace`, `readOnly`,
    ///   `protectionUnavailable` if the requested protection is not possible, or `storeUnavailable`. Then no file is left.
    public static func create(
        at path: String, model: ManagedObjectModel,
        options: AtomicStoreOptions = AtomicStoreOptions()
    ) throws -> Self {
        try create(
            at: path, layout: model.binding(classes: options.objectClasses).layout(),
            options: options)
    }

    /// As ``create(at:model:options:)``, with a model shared with other stores.
    package static func create(
        at path: String, layout: ResolvedModel, options: AtomicStoreOptions
    ) throws -> Self {
        let path = FileSystem.absolute(path)
        try NewStoreLocation(
            path: path, isTaken: FileSystem.exists(path) && !AtomicStoreFile.isVacant(path)
        ).check(isReadOnly: options.isReadOnly)
        return try StoreProtection.making(
            forStoreAt: path, options.fileProtection, domain: options.protectionDomain,
            slots: options.protectionSlots
        ) { protection in
            let file = AtomicStoreFile(path: path, protection: protection)
            let store = Self(try opening(layout, file: file, options: options))
            try store.writeFirst()
            return store
        }
    }

    /// Creates a store that continues another of the same kind: with its contents and unsaved changes, its identifiers, its
    /// protection and its permissions, in a file of its own, which must not exist.
    ///
    /// - Parameter prepare: Called with the new store before its file is written.
    /// - Returns: Also the objects whose derived values the changes affect.
    package func continued(
        at path: String, applying changes: ChangeSet, prepare: (AtomicStore) -> Void = { _ in }
    ) throws -> (store: AtomicStore, derived: [ManagedObjectID]) {
        let path = FileSystem.absolute(path)
        try NewStoreLocation(path: path, isTaken: FileSystem.exists(path))
            .check(isReadOnly: false)
        let (contents, derived) = try applying(changes)
        let hasNewKeybag = try protection?.writeKeybag(forStoreAt: path) ?? false
        do {
            let file = AtomicStoreFile(
                path: path, protection: try StoreProtection.find(forStoreAt: path))
            var options = AtomicStoreOptions()
            options.configuration = configurationName
            let store = Swift.type(of: self).init(
                AtomicStoreOpening(contents: contents, file: file, options: options))
            prepare(store)
            try store.writeFirst(permissions: filePermissions())
            return (store, derived)
        } catch {
            if hasNewKeybag { try? StoreProtection.removeKeybag(ofStoreAt: path) }
            throw error
        }
    }

    /// The permission bits of the file; `nil` if it is missing.
    private func filePermissions() throws -> UInt32? {
        try path.flatMap { try FileSystem.information(at: $0) }.map { $0.permissions & 0o777 }
    }

    /// The initial state of an empty store.
    static func opening(
        _ layout: ResolvedModel, file: AtomicStoreFile?, options: AtomicStoreOptions
    ) throws -> AtomicStoreOpening {
        try check(layout)
        let uuid = UUID().uuidString
        let kept = Set(
            try layout.entityNumbers(ofConfiguration: options.configuration)
                .map { layout.entity(number: $0).name })
        var contents = AtomicContents(
            layout: layout,
            metadata: StoreMetadata(
                storeUUID: uuid, type: storeType, model: layout.model,
                hashes: layout.model.versionHashesForNewStores.filter { kept.contains($0.key) }),
            identity: StoreIdentity(uuid: uuid, entityNames: layout.entities.map(\.name)))
        contents.carriesModel = true
        contents.maximumKey = firstPrimaryKey - 1
        return AtomicStoreOpening(contents: contents, file: file, options: options)
    }

    /// Opens a store, and reads all of its objects.
    ///
    /// - Parameters:
    ///   - path: The path of its file.
    ///   - model: The model of its objects; `nil` for the model in the store.
    ///   - options: Options for using the file.
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` if the file is not a valid store of this type,
    ///   `incompatibleModel` if it contains data that the model lacks, was created with another model, or does not contain a
    ///   model and none is passed, `protectedDataUnavailable` if it is protected and locked, `protectionUnavailable` if its
    ///   protection is not the requested one, or `inputOutput`.
    public static func open(
        at path: String, model: ManagedObjectModel? = nil,
        options: AtomicStoreOptions = AtomicStoreOptions()
    ) throws -> Self {
        try open(at: path, model: model, layout: nil, options: options)
    }

    /// As ``open(at:model:options:)``, optionally with a model shared with other stores; the default is the carried model, or
    /// one inferred from the file.
    package static func open(
        at path: String, model: ManagedObjectModel?, layout known: ResolvedModel?,
        options: AtomicStoreOptions, inferringModel infer: ModelOfFile? = nil
    ) throws -> Self {
        let (file, data) = try read(
            path, lockWait: options.isReadOnly ? nil : options.lockWait)
        let path = file.path
        try StoreProtection.require(options.fileProtection, of: file.protection, path)
        if !options.isReadOnly { TemporarySibling.removeAbandoned(in: FileSystem.folder(of: path)) }
        let metadata = try loadMetadata(from: data, path: path)
        let carried = try metadata.carriedModel(path: path)
        let named = known?.model ?? model ?? carried
        guard let model = try named ?? infer?(data, path) else {
            throw QuireError.noModel(carriedBy: path)
        }
        let layout = try known ?? model.binding(classes: options.objectClasses).layout()
        try check(layout)
        let entities = try layout.entityNumbers(ofConfiguration: options.configuration)
        if let carried {
            // Other stores have the other entities.
            let names = Set(entities.map { layout.entity(number: $0).name })
            try requireSame(
                model, as: carried, entities: options.configuration == nil ? nil : names,
                path: path)
        }
        var contents = AtomicContents(
            layout: layout, metadata: metadata.withoutCarried,
            identity: StoreIdentity(
                uuid: metadata.storeUUID, entityNames: layout.entities.map(\.name)))
        contents.carriesModel = carried != nil
        contents.hasInferredModel = named == nil
        contents.records = metadata.carriedRecords
        contents.maximumKey = firstPrimaryKey - 1
        let store = Self(
            AtomicStoreOpening(contents: contents, file: file, options: options))
        try store.loadFile(data)
        return store
    }

    /// Reads the metadata of a file, without its objects.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `inputOutput`.
    public static func metadata(at path: String) throws -> StoreMetadata {
        let (file, data) = try read(path)
        return try loadMetadata(from: data, path: file.path).withoutCarried
    }

    /// The model in a file; `nil` if it does not contain one, as files created by Core Data.
    ///
    /// - Throws: ``QuireError`` with code `notFound`, `invalidFormat` or `inputOutput`.
    public static func carriedModel(at path: String) throws -> ManagedObjectModel? {
        let (file, data) = try read(path)
        return try loadMetadata(from: data, path: file.path).carriedModel(path: file.path)
    }

    package static func read(
        _ path: String, lockWait: FileLockWait? = nil
    ) throws -> (file: AtomicStoreFile, data: Data) {
        let path = FileSystem.absolute(path)
        try FileSystem.requireStoreFile(at: path)
        let file = AtomicStoreFile(
            path: path, lockWait: lockWait, protection: try StoreProtection.find(forStoreAt: path))
        return (file, try file.read())
    }

    /// Checks that a store is opened with the model it carries; with another it would have to be migrated.
    private static func requireSame(
        _ model: ManagedObjectModel, as carried: ManagedObjectModel, entities: Set<String>?,
        path: String
    ) throws {
        let isCompared = { (name: String) in entities?.contains(name) ?? true }
        let ours = model.entityVersionHashes().filter { isCompared($0.key) }
        let theirs = carried.entityVersionHashes().filter { isCompared($0.key) }
        if ours == theirs { return }
        let names = Set(ours.keys).union(theirs.keys).filter { ours[$0] != theirs[$0] }.sorted()
        throw QuireError(
            .incompatibleModel,
            "“\(path)” was created with another version of the model (changed entities: \(names.joined(separator: ", "))); migrate the store before opening it.",
            entity: names.first, file: path)
    }
}

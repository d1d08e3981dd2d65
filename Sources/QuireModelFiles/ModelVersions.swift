public import Foundation
public import QuireModel
internal import QuireSystem

/// The versions of a model in a `.xcdatamodeld` folder, or compiled in a `.momd` folder.
///
/// ```swift
/// let versions = try ModelVersions(contentsOf: "Library.xcdatamodeld")
/// let model = try versions.currentModel()
/// for name in versions.names where name != versions.currentName {
///     print(name, try versions.model(named: name).entities.count)
/// }
/// ```
public struct ModelVersions: Sendable, Hashable {
    /// The path of the folder.
    public let path: String
    /// The names of the versions, sorted.
    public let names: [String]
    /// The name of the version for new documents.
    public let currentName: String
    private let form: Form
    /// The hashes of the entities of compiled versions.
    private let hashes: [String: [String: Data]]

    private enum Form {
        /// The path is that of a single `.xcdatamodel` folder.
        case single
        /// The versions are `.xcdatamodel` folders.
        case sources
        /// The versions are `.mom` files.
        case compiled
    }

    /// Lists the versions in the folder of a URL; see ``init(contentsOf:)-(String)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that initializer.
    public init(contentsOf url: URL) throws {
        try self.init(contentsOf: FileSystem.path(of: url))
    }

    /// Lists the versions, without reading them.
    ///
    /// - Parameter path: A `.xcdatamodeld` or `.momd` folder, or a `.xcdatamodel` folder, which is its only version.
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    public init(contentsOf path: String) throws {
        self.path = path
        guard try FileSystem.information(at: path)?.kind == .folder else {
            throw QuireError.notFound("model folder", at: path)
        }
        let files = try FileSystem.names(in: path)
        let isCompiled = path.hasSuffix(ModelFile.compiledVersionsExtension)
        let ending = isCompiled ? ModelFile.compiledExtension : ModelFile.versionExtension
        let names = files.filter { $0.hasSuffix(ending) }
            .map { ModelFile.withoutExtension($0, ending) }.sorted()
        let isVersioned =
            isCompiled || !names.isEmpty || path.hasSuffix(ModelFile.versionsExtension)
        guard isVersioned else {
            form = .single
            hashes = [:]
            currentName = ModelFile.withoutExtension(
                FileSystem.name(of: path), ModelFile.versionExtension)
            self.names = [currentName]
            return
        }
        form = isCompiled ? .compiled : .sources
        self.names = names
        if names.isEmpty {
            throw QuireError(
                .invalidFormat, "“\(path)” does not contain a version of the model.", file: path)
        }
        let list = isCompiled ? try CompiledVersionList(inFolder: path) : nil
        hashes = list?.hashes ?? [:]
        var named = list?.currentName
        if files.contains(Self.currentFileName) { named = try Self.currentName(in: path) }
        currentName = try Self.currentName(named, among: names, in: path)
    }

    /// The name of the current version: the named one, else the only one, else the one with the folder's name.
    private static func currentName(
        _ named: String?, among names: [String], in path: String
    ) throws -> String {
        if let named {
            if names.contains(named) { return named }
            throw QuireError(
                .notFound,
                "The current version of “\(path)” is “\(named)”, which does not exist; "
                    + "the versions are: \(names.joined(separator: ", ")).",
                file: path)
        }
        if names.count == 1 { return names[0] }
        let folder = FileSystem.name(of: path)
        let base = folder.lastIndex(of: ".").map { String(folder[..<$0]) } ?? folder
        if names.contains(base) { return base }
        let place =
            path.hasSuffix(ModelFile.compiledVersionsExtension)
            ? CompiledVersionList.fileName : currentFileName
        throw QuireError(
            .invalidFormat,
            "“\(path)” does not specify its current version (in \(place)); "
                + "specify one of its versions instead: \(names.joined(separator: ", ")).",
            file: path)
    }

    /// Reads the current version.
    ///
    /// - Throws: As ``ManagedObjectModel/init(contentsOf:)-(String)``.
    public func currentModel() throws -> ManagedObjectModel { try model(named: currentName) }

    /// Reads a version.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the version does not exist; else as
    ///   ``ManagedObjectModel/init(contentsOf:)-(String)``.
    public func model(named name: String) throws -> ManagedObjectModel {
        try reading(named: name).model
    }

    /// Reads a version, with remarks about its file.
    ///
    /// - Returns: As ``ManagedObjectModel/reading(contentsOf:)``.
    /// - Throws: As ``model(named:)``.
    public func reading(
        named name: String
    ) throws -> (model: ManagedObjectModel, remarks: [String]) {
        guard names.contains(name) else {
            let advice = CloseNames.advice(for: name, among: names, "its versions are")
            throw QuireError(
                .notFound, "“\(path)” has no version “\(name)”; \(advice)", file: path)
        }
        switch form {
        case .single: return try ModelFile.read(folder: path)
        case .sources:
            return try ModelFile.read(
                folder: FileSystem.path(path, name + ModelFile.versionExtension))
        case .compiled:
            return try ModelFile.read(
                file: FileSystem.path(path, name + ModelFile.compiledExtension))
        }
    }

    /// The entity hashes that Core Data's stores use for a version, if the folder has them: see
    /// ``ManagedObjectModel/knownVersionHashes``.
    public func knownVersionHashes(named name: String) -> [String: Data]? { hashes[name] }

    /// Reads every version.
    ///
    /// - Throws: As ``ManagedObjectModel/init(contentsOf:)-(String)``, for the first version that fails.
    public func models() throws -> [String: ManagedObjectModel] {
        var models: [String: ManagedObjectModel] = [:]
        for name in names { models[name] = try model(named: name) }
        return models
    }

    // MARK: - The current version

    private static let currentFileName = ".xccurrentversion"
    private static let currentNameKey = "_XCCurrentVersionName"

    /// The current version's name in the file; `nil` if a valid file names none.
    private static func currentName(in path: String) throws -> String? {
        let file = FileSystem.path(path, currentFileName)
        func damaged(_ underlying: (any Error)?) -> QuireError {
            QuireError(
                .invalidFormat, "“\(file)” does not specify the current version of the model.",
                file: file, underlying: underlying)
        }
        let data = try FileSystem.contents(of: file)
        let list: PropertyListValue
        do { list = try PropertyListValue(propertyList: data, name: file) } catch {
            throw damaged(error)
        }
        guard let entries = list.dictionary else { throw damaged(nil) }
        guard let entry = entries[currentNameKey] else { return nil }
        guard let name = entry.string, name.hasSuffix(ModelFile.versionExtension) else {
            throw damaged(nil)
        }
        return ModelFile.withoutExtension(name, ModelFile.versionExtension)
    }
}

// MARK: - Writing

extension ModelVersions {
    /// Writes a model as the only version of a new `.xcdatamodeld` folder.
    static func write(_ model: ManagedObjectModel, to path: String) throws {
        if FileSystem.exists(path) { throw QuireError.alreadyExists(at: path) }
        let base = ModelFile.withoutExtension(
            FileSystem.name(of: FileSystem.absolute(path)), ModelFile.versionsExtension)
        let version = base + ModelFile.versionExtension
        let current = ArchiveValue.dictionary([.init(currentNameKey, .string(version))])
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        try sibling.building {
            try model.write(to: FileSystem.path(sibling.path, version))
            try FileSystem.writeNewFile(
                BinaryPropertyListWriter.data(of: current),
                at: FileSystem.path(sibling.path, currentFileName))
            try FileSystem.synchronizeFolder(sibling.path)
            try sibling.setFinalPermissions(of: nil)
            try sibling.publish()
        }
    }
}

// MARK: - Compiling

extension ModelVersions {
    /// Compiles every version into a new `.momd` folder, as Xcode does.
    ///
    /// - Parameter path: The folder, which must not exist; its parent must.
    /// - Returns: A message for each dropped part; see ``ManagedObjectModel/compiledModel()`` and
    ///   ``ManagedObjectModel/partsNotCompiled``.
    /// - Throws: ``QuireError`` with code `invalidModel` or as ``ManagedObjectModel/init(contentsOf:)-(String)`` for the first
    ///   version that cannot be compiled; `alreadyExists`; `inputOutput` and others if it cannot be written. On failure
    ///   nothing remains on disk.
    public func compile(to path: String) throws -> [String] {
        if FileSystem.exists(path) { throw QuireError.alreadyExists(at: path) }
        var remarks: [String] = []
        var files: [(name: String, data: Data)] = []
        var list = CompiledVersionList(currentName: currentName, hashes: [:])
        for name in names {
            let reading = try reading(named: name)
            let (data, omissions) = try reading.model.compiledModel()
            remarks += (reading.remarks + omissions + reading.model.partsNotCompiled).map {
                "\(name): \($0)"
            }
            files.append((name + ModelFile.compiledExtension, data))
            list.hashes[name] = reading.model.knownVersionHashes
        }
        files.append((CompiledVersionList.fileName, list.data))
        let sibling = try TemporarySibling.makeFolder(beside: path)
        defer { sibling.remove() }
        try sibling.building {
            for file in files {
                try FileSystem.writeNewFile(
                    file.data, at: FileSystem.path(sibling.path, file.name))
            }
            try FileSystem.synchronizeFolder(sibling.path)
            try sibling.setFinalPermissions(of: nil)
            try sibling.publish()
        }
        return remarks
    }
}

// MARK: - Lists of compiled versions

/// The list of versions in a `.momd` folder.
struct CompiledVersionList: Sendable, Hashable {
    static let fileName = "VersionInfo.plist"

    /// The name of the version for new stores.
    var currentName: String?
    /// The hashes of the entities of each version.
    var hashes: [String: [String: Data]] = [:]

    private enum Key {
        static let current = "NSManagedObjectModel_CurrentVersionName"
        static let hashes = "NSManagedObjectModel_VersionHashes"
        static let checksums = "NSManagedObjectModel_VersionChecksums"
    }

    init(currentName: String?, hashes: [String: [String: Data]]) {
        self.currentName = currentName
        self.hashes = hashes
    }

    /// Reads the list in a folder; empty if it is missing.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it is damaged.
    init(inFolder path: String) throws {
        let file = FileSystem.path(path, Self.fileName)
        guard let size = try FileSystem.information(at: file)?.size else {
            self.init(currentName: nil, hashes: [:])
            return
        }
        guard size <= ModelXMLReader.maximumSize else {
            throw BinaryPropertyListReader.damaged(file, "it is too large")
        }
        try self.init(FileSystem.contents(of: file), name: file)
    }

    /// Reads a list.
    init(_ data: Data, name: String) throws {
        self.init(currentName: nil, hashes: [:])
        guard let list = try PropertyListValue(propertyList: data, name: name).dictionary else {
            throw BinaryPropertyListReader.damaged(name, "it is not a list of versions")
        }
        currentName = list[Key.current]?.string
        for (version, entities) in list[Key.hashes]?.dictionary ?? [:] {
            for (entity, hash) in entities.dictionary ?? [:] {
                if let hash = hash.data { hashes[version, default: [:]][entity] = hash }
            }
        }
    }

    /// The content of the file.
    var data: Data {
        var entries: [ArchiveValue.Entry] = [
            .init(
                Key.hashes,
                .dictionary(
                    hashes.sorted { $0.key < $1.key }.map { version in
                        .init(
                            version.key,
                            .dictionary(
                                version.value.sorted { $0.key < $1.key }.map {
                                    .init($0.key, .data($0.value))
                                }))
                    })),
            .init(
                Key.checksums,
                .dictionary(
                    hashes.sorted { $0.key < $1.key }.map {
                        .init($0.key, .string(ManagedObjectModel.versionChecksum(of: $0.value)))
                    })),
        ]
        if let currentName { entries.append(.init(Key.current, .string(currentName))) }
        return BinaryPropertyListWriter.data(of: .dictionary(entries))
    }
}

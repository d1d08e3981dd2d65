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
    /// The name of the version that new documents are made with.
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

    /// Finds the versions. None is read yet.
    ///
    /// - Parameter path: A `.xcdatamodeld` or `.momd` folder, or a `.xcdatamodel` folder, which is its only version.
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    public init(contentsOf path: String) throws {
        self.path = path
        guard try FileSystem.information(at: path)?.kind == .folder else {
            throw QuireError(
                .notFound, "There is no model folder at “\(path)”.", subject: .init(file: path))
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
                .invalidFormat, "There is no version of the model in “\(path)”.",
                subject: .init(file: path))
        }
        let list = isCompiled ? try CompiledVersionList(inFolder: path) : nil
        hashes = list?.hashes ?? [:]
        var named = list?.currentName
        if files.contains(Self.currentFileName) { named = try Self.currentName(in: path) }
        currentName = try Self.currentName(named, among: names, in: path)
    }

    /// The name of the current version: the one that is named, or the only one, or the one called like the folder.
    private static func currentName(
        _ named: String?, among names: [String], in path: String
    ) throws -> String {
        if let named {
            if names.contains(named) { return named }
            throw QuireError(
                .notFound,
                "The current version of “\(path)” is “\(named)”, which is not there; "
                    + "there are: \(names.joined(separator: ", ")).",
                subject: .init(file: path))
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
            "“\(path)” does not say which version is current (in \(place)); "
                + "give one of its versions instead: \(names.joined(separator: ", ")).",
            subject: .init(file: path))
    }

    /// Reads the current version.
    ///
    /// - Throws: As ``ManagedObjectModel/init(contentsOf:)``.
    public func currentModel() throws -> ManagedObjectModel { try model(named: currentName) }

    /// Reads a version.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there is none of that name; else as
    ///   ``ManagedObjectModel/init(contentsOf:)``.
    public func model(named name: String) throws -> ManagedObjectModel {
        try reading(named: name).model
    }

    /// Reads a version, and says what is odd about its file.
    ///
    /// - Returns: As ``ManagedObjectModel/reading(contentsOf:)``.
    /// - Throws: As ``model(named:)``.
    public func reading(
        named name: String
    ) throws -> (model: ManagedObjectModel, remarks: [String]) {
        guard names.contains(name) else {
            throw QuireError(
                .notFound,
                "“\(path)” has no version “\(name)”; there are: \(names.joined(separator: ", ")).",
                subject: .init(file: path))
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

    /// The hashes by which stores of Core Data's know the entities of a version, if the folder has them: see
    /// ``ManagedObjectModel/knownVersionHashes``.
    public func knownVersionHashes(named name: String) -> [String: Data]? { hashes[name] }

    /// Reads every version.
    ///
    /// - Throws: As ``ManagedObjectModel/init(contentsOf:)``, for the first that cannot be read.
    public func models() throws -> [String: ManagedObjectModel] {
        var models: [String: ManagedObjectModel] = [:]
        for name in names { models[name] = try model(named: name) }
        return models
    }

    // MARK: - The current version

    private static let currentFileName = ".xccurrentversion"

    /// The name in the file that names the current version; `nil` if the file is one and names none.
    private static func currentName(in path: String) throws -> String? {
        let file = FileSystem.path(path, currentFileName)
        func damaged(_ underlying: (any Error)?) -> QuireError {
            QuireError(
                .invalidFormat, "“\(file)” does not name the current version of the model.",
                subject: .init(file: file), underlying: underlying)
        }
        let data = try FileSystem.contents(of: file)
        let list: PropertyListValue
        do { list = try PropertyListValue(propertyList: data, name: file) } catch {
            throw damaged(error)
        }
        guard let entries = list.dictionary else { throw damaged(nil) }
        guard let entry = entries["_XCCurrentVersionName"] else { return nil }
        guard let name = entry.string, name.hasSuffix(ModelFile.versionExtension) else {
            throw damaged(nil)
        }
        return ModelFile.withoutExtension(name, ModelFile.versionExtension)
    }
}

import Foundation

/// The versions of a model in a `.xcdatamodeld` folder.
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
    /// Whether the path is that of a single `.xcdatamodel` folder.
    private let isSingle: Bool

    /// Finds the versions. None is read yet.
    ///
    /// - Parameter path: A `.xcdatamodeld` folder, or a `.xcdatamodel` folder, which is its only version.
    /// - Throws: ``QuireError`` with code `notFound` or `invalidFormat`.
    public init(contentsOf path: String) throws {
        self.path = path
        guard try FileSystem.information(at: path)?.kind == .folder else {
            throw QuireError(
                .notFound, "There is no model folder at “\(path)”.", subject: .init(file: path))
        }
        let files = try FileSystem.names(in: path)
        let names = files.filter { $0.hasSuffix(ModelFile.versionExtension) }
            .map(Self.withoutExtension)
        let isVersioned = !names.isEmpty || path.hasSuffix(ModelFile.versionsExtension)
        guard isVersioned else {
            isSingle = true
            currentName = Self.withoutExtension(FileSystem.name(of: path))
            self.names = [currentName]
            return
        }
        isSingle = false
        self.names = names
        if names.isEmpty {
            throw QuireError(
                .invalidFormat, "There is no version of the model in “\(path)”.",
                subject: .init(file: path))
        }
        let named = files.contains(Self.currentFileName) ? try Self.currentName(in: path) : nil
        if let named {
            if !names.contains(named) {
                throw QuireError(
                    .notFound,
                    "The current version of “\(path)” is “\(named)”, which is not there; "
                        + "there are: \(names.joined(separator: ", ")).",
                    subject: .init(file: path))
            }
            currentName = named
        } else if let only = names.first, names.count == 1 {
            currentName = only
        } else {
            let folder = FileSystem.name(of: path)
            let base = String(folder.dropLast(ModelFile.versionsExtension.count))
            guard names.contains(base) else {
                throw QuireError(
                    .invalidFormat,
                    "“\(path)” does not say which version is current (in \(Self.currentFileName)); "
                        + "give one of its versions instead: \(names.joined(separator: ", ")).",
                    subject: .init(file: path))
            }
            currentName = base
        }
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
        guard names.contains(name) else {
            throw QuireError(
                .notFound,
                "“\(path)” has no version “\(name)”; there are: \(names.joined(separator: ", ")).",
                subject: .init(file: path))
        }
        return try ModelFile.model(
            inFolder: isSingle ? path : FileSystem.path(path, name + ModelFile.versionExtension))
    }

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
        let list: Any
        do { list = try PropertyListSerialization.propertyList(from: data, format: nil) } catch {
            throw damaged(error)
        }
        guard let entries = list as? [String: Any] else { throw damaged(nil) }
        guard let entry = entries["_XCCurrentVersionName"] else { return nil }
        guard let name = entry as? String, name.hasSuffix(ModelFile.versionExtension) else {
            throw damaged(nil)
        }
        return withoutExtension(name)
    }

    private static func withoutExtension(_ name: String) -> String {
        name.hasSuffix(ModelFile.versionExtension)
            ? String(name.dropLast(ModelFile.versionExtension.count)) : name
    }
}

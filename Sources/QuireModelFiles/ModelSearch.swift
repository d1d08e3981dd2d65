public import Foundation
public import QuireModel
internal import QuireSystem

extension ManagedObjectModel {
    /// Reads the model of a name among the resources of a bundle.
    ///
    /// ```swift
    /// var model = try ManagedObjectModel(named: "Library")
    /// try model.bind(classes: [Author.self, Book.self])
    /// ```
    ///
    /// Searches for `NAME.momd`, `NAME.mom`, `NAME.xcdatamodeld`, `NAME.xcdatamodel` and `NAME.quiremodel`, in this order:
    /// first in the bundle, then in the resource bundles of a Swift package beside it (`PACKAGE_TARGET.resources`).
    ///
    /// - Parameters:
    ///   - name: The file's name, without its extension.
    ///   - bundle: The bundle; by default the main bundle. `Bundle.module` is the bundle of a Swift package target.
    /// - Throws: ``QuireError`` with code `notFound`, listing the searched places; `invalidState` if several resource
    ///   bundles beside the program contain a model with the name; or as ``init(contentsOf:)-(String)``.
    public init(named name: String, bundle: Bundle = .main) throws {
        self = try ManagedObjectModel(
            contentsOf: ModelSearch(bundle: bundle).path(ofModelNamed: name))
    }

    /// Merges all models among the resources of bundles, as ``merging(_:)`` does; `nil` if the bundles contain no model.
    ///
    /// The search is that of ``init(named:bundle:)``. Of several files with one name in a folder, the first of those forms is
    /// used.
    ///
    /// - Parameter bundles: The bundles; `nil` for the program's own.
    /// - Throws: ``QuireError`` with code `invalidModel` if they have different entities of the same name, or as
    ///   ``init(contentsOf:)-(String)``.
    public static func mergedModel(from bundles: [Bundle]? = nil) throws -> ManagedObjectModel? {
        let paths = try (bundles ?? [.main]).flatMap { try ModelSearch(bundle: $0).paths() }
        if paths.isEmpty { return nil }
        return try merging(paths.map { try ManagedObjectModel(contentsOf: $0) })
    }
}

/// Finds the files of models among the resources of a bundle, and in the resource bundles of a Swift package beside it.
private struct ModelSearch {
    let bundle: Bundle

    /// The forms of a model, the preferred one first.
    private static let endings = [
        ModelFile.compiledVersionsExtension, ModelFile.compiledExtension,
        ModelFile.versionsExtension, ModelFile.versionExtension, ModelFile.textExtension,
    ]
    private static let resourceBundleExtension = ".resources"

    /// The file of the model of a name.
    func path(ofModelNamed name: String) throws -> String {
        func path(in folders: [String]) -> String? {
            let candidates = folders.flatMap { folder in
                Self.endings.map { FileSystem.path(folder, name + $0) }
            }
            return candidates.first { FileSystem.exists($0) }
        }
        let own = Self.folders(of: bundle)
        if let path = path(in: own) { return path }
        let found = try neighbours().compactMap { path(in: Self.folders(of: $0)) }
        if found.count > 1 {
            throw QuireError(
                .invalidState,
                "Several models are named “\(name)”: \(found.map { "“\($0)”" }.joined(separator: ", ")). "
                    + "Pass the bundle of one of them, such as Bundle.module.",
                file: found[0])
        }
        if let path = found.first { return path }
        let names = Self.endings.map { name + $0 }.joined(separator: ", ")
        throw QuireError(
            .notFound,
            "The model “\(name)” was not found: no \(names) is in \(own.map { "“\($0)”" }.joined(separator: " and ")), or in "
                + "a resource bundle (*_*\(Self.resourceBundleExtension)) in “\(bundle.bundlePath)”. Add it to the "
                + "resources of the target, pass the bundle that contains it, or create the container with a model.",
            file: FileSystem.path(bundle.bundlePath, name))
    }

    /// The files of all models, sorted by name within each folder.
    func paths() throws -> [String] {
        var folders = Self.folders(of: bundle)
        folders += try neighbours().flatMap(Self.folders)
        return try folders.flatMap { folder in
            var models: [String: String] = [:]
            let names = try FileSystem.names(in: folder)
            for ending in Self.endings {
                for name in names where name.hasSuffix(ending) && name != ending {
                    let model = String(name.dropLast(ending.count))
                    if models[model] == nil { models[model] = FileSystem.path(folder, name) }
                }
            }
            return models.sorted { $0.key < $1.key }.map(\.value)
        }
    }

    /// The bundles of a Swift package's targets beside the program: SwiftPM names them after the package and the target.
    private func neighbours() throws -> [Bundle] {
        try FileSystem.names(in: bundle.bundlePath).filter {
            $0.hasSuffix(Self.resourceBundleExtension) && $0.contains("_")
        }.sorted().compactMap { Bundle(path: FileSystem.path(bundle.bundlePath, $0)) }
    }

    private static func folders(of bundle: Bundle) -> [String] {
        let resources = bundle.resourcePath ?? bundle.bundlePath
        return resources == bundle.bundlePath ? [resources] : [resources, bundle.bundlePath]
    }
}

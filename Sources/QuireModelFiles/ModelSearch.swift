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
    /// Found are `NAME.momd`, `NAME.mom`, `NAME.xcdatamodeld` and `NAME.xcdatamodel`, in this order: first in the bundle, then
    /// in the resource bundles of a Swift package beside it (`PACKAGE_TARGET.resources`).
    ///
    /// - Parameters:
    ///   - name: The file's name, without its extension.
    ///   - bundle: The bundle; by default the program's own. `Bundle.module` is that of a target of a Swift package.
    /// - Throws: ``QuireError`` with code `notFound`, saying where it was looked for; `invalidState` if several resource
    ///   bundles beside the program have one of the name; or as ``init(contentsOf:)``.
    public init(named name: String, bundle: Bundle = .main) throws {
        self = try ManagedObjectModel(
            contentsOf: ModelSearch(name: name).path(inOrBeside: bundle))
    }
}

/// Finds the file of a model by its name.
private struct ModelSearch {
    let name: String

    private static let endings = [
        ModelFile.compiledVersionsExtension, ModelFile.compiledExtension,
        ModelFile.versionsExtension, ModelFile.versionExtension,
    ]
    private static let resourceBundleExtension = ".resources"

    func path(inOrBeside bundle: Bundle) throws -> String {
        if let path = path(in: bundle) { return path }
        let folder = bundle.bundlePath
        // SwiftPM names the bundle of a target's resources after the package and the target.
        let found = try FileSystem.names(in: folder).filter {
            $0.hasSuffix(Self.resourceBundleExtension) && $0.contains("_")
        }.sorted().compactMap { resources in
            Bundle(path: FileSystem.path(folder, resources)).flatMap { path(in: $0) }
        }
        if found.count > 1 {
            throw QuireError(
                .invalidState,
                "There are several models “\(name)”: \(found.map { "“\($0)”" }.joined(separator: ", ")). "
                    + "Pass the bundle of one of them, such as Bundle.module.",
                subject: .init(file: found[0]))
        }
        if let path = found.first { return path }
        let names = Self.endings.map { name + $0 }.joined(separator: ", ")
        let places = folders(of: bundle).map { "“\($0)”" }.joined(separator: " and ")
        throw QuireError(
            .notFound,
            "There is no model “\(name)”: no \(names) is in \(places), or in a resource bundle (*_*"
                + "\(Self.resourceBundleExtension)) in “\(folder)”. Add it to the resources of the target, pass "
                + "the bundle that has it, or make the container with a model.",
            subject: .init(file: FileSystem.path(folder, name)))
    }

    private func path(in bundle: Bundle) -> String? {
        for folder in folders(of: bundle) {
            for ending in Self.endings {
                let path = FileSystem.path(folder, name + ending)
                if FileSystem.exists(path) { return path }
            }
        }
        return nil
    }

    private func folders(of bundle: Bundle) -> [String] {
        let resources = bundle.resourcePath ?? bundle.bundlePath
        return resources == bundle.bundlePath ? [resources] : [resources, bundle.bundlePath]
    }
}

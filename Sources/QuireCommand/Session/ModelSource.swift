import Quire
import QuireDocuments

/// A model, wherever it is: in a file of its own, or in a document or store that carries it.
struct ModelSource {
    let model: ManagedObjectModel
    /// Its name: that of the file without extension. The versions of a model share that of the
    /// folder they are in.
    let name: String
    /// Warnings about its file, as sentences.
    var remarks: [String] = []

    /// Reads a model.
    ///
    /// - Parameters:
    ///   - path: A `.xcdatamodeld` or `.momd` folder, of which the current version is read, a `.xcdatamodel` folder,
    ///     the file `contents` in one, a `.mom` or `.quiremodel` file, or a document, store or archive.
    ///   - version: The version to read, if not the current one.
    ///   - unlock: What unlocks it if it is protected.
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, …
    @MainActor
    static func read(
        _ path: String, version: String? = nil, _ unlock: UnlockOptions
    ) async throws -> ModelSource {
        let name = name(of: path)
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError(
                .notFound, "The model or document “\(path)” does not exist.", file: path)
        }
        if information.kind == .folder ? isModelFolder(path) : isModelFile(path) {
            let reading =
                if let version {
                    try ModelVersions(contentsOf: path).reading(named: version)
                } else {
                    try ManagedObjectModel.reading(contentsOf: path)
                }
            return ModelSource(model: reading.model, name: name, remarks: reading.remarks)
        }
        if let version {
            throw QuireError(
                .notFound,
                "“\(path)” contains only one model; version “\(version)” does not exist.",
                file: path)
        }
        try unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: nil, access: .read, unlock: unlock)
        let model = document.layout.model
        try await document.close()
        return ModelSource(model: model, name: name, remarks: model.remarks)
    }

    /// Reads the model of an option: what ``read(_:version:_:)`` reads, but of archives.
    ///
    /// - Throws: `QuireError` with code `notFound`, `invalidFormat`, `invalidModel` if a store does not carry its model, …
    static func model(at path: String) throws -> ManagedObjectModel {
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError.notFound("model", at: path)
        }
        if information.kind == .folder ? isModelFolder(path) : isModelFile(path) {
            return try ManagedObjectModel(contentsOf: path)
        }
        let store: any PersistentStore
        switch try DocumentPath.kind(of: path) {
        case .package: store = try DocumentPackage.open(at: path, readOnly: true).store
        case .store: store = try StoreFile(at: path).open()
        case .archive: throw DocumentPath.archiveError(path)
        }
        defer { store.closeSaved() }
        if DocumentSession.modelNote(of: store, at: path) == nil { return store.layout.model }
        throw QuireError(
            .invalidModel,
            "“\(path)” does not contain the model it was created with; specify the model itself: a .xcdatamodeld, .xcdatamodel, .momd, .mom or .quiremodel.",
            file: path)
    }

    /// The name of the version that a path is, if it is one model only.
    static func versionName(of path: String) -> String {
        let name = FileSystem.name(of: FileSystem.absolute(path))
        let base = name.split(separator: ".", omittingEmptySubsequences: false).dropLast()
        return base.isEmpty || base.first?.isEmpty == true ? name : base.joined(separator: ".")
    }

    /// The versions of the model at a path, if there is one.
    static func versions(at path: String) throws -> ModelVersions? {
        guard try FileSystem.information(at: path)?.kind == .folder, isModelFolder(path) else {
            return nil
        }
        return try ModelVersions(contentsOf: path)
    }

    /// A folder that holds no store is taken for a model, and reading it will tell.
    private static func isModelFolder(_ path: String) -> Bool {
        !FileSystem.exists(FileSystem.path(path, "StoreContent"))
    }

    /// A file that begins like neither a store nor an archive is taken for a model, unless it is sealed.
    private static func isModelFile(_ path: String) -> Bool {
        if FileSystem.exists(StoreProtection.keybag(ofStoreAt: path).path) { return false }
        return (try? StoreFile(at: path)) == nil && !DocumentPackage.isArchive(path)
    }

    private static func name(of path: String) -> String {
        var path = FileSystem.absolute(path)
        if FileSystem.name(of: path) == "contents" { path = FileSystem.folder(of: path) }
        let above = FileSystem.folder(of: path)
        let isVersion =
            path.hasSuffix(".xcdatamodel") && above.hasSuffix(".xcdatamodeld")
            || path.hasSuffix(".mom") && above.hasSuffix(".momd")
        if isVersion { path = above }
        let name = versionName(of: path)
        // An archive may have two extensions.
        return name.hasSuffix(".tar") ? versionName(of: name) : name
    }
}

public import Foundation
public import QuireModel
internal import QuireSystem

extension ManagedObjectModel {
    /// Reads a model made by Xcode, or a model as text.
    ///
    /// - Parameter path: A `.xcdatamodeld` or `.momd` folder, of which the current version is read (see ``ModelVersions``
    ///   for the others), a `.xcdatamodel` folder, the file `contents` or `elements` in it, a `.mom` file, or a `.quiremodel`
    ///   file (see ``init(modelText:name:)``).
    /// - Throws: ``QuireError`` with code `notFound`, or `invalidFormat`, naming the file and, if it is one of XML,
    ///   the line; for a model as text `invalidModel`, naming line and column.
    ///
    /// The model is not validated; ``validate()`` does that. ``reading(contentsOf:)`` also returns remarks about dropped
    /// parts.
    public init(contentsOf path: String) throws {
        self = try Self.reading(contentsOf: path).model
    }

    /// Reads a model made by Xcode from the file or folder of a URL; see ``init(contentsOf:)-(String)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that initializer.
    public init(contentsOf url: URL) throws {
        try self.init(contentsOf: FileSystem.path(of: url))
    }

    /// Reads a model made by Xcode, with remarks about its file.
    ///
    /// Models accepted by Apple's tools are accepted: reading fails only if objects could not be read with the model.
    /// Unsupported parts, and contradictory ones that stored data do not depend on, such as an index of a missing property,
    /// are dropped.
    ///
    /// - Parameter path: As for ``init(contentsOf:)-(String)``.
    /// - Returns: The model, and a remark for each part that was dropped, or is kept although it has no meaning.
    /// - Throws: As ``init(contentsOf:)-(String)``.
    public static func reading(
        contentsOf path: String
    ) throws -> (model: ManagedObjectModel, remarks: [String]) {
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError.notFound("model", at: path)
        }
        if information.kind != .folder { return try ModelFile.read(file: path) }
        let versions = try ModelVersions(contentsOf: path)
        return try versions.reading(named: versions.currentName)
    }

    /// Reads a model from XML written by ``modelXML()`` or Xcode.
    ///
    /// - Parameters:
    ///   - data: The content of the file `contents` in a `.xcdatamodel` folder.
    ///   - name: The source's name in errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`, naming the line.
    public init(modelXML data: Data, name: String) throws {
        let source = ModelXMLSource(name: name)
        var remarks: [String] = []
        let root = try ModelXMLReader(source: source).root(of: data, remarks: &remarks)
        var decoder = ModelXMLDecoder(source: source, remarks: remarks)
        self = try decoder.model(from: root)
        self.remarks = decoder.remarks
        leaveOutContradictoryParts()
    }

    /// The model as XML, in Xcode's format. It is complete for a valid model.
    public func modelXML() -> Data {
        ModelXMLWriter.data(of: ModelXMLEncoder.root(of: self))
    }

    /// Writes the model as a `.xcdatamodel` folder, for use in Xcode.
    ///
    /// An existing model at the path is replaced atomically, once the new one is complete.
    ///
    /// - Parameter path: The folder. It is created if missing; its parent must exist. If it ends in `.xcdatamodeld`, it must
    ///   not exist, and gets the model as its only version.
    /// - Throws: ``QuireError`` with code `invalidModel` if ``validate()`` fails; `invalidState` if the path contains something
    ///   other than a model; `alreadyExists`, `inputOutput`, `outOfSpace` and others if it cannot be written.
    public func write(to path: String) throws {
        try validate()
        if path.hasSuffix(ModelFile.versionsExtension) {
            return try ModelVersions.write(self, to: path)
        }
        let data = modelXML()
        guard let existing = try FileSystem.information(at: path) else {
            let sibling = try TemporarySibling.makeFolder(beside: path)
            defer { sibling.remove() }
            try sibling.building {
                try FileSystem.writeNewFile(
                    data, at: FileSystem.path(sibling.path, ModelFile.contentsName))
                try FileSystem.synchronizeFolder(sibling.path)
                try sibling.setFinalPermissions(of: nil)
                try sibling.publish()
            }
            return
        }
        let names = existing.kind == .folder ? try FileSystem.names(in: path) : nil
        guard let names, names.isEmpty || names.contains(ModelFile.contentsName) else {
            throw QuireError(
                .invalidState,
                "“\(path)” is not a .xcdatamodel folder; choose another path for the model.",
                file: path)
        }
        try AtomicFileReplace.replace(
            FileSystem.path(path, ModelFile.contentsName), with: data)
    }

    /// Writes the model as the `.xcdatamodel` folder of a URL; see ``write(to:)-(String)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that method.
    public func write(to url: URL) throws { try write(to: FileSystem.path(of: url)) }
}

// MARK: - Compiled models

extension ManagedObjectModel {
    /// Reads a compiled model: the content of a `.mom` file made by Xcode or ``compiledModel()``.
    ///
    /// Compiled models do not keep the order of entities and properties, code generation settings, syncability, and the
    /// names of composites.
    ///
    /// - Parameters:
    ///   - data: The content of the file.
    ///   - name: The source's name in errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    public init(compiledModel data: Data, name: String) throws {
        self = try CompiledModelDecoder.read(data, name: name).model
    }

    /// Reads a model from an archive: a compiled model, or one written by Xcode's model editor into a `.xcmappingmodel`.
    ///
    /// - Parameters:
    ///   - data: The archive.
    ///   - name: The source's name in errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    public init(archivedModel data: Data, name: String) throws {
        let archive = try KeyedArchive(data, name: name)
        let root = try archive.object(archive.top["root"])
        self =
            root?.className == LegacyModelDecoder.rootClassName
            ? try LegacyModelDecoder.read(data, name: name).model
            : try CompiledModelDecoder.read(data, name: name).model
    }

    /// The compiled model: the content of a `.mom` file, as loaded by Core Data.
    ///
    /// ```swift
    /// let (data, omissions) = try model.compiledModel()
    /// for omission in omissions { print(omission) }
    /// ```
    ///
    /// - Returns: The file's content, and a message for each part that compiled models do not support: full-text indexes,
    ///   and conditions that only Quire's predicates can express. ``partsNotCompiled`` lists the rest.
    public func compiledModel() throws -> (data: Data, omissions: [String]) {
        try validate()
        return CompiledModelEncoder.archive(of: self, for: .file)
    }

    /// Reads the model cached in a Core Data store's `Z_MODELCACHE`.
    package init(modelCache data: Data, name: String) throws {
        guard let archive = RawDeflate.decompressed(data) else {
            throw QuireError(
                .invalidFormat, "“\(name)” is damaged: it cannot be decompressed.", file: name)
        }
        try self.init(compiledModel: archive, name: name)
    }

    /// Whether a store's `Z_MODELCACHE` is a well-formed archive, whatever its content.
    package static func isArchive(modelCache data: Data, name: String) -> Bool {
        RawDeflate.decompressed(data).map { (try? KeyedArchive($0, name: name)) != nil } ?? false
    }

    /// The model in the form of Core Data's `Z_MODELCACHE`; `nil` if it exceeds the size limit.
    package var modelCache: Data? {
        RawDeflate.compressed(CompiledModelEncoder.archive(of: self, for: .store).data)
    }
}

// MARK: - Files

/// Model files.
enum ModelFile {
    /// The file in a `.xcdatamodel` folder.
    static let contentsName = "contents"
    /// The file of Xcode 3's models.
    static let legacyName = "elements"
    static let versionExtension = ".xcdatamodel"
    static let versionsExtension = ".xcdatamodeld"
    static let compiledExtension = ".mom"
    static let compiledVersionsExtension = ".momd"
    /// The extension of a model as text.
    static let textExtension = ".quiremodel"
    /// The extension of the copy of a `.mom` that Xcode makes because it loads faster.
    static let optimizedExtension = ".omo"

    /// A model with remarks about its file.
    typealias Reading = (model: ManagedObjectModel, remarks: [String])

    /// The model in a `.xcdatamodel` folder.
    static func read(folder path: String) throws -> Reading {
        for name in [contentsName, legacyName] {
            let file = FileSystem.path(path, name)
            if try FileSystem.information(at: file) != nil { return try read(file: file) }
        }
        throw QuireError(
            .invalidFormat,
            "“\(path)” is not a Core Data model: it has no file “\(contentsName)”.", file: path)
    }

    /// The model in a file of any name: XML, compiled, or of Xcode 3.
    static func read(file path: String) throws -> Reading {
        if let size = try FileSystem.information(at: path)?.size,
            size > ModelXMLReader.maximumSize
        {
            throw QuireError(
                .invalidFormat,
                "“\(path)” has \(size) bytes; a model has at most \(ModelXMLReader.maximumSize).",
                file: path)
        }
        if path.hasSuffix(optimizedExtension) {
            throw QuireError(
                .unsupported,
                "“\(path)” is a copy of a compiled model in a private format of macOS; use the .mom file of the same name beside it.",
                file: path)
        }
        let data = try FileSystem.contents(of: path)
        if path.hasSuffix(textExtension) {
            return (try ManagedObjectModel(modelText: data, name: path), [])
        }
        guard data.starts(with: Data("bplist".utf8)) else {
            let model = try ManagedObjectModel(modelXML: data, name: path)
            return (model, model.remarks)
        }
        if FileSystem.name(of: path) == legacyName {
            return try LegacyModelDecoder.read(data, name: path)
        }
        var reading = try CompiledModelDecoder.read(data, name: path)
        // The folder of compiled versions has a list of their hashes.
        let folder = FileSystem.folder(of: path)
        if folder.hasSuffix(compiledVersionsExtension) {
            let name = withoutExtension(FileSystem.name(of: path), compiledExtension)
            do {
                let list = try CompiledVersionList(inFolder: folder)
                if let hashes = list.hashes[name] { reading.model.take(versionHashes: hashes) }
            } catch let error as QuireError {
                reading.remarks.append("The version hashes cannot be read: \(error.message)")
            }
        }
        return reading
    }

    static func withoutExtension(_ name: String, _ ending: String) -> String {
        name.hasSuffix(ending) ? String(name.dropLast(ending.count)) : name
    }
}

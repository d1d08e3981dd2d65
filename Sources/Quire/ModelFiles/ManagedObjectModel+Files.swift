public import Foundation

extension ManagedObjectModel {
    /// Reads a model that Xcode made.
    ///
    /// - Parameter path: A `.xcdatamodeld` folder, of which the current version is read (see ``ModelVersions``
    ///   for the others), a `.xcdatamodel` folder, or the file `contents` in it.
    /// - Throws: ``QuireError`` with code `notFound`; `invalidFormat`, naming file and line; `unsupported` for
    ///   compiled models and for those of Xcode 3.
    ///
    /// The model is not checked; ``validate()`` does.
    public init(contentsOf path: String) throws {
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError(
                .notFound, "There is no model at “\(path)”.", subject: .init(file: path))
        }
        if information.kind == .folder {
            self = try ModelVersions(contentsOf: path).currentModel()
        } else {
            self = try ModelFile.model(atFile: path)
        }
    }

    /// Reads a model from the XML that ``modelXML()`` or Xcode wrote.
    ///
    /// - Parameters:
    ///   - data: The content of the file `contents` in a `.xcdatamodel` folder.
    ///   - name: Where it comes from, for the errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`, naming the line.
    public init(modelXML data: Data, name: String) throws {
        let source = ModelXMLSource(name: name)
        let root = try ModelXMLReader(source: source).root(of: data)
        self = try ModelXMLDecoder(source: source).model(from: root)
    }

    /// The model as XML, in Xcode's format. It holds everything that a valid model says.
    public func modelXML() -> Data {
        ModelXMLWriter.data(of: ModelXMLEncoder.root(of: self))
    }

    /// Writes the model as a `.xcdatamodel` folder, which Xcode can open.
    ///
    /// If there is a model at the path it is replaced; until the new one is complete the old one stays.
    ///
    /// - Parameter path: The folder. It is made if it is missing; the one it is in must be there.
    /// - Throws: ``QuireError`` with code `invalidModel` if ``validate()`` finds anything; `invalidState` if there
    ///   is something other than a model; `inputOutput`, `outOfSpace` and others if it cannot be written.
    public func write(to path: String) throws {
        try validate()
        let data = modelXML()
        guard let existing = try FileSystem.information(at: path) else {
            let temporary = FileSystem.temporarySibling(of: path, for: "new")
            do {
                try FileSystem.makeFolder(temporary)
                try FileSystem.writeNewFile(
                    data, at: FileSystem.path(temporary, ModelFile.contentsName))
                try FileSystem.renameWithoutReplacing(temporary, to: path)
            } catch {
                try? FileSystem.removeTree(temporary)
                throw error
            }
            try FileSystem.synchronizeFolder(containing: path)
            return
        }
        let names = existing.kind == .folder ? try FileSystem.names(in: path) : nil
        guard let names, names.isEmpty || names.contains(ModelFile.contentsName) else {
            throw QuireError(
                .invalidState,
                "“\(path)” is no .xcdatamodel folder; choose another path for the model.",
                subject: .init(file: path))
        }
        try AtomicFileReplace.replace(
            FileSystem.path(path, ModelFile.contentsName), with: data)
    }
}

/// The files of models, and what is said of those that cannot be read.
enum ModelFile {
    /// The file in a `.xcdatamodel` folder.
    static let contentsName = "contents"
    /// The file that Xcode 3 had in its place.
    static let legacyName = "elements"
    static let versionExtension = ".xcdatamodel"
    static let versionsExtension = ".xcdatamodeld"

    /// The model in a `.xcdatamodel` folder.
    static func model(inFolder path: String) throws -> ManagedObjectModel {
        let contents = FileSystem.path(path, contentsName)
        if try FileSystem.information(at: contents) != nil { return try model(atFile: contents) }
        if try FileSystem.information(at: FileSystem.path(path, legacyName)) != nil {
            throw unsupportedLegacy(path)
        }
        if path.hasSuffix(".momd") { throw unsupportedCompiled(path) }
        throw QuireError(
            .invalidFormat,
            "“\(path)” is no Core Data model: there is no file “\(contentsName)” in it.",
            subject: .init(file: path))
    }

    /// The model in a file `contents`, whatever its name.
    static func model(atFile path: String) throws -> ManagedObjectModel {
        if let size = try FileSystem.information(at: path)?.size,
            size > ModelXMLReader.greatestSize
        {
            throw QuireError(
                .invalidFormat,
                "“\(path)” has \(size) bytes; a model has at most \(ModelXMLReader.greatestSize).",
                subject: .init(file: path))
        }
        let data = try FileSystem.contents(of: path)
        if data.starts(with: Data("bplist".utf8)) {
            throw FileSystem.name(of: path) == legacyName
                ? unsupportedLegacy(path) : unsupportedCompiled(path)
        }
        return try ManagedObjectModel(modelXML: data, name: path)
    }

    private static func unsupportedLegacy(_ path: String) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path)” is in the binary format of Xcode 3, which is not supported; "
                + "open it with a later Xcode and save it, to make it XML.",
            subject: .init(file: path))
    }

    private static func unsupportedCompiled(_ path: String) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path)” is a compiled model, which is not supported; give the .xcdatamodeld it was made of.",
            subject: .init(file: path))
    }
}

public import Foundation
public import QuireModel
internal import QuireSystem

extension ManagedObjectModel {
    /// Reads a model that Xcode made.
    ///
    /// - Parameter path: A `.xcdatamodeld` or `.momd` folder, of which the current version is read (see
    ///   ``ModelVersions`` for the others), a `.xcdatamodel` folder, the file `contents` or `elements` in it, or a
    ///   `.mom` file.
    /// - Throws: ``QuireError`` with code `notFound`, or `invalidFormat`, naming the file and, if it is one of XML,
    ///   the line.
    ///
    /// The model is not checked; ``validate()`` does. ``reading(contentsOf:)`` says too what was left out.
    public init(contentsOf path: String) throws {
        self = try Self.reading(contentsOf: path).model
    }

    /// Reads a model that Xcode made, and says what is odd about its file.
    ///
    /// What Apple's tools take is taken: a file is refused only if objects could not be read by its model. What models here
    /// have no place for, and what contradicts the rest but no data depends on, such as an index of a property that is
    /// not there, is left out.
    ///
    /// - Parameter path: As for ``init(contentsOf:)``.
    /// - Returns: The model, and a sentence for each thing that was left out, or is kept although it has no meaning.
    /// - Throws: As ``init(contentsOf:)``.
    public static func reading(
        contentsOf path: String
    ) throws -> (model: ManagedObjectModel, remarks: [String]) {
        guard let information = try FileSystem.information(at: path) else {
            throw QuireError(
                .notFound, "There is no model at “\(path)”.", subject: .init(file: path))
        }
        if information.kind != .folder { return try ModelFile.read(file: path) }
        let versions = try ModelVersions(contentsOf: path)
        return try versions.reading(named: versions.currentName)
    }

    /// Reads a model from the XML that ``modelXML()`` or Xcode wrote.
    ///
    /// - Parameters:
    ///   - data: The content of the file `contents` in a `.xcdatamodel` folder.
    ///   - name: Where it comes from, for the errors.
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
                "“\(path)” is no .xcdatamodel folder; choose another path for the model.",
                subject: .init(file: path))
        }
        try AtomicFileReplace.replace(
            FileSystem.path(path, ModelFile.contentsName), with: data)
    }
}

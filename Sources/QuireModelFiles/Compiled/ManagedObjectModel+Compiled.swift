public import Foundation
public import QuireModel
internal import QuireSystem

extension ManagedObjectModel {
    /// Reads a compiled model: the content of a `.mom` file, as Xcode and ``compiledModel()`` make it.
    ///
    /// Compiled models do not keep the order of entities and properties, what generated code looks like, whether
    /// sync services transfer them, and the names of composites.
    ///
    /// - Parameters:
    ///   - data: The content of the file.
    ///   - name: Where it comes from, for the errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    public init(compiledModel data: Data, name: String) throws {
        self = try CompiledModelDecoder.read(data, name: name).model
    }

    /// Reads a model out of an archive of any kind: compiled, or of Xcode's modelling tool, such as the models within
    /// a `.xcmappingmodel`.
    ///
    /// - Parameters:
    ///   - data: The archive.
    ///   - name: Where it comes from, for the errors.
    /// - Throws: ``QuireError`` with code `invalidFormat`.
    public init(archivedModel data: Data, name: String) throws {
        let archive = try KeyedArchive(data, name: name)
        let root = try archive.object(archive.top["root"])
        self =
            root?.className == LegacyModelDecoder.rootClassName
            ? try LegacyModelDecoder.read(data, name: name).model
            : try CompiledModelDecoder.read(data, name: name).model
    }

    /// The model compiled: the content of a `.mom` file, as Core Data loads it.
    ///
    /// ```swift
    /// let (data, omissions) = try model.compiledModel()
    /// for omission in omissions { print(omission) }
    /// ```
    ///
    /// - Returns: The file's content, and a sentence for each thing that compiled models have no place for: indexes of
    ///   words, and conditions that use what only Quire's predicates can say.
    /// - Throws: ``QuireError`` with code `invalidModel` if ``validate()`` finds anything.
    public func compiledModel() throws -> (data: Data, omissions: [String]) {
        try validate()
        return CompiledModelEncoder.archive(of: self, for: .file)
    }

    /// Reads the model that a store of Core Data's carries in `Z_MODELCACHE`.
    package init(modelCache data: Data, name: String) throws {
        guard let archive = RawDeflate.decompressed(data) else {
            throw QuireError(
                .invalidFormat, "“\(name)” is damaged: it cannot be decompressed.",
                subject: .init(file: name))
        }
        try self.init(compiledModel: archive, name: name)
    }

    /// Whether what a store carries in `Z_MODELCACHE` is a sound archive, of whatever it may be.
    package static func isArchive(modelCache data: Data, name: String) -> Bool {
        RawDeflate.decompressed(data).map { (try? KeyedArchive($0, name: name)) != nil } ?? false
    }

    /// The model as Core Data's stores carry it in `Z_MODELCACHE`; `nil` if it is far too large for that.
    package var modelCache: Data? {
        RawDeflate.compressed(CompiledModelEncoder.archive(of: self, for: .store).data)
    }
}

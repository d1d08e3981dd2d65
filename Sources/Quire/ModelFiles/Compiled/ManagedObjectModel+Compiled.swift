public import Foundation

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

    /// Reads the model that a store of Core Data's carries in `Z_MODELCACHE`.
    init(modelCache data: Data, name: String) throws {
        guard let archive = RawDeflate.decompressed(data) else {
            throw QuireError(
                .invalidFormat, "“\(name)” is damaged: it cannot be decompressed.",
                subject: .init(file: name))
        }
        try self.init(compiledModel: archive, name: name)
    }
}

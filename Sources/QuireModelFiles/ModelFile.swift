import Foundation
internal import QuireModel
internal import QuireSystem

/// The files of models.
enum ModelFile {
    /// The file in a `.xcdatamodel` folder.
    static let contentsName = "contents"
    /// The file that Xcode 3 had in its place.
    static let legacyName = "elements"
    static let versionExtension = ".xcdatamodel"
    static let versionsExtension = ".xcdatamodeld"
    static let compiledExtension = ".mom"
    static let compiledVersionsExtension = ".momd"

    /// A model with sentences about what is odd in its file.
    typealias Reading = (model: ManagedObjectModel, remarks: [String])

    /// The model in a `.xcdatamodel` folder.
    static func read(folder path: String) throws -> Reading {
        for name in [contentsName, legacyName] {
            let file = FileSystem.path(path, name)
            if try FileSystem.information(at: file) != nil { return try read(file: file) }
        }
        throw QuireError(
            .invalidFormat,
            "“\(path)” is no Core Data model: there is no file “\(contentsName)” in it.",
            subject: .init(file: path))
    }

    /// The model in a file, whatever its name: XML, compiled, or of Xcode 3.
    static func read(file path: String) throws -> Reading {
        if let size = try FileSystem.information(at: path)?.size,
            size > ModelXMLReader.greatestSize
        {
            throw QuireError(
                .invalidFormat,
                "“\(path)” has \(size) bytes; a model has at most \(ModelXMLReader.greatestSize).",
                subject: .init(file: path))
        }
        let data = try FileSystem.contents(of: path)
        guard data.starts(with: Data("bplist".utf8)) else {
            let model = try ManagedObjectModel(modelXML: data, name: path)
            return (model, model.remarks)
        }
        if FileSystem.name(of: path) == legacyName {
            return try LegacyModelDecoder.read(data, name: path)
        }
        var reading = try CompiledModelDecoder.read(data, name: path)
        // Beside the compiled versions of a model there is a list of their hashes.
        let folder = FileSystem.folder(of: path)
        if folder.hasSuffix(compiledVersionsExtension),
            let list = try? CompiledVersionList(inFolder: folder),
            let hashes = list.hashes[withoutExtension(FileSystem.name(of: path), compiledExtension)]
        {
            reading.model.take(versionHashes: hashes)
        }
        return reading
    }

    static func withoutExtension(_ name: String, _ ending: String) -> String {
        name.hasSuffix(ending) ? String(name.dropLast(ending.count)) : name
    }
}

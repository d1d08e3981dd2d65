public import Foundation
public import Quire

/// What a new document begins as: a folder with a model (`Model.xcdatamodeld`), the first objects
/// (`Seed.json`), a description in a line (`Description.txt`), and perhaps a folder of additional content
/// (`AdditionalContent`).
///
/// ```swift
/// let template = try DocumentTemplate.named("Library")
/// let model = try template.model()
/// ```
public struct DocumentTemplate: Sendable, Hashable {
    /// The name: that of the folder.
    public let name: String
    /// The path of the folder.
    public let path: String
    /// What it is good for, in a line; empty if the template does not say.
    public let summary: String

    /// Opens a template's folder.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if there is no folder, or `invalidFormat` if it holds no
    ///   model.
    public init(contentsOf path: String) throws {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder),
            isFolder.boolValue
        else {
            throw QuireError(
                .notFound, "There is no template folder “\(path)”.", subject: .init(file: path))
        }
        // What is in it is addressed by paths that begin with this.
        self.path = FileSystem.absolute(path)
        name = URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL.lastPathComponent
        guard Self.isTemplate(path) else {
            throw QuireError(
                .invalidFormat, "“\(path)” is no template, because it has no Model.xcdatamodeld.",
                subject: .init(file: path))
        }
        let description = try? FileSystem.contents(
            of: FileSystem.path(path, "Description.txt"), beneath: path, limit: 1 << 20)
        let lines = String(decoding: description ?? Data(), as: UTF8.self)
            .split(whereSeparator: \.isNewline)
        summary = lines.first.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
    }

    private static func isTemplate(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: path + "/Model.xcdatamodeld")
    }

    /// The model.
    ///
    /// - Throws: What ``Quire/ManagedObjectModel/init(contentsOf:)`` throws.
    public func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(contentsOf: path + "/Model.xcdatamodeld")
    }

    /// The files of its additional content by their paths there, in order.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput`, or `invalidFormat` if there is anything but files and folders.
    public func additionalContent() throws -> [(path: String, data: Data)] {
        let folder = FileSystem.path(path, "AdditionalContent")
        guard FileSystem.exists(folder, beneath: path) else { return [] }
        return try FileSystem.contentsOfTree(folder, beneath: path).compactMap {
            name, information in
            if information.kind == .folder { return nil }
            return (
                name,
                try FileSystem.contents(of: FileSystem.path(folder, name), beneath: path)
            )
        }.sorted { $0.0 < $1.0 }
    }
}

// MARK: - Finding templates

extension DocumentTemplate {
    /// All templates of a folder, sorted by name.
    ///
    /// - Parameter folder: The folder, or `nil` for ``defaultFolder``.
    /// - Throws: ``QuireError`` with code `notFound` if there is none.
    public static func all(in folder: String? = nil) throws -> [DocumentTemplate] {
        let folder = try folder ?? requireDefaultFolder()
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder)
        } catch {
            throw QuireError(
                .notFound, "There is no folder of templates “\(folder)”.",
                subject: .init(file: folder), underlying: error)
        }
        return try names.sorted().map { folder + "/" + $0 }.filter(isTemplate)
            .map { try DocumentTemplate(contentsOf: $0) }
    }

    /// The template of a name, or, if the name has a slash, of a path.
    ///
    /// - Parameter folder: Where to look for names, or `nil` for ``defaultFolder``.
    /// - Throws: ``QuireError`` with code `notFound`, naming the templates there are.
    public static func named(_ name: String, in folder: String? = nil) throws -> DocumentTemplate {
        if name.contains("/") { return try DocumentTemplate(contentsOf: name) }
        let templates = try all(in: folder)
        if let template = templates.first(where: { $0.name == name }) { return template }
        let names = templates.map(\.name).joined(separator: ", ")
        throw QuireError(
            .notFound,
            "There is no template “\(name)”; "
                + (names.isEmpty ? "there are none." : "there are: \(names)."),
            subject: .init(file: name))
    }

    /// Where templates are: `QUIRE_TEMPLATES` of the environment; otherwise a folder `Templates`, or
    /// `share/quire/Templates`, beside the program or beside a folder above it. So both a checkout
    /// (`.build/release/quire`) and an installation (`bin/quire`) find theirs. `nil` if there is none.
    public static var defaultFolder: String? {
        if let given = ProcessInfo.processInfo.environment["QUIRE_TEMPLATES"], !given.isEmpty {
            return given
        }
        guard
            let program = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/exe")
        else { return nil }
        return folder(above: program)
    }

    static func folder(above program: String) -> String? {
        var place = URL(fileURLWithPath: program).deletingLastPathComponent()
        while true {
            for name in ["Templates", "share/quire/Templates"] {
                let folder = place.appendingPathComponent(name).path
                let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
                if names.contains(where: { isTemplate(folder + "/" + $0) }) { return folder }
            }
            let above = place.deletingLastPathComponent()
            if above.path == place.path { return nil }
            place = above
        }
    }

    private static func requireDefaultFolder() throws -> String {
        if let folder = defaultFolder { return folder }
        throw QuireError(
            .notFound,
            "No templates were found beside the program; say where they are with QUIRE_TEMPLATES.")
    }
}

internal import CTemplates
public import Foundation
public import Quire
internal import QuireSQLite

/// A template for new documents: a folder, or a part of the program, with a model (`Model.xcdatamodeld`), the first objects
/// (`Seed.json`), a one-line description (`Description.txt`), and optionally a folder of additional content
/// (`AdditionalContent`).
///
/// ```swift
/// let template = try DocumentTemplate.named("Library")
/// let model = try template.model()
/// ```
public struct DocumentTemplate: Sendable, Hashable {
    /// The name: that of the folder.
    public let name: String
    /// The path of the folder; empty if the template is a part of the program.
    public let path: String
    /// The one-line description; empty if the template has none.
    public let summary: String

    /// Opens the template folder at a URL; see ``init(contentsOf:)-(String)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or the errors of that initializer.
    public init(contentsOf url: URL) throws {
        try self.init(contentsOf: FileSystem.path(of: url))
    }

    /// Opens a template folder.
    ///
    /// - Throws: ``QuireError`` with code `notFound` if the folder does not exist, or `invalidFormat` if it does not contain a
    ///   model.
    public init(contentsOf path: String) throws {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder),
            isFolder.boolValue
        else { throw QuireError.notFound("template folder", at: path) }
        // Paths in the template begin with this one.
        self.path = FileSystem.absolute(path)
        name = URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL.lastPathComponent
        guard Self.isTemplate(path) else {
            throw QuireError(
                .invalidFormat,
                "“\(path)” is not a template: it does not contain Model.xcdatamodeld.",
                file: path)
        }
        summary = Self.summary(
            try? FileSystem.contents(
                of: FileSystem.path(path, "Description.txt"), beneath: path, limit: 1 << 20))
    }

    /// A template that is a part of the program.
    private init(builtIn name: String) {
        self.name = name
        path = ""
        summary = Self.summary(BuiltInFiles.contents(of: name + "/Description.txt"))
    }

    private static func summary(_ description: Data?) -> String {
        let lines = String(decoding: description ?? Data(), as: UTF8.self)
            .split(whereSeparator: \.isNewline)
        return lines.first.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
    }

    private static func isTemplate(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: path + "/Model.xcdatamodeld")
    }

    /// The model.
    ///
    /// - Throws: The errors of ``ManagedObjectModel/init(contentsOf:)-(String)``.
    public func model() throws -> ManagedObjectModel {
        let model = "/Model.xcdatamodeld"
        if let data = BuiltInFiles.contents(of: name + model + "/Model.xcdatamodel/contents"),
            path.isEmpty
        {
            return try ManagedObjectModel(modelXML: data, name: name + model)
        }
        return try ManagedObjectModel(contentsOf: path + model)
    }

    /// The files of its additional content with their paths, in order.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput`, or `invalidFormat` if the folder contains anything but files and
    ///   folders.
    public func additionalContent() throws -> [(path: String, data: Data)] {
        if path.isEmpty { return BuiltInFiles.contents(beneath: name + "/AdditionalContent/") }
        let folder = FileSystem.path(path, "AdditionalContent")
        guard FileSystem.exists(folder, beneath: path) else { return [] }
        let names = try FileSystem.contentsOfTree(folder, beneath: path)
            .filter { $0.information.kind != .folder }.map { FileName($0.path) }.sorted()
        let data = try names.map {
            try FileSystem.contents(of: FileSystem.path(folder, $0.text), beneath: path)
        }
        return Array(zip(AdditionalContentFiles.paths(for: names), data))
    }
}

// MARK: - Finding templates

extension DocumentTemplate {
    /// The templates that are built into every program: Blank, Contacts, Inventory, Journal, Library, Notes and Recipes.
    public static let builtIn: [DocumentTemplate] =
        BuiltInFiles.paths.filter { $0.hasSuffix("/Description.txt") }
        .map { DocumentTemplate(builtIn: String($0.prefix { $0 != "/" })) }

    /// All templates of a folder, sorted by name.
    ///
    /// - Parameter folder: The folder, or `nil` for ``userFolder``, ``defaultFolder`` and ``builtIn``; of several with the same
    ///   name, the first one is used.
    /// - Throws: ``QuireError`` with code `notFound` if the folder is missing, or errors of reading.
    public static func all(in folder: String? = nil) throws -> [DocumentTemplate] {
        if let folder = folder ?? givenFolder { return try templates(in: folder) }
        return try searched()
    }

    /// The templates that are found by name.
    static func searched() throws -> [DocumentTemplate] {
        var templates: [DocumentTemplate] = []
        let folders = [userFolder, defaultFolder].compactMap(\.self).filter {
            FileSystem.exists($0)
        }
        for template in try folders.flatMap({ try Self.templates(in: $0) })
            + (givenFolder == nil ? builtIn : [])
        where !templates.contains(where: { $0.name == template.name }) {
            templates.append(template)
        }
        return templates.sorted { $0.name < $1.name }
    }

    private static func templates(in folder: String) throws -> [DocumentTemplate] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder)
        } catch {
            throw QuireError(
                .notFound, "The template folder “\(folder)” does not exist, or cannot be read.",
                file: folder, underlying: error)
        }
        // A template that is still being written has a temporary name.
        return try names.sorted().filter { !FileSystem.isTemporaryName($0) }
            .map { folder + "/" + $0 }.filter(isTemplate)
            .map { try DocumentTemplate(contentsOf: $0) }
    }

    /// The template with a name, or, if the name contains a slash, at a path.
    ///
    /// - Parameters:
    ///   - name: The name or the path.
    ///   - folder: The folder to search for names, or `nil` for ``userFolder``, ``defaultFolder`` and ``builtIn``.
    /// - Throws: ``QuireError`` with code `notFound`, which suggests similar templates or lists all.
    public static func named(_ name: String, in folder: String? = nil) throws -> DocumentTemplate {
        if name.contains("/") { return try DocumentTemplate(contentsOf: name) }
        let templates = try all(in: folder)
        if let template = templates.first(where: { $0.name == name }) { return template }
        let advice = CloseNames.advice(
            for: name, among: templates.map(\.name), "available templates",
            none: "no templates are available")
        throw QuireError(
            .notFound, "The template “\(name)” does not exist; \(advice)",
            subject: .init(value: name))
    }

    /// The folder of the user's own templates: `QUIRE_TEMPLATES` of the environment; otherwise `quire/Templates` in
    /// `$XDG_DATA_HOME` or `~/.local/share`. It may be missing.
    public static var userFolder: String {
        givenFolder ?? FileSystem.path(FileSystem.userFolder(for: .data), "quire/Templates")
    }

    private static var givenFolder: String? {
        let given = ProcessInfo.processInfo.environment["QUIRE_TEMPLATES"]
        return given?.isEmpty == false ? given : nil
    }

    /// The folder of templates that come with a program: `QUIRE_TEMPLATES` of the environment; otherwise a folder `Templates` or
    /// `share/quire/Templates` beside the program or beside one of its parent folders. `nil` if none exists.
    public static var defaultFolder: String? {
        if let givenFolder { return givenFolder }
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
                if hasTemplates(folder) { return folder }
            }
            let above = place.deletingLastPathComponent()
            if above.path == place.path { return nil }
            place = above
        }
    }

    private static func hasTemplates(_ folder: String) -> Bool {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.contains { isTemplate(folder + "/" + $0) }
    }
}

/// The files of the templates that are parts of the program.
private enum BuiltInFiles {
    private static let files: [String: Data] = {
        var count = 0
        let files = UnsafeBufferPointer(start: template_files(&count), count: count)
        return Dictionary(
            uniqueKeysWithValues: files.map { file in
                (String(cString: file.path), Data(bytes: file.bytes, count: file.count))
            })
    }()

    static var paths: [String] { files.keys.sorted() }

    static func contents(of path: String) -> Data? { files[path] }

    /// The files whose paths begin with a text, by the rest of their paths.
    static func contents(beneath start: String) -> [(path: String, data: Data)] {
        paths.filter { $0.hasPrefix(start) }.compactMap { path in
            files[path].map { (String(path.dropFirst(start.count)), $0) }
        }
    }
}

// MARK: - Seeds

extension DocumentTemplate {
    /// Inserts the template's first objects.
    ///
    /// The seed has the format of a dump: `{"format": "quire-dump/1", "entities": {"Tag": [{"id": "Tag/p1",
    /// "name": "new"}]}}`. Its identifiers only link the objects of the seed; the new objects get their own.
    ///
    /// - Returns: The number of objects inserted; 0 without a seed.
    /// - Throws: ``QuireError`` with code `invalidFormat`, `unknownEntity`, `unknownKey` or `invalidValue`, naming
    ///   line and column of the seed.
    @discardableResult
    public func insertSeed(into context: ManagedObjectContext) throws -> Int {
        let file = FileSystem.path(path.isEmpty ? name : path, "Seed.json")
        let data: Data
        if path.isEmpty {
            guard let seed = BuiltInFiles.contents(of: file) else { return 0 }
            data = seed
        } else {
            guard FileSystem.exists(file, beneath: path) else { return 0 }
            data = try FileSystem.contents(of: file, beneath: path)
        }
        return try DumpReader(file: file, context: context).insert(data).count
    }
}

// MARK: - Documents

extension DocumentTemplate {
    /// Saves the template's objects and additional content to a new package, before it gets its final name.
    ///
    /// - Returns: The generation of additional content; `nil` if there is none.
    func fill(_ store: SQLiteStore, in layout: DocumentPackageLayout) throws -> Int? {
        var changes = AdditionalContentChanges()
        for file in try additionalContent() {
            let path = FileName(file.path).composed
            try AdditionalContent.check(path, AdditionalContentNames(changes.files.keys.sorted()))
            changes.files[path] = .data(file.data)
        }
        let generation =
            changes.isEmpty
            ? nil
            : try AdditionalContentStore(layout: layout, classKey: store.protection?.classKey)
                .write(changes, after: nil, [:])
        let context = QueueConfinedContext(
            coordinator: PersistentStoreCoordinator(store: store))
        try context.performAndWait { context in
            try insertSeed(into: context)
            if let generation {
                context.setRecord(String(generation), forKey: AdditionalContentStore.recordKey)
            }
            try context.save()
        }
        return generation
    }
}

extension ManagedDocument {
    /// Creates the package with a template's model, objects and additional content, and opens it for writing.
    ///
    /// The whole document is on disk when this returns. If anything fails, no package is left.
    ///
    /// ```swift
    /// let document = ManagedDocument(path: "Library.quire")
    /// try await document.create(from: .named("Library"))
    /// ```
    ///
    /// - Throws: ``QuireError`` with code `alreadyExists` if the path exists, `invalidModel`, `invalidFormat` or `validation`
    ///   if the template is invalid, or errors of writing.
    public func create(from template: DocumentTemplate) async throws {
        let model = try template.model()
        try await request(
            .open(OpenRequest(model: model, isCreation: true, template: template)))
        do {
            // With the additional content of a subclass.
            try await save()
        } catch {
            // The new package contains nothing of the user's yet.
            try? await close(discardingChanges: true)
            try? FileSystem.removeTree(path)
            throw error
        }
    }
}

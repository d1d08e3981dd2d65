import ArgumentParser
import Foundation
import Quire

/// `quire model generate MODEL FOLDER …`
struct ModelGenerateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generate",
        abstract: "Writes classes for the entities of a model.",
        discussion: """
            MODEL is an .xcdatamodeld folder, whose current version is used, one version, or a \
            document or store that contains its model.

            Every entity gets a class, regardless of the code generation setting in the model. A file \
            is overwritten only if this command generated it and it has not been changed since; \
            put your additions in extensions in your own files. Either all files are written or \
            none. Parts of the model that classes cannot declare become comments in them and \
            warnings on standard error.

            EXAMPLES:
              quire model generate Library.xcdatamodeld Sources/Library
              quire model generate Library.quire Classes --access public --one-file Library.swift
              quire model generate Library.xcdatamodeld Sources/Library --template accessors
            """)

    /// The access level of the classes.
    enum AccessLevel: String, ExpressibleByArgument, CaseIterable { case `internal`, `public` }

    @Argument(help: ArgumentHelp("A model file, a document or a store.", valueName: "MODEL"))
    var model: String

    @Argument(
        help: ArgumentHelp("The folder for the files; created if missing.", valueName: "FOLDER"))
    var folder: String

    @Option(
        help: ArgumentHelp(
            "A template's name (see quire model templates), its folder or its file.",
            valueName: "T"))
    var template = "macros"

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("Only the classes of these entities.", valueName: "ENTITY"))
    var entity: [String] = []

    @Option(
        help: ArgumentHelp(
            "The access level of the classes: internal or public.", valueName: "LEVEL"))
    var access = AccessLevel.internal

    @Option(
        name: .customLong("one-file"),
        help: ArgumentHelp("Write all classes into one file of this name.", valueName: "NAME"))
    var oneFile: String?

    @Flag(help: "Also overwrite files that were not generated, or that were changed.")
    var force = false

    @OptionGroup var opening: OpeningOptions

    func validate() throws {
        if let oneFile, oneFile.isEmpty || oneFile.contains("/") || oneFile.hasPrefix(".") {
            throw ValidationError(
                "--one-file accepts the name of a file in FOLDER, such as Library.swift.")
        }
    }

    @MainActor
    func run() async throws {
        let template = try ClassTemplate(named: template)
        let source = try await ModelSource.read(model, opening.unlock)
        var plan = ClassPlan(source.model, modelName: source.name)
        if !entity.isEmpty { try plan.keep(entities: entity) }
        let code = try ClassGenerator(
            plan: plan, template: template, isPublic: access == .public,
            origin: URL(fileURLWithPath: model).lastPathComponent
        ).files(inOne: oneFile)
        var files = GeneratedFiles(in: folder)
        for file in code { files.add(file.name, file.text) }
        let written = try files.write(force: force)
        let warnings = plan.warnings + (template.usesMacros ? plan.warningsOfMacros : [])
        for warning in warnings { Output.report("Warning: \(warning)") }
        let counts = [GeneratedFiles.Status.made, .changed, .unchanged].compactMap { status in
            let count = written.count { $0.status == status }
            return count == 0 ? nil : "\(count) \(status.rawValue)"
        }
        let summary =
            "Generated \(Count.of(plan.classes.count, "class", "classes")) from \(model): "
            + (counts.isEmpty ? "no files" : counts.joined(separator: ", ")) + "."
        try opening.printResult(
            levels: 2, written.map { "\($0.path) \($0.status.rawValue)" } + [summary]
        ) {
            .object([
                "classes": .array(
                    code.flatMap { file in
                        file.classes.map { one in
                            .object([
                                "class": .string(one.name), "entity": .string(one.entity.name),
                                "path": .string(FileSystem.path(folder, file.name)),
                            ])
                        }
                    }),
                "files": .array(written.map(Self.json)),
                "warnings": .array(warnings.map { .string($0) }),
            ])
        }
    }

    static func json(_ file: (path: String, status: GeneratedFiles.Status)) -> JSONValue {
        .object(["path": .string(file.path), "status": .string(file.status.rawValue)])
    }
}

/// `quire model templates`
struct ModelTemplatesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract:
            "Lists the templates for classes, or exports copies to edit.",
        discussion: """
            Use a copy with quire model generate --template FOLDER/NAME. \
            Sources/QuireCommand/TEMPLATES.md describes the variables of templates.

            EXAMPLES:
              quire model templates
              quire model templates --export ClassTemplates
            """)

    @Option(
        help: ArgumentHelp(
            "Copy each template into a subfolder of this folder.", valueName: "FOLDER"))
    var export: String?

    @Flag(help: "Overwrite existing templates.")
    var force = false

    @OptionGroup var printing: RowOptions

    @MainActor
    func run() async throws {
        if let export {
            var files = GeneratedFiles(in: export)
            for template in ClassTemplate.builtIn {
                for (name, text) in template.sources.sorted(by: { $0.key < $1.key }) {
                    files.add(template.title + "/" + name, text + "\n")
                }
            }
            let written = try files.write(force: force)
            return try printing.print {
                try $0.printRows(
                    of: written, [("path", .left), ("status", .left)],
                    members: ["path", "status"], isList: true
                ) { ([$0.path, $0.status.rawValue], ModelGenerateCommand.json($0)) }
            }
        }
        try printing.print {
            try $0.printRows(
                of: ClassTemplate.builtIn, [("name", .left), ("description", .left)],
                members: ["name", "description", "files"], isList: true
            ) {
                let members: [String: JSONValue] = [
                    "name": .string($0.title), "description": .string($0.summary),
                    "files": .array($0.sources.keys.sorted().map { .string($0) }),
                ]
                return ([$0.title, $0.summary], .object(members))
            }
        }
    }
}

// MARK: - Files

/// Files that the program writes into a folder: all of them or none.
///
/// Files that were written or changed by others are not overwritten, and unchanged files are not touched, so that a build
/// does not begin anew. The first line of a file says that it was generated, and has a fingerprint of the rest.
struct GeneratedFiles {
    /// The result for a file.
    enum Status: String { case made, changed, unchanged }

    /// The beginning of the first line.
    static let mark = "// Generated by quire"

    /// The folder; it is made if it is missing.
    let folder: String
    /// The files, in the order in which they are reported.
    private(set) var files: [(name: String, text: String)] = []

    init(in folder: String) { self.folder = folder }

    /// Adds a file. If its text does not begin with a ``line(origin:rest:)``, it is only ever written anew.
    mutating func add(_ name: String, _ text: String) { files.append((name, text)) }

    /// The first line of a file.
    static func line(origin: String, rest: String) -> String {
        "\(mark) from \(SwiftLiteral.comment(origin)) [\(fingerprint(Data(rest.utf8)))]: "
            + "extend it in your own files."
    }

    /// A digest that detects edits. White space does not count: a formatter may have changed it.
    private static func fingerprint(_ text: some Sequence<UInt8>) -> String {
        // FNV-1a.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in text where byte > 32 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return String(format: "%016llx", hash)
    }

    /// Writes the files.
    ///
    /// - Parameter force: Whether to overwrite also what was not generated.
    /// - Throws: `QuireError` with code `alreadyExists`, `inputOutput`, `outOfSpace`, …; then the files are as
    ///   they were.
    func write(force: Bool) throws -> [(path: String, status: Status)] {
        if let information = try FileSystem.information(at: folder), information.kind != .folder {
            throw QuireError(
                .alreadyExists, "“\(folder)” is a file; specify a folder for the classes.",
                file: folder)
        }
        let former = try files.map { try formerContent(of: $0.name) }
        if !force { try refuseForeign(former) }
        for folder in Set(files.map { FileSystem.folder(of: FileSystem.path(folder, $0.name)) }) {
            try FileSystem.makeFolder(folder, withIntermediates: true)
        }
        var result: [(path: String, status: Status)] = []
        do {
            for (file, former) in zip(files, former) {
                let data = Data(file.text.utf8)
                let path = FileSystem.path(folder, file.name)
                if former != data { try AtomicFileReplace.replace(path, with: data) }
                result.append(
                    (path, former == nil ? .made : former == data ? .unchanged : .changed))
            }
        } catch {
            for (index, file) in result.enumerated() where file.status != .unchanged {
                // A file that cannot be restored stays; the first failure is reported.
                if let former = former[index] {
                    try? AtomicFileReplace.replace(file.path, with: former)
                } else {
                    try? FileSystem.removeFile(file.path)
                }
            }
            throw error
        }
        return result
    }

    private func formerContent(of name: String) throws -> Data? {
        let path = FileSystem.path(folder, name)
        guard let information = try FileSystem.information(at: path) else { return nil }
        guard information.kind == .regular else {
            throw QuireError(
                .alreadyExists, "“\(path)” already exists and is not a file; remove it.",
                file: path)
        }
        return try FileSystem.contents(of: path)
    }

    private func refuseForeign(_ former: [Data?]) throws {
        var refused: [(path: String, reason: String)] = []
        for (file, former) in zip(files, former) {
            guard let former, former != Data(file.text.utf8),
                let reason = Self.reasonToKeep(former)
            else { continue }
            refused.append((FileSystem.path(folder, file.name), reason))
        }
        guard let (path, reason) = refused.first else { return }
        let others =
            refused.count > 1
            ? " The same applies to \(Count.of(refused.count - 1, "other file"))." : ""
        throw QuireError(
            .alreadyExists,
            "“\(path)” \(reason), so it was not overwritten.\(others) Move your changes elsewhere, or specify --force.",
            file: path)
    }

    /// Why a file is not the command's to overwrite; `nil` if it is.
    private static func reasonToKeep(_ content: Data) -> String? {
        let parts = content.split(separator: 10, maxSplits: 1, omittingEmptySubsequences: false)
        let line = String(decoding: parts.first ?? Data(), as: UTF8.self)
        guard line.hasPrefix(mark), let match = line.firstMatch(of: #/^.*\[([0-9a-f]{16})\]: /#)
        else {
            return "was not generated"
        }
        let rest = parts.count > 1 ? parts[1] : Data()
        return fingerprint(rest) == match.1 ? nil : "was changed since it was generated"
    }
}

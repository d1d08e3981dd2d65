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

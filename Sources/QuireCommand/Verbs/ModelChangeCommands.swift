import ArgumentParser
import Foundation
import Quire

/// `quire model add DOCUMENT PART …`
struct ModelAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Adds entities, properties, constraints and indexes to the model of a document.",
        discussion: """
            PART is ENTITY, ENTITY.PROPERTY with its type, or ENTITY with a line of the text form of models \
            (see “quire model print”). A relationship gets its inverse, unless that already exists. The document \
            is migrated at once; its old state is kept as a version.

            EXAMPLES:
              quire model add Library.quire Publisher
              quire model add Library.quire 'Book.notes: string, max 1000'
              quire model add Library.quire 'Book.publisher: -> Publisher.books'
              quire model add Library.quire 'Book unique isbn' --dry-run
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("Line of model text to add.", valueName: "PART"))
    var parts: [String]

    @OptionGroup var options: ModelChangeOptions

    @MainActor
    func run() async throws {
        let change = try await ModelChange(of: path, options)
        var model = change.model
        for part in parts { try model.add(Self.addition(part)) }
        try change.migrate(to: model)
    }

    /// The model of the entity that a part is, or is of.
    private static func addition(_ part: String) throws -> ManagedObjectModel {
        let end = part.firstIndex { $0 == "." || $0 == ":" || $0 == " " || $0 == "," }
        let entity = part[..<(end ?? part.endIndex)]
        let rest = part[(end ?? part.endIndex)...]
        let isLine = rest.first == "." || rest.first == " " && !rest.dropFirst().hasPrefix(":")
        let text =
            isLine ? "entity \(entity)\n\(rest.dropFirst())\n" : "entity \(entity)\(rest)\n"
        do {
            return try ManagedObjectModel(modelText: Data(text.utf8), name: "model")
        } catch var error as QuireError {
            // The part is its own place.
            let message = error.message.replacing(#/^model, line \d+, column \d+: /#, with: "")
            error.message = "“\(part)”: \(message)"
            error.subject.file = nil
            error.subject.position = nil
            throw error
        }
    }
}

/// `quire model rename DOCUMENT OLD NEW`
struct ModelRenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename",
        abstract: "Renames an entity or a property in the model of a document.",
        discussion: """
            The objects and values are kept: the old name becomes the renaming identifier of the new one. \
            Predicates and expressions of the model do not change; those that contain the old name are reported.

            EXAMPLES:
              quire model rename Library.quire Book.title name
              quire model rename Library.quire Friend Borrower
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("An entity, or a property.", valueName: "ENTITY[.PROPERTY]"))
    var old: String

    @Argument(help: ArgumentHelp("The new name.", valueName: "NEW"))
    var new: String

    @OptionGroup var options: ModelChangeOptions

    @MainActor
    func run() async throws {
        let change = try await ModelChange(of: path, options)
        var model = change.model
        let part = ModelPart(old)
        if let property = part.property {
            try model.renameProperty(property, of: part.entity, to: new)
        } else {
            try model.renameEntity(part.entity, to: new)
        }
        part.reportMentions(in: model)
        try change.migrate(to: model)
    }
}

/// `quire model remove DOCUMENT PART …`
struct ModelRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Removes entities and properties from the model of a document.",
        discussion: """
            If objects or values would be removed, you are asked first on a terminal; elsewhere --yes is \
            required. The inverses, constraints, indexes and fetch requests of the removed parts are removed \
            too. The old state of the document is kept as a version.

            EXAMPLES:
              quire model remove Library.quire Book.notes --dry-run
              quire model remove Library.quire Loan --yes
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("Entities and properties.", valueName: "ENTITY[.PROPERTY]"))
    var parts: [String]

    @OptionGroup var options: ModelChangeOptions

    @MainActor
    func run() async throws {
        let change = try await ModelChange(of: path, options)
        var model = change.model
        for part in parts.map(ModelPart.init) {
            if let property = part.property {
                try model.removeProperty(property, of: part.entity)
            } else {
                try model.removeEntity(part.entity)
            }
            part.reportMentions(in: model)
        }
        try change.migrate(to: model)
    }
}

/// `quire model set DOCUMENT PART OPTION=VALUE …`
struct ModelSetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Changes options of an entity or a property in the model of a document.",
        discussion: """
            The options are those of the text form of models: required, default, min, max, matches, external, \
            ordered, delete and others. An option without a value, such as required, also accepts true or \
            false. An empty value resets any other option. type=TYPE changes the type of an attribute.

            EXAMPLES:
              quire model set Library.quire Book.title required max=200
              quire model set Library.quire Book.year type=integer32 min=1450
              quire model set Library.quire Author.books delete=cascade
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @Argument(help: ArgumentHelp("An entity, or a property.", valueName: "ENTITY[.PROPERTY]"))
    var part: String

    @Argument(help: ArgumentHelp("Options with their values.", valueName: "OPTION[=VALUE]"))
    var settings: [String]

    @OptionGroup var options: ModelChangeOptions

    @MainActor
    func run() async throws {
        let change = try await ModelChange(of: path, options)
        var model = change.model
        let part = ModelPart(part)
        let settings = settings.map { word -> (name: String, value: String?) in
            guard let mark = word.firstIndex(of: "=") else { return (word, nil) }
            return (String(word[..<mark]), String(word[mark...].dropFirst()))
        }
        try model.set(settings, ofProperty: part.property, of: part.entity)
        try change.migrate(to: model)
    }
}

/// An entity or a property, as `Book` or `Book.title`.
private struct ModelPart {
    let entity: String
    let property: String?

    init(_ text: String) {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        entity = String(parts[0])
        property = parts.count > 1 ? String(parts[1]) : nil
    }

    /// Reports the predicates and expressions of a model that still have the name.
    func reportMentions(in model: ManagedObjectModel) {
        let name = property ?? entity
        for part in model.parts(mentioning: name) {
            Output.report("The \(part) mentions “\(name)”; change it with “quire model edit”.")
        }
    }
}

/// `quire model edit DOCUMENT`
struct ModelEditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract:
            "Opens the model of a document as text in your editor, and migrates the document.",
        discussion: """
            VISUAL or EDITOR specifies the editor, vi by default. Afterwards the differences are shown, and on a \
            terminal you are asked before anything changes. To rename a part and keep its values, change its name and add \
            “was OLD”. Text with a mistake can be edited again; otherwise it is kept, and its path is printed.

            EXAMPLES:
              quire model edit Library.quire
              EDITOR=nano quire model edit Library.quire
            """)

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @OptionGroup var options: ModelChangeOptions

    @MainActor
    func run() async throws {
        let change = try await ModelChange(of: path, options)
        let text = change.model.modelText()
        let file = FileSystem.path(
            FileManager.default.temporaryDirectory.path,
            "quire-\(UUID().uuidString).quiremodel")
        try FileSystem.writeNewFile(Data(text.utf8), at: file)
        while true {
            try Self.edit(file)
            do {
                try change.migrate(to: ManagedObjectModel(contentsOf: file), asking: true)
                return try FileSystem.removeFile(file)
            } catch let error as QuireError {
                if Confirmation.isPossible {
                    Output.report(error.message)
                    if Confirmation.ask("Edit again?", default: true) { continue }
                }
                var kept = error
                kept.message += " The text is kept in “\(file)”."
                throw kept
            }
        }
    }

    /// Opens a file in the editor, and waits until it is closed.
    private static func edit(_ path: String) throws {
        let environment = ProcessInfo.processInfo.environment
        let named = [environment["VISUAL"], environment["EDITOR"]].compactMap(\.self)
        let editor = named.first { !$0.isEmpty } ?? "vi"
        // The editor may be a command with options.
        let program = try ChildProgram(
            running: "/bin/sh", ["-c", "\(editor) \"$1\"", editor, path])
        let status = program.wait() ?? 1
        if status != 0 {
            throw Failure(
                sentence:
                    "The editor “\(editor)” failed (\(status)), and nothing was changed. Set VISUAL or EDITOR to another one. The text is kept in “\(path)”.",
                status: .failed)
        }
    }
}

import ArgumentParser
import Quire
import QuireDocuments

/// `quire templates`
struct TemplatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "templates",
        abstract: "Lists the templates for new documents, or creates one from a document.",
        discussion: """
            The folder of templates is QUIRE_TEMPLATES. If that is not set, templates are found in quire/Templates in \
            XDG_DATA_HOME or ~/.local/share, beside the program, and in the program itself.

            EXAMPLES:
              quire templates
              quire templates make Library.quire 'My Library'
            """,
        subcommands: [TemplatesListCommand.self, TemplatesMakeCommand.self],
        defaultSubcommand: TemplatesListCommand.self)
}

/// `quire templates list`
struct TemplatesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Lists the templates for new documents.",
        discussion: """
            EXAMPLES:
              quire templates list --json
            """)

    @OptionGroup var printing: RowOptions

    @MainActor
    func run() async throws {
        let templates = try DocumentTemplate.all()
        try printing.print {
            try $0.printRows(
                of: templates, [("name", .left), ("description", .left)],
                members: ["name", "description", "path"], isList: true
            ) { ([$0.name, $0.summary], $0.json) }
        }
    }
}

extension DocumentTemplate {
    /// The template as JSON.
    var json: JSONValue {
        .object([
            "name": .string(name), "description": .string(summary),
            "path": path.isEmpty ? .null : .string(path),
        ])
    }
}

/// `quire templates make DOCUMENT NAME`
struct TemplatesMakeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "make",
        abstract: "Creates a template from a document: its model, objects and additional content.",
        discussion: """
            The template is created in QUIRE_TEMPLATES, or in quire/Templates in XDG_DATA_HOME or ~/.local/share, where new \
            finds it by its name. It is a folder of text files that can be edited. Versions, history and unsaved changes are \
            omitted. Templates are not protected: a template of a protected document requires --in-clear.

            EXAMPLES:
              quire templates make Library.quire 'My Library'
              quire new New.quire --template 'My Library'
              quire templates make Library.quire Loans --folder Templates --description 'Who has which book'
            """)

    @Argument(help: ArgumentHelp("A document package.", valueName: "DOCUMENT"))
    var path: String

    @Argument(help: ArgumentHelp("The name of the new template.", valueName: "NAME"))
    var name: String

    @Option(
        help: ArgumentHelp(
            "Create it in this folder, which is created if missing.", valueName: "FOLDER"))
    var folder: String?

    @Option(help: ArgumentHelp("Its purpose, in one line.", valueName: "TEXT"))
    var description: String?

    @Flag(help: "Write the objects of a protected document unencrypted.")
    var inClear = false

    @OptionGroup var opening: OpeningOptions

    @MainActor
    func run() async throws {
        try DocumentPath.requirePackage(path, "only packages can become templates")
        try opening.unlock.unlock(path)
        let isProtected = try DocumentPackage.fileProtection(at: path) != .none
        let template: DocumentTemplate
        do {
            template = try DocumentTemplate.make(
                from: path, name: name, summary: description, in: folder,
                allowsUnprotectedCopy: inClear)
        } catch var error as QuireError where error.code == .protectionUnavailable && !inClear {
            error.message += " Specify --in-clear to allow it."
            throw error
        }
        if isProtected {
            Output.report(
                "“\(template.path)” is not protected: anyone who can read it can read the objects.")
        }
        try opening.printResult(
            ["Created the template \(template.name) from \(path): \(template.path)."]
        ) { template.json }
    }
}

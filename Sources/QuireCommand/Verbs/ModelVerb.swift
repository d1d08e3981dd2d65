import ArgumentParser
import Quire

/// `quire model PATH [ENTITY]`
struct ModelVerb: DocumentVerb {
    static let name = "model"
    static let commandName = "show"
    static let abstract =
        "Prints the model: entities, attributes, relationships and fetch requests."
    static let discussion = """
        With --template it finds what a fetch request of the model finds, and prints it as fetch does. Values \
        are read as what their variables are compared with; a list is separated by commas.

        EXAMPLES:
          quire model Library.quire
          quire model Library.quire Book --json
          quire model Library.quire --template booksBy --set 'NAME=Jane Austen' --sort year
        """
    static let access = DocumentSession.Access.read

    @Argument(help: ArgumentHelp("Only this entity.", valueName: "ENTITY"))
    var entity: String?

    @Option(help: ArgumentHelp("Run a fetch request of the model.", valueName: "NAME"))
    var template: String?

    @Option(
        name: .customLong("set"), parsing: .unconditionalSingleValue,
        help: ArgumentHelp("A value for a variable of the fetch request.", valueName: "NAME=value"))
    var assignments: [String] = []

    @OptionGroup var listing: ListingOptions

    func validate() throws {
        if template == nil && (listing.isGiven || !assignments.isEmpty) {
            throw ValidationError("--set and the options of fetch go with --template.")
        }
        if template != nil && entity != nil {
            throw ValidationError("--template has an entity of its own; leave out the other.")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        if let template { return try run(template, on: document) }
        let listing = try ModelListing(document.layout, entity: entity)
        return Reply { try listing.print($0) }
    }

    /// Finds what a fetch request of the model finds.
    @MainActor
    private func run(_ template: String, on document: DocumentSession) throws -> Reply {
        let model = document.layout.model
        let values =
            try model.fetchRequestTemplates.first { $0.name == template }.map {
                try TemplateArguments(assignments, for: $0).values
            } ?? [:]
        let request = try model.fetchRequestFromTemplate(
            withName: template, substitutionVariables: values)
        return try ListingRequest(request, listing, in: document.layout).reply(on: document)
    }
}

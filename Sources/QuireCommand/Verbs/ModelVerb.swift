import ArgumentParser
import Quire

/// `quire model PATH [ENTITY]`
struct ModelVerb: DocumentVerb {
    static let name = "model"
    static let commandName = "show"
    static let abstract =
        "Prints the model: entities, attributes, relationships and fetch requests."
    static let discussion = """
        --template runs a fetch request of the model, as fetch --template does.

        EXAMPLES:
          quire model Library.quire
          quire model Library.quire Book --json
          quire model Library.quire --template booksBy --set 'NAME=Jane Austen' --sort year
        """
    static let access = DocumentSession.Access.read
    typealias Printing = RowOptions

    @Argument(help: ArgumentHelp("Only this entity.", valueName: "ENTITY"))
    var entity: String?

    @OptionGroup var template: TemplateOptions
    @OptionGroup var listing: ListingOptions

    func validate() throws {
        try template.validate(entity: entity)
        if template.name == nil && listing.isGiven {
            throw ValidationError("The options of fetch require --template.")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        if let request = try template.request(of: document.layout.model) {
            return try ListingRequest(request, listing, in: document.layout).reply(on: document)
        }
        let listing = try ModelListing(document.layout, entity: entity)
        return Reply { output in
            let isDefault = try output.format == Defaults.current().format
            guard output.json || output.format == .table || isDefault else {
                throw Failure(
                    sentence:
                        "A model is printed as text or JSON; other formats require --template.",
                    status: .usage)
            }
            try listing.print(output)
        }
    }
}

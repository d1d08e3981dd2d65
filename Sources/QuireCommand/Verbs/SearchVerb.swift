import ArgumentParser
import Foundation
import Quire

/// `quire search PATH TEXT`
struct SearchVerb: DocumentVerb {
    static let name = "search"
    static let abstract = "Finds text in all text attributes of all objects."
    static let discussion = """
        Case and diacritics are ignored: “cafe” finds “Café”. TEXT may be any part of a text or URI. An \
        attribute with a full-text index is searched by whole words, of which the last may be incomplete. A \
        UUID finds the attributes with that value. Derived attributes, which repeat others, are not searched. \
        Each row is an attribute with the text around its first match.

        EXAMPLES:
          quire search Library.quire austen
          quire search Library.quire 'house of' --entity Book --limit 5
          quire search Library.quire --json -- --flag
        """
    static let access = DocumentSession.Access.read
    typealias Printing = RowOptions

    @Argument(help: ArgumentHelp("The text to find.", valueName: "TEXT"))
    var text: String

    @Option(
        help: ArgumentHelp(
            "Only objects of this entity and its sub-entities.", valueName: "ENTITY"))
    var entity: String?

    @Option(help: ArgumentHelp("The maximum number of rows.", valueName: "N"))
    var limit: Int?

    func validate() throws {
        if ExpressionList.trimmed(text).isEmpty { throw ValidationError("Specify a text to find.") }
        if let limit, limit < 1 { throw ValidationError("--limit must be at least 1.") }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let layout = document.layout
        let numbers = try entity.map { try layout.requireEntity(named: $0).subtree }
        let entities = layout.entities.filter {
            !$0.isAbstract && numbers?.contains($0.number) ?? true
        }
        let search = ObjectSearch(text: text, limit: limit ?? .max, document: document)
        return Reply { try search.print(entities, $0) }
    }
}

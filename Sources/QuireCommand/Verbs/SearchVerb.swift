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

// MARK: - Searching

/// A search in the texts of objects, whose results are printed as they are found.
@MainActor
struct ObjectSearch {
    let text: String
    /// The greatest number of rows.
    let limit: Int
    let document: DocumentSession

    /// An attribute with the condition that it has the text.
    private typealias Field = (key: String, condition: QueryPredicate)

    /// Prints the attributes of objects of exactly some entities that have the text.
    func print(_ entities: [ResolvedEntity], _ output: Output) throws {
        var rows = RowOutput(
            [("id", .left), ("key", .left), ("text", .left)],
            members: ["id", "entity", "key", "text"], ifEmpty: "Nothing found.", to: output)
        var rest = limit
        for entity in entities where rest > 0 {
            let fields = fields(of: entity)
            if fields.isEmpty { continue }
            var request = FetchRequest<ManagedObject>(
                entity.name, predicate: .or(fields.map(\.condition)))
            request.includesSubentities = false
            if limit < .max { request.fetchLimit = rest }
            request.readInBatches(for: [])
            try document.forEach(of: document.context.fetch(request)) { object in
                for (key, condition) in fields where rest > 0 {
                    guard try condition.evaluate(with: object) else { continue }
                    rest -= 1
                    let excerpt = TextExcerpt.of(
                        PrintedValue(try object.attributeValue(forKey: key)).text, around: text)
                    try rows.add(
                        [object.objectID.shortDescription, key, excerpt],
                        .object([
                            "id": .string(object.objectID.uriRepresentation),
                            "entity": .string(entity.name), "key": .string(key),
                            "text": .string(excerpt),
                        ]))
                }
            }
        }
        try rows.finish()
    }

    private func fields(of entity: ResolvedEntity) -> [Field] {
        let indexed = fullTextAttributes(of: entity)
        let words = text.replacing("\"", with: " ")
        let hasWords = words.contains { $0.isLetter || $0.isNumber }
        return entity.slots.filter { $0.isStored && !$0.isDerived }.compactMap { slot in
            func field(
                _ operator: QueryComparison.Operator, _ text: String,
                _ options: QueryComparison.Options = []
            ) -> Field {
                let comparison = QueryComparison(
                    .key(slot.name), `operator`, .constant(.string(text)), options: options)
                return (slot.name, .comparison(comparison))
            }
            switch slot.attribute?.type {
            case .string where hasWords && indexed.contains(slot.name):
                return field(.matchesText, "\"\(words)\"*")
            case .string, .uri:
                return field(.contains, text, [.caseInsensitive, .diacriticInsensitive])
            case .uuid: return UUID(uuidString: text) == nil ? nil : field(.equal, text)
            default: return nil
            }
        }
    }

    /// The attributes in full-text indexes of the entity and those above it.
    private func fullTextAttributes(of entity: ResolvedEntity) -> Set<String> {
        let indexes = document.layout.entities.filter { $0.subtree.contains(entity.number) }
            .flatMap(\.description.indexes).filter(\.isFullText)
        return Set(indexes.flatMap(\.elements).compactMap(\.propertyName))
    }
}

/// A part of a text, on one line.
enum TextExcerpt {
    /// The number of characters before and after the match.
    private static let margin = 60

    /// The part around the first match of another text, or of its first word that is found.
    static func of(_ text: String, around match: String) -> String {
        let words = match.split { !$0.isLetter && !$0.isNumber }.map(String.init)
        let range = ([match] + words).lazy.compactMap { word in
            text.range(of: word, options: [.caseInsensitive, .diacriticInsensitive])
        }.first
        let found = range ?? text.startIndex..<text.startIndex
        let start =
            text.index(found.lowerBound, offsetBy: -margin, limitedBy: text.startIndex)
            ?? text.startIndex
        // The text that was searched for may be long.
        let end =
            text.index(found.lowerBound, offsetBy: 2 * margin, limitedBy: text.endIndex)
            ?? text.endIndex
        let excerpt = text[start..<end].split(whereSeparator: \.isWhitespace)
            .joined(separator: " ")
        return (start > text.startIndex ? "…" : "") + excerpt + (end < text.endIndex ? "…" : "")
    }
}

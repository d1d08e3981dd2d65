import Foundation
import Quire
import QuireDocuments

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

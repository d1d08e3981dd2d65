import Quire

/// A model as a class diagram: entities with their attributes, inheritance, and relationships with their numbers of objects.
///
/// A pair of inverse relationships is one line, labelled with both names. Fetched properties are left out.
struct ModelDiagram {
    private let layout: ResolvedModel
    private let entities: [ResolvedEntity]

    /// Draws a model.
    ///
    /// - Parameter entity: The only entity to draw, with its relationships, if not all.
    /// - Throws: `QuireError` with code `unknownEntity`.
    init(_ layout: ResolvedModel, entity: String?) throws {
        self.layout = layout
        entities = try entity.map { [try layout.requireEntity(named: $0)] } ?? layout.entities
    }

    // MARK: - Mermaid

    /// Prints a Mermaid `classDiagram`. All names are within backticks: they may be keywords.
    func printMermaid(_ output: Output) throws {
        func quoted(_ name: String) -> String { "`\(name.replacing("`", with: ""))`" }
        try output.print("classDiagram")
        for entity in entities {
            let members =
                (entity.isAbstract ? ["<<abstract>>"] : [])
                + entity.description.attributes.map(Self.text)
            guard !members.isEmpty else {
                try output.print("  class \(quoted(entity.name))")
                continue
            }
            try output.print("  class \(quoted(entity.name)) {")
            for member in members { try output.print("    \(member)") }
            try output.print("  }")
        }
        for entity in entities {
            guard let parent = entity.description.superentityName else { continue }
            try output.print("  \(quoted(parent)) <|-- \(quoted(entity.name))")
        }
        for line in lines {
            let start = line.startCount.map { " \"\($0)\" --" } ?? " -->"
            try output.print(
                "  \(quoted(line.start))\(start) \"\(line.endCount)\" \(quoted(line.end)) : \(line.label)"
            )
        }
    }

    // MARK: - Graphviz

    /// Prints a Graphviz `digraph`. All names are within quotation marks.
    func printDot(_ output: Output) throws {
        try output.print("digraph model {")
        try output.print("  node [shape=record];")
        for entity in entities {
            let title =
                Self.escapedForRecord(entity.name) + (entity.isAbstract ? " (abstract)" : "")
            let attributes = entity.description.attributes
                .map { Self.escapedForRecord(Self.text($0)) + "\\l" }.joined()
            let label = attributes.isEmpty ? title : "\(title)|\(attributes)"
            try output.print("  \(Self.quoted(entity.name)) [label=\"{\(label)}\"];")
        }
        for entity in entities {
            guard let parent = entity.description.superentityName else { continue }
            try output.print(
                "  \(Self.quoted(entity.name)) -> \(Self.quoted(parent)) [arrowhead=empty];")
        }
        for line in lines {
            var attributes = ["label=\(Self.quoted(line.label))"]
            if let count = line.startCount {
                attributes += ["dir=none", "taillabel=\(Self.quoted(count))"]
            }
            attributes.append("headlabel=\(Self.quoted(line.endCount))")
            try output.print(
                "  \(Self.quoted(line.start)) -> \(Self.quoted(line.end)) [\(attributes.joined(separator: ", "))];"
            )
        }
        try output.print("}")
    }

    private static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }

    /// Escapes what separates the fields of a record, and the quotation mark that ends the label.
    private static func escapedForRecord(_ text: String) -> String {
        var escaped = ""
        for character in text {
            if "\\\"{}|<>".contains(character) { escaped.append("\\") }
            escaped.append(character)
        }
        return escaped
    }

    // MARK: - Content

    /// An attribute as in UML: its name, with a slash before it if it is derived, and its type.
    private static func text(_ attribute: AttributeDescription) -> String {
        let type = attribute.compositeName ?? attribute.type.textName
        return "\(attribute.derivationExpression == nil ? "" : "/")\(attribute.name) : \(type)"
    }

    /// A relationship, or a pair of inverse relationships.
    private struct Line {
        var start: String
        var end: String
        var label: String
        /// The number of objects at the start; `nil` if there is no inverse.
        var startCount: String?
        var endCount: String
    }

    private var lines: [Line] {
        let drawn = Set(entities.map(\.number))
        var lines: [Line] = []
        for entity in entities {
            for relationship in entity.relationships where relationship.ownerNumber == entity.number
            {
                let inverse = layout.inverse(of: relationship)
                if let inverse, inverse !== relationship, drawn.contains(inverse.ownerNumber),
                    (inverse.ownerNumber, inverse.index) < (entity.number, relationship.index)
                {
                    continue
                }
                let other = inverse.flatMap { $0 === relationship ? nil : $0 }
                lines.append(
                    Line(
                        start: entity.name, end: layout.destination(of: relationship).name,
                        label: [relationship, other].compactMap(\.self).map(Self.label)
                            .joined(separator: " / "),
                        startCount: inverse.map(Self.count), endCount: Self.count(relationship)))
            }
        }
        return lines
    }

    private static func label(_ relationship: ResolvedEntity.Relationship) -> String {
        relationship.name + (relationship.isOrdered ? " (ordered)" : "")
    }

    /// The number of objects that a relationship leads to, as in UML: `0..1`, `1`, `*`, `1..*` or `2..5`.
    private static func count(_ relationship: ResolvedEntity.Relationship) -> String {
        let description = relationship.description
        guard relationship.isToMany else { return description.isOptional ? "0..1" : "1" }
        let least = description.isOptional ? 0 : description.minimumCount
        guard description.maximumCount > 0 else { return least == 0 ? "*" : "\(least)..*" }
        return least == description.maximumCount
            ? "\(least)" : "\(least)..\(description.maximumCount)"
    }
}

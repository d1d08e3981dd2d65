import Foundation
internal import QuireModel
internal import QuireSystem

/// Writes the text form of a model: the inverse of ``ModelTextParser``.
///
/// Defaults are omitted, and every part is on a line of its own, so that versions of a model can be compared line by line.
enum ModelTextWriter {
    /// - Parameter entityName: The only entity to write, with its fetch requests; `nil` for the whole model.
    static func text(of model: ManagedObjectModel, entityName: String?) -> String {
        var blocks: [[String]] = []
        let isWhole = entityName == nil
        if isWhole {
            blocks.append(
                model.versionIdentifiers.map { "version \(ModelTextLexer.quoted($0))" }
                    + (model.usedWithCloudKit ? ["usedWith cloudKit"] : [])
                    + (model.usedWithSwiftData ? ["usedWith swiftData"] : []))
        }
        blocks += model.entities.filter { isWhole || $0.name == entityName }.map(lines)
        if isWhole { blocks += model.composites.map(lines) }
        blocks.append(
            model.fetchRequestTemplates.filter { isWhole || $0.entityName == entityName }.map {
                line(
                    "request \(ModelTextLexer.name($0.name)): \(ModelTextLexer.name($0.entityName))",
                    $0, ModelTextOption<FetchRequestTemplate>.all)
            })
        if isWhole { blocks.append(model.configurations.map(line)) }
        return blocks.filter { !$0.isEmpty }.map { $0.joined(separator: "\n") + "\n" }
            .joined(separator: "\n")
    }

    /// A line: its beginning, and the options that are not the default.
    private static func line<Part>(
        _ start: String, _ part: Part, _ options: [ModelTextOption<Part>]
    ) -> String {
        ([start] + options.flatMap { $0.write(part) }).joined(separator: ", ")
    }

    private static func lines(of entity: EntityDescription) -> [String] {
        var entity = entity
        entity.userInfo = entity.userInfoInFile
        let parent = entity.superentityName.map { ": \(ModelTextLexer.name($0))" } ?? ""
        var lines = [
            line(
                "entity \(ModelTextLexer.name(entity.name))\(parent)", entity,
                ModelTextOption<EntityDescription>.all)
        ]
        lines += entity.properties.map { "  " + line(of: $0) }
        lines += entity.uniquenessConstraints.map { "  unique \(list($0))" }
        lines += entity.indexes.map { "  " + line(of: $0) }
        lines += entity.compoundIndexes.map { "  compoundIndex \(list($0))" }
        return lines
    }

    private static func lines(of composite: CompositeDescription) -> [String] {
        ["composite \(ModelTextLexer.name(composite.name))"]
            + composite.elements.map { "  " + line(of: .attribute($0)) }
    }

    private static func list(_ names: [String]) -> String {
        names.map(ModelTextLexer.word).joined(separator: ", ")
    }

    // MARK: - Properties

    static func line(of property: PropertyDescription) -> String {
        let name = ModelTextLexer.name(property.name)
        switch property {
        case .attribute(let attribute):
            var type = attribute.type.textName
            if attribute.type == .composite, let composite = attribute.compositeName {
                type += " \(ModelTextLexer.name(composite))"
            }
            let value = text(of: attribute.defaultValue, as: attribute.type).map { " = \($0)" }
            return line(
                "\(name): \(type)\(value ?? "")", attribute,
                ModelTextOption<AttributeDescription>.all)
        case .relationship(let relationship):
            var target = ModelTextLexer.name(relationship.destinationEntityName)
            if targetHasInverse(relationship) { target += ".\(relationship.inverseName ?? "")" }
            return line(
                "\(name): \(relationship.isToMany ? "->>" : "->") \(target)", relationship,
                ModelTextOption<RelationshipDescription>.all)
        case .fetched(let fetched):
            return line(
                "\(name): fetched \(ModelTextLexer.name(fetched.fetchRequest.entityName))", fetched,
                ModelTextOption<FetchedPropertyDescription>.all)
        }
    }

    /// Whether the inverse is written with the destination, as in `-> Author.books`.
    static func targetHasInverse(_ relationship: RelationshipDescription) -> Bool {
        guard let inverse = relationship.inverseName else { return false }
        return relationship.inverseEntityName == relationship.destinationEntityName
            && ModelTextLexer.isName(inverse)
            && ModelTextLexer.isName(relationship.destinationEntityName)
    }

    // MARK: - Indexes and configurations

    private static func line(of index: FetchIndexDescription) -> String {
        let elements = index.elements.map { element in
            var words = element.propertyName.map { [ModelTextLexer.word($0)] } ?? []
            if let expression = element.expression {
                words.append("expression \(ModelTextLexer.quoted(expression))")
            }
            if let type = element.expressionType {
                words.append("type \(ModelTextLexer.quoted(type))")
            }
            if !element.isAscending { words.append("descending") }
            if element.kind != .binary { words.append(element.kind.textName) }
            return words.joined(separator: " ")
        }
        let condition = index.partialIndexPredicate.map { "where \(ModelTextLexer.quoted($0))" }
        let content = [elements.joined(separator: ", "), condition ?? ""].filter { !$0.isEmpty }
        return (["index \(ModelTextLexer.name(index.name)):"] + content).joined(separator: " ")
    }

    private static func line(of configuration: ManagedObjectModel.Configuration) -> String {
        let names = list(configuration.entityNames)
        return "configuration \(ModelTextLexer.name(configuration.name))"
            + (configuration.usedWithCloudKit ? ", cloudKit" : "")
            + ":\(names.isEmpty ? "" : " ")\(names)"
    }

    // MARK: - Values

    /// A value of a type; `nil` for null, and for a value without a text.
    static func text(of value: AttributeValue, as type: AttributeType) -> String? {
        guard !value.isNull, let text = value.text(as: type),
            (try? AttributeValue(parsing: text, as: type)) != nil
        else { return nil }
        return type == .string || type == .undefined
            ? ModelTextLexer.quoted(text) : ModelTextLexer.word(text)
    }

    static func text(of value: PropertyListValue) -> String {
        switch value {
        case .string(let text): ModelTextLexer.quoted(text)
        case .integer(let integer): String(integer)
        case .real(let number): number.description
        case .boolean(let truth): truth ? "true" : "false"
        case .data(let data): "data \(ModelTextLexer.quoted(data.base64EncodedString()))"
        case .date(let date):
            "date \(ModelTextLexer.quoted(AttributeValue.date(date).text(as: .date) ?? ""))"
        case .array(let values): "[\(values.map(text).joined(separator: ", "))]"
        case .dictionary(let values):
            "{"
                + values.sorted { $0.key < $1.key }.map {
                    "\(ModelTextLexer.name($0.key)): \(text(of: $0.value))"
                }.joined(separator: ", ") + "}"
        }
    }
}

extension FetchIndexDescription.Kind {
    /// The kind's name in the text form of a model.
    var textName: String {
        switch self {
        case .binary: "binary"
        case .rtree: "rtree"
        case .fullText: "fullText"
        }
    }
}

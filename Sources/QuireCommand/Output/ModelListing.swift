import Quire

/// A model as the command prints it: its entities with their properties, and its fetch requests.
struct ModelListing {
    private let layout: ResolvedModel
    private let entities: [ResolvedEntity]
    private let templates: [FetchRequestTemplate]

    /// Lists a model.
    ///
    /// - Parameter entity: The only entity to list, if not all.
    /// - Throws: `QuireError` with code `unknownEntity`.
    init(_ layout: ResolvedModel, entity: String?) throws {
        self.layout = layout
        entities = try entity.map { [try layout.requireEntity(named: $0)] } ?? layout.entities
        let names = Set(entities.map(\.name))
        templates = layout.model.fetchRequestTemplates.filter { names.contains($0.entityName) }
    }

    /// Prints it.
    func print(_ output: Output) throws {
        if output.json {
            let versions = layout.model.versionIdentifiers.map { JSONValue.string($0) }
            try output.print(
                .object([
                    "versionIdentifiers": .array(versions),
                    "entities": .array(entities.map { Self.json($0, in: layout) }),
                    "fetchRequests": .array(templates.map(Self.json)),
                ]), levels: 4)
            return
        }
        for (index, entity) in entities.enumerated() {
            if index > 0 { try output.print("") }
            try Self.print(entity, in: layout, output)
        }
        try Self.print(templates, output)
    }

    // MARK: - JSON

    private static func json(_ entity: ResolvedEntity, in layout: ResolvedModel) -> JSONValue {
        let description = entity.description
        return .object([
            "name": .string(entity.name),
            "abstract": .boolean(entity.isAbstract),
            "parent": JSONValue(description.superentityName),
            "attributes": .array(description.attributes.map(json)),
            "relationships": .array(description.relationships.map(json)),
            "uniquenessConstraints": .array(
                description.uniquenessConstraints.map { .array($0.map { .string($0) }) }),
        ])
    }

    private static func json(_ attribute: AttributeDescription) -> JSONValue {
        .object([
            "name": .string(attribute.name),
            "type": .string(attribute.type.textName),
            "optional": .boolean(attribute.isOptional),
            "transient": .boolean(attribute.isTransient),
            "default": PrintedValue.attribute(attribute.defaultValue, attribute.type).json,
            "externalStorage": .boolean(attribute.allowsExternalBinaryDataStorage),
        ])
    }

    private static func json(_ relationship: RelationshipDescription) -> JSONValue {
        .object([
            "name": .string(relationship.name),
            "destination": .string(relationship.destinationEntityName),
            "inverse": JSONValue(relationship.inverseName),
            "toMany": .boolean(relationship.isToMany),
            "ordered": .boolean(relationship.isToMany && relationship.isOrdered),
            "optional": .boolean(relationship.isOptional),
            "deleteRule": .string(relationship.deleteRule.textName),
        ])
    }

    private static func json(_ template: FetchRequestTemplate) -> JSONValue {
        .object([
            "name": .string(template.name),
            "entity": .string(template.entityName),
            "predicate": JSONValue(template.predicateFormat),
            // Of a predicate that cannot be parsed only the text is printed.
            "variables": .array(((try? template.variables) ?? []).map { .string($0) }),
            "sortOrderings": .array(
                template.sortOrderings.map {
                    .object([
                        "keyPath": .string($0.keyPath), "ascending": .boolean($0.ascending),
                    ])
                }),
            "limit": .integer(Int64(template.fetchLimit)),
            "offset": .integer(Int64(template.fetchOffset)),
        ])
    }

    // MARK: - Text

    private static func print(_ templates: [FetchRequestTemplate], _ output: Output) throws {
        if templates.isEmpty { return }
        try output.print("")
        try output.print("Fetch requests")
        var table = TextTable([("  name", .left), ("entity", .left), ("", .left)])
        for template in templates {
            let order = template.sortOrderings.map {
                "by \($0.keyPath)\($0.ascending ? "" : " descending")"
            }
            let limit = template.fetchLimit > 0 ? ["limit \(template.fetchLimit)"] : []
            let offset = template.fetchOffset > 0 ? ["offset \(template.fetchOffset)"] : []
            let notes = [template.predicateFormat].compactMap { $0 } + order + limit + offset
            table.rows.append(
                ["  " + template.name, template.entityName, notes.joined(separator: ", ")])
        }
        try output.print(raw: table.text)
    }

    private static func print(
        _ entity: ResolvedEntity, in layout: ResolvedModel, _ output: Output
    ) throws {
        let parent = entity.description.superentityName.map { ": \($0)" } ?? ""
        try output.print("\(entity.name)\(parent)\(entity.isAbstract ? " (abstract)" : "")")
        var table = TextTable([("  property", .left), ("type", .left), ("", .left)])
        for attribute in entity.description.attributes {
            table.rows.append(
                ["  " + attribute.name, attribute.type.textName, notes(on: attribute)])
        }
        for relationship in entity.description.relationships {
            let arrow = relationship.isToMany ? "→→" : "→"
            table.rows.append([
                "  " + relationship.name, "\(arrow) \(relationship.destinationEntityName)",
                notes(on: relationship),
            ])
        }
        if table.rows.isEmpty {
            try output.print("  no properties of its own")
        } else {
            try output.print(raw: table.text)
        }
    }

    private static func notes(on attribute: AttributeDescription) -> String {
        var notes: [String] = []
        if !attribute.isOptional { notes.append("required") }
        if attribute.isTransient { notes.append("transient") }
        if attribute.derivationExpression != nil { notes.append("derived") }
        if attribute.allowsExternalBinaryDataStorage { notes.append("external storage") }
        if !attribute.defaultValue.isNull {
            let text = PrintedValue.attribute(attribute.defaultValue, attribute.type).text
            notes.append("default \(text.isEmpty ? "empty" : text)")
        }
        return notes.joined(separator: ", ")
    }

    private static func notes(on relationship: RelationshipDescription) -> String {
        var notes: [String] = []
        if !relationship.isOptional { notes.append("required") }
        if relationship.isToMany && relationship.isOrdered { notes.append("ordered") }
        if let inverse = relationship.inverseName { notes.append("inverse \(inverse)") }
        if relationship.deleteRule != .nullify {
            notes.append("delete rule \(relationship.deleteRule.textName)")
        }
        return notes.joined(separator: ", ")
    }
}

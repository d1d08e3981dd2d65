import Quire

/// Adds rows to a document: all, or none if anything is wrong with one.
///
/// First everything is looked up and checked, without changing anything; then objects are made, which cannot
/// fail any more for the rows' sake.
@MainActor
struct ObjectImport {
    let document: DocumentSession

    /// What an import made.
    struct Result {
        /// An object per row, in their order.
        var imported: [ManagedObject] = []
        /// Related objects that were not there yet.
        var related: [ManagedObject] = []
    }

    /// An object that rows refer to by a value: one of the document's, or one to be made.
    private final class Target {
        let existing: ManagedObject?
        /// The row that asked for it first.
        let place: String
        /// Values to give it.
        var values: [String: AttributeValue]
        /// The object, once it is made.
        var object: ManagedObject?

        init(existing: ManagedObject?, place: String, values: [String: AttributeValue]) {
            self.existing = existing
            self.place = place
            self.values = values
            object = existing
        }
    }

    /// How targets are found.
    private struct TargetKey: Hashable {
        var entity: Int
        var key: String
        var value: AttributeValue
    }

    private enum Link {
        case objects([ManagedObject])
        case targets([Target])
    }

    /// Adds rows.
    ///
    /// - Throws: `QuireError`, naming the row and the column; then nothing is changed.
    func run(_ rows: [ImportRow]) throws -> Result {
        var targets: [TargetKey: Target] = [:]
        var order: [(entity: EntityLayout, target: Target)] = []
        let links = try rows.map { row in
            try row.relationships.map { related in
                do {
                    return (related, try link(related, of: row, &targets, &order))
                } catch {
                    throw ImportRow.locate(error, row.place, column: related.column)
                }
            }
        }
        for (entity, target) in order where target.existing == nil {
            try ImportRow.validate(target.values, of: entity, place: target.place)
        }
        var result = Result()
        for (entity, target) in order {
            let object: ManagedObject
            if let existing = target.existing {
                object = existing
            } else {
                object = try document.context.insertObject(entityName: entity.name)
                result.related.append(object)
            }
            target.object = object
            for (key, value) in target.values { try object.setValue(value, forKey: key) }
        }
        for (row, links) in zip(rows, links) {
            let object = try document.context.insertObject(entityName: row.entity.name)
            for (key, value) in row.attributes { try object.setValue(value, forKey: key) }
            for (related, link) in links {
                let objects: [ManagedObject]
                switch link {
                case .objects(let found): objects = found
                case .targets(let targets): objects = targets.compactMap(\.object)
                }
                try PropertyChange(related.relationship, objects, of: row.entity).apply(to: object)
            }
            result.imported.append(object)
        }
        try document.context.obtainPermanentIDs(for: result.related + result.imported)
        return result
    }

    private func link(
        _ related: ImportRow.Related, of row: ImportRow,
        _ targets: inout [TargetKey: Target],
        _ order: inout [(entity: EntityLayout, target: Target)]
    ) throws -> Link {
        switch related.objects {
        case .identifiers(let text):
            let objects = try document.objects(named: text, for: related.relationship)
            // Checked here, so that applying it later cannot fail.
            _ = try PropertyChange(related.relationship, objects, of: row.entity)
            return .objects(objects)
        case .values(let objects):
            return .targets(
                try objects.map { values in
                    try target(
                        values, of: related.relationship, place: row.place, &targets, &order)
                })
        }
    }

    private func target(
        _ values: [(key: String, value: AttributeValue)],
        of relationship: EntityLayout.Relationship, place: String,
        _ targets: inout [TargetKey: Target],
        _ order: inout [(entity: EntityLayout, target: Target)]
    ) throws -> Target {
        let destination = document.layout.destination(of: relationship)
        let key = TargetKey(
            entity: destination.number, key: values[0].key, value: values[0].value)
        let target: Target
        if let known = targets[key] {
            target = known
        } else {
            target = try newTarget(key, in: destination, place: place)
            targets[key] = target
            order.append((destination, target))
        }
        for (name, value) in values.dropFirst() where !value.isNull {
            let present = try target.values[name] ?? target.existing?.value(forKey: name) ?? .null
            guard present.isNull || present == value else {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” of \(destination.name) “\(text(values[0].value))” is "
                        + "\(text(present)) already, not \(text(value)).",
                    subject: .init(entity: destination.name, property: name))
            }
            if present.isNull { target.values[name] = value }
        }
        return target
    }

    private func newTarget(
        _ key: TargetKey, in destination: EntityLayout, place: String
    ) throws -> Target {
        var request = FetchRequest(destination.name)
        request.predicate = .comparison(
            QueryComparison(.keyPath([key.key]), .equal, .constant(key.value)))
        request.fetchLimit = 2
        let found = try document.context.fetch(request)
        guard found.count < 2 else {
            throw QuireError(
                .invalidValue,
                "Several objects of \(destination.name) have the \(key.key) “\(text(key.value))”.",
                subject: .init(entity: destination.name, property: key.key))
        }
        if let object = found.first { return Target(existing: object, place: place, values: [:]) }
        _ = try document.layout.requireConcreteEntity(named: destination.name)
        return Target(existing: nil, place: place, values: [key.key: key.value])
    }

    private func text(_ value: AttributeValue) -> String {
        PropertyValue.attribute(value, .undefined).text
    }
}

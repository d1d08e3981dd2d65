import Quire
import QuireSQLite

/// Adds rows to a document: all, or none if anything is wrong with one.
///
/// The rows are read twice. First everything is looked up and checked, without changing anything; then objects are made,
/// which cannot fail any more for the rows' sake. Where the document saves itself afterwards in any case, they are saved in
/// portions of one transaction, so that no more than a portion is in memory; in a session they are unsaved changes.
@MainActor
final class ObjectImport {
    private let document: DocumentSession
    private let portionSize: Int
    private var targets: [TargetKey: Target] = [:]
    /// The targets in the order in which rows asked for them.
    private var order: [Target] = []

    init(document: DocumentSession, portionSize: Int = 1000) {
        self.document = document
        self.portionSize = portionSize
    }

    /// The result of an import.
    struct Result {
        /// The identifier of an object per row, in their order.
        let imported: @MainActor () -> ObjectIDRuns
        /// The related objects that were inserted.
        let related: @MainActor () -> ObjectIDRuns
    }

    /// An object that rows refer to by a value: one of the document's, or one to be made.
    private final class Target {
        let entity: ResolvedEntity
        /// Whether it is yet to be made.
        let isNew: Bool
        /// The row that asked for it first.
        let place: String
        /// Values to give it.
        var values: [String: AttributeValue]
        /// The object, once it is there.
        var objectID: ManagedObjectID?

        init(
            _ entity: ResolvedEntity, existing: ManagedObjectID?, place: String,
            values: [String: AttributeValue]
        ) {
            self.entity = entity
            isNew = existing == nil
            self.place = place
            self.values = values
            objectID = existing
        }
    }

    /// The key by which targets are found.
    private struct TargetKey: Hashable {
        var entity: Int
        var key: String
        var value: AttributeValue
    }

    /// Adds rows.
    ///
    /// - Throws: `QuireError`, naming the row and the column; then nothing is changed.
    func run(_ rows: ImportRows) throws -> Result {
        try rows.forEach(check)
        for target in order where target.isNew {
            try ImportRow.validate(target.values, of: target.entity, place: target.place)
        }
        if let store = document.storeToImportInto { return try save(rows, to: store) }
        let portion = Portion(document.context)
        do {
            for target in order { try make(target, in: portion) }
            let related = portion.made.map(\.object)
            portion.made = []
            try rows.forEach { try make($0, in: portion) }
            let imported = portion.made.map(\.object)
            try document.context.obtainPermanentIDs(for: related + imported)
            return Result(
                imported: { ObjectIDRuns(imported.lazy.map(\.objectID)) },
                related: { ObjectIDRuns(related.lazy.map(\.objectID)) })
        } catch {
            // The file has changed since it was checked.
            document.endUserEvent()
            if document.canUndo { document.undo() }
            throw error
        }
    }

    // MARK: - Checking

    private func check(_ row: ImportRow) throws {
        for related in row.relationships {
            do {
                switch related.objects {
                case .identifiers(let text):
                    // Checked here, so that applying it later cannot fail.
                    _ = try PropertyChange(
                        related.relationship,
                        document.objects(named: text, for: related.relationship), of: row.entity)
                case .values(let objects):
                    for values in objects {
                        try check(values, of: related.relationship, place: row.place)
                    }
                }
            } catch {
                throw ImportRow.locate(error, row.place, column: related.column)
            }
        }
    }

    private func key(
        _ values: [(key: String, value: AttributeValue)],
        of relationship: ResolvedEntity.Relationship
    ) -> TargetKey {
        TargetKey(
            entity: document.layout.destination(of: relationship).number, key: values[0].key,
            value: values[0].value)
    }

    private func check(
        _ values: [(key: String, value: AttributeValue)],
        of relationship: ResolvedEntity.Relationship, place: String
    ) throws {
        let destination = document.layout.destination(of: relationship)
        let key = key(values, of: relationship)
        let target: Target
        if let known = targets[key] {
            target = known
        } else {
            target = try newTarget(key, in: destination, place: place)
            targets[key] = target
            order.append(target)
        }
        for (name, value) in values.dropFirst() where !value.isNull {
            let present =
                try target.values[name]
                ?? target.objectID.map { try document.context.existingObject(with: $0) }?
                .attributeValue(forKey: name) ?? .null
            guard present.isNull || present == value else {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” of \(destination.name) “\(text(values[0].value))” is "
                        + "\(text(present)) already, not \(text(value)).",
                    subject: .init(entity: destination.name, property: name))
            }
            if present.isNull { target.values[name] = value }
        }
    }

    private func newTarget(
        _ key: TargetKey, in destination: ResolvedEntity, place: String
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
        if let object = found.first {
            return Target(destination, existing: object.objectID, place: place, values: [:])
        }
        _ = try document.layout.requireConcreteEntity(named: destination.name)
        return Target(
            destination, existing: nil, place: place, values: [key.key: key.value])
    }

    private func text(_ value: AttributeValue) -> String {
        PrintedValue.attribute(value, .undefined).text
    }

    // MARK: - Making

    /// Objects that have been made in a context and are not saved.
    private final class Portion {
        let context: ManagedObjectContext
        /// The new objects, and the targets that they are.
        var made: [(object: ManagedObject, target: Target?)] = []
        /// The number of objects that were inserted or changed.
        var count = 0

        init(_ context: ManagedObjectContext) {
            self.context = context
            context.transactionAuthor = DocumentSession.author
        }
    }

    /// Makes a target, or completes one that was there.
    private func make(_ target: Target, in portion: Portion) throws {
        if !target.isNew && target.values.isEmpty { return }
        let object: ManagedObject
        if let id = target.objectID {
            object = try portion.context.existingObject(with: id)
        } else {
            object = try portion.context.insertObject(entityName: target.entity.name)
            target.objectID = object.objectID
            portion.made.append((object, target))
        }
        for (key, value) in target.values { try object.setValue(value, forKey: key) }
        portion.count += 1
    }

    /// Makes the object of a row.
    private func make(_ row: ImportRow, in portion: Portion) throws {
        let context = portion.context
        let object = try context.insertObject(entityName: row.entity.name)
        for (key, value) in row.attributes { try object.setValue(value, forKey: key) }
        for related in row.relationships {
            let objects: [ManagedObject]
            switch related.objects {
            case .identifiers(let text):
                objects = try document.objects(
                    named: text, for: related.relationship, in: context)
            case .values(let values):
                objects = values.compactMap {
                    targets[key($0, of: related.relationship)]?.objectID.map(context.object)
                }
            }
            try PropertyChange(related.relationship, objects, of: row.entity).apply(to: object)
        }
        portion.made.append((object, nil))
        portion.count += 1
    }

    // MARK: - Saving in portions

    /// Makes and saves everything in one transaction, each portion in a context of its own.
    private func save(_ rows: ImportRows, to store: SQLiteStore) throws -> Result {
        let coordinator = PersistentStoreCoordinator(store: store, rowCacheSize: 1 << 20)
        var portion = Portion(.mainQueue(coordinator: coordinator))
        var ids = ObjectIDRuns()
        func savePortion() throws {
            try portion.context.save()
            for (object, target) in portion.made {
                target?.objectID = object.objectID
                ids.append(object.objectID)
            }
            portion = Portion(.mainQueue(coordinator: coordinator))
        }
        let (related, imported) = try store.saveInOneTransaction {
            for target in order {
                try make(target, in: portion)
                if portion.count == portionSize { try savePortion() }
            }
            try savePortion()
            let related = ids
            ids = ObjectIDRuns()
            try rows.forEach { row in
                try make(row, in: portion)
                if portion.count == portionSize { try savePortion() }
            }
            try savePortion()
            return (related, ids)
        }
        document.didSaveApart()
        return Result(imported: { imported }, related: { related })
    }
}

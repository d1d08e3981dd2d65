import Foundation
import Quire
import QuireSQLite

/// Adds rows to a document: all, or none if anything is wrong with one.
///
/// Rows that have only attributes are inserted into a SQLite store as they are read, in one transaction. All others are read several
/// times. First everything is looked up and checked, without changing anything, also which rows refer to others of the file; then
/// objects are made, which cannot fail any more for the rows' sake. Where the document saves itself afterwards in any case, they
/// are saved in portions of one transaction, so that no more than a portion is in memory; in a session they are unsaved changes.
@MainActor
final class ObjectImport {
    let document: DocumentSession
    private let portionSize: Int
    /// Whether objects that rows refer to, and that do not exist, are made; otherwise these relationships are left empty.
    private let makesRelated: Bool
    /// Counts rows: first those that have been checked, of an unknown number, and then those that have been added.
    private let progress: Progress?
    var targets: [TargetKey: Target] = [:]
    /// The targets in the order in which rows asked for them.
    var order: [Target] = []
    /// The targets that are rows of the file, by the row's index.
    var rowTargets: [Int: Target] = [:]
    let matching: ImportMatching?
    /// The matches of rows, by their index; a row without one is inserted.
    var matches: [Int: Match] = [:]
    /// The numbers of objects in rows' objects that are made for each, by entity.
    var nestedCounts: [String: Int] = [:]

    /// - Parameters:
    ///   - matching: Finds the rows that are objects already; `nil` if each row makes one.
    ///   - portionSize: The number of objects that are saved together.
    init(
        document: DocumentSession, matching: ImportMatching? = nil, portionSize: Int = 1000,
        makesRelated: Bool = true, progress: Progress? = nil
    ) {
        self.makesRelated = makesRelated
        self.document = document
        self.matching = matching
        self.portionSize = portionSize
        self.progress = progress
    }

    /// The numbers of objects that an import inserts, updates and skips.
    struct Counts {
        var inserted = 0
        var updated = 0
        var skipped = 0
        /// The number of related objects that are inserted, by entity.
        var related: [String: Int] = [:]
    }

    /// The action for a row that matches an existing object or an earlier row.
    enum Match {
        case skipped
        case updates(Target)
    }

    /// The result of an import.
    struct Result {
        let counts: Counts
        /// The identifier of an object per row, in their order.
        let imported: @MainActor () -> ObjectIDRuns
        /// The related objects that were inserted.
        let related: @MainActor () -> ObjectIDRuns
    }

    /// An object that rows refer to by a value: one of the document's, one of a row of the file, or one to be made.
    final class Target {
        private(set) var entity: ResolvedEntity
        /// Whether it is yet to be made.
        let isNew: Bool
        /// The row that asked for it first.
        let place: String
        /// The row that it is.
        private(set) var row: (index: Int, place: String)?
        /// Values to give it.
        var values: [String: AttributeValue]
        /// The object in a row that it is, whose relationships it gets.
        var nested: ImportRow?
        /// Whether it does not exist, and is not made.
        var isMissing = false
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

        /// Makes it the object of a row, which may be of a sub-entity.
        func become(_ entity: ResolvedEntity, of row: (index: Int, place: String)) {
            self.entity = entity
            self.row = row
        }
    }

    /// The key by which targets are found.
    struct TargetKey: Hashable {
        var entity: Int
        var key: String
        var value: AttributeValue
    }

    /// Looks everything up and checks it, and changes nothing.
    ///
    /// - Returns: The numbers of objects that ``run(_:)`` would insert, update and skip.
    /// - Throws: `QuireError`, naming the row and the column.
    func check(_ rows: ImportRows) throws -> Counts {
        var index = 0
        var counts = Counts()
        var known = try matching?.objects(of: rows.entity, in: document) ?? [:]
        try rows.forEach { row in
            try Interruption.check()
            let match = try match(row, at: index, among: &known)
            matches[index] = match
            switch match {
            case .skipped: counts.skipped += 1
            case .updates:
                counts.updated += 1
                try row.validateGiven()
                try check(row)
            case nil:
                counts.inserted += 1
                try row.validate()
                try check(row)
            }
            index += 1
            progress?.completedUnitCount = Int64(index)
        }
        try findTargets(in: rows)
        for target in order where target.isNew && target.row == nil {
            target.isMissing = !makesRelated
            if target.isMissing { continue }
            try checkCanBeMade(target)
            counts.related[target.entity.name, default: 0] += 1
        }
        counts.related.merge(nestedCounts, uniquingKeysWith: +)
        progress?.completedUnitCount = 0
        progress?.totalUnitCount = Int64(index)
        return counts
    }

    /// Adds rows.
    ///
    /// - Throws: `QuireError`, naming the row and the column; then nothing is changed.
    func run(_ rows: ImportRows) throws -> Result {
        let store = document.storeToImportInto
        if let store, let result = try insert(rows, into: store) { return result }
        let counts = try check(rows)
        if let store { return try save(rows, counts, to: store) }
        return try document.changingTogether { context in
            let portion = Portion(context)
            for target in order { try make(target, in: portion) }
            var related = portion.made.map(\.object)
            portion.made = []
            var index = 0
            try rows.forEach {
                try make($0, at: index, in: portion)
                index += 1
            }
            try portion.checkIsComplete()
            let imported = portion.made.map(\.object)
            related += portion.nested
            try context.obtainPermanentIDs(for: related + imported)
            let ids = [imported, related].map { ObjectIDRuns($0.lazy.map(\.objectID)) }
            return Result(counts: counts, imported: { ids[0] }, related: { ids[1] })
        }
    }

    // MARK: - Inserting directly

    /// Inserts rows as they are read, in one transaction.
    ///
    /// - Returns: `nil` if nothing was inserted, because a row refers to objects or is invalid; ``check(_:)`` then throws the error.
    private func insert(_ rows: ImportRows, into store: SQLiteStore) throws -> Result? {
        guard matching == nil, !rows.entity.isAbstract,
            rows.entity.relationships.allSatisfy(\.description.isOptional)
        else { return nil }
        struct NeedsObjects: Error {}
        var ids = ObjectIDRuns()
        var isDeclined = false
        do {
            _ = try store.insertRows(
                ofEntityNamed: rows.entity.name,
                origin: TransactionOrigin(author: DocumentSession.author)
            ) { insert in
                try rows.forEach { row in
                    try Interruption.check()
                    do {
                        guard row.relationships.isEmpty, row.entity.number == rows.entity.number
                        else { throw NeedsObjects() }
                        try insert(row.attributes).map { ids.append($0) }
                    } catch let error as QuireError where error.code == .constraintConflict {
                        throw ImportRow.locate(error, row.place)
                    } catch {
                        isDeclined = true
                        throw error
                    }
                    progress?.completedUnitCount = Int64(ids.count)
                }
            }
        } catch {
            guard isDeclined else { throw error }
            progress?.completedUnitCount = 0
            return nil
        }
        document.didSaveApart()
        return Result(
            counts: Counts(inserted: ids.count), imported: { ids }, related: { ObjectIDRuns() })
    }

    // MARK: - Making

    /// Objects that have been made in a context and are not saved.
    private final class Portion {
        let context: ManagedObjectContext
        /// The new objects, and the targets that they are.
        var made: [(object: ManagedObject, target: Target?)] = []
        /// The new objects that are in the objects of rows.
        var nested: [ManagedObject] = []
        /// The number of objects that were inserted or changed.
        var count = 0
        /// The number of objects that rows have referred to before their own rows came.
        var awaited = 0

        init(_ context: ManagedObjectContext) {
            self.context = context
            context.transactionAuthor = DocumentSession.author
        }

        /// - Throws: `QuireError` with code `invalidState` if a row that was there when the file was checked has not come.
        func checkIsComplete() throws {
            if awaited == 0 { return }
            throw QuireError(
                .invalidState, "The file changed during the import; try again.")
        }
    }

    /// Makes a target, or completes one that was there.
    private func make(_ target: Target, in portion: Portion) throws {
        if target.row != nil || target.isMissing || !target.isNew && target.values.isEmpty {
            return
        }
        let object: ManagedObject
        if let id = target.objectID {
            object = try portion.context.existingObject(with: id)
            // Another one referred to it before.
            if target.isNew { portion.awaited -= 1 }
        } else {
            object = try portion.context.insertObject(entityName: target.entity.name)
            target.objectID = object.objectID
        }
        if target.isNew { portion.made.append((object, target)) }
        for (key, value) in target.values { try object.setValue(value, forKey: key) }
        if let nested = target.nested { try setRelationships(of: nested, on: object, in: portion) }
        portion.count += 1
    }

    /// Makes the object of a row, or changes the one that it matches.
    private func make(_ row: ImportRow, at index: Int, in portion: Portion) throws {
        try Interruption.check()
        progress?.completedUnitCount = Int64(index + 1)
        let context = portion.context
        switch matches[index] {
        case .skipped: return
        case .updates(let target):
            let object = try self.object(of: target, in: portion)
            for (key, value) in row.attributes { try object.setValue(value, forKey: key) }
            try setRelationships(of: row, on: object, in: portion)
            portion.count += 1
            return
        case nil: break
        }
        let target = rowTargets[index]
        let object: ManagedObject
        if let id = target?.objectID {
            object = context.object(with: id)
            portion.awaited -= 1
        } else {
            object = try context.insertObject(entityName: row.entity.name)
            target?.objectID = object.objectID
        }
        for (key, value) in target?.values ?? [:] { try object.setValue(value, forKey: key) }
        for (key, value) in row.attributes where !value.isNull || target?.values[key] == nil {
            try object.setValue(value, forKey: key)
        }
        try setRelationships(of: row, on: object, in: portion)
        portion.made.append((object, target))
        portion.count += 1
    }

    /// Sets the relationships that a row names; to-many relationships keep their objects.
    private func setRelationships(
        of row: ImportRow, on object: ManagedObject, in portion: Portion
    ) throws {
        for related in row.relationships {
            var objects: [ManagedObject]
            switch related.objects {
            case .identifiers(let text):
                objects = try document.objects(
                    named: text, for: related.relationship, in: portion.context)
            case .values(let values):
                objects = try values.compactMap {
                    guard let target = targets[key($0, of: related.relationship)],
                        !target.isMissing
                    else { return nil }
                    return try self.object(of: target, in: portion)
                }
            case .rows(let rows):
                objects = try rows.map { try self.object(ofNested: $0, in: portion) }
            }
            // Rows before this one may have referred to it, so that its relationships are not empty any more.
            if objects.isEmpty { continue }
            if related.relationship.isToMany {
                let ids = Set(objects.map(\.objectID))
                objects += object.objects(related.relationship.name)
                    .filter { !ids.contains($0.objectID) }
            }
            try PropertyChange(.set, related.relationship, objects, of: row.entity).apply(
                to: object)
        }
    }

    /// The object of a target. That of a row that has not come yet is inserted, and gets its values when the row comes.
    private func object(of target: Target, in portion: Portion) throws -> ManagedObject {
        if let id = target.objectID { return portion.context.object(with: id) }
        let object = try portion.context.insertObject(entityName: target.entity.name)
        target.objectID = object.objectID
        portion.awaited += 1
        return object
    }

    /// The object of an object in a row's object.
    private func object(ofNested row: ImportRow, in portion: Portion) throws -> ManagedObject {
        if let key = try nestedKey(of: row), let target = targets[key] {
            return try object(of: target, in: portion)
        }
        let object = try portion.context.insertObject(entityName: row.entity.name)
        for (key, value) in row.attributes { try object.setValue(value, forKey: key) }
        try setRelationships(of: row, on: object, in: portion)
        portion.nested.append(object)
        portion.count += 1
        return object
    }

    // MARK: - Saving in portions

    /// Makes and saves everything in one transaction, each portion in a context of its own. A portion goes on until all rows
    /// that its own refer to have come.
    private func save(
        _ rows: ImportRows, _ counts: Counts, to store: SQLiteStore
    ) throws -> Result {
        let coordinator = PersistentStoreCoordinator(store: store, rowCacheSize: 1 << 20)
        var portion = Portion(.mainQueue(coordinator: coordinator))
        var ids = ObjectIDRuns()
        var nestedIDs = ObjectIDRuns()
        func savePortion() throws {
            try portion.context.save()
            for (object, target) in portion.made {
                target?.objectID = object.objectID
                ids.append(object.objectID)
            }
            for object in portion.nested { nestedIDs.append(object.objectID) }
            portion = Portion(.mainQueue(coordinator: coordinator))
        }
        let (related, imported) = try store.saveInOneTransaction {
            for target in order {
                try make(target, in: portion)
                if portion.count >= portionSize && portion.awaited == 0 { try savePortion() }
            }
            try portion.checkIsComplete()
            try savePortion()
            var related = ids
            ids = ObjectIDRuns()
            var index = 0
            try rows.forEach { row in
                try make(row, at: index, in: portion)
                index += 1
                if portion.count >= portionSize && portion.awaited == 0 { try savePortion() }
            }
            try portion.checkIsComplete()
            try savePortion()
            for id in nestedIDs { related.append(id) }
            return (related, ids)
        }
        document.didSaveApart()
        return Result(counts: counts, imported: { imported }, related: { related })
    }
}

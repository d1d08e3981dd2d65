import Foundation
import Quire
import QuireDocuments
import QuireSQLite
import QuireStore

/// The space that the values of a store take, counted object by object.
struct StoreStatistics {
    /// The values of objects of exactly one entity.
    struct EntityUse {
        let entity: ResolvedEntity
        var objects = 0
        /// The bytes of values in the store, and of those in files of their own.
        var bytes: Int64 = 0
        var external: Int64 = 0
        /// The bytes of the pages of the table and its indexes, if it is the entity's own.
        var database: Int64?
    }

    /// An attribute that is null or an empty text in some objects of exactly one entity.
    struct EmptyAttribute {
        let entity: String
        let key: String
        let empty: Int
        let objects: Int
    }

    /// A value with its size.
    struct LargeValue {
        let id: ManagedObjectID
        let key: String
        let bytes: Int64
        let isExternal: Bool
    }

    /// The entities, the largest first.
    private(set) var entities: [EntityUse] = []
    /// The attributes that are empty in at least half of the objects.
    private(set) var empty: [EmptyAttribute] = []
    /// The largest values, the largest first.
    private(set) var largest: [LargeValue] = []
    /// The use of the database's pages; `nil` if the store is not a database, or SQLite cannot tell.
    let database: SQLiteSpaceUse?

    private static let largestCount = 10

    /// Reads all objects of a store.
    ///
    /// - Parameter progress: Counts the objects.
    /// - Throws: Errors of reading.
    init(of store: any PersistentStore, progress: Progress) throws {
        database = try (store as? SQLiteStore)?.spaceUse()
        for entity in store.layout.entities {
            var use = EntityUse(entity: entity)
            use.database = database?.entities[entity.number]
            try count(&use, in: store, progress)
            if !entity.isAbstract || use.database != nil { entities.append(use) }
        }
        func size(_ use: EntityUse) -> Int64 { use.bytes + use.external }
        entities.sort { (size($1), $0.entity.name) < (size($0), $1.entity.name) }
    }

    private mutating func count(
        _ use: inout EntityUse, in store: any PersistentStore, _ progress: Progress
    ) throws {
        let entity = use.entity
        let slots = entity.slots.filter(\.isStored)
        var empty = [Int](repeating: 0, count: entity.slots.count)
        let cursor = try ObjectCursor(entity, of: store)
        while let row = try cursor.next() {
            use.objects += 1
            progress.completedUnitCount += 1
            for slot in slots {
                let (bytes, form) = Self.size(of: try row.valueWithoutLoading(at: slot.index))
                if bytes == 0 { empty[slot.index] += 1 }
                if form == .external { use.external += bytes } else { use.bytes += bytes }
                if form == .fixed { continue }
                note(
                    LargeValue(
                        id: row.objectID, key: slot.name, bytes: bytes,
                        isExternal: form == .external))
            }
        }
        for slot in slots
        where slot.attribute != nil && empty[slot.index] > 0
            && empty[slot.index] * 2 >= use.objects
        {
            self.empty.append(
                EmptyAttribute(
                    entity: entity.name, key: slot.name, empty: empty[slot.index],
                    objects: use.objects))
        }
    }

    private mutating func note(_ value: LargeValue) {
        let isFull = largest.count == Self.largestCount
        if value.bytes <= (isFull ? largest[largest.count - 1].bytes : 0) { return }
        if isFull { largest.removeLast() }
        let place = largest.firstIndex { $0.bytes < value.bytes } ?? largest.endIndex
        largest.insert(value, at: place)
    }

    /// Whether all values of a type have one size, and where others are.
    private enum Form { case fixed, inStore, external }

    private static func size(of value: AttributeValue) -> (Int64, Form) {
        switch value {
        case .null, .composite: (0, .fixed)
        case .string(let text): (Int64(text.utf8.count), .inStore)
        case .uri(let uri): (Int64(uri.absoluteString.utf8.count), .inStore)
        case .binary(let data): (Int64(data.count), .inStore)
        case .external(let data): (Int64(data.size), .external)
        case .uuid: (16, .fixed)
        case .integer, .double, .boolean, .decimal, .date, .objectID: (8, .fixed)
        }
    }
}

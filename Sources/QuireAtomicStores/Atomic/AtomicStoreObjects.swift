import Foundation
public import QuireModel
internal import QuireModelFiles
public import QuireStore
internal import QuireSystem

/// All objects of an ``AtomicStore``, to be written to its file.
public struct AtomicStoreObjects: Sendable {
    private let contents: AtomicContents
    /// What the file is to say of itself: Core Data's keys, what applications have added, the model and what saves have
    /// recorded.
    public let metadata: StoreMetadata

    init(_ contents: AtomicContents, model: ManagedObjectModel) {
        self.contents = contents
        metadata = contents.metadata.carrying(
            model: contents.carriesModel ? model : nil, records: contents.records)
    }

    /// The model, with inheritance and inverses resolved.
    public var layout: ModelLayout { contents.layout }
    /// The number of objects.
    public var count: Int { contents.count }
    /// The greatest primary key that an object has had.
    public var greatestPrimaryKey: Int64 { contents.greatestKey }

    /// Calls a closure with each object, by primary key.
    ///
    /// - Complexity: O(*n* log *n*).
    public func forEach(_ body: (AtomicStoreObject) throws -> Void) rethrows {
        var rows: ContiguousArray<AtomicRow> = []
        rows.reserveCapacity(count)
        contents.forEachRow { rows.append($0) }
        rows.sort {
            $0.identifierBits.primaryKeyBits < $1.identifierBits.primaryKeyBits
        }
        for row in rows {
            try body(
                AtomicStoreObject(contents: contents, row: row, snapshot: contents.snapshot(row)))
        }
    }
}

/// An object of ``AtomicStoreObjects``.
public struct AtomicStoreObject: Sendable {
    let contents: AtomicContents
    let row: AtomicRow
    /// Its values and its version.
    public let snapshot: ObjectSnapshot

    /// Its entity.
    public var entity: EntityLayout { snapshot.entity }
    /// Its primary key, which no other object of the store has.
    public var primaryKey: Int64 { snapshot.objectID.primaryKey }

    /// The primary keys of the objects that a relationship of either kind leads to, in the relationship's order, or
    /// rising. Objects that are not there are left out.
    public func primaryKeys(of relationship: EntityLayout.Relationship) -> [Int64] {
        contents.related(row.identifierBits, through: relationship).map(\.objectID.primaryKey)
    }
}

extension StoreMetadata {
    /// The metadata as a file has it, with what is kept beside it in memory.
    func carrying(model: ManagedObjectModel?, records: [String: String]) -> StoreMetadata {
        var metadata = self
        metadata.values[Key.model] = model.map {
            .string(String(decoding: $0.modelXML(), as: UTF8.self))
        }
        metadata.values[Key.records] =
            records.isEmpty ? nil : .dictionary(records.mapValues { .string($0) })
        return metadata
    }

    /// The model that a file carries.
    ///
    /// - Throws: ``QuireError`` with code `invalidFormat` if it cannot be read.
    package func carriedModel(path: String) throws -> ManagedObjectModel? {
        guard let xml = values[Key.model]?.string else { return nil }
        do {
            return try ManagedObjectModel(modelXML: Data(xml.utf8), name: Key.model)
        } catch let error as QuireError {
            throw QuireError(
                .invalidFormat, "The model that “\(path)” carries cannot be read: \(error.message)",
                subject: .init(file: path), underlying: error)
        }
    }

    /// What saves have recorded in a file.
    var carriedRecords: [String: String] {
        (values[Key.records]?.dictionary ?? [:]).compactMapValues(\.string)
    }

    /// The metadata without what a file carries beside it.
    var withoutCarried: StoreMetadata {
        var metadata = self
        metadata.values[Key.model] = nil
        metadata.values[Key.records] = nil
        return metadata
    }
}

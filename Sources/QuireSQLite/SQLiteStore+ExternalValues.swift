package import Foundation
package import QuireModel
internal import QuireSystem

/// A value that a store keeps in a file.
package struct SQLiteExternalValue: Sendable {
    /// What is known of the bytes of a file.
    package enum State: String, Sendable {
        /// Their digest is recorded.
        case recorded
        /// Nothing is recorded of them.
        case unrecorded
        /// The file is not there.
        case missing
        /// They are not what was saved.
        case damaged
        /// They are what was saved.
        case whole
    }

    /// The object.
    package var objectID: ManagedObjectID
    /// The attribute, or the element of a composite one.
    package var attribute: String
    /// The name of the file.
    package var name: String
    /// The number of its bytes: as recorded, or else as it is.
    package var size: Int64
    /// The digest of its bytes, if it is recorded.
    package var sha256: Data?
    /// What can be told without reading the file.
    package var state: State
    private let file: ExternalDataFile

    fileprivate init(
        _ objectID: ManagedObjectID, _ attribute: String, _ file: ExternalDataFile,
        _ record: ExternalDataRecord?
    ) {
        self.objectID = objectID
        self.attribute = attribute
        self.file = file
        name = file.name
        sha256 = record?.sha256
        let information = file.information
        size = record.map { Int64($0.size) } ?? information?.size ?? 0
        state =
            switch (information, record) {
            case (nil, _): .missing
            case (_, nil): .unrecorded
            case (let information?, let record?):
                information.size == Int64(record.size) ? .recorded : .damaged
            }
    }

    /// What can be told when the file has been read.
    ///
    /// - Throws: ``QuireError`` with code `inputOutput` if it cannot be.
    package func verifiedState() throws -> State {
        guard state == .recorded else { return state }
        do {
            return try ExternalData(.file(file)).verify() ? .whole : .unrecorded
        } catch let error as QuireError where error.code == .invalidFormat {
            return .damaged
        }
    }
}

extension SQLiteStore {
    /// The values that are in files, by entity, object and attribute.
    ///
    /// - Complexity: O(*n*) in the rows of entities with attributes that may be kept in files; no file is read.
    package func externalValues() throws -> [SQLiteExternalValue] {
        var found: [(id: ManagedObjectID, slot: EntityLayout.Slot, name: String)] = []
        try read { connection in
            for entity in layout.entities {
                let place = schema.entity(entity)
                for slot in entity.slots where slot.isExternalCapable {
                    guard let column = place.columns[slot.index] else { continue }
                    let name = SQLName.quoted(column.name)
                    let sql =
                        "SELECT Z_PK, substr(\(name), 1, 38) FROM \(SQLName.quoted(place.tableName)) "
                        + "WHERE substr(\(name), 1, 1) = x'02' AND Z_ENT = ? ORDER BY Z_PK"
                    try connection.withStatement(sql) { statement in
                        try statement.bind(Int64(place.storeNumber), at: 1)
                        while try statement.step() {
                            let key = statement.integer(0)
                            guard key > 0, key <= ManagedObjectID.greatestPrimaryKey,
                                let file = statement.data(1).withUnsafeBytes(
                                    SQLiteExternalData.fileName)
                            else { continue }
                            let id = ManagedObjectID(
                                entityNumber: entity.number, primaryKey: key, store: identity)
                            found.append((id, slot, file))
                        }
                    }
                }
            }
        }
        found.sort {
            ($0.id.entityNumber, $0.id.primaryKey, $0.slot.index) < (
                $1.id.entityNumber, $1.id.primaryKey, $1.slot.index
            )
        }
        return found.map { id, slot, name in
            let file = ExternalDataFile(
                name, in: externalData.place, records: externalData.records)
            return SQLiteExternalValue(id, slot.name, file, file.record)
        }
    }
}

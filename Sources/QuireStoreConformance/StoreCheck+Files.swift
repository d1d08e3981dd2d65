import Quire

extension StoreCheck {
    /// Opening, closing and metadata.
    static let files = [
        StoreCheck("a store that is opened again is the same", needs: [.saving, .reopening]) {
            scene in
            try fill(scene)
            let uuid = scene.store.identity.uuid
            let before = try dump(scene)
            for _ in 0..<2 {
                try scene.reopen()
                scene.expect(scene.store.identity.uuid, is: uuid, "The UUID")
                scene.expect(try dump(scene), is: before, "What the store holds")
            }
        },
        StoreCheck("a closed store answers with errors") { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            try scene.store.close()
            try scene.store.close()
            scene.expectError(.storeUnavailable, when: "a closed store is asked for rows") {
                _ = try scene.store.rows(matching: FetchRequest("Tag"))
            }
            scene.expectError(.storeUnavailable, when: "a closed store is asked for a row") {
                _ = try scene.store.row(for: id)
            }
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: id, version: nil)]
            scene.expectError(.storeUnavailable, when: "a closed store is to save") {
                try scene.store.save(changes)
            }
        },
        StoreCheck("a store for reading only refuses to save", needs: [.saving, .reopening]) {
            scene in
            try fill(scene)
            let before = try dump(scene)
            try scene.reopen(isReadOnly: true)
            scene.expect(scene.store.isReadOnly, "It does not say that it is read-only.")
            scene.expect(try dump(scene), is: before, "What the store holds")
            let id = try scene.store.rows(matching: FetchRequest("Book"))[0].objectID
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: id, version: nil)]
            scene.expectError(.readOnly, when: "it is to save") { try scene.store.save(changes) }
            scene.expectError(.readOnly, when: "identifiers are to be set aside") {
                _ = try scene.store.reserveObjectIDs(
                    for: scene.entity("Tag"), count: 1, durably: true)
            }
            scene.expect(try dump(scene), is: before, "What the store holds afterwards")
        },
        StoreCheck("metadata of applications is kept", needs: [.saving, .metadata]) { scene in
            let value: PropertyListValue = [
                "text": "a <&> b", "number": 7, "truth": true, "list": [1, "two", ["three": 3.5]],
                "data": .data(.init([0, 255])),
            ]
            try scene.store.setMetadata(value, forKey: "com.example.state")
            try scene.store.setMetadata("x", forKey: "gone")
            try scene.store.setMetadata(nil, forKey: "gone")
            scene.expectError(.invalidValue, when: "a key is the framework's") {
                try scene.store.setMetadata("x", forKey: "NSStoreType")
            }
            _ = try scene.insert("Tag", [["name": "a"]])
            func check() throws {
                let metadata = try scene.store.metadata()
                scene.expect(metadata["com.example.state"], is: value, "The value")
                scene.expect(metadata["gone"] == nil, "A removed value is there.")
                scene.expect(metadata.storeUUID, is: scene.store.identity.uuid, "The UUID")
                scene.expect(
                    Set(metadata.entityVersionHashes.keys),
                    is: Set(scene.store.layout.entities.map(\.name)), "The entities with hashes")
            }
            try check()
            if scene.reopens {
                try scene.reopen()
                try check()
            }
        },
    ]

    /// All objects with their values and relationships, as text.
    static func dump(_ scene: StoreScene) throws -> [String] {
        var lines: [String] = []
        for entity in scene.store.layout.entities {
            var request = FetchRequest(entity.name)
            request.includesSubentities = false
            for row in try scene.store.rows(matching: request) {
                var parts = [row.objectID.shortDescription]
                for slot in entity.slots where slot.isStored {
                    parts.append("\(slot.name)=\(try row.value(at: slot.index))")
                }
                for relationship in entity.relationships where relationship.isToMany {
                    let related = try scene.store.relatedRows(
                        of: row.objectID, through: relationship)
                    parts.append(
                        "\(relationship.name)=\(related.map(\.objectID.shortDescription))")
                }
                lines.append(parts.joined(separator: " "))
            }
        }
        return lines
    }
}

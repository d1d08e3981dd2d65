import Quire

extension StoreCheck {
    /// What stands against a save.
    static let conflicts = [
        StoreCheck("versions count saves", needs: [.saving, .versions]) { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            scene.expect(
                try scene.store.row(for: id)?.version, is: 1, "The version of a new object")
            var changes = ChangeSet()
            changes.updated = [try scene.change(id, ["name": "b"])]
            try scene.store.save(changes)
            scene.expect(try scene.store.row(for: id)?.version, is: 2, "The version once changed")
        },
        StoreCheck(
            "versions last", needs: [.saving, .versions, .reopening, .lastingVersions]
        ) { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            var changes = ChangeSet()
            changes.updated = [try scene.change(id, ["name": "b"])]
            try scene.store.save(changes)
            try scene.reopen()
            let row = try scene.store.rows(matching: FetchRequest("Tag")).first
            scene.expect(row?.version, is: 2, "The version when opened again")
        },
        StoreCheck(
            "an object that others have saved is not saved over", needs: [.saving, .versions]
        ) { scene in
            let ids = try scene.insert("Tag", [["name": "a"], ["name": "b"]])
            var changes = ChangeSet()
            changes.updated = [
                try scene.change(ids[1], ["name": "B"]),
                try scene.change(ids[0], version: 7, ["name": "A"]),
            ]
            changes.records = ["r": "x"]
            scene.expectError(.mergeConflict, when: "an object has another version") {
                try scene.store.save(changes)
            }
            scene.expect(try scene.value("name", of: ids[0]), is: "a", "The object in conflict")
            scene.expect(try scene.value("name", of: ids[1]), is: "b", "The object beside it")
            if scene.store.capabilities.contains(.records) {
                scene.expect(try scene.store.records(), is: [:], "The records")
            }
        },
        StoreCheck(
            "deletions of objects that others have saved are refused", needs: [.saving, .versions]
        ) { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: id, version: 5)]
            scene.expectError(.mergeConflict, when: "a deleted object has another version") {
                try scene.store.save(changes)
            }
            scene.expect(try scene.store.row(for: id) != nil, "The object is gone.")
            changes.deleted = [ObjectDeletion(objectID: id, version: nil)]
            try scene.store.save(changes)
            scene.expect(try scene.store.row(for: id) == nil, "The object is there.")
        },
        StoreCheck(
            "changes of objects that are gone, and references to them, are refused",
            needs: [.saving, .versions]
        ) { scene in
            try fill(scene)
            let book = try scene.store.rows(matching: FetchRequest("Book"))[0].objectID
            let gone = try scene.insert("Author", [["name": "x"]])[0]
            var change = try scene.change(gone, ["name": "y"])
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: gone, version: 1)]
            try scene.store.save(changes)
            try scene.store.save(changes)  // What is gone need not be deleted again.
            changes = ChangeSet()
            changes.updated = [change]
            scene.expectError(.mergeConflict, when: "a changed object is gone") {
                try scene.store.save(changes)
            }
            change = try scene.change(book, [:])
            if let relationship = change.entity.relationship(named: "author"),
                let slot = relationship.slot
            {
                change.values[slot] = .objectID(gone)
                change.changedSlots.insert(slot)
            }
            changes.updated = [change]
            scene.expectError(.mergeConflict, when: "an object that is gone is referred to") {
                try scene.store.save(changes)
            }
        },
        StoreCheck(
            "deletions of objects that others refer to by now are refused",
            needs: [.saving, .versions]
        ) { scene in
            let tag = try scene.insert("Tag", [["name": "a"]])[0]
            try scene.perform { context in
                let mark = try context.insertObject(entityName: "Mark")
                mark.setObject(try context.existingObject(with: tag), forKey: "tag")
                try context.save()
            }
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: tag, version: nil)]
            scene.expectError(.mergeConflict, when: "a deleted object is referred to") {
                try scene.store.save(changes)
            }
            scene.expect(try scene.store.row(for: tag) != nil, "The object is gone.")
        },
        StoreCheck(
            "values that must be unique are", needs: [.saving, .constraints],
            model: ConformanceModel.unique
        ) { scene in
            let ids = try scene.insert(
                "Account",
                [
                    ["name": "a", "region": "x", "number": 1],
                    ["name": "b", "region": "x", "number": 2],
                    ["name": .null, "region": "x"], ["name": .null, "region": "x"],
                ])
            for values: [String: AttributeValue] in [
                ["name": "a", "note": "n"], ["name": "c", "region": "x", "number": 2],
            ] {
                scene.expectError(.constraintConflict, when: "a value is there already") {
                    try scene.insertAfresh("Account", values)
                }
            }
            var changes = ChangeSet()
            changes.updated = [try scene.change(ids[1], ["name": "a"])]
            scene.expectError(.constraintConflict, when: "a value is changed to another's") {
                try scene.store.save(changes)
            }
            scene.expect(try scene.count("Account"), is: 4, "The number of objects")
            scene.expect(try scene.value("name", of: ids[1]), is: "b", "The value")
            changes.updated = [
                try scene.change(ids[0], ["name": "b"]), try scene.change(ids[1], ["name": "a"]),
            ]
            try scene.store.save(changes)
            scene.expect(try scene.value("name", of: ids[0]), is: "b", "An exchanged value")
            changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: ids[0], version: nil)]
            try scene.store.save(changes)
            try scene.insertAfresh("Account", ["name": "b"])
        },
    ]
}

extension StoreScene {
    /// Saves an object in a context of its own, which is lost if that fails.
    func insertAfresh(_ entity: String, _ values: [String: AttributeValue]) throws {
        try afresh { context in
            let object = try context.insertObject(entityName: entity)
            for (key, value) in values { object[key] = value }
            try context.save()
        }
    }
}

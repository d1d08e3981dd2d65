import Foundation
import Quire
internal import QuireStore

extension ConformanceCheck {
    /// Saves.
    static let saving: [ConformanceCheck] = [
        ConformanceCheck("saved objects are there, changed ones changed, deleted ones gone") {
            scene in
            let ids = try scene.insert("Tag", [["name": "a"], ["name": "b"], ["name": "c"]])
            try scene.perform { context in
                try context.existingObject(with: ids[0])["name"] = "A"
                context.delete(try context.existingObject(with: ids[1]))
                try context.save()
            }
            try scene.checkAlsoReopened {
                scene.expect(try scene.value("name", of: ids[0]), is: "A", "A changed value")
                scene.expect(try scene.store.row(for: ids[1]) == nil, "A deleted object is there.")
                scene.expect(try scene.value("name", of: ids[2]), is: "c", "An unchanged value")
                scene.expect(try scene.count("Tag"), is: 2, "The number of objects")
            }
        },
        ConformanceCheck("identifiers are given out once") { scene in
            var seen: Set<ManagedObjectID> = []
            for _ in 0..<3 {
                for name in ["Tag", "Book", "Person", "Manager"] {
                    for id in try scene.store.reserveObjectIDs(
                        for: scene.entity(name), count: 5, durably: false)
                    {
                        scene.expect(seen.insert(id).inserted, "\(id) has been given out twice.")
                        scene.expect(!id.isTemporaryID, "\(id) is temporary.")
                        scene.expect(id.entityName, is: name, "The entity of \(id)")
                    }
                }
            }
            let saved = try scene.insert("Tag", [["name": "a"]])[0]
            scene.expect(!seen.contains(saved), "\(saved) was set aside for somebody else.")
        },
        ConformanceCheck(
            "identifiers of deleted objects are not given out again",
            needs: [.saving, .reopening, .lastingIdentifiers]
        ) { scene in
            let ids = try scene.insert("Tag", [["name": "a"], ["name": "b"]])
            try scene.perform { context in
                for id in ids { context.delete(try context.existingObject(with: id)) }
                try context.save()
            }
            try scene.reopen()
            let next = try scene.insert("Tag", [["name": "c"]])[0]
            scene.expect(
                !ids.map(\.uriRepresentation).contains(next.uriRepresentation),
                "\(next) was that of a deleted object.")
        },
        ConformanceCheck("an empty change set changes nothing") { scene in
            scene.expect(
                try scene.store.save(ChangeSet()).isEmpty, "Objects are said to have changed.")
        },
        ConformanceCheck("many objects are saved at once") { scene in
            let ids = try scene.insert(
                "Book",
                (0..<400).map { ["title": .string("b\($0)"), "year": .integer(Int64($0))] })
            scene.expect(try scene.count("Book"), is: 400, "The number of objects")
            if scene.reopens { try scene.reopen() }
            for index in stride(from: 0, to: 400, by: 77) {
                scene.expect(
                    try scene.value("title", of: ids[index]), is: .string("b\(index)"),
                    "The title of object \(index)")
            }
        },
        ConformanceCheck("readers see whole saves", needs: [.saving, .atomicSaves]) { scene in
            let ids = try scene.insert("Author", [["born": 0], ["born": 0]])
            let store = scene.store
            let failures = Failures()
            let group = DispatchGroup()
            for _ in 0..<3 {
                DispatchQueue.global().async(group: group) {
                    do {
                        for _ in 0..<100 {
                            let rows = try store.rows(matching: FetchSpecification("Author"))
                            guard let slot = rows.first?.entity.slot(of: "born") else { continue }
                            let values = try rows.map { try $0.value(at: slot) }
                            if Set(values).count != 1 { failures.add("A reader saw \(values).") }
                        }
                    } catch { failures.add("A reader failed: \(error)") }
                }
            }
            for number in 1...30 {
                var changes = ChangeSet()
                for id in ids {
                    changes.updated.append(
                        try scene.change(id, ["born": .integer(Int64(number))]))
                }
                try store.save(changes)
            }
            group.wait()
            for failure in failures.all { scene.fail(failure) }
        },
        ConformanceCheck("records are kept with saves", needs: [.saving, .records]) { scene in
            try scene.perform { context in
                context.setRecord("one", forKey: "a")
                context.setRecord("zwei <&> 二", forKey: "b")
                try context.save()
                context.setRecord(nil, forKey: "a")
                try context.save()
            }
            try scene.checkAlsoReopened {
                scene.expect(try scene.store.records(), is: ["b": "zwei <&> 二"], "The records")
            }
        },
    ]
}

/// Failures that several threads note.
final class Failures: @unchecked Sendable {
    private let lock = NSLock()
    private var found: [String] = []

    func add(_ failure: String) { lock.withLock { found.append(failure) } }

    var all: [String] { lock.withLock { found } }
}

extension ResolvedEntity {
    /// The slot of an attribute.
    func slot(of name: String) -> Int? {
        if case .attribute(let slot)? = properties[name] { slot } else { nil }
    }
}

// MARK: - Conflicts

extension ConformanceCheck {
    /// Checks of conflicts of saving.
    static let conflicts: [ConformanceCheck] = [
        ConformanceCheck("versions count saves", needs: [.saving, .versions]) { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            scene.expect(
                try scene.store.row(for: id)?.version, is: 1, "The version of a new object")
            var changes = ChangeSet()
            changes.updated = [try scene.change(id, ["name": "b"])]
            try scene.store.save(changes)
            scene.expect(try scene.store.row(for: id)?.version, is: 2, "The version once changed")
        },
        ConformanceCheck(
            "versions last", needs: [.saving, .versions, .reopening, .lastingVersions]
        ) { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            var changes = ChangeSet()
            changes.updated = [try scene.change(id, ["name": "b"])]
            try scene.store.save(changes)
            try scene.reopen()
            let row = try scene.store.rows(matching: FetchSpecification("Tag")).first
            scene.expect(row?.version, is: 2, "The version when opened again")
        },
        ConformanceCheck(
            "an object that others have saved is not saved over", needs: [.saving, .versions]
        ) { scene in
            let ids = try scene.insert("Tag", [["name": "a"], ["name": "b"]])
            var changes = ChangeSet()
            changes.updated = [
                try scene.change(ids[1], ["name": "B"]),
                try scene.change(ids[0], version: 7, ["name": "A"]),
            ]
            if scene.store.capabilities.contains(.records) { changes.records = ["r": "x"] }
            scene.expectError(.mergeConflict, when: "an object has another version") {
                try scene.store.save(changes)
            }
            scene.expect(try scene.value("name", of: ids[0]), is: "a", "The object in conflict")
            scene.expect(try scene.value("name", of: ids[1]), is: "b", "The object beside it")
            if scene.store.capabilities.contains(.records) {
                scene.expect(try scene.store.records(), is: [:], "The records")
            }
        },
        ConformanceCheck(
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
        ConformanceCheck(
            "changes of objects that are gone, and references to them, are refused",
            needs: [.saving, .versions]
        ) { scene in
            try fill(scene)
            let book = try scene.store.rows(matching: FetchSpecification("Book"))[0].objectID
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
        ConformanceCheck(
            "deletions of objects that others refer to by now are refused",
            needs: [.saving, .versions]
        ) { scene in
            let tag = try scene.insert("Tag", [["name": "a"]])[0]
            try scene.perform { context in
                let mark = try context.insertObject(entityName: "Mark")
                mark["tag"] = try context.existingObject(with: tag)
                try context.save()
            }
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: tag, version: nil)]
            scene.expectError(.mergeConflict, when: "a deleted object is referred to") {
                try scene.store.save(changes)
            }
            scene.expect(try scene.store.row(for: tag) != nil, "The object is gone.")
        },
        ConformanceCheck(
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

// MARK: - Batch requests

extension ConformanceCheck {
    /// Derived attributes.
    static let derived: [ConformanceCheck] = [
        ConformanceCheck(
            "derived attributes follow what they are derived from",
            needs: [.saving, .derivedAttributes], model: ConformanceModel.derived
        ) { scene in
            let order = try scene.insert("Order", [["customer": "Zoë"]])[0]
            let ids = try scene.perform { context in
                let order = try context.existingObject(with: order)
                let items = try ([3, 4] as [Int64]).map { amount in
                    let item = try context.insertObject(entityName: "Item")
                    item["amount"] = amount
                    item["order"] = order
                    return item
                }
                try context.save()
                return items.map(\.objectID)
            }
            func check(_ count: Int64, _ total: Int64, _ customer: AttributeValue) throws {
                scene.expect(
                    try scene.value("itemCount", of: order), is: .integer(count), "A count")
                scene.expect(try scene.value("total", of: order), is: .integer(total), "A sum")
                scene.expect(try scene.value("customer", of: ids[0]), is: customer, "A copy")
            }
            try check(2, 7, "Zoë")
            scene.expect(
                try scene.value("customerKey", of: order), is: "zoe", "A text in canonical form")
            var changes = ChangeSet()
            changes.updated = [try scene.change(ids[0], ["amount": 10])]
            let told = try scene.store.save(changes)
            scene.expect(told, is: [order], "The objects whose derived values have changed")
            try check(2, 14, "Zoë")
            changes.updated = [try scene.change(order, ["customer": "Ann"])]
            try scene.store.save(changes)
            try check(2, 14, "Ann")
            try scene.perform { context in
                context.delete(try context.existingObject(with: ids[1]))
                try context.save()
            }
            try scene.checkAlsoReopened { try check(1, 10, "Ann") }
        }
    ]

    /// Batch requests.
    static let batches: [ConformanceCheck] = [
        ConformanceCheck("batches insert", needs: [.saving, .batchRequests]) { scene in
            var request = BatchInsertRequest(
                entityName: "Book",
                objects: (0..<10).map { ["title": .string("b\($0)"), "year": .integer(Int64($0))] })
            request.resultType = .objectIDs
            let result = try scene.store.insert(request, onConflict: .error)
            scene.expect(result.count, is: 10, "The count")
            scene.expect(result.changes.inserted.count, is: 10, "The number of identifiers")
            scene.expect(try scene.count("Book"), is: 10, "The number of objects")
            scene.expectError(.invalidValue, .unknownKey, when: "a row is wrong") {
                _ = try scene.store.insert(
                    BatchInsertRequest(
                        entityName: "Book", objects: [["title": "x"], ["nothing": 1]]),
                    onConflict: .error)
            }
            scene.expect(try scene.count("Book"), is: 10, "The number of objects after a failure")
            if scene.reopens { try scene.reopen() }
            scene.expect(try scene.count("Book"), is: 10, "The number of objects when reopened")
        },
        ConformanceCheck(
            "batches take over stored objects", needs: [.saving, .batchRequests, .constraints],
            model: ConformanceModel.unique
        ) { scene in
            let id = try scene.insert("Account", [["name": "a", "number": 1]])[0]
            scene.expectError(.constraintConflict, when: "a value is there already") {
                _ = try upsert(scene, .error, ["name": "a"])
            }
            scene.expect(
                try upsert(scene, .rollback, ["name": "a", "note": "s"]).count, is: 0,
                "The count, skipping")
            _ = try upsert(
                scene, .mergeByPropertyStoreTrump, ["name": "a", "number": 2, "note": "f"])
            scene.expect(try scene.value("number", of: id), is: 1, "A value that was there")
            scene.expect(try scene.value("note", of: id), is: "f", "A value that was missing")
            scene.expect(
                try upsert(scene, .mergeByPropertyStoreTrump, ["name": "a", "note": "g"]),
                is: BatchResult(count: 0),
                "The result, with nothing missing")
            _ = try upsert(scene, .mergeByPropertyObjectTrump, ["name": "a", "number": 3])
            scene.expect(try scene.value("number", of: id), is: 3, "A named value")
            scene.expect(try scene.value("note", of: id), is: "f", "A value that is not named")
            _ = try upsert(scene, .overwrite, ["name": "a"])
            scene.expect(try scene.value("number", of: id), is: .null, "A replaced value")
            scene.expect(try scene.count("Account"), is: 1, "The number of objects")
        },
        ConformanceCheck("batches update", needs: [.saving, .batchRequests, .versions]) { scene in
            try fill(scene)
            var request = BatchUpdateRequest(
                entityName: "Book",
                predicate: try QueryPredicate(format: "author.name == 'Austen'"),
                propertiesToUpdate: [
                    "isOut": .constant(.boolean(false)),
                    "year": try QueryExpression(format: "year + 1"),
                ])
            request.resultType = .objectIDs
            let result = try scene.store.update(request)
            scene.expect(result.count, is: 2, "The count")
            for id in result.changes.updated {
                scene.expect(try scene.value("isOut", of: id), is: false, "A constant")
                scene.expect(try scene.store.row(for: id)?.version, is: 2, "The version")
            }
            scene.expect(
                try scene.read(
                    FetchSpecification("Book", sortOrderings: [SortOrdering("year")]), "year"),
                is: [1816, 1818, 1871], "The years")
            request.propertiesToUpdate = ["isOut": try QueryExpression(format: "price / price")]
            for id in try scene.store.update(request).changes.updated {
                scene.expect(try scene.value("isOut", of: id), is: true, "A computed truth value")
            }
            request.propertiesToUpdate = ["year": QueryExpression.key("price")]
            scene.expectError(.invalidValue, when: "a computed value is not of its type") {
                _ = try scene.store.update(request)
            }
        },
        ConformanceCheck("batches delete as the rules say", needs: [.saving, .batchRequests]) {
            scene in
            try fill(scene)
            let result = try scene.store.delete(
                BatchDeleteRequest(
                    fetchRequest: FetchSpecification(
                        "Author", predicate: try QueryPredicate(format: "name == 'Austen'"))))
            scene.expect(result.count, is: 4, "The count, of author, books and cover")
            scene.expect(try scene.count("Cover"), is: 0, "The number of covers")
            scene.expect(
                try related(scene, "Tag", "novel", "books", "title"), is: ["Middlemarch"],
                "The books tagged “novel”")
            try scene.perform { context in
                let mark = try context.insertObject(entityName: "Mark")
                mark["tag"] = try one(context, "Tag", "name", "novel")
                try context.save()
            }
            scene.expectError(.deleteDenied, when: "a relationship denies it") {
                _ = try scene.store.delete(
                    BatchDeleteRequest(fetchRequest: FetchSpecification("Tag")))
            }
            scene.expect(try scene.count("Tag"), is: 2, "The number of tags")
        },
    ]

    /// The accounts that a row changes.
    private static func upsert(
        _ scene: StoreScene, _ policy: MergePolicy.Kind, _ row: [String: AttributeValue]
    ) throws -> BatchResult {
        var request = BatchInsertRequest(entityName: "Account", objects: [row])
        request.resultType = .objectIDs
        return try scene.store.insert(request, onConflict: policy)
    }
}

import Quire

extension StoreCheck {
    /// Derived attributes.
    static let derived = [
        StoreCheck(
            "derived attributes follow what they are derived from",
            needs: [.saving, .derivedAttributes], model: ConformanceModel.derived
        ) { scene in
            let order = try scene.insert("Order", [["customer": "Zoë"]])[0]
            let ids = try scene.perform { context in
                let order = try context.existingObject(with: order)
                let items = try [3, 4].map { amount in
                    let item = try context.insertObject(entityName: "Item")
                    item["amount"] = .integer(amount)
                    item.setObject(order, forKey: "order")
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
            try check(1, 10, "Ann")
            if scene.reopens {
                try scene.reopen()
                try check(1, 10, "Ann")
            }
        }
    ]

    /// Batch requests.
    static let batches = [
        StoreCheck("batches insert", needs: [.saving, .batchRequests]) { scene in
            var request = BatchInsertRequest(
                entityName: "Book",
                objects: (0..<10).map { ["title": .string("b\($0)"), "year": .integer(Int64($0))] })
            request.resultType = .objectIDs
            let result = try scene.store.insert(request, onConflict: .refuse)
            scene.expect(result.count, is: 10, "The count")
            scene.expect(result.changes.inserted.count, is: 10, "The number of identifiers")
            scene.expect(try scene.count("Book"), is: 10, "The number of objects")
            scene.expectError(.invalidValue, .unknownKey, when: "a row is wrong") {
                _ = try scene.store.insert(
                    BatchInsertRequest(
                        entityName: "Book", objects: [["title": "x"], ["nothing": 1]]),
                    onConflict: .refuse)
            }
            scene.expect(try scene.count("Book"), is: 10, "The number of objects after a failure")
            if scene.reopens { try scene.reopen() }
            scene.expect(try scene.count("Book"), is: 10, "The number of objects when reopened")
        },
        StoreCheck(
            "batches take over stored objects", needs: [.saving, .batchRequests, .constraints],
            model: ConformanceModel.unique
        ) { scene in
            let id = try scene.insert("Account", [["name": "a", "number": 1]])[0]
            func upsert(_ rule: UpsertRule, _ row: [String: AttributeValue]) throws -> Int {
                try scene.store.insert(
                    BatchInsertRequest(entityName: "Account", objects: [row]), onConflict: rule
                ).count
            }
            scene.expectError(.constraintConflict, when: "a value is there already") {
                _ = try upsert(.refuse, ["name": "a"])
            }
            scene.expect(
                try upsert(.skip, ["name": "a", "note": "s"]), is: 0, "The count, skipping")
            _ = try upsert(.fill, ["name": "a", "number": 2, "note": "f"])
            scene.expect(try scene.value("number", of: id), is: 1, "A value that was there")
            scene.expect(try scene.value("note", of: id), is: "f", "A value that was missing")
            _ = try upsert(.update, ["name": "a", "number": 3])
            scene.expect(try scene.value("number", of: id), is: 3, "A named value")
            scene.expect(try scene.value("note", of: id), is: "f", "A value that is not named")
            _ = try upsert(.replace, ["name": "a"])
            scene.expect(try scene.value("number", of: id), is: .null, "A replaced value")
            scene.expect(try scene.count("Account"), is: 1, "The number of objects")
        },
        StoreCheck("batches update", needs: [.saving, .batchRequests, .versions]) { scene in
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
                try scene.read(FetchRequest("Book", sortOrderings: [SortOrdering("year")]), "year"),
                is: [1816, 1818, 1871], "The years")
        },
        StoreCheck("batches delete as the rules say", needs: [.saving, .batchRequests]) { scene in
            try fill(scene)
            let result = try scene.store.delete(
                BatchDeleteRequest(
                    fetchRequest: FetchRequest(
                        "Author", predicate: try QueryPredicate(format: "name == 'Austen'"))))
            scene.expect(result.count, is: 4, "The count, of author, books and cover")
            scene.expect(try scene.count("Cover"), is: 0, "The number of covers")
            scene.expect(
                try related(scene, "Tag", "novel", "books", "title"), is: ["Middlemarch"],
                "The books tagged “novel”")
            try scene.perform { context in
                let mark = try context.insertObject(entityName: "Mark")
                mark.setObject(try one(context, "Tag", "name", "novel"), forKey: "tag")
                try context.save()
            }
            scene.expectError(.deleteDenied, when: "a relationship denies it") {
                _ = try scene.store.delete(BatchDeleteRequest(fetchRequest: FetchRequest("Tag")))
            }
            scene.expect(try scene.count("Tag"), is: 2, "The number of tags")
        },
    ]
}

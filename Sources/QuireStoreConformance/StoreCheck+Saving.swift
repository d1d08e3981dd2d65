import Foundation
import Quire

extension StoreCheck {
    /// Saves.
    static let saving = [
        StoreCheck("saved objects are there, changed ones changed, deleted ones gone") { scene in
            let ids = try scene.insert("Tag", [["name": "a"], ["name": "b"], ["name": "c"]])
            try scene.perform { context in
                try context.existingObject(with: ids[0])["name"] = "A"
                context.delete(try context.existingObject(with: ids[1]))
                try context.save()
            }
            func check() throws {
                scene.expect(try scene.value("name", of: ids[0]), is: "A", "A changed value")
                scene.expect(try scene.store.row(for: ids[1]) == nil, "A deleted object is there.")
                scene.expect(try scene.value("name", of: ids[2]), is: "c", "An unchanged value")
                scene.expect(try scene.count("Tag"), is: 2, "The number of objects")
            }
            try check()
            if scene.reopens {
                try scene.reopen()
                try check()
            }
        },
        StoreCheck("identifiers are given out once") { scene in
            var seen: Set<ManagedObjectID> = []
            for _ in 0..<3 {
                for name in ["Tag", "Book", "Person", "Manager"] {
                    for id in try scene.store.reserveObjectIDs(
                        for: scene.entity(name), count: 5, durably: false)
                    {
                        scene.expect(seen.insert(id).inserted, "\(id) has been given out twice.")
                        scene.expect(!id.isTemporary, "\(id) is temporary.")
                        scene.expect(id.entityName, is: name, "The entity of \(id)")
                    }
                }
            }
            let saved = try scene.insert("Tag", [["name": "a"]])[0]
            scene.expect(!seen.contains(saved), "\(saved) was set aside for somebody else.")
        },
        StoreCheck(
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
        StoreCheck("an empty change set changes nothing") { scene in
            scene.expect(
                try scene.store.save(ChangeSet()).isEmpty, "Objects are said to have changed.")
        },
        StoreCheck("many objects are saved at once") { scene in
            let ids = try scene.insert(
                "Book",
                (0..<2000).map { ["title": .string("b\($0)"), "year": .integer(Int64($0))] })
            scene.expect(try scene.count("Book"), is: 2000, "The number of objects")
            if scene.reopens { try scene.reopen() }
            for index in stride(from: 0, to: 2000, by: 333) {
                scene.expect(
                    try scene.value("title", of: ids[index]), is: .string("b\(index)"),
                    "The title of object \(index)")
            }
        },
        StoreCheck("readers see whole saves") { scene in
            let ids = try scene.insert("Author", [["born": 0], ["born": 0]])
            let store = scene.store
            let failures = Failures()
            let group = DispatchGroup()
            for _ in 0..<3 {
                DispatchQueue.global().async(group: group) {
                    do {
                        for _ in 0..<100 {
                            let rows = try store.rows(matching: FetchRequest("Author"))
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
        StoreCheck("records are kept with saves", needs: [.saving, .records]) { scene in
            try scene.perform { context in
                context.setRecord("one", forKey: "a")
                context.setRecord("zwei <&> 二", forKey: "b")
                try context.save()
                context.setRecord(nil, forKey: "a")
                try context.save()
            }
            scene.expect(try scene.store.records(), is: ["b": "zwei <&> 二"], "The records")
            if scene.reopens {
                try scene.reopen()
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

extension EntityLayout {
    /// The slot of an attribute.
    func slot(of name: String) -> Int? {
        if case .attribute(let slot)? = properties[name] { slot } else { nil }
    }
}

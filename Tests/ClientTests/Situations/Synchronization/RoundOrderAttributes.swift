import Foundation
import Quire

extension OfflineEdits {
    private static let tasks = ManagedObjectModel {
        Entity("List") {
            Attribute("name", .string)
            Attribute("note", .string)
            ToMany("tasks", "Task", inverse: "list").deleteRule(.cascade)
        }
        Entity("Task") {
            Attribute("name", .string)
            Attribute("note", .string)
            Attribute("done", .boolean)
            Attribute("priority", .integer16)
            ToOne("list", "List", inverse: "tasks")
            ToMany("steps", "Step", inverse: "task").deleteRule(.cascade)
        }
        Entity("Step") {
            Attribute("name", .string)
            ToOne("task", "Task", inverse: "steps").required()
        }
    }

    private static let counted = ManagedObjectModel {
        Entity("Card") {
            Attribute("name", .string)
            Attribute("lapses", .integer32).default(0).userInfo(["syncPolicy": .string("counter")])
            Attribute("best", .integer32).userInfo(["syncPolicy": .string("maximum")])
            Attribute("due", .integer32)
            Attribute("text", .string).userInfo(["syncPolicy": .string("text")])
        }
    }

    private static let derived = ManagedObjectModel {
        Entity("Account") {
            Attribute("name", .string)
            Attribute("canonical", .string).derived("canonical:(name)")
            Attribute("count", .integer64).derived("entries.@count")
            Attribute("total", .double).derived("entries.amount.@sum")
            ToMany("entries", "Entry", inverse: "account").deleteRule(.cascade)
        }
        Entity("Entry") {
            Attribute("name", .string)
            Attribute("amount", .double)
            ToOne("account", "Account", inverse: "entries")
        }
    }

    private static let composite = ManagedObjectModel {
        Composite("Place") {
            Attribute("city", .string)
            Attribute("street", .string)
        }
        Entity("Person") {
            Attribute("name", .string)
            Attribute("home", composite: "Place")
            Attribute("photo", .binary).externalStorage()
        }
    }

    static let attributes = [
        // The value that was set last wins, whoever has a connection first: WatermelonDB issue 1114.
        OfflineEdits(
            "oneAttributeOnBothSides", tasks,
            start: { try $0.insert("Task", "milk") },
            [
                [
                    (0, { try $0.object("Task", "milk")["note"] = "first" }),
                    (1, { try $0.object("Task", "milk")["note"] = "second" }),
                ]
            ],
            rows: ["Task milk note=second"],
            conflicts: ["value Task.note: first lost, second kept"]),
        // Three people, of whom the first edits again at last.
        OfflineEdits(
            "oneAttributeOnThreeSides", tasks,
            start: { try $0.insert("Task", "milk", ["priority": 1]) },
            [
                [
                    (0, { try $0.object("Task", "milk")["priority"] = 2 }),
                    (1, { try $0.object("Task", "milk")["priority"] = 3 }),
                    (2, { try $0.object("Task", "milk")["priority"] = nil }),
                    (0, { try $0.object("Task", "milk")["priority"] = 4 }),
                ]
            ],
            rows: ["Task milk priority=4"],
            conflicts: [
                "value Task.priority: 3 lost, 4 kept", "value Task.priority: null lost, 4 kept",
            ]),
        // Different attributes of one object merge: mjtsai and others of iCloud Core Data's per-attribute merge.
        OfflineEdits(
            "differentAttributes", tasks,
            start: { try $0.insert("Task", "milk", ["note": "1 l", "priority": 1]) },
            [
                [
                    (0, { try $0.object("Task", "milk")["note"] = "2 l" }),
                    (1, { try $0.object("Task", "milk")["done"] = true }),
                    (0, { try $0.object("Task", "milk")["priority"] = nil }),
                ]
            ],
            rows: ["Task milk done=true note=2 l"]),
        // Both set the same value.
        OfflineEdits(
            "theSameValueOnBothSides", tasks,
            start: { try $0.insert("Task", "milk") },
            [
                [
                    (0, { try $0.object("Task", "milk")["note"] = "same" }),
                    (1, { try $0.object("Task", "milk")["note"] = "same" }),
                ]
            ],
            rows: ["Task milk note=same"]),
        // A conflict that the user has settled with a new value is not listed any more.
        OfflineEdits(
            "aConflictThatALaterEditSettles", tasks,
            start: { try $0.insert("Task", "milk") },
            [
                [
                    (0, { try $0.object("Task", "milk")["note"] = "first" }),
                    (1, { try $0.object("Task", "milk")["note"] = "second" }),
                ],
                [(0, { try $0.object("Task", "milk")["note"] = "first and second" })],
            ],
            rows: ["Task milk note=first and second"]),
        // Lapses of a card are lost because another device has rescheduled it: open-spaced-repetition/fsrs4anki-helper issue 648.
        OfflineEdits(
            "countersOnBothSides", counted,
            start: { try $0.insert("Card", "house", ["lapses": 5, "best": 10]) },
            [
                [
                    (0, { try $0.object("Card", "house")["lapses"] = 6 }),
                    (1, { try $0.object("Card", "house")["due"] = 20 }),
                    (1, { try $0.object("Card", "house")["lapses"] = 7 }),
                    (2, { try $0.object("Card", "house")["best"] = 8 }),
                    (0, { try $0.object("Card", "house")["best"] = 12 }),
                ]
            ],
            rows: ["Card house best=12 due=20 lapses=8"]),
        // A text of several lines, edited in different lines; then in the same one.
        OfflineEdits(
            "aTextInDifferentLines", counted,
            start: { try $0.insert("Card", "house", ["text": "1\n2\n3\n4\n5\n"]) },
            [
                [
                    (0, { try $0.object("Card", "house")["text"] = "one\n2\n3\n4\n5\n" }),
                    (1, { try $0.object("Card", "house")["text"] = "1\n2\n3\n4\nfive\n" }),
                    (2, { try $0.object("Card", "house")["text"] = "1\n2\n3\nX\n4\n5\n" }),
                ]
            ],
            rows: ["Card house lapses=0 text=one\n2\n3\nX\n4\nfive\n"]),
        // Derived attributes are not sent; each machine has those of what it has merged.
        OfflineEdits(
            "derivedAttributes", derived,
            start: {
                let account = try $0.insert("Account", "Épargne")
                try $0.insert("Entry", "a", ["amount": 1.5, "account": account])
                try $0.insert("Entry", "b", ["amount": 2.5, "account": account])
            },
            [
                [
                    (
                        0,
                        {
                            let account = try $0.object("Account", "Épargne")
                            try $0.insert("Entry", "c", ["amount": 10.0, "account": account])
                        }
                    ),
                    (1, { try $0.delete("Entry", "a") }),
                    (2, { try $0.object("Entry", "b")["amount"] = 3.0 }),
                    (2, { try $0.object("Account", "Épargne")["name"] = "Zürich" }),
                ]
            ],
            rows: [
                "Account Zürich canonical=zurich count=2 entries{b c} total=13.0",
                "Entry b account→Zürich amount=3.0", "Entry c account→Zürich amount=10.0",
            ]),
        // The elements of a composite attribute are properties of their own.
        OfflineEdits(
            "elementsOfACompositeAndABinary", composite,
            start: {
                let person = try $0.insert(
                    "Person", "Ada", ["photo": Data(repeating: 1, count: 10)])
                try person.setValue(["city": "London", "street": "1"], forKey: "home")
            },
            [
                [
                    (0, { try $0.object("Person", "Ada")["home.city"] = "Bath" }),
                    (1, { try $0.object("Person", "Ada")["home.street"] = "2" }),
                    (
                        1,
                        {
                            try $0.object("Person", "Ada")["photo"] = Data(
                                repeating: 2, count: 300_000)
                        }
                    ),
                ]
            ],
            rows: ["Person Ada home=(city: Bath, street: 2) photo=300000×2"]),
    ]

    static let deletions = [
        // A deletion against an edit: the user who has deleted is confused to see it again. PouchDB issue 6810.
        OfflineEdits(
            "aDeletionAndALaterEdit", tasks,
            start: {
                try $0.insert("Task", "milk")
                try $0.insert("Task", "eggs")
            },
            [
                [
                    (0, { try $0.delete("Task", "milk") }),
                    (1, { try $0.object("Task", "milk")["note"] = "2 l" }),
                    (1, { try $0.object("Task", "eggs")["note"] = "6" }),
                    (0, { try $0.delete("Task", "eggs") }),
                ]
            ],
            rows: [],
            conflicts: [
                "deletion Task.note: 2 l lost, null kept", "deletion Task.note: 6 lost, null kept",
            ]),
        // Each deletes what the other has inserted: Ensembles issue 198.
        OfflineEdits(
            "eachDeletesWhatTheOtherHasInserted", tasks,
            start: { _ in },
            [
                [
                    (0, { try $0.insert("Task", "d1") }), (0, { try $0.insert("Task", "d2") }),
                    (1, { try $0.insert("Task", "s1") }), (1, { try $0.insert("Task", "s2") }),
                ],
                [
                    (0, { try $0.delete("Task", "s1") }), (0, { try $0.delete("Task", "s2") }),
                    (1, { try $0.delete("Task", "d1") }), (1, { try $0.delete("Task", "d2") }),
                ],
            ],
            rows: []),
        // Both delete the same.
        OfflineEdits(
            "bothDelete", tasks,
            start: {
                let list = try $0.insert("List", "home")
                try $0.insert("Task", "milk", ["list": list])
            },
            [
                [
                    (0, { try $0.delete("Task", "milk") }),
                    (1, { try $0.delete("List", "home") }),
                ]
            ],
            rows: []),
        // What is inserted and deleted before it is sent: WatermelonDB issue 1462.
        OfflineEdits(
            "whatIsInsertedAndDeletedBetweenRounds", tasks,
            start: { try $0.insert("List", "home") },
            [
                [
                    (0, { try $0.insert("Task", "milk", ["list": $0.object("List", "home")]) }),
                    (0, { try $0.delete("Task", "milk") }),
                    (1, { try $0.insert("Task", "eggs", ["list": $0.object("List", "home")]) }),
                ]
            ],
            rows: ["List home tasks{eggs}", "Task eggs list→home"]),
        // One deletes a list with its tasks, the other adds a task to it. The relationship is optional: the task stays, without a
        // list. Realm Core issue 7682.
        OfflineEdits(
            "aListIsDeletedAndGetsATask", tasks,
            start: {
                let list = try $0.insert("List", "home")
                try $0.insert("Task", "milk", ["list": list])
            },
            [
                [
                    (0, { try $0.delete("List", "home") }),
                    (1, { try $0.insert("Task", "eggs", ["list": $0.object("List", "home")]) }),
                ]
            ],
            rows: ["Task eggs"]),
        // The same with a step that requires its task: hidden, and listed. pointfreeco/sqlite-data issue 424 (dropped silently).
        OfflineEdits(
            "aTaskIsDeletedByCascadeAndGetsAStepThatRequiresIt", tasks,
            start: {
                let list = try $0.insert("List", "home")
                try $0.insert("Task", "milk", ["list": list])
            },
            [
                [
                    (0, { try $0.delete("List", "home") }),
                    (1, { try $0.insert("Step", "go", ["task": $0.object("Task", "milk")]) }),
                ]
            ],
            rows: [],
            conflicts: ["hidden Step.task go: null lost, null kept"]),
        // One deletes a list, the other moves a task out of it.
        OfflineEdits(
            "aListIsDeletedAndATaskIsMovedOutOfIt", tasks,
            start: {
                let list = try $0.insert("List", "home")
                try $0.insert("List", "work")
                try $0.insert("Task", "milk", ["list": list])
            },
            [
                [
                    (0, { try $0.delete("List", "home") }),
                    (1, { try $0.object("Task", "milk")["list"] = $0.object("List", "work") }),
                ]
            ],
            rows: ["List work"],
            conflicts: ["deletion Task.list: work lost, null kept"]),
        // One moves a task to a list that the other deletes; a third edits the task.
        OfflineEdits(
            "aTaskIsMovedToAListThatIsDeleted", tasks,
            start: {
                let list = try $0.insert("List", "home")
                try $0.insert("List", "work")
                try $0.insert("Task", "milk", ["list": list])
            },
            [
                [
                    (0, { try $0.object("Task", "milk")["list"] = $0.object("List", "work") }),
                    (1, { try $0.delete("List", "work") }),
                    (2, { try $0.object("Task", "milk")["done"] = true }),
                ]
            ],
            rows: ["List home", "Task milk done=true"]),
    ]
}

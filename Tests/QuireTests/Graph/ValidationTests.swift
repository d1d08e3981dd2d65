import Foundation
import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct ValidationTests {
    struct ISBNError: Error, Equatable { var text: String }

    final class Volume: ManagedObject {
        override func validateValue(_ value: inout AttributeValue, forKey key: String) throws {
            try super.validateValue(&value, forKey: key)
            guard key == "isbn", case .string(let text) = value else { return }
            value = .string(text.replacingOccurrences(of: "-", with: ""))
            if text.contains("X") { throw ISBNError(text: text) }
        }

        override func validateForInsert() throws {
            try super.validateForInsert()
            try validateDates()
        }

        override func validateForUpdate() throws {
            try super.validateForUpdate()
            try validateDates()
        }

        override func validateForDelete() throws {
            try super.validateForDelete()
            if self["isbn", as: String.self] == "keep" {
                throw QuireError(.deleteDenied, "It must be kept.")
            }
        }

        private func validateDates() throws {
            if let pages = self["pages", as: Int64.self], pages == 13 {
                throw QuireError(.invalidValue, "Thirteen is no number of pages.")
            }
        }
    }

    private static let model: ManagedObjectModel = {
        var model = ManagedObjectModel(entities: [
            FixtureModels.entity(
                "Item", FixtureModels.attribute("name", .string, optional: false),
                FixtureModels.attribute("code", .string) {
                    $0.minimum = 2
                    $0.maximum = 4
                    $0.regularExpression = "[A-Z]+"
                },
                FixtureModels.attribute("count", .integer16) {
                    $0.minimum = 1
                    $0.maximum = 10
                },
                FixtureModels.attribute("kind", .string) {
                    $0.validationPredicates = [
                        ValidationPredicate("SELF IN {'a', 'bb', 'long'}"),
                        ValidationPredicate("length < 4", message: "is too much to read"),
                        ValidationPredicate("name != SELF"),
                    ]
                },
                FixtureModels.toOne("box", "Box", "items")),
            FixtureModels.entity(
                "Box",
                FixtureModels.toMany("items", "Item", "box", .deny) {
                    $0.isOptional = false
                    $0.minimumCount = 2
                    $0.maximumCount = 3
                }),
            FixtureModels.entity(
                "Volume", FixtureModels.attribute("isbn", .string, optional: false),
                FixtureModels.attribute("pages", .integer32) { $0.minimum = 1 }),
        ])
        model.entities[2].objectClass = Volume.self
        return model
    }()

    let stack: TestStack
    let context: ManagedObjectContext

    init() throws {
        stack = try TestStack(Self.model)
        context = stack.mainContext()
    }

    private func item() throws -> ManagedObject {
        let item = try context.insertObject(entityName: "Item")
        item["name"] = "n"
        return item
    }

    private func failures() -> [QuireError] {
        let error = #expect(throws: QuireError.self) { try context.save() }
        guard let error else { return [] }
        return error.failures.isEmpty ? [error] : error.failures
    }

    @Test(arguments: [
        ("name", AttributeValue.null, QuireError.Rule.required, nil),
        ("code", "A", .minimumLength, "“A”"), ("code", "ABCDE", .maximumLength, "“ABCDE”"),
        ("code", "abc", .regularExpression, "“abc”"), ("count", 0, .minimum, "0"),
        ("count", 11, .maximum, "11"), ("kind", "c", .predicate, "“c”"),
        ("kind", "long", .predicate, "“long”"),
    ])
    func aFailureNamesObjectPropertyRuleAndValue(
        key: String, value: AttributeValue, rule: QuireError.Rule, shown: String?
    ) throws {
        let item = try item()
        try context.save()
        item[key] = value
        let failure = try #require(failures().first)
        #expect(failure.code == .validation)
        #expect(failure.subject.entity == "Item")
        #expect(failure.subject.property == key)
        #expect(failure.subject.object == item.objectID.uriRepresentation)
        #expect(failure.subject.rule == rule)
        #expect(failure.subject.value == shown)
        #expect(failure.message.contains(item.objectID.shortDescription))
        #expect(failure.message.contains(shown ?? "required"))
    }

    nonisolated private static let impossible: [(String, any Sendable)] = [
        ("int16", 40_000), ("int32", 1 << 40), ("int64", 1.5), ("double", Int.max),
        ("float", 1e300), ("boolean", 2),
        ("date", Date(timeIntervalSinceReferenceDate: .infinity)),
        ("date", Date(timeIntervalSinceReferenceDate: -1e300)), ("decimal", Double.infinity),
    ]

    @Test(arguments: impossible.indices)
    func valuesThatAnAttributeCannotHoldAreRefusedByTheSave(index: Int) throws {
        let (key, value) = Self.impossible[index]
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        context.undoManager = UndoManager()
        let object = try context.insertObject(entityName: "Everything")
        let other = try context.insertObject(entityName: "Everything")
        try context.save()
        object[key] = value
        for _ in 0..<2 {
            let error = #expect(throws: QuireError.self) { try context.save() }
            #expect(error?.code == .validation)
            #expect(error?.subject.property == key)
            #expect(error?.subject.object == object.objectID.uriRepresentation)
            #expect(throws: QuireError.self) { try object.validate() }
            // Undone and redone, the value is as impossible as before.
            context.undo()
            #expect(object[key] == nil)
            context.redo()
        }
        other["string"] = "a"
        #expect(throws: QuireError.self) { try context.save() }
        object[key] = nil
        try context.save()
        #expect(throws: QuireError.self) { try object.setValue(value, forKey: key) }
    }

    @Test func notANumberIsAMissingValue() throws {
        let stack = try TestStack(FixtureModels.everyType)
        let context = stack.mainContext()
        let object = try context.insertObject(entityName: "Everything")
        object["double"] = 1.5
        object["double"] = Double.nan
        object["float"] = Float.nan
        object["decimal"] = Decimal.nan
        object["date"] = Date(timeIntervalSinceReferenceDate: .nan)
        for key in ["double", "float", "decimal", "date"] { #expect(object[key] == nil) }
        try context.save()
    }

    @Test func predicatesMaySayWhatIsWrongAndLookAtOtherProperties() throws {
        let item = try item()
        item["kind"] = "long"
        #expect(failures().first?.message.hasSuffix("it is too much to read.") == true)
        item["kind"] = "a"
        item["name"] = "a"
        #expect(failures().first?.message.contains("does not satisfy “name != SELF”") == true)
        item["name"] = "b"
        try context.save()
        item["kind"] = nil
        try context.save()
    }

    @Test func longValuesAreShortened() throws {
        let item = try item()
        item["code"] = String(repeating: "A", count: 5000)
        let failure = try #require(failures().first)
        #expect(failure.message.count < 300)
        #expect(failure.subject.value?.hasSuffix("…”") == true)
    }

    @Test func aBadPredicateIsTheModelsFault() throws {
        var model = Self.model
        guard case .attribute(var attribute) = model.entities[0].properties[3] else { return }
        attribute.validationPredicates = [ValidationPredicate("nothing.at.all == 1")]
        model.entities[0].properties[3] = .attribute(attribute)
        let stack = try TestStack(model)
        let context = stack.mainContext()
        let item = try context.insertObject(entityName: "Item")
        item["name"] = "n"
        item["kind"] = "a"
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(error?.code == .validation)
        #expect((error?.underlying as? QuireError)?.code == .invalidModel)
        #expect(error?.message.contains("nothing.at.all == 1") == true)
    }

    @Test func predicatesSurviveModelFiles() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Model.xcdatamodel")
        try Self.model.write(to: path)
        let read = try ManagedObjectModel(contentsOf: path)
        let kinds = [read, Self.model].map { model in
            model.entities.first { $0.name == "Item" }?.attributes.first { $0.name == "kind" }
        }
        #expect(kinds[0]?.validationPredicates.count == 3)
        #expect(kinds[0]?.validationPredicates == kinds[1]?.validationPredicates)
        #expect(kinds[0]?.userInfo == [:])
    }

    @Test func everyFailureOfEveryObjectIsCollected() throws {
        let (first, second) = (try item(), try item())
        first["name"] = nil
        first["count"] = 0
        second["code"] = "a"
        let box = try context.insertObject(entityName: "Box")
        box.add(first, to: "items")
        let volume = Volume(context: context)
        volume["pages"] = 0
        let failures = failures()
        #expect(
            failures.map { "\($0.subject.entity ?? "").\($0.subject.property ?? "")" } == [
                "Item.name", "Item.count", "Item.code", "Box.items", "Volume.isbn", "Volume.pages",
            ])
        #expect(failures[3].subject.rule == .minimumCount)
        #expect(failures[3].subject.value == "1")
    }

    @Test(arguments: [(0, QuireError.Rule.required), (1, .minimumCount), (4, .maximumCount)])
    func countsAreChecked(count: Int, rule: QuireError.Rule) throws {
        let box = try context.insertObject(entityName: "Box")
        for _ in 0..<count { box.add(try item(), to: "items") }
        #expect(failures().map(\.subject.rule) == [rule])
        if count < 2 { for _ in count..<2 { box.add(try item(), to: "items") } }
        if count > 3 { box.remove(box.objects("items")[0], from: "items") }
        try context.save()
    }

    @Test func denialListsAllThatBlocks() throws {
        let box = try context.insertObject(entityName: "Box")
        let items = try (0..<3).map { _ in try item() }
        box["items"] = items
        try context.save()
        context.delete(box)
        let error = try #require(#expect(throws: QuireError.self) { try context.save() })
        #expect(error.code == .deleteDenied)
        #expect(error.subject.rule == .deny)
        let denial = try #require(error.underlying as? DeletionDenial)
        #expect(denial.objectID == box.objectID && denial.relationship == "items")
        #expect(Set(denial.blockingObjectIDs) == Set(items.map(\.objectID)))
        #expect(Set(error.subject.relatedObjects) == Set(items.map(\.objectID.uriRepresentation)))
        for item in items { context.delete(item) }
        try context.save()
    }

    // MARK: Classes

    @Test func aClassMayReplaceAndRefuseValues() throws {
        let volume = Volume(context: context)
        volume["isbn"] = "1-2-3"
        try context.save()
        #expect(try stack.stored("Volume", "isbn") == ["string(\"123\")"])
        volume["isbn"] = "X"
        let failure = try #require(failures().first)
        #expect(failure.code == .validation)
        #expect(failure.subject.property == "isbn")
        #expect(failure.subject.rule == .custom)
        #expect(failure.underlying as? ISBNError == ISBNError(text: "X"))
        #expect(failure.message.contains(volume.objectID.shortDescription))
    }

    @Test func aClassChecksObjectsAsAWhole() throws {
        let volume = Volume(context: context)
        volume["isbn"] = "keep"
        volume["pages"] = 13
        let failure = try #require(failures().first)
        #expect(failure.code == .validation)
        #expect(failure.message.contains("Thirteen"))
        #expect((failure.underlying as? QuireError)?.code == .invalidValue)
        volume["pages"] = 14
        try context.save()
        volume["pages"] = 13
        #expect(failures().count == 1)
        volume["pages"] = 14
        context.delete(volume)
        #expect(failures().map(\.code) == [.deleteDenied])
        context.rollback()
        #expect(!volume.isDeleted)
    }

    @Test func valuesCanBeValidatedBeforeTheyAreSet() throws {
        let item = try item()
        var value: AttributeValue = 5
        try item.validateValue(&value, forKey: "count")
        value = "five"
        let wrong = #expect(throws: QuireError.self) {
            try item.validateValue(&value, forKey: "count")
        }
        #expect(wrong?.code == .invalidValue)
        value = 50
        let high = #expect(throws: QuireError.self) {
            try item.validateValue(&value, forKey: "count")
        }
        #expect(high?.subject.rule == .maximum)
        #expect(item["count", as: Int64.self] == nil)
        #expect(throws: QuireError.self) { try item.validateValue(&value, forKey: "nothing") }
        item["count"] = 50
        #expect(throws: QuireError.self) { try item.validate() }
    }
}

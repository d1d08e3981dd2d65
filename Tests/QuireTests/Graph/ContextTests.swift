import Foundation
import Quire
import QuireTestSupport
import Testing

@MainActor @Suite struct ContextTests {
    let stack: TestStack

    init() throws { stack = try TestStack() }

    private func book(_ title: String, _ context: ManagedObjectContext) throws -> ManagedObject {
        let book = try context.insertObject(entityName: "Book")
        book["title"] = title
        return book
    }

    @Test(arguments: ContextArrangement.allCases)
    func savingMakesIdentifiersPermanent(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let emma = try book("Emma", context)
        #expect(emma.objectID.isTemporaryID)
        #expect(emma.isInserted)
        try stack.save(context)
        #expect(!emma.objectID.isTemporaryID)
        #expect(!emma.hasChanges)
        #expect(context.object(with: emma.objectID) === emma)
        let uuid = stack.coordinator.store.identity.uuid
        #expect(emma.objectID.uriRepresentation == "x-coredata://\(uuid)/Book/p1")
        #expect(try stack.coordinator.objectID(for: "Book/p1") == emma.objectID)
    }

    @Test(arguments: ContextArrangement.allCases)
    func changesReachTheStore(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let emma = try book("Emma", context)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "Jane Austen"
        emma["author"] = author
        try stack.save(context)
        emma["year"] = 1815
        try stack.save(context)
        emma["year"] = 1816
        emma["price"] = Decimal(string: "12.50")!
        try stack.save(context)
        let other = stack.mainContext()
        let read = try #require(try other.fetch(FetchRequest("Book")).first)
        #expect(read["year", as: Int64.self] == 1816)
        #expect(read["price", as: Decimal.self] == Decimal(string: "12.5"))
        #expect(read.object("author")?["name", as: String.self] == "Jane Austen")
        context.delete(emma)
        try stack.save(context)
        #expect(try stack.mainContext().fetch(FetchRequest("Book")).isEmpty)
    }

    @Test func thereIsOneObjectPerIdentifier() throws {
        let context = stack.mainContext()
        _ = try book("Emma", context)
        try context.save()
        let other = stack.mainContext()
        let first = try other.fetch(FetchRequest("Book"))[0]
        let second = try other.fetch(FetchRequest("Book"))[0]
        #expect(first === second)
        #expect(other.object(with: first.objectID) === first)
    }

    @Test func objectsNobodyHoldsAreReleased() throws {
        let context = stack.mainContext()
        let id = try {
            let emma = try book("Emma", context)
            try context.save()
            return emma.objectID
        }()
        #expect(context.registeredObject(for: id) == nil)
        #expect(context.object(with: id)["title", as: String.self] == "Emma")
        #expect(context.registeredObject(for: id) == nil)
    }

    @Test func aFaultFiresWhenAValueIsAskedFor() throws {
        let context = stack.mainContext()
        let id = try {
            let emma = try book("Emma", context)
            try context.save()
            return emma.objectID
        }()
        let fault = context.object(with: id)
        #expect(fault.isFault)
        #expect(fault["title", as: String.self] == "Emma")
        #expect(!fault.isFault)
    }

    @Test func aFaultWhoseRowIsGoneHasNoValuesAndSaysSo() throws {
        let context = stack.mainContext()
        let id = try {
            let emma = try book("Emma", context)
            try context.save()
            return emma.objectID
        }()
        let fault = context.object(with: id)
        let other = stack.mainContext()
        other.delete(other.object(with: id))
        try other.save()
        #expect(fault["title", as: String.self] == nil)
        #expect(fault.isInaccessible)
        #expect(context.lastFaultError?.code == .notFound)
        let error = #expect(throws: QuireError.self) { try context.existingObject(with: id) }
        #expect(error?.code == .notFound)
    }

    @Test(arguments: ContextArrangement.allCases)
    func rollbackRestoresSavedState(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let emma = try book("Emma", context)
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        emma["author"] = author
        try stack.save(context)
        let added = try book("New", context)
        emma["title"] = "Changed"
        emma["author"] = nil
        context.delete(author)
        context.rollback()
        #expect(!context.hasChanges)
        #expect(added.managedObjectContext == nil)
        #expect(emma["title", as: String.self] == "Emma")
        #expect(emma.object("author") === author)
        #expect(author.objects("books") == [emma])
        #expect(!author.isDeleted)
    }

    @Test func resetForgetsEverything() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        context.reset()
        #expect(!context.hasChanges)
        #expect(emma.managedObjectContext == nil)
    }

    @Test(arguments: ContextArrangement.allCases)
    func validationFailureSavesNothingAndKeepsChanges(arrangement: ContextArrangement) throws {
        let context = stack.context(arrangement)
        let emma = try book("Emma", context)
        let untitled = try context.insertObject(entityName: "Book")
        let error = #expect(throws: QuireError.self) { try stack.save(context) }
        #expect(error?.code == .validation)
        #expect(error?.subject.property == "title")
        #expect(context.insertedObjects == [emma, untitled])
        #expect(try stack.mainContext().count(for: FetchRequest("Book")) == 0)
        untitled["title"] = "Titled"
        try stack.save(context)
        #expect(try stack.stored("Book", "title") == ["string(\"Emma\")", "string(\"Titled\")"])
    }

    @Test func savingTwiceTheSameVersionConflicts() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        try context.save()
        let other = stack.mainContext()
        let theirs = other.object(with: emma.objectID)
        theirs["year"] = 1
        emma["year"] = 2
        try context.save()
        let error = #expect(throws: QuireError.self) { try other.save() }
        #expect(error?.code == .mergeConflict)
        #expect(theirs.isUpdated)
        #expect(theirs["year", as: Int64.self] == 1)
        #expect(try stack.stored("Book", "year") == ["integer(2)"])
    }

    @Test func twoContextsMayAddToTheSameOwner() throws {
        let context = stack.mainContext()
        let author = try context.insertObject(entityName: "Author")
        author["name"] = "A"
        try context.save()
        let other = stack.mainContext()
        let theirs = try book("two", other)
        theirs["author"] = other.object(with: author.objectID)
        try book("one", context)["author"] = author
        try context.save()
        try other.save()
        let third = stack.mainContext()
        #expect(third.object(with: author.objectID).objectIDs("books").count == 2)
    }

    @Test func unknownKeysAndWrongTypesThrow() throws {
        let context = stack.mainContext()
        let emma = try book("Emma", context)
        #expect(throws: QuireError.self) { try emma.attributeValue(forKey: "nonsense") }
        #expect(throws: QuireError.self) { try emma.setValue("text", forKey: "year") }
        #expect(throws: QuireError.self) {
            try emma.setAttributeValue(.integer(70_000), forKey: "year")
        }
        #expect(throws: QuireError.self) { try context.insertObject(entityName: "Nonsense") }
        #expect(throws: QuireError.self) {
            try EntityDescription.insertNewObject(forEntityName: "Nonsense", into: context)
        }
        let tag = try EntityDescription.insertNewObject(forEntityName: "Tag", into: context)
        #expect(tag.managedObjectContext === context && tag.entity.name == "Tag")
        #expect(throws: QuireError.self) { try stack.coordinator.objectID(for: "Book") }
        #expect(throws: QuireError.self) { try stack.coordinator.objectID(for: "Book/p-1") }
    }

    @Test func anEntitysDescriptionHasInheritedProperties() throws {
        let stack = try TestStack()
        let manager = try stack.mainContext().insertObject(entityName: "Manager")
        let model = stack.coordinator.managedObjectModel
        for entity in [
            manager.entity, try #require(model.entity(named: "Manager")),
            try #require(model.entitiesByName["Manager"]),
        ] {
            #expect(entity.name == "Manager")
            #expect(entity.properties.map(\.name) == ["reports"])
            #expect(
                entity.propertiesByName.keys.sorted()
                    == ["manager", "name", "reports", "salary", "spouse"])
            #expect(entity.attributesByName["salary"]?.type == .double)
            #expect(entity.relationshipsByName["spouse"]?.destinationEntityName == "Person")
            // The properties of superentities are no part of the description.
            #expect(entity == FixtureModels.library.entities.first { $0.name == "Manager" })
        }
    }

    @Test func anObjectIsMadeOfItsEntity() throws {
        let stack = try TestStack()
        let context = stack.mainContext()
        let model = stack.coordinator.managedObjectModel
        let tag = try ManagedObject(
            entity: try #require(model.entity(named: "Tag")), insertInto: context)
        tag["name"] = "red"
        try context.save()
        #expect(try context.count(for: FetchRequest("Tag")) == 1)
        let abstract = ManagedObjectModel {
            Entity("Shape") { Attribute("name", .string) }.abstract()
            Entity("Circle", inherits: "Shape") {}
        }
        let shapeStack = try TestStack(abstract)
        let shapes = shapeStack.mainContext()
        #expect(throws: QuireError.self) {
            try ManagedObject(entity: EntityDescription(name: "Shape"), insertInto: shapes)
        }
        let error = #expect(throws: QuireError.self) {
            try ManagedObject(entity: EntityDescription(name: "Square"), insertInto: shapes)
        }
        #expect(error?.code == .unknownEntity)
    }
}

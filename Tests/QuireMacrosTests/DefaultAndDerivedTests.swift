import Foundation
import Quire
import QuireMacros
import QuireTestSupport
import Testing

private enum Size: String { case small, large }

@Entity private final class Shelf: ManagedObject {
    @Attribute(userInfo: ["place": "hall"]) var name: String = "unnamed"
    @Attribute(userInfo: ["rank": 1]) var size: Size = .small
    @Attribute var width: Double = -1.5
    @Attribute var limit: Int? = 40
    @Attribute var note: String? = nil
    @Attribute(derived: "volumes.@count") var volumeCount: Int
    @Attribute(derived: "volumes.pages.@sum") var pageCount: Int64
    @Relationship(inverse: \Volume.shelf) var volumes: Set<Volume> = []
    @FetchedProperty(predicate: "shelf == $FETCH_SOURCE AND pages > 200") var thick: [Volume]
    @FetchedProperty(
        predicate: "shelf == $FETCH_SOURCE",
        sortOrderings: [SortOrdering("pages", ascending: false)], fetchLimit: 2, fetchOffset: 1)
    var thinner: [Volume]
}

@Entity private final class Volume: ManagedObject {
    @Attribute(.indexed, minimum: 1) var pages: Int64 = 100
    @Attribute(derived: "shelf.name") var shelfName: String?
    @Relationship var shelf: Shelf? = nil
}

@Entity(unique: [["row", "column"]]) private final class Seat: ManagedObject {
    @Attribute var width: Double
    @Attribute var isTaken: Bool
    @Attribute var price: Decimal
    @Attribute(maximum: -1) var level: Int16
    @Attribute(.required) var weight: Int32
    @Attribute(.required) var owner: String?
    @Attribute(.unique) var number: Int64
    @Attribute var row: Int
    @Attribute var column: Int
    @Attribute var label: String
    @Attribute var cents: Price
}

/// Default values as initial values, derived attributes and fetched properties of typed classes.
@MainActor @Suite struct DefaultAndDerivedTests {
    private let stack: TestStack
    private let context: ManagedObjectContext

    init() throws {
        stack = try TestStack(ManagedObjectModel(classes: [Shelf.self]))
        context = stack.mainContext()
    }

    @Test func attributesHaveTheirUserInfo() throws {
        let model = try ManagedObjectModel(classes: [Shelf.self])
        let attributes = try #require(model.entity(named: "Shelf")).attributesByName
        #expect(attributes["name"]?.userInfo == ["place": "hall"])
        #expect(attributes["size"]?.userInfo == ["rank": 1])
        #expect(attributes["width"]?.userInfo == [:])
    }

    @Test func initialValuesAreTheModelsDefaultValues() throws {
        let model = try ManagedObjectModel(classes: [Shelf.self])
        let shelf = try #require(model.entity(named: "Shelf"))
        let defaults = ["name", "size", "width", "limit", "note"].map {
            shelf.attributesByName[$0]?.defaultValue
        }
        #expect(
            defaults == [.string("unnamed"), .string("small"), .double(-1.5), .integer(40), .null])
        let volume = try #require(model.entity(named: "Volume")?.attributesByName["pages"])
        #expect(volume.defaultValue == .integer(100) && volume.minimum == .integer(1))
    }

    @Test func numbersAndBooleansBeginWithZeroUnlessTheyAreUniqueOrRequired() throws {
        let model = try ManagedObjectModel(classes: [Seat.self])
        let seat = try #require(model.entity(named: "Seat")?.attributesByName)
        #expect(seat["width"]?.defaultValue == .double(0))
        #expect(seat["isTaken"]?.defaultValue == .boolean(false))
        #expect(seat["price"]?.defaultValue == .decimal(0))
        let required = ["level", "weight", "number", "row", "column", "owner", "label", "cents"]
        for name in required { #expect(seat[name]?.defaultValue == .null, "\(name)") }
        #expect(seat.values.allSatisfy { !$0.isOptional })

        let stack = try TestStack(model)
        let context = stack.mainContext()
        let object = Seat(context: context)
        #expect(object["width"] as? Double == 0 && object.owner == nil && object.weight == 0)
        let error = #expect(throws: QuireError.self) { try context.save() }
        #expect(Set((error?.failures ?? []).compactMap(\.subject.property)) == Set(required))
        object.level = -1
        object.weight = 70
        (object.number, object.row, object.column) = (1, 0, 0)
        (object.owner, object.label, object.cents) = ("Anne", "A1", Price(cents: 5))
        try context.save()
    }

    @Test func defaultValuesAreNotPartOfTheVersionHash() throws {
        let model = try ManagedObjectModel(classes: [Seat.self])
        var other = model
        for index in other.entities[0].properties.indices {
            guard case .attribute(var attribute) = other.entities[0].properties[index] else {
                continue
            }
            attribute.defaultValue = .null
            other.entities[0].properties[index] = .attribute(attribute)
        }
        #expect(model.entityVersionHashes() == other.entityVersionHashes())
    }

    @Test func newObjectsHaveThem() throws {
        let shelf = Shelf(context: context)
        #expect(shelf.name == "unnamed" && shelf.size == .small && shelf.width == -1.5)
        #expect(shelf.limit == 40 && shelf.note == nil && shelf.volumes.isEmpty)
        shelf.limit = nil
        shelf.size = .large
        try context.save()
        let other = stack.mainContext()
        let again = try #require(try other.fetch(Shelf.self).first)
        #expect(again.limit == nil && again.size == .large && again.name == "unnamed")
        // What is not there is read as the default value, as a row that a later version of the model finds.
        again["name"] = nil
        #expect(again.name == "unnamed")
    }

    @Test func derivedAttributesFollowWhatTheyAreDerivedFrom() throws {
        let shelf = Shelf(context: context)
        #expect(shelf.volumeCount == 0)
        let volume = Volume(context: context)
        volume.shelf = shelf
        Volume(context: context).shelf = shelf
        volume.pages = 250
        shelf.name = "novels"
        #expect(shelf.volumeCount == 2 && shelf.pageCount == 350 && volume.shelfName == "novels")
        try context.save()
        let other = stack.mainContext()
        let found = try other.fetch(Shelf.self, where: #Predicate { $0.volumeCount == 2 })
        #expect(found.first?.pageCount == 350)
        #expect(try other.fetch(Volume.self).allSatisfy { $0.shelfName == "novels" })
        let error = #expect(throws: QuireError.self) {
            try shelf.setValue(3, forKey: "volumeCount")
        }
        #expect(error?.code == .invalidValue)
    }

    @Test func fetchedPropertiesFindTheirObjects() throws {
        let shelf = Shelf(context: context)
        let volumes = [100, 300, 400].map { (pages: Int64) in
            let volume = Volume(context: context)
            volume.pages = pages
            return volume
        }
        for volume in volumes.dropLast() { volume.shelf = shelf }
        #expect(shelf.thick == [volumes[1]])
        // They stay what they were until the object is refreshed.
        volumes[2].shelf = shelf
        #expect(shelf.thick == [volumes[1]])
        try context.save()
        context.refresh(shelf, mergeChanges: false)
        #expect(Set(shelf.thick) == Set(volumes.dropFirst()))
        #expect(shelf["thick"] as? [ManagedObject] == shelf.thick)
        #expect(Shelf.propertyName(for: \.thick) == nil)
        #expect(shelf.thinner.map(\.pages) == [300, 100])
    }

    @Test func aClassMustFitTheFetchedPropertyOfAModel() throws {
        var model = try ManagedObjectModel(classes: [Shelf.self])
        let index = try #require(model.entities.firstIndex { $0.name == "Shelf" })
        model.entities[index].properties.removeAll { $0.name == "thick" }
        let error = #expect(throws: QuireError.self) { try TestStack(model) }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.contains("“thick”") == true)
    }
}

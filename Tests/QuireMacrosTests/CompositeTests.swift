import Foundation
import Quire
import QuireMacros
import QuireTestSupport
import Testing

private enum Kind: String, CaseIterable, Codable { case house, flat, office }

@Composite private struct Place: Equatable, Codable {
    var latitude: Double
    var longitude: Double
    var isExact: Bool = true
}

@Composite private struct Address: Equatable, Codable {
    var street: String
    var number: Int?
    var kind: Kind = .house
    var floor: Kind?
    var place: Place?
    static let country = "England"
    var line: String { "\(street) \(number ?? 0)" }
}

@Entity private final class Resident: ManagedObject {
    @Attribute var name: String
    @Attribute var home: Address
    @Attribute(key: "office") var work: Address?
    @Relationship(inverse: "guests") var host: Resident?
    @Relationship var guests: Set<Resident>
}

private enum Mode: String, Codable { case slow, fast }

private struct Cents: AttributeRepresentable, Codable, Equatable {
    var number: Int64
    static let attributeTypes = [AttributeType.integer64]
    static let missingValue = Cents(number: 0)

    init(number: Int64) { self.number = number }

    init?(attributeValue value: AttributeValue) {
        guard case .integer(let number) = value else { return nil }
        self.number = number
    }

    var attributeValue: AttributeValue { .integer(number) }
}

@Composite private struct Motor: Equatable, Codable {
    var mode: Mode = .slow
    var spare: Mode?
}

@Composite private struct Settings: Equatable, Codable {
    var mode: Mode = .slow
    var price: Cents = Cents(number: 0)
    var motor: Motor?
    var shown: Mode { mode }
}

@Entity private final class Trip: ManagedObject {
    @Attribute var settings: Settings
    @Attribute var later: Settings?
    @Attribute var mode: Mode = Mode.slow
    @Attribute var speed: Double?
    @Relationship(inverse: "trips") var bill: Bill?
}

@Entity private final class Bill: ManagedObject {
    @Relationship var trips: Set<Trip>
}

@Entity(name: "Resident") private final class Guest: ManagedObject {
    @Attribute var home: Address
    @Attribute(key: "office") var work: Place?
}

/// Composite attributes of typed classes.
@MainActor @Suite struct CompositeTests {
    private let stack: TestStack
    private let context: ManagedObjectContext
    private let bath = Address(
        street: "Sydney Place", number: 4, kind: .flat, floor: nil,
        place: Place(latitude: 51.38, longitude: -2.36))

    init() throws {
        stack = try TestStack(ManagedObjectModel(classes: [Resident.self]))
        context = stack.mainContext()
    }

    private func insert(_ name: String, home: Address? = nil, work: Address? = nil) -> Resident {
        let person = Resident(context: context)
        person.name = name
        if let home { person.home = home }
        person.work = work
        return person
    }

    @Test func theModelHasTheComposites() throws {
        let model = try ManagedObjectModel(classes: [Resident.self])
        #expect(model.composites.map(\.name) == ["Address", "Place"])
        let address = try #require(model.composites.first)
        #expect(address.elements.map(\.name) == ["street", "number", "kind", "floor", "place"])
        #expect(
            address.elements.map(\.type) == [.string, .integer64, .string, .string, .composite])
        #expect(address.elements.allSatisfy { $0.isOptional && $0.defaultValue.isNull })
        #expect(address.elements.last?.compositeName == "Place")
        let work = try #require(model.entity(named: "Resident")?.attributesByName["office"])
        #expect(work.type == .composite && work.compositeName == "Address" && work.isOptional)
    }

    @Test func aValueIsReadAsItWasWritten() throws {
        let person = insert("Jane", home: bath)
        #expect(person.home == bath && person.work == nil)
        person.home.number = 5
        person.work = Address(street: "Milsom Street", kind: .office)
        #expect(person["home.number"] as? Int == 5)
        #expect(person["office", as: Address.self] == person.work)
        try context.save()
        let other = stack.mainContext()
        let stored = try #require(try other.fetch(Resident.self).first)
        #expect(stored.home.number == 5 && stored.home.place == bath.place)
        #expect(stored.work?.street == "Milsom Street" && stored.work?.place == nil)
        stored.work = nil
        #expect(stored.work == nil && stored["office.street"] == nil)
        try other.save()
    }

    @Test func aValueThatWasNotSetIsThatOfTheInitialValues() throws {
        let person = insert("Jane")
        #expect(person.home == Address(street: "", number: nil, kind: .house))
        #expect(person.work == nil)
        try context.save()
        person["home.kind"] = "castle"
        #expect(person.home.kind == .house)
    }

    @Test func changesCanBeUndone() throws {
        let person = insert("Jane", home: bath)
        try context.save()
        context.undoManager = UndoManager()
        person.home.street = "Milsom Street"
        context.processPendingChanges()
        context.undo()
        #expect(person.home == bath)
    }

    @Test func keyPathsNameElements() {
        #expect(Resident.propertyName(for: \.home) == "home")
        #expect(Resident.propertyName(for: \.home.street) == "home.street")
        #expect(Resident.propertyName(for: \.home.number) == "home.number")
        #expect(Resident.propertyName(for: \.home.kind) == "home.kind")
        #expect(Resident.propertyName(for: \.home.floor) == "home.floor")
        #expect(Resident.propertyName(for: \.home.place?.longitude) == "home.place.longitude")
        #expect(Resident.propertyName(for: \.work?.place?.isExact) == "office.place.isExact")
        #expect(Resident.propertyName(for: \.host?.work?.street) == "host.office.street")
        #expect(Resident.propertyName(for: \.home.line) == nil)
        #expect(Resident.propertyName(for: \.home.street.count) == nil)
    }

    @Test func requestsLookAtElements() throws {
        _ = insert("Jane", home: bath)
        _ = insert("Anne", home: Address(street: "Camden Place"), work: bath)
        for saved in [false, true] {
            if saved { try context.save() }
            func names(_ predicate: Predicate<Resident>) throws -> [String] {
                try context.fetch(
                    Resident.self, where: predicate, sortBy: [SortDescriptor(\.home.street)]
                ).map(\.name)
            }
            #expect(try names(#Predicate { $0.home.number == 4 }) == ["Jane"])
            #expect(try names(#Predicate { $0.home.street.contains("Place") }) == ["Anne", "Jane"])
            #expect(try names(#Predicate { $0.work?.place?.latitude ?? 0 > 51 }) == ["Anne"])
            let byText = FetchRequest<Resident>(
                predicate: try QueryPredicate(format: "home.kind == 'flat'"))
            #expect(try context.fetch(byText).map(\.name) == ["Jane"])
        }
        let error = #expect(throws: QuireError.self) {
            _ = try context.fetch(Resident.self, where: #Predicate { $0.home.line == "" })
        }
        #expect(error?.code == .unsupported)
    }

    /// Their names are not found by values, of which only one is known.
    @Test func keyPathsNameElementsOfAnyType() throws {
        #expect(Trip.propertyName(for: \.settings.mode) == "settings.mode")
        #expect(Trip.propertyName(for: \.settings.price) == "settings.price")
        #expect(Trip.propertyName(for: \.later?.mode) == "later.mode")
        #expect(Trip.propertyName(for: \.later?.motor?.mode) == "later.motor.mode")
        #expect(Trip.propertyName(for: \.settings.motor?.spare) == "settings.motor.spare")
        #expect(Trip.propertyName(for: \.bill?.trips.count) == nil)
        #expect(Trip.propertyName(for: \.settings.shown) == nil)
        #expect(Trip.propertyName(for: \.settings.mode.rawValue) == nil)
        let stack = try TestStack(ManagedObjectModel(classes: [Trip.self, Bill.self]))
        let context = stack.mainContext()
        for (mode, cents) in [(Mode.slow, Int64(3)), (.fast, 2), (.fast, 1)] {
            let trip = Trip(context: context)
            trip.settings = Settings(mode: mode, price: Cents(number: cents))
        }
        try context.save()
        let (fast, two) = (Mode.fast, Int64(2))
        #expect(
            try context.count(for: Trip.self, where: #Predicate { $0.settings.mode == fast }) == 2)
        var update = try BatchUpdateRequest(Trip.self)
        try update.set(\Trip.settings.price, to: Cents(number: two))
        #expect(try context.execute(update).count == 3)
    }

    @Test func predicatesAskWhetherACompositeIsMissing() throws {
        let jane = insert("Jane", home: bath, work: bath)
        for name in ["Cassandra", "Anne"] { insert(name, home: bath).host = jane }
        for _ in 0..<2 {
            func names(_ predicate: QueryPredicate) throws -> [String] {
                try context.fetch(FetchRequest<Resident>(predicate: predicate)).map(\.name).sorted()
            }
            let without = ["Anne", "Cassandra"]
            #expect(try names(QueryPredicate(#Predicate<Resident> { $0.work == nil })) == without)
            #expect(try names(QueryPredicate(#Predicate<Resident> { $0.work != nil })) == ["Jane"])
            #expect(
                try names(
                    QueryPredicate(
                        #Predicate<Resident> {
                            if let work = $0.work { work.street == "Sydney Place" } else { false }
                        })) == ["Jane"])
            #expect(try names(QueryPredicate(format: "office == nil")) == without)
            #expect(try names(QueryPredicate(format: "nil != office.place")) == ["Jane"])
            #expect(try names(QueryPredicate(format: "host.office != nil")) == without)
            #expect(
                try names(
                    QueryPredicate(
                        #Predicate<Resident> { $0.guests.contains { $0.work == nil } }))
                    == ["Jane"])
            #expect(throws: QuireError.self) { try names(QueryPredicate(format: "office == 1")) }
            try context.save()
            context.reset()
        }
    }

    @Test func aMissingCompositeIsNil() throws {
        let person = insert("Jane")
        #expect(person["office"] == nil && person["home"] == nil)
        #expect(person["office", as: AttributeValue.self] == .null)
        person["office"] = ["street": "Milsom Street"]
        #expect((person["office"] as? [String: Any])?["street"] as? String == "Milsom Street")
        person["office"] = nil
        #expect(person["office"] == nil && person.work == nil)
    }

    @Test func numbersThatAnElementCannotHoldAreRefusedByTheSave() throws {
        let person = insert("Jane", home: bath)
        person.home.place?.latitude = .nan
        #expect(person.home.place?.latitude == 0)
        #expect(person["home.place.latitude"] == nil)
        try context.save()
    }

    @Test func aClassMustFitTheCompositeOfAModel() throws {
        let model = try ManagedObjectModel(classes: [Resident.self])
        func misfit(
            _ objectClass: any EntityClass.Type = Resident.self,
            _ change: (inout ManagedObjectModel) -> Void = { _ in }
        ) throws -> String {
            var model = model
            change(&model)
            let changed = model
            let error = #expect(throws: QuireError.self) {
                _ = try changed.binding(classes: [objectClass]).layout()
            }
            #expect(error?.code == .invalidModel)
            return error?.message ?? ""
        }
        #expect(try misfit(Guest.self).contains("no element “latitude”"))
        #expect(
            try misfit { $0.composites[0].elements[1].type = .string }
                .contains("element “number” is of type text"))
        #expect(
            try misfit { $0.composites[1].elements.remove(at: 0) }.contains("no element “latitude”")
        )
        #expect(
            try misfit {
                $0.composites[1].elements.append(
                    AttributeDescription(name: "height", type: .double))
            }.contains("has an element “height”, which the structure Place lacks"))
    }

    @Test func changesOfACompositeAreItsDifferingElements() throws {
        context.mergePolicy = .mergeByPropertyObjectTrump
        let person = insert("Jane", home: bath)
        try context.save()
        let other = stack.mainContext()
        let theirs = try #require(other.object(with: person.objectID) as? Resident)
        theirs.home.number = 5
        try other.save()
        person.home.street = "Gay Street"
        #expect(Array(person.changedValues().keys) == ["home.street"])
        try context.save()
        let stored = try #require(stack.mainContext().fetch(Resident.self).first)
        #expect(stored.home.street == "Gay Street")
        #expect(stored.home.number == 5)
    }
}

import Foundation

@testable import Quire
@testable import QuireModelFiles

/// A compiled model of dogs, which are animals, and their owners, in the ways in which models of Apple's tools depart
/// from what the tools themselves ask for.
enum OddArchive: String, CaseIterable {
    /// Nothing is odd: what the others are compared with.
    case usual
    /// Inherited properties are references to those of the superentity, as in the stores of many frameworks.
    case proxies
    /// User info that is not texts, as SwiftData writes it.
    case userInfo
    case selfInIndexes
    case orderedToOne
    /// “NO” is the default of a number, and “YES” of another.
    case truthForNumbers
    case indexOfAnotherEntity
    case indexWithoutName
    case indexOfUnknownKind
    case indexOfMissingProperty
    case unknownDerivation
    case hugeCount
    /// Counts are decimal numbers, as a program leaves them that has set them so.
    case decimalCounts
    case unknownDeleteRule
    case templateWithoutEntity
    case uniquenessByProperty
    case minimumAboveMaximum

    private typealias Entry = ArchiveValue.Entry

    /// What the remarks on it say; none for what is taken as it is.
    var remarks: [String] {
        switch self {
        case .usual, .proxies, .userInfo, .selfInIndexes, .uniquenessByProperty, .decimalCounts: []
        case .orderedToOne: ["“Dog.owner” is ordered"]
        case .truthForNumbers: ["“NO”", "“YES”"]
        case .indexOfAnotherEntity: ["names “owner”", "names “owner”"]
        case .indexWithoutName: ["An index of Animal has no name"]
        case .indexOfUnknownKind: ["of an unknown kind, 7"]
        case .indexOfMissingProperty: ["names “gone”"]
        case .unknownDerivation: ["“Animal.weight” has an unknown derivation"]
        case .hugeCount: ["“Person.dogs” has the count 9223372036854775807"]
        case .unknownDeleteRule: ["“Dog.owner” has an unknown delete rule, 9"]
        case .templateWithoutEntity: ["has no entity"]
        case .minimumAboveMaximum: ["is greater than"]
        }
    }

    /// The archive, as it is in a file or, with all that is inherited, in a store.
    func data(inStore: Bool) -> Data {
        var writer = KeyedArchiveWriter()
        let model = writer.reserve()
        let (animal, dog, person) = (writer.reserve(), writer.reserve(), writer.reserve())
        let (owner, dogs) = (writer.reserve(), writer.reserve())

        let name = attribute("name", .string, of: animal, &writer)
        let count = attribute("count", .integer32, of: animal, &writer)
        let weight = attribute("weight", .double, of: animal, &writer)
        define(owner, "owner", of: dog, to: person, "Person", inverse: dogs, &writer)
        define(dogs, "dogs", of: person, to: dog, "Dog", inverse: owner, &writer)

        var own: [(String, ArchiveValue)] = [("owner", owner)]
        if inStore || self == .proxies {
            for (key, property, type) in [
                ("name", name, AttributeType.string), ("count", count, .integer32),
                ("weight", weight, .double),
            ] {
                own.append(
                    (
                        key,
                        self == .proxies
                            ? proxy(of: property, in: dog, &writer)
                            : attribute(key, type, of: dog, &writer)
                    ))
            }
        }
        let animals = [("name", name), ("count", count), ("weight", weight)]
        define(animal, "Animal", above: [("Dog", dog)], animals, name, &writer)
        define(dog, "Dog", below: animal, own, nil, &writer)
        define(person, "Person", [("dogs", dogs)], nil, &writer)
        let entities = dictionary([("Animal", animal), ("Dog", dog), ("Person", person)], &writer)
        var templates = ArchiveValue.null
        if self == .templateWithoutEntity {
            let request = writer.add(["NSFetchRequest", "NSObject"], [])
            templates = dictionary([("all", request)], &writer)
        }
        writer.define(
            model, as: ["NSManagedObjectModel", "NSObject"],
            [
                Entry("NSEntities", entities), Entry("NSFetchRequestTemplates", templates),
                Entry("NSVersionIdentifiers", writer.add(set: [])),
            ])
        return writer.data(top: [Entry("root", model)])
    }

    private func dictionary(
        _ pairs: [(String, ArchiveValue)], _ writer: inout KeyedArchiveWriter
    ) -> ArchiveValue {
        var keys: [(key: ArchiveValue, value: ArchiveValue)] = []
        for (key, value) in pairs { keys.append((writer.add(key), value)) }
        return writer.add(dictionary: keys, mutable: true)
    }

    private func define(
        _ place: ArchiveValue, _ name: String, above: [(String, ArchiveValue)] = [],
        below: ArchiveValue = .null, _ properties: [(String, ArchiveValue)],
        _ indexed: ArchiveValue?, _ writer: inout KeyedArchiveWriter
    ) {
        var fields = [
            Entry("NSEntityName", writer.add(name)),
            Entry("NSClassNameForEntity", writer.add("NSManagedObject")),
            Entry("NSSuperentity", below), Entry("NSSubentities", dictionary(above, &writer)),
            Entry("NSProperties", dictionary(properties, &writer)),
            Entry("NSRenamingIdentifier", writer.add(name)),
        ]
        if let indexed {
            var names = ["name"]
            if self == .selfInIndexes { names.append("self") }
            if self == .indexOfAnotherEntity { names.append("owner") }
            if self == .indexOfMissingProperty { names.append("gone") }
            fields.append(Entry("NSFetchIndexDescriptions", index(of: names, &writer)))
            if self == .selfInIndexes || self == .indexOfAnotherEntity {
                let list = writer.add(array: (["count"] + names.dropFirst()).map { writer.add($0) })
                fields.append(Entry("NSCompoundIndexes", writer.add(array: [list])))
            }
            if self == .uniquenessByProperty {
                let tuple = writer.add(array: [proxy(of: indexed, in: place, &writer)])
                fields.append(Entry("NSUniqueTuples", writer.add(array: [tuple])))
            }
        }
        writer.define(place, as: ["NSEntityDescription", "NSObject"], fields)
    }

    private func index(
        of names: [String], _ writer: inout KeyedArchiveWriter
    ) -> ArchiveValue {
        var elements: [ArchiveValue] = []
        for name in names {
            let text = writer.add(name)
            elements.append(
                writer.add(
                    ["NSFetchIndexElementDescription", "NSObject"],
                    [
                        Entry("NSPropertyName", text), Entry("NSAscending", .boolean(true)),
                        Entry(
                            "NSFetchIndexElementType",
                            .integer(self == .indexOfUnknownKind ? 7 : 0)),
                    ]))
        }
        let title = self == .indexWithoutName ? ArchiveValue.null : writer.add("byName")
        let list = writer.add(array: elements)
        let index = writer.add(
            ["NSFetchIndexDescription", "NSObject"],
            [Entry("NSIndexName", title), Entry("NSIndexElements", list)])
        return writer.add(array: [index])
    }

    private func proxy(
        of property: ArchiveValue, in entity: ArchiveValue, _ writer: inout KeyedArchiveWriter
    ) -> ArchiveValue {
        writer.add(
            ["_NSPropertyDescriptionProxy", "NSObject"],
            [
                Entry("NSUnderlyingProperty", property), Entry("NSEntityDescription", entity),
                Entry("NSReferenceID", .integer(1)),
            ])
    }

    private func attribute(
        _ name: String, _ type: AttributeType, of entity: ArchiveValue,
        _ writer: inout KeyedArchiveWriter
    ) -> ArchiveValue {
        var fields = [
            Entry("NSPropertyName", writer.add(name)), Entry("NSEntity", entity),
            Entry("NSIsOptional", .boolean(true)),
            Entry("NSAttributeType", .integer(Int64(type.rawValue))),
            Entry("NSRenamingIdentifier", writer.add(name)),
        ]
        switch (self, type) {
        case (.truthForNumbers, .integer32):
            fields.append(Entry("NSDefaultValue", writer.add("NO")))
        case (.truthForNumbers, .double):
            fields.append(Entry("NSDefaultValue", writer.add("YES")))
        case (.userInfo, .string): fields.append(Entry("NSUserInfo", userInfo(&writer)))
        case (.minimumAboveMaximum, .integer32):
            var predicates: [ArchiveValue] = []
            for format in ["SELF >= 9", "SELF <= 3"] {
                if let predicate = try? PredicateArchiver().add(
                    QueryPredicate(format: format), to: &writer)
                {
                    predicates.append(predicate)
                }
            }
            let code = writer.add(scalar: .integer(1610))
            fields.append(Entry("NSValidationPredicates", writer.add(array: predicates)))
            fields.append(Entry("NSValidationWarnings", writer.add(array: [code, code])))
        default: break
        }
        let classes = ["NSAttributeDescription", "NSPropertyDescription", "NSObject"]
        let isDerived = self == .unknownDerivation && type == .double
        return writer.add((isDerived ? ["NSDerivedAttributeDescription"] : []) + classes, fields)
    }

    static let uuid = UUID(uuidString: "3E3A9D0C-5D0E-4B5E-9C4B-0A4C3B2A1F00")

    private func userInfo(_ writer: inout KeyedArchiveWriter) -> ArchiveValue {
        let cases = writer.add(array: [writer.add("puppy"), writer.add("dog")])
        let deep = dictionary([("list", cases), ("number", .integer(-3))], &writer)
        return dictionary(
            [
                ("EnumType", .boolean(true)), ("enum", cases), ("deep", deep),
                ("half", .real(0.5)), ("text", writer.add("a < b")),
                ("date", writer.add(scalar: .date(Date(timeIntervalSinceReferenceDate: 5)))),
                ("data", writer.add(scalar: .data(Data([1, 2])))),
                ("uuid", Self.uuid.map { writer.add(scalar: .uuid($0)) } ?? .null),
            ], &writer)
    }

    private func count(_ number: Int64, _ writer: inout KeyedArchiveWriter) -> ArchiveValue {
        if self != .decimalCounts { return .integer(number) }
        let bytes = (0..<16).map { $0 == 0 ? UInt8(number) : 0 }
        return writer.add(
            ["NSDecimalNumberPlaceholder", "NSDecimalNumber", "NSNumber", "NSValue", "NSObject"],
            [
                Entry("NS.mantissa", writer.add(scalar: .data(Data(bytes)))),
                Entry("NS.exponent", .integer(0)), Entry("NS.length", .integer(number)),
                Entry("NS.negative", .boolean(false)), Entry("NS.compact", .boolean(true)),
                Entry("NS.mantissa.bo", .integer(1)),
            ])
    }

    private func define(
        _ place: ArchiveValue, _ name: String, of entity: ArchiveValue, to target: ArchiveValue,
        _ targetName: String, inverse: ArchiveValue, _ writer: inout KeyedArchiveWriter
    ) {
        let isToMany = name == "dogs"
        var fields = [
            Entry("NSPropertyName", writer.add(name)), Entry("NSEntity", entity),
            Entry("NSIsOptional", .boolean(true)), Entry("NSDestinationEntity", target),
            Entry("_NSDestinationEntityName", writer.add(targetName)),
            Entry("NSInverseRelationship", inverse), Entry("NSMinCount", count(0, &writer)),
            Entry(
                "NSMaxCount",
                count(isToMany ? (self == .hugeCount ? Int64.max : 0) : 1, &writer)),
            Entry(
                "NSDeleteRule", .integer(self == .unknownDeleteRule && !isToMany ? 9 : 1)),
            Entry("NSRenamingIdentifier", writer.add(name)),
        ]
        if self == .orderedToOne && !isToMany {
            fields.append(Entry("NSIsOrdered", .boolean(true)))
        }
        writer.define(
            place, as: ["NSRelationshipDescription", "NSPropertyDescription", "NSObject"], fields)
    }
}

import Quire
import QuireTestSupport
import Testing

/// Classes are bound to entities of models that come from elsewhere.
@Suite struct ClassBindingTests {
    private func entity(_ name: String, class className: String?) -> EntityDescription {
        var entity = FixtureModels.entity(
            name, FixtureModels.attribute("heading", .string, optional: false))
        entity.managedObjectClassName = className
        return entity
    }

    private func bound(_ entities: EntityDescription...) throws -> [Bool] {
        try ManagedObjectModel(entities: entities).binding(classes: [Chapter2.self])
            .entities.map { $0.objectClass == Chapter2.self }
    }

    @Test func classNameOfTheModelComesFirst() throws {
        #expect(
            try bound(entity("Chapter2", class: nil), entity("Part", class: "Shop.Chapter2"))
                == [false, true])
    }

    @Test func ofEntitiesThatShareAClassNameTheDeclaredOneIsBound() throws {
        #expect(
            try bound(entity("Part", class: ".Chapter2"), entity("Chapter2", class: "Chapter2"))
                == [false, true])
        #expect(
            try bound(entity("Part", class: "Chapter2"), entity("Piece", class: "Chapter2"))
                == [true, false])
    }

    @Test func classWithoutEntityIsAnErrorAndNothingIsBound() throws {
        var model = ManagedObjectModel(entities: [entity("Chapter2", class: nil)])
        #expect { try model.bind(classes: [Chapter2.self, Everything.self]) } throws: {
            ($0 as? QuireError)?.code == .invalidModel && "\($0)".contains("class Everything")
        }
        #expect(model.entities[0].objectClass == nil)
    }

    @Test func attributeOfAnotherTypeDoesNotFit() throws {
        let other = FixtureModels.entity("Chapter2", FixtureModels.attribute("heading", .date))
        let model = try ManagedObjectModel(entities: [other]).binding(classes: [Chapter2.self])
        #expect { try model.layout() } throws: {
            ($0 as? QuireError)?.code == .invalidModel && "\($0)".contains("“heading”")
        }
    }
}

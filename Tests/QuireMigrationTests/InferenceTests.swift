import QuireTestSupport
import Testing

@testable import Quire

@Suite struct InferenceTests {
    private static func error(_ change: (inout ManagedObjectModel) -> Void) -> QuireError? {
        var model = FixtureModels.library
        change(&model)
        return #expect(throws: QuireError.self) {
            _ = try MappingModel.inferred(from: FixtureModels.library, to: model)
        }
    }

    private static func change(
        _ entity: String, _ property: String, in model: inout ManagedObjectModel,
        _ body: (inout AttributeDescription) -> Void
    ) {
        for index in model.entities.indices where model.entities[index].name == entity {
            for place in model.entities[index].properties.indices {
                guard case .attribute(var attribute) = model.entities[index].properties[place],
                    attribute.name == property
                else { continue }
                body(&attribute)
                model.entities[index].properties[place] = .attribute(attribute)
            }
        }
    }

    @Test func aNarrowerTypeIsRefused() {
        let error = Self.error { Self.change("Book", "price", in: &$0) { $0.type = .integer16 } }
        #expect(error?.code == .incompatibleModel)
        #expect(error?.subject.entity == "Book" && error?.subject.property == "price")
        #expect(
            error?.message
                == "“Book.price” changes from decimal number to 16-bit integer, which cannot be inferred; map it with a value "
                + "expression or a policy, or rename it.")
    }

    @Test func aNewRequiredAttributeNeedsADefault() {
        let error = Self.error { model in
            model.entities[1].properties.append(
                FixtureModels.attribute("pages", .integer16, optional: false))
        }
        #expect(error?.message.hasPrefix("“Book.pages” is new and required") == true)
    }

    @Test func becomingRequiredNeedsADefault() {
        let error = Self.error { Self.change("Book", "year", in: &$0) { $0.isOptional = false } }
        #expect(error?.message.hasPrefix("“Book.year” becomes required") == true)
    }

    @Test func everythingWrongIsNamedOnce() {
        let error = Self.error { model in
            Self.change("Person", "name", in: &model) { $0.type = .date }
            Self.change("Book", "year", in: &model) { $0.type = .boolean }
        }
        #expect(error?.failures.count == 2)
    }

    @Test func renamingIdentifiersHoldOverVersions() throws {
        func model(_ name: String, _ identifier: String?) -> ManagedObjectModel {
            ManagedObjectModel(entities: [
                FixtureModels.entity(
                    "E",
                    FixtureModels.attribute(name, .string) { $0.renamingIdentifier = identifier })
            ])
        }
        let versions = [model("a", nil), model("b", "a"), model("c", "a")]
        for (from, to, source) in [(0, 1, "a"), (1, 2, "b"), (0, 2, "a"), (2, 0, "c")] {
            let mapping = try MappingModel.inferred(from: versions[from], to: versions[to])
            let expression = mapping["E"]?.attributeMappings.first?.valueExpression
            #expect(expression == .sourceValue(source), "\(from) to \(to)")
        }
    }

    /// `b` has been renamed from `a` and `d` from `b`; then the next version renames both again, by their names or by their
    /// identifiers.
    @Test(
        arguments: [
            ["x": "b", "y": "d"], ["x": "a", "y": "b"], ["x": "b", "d": nil], ["d": "b", "e": "a"],
        ] as [[String: String?]])
    func renamingIdentifiersOfAChainAreMatchedTogether(names: [String: String?]) throws {
        func model(_ names: [(String, String?)]) -> ManagedObjectModel {
            var chain = EntityDescription(name: "Chain")
            chain.properties = names.map { name, identifier in
                FixtureModels.attribute(name, .string) { $0.renamingIdentifier = identifier }
            }
            return ManagedObjectModel(
                entities: [chain]
                    + names.map { name, identifier in
                        var entity = EntityDescription(name: name.uppercased())
                        entity.renamingIdentifier = identifier?.uppercased()
                        return entity
                    })
        }
        let old = model([("b", "a"), ("d", "b")])
        let isByIdentifier = names.values.contains("a")
        for order in [names.keys.sorted(), names.keys.sorted().reversed()] {
            let new = model(order.map { ($0, names[$0] ?? nil) })
            let mapping = try MappingModel.inferred(from: old, to: new)
            for (name, identifier) in names {
                let source = isByIdentifier ? (identifier == "a" ? "b" : "d") : identifier ?? name
                #expect(mapping[name.uppercased()]?.sourceEntityName == source.uppercased())
                let attribute = mapping["Chain"]?.attributeMappings.first { $0.name == name }
                #expect(attribute?.valueExpression == .sourceValue(source))
            }
        }
    }

    @Test func mappingsSayWhatTheyDo() throws {
        var model = FixtureModels.library
        model.entities.removeAll { $0.name == "Cover" }
        for index in model.entities.indices where model.entities[index].name == "Book" {
            model.entities[index].properties.removeAll { $0.name == "cover" }
        }
        model.entities.append(
            FixtureModels.entity("Note", FixtureModels.attribute("text", .string)))
        let mapping = try MappingModel.inferred(from: FixtureModels.library, to: model)
        let names = Set(mapping.entityMappings.map(\.name))
        #expect(
            names.isSuperset(of: [
                "IEM_Remove_Cover", "IEM_Add_Note", "IEM_Transform_Book", "IEM_Copy_Author",
            ]))
    }
}

import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// What becomes of names and properties that Swift, or a class, cannot have.
@Suite struct ClassPlanTests {
    private func plan(_ entities: EntityDescription...) -> ClassPlan {
        ClassPlan(ManagedObjectModel(entities: entities), modelName: "Model")
    }

    private func entity(
        _ name: String, class className: String?, parent: String? = nil,
        _ properties: PropertyDescription...
    ) -> EntityDescription {
        var entity = EntityDescription(name: name)
        entity.managedObjectClassName = className
        entity.superentityName = parent
        entity.properties = properties
        return entity
    }

    private func names(_ one: ClassPlan.Class) -> [String] {
        one.members.map { member in
            switch member {
            case .attribute(let attribute): attribute.name
            case .relationship(let relationship): relationship.name
            case .fetched(let fetched): "\(fetched.name) of \(fetched.destination)"
            case .skipped(let name, let reason): "\(name): \(reason)"
            }
        }
    }

    // MARK: - Classes

    @Test(
        arguments: [
            ("Book", "Book"), (".Book", "Book"), ("MyApp.Book", "Book"), (nil, "Entity1"),
            ("", "Entity1"), ("NSManagedObject", "Entity1"), ("Bo ok", "Bo_ok"),
            ("1Book", "_1Book"),
            ("../../Book", "_Book"), ("Bücher", "Bücher"), ("书", "书"), ("book", "book"),
            ("Data", "DataObject"), ("Entity", "EntityObject"), ("class", "classObject"),
        ] as [(String?, String)])
    func classIsNamedAsTheModelSays(_ className: String?, _ expected: String) {
        #expect(plan(entity("Entity1", class: className)).classes.map(\.name) == [expected])
    }

    @Test func entitiesThatShareAClassGetOneEach() {
        let plan = plan(
            entity("Employee", class: "Person"), entity("Person", class: "Person"),
            entity("Manager", class: "Person", parent: "Employee"))
        #expect(plan.classes.map(\.name) == ["Employee", "Person", "Manager"])
        #expect(plan.classes.map(\.superclass) == [nil, nil, "Employee"])
        #expect(plan.warnings.count == 2)
    }

    @Test func severalEntitiesOfANameCountOnce() {
        let plan = plan(entity("A", class: nil), entity("A", class: "B"))
        #expect(plan.classes.map(\.name) == ["A"])
        #expect(plan.warnings == ["Several entities are named A; the first is used."])
    }

    @Test func inheritanceInACircleOrFromNowhereIsLeftOut() {
        let plan = plan(
            entity("A", class: nil, parent: "B"), entity("B", class: nil, parent: "A"),
            entity("C", class: nil, parent: "A"), entity("D", class: nil, parent: "None"),
            entity("E", class: nil, parent: "E"))
        #expect(plan.classes.map(\.superclass) == [nil, nil, "A", nil, nil])
        #expect(plan.warnings.count == 4)
    }

    @Test func entitiesAreKeptByName() throws {
        var plan = plan(entity("A", class: "X"), entity("B", class: nil))
        try plan.keep(entities: ["A"])
        #expect(plan.classes.map(\.name) == ["X"])
        #expect(throws: QuireError.self) { try plan.keep(entities: ["X"]) }
    }

    // MARK: - Properties

    @Test(arguments: [
        ("title", "title"), ("Title", "Title"), ("class", "class"), ("größe", "größe"),
        ("date", "date"), ("hash", "hash"), ("value", "value"), ("context", "context"),
        ("description", "bookDescription"), ("objectID", "bookObjectID"),
        ("isDeleted", "bookIsDeleted"), ("entity", "bookEntity"), ("self", "bookSelf"),
        ("Date", "bookDate"), ("Book", "bookBook"), ("init", "bookInit"),
        ("propertyCount", "bookPropertyCount"), ("first name", "first_name"), ("2nd", "_2nd"),
    ])
    func propertyKeepsItsNameIfItCan(_ name: String, _ expected: String) {
        let plan = plan(entity("Book", class: nil, FixtureModels.attribute(name, .string)))
        #expect(plan.classes.map(names) == [[expected]])
        #expect(plan.warnings.isEmpty == (name == expected))
    }

    @Test func changedNamesStayApartFromOthersAlsoInherited() {
        let plan = plan(
            entity("Book", class: nil, parent: "Item", FixtureModels.attribute("a-b", .string)),
            entity(
                "Item", class: nil, FixtureModels.attribute("a_b", .string),
                FixtureModels.attribute("a b", .string)))
        #expect(plan.classes.map(names) == [["a_b3"], ["a_b", "a_b2"]])
    }

    @Test func propertyThatIsThereAlreadyIsLeftOut() {
        let plan = plan(
            entity(
                "Item", class: nil, FixtureModels.attribute("name", .string),
                FixtureModels.attribute("name", .string)),
            entity("Book", class: nil, parent: "Item", FixtureModels.attribute("name", .string)))
        let left = "name: another property has this name"
        #expect(plan.classes.map(names) == [["name", left], [left]])
    }

    @Test func relationshipsWithoutDestinationOrInverse() throws {
        let plan = plan(
            entity(
                "Book", class: nil, FixtureModels.toOne("author", "Nobody", "books"),
                FixtureModels.toOne("nothing", "", nil), FixtureModels.toMany("tags", "Tag", "no")),
            entity("Tag", class: nil, FixtureModels.attribute("no", .string)))
        #expect(
            names(plan.classes[0]) == [
                "author: its destination Nobody does not exist",
                "nothing: it has no destination", "tags",
            ])
        guard case .relationship(let tags)? = plan.classes[0].members.last else {
            Issue.record("no relationship")
            return
        }
        #expect(tags.inverse == nil)
        #expect(plan.warnings.last == "Book.tags has no inverse: Tag.no does not exist.")
    }

    @Test func oneSideOfEveryPairNamesTheOtherByKeyPath() {
        let plan = ClassPlan(FixtureModels.library, modelName: "Library")
        var byKeyPath: [String] = []
        for one in plan.classes {
            for case .relationship(let relationship) in one.members
            where relationship.namesInverseByKeyPath {
                byKeyPath.append("\(one.name).\(relationship.name)")
            }
        }
        #expect(
            byKeyPath == [
                "Book.author", "Book.tags", "Book.cover", "Book.shelf", "Book.prequels",
                "Person.manager", "Playlist.songs",
            ])
        #expect(plan.warnings == [])
    }

    @Test func fetchedPropertyIsThereIfItsEntityIs() {
        func fetched(_ name: String, _ entity: String) -> PropertyDescription {
            .fetched(
                FetchedPropertyDescription(
                    name: name, fetchRequest: FetchRequestTemplate(name: "r", entityName: entity)))
        }
        var exact = FetchRequestTemplate(name: "r", entityName: "Book")
        exact.includesSubentities = false
        let plan = plan(
            entity(
                "Book", class: "Work", fetched("recent", "Book"), fetched("lost", "None"),
                fetched("empty", ""),
                .fetched(FetchedPropertyDescription(name: "exact", fetchRequest: exact))))
        let lost = "its entity None does not exist"
        #expect(
            plan.classes.map(names) == [
                [
                    "recent of Work", "lost: \(lost)", "empty: it has no entity to fetch",
                    "exact of Work",
                ]
            ])
        #expect(plan.warnings.first == "Book.lost is omitted: \(lost).")
        #expect(
            plan.warningsOfMacros == [
                "Book.exact is read by key: macros cannot declare requests without subentities."
            ])
    }

    @Test func compositesAreStructuresIfTheirElementsCanBeProperties() {
        func composite(_ name: String, _ elements: AttributeDescription...) -> CompositeDescription
        {
            CompositeDescription(name: name, elements: elements)
        }
        func nested(_ name: String, _ composite: String) -> AttributeDescription {
            var element = AttributeDescription(name: name, type: .composite)
            element.compositeName = composite
            return element
        }
        let text = AttributeDescription(name: "text", type: .string)
        var model = ManagedObjectModel(entities: [
            entity(
                "Place", class: "Place",
                FixtureModels.attribute("area", .composite) { $0.compositeName = "Area" },
                FixtureModels.attribute("odd", .composite) { $0.compositeName = "Odd" })
        ])
        model.composites = [
            composite("Area", nested("corner", "Place"), text), composite("Place", text),
            composite("Odd", AttributeDescription(name: "a b", type: .string)),
            composite("Round", nested("round", "Round")), composite("Empty"),
            composite("AboutOdd", nested("odd", "Odd")), composite("String", text),
        ]
        let plan = ClassPlan(model, modelName: "M")
        #expect(
            plan.structures.map { one in
                "\(one.description.name) \(one.name): "
                    + one.elements.map { "\($0.description.name) \($0.structure ?? "")" }
                    .joined(separator: ", ")
            } == [
                "Area Area: corner Place2, text ", "Place Place2: text ", "String String2: text ",
            ])
        #expect(
            plan.warningsOfMacros == [
                "Place.odd is read by key: its composite cannot be a structure."
            ])
    }

    /// A model may say that Xcode shall generate nothing: whoever gives this command wants classes.
    @Test(arguments: [nil, "class", "category"])
    func everyEntityGetsAClassWhateverXcodeShallGenerate(_ codeGeneration: String?) {
        var book = entity("Book", class: "Book", FixtureModels.attribute("title", .string))
        book.codeGenerationType = codeGeneration
        #expect(plan(book).classes.map(names) == [["title"]])
    }

    // MARK: - Literals

    @Test(
        arguments: [
            (.integer(32767), .integer16, "32767"), (.integer(32768), .integer16, nil),
            (.integer(1), .string, nil), (.string("a"), .integer64, nil),
            (.integer(1), .boolean, nil), (.double(.nan), .float, "Float.nan"),
            (.double(1e300), .float, "Float.infinity"), (.null, .string, nil),
            (
                .decimal(Decimal(string: "-0.5") ?? 0), .decimal,
                "Decimal(sign: .minus, exponent: -1, significand: 5)"
            ),
        ] as [(AttributeValue, AttributeType, String?)])
    func valuesAreCodeOfTheirType(
        _ value: AttributeValue, _ type: AttributeType, _ expected: String?
    ) {
        #expect(AttributeCode.literal(value, type) == expected)
    }

    @Test(arguments: [
        ("a\"b\\c\n", #""a\"b\\c\n""#), ("\u{202E}x\u{0}", #""\u{202E}x\0""#), ("é🎉", "\"é🎉\""),
        (#"\(x)"#, #""\\(x)""#),
    ])
    func textsAreQuoted(_ text: String, _ expected: String) {
        #expect(SwiftLiteral.text(text) == expected)
    }

    /// Every property that objects have must be known, or generated classes do not compile.
    @Test func propertiesOfManagedObjectAreKnown() throws {
        let graph = Checkout.path + "/Sources/Quire/Graph"
        let enumerator = try #require(FileManager.default.enumerator(atPath: graph))
        var found: Set<String> = []
        for case let path as String in enumerator where path.hasSuffix(".swift") {
            let text = try String(contentsOfFile: graph + "/" + path, encoding: .utf8)
            var isInObject = false
            for line in text.split(separator: "\n") {
                if !line.hasPrefix(" "), !line.hasPrefix("}"), line.contains("{") {
                    isInObject =
                        line.contains(#/^(open class|extension) ManagedObject\b/#)
                }
                if isInObject, !line.contains("static "), !line.contains("class var"),
                    let match = line.firstMatch(
                        of: #/^    .*\b(public|open) .*\b(?:var|let) (\w+):/#)
                {
                    found.insert(String(match.2))
                }
            }
        }
        #expect(found.contains("objectID") && found.contains("description"))
        #expect(found.subtracting(SwiftNames.propertiesOfManagedObject) == [])
    }
}

import Foundation
import Testing

@testable import Quire

@Suite struct ModelValidationTests {
    /// What the validation finds: “Entity.property: message” for each failure.
    private func failures(_ model: ManagedObjectModel) -> [QuireError] {
        do {
            try model.validate()
            return []
        } catch let error as QuireError {
            return error.failures.isEmpty ? [error] : error.failures
        } catch {
            Issue.record("Not a QuireError: \(error)")
            return []
        }
    }

    /// Expects exactly one failure, about a place, with a text in its message.
    private func expect(
        _ text: String, entity: String? = nil, property: String? = nil,
        in model: ManagedObjectModel,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let found = failures(model)
        #expect(found.count == 1, "\(found)", sourceLocation: sourceLocation)
        #expect(found.first?.code == .invalidModel, sourceLocation: sourceLocation)
        #expect(found.first?.subject.entity == entity, sourceLocation: sourceLocation)
        #expect(found.first?.subject.property == property, sourceLocation: sourceLocation)
        #expect(
            found.first?.message.contains(text) == true, "\(found)", sourceLocation: sourceLocation)
        #expect(throws: QuireError.self, sourceLocation: sourceLocation) { try model.layout() }
    }

    private func entity(_ content: Attribute...) -> ManagedObjectModel {
        ManagedObjectModel { Entity("A") { for attribute in content { attribute } } }
    }

    // MARK: - Names and inheritance

    @Test func emptyModelIsValid() throws { try ManagedObjectModel().validate() }

    @Test func duplicateEntity() {
        expect(
            "Several entities are named “A”", entity: "A",
            in: ManagedObjectModel {
                Entity("A")
                Entity("A")
            })
    }

    @Test func entityNamesDifferInMoreThanCase() {
        expect(
            "differ only in case", entity: "BOOK",
            in: ManagedObjectModel {
                Entity("Book")
                Entity("BOOK")
            })
    }

    @Test(arguments: [
        ("", "is empty"), ("1st", "begin with a letter"), ("A b", "characters other than"),
        ("A-b", "characters other than"), ("_METADATA", "underscore"),
        (String(repeating: "a", count: 256), "longer"),
    ])
    func illegalEntityName(name: String, reason: String) {
        expect(reason, entity: name, in: ManagedObjectModel { Entity(name) })
    }

    @Test func lettersOfAllLanguagesAreFine() throws {
        try ManagedObjectModel { Entity("Bücher") { Attribute("título2_", .string) } }.validate()
    }

    @Test(arguments: ["", "2nd", "a.b", "a b", "description", "self", "objectID", "hash"])
    func illegalPropertyName(name: String) {
        expect(
            "The property name “A.\(name)”", entity: "A", property: name,
            in: entity(Attribute(name, .string)))
    }

    @Test func duplicateProperty() {
        expect(
            "several properties named “x”", entity: "A", property: "x",
            in: entity(Attribute("x", .string), Attribute("x", .date)))
    }

    @Test func inheritedPropertyIsNotDeclaredAgain() {
        expect(
            "which it inherits from “A”", entity: "C", property: "x",
            in: ManagedObjectModel {
                Entity("A") { Attribute("x", .string) }
                Entity("B", inherits: "A")
                Entity("C", inherits: "B") { Attribute("x", .string) }
            })
    }

    @Test func siblingsMayShareAPropertyName() throws {
        try ManagedObjectModel {
            Entity("A")
            Entity("B", inherits: "A") { Attribute("x", .string) }
            Entity("C", inherits: "A") { Attribute("x", .date) }
        }.validate()
    }

    @Test func unknownSuperentity() {
        expect(
            "inherits from “Z”, which does not exist", entity: "A",
            in: ManagedObjectModel { Entity("A", inherits: "Z") })
    }

    @Test func inheritanceCycle() {
        let found = failures(
            ManagedObjectModel {
                Entity("A", inherits: "B")
                Entity("B", inherits: "A")
                Entity("C", inherits: "C")
                Entity("D", inherits: "C")
            })
        #expect(found.map(\.subject.entity) == ["A", "B", "C", "D"])
        #expect(found.first?.message.contains("A → B → A") == true)
    }

    @Test func inheritanceIsNotTooDeep() throws {
        func chain(_ count: Int) -> ManagedObjectModel {
            ManagedObjectModel {
                for number in 1...count {
                    Entity("E\(number)", inherits: number == 1 ? nil : "E\(number - 1)")
                }
            }
        }
        #expect(try chain(100).layout().entities.count == 100)
        expect("more than 100 superentities", entity: "E101", in: chain(30_000))
    }

    @Test func entitiesAreNotTooMany() {
        let model = ManagedObjectModel { for number in 0...32_767 { Entity("E\(number)") } }
        expect("at most 32767", in: model)
    }

    @Test func propertiesAreNotTooMany() {
        let model = ManagedObjectModel {
            Entity("A") { for number in 0...2_000 { Attribute("a\(number)", .string) } }
        }
        expect("has 2001 properties", entity: "A", in: model)
    }

    // MARK: - Attributes

    @Test func onlyTransientAttributesMayHaveNoType() throws {
        expect(
            "has no type", entity: "A", property: "x", in: entity(Attribute("x", .undefined)))
        try entity(Attribute("x", .undefined).transient()).validate()
    }

    @Test func objectIdentifierIsNotStored() {
        expect(
            "stores cannot keep", entity: "A", property: "x", in: entity(Attribute("x", .objectID)))
    }

    @Test(arguments: [
        Attribute("x", .integer16).default(40_000),
        Attribute("x", .integer32).default(3_000_000_000),
        Attribute("x", .integer64).default("1"), Attribute("x", .boolean).default(2),
        Attribute("x", .double).default("one"), Attribute("x", .double).default(.double(.nan)),
        Attribute("x", .date).default(.date(Date(timeIntervalSinceReferenceDate: .infinity))),
        Attribute("x", .string).default(1), Attribute("x", .uuid).default("no"),
        Attribute("x", .binary).default("no"),
    ])
    func defaultOfWrongType(attribute: Attribute) {
        expect(
            "default value of attribute “A.x”", entity: "A", property: "x", in: entity(attribute))
    }

    @Test func rawDefaultMustHaveTheAttributesForm() {
        var attribute = AttributeDescription(name: "x", type: .double)
        attribute.defaultValue = 1
        var description = EntityDescription(name: "A")
        description.properties = [.attribute(attribute)]
        expect(
            "default value", entity: "A", property: "x",
            in: ManagedObjectModel(entities: [description]))
    }

    @Test(arguments: [
        Attribute("x", .undefined).transient().default(1),
        Attribute("x", composite: "C").default(1),
    ])
    func typeWithoutDefault(attribute: Attribute) {
        expect(
            "has a default value", entity: "A", property: "x",
            in: ManagedObjectModel {
                Entity("A") { attribute }
                Composite("C") { Attribute("y", .string) }
            })
    }

    @Test(arguments: [
        Attribute("x", .integer16).default(1).minimum(2),
        Attribute("x", .double).default(3).maximum(2),
        Attribute("x", .decimal).default(3).maximum(2.5),
    ])
    func defaultOutOfRangeIsLetPassWithARemark(attribute: Attribute) throws {
        var model = entity(attribute)
        try model.validate()
        let before = model
        model.leaveOutContradictoryParts()
        #expect(model == before)
        #expect(model.remarks.count == 1)
        #expect(model.remarks.first?.contains("“A.x” is out of its range") == true)
    }

    @Test func defaultTextMayBeTooShort() throws {
        try entity(Attribute("x", .string).default("").length(atLeast: 1)).validate()
    }

    @Test(arguments: [
        Attribute("x", .integer16).minimum(2).maximum(1),
        Attribute("x", .float).minimum(2.5).maximum(2),
        Attribute("x", .string).length(atLeast: 3, atMost: 2),
        Attribute("x", .date).minimum(.date(.distantFuture)).maximum(.date(.distantPast)),
    ])
    func minimumAboveMaximum(attribute: Attribute) {
        expect("is greater than", entity: "A", property: "x", in: entity(attribute))
    }

    @Test(arguments: [
        (Attribute("x", .integer16).minimum(40_000), "minimum of"),
        (Attribute("x", .date).maximum(1), "maximum of"),
        (Attribute("x", .string).minimum("a"), "minimum of"),
        (Attribute("x", .string).length(atLeast: -1), "negative"),
        (Attribute("x", .boolean).minimum(0), "has a minimum"),
        (Attribute("x", .uuid).maximum(0), "has a maximum"),
    ])
    func malformedBound(attribute: Attribute, text: String) {
        expect(text, entity: "A", property: "x", in: entity(attribute))
    }

    @Test(arguments: ["a(", "a)(b", "[", ""])
    func malformedRegularExpression(pattern: String) {
        expect(
            "regular expression", entity: "A", property: "x",
            in: entity(Attribute("x", .string).matching(pattern)))
    }

    @Test(arguments: [
        (Attribute("x", .integer32).derived(""), "no expression"),
        (Attribute("x", .integer32).derived("a").transient(), "transient"),
        (Attribute("x", .transformable).derived("a"), "is derived"),
        (Attribute("x", .integer32).derived("books.@count"), "no property “books”"),
    ])
    func derivation(attribute: Attribute, text: String) {
        expect(text, entity: "A", property: "x", in: entity(Attribute("a", .string), attribute))
    }

    @Test func derivationOfAnInheritedPropertyOrFunctionIsFine() throws {
        try ManagedObjectModel {
            Entity("A") { Attribute("a", .string) }
            Entity("B", inherits: "A") {
                Attribute("b", .string).derived("canonical:(a)")
                Attribute("c", .string).derived("a")
                Attribute("d", .date).derived("now()")
            }
        }.validate()
    }

    @Test func controlCharactersCannotBeWritten() {
        expect(
            "control character", entity: "A", property: "x",
            in: entity(Attribute("x", .string).default("a\u{1}")))
        expect(
            "control character", entity: "A",
            in: ManagedObjectModel { Entity("A").userInfo(["k": "\u{0}"]) })
    }

    // MARK: - Composites

    @Test func unknownComposite() {
        expect(
            "composite “C”, which does not exist", entity: "A", property: "x",
            in: entity(Attribute("x", composite: "C")))
        expect(
            "does not specify a composite",
            entity: "A", property: "x", in: entity(Attribute("x", .composite))
        )
    }

    @Test func compositeDoesNotContainItself() {
        let found = failures(
            ManagedObjectModel {
                Composite("C") { Attribute("d", composite: "D") }
                Composite("D") { Attribute("c", composite: "C") }
                Entity("A") { Attribute("x", composite: "C") }
            })
        #expect(found.count == 2)
        #expect(found.allSatisfy { $0.message.contains("contains itself") })
    }

    @Test func duplicateCompositesAndElements() {
        let found = failures(
            ManagedObjectModel {
                Composite("C") {
                    Attribute("a", .string)
                    Attribute("a", .string)
                }
                Composite("C") { Attribute("a", .string).derived("b") }
            })
        #expect(
            found.map(\.message).sorted() == [
                "Composite “C” has several elements named “a”.",
                "Element “a” of composite “C” is derived, but elements cannot be.",
                "Several composites are named “C”.",
            ])
    }

    /// 2^60 empty composites in 60 lines: laid out, they would take for ever.
    @Test(.timeLimit(.minutes(1))) func compositesDoNotMultiplyWithoutBound() {
        let model = ManagedObjectModel {
            for number in 0..<60 {
                Composite("C\(number)") {
                    Attribute("a", composite: "C\(number + 1)")
                    Attribute("b", composite: "C\(number + 1)")
                }
            }
            Entity("A") { Attribute("x", composite: "C0") }
        }
        var complete = model
        complete.composites.append(CompositeDescription(name: "C60", elements: []))
        #expect(failures(complete).contains { $0.message.contains("at most 2000") })
    }

    @Test func compositesAreNotTooDeep() {
        var model = ManagedObjectModel()
        for number in 0..<50_000 {
            var element = AttributeDescription(name: "a", type: .composite)
            element.compositeName = "C\(number + 1)"
            model.composites.append(
                CompositeDescription(
                    name: "C\(number)", elements: number == 49_999 ? [] : [element]))
        }
        #expect(failures(model).contains { $0.message.contains("nested too deeply") })
    }

    // MARK: - Relationships

    private func pair(_ first: any RelationshipPart, _ second: any RelationshipPart)
        -> ManagedObjectModel
    {
        var model = ManagedObjectModel()
        for (name, part) in [("A", first), ("B", second)] {
            var entity = EntityDescription(name: name)
            entity.properties = [.relationship(part.description)]
            model.entities.append(entity)
        }
        return model
    }

    @Test func relationshipNeedsNoInverse() throws {
        try ManagedObjectModel {
            Entity("A") {
                ToOne("one", "A")
                ToMany("many", "A").ordered()
            }
        }.validate()
    }

    @Test func unknownDestination() {
        expect(
            "refers to entity “Z”, which does not exist", entity: "A", property: "z",
            in: ManagedObjectModel { Entity("A") { ToOne("z", "Z", inverse: "a") } })
    }

    @Test func missingInverse() {
        expect(
            "“B.a”, which does not exist", entity: "A", property: "b",
            in: pair(ToOne("b", "B", inverse: "a"), ToOne("c", "A")))
    }

    @Test func inverseIsARelationship() {
        expect(
            "which is not a relationship", entity: "A", property: "b",
            in: ManagedObjectModel {
                Entity("A") { ToOne("b", "B", inverse: "a") }
                Entity("B") { Attribute("a", .string) }
            })
    }

    @Test func inversePointsBack() {
        expect(
            "whose own inverse is missing", entity: "A", property: "b",
            in: pair(ToOne("b", "B", inverse: "a"), ToOne("a", "A")))
        expect(
            "whose own inverse is “Book.author”", entity: "Book", property: "editor",
            in: ManagedObjectModel {
                Entity("Book") {
                    ToOne("author", "Author", inverse: "books")
                    ToOne("editor", "Author", inverse: "books")
                }
                Entity("Author") { ToMany("books", "Book", inverse: "author") }
            })
    }

    @Test func inverseLeadsToTheEntity() {
        let found = failures(
            ManagedObjectModel {
                Entity("A") { ToOne("b", "B", inverse: "a") }
                Entity("B") { ToOne("a", "C", inverse: "b") }
                Entity("C") { ToOne("b", "B", inverse: "a") }
            })
        #expect(found.map(\.subject.entity) == ["A"])
        #expect(found.first?.message.contains("refers to “C” instead of “A”") == true)
    }

    @Test func inverseMayLeadToASubentity() throws {
        let layout = try ManagedObjectModel {
            Entity("A") { ToOne("b", "B", inverse: "a") }
            Entity("Sub", inherits: "A")
            Entity("B") { ToOne("a", "Sub", inverse: "b") }
        }.layout()
        let entity = try layout.requireEntity(named: "B")
        let relationship = try #require(entity.relationship(named: "a"))
        #expect(layout.inverse(of: relationship)?.name == "b")
    }

    /// As in seven models of a shipped app.
    @Test func toOneWhoseInverseIsTakenHasNoneInTheLayout() throws {
        let layout = try ManagedObjectModel {
            Entity("Image") {
                ToOne("artist", "Artist", inverse: "thumbnail")
                ToOne("thumbnail", "Artist", inverse: "thumbnail")
            }
            Entity("Artist") { ToOne("thumbnail", "Image", inverse: "thumbnail") }
        }.layout()
        let image = try layout.requireEntity(named: "Image")
        #expect(try #require(image.relationship(named: "artist")).inverseIndex == nil)
        let thumbnail = try #require(image.relationship(named: "thumbnail"))
        #expect(layout.inverse(of: thumbnail)?.name == "thumbnail")
    }

    @Test(arguments: [
        (ToMany("b", "B").count(atLeast: 3, atMost: 2), "minimum count of 3"),
        (ToMany("b", "B").count(atLeast: -1), "negative"),
    ])
    func counts(relationship: ToMany, text: String) {
        expect(
            text, entity: "A", property: "b", in: pair(relationship, ToOne("c", "A")))
    }

    /// Xcode leaves the mark when a relationship is made to-one.
    @Test func orderOfAToOneRelationshipHasNoMeaning() throws {
        var relationship = ToOne("b", "B")
        relationship.description.isOrdered = true
        let layout = try pair(relationship, ToOne("c", "A")).layout()
        #expect(layout.entity(named: "A")?.relationship(named: "b")?.isOrdered == false)
    }

    @Test func toOneIsNotSeveral() {
        var relationship = ToOne("b", "B")
        relationship.description.maximumCount = 2
        expect(
            "count above 1", entity: "A", property: "b", in: pair(relationship, ToOne("c", "A")))
    }

    @Test func makingARelationshipToManyLiftsTheBound() {
        var relationship = RelationshipDescription(name: "b", destination: "B")
        #expect(relationship.maximumCount == 1)
        relationship.isToMany = true
        #expect(relationship.maximumCount == 0)
        relationship.maximumCount = 5
        relationship.isToMany = true
        #expect(relationship.maximumCount == 5)
    }

    // MARK: - References

    @Test func constraintsAndIndexesNameKnownProperties() {
        let found = failures(
            ManagedObjectModel {
                Entity("A") {
                    Attribute("a", .string)
                    Attribute("t", .string).transient()
                    Attribute("p", composite: "P")
                    ToMany("many", "A")
                    Unique("a", "nothing")
                    Unique("many")
                    Unique("t")
                    Unique()
                    Unique("p.x")
                    Index("i", on: "a", "gone", "many", "p.x")
                    Index("i", on: "p.z")
                    Index("", on: .expression("entity"))
                    CompoundIndex("a", "lost")
                }
                Composite("P") { Attribute("x", .double) }
            })
        #expect(
            found.map(\.message) == [
                "A uniqueness constraint of entity “A” names “nothing”, which is not a stored attribute or to-one relationship of the entity.",
                "A uniqueness constraint of entity “A” names “many”, which is not a stored attribute or to-one relationship of the entity.",
                "A uniqueness constraint of entity “A” names “t”, which is not a stored attribute or to-one relationship of the entity.",
                "A uniqueness constraint of entity “A” is empty.",
                "A compound index of entity “A” names “lost”, which is not a stored property of the entity.",
                "Index “i” of entity “A” names “gone”, which is not a stored property of the entity.",
                "Index “i” of entity “A” is declared several times.",
                "Index “i” of entity “A” names “p.z”, which is not a stored property of the entity.",
                "Index “” of entity “A” has no name.",
            ])
    }

    @Test func indexElementIsPropertyOrExpression() {
        var entity = EntityDescription(name: "A")
        var element = FetchIndexDescription.Element(expression: "entity")
        element.expression = nil
        entity.indexes = [FetchIndexDescription(name: "i", elements: [element])]
        expect("specifies neither", entity: "A", in: ManagedObjectModel(entities: [entity]))
    }

    @Test func configurationsAndTemplatesNameKnownEntities() {
        let found = failures(
            ManagedObjectModel {
                Entity("A") { FetchedProperty("f", of: "X") }
                ModelConfiguration("C", entities: ["A", "Y"])
                ModelConfiguration("C", entities: [])
                FetchTemplate("t", of: "Z")
                FetchTemplate("t", of: "A", where: "")
                FetchTemplate("u", of: "A").offset(-1)
                FetchTemplate("v", of: "A").sorted(by: "").prefetching("a,b")
            })
        #expect(
            found.map(\.message) == [
                "The request of fetched property “A.f” refers to entity “X”, which does not exist.",
                "Configuration “C” names entity “Y”, which does not exist.",
                "Configuration “C” is declared several times.",
                "Fetch request template “t” refers to entity “Z”, which does not exist.",
                "Fetch request template “t” is declared several times.",
                "Fetch request template “t” has an empty predicate.",
                "Fetch request template “u” has a negative limit, offset or batch size.",
                "Fetch request template “v” sorts by or prefetches an empty key path, or one with a comma.",
            ])
    }

    @Test func everyContradictionIsFound() {
        let found = failures(
            ManagedObjectModel {
                Entity("A") {
                    Attribute("x", .undefined)
                    ToOne("y", "Z")
                }
                Entity("B", inherits: "Q") { Attribute("hash", .string) }
            })
        #expect(found.count == 4)
    }
}

import Testing

/// What the macros write.
@Suite struct ExpansionTests {
    @Test func attributesAreReadAndWrittenByOrdinal() {
        let expanded = ExpandedSource(
            """
            @Entity final class Book: ManagedObject {
                @Attribute(.unique) var isbn: String
                @Attribute(default: 0, maximum: 3000) var year: Int16
            }
            """)
        #expect(expanded.complaints.isEmpty)
        #expect(
            expanded.text == """
                final class Book: ManagedObject {
                    var isbn: String {
                        get {
                            attribute(PropertyOrdinals.isbn)
                        }
                        set {
                            setAttribute(PropertyOrdinals.isbn, newValue)
                        }
                    }
                    var year: Int16 {
                        get {
                            attribute(PropertyOrdinals.year, default: 0)
                        }
                        set {
                            setAttribute(PropertyOrdinals.year, newValue)
                        }
                    }

                    nonisolated override class var entityDeclaration: EntityDeclaration? {
                        EntityDeclaration(
                            "Book", of: Book.self, inheriting: ManagedObject.self,
                            properties: [
                                .attribute("isbn", String.self, isOptional: false, options: [.unique]),
                                .attribute("year", Int16.self, isOptional: false, default: 0, maximum: 3000),
                            ])
                    }

                    nonisolated enum PropertyOrdinals {
                        static var isbn: Int {
                            ManagedObject.PropertyOrdinals.propertyCount + 0
                        }
                        static var year: Int {
                            ManagedObject.PropertyOrdinals.propertyCount + 1
                        }
                        static var propertyCount: Int {
                            ManagedObject.PropertyOrdinals.propertyCount + 2
                        }
                    }
                }
                """)
    }

    @Test func relationshipsSayWhereTheyLead() {
        let text = ExpandedSource(
            """
            @Entity(name: "Volume", abstract: true) open class Book: Library.Item {
                @Relationship(.required, inverse: \\Author.books) var author: Author?
                @Relationship(minimumCount: 1, inverse: "books") var tags: Set<Tag>
                @Relationship(deleteRule: .cascade, key: "parts") var chapters: [Chapter]
            }
            """
        ).text
        for line in [
            "related(PropertyOrdinals.author)",
            "setRelated(PropertyOrdinals.tags, newValue)",
            "nonisolated open override class var entityDeclaration: EntityDeclaration? {",
            "\"Volume\", of: Book.self, inheriting: Library.Item.self, isAbstract: true,",
            ".toOne(\"author\", Author.self, inverse: \"books\", options: [.required])",
            ".toMany(\"tags\", Tag.self, inverse: \"books\", minimumCount: 1)",
            ".toMany(\"chapters\", key: \"parts\", Chapter.self, isOrdered: true, deleteRule: .cascade)",
            "nonisolated public enum PropertyOrdinals {",
            "@inlinable public static var tags: Int {",
            "Library.Item.PropertyOrdinals.propertyCount + 1",
        ] {
            #expect(text.contains(line), "\(text)")
        }
    }

    @Test func inverseMayNameAClassWithinANamespace() {
        let expanded = ExpandedSource(
            """
            @Entity final class Trip: ManagedObject {
                @Relationship(inverse: \\SchemaV1.Stay.trip) var stays: Set<Stay>
            }
            """)
        #expect(expanded.complaints.isEmpty)
        #expect(expanded.text.contains(".toMany(\"stays\", Stay.self, inverse: \"trip\")"))
    }

    @Test func compositesAreReadAndWrittenByElement() {
        let expanded = ExpandedSource(
            """
            @Composite(name: "Address2") public struct Address {
                public var street: String
                public var `case`: Int? = 3
                var kind: Kind = .house
                static let country = ""
                var line: String { street }
            }
            """)
        #expect(expanded.complaints.isEmpty)
        let conformance = """
            nonisolated extension Address: CompositeRepresentable {
                public static var compositeDeclaration: CompositeDeclaration {
                    CompositeDeclaration(
                        "Address2",
                        elements: [
                            .attribute("street", String.self, isOptional: false),
                            .attribute("case", Int.self, isOptional: true),
                            .attribute("kind", Kind.self, isOptional: false),
                        ])
                }

                public init(compositeElements elements: CompositeElements) {
                    street = elements.value("street")
                    `case` = elements.value("case")
                    kind = elements.value("kind", default: .house)
                }

                public var compositeElements: CompositeElements {
                    var elements = CompositeElements()
                    elements.set(street, for: "street")
                    elements.set(`case`, for: "case")
                    elements.set(kind, for: "kind")
                    return elements
                }
            }
            """
        #expect(expanded.text.contains(conformance), "\(expanded.text)")
    }

    @Test func namesInBackticksStayLegal() {
        let text = ExpandedSource(
            "@Entity class A: ManagedObject { @Attribute var `default`: Swift.Optional<Int> }"
        ).text
        #expect(text.contains("attribute(PropertyOrdinals.`default`)"))
        #expect(text.contains(".attribute(\"default\", Int.self, isOptional: true)"))
        #expect(text.contains("static var `default`: Int"))
    }

    @Test func propertiesThatAreNotMarkedAreLeftAlone() {
        let source = """
            class A: ManagedObject {
                var readings = 0
                var note: String?
                lazy var cache = [Int]()
                static var count: Int = 0
                var label: String { "" }
                let fixed = 1
            }
            """
        let expanded = ExpandedSource("@Entity " + source)
        #expect(expanded.complaints.isEmpty)
        #expect(expanded.text.contains("properties: [])"))
    }
}

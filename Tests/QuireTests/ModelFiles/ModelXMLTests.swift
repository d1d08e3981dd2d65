import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct ModelXMLTests {
    /// A model that uses everything the descriptions hold.
    static let everything: ManagedObjectModel = {
        var model = ManagedObjectModel(versionIdentifiers: ["1.0", "beta “2”"]) {
            Entity("Everything") {
                Attribute("int16", .integer16).default(-5).minimum(-10).maximum(10).scalar()
                    .renamed(from: "small").versionHashModifier("2")
                Attribute("int32", .integer32).default(0).indexed()
                Attribute("int64", .integer64).default(.integer(.max)).syncable(false)
                Attribute("decimal", .decimal).default(.decimal(Decimal(12345) / 1000)).minimum(
                    0.01)
                Attribute("double", .double).default(1e-300).maximum(0.1)
                Attribute("float", .float).default(0.1).minimum(.double(-.infinity))
                Attribute("string", .string).default("a\n\t\r <&\"'> ü 😀 ").length(
                    atLeast: 1, atMost: 60
                )
                .matching("^[^\\s<&]+|\"$").userInfo(["key": "value\n", "": "", "b": "<&>"])
                Attribute("empty", .string).default("")
                Attribute("boolean", .boolean).default(true)
                Attribute("no", .boolean).default(false)
                Attribute("date", .date).default(.date(Date(timeIntervalSinceReferenceDate: 0.1)))
                    .minimum(.date(Date(timeIntervalSinceReferenceDate: -978_307_200)))
                    .maximum(.date(.distantFuture))
                Attribute("binary", .binary).default(.binary(Data([0, 255]))).externalStorage()
                    .cloudEncryption().storedInTruthFile()
                Attribute("uuid", .uuid).default(
                    .uuid(UUID(uuidString: "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70") ?? UUID()))
                Attribute("uri", .uri).default(.uri(URL(fileURLWithPath: "/a b")))
                Attribute("transformable", .transformable).transformer("T", className: "C")
                    .preservedInHistoryOnDeletion().indexedBySpotlight()
                Attribute("untyped", .undefined).transient()
                Attribute("required", .string).required()
                Attribute("derived", .integer64).derived("many.@count")
                Attribute("place", composite: "Place")
                ToOne("one", "Everything", inverse: "many").required().deleteRule(.deny).indexed()
                    .indexedBySpotlight().versionHashModifier("m").renamed(from: "uno")
                ToMany("many", "Everything", inverse: "one").ordered().count(atLeast: 2, atMost: 5)
                    .deleteRule(.cascade).userInfo(["a": "b"])
                ToMany("other", "Sub").deleteRule(.noAction).transient().syncable(false)
                FetchedProperty("found", of: "Sub", where: "x == $FETCH_SOURCE.string && y < \"1\"")
                    .optional(false).limit(5).offset(3).batchSize(2).prefetching("many", "one.many")
                    .sorted(by: "x", ascending: false, options: [.caseInsensitive])
                    .sorted(by: "length(x)").includesSubentities(false)
                    .includesPropertyValues(false).includesPendingChanges(false)
                    .returnsObjectsAsFaults(false).returnsDistinctResults().resultType("2")
                    .userInfo(["c": "d"]).syncable(false)
                Index(
                    "byString", on: "string", .descending("int16"),
                    .expression("entity", type: "Integer 16")
                )
                .where("boolean == YES")
                Index("byPlace", on: "place.x", "place.y").rtree()
                CompoundIndex("int16", "int32")
                Unique("string", "int64")
                Unique("uuid")
            }
            .abstract().className("Module.Everything").renamed(from: "All").codeGeneration("class")
            .versionHashModifier("v").spotlightName("string").userInfo(["e": "f"]).syncable(false)
            Entity("Sub", inherits: "Everything") { Attribute("x", .string) }
            Composite("Place") {
                Attribute("x", .double).required().default(0)
                Attribute("y", .double)
                Attribute("inner", composite: "Inner")
            }
            Composite("Inner") { Attribute("z", .string) }
            ModelConfiguration("Cloud", entities: ["Sub", "Everything"]).usedWithCloudKit()
            ModelConfiguration("None", entities: [])
            FetchTemplate("all", of: "Everything")
            FetchTemplate("some", of: "Sub", where: "x BEGINSWITH[cd] $NAME").limit(3)
                .sorted(by: SortOrdering("x"), SortOrdering("string", ascending: false))
                .offset(1).prefetching("one")
        }
        model.usedWithCloudKit = true
        model.usedWithSwiftData = true
        return model
    }()

    @Test func everythingSurvivesWritingAndReading() throws {
        try Self.everything.validate()
        let data = Self.everything.modelXML()
        let read = try ManagedObjectModel(modelXML: data, name: "everything")
        #expect(read == Self.everything)
        for (left, right) in zip(read.entities, Self.everything.entities) {
            for (left, right) in zip(left.properties, right.properties) { #expect(left == right) }
        }
    }

    @Test func settingsOfRequestsThatAreNotUnderstoodStayInTheUserInfo() throws {
        let model = ManagedObjectModel {
            Entity("Book") { Attribute("title", .string) }
                .userInfo([
                    "quire.fetchRequest.sort.1.all": "upwards title",
                    "quire.fetchRequest.sort.2.all": "descending title",
                    "quire.fetchRequest.offset.all": "-1",
                    "quire.fetchRequest.offset.other": "1",
                ])
            FetchTemplate("all", of: "Book")
        }
        let read = try ManagedObjectModel(modelXML: model.modelXML(), name: "m")
        let remarks = read.remarks
        #expect(
            read.fetchRequestTemplates[0].sortOrderings
                == [SortOrdering("title", ascending: false)])
        #expect(
            read.entities[0].userInfo.keys.sorted() == [
                "quire.fetchRequest.offset.all", "quire.fetchRequest.offset.other",
                "quire.fetchRequest.sort.1.all",
            ])
        #expect(remarks.count == 2)
        #expect(remarks.allSatisfy { $0.contains("is not a setting of a fetch request") })
    }

    @Test func fixtureModelsSurvive() throws {
        for model in [FixtureModels.library, FixtureModels.everyType] {
            #expect(try ManagedObjectModel(modelXML: model.modelXML(), name: "m") == model)
        }
    }

    @Test func xmlIsLaidOutAsXcodeDoes() throws {
        let model = ManagedObjectModel {
            Entity("Book") {
                Attribute("title", .string).required()
                ToOne("author", "Author", inverse: "books")
                Unique("title")
            }
            Entity("Author") { ToMany("books", "Book", inverse: "author") }
        }
        #expect(
            String(decoding: model.modelXML(), as: UTF8.self) == """
                <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
                <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" lastSavedToolsVersion="22758" systemVersion="Linux" minimumToolsVersion="Automatic" sourceLanguage="Swift" userDefinedModelVersionIdentifier="">
                    <entity name="Book" syncable="YES">
                        <attribute name="title" attributeType="String" syncable="YES"/>
                        <relationship name="author" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Author" inverseName="books" inverseEntity="Author" syncable="YES"/>
                        <uniquenessConstraints>
                            <uniquenessConstraint>
                                <constraint value="title"/>
                            </uniquenessConstraint>
                        </uniquenessConstraints>
                    </entity>
                    <entity name="Author" syncable="YES">
                        <relationship name="books" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Book" inverseName="author" inverseEntity="Book" syncable="YES"/>
                    </entity>
                </model>

                """)
    }

    /// As by Xcode since version 10, and before.
    @Test func propertiesThatDoNotSaySoAreSynchronizedUnlessOthersSay() throws {
        func syncable(_ properties: String) throws -> [Bool] {
            let xml = """
                <model><entity name="A" syncable="YES">\(properties)</entity></model>
                """
            let model = try ManagedObjectModel(modelXML: Data(xml.utf8), name: "m")
            return model.entities[0].attributes.map(\.isSyncable)
        }
        let plain = #"<attribute name="a" attributeType="String"/>"#
        let marked = #"<attribute name="b" attributeType="String" syncable="YES"/>"#
        let excluded = #"<attribute name="b" attributeType="String" syncable="NO"/>"#
        #expect(try syncable(plain) == [true])
        #expect(try syncable(plain + marked) == [false, true])
        #expect(try syncable(plain + excluded) == [false, false])
    }

    @Test func thatNothingIsSynchronizedIsKept() throws {
        let model = ManagedObjectModel {
            Entity("A") { Attribute("a", .string).syncable(false) }
        }
        #expect(try ManagedObjectModel(modelXML: model.modelXML(), name: "m") == model)
    }

    @Test func characterThatXMLCannotHoldIsReplaced() throws {
        let model = ManagedObjectModel { Entity("A").userInfo(["k": "a\u{0}b\u{1}c\u{FFFF}"]) }
        let read = try ManagedObjectModel(modelXML: model.modelXML(), name: "m")
        #expect(read.entities[0].userInfo == ["k": "a\u{FFFD}b\u{FFFD}c\u{FFFD}"])
    }

    // MARK: - Odd but real

    private func read(_ content: String) throws -> ManagedObjectModel {
        try ManagedObjectModel(
            modelXML: Data("<model>\n\(content)\n</model>".utf8), name: "test.xcdatamodel/contents")
    }

    private func attribute(_ attributes: String) throws -> AttributeDescription {
        let model = try read("<entity name=\"A\"><attribute name=\"x\" \(attributes)/></entity>")
        return try #require(model.entities.first?.attributes.first)
    }

    @Test func absentOptionalMeansRequired() throws {
        #expect(try attribute("attributeType=\"String\"").isOptional == false)
        #expect(try attribute("attributeType=\"String\" optional=\"YES\"").isOptional)
        #expect(try attribute("attributeType=\"String\" optional=\"NO\"").isOptional == false)
    }

    @Test func dateIntervalsCountAndTheirTextsDoNot() throws {
        let date = try attribute(
            "attributeType=\"Date\" minDateTimeInterval=\"407847600\" minValueString=\"12/4/2013\" "
                + "defaultDateTimeInterval=\"380894400\" defaultValueString=\"1/26/13\"")
        #expect(date.minimum == .date(Date(timeIntervalSinceReferenceDate: 407_847_600)))
        #expect(date.defaultValue == .date(Date(timeIntervalSinceReferenceDate: 380_894_400)))
        let seconds = try attribute("attributeType=\"Date\" defaultValueString=\"60\"")
        #expect(seconds.defaultValue == .date(Date(timeIntervalSinceReferenceDate: 60)))
    }

    @Test func oddDefaultsAreUnderstood() throws {
        #expect(
            try attribute("attributeType=\"Integer 16\" defaultValueString=\"0.0\"").defaultValue
                == 0)
        #expect(
            try attribute("attributeType=\"Boolean\" defaultValueString=\"1\"").defaultValue == true
        )
        // What is left of a type that the attribute had before.
        for (text, truth) in [("0.0", false), ("1.0", true), ("2", true)] {
            #expect(
                try attribute("attributeType=\"Boolean\" defaultValueString=\"\(text)\"")
                    .defaultValue == .boolean(truth))
        }
        #expect(
            try attribute("attributeType=\"Double\" defaultValueString=\"\"").defaultValue == .null)
        #expect(
            try attribute("attributeType=\"String\" defaultValueString=\"\"").defaultValue == "")
        #expect(try attribute("attributeType=\"Boolean\" minValueString=\"0\"").minimum == .null)
        #expect(
            try attribute("attributeType=\"String\" minValueString=\"3\"").minimum == .integer(3))
    }

    @Test func toManyDecidesAndCountsFollow() throws {
        let model = try read(
            """
            <entity name="A">
            <relationship name="a" maxCount="-1" deletionRule="Nullify" destinationEntity="A"/>
            <relationship name="b" toMany="YES" maxCount="20" minCount="3" deletionRule="No Action" destinationEntity="A"/>
            <relationship name="c" toMany="YES" destinationEntity="A" inverseName=""/>
            </entity>
            """)
        let relationships = try #require(model.entities.first).relationships
        #expect(relationships.map(\.isToMany) == [false, true, true])
        #expect(relationships.map(\.maximumCount) == [1, 20, 0])
        #expect(relationships.map(\.minimumCount) == [0, 3, 0])
        #expect(relationships.map(\.deleteRule) == [.nullify, .noAction, .nullify])
        #expect(relationships[2].inverseName == nil)
    }

    @Test func editorsElementsAreIgnored() throws {
        let model = try read(
            "<!-- x --><entity name=\"A\"/><elements><element name=\"A\" positionX=\"1\"><what/></element></elements>"
        )
        #expect(model.entities.map(\.name) == ["A"])
    }

    @Test(arguments: ["UTF-16", "ISO-8859-1"]) func otherEncodingsAreRead(name: String) throws {
        let text =
            "<?xml version=\"1.0\" encoding=\"\(name)\"?><model><entity name=\"Bücher\"/></model>"
        let encoding: String.Encoding = name == "UTF-16" ? .utf16 : .isoLatin1
        let data = try #require(text.data(using: encoding))
        #expect(
            try ManagedObjectModel(modelXML: data, name: "m").entities.map(\.name) == ["Bücher"])
    }

    // MARK: - Errors

    @Test(arguments: [
        ("<entity name=\"A\">", "line 3: The text is not well-formed XML"),
        ("<entity/>", "lacks the attribute “name”"),
        (
            "<entity name=\"A\"><attribute attributeType=\"String\"/></entity>",
            "lacks the attribute “name”"
        ),
        (
            "<entity name=\"A\"><attribute name=\"x\" attributeType=\"Text\"/></entity>",
            "attributeType=“Text”"
        ),
        ("<entity name=\"A\"><relationship name=\"r\"/></entity>", "“A.r” has no destination"),
        ("&unknown;", "line 2"),
    ])
    func faultyModels(content: String, text: String) {
        let error = #expect(throws: QuireError.self) { try read(content) }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.hasPrefix("test.xcdatamodel/contents") == true)
        #expect(error?.message.contains(text) == true, "\(String(describing: error))")
        #expect(error?.subject.file == "test.xcdatamodel/contents")
        #expect(error?.subject.position != nil)
    }

    @Test(arguments: [
        "", "not XML", "<plist/>", "<model>", "<model></entity>", "<model/><model/>", "bplist00",
        "<model a=\"1\" a=\"2\"/>",
    ])
    func noModels(text: String) {
        let error = #expect(throws: QuireError.self) {
            try ManagedObjectModel(modelXML: Data(text.utf8), name: "m")
        }
        #expect(error?.code == .invalidFormat)
    }

    @Test func entitiesOfXMLAreRefused() throws {
        let folder = try TemporaryFolder()
        let secret = folder.path("secret")
        try Data("SECRET".utf8).write(to: URL(fileURLWithPath: secret))
        for text in [
            "<!DOCTYPE model [<!ENTITY x SYSTEM \"file://\(secret)\">]><model>&x;</model>",
            "<!DOCTYPE model [<!ENTITY a \"A\">]><model><entity name=\"&a;\"/></model>",
            "<!DOCTYPE model SYSTEM \"http://127.0.0.1:9/model.dtd\"><model/>",
            "<!DOCTYPE model [<!ENTITY a \"\(String(repeating: "x", count: 1_000))\">"
                + "<!ENTITY b \"\(String(repeating: "&a;", count: 1_000))\">"
                + "<!ENTITY c \"\(String(repeating: "&b;", count: 1_000))\">]><model name=\"&c;\"/>",
        ] {
            let error = #expect(throws: QuireError.self) {
                try ManagedObjectModel(modelXML: Data(text.utf8), name: "m")
            }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("SECRET") == false)
        }
    }

    @Test func nestingIsBounded() {
        let text =
            "<model><elements>" + String(repeating: "<e>", count: 100_000)
            + String(repeating: "</e>", count: 100_000) + "</elements></model>"
        let error = #expect(throws: QuireError.self) {
            try ManagedObjectModel(modelXML: Data(text.utf8), name: "m")
        }
        #expect(error?.message.contains("nested more than") == true)
    }

    /// Damages a model in many ways: it is read or refused, and never anything else.
    @Test func damagedModelsNeverTrap() {
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        let original = Array(Self.everything.modelXML())
        for _ in 0..<1_500 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let position = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[position] = UInt8.random(in: 0...255, using: &random)
                case 1:
                    let end = min(bytes.count, position + Int.random(in: 1...40, using: &random))
                    bytes.removeSubrange(position..<end)
                case 2:
                    let end = min(bytes.count, position + Int.random(in: 1...200, using: &random))
                    bytes.insert(contentsOf: Array(bytes[position..<end]), at: position)
                default: bytes.removeSubrange(position...)
                }
                if bytes.isEmpty { break }
            }
            if let model = try? ManagedObjectModel(modelXML: Data(bytes), name: "damaged") {
                _ = try? model.layout()
                _ = model.entityVersionHashes()
            }
        }
    }
}

import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// What `quire model generate` writes compiles and works.
@Suite struct GeneratedCodeTests {
    /// A model with everything that makes names and types difficult.
    static let difficult: ManagedObjectModel = {
        var everything = FixtureModels.everyType.entities[0]
        everything.properties += [
            FixtureModels.attribute("class", .string, optional: false) {
                $0.defaultValue = .string("a \"b\" \\ \n")
            },
            FixtureModels.attribute("date2", .date, optional: false) {
                $0.defaultValue = .date(Date(timeIntervalSinceReferenceDate: 0.5))
            },
            FixtureModels.attribute("uuid2", .uuid, optional: false) {
                $0.defaultValue = .uuid(UUID())
            },
            FixtureModels.attribute("uri2", .uri, optional: false) {
                $0.defaultValue = .uri(URL(fileURLWithPath: "/a b"))
            },
            FixtureModels.attribute("price", .decimal, optional: false) {
                $0.defaultValue = .decimal(Decimal(string: "-12.34") ?? 0)
                $0.minimum = .decimal(-100)
            },
            FixtureModels.attribute("ratio", .float, optional: false) {
                $0.defaultValue = .double(0.1)
            },
            FixtureModels.attribute("infinite", .double, optional: false) {
                $0.defaultValue = .double(-.infinity)
            },
            FixtureModels.attribute("blob", .binary, optional: false),
            FixtureModels.attribute("when", .date, optional: false),
            FixtureModels.attribute("who", .uuid, optional: false),
            FixtureModels.attribute("where", .uri, optional: false),
            FixtureModels.attribute("code", .string, optional: false) {
                $0.minimum = .integer(2)
                $0.maximum = .integer(4)
                $0.regularExpression = #"[A-Z]\d+"#
            },
            FixtureModels.attribute("anything", .undefined) { $0.isTransient = true },
            FixtureModels.attribute("identifier", .objectID) { $0.isTransient = true },
            FixtureModels.attribute("place", .composite) { $0.compositeName = "Place" },
            FixtureModels.attribute("count", .integer64) { $0.derivationExpression = "int64" },
            FixtureModels.attribute("Data", .string), FixtureModels.attribute("attribute", .string),
            FixtureModels.attribute("related", .string),
            FixtureModels.attribute("newValue", .string),
            FixtureModels.toOne("in", "Everything", "repeat"),
            FixtureModels.toMany("repeat", "Everything", "in"),
            FixtureModels.toOne("self", "Everything", "self"),
            FixtureModels.toOne("object", "Sub", nil), FixtureModels.toMany("objects", "Sub", nil),
            FixtureModels.toMany("add", "Sub", nil) { $0.isOrdered = true },
            .fetched(
                FetchedPropertyDescription(
                    name: "switch", fetchRequest: FetchRequestTemplate(name: "r", entityName: "Sub")
                )),
        ]
        var sub = EntityDescription(name: "Sub")
        sub.superentityName = "Everything"
        sub.managedObjectClassName = "Everything"
        sub.properties = [FixtureModels.attribute("description", .string)]
        var data = EntityDescription(name: "Data")
        data.isAbstract = true
        // Types that the library has in a model and in an object, where code might look first.
        let others = ["State", "Configuration", "Index", "Element"].map(EntityDescription.init)
        var model = ManagedObjectModel(
            entities: [everything, sub, data] + others + FixtureModels.library.entities)
        model.composites = [
            CompositeDescription(
                name: "Place",
                elements: [
                    AttributeDescription(name: "x", type: .double),
                    AttributeDescription(name: "y", type: .double),
                ])
        ]
        return model
    }()

    /// The templates that are tested with everything else.
    static let templates = ClassTemplate.builtIn.map(\.title)

    /// Writes the classes of a model.
    ///
    /// - Parameter template: A template's name or folder.
    private static func write(
        _ model: ManagedObjectModel, template: String, isPublic: Bool, to path: String
    ) throws {
        let files = try ClassGenerator(
            plan: ClassPlan(model, modelName: "Difficult"),
            template: ClassTemplate(named: template), isPublic: isPublic, origin: "Test"
        ).files(inOne: nil)
        for file in files {
            try Data(file.text.utf8).write(to: URL(fileURLWithPath: path + "/" + file.name))
        }
    }

    @Test(arguments: templates, [false, true])
    func difficultModelCompiles(template: String, isPublic: Bool) throws {
        let shell = try CommandShell()
        try Self.write(
            Self.difficult, template: template, isPublic: isPublic, to: shell.folder.path)
        let result = try shell.run("swiftc -typecheck \(SwiftCompiler.importing) *.swift")
        #expect(result.code == 0, "\(result.output)")
    }

    /// The template says more than those that are built in, with a file of its own.
    @Test func classesOfATemplateOfOnesOwnCompile() throws {
        let shell = try CommandShell()
        let exported = try shell.run("quire model templates --export . && mv macros Own")
        #expect(exported.code == 0, "\(exported.output)")
        let path = shell.path("Own/Entity.stencil")
        let text = try String(contentsOfFile: path, encoding: .utf8)
            .replacing("@Entity", with: "@MainActor @Entity")
        try Data((text + "\n{% include \"Titled.stencil\" %}\n").utf8)
            .write(to: URL(fileURLWithPath: path))
        let addition = """
            extension {{ entity.class }} {
                {{ access }}class func title() -> String { {{ entity.name|upperFirst|literal }} }
            }
            """
        try Data(addition.utf8)
            .write(to: URL(fileURLWithPath: shell.path("Own/Titled.stencil")))
        try Self.write(
            FixtureModels.everyType, template: shell.path("Own"), isPublic: false,
            to: shell.folder.path)
        let use = "@MainActor func title(_ one: Everything) -> String { type(of: one).title() }"
        try Data(use.utf8).write(to: URL(fileURLWithPath: shell.path("Use.swift")))
        let result = try shell.run("swiftc -typecheck \(SwiftCompiler.importing) *.swift")
        #expect(result.code == 0, "\(result.output)")
    }

    /// Classes of the library's model at work: values of every kind, both sides of relationships, inheritance.
    @Test(arguments: templates)
    func classesOfTheFixtureWork(template: String) throws {
        let shell = try CommandShell()
        try Self.write(
            FixtureModels.library, template: template, isPublic: false, to: shell.folder.path)
        var model = FixtureModels.library
        model.versionIdentifiers = ["1"]
        try model.write(to: shell.path("Library.xcdatamodel"))
        let opening = try #require(Self.openings[template])
        try Data((opening + Self.program).utf8)
            .write(to: URL(fileURLWithPath: shell.path("main.swift")))
        let linking = try SwiftCompiler.linking(in: shell.folder.path)
        let built = try shell.run(
            "swiftc \(SwiftCompiler.importing) *.swift \(linking) -o program"
        )
        #expect(built.code == 0, "\(built.output)")
        #expect(
            try shell.run("./program").lines == ["Emma 1815 Jane", "Jane 1 true", "[B, A]", "3"])
    }

    /// How a store is opened with the classes of a template.
    private static let openings = [
        "macros": #"""
        import Foundation
        import Quire

        var model = try ManagedObjectModel(contentsOf: "Library.xcdatamodel")
        // What the classes declare is what the model says.
        let declared = try ManagedObjectModel(classes: difficultClasses)
        precondition(declared.entityVersionHashes() == model.entityVersionHashes())
        try model.bind(classes: difficultClasses)

        """#,
        "accessors": #"""
        import Foundation
        import Quire

        var model = try ManagedObjectModel(contentsOf: "Library.xcdatamodel")
        model.bindDifficultClasses()

        """#,
    ]

    private static let program = #"""
        let container = try PersistentContainer(
            managedObjectModel: model,
            persistentStoreDescriptions: [PersistentStoreDescription(path: "store")])
        let context = container.viewContext
        let author = Author(context: context)
        author.name = "Jane"
        let book = Book(context: context)
        book.title = "Emma"
        book.year = 1815
        book.price = Decimal(9)
        book.author = author
        print(book.title, book.year ?? 0, book.author?.name ?? "")
        print(author.name, author.books.count, author.books.contains(book))
        let songs = ["A", "B"].map { title in
            let song = Song(context: context)
            song.title = title
            return song
        }
        let playlist = Playlist(context: context)
        playlist.songs = songs
        playlist.songs = songs.reversed()
        print("[" + playlist.songs.compactMap(\.title).joined(separator: ", ") + "]")
        let manager = Manager(context: context)
        manager.salary = 3
        manager.reports = [Person(context: context)]
        try context.save()
        print(Int((manager.reports.first?.manager?.salary ?? 0)))
        """#
}

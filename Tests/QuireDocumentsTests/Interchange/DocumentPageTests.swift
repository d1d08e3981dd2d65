import Crypto
import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite @MainActor struct DocumentPageTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    // MARK: - The text of a page

    /// What ends elements, begins comments, or is a character reference, if something is parsed as HTML.
    private static let hostile = """
        </script><script>alert(1)</script><!-- ]]> <img src=x onerror=alert(1)> &lt; " ' \\ \u{2028}\u{2029}\u{0}\r\n\u{202E}abc \u{1F600}
        """

    @Test func hostileTextsAreOnlyInJSON() async throws {
        let path = folder.path("<b>&amp;\u{201D}\u{22}<b>.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: FixtureModels.library)
        let context = document.managedObjectContext
        let author = try context.insertObject(entityName: "Author")
        author["name"] = Self.hostile
        try document.additionalContent.write(Data(count: 12), at: "a/<i>&.txt")
        try await document.close()
        let page = try Page(ofDocument: path, in: folder)
        let name = try #require(page.column("name", of: "Author"))
        #expect(page.rows("Author").map { $0[name] as? String } == [Self.hostile])
        #expect(page.html.contains("<title>&lt;b&gt;&amp;amp;\u{201D}&quot;&lt;b&gt;</title>"))
        #expect(page.model["title"] as? String == "<b>&amp;\u{201D}\u{22}<b>")
        let files = page.model["files"] as? [[String: Any]]
        #expect(files?.map { $0["path"] as? String } == ["a/<i>&.txt"])
        #expect(files?.map { $0["size"] as? Int } == [12])
        // One element of rows, the model and the script: no text has begun or ended another.
        #expect(page.html.ranges(of: "<script").count == 3)
        #expect(page.html.ranges(of: "</script").count == 3)
        for character in ["<!--", "<b>", "<img", "\u{2028}", "\u{2029}", "\u{0}", "\r"] {
            #expect(page.html.ranges(of: character).isEmpty, "\(character)")
        }
    }

    @Test func pageRefersToNothingOutside() async throws {
        try await ManagedDocument.make(at: folder.path("Notes.quire"))
        let page = try Page(ofDocument: folder.path("Notes.quire"), in: folder)
        for outside in ["http:", "https:", "url(", "@import", "src=\"", "file:"] {
            #expect(page.html.ranges(of: outside).isEmpty, "\(outside)")
        }
        let references = page.html.matches(of: /href="([^"]*)"/).map { String($0.1) }
        #expect(Set(references) == ["data:,", "#/", "#main"])
        for sink in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
            #expect(page.html.ranges(of: sink).isEmpty, "\(sink)")
        }
    }

    @Test func policyAllowsExactlyThisScriptAndThisStyle() async throws {
        try await ManagedDocument.make(at: folder.path("Notes.quire"))
        let html = try Page(ofDocument: folder.path("Notes.quire"), in: folder).html
        let script = try #require(html.firstMatch(of: /<script>((?s).*?)<\/script>/)?.1)
        let style = try #require(html.firstMatch(of: /<style>((?s).*?)<\/style>/)?.1)
        func source(_ text: Substring) -> String {
            "'sha256-\(Data(SHA256.hash(data: Data(text.utf8))).base64EncodedString())'"
        }
        let policy = html.firstMatch(of: /http-equiv="Content-Security-Policy" content="([^"]*)"/)
        let directives = policy?.1.split(separator: "; ").map(String.init)
        #expect(
            directives == [
                "default-src 'none'", "img-src data:", "style-src \(source(style))",
                "script-src \(source(script))", "base-uri 'none'", "form-action 'none'",
                "require-trusted-types-for 'script'", "trusted-types 'none'",
            ])
    }

    @Test func equalDocumentsGiveEqualPages() async throws {
        try await ManagedDocument.make(at: folder.path("Notes.quire"))
        let first = try Page(ofDocument: folder.path("Notes.quire"), in: folder)
        let second = try Page(ofDocument: folder.path("Notes.quire"), in: folder)
        #expect(first.html == second.html)
    }

    // MARK: - Objects

    @Test(arguments: [StoreType.sqlite, .xml, .binary, .inMemory])
    func relatedAndInheritedObjectsOfEveryStore(_ type: StoreType) throws {
        let store: any PersistentStore =
            switch type {
            case .xml: try XMLStore.create(at: folder.path("s"), model: FixtureModels.library)
            case .binary: try BinaryStore.create(at: folder.path("s"), model: FixtureModels.library)
            case .inMemory: try InMemoryStore(model: FixtureModels.library)
            default: try SQLiteStore.create(at: folder.path("s"), model: FixtureModels.library)
            }
        defer { try? store.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        func insert(_ entity: String, _ values: [String: String]) throws -> ManagedObject {
            let object = try context.insertObject(entityName: entity)
            for (key, value) in values { object[key] = value }
            return object
        }
        let shelf = try insert("Shelf", ["name": "top"])
        let books = try ["c", "a", "b"].map { try insert("Book", ["title": $0]) }
        for book in books { shelf.add(book, to: "books") }
        let manager = try insert("Manager", ["name": "Ann"])
        try insert("Person", ["name": "Bo"])["manager"] = manager
        try context.save()

        let page = try Page(of: store, in: folder)
        let title = try #require(page.column("title", of: "Book"))
        let titles = Dictionary(
            uniqueKeysWithValues: page.rows("Book").map { ("Book/\($0[0])", "\($0[title])") })
        let bookColumn = try #require(page.column("books", of: "Shelf"))
        let members = try #require(page.rows("Shelf").first?[bookColumn] as? [String])
        #expect(members.map { titles[$0] } == ["c", "a", "b"])
        let shelfColumn = try #require(page.column("shelf", of: "Book"))
        let shelfKey = try #require(page.rows("Shelf").first?[0])
        #expect(page.rows("Book").allSatisfy { $0[shelfColumn] as? String == "Shelf/\(shelfKey)" })
        // An object is in the rows of its own entity only.
        #expect(page.counts["Person"] == 1 && page.rows("Person").count == 1)
        #expect(page.counts["Employee"] == 0 && page.counts["Manager"] == 1)
        let managerKey = try #require(page.rows("Manager").first?[0])
        let managerColumn = try #require(page.column("manager", of: "Person"))
        #expect(page.rows("Person").first?[managerColumn] as? String == "Manager/\(managerKey)")
        #expect(page.entity("Manager")?["parent"] as? String == "Employee")
        // A table of people has managers too.
        #expect(page.column("manager", of: "Manager") == managerColumn)
        #expect(page.column("salary", of: "Manager") == page.column("salary", of: "Employee"))
    }

    @Test func valuesAreWrittenAsTheyAre() throws {
        let store = try InMemoryStore(model: FixtureModels.everyType)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        let object = try context.insertObject(entityName: "Everything")
        let values: [String: AttributeValue] = [
            "int16": -7, "int64": .integer(9_007_199_254_740_993),
            "decimal": .decimal(Decimal(string: "1234.50")!), "double": .double(-.infinity),
            "float": .double(Double(Float(0.1))), "boolean": true, "string": "",
            "date": .date(Date(timeIntervalSinceReferenceDate: 0.25)),
            "uuid": .uuid(UUID(uuidString: "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70")!),
            "uri": .uri(URL(string: "https://example.org/?a&b")!),
            "binary": .binary(Data(count: 5)), "transformable": .binary(Data(Self.png)),
        ]
        for (key, value) in values { try object.setAttributeValue(value, forKey: key) }
        try context.save()
        let page = try Page(of: store, in: folder)
        let row = try #require(page.rows("Everything").first)
        func value(_ name: String) -> Any? { page.column(name, of: "Everything").map { row[$0] } }
        #expect(value("int16") as? Int == -7)
        // JavaScript would read it as …992.
        #expect(value("int64") as? String == "9007199254740993")
        #expect(value("decimal") as? String == "1234.5")
        #expect(value("double") as? String == "-Infinity")
        #expect(page.html.contains(",0.1,"))
        #expect(value("boolean") as? Bool == true)
        #expect(value("string") as? String == "")
        #expect(value("date") as? String == "2001-01-01T00:00:00.25Z")
        #expect(value("uuid") as? String == "5B7E8A1C-9F0D-4C52-8E6B-3A1D2C4F6E70")
        #expect(value("uri") as? String == "https://example.org/?a&b")
        #expect(value("int32") is NSNull)
        #expect(value("binary") as? [String: Int] == ["bytes": 5])
        // Only binary attributes are looked at, and what is not stored has no column.
        #expect(value("transformable") as? [String: Int] == ["bytes": Self.png.count])
        #expect(page.column("note", of: "Everything") == nil)
    }

    @Test func pageIsAsOfOneCommit() throws {
        let store = try SQLiteStore.create(at: folder.path("s.sqlite"), model: notesModel)
        defer { try? store.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        func add(_ title: String) throws {
            try context.insertObject(entityName: "Note")["title"] = title
            try context.save()
        }
        try add("before")
        var page = DocumentPage(of: store, title: "s")
        page.files = { _ in
            try MainActor.assumeIsolated { try add("meanwhile") }
            return []
        }
        try page.write(to: folder.path("page.html"))
        let written = try Page(at: folder.path("page.html"))
        #expect(written.rows("Note").count == 1 && written.html.contains("before"))
        #expect(try store.count(matching: FetchSpecification("Note")) == 2)
    }

    // MARK: - Pictures

    private nonisolated static let png: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 1, 2, 3,
    ]

    @Test func picturesAreKnownByTheirFirstBytes() async throws {
        let cases: [([UInt8], type: String?)] = [
            (Self.png, "image/png"), ([0xFF, 0xD8, 0xFF, 0xE0], "image/jpeg"),
            (Array("GIF89a".utf8), "image/gif"), (Array("RIFF....WEBPVP8 ".utf8), "image/webp"),
            (Array("<svg onload=\"alert(1)\"/>".utf8), nil), (Array("RIFF....WAVE".utf8), nil),
            ([], nil),
        ]
        let path = folder.path("Notes.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        // In rows, and in files.
        let values = cases.flatMap { bytes, type in
            [0, 150_000].map { (Data(bytes) + Data(count: $0), type) }
        }
        for (index, value) in values.enumerated() {
            try document.addNote("\(index)", picture: value.0)
        }
        try await document.close()
        let page = try Page(ofDocument: path, in: folder)
        let title = try #require(page.column("title", of: "Note"))
        let picture = try #require(page.column("picture", of: "Note"))
        let rows = page.rows("Note")
        #expect(rows.count == values.count)
        for row in rows {
            let index = try #require((row[title] as? String).flatMap { Int($0) })
            let (data, type) = values[index]
            let value = try #require(row[picture] as? [String: Any])
            #expect(value["bytes"] as? Int == data.count && value["type"] as? String == type)
            let shown = (value["picture"] as? Int).flatMap { page.element(id: "picture-\($0)") }
            let decoded = shown.flatMap { Data(base64Encoded: String($0)) }
            #expect(decoded == (type == nil ? nil : data), "\(index)")
        }
    }

    @Test func picturesBeyondTheLimitsAreShownBySize() async throws {
        let path = folder.path("Notes.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        for size in [100, 60, 50, 40] {
            try document.addNote("\(size)", picture: Data(Self.png) + Data(count: size - 11))
        }
        try await document.close()
        let page = try Page(
            ofDocument: path, in: folder,
            pictures: PagePictures(maximumSize: 60, maximumTotalSize: 100))
        let (title, picture) = try (
            #require(page.column("title", of: "Note")), #require(page.column("picture", of: "Note"))
        )
        let shown = page.rows("Note").filter { ($0[picture] as? [String: Any])?["picture"] != nil }
        let sizes = shown.compactMap { ($0[title] as? String).flatMap { Int($0) } }
        // As many as there is room for, of those that are small enough.
        #expect(sizes.reduce(0, +) <= 100 && sizes.allSatisfy { $0 <= 60 })
        #expect(page.model["omittedPictures"] as? Int == 4 - shown.count && shown.count >= 1)
    }

    @Test func missingExternalDataIsUnreadableAndTheRestIsShown() async throws {
        let path = folder.path("Notes.quire")
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("lost", picture: Data(count: 300_000))
        try await document.close()
        let files = DocumentPackageLayout(path: path).externalData
        for name in try FileSystem.names(in: files) {
            try FileSystem.removeFile(FileSystem.path(files, name))
        }
        let page = try Page(ofDocument: path, in: folder)
        let row = try #require(page.rows("Note").first)
        let value = row[try #require(page.column("picture", of: "Note"))] as? [String: String]
        #expect(value?["unreadable"]?.isEmpty == false)
        #expect(row[try #require(page.column("title", of: "Note"))] as? String == "lost")
    }

    // MARK: - The file

    @Test func existingFileIsKeptUnlessReplaced() async throws {
        try await ManagedDocument.make(at: folder.path("Notes.quire"))
        let package = try DocumentPackage.open(at: folder.path("Notes.quire"), readOnly: true)
        defer { try? package.close() }
        let path = folder.path("page.html")
        try FileSystem.writeNewFile(Data("mine".utf8), at: path)
        let error = failure { try package.exportPage(to: path, removingProtection: true) }
        #expect(error?.code == .alreadyExists)
        #expect(try FileSystem.contents(of: path) == Data("mine".utf8))
        try package.exportPage(to: path, replacing: true, removingProtection: true)
        #expect(try FileSystem.contents(of: path).starts(with: Data("<!DOCTYPE html>".utf8)))
        let names = try FileSystem.names(in: folder.path).sorted()
        #expect(names == ["Notes.quire", "page.html"])
    }

    @Test func pathInsideADocumentIsRefused() async throws {
        let path = folder.path("Notes.quire")
        try await ManagedDocument.make(at: path)
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        let before = try contents(ofFolder: path)
        let error = failure {
            try package.exportPage(to: path + "/page.html", removingProtection: true)
        }
        #expect(error?.code == .invalidValue)
        #expect(try contents(ofFolder: path) == before)
    }

    @Test func storeIsNotReplacedByItsPage() throws {
        let path = folder.path("s.sqlite")
        let store = try SQLiteStore.create(at: path, model: notesModel)
        defer { try? store.close() }
        let before = try FileSystem.contents(of: path)
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("link"), withDestinationPath: path)
        for place in [path, folder.path("link")] {
            let error = failure {
                try DocumentPage(of: store, title: "s").write(to: place, replacing: true)
            }
            #expect(error?.code == .invalidValue)
        }
        #expect(try FileSystem.contents(of: path) == before)
    }

    @Test(arguments: [0, 700] as [Int64])
    func cancellingLeavesNothing(after count: Int64) throws {
        let store = try SQLiteStore.create(
            at: folder.path("s.sqlite"), model: FixtureModels.library)
        defer { try? store.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: store))
        for _ in 0..<1200 { _ = try context.insertObject(entityName: "Song") }
        try context.save()
        let names = try FileSystem.names(in: folder.path).sorted()
        let progress = CancellingProgress(after: count)
        let error = failure {
            try DocumentPage(of: store, title: "s").write(
                to: folder.path("page.html"), progress: progress)
        }
        #expect(error?.code == .cancelled && progress.completedUnitCount == count)
        #expect(progress.totalUnitCount == 1200)
        #expect(try FileSystem.names(in: folder.path).sorted() == names)
    }

    @Test func protectedDocumentIsExportedOnlyIfThatIsChosen() async throws {
        let fixture = try await ProtectedDocumentFixture(.complete)
        let package = try DocumentPackage.open(at: fixture.path, readOnly: true)
        defer { try? package.close() }
        let names = try fixture.names()
        let path = fixture.folder.path("page.html")
        let error = failure { try package.exportPage(to: path) }
        #expect(error?.code == .protectionUnavailable)
        #expect(try fixture.names() == names)
        try package.exportPage(to: path, removingProtection: true)
        let page = try Page(at: path)
        #expect(page.rows("Note").count == 1)
        #expect(page.html.contains(ProtectedDocumentFixture.canary + "title"))
    }

    // MARK: - A browser

    private nonisolated static let browser = ["chromium", "chromium-browser", "google-chrome"]
        .map { "/usr/bin/" + $0 }.first { FileManager.default.isExecutableFile(atPath: $0) }

    @Test(.needs(browser != nil, or: "chromium is not installed"))
    func browserShowsTextsAsTheyAre() async throws {
        let path = folder.path("Notes.quire")
        let title = "<img src=x> & </script>"
        try await ManagedDocument.make(at: path, titles: ["first", title])
        _ = try Page(ofDocument: path, in: folder)
        let outcome = try await ChildProcess.run(
            try #require(Self.browser),
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                "--user-data-dir=\(folder.path("profile"))", "--dump-dom",
                "file://\(folder.path("page.html"))#/Note?sort=title",
            ])
        let main = try #require(outcome.output.firstMatch(of: /<main(?s).*<\/main>/)?.output)
        #expect(main.contains("2 objects"))
        #expect(main.contains("<bdi>&lt;img src=x&gt; &amp; &lt;/script&gt;</bdi>"))
        #expect(main.contains("aria-sort=\"ascending\""))
        #expect(outcome.output.ranges(of: "<img").isEmpty)
    }
}

// MARK: - Reading pages

/// A page as its script reads it.
private struct Page {
    let html: String
    let model: [String: Any]

    init(
        ofDocument path: String, in folder: TemporaryFolder,
        pictures: PagePictures = PagePictures()
    ) throws {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        try package.exportPage(
            to: folder.path("page.html"), replacing: true, removingProtection: true,
            pictures: pictures)
        try self.init(at: folder.path("page.html"))
    }

    init(of store: any PersistentStore, in folder: TemporaryFolder) throws {
        try DocumentPage(of: store, title: "store").write(to: folder.path("page.html"))
        try self.init(at: folder.path("page.html"))
    }

    init(at path: String) throws {
        html = String(decoding: try FileSystem.contents(of: path), as: UTF8.self)
        let json = Self.element(of: html, with: "id=\"model\"")
        model = try #require(
            try JSONSerialization.jsonObject(with: Data((json ?? "").utf8)) as? [String: Any])
    }

    /// The text of a script element with an attribute.
    private static func element(of html: String, with attribute: String) -> Substring? {
        let elements = html.split(separator: "<script").dropFirst()
        let element = elements.first { $0.prefix { $0 != ">" }.contains(attribute) }
        return element?.drop { $0 != ">" }.dropFirst().prefix { $0 != "<" }
    }

    func element(id: String) -> Substring? { Self.element(of: html, with: "id=\"\(id)\"") }

    var entities: [[String: Any]] { model["entities"] as? [[String: Any]] ?? [] }

    func entity(_ name: String) -> [String: Any]? {
        entities.first { $0["name"] as? String == name }
    }

    var counts: [String: Int] {
        Dictionary(
            uniqueKeysWithValues: entities.map {
                ($0["name"] as? String ?? "", $0["count"] as? Int ?? -1)
            })
    }

    /// The position of a property's values.
    func column(_ name: String, of entity: String) -> Int? {
        let properties = self.entity(entity)?["properties"] as? [[String: Any]]
        return properties?.first { $0["name"] as? String == name }?["column"] as? Int
    }

    /// The rows of an entity, which are in one element if they are few.
    func rows(_ entity: String) -> [[Any]] {
        guard let json = Self.element(of: html, with: "data-entity=\"\(entity)\"") else {
            return []
        }
        return (try? JSONSerialization.jsonObject(with: Data(json.utf8))) as? [[Any]] ?? []
    }
}

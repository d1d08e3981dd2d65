import Foundation
import Quire
import QuireDocuments
import QuireMacros
import QuireRescue
import QuireStoreConformance
import Testing

// snippet: quire-macros-1
@Entity final class Painter: ManagedObject {
    @Attribute(.unique) var name: String
    @Relationship(deleteRule: .cascade, inverse: \Painting.painter) var paintings: [Painting]
}

@Entity final class Painting: ManagedObject {
    @Attribute(length: 1...) var title: String
    @Attribute var year: Int16 = 1800
    @Relationship var painter: Painter?
}
// end

/// The code of the first pages of the libraries.
@MainActor @Suite struct LandingPageTests {
    @Test func aContainerHasObjects() throws {
        // snippet: quire-1
        let model = ManagedObjectModel {
            Entity("Book") {
                Attribute("title", .string).required()
                Attribute("year", .integer16).default(0)
            }
        }
        let container = try PersistentContainer(
            managedObjectModel: model,
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        let book = try container.viewContext.insertObject(entityName: "Book")
        book["title"] = "Emma"
        try container.viewContext.save()
        print(try container.viewContext.count(for: FetchRequest("Book")))
        // end
        #expect(try container.viewContext.count(for: FetchRequest("Book")) == 1)
        try container.close()
    }

    @Test func fetchesAreTypedOrByKey() throws {
        let container = try PersistentContainer(
            managedObjectModel: ManagedObjectModel(classes: [Painter.self]),
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        let context = container.viewContext
        let turner = Painter(context: context)
        turner.name = "Turner"
        for year in [1844, 1842, 1839] as [Int16] {
            let painting = Painting(context: context)
            painting.title = "Of \(year)"
            painting.year = year
            painting.painter = turner
        }
        try context.save()
        // snippet: quire-2
        let late = try context.fetch(
            Painting.self, where: #Predicate { $0.year > 1840 && $0.painter?.name == "Turner" },
            sortBy: [SortDescriptor(\.year)])
        // end
        // snippet: quire-3
        var request = FetchRequest<ManagedObject>(entityName: "Painting")
        request.predicate = try QueryPredicate(
            format: "year > %d AND painter.name == %@", 1840, "Turner")
        request.sortOrderings = [SortOrdering("year")]
        let paintings = try context.fetch(request)
        // end
        #expect(late.map(\.year) == [1842, 1844])
        #expect(paintings.map { $0["year", as: Int.self] } == [1842, 1844])
        try container.close()
    }

    @Test func aDocumentIsOpenedAndClosed() async throws {
        try await withProgramFolder { folder in
            let model = ManagedObjectModel { Entity("Book") { Attribute("title", .string) } }
            // snippet: quire-documents-1
            let document = ManagedDocument(fileURL: folder.appendingPathComponent("Library.quire"))
            try await document.create(model: model)
            let book = try document.managedObjectContext.insertObject(entityName: "Book")
            book["title"] = "Emma"
            try document.additionalContent.write(Data("Highbury".utf8), at: "notes/places.txt")
            try await document.close()  // Saves the object and the file together.
            // end
            let package = try DocumentPackage.open(at: document.path, readOnly: true)
            #expect(try package.additionalContent().map(\.path) == ["notes/places.txt"])
            try package.close()
        }
    }

    @Test func paintingsKeepTheirOrder() throws {
        let container = try PersistentContainer(
            managedObjectModel: ManagedObjectModel(classes: [Painter.self]),
            persistentStoreDescriptions: [PersistentStoreDescription(type: .inMemory)])
        let context = container.viewContext
        // snippet: quire-macros-2
        let turner = Painter(context: context)
        turner.name = "J. M. W. Turner"
        for (title, year) in [("Snow Storm", 1842), ("Rain, Steam and Speed", 1844)] {
            let painting = Painting(context: context)
            painting.title = title
            painting.year = Int16(year)
            turner.paintings.append(painting)
        }
        try context.save()
        let late = try context.fetch(Painting.self, where: #Predicate { $0.year > 1843 })
        // end
        #expect(late.map(\.title) == ["Rain, Steam and Speed"])
        #expect(turner.paintings.map(\.year) == [1842, 1844])
    }

    @Test func aStoreIsCheckedAndRecovered() async throws {
        try await withProgramFolder { folder in
            let path = folder.appendingPathComponent("Library.sqlite").path
            let model = ManagedObjectModel { Entity("Book") { Attribute("title", .string) } }
            let container = try PersistentContainer(
                managedObjectModel: model,
                persistentStoreDescriptions: [PersistentStoreDescription(path: path)])
            try container.viewContext.insertObject(entityName: "Book")["title"] = "Emma"
            try container.viewContext.save()
            try container.close()
            let newPath = folder.appendingPathComponent("Recovered.sqlite").path
            // snippet: quire-rescue-1
            let store = try StoreFile(at: path).open()
            let report = try StoreCheck.run(on: store)
            for problem in report.problems { print(problem.message) }
            try store.close()
            if !report.isWhole {
                print(try StoreRepair.repair(path).actions)
            }
            let recovery = try StoreRecovery.recover(path, to: newPath)
            print(recovery.objects)
            // end
            #expect(report.isWhole)
            #expect(recovery.objects == ["Book": 1])
            #expect(recovery.isComplete)
        }
    }

    @Test func aStoreConforms() {
        // snippet: quire-store-conformance-1
        let conformance = StoreConformance(make: { model in
            try PersistentStoreCoordinator(managedObjectModel: model)
                .addPersistentStore(PersistentStoreDescription(type: .inMemory))
        })
        let report = conformance.run()
        for failure in report.failures { print(failure.name, failure.failures) }
        // end
        #expect(report.isConforming, "\(report)")
    }
}

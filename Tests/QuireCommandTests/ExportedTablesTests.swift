import Foundation
import Quire
import QuireDocuments
import QuireTestSupport
import Testing

@testable import QuireCommand

/// CSV files of exports, read by the reader of `quire import`.
@Suite(.inClear) @MainActor struct ExportedTablesTests {
    @Test func importReadsBackWhatWasExported() throws {
        let folder = try TemporaryFolder()
        let model = ManagedObjectModel {
            Entity("Note") {
                Attribute("text", .string)
                Attribute("starred", .boolean)
                Attribute("weight", .double)
                Attribute("price", .decimal)
                Attribute("date", .date)
            }
        }
        let types: [AttributeType] = [.string, .boolean, .double, .decimal, .date]
        let texts = [
            "a,b", "\"quoted\"", "two\r\nlines\n", " spaces ", "", "é \u{1F4DA}", "data/x.y",
        ]
        let rows: [[AttributeValue]] =
            texts.map { [.string($0), .null, .null, .null, .null] } + [
                [
                    .null, true, .double(-.infinity), .decimal(Decimal(string: "0.1")!),
                    .date(.distantPast),
                ],
                [
                    .null, false, 1e-7, .decimal(-3),
                    .date(Date(timeIntervalSinceReferenceDate: 0.5)),
                ],
            ]
        let package = try DocumentPackage.create(at: folder.path("N.quire"), model: model)
        defer { try? package.close() }
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        let names = ["text", "starred", "weight", "price", "date"]
        for row in rows {
            let note = try context.insertObject(entityName: "Note")
            for (name, value) in zip(names, row) { try note.setAttributeValue(value, forKey: name) }
        }
        try context.save()
        try package.exportTables(to: folder.path("out"), format: .csv)

        let file = folder.path("out/Note.csv")
        var reader = try CSVReader(ByteReader(FileSystem.contents(of: file)), file: file)
        #expect(try reader.next()?.fields.map(\.text) == ["id"] + names)
        var read: [[AttributeValue]] = []
        while let row = try reader.next() {
            read.append(
                try zip(row.fields.dropFirst(), types).map { field, type in
                    field.text.isEmpty && !field.isQuoted
                        ? .null : try AttributeValue(parsing: field.text, as: type)
                })
        }
        #expect(read == rows)
    }
}

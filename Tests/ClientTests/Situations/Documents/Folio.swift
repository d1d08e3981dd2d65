import Foundation
import Quire
import QuireDocuments

/// The document of these situations: sheets with a title, a scan in a file of its own, and notes.
final class Folio: ManagedDocument {
    static let model = ManagedObjectModel {
        Entity("Sheet") {
            Attribute("title", .string).required().length(atMost: 40)
            Attribute("code", .string)
            Attribute("scan", .binary).externalStorage()
            ToMany("notes", "Remark", inverse: "sheet").deleteRule(.cascade)
            Unique("code")
        }
        Entity("Remark") {
            Attribute("text", .string)
            ToOne("sheet", "Sheet", inverse: "notes")
        }
    }

    override var managedObjectModel: ManagedObjectModel? { Self.model }
    private(set) var errors: [QuireError] = []

    override func handleError(_ error: QuireError, userInteractionPermitted: Bool) {
        errors.append(error)
    }

    /// Creates a document that saves itself only when it is asked to.
    static func make(at url: URL, titles: [String] = []) async throws -> Folio {
        let document = Folio(fileURL: url)
        document.autosavePolicy = .never
        try await document.create()
        for title in titles { try document.addSheet(title) }
        if !titles.isEmpty { try await document.save() }
        return document
    }

    static func open(_ url: URL, readOnly: Bool = false) async throws -> Folio {
        let document = Folio(fileURL: url)
        document.autosavePolicy = .never
        try await document.open(readOnly: readOnly)
        return document
    }

    /// The titles that another reader finds on disk.
    static func savedTitles(at url: URL) async throws -> [String] {
        let document = try await open(url, readOnly: true)
        let titles = try document.titles
        try await document.close()
        return titles
    }

    @discardableResult
    func addSheet(_ title: String, scan: Data? = nil) throws -> ManagedObject {
        let sheet = try managedObjectContext.insertObject(entityName: "Sheet")
        sheet["title"] = title
        sheet["scan"] = scan
        return sheet
    }

    var sheets: [ManagedObject] {
        get throws { Array(try managedObjectContext.fetch(FetchRequest("Sheet"))) }
    }

    var titles: [String] {
        get throws { try sheets.compactMap { $0["title", as: String.self] }.sorted() }
    }

    func sheet(_ title: String) throws -> ManagedObject? {
        try sheets.first { $0["title", as: String.self] == title }
    }
}

/// The code of the error that a body throws; `nil` if it throws none.
@MainActor
func errorCode(_ body: @MainActor () async throws -> Void) async -> QuireError.Code? {
    do {
        try await body()
        return nil
    } catch {
        return (error as? QuireError)?.code ?? .init(rawValue: "not a QuireError")
    }
}

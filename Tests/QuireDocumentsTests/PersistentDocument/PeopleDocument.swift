import Foundation
import Quire

@testable import QuireDocuments

/// A model whose objects documents of all formats can hold.
private let peopleModel = ManagedObjectModel {
    Entity("Person") {
        Attribute("name", .string).required().length(atMost: 40)
        Attribute("age", .integer64)
        Attribute("photo", .binary).externalStorage()
        ToOne("team", "Team", inverse: "members").optional()
    }
    Entity("Team") {
        Attribute("name", .string).required()
        ToMany("members", "Person", inverse: "team")
    }
}

/// A document of people: a store, or, with the extension `people` or `json`, JSON of its own.
final class PeopleDocument: PersistentDocument {
    private struct Card: Codable {
        var name: String
        var age: Int64?
        var photo: Data?
        var team: String?
    }

    /// Called before a file in JSON is written; may fail the save.
    nonisolated let beforeWriting = Lock<(@Sendable (ManagedObjectContext, URL) throws -> Void)?>(
        nil)
    /// Whether the file is left unwritten.
    nonisolated let forgetsToWrite = Lock(false)
    private(set) var errors: [QuireError] = []

    override var managedObjectModel: ManagedObjectModel? { peopleModel }

    override nonisolated func readObjects(
        from url: URL, type: String, into context: ManagedObjectContext
    ) throws {
        var teams: [String: ManagedObject] = [:]
        for card in try JSONDecoder().decode([Card].self, from: Data(contentsOf: url)) {
            let person = try context.insertObject(entityName: "Person")
            person["name"] = card.name
            person["age"] = card.age
            person["photo"] = card.photo
            guard let name = card.team else { continue }
            if teams[name] == nil {
                teams[name] = try context.insertObject(entityName: "Team")
                teams[name]?["name"] = name
            }
            person["team"] = teams[name]
        }
    }

    override nonisolated func writeObjects(
        of context: ManagedObjectContext, to url: URL, type: String
    ) throws {
        try beforeWriting.withLock { $0 }?(context, url)
        if forgetsToWrite.withLock({ $0 }) { return }
        let cards = try context.fetch(FetchRequest("Person")).map { person in
            Card(
                name: person["name", as: String.self] ?? "", age: person["age", as: Int64.self],
                photo: person["photo", as: Data.self],
                team: person["team", as: ManagedObject.self]?["name", as: String.self])
        }
        try JSONEncoder().encode(cards.sorted { $0.name < $1.name }).write(to: url)
    }

    override func handleError(_ error: QuireError, userInteractionPermitted: Bool) {
        errors.append(error)
    }

    // MARK: - Contents

    @discardableResult
    func add(
        _ name: String, age: Int64? = nil, photo: Data? = nil, team: ManagedObject? = nil
    ) throws -> ManagedObject {
        let person = try managedObjectContext.insertObject(entityName: "Person")
        person["name"] = name
        person["age"] = age
        person["photo"] = photo
        person["team"] = team
        return person
    }

    func person(_ name: String) throws -> ManagedObject? {
        try managedObjectContext.fetch(FetchRequest("Person")).first {
            $0["name", as: String.self] == name
        }
    }

    /// Everything about the people, one line for each, sorted.
    func people() throws -> [String] {
        try managedObjectContext.fetch(FetchRequest("Person")).map { person in
            let team = person["team", as: ManagedObject.self]?["name", as: String.self]
            let photo = person["photo", as: Data.self]
            return [
                person["name", as: String.self], person["age", as: Int64.self].map(String.init),
                photo.map { "\($0.count) bytes of \($0.first ?? 0)" }, team.map { "in \($0)" },
            ].compactMap { $0 }.joined(separator: ", ")
        }
        .sorted()
    }

    /// The people in a file.
    static func people(at path: String) async throws -> [String] {
        let document = PeopleDocument(fileURL: URL(fileURLWithPath: path))
        try await document.open(readOnly: true)
        let people = try document.people()
        try await document.close()
        return people
    }
}

/// The formats of documents, by their extensions.
enum PeopleFormat: String, CaseIterable {
    case sqlite, xml, binary, people

    /// Whether the file is read and written as a whole.
    var isWhole: Bool { self != .sqlite }
}

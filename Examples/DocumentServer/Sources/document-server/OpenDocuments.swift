import Foundation
import Quire
import QuireDocuments

/// The documents of a folder. Each is opened on first use and stays open. At the limit, the one that was not used for the longest
/// time is closed; there are more only while all are in use.
@MainActor
final class OpenDocuments {
    let library: DocumentLibrary
    private let limit: Int
    private var places: [DocumentName: Place] = [:]
    private var useCount = 0

    typealias Opening = @MainActor (Checklist) async throws -> Checklist

    /// A document that is open or being opened.
    @MainActor
    private final class Place {
        let opening: Task<ServedDocument, any Error>
        var userCount = 0
        var lastUse = 0

        init(_ opening: Task<ServedDocument, any Error>) { self.opening = opening }
    }

    init(folder: String, limit: Int) {
        library = DocumentLibrary(folder: folder, extensions: ["checklist"])
        self.limit = limit
    }

    /// Runs a body with an open document.
    func use<Result: Sendable>(
        _ name: DocumentName, _ body: (ServedDocument) async throws -> Result
    ) async throws -> Result {
        let place = await takePlace(for: name) { document in
            try await document.open()
            return document
        }
        defer { place.userCount -= 1 }
        return try await body(document(in: place, name))
    }

    /// Creates a document, which is on the disk when this returns.
    ///
    /// - Parameter make: Makes the package of a document; throws if its path is taken. Returns the document, open.
    func create(_ name: DocumentName, _ make: @escaping Opening) async throws {
        var isMade = false
        let place = await takePlace(for: name) { document in
            let document = try await make(document)
            isMade = true
            return document
        }
        defer { place.userCount -= 1 }
        _ = try await document(in: place, name)
        if !isMade { throw QuireError(.alreadyExists, "“\(name.text)” already exists.") }
    }

    /// Moves a document to the trash. Requests that still use it fail.
    func delete(_ name: DocumentName) async throws {
        await close(name)
        try await library.trash(path(of: name), waiting: Checklist.wait)
    }

    /// Closes all documents. They are saved: every write was, before it was acknowledged.
    func closeAll() async {
        await withDiscardingTaskGroup { group in
            for name in places.keys { group.addTask { await self.close(name) } }
        }
    }

    // MARK: - Places

    private func path(of name: DocumentName) -> String {
        "\(library.folder)/\(name.text).checklist"
    }

    /// The place of a document, which is opened if it is not open. It counts one user more.
    private func takePlace(for name: DocumentName, _ open: @escaping Opening) async -> Place {
        while places[name] == nil, places.count >= limit, let oldest = leastRecentlyUsed {
            await close(oldest)
        }
        useCount += 1
        let place = places[name] ?? makePlace(for: name, open)
        (place.lastUse, place.userCount) = (useCount, place.userCount + 1)
        return place
    }

    private func makePlace(for name: DocumentName, _ open: @escaping Opening) -> Place {
        let document = Checklist(path: path(of: name))
        let place = Place(
            Task { ServedDocument(try await open(document)) })
        places[name] = place
        return place
    }

    /// The document in a place. If it is not open, as its package is missing or another program has deleted it, the place is given
    /// up: the next request tries again.
    private func document(in place: Place, _ name: DocumentName) async throws -> ServedDocument {
        let result = await place.opening.result
        let isOpen = (try? result.get())?.document.isOpen == true
        if !isOpen, places[name] === place { places[name] = nil }
        return try result.get()
    }

    private var leastRecentlyUsed: DocumentName? {
        places.filter { $0.value.userCount == 0 }.min { $0.value.lastUse < $1.value.lastUse }?.key
    }

    private func close(_ name: DocumentName) async {
        guard let document = try? await places.removeValue(forKey: name)?.opening.value.document
        else { return }
        // If it fails there is nothing to lose: what could not be saved was not acknowledged.
        do { try await document.close() } catch {
            try? await document.close(discardingChanges: true)
        }
    }
}

/// The name of a document in URLs, and of its package without the extension.
struct DocumentName: Hashable, Sendable {
    let text: String

    var url: String {
        "/documents/" + (text.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? text)
    }

    /// - Throws: `QuireError` with code `invalidValue` if it cannot be the name of a file, or would hide it.
    init(_ text: String) throws {
        // One name, whether a client sends “é” as one character or as two.
        self.text = text.precomposedStringWithCanonicalMapping
        let isControl = { (scalar: Unicode.Scalar) in scalar.value < 32 || scalar.value == 127 }
        if self.text.isEmpty || self.text.utf8.count > 200 || self.text.hasPrefix(".")
            || self.text.contains("/") || self.text.unicodeScalars.contains(where: isControl)
        {
            throw QuireError(
                .invalidValue,
                "A name has 1 to 200 bytes, no slash or control character, and no full stop at its start."
            )
        }
    }
}

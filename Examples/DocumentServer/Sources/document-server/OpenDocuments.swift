import Foundation
import Quire
import QuireDocuments

/// The documents of a folder. Each is opened on first use and stays open; beyond a limit, the one that was not used for the
/// longest time is closed.
@MainActor
final class OpenDocuments {
    let library: DocumentLibrary
    private let limit: Int
    private var places: [DocumentName: Place] = [:]
    private var useCount = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// A document from the beginning of its opening to the end of its closing.
    @MainActor
    private final class Place {
        let opening: Task<ServedDocument, any Error>
        /// The requests that use it. It is closed when there are none.
        var users = 0
        var lastUse = 0
        var isClosing = false

        init(_ open: @escaping @MainActor () async throws -> Checklist) {
            opening = Task { ServedDocument(try await open()) }
        }
    }

    init(folder: String, limit: Int) {
        library = DocumentLibrary(folder: folder, extensions: ["checklist"])
        self.limit = limit
    }

    func path(of name: DocumentName) -> String { "\(library.folder)/\(name.text).checklist" }

    // MARK: - Using

    /// Runs a body with an open document, which stays open meanwhile.
    func use<Result: Sendable>(
        _ name: DocumentName, _ body: (ServedDocument) async throws -> Result
    ) async throws -> Result {
        let path = path(of: name)
        let place = await takePlace(for: name) {
            let document = Checklist(path: path)
            try await document.open()
            return document
        }
        defer { leave(place) }
        return try await body(opened(place, of: name))
    }

    /// Creates a document. It is on the disk when this returns.
    ///
    /// - Parameter make: Makes the package at a path, and opens it; throws if there is anything.
    func create(
        _ name: DocumentName, _ make: @escaping @MainActor (_ path: String) async throws -> Checklist
    ) async throws {
        let path = path(of: name)
        var isMade = false
        let place = await takePlace(for: name) {
            let document = try await make(path)
            isMade = true
            return document
        }
        defer { leave(place) }
        _ = try await opened(place, of: name)
        if !isMade { throw QuireError(.alreadyExists, "“\(name.text)” already exists.") }
    }

    /// Closes a document when its requests have ended, and moves it to the trash.
    func delete(_ name: DocumentName) async throws {
        try await use(name) { _ in
            guard let place = places[name], !place.isClosing else {
                throw QuireError(.notFound, "“\(name.text)” is being deleted.")
            }
            place.isClosing = true
        }
        defer { forget(name) }
        if let place = places[name] { await close(place) }
        try await library.trash(path(of: name))
    }

    /// Closes all documents. They are saved: every write was, before it was acknowledged.
    func closeAll() async {
        await withTaskGroup { group in
            for (name, place) in places where !place.isClosing {
                place.isClosing = true
                group.addTask {
                    await self.close(place)
                    await self.forget(name)
                }
            }
        }
        while !places.isEmpty { await change() }
    }

    // MARK: - Places

    /// The place of a document, which is opened if it is not open. Balance it with ``leave(_:)``.
    private func takePlace(
        for name: DocumentName, _ open: @escaping @MainActor () async throws -> Checklist
    ) async -> Place {
        while true {
            if let place = places[name] {
                if !place.isClosing { return enter(place) }
                await change()
            } else if places.count < limit {
                let place = Place(open)
                places[name] = place
                return enter(place)
            } else if let (name, place) = leastRecentlyUsed {
                place.isClosing = true
                await close(place)
                forget(name)
            } else {
                await change()
            }
        }
    }

    private var leastRecentlyUsed: (DocumentName, Place)? {
        places.filter { $0.value.users == 0 && !$0.value.isClosing }
            .min { $0.value.lastUse < $1.value.lastUse }
            .map { ($0.key, $0.value) }
    }

    private func enter(_ place: Place) -> Place {
        useCount += 1
        place.lastUse = useCount
        place.users += 1
        return place
    }

    private func leave(_ place: Place) {
        place.users -= 1
        wakeWaiting()
    }

    /// Waits until the document of a place is open. A place without an open document is given up; the next request opens it anew.
    private func opened(_ place: Place, of name: DocumentName) async throws -> ServedDocument {
        func giveUp() { if places[name] === place { forget(name) } }
        do {
            let served = try await place.opening.value
            if served.document.isOpen { return served }
            giveUp()
            throw QuireError(.storeUnavailable, "“\(name.text)” was closed; try again.")
        } catch {
            giveUp()
            throw error
        }
    }

    /// Closes the document of a place that no request takes any more, when those that have it have ended.
    private func close(_ place: Place) async {
        while place.users > 0 { await change() }
        guard let document = try? await place.opening.value.document else { return }
        do { try await document.close() } catch {
            // There is nothing to lose: what could not be saved was not acknowledged.
            try? await document.close(discardingChanges: true)
        }
    }

    private func forget(_ name: DocumentName) {
        places[name] = nil
        wakeWaiting()
    }

    /// Waits until a request has ended or a document has been closed.
    private func change() async { await withCheckedContinuation { waiting.append($0) } }

    private func wakeWaiting() {
        for continuation in waiting { continuation.resume() }
        waiting = []
    }
}

// MARK: - Names

/// The name of a document in a URL, and of its package without the extension.
struct DocumentName: Hashable, Sendable {
    let text: String

    /// - Throws: ``QuireError`` with code `invalidValue` if the text cannot be the name of a file, or would be hidden.
    init(_ text: String) throws {
        // The same name, whether a client sends “é” as one character or as two.
        let text = text.precomposedStringWithCanonicalMapping
        let isControl = { (scalar: Unicode.Scalar) in scalar.properties.generalCategory == .control }
        guard !text.isEmpty, text.utf8.count <= 200, !text.hasPrefix("."), !text.contains("/"),
            !text.unicodeScalars.contains(where: isControl)
        else {
            throw QuireError(
                .invalidValue,
                "A document's name has 1 to 200 bytes, does not begin with a full stop, and has neither slashes nor control characters."
            )
        }
        self.text = text
    }
}

import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCrashWriter
@testable import QuireDocuments

/// What a lock file says beside the lock: who has it, if that can be true.
@Suite @MainActor struct LockTests {
    /// The sentence that somebody is told who opens a document while its lock file, which is locked, has a text.
    private func sentence(_ text: String) async throws -> String {
        let folder = try ScratchFolder()
        let document = ManagedDocument(path: folder.path("a.quire"))
        try await document.create(model: CrashContent.model)
        try await document.close()
        let file = try OpenFile.open(
            DocumentPackageLayout(path: document.path).lock, for: .updatingOrCreating)
        #expect(try file.lockExclusively())
        try file.write(Data(text.utf8))
        do {
            try await document.open()
            try await document.close()
            return "opened"
        } catch let error as QuireError {
            #expect(error.code == .locked)
            return error.message.replacingOccurrences(of: document.path, with: "PATH")
        }
    }

    @Test func ownerIsNamed() async throws {
        let owner = DocumentOwner.current(since: Date())
        let said = try await sentence(owner.text)
        #expect(
            said.hasPrefix(
                "“PATH” is open for writing by process \(ProcessInfo.processInfo.processIdentifier) ("
            )
        )
    }

    @Test func textOfAnEarlierOwnerNamesNobody() async throws {
        let nobody = "“PATH” is open for writing; close it there, or open it for reading only."
        var owner = DocumentOwner.current(since: Date())
        owner.processStart = 1
        #expect(try await sentence(owner.text) == nobody)
        owner = DocumentOwner.current(since: Date())
        owner.bootIdentifier = "an earlier one"
        #expect(try await sentence(owner.text) == nobody)
        #expect(try await sentence("") == nobody)
    }

    @Test func ownerOnAnotherMachineIsNamed() async throws {
        var owner = DocumentOwner.current(since: Date())
        owner.bootIdentifier = "another machine's"
        owner.hostName = "elsewhere"
        #expect(try await sentence(owner.text).contains("on elsewhere"))
    }
}

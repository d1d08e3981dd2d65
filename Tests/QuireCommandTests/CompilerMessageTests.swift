import Foundation
import Testing

/// Where a Core Data name, or an obvious one, is not the library's, the compiler says what is.
@Suite struct CompilerMessageTests {
    private static let guesses = [
        ("context.perform { context.reset() }", "container.newBackgroundContext()"),
        ("await context.perform { context.reset() }", "container.newBackgroundContext()"),
        ("context.performAndWait { context.reset() }", "container.newBackgroundContext()"),
        ("_ = ManagedObjectContext(concurrencyType: .mainQueue)", "container.viewContext"),
        ("_ = context.concurrencyType == .privateQueueConcurrencyType", "'privateQueue'"),
        ("_ = FetchSpecification(\"Book\").sortDescriptors", "'sortOrderings'"),
        ("try document.additionalContent.remove(\"a\")", "'remove(at:)'"),
        ("_ = document.additionalContent.files", "'paths'"),
        ("_ = document.additionalContent.list()", "'paths'"),
        ("document.autosavePolicy = AutosavePolicy(delay: 1)", "'.seconds(1)'"),
        ("document.autosavePolicy = .init(delay: 0.5)", "'.seconds(1)'"),
    ]

    @Test func unavailableNamesLeadToTheirReplacements() throws {
        let shell = try CommandShell()
        let functions = Self.guesses.enumerated().map { index, guess in
            "@MainActor func guess\(index)(context: ManagedObjectContext, "
                + "document: ManagedDocument) async throws { \(guess.0) }"
        }
        let text = "import Quire; import QuireDocuments\n" + functions.joined(separator: "\n")
        try Data(text.utf8).write(to: URL(fileURLWithPath: shell.path("Use.swift")))
        let result = try shell.run("swiftc -typecheck \(SwiftCompiler.importing) Use.swift 2>&1")
        let errors = result.output.split(separator: "\n").filter { $0.contains(": error: ") }
        for (index, guess) in Self.guesses.enumerated() {
            let messages = errors.filter { $0.contains("Use.swift:\(index + 2):") }
            #expect(messages.contains { $0.contains(guess.1) }, "\(guess.0): \(messages)")
        }
    }

    /// Names of classes that programs inherit from stay theirs.
    @Test func subclassesMayUseObviousNames() throws {
        let shell = try CommandShell()
        let text = """
            import Quire; import QuireDocuments
            class Sheet: ManagedDocument { var title = ""; var states: [Int] = []; var events = 0 }
            class Letter: Sheet { override var title: String { didSet { events += 1 } } }
            class Library: PersistentContainer { func backup(to url: String) {} }
            @MainActor func title(_ letter: Letter) -> String { letter.title }
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: shell.path("Use.swift")))
        let result = try shell.run("swiftc -typecheck \(SwiftCompiler.importing) Use.swift")
        #expect(result.code == 0, "\(result.output)")
    }
}

import ArgumentParser
import Quire

/// Something to do with an open document: on the command line, where the document is opened, saved and closed
/// around it, or as one line of a session.
protocol DocumentVerb: ParsableArguments {
    /// The word that calls it.
    static var name: String { get }
    /// The word that calls it on the command line, if it is another.
    static var commandName: String { get }
    /// What it does, in a line.
    static var abstract: String { get }
    /// More about it, with examples of the command line.
    static var discussion: String { get }
    /// Whether it only reads.
    static var access: DocumentSession.Access { get }

    /// Does it, without saving.
    ///
    /// - Returns: What to print once the changes are saved.
    /// - Throws: `QuireError`; then nothing in the document is changed.
    @MainActor func run(on document: DocumentSession) async throws -> Reply
}

extension DocumentVerb {
    static var commandName: String { name }
}

/// What a verb prints when all went well. It is made late, because saving gives new objects their identifiers.
struct Reply {
    let print: @MainActor (Output) throws -> Void
}

/// The arguments that every verb has which works on a document.
struct DocumentOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The model of a store that does not carry its own.", valueName: "M.xcdatamodeld"))
    var model: String?

    @Flag(help: "Print JSON.")
    var json = false
}

/// A verb on the command line: `quire VERB PATH …`.
struct OnDocument<Verb: DocumentVerb>: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: Verb.commandName, abstract: Verb.abstract, discussion: Verb.discussion)
    }

    @Argument(help: ArgumentHelp("A document or a store.", valueName: "PATH"))
    var path: String

    @OptionGroup var verb: Verb
    @OptionGroup var options: DocumentOptions
    @OptionGroup var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    mutating func run() async throws {
        let output = Output(json: options.json, tellsOfChange: Verb.access == .write)
        try unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: options.model, access: Verb.access, waiting: wait)
        if let note = document.modelNote { Output.report(note) }
        do {
            let reply = try await verb.run(on: document)
            if Verb.access == .write { try await document.save() }
            try reply.print(output)
            try output.flush()
            try document.unreadable.check()
        } catch {
            // The first failure is the one to tell about; what was not saved is dropped.
            try? await document.closeDiscardingChanges()
            throw error
        }
        try await document.close()
    }
}

/// A verb in a session: `VERB …`.
struct InSession<Verb: DocumentVerb>: ParsableCommand, SessionLine {
    static var configuration: CommandConfiguration {
        CommandConfiguration(commandName: Verb.name, abstract: Verb.abstract)
    }

    @OptionGroup var verb: Verb

    @Flag(help: "Print JSON.")
    var json = false

    @MainActor
    func run(in session: InteractiveSession) async throws {
        let reply = try await verb.run(on: session.document)
        session.document.endUserEvent()
        try session.answer(json: json, tellsOfChange: Verb.access == .write) {
            try reply.print($0)
        }
        try session.document.unreadable.check()
    }
}

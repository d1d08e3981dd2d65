import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// Something to do with an open document: on the command line, where the document is opened, saved and closed
/// around it, or as one line of a session.
protocol DocumentVerb: ParsableArguments {
    /// The word that calls it.
    static var name: String { get }
    /// The word that calls it on the command line, if it is another.
    static var commandName: String { get }
    /// Its description, in a line.
    static var abstract: String { get }
    /// More about it, with examples of the command line.
    static var discussion: String { get }
    /// The access that it needs; by default it only reads.
    static var access: DocumentSession.Access { get }
    /// The options for the form of its output: ``RowOptions`` if it prints rows.
    associatedtype Printing: PrintingOptions = JSONOption

    /// Does it, without saving.
    ///
    /// - Returns: What to print once the changes are saved.
    /// - Throws: `QuireError`; then nothing in the document is changed.
    @MainActor func run(on document: DocumentSession) async throws -> Reply
}

extension DocumentVerb {
    static var commandName: String { name }
    static var access: DocumentSession.Access { .read }
}

/// The output of a verb that succeeded. It is made late, because saving gives new objects their identifiers.
struct Reply {
    let print: @MainActor (Output) throws -> Void
}

/// The options of commands that open a document, perhaps with a model from elsewhere.
struct DocumentOptions: ParsableArguments, ResultPrinting {
    static let modelHelp = ArgumentHelp(
        "The model, if the store does not contain it; also another document or store that contains it.",
        valueName: "M.xcdatamodeld")

    @Option(help: modelHelp)
    var model: String?

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
}

/// A verb on the command line: `quire VERB PATH …`.
struct OnDocument<Verb: DocumentVerb>: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: Verb.commandName, abstract: Verb.abstract, discussion: Verb.discussion)
    }

    @Argument(
        help: ArgumentHelp(
            Verb.access == .read ? "A document, a store or an archive." : "A document or a store.",
            valueName: "PATH"))
    var path: String

    @OptionGroup var verb: Verb
    @Option(help: DocumentOptions.modelHelp)
    var model: String?

    @OptionGroup var printing: Verb.Printing
    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions
    @OptionGroup var wait: WaitOption

    @MainActor
    func run() async throws {
        try Defaults.read(besideDocument: path)
        try unlock.unlock(path)
        let document = try await DocumentSession.open(
            path, modelPath: model, access: Verb.access, waiting: wait, unlock: unlock)
        for note in [document.modelNote, document.unsavedChangesNote] {
            if let note { Output.report(note) }
        }
        try await document.closing {
            let reply = try await verb.run(on: document)
            if Verb.access == .write { try await document.save() }
            try printing.print(
                default: .table, compact: false, reportsChanges: Verb.access == .write
            ) { try reply.print($0) }
            try document.unreadable.check()
        }
    }
}

/// A verb in a session: `VERB …`.
struct InSession<Verb: DocumentVerb>: ParsableCommand, SessionLine {
    static var configuration: CommandConfiguration {
        CommandConfiguration(commandName: Verb.name, abstract: Verb.abstract)
    }

    @OptionGroup var verb: Verb

    @OptionGroup var printing: Verb.Printing

    @MainActor
    func run(in session: InteractiveSession) async throws {
        let reply = try await verb.run(on: session.document)
        session.document.endUserEvent()
        try printing.print(
            default: session.format, compact: true, reportsChanges: Verb.access == .write
        ) { try reply.print($0) }
        try session.document.unreadable.check()
    }
}

// MARK: - Waiting

/// The option that says how long to wait for others who have the document open for writing.
struct WaitOption: ParsableArguments {
    @Option(
        name: .customLong("wait"),
        help: ArgumentHelp(
            "How long to wait for another process that has it open for writing; 0 fails at once.",
            valueName: "SECONDS"))
    var seconds = 5.0

    func validate() throws {
        guard seconds >= 0, seconds <= 1e6 else {
            throw ValidationError("--wait requires a number of seconds from 0 to 1000000.")
        }
    }

    var timeout: Duration { .milliseconds(Int64(seconds * 1000)) }

    /// The wait for a package, reported on standard error.
    func lockWait(for path: String, isReported: Bool = true) -> LockWait {
        if !isReported { return LockWait(timeout: timeout) }
        return LockWait(timeout: timeout) { owner in
            report("“\(path)” is open for writing\(owner.phrase)")
        }
    }

    /// The wait for a bare store, reported on standard error.
    func fileLockWait(for path: String, isReported: Bool = true) -> FileLockWait {
        if !isReported { return FileLockWait(timeout: timeout) { _ in } }
        return FileLockWait(timeout: timeout) { holder in
            report("“\(path)” is locked\(holder?.phrase ?? " by another process")")
        }
    }

    private func report(_ sentence: String) {
        Output.report("\(sentence); waiting up to \(String(format: "%g", seconds)) s.")
    }
}

// MARK: - Paths

extension DocumentPackage {
    /// An error about the document, which names the archive that it was unpacked from instead of the folder.
    func naming(_ archive: String, in error: any Error) -> any Error {
        (error as? QuireError)?.naming(FileSystem.absolute(archive), insteadOf: layout.path)
            ?? error
    }
}

/// Examines the item at a path, without opening it.
enum DocumentPath {
    /// The kind of an item at a path.
    ///
    /// A file that begins like an archive is one; every other file is taken for a store, and opening it will
    /// tell.
    ///
    /// - Throws: `QuireError` with code `notFound`.
    static func kind(of path: String) throws -> DocumentSession.Kind {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw QuireError.notFound("document", at: path)
        }
        if isFolder.boolValue { return .package }
        return DocumentPackage.isArchive(path) ? .archive : .store
    }

    /// Throws unless there is a document package at a path.
    ///
    /// - Parameter advice: What is possible with packages only, or instead.
    static func requirePackage(_ path: String, _ advice: String) throws {
        switch try kind(of: path) {
        case .package: break
        case .archive: throw archiveError(path)
        case .store:
            throw QuireError(
                .unsupported, "“\(path)” is not a document package; \(advice).", file: path)
        }
    }

    /// The error of a command that does not take an archive.
    static func archiveError(_ path: String) -> QuireError {
        QuireError(
            .unsupported,
            "“\(path)” is an archive; extract it first: quire extract \(quoted(path)) DOCUMENT.quire",
            file: path)
    }

    /// A path as a shell takes it.
    private static func quoted(_ path: String) -> String {
        let isPlain = path.unicodeScalars.allSatisfy {
            $0.properties.isAlphabetic || "0123456789._-/+@%,:=".unicodeScalars.contains($0)
        }
        return isPlain ? path : "'" + path.replacing("'", with: "'\\''") + "'"
    }
}

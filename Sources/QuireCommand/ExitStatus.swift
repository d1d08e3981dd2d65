import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// The command's exit codes, which scripts rely on.
enum ExitStatus: Int32, CaseIterable {
    /// All went well.
    case success = 0
    /// It could not be done: no space, no permission, the document is open elsewhere, …
    case failed = 1
    /// The command line makes no sense.
    case usage = 2
    /// The document, entity, key or object that was named is not there.
    case notFound = 3
    /// A document, file, value or condition is not as it must be.
    case invalidData = 4
    /// Protected data are locked, or the given key does not unlock them.
    case locked = 5
    /// Another process has the document open for writing, or uses the store.
    case busy = 6

    /// Its meaning, in a list of exit codes.
    var meaning: String {
        switch self {
        case .success: "done"
        case .failed: "failed"
        case .usage: "usage error"
        case .notFound: "not found (document, entity, key, object)"
        case .invalidData:
            "invalid data (document, file, value, condition), or problems found"
        case .locked: "locked (protected, and the key is missing or wrong)"
        case .busy: "busy (open for writing in another process)"
        }
    }

    /// The exit code for an error of the library.
    init(_ code: QuireError.Code) {
        switch code {
        case .notFound, .unknownEntity, .unknownKey: self = .notFound
        case .invalidFormat, .invalidModel, .incompatibleModel, .invalidValue, .validation,
            .invalidQuery, .deleteDenied, .removalDenied, .constraintConflict,
            .untrustedSignature:
            self = .invalidData
        case .protectedDataUnavailable, .wrongKey: self = .locked
        case .locked: self = .busy
        default: self = .failed
        }
    }
}

/// An error as the command reports it: a sentence and an exit code.
struct Failure: Error {
    /// A sentence, without `quire:` before it.
    var sentence: String
    /// The exit code.
    var status: ExitStatus
    /// The code of the library's error.
    private var code: QuireError.Code?
    /// The subject of the library's error.
    private var subject = QuireError.Subject()

    /// The failure that an error means, or `nil` if it is a request for help, whose text is printed on
    /// standard output.
    init(_ error: any Error, of command: any ParsableArguments.Type) {
        switch error {
        case let failure as Failure: self = failure
        case let error as QuireError: self.init(error)
        default:
            let parserCode = command.exitCode(for: error)
            if parserCode == .validationFailure {
                self.init(usage: error, of: command)
            } else if type(of: error) == NSError.self || error is CocoaError || error is POSIXError
            {
                self.init(FileSystem.failure("use", nil, thrown: error))
            } else {
                self.init(sentence: command.message(for: error), status: .failed)
            }
        }
    }

    init(sentence: String, status: ExitStatus) {
        self.sentence = sentence
        self.status = status
    }

    /// A usage error.
    static func usage(_ sentence: String) -> Failure { Failure(sentence: sentence, status: .usage) }

    /// Invalid data.
    static func invalidData(_ sentence: String) -> Failure {
        Failure(sentence: sentence, status: .invalidData)
    }

    private init(_ error: QuireError) {
        self.init(sentence: error.message, status: ExitStatus(error.code))
        code = error.code
        subject = error.subject
        switch error.code {
        case .protectedDataUnavailable:
            sentence +=
                " Specify a key: --key-file FILE, --passphrase-fd N or --recovery-key-fd N."
        case .notFound:
            if let file = subject.file, sentence.hasSuffix("“\(file)” does not exist."),
                let advice = Corrections.missingFile(FileSystem.absolute(file))
            {
                sentence = "\(sentence.dropLast()); \(advice)"
            }
        case .validation where subject.rule == .required:
            // Not in an import, whose errors begin with the file.
            if let property = subject.property, let entity = subject.entity,
                sentence.hasPrefix("\(entity)/")
            {
                sentence += " Add \(property)=VALUE."
            }
        default: break
        }
        sentence = TypedPaths.restoring(sentence)
    }

    /// The command for more help, as one types it: in a session, whose command has no name, with `help` first.
    private static func hint(_ hint: String) -> String {
        guard hint.hasPrefix(" ") else { return hint }
        let words = hint.split(separator: " ").filter { $0 != "--help" && $0 != "help" }
        return (["help"] + words.filter { !$0.hasPrefix("<") }).joined(separator: " ")
    }

    /// A usage error: the parser's sentence, and where to read more.
    private init(usage error: any Error, of command: any ParsableArguments.Type) {
        var sentence = Self.joiningChoices(in: command.message(for: error))
        if sentence.isEmpty { sentence = "Specify a command" }
        if !".?!".contains(sentence.last ?? " ") { sentence += "." }
        let hint = command.fullMessage(for: error).split(separator: "\n")
            .compactMap { $0.firstMatch(of: /See '(?<help>.+)' for more information\./)?.help }
            .last
        if let hint {
            if let root = command as? any ParsableCommand.Type {
                let path = hint.split(separator: " ").map(String.init)
                sentence = Corrections.correctingUsage(sentence, of: path, after: root)
            }
            sentence += " See '\(Self.hint(String(hint)))'."
        }
        self.init(
            sentence: sentence.split(whereSeparator: \.isNewline).joined(separator: " "),
            status: .usage)
    }

    /// The parser's list of the values of an option, a line each, as a part of the sentence.
    private static func joiningChoices(in message: String) -> String {
        let lines = message.split(separator: "\n")
        let choices = lines.filter { $0.hasPrefix("  - ") }.map { String($0.dropFirst(4)) }
        guard let last = choices.last else { return message }
        let list = choices.dropLast().joined(separator: ", ") + " or \(last)"
        return lines.filter { !$0.hasPrefix("  - ") }.joined(separator: " ")
            .replacing(". Please provide one of the following:", with: "; specify \(list).")
    }
}

// MARK: - Reporting

extension Failure {
    /// Prints it on standard error: as a sentence, or on one line as JSON.
    func report(asJSON isJSON: Bool) {
        if sentence.isEmpty { return }
        guard isJSON else { return Output.report(sentence, .red, excerpt: excerpt) }
        Output.writeError(json.text() + "\n")
    }

    /// `{"error": {"code", "message", "file", "line", "column"}}`, without what is not known.
    var json: JSONValue {
        var members: [String: JSONValue] = [
            "code": .string(code?.rawValue ?? "\(status)"), "message": .string(sentence),
        ]
        if let file = subject.file { members["file"] = .string(TypedPaths.restored(file)) }
        if let position = subject.position {
            members[code == .invalidQuery ? "column" : "line"] = .integer(Int64(position))
        }
        return .object(["error": .object(members)])
    }

    /// Whether errors of a command line are JSON.
    static func isJSON(_ words: [String]) -> Bool {
        let options = words.prefix { $0 != "--" }
        return options.contains("--json") || options.contains("--jsonl")
    }

    /// The text that cannot be read, with a mark below the place.
    private var excerpt: [String] {
        guard code == .invalidQuery, let text = subject.value, let column = subject.position
        else { return [] }
        let characters = Array(text.unicodeScalars)
        // Elsewhere the mark would stand below another character.
        guard characters.count <= 100, column <= characters.count + 1,
            characters.allSatisfy({ (" "..."\u{2FF}").contains($0) }),
            characters.contains(where: { $0 != " " })
        else { return [] }
        return ["  " + text, String(repeating: " ", count: column + 1) + "^"]
    }
}

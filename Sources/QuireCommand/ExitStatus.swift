import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// The command's exit codes, which scripts rely on.
enum ExitStatus: Int32 {
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

    /// The exit code for an error of the library.
    init(_ code: QuireError.Code) {
        switch code {
        case .notFound, .unknownEntity, .unknownKey: self = .notFound
        case .invalidFormat, .invalidModel, .incompatibleModel, .invalidValue, .validation,
            .invalidQuery, .deleteDenied, .removalDenied, .constraintConflict,
            .untrustedSignature:
            self = .invalidData
        case .protectedDataUnavailable, .wrongKey: self = .locked
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

    private init(_ error: QuireError) {
        var sentence = error.message
        if error.code == .protectedDataUnavailable {
            sentence +=
                " Keys are given by --key-file FILE, --passphrase-fd N or --recovery-key-fd N."
        }
        self.init(sentence: sentence, status: ExitStatus(error.code))
    }

    /// The command for more help, as one types it: in a session, whose command has no name, with `help` first.
    private static func hint(_ hint: String) -> String {
        guard hint.hasPrefix(" ") else { return hint }
        let words = hint.split(separator: " ").filter { $0 != "--help" && $0 != "help" }
        return (["help"] + words.filter { !$0.hasPrefix("<") }).joined(separator: " ")
    }

    /// A usage error: the parser's sentence, and where to read more.
    private init(usage error: any Error, of command: any ParsableArguments.Type) {
        var sentence = command.message(for: error)
        if sentence.isEmpty { sentence = "Specify a command" }
        if !".?!".contains(sentence.last ?? " ") { sentence += "." }
        let hint = command.fullMessage(for: error).split(separator: "\n")
            .compactMap { $0.firstMatch(of: /See '(?<help>.+)' for more information\./)?.help }
            .last
        if let hint { sentence += " See '\(Self.hint(String(hint)))'." }
        self.init(
            sentence: sentence.split(whereSeparator: \.isNewline).joined(separator: " "),
            status: .usage)
    }
}

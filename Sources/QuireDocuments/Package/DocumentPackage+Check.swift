import Crypto
import Foundation
public import Quire

/// Something about a package that is not as it should be.
public struct DocumentProblem: Sendable, Hashable {
    /// How bad it is.
    public enum Severity: String, Sendable {
        /// Something of the document is lost or cannot be trusted.
        case error
        /// Nothing is lost; the next save, or opening it for writing, may put it right.
        case warning
    }

    /// How bad it is.
    public var severity: Severity
    /// The file or folder it is about.
    public var path: String
    /// One sentence that says what is wrong.
    public var message: String
}

extension DocumentPackage {
    /// Looks at everything in the package: the database, the files of external data, the additional content, the
    /// metadata, and what should not be there. Changes nothing.
    ///
    /// - Returns: The problems, errors first; empty if all is well.
    /// - Throws: What reading the store throws if it cannot be read at all.
    /// - Complexity: O(*n*) in the size of the package; all of it is read.
    public func check() throws -> [DocumentProblem] {
        var problems: [DocumentProblem] = []
        for problem in try store.integrityProblems() {
            problems.append(
                .init(
                    severity: .error, path: layout.store,
                    message: "The database of “\(layout.path)” is damaged: \(problem)."))
        }
        problems += try externalDataProblems()
        problems += try additionalContentProblems()
        problems += try strayFileProblems()
        return problems.filter { $0.severity == .error }
            + problems.filter { $0.severity == .warning }
    }
}

import Quire
import QuireDocuments

/// Checks a document: its store, and for a package what is around it.
@MainActor
struct DocumentCheck {
    let document: DocumentSession

    /// Checks everything.
    ///
    /// - Throws: What reading the store throws where it makes going on pointless.
    func run() throws -> StoreCheckReport {
        var report = try StoreCheck.run(on: document.store)
        for problem in try document.packageProblems() {
            let found = StoreProblem(
                kind: .package, object: nil, table: nil, message: problem.message,
                isRepairable: false)
            switch problem.severity {
            case .error: report.problems.append(found)
            case .warning: report.notes.append(found)
            }
        }
        return report
    }
}

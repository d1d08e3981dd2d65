import Quire
import QuireDocuments
internal import QuireRescue

/// Checks a document: its store, and for a package what is around it.
@MainActor
struct DocumentCheck {
    let document: DocumentSession

    /// Checks everything.
    ///
    /// - Throws: What reading the store throws where it makes going on pointless.
    func run() throws -> StoreCheckReport {
        var report = try StoreCheck.run(on: document.store)
        report.add(try document.packageProblems())
        return report
    }
}

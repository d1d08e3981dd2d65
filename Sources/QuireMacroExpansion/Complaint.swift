internal import SwiftDiagnostics
internal import SwiftSyntax
internal import SwiftSyntaxMacros

/// What a macro says about the source it was applied to.
struct Complaint: DiagnosticMessage {
    let message: String
    let diagnosticID: MessageID
    let severity = DiagnosticSeverity.error

    init(_ id: String, _ message: String) {
        self.message = message
        diagnosticID = MessageID(domain: "QuireMacros", id: id)
    }
}

/// What a fix-it offers.
private struct Remedy: FixItMessage {
    let message: String
    let fixItID: MessageID
}

extension MacroExpansionContext {
    /// Complains about a part of the source, and offers to replace parts of it.
    func complain(
        _ node: some SyntaxProtocol, _ complaint: Complaint, remedy: String? = nil,
        _ changes: [FixIt.Change] = []
    ) {
        let fixIts = remedy.map {
            [FixIt(message: Remedy(message: $0, fixItID: complaint.diagnosticID), changes: changes)]
        }
        diagnose(
            Diagnostic(node: Syntax(node), message: complaint, fixIts: fixIts ?? []))
    }
}

extension FixIt.Change {
    /// Replaces a node, and keeps what stands around it.
    static func replace(_ old: some SyntaxProtocol, by new: some SyntaxProtocol) -> Self {
        var new = Syntax(new)
        new.leadingTrivia = old.leadingTrivia
        new.trailingTrivia = old.trailingTrivia
        return .replace(oldNode: Syntax(old), newNode: new)
    }
}

internal import SwiftDiagnostics
internal import SwiftSyntax
internal import SwiftSyntaxMacros

/// An error in the source that a macro is applied to.
struct MacroDiagnostic: DiagnosticMessage {
    let message: String
    let diagnosticID: MessageID
    let severity = DiagnosticSeverity.error

    init(_ id: String, _ message: String) {
        self.message = message
        diagnosticID = MessageID(domain: "QuireMacros", id: id)
    }
}

/// The title of a fix-it.
private struct MacroFixIt: FixItMessage {
    let message: String
    let fixItID: MessageID
}

extension MacroExpansionContext {
    /// Emits a diagnostic for a node by its identifier and message, with a fix-it that replaces nodes.
    func diagnose(
        _ node: some SyntaxProtocol, _ id: String, _ message: String, fixIt: String? = nil,
        _ changes: [FixIt.Change] = []
    ) {
        diagnose(node, MacroDiagnostic(id, message), fixIt: fixIt, changes)
    }

    /// Emits a diagnostic for a node, with a fix-it that replaces nodes.
    func diagnose(
        _ node: some SyntaxProtocol, _ diagnostic: MacroDiagnostic, fixIt: String? = nil,
        _ changes: [FixIt.Change] = []
    ) {
        let fixIts = fixIt.map {
            [
                FixIt(
                    message: MacroFixIt(message: $0, fixItID: diagnostic.diagnosticID),
                    changes: changes)
            ]
        }
        diagnose(
            Diagnostic(node: Syntax(node), message: diagnostic, fixIts: fixIts ?? []))
    }
}

extension FixIt.Change {
    /// Replaces a node, and keeps its trivia.
    static func replace(_ old: some SyntaxProtocol, by new: some SyntaxProtocol) -> Self {
        var new = Syntax(new)
        new.leadingTrivia = old.leadingTrivia
        new.trailingTrivia = old.trailingTrivia
        return .replace(oldNode: Syntax(old), newNode: new)
    }
}

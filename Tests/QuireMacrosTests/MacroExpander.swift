import Foundation
import QuireMacroExpansion
import SwiftDiagnostics
import SwiftParser
import SwiftSyntax
import SwiftSyntaxMacroExpansion
import SwiftSyntaxMacros

/// A source as the macros leave it, and what they say about it.
struct ExpandedSource {
    let text: String
    /// What is wrong, in the order of the source.
    let complaints: [String]
    /// The source with all fix-its applied.
    let mended: String

    init(_ source: String) {
        let macros: [String: any Macro.Type] = [
            "Entity": EntityExpansion.self, "Attribute": AttributeExpansion.self,
            "Relationship": RelationshipExpansion.self,
            "FetchedProperty": FetchedPropertyExpansion.self, "Composite": CompositeExpansion.self,
        ]
        let file = Parser.parse(source: source)
        let context = BasicMacroExpansionContext(
            sourceFiles: [file: .init(moduleName: "Tests", fullFilePath: "Tests.swift")])
        let expanded = file.expand(macros: macros) { node in
            BasicMacroExpansionContext(
                sharingWith: context, lexicalContext: node.allMacroLexicalContexts())
        }
        text = expanded.description
        complaints = context.diagnostics.map(\.message)
        mended = context.diagnostics.flatMap(\.fixIts).flatMap(\.changes).reduce(source) {
            guard case .replace(let old, let new) = $1,
                let range = $0.range(of: old.description)
            else { return $0 }
            return $0.replacingCharacters(in: range, with: new.description)
        }
    }
}
